/* Flows of datagrams, and what udp.c does for them. */
#ifndef EGRESS_UDP_FLOW_H
#define EGRESS_UDP_FLOW_H

#include "runtime/egress/udp.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum {
	UDP_BATCH = 32,		/* datagrams of one recvmmsg(2) */
	UDP_DATA = 65536,	/* more than a datagram can have */
};

union udp_control {
	struct cmsghdr head;	/* for its alignment */
	char room[CMSG_SPACE(sizeof(struct sockaddr_in6))];
};

struct udp_batch {		/* room for what passes through, of all flows */
	struct mmsghdr msgs[UDP_BATCH];
	struct iovec iov[UDP_BATCH];
	struct sockaddr_storage from[UDP_BATCH];
	union udp_control control[UDP_BATCH];
	uint8_t data[UDP_BATCH][UDP_DATA];
	uint8_t answer[UDP_DATA], packet[PACKET_MAX];
};

/* --- udp_flow.c --- */
struct udp_flow *udp_flow_find(struct udp_relay *u, const struct flow *key);
/* The destination was judged without its address; the first datagram. A refusal is said. */
void udp_flow_begin(struct udp_relay *u, const struct flow *key, const struct egress_dest *d,
		    const uint8_t *data, size_t len);
/* One more datagram. The flow may be gone after it. */
void udp_flow_send(struct udp_flow *f, const uint8_t *data, size_t len);
void udp_flow_end(struct udp_flow *f);
void udp_flow_end_denied(struct udp_relay *u); /* those that the rules of now deny */
void udp_flow_end_idle(struct timer *t); /* of struct udp_relay */

/* --- udp.c --- */
bool udp_may_go(struct udp_relay *u, const struct egress_dest *d); /* false: noted */
/* A name server is asked itself where a rule opens it, and else never. */
bool udp_is_for_stub(const struct udp_relay *u, const struct egress_dest *d);
bool udp_has_proxy(const struct udp_relay *u);
void udp_answer(const struct udp_relay *u, const struct flow *f, const uint8_t *data, size_t len);
void udp_say_unreachable(const struct udp_relay *u, const struct flow *f, enum unreach code);

#endif
