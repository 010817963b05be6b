/*
 * Programs that come with nsbox (nsbox-policyc, nsbox-scope): found by the place of our
 * own code, never by PATH, and started with nothing inherited.
 */
#ifndef RUNTIME_COMPANION_H
#define RUNTIME_COMPANION_H

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

struct companion {
	int fd;			/* O_PATH, the caller's to close; -1: none */
	struct stat st;
	char path[PATH_MAX];	/* also of one that is not safe to run */
	char folder[PATH_MAX];	/* where this code is: the program, or libnsbox.so */
};
/*
 * 0, or -1 with errno. ENOENT: there is none. EPERM: others could have changed it who
 * could not change this code. No malloc: also for a child of doctor.
 */
int companion_find(struct companion *c, const char *name);

struct companion_call {
	int exe;
	int stdio[3];		/* become 0, 1, 2; each, and exe, is 3 or above */
	char *const *argv;	/* the environment is empty */
};
struct companion_process {
	pid_t pid;
	int pidfd;
};
/*
 * 0, or -1 with errno, of execve(2) too. Until then the child has no exit signal; execve
 * makes it an ordinary one, so a caller who waits for everything may reap it first.
 */
int companion_start(struct companion_process *p, const struct companion_call *call);

/* SIGKILL, wait. The exit code, or 128 + the signal; -1: somebody else reaped it. */
int companion_end(struct companion_process *p);

/* The descriptor itself or a copy from 3 up; -1 stays -1. */
int companion_above_stdio(int fd);

#endif
