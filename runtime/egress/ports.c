/*
 * ports.c - the way without nf_tables: one listener of the box for each port that the rules
 * name, on all addresses. Runs in the supervisor.
 *
 * The box's kernel has answered before anything is judged: a refusal is a connection that
 * is reset.
 */
#include "runtime/egress/gate.h"

#include "runtime/egress/accept.h"
#include "runtime/egress/sockaddr.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>

struct port {
	struct arrivals in;
	struct egress *e;
	struct stub *stub;
};

static void reached(struct conn *c, enum reach how)
{
	int fd = (int)(intptr_t)c->owner;

	if (how == REACH_OPEN)
		conn_relay(c, fd);
	else
		reset_fd(fd);
}

static void take_connection(const struct port *p, int fd)
{
	struct sockaddr_storage here;
	socklen_t len = sizeof(here);
	struct egress_dest d = { .proto = EGRESS_TCP };
	struct egress_verdict v;
	struct egress_addr addr;

	if (getsockname(fd, (struct sockaddr *)&here, &len) < 0) {
		reset_fd(fd);
		return;
	}
	addr = addr_of_sockaddr(&here, &d.port);
	addr = egress_addr_normal(addr);
	d.name = names_find(p->e->names, &addr);
	d.addr = d.name ? NULL : &addr;
	v = egress_judge(p->e->rules, &d);
	if (!d.name && names_is_fake(&addr))
		v = (struct egress_verdict){ .why = EGRESS_BY_PRIVATE, .rule = -1 };
	if (v.allowed && conn_begin(p->e, &d, reached, (void *)(intptr_t)fd))
		return;
	if (!v.allowed)
		ledger_deny(&p->e->ledger, &d, &v, NULL);
	reset_fd(fd);
}

static void ready(struct source *s, uint32_t events)
{
	struct port *p = PART_OF(s, struct port, in.in);

	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = arrivals_next(&p->in);

		if (fd < 0)
			return;
		take_connection(p, fd);
	}
}

int ports_listen(struct egress *e, struct stub *stub, int fd)
{
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	*p = (struct port){ .e = e, .stub = stub };
	return arrivals_begin(&p->in, &e->loop, (struct source){ fd, ready }, EPOLLIN);
}
