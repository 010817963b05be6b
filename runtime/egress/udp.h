/*
 * The box's datagrams to foreign addresses: judged, relayed through one socket of the host
 * for each flow, and answered from the address that the box asked.
 */
#ifndef EGRESS_UDP_H
#define EGRESS_UDP_H

#include "runtime/egress/packet.h"
#include "runtime/egress/stub.h"

enum { UDP_BUCKETS = 1024 };

struct udp_flow;
struct udp_batch;
struct udp_relay {
	struct loop *loop;
	const struct egress_config *config; /* the current ones */
	const struct egress_rules *rules;
	struct names *names;
	struct resolver *resolver;
	struct ledger *ledger;
	struct stub *stub;	/* answers for the name servers of the world */
	uint64_t idle_us;	/* how long a flow may be silent; 0: a minute */
	/* the rest is udp.c's own */
	struct source in4, in6;
	int raw4, raw6;
	struct udp_batch *batch;
	struct udp_flow *buckets[UDP_BUCKETS];
	struct udp_flow *oldest, *newest; /* by the latest datagram */
	struct timer idle;
	size_t queued;		/* bytes that wait for a name */
	unsigned asked;		/* questions that the stub has */
};

/* The fields above are set. Serves the UDP part of the inlet, whose descriptors it takes;
 * those of IPv6 may be -1. 0, or -1 with errno. */
int udp_start(struct udp_relay *u, const int fds[INLET_FD_COUNT]);
/* New rules: flows that they do not allow end. */
void udp_rules_changed(struct udp_relay *u, const struct egress_config *config,
		       const struct egress_rules *rules);
/* All flows end. No question may be with the stub any more. */
void udp_stop(struct udp_relay *u);

#endif
