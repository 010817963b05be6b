/* The filters and rulesets of a box without namespaces, as data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "filter.h"
#include "policy/landlock.h"
#include "policy/policy.h"

#define NOTIFIED SECCOMP_RET_USER_NOTIF

struct row {
	const char *name;
	uint64_t args[6];
	uint32_t want;
};

static void check(const struct bpf *b, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (syscall_number(rows[i].name) < 0)
			continue; /* this architecture has no such call */
		if (answer_name(b, rows[i].name, rows[i].args) != rows[i].want)
			fail_msg("row %zu: %s answers %#x, not %#x", i, rows[i].name,
				 answer_name(b, rows[i].name, rows[i].args), rows[i].want);
	}
}

static void nothing_of_the_host_is_shared(void **state)
{
	static const struct row rows[] = {
		{ "shmget", { 0 }, E(ENOSYS) }, { "semop", { 0 }, E(ENOSYS) },
		{ "msgsnd", { 0 }, E(ENOSYS) }, { "mq_open", { 0 }, E(ENOSYS) },
		{ "inotify_add_watch", { 0 }, E(EACCES) },
		{ "prlimit64", { 0 }, ALLOWED }, { "prlimit64", { 5 }, E(EPERM) },
		{ "sched_setaffinity", { 0 }, ALLOWED }, { "sched_setaffinity", { 5 }, E(EPERM) },
		{ "setpriority", { PRIO_PROCESS, 0 }, ALLOWED }, { "setpriority", { PRIO_PGRP, 0 }, ALLOWED },
		{ "setpriority", { PRIO_PROCESS, 5 }, E(EPERM) }, { "setpriority", { PRIO_USER, 0 }, E(EPERM) },
		{ "ioprio_set", { 1, 0 }, E(EPERM) },
		{ "sched_getaffinity", { 5 }, ALLOWED }, { "getpriority", { 0, 5 }, ALLOWED },
		{ "read", { 0 }, ALLOWED }, { "chmod", { 0 }, ALLOWED }, { "kill", { 5, 9 }, ALLOWED },
	};

	(void)state;
	for (int has_sockets = 0; has_sockets < 2; has_sockets++) {
		owned(bpf_free) struct bpf b = { 0 };

		assert_int_equal(seccomp_compile_walls(&b, has_sockets, NULL), 0);
		assert_true(bpf_is_valid(b.insn, b.count));
		check(&b, rows, ARRAY_SIZE(rows));
		assert_int_equal(answer(&b, 1000, NULL), ALLOWED); /* the level's business */
	}
}

static void sockets_are_pairs_unless_somebody_makes_them(void **state)
{
	static const struct row none[] = {
		{ "socket", { AF_UNIX, SOCK_STREAM }, E(EACCES) }, { "socket", { AF_INET, SOCK_STREAM }, E(EACCES) },
		{ "socketpair", { AF_UNIX, SOCK_STREAM }, ALLOWED }, { "socketpair", { AF_UNIX, SOCK_SEQPACKET }, ALLOWED },
		{ "socketpair", { AF_UNIX, SOCK_DGRAM }, E(EPERM) }, { "bind", { 0 }, E(EACCES) },
		{ "connect", { 0 }, E(EACCES) }, { "listen", { 0 }, E(EACCES) }, { "accept4", { 0 }, E(EACCES) },
	};
	owned(bpf_free) struct bpf without = { 0 }, with = { 0 };

	(void)state;
	assert_int_equal(seccomp_compile_walls(&without, false, NULL), 0);
	check(&without, none, ARRAY_SIZE(none));
	assert_int_equal(seccomp_compile_walls(&with, true, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) /* of the payload's own filter */
		assert_int_equal(answer_name(&with, none[i].name, none[i].args), ALLOWED);
}

static struct bpf held(const char *key, const char *value, unsigned what)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };
	struct bpf b = { 0 };

	assert_int_equal(policy_from_profile(&p, "default", &err), 0);
	if (key)
		assert_int_equal(policy_set(&p, key, value, &err), 0);
	assert_int_equal(seccomp_compile_held(&b, &p, what, &err), 0);
	assert_true(bpf_is_valid(b.insn, b.count));
	policy_free(&p);
	return b;
}

static void calls_that_change_files_are_held_for_init(void **state)
{
	static const struct row rows[] = {
		{ "chmod", { 0x1000, 0644 }, NOTIFIED }, { "fchmod", { 3, 0644 }, NOTIFIED },
		{ "fchmodat", { 3, 0x1000, 0644 }, NOTIFIED }, { "utimensat", { 3, 0x1000 }, NOTIFIED },
		{ "utimensat", { 3, 0, 0x1000 }, NOTIFIED }, { "file_setattr", { 0 }, E(ENOSYS) },
		{ "ioctl", { 3, 0x5421 }, ALLOWED }, { "ioctl", { 0, 0x5401 }, ALLOWED }, /* FIONBIO, TCGETS */
		{ "ioctl", { 3, 0x40086602 }, E(ENOTTY) }, { "ioctl", { 3, 0x40806685 }, E(ENOTTY) }, /* flags, verity */
		{ "ioctl", { 3, 0x50009417 }, E(ENOTTY) }, { "ioctl", { 0, 0x5412 }, E(EPERM) }, /* a snapshot; TIOCSTI */
		{ "chown", { 0 }, E(EPERM) }, { "fchown", { 0 }, E(EPERM) }, { "utimes", { 0 }, E(EPERM) },
		{ "setxattr", { 0 }, E(EOPNOTSUPP) }, { "fremovexattr", { 0 }, E(EOPNOTSUPP) },
		{ "userfaultfd", { 0 }, E(EPERM) }, { "mount", { 0 }, E(EPERM) }, { "read", { 0 }, ALLOWED },
	};
	owned(bpf_free) struct bpf b = held(NULL, NULL, SECCOMP_HOLDS_MODES);
	owned(bpf_free) struct bpf denied = held("syscalls.deny", "fchmod", SECCOMP_HOLDS_MODES);
	owned(bpf_free) struct bpf alone = held("process.subprocesses", "false", SECCOMP_HOLDS_MODES);
	owned(bpf_free) struct bpf calls = held(NULL, NULL, SECCOMP_HOLDS_CALLS);

	(void)state;
	check(&b, rows, ARRAY_SIZE(rows));
	assert_int_equal(answer_name(&b, "socket", (uint64_t[6]){ AF_INET, SOCK_STREAM }), ALLOWED);
	assert_int_equal(answer_name(&denied, "fchmod", NULL), E(EPERM));
	assert_int_equal(answer_name(&alone, "fork", NULL), E(EPERM));
	assert_int_equal(answer_name(&b, "fork", NULL), ALLOWED);
	assert_int_equal(answer_name(&calls, "fchmod", (uint64_t[6]){ 3, 0644 }), ALLOWED);
}

static void sockets_are_held_for_the_supervisor(void **state)
{
	static const struct row rows[] = {
		{ "socket", { AF_INET, SOCK_STREAM }, NOTIFIED }, { "socket", { AF_INET6, SOCK_DGRAM }, NOTIFIED },
		{ "socket", { AF_UNIX, SOCK_STREAM }, E(EACCES) }, { "socket", { AF_NETLINK, SOCK_RAW }, E(EAFNOSUPPORT) },
		{ "socket", { AF_INET, SOCK_RAW }, E(EPERM) }, { "connect", { 0 }, NOTIFIED }, { "bind", { 0 }, NOTIFIED },
		{ "listen", { 0 }, NOTIFIED }, { "sendto", { 3, 0, 0, 0, 0 }, ALLOWED },
		{ "sendto", { 3, 0, 0, 0, 0x1000 }, NOTIFIED }, { "sendto", { 3, 0, 0, 0, HIGH }, NOTIFIED },
		{ "sendto", { 3, 0, 0, 0x20000000 }, E(EOPNOTSUPP) }, { "sendmsg", { 0 }, NOTIFIED },
		{ "setsockopt", { 3, 6, 30 }, E(ENOPROTOOPT) }, { "setsockopt", { 3, SOL_SOCKET, SO_KEEPALIVE }, ALLOWED },
		{ "accept", { 0 }, ALLOWED }, { "read", { 0 }, ALLOWED },
	};
	owned(bpf_free) struct bpf b = held(NULL, NULL, SECCOMP_HOLDS_CALLS);
	owned(bpf_free) struct bpf audit = held("syscalls.level", "audit", SECCOMP_HOLDS_CALLS);
	owned(bpf_free) struct bpf strict = held("syscalls.level", "strict", SECCOMP_HOLDS_CALLS);

	(void)state;
	check(&b, rows, ARRAY_SIZE(rows));
	check(&audit, rows, 8); /* code that is only watched is code that nobody has reviewed */
	assert_int_equal(answer_name(&strict, "socket", (uint64_t[6]){ AF_INET, SOCK_STREAM }), E(EPERM));
	assert_int_equal(answer_name(&strict, "fork", NULL), E(EPERM));
}

/* ---------------------------------------------------------------------- Landlock -- */

static void the_payload_gets_the_places_and_init_the_scopes(void **state)
{
	static const struct landlock_place places[] = {
		{ "/usr", PLACE_PROGRAMS, false }, { "/dev/null", PLACE_DEVICE, false },
		{ "/etc/passwd", PLACE_READ, true }, { "/run/x/work", PLACE_WRITE, false },
	};
	static const uint64_t rights[] = { 0xd, 0x8006, 0xc, 0xf7bf };
	const struct landlock_request r = { .abi = 6, .stage = 9 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };
	const struct op *ops;
	struct plan *p;

	(void)state;
	assert_int_equal(landlock_compile_walls(&b, places, ARRAY_SIZE(places), &r, &err), 0);
	p = plan_freeze(&b, &err);
	assert_non_null(p);
	ops = plan_ops(p);
	assert_int_equal(p->op_count, ARRAY_SIZE(places) + 3);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		assert_int_equal(ops[i].kind, OP_LANDLOCK_PATH);
		assert_string_equal(plan_str(p, ops[i].src), places[i].path);
		assert_int_equal(ops[i].n, rights[i]);
		assert_int_equal(ops[i].flags, places[i].is_optional ? OP_OPTIONAL : 0);
	}
	/* Kept for the payload: files, ports (none has a rule), abstract sockets, signals. */
	assert_int_equal(ops[4].kind, OP_LANDLOCK);
	assert_int_equal(ops[4].flags, OP_KEEP);
	assert_int_equal(ops[4].n, 0xffff);
	assert_int_equal(ops[4].m, 3ull << 32 | 3);
	/* At once: scopes, and REFER everywhere, which else is refused. */
	assert_int_equal(ops[5].n, 0x2000);
	assert_string_equal(plan_str(p, ops[5].src), "/");
	assert_int_equal(ops[6].kind, OP_LANDLOCK);
	assert_int_equal(ops[6].flags, 0);
	assert_int_equal(ops[6].n, 0x2000);
	assert_int_equal(ops[6].m, 3);
	free(p);
}

static void an_abi_without_scopes_is_refused(void **state)
{
	const struct landlock_request r = { .abi = LANDLOCK_WALLS_ABI - 1 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };

	(void)state;
	assert_int_equal(landlock_compile_walls(&b, NULL, 0, &r, &err), NSBOX_E_UNSUPPORTED);
	assert_int_equal(b.op_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_the_host_is_shared),
		cmocka_unit_test(sockets_are_pairs_unless_somebody_makes_them),
		cmocka_unit_test(calls_that_change_files_are_held_for_init),
		cmocka_unit_test(sockets_are_held_for_the_supervisor),
		cmocka_unit_test(the_payload_gets_the_places_and_init_the_scopes),
		cmocka_unit_test(an_abi_without_scopes_is_refused),
	};

	return cmocka_run_group_tests_name("walls", tests, NULL, NULL);
}
