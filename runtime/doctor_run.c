/*
 * doctor_run.c - one probe in a child of its own, with a time limit
 *
 * Runs in the caller, then in a copy of it. The caller may be a threaded program:
 * between clone and _exit there are system calls only, no malloc, no stdio, no libc
 * setuid (it would signal threads that do not exist in the copy).
 *
 * Must:    end every child it started, whatever the probe does.
 * Mustn't: reap or signal any other child of the caller. The child has no exit
 *          signal, so the caller's SIGCHLD handler and wait(-1) do not see it.
 */
#include "runtime/doctor.h"

#include "base/cleanup.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum {
	LIMIT_MS = 5000,
	BOX_ID = 1000,	   /* inside */
	NOBODY_ID = 65534, /* outside, when started as root */
};

/* A fork without the caller's atfork handlers, which may take its locks. */
static long plain_clone(unsigned long flags)
{
#ifdef __s390x__
	return syscall(SYS_clone, 0, flags, 0, 0, 0);
#else
	return syscall(SYS_clone, flags, 0, 0, 0, 0);
#endif
}

static int write_proc(long pid, const char *file, const char *text)
{
	char path[64] = "/proc/", *to = decimal_put(path + 6, (uint64_t)pid);
	owned_fd int fd = -1;
	ssize_t n;

	*to++ = '/';
	memcpy(to, file, strlen(file) + 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int write_map(long pid, const char *file, uint64_t outside)
{
	char text[64], *to = decimal_put(text, BOX_ID);

	*to++ = ' ';
	to = decimal_put(to, outside);
	memcpy(to, " 1", 3);
	return write_proc(pid, file, text);
}

/* As root an id that is not root's; where root itself is in a user namespace that
 * has no other, and as a user: the own one. */
static int map_one(long pid, const char *file, uint64_t own)
{
	if (own == 0 && write_map(pid, file, NOBODY_ID) == 0)
		return 0;
	return write_map(pid, file, own);
}

static int map_ids(long pid)
{
	/* Denied first, else gid_map needs CAP_SETGID outside: user_namespaces(7). */
	if (write_proc(pid, "setgroups", "deny") < 0)
		return -1;
	if (map_one(pid, "uid_map", geteuid()) < 0)
		return -1;
	return map_one(pid, "gid_map", getegid());
}

static int become_mapped(struct probe_report *r)
{
	r->step = STEP_IDS;
	if (syscall(SYS_setresgid, BOX_ID, BOX_ID, BOX_ID) < 0)
		return -1;
	if (syscall(SYS_setresuid, BOX_ID, BOX_ID, BOX_ID) < 0)
		return -1;
	/* A change of ids forgets the death signal: prctl(2). */
	return prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/*
 * The new child, until it runs the probe. It must not outlive its parent, and the
 * death signal alone does not see to it: a parent that died before prctl() sends none.
 * So the parent waits for a byte at the end, and a child that cannot send it ends.
 */
static void join_namespaces(struct probe_report *r, int peer)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(peer, &c, 1) != 1) /* the maps cannot be written, or nobody is there */
		_exit(0);
	if (become_mapped(r) < 0) {
		r->failed = 1;
		r->os_errno = errno;
	}
	if (send(peer, "x", 1, MSG_NOSIGNAL) != 1)
		_exit(0);
}

static int hand_over(struct probe_report *r, long pid, int peer)
{
	char c;

	r->step = STEP_MAP;
	if (map_ids(pid) < 0 || send(peer, "x", 1, MSG_NOSIGNAL) != 1)
		return -1;
	r->step = STEP_DIED;
	errno = 0;
	return read(peer, &c, 1) == 1 ? 0 : -1;
}

int probe_clone_mapped(struct probe_report *r, int namespaces)
{
	owned_fd int mine = -1, its = -1;
	int pair[2];
	long pid;

	r->step = STEP_START;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	mine = pair[0];
	its = pair[1];
	r->step = STEP_CLONE;
	pid = plain_clone((unsigned long)(CLONE_NEWUSER | namespaces | SIGCHLD));
	if (pid == 0) {
		close(take_fd(mine));
		join_namespaces(r, its);
		return 0;
	}
	close(take_fd(its));
	if (pid < 0)
		return -1;
	return hand_over(r, pid, mine) < 0 ? -1 : (int)pid;
}

static void __attribute__((noreturn)) report(int fd, struct probe_report *r, int result)
{
	r->failed = result < 0;
	r->os_errno = result < 0 ? errno : 0;
	/* A short write is seen as no report at all. */
	_exit(write(fd, r, sizeof(*r)) == sizeof(*r) ? 0 : 1);
}

static void __attribute__((noreturn)) child(const struct probe *p, int fd)
{
	struct probe_report r;
	int pid;

	memset(&r, 0, sizeof(r));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!p->in_userns)
		report(fd, &r, p->call(&r));
	pid = probe_clone_mapped(&r, p->namespaces);
	if (pid < 0)
		report(fd, &r, -1);
	if (pid == 0) {
		errno = r.os_errno;
		report(fd, &r, r.failed ? -1 : p->call(&r));
	}
	waitpid(pid, NULL, 0);
	_exit(0);
}

static int64_t now_ms(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The step that stands for "no report": it took too long, or died. */
static int read_report(int fd, struct probe_report *out)
{
	int64_t end = now_ms() + LIMIT_MS;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - now_ms();
		int n = left > 0 ? poll(&p, 1, (int)left) : 0;

		if (n == 0)
			return STEP_TIMEOUT;
		if (n > 0)
			return read(fd, out, sizeof(*out)) == sizeof(*out) ? -1 : STEP_DIED;
		if (errno != EINTR)
			return STEP_DIED;
	}
}

static void fail(struct probe_report *out, int step, int os_errno)
{
	memset(out, 0, sizeof(*out));
	out->failed = 1;
	out->step = step;
	out->os_errno = os_errno;
}

void doctor_child(const struct probe *p, struct probe_report *out)
{
	sigset_t all, old;
	int fds[2], step;
	long pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail(out, STEP_START, errno);
	/* A handler of the caller must not run in the copy. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = plain_clone(0);
	if (pid == 0) {
		close(fds[0]);
		child(p, fds[1]);
	}
	if (pid < 0)
		fail(out, STEP_START, errno);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(fds[1]);
	if (pid > 0) {
		step = read_report(fds[0], out);
		if (step >= 0)
			fail(out, step, 0);
		/* Not reaped yet, so the pid is still the child's. */
		kill((pid_t)pid, SIGKILL);
		while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	close(fds[0]);
}
