/* environ.c: who wins, what is not inherited, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "runtime/environ.h"

#define LIST(...) ((struct strlist){ \
	.v = (char **)(const char *const[]){ __VA_ARGS__, NULL }, \
	.n = ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })) })
#define ENV(...) (const char *const[]){ __VA_ARGS__, NULL }

static const char *get(const struct strlist *l, const char *name)
{
	size_t n = strlen(name), found = 0;
	const char *value = NULL;

	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], name, n) == 0 && l->v[i][n] == '=') {
			value = l->v[i] + n + 1;
			found++;
		}
	assert_true(found <= 1);
	return value;
}

static struct strlist build(const struct policy *p, const char *const *caller)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct strlist l = { 0 };

	if (environ_build(&l, p, caller, "/usr/bin:/bin", &err) < 0)
		fail_msg("%s", err.message);
	return l;
}

static void refused(const struct policy *p, const char *const *caller,
		    const char *part)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct strlist l = { 0 };

	assert_int_equal(environ_build(&l, p, caller, "/bin", &err),
			 NSBOX_E_POLICY);
	if (!strstr(err.message, part))
		fail_msg("'%s' is not in '%s'", part, err.message);
	assert_null(strstr(err.message, "hunter2"));
	assert_null(l.v);
}

static void nothing_of_the_caller_gets_in_unasked(void **state)
{
	const struct policy p = { 0 };
	struct strlist l = build(&p, ENV("HOME=/home/me", "PATH=/evil",
					 "LD_PRELOAD=/x.so", "EDITOR=vi",
					 "COLOR=red", "LANG=de_DE"));

	(void)state;
	assert_string_equal(get(&l, "PATH"), "/usr/bin:/bin");
	assert_string_equal(get(&l, "HOME"), "/workspace");
	assert_string_equal(get(&l, "TMPDIR"), "/tmp");
	assert_string_equal(get(&l, "LANG"), "C.UTF-8");
	assert_string_equal(get(&l, "MPLBACKEND"), "Agg");
	assert_string_equal(get(&l, "PYTHONUNBUFFERED"), "1");
	assert_string_equal(get(&l, "TERM"), "dumb");
	assert_null(get(&l, "TZ"));
	assert_null(get(&l, "LD_PRELOAD"));
	assert_null(get(&l, "EDITOR"));
	assert_null(get(&l, "COLOR"));
	strlist_free(&l);
	l = build(&p, NULL);
	assert_string_equal(get(&l, "HOME"), "/workspace");
	strlist_free(&l);
}

static void time_zone_and_terminal_are_taken_as_found_if_plain(void **state)
{
	const struct policy p = { 0 };
	struct strlist l = build(&p, ENV("TZ=Europe/Zurich", "TERM=xterm-256color"));

	(void)state;
	assert_string_equal(get(&l, "TZ"), "Europe/Zurich");
	assert_string_equal(get(&l, "TERM"), "xterm-256color");
	strlist_free(&l);
	l = build(&p, ENV("TZ=a b", "TERM=\033]0;x\a"));
	assert_null(get(&l, "TZ"));
	assert_string_equal(get(&l, "TERM"), "dumb");
	strlist_free(&l);
}

static void set_beats_pass_beats_inherit_beats_base(void **state)
{
	const char *const *caller = ENV("LANG=de_DE.UTF-8", "A=caller", "B=caller",
					"C=caller");
	struct policy p = { .env = {
		.inherit = true, .pass = LIST("B", "C", "HOME"),
		.set = LIST("C=set", "C=last", "D=") } };
	struct strlist l = build(&p, caller);

	(void)state;
	assert_string_equal(get(&l, "LANG"), "de_DE.UTF-8");
	assert_string_equal(get(&l, "A"), "caller");
	assert_string_equal(get(&l, "B"), "caller");
	assert_string_equal(get(&l, "C"), "last");
	assert_string_equal(get(&l, "D"), "");
	assert_string_equal(get(&l, "HOME"), "/workspace"); /* caller has none */
	strlist_free(&l);
	p.env.inherit = false;
	l = build(&p, caller);
	assert_null(get(&l, "A"));
	assert_string_equal(get(&l, "LANG"), "C.UTF-8");
	strlist_free(&l);
}

static void secrets_are_inherited_only_when_asked_for_by_name(void **state)
{
	const char *const *caller = ENV("GITHUB_TOKEN=hunter2", "MY_API_KEY=hunter2",
					"PLAIN=1", "HOME=/home/me");
	struct policy p = { .env.inherit = true };
	struct strlist l = build(&p, caller);

	(void)state;
	assert_string_equal(get(&l, "PLAIN"), "1"); /* the control */
	assert_null(get(&l, "GITHUB_TOKEN"));
	assert_null(get(&l, "MY_API_KEY"));
	assert_string_equal(get(&l, "HOME"), "/workspace");
	strlist_free(&l);
	p.env.pass = LIST("GITHUB_TOKEN", "HOME");
	l = build(&p, caller);
	assert_string_equal(get(&l, "GITHUB_TOKEN"), "hunter2");
	assert_null(get(&l, "MY_API_KEY"));
	assert_string_equal(get(&l, "HOME"), "/home/me");
	strlist_free(&l);
}

static void names_that_look_secret_are_told_from_others(void **state)
{
	static const struct { const char *name, *value; bool may; } rows[] = {
		{ "COLOR", "red", true }, { "LC_ALL", "C", true },
		{ "MONKEY", "1", true }, { "KEYBOARD", "us", true },
		{ "COMPASS", "n", true }, { "SPIN", "1", true },
		{ "PROJECT", "x", true }, { "OMP_NUM_THREADS", "4", true },
		{ "HTTP_PROXY", "http://proxy.test:3128", true },
		{ "HTTP_PROXY", "http://me:hunter2@proxy.test:3128", false },
		{ "FEED", "https://example.org/a@b", true },
		{ "FEED", "x;https://example.org/ y://u@h", false },
		{ "db_password", "x", false }, { "DB_PASS", "x", false },
		{ "SSH_KEY", "x", false }, { "key", "x", false },
		{ "STRIPE_SK", "x", false }, { "Secret", "x", false },
		{ "AWS_REGION", "x", false }, { "OPENAI_ORG", "x", false },
		{ "SSH_AUTH_SOCK", "/x", false }, { "COOKIE_JAR", "x", false },
		{ "SENTRY_DSN", "x", false }, { "PGPASSWORD", "x", false },
		{ "LD_PRELOAD", "/x.so", false }, { "PYTHONPATH", "/x", false },
		{ "NODE_OPTIONS", "-r x", false }, { "BASH_ENV", "/x", false },
		{ "BASH_FUNC_ls%%", "() { :; }", false }, { "PATH", "/x", false },
		{ "XDG_RUNTIME_DIR", "/x", false }, { "DISPLAY", ":0", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (environ_may_inherit(rows[i].name, rows[i].value) != rows[i].may)
			fail_msg("%s=%s", rows[i].name, rows[i].value);
}

static void entries_that_name_nothing_are_refused(void **state)
{
	struct policy p = { .env.set = LIST("A=1", "NAME") };

	(void)state;
	refused(&p, NULL, "env.set: entry 2 is not NAME=VALUE");
	p.env.set = LIST("=hunter2");
	refused(&p, NULL, "env.set");
	p.env.set = LIST("");
	refused(&p, NULL, "env.set");
	p.env.set = (struct strlist){ 0 };
	p.env.pass = LIST("A=hunter2");
	refused(&p, NULL, "env.pass");
	p.env.pass = LIST("");
	refused(&p, NULL, "env.pass");
}

static void what_execve_would_not_take_is_refused_by_name(void **state)
{
	size_t len = (size_t)128 * 1024;
	owned_mem char *big = malloc(len + 1);
	struct policy p = { 0 };
	struct strlist many = { 0 }, l;

	(void)state;
	assert_non_null(big);
	memset(big, 'x', len);
	memcpy(big, "BIG=", 4);
	big[len] = '\0';
	p.env.set = LIST(big);
	refused(&p, NULL, "BIG");
	p.env.set = (struct strlist){ 0 };
	p.env.pass = LIST("BIG");
	refused(&p, ENV(big), "BIG");
	big[len - 1] = '\0'; /* with its NUL exactly what the kernel takes */
	l = build(&p, ENV(big));
	assert_int_equal(strlen(get(&l, "BIG")), len - 5);
	strlist_free(&l);
	p.env.pass = (struct strlist){ 0 };
	for (char c = 'a'; c < 'a' + 9; c++) {
		big[0] = c;
		assert_int_equal(strlist_add(&many, big), 0);
	}
	p.env.set = many;
	refused(&p, NULL, "more than 1048576");
	strlist_free(&many);
}

static void setting_replaces_the_variable_of_that_name_only(void **state)
{
	struct strlist l = { 0 };

	(void)state;
	assert_int_equal(environ_set(&l, "A=1"), 0);
	assert_int_equal(environ_set(&l, "AB=2"), 0);
	assert_int_equal(environ_set(&l, "A=3"), 0);
	assert_int_equal(environ_set(&l, "A="), 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(get(&l, "A"), "");
	assert_string_equal(get(&l, "AB"), "2");
	strlist_free(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_the_caller_gets_in_unasked),
		cmocka_unit_test(time_zone_and_terminal_are_taken_as_found_if_plain),
		cmocka_unit_test(set_beats_pass_beats_inherit_beats_base),
		cmocka_unit_test(secrets_are_inherited_only_when_asked_for_by_name),
		cmocka_unit_test(names_that_look_secret_are_told_from_others),
		cmocka_unit_test(entries_that_name_nothing_are_refused),
		cmocka_unit_test(setting_replaces_the_variable_of_that_name_only),
		cmocka_unit_test(what_execve_would_not_take_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
