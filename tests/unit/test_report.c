/*
 * test_report.c - what comes out of a box that looked at a source: reports, and nonsense
 */
#include "runtime/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int read_text(struct report *r, const char *text, struct nsbox_error *err)
{
	return report_read(r, text, strlen(text), err);
}

static void a_whole_report_is_kept(void **state)
{
	static const struct {
		const char *text, *reason;
		bool may_run;
	} rows[] = {
		{ "ok\nthe source parses\n{\"ok\":true}\n", "parsed: the source parses", true },
		{ "parse_failed\nParse failed.\n{}\n", "parse_failed: Parse failed.", false },
		{ "unauthorized_imports\nos\n{}\n", "unauthorized_imports: os", false },
		{ "relative_import\nx\n{}\n", "relative_import: x", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct report r;

		assert_int_equal(read_text(&r, rows[i].text, &err), 0);
		assert_true(r.is_there);
		assert_int_equal(r.may_run, rows[i].may_run);
		assert_string_equal(r.reason, rows[i].reason);
		assert_true(r.analysis[0] == '{');
		report_free(&r);
	}
}

static void silence_is_no_report(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct report r;

	(void)state;
	assert_int_equal(report_read(&r, "", 0, &err), 0);
	assert_false(r.is_there);
	assert_false(r.may_run);
	assert_null(r.reason);
}

static void nonsense_is_an_error(void **state)
{
	static const char *const rows[] = {
		"ok", "ok\n", "ok\nx\n", "ok\nx\n{}", "ok\nx\n{}\nmore\n", "ok\nx\n[]\n", "ok\nx\n\n",
		"ok\nx\n{\"a\":}\n", "fine\nx\n{}\n", "\nx\n{}\n", "ok\nx\x1b[2J\n{}\n", "ok\n\xff\n{}\n",
		"ok \nx\n{}\n", "okok\nx\n{}\n", "o\nx\n{}\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct report r;

		if (read_text(&r, rows[i], &err) != NSBOX_E_SETUP)
			fail_msg("%s", rows[i]);
		assert_string_equal(err.message, "the check of the source reported nonsense");
		assert_false(r.may_run);
		assert_null(r.reason);
		assert_null(r.analysis);
	}
}

static void a_report_beyond_the_bound_is_nonsense(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	size_t len = (size_t)REPORT_MAX + 1;
	char *text = malloc(len + 1);
	struct report r;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', len);
	memcpy(text, "ok\nx\n{}", 7);
	text[len - 1] = '\n';
	assert_int_equal(report_read(&r, text, len, &err), NSBOX_E_SETUP);
	assert_int_equal(report_read(&r, text + 1, len - 1, &err), NSBOX_E_SETUP); /* "k" is no word */
	text[len - 2] = '\n';
	assert_int_equal(report_read(&r, text, len - 1, &err), 0); /* control: one byte less */
	report_free(&r);
	free(text);
}

static void bash_says_it_on_stderr(void **state)
{
	static const struct {
		int status;
		const char *text, *reason;
	} rows[] = {
		{ 0, "", "parsed: the source parses" },
		{ 2, "/run/nsbox/<code>: line 3: syntax error near `fi'\n/run: line 3: `fi'\n",
		  "parse_failed: Parse failed. Line 3: syntax error near `fi'" },
		{ 1, "something else", "parse_failed: Parse failed. something else" },
		{ 2, "x: line : y", "parse_failed: Parse failed. y" },
		{ 2, "", "parse_failed: Parse failed. " },
		{ 2, "a\x1b[31m\xff b", "parse_failed: Parse failed. a?[31m? b" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct report r;

		assert_int_equal(report_bash(&r, rows[i].status, rows[i].text,
					     strlen(rows[i].text), &err), 0);
		assert_string_equal(r.reason, rows[i].reason);
		assert_int_equal(r.may_run, rows[i].status == 0);
		assert_non_null(strstr(r.analysis, "\"language\":\"bash\""));
		report_free(&r);
	}
}

static void a_check_that_broke_says_why(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct report r;

	(void)state;
	assert_int_equal(report_broken(&r, "python", "memory: the kernel ended it", &err), 0);
	assert_false(r.may_run);
	assert_string_equal(r.reason, "parse_failed: Parse failed. memory: the kernel ended it");
	assert_string_equal(r.analysis,
			    "{\"language\":\"python\",\"ok\":false,\"error\":{\"type\":\"InterpreterError\","
			    "\"message\":\"memory: the kernel ended it\",\"line\":null,\"column\":null,"
			    "\"end_line\":null,\"end_column\":null,\"text\":null},\"imports\":[],"
			    "\"imports_truncated\":false,\"unauthorized\":[],\"ast\":null,"
			    "\"ast_truncated\":false}");
	report_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_report_is_kept),
		cmocka_unit_test(silence_is_no_report),
		cmocka_unit_test(nonsense_is_an_error),
		cmocka_unit_test(a_report_beyond_the_bound_is_nonsense),
		cmocka_unit_test(bash_says_it_on_stderr),
		cmocka_unit_test(a_check_that_broke_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
