/*
 * init.c - PID 1 of a box
 *
 * A freestanding program of a few KiB, executed from a sealed memfd under the
 * payload's own lockdown: it never has more than the payload, and what it starts
 * never has more than it. It starts the payload, reaps orphans, forwards signals, and
 * ends the box when the payload ends or the launcher is gone: when PID 1 of a pid
 * namespace exits, the kernel kills everything in it (pid_namespaces(7)).
 *
 * Without a pid namespace (tier local_unsafe, isolation.floor=landlock) it is no PID 1: there it
 * is the subreaper of what the payload leaves, and kills that itself. Behind Landlock alone
 * it is held in by a domain of scopes, and the payload by one of its own inside. With a
 * network it is then outside of the payload's seccomp, and answers for its calls (broker.c).
 *
 * Must:    report EXIT only for the payload it started; treat EOF of the handshake
 *          as the launcher's death.
 * Mustn't: keep any descriptor open in the payload but 0, 1, 2, and 3 where it has a
 *          channel; be readable by the
 *          payload (not dumpable: /proc/1/mem and /proc/1/fd are closed to it).
 */
#include "runtime/init/broker.h"
#include "runtime/init/modes.h"
#include "runtime/kernel.h"
#include "runtime/stage.h"
#include "runtime/sys.h"
#include "runtime/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
	KERNEL_SIGSET_SIZE = 8, SIGNAL_COUNT = 64, PATH_ROOM = 4096,
	FLAG_WAIT_KILLABLE_RECV = 1 << 5, /* Linux 5.19 */
};

struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

/* What the payload's side of vfork shares with init. */
struct payload {
	char *const *argv, *const *env;
	const struct sock_filter *filter;
	uint32_t filter_len, flags;
	int listener;	/* of the filter, in the table that both share until execve; -1: none */
	int error;	/* errno of what went wrong; 0: running */
	int stage;	/* STAGE_init: before execve; STAGE_exec: execve itself */
};

static unsigned char packet[WIRE_MAX] __attribute__((aligned(8)));
static unsigned char payload_stack[8192] __attribute__((aligned(16)));

/* Of a payload in no pid namespace; 0: the kernel ends everything. */
static long tree_payload;
/* Landlock lets this process and all of the box signal the box alone. */
static int is_walled;

/* ------------------------------------------------------------------------ tree -- */

/* A child of ours that is not reaped keeps its number: it cannot be somebody else. */
static int kill_children(void)
{
	char text[1024];
	long fd, n, pid = 0;
	int count = 0;

	if (is_walled) {	/* all that it may, which is the box, but this process: kill(2) */
		sys(kill, -1, SIGKILL);
		return 1;
	}
	fd = sys(openat, AT_FDCWD, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC, 0);
	n = fd < 0 ? 0 : sys(read, fd, text, sizeof(text));
	if (fd >= 0)
		sys(close, fd);
	for (long i = 0; i < n; i++) {
		if (text[i] >= '0' && text[i] <= '9') {
			pid = pid * 10 + (text[i] - '0');
		} else if (pid) {
			sys(kill, pid, SIGKILL);
			pid = 0;
			count++;
		}
	}
	return count;
}

/*
 * What was handed to us as the subreaper, and what that leaves. One that forks faster than
 * this is beyond what the tier promises.
 */
static void kill_rest(void)
{
	enum { ROUNDS = 1000 };
	const long a_moment[2] = { 0, 1000000 }; /* struct timespec */

	for (int i = 0; i < ROUNDS && kill_children(); i++) {
		long pid;

		do {
			pid = sys(wait4, -1, 0, __WALL | WNOHANG, 0);
		} while (pid > 0);
		if (pid == -ECHILD)
			break;
		sys(ppoll, 0, 0, a_moment, 0, 0);
	}
}

static void __attribute__((noreturn)) leave(int code)
{
	if (tree_payload) {
		sys(kill, -tree_payload, SIGKILL);
		kill_rest();
	}
	for (;;)
		sys(exit_group, code);
}

static void report(int type, int stage, int value)
{
	struct wire_msg msg = { .magic = WIRE_MAGIC, .type = (uint16_t)type,
				.stage = (uint16_t)stage, .op = -1, .value = value };

	if (sys(sendto, BOX_FD_SOCK, &msg, sizeof(msg), MSG_NOSIGNAL, 0, 0) !=
	    (long)sizeof(msg))
		leave(125); /* the launcher is gone */
}

/* ------------------------------------------------------------------ payload -- */

/* exec keeps ignored signals ignored; the payload starts with every default. */
static void default_signals(void)
{
	const struct kernel_sigaction dfl = { 0 };
	const uint64_t none = 0;

	for (int sig = 1; sig <= SIGNAL_COUNT; sig++)
		sys(rt_sigaction, sig, &dfl, 0, KERNEL_SIGSET_SIZE);
	sys(rt_sigprocmask, SIG_SETMASK, &none, 0, KERNEL_SIGSET_SIZE);
}

static const char *env_value(char *const *env, const char *name_with_equals)
{
	for (; *env; env++) {
		const char *a = *env, *b = name_with_equals;

		while (*b && *a == *b) {
			a++;
			b++;
		}
		if (!*b)
			return a;
	}
	return 0;
}

static int has_slash(const char *s)
{
	for (; *s; s++)
		if (*s == '/')
			return 1;
	return 0;
}

/* dir + "/" + name into out; 0 when it does not fit. */
static int join(char out[PATH_ROOM], const char *dir, size_t dir_len, const char *name)
{
	size_t n = 0;

	if (dir_len + 2 >= PATH_ROOM)
		return 0;
	for (; n < dir_len; n++)
		out[n] = dir[n];
	out[n++] = '/';
	for (; *name; name++) {
		if (n + 1 >= PATH_ROOM)
			return 0;
		out[n++] = *name;
	}
	out[n] = '\0';
	return 1;
}

/*
 * execvp's search without its "run it with sh" step: EACCES of one entry is kept
 * and the search goes on; an empty entry would mean the current folder, which the
 * payload's own files fill, so it is skipped.
 */
static int exec_search(const struct payload *p)
{
	const char *name = p->argv[0], *path = env_value(p->env, "PATH=");
	char file[PATH_ROOM];
	int error = ENOENT;

	if (has_slash(name))
		return (int)-sys(execve, name, p->argv, p->env);
	while (path && *path && *name) {
		const char *end = path;
		long r;

		while (*end && *end != ':')
			end++;
		if (end > path && join(file, path, (size_t)(end - path), name)) {
			r = sys(execve, file, p->argv, p->env);
			if (r == -EACCES)
				error = EACCES;
			else if (r != -ENOENT && r != -ENOTDIR)
				return (int)-r;
		}
		path = *end ? end + 1 : end;
	}
	return error;
}

/*
 * A listener is the descriptor of who loads the filter, and passing it on would take a call that
 * waits for who holds it. So this side shares init's table until then: init has it when
 * vfork returns, and execve gives the payload a table without it (O_CLOEXEC).
 *
 * WAIT_KILLABLE_RECV: once init has read of a call, only a fatal signal ends it. Else every
 * signal with a handler would begin it anew, which a runtime that preempts by signals (Go)
 * does faster than it can be answered.
 */
static long load_filter(struct payload *p)
{
	struct sock_fprog prog = { .len = (unsigned short)p->filter_len,
				   .filter = (struct sock_filter *)(uintptr_t)p->filter };
	bool is_held = p->flags & WIRE_START_HELD;
	unsigned flags = is_held ? SECCOMP_FILTER_FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE_RECV : 0;
	long r = p->filter_len ? sys(seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog) : 0;

	if (r >= 0 && is_held)
		p->listener = (int)r;
	return r;
}

/* Init's 3 stays: where the table is still shared it is not from here on. */
static long place_channel(const struct payload *p)
{
	long r = 0;

	if (!(p->flags & WIRE_START_CHANNEL))
		return 0;
	if (p->flags & WIRE_START_HELD)
		r = sys(unshare, CLONE_FILES);
	return r < 0 ? r : sys(dup3, BOX_FD_CHANNEL, PAYLOAD_FD_CHANNEL, 0);
}

static void payload_main(void *arg)
{
	struct payload *p = arg;
	long r = sys(setsid);

	if (r >= 0 && (p->flags & WIRE_START_TREE))
		r = sys(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (r >= 0 && (p->flags & WIRE_START_TTY))
		r = sys(ioctl, 0, TIOCSCTTY, 0);
	default_signals();
	if (r >= 0 && (p->flags & WIRE_START_WALLS))
		r = sys(landlock_restrict_self, BOX_FD_RULESET, 0);
	if (r >= 0)
		r = load_filter(p);
	if (r >= 0)
		r = place_channel(p);
	p->stage = r < 0 ? STAGE_init : STAGE_exec;
	p->error = r < 0 ? (int)-r : exec_search(p);
	leave(127);
}

static long start_payload(struct payload *p)
{
	unsigned long files = p->flags & WIRE_START_HELD ? CLONE_FILES : 0;
	long pid = sys_clone_on(CLONE_VM | CLONE_VFORK | SIGCHLD | files,
				payload_stack + sizeof(payload_stack), 0, payload_main, p);

	/* CLONE_VFORK: this runs once the payload has called execve or exit. */
	if (pid < 0)
		p->error = (int)-pid;
	return pid;
}

/* ------------------------------------------------------------------ messages -- */

static long receive(void)
{
	long n;

	do {
		n = sys(recvfrom, BOX_FD_SOCK, packet, sizeof(packet), 0, 0, 0);
	} while (n == -EINTR);
	if (n < (long)sizeof(struct wire_msg) ||
	    ((struct wire_msg *)packet)->magic != WIRE_MAGIC)
		leave(125); /* EOF or nonsense: the launcher is gone */
	return n;
}

/*
 * kill(-1) in the wrong place would end all of the caller's processes: the launcher, whose
 * child this is, must be out of reach. (Where it is dead by now, the end of the handshake
 * says so next.)
 */
static void find_walls(void)
{
	long launcher = sys(getppid);

	if (sys(fcntl, BOX_FD_RULESET, F_SETFD, FD_CLOEXEC) < 0 ||
	    sys(kill, launcher, 0) != -EPERM)
		leave(125);
	is_walled = 1;
}

/*
 * What the payload inherits, the broker did not make: a datagram socket sends where its caller
 * says, past the broker (policy/seccomp_calls.c). Streams have no such call.
 */
static bool may_inherit(int fd)
{
	int is[3] = { 0, 0, 0 };
	static const int what[3] = { SO_DOMAIN, SO_TYPE, SO_PROTOCOL };
	uint32_t len = sizeof(int);

	for (int i = 0; i < 3; i++)
		if (sys(getsockopt, fd, SOL_SOCKET, what[i], &is[i], &len) < 0)
			return i == 0; /* no socket, or closed */
	if (is[0] == AF_UNIX)
		return is[1] == SOCK_STREAM || is[1] == SOCK_SEQPACKET;
	return (is[0] == AF_INET || is[0] == AF_INET6) && is[1] == SOCK_STREAM &&
	       is[2] == IPPROTO_TCP;
}

/* The broker's socket; what the payload inherits. 0, or -errno. */
static long begin_calls(const struct payload *p)
{
	for (int fd = 0; fd <= 2; fd++)
		if (!may_inherit(fd))
			return -EPROTOTYPE;
	if ((p->flags & WIRE_START_CHANNEL) && !may_inherit(BOX_FD_CHANNEL))
		return -EPROTOTYPE;
	return sys(fcntl, BOX_FD_CALLS, F_SETFD, FD_CLOEXEC);
}

static void read_start(struct payload *p)
{
	const struct wire_start *start = (const struct wire_start *)packet;
	size_t n = (size_t)receive();
	long r;

	if (start->head.type != WIRE_START || n < sizeof(*start) ||
	    start->filter_len > BPF_MAXINSNS ||
	    start->place_len > PATH_ROOM ||
	    n != sizeof(*start) + start->filter_len * sizeof(struct sock_filter) + start->place_len)
		leave(125);
	p->flags = start->flags;
	if ((p->flags & WIRE_START_CHANNEL) &&
	    sys(fcntl, BOX_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0)
		leave(125);
	if ((p->flags & WIRE_START_HELD) && !start->filter_len)
		leave(125);
	if ((p->flags & WIRE_START_TREE) && sys(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		leave(125);
	if (p->flags & WIRE_START_WALLS)
		find_walls();
	p->filter = (const struct sock_filter *)(start + 1);
	p->filter_len = start->filter_len;
	if ((p->flags & WIRE_START_WALLS) &&
	    modes_begin((const char *)(p->filter + p->filter_len), start->place_len) < 0)
		leave(125);
	r = p->flags & WIRE_START_CALLS ? begin_calls(p) : 0;
	if (r < 0) {
		report(WIRE_FAIL, STAGE_init, (int)-r);
		leave(125);
	}
}

static void obey(long payload_pid)
{
	const struct wire_msg *msg = (const struct wire_msg *)packet;

	receive();
	if (msg->type == WIRE_SIGNAL) {
		sys(kill, -payload_pid, msg->value);
		if (msg->op == WIRE_TELL)
			report(WIRE_SIGNALED, STAGE_exec, msg->value);
	} else if (msg->type == WIRE_KILL && is_walled) {
		kill_children();
	} else if (msg->type == WIRE_KILL && tree_payload) {
		sys(kill, -payload_pid, SIGKILL); /* the rest when it is reaped */
	} else if (msg->type == WIRE_PAUSE && (is_walled || !tree_payload)) {
		sys(kill, -1, msg->value ? SIGSTOP : SIGCONT); /* all but this process */
	}
}

/* ------------------------------------------------------------------- reaping -- */

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

/* Reap what is dead. True once the payload itself was; its status is in *out. */
static int reap(long payload_pid, struct wire_exit *out)
{
	int over = 0, status;
	struct rusage use;
	long pid;

	while ((pid = sys(wait4, -1, &status, WNOHANG | __WALL, &use)) > 0) {
		if ((uint64_t)use.ru_maxrss > out->max_rss_kib)
			out->max_rss_kib = (uint64_t)use.ru_maxrss;
		out->user_us += micros(&use.ru_utime);
		out->system_us += micros(&use.ru_stime);
		if (pid == payload_pid) {
			out->status = status;
			over = 1;
		}
	}
	out->orphans = pid == 0; /* 0: children that still live; ECHILD: none */
	return over;
}

/* Its group still has its number while it is not reaped: the rest of it dies now. */
static int reap_payload(long payload_pid, struct wire_exit *out)
{
	siginfo_t info = { .si_pid = 0 };

	if (tree_payload &&
	    sys(waitid, P_PID, payload_pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, 0) == 0 &&
	    info.si_pid)
		sys(kill, -payload_pid, SIGKILL);
	return reap(payload_pid, out);
}

/* @calls: NULL: there is no broker. */
static void wait_for_news(struct pollfd *fds, int count, struct broker *calls)
{
	const long tick[2] = { 0, BROKER_TICK_MS * 1000000L }; /* struct timespec */
	bool is_waiting = calls && broker_is_waiting(calls);

	fds[0].revents = fds[1].revents = 0;
	sys(ppoll, fds, count, is_waiting ? tick : 0, 0, KERNEL_SIGSET_SIZE);
}

static void __attribute__((noreturn)) serve(long payload_pid, int signals, struct broker *calls)
{
	struct wire_exit out = { .head = { .magic = WIRE_MAGIC, .type = WIRE_EXIT,
					   .stage = STAGE_exec, .op = -1 } };
	struct pollfd fds[2 + BROKER_FDS] = { { .fd = signals, .events = POLLIN },
					      { .fd = BOX_FD_SOCK, .events = POLLIN } };
	struct signalfd_siginfo info;

	while (!reap_payload(payload_pid, &out)) {
		int asked = calls ? broker_fds(calls, fds + 2) : 0;

		wait_for_news(fds, 2 + asked, calls);
		if (calls)
			broker_turn(calls, fds + 2, asked);
		if (fds[1].revents)
			obey(payload_pid);
		if (fds[0].revents)
			sys(read, signals, &info, sizeof(info));
	}
	if (tree_payload) {
		tree_payload = 0; /* reaped: the number may be somebody else's */
		kill_rest();
	}
	sys(sendto, BOX_FD_SOCK, &out, sizeof(out), MSG_NOSIGNAL, 0, 0);
	leave(0);
}

void __attribute__((noreturn, used)) init_main(long *stack)
{
	const struct kernel_sigaction dfl = { 0 };
	const uint64_t all = ~(uint64_t)0;
	struct payload p = { .stage = STAGE_init, .listener = -1 };
	long argc = stack[0], signals, pid;

	p.argv = (char *const *)(stack + 1) + 1; /* after "nsbox-init" */
	p.env = (char *const *)(stack + 1 + argc + 1);
	/* From here on EOF of the handshake is the launcher's death, not the end of the
	 * one thread that made the box. */
	if (argc < 2 || sys(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    sys(prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0 ||
	    /* Ignored in the caller is ignored here, and then the kernel reaps the payload
	     * itself: its end would never be seen (wait(2), NOTES). */
	    sys(rt_sigaction, SIGCHLD, &dfl, 0, KERNEL_SIGSET_SIZE) < 0 ||
	    sys(fcntl, BOX_FD_SOCK, F_SETFD, FD_CLOEXEC) < 0)
		leave(125);
	read_start(&p);
	sys(rt_sigprocmask, SIG_SETMASK, &all, 0, KERNEL_SIGSET_SIZE);
	signals = sys(signalfd4, -1, &all, KERNEL_SIGSET_SIZE, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		leave(125);
	pid = start_payload(&p);
	if (p.error) {
		report(WIRE_FAIL, p.stage, p.error);
		leave(125);
	}
	if (p.flags & WIRE_START_TREE)
		tree_payload = pid;
	report(WIRE_RUNNING, STAGE_exec, 0);
	for (int fd = 0; fd < BOX_FD_SOCK; fd++)
		sys(close, fd); /* the payload's streams end when the payload's do */
	if (p.flags & WIRE_START_CHANNEL)
		sys(close, BOX_FD_CHANNEL);
	if (is_walled)
		sys(close, BOX_FD_RULESET);
	serve(pid, (int)signals, p.listener < 0 ? 0 :
	      broker_begin(p.listener, p.flags & WIRE_START_CALLS ? BOX_FD_CALLS : -1));
}

#if defined(__x86_64__)
__asm__(".globl _start\n"
	"_start:\n\t"
	"xor %ebp, %ebp\n\t"
	"mov %rsp, %rdi\n\t"
	"and $-16, %rsp\n\t"
	"call init_main\n\t"
	"hlt\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n"
	"_start:\n\t"
	"mov x29, xzr\n\t"
	"mov x0, sp\n\t"
	"bl init_main\n\t"
	"brk 1\n");
#endif
