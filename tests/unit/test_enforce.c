/* What a host can hold of a policy, how strongly, and what is refused (D13). */
#include "base/cleanup.h"
#include "runtime/enforce.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/unit/plain_dir.h"

static const struct nsbox_run a_run = NSBOX_RUN_INIT;

static struct policy usual(void)
{
	struct policy p = { 0 };

	assert_int_equal(policy_init(&p, NULL), 0);
	return p;
}

static const struct host bare = { .place = { .fd = -1 }, .cpus = 4 };
static const struct host full = { .place = { .fd = -1, .memory = true, .pids = true,
					     .cpu = true }, .cpus = 4 };

static void strengths_follow_the_controllers(void **state)
{
	enum nsbox_strength e[ENF_COUNT];
	struct policy p = usual();

	(void)state;
	assert_int_equal(enforce_decide(e, &bare, &p, &a_run, NULL), 0);
	assert_int_equal(e[ENF_MEMORY], NSBOX_STRENGTH_USERSPACE);
	assert_int_equal(e[ENF_PIDS], NSBOX_STRENGTH_USERSPACE);
	assert_int_equal(e[ENF_CPU], NSBOX_STRENGTH_USERSPACE);
	assert_int_equal(e[ENF_IO], NSBOX_STRENGTH_NONE);
	assert_int_equal(enforce_decide(e, &full, &p, &a_run, NULL), 0);
	assert_int_equal(e[ENF_MEMORY], NSBOX_STRENGTH_KERNEL);
	assert_int_equal(e[ENF_PIDS], NSBOX_STRENGTH_KERNEL);
	assert_int_equal(e[ENF_CPU], NSBOX_STRENGTH_KERNEL);
	assert_int_equal(e[ENF_IO], NSBOX_STRENGTH_NONE);
	policy_free(&p);
}

static void what_only_the_kernel_can_hold_is_refused_without_it_with_a_remedy(void **state)
{
	static const struct { const char *key, *value; } rows[] = {
		{ "limits.memory_high", "64M" }, { "limits.oom", "process" },
		{ "limits.io_weight", "50" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		enum nsbox_strength e[ENF_COUNT];
		struct policy p = usual();

		assert_int_equal(policy_set(&p, rows[i].key, rows[i].value, NULL), 0);
		assert_int_equal(enforce_decide(e, &bare, &p, &a_run, &err), NSBOX_E_UNSUPPORTED);
		assert_non_null(strstr(err.message, rows[i].key));
		assert_non_null(strstr(err.hint, rows[i].key));
		assert_int_equal(policy_set(&p, "enforce.optional", rows[i].key, NULL), 0);
		assert_int_equal(enforce_decide(e, &bare, &p, &a_run, NULL), 0);
		assert_int_equal(e[ENF_IO], NSBOX_STRENGTH_NONE);
		policy_free(&p);
	}
}

static void a_weight_holds_where_the_file_is_there_and_handed_down(void **state)
{
	struct host h = full;
	enum nsbox_strength e[ENF_COUNT];
	struct policy p = usual();
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	h.place.fd = f.fd;
	h.place.io = true;
	assert_null(enforce_io_file(&h.place));
	assert_int_equal(policy_set(&p, "limits.io_weight", "50", NULL), 0);
	assert_int_equal(enforce_decide(e, &h, &p, &a_run, NULL), NSBOX_E_UNSUPPORTED);
	put(f.fd, "io.bfq.weight", "");
	assert_string_equal(enforce_io_file(&h.place), "io.bfq.weight");
	put(f.fd, "io.weight", "");
	assert_string_equal(enforce_io_file(&h.place), "io.weight");
	assert_int_equal(enforce_decide(e, &h, &p, &a_run, NULL), 0);
	assert_int_equal(e[ENF_IO], NSBOX_STRENGTH_KERNEL);
	h.place.io = false;
	assert_null(enforce_io_file(&h.place));
	plain_dir_free(&f);
	policy_free(&p);
}

static void output_that_nobody_counts_is_not_limited(void **state)
{
	static const struct { int out, err; uint32_t flags; enum nsbox_strength want; } rows[] = {
		{ NSBOX_IO_CAPTURE, NSBOX_IO_RELAY, 0, NSBOX_STRENGTH_USERSPACE },
		{ NSBOX_IO_FD, NSBOX_IO_CAPTURE, 0, NSBOX_STRENGTH_NONE },
		{ NSBOX_IO_NULL, NSBOX_IO_FD, 0, NSBOX_STRENGTH_NONE },
		{ NSBOX_IO_RELAY, NSBOX_IO_FD, NSBOX_RUN_TTY, NSBOX_STRENGTH_NONE },
		{ NSBOX_IO_CAPTURE, NSBOX_IO_FD, NSBOX_RUN_TTY, NSBOX_STRENGTH_USERSPACE },
	};
	struct policy p = usual();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_run run = NSBOX_RUN_INIT;
		enum nsbox_strength e[ENF_COUNT];

		run.out = rows[i].out;
		run.err = rows[i].err;
		run.flags = rows[i].flags;
		assert_int_equal(enforce_decide(e, &full, &p, &run, NULL), 0);
		assert_int_equal(e[ENF_OUTPUT], rows[i].want);
	}
	policy_free(&p);
}

/* A plan with a work folder, a small limit of open files, and no /tmp of its own. */
static struct plan *a_plan(void)
{
	struct plan_builder b = { 0 };
	struct plan *plan;

	PLAN_OP(&b, .kind = OP_TMPFS, .fd = -1, .n = 4096, .m = 7, .dst = "workspace");
	PLAN_OP(&b, .kind = OP_RLIMIT, .flags = RLIMIT_NOFILE, .n = 99, .m = 100);
	plan = plan_freeze(&b, NULL);
	assert_non_null(plan);
	return plan;
}

static void numbers_are_those_that_hold_and_not_those_that_were_asked_for(void **state)
{
	owned_mem struct plan *plan = a_plan();
	struct assembly a = { .plan = plan };
	struct policy p = usual();
	struct in_force f;

	(void)state;
	assert_int_equal(policy_set(&p, "limits.memory", "67108865", NULL), 0);
	assert_int_equal(enforce_decide(a.enforced, &full, &p, &a_run, NULL), 0);
	enforce_limits(&f, &a, &p, &a_run);
	assert_int_equal(f.v[LIMIT_MEMORY], 67108864); /* whole pages */
	assert_true(f.is_set[LIMIT_SWAP]);
	assert_int_equal(f.v[LIMIT_SWAP], 0);
	assert_int_equal(f.v[LIMIT_FILES], 99);
	assert_int_equal(f.v[LIMIT_DISK], 4096);
	assert_int_equal(f.v[LIMIT_DISK_INODES], 7);
	assert_int_equal(f.v[LIMIT_TIMEOUT], 30000000);
	assert_int_equal(f.v[LIMIT_CPUS], 1000);
	assert_false(f.is_set[LIMIT_TMP] || f.is_set[LIMIT_SHM] || f.is_set[LIMIT_FILE_SIZE] ||
		     f.is_set[LIMIT_CPU_TIME] || f.is_set[LIMIT_MEMORY_HIGH] ||
		     f.is_set[LIMIT_IO_WEIGHT]);
	policy_free(&p);
}

static void what_nobody_holds_has_no_number(void **state)
{
	owned_mem struct plan *plan = a_plan();
	struct assembly a = { .plan = plan };
	struct nsbox_run run = NSBOX_RUN_INIT;
	struct policy p = usual();
	struct in_force f;

	(void)state;
	run.timeout_ms = 5;
	run.out = NSBOX_IO_FD;
	assert_int_equal(policy_set(&p, "limits.memory_high", "64M", NULL), 0);
	assert_int_equal(policy_set(&p, "limits.cpus", "0", NULL), 0);
	assert_int_equal(policy_set(&p, "enforce.degraded", "true", NULL), 0);
	assert_int_equal(enforce_decide(a.enforced, &bare, &p, &run, NULL), 0);
	enforce_limits(&f, &a, &p, &run);
	assert_int_equal(f.v[LIMIT_TIMEOUT], 5000);
	assert_int_equal(f.v[LIMIT_MEMORY], 512u << 20); /* userspace */
	assert_false(f.is_set[LIMIT_SWAP] || f.is_set[LIMIT_MEMORY_HIGH] ||
		     f.is_set[LIMIT_CPUS] || f.is_set[LIMIT_STDOUT]);
	assert_int_equal(f.v[LIMIT_STDERR], 1u << 20);
	policy_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strengths_follow_the_controllers),
		cmocka_unit_test(what_only_the_kernel_can_hold_is_refused_without_it_with_a_remedy),
		cmocka_unit_test(a_weight_holds_where_the_file_is_there_and_handed_down),
		cmocka_unit_test(output_that_nobody_counts_is_not_limited),
		cmocka_unit_test(numbers_are_those_that_hold_and_not_those_that_were_asked_for),
		cmocka_unit_test(what_nobody_holds_has_no_number),
	};

	return cmocka_run_group_tests_name("enforce", tests, NULL, NULL);
}
