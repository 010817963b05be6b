/* policy/packages_npm.c: what a spec of npm and an .npmrc say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "policy/packages.h"

struct row {
	const char *text, *want;
};

static const struct row good[] = {
	{ "left-pad", "left-pad" },
	{ "  left-pad  ", "left-pad" },
	{ "left-pad@1.3.0", "left-pad@1.3.0" },
	{ "JSONStream@latest", "JSONStream@latest" },
	{ "a@>=1  <2", "a@>=1 <2" },
	{ "a@^1 || ~2.x", "a@^1 || ~2.x" },
	{ "a@1 - 2", "a@1 - 2" },
	{ "a@*", "a@*" },
	{ "@scope/name", "@scope/name" },
	{ "@scope/name@next", "@scope/name@next" },
	{ "lodash.merge@4.6.2-rc.1+build_x", "lodash.merge@4.6.2-rc.1+build_x" },
};

#define NO_SPEC "is no package spec of npm"
#define NO_PATH "is a path or a git repository, and packages come from a registry alone"
#define NO_URL "packages.list: one item is a URL, a git repository or a path, and packages come from a registry alone"

static const struct row bad[] = {
	{ "", "packages.list: a package spec must be a non-empty text" },
	{ "-g", "packages.list: \"-g\" is flag-style, and no flag reaches npm" },
	{ " --registry=http://evil.test",
	  "packages.list: \" --registry=http://evil.test\" is flag-style, and no flag reaches npm" },
	{ "a\nb", "packages.list: \"a?b\" has a newline or another control character" },
	{ "a@npm:b@1", "packages.list: \"a@npm:b@1\" is an alias" },
	{ "npm:b@1", NO_URL },
	{ "a@file:../a", NO_URL },
	{ "a@workspace:*", NO_URL },
	{ "a@git+ssh://git@e.test/a", NO_URL },
	{ "https://user:secret@e.test/a.tgz", NO_URL },
	{ "git@github.com:u/r.git", NO_URL },
	{ "c:/x", NO_URL },
	{ "user/repo", "packages.list: \"user/repo\" " NO_PATH },
	{ "./a", "packages.list: \"./a\" " NO_PATH },
	{ "..", "packages.list: \"..\" " NO_PATH },
	{ "/a", "packages.list: \"/a\" " NO_PATH },
	{ "~/a", "packages.list: \"~/a\" " NO_PATH },
	{ "a\\b", "packages.list: \"a\\b\" " NO_PATH },
	{ "a.tgz", "packages.list: \"a.tgz\" " NO_PATH },
	{ "a@b.tgz", "packages.list: \"a@b.tgz\" " NO_PATH },
	{ "a@b/c", "packages.list: \"a@b/c\" " NO_PATH },
	{ "@s/a@x.tar", "packages.list: \"@s/a@x.tar\" " NO_PATH },
	{ "@s/a@b/c", "packages.list: \"@s/a@b/c\" " NO_SPEC },
	{ "@s/a@..", "packages.list: \"@s/a@..\" " NO_SPEC },
	{ "@s", "packages.list: \"@s\" " NO_SPEC },
	{ "@/a", "packages.list: \"@/a\" " NO_SPEC },
	{ "@../a", "packages.list: \"@../a\" " NO_SPEC },
	{ "@s/../a", "packages.list: \"@s/../a\" " NO_SPEC },
	{ "@s/a/b", "packages.list: \"@s/a/b\" " NO_SPEC },
	{ "a@", "packages.list: \"a@\" " NO_SPEC },
	{ "a@-g", "packages.list: \"a@-g\" " NO_SPEC },
	{ "a@ 1", "packages.list: \"a@ 1\" " NO_SPEC },
	{ "a b", "packages.list: \"a b\" " NO_SPEC },
	{ "a>=1", "packages.list: \"a>=1\" " NO_SPEC },
	{ "_a", "packages.list: \"_a\" " NO_SPEC },
	{ "a$(x)", "packages.list: \"a$(x)\" " NO_SPEC },
	{ "a;b", "packages.list: \"a;b\" " NO_SPEC },
};

static void specs_of_npm_have_one_normal_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf once = BUF_INIT(4096), twice = BUF_INIT(4096);

		assert_int_equal(npm_spec(good[i].text, &once, &err), 0);
		assert_string_equal(buf_text(&once), good[i].want);
		assert_int_equal(npm_spec(buf_text(&once), &twice, &err), 0);
		assert_string_equal(buf_text(&once), buf_text(&twice));
		buf_free(&once);
		buf_free(&twice);
	}
}

static void what_npm_would_take_for_something_else_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf out = BUF_INIT(4096);

		assert_int_equal(npm_spec(bad[i].text, &out, &err), NSBOX_E_POLICY);
		assert_string_equal(err.message, bad[i].want);
		assert_int_equal(out.len, 0);
		assert_null(strstr(err.message, "secret"));
		buf_free(&out);
	}
}

static void names_longer_than_npm_has_are_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char text[216];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[214] = '\0';
	assert_int_equal(npm_spec(text, NULL, &err), 0);
	text[214] = 'a';
	text[215] = '\0';
	assert_int_equal(npm_spec(text, NULL, &err), NSBOX_E_POLICY);
}

static void a_policy_takes_specs_of_both_languages(void **state)
{
	static const char *const fine[] = { "six==1.16", "a; python_version < '3'",
					    "a; os_name == '@'", "left-pad@1", "@s/a" };
	static const char *const wrong[] = { "a @ https://e.test/x", "a@https://e.test/x", "-r x",
					     "a@npm:b", "@s", "a @ b" };
	struct nsbox_error err = NSBOX_ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		assert_int_equal(package_spec_any(fine[i], &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(package_spec_any(wrong[i], &err), NSBOX_E_POLICY);
}

/* ----------------------------------------------------------------------- .npmrc -- */

static int take(void *arg, const char *key, const char *value, bool is_more)
{
	buf_fmt(arg, "%s%s{%s}\n", key, is_more ? "+" : "", value);
	return 0;
}

static const struct row files[] = {
	{ "registry = https://e.test/ \r\n", "registry{https://e.test/}\n" },
	{ "a=1\n;b=2\n # c=3\n\nd\n", "a{1}\nd{true}\n" },
	{ "a = b ; why\nc = d # why\ne=f\\;g\\#h\\\\i\\j\n", "a{b}\nc{d}\ne{f;g#h\\i\\j}\n" },
	{ "a=\"x;y\\n\\\"z\\\"\"\nb='it;s'\n", "a{x;y\n\"z\"}\nb{it;s}\n" },
	{ "a=\"b\"c\"\nd=\"e\\\"\n", "a{\"b\"c\"}\nd{\"e\\\"}\n" },
	{ "ca[]=one\nca[]=\"two\"\n", "ca+{one}\nca+{two}\n" },
	{ "//e.test/:_authToken=${TOKEN}\n@s:registry=https://x.test\n",
	  "//e.test/:_authToken{${TOKEN}}\n@s:registry{https://x.test}\n" },
	{ "a=1\n[section]\nregistry=https://evil.test\n", "a{1}\n" },
	{ "a=b=c\n=x\n", "a{b=c}\n" },
	{ "a=\n", "a{}\n" },
};

static void an_npmrc_is_read_as_npm_reads_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct buf got = BUF_INIT(4096);

		assert_int_equal(npm_conf_read(files[i].text, strlen(files[i].text), take, &got), 0);
		assert_string_equal(buf_text(&got), files[i].want);
		buf_free(&got);
	}
}

static void an_npm_variable_names_the_same_key(void **state)
{
	static const struct row names[] = {
		{ "npm_config_registry", "registry" },
		{ "NPM_CONFIG_FETCH_RETRIES", "fetch-retries" },
		{ "npm_config__auth", "_auth" },
		{ "npm_config_//E.test/:_authToken", "//E.test/:_authToken" },
		{ "npm_config_@s:registry", "@s:registry" },
	};
	char key[NPM_KEY_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_true(npm_key(names[i].text, strlen(names[i].text), key));
		assert_string_equal(key, names[i].want);
	}
	assert_false(npm_key("npm_config_", 11, key));
	assert_false(npm_key("npm_confix_a", 12, key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_of_npm_have_one_normal_form),
		cmocka_unit_test(what_npm_would_take_for_something_else_is_refused),
		cmocka_unit_test(names_longer_than_npm_has_are_refused),
		cmocka_unit_test(a_policy_takes_specs_of_both_languages),
		cmocka_unit_test(an_npmrc_is_read_as_npm_reads_it),
		cmocka_unit_test(an_npm_variable_names_the_same_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
