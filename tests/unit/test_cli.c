/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command that read: paths, variable files, the record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/nsbox/envfile.c"
#undef NAME_START
#undef NAME_CHARS
#include "tools/nsbox/paths.c"
#include "tools/nsbox/record.c"
#include "tools/nsbox/say.c"

static char top[] = "/tmp/nsbox-test-cli.XXXXXX";

static void put_file(const char *name, const char *text, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
}

static int enter_top(void **state)
{
	(void)state;
	if (!mkdtemp(top) || chdir(top) < 0 || mkdir("a", 0755) < 0)
		return -1;
	return chdir("a");
}

static int leave_top(void **state)
{
	(void)state;
	if (chdir(top) < 0)
		return -1;
	unlink("a/env");
	unlink("a/env2");
	rmdir("a");
	return chdir("/") == 0 ? rmdir(top) : -1;
}

static void paths_become_absolute_without_asking_links(void **state)
{
	static const struct { const char *in, *out; } rows[] = {
		{ "x", "/a/x" },	 { ".", "/a" },		{ "./x/", "/a/x" },
		{ "..", "" },		 { "../x", "/x" },	{ ".././../", "/.." },
		{ "x/../y", "/a/x/../y" }, { ".hidden", "/a/.hidden" }, { "...", "/a/..." },
		{ "./", "/a" },		 { "a:b", "/a/a:b" },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		char want[256], *got = NULL;

		snprintf(want, sizeof(want), "%s%s", top, rows[i].out);
		if (strcmp(rows[i].out, "/..") == 0)
			snprintf(want, sizeof(want), "/tmp");
		assert_int_equal(path_absolute(&got, rows[i].in, &err), 0);
		assert_string_equal(got, want);
		free(got);
	}
}

static void absolute_paths_and_the_root_stay(void **state)
{
	static const struct { const char *in, *out; } rows[] = {
		{ "/", "/" }, { "//", "/" }, { "/usr/", "/usr" }, { "/a/../b", "/a/../b" },
	};
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *got = NULL;

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		assert_int_equal(path_absolute(&got, rows[i].in, &err), 0);
		assert_string_equal(got, rows[i].out);
		free(got);
	}
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(path_absolute(&got, "..", &err), 0);
	assert_string_equal(got, "/");
	free(got);
	assert_int_equal(path_absolute(&got, "usr", &err), 0);
	assert_string_equal(got, "/usr");
	free(got);
	assert_int_equal(path_absolute(&got, "", &err), NSBOX_E_USAGE);
	assert_int_equal(chdir(top), 0);
	assert_int_equal(chdir("a"), 0);
}

static void programs_come_from_absolute_path_entries_only(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *got = NULL;

	(void)state;
	put_file("env", "#!/bin/sh\n", 10);
	assert_int_equal(chmod("env", 0755), 0);
	setenv("PATH", "::.:/nowhere:/usr/bin", 1);
	assert_int_equal(path_program(&got, "env", &err), 0);
	assert_string_equal(got, "/usr/bin/env");
	free(got);
	got = NULL;
	assert_int_equal(path_program(&got, "no-such-program", &err), NSBOX_E_USAGE);
	assert_string_equal(err.message, "interpreter 'no-such-program' is not on PATH");
	assert_null(got);
}

static void a_file_over_the_ceiling_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *text = NULL;
	size_t len = 0;

	(void)state;
	put_file("env", "12345", 5);
	assert_int_equal(file_read("env", 5, &text, &len, &err), 0);
	assert_int_equal(len, 5);
	assert_string_equal(text, "12345");
	free(text);
	text = NULL;
	assert_int_equal(file_read("env", 4, &text, &len, &err), NSBOX_E_USAGE);
	assert_string_equal(err.message, "env is larger than 4 bytes");
	assert_null(text);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(file_read(".", 4, &text, &len, &err), NSBOX_E_USAGE);
	assert_string_equal(err.message, ". is not a file");
}

static void later_variables_win_and_flags_win_over_files(void **state)
{
	static const char first[] = "# c\n\nA=1\nB=x=y\r\nHOME\nUNSET_HERE\nE=file";
	const char *files[] = { "env", "env2" }, *flags[] = { "E=flag" };
	struct args a = ARGS_INIT;
	struct envfile e = { 0 };
	struct nsbox_error err = NSBOX_ERROR_INIT;

	(void)state;
	put_file("env", first, sizeof(first) - 1);
	put_file("env2", "A=2\n", 4);
	setenv("HOME", "/home/t", 1);
	unsetenv("UNSET_HERE");
	a.env_files = (struct args_list){ files, 2 };
	a.env = (struct args_list){ flags, 1 };
	assert_int_equal(envfile_read(&e, &a, &err), 0);
	assert_int_equal(e.n, 3);
	assert_string_equal(e.v[0], "A=2");
	assert_string_equal(e.v[1], "B=x=y");
	assert_string_equal(e.v[2], "HOME=/home/t");
	assert_null(e.v[3]);
	envfile_free(&e);
}

static void a_bad_line_is_named_but_not_shown(void **state)
{
	const char *files[] = { "env" };
	struct args a = ARGS_INIT;
	struct envfile e = { 0 };
	struct nsbox_error err = NSBOX_ERROR_INIT;

	(void)state;
	put_file("env", "A=1\nsecret value\n", 17);
	a.env_files = (struct args_list){ files, 1 };
	assert_int_equal(envfile_read(&e, &a, &err), NSBOX_E_USAGE);
	assert_string_equal(err.message, "env:2: this is no variable");
	assert_null(strstr(err.hint, "secret"));
	assert_int_equal(e.n, 0);
	put_file("env", "A=\0B\n", 5);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(envfile_read(&e, &a, &err), NSBOX_E_USAGE);
	assert_string_equal(err.message, "env has a NUL byte in it");
}

static void fields_are_found_past_hostile_strings(void **state)
{
	static const char json[] =
		"{ \"stdout\":\"\\\",\\\"stdout_truncated\\\":true,{[\\\\\",\"n\":12,\"z\":null,"
		"\"list\":[{\"layer\":\"egress\",\"what\":\"a\\nb\\u001b\"},{\"layer\":\"x\"}],"
		"\"stdout_truncated\":false,\"e\":[]}";
	char text[16];
	const char *list = record_field(json, "list");
	uint64_t n = 0;

	(void)state;
	assert_false(record_true(record_field(json, "stdout_truncated")));
	assert_true(record_uint(record_field(json, "n"), &n));
	assert_int_equal(n, 12);
	assert_false(record_uint(record_field(json, "z"), &n));
	assert_null(record_field(json, "absent"));
	assert_string_equal(record_text(record_field(record_item(list, 0), "what"), text,
					sizeof(text)), "a\nb?");
	assert_string_equal(record_text(record_field(record_item(list, 1), "layer"), text,
					sizeof(text)), "x");
	assert_null(record_item(list, 2));
	assert_null(record_item(record_field(json, "e"), 0));
	assert_string_equal(record_text(NULL, text, sizeof(text)), "");
}

/* Cut anywhere, the reader stays inside the text (run under ASan by make asan). */
static void a_record_cut_anywhere_is_survived(void **state)
{
	static const char json[] = "{\"a\":\"x\\\"\",\"b\":[1,{\"c\":\"\\u00e9\"}],\"d\":true}";

	(void)state;
	for (size_t cut = 0; cut < sizeof(json); cut++) {
		char *part = strndup(json, cut), text[8];
		const char *item = record_item(record_field(part, "b"), 1);

		record_text(item ? record_field(item, "c") : NULL, text, sizeof(text));
		assert_int_equal(record_true(record_field(part, "d")), cut >= sizeof(json) - 2);
		free(part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_become_absolute_without_asking_links),
		cmocka_unit_test(absolute_paths_and_the_root_stay),
		cmocka_unit_test(programs_come_from_absolute_path_entries_only),
		cmocka_unit_test(a_file_over_the_ceiling_is_refused),
		cmocka_unit_test(later_variables_win_and_flags_win_over_files),
		cmocka_unit_test(a_bad_line_is_named_but_not_shown),
		cmocka_unit_test(fields_are_found_past_hostile_strings),
		cmocka_unit_test(a_record_cut_anywhere_is_survived),
	};

	return cmocka_run_group_tests(tests, enter_top, leave_top);
}
