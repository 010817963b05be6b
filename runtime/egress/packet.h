/*
 * Packets of the box's loopback, as bytes: reading a SYN, and making what only a raw socket
 * can send. Pure. Source and destination are always those of the packet's own header.
 */
#ifndef EGRESS_PACKET_H
#define EGRESS_PACKET_H

#include "policy/egress.h"

struct flow {			/* as the box sees it */
	struct egress_addr src, dst; /* of one family; not normalised: the header's bytes */
	uint16_t sport, dport;	/* host byte order */
};
bool flow_equal(const struct flow *a, const struct flow *b);
uint32_t flow_hash(const struct flow *f);

enum { PACKET_MAX = 65575 };

struct syn {
	struct flow flow;
	uint32_t seq;
	uint8_t tcp[60];	/* the TCP header with its options, without data */
	uint8_t tcp_len;
};
/* An IPv4 or IPv6 packet from its first header byte. false: not a plain SYN, or cut. */
bool packet_read_syn(struct syn *out, const uint8_t *p, size_t len);

/* Each writes a whole packet and returns its length; `to` is the size of the buffer, large
 * enough or 0 is returned. */
size_t packet_syn(uint8_t *p, size_t to, const struct syn *s);	/* the same again, no data */
size_t packet_rst(uint8_t *p, size_t to, const struct syn *s);	/* refuses it */
/* A datagram from f->dst to f->src: the answer of who was asked. */
size_t packet_udp(uint8_t *p, size_t to, const struct flow *f, const uint8_t *data, size_t len);

enum unreach { UNREACH_HOST, UNREACH_PORT, UNREACH_PROHIBITED };
/* ICMP or ICMPv6 destination unreachable from the destination of a SYN, or of a datagram of
 * this flow: makes connect(2) or send(2) fail. */
size_t packet_unreach_tcp(uint8_t *p, size_t to, const struct syn *s, enum unreach code);
size_t packet_unreach_udp(uint8_t *p, size_t to, const struct flow *f, enum unreach code);

#endif
