/* The inside of the block of egress rules: written by egress_rules.c, read by
 * egress_match.c and egress_explain.c. Offsets are from the start of the block. */
#ifndef POLICY_EGRESS_BLOCK_H
#define POLICY_EGRESS_BLOCK_H

#include "policy/egress_entry.h"

enum { RULES_MAGIC = 0x6e736572, WEB_HTTP = 80, WEB_HTTPS = 443 };
enum rules_flag {
	RULES_DISABLED = 1,	/* no network */
	RULES_DEFAULT_ALLOWS = 2,
	RULES_DENY_WINS = 4,
	RULES_DENIES_NAMES = 8,
	RULES_OPEN = 16,	/* an allow rule more does not turn the default round */
	RULES_FLAGS = 31,
};

struct ports {
	uint16_t first, last;	/* 0 and 0: 80 and 443 */
	uint16_t protos;	/* PROTO_*_BIT */
	uint16_t list;		/* enum rule_list */
	uint32_t rule;		/* index into the policy's list */
};
static inline bool ports_are_whole(const struct ports *p)
{
	return p->protos == (PROTO_TCP_BIT | PROTO_UDP_BIT) && p->first == 1 &&
	       p->last == UINT16_MAX;
}
struct name_row {		/* sorted by name */
	uint32_t name;		/* offset of the text, with its NUL */
	uint32_t kind;		/* ENTRY_NAME, _BELOW, _TREE */
	struct ports ports;
};
struct net_row {		/* sorted by family, bits, address; 0 bits: names as well */
	uint8_t family, bits, bytes[16];
	uint8_t spare[2];
	struct ports ports;
};
struct block {
	struct egress_rules head;
	uint32_t flags;
	uint32_t name_count, names;
	uint32_t net_count, nets;
	uint32_t text_count[LIST_COUNT]; /* entries as they were written */
	uint32_t texts[LIST_COUNT];	 /* offset of an array of offsets */
	uint8_t has_bits[2][20]; /* bit n: there is a prefix of n bits; IPv4, IPv6 */
};

static inline const struct block *block_of(const struct egress_rules *r)
{
	return (const struct block *)r;
}
static inline const void *block_at(const struct block *b, uint32_t offset)
{
	return (const char *)b + offset;
}

/* Of the sorted rows, those with exactly this name or this prefix: [from, to). */
struct rows {
	uint32_t from, to;
};
struct rows rows_of_name(const struct block *b, const char *name);
struct rows rows_of_net(const struct block *b, const struct egress_addr *net, unsigned bits);
static inline bool block_has_bits(const struct block *b, uint8_t family, unsigned bits)
{
	return b->has_bits[family == 6][bits / 8] >> bits % 8 & 1;
}

/* The entry as the user wrote it; NULL: no such. */
const char *rules_text(const struct egress_rules *r, enum rule_list list, int32_t rule);
/* Has net.allow_private this address? */
bool rules_lift_private(const struct block *b, const struct egress_addr *a);

/* --- the always-denied set (egress_private.c) -------------------------------------------- */

/* The range that an address is in, "private 10.0.0.0/8"; NULL: none. */
const char *private_range(const struct egress_addr *a);
/* The same for a whole prefix; NULL: some of it is not in the set. */
const char *private_range_of_net(const struct egress_addr *net, unsigned bits);
/* Entry i of the set, of how many: the number of them. *out may be NULL. */
struct private_net {
	struct egress_addr addr;
	unsigned bits;
};
size_t private_nets(struct private_net *out, size_t i);
/* The addresses that stand for names inside a box: nothing on any network has them. */
bool private_is_fake(const struct egress_addr *a);
/* The IPv4 addresses that gateways and tunnels would make of an IPv6 one, one a call;
 * *next begins as 0. False: no more. */
bool private_carried(const struct egress_addr *a, size_t *next, struct egress_addr *v4);

#endif
