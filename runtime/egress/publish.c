/*
 * publish.c - see publish.h. Runs in the supervisor.
 *
 * A socket belongs to the network namespace it was made in, and the supervisor can make none
 * in the box. So the child made some, and each is used again: connect(2) with AF_UNSPEC takes
 * a TCP socket back to where it began. When all are in use, callers wait in the host's
 * backlog.
 */
#include "runtime/egress/publish.h"

#include "base/cleanup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

struct port {
	struct source in;
	struct publish *all;
	struct port *next;
	uint16_t number;
};

struct spare {			/* a socket of the box */
	struct source way;	/* while it connects */
	struct publish *all;
	struct spare *next;	/* while it is free */
	int outside;		/* who waits for it */
};

struct publish {
	struct egress *e;
	struct port *ports;
	struct spare *free;
};

static void listen_all(struct publish *p, uint32_t events)
{
	for (struct port *port = p->ports; port; port = port->next)
		loop_change(&p->e->loop, &port->in, events);
}

/* Its connection is over: the socket as new. */
static void renew(struct spare *s)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	if (connect(s->way.fd, &nobody, sizeof(nobody)) < 0) {
		close(s->way.fd); /* one less */
		free(s);
		return;
	}
	s->next = s->all->free;
	s->all->free = s;
	if (!s->next)
		listen_all(s->all, EPOLLIN);
}

/* Both ends have said all, and the box's kernel has not yet taken all of ours. */
static bool is_leaving(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       (info.tcpi_state == TCP_LAST_ACK || info.tcpi_state == TCP_CLOSING);
}

static void changed(struct source *source, uint32_t events)
{
	struct spare *s = PART_OF(source, struct spare, way);

	(void)events;
	if (is_leaving(source->fd))
		return;
	loop_remove(&s->all->e->loop, source);
	renew(s);
}

/* AF_UNSPEC would throw away what is on its way to a slow reader. Edges alone: the two ends
 * that there are already would be told for ever. */
static void give_back(void *owner)
{
	struct spare *s = owner;

	s->way.ready = changed;
	if (!is_leaving(s->way.fd) || loop_add(&s->all->e->loop, &s->way, EPOLLET) < 0)
		renew(s);
}

static void give_up(struct spare *s)
{
	reset_fd(s->outside);
	renew(s);
}

static void join(struct spare *s)
{
	if (!conn_join(s->all->e, s->way.fd, s->outside, give_back, s))
		give_up(s);
}

static void connected(struct source *source, uint32_t events)
{
	struct spare *s = PART_OF(source, struct spare, way);
	int error = 0;
	socklen_t len = sizeof(error);

	(void)events;
	loop_remove(&s->all->e->loop, source);
	if (getsockopt(s->way.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
		give_up(s); /* nobody listens in the box */
	else
		join(s);
}

static void begin(struct spare *s, int outside, uint16_t port)
{
	const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	s->outside = outside;
	s->way.ready = connected;
	if (connect(s->way.fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		join(s);
	else if (errno != EINPROGRESS ||
		 loop_add(&s->all->e->loop, &s->way, EPOLLOUT) < 0)
		give_up(s);
}

static void ready(struct source *source, uint32_t events)
{
	struct port *port = PART_OF(source, struct port, in);
	struct publish *p = port->all;

	(void)events;
	while (p->free) {
		struct spare *s = p->free;
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		p->free = s->next;
		begin(s, fd, port->number);
	}
	listen_all(p, 0);
}

struct publish *publish_new(struct egress *e)
{
	struct publish *p = calloc(1, sizeof(*p));

	if (p)
		p->e = e;
	return p;
}

int publish_port(struct publish *p, int fd, uint16_t number)
{
	struct port *port = calloc(1, sizeof(*port));

	if (!port)
		return -1;
	*port = (struct port){ .in = { fd, ready }, .all = p, .next = p->ports, .number = number };
	p->ports = port;
	return loop_add(&p->e->loop, &port->in, p->free ? EPOLLIN : 0);
}

int publish_socket(struct publish *p, int fd)
{
	struct spare *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	*s = (struct spare){ .way = { .fd = fd }, .all = p, .next = p->free };
	p->free = s;
	if (!s->next)
		listen_all(p, EPOLLIN);
	return 0;
}
