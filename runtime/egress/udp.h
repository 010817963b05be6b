/*
 * The box's datagrams to foreign addresses: judged, relayed through one socket of the host
 * for each flow, and answered from the address that the box asked.
 */
#ifndef EGRESS_UDP_H
#define EGRESS_UDP_H

#include "runtime/egress/packet.h"
#include "runtime/egress/stub.h"
#include "runtime/egress/tcp.h"

enum { UDP_BUCKETS = 1024 };

struct udp_flow;
struct udp_batch;
/* Where answers go instead of the inlet's raw sockets. Not during udp_start_to(). */
struct udp_sink {
	void (*answer)(void *arg, const struct flow *f, const uint8_t *data, size_t len);
	void (*unreachable)(void *arg, const struct flow *f, enum unreach code);
	void *arg;
};
struct udp_relay {		/* udp.c's own but for idle_us */
	struct egress *e;
	struct stub *stub;	/* answers in the place of the name servers of the world */
	struct source in4, in6;
	int raw4, raw6;
	const struct udp_sink *sink; /* NULL: the raw sockets */
	uint64_t idle_us;	/* how long a flow may be silent; 0: a minute */
	struct udp_batch *batch;
	struct udp_flow *buckets[UDP_BUCKETS];
	struct udp_flow *oldest, *newest; /* by the latest datagram */
	struct timer idle;
	size_t queued;		/* bytes that wait for a name */
	unsigned asked;		/* questions that the stub has */
};

/* Serves the UDP part of the inlet, whose four descriptors it takes; those of IPv6 may
 * be -1. 0, or -1 with errno. */
int udp_start(struct udp_relay *u, struct egress *e, struct stub *stub,
	      const int fds[INLET_FD_COUNT]);
/* The same without sockets of the box: its datagrams come by udp_take(). */
int udp_start_to(struct udp_relay *u, struct egress *e, struct stub *stub,
		 const struct udp_sink *sink);
/* A datagram of the box: from key->src to key->dst, which are not normalised. */
void udp_take(struct udp_relay *u, const struct flow *key, const uint8_t *data, size_t len);
/* The same for the stub, whoever was asked. */
void udp_ask_stub(struct udp_relay *u, const struct flow *key, const uint8_t *data, size_t len);
/* e->rules or e->config are new: flows that they do not allow end. */
void udp_rules_changed(struct udp_relay *u);
/* All flows end. The stub must have answered everything. */
void udp_stop(struct udp_relay *u);

#endif
