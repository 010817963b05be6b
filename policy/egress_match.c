/*
 * The one matcher of egress rules. Pure, without allocation: a name costs one search a
 * label, an address one search for each length of prefix that the rules have.
 *
 * Must: give the same verdict for the same block everywhere: launcher, supervisor and
 *       `nsbox policy explain` all ask here.
 */
#include "policy/egress_block.h"

#include <stdlib.h>
#include <string.h>

/* What the lists say of one destination: the first rule of each that holds, the first that
 * has the destination with other ports, and the first that has all of its ports. */
struct hits {
	int32_t rule[LIST_COUNT], other_port[LIST_COUNT], whole[LIST_COUNT];
};

static bool has_port(const struct ports *p, const struct egress_dest *d)
{
	if (!(p->protos & 1u << d->proto))
		return false;
	if (!p->first && !p->last)
		return d->port == WEB_HTTP || d->port == WEB_HTTPS;
	return d->port >= p->first && d->port <= p->last;
}

static void keep_first(int32_t *slot, uint32_t rule)
{
	if (*slot < 0 || rule < (uint32_t)*slot)
		*slot = (int32_t)rule;
}

static void note(struct hits *h, const struct ports *p, const struct egress_dest *d)
{
	if (ports_are_whole(p))
		keep_first(&h->whole[p->list], p->rule);
	if (p->list == LIST_PRIVATE || has_port(p, d))
		keep_first(&h->rule[p->list], p->rule);
	else
		keep_first(&h->other_port[p->list], p->rule);
}

static bool kind_fits(uint32_t kind, bool is_itself)
{
	return kind == ENTRY_TREE || (kind == ENTRY_NAME) == is_itself;
}

static void match_name(struct hits *h, const struct block *b, const struct egress_dest *d)
{
	const struct name_row *row = block_at(b, b->names);
	const char *suffix = d->name;

	while (suffix) {
		struct rows at = rows_of_name(b, suffix);

		for (; at.from < at.to; at.from++)
			if (kind_fits(row[at.from].kind, suffix == d->name))
				note(h, &row[at.from].ports, d);
		suffix = strchr(suffix, '.');
		suffix = suffix ? suffix + 1 : NULL;
	}
}

/* Lists whose ranges count: a range lets nobody look up a name, and a name that leads into
 * it is not allowed by it (only what is for all addresses is for names as well); but a
 * range that is denied is denied under whatever name. */
static bool list_counts(const struct net_row *row, const struct egress_dest *d, bool denied_only)
{
	if (denied_only)
		return row->ports.list == LIST_DENY;
	return !d->name || row->ports.list != LIST_ALLOW || !row->bits;
}

static void match_addr(struct hits *h, const struct block *b, const struct egress_dest *d,
		       const struct egress_addr *addr, bool denied_only)
{
	const struct net_row *row = block_at(b, b->nets);

	for (unsigned bits = 0; bits <= addr_bits(addr); bits++) {
		struct rows at;

		if (!block_has_bits(b, addr->family, bits))
			continue;
		at = rows_of_net(b, addr, bits);
		for (; at.from < at.to; at.from++)
			if (list_counts(&row[at.from], d, denied_only))
				note(h, &row[at.from].ports, d);
	}
}

/* A name that is not resolved yet: what is for all addresses is for it. */
static void match_any(struct hits *h, const struct block *b, const struct egress_dest *d)
{
	static const struct egress_addr any[] = { { .family = 4 }, { .family = 6 } };
	const struct net_row *row = block_at(b, b->nets);

	for (int i = 0; i < 2; i++) {
		struct rows at = rows_of_net(b, &any[i], 0);

		for (; at.from < at.to; at.from++)
			if (row[at.from].ports.list != LIST_PRIVATE)
				note(h, &row[at.from].ports, d);
	}
}

static struct hits match(const struct block *b, const struct egress_dest *d,
			 const struct egress_addr *addr)
{
	struct hits h;
	struct egress_addr v4;
	size_t next = 0;

	memset(&h, 0xff, sizeof(h)); /* -1: none */
	if (d->name)
		match_name(&h, b, d);
	if (!addr && d->name)
		match_any(&h, b, d);
	if (!addr)
		return h;
	match_addr(&h, b, d, addr, false);
	/* What a translator would make of it may be denied as well. */
	while (private_carried(addr, &next, &v4))
		match_addr(&h, b, d, &v4, true);
	return h;
}

bool rules_lift_private(const struct block *b, const struct egress_addr *a)
{
	const struct egress_dest d = { .addr = a, .proto = EGRESS_TCP };

	return !private_is_fake(a) && match(b, &d, a).rule[LIST_PRIVATE] >= 0;
}

/* --- the verdict ------------------------------------------------------------------------- */

static struct egress_verdict verdict(bool allowed, enum egress_why why, int32_t rule)
{
	return (struct egress_verdict){ .allowed = allowed, .why = why, .rule = rule };
}

static struct egress_verdict by_lists(const struct block *b, const struct hits *h)
{
	int32_t allow = h->rule[LIST_ALLOW], deny = h->rule[LIST_DENY];

	if (deny >= 0 && (allow < 0 || b->flags & RULES_DENY_WINS))
		return verdict(false, EGRESS_BY_DENY, deny);
	if (allow >= 0)
		return verdict(true, EGRESS_BY_ALLOW, allow);
	if (b->flags & RULES_DEFAULT_ALLOWS)
		return verdict(true, EGRESS_BY_DEFAULT, -1);
	if (h->other_port[LIST_ALLOW] >= 0)
		return verdict(false, EGRESS_BY_PORT, h->other_port[LIST_ALLOW]);
	return verdict(false, EGRESS_BY_DEFAULT, -1);
}

struct egress_verdict egress_judge(const struct egress_rules *r, const struct egress_dest *d)
{
	const struct block *b = block_of(r);
	struct egress_addr addr = { 0 };
	struct egress_verdict v;
	struct hits h;

	if (b->flags & RULES_DISABLED)
		return verdict(false, EGRESS_BY_DISABLED, -1);
	if (d->addr)
		addr = egress_addr_normal(*d->addr);
	h = match(b, d, d->addr ? &addr : NULL);
	v = by_lists(b, &h);
	if (!v.allowed || !d->addr || !private_range(&addr))
		return v;
	return h.rule[LIST_PRIVATE] >= 0 && !private_is_fake(&addr)
		       ? v : verdict(false, EGRESS_BY_PRIVATE, -1);
}

/* Any port and protocol: a name is looked up before anybody knows what for. So one port
 * that is allowed is enough, and a rule that denies some ports denies no lookup. */
struct egress_verdict egress_judge_lookup(const struct egress_rules *r, const char *name)
{
	const struct block *b = block_of(r);
	const struct egress_dest d = { .name = name, .proto = EGRESS_TCP, .port = WEB_HTTPS };
	struct hits h;

	if (b->flags & RULES_DISABLED)
		return verdict(false, EGRESS_BY_DISABLED, -1);
	h = match(b, &d, NULL);
	if (h.rule[LIST_ALLOW] < 0)
		h.rule[LIST_ALLOW] = h.other_port[LIST_ALLOW];
	h.rule[LIST_DENY] = h.whole[LIST_DENY];
	return by_lists(b, &h);
}

bool egress_default_allows(const struct egress_rules *r)
{
	return block_of(r)->flags & RULES_DEFAULT_ALLOWS;
}

bool egress_wants_names_checked(const struct egress_rules *r, const struct egress_dest *d)
{
	if (egress_default_allows(r))
		return block_of(r)->flags & RULES_DENIES_NAMES;
	return d->name != NULL;
}

/* --- ports --------------------------------------------------------------------------------- */

static int compare_ports(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

static int add_port(uint16_t *ports, int n, int max, uint16_t port)
{
	for (int i = 0; i < n; i++)
		if (ports[i] == port)
			return n;
	if (n >= max)
		return -1;
	ports[n] = port;
	return n + 1;
}

static int add_ports(const struct ports *p, uint16_t *ports, int n, int max)
{
	if (p->list != LIST_ALLOW || !(p->protos & PROTO_TCP_BIT))
		return n;
	if (!p->first && !p->last) {
		n = add_port(ports, n, max, WEB_HTTP);
		return n < 0 ? n : add_port(ports, n, max, WEB_HTTPS);
	}
	if (p->last - p->first >= max)
		return -1;
	for (unsigned port = p->first; port <= p->last && n >= 0; port++)
		n = add_port(ports, n, max, (uint16_t)port);
	return n;
}

int egress_ports(const struct egress_rules *r, uint16_t *ports, int max)
{
	const struct block *b = block_of(r);
	const struct name_row *name = block_at(b, b->names);
	const struct net_row *net = block_at(b, b->nets);
	int n = b->flags & RULES_DEFAULT_ALLOWS ? -1 : 0;

	for (uint32_t i = 0; i < b->name_count && n >= 0; i++)
		n = add_ports(&name[i].ports, ports, n, max);
	for (uint32_t i = 0; i < b->net_count && n >= 0; i++)
		n = add_ports(&net[i].ports, ports, n, max);
	if (n > 0)
		qsort(ports, (size_t)n, sizeof(*ports), compare_ports);
	return n;
}
