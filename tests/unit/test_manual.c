/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written for people agrees with the tables: manual pages and README.
 * Runs in the top folder of the source tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define main man_keys_main
int man_keys_main(int argc, char **argv);
#include "tools/gen/man_keys.c"
#undef main

#include "runtime/stage.h"
#include "tools/nsbox/args.h"

/* The table alone: the parser's functions come from the library's neighbours. */
#define nsbox_key_info absent_key_info
static int absent_key_info(size_t i, struct nsbox_key *out)
{
	(void)i;
	(void)out;
	return NSBOX_E_USAGE;
}
#undef ARRAY_SIZE
#include "tools/nsbox/args.c"
#include "tools/nsbox/nearest.c"
#include "tools/nsbox/say.c"

static char *page(const char *name)
{
	char *text = read_page(name);

	if (!text)
		fail_msg("%s cannot be read; run this test in the top folder", name);
	return text;
}

static void has(const char *text, const char *name, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("%s does not mention '%s'", name, wanted);
}

static void the_keys_of_nsbox_5_are_those_of_the_table(void **state)
{
	char *text = page("tools/man/nsbox.5"), *wanted = NULL;

	(void)state;
	assert_int_equal(rewrite(text, &wanted), 0);
	if (strcmp(text, wanted) != 0)
		fail_msg("tools/man/nsbox.5 is out of date: see tools/README.md, \"Manual\"");
	for (size_t i = 0; i < policy_key_count; i++)
		has(text, "nsbox(5)", policy_keys[i].name);
	free(text);
	free(wanted);
}

static void the_rewriter_sees_a_changed_page(void **state)
{
	static const char bad[] = "head\n" MARK_BEGIN "old\n" MARK_END "tail\n";
	char *wanted = NULL;

	(void)state;
	assert_int_equal(rewrite(bad, &wanted), 0);
	assert_string_not_equal(bad, wanted);
	assert_int_equal(strncmp(wanted, "head\n", 5), 0);
	assert_non_null(strstr(wanted, MARK_END "tail\n"));
	free(wanted);
	wanted = NULL;
	assert_int_equal(rewrite("no markers", &wanted), -1);
	assert_null(wanted);
}

static void every_profile_is_in_nsbox_5(void **state)
{
	char *text = page("tools/man/nsbox.5"), line[64];

	(void)state;
	for (size_t i = 0; i < policy_profile_count; i++) {
		snprintf(line, sizeof(line), ".It Cm %s\n", policy_profiles[i].name);
		has(text, "nsbox(5)", line);
	}
	free(text);
}

/* "Fl NAME" as a word: --cpus is not told by --cpus-and-more. */
static void has_flag(const char *text, const char *name)
{
	char want[64];
	size_t len;

	len = (size_t)snprintf(want, sizeof(want), "Fl %s", name);
	for (const char *p = text; (p = strstr(p, want)); p += len) {
		if (p[len] == ' ' || p[len] == '\n')
			return;
	}
	fail_msg("nsbox(1) does not mention '%s'", want);
}

static void every_flag_is_in_nsbox_1(void **state)
{
	char *text = page("tools/man/nsbox.1"), letter[2] = "";

	(void)state;
	for (size_t i = 0; i < args_row_count; i++) {
		has_flag(text, args_rows[i].flag + 1);
		letter[0] = args_rows[i].letter;
		if (letter[0])
			has_flag(text, letter);
	}
	for (size_t i = 0; i < policy_key_count; i++) {
		if (policy_keys[i].flag)
			has_flag(text, policy_keys[i].flag + 1);
		letter[0] = policy_keys[i].letter;
		if (letter[0])
			has_flag(text, letter);
	}
	free(text);
}

/* The next "nsbox_...(" at or behind *at; false when there is none. */
static bool next_function(const char **at, char *name, size_t size)
{
	const char *p = *at;

	while ((p = strstr(p, "nsbox_"))) {
		size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");

		if (p[len] == '(' && len < size && (p[-1] == ' ' || p[-1] == '*' || p[-1] == '\n')) {
			snprintf(name, size, "%.*s", (int)len, p);
			*at = p + len;
			return true;
		}
		p += len;
	}
	return false;
}

static void every_exported_function_is_in_libnsbox_3(void **state)
{
	char *header = page("runtime/include/nsbox.h"), *text = page("tools/man/libnsbox.3");
	const char *at = strstr(header, "NSBOX_API const char *nsbox_version");
	char name[64], want[80];
	unsigned count = 0;

	(void)state;
	assert_non_null(at);
	while (next_function(&at, name, sizeof(name))) {
		snprintf(want, sizeof(want), ".Fn %s ", name);
		has(text, "libnsbox(3)", want);
		count++;
	}
	assert_true(count >= 33);
	/* And the other way round: the page promises nothing that is not there. */
	for (const char *p = text; (p = strstr(p, ".Fn nsbox_")); p += 4) {
		size_t len = strspn(p + 4, "abcdefghijklmnopqrstuvwxyz0123456789_");

		snprintf(want, sizeof(want), "%.*s(", (int)len, p + 4);
		has(header, "nsbox.h", want);
	}
	free(header);
	free(text);
}

/* "| mounts | child | promise |" in README.md, every row and in the order. */
static void the_stages_of_the_readme_are_those_of_the_table(void **state)
{
	static const char *const sides[] = { "launcher", "child", "init" };
	char *text = page("README.md"), row[512];
	const char *last = text;

	(void)state;
	for (unsigned i = 0; i < STAGE_COUNT; i++) {
		const char *at;

		snprintf(row, sizeof(row), "| `%s` | %s | %s |\n", stage_name(i),
			 sides[stage_side(i)], stage_promise(i));
		at = strstr(last, row);
		if (!at)
			fail_msg("README.md lacks, at its place, the row: %s", row);
		last = at + 1;
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_keys_of_nsbox_5_are_those_of_the_table),
		cmocka_unit_test(the_rewriter_sees_a_changed_page),
		cmocka_unit_test(every_profile_is_in_nsbox_5),
		cmocka_unit_test(every_flag_is_in_nsbox_1),
		cmocka_unit_test(every_exported_function_is_in_libnsbox_3),
		cmocka_unit_test(the_stages_of_the_readme_are_those_of_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
