/*
 * What a policy's network rules say without meaning it: a denial that an allowance
 * swallows, a range that needs one more flag. Pure. Advice only: no verdict comes from
 * here. Linear in the entries but for a search each, as judging is.
 */
#include "policy/egress_block.h"

#include "base/cleanup.h"
#include "policy/value.h"

#include <stdlib.h>
#include <string.h>

enum { WARNINGS_MAX = 8, PRIVATE_LOOKED_AT = 64 };

struct warner {
	const struct egress_rules *r;
	const struct block *b;
	struct strlist *out;
	size_t count;
	bool failed;
};

static void tell(struct warner *w, const struct buf *text)
{
	w->failed |= text->failed;
	if (w->count++ < WARNINGS_MAX)
		w->failed |= strlist_add(w->out, buf_text(text)) < 0;
}

/* --- a denial that an allowance swallows ----------------------------------------------- */

static bool ports_cover(const struct ports *a, const struct ports *d)
{
	bool a_is_web = !a->first, d_is_web = !d->first;

	if (a->list != LIST_ALLOW || d->protos & ~a->protos)
		return false;
	if (a_is_web)
		return d_is_web || (d->first == d->last &&
				    (d->first == WEB_HTTP || d->first == WEB_HTTPS));
	return !d_is_web && d->first >= a->first && d->last <= a->last;
}

static void say_swallowed(struct warner *w, const struct ports *deny, const struct ports *allow)
{
	struct buf text = BUF_INIT(4096);

	buf_fmt(&text, "net.deny_out \"%s\" has no effect: ",
		SHOWN(rules_text(w->r, LIST_DENY, (int32_t)deny->rule)));
	buf_fmt(&text, "net.allow_out \"%s\" has all of it, and allow wins (--set net.precedence=deny turns that round)",
		SHOWN(rules_text(w->r, LIST_ALLOW, (int32_t)allow->rule)));
	tell(w, &text);
	buf_free(&text);
}

/* The allow rule that has all of this range; NULL: none. */
static const struct ports *net_cover(const struct block *b, const struct net_row *row,
				     const struct ports *ports)
{
	const struct net_row *rows = block_at(b, b->nets);
	struct egress_addr net = { .family = row->family };

	memcpy(net.bytes, row->bytes, sizeof(net.bytes));
	for (unsigned bits = 0; bits <= row->bits; bits++) {
		struct rows at;

		if (!block_has_bits(b, row->family, bits))
			continue;
		at = rows_of_net(b, &net, bits);
		for (; at.from < at.to; at.from++)
			if (ports_cover(&rows[at.from].ports, ports))
				return &rows[at.from].ports;
	}
	return NULL;
}

static bool kind_covers(uint32_t allow, uint32_t deny, bool is_itself)
{
	if (!is_itself)
		return allow != ENTRY_NAME;
	return allow == ENTRY_TREE || allow == deny;
}

static const struct ports *name_cover(const struct block *b, const struct name_row *row)
{
	static const struct net_row all4 = { .family = 4 }, all6 = { .family = 6 };
	const struct name_row *rows = block_at(b, b->names);
	const char *name = block_at(b, row->name), *suffix = name;
	const struct ports *all;

	while (suffix) {
		struct rows at = rows_of_name(b, suffix);

		for (; at.from < at.to; at.from++)
			if (kind_covers(rows[at.from].kind, row->kind, suffix == name) &&
			    ports_cover(&rows[at.from].ports, &row->ports))
				return &rows[at.from].ports;
		suffix = strchr(suffix, '.');
		suffix = suffix ? suffix + 1 : NULL;
	}
	all = net_cover(b, &all4, &row->ports);
	return all ? all : net_cover(b, &all6, &row->ports);
}

/* ALL_TRAFFIC has a row of each family: one is told. */
static bool is_second_row(const struct block *b, const struct net_row *row)
{
	static const struct egress_addr any = { .family = 4 };
	const struct net_row *rows = block_at(b, b->nets);
	struct rows at;

	if (row->family != 6 || row->bits)
		return false;
	at = rows_of_net(b, &any, 0);
	for (; at.from < at.to; at.from++)
		if (rows[at.from].ports.list == row->ports.list &&
		    rows[at.from].ports.rule == row->ports.rule)
			return true;
	return false;
}

static void warn_swallowed(struct warner *w)
{
	const struct name_row *name = block_at(w->b, w->b->names);
	const struct net_row *net = block_at(w->b, w->b->nets);
	const struct ports *cover;

	if (w->b->flags & RULES_DENY_WINS)
		return;
	for (uint32_t i = 0; i < w->b->net_count; i++) {
		if (net[i].ports.list != LIST_DENY || is_second_row(w->b, &net[i]))
			continue;
		cover = net_cover(w->b, &net[i], &net[i].ports);
		if (cover)
			say_swallowed(w, &net[i].ports, cover);
	}
	for (uint32_t i = 0; i < w->b->name_count; i++) {
		cover = name[i].ports.list == LIST_DENY ? name_cover(w->b, &name[i]) : NULL;
		if (cover)
			say_swallowed(w, &name[i].ports, cover);
	}
}

/* --- private ranges that are allowed, and nothing comes of it ----------------------------- */

/* Any entry of net.allow_private that has some of this range, or all. */
static bool is_lifted(const struct block *b, const struct egress_addr *net, unsigned bits)
{
	const struct net_row *row = block_at(b, b->nets);

	if (b->text_count[LIST_PRIVATE] > PRIVATE_LOOKED_AT)
		return true; /* not worth the time: it is advice */
	for (uint32_t i = 0; i < b->net_count; i++) {
		struct egress_addr other = { .family = row[i].family };

		memcpy(other.bytes, row[i].bytes, sizeof(other.bytes));
		if (row[i].ports.list == LIST_PRIVATE &&
		    addr_has_prefix(net, &other, row[i].bits < bits ? row[i].bits : bits))
			return true;
	}
	return false;
}

static void warn_private(struct warner *w)
{
	const struct net_row *row = block_at(w->b, w->b->nets);

	for (uint32_t i = 0; i < w->b->net_count && w->count <= WARNINGS_MAX; i++) {
		struct egress_addr net = { .family = row[i].family };
		struct buf text = BUF_INIT(4096);
		const char *range;

		memcpy(net.bytes, row[i].bytes, sizeof(net.bytes));
		range = row[i].ports.list == LIST_ALLOW ? private_range_of_net(&net, row[i].bits)
							: NULL;
		if (!range || private_is_fake(&net) || is_lifted(w->b, &net, row[i].bits))
			continue;
		buf_fmt(&text, "net.allow_out \"%s\" leads nowhere: %s is always denied without net.allow_private",
			SHOWN(rules_text(w->r, LIST_ALLOW, (int32_t)row[i].ports.rule)), range);
		tell(w, &text);
		buf_free(&text);
	}
}

/* --- the default -------------------------------------------------------------------------- */

static bool denies_family(const struct block *b, uint8_t family)
{
	const struct egress_addr any = { .family = family };
	const struct net_row *row = block_at(b, b->nets);
	struct rows at = rows_of_net(b, &any, 0);

	for (; at.from < at.to; at.from++)
		if (row[at.from].ports.list == LIST_DENY && ports_are_whole(&row[at.from].ports))
			return true;
	return false;
}

static void warn_default(struct warner *w, const struct policy *p)
{
	struct buf text = BUF_INIT(4096);

	if (p->net.mode == NET_FILTERED && p->net.compat == COMPAT_NONE && !p->net.allow_out.n &&
	    !p->net.deny_out.n)
		buf_str(&text, "net.mode=filtered without net.allow_out and net.deny_out reaches nothing");
	else if (egress_default_allows(w->r) && denies_family(w->b, 4) && !denies_family(w->b, 6))
		buf_str(&text, "net.deny_out has all of IPv4 and not IPv6; ALL_TRAFFIC is both");
	if (text.len)
		tell(w, &text);
	buf_free(&text);
}

int egress_warnings(const struct policy *p, struct strlist *out)
{
	struct egress_rules *rules = NULL;
	struct buf more = BUF_INIT(256);
	struct warner w = { .out = out };
	int r;

	if (p->net.mode == NET_DISABLED)
		return 0;
	r = egress_compile(&rules, p, NULL);
	if (r < 0)
		return r;
	w.r = rules;
	w.b = block_of(rules);
	warn_default(&w, p);
	warn_swallowed(&w);
	warn_private(&w);
	if (w.count > WARNINGS_MAX) {
		buf_fmt(&more, "more entries of net.allow_out and net.deny_out are like that: %zu or more",
			w.count - WARNINGS_MAX);
		w.failed |= strlist_add(out, buf_text(&more)) < 0;
	}
	buf_free(&more);
	free(rules);
	return w.failed ? NSBOX_E_NOMEM : 0;
}
