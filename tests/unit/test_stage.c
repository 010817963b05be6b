/*
 * test_stage.c - the order of the stages, the words for what fails in them, and whose
 * ids a box gets
 */
#include "base/buf.h"
#include "runtime/hints.h"
#include "runtime/identity.h"
#include "runtime/stage.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---------------------------------------------------------------------- stages -- */

static void privileges_go_in_the_order_that_security_md_promises(void **state)
{
	static const char *const order[] = { "prepare", "clone", "idmap", "cgroup", "network", "ids",
					     "mounts", "limits", "caps", "lockdown", "init", "exec" };

	(void)state;
	assert_int_equal(STAGE_COUNT, sizeof(order) / sizeof(order[0]));
	for (unsigned i = 0; i < STAGE_COUNT; i++) {
		assert_string_equal(stage_name(i), order[i]);
		assert_true(strlen(stage_name(i)) < sizeof(((struct nsbox_error *)0)->stage));
		assert_true(strlen(stage_promise(i)) > 20);
	}
	assert_string_equal(stage_name(STAGE_COUNT), "?");
	assert_string_equal(stage_promise(UINT32_MAX), "?");
}

static void the_child_has_what_needs_its_own_privileges_and_nothing_after_them(void **state)
{
	(void)state;
	for (unsigned i = 0; i < STAGE_COUNT; i++)
		assert_int_equal(stage_side(i), i <= STAGE_cgroup ? SIDE_PARENT
					      : i == STAGE_exec ? SIDE_INIT : SIDE_CHILD);
}

/* ----------------------------------------------------------------------- hints -- */

static void a_clone_that_fails_names_a_cause(void **state)
{
	static const struct {
		int os_errno;
		const char *part;
	} rows[] = {
		{ EPERM, "" }, /* which one depends on this host */
		{ ENOSPC, "namespaces" },
		{ EAGAIN, "ulimit -u" },
		{ ENOMEM, "memory" },
		{ EINVAL, "doctor" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;

		assert_int_equal(hints_clone(&err, rows[i].os_errno), NSBOX_E_UNSUPPORTED);
		assert_int_equal(err.os_errno, rows[i].os_errno);
		assert_non_null(strstr(err.message, "namespaces"));
		assert_true(err.hint[0] && strstr(err.hint, rows[i].part));
	}
}

static struct plan *one_op_plan(int kind)
{
	struct plan_builder b = { 0 };
	struct plan *p;

	PLAN_OP(&b, .kind = kind, .stage = STAGE_mounts, .src = "/host/src", .dst = "box/dst");
	p = plan_freeze(&b, NULL);
	plan_builder_free(&b);
	assert_non_null(p);
	return p;
}

static void an_operation_that_fails_says_what_on_what_and_whose_fault(void **state)
{
	static const struct {
		int kind, os_errno, code;
		const char *hint; /* NULL: none known */
	} rows[] = {
		{ OP_PROC, EPERM, NSBOX_E_UNSUPPORTED, "masks /proc" },
		{ OP_PROC, EIO, NSBOX_E_SETUP, NULL },
		{ OP_BIND, ESTALE, NSBOX_E_SETUP, "replaced" },
		{ OP_BIND, EACCES, NSBOX_E_POLICY, "searchable" },
		{ OP_BIND, EROFS, NSBOX_E_POLICY, "read-only" },
		{ OP_CHDIR, ENOENT, NSBOX_E_POLICY, "does not exist" },
		{ OP_LANDLOCK, EOPNOTSUPP, NSBOX_E_UNSUPPORTED, "doctor" },
		{ OP_TMPFS, ENOSPC, NSBOX_E_SETUP, NULL },
		{ OP_LOOPBACK, EPERM, NSBOX_E_UNSUPPORTED, "capabilities" },
		{ OP_ROOT, EACCES, NSBOX_E_UNSUPPORTED, "capabilities" },
		{ OP_ROOT, ENOMEM, NSBOX_E_SETUP, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct plan *p = one_op_plan(rows[i].kind);

		assert_int_equal(hints_setup(&err, p, 0, rows[i].os_errno), rows[i].code);
		assert_int_equal(err.code, rows[i].code);
		assert_int_equal(err.os_errno, rows[i].os_errno);
		assert_non_null(strstr(err.message, "/host/src -> /box/dst"));
		assert_non_null(strstr(err.message, strerror(rows[i].os_errno)));
		assert_int_equal(err.hint[0] != '\0', rows[i].hint != NULL);
		if (rows[i].hint)
			assert_non_null(strstr(err.hint, rows[i].hint));
		free(p);
	}
}

/* The number comes from the child's message: any value must be bearable. */
static void an_index_that_no_plan_has_means_init(void **state)
{
	static const int indexes[] = { -1, 1, 1000000, INT32_MAX, INT32_MIN };
	struct plan *p = one_op_plan(OP_BIND);

	(void)state;
	for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;

		assert_int_equal(hints_setup(&err, p, indexes[i], ENOMEM), NSBOX_E_SETUP);
		assert_int_equal(strncmp(err.message, "start init", 10), 0);
	}
	free(p);
}

static void too_much_for_execve_is_the_caller_s_to_mend(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan *p = one_op_plan(OP_BIND);

	(void)state;
	assert_int_equal(hints_setup(&err, p, 1, E2BIG), NSBOX_E_USAGE);
	assert_non_null(strstr(err.hint, "stdin"));
	free(p);
}

static void only_the_shell_s_errors_of_exec_are_results(void **state)
{
	static const struct {
		int os_errno, status;
	} rows[] = {
		{ ENOENT, 127 }, { ENOTDIR, 127 }, { EACCES, 126 }, { EPERM, 126 },
		{ ENOEXEC, 126 }, { ELOOP, 126 }, { ENOMEM, 0 }, { E2BIG, 0 }, { EIO, 0 }, { 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *sentence = NULL;

		assert_int_equal(hints_exec(rows[i].os_errno, &sentence), rows[i].status);
		assert_int_equal(sentence != NULL, rows[i].status != 0); /* output on success only */
	}
}

/* -------------------------------------------------------------------- identity -- */

static void a_box_is_never_the_host_s_root(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct identity id;

	(void)state;
	if (identity_find(&id, &err) < 0) {
		assert_int_equal(err.code, NSBOX_E_UNSUPPORTED); /* only root could be mapped */
		assert_true(err.hint[0] != '\0');
		return;
	}
	assert_int_equal(id.caller_uid, geteuid());
	assert_int_equal(id.caller_gid, getegid());
	for (pid_t pid = 1; pid < (1 << 22); pid += 4093) {
		assert_int_not_equal(identity_uid(&id, pid), 0);
		assert_int_not_equal(identity_gid(&id, pid), 0);
		if (!id.may_map) {
			assert_int_equal(identity_uid(&id, pid), geteuid());
			assert_int_equal(identity_gid(&id, pid), getegid());
		}
	}
}

static void two_children_alive_have_two_ids_where_there_is_a_whole_range(void **state)
{
	const struct identity wide = { .may_map = true, .uids = { 0x60000000, 1 << 22 },
				       .gids = { 0x60000000, 1 << 22 } };
	const struct identity narrow = { .may_map = true, .uids = { 7, 2 }, .gids = { 9, 1 } };

	(void)state;
	assert_int_not_equal(identity_uid(&wide, 1), identity_uid(&wide, 2));
	assert_int_equal(identity_uid(&wide, (1 << 22) - 1), 0x60000000 + (1 << 22) - 1);
	assert_in_range(identity_uid(&narrow, 123457), 7, 8);
	assert_int_equal(identity_gid(&narrow, 123457), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(privileges_go_in_the_order_that_security_md_promises),
		cmocka_unit_test(the_child_has_what_needs_its_own_privileges_and_nothing_after_them),
		cmocka_unit_test(a_clone_that_fails_names_a_cause),
		cmocka_unit_test(an_operation_that_fails_says_what_on_what_and_whose_fault),
		cmocka_unit_test(an_index_that_no_plan_has_means_init),
		cmocka_unit_test(too_much_for_execve_is_the_caller_s_to_mend),
		cmocka_unit_test(only_the_shell_s_errors_of_exec_are_results),
		cmocka_unit_test(a_box_is_never_the_host_s_root),
		cmocka_unit_test(two_children_alive_have_two_ids_where_there_is_a_whole_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
