/*
 * udp.c - see udp.h. Runs in the supervisor.
 *
 * QUIC to a name that is allowed without "/udp" is refused like any other datagram: the
 * box's kernel turns that into ECONNREFUSED, and clients go on over TCP, where the name can
 * be checked.
 *
 * Must:    know from the kernel, not from the datagram, where it was sent to.
 * Mustn't: let one busy socket keep the loop from the others.
 */
#include "runtime/egress/udp_flow.h"

#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BATCHES = 4,		/* in one turn of the loop: epoll tells again of the rest */
	ASKED_MAX = 256,	/* questions to the stub at a time */
	IDLE_US = 60000000,
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

void udp_answer(const struct udp_relay *u, const struct flow *f, const uint8_t *data, size_t len)
{
	if (u->sink)
		u->sink->answer(u->sink->arg, f, data, len);
	else
		inject(u, packet_udp(u->batch->packet, PACKET_MAX, f, data, len), &f->src);
}

void udp_say_unreachable(const struct udp_relay *u, const struct flow *f, enum unreach code)
{
	if (u->sink)
		u->sink->unreachable(u->sink->arg, f, code);
	else
		inject(u, packet_unreach_udp(u->batch->packet, PACKET_MAX, f, code), &f->src);
}

/* --- judging ---------------------------------------------------------------------------- */

bool udp_has_proxy(const struct udp_relay *u)
{
	return u->e->config->proxy.kind != PROXY_NONE;
}

/* The host wants its traffic to go through a proxy, and neither kind carries datagrams. */
static void deny_for_proxy(struct udp_relay *u, const struct egress_dest *d,
			   const struct egress_verdict *v)
{
	struct buf what = BUF_INIT(1024), rule = BUF_INIT(1024), flag = BUF_INIT(1024);

	egress_explain_denial(u->e->rules, d, v, NULL,
			      &(struct egress_words){ &what, &rule, &flag });
	ledger_deny_text(&u->e->ledger, buf_text(&what),
			 "net.proxy (the proxy of the host carries no UDP)", "");
	buf_free(&what);
	buf_free(&rule);
	buf_free(&flag);
}

/* false: refused, and noted. */
bool udp_may_go(struct udp_relay *u, const struct egress_dest *d)
{
	struct egress_verdict v = egress_judge(u->e->rules, d);

	if (!v.allowed)
		ledger_deny(&u->e->ledger, d, &v, NULL);
	else if (udp_has_proxy(u))
		deny_for_proxy(u, d, &v);
	return v.allowed && !udp_has_proxy(u);
}

/* --- datagrams of the box ------------------------------------------------------ */

struct question { /* to the stub, instead of the server that the box asked */
	struct udp_relay *u;
	struct flow flow;
};

static void dns_reply(void *arg, const uint8_t *data, size_t len)
{
	struct question *q = arg;

	if (len)
		udp_answer(q->u, &q->flow, data, len);
	q->u->asked--;
	free(q);
}

void udp_ask_stub(struct udp_relay *u, const struct flow *key, const uint8_t *data, size_t len)
{
	struct question *q = u->asked < ASKED_MAX ? malloc(sizeof(*q)) : NULL;
	const struct stub_client client = { dns_reply, q, false };

	if (!q)
		return; /* a resolver asks again */
	*q = (struct question){ u, *key };
	u->asked++;
	if (stub_ask(u->stub, data, len, &client) < 0) {
		u->asked--;
		free(q);
	}
}

/* A name server that a rule opens is asked itself. In the place of all others the stub
 * answers, or else any name could be told to one of them. */
bool udp_is_for_stub(const struct udp_relay *u, const struct egress_dest *d)
{
	struct egress_verdict v = egress_judge(u->e->rules, d);

	return d->port == INLET_DNS_PORT && !(v.allowed && v.why == EGRESS_BY_ALLOW);
}

void udp_take(struct udp_relay *u, const struct flow *key, const uint8_t *data, size_t len)
{
	struct udp_flow *f = udp_flow_find(u, key);
	struct egress_addr addr = egress_addr_normal(key->dst);
	const char *name = f ? NULL : names_find(u->e->names, &addr);
	struct egress_dest d = { .name = name, .addr = name ? NULL : &addr, .proto = EGRESS_UDP,
				 .port = key->dport };

	if (f)
		udp_flow_send(f, data, len);
	else if (udp_is_for_stub(u, &d))
		udp_ask_stub(u, key, data, len);
	else if (udp_may_go(u, &d))
		udp_flow_begin(u, key, &d, data, len);
	else
		udp_say_unreachable(u, key, UNREACH_PORT);
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

	for (int i = 0; i < UDP_BATCH; i++) {
		b->iov[i] = (struct iovec){ b->data[i], UDP_DATA };
		b->msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &b->from[i], .msg_namelen = sizeof(b->from[i]),
			.msg_iov = &b->iov[i], .msg_iovlen = 1, .msg_control = &b->control[i],
			.msg_controllen = sizeof(b->control[i]),
		};
	}
	n = recvmmsg(fd, b->msgs, UDP_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		if (flow_of(&key, &b->msgs[i].msg_hdr))
			udp_take(u, &key, b->data[i], b->msgs[i].msg_len);
	return n;
}

static void read_some(struct udp_relay *u, int fd)
{
	for (int i = 0; i < BATCHES && read_batch(u, fd) == UDP_BATCH; i++)
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

int udp_start_to(struct udp_relay *u, struct egress *e, struct stub *stub,
		 const struct udp_sink *sink)
{
	u->e = e;
	u->stub = stub;
	u->sink = sink;
	u->batch = calloc(1, sizeof(*u->batch)); /* fresh pages: only those used take memory */
	if (!u->batch)
		return -1;
	if (!u->idle_us)
		u->idle_us = IDLE_US;
	u->idle.fire = udp_flow_end_idle;
	u->in4.fd = u->in6.fd = u->raw4 = u->raw6 = -1;
	return 0;
}

int udp_start(struct udp_relay *u, struct egress *e, struct stub *stub,
	      const int fds[INLET_FD_COUNT])
{
	if (udp_start_to(u, e, stub, NULL) < 0)
		return -1;
	u->in4 = (struct source){ fds[INLET_UDP4], in4_ready };
	u->in6 = (struct source){ fds[INLET_UDP6], in6_ready };
	u->raw4 = fds[INLET_RAW4];
	u->raw6 = fds[INLET_RAW6];
	if (loop_add(&u->e->loop, &u->in4, EPOLLIN) < 0)
		return -1;
	return u->in6.fd < 0 ? 0 : loop_add(&u->e->loop, &u->in6, EPOLLIN);
}

void udp_rules_changed(struct udp_relay *u)
{
	udp_flow_end_denied(u);
}

void udp_stop(struct udp_relay *u)
{
	while (u->oldest)
		udp_flow_end(u->oldest);
	timer_clear(&u->idle);
	loop_remove(&u->e->loop, &u->in4);
	loop_remove(&u->e->loop, &u->in6);
	for (int i = 0; i < 4; i++) {
		int fd = (const int[]){ u->in4.fd, u->in6.fd, u->raw4, u->raw6 }[i];

		if (fd >= 0)
			close(fd);
	}
	free(u->batch);
	u->batch = NULL;
}
