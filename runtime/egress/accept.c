/*
 * accept.c - see accept.h. Runs in the supervisor.
 *
 * Mustn't: spin. Without a free descriptor the connection stays in the backlog, and epoll
 *          would tell of it for ever.
 */
#include "runtime/egress/accept.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { REST_US = 100000 };

static void rested(struct timer *t)
{
	struct arrivals *a = PART_OF(t, struct arrivals, rest);

	if (loop_change(a->loop, &a->in, EPOLLIN) < 0)
		timer_set(a->loop, t, loop_now() + REST_US);
}

int arrivals_begin(struct arrivals *a, struct loop *loop, struct source in, uint32_t events)
{
	*a = (struct arrivals){ .in = in, .rest.fire = rested, .loop = loop };
	return loop_add(loop, &a->in, events);
}

int arrivals_next(struct arrivals *a)
{
	int fd;

	do {
		fd = accept4(a->in.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (fd < 0 && (errno == ECONNABORTED || errno == EINTR));
	if (fd < 0 && errno != EAGAIN) {
		loop_change(a->loop, &a->in, 0);
		timer_set(a->loop, &a->rest, loop_now() + REST_US);
	}
	return fd;
}
