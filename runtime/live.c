/* live.c - the end of a launch that succeeded: see launch.h. Runs in the launcher. */
#include "runtime/launch.h"

#include "base/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void live_kill(const struct live *l)
{
	if (l->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
}

int live_reap(struct live *l, int timeout_ms)
{
	struct pollfd pfd = { .fd = l->pidfd, .events = POLLIN };
	siginfo_t info;
	int ready;

	if (l->pidfd < 0)
		return 0;
	do {
		ready = poll(&pfd, 1, timeout_ms);
	} while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return 1;
	/* ECHILD: the caller has a wait of its own for everything, and was first. */
	while (waitid((idtype_t)3 /* P_PIDFD */, (id_t)l->pidfd, &info, WEXITED | __WALL) < 0 &&
	       errno == EINTR)
		;
	return 0;
}

void live_close(struct live *l)
{
	int *const fds[] = { &l->pidfd, &l->sock, &l->work_fd, &l->pty, &l->segments,
			     &l->listener };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	for (size_t i = 0; i < TREES_MAX; i++) {
		if (l->trees[i] >= 0)
			close(l->trees[i]);
		l->trees[i] = -1;
	}
}
