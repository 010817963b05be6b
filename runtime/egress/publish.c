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
#include "runtime/egress/accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	LOOK_US = 20000,	/* at a socket that has yet to send the rest */
	LOOKS = 500,
};

struct port {
	struct arrivals in;
	struct publish *all;
	struct port *next;
	uint16_t number;
};

struct spare {			/* a socket of the box */
	struct source way;	/* while it connects */
	struct timer look;	/* while it says the last of a connection */
	unsigned looks;
	struct publish *all;
	struct spare *next;	/* while it is free */
	int outside;		/* who waits for it */
};

struct publish {
	struct egress *e;
	struct calls *calls;	/* NULL: the box has a network of its own */
	struct port *ports;
	struct spare *free;
};

static void listen_all(struct publish *p, uint32_t events)
{
	for (struct port *port = p->ports; port; port = port->next)
		loop_change(&p->e->loop, &port->in.in, events);
}

/* Its connection is over: the socket as new. */
static void give_back(struct spare *s)
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

/* connect(2) to nobody throws away what the box has not yet taken. */
static bool has_said_all(const struct spare *s)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return getsockopt(s->way.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
	       info.tcpi_state == TCP_CLOSE;
}

static void look(struct timer *t)
{
	struct spare *s = PART_OF(t, struct spare, look);

	if (has_said_all(s) || ++s->looks == LOOKS)
		give_back(s);
	else
		timer_set(&s->all->e->loop, t, loop_now() + LOOK_US);
}

static void over(void *owner, bool is_reset)
{
	struct spare *s = owner;

	s->looks = 0;
	if (is_reset)
		give_back(s);
	else
		look(&s->look);
}

static void give_up(struct spare *s)
{
	reset_fd(s->outside);
	give_back(s);
}

static void join(struct spare *s)
{
	if (conn_join(s->all->e, s->way.fd, s->outside, over, s) < 0)
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

static void begin(struct spare *s, int outside, uint16_t wanted)
{
	struct calls *calls = s->all->calls;
	uint16_t port = calls ? calls_server(calls, wanted) : wanted;
	const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	s->outside = outside;
	if (!port)
		give_up(s);
	else if (connect(s->way.fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		join(s);
	else if (errno != EINPROGRESS ||
		 loop_add(&s->all->e->loop, &s->way, EPOLLOUT) < 0)
		give_up(s);
}

static void ready(struct source *source, uint32_t events)
{
	struct port *port = PART_OF(source, struct port, in.in);
	struct publish *p = port->all;

	(void)events;
	for (int i = 0; i < ACCEPTS && p->free; i++) {
		struct spare *s = p->free;
		int fd = arrivals_next(&port->in);

		if (fd < 0)
			return;
		p->free = s->next;
		begin(s, fd, port->number);
	}
	if (!p->free)
		listen_all(p, 0);
}

struct publish *publish_new(struct egress *e)
{
	struct publish *p = calloc(1, sizeof(*p));

	if (p)
		p->e = e;
	return p;
}

void publish_servers(struct publish *p, struct calls *calls)
{
	p->calls = calls;
}

int publish_port(struct publish *p, int fd, uint16_t number)
{
	struct port *port = calloc(1, sizeof(*port));

	if (!port)
		return -1;
	*port = (struct port){ .all = p, .next = p->ports, .number = number };
	p->ports = port;
	return arrivals_begin(&port->in, &p->e->loop, (struct source){ fd, ready },
			      p->free ? EPOLLIN : 0);
}

int publish_socket(struct publish *p, int fd)
{
	struct spare *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	*s = (struct spare){ .way = { fd, connected }, .look.fire = look, .all = p,
			     .next = p->free };
	p->free = s;
	if (!s->next)
		listen_all(p, EPOLLIN);
	return 0;
}
