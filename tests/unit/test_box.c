/*
 * test_box.c - every call of nsbox.h with arguments that are no arguments, and at the
 * wrong time
 */
#include "box_run.h"

#include <signal.h>

/* ----------------------------------------------------------------- NULL and nonsense -- */

static void free_and_close_accept_null(void **state)
{
	(void)state;
	nsbox_policy_free(NULL);
	nsbox_box_close(NULL);
	nsbox_box_kill(NULL);
	nsbox_result_free(NULL);
	assert_int_equal(nsbox_box_fd(NULL), -1);
}

/* For REFUSED() alone: each call starts from a record that tells something else. */
static struct nsbox_error said;

static struct nsbox_error *fresh(void)
{
	said = (struct nsbox_error){ sizeof(said), NSBOX_E_SYSTEM, 5, "old", "old", "old" };
	return &said;
}

static void refused(int r, const char *call)
{
	if (r != NSBOX_E_USAGE || said.code != NSBOX_E_USAGE || !said.message[0] ||
	    strcmp(said.message, "old") == 0 || said.os_errno || said.stage[0] ||
	    strcmp(said.hint, "old") == 0 || strchr(said.message, '\n'))
		fail_msg("%s: %d, '%s'", call, r, said.message);
}

#define REFUSED(call) refused((call), #call)

static void a_null_policy_argument_is_a_usage_error(void **state)
{
	struct nsbox_error none = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	char *text = NULL;

	(void)state;
	must(nsbox_policy_new(&p, NULL, &none), &none);
	REFUSED(nsbox_policy_new(NULL, NULL, fresh()));
	REFUSED(nsbox_policy_set(NULL, "limits.pids", "3", fresh()));
	REFUSED(nsbox_policy_set(p, NULL, "3", fresh()));
	REFUSED(nsbox_policy_set(p, "limits.pids", NULL, fresh()));
	REFUSED(nsbox_policy_load(NULL, "{}", 2, "x", NSBOX_LAYER_USER, fresh()));
	REFUSED(nsbox_policy_load(p, NULL, 2, "x", NSBOX_LAYER_USER, fresh()));
	REFUSED(nsbox_policy_load(p, "{}", 2, NULL, NSBOX_LAYER_USER, fresh()));
	REFUSED(nsbox_policy_load(p, "{}", 2, "x", (enum nsbox_layer)4, fresh()));
	REFUSED(nsbox_policy_load(p, "{}", 2, "x", (enum nsbox_layer)-1, fresh()));
	REFUSED(nsbox_policy_check(NULL, fresh()));
	REFUSED(nsbox_policy_json(NULL, &text, fresh()));
	REFUSED(nsbox_policy_json(p, NULL, fresh()));
	assert_null(text);
	nsbox_policy_free(p);
}

static void a_null_box_argument_is_a_usage_error(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL), *other = NULL;
	const struct nsbox_run run = command(LIST("true"));
	struct nsbox_result *res = NULL;
	char *text = NULL;

	(void)state;
	REFUSED(nsbox_box_open(&other, NSBOX_TIER_LOCAL, NULL, fresh()));
	REFUSED(nsbox_box_run(NULL, &run, &res, fresh()));
	REFUSED(nsbox_box_run(box, NULL, &res, fresh()));
	REFUSED(nsbox_box_run(box, &run, NULL, fresh()));
	REFUSED(nsbox_box_start(NULL, &run, fresh()));
	REFUSED(nsbox_box_start(box, NULL, fresh()));
	REFUSED(nsbox_box_collect(NULL, &res, fresh()));
	REFUSED(nsbox_box_wait(NULL, 0, fresh()));
	REFUSED(nsbox_box_signal(NULL, SIGTERM, fresh()));
	REFUSED(nsbox_box_resize(NULL, 1, 1, fresh()));
	REFUSED(nsbox_box_network(NULL, NULL, fresh()));
	REFUSED(nsbox_box_network(box, NULL, fresh()));
	REFUSED(nsbox_box_explain(NULL, &run, "plan", &text, fresh()));
	REFUSED(nsbox_box_explain(box, NULL, "plan", &text, fresh()));
	REFUSED(nsbox_box_explain(box, &run, NULL, &text, fresh()));
	REFUSED(nsbox_box_explain(box, &run, "xml", &text, fresh()));
	REFUSED(nsbox_box_explain(box, &run, "plan", NULL, fresh()));
	assert_null(res);
	assert_null(text);
	assert_null(other);
	expect_out(result_of_sh(box, "echo alive"), "alive\n"); /* none of it broke the box */
	nsbox_box_close(box);
}

static void an_error_record_is_optional_everywhere(void **state)
{
	struct nsbox_policy *p = NULL;
	struct nsbox_box *box = NULL;
	struct nsbox_run run = command(LIST("true"));
	struct nsbox_result *res = NULL;

	(void)state;
	assert_int_equal(nsbox_policy_new(&p, "no-such", NULL), NSBOX_E_POLICY);
	assert_int_equal(nsbox_policy_new(&p, NULL, NULL), 0);
	assert_int_equal(nsbox_policy_set(p, "no.such", "1", NULL), NSBOX_E_POLICY);
	assert_int_equal(nsbox_policy_load(p, "{", 1, "x", NSBOX_LAYER_USER, NULL), NSBOX_E_POLICY);
	assert_int_equal(nsbox_box_open(&box, NSBOX_TIER_DOCKER, p, NULL), NSBOX_E_UNSUPPORTED);
	assert_int_equal(nsbox_box_open(&box, NSBOX_TIER_LOCAL, p, NULL), 0);
	run.cwd = "/no-such-folder";
	assert_int_equal(nsbox_box_run(box, &run, &res, NULL), NSBOX_E_POLICY);
	run.cwd = NULL;
	assert_int_equal(nsbox_box_run(box, &run, &res, NULL), 0);
	nsbox_result_free(res);
	nsbox_box_close(box);
	nsbox_policy_free(p);
}

static void no_other_number_is_a_tier(void **state)
{
	static const int rows[] = { 0, -1, 6 };
	struct nsbox_error none = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;

	(void)state;
	must(nsbox_policy_new(&p, NULL, &none), &none);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct nsbox_box *box = NULL;

		assert_int_equal(nsbox_box_open(&box, (enum nsbox_tier)rows[i], p, &err), NSBOX_E_USAGE);
		assert_non_null(strstr(err.message, "no tier"));
		assert_null(box);
	}
	nsbox_policy_free(p);
}

static void a_tier_of_the_table_opens_when_it_is_built(void **state)
{
	struct nsbox_error none = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	struct nsbox_tier_info info;
	unsigned seen = 0, built = 0;

	(void)state;
	must(nsbox_policy_new(&p, NULL, &none), &none);
	for (size_t i = 0; nsbox_tier_info(i, &info) == 0; i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct nsbox_box *box = NULL;
		int r = nsbox_box_open(&box, (enum nsbox_tier)info.tier, p, &err);

		seen |= 1U << info.tier;
		built |= (unsigned)info.is_built << info.tier;
		assert_int_equal(r, info.is_built ? 0 : NSBOX_E_UNSUPPORTED);
		assert_int_equal(box != NULL, info.is_built);
		if (r < 0)
			assert_non_null(strstr(err.message, info.name));
		nsbox_box_close(box);
	}
	assert_int_equal(seen, 0x3e); /* each value of the enum once */
	assert_int_equal(built, 1U << NSBOX_TIER_STATIC | 1U << NSBOX_TIER_LOCAL |
					1U << NSBOX_TIER_LOCAL_UNSAFE);
	assert_int_equal(nsbox_tier_info(0, NULL), NSBOX_E_USAGE);
	nsbox_policy_free(p);
}

/* ------------------------------------------------------------------- sized structs -- */

struct longer {
	struct nsbox_run run;
	unsigned char tail[64];
};

static void a_longer_request_runs_only_with_a_zero_tail(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	struct longer l = { .run = NSBOX_RUN_INIT };

	(void)state;
	l.run.argv = LIST("echo", "long");
	l.run.size = sizeof(l);
	expect_out(result_of(box, &l.run), "long\n");
	for (size_t i = 0; i < sizeof(l.tail); i++) {
		struct nsbox_result *res = NULL;

		l.tail[i] = 1;
		REFUSED(nsbox_box_run(box, &l.run, &res, fresh()));
		assert_null(res);
		l.tail[i] = 0;
	}
	nsbox_box_close(box);
}

static void a_shorter_request_has_zero_for_the_rest(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	struct nsbox_run run = command(LIST("echo", "short"));

	(void)state;
	run.size = offsetof(struct nsbox_run, cwd);
	run.cwd = (const char *)0x10; /* would crash if it was read */
	run.timeout_ms = UINT64_MAX;
	run.out = run.err = 77;
	run.artifacts_dir = (const char *)0x10;
	expect_out(result_of(box, &run), "short\n");
	nsbox_box_close(box);
}

static void a_size_that_no_header_ever_has_is_refused(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 4, 7, 1 << 20, UINT32_MAX };
	struct nsbox_box *box = new_box(NULL, NULL);
	struct nsbox_run run = command(LIST("true"));

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		run.size = sizes[i];
		REFUSED(nsbox_box_start(box, &run, fresh()));
		assert_int_equal(nsbox_box_fd(box), -1);
	}
	nsbox_box_close(box);
}

/* -------------------------------------------------------------------- wrong moment -- */

static void a_box_has_one_run_at_a_time(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(LIST("sleep", "30"));
	struct nsbox_result *res = NULL;

	(void)state;
	must(nsbox_box_start(box, &run, &err), &err);
	assert_int_equal(nsbox_box_start(box, &run, &err), NSBOX_E_BUSY);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(nsbox_box_run(box, &run, &res, &err), NSBOX_E_BUSY);
	assert_null(res);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(nsbox_box_collect(box, &res, &err), NSBOX_E_BUSY);
	assert_string_equal(err.message, "the run goes on");
	assert_null(res);
	nsbox_box_kill(box);
	nsbox_box_kill(box);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	while (nsbox_box_wait(box, 1000, &err) == 0)
		;
	assert_int_equal(nsbox_box_wait(box, -1, &err), 1); /* and stays so */
	must(nsbox_box_collect(box, &res, &err), &err);
	assert_int_equal(nsbox_result_verdict(res), NSBOX_SIGNALED);
	assert_int_equal(nsbox_result_signal(res), SIGKILL);
	assert_string_equal(nsbox_result_reason(res), "killed: by the caller");
	assert_int_equal(nsbox_result_status(res), 128 + SIGKILL);
	nsbox_result_free(res);
	REFUSED(nsbox_box_collect(box, &res, fresh()));
	nsbox_box_close(box);
}

static void an_idle_box_says_so(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_box *box = new_box(NULL, NULL);
	struct nsbox_result *res = NULL;

	(void)state;
	assert_int_equal(nsbox_box_fd(box), -1);
	REFUSED(nsbox_box_wait(box, 0, fresh()));
	REFUSED(nsbox_box_collect(box, &res, fresh()));
	assert_int_equal(nsbox_box_signal(box, SIGTERM, &err), NSBOX_E_BUSY);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(nsbox_box_resize(box, 10, 10, &err), NSBOX_E_BUSY);
	nsbox_box_kill(box); /* nothing to kill: the next run lives */
	expect_out(result_of_sh(box, "echo on"), "on\n");
	nsbox_box_close(box);
}

static void signals_reach_the_payload_and_nonsense_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run =
		command(SH("trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.05; done"));
	struct nsbox_result *res = NULL;

	(void)state;
	must(nsbox_box_start(box, &run, &err), &err);
	REFUSED(nsbox_box_signal(box, 0, fresh()));
	REFUSED(nsbox_box_signal(box, 65, fresh()));
	REFUSED(nsbox_box_signal(box, -1, fresh()));
	REFUSED(nsbox_box_resize(box, 70000, 1, fresh()));
	assert_int_equal(nsbox_box_resize(box, 1, 1, &err), NSBOX_E_BUSY); /* no pty */
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	for (uint64_t end = monotonic_ms() + 500; monotonic_ms() < end;)
		assert_int_equal(nsbox_box_wait(box, 100, &err), 0); /* the trap is set by now */
	must(nsbox_box_signal(box, SIGUSR1, &err), &err);
	while (nsbox_box_wait(box, -1, &err) == 0)
		;
	assert_int_equal(nsbox_box_signal(box, SIGUSR1, &err), NSBOX_E_BUSY);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	must(nsbox_box_collect(box, &res, &err), &err);
	assert_int_equal(nsbox_result_exit_code(res), 7);
	assert_string_equal(nsbox_result_stdout(res, NULL), "up\ngot\n");
	nsbox_result_free(res);
	nsbox_box_close(box);
}

/* An application keeps one record and looks at it after each failure. */
static void a_record_that_is_used_again_tells_the_latest_failure(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_box *box = new_box(NULL, NULL);
	struct nsbox_run run = command(LIST("true"));
	struct nsbox_policy *policy = NULL;
	struct nsbox_result *res = NULL;

	(void)state;
	assert_int_equal(nsbox_policy_new(&policy, "no-such", &err), NSBOX_E_POLICY);
	run.cwd = "relative";
	assert_int_equal(nsbox_box_run(box, &run, &res, &err), NSBOX_E_USAGE);
	assert_int_equal(err.code, NSBOX_E_USAGE);
	assert_non_null(strstr(err.message, "relative"));
	run.cwd = "/no-such-folder";
	assert_int_equal(nsbox_box_run(box, &run, &res, &err), NSBOX_E_POLICY);
	assert_string_equal(err.stage, "mounts");
	assert_int_equal(err.os_errno, ENOENT);
	assert_int_equal(nsbox_policy_new(&policy, "no-such", &err), NSBOX_E_POLICY);
	assert_string_equal(err.stage, "");
	assert_int_equal(err.os_errno, 0);
	nsbox_box_close(box);
}

/* ------------------------------------------------------------------------ main -- */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_and_close_accept_null),
		cmocka_unit_test(a_null_policy_argument_is_a_usage_error),
		cmocka_unit_test(a_null_box_argument_is_a_usage_error),
		cmocka_unit_test(an_error_record_is_optional_everywhere),
		cmocka_unit_test(no_other_number_is_a_tier),
		cmocka_unit_test(a_tier_of_the_table_opens_when_it_is_built),
		cmocka_unit_test(a_longer_request_runs_only_with_a_zero_tail),
		cmocka_unit_test(a_shorter_request_has_zero_for_the_rest),
		cmocka_unit_test(a_size_that_no_header_ever_has_is_refused),
		cmocka_unit_test(a_box_has_one_run_at_a_time),
		cmocka_unit_test(an_idle_box_says_so),
		cmocka_unit_test(signals_reach_the_payload_and_nonsense_is_refused),
		cmocka_unit_test(a_record_that_is_used_again_tells_the_latest_failure),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
