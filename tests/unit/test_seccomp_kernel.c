/*
 * The filters on this kernel: real calls in a child, each made before the filter is
 * loaded (the control: it works, or fails for another reason) and after.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/filter.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

/* --- acts: 0, or an errno ------------------------------------------------ */

static char folder[] = "/tmp/nsbox-test-XXXXXX";
static int terminal;	/* a pty of the test's own: nothing typed reaches anybody */

static int outcome(long r)
{
	return r < 0 ? errno : 0;
}

static int closed(long fd)
{
	int r = outcome(fd);

	if (r == 0)
		close((int)fd);
	return r;
}

/* Makes and removes: may be repeated. */
static int created(long fd, const char *name)
{
	int r = closed(fd);

	unlink(name);
	rmdir(name);
	return r;
}

static int status_of(pid_t pid)
{
	int status;

	if (pid < 0)
		return errno;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

/* In a process of its own: the namespace is gone with it. */
static int new_namespace(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(outcome(unshare(CLONE_NEWUSER)));
	return status_of(pid);
}

static int cloned(unsigned long flags)
{
	pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return status_of(pid);
}
static int new_namespace_by_clone(void) { return cloned(CLONE_NEWUSER); }
static int plain_clone(void) { return cloned(0); }

static int clone3_call(void)
{
	struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, size, tls; }
		args = { .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	return status_of(pid);
}

static int typed(unsigned long request)
{
	return outcome(syscall(SYS_ioctl, terminal, request, "x"));
}
static int tiocsti(void) { return typed(TIOCSTI); }
static int tiocsti_high(void) { return typed(TIOCSTI | 1ul << 32); }
static int tiocsetd(void)
{
	int tty = 0; /* N_TTY, what it is already */

	return outcome(ioctl(terminal, TIOCSETD, &tty));
}
static int window_size(void)
{
	struct winsize ws;

	return outcome(ioctl(terminal, TIOCGWINSZ, &ws));
}

static int create_setuid(void) { return created(open("f", O_CREAT | O_WRONLY, 04755), "f"); }
static int create_setgid(void) { return created(openat(AT_FDCWD, "f", O_CREAT | O_WRONLY, 02755), "f"); }
static int create_plain(void) { return created(open("f", O_CREAT | O_WRONLY, 0755), "f"); }
static int tmpfile_setuid(void) { return closed(open(".", O_TMPFILE | O_WRONLY, 04755)); }
static int tmpfile_plain(void) { return closed(open(".", O_TMPFILE | O_WRONLY, 0755)); }
static int creat_setuid(void) { return created(syscall(SYS_creat, "f", 04755), "f"); }
static int open_with_junk_mode(void) { return closed(syscall(SYS_open, "/", O_RDONLY, 04755)); }
static int chmod_setuid(void) { return outcome(syscall(SYS_chmod, ".", 04755)); }
static int chmod_plain(void) { return outcome(syscall(SYS_chmod, ".", 0700)); }
static int fchmodat_setgid(void) { return outcome(syscall(SYS_fchmodat, AT_FDCWD, ".", 02755)); }
static int fchmodat2_setuid(void) { return outcome(syscall(SYS_fchmodat2, AT_FDCWD, ".", 04755, 0)); }
static int fchmodat2_plain(void) { return outcome(syscall(SYS_fchmodat2, AT_FDCWD, ".", 0700, 0)); }
static int mkdir_setgid(void) { return created(outcome(mkdir("d", 02755)) ? -1 : open("d", O_PATH), "d"); }
static int mknod_setuid_fifo(void) { return created(mknod("p", S_IFIFO | 04600, 0) < 0 ? -1 : open("p", O_PATH), "p"); }
static int mknod_fifo(void) { return created(mknod("p", S_IFIFO | 0600, 0) < 0 ? -1 : open("p", O_PATH), "p"); }
/* Device 0:0 of a whiteout: every user may make it, and it opens nothing. */
static int mknod_whiteout(void) { return created(mknod("w", S_IFCHR | 0600, 0) < 0 ? -1 : open("w", O_PATH), "w"); }

static int openat2_call(void)
{
	uint64_t how[3] = { O_PATH, 0, 0 };

	return closed(syscall(SYS_openat2, AT_FDCWD, "/", how, sizeof(how)));
}

static int opened_socket(int family, int type, int protocol)
{
	return closed(socket(family, type | SOCK_CLOEXEC, protocol));
}
static int unix_socket(void) { return opened_socket(AF_UNIX, SOCK_STREAM, 0); }
static int inet_socket(void) { return opened_socket(AF_INET, SOCK_STREAM, 0); }
static int route_socket(void) { return opened_socket(AF_NETLINK, SOCK_RAW, 0); }
static int vsock(void) { return opened_socket(40, SOCK_STREAM, 0); }
static int uevent_socket(void) { return opened_socket(AF_NETLINK, SOCK_RAW, 15); }
static int mptcp_socket(void) { return opened_socket(AF_INET, SOCK_STREAM, 262); }

static int pair_of(int type)
{
	int fds[2], r = outcome(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds));

	if (r == 0) {
		close(fds[0]);
		close(fds[1]);
	}
	return r;
}
static int stream_pair(void) { return pair_of(SOCK_STREAM); }
static int datagram_pair(void) { return pair_of(SOCK_DGRAM); }

static int tcp_ulp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = outcome(setsockopt(fd, IPPROTO_TCP, 31, "none", 4));

	close(fd);
	return r == ENOENT || r == ENOTCONN ? 0 : r; /* it reached the protocol */
}

static int io_uring(void)
{
	int r = outcome(syscall(SYS_io_uring_setup, 0, NULL));

	return r == EINVAL || r == EFAULT ? 0 : r;
}

static int keyctl_call(void)
{
	int r = outcome(syscall(SYS_keyctl, 0, -3, 0)); /* id of the session keyring */

	return r == ENOKEY ? 0 : r;
}

static int traced(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL)));
	return status_of(pid);
}

/* Malformed, so that nothing happens; only the listener flag tells them apart. */
static int seccomp_flags(unsigned long flags)
{
	int r = outcome(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, NULL));

	return r == EFAULT ? 0 : r;
}
static int seccomp_listener(void) { return seccomp_flags(8); }
static int seccomp_plain(void) { return seccomp_flags(0); }

static int personality_call(void) { return outcome(syscall(SYS_personality, 0xffffffff)); }
static int personality_norandom(void)
{
	long old = syscall(SYS_personality, 0xffffffff);
	int r = outcome(syscall(SYS_personality, 0x0040000));

	if (r == 0)
		syscall(SYS_personality, old);
	return r;
}

static void *nothing(void *p) { return p; }
static int a_thread(void)
{
	pthread_t t;
	int r = pthread_create(&t, NULL, nothing, NULL);

	return r ? r : pthread_join(t, NULL);
}

static int forked(void)
{
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (pid == 0)
		_exit(0);
	return status_of(pid);
}

static int memory_file(void) { return closed(memfd_create("x", MFD_CLOEXEC)); }
static int own_group(void) { return outcome(syscall(SYS_getpgid, 0)); }

/* --- tables -------------------------------------------------------------- */

struct act {
	const char *name;
	int (*run)(void);
	int want;	/* errno under the filter */
};

static const struct act at_default[] = {
	{ "unshare(NEWUSER)", new_namespace, EPERM },
	{ "clone(NEWUSER)", new_namespace_by_clone, EPERM },
	{ "clone", plain_clone, 0 },
	{ "clone3", clone3_call, ENOSYS },
	{ "TIOCSTI", tiocsti, EPERM },
	{ "TIOCSTI|1<<32", tiocsti_high, EPERM },
	{ "TIOCSETD", tiocsetd, EPERM },
	{ "TIOCGWINSZ", window_size, 0 },
	{ "open setuid", create_setuid, EPERM },
	{ "openat setgid", create_setgid, EPERM },
	{ "open", create_plain, 0 },
	{ "O_TMPFILE setuid", tmpfile_setuid, EPERM },
	{ "O_TMPFILE", tmpfile_plain, 0 },
	{ "creat setuid", creat_setuid, EPERM },
	{ "open without O_CREAT", open_with_junk_mode, 0 },
	{ "chmod setuid", chmod_setuid, EPERM },
	{ "chmod", chmod_plain, 0 },
	{ "fchmodat setgid", fchmodat_setgid, EPERM },
	{ "fchmodat2 setuid", fchmodat2_setuid, EPERM },
	{ "fchmodat2", fchmodat2_plain, 0 },
	{ "mkdir setgid", mkdir_setgid, EPERM },
	{ "mknod setuid", mknod_setuid_fifo, EPERM },
	{ "mknod fifo", mknod_fifo, 0 },
	{ "mknod character device", mknod_whiteout, EPERM },
	{ "openat2", openat2_call, ENOSYS },
	{ "socket UNIX", unix_socket, 0 },
	{ "socket INET", inet_socket, 0 },
	{ "socket NETLINK_ROUTE", route_socket, 0 },
	{ "socket VSOCK", vsock, EAFNOSUPPORT },
	{ "socket NETLINK_KOBJECT_UEVENT", uevent_socket, EPROTONOSUPPORT },
	{ "socket MPTCP", mptcp_socket, EPROTONOSUPPORT },
	{ "socketpair datagram", datagram_pair, 0 },
	{ "memfd_create", memory_file, 0 },
	{ "TCP_ULP", tcp_ulp, ENOPROTOOPT },
	{ "io_uring_setup", io_uring, ENOSYS },
	{ "keyctl", keyctl_call, ENOSYS },
	{ "ptrace", traced, EPERM },
	{ "seccomp listener", seccomp_listener, EPERM },
	{ "seccomp", seccomp_plain, 0 },
	{ "personality query", personality_call, 0 },
	{ "personality ADDR_NO_RANDOMIZE", personality_norandom, EPERM },
	{ "a thread", a_thread, 0 },
	{ "fork", forked, 0 },
	{ "getpgid", own_group, 0 },
};

static const struct act at_strict[] = {
	{ "socket UNIX", unix_socket, EPERM },
	{ "socket INET", inet_socket, EPERM },
	{ "socketpair stream", stream_pair, 0 },
	{ "socketpair datagram", datagram_pair, EPERM },
	{ "open setuid", create_setuid, EPERM },
	{ "open", create_plain, 0 },
};

static const struct act at_debug[] = {
	{ "ptrace", traced, 0 },
	{ "personality ADDR_NO_RANDOMIZE", personality_norandom, 0 },
	{ "unshare(NEWUSER)", new_namespace, EPERM },
	{ "TIOCSTI|1<<32", tiocsti_high, EPERM },
};

static const struct act without_fork[] = {
	{ "fork", forked, EPERM },
	{ "clone", plain_clone, EPERM },
	{ "clone3", clone3_call, ENOSYS },
	{ "memfd_create", memory_file, ENOSYS },
	{ "a thread", a_thread, 0 },
	{ "getpgid", own_group, 0 },
};

/* --- running ------------------------------------------------------------- */

static int load(const struct sock_filter *insn, size_t count)
{
	struct sock_fprog prog = { (unsigned short)count, (struct sock_filter *)(uintptr_t)insn };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	return outcome(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog));
}

#define MAX_ACTS 64
struct report { int load, before[MAX_ACTS], after[MAX_ACTS]; };

static void run_acts(struct report *r, const struct act *acts, size_t n, const struct bpf *b)
{
	for (size_t i = 0; i < n; i++)
		r->before[i] = acts[i].run();
	r->load = load(b->insn, b->count);
	for (size_t i = 0; i < n && r->load == 0; i++)
		r->after[i] = acts[i].run();
}

/* 0, or how many rows are wrong. A control that fails makes its row a skip. */
static unsigned judged(const struct report *r, const struct act *acts, size_t n)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < n; i++) {
		if (r->before[i] != 0) {
			print_message("# skip: %s is errno %d here even without a filter\n",
				      acts[i].name, r->before[i]);
			wrong += getenv("NSBOX_MUST_RUN") != NULL;
		} else if (r->after[i] != acts[i].want) {
			print_message("# %s: errno %d, not %d\n", acts[i].name, r->after[i],
				      acts[i].want);
			wrong++;
		}
	}
	return wrong;
}

static struct report *shared_report(void)
{
	struct report *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(r != MAP_FAILED);
	return r;
}

static void prove(const struct bpf *b, const struct act *acts, size_t n)
{
	struct report *r = shared_report();
	int status;
	pid_t pid;

	assert_true(n <= MAX_ACTS);
	pid = fork();
	if (pid == 0) {
		run_acts(r, acts, n, b);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(r->load, 0);
	assert_int_equal(judged(r, acts, n), 0);
	munmap(r, sizeof(*r));
}

static void the_default_filter_gives_the_exact_errno(void **state)
{
	size_t count;
	const struct sock_filter *insn = seccomp_builtin(LEVEL_DEFAULT, &count);
	struct bpf b = { (struct sock_filter *)(uintptr_t)insn, count };

	(void)state;
	prove(&b, at_default, ARRAY_SIZE(at_default));
}

static void the_strict_filter_has_pairs_and_no_sockets(void **state)
{
	owned(bpf_free) struct bpf b = compiled(LEVEL_STRICT, NULL, NULL);

	(void)state;
	prove(&b, at_strict, ARRAY_SIZE(at_strict));
}

static void the_debug_filter_lets_debuggers_work(void **state)
{
	owned(bpf_free) struct bpf b = compiled(LEVEL_DEBUG, NULL, NULL);

	(void)state;
	prove(&b, at_debug, ARRAY_SIZE(at_debug));
}

static void the_second_filter_allows_threads_alone(void **state)
{
	owned(bpf_free) struct bpf b = { 0 };

	(void)state;
	assert_int_equal(seccomp_compile_no_fork(&b, NULL), 0);
	prove(&b, without_fork, ARRAY_SIZE(without_fork));
}

static void every_level_is_accepted_by_the_kernel(void **state)
{
	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		size_t count = 0;
		const struct sock_filter *insn = seccomp_builtin(level, &count);
		pid_t pid = fork();

		if (pid == 0)
			_exit(load(insn, count));
		assert_int_equal(status_of(pid), 0);
	}
}

#ifdef __x86_64__
static int getpid_by_i386(void)
{
	long r = 20;	/* getpid there, writev here */

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	return r == getpid();
}

/* Wait status of a child that makes the call, under the filter or without it. */
static int status_of_i386(bool is_filtered)
{
	size_t count;
	const struct sock_filter *insn = seccomp_builtin(LEVEL_AUDIT, &count);
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (is_filtered && load(insn, count))
			_exit(2);
		_exit(getpid_by_i386() ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void a_call_by_the_i386_door_kills_even_at_level_audit(void **state)
{
	int control = status_of_i386(false), status;

	(void)state;
	if (!WIFEXITED(control) || WEXITSTATUS(control) != 0) {
		if (getenv("NSBOX_MUST_RUN"))
			fail_msg("this kernel has no i386 emulation");
		print_message("# skip: this kernel has no i386 emulation\n");
		skip();
	}
	status = status_of_i386(true);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}
#endif

static int prepare(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct sigaction quiet = { .sa_handler = SIG_DFL };

	(void)state;
	sigaction(SIGCHLD, &quiet, NULL);
	if (!mkdtemp(folder) || chdir(folder) < 0 || master < 0 || unlockpt(master) < 0)
		return -1;
	/* As the controlling terminal: without privileges TIOCSTI needs that. */
	setsid();
	terminal = open(ptsname(master), O_RDWR | O_CLOEXEC);
	return terminal < 0 ? -1 : 0;
}

static int cleanup(void **state)
{
	(void)state;
	return chdir("/") < 0 || rmdir(folder) < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_filter_gives_the_exact_errno),
		cmocka_unit_test(the_strict_filter_has_pairs_and_no_sockets),
		cmocka_unit_test(the_debug_filter_lets_debuggers_work),
		cmocka_unit_test(the_second_filter_allows_threads_alone),
		cmocka_unit_test(every_level_is_accepted_by_the_kernel),
#ifdef __x86_64__
		cmocka_unit_test(a_call_by_the_i386_door_kills_even_at_level_audit),
#endif
	};

	if (prctl(PR_GET_SECCOMP) < 0) {
		printf("# skip: this kernel has no seccomp\n");
		return getenv("NSBOX_MUST_RUN") ? 1 : 0;
	}
	return cmocka_run_group_tests_name("seccomp_kernel", tests, prepare, cleanup);
}
