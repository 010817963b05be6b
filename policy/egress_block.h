/* The inside of the block of egress rules: written by egress_rules.c, read by it and by
 * egress_explain.c. Offsets are from the start of the block. */
#ifndef POLICY_EGRESS_BLOCK_H
#define POLICY_EGRESS_BLOCK_H

#include "policy/egress.h"

enum { RULES_MAGIC = 0x6e736572 };
enum rule_list { LIST_ALLOW, LIST_DENY, LIST_PRIVATE, LIST_COUNT };
enum rules_flag {
	RULES_DISABLED = 1,	/* no network */
	RULES_DEFAULT_ALLOWS = 2,
	RULES_DENY_WINS = 4,
	RULES_DENIES_NAMES = 8,
};

struct ports {
	uint16_t first, last;	/* 0 and 0: 80 and 443 */
	uint16_t protos;	/* 1 << enum egress_proto */
	uint16_t list;		/* enum rule_list */
	uint32_t rule;		/* index into the policy's list */
};
struct name_row {		/* sorted by name */
	uint32_t name;		/* offset of the text, with its NUL */
	uint32_t kind;		/* enum entry_kind */
	struct ports ports;
};
struct net_row {		/* sorted by family, bits, address */
	uint8_t family, bits, bytes[16];
	uint8_t is_all, spare;	/* ALL_TRAFFIC or a prefix of 0: matches names as well */
	struct ports ports;
};
struct block {
	struct egress_rules head;
	uint32_t flags;
	uint32_t name_count, names;
	uint32_t net_count, nets;
	uint32_t text_count[LIST_COUNT]; /* entries as they were written */
	uint32_t texts[LIST_COUNT];	 /* offset of an array of offsets */
	uint8_t has_bits[2][17];	 /* bit n: there is a prefix of n bits; IPv4, IPv6 */
};

static inline const struct block *block_of(const struct egress_rules *r)
{
	return (const struct block *)r;
}
static inline const void *block_at(const struct block *b, uint32_t offset)
{
	return (const char *)b + offset;
}
/* The entry as the user wrote it; NULL: no such. */
const char *rules_text(const struct egress_rules *r, enum rule_list list, int32_t rule);
/* The range of the always-denied set that an address is in; NULL: none. */
const char *private_range(const struct egress_addr *a);
/* Entry i of that set, of how many: the number of them. *out may be NULL. */
struct private_net {
	struct egress_addr addr;
	unsigned bits;
};
size_t private_nets(struct private_net *out, size_t i);

#endif
