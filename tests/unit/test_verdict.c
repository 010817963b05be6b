/*
 * test_verdict.c - from evidence to verdict: one row a way to end
 */
#include "runtime/record.h"
#include "runtime/verdict.h"

#include <linux/audit.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXIT_STATUS = 1 << 8 }; /* wait(2): exit code in the second byte, signal in the first */

struct row {
	const char *name;
	struct evidence evidence;
	bool terminated;      /* we had asked it to end */
	uint64_t cpu_time;    /* limits.cpu_time */
	enum nsbox_verdict verdict;
	int exit_code, signal;
	const char *reason;   /* its beginning; NULL: none */
};

#define STATUS(s) .has_exit = true, .exit = { .status = (s) }
#define OOM .cgroup = { .has_oom = true, .oom_kills = 1 }

static const struct row rows[] = {
	{ "exit 0", { STATUS(0) }, .verdict = NSBOX_EXITED },
	{ "exit 7", { STATUS(7 * EXIT_STATUS) }, .verdict = NSBOX_EXITED, .exit_code = 7 },
	{ "exit 137 is an exit", { STATUS(137 * EXIT_STATUS) }, .verdict = NSBOX_EXITED, .exit_code = 137 },
	{ "exit 137 with another's OOM", { STATUS(137 * EXIT_STATUS), OOM },
	  .verdict = NSBOX_EXITED, .exit_code = 137 },
	{ "SIGKILL alone is no OOM", { STATUS(SIGKILL) }, .verdict = NSBOX_SIGNALED,
	  .exit_code = -1, .signal = SIGKILL, .reason = "signal: died of signal 9" },
	{ "SIGKILL and a kill of the cgroup", { STATUS(SIGKILL), OOM },
	  .verdict = NSBOX_OUT_OF_MEMORY, .exit_code = -1, .signal = SIGKILL,
	  .reason = "memory: the kernel ended it at the limit of " },
	{ "the whole group was killed, init included", { .killed = KILL_LOST, OOM },
	  .verdict = NSBOX_OUT_OF_MEMORY, .exit_code = -1, .signal = SIGKILL,
	  .reason = "memory: the kernel ended it at the limit of " },
	{ "init lost without a kill of the cgroup", { .killed = KILL_LOST }, .verdict = NSBOX_SIGNALED,
	  .exit_code = -1, .signal = SIGKILL, .reason = "lost: " },
	{ "SIGSEGV and a kill of the cgroup", { STATUS(SIGSEGV), OOM }, .verdict = NSBOX_SIGNALED,
	  .exit_code = -1, .signal = SIGSEGV, .reason = "signal: died of signal 11" },
	{ "counter without meaning", { STATUS(SIGKILL), .cgroup = { .oom_kills = 1 } },
	  .verdict = NSBOX_SIGNALED, .exit_code = -1, .signal = SIGKILL, .reason = "signal: " },
	{ "SIGSYS", { STATUS(SIGSYS) }, .verdict = NSBOX_DENIED, .exit_code = -1,
	  .signal = SIGSYS, .reason = "seccomp: died of SIGSYS" },
	{ "a core dump flag is no signal", { STATUS(SIGABRT | 0x80) }, .verdict = NSBOX_SIGNALED,
	  .exit_code = -1, .signal = SIGABRT, .reason = "signal: died of signal 6" },
	{ "timeout", { .killed = KILL_TIMEOUT, STATUS(SIGKILL) }, .verdict = NSBOX_TIMED_OUT,
	  .exit_code = -1, .signal = SIGKILL, .reason = "timeout: ran longer than 2s" },
	{ "timeout wins over OOM", { .killed = KILL_TIMEOUT, STATUS(SIGKILL), OOM },
	  .verdict = NSBOX_TIMED_OUT, .exit_code = -1, .signal = SIGKILL, .reason = "timeout: " },
	{ "ended when asked", { STATUS(SIGTERM) }, .terminated = true, .verdict = NSBOX_TIMED_OUT,
	  .exit_code = -1, .signal = SIGTERM, .reason = "timeout: ran longer than 2s and ended when asked to" },
	{ "exit 0 when asked", { STATUS(0) }, .terminated = true, .verdict = NSBOX_TIMED_OUT,
	  .exit_code = -1, .reason = "timeout: " },
	{ "our cpu kill", { .killed = KILL_CPU }, .cpu_time = 1000000, .verdict = NSBOX_TIMED_OUT,
	  .exit_code = -1, .signal = SIGKILL, .reason = "cpu_time: used more than 1s" },
	{ "SIGXCPU that it sent itself", { .has_exit = true, .exit = { .status = SIGXCPU, .user_us = 700000 } },
	  .cpu_time = 1000000, .verdict = NSBOX_SIGNALED, .exit_code = -1, .signal = SIGXCPU,
	  .reason = "signal: died of signal 24" },
	{ "SIGXCPU at the limit", { .has_exit = true, .exit = { .status = SIGXCPU, .user_us = 990000 } },
	  .cpu_time = 1000000, .verdict = NSBOX_TIMED_OUT,
	  .exit_code = -1, .signal = SIGXCPU, .reason = "cpu_time: used more than 1s" },
	{ "SIGXCPU without one", { STATUS(SIGXCPU) }, .verdict = NSBOX_SIGNALED, .exit_code = -1,
	  .signal = SIGXCPU, .reason = "signal: " },
	{ "RLIMIT_CPU's SIGKILL", { .has_exit = true, .exit = { .status = SIGKILL, .user_us = 600000, .system_us = 400000 } },
	  .cpu_time = 1000000, .verdict = NSBOX_TIMED_OUT, .exit_code = -1, .signal = SIGKILL, .reason = "cpu_time: " },
	{ "SIGKILL before the cpu limit", { .has_exit = true, .exit = { .status = SIGKILL, .user_us = 600000 } },
	  .cpu_time = 1000000, .verdict = NSBOX_SIGNALED, .exit_code = -1, .signal = SIGKILL, .reason = "signal: " },
	{ "memory by sample", { .killed = KILL_MEMORY, .kill_value = 777 }, .verdict = NSBOX_OUT_OF_MEMORY,
	  .exit_code = -1, .signal = SIGKILL, .reason = "memory: held 777 bytes of the " },
	{ "fork bomb", { .killed = KILL_PIDS }, .verdict = NSBOX_PIDS_LIMIT, .exit_code = -1,
	  .signal = SIGKILL, .reason = "pids: wanted more than the " },
	{ "output", { .killed = KILL_OUTPUT }, .verdict = NSBOX_OUTPUT_LIMIT, .exit_code = -1,
	  .signal = SIGKILL, .reason = "output: wrote more than the output limit" },
	{ "a full tree", { .killed = KILL_DISK, .kill_value = 1 }, .verdict = NSBOX_DISK_LIMIT,
	  .exit_code = -1, .signal = SIGKILL, .reason = "disk: filled the 2M of /tmp" },
	{ "a tree without inodes", { .killed = KILL_DISK, .kill_value = 2 }, .verdict = NSBOX_DISK_LIMIT,
	  .exit_code = -1, .signal = SIGKILL, .reason = "disk: made the 9 files and folders that /t can have" },
	{ "SIGXFSZ is a signal like others", { STATUS(SIGXFSZ) }, .verdict = NSBOX_SIGNALED, .exit_code = -1,
	  .signal = SIGXFSZ, .reason = "signal: died of signal 25" },
	{ "a foreign call", { .killed = KILL_FOREIGN, .foreign = { true, AUDIT_ARCH_X86_64, 0x40000027 } },
	  .verdict = NSBOX_DENIED, .exit_code = -1, .signal = SIGSYS,
	  .reason = "seccomp: system call getpid (x32 39) is forbidden" },
	{ "a foreign call that could not be read", { .killed = KILL_FOREIGN }, .verdict = NSBOX_DENIED,
	  .exit_code = -1, .signal = SIGSYS, .reason = "seccomp: a system call of another ABI is forbidden" },
	{ "a foreign call without a name", { .killed = KILL_FOREIGN, .foreign = { true, AUDIT_ARCH_I386, 9999 } },
	  .verdict = NSBOX_DENIED, .exit_code = -1, .signal = SIGSYS,
	  .reason = "seccomp: system call of another ABI (i386 9999) is forbidden" },
	{ "the caller", { .killed = KILL_CALLER }, .verdict = NSBOX_SIGNALED, .exit_code = -1,
	  .signal = SIGKILL, .reason = "killed: by the caller" },
	{ "init lost", { .killed = KILL_LOST }, .verdict = NSBOX_SIGNALED, .exit_code = -1,
	  .signal = SIGKILL, .reason = "lost: the box's init was killed from outside" },
};

static void check(const struct row *row)
{
	struct policy p = { .limits = { .memory = 1 << 20, .pids = 9, .cpu_time = row->cpu_time } };
	struct assembly plan = { 0 };
	struct watch w = { .policy = &p, .plan = &plan, .evidence = row->evidence, .terminated = row->terminated,
			   .trees = { .count = 3, .v = { [1] = { "tmp", 2 << 20, 9, true, false },
							 [2] = { "t", 2 << 20, 9, false, true } } },
			   .timeout_us = 2000000, .started_us = 5, .ended_us = 1005 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	assert_int_equal(verdict_fill(r, &w, &err), 0);
	if (r->verdict != row->verdict || r->signal != row->signal ||
	    r->exit_code != row->exit_code || !r->reason != !row->reason ||
	    (r->reason && strncmp(r->reason, row->reason, strlen(row->reason)) != 0))
		fail_msg("%s: verdict %d, exit %d, signal %d, '%s'", row->name, (int)r->verdict,
			 r->exit_code, r->signal, r->reason ? r->reason : "NULL");
	assert_int_equal(r->usage.wall_us, 1000);
	nsbox_result_free(r);
}

static void every_kind_of_evidence_has_its_verdict(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(&rows[i]);
}

static struct nsbox_result *usage_under(const struct evidence *e, enum nsbox_strength memory)
{
	static struct policy p;
	struct assembly plan = { .enforced = { [ENF_MEMORY] = memory } };
	struct watch w = { .policy = &p, .plan = &plan, .evidence = *e, .ended_us = 10 };
	struct nsbox_result *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	assert_int_equal(verdict_fill(r, &w, NULL), 0);
	return r;
}

static struct nsbox_result *usage_of(const struct evidence *e)
{
	return usage_under(e, NSBOX_STRENGTH_USERSPACE);
}

static void usage_comes_from_the_best_source_there_is(void **state)
{
	struct evidence e = { .has_exit = true, .has_rusage = true, .sampled_memory = 4096, .sampled_pids = 3,
			      .rusage_user_us = 30, .rusage_system_us = 31,
			      .exit = { .max_rss_kib = 2, .user_us = 20, .system_us = 21 } };
	struct nsbox_result *r = usage_of(&e);

	(void)state;
	assert_int_equal(r->usage.user_us, 20); /* init's count: all were reaped */
	assert_int_equal(r->usage.memory_peak, 4096);
	assert_int_equal(r->usage.pids_peak, 3);
	nsbox_result_free(r);
	e.exit.orphans = 1; /* some were not: the kernel's sum over the namespace */
	r = usage_of(&e);
	assert_int_equal(r->usage.user_us, 30);
	assert_true(r->orphans_killed);
	nsbox_result_free(r);
	e.cgroup = (struct cgroup_usage){ .has_cpu = true, .user_us = 40, .system_us = 41, .has_memory_peak = true,
					  .memory_peak = 9999, .has_pids_peak = true, .pids_peak = 6 };
	r = usage_of(&e);
	assert_int_equal(r->usage.user_us, 40);
	assert_int_equal(r->usage.system_us, 41);
	assert_int_equal(r->usage.memory_peak, 9999);
	assert_int_equal(r->usage.pids_peak, 5); /* without init */
	nsbox_result_free(r);
}

static void what_nobody_measured_is_not_known(void **state)
{
	const struct evidence e = { .killed = KILL_LOST };
	struct nsbox_result *r = usage_of(&e);

	(void)state;
	assert_false(r->usage.has_cpu);
	assert_false(r->usage.has_memory_peak);
	assert_false(r->usage.has_pids_peak);
	nsbox_result_free(r);
}

/* One process is not the box: tmpfs, its other processes, the kernel's own part. */
static void a_peak_that_neither_kernel_nor_samples_know_is_not_known(void **state)
{
	const struct evidence e = { .has_exit = true, .exit = { .max_rss_kib = 4 } };
	struct nsbox_result *r = usage_under(&e, NSBOX_STRENGTH_KERNEL);

	(void)state;
	assert_false(r->usage.has_memory_peak);
	nsbox_result_free(r);
	r = usage_of(&e);
	assert_int_equal(r->usage.memory_peak, 4096);
	nsbox_result_free(r);
}

static void accounts_are_passed_on_with_what_is_not_known(void **state)
{
	const struct evidence e = { .killed = KILL_LOST, .cgroup.accounts = {
		.has_io = true, .io_read = 5, .io_written = 6, .has_stall = { [STALL_IO] = true },
		.stall_us = { [STALL_IO] = 7 } } };
	struct nsbox_result *r = usage_of(&e);

	(void)state;
	assert_true(r->usage.accounts.has_io && r->usage.accounts.has_stall[STALL_IO]);
	assert_int_equal(r->usage.accounts.io_read, 5);
	assert_int_equal(r->usage.accounts.io_written, 6);
	assert_int_equal(r->usage.accounts.stall_us[STALL_IO], 7);
	assert_false(r->usage.accounts.has_throttled);
	assert_false(r->usage.accounts.has_stall[STALL_CPU]);
	nsbox_result_free(r);
}

/* The kernel adds what a dying PID 1's children used to nobody: samples must do. */
static void cpu_time_of_a_killed_box_comes_from_its_samples(void **state)
{
	struct policy p = { .limits = { .memory = 1 << 20, .pids = 9 } };
	struct assembly plan = { 0 };
	struct watch w = { .policy = &p, .plan = &plan, .evidence = { .killed = KILL_TIMEOUT, .has_rusage = true,
		.rusage_user_us = 100, .rusage_system_us = 900, .sampled_user_us = 700000,
		.sampled_system_us = 200000 } };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = calloc(1, sizeof(*r));

	(void)state;
	assert_non_null(r);
	assert_int_equal(verdict_fill(r, &w, &err), 0);
	assert_true(r->usage.has_cpu);
	assert_int_equal(r->usage.user_us, 700000);
	assert_int_equal(r->usage.system_us, 200000);
	nsbox_result_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peak_that_neither_kernel_nor_samples_know_is_not_known),
		cmocka_unit_test(accounts_are_passed_on_with_what_is_not_known),
		cmocka_unit_test(cpu_time_of_a_killed_box_comes_from_its_samples),
		cmocka_unit_test(every_kind_of_evidence_has_its_verdict),
		cmocka_unit_test(usage_comes_from_the_best_source_there_is),
		cmocka_unit_test(what_nobody_measured_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
