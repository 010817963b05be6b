/* policy/packages_{spec,conf,netrc}.c: what a package spec, a pip.conf, an index URL and a .netrc say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strlist.h"
#include "policy/packages.h"

struct spec_row {
	const char *text, *normal;
};

static const struct spec_row good[] = {
	{ "six", "six" },
	{ "  NumPy  ", "numpy" },
	{ "Foo__Bar.-baz", "foo-bar-baz" },
	{ "six==1.16.0", "six==1.16.0" },
	{ "six == 1.16.0 , != 1.15", "six!=1.15,==1.16.0" },
	{ "six (>=1, <2)", "six<2,>=1" },
	{ "a===1.0-odd", "a===1.0-odd" },
	{ "a~=1.4.2", "a~=1.4.2" },
	{ "a==1.*", "a==1.*" },
	{ "a==1!2.0+local.1", "a==1!2.0+local.1" },
	{ "requests[ Socks , security]>=2", "requests[security,socks]>=2" },
	{ "a[]", "a" },
	{ "a>=1,>=1", "a>=1" },
	{ "a ; python_version<'3.12'", "a; python_version < '3.12'" },
	{ "a;(os_name=='nt' or sys_platform == \"linux\") and extra != 'x'",
	  "a; (os_name == 'nt' or sys_platform == \"linux\") and extra != 'x'" },
	{ "a; 'linux' in sys_platform", "a; 'linux' in sys_platform" },
	{ "a; 'x' not  in os_name", "a; 'x' not in os_name" },
	{ "3to2", "3to2" },
};

/* The texts of M61 and M62, and others that would reach pip as something else. */
static const struct spec_row bad[] = {
	{ "", "packages.list: a package spec must be a non-empty text" },
	{ " \t ", "packages.list: a package spec must be a non-empty text" },
	{ "-r x", "packages.list: \"-r x\" is flag-style, and no flag reaches pip" },
	{ "  --index-url=http://evil.test",
	  "packages.list: \"  --index-url=http://evil.test\" is flag-style, and no flag reaches pip" },
	{ "-e .", "packages.list: \"-e .\" is flag-style, and no flag reaches pip" },
	{ "a\n-r x", "packages.list: \"a?-r x\" has a newline or another control character" },
	{ "a\r", "packages.list: \"a?\" has a newline or another control character" },
	{ "a\x1b[2J", "packages.list: \"a?[2J\" has a newline or another control character" },
	{ "a; rm -rf", "packages.list: \"a; rm -rf\" is no package spec" },
	{ "a;", "packages.list: \"a;\" is no package spec" },
	{ "a && b", "packages.list: \"a && b\" is no package spec" },
	{ "a b", "packages.list: \"a b\" is no package spec" },
	{ "a,b", "packages.list: \"a,b\" is no package spec" },
	{ "a==", "packages.list: \"a==\" is no package spec" },
	{ "a=1", "packages.list: \"a=1\" is no package spec" },
	{ "a[b", "packages.list: \"a[b\" is no package spec" },
	{ "a(>=1", "packages.list: \"a(>=1\" is no package spec" },
	{ "$(id)", "packages.list: \"$(id)\" is no package spec" },
	{ "a; python_version < '3", "packages.list: \"a; python_version < '3\" is no package spec" },
	{ "a; shell == '1'", "packages.list: \"a; shell == '1'\" is no package spec" },
	{ "a; os_name inside 'x'", "packages.list: \"a; os_name inside 'x'\" is no package spec" },
	{ ".", "packages.list: \".\" is a path, and packages come from an index alone" },
	{ "./a", "packages.list: \"./a\" is a path, and packages come from an index alone" },
	{ "/etc", "packages.list: \"/etc\" is a path, and packages come from an index alone" },
	{ "a/b", "packages.list: \"a/b\" is a path, and packages come from an index alone" },
	{ "a-1.0-py3-none-any.whl",
	  "packages.list: \"a-1.0-py3-none-any.whl\" is a path, and packages come from an index alone" },
	{ "https://user:secret@evil.test/a.whl",
	  "packages.list: one item is a URL, and packages come from an index alone" },
	{ "pkg @ git+https://secret@evil.test/x",
	  "packages.list: one item is a URL, and packages come from an index alone" },
	{ "pkg@file:///x", "packages.list: one item is a URL, and packages come from an index alone" },
	{ "n\xc3\xa4me", NULL },
};

static void specs_of_pep_508_have_one_normal_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf once = BUF_INIT(4096), twice = BUF_INIT(4096);

		assert_int_equal(package_spec(good[i].text, &once, &err), 0);
		assert_string_equal(buf_text(&once), good[i].normal);
		assert_int_equal(package_spec(buf_text(&once), &twice, &err), 0);
		assert_string_equal(buf_text(&once), buf_text(&twice));
		buf_free(&once);
		buf_free(&twice);
	}
}

static void what_pip_would_take_for_something_else_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf out = BUF_INIT(4096);

		assert_int_equal(package_spec(bad[i].text, &out, &err), NSBOX_E_POLICY);
		if (bad[i].normal)
			assert_string_equal(err.message, bad[i].normal);
		assert_int_equal(out.len, 0);
		assert_null(strstr(err.message, "secret"));
		buf_free(&out);
	}
}

static void a_long_spec_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char text[PACKAGE_SPEC_MAX + 2];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[PACKAGE_SPEC_MAX] = '\0';
	assert_int_equal(package_spec(text, NULL, &err), 0);
	text[PACKAGE_SPEC_MAX] = 'a';
	text[PACKAGE_SPEC_MAX + 1] = '\0';
	assert_int_equal(package_spec(text, NULL, &err), NSBOX_E_POLICY);
}

/* --------------------------------------------------------------------- code -- */

static const struct {
	const char *text, *want, *message; /* want: joined by "|"; message: NULL when it is fine */
} sources[] = {
	{ "print(1)\n", "", NULL },
	{ "# /// script\n# dependencies = ['a', \"b<2\"]\n# ///\nprint(1)\n", "a|b<2", NULL },
	{ "#!/usr/bin/env python\r\n# /// script\r\n# dependencies = [ # why\r\n#   \"a\",\r\n#\r\n#   'b',\r\n# ]\r\n# ///",
	  "a|b", NULL },
	{ "# /// script\n# requires-python = \">=3.9, <4\"\n# other = { x = [1, '#'], y = 2 }\n# dependencies = [\"a\"]\n"
	  "# [tool.uv]\n# dependencies = ['no']\n# ///\n", "a", NULL },
	{ "# /// script\n# dependencies = ['a']\n", "", NULL },	/* never ends: no block */
	{ "# /// script\n# dependencies = ['a']\nx\n# ///\n", "", NULL },
	{ "# /// pyproject\n# dependencies = ['a']\n# ///\n", "", NULL },
	{ "# /// script\n# x = '''\n# dependencies = ['no']\n# '''\n# ///\n", "", NULL },
	{ "# /// script\n# requires-python = '==3.11.*'\n# ///\n", "", NULL },
	{ "# /// script\n# requires-python = '~=3.8'\n# ///\n", "", NULL },
	{ "# /// script\n# requires-python = '>=3.12'\n# ///\n", "",
	  "the code wants Python >=3.12, and this one is 3.11.7" },
	{ "# /// script\n# requires-python = '!=3.11.*'\n# ///\n", "",
	  "the code wants Python !=3.11.*, and this one is 3.11.7" },
	{ "# /// script\n# requires-python = 'new'\n# ///\n", "",
	  "the code's block \"# /// script\" has a requires-python that is not understood" },
	{ "# /// script\n# ///\nx\n# /// script\n# ///\n", "",
	  "the code's block \"# /// script\" is there twice" },
	{ "# /// script\n# dependencies = 'a'\n# ///\n", "",
	  "the code's block \"# /// script\" has dependencies that are no list" },
	{ "# /// script\n# dependencies = [1]\n# ///\n", "",
	  "the code's block \"# /// script\" has dependencies that are no list of texts" },
	{ "# /// script\n# dependencies = ['a',\n# ///\n", "",
	  "the code's block \"# /// script\" has dependencies that are no list of texts" },
	{ "# /// script\n# dependencies = ['-r x']\n# ///\n", "",
	  "the code's block \"# /// script\": \"-r x\" is flag-style, and no flag reaches pip" },
	{ "# /// script\n# what is this\n# ///\n", "",
	  "the code's block \"# /// script\" is no TOML" },
	{ "# /// script\n# a = [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n# ///\n", "",
	  "the code's block \"# /// script\" is no TOML" },
};

static void the_block_of_a_source_names_packages(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct strlist found = { 0 };
		struct buf text = BUF_INIT(4096);
		int r = package_inline(sources[i].text, strlen(sources[i].text), "3.11.7", &found, &err);

		assert_string_equal(err.message, sources[i].message ? sources[i].message : "");
		assert_int_equal(r, sources[i].message ? NSBOX_E_USAGE : 0);
		for (size_t k = 0; k < found.n; k++)
			buf_fmt(&text, "%s%s", k ? "|" : "", found.v[k]);
		if (r == 0)
			assert_string_equal(buf_text(&text), sources[i].want);
		strlist_free(&found);
		buf_free(&text);
	}
}

/* --------------------------------------------------------------------- files -- */

static int note(void *arg, const char *section, const char *key, const char *value)
{
	struct buf *b = arg;

	buf_fmt(b, "%s.%s=%s|", section, key, value);
	return 0;
}

static const struct spec_row files[] = {
	{ "[global]\nindex-url = https://a.test/simple\n", "global.index-url=https://a.test/simple|" },
	{ "[global]\r\nINDEX_URL: x\r\n[install]\r\nno-index=true\r\n",
	  "global.index-url=x|install.no-index=true|" },
	{ "[global]\nextra-index-url =\n  https://a\n  # not this\n\n  https://b\ncert=/c\n",
	  "global.extra-index-url=https://a\nhttps://b|global.cert=/c|" },
	{ "# a comment\n; another\n[install]\nfind-links = /w ; kept\n", "install.find-links=/w ; kept|" },
	{ "index-url = before any section\n[global]\nnothing\n", "" },
	{ "[global\nindex-url = x\n", "" },
	{ "", "" },
};

static void a_pip_conf_is_read_as_pip_reads_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct buf b = BUF_INIT(4096);

		assert_int_equal(pip_conf_read(files[i].text, strlen(files[i].text), note, &b), 0);
		assert_string_equal(buf_text(&b), files[i].normal);
		buf_free(&b);
	}
}

static void a_pip_variable_names_the_same_key(void **state)
{
	char key[64];

	(void)state;
	pip_key("PIP_EXTRA_INDEX_URL", key);
	assert_string_equal(key, "extra-index-url");
	pip_key("--No_Index", key);
	assert_string_equal(key, "no-index");
}

/* ---------------------------------------------------------------------- URLs -- */

static const struct {
	const char *text, *bare, *host, *user, *password, *path;
	uint16_t port;
} urls[] = {
	{ "https://pypi.org/simple", "https://pypi.org/simple", "pypi.org", NULL, NULL, "/simple", 443 },
	{ "HTTP://A.Test:8080/s/", "HTTP://A.Test:8080/s/", "a.test", NULL, NULL, "/s/", 8080 },
	{ "https://me:p%40ss@w@h.test/x", "https://h.test/x", "h.test", "me", "p@ss@w", "/x", 443 },
	{ "https://token@h.test", "https://h.test", "h.test", "token", "", "", 443 },
	{ "http://[::1]:3141/root", "http://[::1]:3141/root", "::1", NULL, NULL, "/root", 3141 },
	{ "file:///opt/my%20wheels", "file:///opt/my%20wheels", "", NULL, NULL, "/opt/my wheels", 0 },
	{ "file://localhost/w", "file://localhost/w", "", NULL, NULL, "/w", 0 },
};

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void an_index_url_is_taken_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		struct index_url u;

		assert_true(index_url_parse(&u, urls[i].text));
		assert_string_equal(u.bare, urls[i].bare);
		assert_string_equal(u.host, urls[i].host);
		assert_true(is_same(u.user, urls[i].user));
		assert_true(is_same(u.password, urls[i].password));
		assert_string_equal(u.path, urls[i].path);
		assert_int_equal(u.port, urls[i].port);
		index_url_free(&u);
	}
}

static void what_is_no_index_url_is_refused(void **state)
{
	static const char *const texts[] = {
		"", "pypi.org/simple", "ftp://a.test/", "https://", "https://:443/", "https://a.test:0/",
		"https://a.test:70000/", "https://a.test:x/", "https://[::1/", "https://[::1]x/",
		"https://a b/", "https://a\n/", "https://u%00:p@a.test/", "file://host/share", "file:",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct index_url u = { 0 };

		if (index_url_parse(&u, texts[i]))
			fail_msg("\"%s\" was taken", texts[i]);
	}
}

/* ---------------------------------------------------------------------- netrc -- */

static const struct {
	const char *text, *want; /* LOGIN:PASSWORD, NULL: none */
} netrcs[] = {
	{ "", NULL },
	{ "machine other.test login a password b\n", NULL },
	{ "machine e.test login a password b\n", "a:b" },
	{ "machine\te.test\r\n\tlogin a\r\n\tpassword b\r\n", "a:b" },
	{ "machine E.TEST password b login a account x", "a:b" },
	{ "machine e.test login \"a b\" password c\\\"d\n", "a b:c\"d" },
	{ "# machine e.test login x password y\nmachine e.test login a password #b\n", "a:#b" },
	{ "machine e.test login a # why\n password b\n", "a:b" },
	{ "machine e.test login a password b\nmachine e.test login c password d\n", "c:d" },
	{ "default login a password b\n", "a:b" },
	{ "machine e.test login a password b\ndefault login c password d\n", "a:b" },
	{ "macdef init\nmachine e.test login x password y\n\nmachine e.test login a password b\n", "a:b" },
	{ "machine e.test\nmachine o.test login a password b\n", NULL },
	{ "machine", NULL },
	{ "machine e.test login", NULL },
};

static void a_netrc_has_the_login_of_a_host(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(netrcs); i++) {
		struct buf login = BUF_INIT(4096), password = BUF_INIT(4096);
		bool found = netrc_find(netrcs[i].text, strlen(netrcs[i].text), "e.test", &login, &password);

		assert_int_equal(found, netrcs[i].want != NULL);
		if (found) {
			buf_fmt(&login, ":%s", buf_text(&password));
			assert_string_equal(buf_text(&login), netrcs[i].want);
		}
		buf_free(&login);
		buf_free(&password);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_of_pep_508_have_one_normal_form),
		cmocka_unit_test(what_pip_would_take_for_something_else_is_refused),
		cmocka_unit_test(a_long_spec_is_refused),
		cmocka_unit_test(the_block_of_a_source_names_packages),
		cmocka_unit_test(a_pip_conf_is_read_as_pip_reads_it),
		cmocka_unit_test(a_pip_variable_names_the_same_key),
		cmocka_unit_test(an_index_url_is_taken_apart),
		cmocka_unit_test(what_is_no_index_url_is_refused),
		cmocka_unit_test(a_netrc_has_the_login_of_a_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
