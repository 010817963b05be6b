/*
 * The rules of a block as ranges of IPv4 addresses, for a packet filter. Pure.
 *
 * Must:    have every row for addresses; the same private ranges as the matcher.
 * Mustn't: be asked for a policy with names: a filter knows none (policy/check.c).
 */
#include "policy/egress_block.h"

#include "policy/egress_entry.h"

#include <stdlib.h>

static uint32_t v4_of(const uint8_t bytes[4])
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static struct egress_range range_of(const uint8_t bytes[4], unsigned bits, uint8_t list)
{
	uint32_t first = v4_of(bytes), rest = bits ? ((uint32_t)1 << (32 - bits)) - 1 : UINT32_MAX;

	if (bits == 32)
		rest = 0;
	return (struct egress_range){ .first = first, .last = first | rest, .list = list };
}

static const uint8_t lists[LIST_COUNT] = {
	[LIST_ALLOW] = EGRESS_ALLOWED, [LIST_DENY] = EGRESS_DENIED, [LIST_PRIVATE] = EGRESS_LIFTED,
};

long egress_ranges4(const struct egress_rules *r, struct egress_range **out)
{
	const struct block *b = block_of(r);
	const struct net_row *row = block_at(b, b->nets);
	size_t fixed = private_nets(NULL, 0);
	struct egress_range *ranges = calloc(b->net_count + fixed, sizeof(*ranges));
	long n = 0;

	if (!ranges)
		return -1;
	for (uint32_t i = 0; i < b->net_count; i++) {
		if (row[i].family != 4)
			continue;
		ranges[n] = range_of(row[i].bytes, row[i].bits, lists[row[i].ports.list]);
		ranges[n].first_port = row[i].ports.first;
		ranges[n].last_port = row[i].ports.last;
		ranges[n].has_tcp = row[i].ports.protos & PROTO_TCP_BIT;
		ranges[n].has_udp = row[i].ports.protos & PROTO_UDP_BIT;
		n++;
	}
	for (size_t i = 0; i < fixed; i++) {
		struct private_net net;

		if (private_nets(&net, i) && net.addr.family == 4)
			ranges[n++] = range_of(net.addr.bytes, net.bits, EGRESS_ALWAYS_DENIED);
	}
	*out = ranges;
	return n;
}

bool egress_deny_wins(const struct egress_rules *r)
{
	return block_of(r)->flags & RULES_DENY_WINS;
}

static const char *text_of(const struct egress_rules *r, const struct ports *p)
{
	return rules_text(r, (enum rule_list)p->list, (int32_t)p->rule);
}

const char *egress_beyond_ranges4(const struct egress_rules *r)
{
	const struct block *b = block_of(r);
	const struct name_row *name = block_at(b, b->names);
	const struct net_row *net = block_at(b, b->nets);

	if (b->name_count)
		return text_of(r, &name->ports);
	/* ALL_TRAFFIC is all that there is; what is denied of IPv6 is not reached anyway. */
	for (uint32_t i = 0; i < b->net_count; i++)
		if (net[i].family == 6 && net[i].bits && net[i].ports.list != LIST_DENY)
			return text_of(r, &net[i].ports);
	return NULL;
}
