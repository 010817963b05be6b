/*
 * calls_udp.c - datagrams of a box that shares the host's network namespace. See calls_part.h.
 * Runs in the supervisor.
 *
 * What the box holds as a UDP socket is one end of a SOCK_SEQPACKET pair, the other one is
 * ours. write(2), send(2), recv(2) and poll(2) on it are the kernel's; a name in a call on it
 * means nothing to the kernel, so none can lead past the rules. What the box would know of its
 * socket (ports, peers, who sent a datagram) is kept here. A datagram to another socket of the
 * box is handed over here, all others are udp.c's.
 *
 * Who sent a datagram that waits in the pair is in a line, in the same order. The box may take
 * datagrams without asking us: how much is still unread tells how many are (SIOCOUTQ).
 *
 * A pair cannot have an error. Where UDP would, an empty datagram wakes who waits, and who asks
 * us is told the error.
 */
#include "runtime/egress/calls_part.h"

#include "base/cleanup.h"
#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <fcntl.h>
#include <asm/ioctls.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

enum {
	ENDS_MAX = 1024,
	RECEIVERS_MAX = 256,	/* calls that wait for a datagram: as many as the broker holds */
	LINE = 512,		/* a pair has room for some 250 datagrams */
	FIRST_AUTO = 32768, LAST_AUTO = 60999, /* ip_local_port_range(7) */
	DATAGRAMS = 64,		/* of one socket in one turn of the loop */
	PORTS = 65536,
	UDP_MAX = 65507,	/* of data in one datagram */
	BUFFER = 65536,
};

struct sender {			/* of a datagram that is in the pair */
	struct egress_addr addr;
	uint16_t port;
	int error;		/* it stands for an error */
	uint32_t cost;		/* of the sender's buffer */
};

struct receiver {		/* a call that waits for a datagram */
	struct receiver *next;
	struct calls_end *end;
	uint64_t id;
	int fd;			/* the box's end */
	uint32_t flags, room;
	struct timer late;
};

struct calls_end {
	struct calls_end *next, **self;
	struct calls *k;
	struct calls_socket *s;
	struct source in;
	uint16_t port;		/* 0: none yet */
	struct receiver *receivers;
	unsigned first, count;	/* of `line` */
	uint64_t cost;		/* of all in it */
	struct sender line[LINE];
};

static uint8_t buffer[BUFFER];

/* --- the line ------------------------------------------------------------------------------ */

static uint64_t unread(const struct calls_end *e)
{
	int n = 0;

	return ioctl(e->in.fd, SIOCOUTQ, &n) < 0 || n < 0 ? 0 : (uint64_t)n;
}

static void drop_first(struct calls_end *e)
{
	e->cost -= e->line[e->first].cost;
	e->first = (e->first + 1) % LINE;
	e->count--;
}

/* What the box has taken without asking is no longer in the pair. */
static void catch_up(struct calls_end *e)
{
	uint64_t left = unread(e);

	while (e->count && e->cost > left)
		drop_first(e);
}

static void put_in_pair(struct calls_end *e, struct sender *from, const void *data, size_t len)
{
	uint64_t before, after;

	catch_up(e);
	before = unread(e);
	/* No room is as on any wire: lost. */
	if (e->count == LINE || send(e->in.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
	after = unread(e);
	from->cost = after > before ? (uint32_t)(after - before) : 1;
	e->line[(e->first + e->count++) % LINE] = *from;
	e->cost += from->cost;
}

/* --- receiving -------------------------------------------------------------------------------- */

static void answer_receiver(const struct receiver *w, const struct sender *from, size_t len)
{
	const struct calls_socket *s = w->end->s;
	struct egress_addr addr = calls_addr_for(s->family, from->addr);
	uint32_t size = len < w->room ? (uint32_t)len : w->room;

	calls_say_data(w->end->k, w->id,
		       &(struct calls_data){ &addr, from->port, buffer, size,
					     w->flags & MSG_TRUNC ? (uint32_t)len : size,
					     len > w->room ? MSG_TRUNC : 0 });
}

/* false: there is none. */
static bool receive(const struct receiver *w)
{
	struct calls_end *e = w->end;
	struct sender from = { .addr = e->s->peer, .port = e->s->peer_port };
	int peek = (int)w->flags & MSG_PEEK;
	ssize_t n;

	catch_up(e);
	n = recv(w->fd, buffer, sizeof(buffer), MSG_DONTWAIT | peek);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			calls_say(e->k, w->id, errno, 0);
		return errno != EAGAIN && errno != EINTR;
	}
	if (e->count)
		from = e->line[e->first];
	if (e->count && !peek)
		drop_first(e);
	if (!from.addr.family)
		from.addr.family = e->s->family == AF_INET ? 4 : 6; /* nobody knows any more */
	if (from.error)
		calls_say(e->k, w->id, from.error, 0);
	else
		answer_receiver(w, &from, (size_t)n);
	if (from.error)
		e->s->error = 0;
	return true;
}

static void end_receiver(struct receiver *w)
{
	struct receiver **at = &w->end->receivers;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	timer_clear(&w->late);
	close(w->fd);
	free(w);
}

static void serve_receivers(struct calls_end *e)
{
	while (e->receivers && receive(e->receivers))
		end_receiver(e->receivers);
}

static void is_late(struct timer *t)
{
	struct receiver *w = PART_OF(t, struct receiver, late);

	calls_say(w->end->k, w->id, EAGAIN, 0);
	end_receiver(w);
}

static unsigned waiting(const struct calls_end *e)
{
	unsigned n = 0;

	for (const struct receiver *w = e->receivers; w; w = w->next)
		n++;
	return n;
}

static void wait_for_datagram(const struct receiver *like, struct calls_request *r)
{
	struct calls_end *e = like->end;
	struct receiver *w = waiting(e) < RECEIVERS_MAX ? malloc(sizeof(*w)) : NULL;
	struct receiver **at = &e->receivers;
	uint64_t us = calls_timeout_us(r->fd, SO_RCVTIMEO);

	if (!w) {
		calls_say(e->k, r->head.id, ENOBUFS, 0);
		return;
	}
	*w = *like;
	w->late.fire = is_late;
	r->fd = -1;
	while (*at)
		at = &(*at)->next;
	*at = w;
	if (us)
		timer_set(&e->k->e->loop, &w->late, loop_now() + us);
}

static void take_receive(struct calls_end *e, struct calls_request *r)
{
	const struct receiver w = { .end = e, .id = r->head.id, .fd = r->fd,
				    .flags = r->head.arg[0], .room = r->head.arg[1] };

	if (w.flags & (MSG_ERRQUEUE | MSG_OOB))
		calls_say(e->k, w.id, EAGAIN, 0);
	else if (receive(&w))
		return;
	else if (w.flags & MSG_DONTWAIT || calls_is_nonblocking(r->fd))
		calls_say(e->k, w.id, EAGAIN, 0);
	else
		wait_for_datagram(&w, r);
}

bool calls_udp_cancel(struct calls *k, uint64_t id)
{
	for (struct calls_end *e = k->ends; e; e = e->next)
		for (struct receiver *w = e->receivers; w; w = w->next)
			if (w->id == id) {
				end_receiver(w);
				return true;
			}
	return false;
}

/* --- into the box ------------------------------------------------------------------------------- */

static bool is_peer(const struct calls_socket *s, const struct egress_addr *addr, uint16_t port)
{
	struct egress_addr a = egress_addr_normal(*addr), b = egress_addr_normal(s->peer);

	return s->peer_port == port && a.family == b.family &&
	       memcmp(a.bytes, b.bytes, a.family == 4 ? 4 : 16) == 0;
}

static void deliver(struct calls_end *e, const struct egress_addr *addr, uint16_t port,
		    const uint8_t *data, size_t len)
{
	struct sender from = { .addr = *addr, .port = port };

	if (e->s->is_connected && !is_peer(e->s, addr, port))
		return;
	put_in_pair(e, &from, data, len);
	serve_receivers(e);
}

static void deliver_error(struct calls_end *e, int error)
{
	struct sender from = { .addr = e->s->peer, .port = e->s->peer_port, .error = error };

	e->s->error = error;
	put_in_pair(e, &from, "", 0);
	serve_receivers(e);
}

static void on_answer(void *arg, const struct flow *f, const uint8_t *data, size_t len)
{
	struct calls *k = arg;
	struct calls_end *e = k->by_port[f->sport];

	if (e)
		deliver(e, &f->dst, f->dport, data, len);
}

/* As with UDP: who is not connected hears nothing of it. */
static void on_unreachable(void *arg, const struct flow *f, enum unreach code)
{
	struct calls *k = arg;
	struct calls_end *e = k->by_port[f->sport];

	(void)code;
	k->udp_refused = true;
	if (e && !k->udp_asks && e->s->is_connected && is_peer(e->s, &f->dst, f->dport))
		deliver_error(e, ECONNREFUSED);
}

/* --- ports ------------------------------------------------------------------------------------- */

static void take_port(struct calls_end *e, uint16_t port)
{
	e->port = port;
	e->k->by_port[port] = e;
	e->s->own_port = port;
}

/* 0, or an errno. */
static int auto_bind(struct calls_end *e)
{
	struct calls *k = e->k;

	for (int i = FIRST_AUTO; !e->port && i <= LAST_AUTO; i++) {
		uint16_t port = k->next_udp_port;

		k->next_udp_port = port == LAST_AUTO ? FIRST_AUTO : (uint16_t)(port + 1);
		if (!k->by_port[port])
			take_port(e, port);
	}
	return e->port ? 0 : EAGAIN;
}

static void take_bind(struct calls_end *e, const struct calls_request *r)
{
	struct calls_dest to;
	int error = calls_dest_of(&to, r, e->s->family, false);

	if (!error && (to.is_unspec || e->port))
		error = to.is_unspec ? EAFNOSUPPORT : EINVAL;
	else if (!error && !calls_is_own(&to.addr))
		error = EADDRNOTAVAIL;
	else if (!error && to.port && to.port < CALLS_FIRST_PORT)
		error = EACCES;
	else if (!error && to.port && e->k->by_port[to.port])
		error = EADDRINUSE;
	else if (!error && !to.port)
		error = auto_bind(e);
	else if (!error)
		take_port(e, to.port);
	if (!error) {
		e->s->own = to.addr;
		e->s->is_bound = true;
	}
	calls_say(e->k, r->head.id, error, 0);
}

/* --- sending ------------------------------------------------------------------------------------ */

static void send_inside(struct calls_end *e, const struct calls_dest *to, const uint8_t *data,
			size_t len)
{
	struct egress_addr from = calls_own_for(e->s->family, &to->addr);
	struct calls_end *other = e->k->by_port[to->port];

	if (other)
		deliver(other, &from, e->port, data, len);
	else if (e->s->is_connected)
		deliver_error(e, ECONNREFUSED);
}

/* 0, or the errno for who asked to send; a datagram that is under way has none. */
static int send_to(struct calls_end *e, const struct calls_dest *to, const uint8_t *data, size_t len)
{
	struct calls *k = e->k;
	struct flow key = { .dst = to->addr, .dport = to->port };
	bool is_own = calls_is_own(&to->addr);
	int error = auto_bind(e);

	if (error || !to->port)
		return error ? error : EINVAL;
	if (is_own && (to->port != INLET_DNS_PORT || k->by_port[to->port])) {
		send_inside(e, to, data, len);
		return 0;
	}
	key.src = calls_own_for(e->s->family, &to->addr);
	key.sport = e->port;
	k->udp_refused = false;
	/* No rule makes the host's loopback the box's, be it for a name server. */
	if (is_own)
		udp_ask_stub(k->udp, &key, data, len);
	else
		udp_take(k->udp, &key, data, len);
	return k->udp_refused ? ECONNREFUSED : 0;
}

static void take_send(struct calls_end *e, const struct calls_request *r)
{
	struct calls_dest to;
	int error;

	if (!r->head.name_len) { /* its data is where it was, and goes where it would */
		if (e->s->is_connected)
			calls_say_pass(e->k, r->head.id);
		else
			calls_say(e->k, r->head.id, EDESTADDRREQ, 0);
		return;
	}
	error = calls_dest_of(&to, r, e->s->family, false);
	if (!error && to.is_unspec)
		error = EAFNOSUPPORT;
	if (!error && r->head.size > UDP_MAX)
		error = EMSGSIZE;
	e->k->udp_asks = true;
	if (!error)
		error = send_to(e, &to, r->data, r->head.size);
	e->k->udp_asks = false;
	calls_say(e->k, r->head.id, error, r->head.size);
}

static void end_end(struct calls_end *e)
{
	struct calls *k = e->k;

	while (e->receivers) {
		calls_say(k, e->receivers->id, EBADF, 0);
		end_receiver(e->receivers);
	}
	loop_remove(&k->e->loop, &e->in);
	close(e->in.fd);
	if (e->port)
		k->by_port[e->port] = NULL;
	*e->self = e->next;
	if (e->next)
		e->next->self = e->self;
	k->end_count--;
	e->s->end = NULL;
	calls_forget(k, e->s);
	free(e);
}

/* What the box sends without a name; or it has closed its end. */
static void on_datagrams(struct source *source, uint32_t events)
{
	struct calls_end *e = PART_OF(source, struct calls_end, in);
	static uint8_t data[BUFFER];

	(void)events;
	for (int i = 0; i < DATAGRAMS; i++) {
		ssize_t n = recv(source->fd, data, sizeof(data), MSG_DONTWAIT);
		const struct calls_dest to = { .addr = e->s->peer, .port = e->s->peer_port };

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 || (n == 0 && calls_is_over(source->fd))) {
			end_end(e);
			return;
		}
		if (e->s->is_connected && n <= UDP_MAX)
			send_to(e, &to, data, (size_t)n);
	}
}

/* --- names and options ------------------------------------------------------------------------------ */

static void take_connect(struct calls_end *e, const struct calls_request *r)
{
	struct calls_socket *s = e->s;
	struct calls_dest to;
	int error = calls_dest_of(&to, r, s->family, false);

	if (!error && to.is_unspec)
		s->is_connected = false;
	else if (!error)
		error = auto_bind(e);
	if (!error && !to.is_unspec) {
		s->is_connected = true;
		s->peer = calls_is_any(&to.addr) ? calls_own_for(s->family, &to.addr) : to.addr;
		s->peer_port = to.port;
	}
	calls_say(e->k, r->head.id, error, 0);
}

static void take_sockname(struct calls_end *e, const struct calls_request *r)
{
	const struct calls_socket *s = e->s;
	struct egress_addr addr = { .family = s->family == AF_INET ? 4 : 6 };

	if (s->is_bound && !calls_is_any(&s->own))
		addr = s->own;
	else if (s->is_connected)
		addr = calls_own_for(s->family, &s->peer);
	calls_say_name(e->k, r->head.id, &addr, e->port);
}

static void take_peername(struct calls_end *e, const struct calls_request *r)
{
	if (e->s->is_connected)
		calls_say_name(e->k, r->head.id, &e->s->peer, e->s->peer_port);
	else
		calls_say(e->k, r->head.id, ENOTCONN, 0);
}

static void take_getopt(struct calls_end *e, const struct calls_request *r)
{
	int value = 0;

	switch (r->head.arg[0]) {
	case SO_ERROR:
		value = e->s->error;
		e->s->error = 0;
		break;
	case SO_TYPE:
		value = SOCK_DGRAM;
		break;
	case SO_DOMAIN:
		value = e->s->family;
		break;
	case SO_PROTOCOL:
		value = IPPROTO_UDP;
		break;
	default:
		calls_say_pass(e->k, r->head.id);
		return;
	}
	calls_say_int(e->k, r->head.id, value);
}

void calls_udp(struct calls *k, struct calls_socket *s, struct calls_request *r)
{
	struct calls_end *e = s->end;

	switch (r->head.what) {
	case CALLS_CONNECT:
		take_connect(e, r);
		return;
	case CALLS_BIND:
		take_bind(e, r);
		return;
	case CALLS_SOCKNAME:
		take_sockname(e, r);
		return;
	case CALLS_PEERNAME:
		take_peername(e, r);
		return;
	case CALLS_SEND:
		take_send(e, r);
		return;
	case CALLS_RECV:
		take_receive(e, r);
		return;
	case CALLS_GETOPT:
		take_getopt(e, r);
		return;
	case CALLS_SETOPT: /* of IP: there is none here that could do anything */
		calls_say(k, r->head.id, 0, 0);
		return;
	}
	calls_say(k, r->head.id, EOPNOTSUPP, 0); /* listen */
}

/* --- beginning ----------------------------------------------------------------------------------------- */

static struct calls_end *add_end(struct calls *k, int ours, int theirs, int family)
{
	struct calls_end *e = k->end_count < ENDS_MAX ? calloc(1, sizeof(*e)) : NULL;
	struct calls_socket *s = e ? calls_add(k, calls_inode(theirs), family) : NULL;

	if (!s) {
		free(e);
		return NULL;
	}
	*e = (struct calls_end){ .k = k, .s = s, .in = { ours, on_datagrams } };
	if (loop_add(&k->e->loop, &e->in, EPOLLIN) < 0) {
		calls_forget(k, s);
		free(e);
		return NULL;
	}
	e->next = k->ends;
	e->self = &k->ends;
	if (e->next)
		e->next->self = &e->next;
	k->ends = e;
	k->end_count++;
	s->end = e;
	return e;
}

void calls_udp_socket(struct calls *k, const struct calls_request *r)
{
	uint32_t flags = r->head.arg[1] & (SOCK_CLOEXEC | SOCK_NONBLOCK);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (int)(flags & SOCK_NONBLOCK), 0,
		       pair) < 0) {
		calls_say(k, r->head.id, errno, 0);
		return;
	}
	if (add_end(k, pair[0], pair[1], (int)r->head.arg[0])) {
		calls_say_fd(k, r->head.id, pair[1], flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);
		return;
	}
	close(pair[0]);
	close(pair[1]);
	calls_say(k, r->head.id, ENOBUFS, 0);
}

int calls_udp_begin(struct calls *k)
{
	k->by_port = calloc(PORTS, sizeof(*k->by_port)); /* fresh pages: only those used take memory */
	if (!k->by_port)
		return -1;
	k->next_udp_port = FIRST_AUTO;
	k->sink = (struct udp_sink){ on_answer, on_unreachable, k };
	return udp_start_to(k->udp, k->e, k->stub, &k->sink);
}
