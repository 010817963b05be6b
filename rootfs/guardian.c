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
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { KEEP_MAX = 512 };

/* What getdents64(2) writes; no libc's header has it for both of ours. */
struct dirent64_head {
	uint64_t ino, off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* "." and ".." at most, in as many calls as it takes: a network file system may give
 * one entry a call. */
static bool is_empty(int fd)
{
	_Alignas(8) char entries[1024];
	long n;

	while ((n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64_head *e = (const void *)(entries + at);

			if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
				return false;
			at += e->len;
		}
	}
	return n == 0;
}

bool placeholder_is(int dir, const char *name)
{
	owned_fd int fd = -1;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (!S_ISDIR(st.st_mode))
		return false;
	/* Something put into it gives it another time. */
	if (st.st_mtim.tv_sec == PLACEHOLDER_MTIME && st.st_mtim.tv_nsec == 0)
		return true;
	if (!(st.st_mode & S_ISVTX))
		return false;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? errno == ENOENT : is_empty(fd);
}

static bool is_ours(const struct placeholder_mark *m, const struct stat *st, time_t since)
{
	if (m->is_made)
		return st->st_dev == m->dev && st->st_ino == m->ino;
	/* Killed between making it and marking: new, and in the place we were making. */
	return m->is_begun && st->st_ctim.tv_sec >= since;
}

bool placeholder_drop(struct placeholder *p, struct placeholder_mark *mark, time_t since)
{
	int fd = p->fd >= 0 ? p->fd
			    : openat(p->dir, p->name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool is_locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
	struct stat st;

	/*
	 * A refused lock is another box with a mount on it: that one removes it. Of two
	 * that upgrade at once one succeeds, for each gives up its shared lock first.
	 */
	if (fd >= 0 && !is_locked &&
	    fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_ours(mark, &st, since))
		unlinkat(p->dir, p->name, AT_REMOVEDIR); /* fails when it was filled */
	if (fd >= 0)
		close(fd);
	p->fd = -1;
	if (!is_locked)
		mark->is_made = mark->is_begun = false;
	return !is_locked;
}

/* ------------------------------------------------------- the process itself -- */

struct watch {
	int launcher;		/* pidfd */
	int keep[KEEP_MAX];	/* ascending: what stays open */
	size_t keep_count;
	struct placeholder *v;
	const struct guardian *g;
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

/*
 * The launcher's child shares the launcher's locks and may outlive it by a moment, so a
 * refused lock is tried again for a while; after that it is another box's.
 */
static void drop_all(const struct watch *w)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	size_t left = w->g->n;

	for (int round = 0; round < 200 && left; round++) {
		if (round)
			nanosleep(&pause, NULL);
		left = 0;
		for (size_t i = 0; i < w->g->n; i++)
			if ((w->g->marks[i].is_made || w->g->marks[i].is_begun) &&
			    !placeholder_drop(&w->v[i], &w->g->marks[i], w->g->since))
				left++;
	}
}

static void guardian_run(struct watch *w)
{
	struct pollfd calls[] = { { .fd = w->launcher, .events = POLLIN },
				  { .fd = w->g->wake, .events = POLLIN } };

	/* Own session: no Ctrl-C, no hang-up. A folder as cwd would stay busy; where even
	 * "/" cannot be entered it stays so, which is better than no guardian. */
	setsid();
	syscall(SYS_chdir, "/");
	prctl(PR_SET_NAME, "nsbox-guardian");
	close_all_but(w);
	while (poll(calls, ARRAY_SIZE(calls), -1) < 1)
		if (errno != EINTR)
			break;
	drop_all(w);
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

/* Marks are shared memory: telling by message would wake the guardian each time. */
static int share_marks(struct guardian *g, size_t n, struct nsbox_error *err)
{
	void *p = mmap(NULL, n * sizeof(*g->marks), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return err_sys(err, "share memory with the guardian of protected names");
	g->marks = p;
	g->n = n;
	return 0;
}

int guardian_start(struct guardian *g, struct placeholder *v, size_t n, struct nsbox_error *err)
{
	owned_fd int launcher = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct watch w = { .v = v, .g = g, .launcher = launcher };
	int rc;

	if (n + 2 > KEEP_MAX)
		return err_set(err, NSBOX_E_POLICY, "more than %d protected names do not exist",
			       KEEP_MAX - 2);
	if (launcher < 0)
		return err_sys(err, "open a pidfd of the launcher");
	rc = share_marks(g, n, err);
	if (rc < 0)
		return rc;
	g->wake = eventfd(0, EFD_CLOEXEC);
	if (g->wake < 0)
		return err_sys(err, "make an eventfd for the guardian of protected names");
	g->since = time(NULL);
	keep(&w, launcher);
	keep(&w, g->wake);
	for (size_t i = 0; i < n; i++)
		keep(&w, v[i].dir);
	g->pid = split(&w);
	if (g->pid < 0) {
		g->pid = 0;
		close(g->wake);
		return err_sys(err, "start the guardian of protected names");
	}
	return 0;
}

static void let_go(struct guardian *g)
{
	if (g->pid > 0)
		close(g->wake);
	if (g->marks)
		munmap(g->marks, g->n * sizeof(*g->marks));
	*g = (struct guardian){ 0 };
}

void guardian_end(struct guardian *g)
{
	/* Its pid is ours until we wait: without an exit signal nobody else reaps it. */
	if (g->pid > 0) {
		kill(g->pid, SIGKILL);
		while (waitpid(g->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	let_go(g);
}

void guardian_leave(struct guardian *g)
{
	if (g->pid > 0)
		(void)!eventfd_write(g->wake, 1);
	let_go(g);
}
