/*
 * udp_flow.c - see udp_flow.h. Runs in the supervisor.
 *
 * A flow is source, destination and both ports as the box sees them. Once its name has an
 * address, a connected socket in the host's network stands for it, so that the host's
 * kernel lets in answers of that one peer only. Nobody closes a flow: it ends when it has
 * been silent for a minute, or when another needs its place.
 *
 * Must:    judge every resolved address before it is used, which also keeps fake addresses
 *          from being one; bound what waits for a name.
 * Mustn't: use a flow after what may have ended it.
 */
#include "runtime/egress/udp_flow.h"

#include "base/cleanup.h"
#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	ANSWERS = 64,		/* datagrams of one flow in one turn of the loop */
	QUEUE = 8,		/* datagrams of one flow that wait for its name */
	QUEUED_MAX = 4 << 20,	/* bytes of all flows that do */
};

struct waiting {		/* a datagram, until the name has an address */
	struct waiting *next;
	size_t len;
	uint8_t data[];
};

struct udp_flow {
	struct udp_relay *u;
	struct flow key;
	struct udp_flow *chain, *older, *newer;
	struct host_entry *host;
	struct source up;	/* fd -1: not connected yet */
	struct lookup lookup;	/* name "": the destination is an address, and the only one */
	bool is_asking, is_answered;
	unsigned next_addr;	/* of the lookup */
	struct egress_addr peer;
	struct waiting *first, **last;
	unsigned waiting;
	uint64_t seen_us;
};

/* --- the table ------------------------------------------------------------------------ */

static struct udp_flow **find(struct udp_relay *u, const struct flow *key)
{
	struct udp_flow **f = &u->buckets[flow_hash(key) % UDP_BUCKETS];

	while (*f && !flow_equal(&(*f)->key, key))
		f = &(*f)->chain;
	return f;
}

struct udp_flow *udp_flow_find(struct udp_relay *u, const struct flow *key)
{
	return *find(u, key);
}

static void leave_line(struct udp_flow *f)
{
	struct udp_relay *u = f->u;

	*(f->older ? &f->older->newer : &u->oldest) = f->newer;
	*(f->newer ? &f->newer->older : &u->newest) = f->older;
	f->older = f->newer = NULL;
}

static void join_line(struct udp_flow *f)
{
	struct udp_relay *u = f->u;

	f->seen_us = u->e->loop.now_us;
	f->older = u->newest;
	*(u->newest ? &u->newest->newer : &u->oldest) = f;
	u->newest = f;
}

static void seen(struct udp_flow *f)
{
	leave_line(f);
	join_line(f);
}

static void drop_waiting(struct udp_flow *f)
{
	while (f->first) {
		struct waiting *w = f->first;

		f->first = w->next;
		f->u->queued -= w->len;
		free(w);
	}
	f->last = &f->first;
	f->waiting = 0;
}

static void close_peer(struct udp_flow *f)
{
	if (f->up.fd < 0)
		return;
	loop_remove(&f->u->e->loop, &f->up);
	close(take_fd(f->up.fd));
}

void udp_flow_end(struct udp_flow *f)
{
	struct udp_relay *u = f->u;
	struct udp_flow **at = find(u, &f->key);

	if (*at == f)
		*at = f->chain;
	leave_line(f);
	if (f->is_asking)
		resolver_cancel(u->e->resolver, &f->lookup);
	close_peer(f);
	drop_waiting(f);
	ledger_close(&u->e->ledger);
	free(f);
}

static void fail(struct udp_flow *f, enum unreach code)
{
	ledger_failed(&f->u->e->ledger, f->host);
	udp_say_unreachable(f->u, &f->key, code);
	udp_flow_end(f);
}

/* One timer for all: the line is in the order of its times. */
void udp_flow_end_idle(struct timer *t)
{
	struct udp_relay *u = PART_OF(t, struct udp_relay, idle);

	while (u->oldest && u->oldest->seen_us + u->idle_us <= u->e->loop.now_us)
		udp_flow_end(u->oldest);
	if (u->oldest)
		timer_set(&u->e->loop, t, u->oldest->seen_us + u->idle_us);
}

static struct udp_flow *add(struct udp_relay *u, const struct flow *key, struct host_entry *host)
{
	struct udp_flow *f = calloc(1, sizeof(*f)), **head;

	if (!f)
		return NULL;
	head = &u->buckets[flow_hash(key) % UDP_BUCKETS];
	f->u = u;
	f->key = *key;
	f->host = host;
	f->up.fd = -1;
	f->last = &f->first;
	f->chain = *head;
	*head = f;
	join_line(f);
	if (!u->idle.self)
		timer_set(&u->e->loop, &u->idle, f->seen_us + u->idle_us);
	return f;
}

/* --- the peer ------------------------------------------------------------------ */

static struct egress_dest dest_of(const struct udp_flow *f, const struct egress_addr *addr)
{
	return (struct egress_dest){ .name = f->lookup.name[0] ? f->lookup.name : NULL,
				     .addr = addr, .proto = EGRESS_UDP, .port = f->key.dport };
}

static void next_peer(struct udp_flow *f, int why);

/* "No such host" would be more to the point for some, but the box's kernel keeps that from
 * UDP sockets. */
static enum unreach unreach_of(int os_errno)
{
	bool is_firewall = os_errno == EPERM || os_errno == EACCES; /* of the host */

	return is_firewall ? UNREACH_PROHIBITED : UNREACH_PORT;
}

/* An error that the peer's side sent. The flow goes on: a server may come up. Before the
 * first answer another address of the name may be the better one. false: the flow is gone. */
static bool hear_error(struct udp_flow *f, int os_errno)
{
	if (!f->is_answered && f->next_addr < f->lookup.count) {
		close_peer(f);
		next_peer(f, os_errno);
		return false; /* or begun anew: not to be used by the caller either way */
	}
	udp_say_unreachable(f->u, &f->key, unreach_of(os_errno));
	return true;
}

static bool is_error_of_peer(int os_errno)
{
	return os_errno == ECONNREFUSED || os_errno == EHOSTUNREACH || os_errno == ENETUNREACH ||
	       os_errno == EPERM || os_errno == EACCES || os_errno == EHOSTDOWN;
}

static void end_at_cap(struct udp_flow *f)
{
	udp_say_unreachable(f->u, &f->key, UNREACH_PORT);
	udp_flow_end(f);
}

/* An error of an earlier datagram comes instead of sending this one: hence twice. */
static void send_up(struct udp_flow *f, const uint8_t *data, size_t len)
{
	ssize_t n = -1;

	for (int i = 0; i < 2 && n < 0; i++) {
		n = send(f->up.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && is_error_of_peer(errno) && !hear_error(f, errno))
			return;
	}
	if (n >= 0 && !ledger_bytes(&f->u->e->ledger, f->host, len, 0))
		end_at_cap(f);
}

static void up_ready(struct source *s, uint32_t events)
{
	struct udp_flow *f = PART_OF(s, struct udp_flow, up);
	struct udp_relay *u = f->u;

	(void)events;
	seen(f);
	for (int i = 0; i < ANSWERS; i++) {
		ssize_t n = recv(s->fd, u->batch->answer, UDP_DATA, MSG_DONTWAIT);

		if (n < 0 && is_error_of_peer(errno) && hear_error(f, errno))
			continue;
		if (n < 0)
			return;
		f->is_answered = true;
		udp_answer(u, &f->key, u->batch->answer, (size_t)n);
		if (!ledger_bytes(&u->e->ledger, f->host, 0, (size_t)n)) {
			end_at_cap(f);
			return;
		}
	}
}

static int connect_to(struct udp_flow *f, const struct egress_addr *addr)
{
	struct sockaddr_storage to;
	socklen_t len = sockaddr_of(&to, addr, f->key.dport, 0);

	f->up = (struct source){ socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
				 up_ready };
	if (f->up.fd < 0)
		return -1;
	if (connect(f->up.fd, (struct sockaddr *)&to, len) < 0 ||
	    loop_add(&f->u->e->loop, &f->up, EPOLLIN) < 0) {
		int why = errno;

		close(take_fd(f->up.fd));
		errno = why;
		return -1;
	}
	f->peer = *addr;
	return 0;
}

/* Sending may end a flow, or begin it anew with the next address. */
static void send_waiting(struct udp_relay *u, const struct flow *key)
{
	struct udp_flow *f;

	while ((f = *find(u, key)) && f->up.fd >= 0 && f->first) {
		struct waiting *w = f->first;

		f->first = w->next;
		if (!f->first)
			f->last = &f->first;
		f->waiting--;
		u->queued -= w->len;
		send_up(f, w->data, w->len);
		free(w);
	}
}

/* The next address that is allowed and has a route. None: the flow fails, because of
 * what the last one said. */
static void next_peer(struct udp_flow *f, int why)
{
	bool is_denied = false;

	while (f->next_addr < f->lookup.count) {
		struct egress_addr addr = egress_addr_normal(f->lookup.addrs[f->next_addr++]);
		struct egress_dest d = dest_of(f, &addr);

		if (!udp_may_go(f->u, &d)) {
			is_denied = true;
			continue;
		}
		if (connect_to(f, &addr) == 0)
			return;
		why = errno;
	}
	if (is_denied) {
		udp_say_unreachable(f->u, &f->key, UNREACH_PORT);
		udp_flow_end(f);
	} else {
		fail(f, unreach_of(why));
	}
}

static void resolved(struct lookup *l, enum lookup_result r)
{
	struct udp_flow *f = PART_OF(l, struct udp_flow, lookup);
	struct udp_relay *u = f->u;
	const struct flow key = f->key;

	f->is_asking = false;
	if (r != LOOKUP_FOUND || l->count > LOOKUP_ADDRS)
		l->count = 0;
	if (!l->count) {
		fail(f, UNREACH_PORT);
		return;
	}
	next_peer(f, EHOSTUNREACH);
	send_waiting(u, &key);
}

/* --- datagrams of the box ------------------------------------------------------ */

static void keep(struct udp_flow *f, const uint8_t *data, size_t len)
{
	struct udp_relay *u = f->u;
	struct waiting *w;

	if (f->waiting == QUEUE || u->queued + len > QUEUED_MAX)
		return; /* lost: its sender repeats what matters */
	w = malloc(sizeof(*w) + len);
	if (!w)
		return;
	w->next = NULL;
	w->len = len;
	memcpy(w->data, data, len);
	*f->last = w;
	f->last = &w->next;
	f->waiting++;
	u->queued += len;
}

/* Asks for the name, or takes the address at its word. */
static int begin(struct udp_flow *f, const struct egress_dest *d)
{
	if (!d->name) {
		f->lookup.addrs[0] = *d->addr;
		f->lookup.count = 1;
		return 0;
	}
	memcpy(f->lookup.name, d->name, strlen(d->name) + 1);
	f->lookup.done = resolved;
	if (resolver_ask(f->u->e->resolver, &f->lookup) < 0)
		return -1;
	f->is_asking = true;
	return 0;
}

void udp_flow_begin(struct udp_relay *u, const struct flow *key, const struct egress_dest *d,
		    const uint8_t *data, size_t len)
{
	struct host_entry *host = ledger_host(&u->e->ledger, d);
	struct udp_flow *f;

	/* Nobody closes a flow: the one that has been silent the longest gives way. */
	if (u->e->ledger.open >= u->e->config->max_connections && u->oldest)
		udp_flow_end(u->oldest);
	if (!ledger_open(&u->e->ledger, host)) {
		udp_say_unreachable(u, key, UNREACH_PORT);
		return;
	}
	f = add(u, key, host);
	if (!f) {
		ledger_failed(&u->e->ledger, host);
		ledger_close(&u->e->ledger);
		udp_say_unreachable(u, key, UNREACH_PORT);
		return;
	}
	if (begin(f, d) < 0) {
		fail(f, UNREACH_PORT);
		return;
	}
	if (!f->is_asking)
		next_peer(f, EHOSTUNREACH);
	f = *find(u, key);
	if (f)
		udp_flow_send(f, data, len);
}

void udp_flow_send(struct udp_flow *f, const uint8_t *data, size_t len)
{
	seen(f);
	if (f->up.fd >= 0)
		send_up(f, data, len);
	else
		keep(f, data, len);
}

/* --- new rules ----------------------------------------------------------------- */

static bool is_allowed_now(const struct udp_flow *f)
{
	struct egress_dest d = dest_of(f, f->up.fd < 0 ? NULL : &f->peer);
	struct egress_verdict v;

	if (!d.name && !d.addr)
		return false;
	v = egress_judge(f->u->e->rules, &d);
	return v.allowed && !udp_has_proxy(f->u) && !udp_is_for_stub(f->u, &d);
}

void udp_flow_end_denied(struct udp_relay *u)
{
	struct udp_flow *f = u->oldest;

	while (f) {
		struct udp_flow *newer = f->newer;

		if (!is_allowed_now(f))
			udp_flow_end(f);
		f = newer;
	}
}
