/*
 * Owns: the process that removes placeholders when the launcher dies, even by
 * SIGKILL. guardian_run() and what it calls run in that process: a copy of a caller
 * that may have threads, so only async-signal-safe calls and no allocation.
 * Must: keep no descriptor of the caller's, take no signal, end with the launcher.
 * Mustn't: remove anything but the empty thing that was made for the box.
 */
#include "rootfs/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { KEEP_MAX = 512 };

bool placeholder_is(const struct stat *st)
{
	bool is_empty = S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0);

	return is_empty && st->st_mtim.tv_sec == PLACEHOLDER_MTIME && st->st_mtim.tv_nsec == 0;
}

static bool is_ours(const struct placeholder *p, const struct stat *st, time_t since)
{
	if (p->is_made)
		return st->st_dev == p->dev && st->st_ino == p->ino;
	/* Killed between making it and telling: new, and in the place we were making. */
	return p->is_begun && st->st_ctim.tv_sec >= since;
}

static bool is_still_empty(const struct placeholder *p, const struct stat *st)
{
	if (p->is_folder)
		return S_ISDIR(st->st_mode); /* rmdir(2) knows whether it is empty */
	return S_ISREG(st->st_mode) && st->st_size == 0 && st->st_nlink == 1;
}

void placeholder_drop(struct placeholder *p, time_t since)
{
	int fd = p->fd >= 0 ? p->fd
			    : openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	/*
	 * A refused lock is another box with a mount on it: that one removes it. Of two
	 * that upgrade at once one succeeds, for each gives up its shared lock first.
	 */
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_ours(p, &st, since) &&
	    is_still_empty(p, &st))
		unlinkat(p->dir, p->name, p->is_folder ? AT_REMOVEDIR : 0);
	if (fd >= 0)
		close(fd);
	p->fd = -1;
	p->is_made = p->is_begun = false;
}

/* ------------------------------------------------------- the process itself -- */

struct watch {
	int notes, launcher;	/* socket; pidfd */
	int keep[KEEP_MAX];	/* ascending: what stays open */
	size_t keep_count;
	struct placeholder *v;
	size_t n;
	time_t since;
};

static void close_all_but(const struct watch *w)
{
	unsigned from = 0;

	for (size_t i = 0; i < w->keep_count; i++) {
		unsigned fd = (unsigned)w->keep[i];

		if (fd > from)
			syscall(SYS_close_range, from, fd - 1, 0);
		from = fd + 1;
	}
	syscall(SYS_close_range, from, ~0U, 0);
}

/* False at the end of the launcher's side. */
static bool take_note(const struct watch *w, int flags)
{
	struct guardian_note note;
	ssize_t n = recv(w->notes, &note, sizeof(note), flags);

	if (n < 0)
		return errno == EINTR;
	if (n != sizeof(note) || note.index >= w->n)
		return false;
	w->v[note.index].is_begun = note.is_begun;
	w->v[note.index].is_made = note.is_made;
	w->v[note.index].dev = note.dev;
	w->v[note.index].ino = note.ino;
	return true;
}

static void guardian_run(struct watch *w)
{
	struct pollfd fds[] = {
		{ .fd = w->notes, .events = POLLIN },
		{ .fd = w->launcher, .events = POLLIN },
	};

	/* Own session: no Ctrl-C, no hang-up. A folder as cwd would stay busy; where even
	 * "/" cannot be entered it stays so, which is better than no guardian. */
	setsid();
	syscall(SYS_chdir, "/");
	prctl(PR_SET_NAME, "nsbox-guardian");
	close_all_but(w);
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			break;
		if (fds[0].revents && !take_note(w, MSG_DONTWAIT))
			break;
	}
	while (take_note(w, MSG_DONTWAIT))
		;
	for (size_t i = 0; i < w->n; i++)
		placeholder_drop(&w->v[i], w->since);
	_exit(0);
}

/* ------------------------------------------------------------ launcher's side -- */

static void keep(struct watch *w, int fd)
{
	size_t i = w->keep_count++;

	for (; i > 0 && w->keep[i - 1] > fd; i--)
		w->keep[i] = w->keep[i - 1];
	w->keep[i] = fd;
}

/*
 * clone(2) without an exit signal: the caller gets no SIGCHLD, and its wait(2) for
 * any child does not see the guardian. Signals stay blocked in it, as the handlers
 * are the caller's.
 */
static pid_t split(struct watch *w)
{
	const uint64_t all = ~0ULL;
	uint64_t before;
	pid_t pid;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	pid = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
	if (pid == 0)
		guardian_run(w);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return pid;
}

int guardian_start(struct guardian *g, struct placeholder *v, size_t n, struct nsbox_error *err)
{
	owned_fd int launcher = (int)syscall(SYS_pidfd_open, getpid(), 0);
	owned_fd int ours = -1;
	owned_fd int theirs = -1;
	struct watch w = { .v = v, .n = n, .since = time(NULL) };
	int pair[2];
	pid_t pid;

	if (n + 2 > KEEP_MAX)
		return err_set(err, NSBOX_E_POLICY, "more than %d protected names do not exist",
			       KEEP_MAX - 2);
	if (launcher < 0)
		return err_sys(err, "open a pidfd of the launcher");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "make a socket for the guardian");
	ours = pair[0];
	theirs = pair[1];
	w.notes = theirs;
	w.launcher = launcher;
	keep(&w, theirs);
	keep(&w, launcher);
	for (size_t i = 0; i < n; i++)
		keep(&w, v[i].dir);
	pid = split(&w);
	if (pid < 0)
		return err_sys(err, "start the guardian of protected names");
	*g = (struct guardian){ .pid = pid, .fd = take_fd(ours), .since = w.since };
	return 0;
}

int guardian_tell(const struct guardian *g, const struct guardian_note *note,
		  struct nsbox_error *err)
{
	/* MSG_NOSIGNAL: a dead guardian must not kill the caller with SIGPIPE. */
	if (send(g->fd, note, sizeof(*note), MSG_NOSIGNAL) != (ssize_t)sizeof(*note))
		return err_sys(err, "tell the guardian of protected names");
	return 0;
}

void guardian_end(struct guardian *g)
{
	/* Its pid is ours until we wait: without an exit signal nobody else reaps it.
	 * Killed before the socket closes, for that would tell it to clean up. */
	if (g->pid > 0) {
		kill(g->pid, SIGKILL);
		while (waitpid(g->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	if (g->fd >= 0)
		close(g->fd);
	*g = (struct guardian)GUARDIAN_INIT;
}
