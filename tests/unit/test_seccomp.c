/* What the filter of every level answers, row by row, and what the program looks like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/unit/filter.h"

enum {
	STRICT = 1 << LEVEL_STRICT, DEFAULT = 1 << LEVEL_DEFAULT, BUILD = 1 << LEVEL_BUILD,
	DEBUG = 1 << LEVEL_DEBUG, AUDIT = 1 << LEVEL_AUDIT,
	ALL = STRICT | DEFAULT | BUILD | DEBUG | AUDIT,
};

/* --- rows ---------------------------------------------------------------- */

struct call {
	const char *name;
	uint64_t args[6];
};

/* A call that is not simply allowed, next to one that differs in what matters. */
static const struct row {
	unsigned levels;
	uint32_t want;
	struct call call;
	uint32_t neighbour_want;
	struct call neighbour;
} rows[] = {
#define DENY(levels, want, ...) { levels, want, __VA_ARGS__ }
	/* namespaces */
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWUSER | 17 } }, ALLOWED, { "clone", { 17 } }),
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWNS } }, ALLOWED, { "clone", { CLONE_VM } }),
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWPID } }, ALLOWED, { "clone", { CLONE_FS } }),
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWNET } }, ALLOWED, { "clone", { CLONE_VFORK } }),
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWIPC } }, ALLOWED, { "clone", { 0x80 } }),
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWUTS } }, ALLOWED, { "clone", { CLONE_IO } }),
	DENY(ALL, E(EPERM), { "clone", { CLONE_NEWCGROUP } }, ALLOWED, { "clone", { 0x3d0f00 } }),
	DENY(ALL, E(EPERM), { "clone", { HIGH | CLONE_NEWUSER } }, ALLOWED, { "clone", { HIGH } }),
	DENY(ALL, E(EPERM), { "unshare", { CLONE_NEWUSER } }, ALLOWED, { "unshare", { CLONE_FILES } }),
	DENY(ALL, E(EPERM), { "unshare", { 0x80 } }, ALLOWED, { "unshare", { CLONE_FS } }),
	DENY(ALL, E(EPERM), { "unshare", { HIGH | CLONE_NEWNS } }, ALLOWED, { "unshare", { 0 } }),
	DENY(ALL, E(ENOSYS), { "clone3", { 0 } }, ALLOWED, { "fork", { 0 } }),
	DENY(ALL, E(EPERM), { "setns", { 0 } }, ALLOWED, { "getpid", { 0 } }),

	/* setuid and setgid bits */
	DENY(ALL, E(EPERM), { "chmod", { 0, 04755 } }, ALLOWED, { "chmod", { 0, 01777 } }),
	DENY(ALL, E(EPERM), { "chmod", { 0, 02755 } }, ALLOWED, { "chmod", { 04000, 0755 } }),
	DENY(ALL, E(EPERM), { "chmod", { 0, HIGH | 04755 } }, ALLOWED, { "chmod", { 0, HIGH } }),
	DENY(ALL, E(EPERM), { "fchmod", { 0, 06000 } }, ALLOWED, { "fchmod", { 0, 0777 } }),
	DENY(ALL, E(EPERM), { "fchmodat", { 0, 0, 04000 } }, ALLOWED, { "fchmodat", { 0, 04000, 0 } }),
	DENY(ALL, E(EPERM), { "fchmodat2", { 0, 0, 02000 } }, ALLOWED,
	     { "fchmodat2", { 0, 0, 0777, 02000 } }),
	DENY(ALL, E(EPERM), { "creat", { 0, 04711 } }, ALLOWED, { "creat", { 0, 0711 } }),
	DENY(ALL, E(EPERM), { "mkdir", { 0, 02775 } }, ALLOWED, { "mkdir", { 0, 01777 } }),
	DENY(ALL, E(EPERM), { "mkdirat", { 0, 0, 02775 } }, ALLOWED, { "mkdirat", { 0, 02775, 0775 } }),
	DENY(ALL, E(EPERM), { "open", { 0, O_CREAT | O_WRONLY, 04755 } }, ALLOWED,
	     { "open", { 0, O_WRONLY, 04755 } }),
	DENY(ALL, E(EPERM), { "open", { 0, HIGH | O_CREAT, HIGH | 02755 } }, ALLOWED,
	     { "open", { 0, O_CREAT, 0755 } }),
	DENY(ALL, E(EPERM), { "open", { 0, O_TMPFILE | O_RDWR, 04755 } }, ALLOWED,
	     { "open", { 0, O_DIRECTORY, 04755 } }),
	DENY(ALL, E(EPERM), { "openat", { 0, 0, O_CREAT, 04755 } }, ALLOWED,
	     { "openat", { 0, 0, 0, 04755 } }),
	DENY(ALL, E(EPERM), { "openat", { 0, 0, O_TMPFILE, 02755 } }, ALLOWED,
	     { "openat", { 0, 0, O_TMPFILE, 0755 } }),
	DENY(ALL, E(ENOSYS), { "openat2", { 0 } }, ALLOWED, { "openat", { 0 } }),
	DENY(ALL, E(EPERM), { "mknod", { 0, S_IFIFO | 04755 } }, ALLOWED, { "mknod", { 0, S_IFIFO | 0755 } }),
	DENY(ALL, E(EPERM), { "mknodat", { 0, 0, S_IFREG | 02755 } }, ALLOWED,
	     { "mknodat", { 0, 0, S_IFREG | 0755 } }),

	/* device nodes: S_IFBLK contains the bits of S_IFCHR */
	DENY(ALL, E(EPERM), { "mknod", { 0, S_IFCHR | 0600 } }, ALLOWED, { "mknod", { 0, S_IFSOCK | 0600 } }),
	DENY(ALL, E(EPERM), { "mknod", { 0, S_IFBLK | 0600 } }, ALLOWED, { "mknod", { 0, S_IFREG | 0600 } }),
	DENY(ALL, E(EPERM), { "mknod", { 0, HIGH | S_IFCHR } }, ALLOWED, { "mknod", { 0, HIGH } }),
	DENY(ALL, E(EPERM), { "mknodat", { 0, 0, S_IFCHR } }, ALLOWED, { "mknodat", { 0, S_IFCHR, S_IFIFO } }),
	DENY(ALL, E(EPERM), { "mknodat", { 0, 0, S_IFBLK } }, ALLOWED, { "mknodat", { 0, 0, 0644 } }),

	/* terminals */
	DENY(ALL, E(EPERM), { "ioctl", { 0, TIOCSTI } }, ALLOWED, { "ioctl", { 0, TIOCGWINSZ } }),
	DENY(ALL, E(EPERM), { "ioctl", { 0, HIGH | TIOCSTI } }, ALLOWED, { "ioctl", { TIOCSTI, TCGETS } }),
	DENY(ALL, E(EPERM), { "ioctl", { 0, 0xffffffff00000000ull | TIOCLINUX } }, ALLOWED,
	     { "ioctl", { 0, TIOCLINUX - 1 } }),
	DENY(ALL, E(EPERM), { "ioctl", { 0, TIOCLINUX } }, ALLOWED, { "ioctl", { 0, FIONREAD } }),
	DENY(ALL, E(EPERM), { "ioctl", { 0, TIOCCONS } }, ALLOWED, { "ioctl", { 0, TIOCCONS + 1 } }),
	DENY(ALL, E(EPERM), { "ioctl", { 0, TIOCSETD } }, ALLOWED, { "ioctl", { 0, TIOCGETD } }),

	/* sockets */
#define NET (ALL & ~STRICT)
	DENY(NET, E(EAFNOSUPPORT), { "socket", { 40, 1, 0 } }, ALLOWED, { "socket", { AF_UNIX, 1, 0 } }),
	DENY(NET, E(EAFNOSUPPORT), { "socket", { 38, 5, 0 } }, ALLOWED, { "socket", { AF_INET, 1, 0 } }),
	DENY(NET, E(EAFNOSUPPORT), { "socket", { AF_PACKET, 2, 0 } }, ALLOWED,
	     { "socket", { AF_INET6, 2 | SOCK_CLOEXEC | SOCK_NONBLOCK, 17 } }),
	DENY(NET, E(EAFNOSUPPORT), { "socket", { 0, 1, 0 } }, ALLOWED, { "socket", { HIGH | AF_UNIX, 2, 0 } }),
	DENY(NET, E(EAFNOSUPPORT), { "socket", { HIGH | 40, 1, 0 } }, ALLOWED,
	     { "socket", { AF_INET, 2, IPPROTO_ICMP } }),
	DENY(NET, E(EPROTONOSUPPORT), { "socket", { AF_NETLINK, 3, 6 } }, ALLOWED,
	     { "socket", { AF_NETLINK, 3, 0 } }),
	DENY(NET, E(EPROTONOSUPPORT), { "socket", { AF_NETLINK, 3, 12 } }, ALLOWED,
	     { "socket", { AF_NETLINK, 2, HIGH } }),
	DENY(NET, E(EPROTONOSUPPORT), { "socket", { AF_INET, 1, 132 } }, ALLOWED,
	     { "socket", { AF_INET, 1, IPPROTO_TCP } }),
	DENY(NET, E(EPROTONOSUPPORT), { "socket", { AF_INET, 1, 262 } }, ALLOWED,
	     { "socket", { AF_INET6, 2, IPPROTO_ICMPV6 } }),
	DENY(NET, E(EPERM), { "socket", { AF_INET, SOCK_RAW, 1 } }, ALLOWED, { "socket", { AF_INET, 2, 1 } }),
	DENY(NET, E(EPERM), { "socket", { AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 255 } }, ALLOWED,
	     { "socket", { AF_NETLINK, SOCK_RAW, 0 } }),
	DENY(NET, E(ESOCKTNOSUPPORT), { "socket", { AF_INET, 6, 33 } }, ALLOWED, { "socket", { AF_INET, 2, 0 } }),
	DENY(NET, E(ESOCKTNOSUPPORT), { "socket", { AF_INET, 10, 0 } }, ALLOWED, { "socket", { AF_INET, 1, 0 } }),
	DENY(NET, E(ESOCKTNOSUPPORT), { "socket", { AF_INET, 5, 0 } }, ALLOWED, { "socket", { AF_UNIX, 5, 0 } }),
	DENY(ALL, E(EAFNOSUPPORT), { "socketpair", { AF_INET, 1, 0 } }, ALLOWED,
	     { "socketpair", { AF_UNIX, 1 | SOCK_CLOEXEC, 0 } }),
	DENY(ALL, E(EAFNOSUPPORT), { "socketpair", { 30, 5, 0 } }, ALLOWED, { "socketpair", { AF_UNIX, 5, 0 } }),
	DENY(ALL, E(ENOPROTOOPT), { "setsockopt", { 3, 6, 31 } }, ALLOWED, { "setsockopt", { 3, 6, 1 } }),
	DENY(ALL, E(ENOPROTOOPT), { "setsockopt", { 3, HIGH | 6, HIGH | 31 } }, ALLOWED,
	     { "setsockopt", { 3, 1, 31 } }),
	DENY(ALL, E(ENOPROTOOPT), { "setsockopt", { 3, 17, 100 } }, ALLOWED, { "setsockopt", { 3, 17, 103 } }),
	DENY(STRICT, E(EPERM), { "socket", { AF_UNIX, 1, 0 } }, ALLOWED, { "socketpair", { AF_UNIX, 1, 0 } }),
	DENY(STRICT, E(EPERM), { "socket", { AF_INET, 1, 0 } }, ALLOWED, { "getsockopt", { 0 } }),
	DENY(STRICT, E(EPERM), { "socketpair", { AF_UNIX, 2, 0 } }, ALLOWED, { "socketpair", { AF_UNIX, 5, 0 } }),
	DENY(STRICT, E(EPERM), { "connect", { 0 } }, ALLOWED, { "sendmsg", { 0 } }),
	DENY(STRICT, E(EPERM), { "bind", { 0 } }, ALLOWED, { "getsockname", { 0 } }),
	DENY(STRICT, E(EPERM), { "listen", { 0 } }, ALLOWED, { "shutdown", { 0 } }),
	DENY(STRICT, E(EPERM), { "accept4", { 0 } }, ALLOWED, { "recvmsg", { 0 } }),

	/* what a level opens */
	DENY(ALL & ~DEBUG, E(EPERM), { "ptrace", { 16 } }, ALLOWED, { "prctl", { 4 } }),
	DENY(ALL & ~DEBUG, E(EPERM), { "process_vm_readv", { 0 } }, ALLOWED, { "readv", { 0 } }),
	DENY(ALL & ~DEBUG, E(EPERM), { "process_vm_writev", { 0 } }, ALLOWED, { "writev", { 0 } }),
	DENY(ALL & ~DEBUG, E(EPERM), { "kcmp", { 0 } }, ALLOWED, { "kill", { 0 } }),
	DENY(DEBUG, E(EPERM), { "pidfd_getfd", { 0 } }, ALLOWED, { "ptrace", { 16 } }),
	DENY(DEBUG, E(EPERM), { "process_madvise", { 0 } }, ALLOWED, { "process_vm_readv", { 0 } }),
	DENY(ALL & ~AUDIT, E(EPERM), { "personality", { 8 } }, ALLOWED, { "personality", { 0 } }),
	DENY(ALL & ~AUDIT & ~DEBUG, E(EPERM), { "personality", { 0x0040000 } }, ALLOWED,
	     { "personality", { 0xffffffff } }),
	DENY(DEBUG, E(EPERM), { "personality", { 0x0440000 } }, ALLOWED, { "personality", { 0x0040000 } }),
	DENY(AUDIT, LOGGED, { "personality", { 8 } }, ALLOWED, { "personality", { 0 } }),
	DENY(AUDIT, LOGGED, { "io_setup", { 0 } }, E(ENOSYS), { "io_uring_setup", { 0 } }),
	DENY(AUDIT, LOGGED, { "userfaultfd", { 0 } }, E(EPERM), { "mount", { 0 } }),
	DENY(AUDIT, LOGGED, { "name_to_handle_at", { 0 } }, E(EPERM), { "open_by_handle_at", { 0 } }),

	/* supervisors of filters */
	DENY(ALL, E(EPERM), { "seccomp", { 1, 8 } }, ALLOWED, { "seccomp", { 1, 0 } }),
	DENY(ALL, E(EPERM), { "seccomp", { 1, HIGH | 9 } }, ALLOWED, { "seccomp", { 1, 1 } }),

	/* plain answers; audit has rows of its own above */
#define PLAIN(n, name, other) DENY(ALL, E(n), { name, { 0 } }, ALLOWED, { other, { 0 } })
#define LIFTABLE(n, name, other) DENY(ALL & ~AUDIT, E(n), { name, { 0 } }, ALLOWED, { other, { 0 } })
	PLAIN(EPERM, "mount", "sync"),
	PLAIN(EPERM, "umount2", "umask"),
	PLAIN(EPERM, "pivot_root", "chdir"),
	PLAIN(EPERM, "chroot", "chown"),
	PLAIN(EPERM, "open_tree", "pidfd_send_signal"),
	PLAIN(EPERM, "move_mount", "pidfd_open"),
	PLAIN(EPERM, "mount_setattr", "epoll_pwait2"),
	PLAIN(EPERM, "open_tree_attr", "removexattrat"),
	PLAIN(EPERM, "bpf", "memfd_create"),
	PLAIN(EPERM, "perf_event_open", "recvmmsg"),
	PLAIN(EPERM, "kexec_load", "waitid"),
	PLAIN(EPERM, "init_module", "gettid"),
	PLAIN(EPERM, "finit_module", "sched_setattr"),
	PLAIN(EPERM, "clock_settime", "clock_gettime"),
	PLAIN(EPERM, "settimeofday", "gettimeofday"),
	PLAIN(EPERM, "sethostname", "uname"),
	PLAIN(EPERM, "reboot", "sync"),
	PLAIN(EPERM, "iopl", "sched_yield"),
	PLAIN(EPERM, "syslog", "sysinfo"),
	PLAIN(EPERM, "pidfd_getfd", "faccessat2"),
	PLAIN(ENOSYS, "io_uring_setup", "pidfd_send_signal"),
	PLAIN(ENOSYS, "keyctl", "ioprio_set"),
	PLAIN(ENOSYS, "add_key", "ioprio_get"),
	PLAIN(ENOSYS, "request_key", "mq_getsetattr"),
	LIFTABLE(EPERM, "vmsplice", "splice"),
	LIFTABLE(EPERM, "move_pages", "mbind"),
	LIFTABLE(EPERM, "fanotify_init", "inotify_init1"),
	LIFTABLE(ENOSYS, "memfd_secret", "memfd_create"),
	LIFTABLE(ENOSYS, "modify_ldt", "arch_prctl"),
	LIFTABLE(ENOSYS, "remap_file_pages", "mremap"),
	LIFTABLE(ENOSYS, "cachestat", "mincore"),
	LIFTABLE(ENOSYS, "statmount", "statfs"),
	LIFTABLE(ENOSYS, "file_setattr", "mseal"),
};

static void check_call(const struct bpf *b, int level, const struct call *c, uint32_t want)
{
	uint32_t got = answer_name(b, c->name, c->args);

	if (got != want)
		fail_msg("level %d: %s(0x%llx, 0x%llx, 0x%llx, 0x%llx) is 0x%x, not 0x%x", level,
			 c->name, (unsigned long long)c->args[0], (unsigned long long)c->args[1],
			 (unsigned long long)c->args[2], (unsigned long long)c->args[3], got, want);
}

static void every_row_and_its_neighbour_answer_at_every_level(void **state)
{
	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		owned(bpf_free) struct bpf b = compiled(level, NULL, NULL);

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			if (!(rows[i].levels & 1u << level))
				continue;
			check_call(&b, level, &rows[i].call, rows[i].want);
			check_call(&b, level, &rows[i].neighbour, rows[i].neighbour_want);
		}
	}
}

static void every_socket_family_but_four_is_refused(void **state)
{
	owned(bpf_free) struct bpf b = compiled(LEVEL_DEFAULT, NULL, NULL);

	(void)state;
	for (uint64_t family = 0; family < 300; family++) {
		uint64_t args[6] = { family, SOCK_DGRAM, 0 };
		bool is_open = family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
			       family == AF_NETLINK;

		assert_int_equal(answer_name(&b, "socket", args),
				 is_open ? ALLOWED : E(EAFNOSUPPORT));
	}
}

static void build_is_the_filter_of_default(void **state)
{
	owned(bpf_free) struct bpf a = compiled(LEVEL_DEFAULT, NULL, NULL);
	owned(bpf_free) struct bpf b = compiled(LEVEL_BUILD, NULL, NULL);

	(void)state;
	assert_int_equal(a.count, b.count);
	assert_memory_equal(a.insn, b.insn, a.count * sizeof(*a.insn));
}

/* --- numbers and architectures ------------------------------------------- */

static void unknown_numbers_do_not_exist(void **state)
{
	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		owned(bpf_free) struct bpf b = compiled(level, NULL, NULL);

		for (uint32_t nr = 0; nr < 2000; nr++)
			if (!syscall_name((int)nr))
				assert_int_equal(answer(&b, nr, NULL), E(ENOSYS));
		assert_int_equal(answer(&b, 0x3fffffff, NULL), E(ENOSYS));
		assert_int_equal(answer(&b, UINT32_MAX, NULL), E(ENOSYS));
	}
}

static void foreign_architectures_are_killed_at_every_level(void **state)
{
	static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, 0, 1, UINT32_MAX };
	owned(bpf_free) struct bpf threads = { 0 };

	(void)state;
	assert_int_equal(seccomp_compile_no_fork(&threads, NULL), 0);
	for (int level = 0; level <= LEVEL_COUNT; level++) {
		owned(bpf_free) struct bpf own = compiled(level % LEVEL_COUNT, NULL, NULL);
		const struct bpf *b = level == LEVEL_COUNT ? &threads : &own;
		struct seccomp_data d = { .nr = syscall_number("getpid"),
					  .arch = seccomp_native.audit_arch };

		assert_int_equal(bpf_evaluate(b->insn, b->count, &d), ALLOWED);
		for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
			d.arch = foreign[i];
			assert_int_equal(bpf_evaluate(b->insn, b->count, &d), KILLED);
		}
	}
}

static void x32_numbers_are_killed(void **state)
{
	owned(bpf_free) struct bpf b = compiled(LEVEL_AUDIT, NULL, NULL);

	(void)state;
	if (!seccomp_native.foreign_bit) {
		print_message("# skip: this architecture has no x32\n");
		skip();
	}
	for (uint32_t nr = 0; nr < 600; nr++)
		assert_int_equal(answer(&b, 0x40000000u | nr, NULL), KILLED);
	assert_int_equal(answer(&b, 0x80000001u, NULL), KILLED);
}

static int count_name(int number, void *context)
{
	((unsigned *)context)[number]++;
	return 0;
}

static void every_known_call_has_exactly_one_rule(void **state)
{
	unsigned seen[SYSCALL_LIMIT] = { 0 };

	(void)state;
	for (size_t i = 0; i < seccomp_group_count; i++)
		seccomp_each_name(seccomp_groups[i].names, count_name, seen);
	for (int nr = 0; nr < SYSCALL_LIMIT; nr++)
		if (seen[nr] != (syscall_name(nr) ? 1 : 0))
			fail_msg("%s has %u rules", syscall_name(nr), seen[nr]);
}

static void check_names(const char *names)
{
	char copy[2048], *rest = copy;

	assert_true(strlen(names) < sizeof(copy));
	strcpy(copy, names);
	for (char *name; (name = strsep(&rest, " "));)
		if (syscall_number(name) < 0)
			fail_msg("a rule names \"%s\", which does not exist", name);
}

static void rules_contain_no_misspelt_name(void **state)
{
	(void)state;
	if (seccomp_native.audit_arch != AUDIT_ARCH_X86_64) {
		print_message("# skip: only x86-64 has every name of the rules\n");
		skip();
	}
	for (size_t i = 0; i < seccomp_group_count; i++)
		check_names(seccomp_groups[i].names);
	for (size_t i = 0; i < seccomp_override_count; i++)
		check_names(seccomp_overrides[i].names);
	check_names(seccomp_undeniable);
}

/* --- the program --------------------------------------------------------- */

static void a_level_that_does_not_exist_is_an_error(void **state)
{
	struct bpf b = { 0 };
	size_t count = 7;

	(void)state;
	assert_int_equal(seccomp_compile(&b, -1, NULL, NULL, NULL), NSBOX_E_USAGE);
	assert_int_equal(seccomp_compile(&b, LEVEL_COUNT, NULL, NULL, NULL), NSBOX_E_USAGE);
	assert_null(seccomp_builtin(-1, &count));
	assert_null(seccomp_builtin(LEVEL_COUNT, &count));
	assert_int_equal(count, 7);
}

static void the_second_filter_lets_threads_through_and_no_process(void **state)
{
	owned(bpf_free) struct bpf b = { 0 };
	const uint64_t thread[6] = { CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD };
	const uint64_t vfork[6] = { CLONE_VM | CLONE_VFORK | 17 }, high[6] = { HIGH | 17 };

	(void)state;
	assert_int_equal(seccomp_compile_no_fork(&b, NULL), 0);
	assert_int_equal(answer_name(&b, "fork", NULL), E(EPERM));
	assert_int_equal(answer_name(&b, "vfork", NULL), E(EPERM));
	assert_int_equal(answer_name(&b, "clone3", NULL), E(ENOSYS));
	assert_int_equal(answer_name(&b, "memfd_create", NULL), E(ENOSYS));
	assert_int_equal(answer_name(&b, "clone", vfork), E(EPERM));
	assert_int_equal(answer_name(&b, "clone", high), E(EPERM));
	assert_int_equal(answer_name(&b, "clone", thread), ALLOWED);
	assert_int_equal(answer_name(&b, "execve", NULL), ALLOWED);
	assert_int_equal(answer_name(&b, "read", NULL), ALLOWED);
	assert_int_equal(answer(&b, 1000, NULL), ALLOWED); /* the first filter's business */
	assert_true(b.count < 20);
}

static void builtin_programs_equal_what_the_compiler_gives(void **state)
{
	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		owned(bpf_free) struct bpf b = compiled(level, NULL, NULL);
		size_t count = 0;
		const struct sock_filter *builtin = seccomp_builtin(level, &count);

		assert_non_null(builtin);
		assert_int_equal(count, b.count);
		assert_memory_equal(builtin, b.insn, count * sizeof(*builtin));
		assert_true(bpf_is_valid(b.insn, b.count));
		print_message("# level %d: %zu instructions\n", level, count);
		assert_true(count <= 170);
	}
}

static uint32_t plain_answer(uint16_t a)
{
	return a == ANSWER_ALLOW ? ALLOWED : a == ANSWER_LOG ? LOGGED : E((uint32_t)a);
}

/* Torn as no policy is, so that jumps go beyond 255 and just about beyond. */
static void torn_answers(uint16_t answers[SYSCALL_LIMIT], uint64_t *seed)
{
	static const uint16_t values[] = { ANSWER_ALLOW, EPERM, ENOSYS, ANSWER_LOG, EACCES,
					   ENOENT, EINVAL };
	uint64_t run = *seed % 7 + 1, left = 0;
	uint16_t value = 0;

	for (uint32_t nr = 0; nr < SYSCALL_LIMIT; nr++, left--) {
		*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
		if (left == 0) {
			left = 1 + (*seed >> 33) % run;
			value = values[(*seed >> 40) % ARRAY_SIZE(values)];
		}
		answers[nr] = value;
	}
}

static void a_program_with_far_jumps_still_answers_right(void **state)
{
	uint64_t seed = 1;
	size_t largest = 0;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		owned(bpf_free) struct bpf b = { 0 };
		uint16_t answers[SYSCALL_LIMIT];

		torn_answers(answers, &seed);
		assert_int_equal(seccomp_emit(&b, answers, EIO, NULL), 0);
		assert_true(bpf_is_valid(b.insn, b.count));
		for (uint32_t nr = 0; nr < SYSCALL_LIMIT; nr++)
			if (answer(&b, nr, NULL) != plain_answer(answers[nr]))
				fail_msg("round %u: wrong answer for %u", round, nr);
		assert_int_equal(answer(&b, SYSCALL_LIMIT, NULL), E(EIO));
		assert_int_equal(answer(&b, UINT32_MAX, NULL), E(EIO));
		if (b.count > largest)
			largest = b.count;
	}
	assert_true(largest > 2 * 255);
}

static void malformed_programs_are_refused_and_kill(void **state)
{
	static const struct sock_filter good[] = {
		{ 0x20, 0, 0, 0 }, { 0x15, 0, 1, 39 }, { 0x06, 0, 0, ALLOWED }, { 0x06, 0, 0, E(1) },
	};
	static const struct sock_filter bad[][2] = {
		{ { 0x20, 0, 0, 64 }, { 0x06, 0, 0, ALLOWED } },	/* behind the data */
		{ { 0x20, 0, 0, 2 }, { 0x06, 0, 0, ALLOWED } },		/* not aligned */
		{ { 0x28, 0, 0, 0 }, { 0x06, 0, 0, ALLOWED } },		/* half word */
		{ { 0x15, 1, 1, 0 }, { 0x06, 0, 0, ALLOWED } },		/* out of the program */
		{ { 0x05, 0, 0, UINT32_MAX }, { 0x06, 0, 0, ALLOWED } },
		{ { 0x60, 0, 0, 16 }, { 0x06, 0, 0, ALLOWED } },	/* no such memory word */
		{ { 0x34, 0, 0, 0 }, { 0x06, 0, 0, ALLOWED } },		/* division by zero */
		{ { 0xffff, 0, 0, 0 }, { 0x06, 0, 0, ALLOWED } },
	};
	static const struct sock_filter endless[] = { { 0x20, 0, 0, 0 } };
	struct seccomp_data d = { .nr = 39 };

	(void)state;
	assert_true(bpf_is_valid(good, 4));
	assert_int_equal(bpf_evaluate(good, 4, &d), ALLOWED);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(bpf_is_valid(bad[i], 2));
		assert_int_equal(bpf_evaluate(bad[i], 2, &d), KILLED);
	}
	assert_false(bpf_is_valid(endless, 1));
	assert_int_equal(bpf_evaluate(endless, 1, &d), KILLED);
	assert_false(bpf_is_valid(good, 0));
	assert_int_equal(bpf_evaluate(good, 0, &d), KILLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_and_its_neighbour_answer_at_every_level),
		cmocka_unit_test(every_socket_family_but_four_is_refused),
		cmocka_unit_test(build_is_the_filter_of_default),
		cmocka_unit_test(unknown_numbers_do_not_exist),
		cmocka_unit_test(foreign_architectures_are_killed_at_every_level),
		cmocka_unit_test(x32_numbers_are_killed),
		cmocka_unit_test(every_known_call_has_exactly_one_rule),
		cmocka_unit_test(rules_contain_no_misspelt_name),
		cmocka_unit_test(a_level_that_does_not_exist_is_an_error),
		cmocka_unit_test(the_second_filter_lets_threads_through_and_no_process),
		cmocka_unit_test(builtin_programs_equal_what_the_compiler_gives),
		cmocka_unit_test(a_program_with_far_jumps_still_answers_right),
		cmocka_unit_test(malformed_programs_are_refused_and_kill),
	};

	return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
