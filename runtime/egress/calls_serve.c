/*
 * calls_serve.c - servers of a box that shares the host's network namespace, and the names of
 * its streams. See calls_part.h. Runs in the supervisor.
 *
 * bind(2) and listen(2) are done on 127.0.0.1, on a port of the kernel's choice that the box
 * does not hear of. getsockname(2) and getpeername(2) say what it would know in a network of
 * its own. Other programs of the host can connect to such a server, as to any on loopback.
 *
 * Mustn't: let a socket listen whose port no keeper holds.
 */
#include "runtime/egress/calls_part.h"

#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

enum { BACKLOG_MAX = 4096 };

/* --- the box's socket ---------------------------------------------------------------------- */

int calls_option(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) < 0 ? 0 : value;
}

void calls_set(int fd, int level, int name, int value)
{
	setsockopt(fd, level, name, &value, sizeof(value));
}

int calls_state(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ? -1 : info.tcpi_state;
}

/* Everything that is real is on 127.0.0.1, also for a socket of IPv6. */
socklen_t calls_real_addr(struct sockaddr_storage *to, int family, uint16_t port)
{
	const struct egress_addr loopback = { 4, { 127, 0, 0, 1 } };
	struct egress_addr addr = calls_addr_for(family, loopback);

	return sockaddr_of(to, &addr, port, 0);
}

/* The port that the kernel has for it; 0: none, or not one of 127.0.0.1. */
uint16_t calls_real_port(int fd)
{
	static const struct egress_addr loopback = { 4, { 127, 0, 0, 1 } };
	struct sockaddr_storage here;
	socklen_t len = sizeof(here);
	struct egress_addr addr;
	uint16_t port;

	if (getsockname(fd, (struct sockaddr *)&here, &len) < 0)
		return 0;
	addr = addr_of_sockaddr(&here, &port);
	addr = egress_addr_normal(addr);
	return memcmp(&addr, &loopback, sizeof(addr)) == 0 ? port : 0;
}

/* --- servers in the box --------------------------------------------------------------------------- */

static int bind_real(int fd, int family, const struct calls_port *p)
{
	struct sockaddr_storage to;
	socklen_t len = calls_real_addr(&to, family, p->real);
	int error = 0;

	if (family == AF_INET6)
		calls_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	calls_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	calls_port_share(p, true);
	if (bind(fd, (const struct sockaddr *)&to, len) < 0)
		error = errno;
	calls_port_share(p, false);
	return error;
}

/* The port of the box's, new or used again; NULL with errno. */
static struct calls_port *port_for(struct calls *k, uint16_t port, bool has4, bool has6)
{
	struct calls_port *p4 = port && has4 ? calls_port_find(k, port, false) : NULL;
	struct calls_port *p6 = port && has6 ? calls_port_find(k, port, true) : NULL;
	struct calls_port *p = p4 ? p4 : p6;

	if (!p)
		return calls_port_add(k, port, has4, has6);
	if (p->has4 == has4 && p->has6 == has6)
		return p;
	/* For other families than before: that was another server, or its end. */
	if (calls_port_is_served(p) || (p4 && p6 && p4 != p6 && calls_port_is_served(p6))) {
		errno = EADDRINUSE;
		return NULL;
	}
	p->has4 = has4;
	p->has6 = has6;
	return p;
}

static int bind_to(struct calls *k, struct calls_socket *s, int fd, const struct calls_dest *to)
{
	bool only6 = s->family == AF_INET6 && calls_option(fd, IPPROTO_IPV6, IPV6_V6ONLY);
	bool is_v4 = egress_addr_normal(to->addr).family == 4;
	bool is_any = calls_is_any(&to->addr);
	bool has6 = s->family == AF_INET6 && (!is_v4 || is_any);
	bool has4 = s->family == AF_INET || is_v4 || (is_any && !only6);
	struct calls_port *p = port_for(k, to->port, has4, has6);
	int error = p ? bind_real(fd, s->family, p) : errno;

	if (error)
		return error;
	s->is_bound = true;
	s->own = to->addr;
	s->own_port = p->port;
	return 0;
}

void calls_bind(struct calls *k, struct calls_socket *s, const struct calls_request *r)
{
	struct calls_dest to;
	int error = calls_dest_of(&to, r, s->family, true);

	if (!error && to.is_unspec)
		error = EAFNOSUPPORT;
	else if (!error && (calls_real_port(r->fd) || calls_state(r->fd) != TCP_CLOSE))
		error = EINVAL;
	else if (!error && !calls_is_own(&to.addr))
		error = EADDRNOTAVAIL;
	else if (!error && to.port && to.port < CALLS_FIRST_PORT)
		error = EACCES;
	calls_say(k, r->head.id, error ? error : bind_to(k, s, r->fd, &to), 0);
}

void calls_listen(struct calls *k, struct calls_socket *s, const struct calls_request *r)
{
	struct calls_dest any = { .addr.family = s->family == AF_INET ? 4 : 6 };
	uint32_t backlog = r->head.arg[0] > BACKLOG_MAX ? BACKLOG_MAX : r->head.arg[0];
	const struct calls_port *p;
	int error = 0;

	if (!calls_real_port(r->fd) && calls_state(r->fd) == TCP_CLOSE)
		error = bind_to(k, s, r->fd, &any);
	p = calls_port_of_real(k, calls_real_port(r->fd));
	if (!error && !p)
		error = EINVAL; /* connected */
	if (!error) {
		calls_port_share(p, true);
		if (listen(r->fd, (int)backlog) < 0)
			error = errno;
		calls_port_share(p, false);
	}
	calls_say(k, r->head.id, error, 0);
}

/* --- names ------------------------------------------------------------------------------------------ */

void calls_sockname(struct calls *k, const struct calls_socket *s,
		      const struct calls_request *r, int family)
{
	struct egress_addr addr = calls_addr_for(family, (struct egress_addr){ .family = 4 });
	uint16_t real = calls_real_port(r->fd);
	const struct calls_port *p = calls_port_of_real(k, real);
	uint16_t port = p ? p->port : real;

	if (family == AF_INET6)
		addr = (struct egress_addr){ .family = 6 }; /* ::, not ::ffff:0.0.0.0 */
	if (s && (s->is_connected || s->is_bound) && real)
		addr = s->own;
	else if (real) /* what accept(2) gave */
		addr = calls_addr_for(family, (struct egress_addr){ 4, { 127, 0, 0, 1 } });
	calls_say_name(k, r->head.id, &addr, port);
}

void calls_peername(struct calls *k, const struct calls_socket *s,
		      const struct calls_request *r)
{
	struct sockaddr_storage there;
	socklen_t len = sizeof(there);

	if (getpeername(r->fd, (struct sockaddr *)&there, &len) < 0)
		calls_say(k, r->head.id, errno, 0);
	else if (s && s->is_connected)
		calls_say_name(k, r->head.id, &s->peer, s->peer_port);
	else
		calls_say_pass(k, r->head.id);
}

/* How connect ended. The kernel's own word for it is that we took the socket back. */
void calls_error(struct calls *k, struct calls_socket *s, const struct calls_request *r)
{
	int error = calls_option(r->fd, SOL_SOCKET, SO_ERROR);

	if (s && s->error)
		error = s->error;
	if (s)
		s->error = 0;
	calls_say_int(k, r->head.id, error);
}
