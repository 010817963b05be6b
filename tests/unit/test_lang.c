/* lang.c: its tables, what it refuses, the size of a source. */
#include "tests/unit/lang_run.h"

static void names_and_extensions_are_known(void **state)
{
	(void)state;
	assert_string_equal(lang_canonical("py"), "python");
	assert_string_equal(lang_canonical("node"), "javascript");
	assert_string_equal(lang_canonical("js"), "javascript");
	assert_string_equal(lang_canonical("sh"), "bash");
	assert_string_equal(lang_canonical("bash"), "bash");
	assert_null(lang_canonical("perl"));
	assert_null(lang_canonical(""));
	assert_string_equal(lang_of_file("/a.b/x.py"), "python");
	assert_string_equal(lang_of_file("x.mjs"), "javascript");
	assert_string_equal(lang_of_file("x.tar.sh"), "bash");
	assert_null(lang_of_file("/x.py/plain"));
	assert_null(lang_of_file(".py"));
	assert_null(lang_of_file("x.PY"));
}

static void a_request_that_makes_no_sense_is_refused(void **state)
{
	const struct interp perl = { .language = (char *)"perl",
				     .program = (char *)"/usr/bin/perl" };
	const struct lang_request rows[] = {
		{ .interp = &bash },
		{ .interp = &bash, .code = "x", .code_len = 1, .file = "/x" },
		{ .interp = &bash, .file = "x.sh" },
		{ .interp = &bash, .file = "/x.sh", .project = "p" },
		{ .interp = &perl, .file = "/x.pl" },
		{ .file = "/x.sh" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct lang_command c = { 0 };

		assert_int_equal(lang_command(&c, &rows[i], &err), NSBOX_E_USAGE);
		assert_int_equal(err.code, NSBOX_E_USAGE);
		assert_true(err.message[0] && !c.argv.v && !c.files);
	}
}

static void old_nodes_are_told_to_detect_modules(void **state)
{
	static const struct { const char *version; bool flag; } rows[] = {
		{ "18.20.4", false }, { "20.9.0", false }, { "20.10.0", true },
		{ "20.18.3", true }, { "20.19.0", false }, { "21.0.0", false },
		{ "21.7.0", true }, { "22.6.0", true }, { "22.7.0", false },
		{ "24.1.0", false }, { "junk", false }, { NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct interp n = node;
		struct lang_request r = { .interp = &n, .file = "/x.js" };
		struct lang_command c = { 0 };

		n.version = (char *)rows[i].version;
		assert_int_equal(lang_command(&c, &r, NULL), 0);
		assert_int_equal(strlist_has(&c.argv, "--experimental-detect-module"),
				 rows[i].flag);
		lang_command_free(&c);
	}
}

static void source_of_16_mib_runs_and_more_is_refused(void **state)
{
	size_t len = (size_t)16 << 20;
	owned_mem char *code = malloc(len + 1);
	const struct interp *rows[] = { &pythons[0], &node, &bash };
	const char *const tails[] = { "\nprint('end')", "\nconsole.log('end')",
				      "\necho end" };

	(void)state;
	assert_non_null(code);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct lang_command c = { 0 };
		struct lang_request r = { .interp = rows[i], .code = code,
					  .code_len = len };
		size_t tail = strlen(tails[i]);

		memset(code, i == 1 ? '/' : '#', len);
		memcpy(code + len - tail, tails[i], tail);
		expect(run_request(&r), 0, "end\n", NULL);
		r.code_len = len + 1;
		code[len] = '\n';
		assert_int_equal(lang_command(&c, &r, &err), NSBOX_E_USAGE);
		assert_non_null(strstr(err.message, "16777217 bytes"));
		assert_null(c.files);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_extensions_are_known),
		cmocka_unit_test(a_request_that_makes_no_sense_is_refused),
		cmocka_unit_test(old_nodes_are_told_to_detect_modules),
		cmocka_unit_test(source_of_16_mib_runs_and_more_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
