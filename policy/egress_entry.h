/* One entry of net.allow_out, net.deny_out or net.allow_private. Inside policy/ only. */
#ifndef POLICY_EGRESS_ENTRY_H
#define POLICY_EGRESS_ENTRY_H

#include "policy/egress.h"

enum entry_kind {
	ENTRY_NET,	/* addresses: `addr` and `bits` */
	ENTRY_ALL,	/* ALL_TRAFFIC: both families, every name */
	ENTRY_NAME,	/* this very name */
	ENTRY_BELOW,	/* *.name: below it, at any depth */
	ENTRY_TREE,	/* .name: it and all below */
};
enum { PROTO_TCP_BIT = 1 << EGRESS_TCP, PROTO_UDP_BIT = 1 << EGRESS_UDP };

struct entry {
	enum entry_kind kind;
	struct egress_addr addr;
	unsigned bits;		/* of the prefix */
	char name[EGRESS_NAME_MAX + 1];
	uint16_t first, last;	/* ports; 0 and 0: the ports of the web, 80 and 443 */
	unsigned protos;	/* PROTO_*_BIT */
};

/* The reason of a refusal is a sentence without the entry; `hint` may stay empty. */
enum { ENTRY_HINT = 160 };
struct entry_error {
	const char *why;
	char hint[ENTRY_HINT];
};
/* 0 or -1. @with_ports false: an address or CIDR alone (net.allow_private). */
int entry_parse(struct entry *out, const char *text, bool with_ports, struct entry_error *err);

/* Host bits beyond the prefix to zero; were there any? */
bool addr_mask(struct egress_addr *a, unsigned bits);
static inline unsigned addr_bits(const struct egress_addr *a)
{
	return a->family == 4 ? 32 : 128;
}

#endif
