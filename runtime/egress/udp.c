/*
 * udp.c - see udp.h. Runs in the supervisor.
 *
 * A flow is source, destination and both ports as the box sees them. Its first datagram is
 * judged and its name resolved; from then on a connected socket in the host's network
 * stands for it, so that the host's kernel lets in answers of that one peer only.
 *
 * QUIC to a name that is allowed without "/udp" is refused like any other: the box's kernel
 * turns that into ECONNREFUSED, and clients go on over TCP, where the name can be checked.
 *
 * Must:    judge every resolved address before it is used; bound what waits for a name.
 * Mustn't: let one busy socket keep the loop from the others; send to a fake address.
 */
#include "runtime/egress/udp.h"

#include "base/cleanup.h"
#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	BATCH = 32,		/* datagrams of one recvmmsg(2) */
	BATCHES = 4,		/* in one turn of the loop: epoll tells again of the rest */
	DATA_MAX = 65536,	/* more than a datagram can have */
	ANSWERS = 64,		/* datagrams of one flow in one turn */
	QUEUE = 8,		/* datagrams of one flow that wait for its name */
	QUEUED_MAX = 4 << 20,	/* bytes of all flows that do */
	ASKED_MAX = 256,	/* questions to the stub at a time */
	IDLE_US = 60000000,
};

union control {
	struct cmsghdr head;	/* for its alignment */
	char room[CMSG_SPACE(sizeof(struct sockaddr_in6))];
};

struct udp_batch {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_storage from[BATCH];
	union control control[BATCH];
	uint8_t data[BATCH][DATA_MAX];
	uint8_t answer[DATA_MAX], packet[PACKET_MAX];
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

/* --- packets into the box ------------------------------------------------------------ */

/* What the socket does not take is lost, as on any wire. */
static void inject(const struct udp_relay *u, size_t len, const struct egress_addr *to)
{
	struct sockaddr_storage addr;
	socklen_t addr_len = sockaddr_of(&addr, to, 0, 0);

	if (len)
		(void)sendto(to->family == 4 ? u->raw4 : u->raw6, u->batch->packet, len,
			     MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&addr, addr_len);
}

static void answer(const struct udp_relay *u, const struct flow *f, const uint8_t *data, size_t len)
{
	inject(u, packet_udp(u->batch->packet, PACKET_MAX, f, data, len), &f->src);
}

/* The kernel finds the socket by the ports; length and checksum of what was sent are not
 * looked at. */
static void say_unreachable(const struct udp_relay *u, const struct flow *f, enum unreach code)
{
	const uint8_t head[8] = { (uint8_t)(f->sport >> 8), (uint8_t)f->sport,
				  (uint8_t)(f->dport >> 8), (uint8_t)f->dport, 0, 8 };

	inject(u, packet_unreach(u->batch->packet, PACKET_MAX, f, IPPROTO_UDP, head, sizeof(head),
				 code), &f->src);
}

/* --- the table ------------------------------------------------------------------------ */

static struct udp_flow **find(struct udp_relay *u, const struct flow *key)
{
	struct udp_flow **f = &u->buckets[flow_hash(key) % UDP_BUCKETS];

	while (*f && !flow_equal(&(*f)->key, key))
		f = &(*f)->chain;
	return f;
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

	f->seen_us = u->loop->now_us;
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
	loop_remove(f->u->loop, &f->up);
	close(take_fd(f->up.fd));
}

static void end(struct udp_flow *f)
{
	struct udp_relay *u = f->u;
	struct udp_flow **at = find(u, &f->key);

	if (*at == f)
		*at = f->chain;
	leave_line(f);
	if (f->is_asking)
		resolver_cancel(u->resolver, &f->lookup);
	close_peer(f);
	drop_waiting(f);
	ledger_close(u->ledger);
	free(f);
}

static void fail(struct udp_flow *f, enum unreach code)
{
	ledger_failed(f->u->ledger, f->host);
	say_unreachable(f->u, &f->key, code);
	end(f);
}

/* One timer for all: the line is in the order of its times. */
static void idle_fired(struct timer *t)
{
	struct udp_relay *u = PART_OF(t, struct udp_relay, idle);

	while (u->oldest && u->oldest->seen_us + u->idle_us <= u->loop->now_us)
		end(u->oldest);
	if (u->oldest)
		timer_set(u->loop, t, u->oldest->seen_us + u->idle_us);
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
		timer_set(u->loop, &u->idle, f->seen_us + u->idle_us);
	return f;
}

/* --- judging ---------------------------------------------------------------------------- */

static struct egress_verdict judge(const struct udp_relay *u, const struct egress_dest *d)
{
	if (d->addr && names_is_fake(d->addr))
		return (struct egress_verdict){ .why = EGRESS_BY_PRIVATE, .rule = -1 };
	return egress_judge(u->rules, d);
}

static bool has_proxy(const struct udp_relay *u)
{
	return u->config->proxy.kind != PROXY_NONE;
}

/* The host wants its traffic to go through a proxy, and neither kind carries datagrams. */
static void deny_for_proxy(struct udp_relay *u, const struct egress_dest *d,
			   const struct egress_verdict *v)
{
	struct buf what = BUF_INIT(1024), rule = BUF_INIT(1024), allow = BUF_INIT(1024);

	egress_explain_denial(u->rules, d, v, NULL, &what, &rule, &allow);
	ledger_deny_text(u->ledger, buf_text(&what),
			 "net.proxy (the proxy of the host carries no UDP)", "");
	buf_free(&what);
	buf_free(&rule);
	buf_free(&allow);
}

/* false: refused, and noted. */
static bool may_go(struct udp_relay *u, const struct egress_dest *d)
{
	struct egress_verdict v = judge(u, d);

	if (!v.allowed)
		ledger_deny(u->ledger, d, &v, NULL);
	else if (has_proxy(u))
		deny_for_proxy(u, d, &v);
	return v.allowed && !has_proxy(u);
}

static struct egress_dest dest_of(const struct udp_flow *f, const struct egress_addr *addr)
{
	return (struct egress_dest){ .name = f->lookup.name[0] ? f->lookup.name : NULL,
				     .addr = addr, .proto = EGRESS_UDP, .port = f->key.dport };
}

/* --- upstream ------------------------------------------------------------------------------ */

static void next_peer(struct udp_flow *f);

static enum unreach unreach_of(int os_errno)
{
	switch (os_errno) {
	case ECONNREFUSED:
		return UNREACH_PORT;
	case EPERM: /* a firewall of the host */
	case EACCES:
		return UNREACH_PROHIBITED;
	default:
		return UNREACH_HOST;
	}
}

/* An error that the peer's side sent. The flow goes on: a server may come up. Before the
 * first answer another address of the name may be the better one. false: the flow is gone. */
static bool hear_error(struct udp_flow *f, int os_errno)
{
	if (!f->is_answered && f->next_addr < f->lookup.count) {
		close_peer(f);
		next_peer(f);
		return false; /* or begun anew: not to be used by the caller either way */
	}
	say_unreachable(f->u, &f->key, unreach_of(os_errno));
	return true;
}

static bool is_error_of_peer(int os_errno)
{
	return os_errno == ECONNREFUSED || os_errno == EHOSTUNREACH || os_errno == ENETUNREACH ||
	       os_errno == EPERM || os_errno == EACCES || os_errno == EHOSTDOWN;
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
	if (n >= 0 && !ledger_bytes(f->u->ledger, f->host, len, 0))
		end(f);
}

static void up_ready(struct source *s, uint32_t events)
{
	struct udp_flow *f = PART_OF(s, struct udp_flow, up);
	struct udp_relay *u = f->u;

	(void)events;
	seen(f);
	for (int i = 0; i < ANSWERS; i++) {
		ssize_t n = recv(s->fd, u->batch->answer, DATA_MAX, MSG_DONTWAIT);

		if (n < 0 && is_error_of_peer(errno) && hear_error(f, errno))
			continue;
		if (n < 0)
			return;
		f->is_answered = true;
		answer(u, &f->key, u->batch->answer, (size_t)n);
		if (!ledger_bytes(u->ledger, f->host, 0, (size_t)n)) {
			end(f);
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
	    loop_add(f->u->loop, &f->up, EPOLLIN) < 0) {
		int why = errno;

		close(take_fd(f->up.fd));
		errno = why;
		return -1;
	}
	f->peer = *addr;
	return 0;
}

static void send_waiting(struct udp_flow *f)
{
	struct udp_relay *u = f->u;
	const struct flow key = f->key;

	/* Sending may end the flow, or begin it anew with the next address. */
	while (*find(u, &key) == f && f->up.fd >= 0 && f->first) {
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

/* The next address that is allowed and has a route. None: the flow fails. */
static void next_peer(struct udp_flow *f)
{
	bool is_denied = false;
	int why = EHOSTUNREACH;

	while (f->next_addr < f->lookup.count) {
		struct egress_addr addr = egress_addr_normal(f->lookup.addrs[f->next_addr++]);
		struct egress_dest d = dest_of(f, &addr);

		if (!may_go(f->u, &d)) {
			is_denied = true;
			continue;
		}
		if (connect_to(f, &addr) == 0)
			return;
		why = errno;
	}
	if (is_denied) {
		say_unreachable(f->u, &f->key, UNREACH_PORT);
		end(f);
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
		fail(f, UNREACH_PORT); /* a program hears of no other while it waits */
		return;
	}
	next_peer(f);
	f = *find(u, &key);
	if (f)
		send_waiting(f);
}

/* --- datagrams of the box ------------------------------------------------------------------- */

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
	if (resolver_ask(f->u->resolver, &f->lookup) < 0)
		return -1;
	f->is_asking = true;
	return 0;
}

static void new_flow(struct udp_relay *u, const struct flow *key, const struct egress_dest *d,
		     const uint8_t *data, size_t len)
{
	struct host_entry *host = ledger_host(u->ledger, d);
	struct udp_flow *f;

	/* Nobody closes a flow: the one that has been silent the longest gives way. */
	if (u->ledger->open >= u->config->max_connections && u->oldest)
		end(u->oldest);
	if (!ledger_open(u->ledger, host)) {
		say_unreachable(u, key, UNREACH_PORT);
		return;
	}
	f = add(u, key, host);
	if (!f) {
		ledger_failed(u->ledger, host);
		ledger_close(u->ledger);
		say_unreachable(u, key, UNREACH_PORT);
		return;
	}
	if (begin(f, d) < 0) {
		fail(f, UNREACH_PORT);
		return;
	}
	keep(f, data, len);
	if (f->is_asking)
		return;
	next_peer(f);
	f = *find(u, key);
	if (f)
		send_waiting(f);
}

struct question { /* to the stub, instead of the server that the box asked */
	struct udp_relay *u;
	struct flow flow;
};

static void dns_reply(void *arg, const uint8_t *data, size_t len)
{
	struct question *q = arg;

	if (len)
		answer(q->u, &q->flow, data, len);
	q->u->asked--;
	free(q);
}

static void ask_stub(struct udp_relay *u, const struct flow *key, const uint8_t *data, size_t len)
{
	struct question *q = u->asked < ASKED_MAX ? malloc(sizeof(*q)) : NULL;

	if (!q)
		return; /* a resolver asks again */
	*q = (struct question){ u, *key };
	u->asked++;
	if (stub_ask(u->stub, data, len, false, dns_reply, q) < 0) {
		u->asked--;
		free(q);
	}
}

/* A name server that a rule opens is asked itself. In the place of all others the stub
 * answers, or else any name could be told to one of them. */
static bool is_for_stub(const struct udp_relay *u, const struct egress_dest *d)
{
	struct egress_verdict v = judge(u, d);

	return d->port == INLET_DNS_PORT && !(v.allowed && v.why == EGRESS_BY_ALLOW);
}

static void take(struct udp_relay *u, const struct flow *key, const uint8_t *data, size_t len)
{
	struct udp_flow *f = *find(u, key);
	struct egress_addr addr = egress_addr_normal(key->dst);
	const char *name = f ? NULL : names_find(u->names, &addr);
	struct egress_dest d = { .name = name, .addr = name ? NULL : &addr, .proto = EGRESS_UDP,
				 .port = key->dport };

	if (f) {
		seen(f);
		if (f->up.fd >= 0)
			send_up(f, data, len);
		else
			keep(f, data, len);
	} else if (is_for_stub(u, &d)) {
		ask_stub(u, key, data, len);
	} else if (may_go(u, &d)) {
		new_flow(u, key, &d, data, len);
	} else {
		say_unreachable(u, key, UNREACH_PORT);
	}
}

/* Where the box sent it to: the socket has all addresses. */
static bool original_of(struct flow *key, struct msghdr *msg)
{
	struct sockaddr_storage to = { 0 };

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t len = c->cmsg_len - CMSG_LEN(0);

		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR &&
		     len == sizeof(struct sockaddr_in)) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_ORIGDSTADDR &&
		     len == sizeof(struct sockaddr_in6)))
			memcpy(&to, CMSG_DATA(c), len);
	}
	key->dst = addr_of_sockaddr(&to, &key->dport);
	return key->dst.family && key->dport;
}

static bool flow_of(struct flow *key, struct msghdr *msg)
{
	if (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !original_of(key, msg))
		return false;
	key->src = addr_of_sockaddr(msg->msg_name, &key->sport);
	/* Without a source port nothing can be answered. */
	return key->src.family == key->dst.family && key->sport;
}

static int read_batch(struct udp_relay *u, int fd)
{
	struct udp_batch *b = u->batch;
	struct flow key;
	int n;

	for (int i = 0; i < BATCH; i++) {
		b->iov[i] = (struct iovec){ b->data[i], DATA_MAX };
		b->msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &b->from[i], .msg_namelen = sizeof(b->from[i]),
			.msg_iov = &b->iov[i], .msg_iovlen = 1, .msg_control = &b->control[i],
			.msg_controllen = sizeof(b->control[i]),
		};
	}
	n = recvmmsg(fd, b->msgs, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		if (flow_of(&key, &b->msgs[i].msg_hdr))
			take(u, &key, b->data[i], b->msgs[i].msg_len);
	return n;
}

static void read_some(struct udp_relay *u, int fd)
{
	for (int i = 0; i < BATCHES && read_batch(u, fd) == BATCH; i++)
		;
}

static void in4_ready(struct source *s, uint32_t events)
{
	(void)events;
	read_some(PART_OF(s, struct udp_relay, in4), s->fd);
}

static void in6_ready(struct source *s, uint32_t events)
{
	(void)events;
	read_some(PART_OF(s, struct udp_relay, in6), s->fd);
}

/* --- life ---------------------------------------------------------------------------------------- */

int udp_start(struct udp_relay *u, const int fds[INLET_FD_COUNT])
{
	u->batch = calloc(1, sizeof(*u->batch)); /* fresh pages: only those used take memory */
	if (!u->batch)
		return -1;
	if (!u->idle_us)
		u->idle_us = IDLE_US;
	u->idle.fire = idle_fired;
	u->in4 = (struct source){ fds[INLET_UDP4], in4_ready };
	u->in6 = (struct source){ fds[INLET_UDP6], in6_ready };
	u->raw4 = fds[INLET_RAW4];
	u->raw6 = fds[INLET_RAW6];
	if (loop_add(u->loop, &u->in4, EPOLLIN) < 0)
		return -1;
	return u->in6.fd < 0 ? 0 : loop_add(u->loop, &u->in6, EPOLLIN);
}

static bool is_allowed_now(const struct udp_flow *f)
{
	struct egress_dest d = dest_of(f, f->up.fd < 0 ? NULL : &f->peer);
	struct egress_verdict v;

	if (!d.name && !d.addr)
		return false;
	v = judge(f->u, &d);
	return v.allowed && !has_proxy(f->u) && !is_for_stub(f->u, &d);
}

void udp_rules_changed(struct udp_relay *u, const struct egress_config *config,
		       const struct egress_rules *rules)
{
	struct udp_flow *f = u->oldest;

	u->config = config;
	u->rules = rules;
	while (f) {
		struct udp_flow *newer = f->newer;

		if (!is_allowed_now(f))
			end(f);
		f = newer;
	}
}

void udp_stop(struct udp_relay *u)
{
	while (u->oldest)
		end(u->oldest);
	timer_clear(&u->idle);
	loop_remove(u->loop, &u->in4);
	loop_remove(u->loop, &u->in6);
	for (int i = 0; i < 4; i++) {
		int fd = (const int[]){ u->in4.fd, u->in6.fd, u->raw4, u->raw6 }[i];

		if (fd >= 0)
			close(fd);
	}
	free(u->batch);
	u->batch = NULL;
}
