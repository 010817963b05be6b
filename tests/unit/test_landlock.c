/* Landlock rows, ABI by ABI, and the walls themselves in a child of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/landlock.h"

#define READ_ALL 0x0cull		/* READ_FILE, READ_DIR */
#define EXECUTE 0x1ull
#define WRITE_FILE 0x2ull
#define REFER 0x2000ull
#define TRUNCATE 0x4000ull
#define IOCTL_DEV 0x8000ull
#define MAKE_NODES 0x840ull	/* MAKE_CHAR, MAKE_BLOCK */

static struct plan *compiled(int abi, const struct strlist *writable,
			     const struct strlist *exec_only)
{
	struct landlock_request r = { abi, writable, exec_only, 9 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };
	struct plan *p;

	assert_int_equal(landlock_compile(&b, &r, &err), 0);
	p = plan_freeze(&b, &err);
	assert_non_null(p);
	return p;
}

/* Access of a path, or 0 when it has no row. */
static uint64_t access_of(const struct plan *p, const char *path)
{
	for (uint32_t i = 0; i < p->op_count; i++) {
		const struct op *op = &plan_ops(p)[i];

		if (op->kind == OP_LANDLOCK_PATH && strcmp(plan_str(p, op->src), path) == 0)
			return op->n;
	}
	return 0;
}

static const struct op *restriction(const struct plan *p)
{
	const struct op *last = &plan_ops(p)[p->op_count - 1];

	assert_int_equal(last->kind, OP_LANDLOCK); /* behind all of its paths */
	assert_int_equal(last->stage, 9);
	return last;
}

static const struct {
	int abi;
	uint64_t handled, scoped;
} ladder[] = {
	{ 1, 0x1fff, 0 },
	{ 2, 0x1fff | REFER, 0 },
	{ 3, 0x1fff | REFER | TRUNCATE, 0 },
	{ 4, 0x1fff | REFER | TRUNCATE, 0 },
	{ 5, 0x1fff | REFER | TRUNCATE | IOCTL_DEV, 0 },
	{ 6, 0x1fff | REFER | TRUNCATE | IOCTL_DEV, 3 },
	{ 7, 0x1fff | REFER | TRUNCATE | IOCTL_DEV, 3 },
	{ 99, 0x1fff | REFER | TRUNCATE | IOCTL_DEV, 3 },
};

static void every_abi_handles_all_it_knows_and_nothing_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ladder); i++) {
		owned_mem struct plan *p = compiled(ladder[i].abi, NULL, NULL);

		assert_int_equal(restriction(p)->n, ladder[i].handled);
		assert_int_equal(restriction(p)->m, ladder[i].scoped);
		for (uint32_t k = 0; k + 1 < p->op_count; k++)
			assert_int_equal(plan_ops(p)[k].n & ~ladder[i].handled, 0);
	}
}

static void a_kernel_without_landlock_gets_no_row(void **state)
{
	owned_mem struct plan *none = compiled(0, NULL, NULL);
	owned_mem struct plan *negative = compiled(-1, NULL, NULL);

	(void)state;
	assert_int_equal(none->op_count, 0);
	assert_int_equal(negative->op_count, 0);
}

static void only_writable_places_may_be_written(void **state)
{
	char *paths[] = { (char *)"/workspace", (char *)"/tmp", NULL };
	struct strlist writable = { .v = paths, .n = 2 };
	owned_mem struct plan *p = compiled(6, &writable, NULL);

	(void)state;
	assert_int_equal(p->op_count, 5);
	assert_int_equal(access_of(p, "/"), READ_ALL | EXECUTE);
	assert_int_equal(access_of(p, "/dev"), WRITE_FILE | IOCTL_DEV);
	assert_int_equal(access_of(p, "/workspace"), 0xffff & ~MAKE_NODES);
	assert_int_equal(access_of(p, "/tmp"), 0xffff & ~MAKE_NODES);
	assert_int_equal(access_of(p, "/proc"), 0);
}

static void exec_only_takes_execution_from_everything_else(void **state)
{
	char *places[] = { (char *)"/workspace", NULL };
	char *programs[] = { (char *)"/usr/bin/python3", (char *)"/lib64/ld.so", NULL };
	struct strlist writable = { .v = places, .n = 1 }, exec_only = { .v = programs, .n = 2 };
	owned_mem struct plan *p = compiled(6, &writable, &exec_only);

	(void)state;
	assert_int_equal(access_of(p, "/"), READ_ALL);
	assert_int_equal(access_of(p, "/workspace") & EXECUTE, 0);
	assert_int_equal(access_of(p, "/workspace") & WRITE_FILE, WRITE_FILE);
	assert_int_equal(access_of(p, "/usr/bin/python3"), EXECUTE | 4);
	assert_int_equal(access_of(p, "/lib64/ld.so"), EXECUTE | 4);
	assert_int_equal(access_of(p, "/usr/bin/python3") & ~(uint64_t)LANDLOCK_FILE_RIGHTS, 0);
}

static void an_empty_exec_only_list_forbids_all_execution(void **state)
{
	struct strlist nothing = { 0 };
	owned_mem struct plan *p = compiled(6, NULL, &nothing);

	(void)state;
	for (uint32_t i = 0; i + 1 < p->op_count; i++)
		assert_int_equal(plan_ops(p)[i].n & EXECUTE, 0);
}

static void a_relative_path_is_an_error(void **state)
{
	char *paths[] = { (char *)"workspace", NULL };
	struct strlist writable = { .v = paths, .n = 1 };
	struct landlock_request r = { 6, &writable, NULL, 9 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };

	(void)state;
	assert_int_equal(landlock_compile(&b, &r, &err), NSBOX_E_USAGE);
	assert_non_null(strstr(err.message, "workspace"));
	plan_builder_free(&b);
}

/* --- on this kernel ------------------------------------------------------ */

struct ruleset_attr { uint64_t fs, net, scoped; };
struct path_attr { uint64_t access; int32_t fd; } __attribute__((packed));

static int kernel_abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
}

static void need_landlock(void)
{
	if (kernel_abi() > 0)
		return;
	if (getenv("NSBOX_MUST_RUN"))
		fail_msg("this kernel has no Landlock");
	print_message("# skip: this kernel has no Landlock\n");
	skip();
}

/* What the runners of the plan do; 0 or an errno. */
static int enforce(const struct plan *p)
{
	const struct op *last = &plan_ops(p)[p->op_count - 1];
	struct ruleset_attr attr = { last->n, 0, last->m };
	int set = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	for (uint32_t i = 0; i + 1 < p->op_count; i++) {
		struct path_attr row = { plan_ops(p)[i].n, -1 };

		row.fd = open(plan_str(p, plan_ops(p)[i].src), O_PATH | O_CLOEXEC);
		if (syscall(SYS_landlock_add_rule, set, 1, &row, 0) < 0)
			return errno;
		close(row.fd);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, set, 0) < 0)
		return errno;
	return 0;
}

static int opened(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

struct probe {
	const char *path;
	int flags, want; /* errno under Landlock; without it 0 */
};

static int probe_all(const struct probe *rows, size_t n, bool is_restricted)
{
	for (size_t i = 0; i < n; i++)
		if (opened(rows[i].path, rows[i].flags) != (is_restricted ? rows[i].want : 0))
			return (int)i + 1;
	return 0;
}

static void the_kernel_takes_the_rows_and_refuses_writes_elsewhere(void **state)
{
	char inside[] = "/tmp/nsbox-test-in-XXXXXX", outside[] = "/tmp/nsbox-test-out-XXXXXX";
	char in_file[64], out_file[64];
	char *paths[] = { inside, NULL };
	struct strlist writable = { .v = paths, .n = 1 };
	const struct probe rows[] = {
		{ in_file, O_RDWR | O_CREAT | O_TRUNC, 0 },
		{ out_file, O_RDWR | O_CREAT, EACCES },
		{ "/dev/null", O_RDWR, 0 },
		{ "/etc/passwd", O_RDONLY, 0 },
		{ "/proc/self/comm", O_WRONLY, EACCES },
		{ "/proc/self/comm", O_RDONLY, 0 },
	};
	owned_mem struct plan *p = NULL;
	int status;
	pid_t pid;

	(void)state;
	need_landlock();
	assert_non_null(mkdtemp(inside));
	assert_non_null(mkdtemp(outside));
	snprintf(in_file, sizeof(in_file), "%s/f", inside);
	snprintf(out_file, sizeof(out_file), "%s/f", outside);
	p = compiled(kernel_abi(), &writable, NULL);
	assert_int_equal(probe_all(rows, ARRAY_SIZE(rows), false), 0); /* the control */
	pid = fork();
	if (pid == 0) {
		int e = enforce(p);

		_exit(e ? 100 : probe_all(rows, ARRAY_SIZE(rows), true));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(in_file);
	unlink(out_file);
	rmdir(inside);
	rmdir(outside);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* n: row n answered otherwise */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_abi_handles_all_it_knows_and_nothing_more),
		cmocka_unit_test(a_kernel_without_landlock_gets_no_row),
		cmocka_unit_test(only_writable_places_may_be_written),
		cmocka_unit_test(exec_only_takes_execution_from_everything_else),
		cmocka_unit_test(an_empty_exec_only_list_forbids_all_execution),
		cmocka_unit_test(a_relative_path_is_an_error),
		cmocka_unit_test(the_kernel_takes_the_rows_and_refuses_writes_elsewhere),
	};

	return cmocka_run_group_tests_name("landlock", tests, NULL, NULL);
}
