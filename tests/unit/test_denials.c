/* From evidence to denials: what a box was refused, and which limit did it. */
#include "base/cleanup.h"
#include "runtime/denials.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/plain_dir.h"

#define MIB (1u << 20)

struct row {
	const char *name;
	struct evidence evidence;
	struct trees trees;
	enum nsbox_verdict verdict;
	int signal;
	const char *layer, *what, *rule, *allow; /* layer NULL: no denial */
};

#define OOM(n) .cgroup = { .has_oom = true, .oom_kills = (n) }
#define FORKS(n, peak) .cgroup = { .has_pids_events = true, .pids_max_events = (n), \
				   .has_pids_peak = (peak) != 0, .pids_peak = (peak) }
#define TREE(...) { .count = 1, .v = { { __VA_ARGS__ } } }

static const struct row rows[] = {
	{ "nothing", .verdict = NSBOX_EXITED },
	{ "one process killed for memory", { OOM(1) }, .verdict = NSBOX_EXITED, .layer = "memory",
	  .what = "1 process was killed at the memory limit of 64M", .rule = "limits.memory=64M",
	  .allow = "--memory 128M" },
	{ "three of them", { OOM(3) }, .verdict = NSBOX_TIMED_OUT, .layer = "memory",
	  .what = "3 processes were killed at the memory limit of 64M", .rule = "limits.memory=64M",
	  .allow = "--memory 128M" },
	{ "the verdict says it already", { OOM(1) }, .verdict = NSBOX_OUT_OF_MEMORY },
	{ "a counter without meaning", { .cgroup = { .oom_kills = 1, .pids_max_events = 1 } },
	  .verdict = NSBOX_EXITED },
	{ "one refused fork", { FORKS(1, 10) }, .verdict = NSBOX_EXITED, .layer = "pids",
	  .what = "1 new process or thread was refused at the limit of 9", .rule = "limits.pids=9",
	  .allow = "--pids 18" },
	{ "many, on a kernel without a peak", { FORKS(7, 0) }, .verdict = NSBOX_SIGNALED, .layer = "pids",
	  .what = "7 new processes or threads were refused at the limit of 9", .rule = "limits.pids=9",
	  .allow = "--pids 18" },
	{ "refused by a limit above the box", { FORKS(2, 9) }, .verdict = NSBOX_EXITED, .layer = "pids",
	  .what = "2 new processes or threads were refused at a limit of the groups that the box is in" },
	{ "killed for it", { FORKS(9, 10) }, .verdict = NSBOX_PIDS_LIMIT },
	{ "the work folder", .trees = TREE("workspace", 16 * MIB, 4096, true, false),
	  .verdict = NSBOX_EXITED, .layer = "disk", .what = "/workspace was full: 16M",
	  .rule = "limits.disk=16M", .allow = "--disk 32M" },
	{ "/tmp", .trees = TREE("tmp", 8 * MIB, 2048, true, false), .verdict = NSBOX_EXITED,
	  .layer = "disk", .what = "/tmp was full: 8M", .rule = "limits.tmp=8M",
	  .allow = "--set limits.tmp=16M" },
	{ "/dev/shm", .trees = TREE("dev/shm", 4 * MIB, 1024, true, false), .verdict = NSBOX_EXITED,
	  .layer = "disk", .what = "/dev/shm was full: 4M", .rule = "limits.shm=4M",
	  .allow = "--set limits.shm=8M" },
	{ "a tree of one's own", .trees = TREE("a/b", MIB, 1024, true, false), .verdict = NSBOX_EXITED,
	  .layer = "disk", .what = "/a/b was full: 1M", .rule = "fs.tmpfs=/a/b:1M",
	  .allow = "--tmpfs /a/b:2M" },
	{ "/tmp with a size of its own", .trees = TREE("tmp", MIB, 1024, true, false),
	  .verdict = NSBOX_EXITED, .layer = "disk", .what = "/tmp was full: 1M",
	  .rule = "fs.tmpfs=/tmp:1M", .allow = "--tmpfs /tmp:2M" },
	{ "out of inodes by the key", .trees = TREE("tmp", 8 * MIB, 77, false, true),
	  .verdict = NSBOX_EXITED, .layer = "disk", .what = "/tmp was full: 77 files and folders",
	  .rule = "limits.inodes=77", .allow = "--set limits.inodes=154" },
	{ "out of inodes by the size", .trees = TREE("tmp", 8 * MIB, 2048, false, true),
	  .verdict = NSBOX_EXITED, .layer = "disk", .what = "/tmp was full: 2048 files and folders",
	  .rule = "limits.tmp=8M", .allow = "--set limits.tmp=16M" },
	{ "killed for a full tree", { .killed = KILL_DISK, .kill_value = 0 },
	  TREE("tmp", 8 * MIB, 2048, true, false), .verdict = NSBOX_DISK_LIMIT },
	{ "not full", .trees = TREE("tmp", 8 * MIB, 2048, false, false), .verdict = NSBOX_EXITED },
	{ "SIGXFSZ", .verdict = NSBOX_SIGNALED, .signal = SIGXFSZ, .layer = "disk",
	  .what = "died of SIGXFSZ, the signal for a file that grows beyond 1M",
	  .rule = "limits.file_size=1M", .allow = "--set limits.file_size=2M" },
	{ "a foreign call", { .killed = KILL_FOREIGN, .foreign = { true, AUDIT_ARCH_I386, 102 } },
	  .verdict = NSBOX_DENIED, .layer = "syscalls", .what = "socketcall (i386 102)" },
	{ "a foreign call of a box that was over", { .foreign = { true, AUDIT_ARCH_I386, 9999 } },
	  .verdict = NSBOX_EXITED, .layer = "syscalls",
	  .what = "a system call of another ABI (i386 9999)" },
	{ "another signal", .verdict = NSBOX_SIGNALED, .signal = SIGXCPU },
};

static bool is_text(const char *got, const char *want)
{
	return want ? got && strcmp(got, want) == 0 : !got;
}

static void check(const struct row *row)
{
	const struct policy p = { .limits = {
		.memory = 64 * MIB, .pids = 9, .disk = 16 * MIB, .tmp = 8 * MIB, .shm = 4 * MIB,
		.inodes = 77, .file_size = MIB } };
	const struct watch w = { .policy = &p, .evidence = row->evidence, .trees = row->trees };
	struct nsbox_result *r = calloc(1, sizeof(*r));
	const struct denial *d;

	assert_non_null(r);
	r->verdict = row->verdict;
	r->signal = row->signal;
	assert_int_equal(denials_fill(r, &w), 0);
	d = r->denials;
	if (r->denial_count != (row->layer ? 1 : 0) ||
	    (row->layer && !(is_text(d->layer, row->layer) && is_text(d->what, row->what) &&
			     is_text(d->rule, row->rule) && is_text(d->allow, row->allow))))
		fail_msg("%s: %zu denials: %s", row->name, r->denial_count, nsbox_result_json(r));
	nsbox_result_free(r);
}

static void each_refusal_names_what_refused_and_what_would_allow_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void without_a_limit_its_signal_means_nothing(void **state)
{
	const struct policy p = { .limits = { .memory = MIB } };
	const struct watch w = { .policy = &p };
	struct nsbox_result r = { .verdict = NSBOX_SIGNALED, .signal = SIGXFSZ };

	(void)state;
	assert_int_equal(denials_fill(&r, &w), 0);
	assert_int_equal(r.denial_count, 0);
}

/* --- the trees ----------------------------------------------------------------- */

static struct plan *a_plan(void)
{
	struct plan_builder b = { 0 };
	struct plan *plan;

	PLAN_OP(&b, .kind = OP_TMPFS, .fd = -1, .n = 65536, .m = 256, .dst = "dev");
	PLAN_OP(&b, .kind = OP_TMPFS, .fd = -1, .n = 4 * MIB, .m = 1024, .dst = "dev/shm");
	PLAN_OP(&b, .kind = OP_READONLY, .fd = -1, .dst = "dev");
	PLAN_OP(&b, .kind = OP_TMPFS, .fd = -1, .n = MIB, .m = 9, .dst = "seen", .flags = OP_RDONLY);
	PLAN_OP(&b, .kind = OP_TMPFS, .fd = -1, .n = 8 * MIB, .m = 2048, .dst = "tmp");
	trees_plan(&b, 3);
	plan = plan_freeze(&b, NULL);
	assert_non_null(plan);
	return plan;
}

static void only_trees_that_can_be_filled_are_sent_and_looked_at(void **state)
{
	owned_mem struct plan *plan = a_plan();
	const struct op *send = &plan_ops(plan)[5];
	struct trees t;

	(void)state;
	assert_int_equal(plan->op_count, 6);
	assert_int_equal(send->kind, OP_SEND_TREES);
	assert_int_equal(send->stage, 3);
	assert_int_equal(send->n, 2);
	assert_int_equal(send->blob_len, sizeof("/dev/shm") + sizeof("/tmp"));
	assert_memory_equal((const char *)plan + send->blob, "/dev/shm\0/tmp", send->blob_len);
	trees_init(&t, plan);
	assert_int_equal(t.count, 2);
	assert_string_equal(t.v[0].path, "dev/shm");
	assert_string_equal(t.v[1].path, "tmp");
	assert_int_equal(t.v[1].bytes, 8 * MIB);
	assert_int_equal(t.v[1].inodes, 2048);
}

static void more_trees_than_can_be_held_are_left_out(void **state)
{
	struct plan_builder b = { 0 };
	owned_mem struct plan *plan = NULL;
	char dst[16];
	struct trees t;

	(void)state;
	for (int i = 0; i < TREES_MAX + 5; i++) {
		snprintf(dst, sizeof(dst), "t%d", i);
		PLAN_OP(&b, .kind = OP_TMPFS, .fd = -1, .n = MIB, .m = 1024, .dst = dst);
	}
	trees_plan(&b, 0);
	plan = plan_freeze(&b, NULL);
	assert_non_null(plan);
	assert_int_equal(plan_ops(plan)[TREES_MAX + 5].n, TREES_MAX);
	trees_init(&t, plan);
	assert_int_equal(t.count, TREES_MAX);
}

static void another_file_system_in_a_trees_place_is_not_believed(void **state)
{
	owned_mem struct plan *plan = a_plan();
	int fds[TREES_MAX];
	struct plain_dir f;
	struct trees t;

	(void)state;
	plain_dir_new(&f);
	trees_init(&t, plan);
	for (size_t i = 0; i < TREES_MAX; i++)
		fds[i] = -1;
	assert_int_equal(trees_look(&t, fds), -1);
	fds[1] = f.fd;
	assert_int_equal(trees_look(&t, fds), -1);
	fds[1] = open("/proc", O_PATH | O_CLOEXEC); /* has 0 blocks, 0 free */
	assert_int_equal(trees_look(&t, fds), -1);
	assert_false(t.v[1].was_full || t.v[1].was_out_of_inodes);
	close(fds[1]);
	plain_dir_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_refusal_names_what_refused_and_what_would_allow_it),
		cmocka_unit_test(without_a_limit_its_signal_means_nothing),
		cmocka_unit_test(only_trees_that_can_be_filled_are_sent_and_looked_at),
		cmocka_unit_test(more_trees_than_can_be_held_are_left_out),
		cmocka_unit_test(another_file_system_in_a_trees_place_is_not_believed),
	};

	return cmocka_run_group_tests_name("denials", tests, NULL, NULL);
}
