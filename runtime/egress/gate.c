/*
 * gate.c - decides over each SYN of the box before the box's kernel answers it
 * Runs in the supervisor.
 *
 * The rules in the box drop every SYN to a foreign address; the packet socket has seen it.
 * Here the destination is judged and reached first. Then the same SYN goes in again with the
 * mark that the rules let through, and the box's own kernel does the handshake with the
 * listener. A refusal is the RST that the destination would have sent: connect(2) in the box
 * never succeeds where nothing was reached.
 *
 * Must:    hand the listener's connections only to the flow that was let in.
 * Mustn't: trust a byte of a packet: the payload made it, but for addresses, ports and the
 *          order of its fields, which its kernel made.
 */
#include "runtime/egress/gate.h"

#include "base/cleanup.h"
#include "runtime/egress/accept.h"
#include "runtime/egress/packet.h"
#include "runtime/egress/sockaddr.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	QUEUE = 4096,		/* SYNs read in one go: a burst must not overflow the socket */
	BATCH = 32,
	SNAP = 256,		/* what the packet socket's filter keeps */
	BUCKETS = 1024,
	ACCEPT_ROUNDS = 64,	/* as much as a backlog has */
	ACCEPT_US = 30000000,	/* between the injected SYN and the end of the handshake */
	DNS_PENDING = 64,	/* no cap of the policy bounds these: the stub takes as many */
};

struct pending {
	struct pending *next;
	struct gate *gate;
	struct conn *conn;	/* NULL: for the stub */
	struct syn syn;
	struct timer expire;
	bool is_in;		/* the SYN was injected */
	bool is_dns;
};

struct gate {
	struct egress *e;
	struct stub *stub;
	struct source packets;
	struct arrivals tcp4, tcp6;
	int raw4, raw6;
	struct pending *buckets[BUCKETS];
	struct syn queue[QUEUE];
	unsigned dns_pending;
};

/* --- flows under way -------------------------------------------------------------------------- */

static struct pending **find(struct gate *g, const struct flow *f)
{
	struct pending **p = &g->buckets[flow_hash(f) % BUCKETS];

	while (*p && !flow_equal(&(*p)->syn.flow, f))
		p = &(*p)->next;
	return p;
}

static struct pending *add(struct gate *g, const struct syn *s)
{
	struct pending **head = &g->buckets[flow_hash(&s->flow) % BUCKETS];
	struct pending *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->gate = g;
	p->syn = *s;
	p->next = *head;
	*head = p;
	return p;
}

static void forget(struct pending *p)
{
	struct pending **at = find(p->gate, &p->syn.flow);

	if (*at == p)
		*at = p->next;
	if (p->is_dns)
		p->gate->dns_pending--;
	timer_clear(&p->expire);
	free(p);
}

/* --- packets into the box ------------------------------------------------------------------------ */

static void inject_to(struct gate *g, const uint8_t *packet, size_t len,
		      const struct egress_addr *to)
{
	struct sockaddr_storage addr;
	socklen_t addr_len = sockaddr_of(&addr, to, 0, 0);

	/* Lost is as good as lost on a wire: the SYN comes again. */
	if (len)
		sendto(to->family == 4 ? g->raw4 : g->raw6, packet, len, MSG_DONTWAIT,
		       (struct sockaddr *)&addr, addr_len);
}

static void let_in(struct pending *p)
{
	uint8_t packet[512];

	p->is_in = true;
	inject_to(p->gate, packet, packet_syn(packet, sizeof(packet), &p->syn), &p->syn.flow.dst);
}

static void refuse(struct gate *g, const struct syn *s)
{
	uint8_t packet[512];

	inject_to(g, packet, packet_rst(packet, sizeof(packet), s), &s->flow.src);
}

static void say_unreachable(struct gate *g, const struct syn *s)
{
	uint8_t packet[512];

	inject_to(g, packet, packet_unreach_tcp(packet, sizeof(packet), s, UNREACH_HOST),
		  &s->flow.src);
}

/* --- judging ---------------------------------------------------------------------------------------- */

static void expired(struct timer *t)
{
	struct pending *p = PART_OF(t, struct pending, expire);
	struct conn *c = p->conn;

	forget(p);
	if (c)
		conn_drop(c);
}

static void await_handshake(struct pending *p)
{
	p->expire.fire = expired;
	timer_set(&p->gate->e->loop, &p->expire, loop_now() + ACCEPT_US);
	let_in(p);
}

static void reached(struct conn *c, enum reach how)
{
	struct pending *p = c->owner;

	switch (how) {
	case REACH_OPEN:
		await_handshake(p);
		return;
	case REACH_DENIED:
	case REACH_REFUSED:
	case REACH_NO_ROOM:
		refuse(p->gate, &p->syn);
		break;
	case REACH_UNREACHABLE:
		say_unreachable(p->gate, &p->syn);
		break;
	case REACH_TIMEOUT:
		break; /* nobody answered: so does the box hear nothing */
	}
	forget(p);
}

static void begin(struct gate *g, const struct syn *s, const struct egress_dest *d)
{
	struct pending *p = add(g, s);

	if (p)
		p->conn = conn_begin(g->e, d, reached, p);
	if (p && p->conn)
		return;
	if (p)
		forget(p);
	refuse(g, s);
}

static void begin_dns(struct gate *g, const struct syn *s)
{
	struct pending *p = g->dns_pending < DNS_PENDING ? add(g, s) : NULL;

	if (!p) {
		refuse(g, s);
		return;
	}
	p->is_dns = true;
	g->dns_pending++;
	await_handshake(p);
}

static void judge(struct gate *g, const struct syn *s)
{
	struct egress_addr addr = egress_addr_normal(s->flow.dst);
	const char *name = names_find(g->e->names, &addr);
	struct egress_dest d = { .name = name, .addr = name ? NULL : &addr, .proto = EGRESS_TCP,
				 .port = s->flow.dport };
	struct egress_verdict v = egress_judge(g->e->rules, &d);

	if (!name && names_is_fake(&addr))
		v = (struct egress_verdict){ .why = EGRESS_BY_PRIVATE, .rule = -1 };
	/* A resolver of the program's own: ours answers in its place, unless a rule opens that
	 * very server. Else any name could be told to it (DNS exfiltration). */
	if (d.port == INLET_DNS_PORT && !(v.allowed && v.why == EGRESS_BY_ALLOW)) {
		begin_dns(g, s);
	} else if (v.allowed) {
		begin(g, s, &d);
	} else {
		ledger_deny(&g->e->ledger, &d, &v, NULL);
		refuse(g, s);
	}
}

static void accept_all(struct gate *g);

static void take_syn(struct gate *g, const struct syn *s)
{
	struct pending *p = *find(g, &s->flow);

	/* The port is used again: by its last user a connection may be there already. */
	if (p && p->is_in && p->syn.seq != s->seq) {
		accept_all(g);
		p = *find(g, &s->flow);
	}
	if (!p) {
		judge(g, s);
		return;
	}
	p->syn = *s;	/* what was reached for the last user is as good for the next */
	if (p->is_in)
		let_in(p);
}

/* false: the socket has no more. */
static bool read_batch(struct gate *g, size_t *count)
{
	static uint8_t data[BATCH][SNAP];
	struct iovec iov[BATCH];
	struct mmsghdr msgs[BATCH] = { 0 };
	int n;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ data[i], SNAP };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	n = recvmmsg(g->packets.fd, msgs, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		if (packet_read_syn(&g->queue[*count], data[i], msgs[i].msg_len))
			(*count)++;
	return n == BATCH;
}

static void packets_ready(struct source *s, uint32_t events)
{
	struct gate *g = PART_OF(s, struct gate, packets);
	size_t count = 0;

	(void)events;
	while (count + BATCH <= QUEUE && read_batch(g, &count))
		;
	for (size_t i = 0; i < count; i++)
		take_syn(g, &g->queue[i]);
}

/* --- the listener --------------------------------------------------------------------------------------- */

/* The way in is the same as the way out: source and destination of the SYN. */
static bool flow_of(struct flow *f, int fd)
{
	struct sockaddr_storage here, there;
	socklen_t here_len = sizeof(here), there_len = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&here, &here_len) < 0 ||
	    getpeername(fd, (struct sockaddr *)&there, &there_len) < 0)
		return false;
	f->dst = addr_of_sockaddr(&here, &f->dport);
	f->src = addr_of_sockaddr(&there, &f->sport);
	return true;
}

static void take_connection(struct gate *g, int fd)
{
	struct pending *p = NULL;
	struct flow f;
	struct conn *c;

	if (flow_of(&f, fd))
		p = *find(g, &f);
	if (!p || !p->is_in) {
		reset_fd(fd); /* to our port by its own number: no flow of ours */
		return;
	}
	c = p->conn;
	forget(p);
	if (!c)
		stub_serve_client(g->stub, fd);
	else if (conn_is_allowed(c)) /* the rules may be new since */
		conn_relay(c, fd);
	else {
		conn_drop(c);
		reset_fd(fd);
	}
}

/* Are there perhaps more? */
static bool accept_some(struct gate *g, struct arrivals *a)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = arrivals_next(a);

		if (fd < 0)
			return false;
		take_connection(g, fd);
	}
	return true;
}

static void accept_all(struct gate *g)
{
	for (int i = 0; i < ACCEPT_ROUNDS && accept_some(g, &g->tcp4); i++)
		;
	for (int i = 0; i < ACCEPT_ROUNDS && g->tcp6.in.fd >= 0 && accept_some(g, &g->tcp6); i++)
		;
}

static void tcp4_ready(struct source *s, uint32_t events)
{
	struct gate *g = PART_OF(s, struct gate, tcp4.in);

	(void)events;
	accept_some(g, &g->tcp4);
}

static void tcp6_ready(struct source *s, uint32_t events)
{
	struct gate *g = PART_OF(s, struct gate, tcp6.in);

	(void)events;
	accept_some(g, &g->tcp6);
}

struct gate *gate_new(struct egress *e, struct stub *stub, const int fds[INLET_FD_COUNT])
{
	const struct source tcp4 = { fds[INLET_TCP4], tcp4_ready };
	const struct source tcp6 = { fds[INLET_TCP6], tcp6_ready };
	struct gate *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->e = e;
	g->stub = stub;
	g->packets = (struct source){ fds[INLET_GATE], packets_ready };
	g->raw4 = fds[INLET_RAW4];
	g->raw6 = fds[INLET_RAW6];
	g->tcp6.in.fd = -1;
	if (loop_add(&e->loop, &g->packets, EPOLLIN) == 0 &&
	    arrivals_begin(&g->tcp4, &e->loop, tcp4, EPOLLIN) == 0 &&
	    (tcp6.fd < 0 || arrivals_begin(&g->tcp6, &e->loop, tcp6, EPOLLIN) == 0))
		return g;
	free(g);
	return NULL;
}
