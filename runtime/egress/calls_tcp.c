/*
 * calls_tcp.c - streams of a box that shares the host's network namespace. See calls_part.h.
 * Runs in the supervisor.
 *
 * The box holds a TCP socket that we made. connect(2) in the box never goes where it says. Its
 * socket is connected to a port of 127.0.0.1 where nothing is answered: so it is in
 * SYN_SENT, poll(2) waits, and connect(2) says EINPROGRESS, as with any server far away. When the
 * destination was judged and reached, a socket of ours, bound to that port, connects to the
 * box's: a simultaneous open (RFC 9293, 3.5). That socket is the box's side of the relay. On
 * loopback both are connected before connect(2) returns, unless the machine is so busy that the
 * kernel puts its packets off. When it was refused, shutdown(2) takes the box's socket back.
 * What a rule refuses is answered at once, since it is known at once.
 *
 * connect(2) to the box's own addresses leads to its own servers (calls_serve.c).
 *
 * Must:    connect sockets of the box to 127.0.0.1 alone, to `hold_port` or to a port that a
 *          keeper holds.
 * Mustn't: keep a copy of a socket of the box longer than something is under way for it:
 *          close(2) in the box would not close it.
 */
#include "runtime/egress/calls_part.h"

#include "base/cleanup.h"
#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>

struct calls_way {
	struct calls_way *next, **self;
	struct calls *k;
	struct calls_socket *s;
	struct conn *conn;	/* NULL: to a server in the box, or to the stub */
	struct source local;	/* the box's socket; watched while its own kernel connects it */
	struct source ours;	/* our end of it, until both are connected; -1: none */
	uint64_t waiter;	/* a call that waits for the end; 0: none */
	struct timer late;	/* SO_SNDTIMEO of it */
};

/* --- the box's socket ---------------------------------------------------------------------- */

/* The descriptor is shared with the box, and connect(2) has no flag: so it must not block
 * for a moment. 0, or an errno. */
static int connect_real(int fd, int family, uint16_t port)
{
	struct sockaddr_storage to;
	socklen_t len = calls_real_addr(&to, family, port);
	int flags = fcntl(fd, F_GETFL), error = 0;

	if (flags < 0)
		return errno;
	if (family == AF_INET6)
		calls_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)&to, len) < 0)
		error = errno;
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
	if (error != EINTR)
		return error;
	shutdown(fd, SHUT_RDWR); /* it did block: main.c, wake_often() */
	return ECONNABORTED;
}

static void disconnect_real(int fd)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	connect(fd, &nobody, sizeof(nobody));
}

/* --- ways ------------------------------------------------------------------------------------ */

static struct calls_way *begin_way(struct calls *k, struct calls_socket *s, struct calls_request *r)
{
	struct calls_way *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct calls_way){ .k = k, .s = s, .next = k->ways, .self = &k->ways,
				 .local.fd = r->fd, .ours.fd = -1 };
	r->fd = -1;
	if (w->next)
		w->next->self = &w->next;
	k->ways = w;
	s->way = w;
	return w;
}

/* Nothing is under way any more; the box's socket is as it is. */
static void drop_way(struct calls_way *w)
{
	if (w->conn)
		conn_drop(w->conn);
	if (w->local.ready)
		loop_remove(&w->k->e->loop, &w->local);
	if (w->ours.fd >= 0) {
		loop_remove(&w->k->e->loop, &w->ours);
		close(w->ours.fd);
	}
	timer_clear(&w->late);
	close(w->local.fd);
	*w->self = w->next;
	if (w->next)
		w->next->self = w->self;
	w->s->way = NULL;
	free(w);
}

static void end_way(struct calls_way *w, int error)
{
	struct calls *k = w->k;
	struct calls_socket *s = w->s;
	uint64_t waiter = w->waiter;

	if (error) {
		shutdown(w->local.fd, SHUT_RDWR); /* poll(2) in the box hears of it */
		s->is_connected = false;
	}
	if (error && waiter)
		calls_option(w->local.fd, SOL_SOCKET, SO_ERROR); /* told by our answer */
	s->error = waiter ? 0 : error;
	s->is_told = waiter != 0;
	w->conn = NULL;
	drop_way(w);
	if (waiter)
		calls_say(k, waiter, error, 0);
}

static void is_late(struct timer *t)
{
	struct calls_way *w = PART_OF(t, struct calls_way, late);

	calls_say(w->k, w->waiter, EINPROGRESS, 0);
	w->waiter = 0;
}

/* The call ends when the way does, unless it may not wait. */
static void wait_for(struct calls_way *w, uint64_t id)
{
	uint64_t us = calls_timeout_us(w->local.fd, SO_SNDTIMEO);

	if (calls_is_nonblocking(w->local.fd)) {
		calls_say(w->k, id, EINPROGRESS, 0);
		return;
	}
	w->waiter = id;
	w->late.fire = is_late;
	if (us)
		timer_set(&w->k->e->loop, &w->late, loop_now() + us);
}

/* As with any connect(2) that a signal ends: the socket goes on connecting. */
bool calls_tcp_cancel(struct calls *k, uint64_t id)
{
	for (struct calls_way *w = k->ways; w; w = w->next)
		if (w->waiter == id) {
			w->waiter = 0;
			timer_clear(&w->late);
			return true;
		}
	return false;
}

/* --- to the outside --------------------------------------------------------------------------- */

/* Our end of the box's socket, which waits for it: a simultaneous open. */
static int open_ours(const struct calls *k, int theirs)
{
	const struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(k->hold_port),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in there = here;
	uint16_t port = calls_state(theirs) == TCP_SYN_SENT ? calls_real_port(theirs) : 0;
	owned_fd int fd = port ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;

	if (fd < 0)
		return -1;
	calls_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	there.sin_port = htons(port);
	if (bind(fd, (const struct sockaddr *)&here, sizeof(here)) < 0 ||
	    (connect(fd, (const struct sockaddr *)&there, sizeof(there)) < 0 &&
	     errno != EINPROGRESS))
		return -1;
	return take_fd(fd);
}

static bool is_open(const struct calls_way *w)
{
	return calls_state(w->ours.fd) == TCP_ESTABLISHED &&
	       calls_state(w->local.fd) == TCP_ESTABLISHED;
}

/* Both ends are there, or will never be. */
static void coupled(struct calls_way *w, bool is_good)
{
	struct calls *k = w->k;
	struct conn *c = w->conn;
	int fd = is_good ? w->ours.fd : -1;

	if (w->ours.ready)
		loop_remove(&k->e->loop, &w->ours);
	if (!is_good && w->ours.fd >= 0)
		close(w->ours.fd);
	w->ours.fd = -1;
	end_way(w, is_good ? 0 : ECONNREFUSED);
	if (c && is_good)
		conn_relay(c, fd);
	else if (c)
		conn_drop(c);
	else if (is_good)
		stub_serve_client(k->stub, fd);
}

static void ours_ready(struct source *source, uint32_t events)
{
	struct calls_way *w = PART_OF(source, struct calls_way, ours);
	bool may_be = !(events & (EPOLLERR | EPOLLHUP)) &&
		      (!w->conn || conn_is_allowed(w->conn)); /* the rules may be new since */

	coupled(w, may_be && is_open(w));
}

static void couple(struct calls_way *w)
{
	w->ours.fd = open_ours(w->k, w->local.fd);
	if (w->ours.fd < 0 || is_open(w)) {
		coupled(w, w->ours.fd >= 0);
		return;
	}
	w->ours.ready = ours_ready;
	if (loop_add(&w->k->e->loop, &w->ours, EPOLLOUT) < 0) {
		w->ours.ready = NULL;
		coupled(w, false);
	}
}

static int errno_of(enum reach how)
{
	switch (how) {
	case REACH_OPEN:
		return 0;
	case REACH_UNREACHABLE:
		return EHOSTUNREACH;
	case REACH_TIMEOUT:
		return ETIMEDOUT;
	case REACH_DENIED:
	case REACH_REFUSED:
	case REACH_NO_ROOM:
		break;
	}
	return ECONNREFUSED;
}

static void reached(struct conn *c, enum reach how)
{
	struct calls_way *w = c->owner;

	if (how == REACH_OPEN)
		couple(w);
	else
		end_way(w, errno_of(how));
}

/* A resolver of the program's own: ours answers in its place (see gate.c). */
static bool is_for_stub(const struct egress_dest *d, const struct egress_verdict *v)
{
	/* No rule makes the host's loopback the box's, be it for a name server. */
	bool is_own = d->addr && calls_is_own(d->addr);

	return d->port == INLET_DNS_PORT &&
	       (is_own || !(v->allowed && v->why == EGRESS_BY_ALLOW));
}

static struct egress_verdict judge(struct calls *k, struct egress_dest *d,
				   const struct egress_addr *addr)
{
	d->name = names_find(k->e->names, addr);
	d->addr = d->name ? NULL : addr;
	if (!d->name && names_is_fake(addr))
		return (struct egress_verdict){ .why = EGRESS_BY_PRIVATE, .rule = -1 };
	return egress_judge(k->e->rules, d);
}

static void connect_outside(struct calls *k, struct calls_socket *s, struct calls_request *r,
			    const struct calls_dest *to)
{
	struct egress_addr addr = egress_addr_normal(to->addr);
	struct egress_dest d = { .proto = EGRESS_TCP, .port = to->port };
	struct egress_verdict v = judge(k, &d, &addr);
	struct calls_way *w;
	int error;

	if (!v.allowed && !is_for_stub(&d, &v)) {
		ledger_deny(&k->e->ledger, &d, &v, NULL);
		calls_say(k, r->head.id, ECONNREFUSED, 0);
		return;
	}
	error = connect_real(r->fd, s->family, k->hold_port);
	if (error != EINPROGRESS) {
		calls_say(k, r->head.id, error ? error : ECONNREFUSED, 0);
		return;
	}
	s->peer = to->addr;
	s->peer_port = to->port;
	s->own = calls_own_for(s->family, &to->addr);
	s->is_connected = true;
	w = begin_way(k, s, r);
	if (w && !is_for_stub(&d, &v))
		w->conn = conn_begin(k->e, &d, reached, w);
	if (w && (w->conn || is_for_stub(&d, &v))) {
		wait_for(w, r->head.id);
		if (!w->conn)
			couple(w);
		return;
	}
	shutdown(w ? w->local.fd : r->fd, SHUT_RDWR);
	s->is_connected = false;
	if (w)
		drop_way(w);
	calls_say(k, r->head.id, ECONNREFUSED, 0);
}

/* --- to a server in the box --------------------------------------------------------------------- */

static void local_ready(struct source *source, uint32_t events)
{
	struct calls_way *w = PART_OF(source, struct calls_way, local);
	int error = calls_option(source->fd, SOL_SOCKET, SO_ERROR);

	(void)events;
	end_way(w, error ? error : calls_state(source->fd) == TCP_ESTABLISHED ? 0 : ECONNREFUSED);
}

static void connect_inside(struct calls *k, struct calls_socket *s, struct calls_request *r,
			   const struct calls_dest *to)
{
	bool is_v6 = egress_addr_normal(to->addr).family == 6;
	const struct calls_port *p = calls_port_find(k, to->port, is_v6);
	int error = p ? connect_real(r->fd, s->family, p->real) : ECONNREFUSED;
	struct calls_way *w;

	if (error && error != EINPROGRESS) {
		calls_say(k, r->head.id, error, 0);
		return;
	}
	s->own = s->peer = calls_own_for(s->family, &to->addr);
	s->peer_port = to->port;
	s->is_connected = true;
	s->is_told = !error;
	if (!error) {
		calls_say(k, r->head.id, 0, 0);
		return;
	}
	w = begin_way(k, s, r); /* its backlog is full */
	if (w) {
		w->local.ready = local_ready;
		if (loop_add(&k->e->loop, &w->local, EPOLLOUT) == 0) {
			wait_for(w, r->head.id);
			return;
		}
		w->local.ready = NULL;
		drop_way(w);
	}
	calls_say(k, r->head.id, ENOBUFS, 0);
}

/* --- connect ------------------------------------------------------------------------------------ */

static void disconnect(struct calls *k, struct calls_socket *s, const struct calls_request *r)
{
	if (s->way && s->way->waiter)
		calls_say(k, s->way->waiter, ECONNABORTED, 0);
	if (s->way)
		drop_way(s->way);
	disconnect_real(r->fd);
	s->is_connected = s->is_told = false;
	s->error = 0;
	calls_say(k, r->head.id, 0, 0);
}

/* What connect(2) answers when it is not the first one; -1: it may go on. */
static int again(struct calls_socket *s, int fd)
{
	int error = s->error, state = calls_state(fd);

	s->error = 0;
	if (error)
		calls_option(fd, SOL_SOCKET, SO_ERROR);
	if (error || state == TCP_CLOSE)
		return error ? error : -1;
	if (state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return EALREADY;
	if (s->is_connected && !s->is_told) {
		s->is_told = true;
		return 0;
	}
	return EISCONN;
}

static void take_connect(struct calls *k, struct calls_socket *s, struct calls_request *r)
{
	struct calls_dest to;
	int error = calls_dest_of(&to, r, s->family, true);

	if (error) {
		calls_say(k, r->head.id, error, 0);
		return;
	}
	if (to.is_unspec) {
		disconnect(k, s, r);
		return;
	}
	if (s->way && !s->way->waiter && !calls_is_nonblocking(r->fd)) {
		wait_for(s->way, r->head.id);
		return;
	}
	error = s->way ? EALREADY : again(s, r->fd);
	if (error >= 0)
		calls_say(k, r->head.id, error, 0);
	else if (calls_is_own(&to.addr) &&
		 (to.port != INLET_DNS_PORT || calls_port_find(k, to.port, false)))
		connect_inside(k, s, r, &to);
	else
		connect_outside(k, s, r, &to);
}

/* --- beginning --------------------------------------------------------------------------------------- */

void calls_tcp(struct calls *k, struct calls_request *r)
{
	int family = calls_option(r->fd, SOL_SOCKET, SO_DOMAIN);
	bool is_tcp = calls_option(r->fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
	uint64_t inode = calls_inode(r->fd);
	struct calls_socket *s = calls_find(k, inode);

	if (s && (s->end || s->family != family))
		s = NULL; /* a number that is used again */
	switch (is_tcp ? r->head.what : CALLS_WHAT_END) {
	case CALLS_SOCKNAME:
		calls_sockname(k, s, r, family);
		return;
	case CALLS_PEERNAME:
		calls_peername(k, s, r);
		return;
	case CALLS_GETOPT:
		calls_error(k, s, r);
		return;
	case CALLS_CONNECT:
	case CALLS_BIND:
	case CALLS_LISTEN:
		break;
	default:
		calls_say(k, r->head.id, EOPNOTSUPP, 0);
		return;
	}
	if (!s)
		s = calls_add(k, inode, family); /* it was forgotten */
	if (!s)
		calls_say(k, r->head.id, ENOBUFS, 0);
	else if (r->head.what == CALLS_CONNECT)
		take_connect(k, s, r);
	else if (r->head.what == CALLS_BIND)
		calls_bind(k, s, r);
	else
		calls_listen(k, s, r);
}

void calls_tcp_socket(struct calls *k, const struct calls_request *r)
{
	int family = (int)r->head.arg[0];
	uint32_t flags = r->head.arg[1] & (SOCK_CLOEXEC | SOCK_NONBLOCK);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | (int)(flags & SOCK_NONBLOCK), 0);
	int error = errno;
	struct calls_socket *s = fd < 0 ? NULL : calls_add(k, calls_inode(fd), family);

	if (s) {
		calls_say_fd(k, r->head.id, fd, flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);
		return;
	}
	calls_say(k, r->head.id, fd < 0 ? error : ENOBUFS, 0);
	if (fd >= 0)
		close(fd);
}

/*
 * A listener whose backlog is full answers nothing at all (tcp_conn_request() of the kernel): one
 * of no length has room for one connection, which is ours. It is never accepted.
 */
static int fill(struct calls *k)
{
	struct sockaddr_storage to;
	socklen_t len = calls_real_addr(&to, AF_INET, k->hold_port);

	for (unsigned i = 0; i < ARRAY_SIZE(k->filler); i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			return -1;
		k->filler[i] = fd;
		connect(fd, (const struct sockaddr *)&to, len);
		if (calls_state(fd) == TCP_SYN_SENT)
			return 0;
	}
	return -1;
}

int calls_tcp_begin(struct calls *k)
{
	struct sockaddr_storage here;
	socklen_t len = calls_real_addr(&here, AF_INET, 0);
	owned_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	calls_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (bind(fd, (const struct sockaddr *)&here, len) < 0 || listen(fd, 0) < 0)
		return -1;
	k->hold_port = calls_real_port(fd);
	k->hold = take_fd(fd);
	return k->hold_port ? fill(k) : -1;
}
