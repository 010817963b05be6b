/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: tools/nsbox/args.c against a small key table of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nsbox.h"

static const char *const net_modes[] = { "disabled", "filtered", "open", NULL };
static const struct nsbox_key fake_keys[] = {
	{ "fs.read", "list", NULL, NULL, "--ro", 0, "PATH[:DEST]", "visible, read-only" },
	{ "limits.memory", "size", "512M", NULL, "--memory", 'm', "SIZE", "memory ceiling" },
	{ "limits.timeout", "time", "30", NULL, "--timeout", 0, "TIME", "wall clock" },
	{ "limits.grace", "time", "1", NULL, NULL, 0, "TIME", "has no flag" },
	{ "net.mode", "choice", "disabled", net_modes, "--net", 0, "MODE", "network" },
	{ "env.set", "list", NULL, NULL, "--env", 'e', "NAME=VALUE", "the command's -e" },
	{ "imports.allow", "list", NULL, NULL, "--allow-import", 0, "MODULE", "import" },
	{ "enforce.degraded", "bool", "false", NULL, "--allow-degraded", 0, NULL, "weaker" },
};

static int fake_key_info(size_t i, struct nsbox_key *out)
{
	if (i >= sizeof(fake_keys) / sizeof(fake_keys[0]))
		return NSBOX_E_USAGE;
	*out = fake_keys[i];
	return 0;
}
#define nsbox_key_info fake_key_info

#include "tools/nsbox/args.c"
#include "tools/nsbox/nearest.c"
#include "tools/nsbox/say.c"

#define WORDS_MAX 16

struct parsed {
	struct args args;
	struct nsbox_error err;
	char *argv[WORDS_MAX];
	int r;
};

static struct parsed parse(unsigned verb, const char *const *words)
{
	struct parsed p = { .args = ARGS_INIT, .err = NSBOX_ERROR_INIT };
	int n = 0;

	for (; words[n]; n++) {
		assert_true(n < WORDS_MAX);
		p.argv[n] = (char *)(uintptr_t)words[n];
	}
	p.r = args_parse(&p.args, verb, n, p.argv, &p.err);
	return p;
}
#define PARSE(verb, ...) parse((verb), (const char *const[]){ __VA_ARGS__, NULL })

static void a_value_may_be_joined_or_apart(void **state)
{
	static const char *const spellings[][3] = {
		{ "-m1G", "x" }, { "-m", "1G", "x" }, { "--memory=1G", "x" }, { "--memory", "1G", "x" },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(spellings); i++) {
		struct parsed p = PARSE(FOR_RUN, spellings[i][0], spellings[i][1], spellings[i][2]);

		assert_int_equal(p.r, 0);
		assert_int_equal(p.args.setting_count, 1);
		assert_string_equal(p.args.settings[0].key, "limits.memory");
		assert_string_equal(p.args.settings[0].value, "1G");
		assert_int_equal(p.args.operands.n, 1);
		assert_string_equal(p.args.operands.v[0], "x");
		args_free(&p.args);
	}
}

static void an_empty_joined_value_is_a_value(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "--memory=", "x");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_string_equal(p.args.settings[0].value, "");
	args_free(&p.args);
}

static void flags_end_at_the_command(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "-m", "1G", "sh", "-c", "--json", "-m", "2G");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_false(p.args.json);
	assert_int_equal(p.args.setting_count, 1);
	assert_int_equal(p.args.operands.n, 5);
	assert_string_equal(p.args.operands.v[2], "--json");
	assert_null(p.args.operands.v[5]);
	args_free(&p.args);
}

static void two_dashes_end_the_flags(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "--json", "--", "-m", "--", "x");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_true(p.args.json);
	assert_int_equal(p.args.operands.n, 3);
	assert_string_equal(p.args.operands.v[0], "-m");
	assert_string_equal(p.args.operands.v[1], "--");
	args_free(&p.args);
}

static void a_dash_alone_is_an_operand(void **state)
{
	struct parsed p = PARSE(FOR_CODE, "--language", "bash", "-", "a");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_string_equal(p.args.language, "bash");
	assert_int_equal(p.args.operands.n, 2);
	assert_string_equal(p.args.operands.v[0], "-");
	args_free(&p.args);
}

static void flags_may_follow_the_code(void **state)
{
	struct parsed p = PARSE(FOR_CODE, "-c", "-1", "--timeout", "2", "arg", "--timeout");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_string_equal(p.args.code, "-1");
	assert_string_equal(p.args.settings[0].value, "2");
	assert_int_equal(p.args.operands.n, 2);
	args_free(&p.args);
}

static void letters_cluster_until_a_value(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "-itm1G", "-qe", "A=b", "x");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_true(p.args.keep_stdin && p.args.tty && p.args.quiet);
	assert_string_equal(p.args.settings[0].value, "1G");
	assert_int_equal(p.args.env.n, 1);
	assert_string_equal(p.args.env.v[0], "A=b");
	args_free(&p.args);
}

static void lists_keep_every_value_in_order(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "-p", "python", "--ro", "/a", "--set", "fs.read=/b", "-p",
				"./x.json", "x");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_int_equal(p.args.policies.n, 2);
	assert_string_equal(p.args.policies.v[1], "./x.json");
	assert_int_equal(p.args.setting_count, 2);
	assert_string_equal(p.args.settings[0].value, "/a");
	assert_int_equal(p.args.settings[1].key_len, strlen("fs.read"));
	assert_string_equal(p.args.settings[1].value, "/b");
	args_free(&p.args);
}

static void a_switch_key_is_true_or_what_is_given(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "--allow-degraded", "--allow-degraded=false", "x");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_string_equal(p.args.settings[0].value, "true");
	assert_string_equal(p.args.settings[1].value, "false");
	args_free(&p.args);
}

static void the_row_of_the_command_wins_over_the_key(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "-e", "HOME", "--env", "A=1", "x");
	struct args_flag f;
	size_t seen = 0;

	(void)state;
	assert_int_equal(p.r, 0);
	assert_int_equal(p.args.setting_count, 0);
	assert_int_equal(p.args.env.n, 2);
	for (size_t i = 0; args_flag_at(FOR_RUN, i, &f); i++)
		seen += strcmp(args_flag_name(&f), "--env") == 0;
	assert_int_equal(seen, 1);
	args_free(&p.args);
}

static void every_mistake_has_its_sentence(void **state)
{
	static const struct { unsigned verb; const char *words[4], *message, *hint; } rows[] = {
		{ FOR_RUN, { "--memry", "1G" }, "unknown flag '--memry' of 'nsbox run'",
		  "did you mean '--memory'?" },
		{ FOR_RUN, { "--tiemout=1" }, "unknown flag '--tiemout' of 'nsbox run'",
		  "did you mean '--timeout'?" },
		{ FOR_RUN, { "--zzzzzz" }, "unknown flag '--zzzzzz' of 'nsbox run'",
		  "'nsbox run --help' lists the flags" },
		{ FOR_RUN, { "-c", "1" }, "unknown flag '-c' of 'nsbox run'",
		  "'nsbox run --help' lists the flags" },
		{ FOR_RUN, { "-iZ" }, "unknown flag '-Z' of 'nsbox run'",
		  "'nsbox run --help' lists the flags" },
		{ FOR_RUN, { "--memory" }, "--memory needs a value: SIZE", "" },
		{ FOR_RUN, { "-im" }, "--memory needs a value: SIZE", "" },
		{ FOR_RUN, { "--allow-import", "" }, "--allow-import wants MODULE, not ''",
		  "'--set imports.allow=' is an empty list" },
		{ FOR_RUN, { "--ro=", "x" }, "--ro wants PATH[:DEST], not ''",
		  "'--set fs.read=' is an empty list" },
		{ FOR_RUN, { "--json=1" }, "--json takes no value", "" },
		{ FOR_RUN, { "--set", "limits.pids" }, "--set wants KEY=VALUE, not 'limits.pids'",
		  "for example --set limits.pids=64" },
		{ FOR_RUN, { "--set", "=1" }, "--set wants KEY=VALUE, not '=1'",
		  "for example --set limits.pids=64" },
		{ FOR_RUN, { "--status-fd", "x" }, "--status-fd wants a descriptor number, not 'x'",
		  "" },
		{ FOR_RUN, { "--status-fd", "99999999999" },
		  "--status-fd wants a descriptor number, not '99999999999'", "" },
		{ FOR_RUN, { "--status-fd", "0" }, "--status-fd cannot be '0'",
		  "give an open descriptor above 0, as in --status-fd 3 3>status.json" },
		{ FOR_RUN, { "--tier", "locl" }, "unknown value 'locl' of --tier",
		  "did you mean 'local'?" },
		{ FOR_RUN, { "--json", "-t", "x" }, "--json and -t exclude each other",
		  "leave one of them out" },
		{ FOR_RUN, { "--no-imports", "--allow-import", "os" },
		  "--no-imports and --allow-import exclude each other", "leave one of them out" },
		{ FOR_RUN, { "-qv" }, "-q and -v exclude each other", "leave one of them out" },
		{ FOR_DOCTOR, { "--memory", "1G" }, "unknown flag '--memory' of 'nsbox doctor'",
		  "'nsbox doctor --help' lists the flags" },
		{ FOR_CHECK, { "x", "--jsn" }, "unknown flag '--jsn' of 'nsbox policy check'",
		  "'nsbox policy check --help' lists the flags" },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct parsed p = parse(rows[i].verb, rows[i].words);

		assert_int_equal(p.r, NSBOX_E_USAGE);
		assert_string_equal(p.err.message, rows[i].message);
		assert_string_equal(p.err.hint, rows[i].hint);
		args_free(&p.args);
	}
}

static void the_wish_for_json_survives_a_mistake(void **state)
{
	struct parsed before = PARSE(FOR_RUN, "--json", "--nope", "x");
	struct parsed after = PARSE(FOR_RUN, "--nope", "--json", "x");
	struct parsed foreign = PARSE(FOR_RUN, "--nope", "--", "x", "--json");

	(void)state;
	assert_int_equal(before.r, NSBOX_E_USAGE);
	assert_true(before.args.json);
	assert_int_equal(after.r, NSBOX_E_USAGE);
	assert_true(after.args.json);
	assert_int_equal(foreign.r, NSBOX_E_USAGE);
	assert_false(foreign.args.json);
	args_free(&before.args);
	args_free(&after.args);
	args_free(&foreign.args);
}

static void operands_of_other_verbs_mix_with_flags(void **state)
{
	struct parsed p = PARSE(FOR_SCHEMA, "a", "--result", "b");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_true(p.args.result);
	assert_int_equal(p.args.operands.n, 2);
	args_free(&p.args);
}

static void help_needs_nothing_else_to_be_right(void **state)
{
	struct parsed p = PARSE(FOR_RUN, "--json", "-t", "--help");

	(void)state;
	assert_int_equal(p.r, 0);
	assert_true(p.args.help);
	args_free(&p.args);
}

static void rows_have_help_and_no_twins(void **state)
{
	(void)state;
	for (size_t i = 0; i < args_row_count; i++) {
		const struct args_row *a = &args_rows[i];

		assert_int_equal(strncmp(a->flag, "--", 2), 0);
		assert_true(a->help && strlen(a->help) > 10);
		assert_true(a->verbs && !(a->verbs & ~(unsigned)FOR_EVERY));
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(a->flag, args_rows[k].flag);
			assert_true(!a->letter || a->letter != args_rows[k].letter);
		}
	}
}

static void words_of_the_command_cannot_move_a_cursor(void **state)
{
	char bytes[] = "a\x1b[2Jb\x7f\n\xc2\x9b\x9b\xc3\xa9\xf0\x9f\x98\x80\xed\xa0\x80z";

	(void)state;
	neutralise(bytes);
	assert_string_equal(bytes, "a?[2Jb?????\xc3\xa9\xf0\x9f\x98\x80???z");
}

static void the_error_record_is_json_whatever_the_names_are(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	cli_fail(&err, NSBOX_E_POLICY, "open \"a\\b\n\xff\"");
	assert_int_equal(error_json(out, &err), 0);
	fclose(out);
	assert_string_equal(text, "{\"schema\":\"nsbox.error/1\",\"code\":\"policy\","
				  "\"exit_status\":125,\"stage\":null,\"errno\":null,"
				  "\"message\":\"open \\u0022a\\u005cb\\u000a\\ufffd\\u0022\","
				  "\"hint\":null}\n");
	free(text);
}

static void only_the_exec_stage_means_126_or_127(void **state)
{
	static const struct { const char *stage; int os_errno, status; } rows[] = {
		{ "exec", ENOENT, 127 },   { "exec", EACCES, 126 }, { "exec", ENOEXEC, 126 },
		{ "exec", ENOMEM, 125 },   { "mounts", ENOENT, 125 }, { "", ENOENT, 125 },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;

		err.os_errno = rows[i].os_errno;
		snprintf(err.stage, sizeof(err.stage), "%s", rows[i].stage);
		assert_int_equal(error_status(&err), rows[i].status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_may_be_joined_or_apart),
		cmocka_unit_test(an_empty_joined_value_is_a_value),
		cmocka_unit_test(flags_end_at_the_command),
		cmocka_unit_test(two_dashes_end_the_flags),
		cmocka_unit_test(a_dash_alone_is_an_operand),
		cmocka_unit_test(flags_may_follow_the_code),
		cmocka_unit_test(letters_cluster_until_a_value),
		cmocka_unit_test(lists_keep_every_value_in_order),
		cmocka_unit_test(a_switch_key_is_true_or_what_is_given),
		cmocka_unit_test(the_row_of_the_command_wins_over_the_key),
		cmocka_unit_test(every_mistake_has_its_sentence),
		cmocka_unit_test(the_wish_for_json_survives_a_mistake),
		cmocka_unit_test(operands_of_other_verbs_mix_with_flags),
		cmocka_unit_test(help_needs_nothing_else_to_be_right),
		cmocka_unit_test(rows_have_help_and_no_twins),
		cmocka_unit_test(words_of_the_command_cannot_move_a_cursor),
		cmocka_unit_test(the_error_record_is_json_whatever_the_names_are),
		cmocka_unit_test(only_the_exec_stage_means_126_or_127),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
