/*
 * companion.c - see companion.h
 *
 * Runs in the launcher, and in a child of doctor; child() runs in the copy until it is
 * the other program. The copy shares this process's memory, so it makes raw system
 * calls only, and no handler of the caller's may run in it.
 *
 * Must:    start only what nobody could change who could not change this code.
 * Mustn't: pass on a descriptor, a variable or a signal handler.
 */
#include "runtime/companion.h"

#include "base/cleanup.h"
#include "base/lines.h"
#include "runtime/sys.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2) /* Linux 5.11 */
#endif

enum { STACK_SIZE = 16 * 1024, SIGNALS = 64 };

/* --- finding ----------------------------------------------------------------- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uintptr_t hex(const char **at)
{
	uintptr_t v = 0;

	for (int d; (d = hex_digit(**at)) >= 0; (*at)++)
		v = v << 4 | (uintptr_t)d;
	return v;
}

/* START-END perms offset dev inode   PATH: proc(5). NULL: not the mapping at `here`. */
static const char *path_of_mapping(const char *line, uintptr_t here)
{
	uintptr_t start = hex(&line), end;

	if (*line++ != '-')
		return NULL;
	end = hex(&line);
	return start <= here && here < end ? strchr(line, '/') : NULL;
}

/* The file that this very function is in: the program, or the shared library. */
static int own_folder(char folder[PATH_MAX], struct stat *self)
{
	owned_fd int fd = openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct lines l = { .fd = fd };
	const char *line;

	if (fd < 0)
		return -1;
	while ((line = lines_next(&l))) {
		const char *path = path_of_mapping(line, (uintptr_t)companion_find);
		size_t n = path ? strlen(path) : 0;

		if (!n || n >= PATH_MAX)
			continue;
		memcpy(folder, path, n + 1);
		if (stat(folder, self) < 0)
			return -1;
		*strrchr(folder, '/') = '\0';
		return 0;
	}
	errno = ENOENT;
	return -1;
}

/* Nobody may be able to change the program who could not change this code. */
static bool is_as_safe(const struct stat *program, const struct stat *self)
{
	mode_t writers = program->st_mode & 022;

	return S_ISREG(program->st_mode) && (program->st_mode & 0111) &&
	       (program->st_uid == 0 || program->st_uid == self->st_uid) &&
	       !(writers & ~self->st_mode) &&
	       (!(writers & 020) || program->st_gid == self->st_gid);
}

static int join_path(char path[PATH_MAX], const char *folder, const char *between,
		     const char *name)
{
	const char *const parts[] = { folder, between, name };
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t n = strlen(parts[i]);

		if (at + n >= PATH_MAX)
			return -1;
		memcpy(path + at, parts[i], n);
		at += n;
	}
	path[at] = '\0';
	return 0;
}

int companion_find(struct companion *c, const char *name)
{
	/* beside the command; installed, from bin/, lib/ and lib/<machine>/; in the build tree */
	static const char *const places[] = {
		"/", "/../libexec/nsbox/", "/../../libexec/nsbox/", "/../bin/",
	};
	struct stat self;

	c->fd = -1;
	if (own_folder(c->folder, &self) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		owned_fd int fd = -1;

		if (join_path(c->path, c->folder, places[i], name) < 0)
			continue;
		fd = openat(AT_FDCWD, c->path, O_PATH | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (fstat(fd, &c->st) < 0)
			return -1;
		if (!is_as_safe(&c->st, &self)) {
			errno = EPERM;
			return -1;
		}
		c->fd = take_fd(fd);
		return 0;
	}
	errno = ENOENT;
	return -1;
}

int companion_above_stdio(int fd)
{
	owned_fd int low = fd;

	if (fd < 0 || fd > 2)
		return take_fd(low);
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* --- starting ---------------------------------------------------------------- */

struct start {
	const struct companion_call *call;
	long failed; /* what execve answered, in the memory that both share */
};

/* The mask is opened last: by then no signal has a handler of the caller's. */
static void child(void *arg)
{
	/* The kernel's struct sigaction, zero: SIG_DFL, no flags, no mask. */
	static const unsigned long by_default[4];
	static char *const no_environment[] = { NULL };
	static const uint64_t none;
	struct start *s = arg;
	const struct companion_call *c = s->call;

	for (int sig = 1; sig <= SIGNALS; sig++)
		sys(rt_sigaction, sig, by_default, NULL, sizeof(uint64_t));
	sys(rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	s->failed = sys(close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
	for (int i = 0; i < 3 && s->failed >= 0; i++)
		s->failed = sys(dup3, c->stdio[i], i, 0);
	if (s->failed >= 0)
		s->failed = sys(execveat, c->exe, "", c->argv, no_environment, AT_EMPTY_PATH);
	for (;;)
		sys(exit_group, 126);
}

int companion_start(struct companion_process *p, const struct companion_call *call)
{
	char stack[STACK_SIZE] __attribute__((aligned(16)));
	const uint64_t all = ~(uint64_t)0;
	struct start s = { .call = call };
	struct companion_process made = { .pidfd = -1 };
	uint64_t saved;
	long pid;

	/* Raw: libc's mask leaves its own internal signals open. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &saved, sizeof(all));
	/* VFORK: we go on, and the stack with us, only when it is another program. */
	pid = sys_clone_on(CLONE_VM | CLONE_VFORK | CLONE_PIDFD, stack + sizeof(stack),
			   &made.pidfd, child, &s);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &saved, NULL, sizeof(saved));
	made.pid = (pid_t)pid;
	if (pid > 0 && s.failed < 0) {
		companion_end(&made);
		pid = s.failed;
	}
	if (pid < 0) {
		errno = (int)-pid;
		return -1;
	}
	*p = made;
	return 0;
}

int companion_end(struct companion_process *p)
{
	siginfo_t info = { 0 };
	int r;

	syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
	do
		r = waitid((idtype_t)3 /* P_PIDFD */, (id_t)p->pidfd, &info, WEXITED | __WALL);
	while (r < 0 && errno == EINTR);
	close(p->pidfd);
	p->pidfd = -1;
	if (r < 0)
		return -1;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}
