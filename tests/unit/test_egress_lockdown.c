/*
 * test_egress_lockdown.c - what is left to the network's supervisor once it serves
 *
 * Each act runs in a process of its own: without the lockdown, where it works, and after it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/egress/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOBODY = 65534, KILLED = -SIGSYS, CANNOT_LOCK = 200, PAGE = 4096 };

/* --- acts: 0, or errno --------------------------------------------------------------------- */

#define TRY(call) return (call) < 0 ? errno : 0

static int open_file(void) { TRY(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0)); }
static int make_folder(void) { TRY(syscall(SYS_mkdirat, AT_FDCWD, ".", 0700)); }
static int new_process(void) { TRY(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int trace(void) { TRY(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0)); }
static int signal_parent(void) { TRY(syscall(SYS_kill, getppid(), 0)); }
static int unshare_user(void) { TRY(syscall(SYS_unshare, 0)); }
static int ask_privilege(void) { TRY(syscall(SYS_setresuid, -1, -1, -1)); }
static int make_memfd(void) { TRY(syscall(SYS_memfd_create, "x", 0)); }
static int make_ring(void) { TRY(syscall(SYS_io_uring_setup, 0, NULL)); }

static int execute(void)
{
	char *argv[] = { (char *)"true", NULL };

	execve("/bin/true", argv, argv + 1);
	return errno;
}

static int of_family(int family, int type, int protocol)
{
	TRY(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
}

static int unix_stream(void) { return of_family(AF_UNIX, SOCK_STREAM, 0); }
static int netlink(void) { return of_family(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE); }
static int raw(void) { return of_family(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static int udplite(void) { return of_family(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE); }
static int tcp4(void) { return of_family(AF_INET, SOCK_STREAM, 0); }
static int tcp6(void) { return of_family(AF_INET6, SOCK_STREAM, 0); }
static int udp4(void) { return of_family(AF_INET, SOCK_DGRAM, 0); }
static int udp6(void) { return of_family(AF_INET6, SOCK_DGRAM, 0); }

static int name_socket(void)
{
	const struct sockaddr_in any = { .sin_family = AF_INET };

	TRY(bind(socket(AF_INET, SOCK_STREAM, 0), (const struct sockaddr *)&any, sizeof(any)));
}

static void *some_memory(int prot)
{
	return mmap(NULL, PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int map_code(void) { return some_memory(PROT_READ | PROT_EXEC) == MAP_FAILED ? errno : 0; }
static int map_data(void) { return some_memory(PROT_READ) == MAP_FAILED ? errno : 0; }
static int turn_to_code(void) { TRY(mprotect(some_memory(PROT_READ), PAGE, PROT_EXEC)); }
static int turn_to_data(void) { TRY(mprotect(some_memory(PROT_NONE), PAGE, PROT_READ | PROT_WRITE)); }

static int some_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int own_signals(void) { TRY(fcntl(some_socket(), F_SETOWN, getpid())); }
static int choose_signal(void) { TRY(fcntl(some_socket(), F_SETSIG, SIGKILL)); }
static int not_block(void) { TRY(fcntl(some_socket(), F_SETFL, O_NONBLOCK)); }
static int copy_descriptor(void) { TRY(fcntl(some_socket(), F_DUPFD, 0)); }
/* A socket has no seals: EINVAL of the kernel. */
static int look_at_seals(void) { TRY(fcntl(some_socket(), F_GET_SEALS)); }

static int watch(void)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = { .events = EPOLLIN };

	TRY(epoll_ctl(fd, EPOLL_CTL_ADD, socket(AF_INET, SOCK_STREAM, 0), &e));
}

/* @unlocked: errno without the lockdown, -1: the kernel may lack it. */
static const struct act {
	const char *name;
	int (*act)(void);
	int unlocked, locked;
} acts[] = {
	{ "open a file", open_file, 0, KILLED },
	{ "make a folder", make_folder, EEXIST, KILLED },
	{ "execute a program", execute, 0, KILLED },
	{ "make a process", new_process, 0, KILLED },
	{ "be traced", trace, 0, KILLED },
	{ "signal its parent", signal_parent, 0, KILLED },
	{ "leave a namespace", unshare_user, 0, KILLED },
	{ "set its ids", ask_privilege, 0, KILLED },
	{ "make a file in memory", make_memfd, 0, KILLED },
	{ "make a ring of calls", make_ring, -1, KILLED },
	{ "an AF_UNIX socket", unix_stream, 0, KILLED },
	{ "a netlink socket", netlink, 0, KILLED },
	{ "a raw socket", raw, -1, KILLED },
	{ "a socket of another protocol", udplite, -1, KILLED },
	{ "bind a socket", name_socket, 0, KILLED },
	{ "map code", map_code, 0, KILLED },
	{ "turn memory to code", turn_to_code, 0, KILLED },
	{ "own the signals of a socket", own_signals, 0, KILLED },
	{ "choose the signal of a socket", choose_signal, 0, KILLED },
	{ "copy a descriptor", copy_descriptor, 0, KILLED },
	{ "make a socket not block", not_block, 0, 0 },
	{ "look at seals", look_at_seals, EINVAL, EINVAL },
	{ "a TCP socket", tcp4, 0, 0 },
	{ "a TCP socket of IPv6", tcp6, 0, 0 },
	{ "a UDP socket", udp4, 0, 0 },
	{ "a UDP socket of IPv6", udp6, 0, 0 },
	{ "map data", map_data, 0, 0 },
	{ "turn memory to data", turn_to_data, 0, 0 },
	{ "watch a socket", watch, 0, 0 },
};

/* The exit code, or minus the signal. */
static int outcome_of(const struct act *a, bool is_locked)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (is_locked && lockdown(UINT32_MAX, UINT32_MAX, false))
			syscall(SYS_exit_group, CANNOT_LOCK);
		syscall(SYS_exit_group, a->act());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void what_it_does_not_need_kills_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		int unlocked = outcome_of(&acts[i], false), locked = outcome_of(&acts[i], true);

		if (unlocked < 0 || (acts[i].unlocked >= 0 && unlocked != acts[i].unlocked))
			fail_msg("%s, without a lockdown: %d", acts[i].name, unlocked);
		if (locked != acts[i].locked)
			fail_msg("%s, after it: %d", acts[i].name, locked);
	}
}

/* --- how it looks from outside --------------------------------------------------------------- */

struct locked {
	pid_t pid;
	int until;		/* closed: it may end */
};

static struct locked lock_one(uint32_t uid, uint32_t gid)
{
	struct locked l;
	int ready[2], until[2];
	char c = 0;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(until, O_CLOEXEC), 0);
	l = (struct locked){ .pid = fork(), .until = until[1] };
	assert_true(l.pid >= 0);
	if (l.pid == 0) {
		const char *failed = lockdown(uid, gid, false);

		close(until[1]);
		syscall(SYS_write, ready[1], failed ? "-" : "+", 1);
		syscall(SYS_read, until[0], &c, 1);
		syscall(SYS_exit_group, 0);
	}
	close(ready[1]);
	close(until[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	assert_int_equal(c, '+');
	return l;
}

static void let_go(struct locked *l)
{
	int status;

	close(l->until);
	assert_int_equal(waitpid(l->pid, &status, 0), l->pid);
	assert_int_equal(status, 0);
}

/* The line of /proc/PID/FILE that begins with `key`, its spaces squeezed. */
static void expect_line(const struct locked *l, const char *file, const char *key, const char *want)
{
	struct buf text = BUF_INIT(65536);
	char path[64], got[128] = "";
	const char *at;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)l->pid, file);
	assert_int_equal(fd_read_file(AT_FDCWD, path, &text), 0);
	at = strstr(buf_text(&text), key);
	assert_non_null(at);
	for (at += strlen(key); *at && *at != '\n' && n + 1 < sizeof(got); at++)
		if ((*at != ' ' && *at != '\t') || (n && got[n - 1] != ' '))
			got[n++] = *at == '\t' ? ' ' : *at;
	while (n && got[n - 1] == ' ')
		n--;
	got[n] = '\0';
	if (strcmp(got, want) != 0)
		fail_msg("%s of %s: '%s', not '%s'", key, file, got, want);
	buf_free(&text);
}

static void expect_no_privilege(const struct locked *l)
{
	expect_line(l, "status", "\nCapInh:", "0000000000000000");
	expect_line(l, "status", "\nCapPrm:", "0000000000000000");
	expect_line(l, "status", "\nCapEff:", "0000000000000000");
	expect_line(l, "status", "\nCapAmb:", "0000000000000000");
	expect_line(l, "status", "\nNoNewPrivs:", "1");
	expect_line(l, "status", "\nSeccomp:", "2");
	expect_line(l, "limits", "\nMax core file size", "0 0 bytes");
	expect_line(l, "limits", "\nMax file size", "0 0 bytes");
	expect_line(l, "limits", "\nMax processes", "0 0 processes");
}

/* What can be dumped belongs to the user it runs as, everything else to root. */
static uid_t owner_of(const struct locked *l)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)l->pid);
	assert_int_equal(stat(path, &st), 0);
	return st.st_uid;
}

static void it_has_no_privilege_and_cannot_be_looked_into(void **state)
{
	struct locked l = lock_one(UINT32_MAX, UINT32_MAX);

	(void)state;
	expect_no_privilege(&l);
	assert_int_equal(owner_of(&l), 0);
	let_go(&l);
}

static void root_becomes_who_it_is_told(void **state)
{
	struct locked l;

	(void)state;
	if (geteuid())
		skip();
	l = lock_one(NOBODY, NOBODY - 1);
	expect_no_privilege(&l);
	expect_line(&l, "status", "\nUid:", "65534 65534 65534 65534");
	expect_line(&l, "status", "\nGid:", "65533 65533 65533 65533");
	expect_line(&l, "status", "\nGroups:", "");
	assert_int_equal(owner_of(&l), 0);
	let_go(&l);
}

static void an_ordinary_user_cannot_become_another(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			syscall(SYS_exit_group, 3);
		syscall(SYS_exit_group, lockdown(1, 1, false) ? 1 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_does_not_need_kills_it),
		cmocka_unit_test(it_has_no_privilege_and_cannot_be_looked_into),
		cmocka_unit_test(root_becomes_who_it_is_told),
		cmocka_unit_test(an_ordinary_user_cannot_become_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
