/*
 * rules.c - see rules.h
 *
 * Runs in nsbox-veth. The same rules stand twice: in the box's own network namespace, where
 * they hold whatever becomes of nsbox-veth and where nobody has a capability to change them,
 * and in the host's, which a box with more rights than it should have could not change
 * either. The order is the matcher's (policy/egress_rules.c): always denied, the lists by
 * precedence, the default.
 *
 * Must: let nothing through that is neither IPv4 nor from the box's one address.
 */
#include "tools/veth/rules.h"

#include "tools/veth/batch.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROOM = 64 * 1024, ROOM_OF_RANGE = 128, ROOM_OF_GROUP = 2048,
	/* Behind the host's own DNAT (-100): what counts is where the packet goes. */
	PRIORITY_FROM_BOX = -90, PRIORITY_FILTER = 0, PRIORITY_SRCNAT = 100,
	ALL_PORTS_FIRST = 1, ALL_PORTS_LAST = 65535,
};

/* Ranges with the same list and ports: one set. */
struct group {
	const struct egress_range *like;
	char set[16];
	uint32_t id;
};
struct groups {
	struct group *v;
	size_t n;
};

/* --- groups ---------------------------------------------------------------------------------- */

static int compare_group(const struct egress_range *a, const struct egress_range *b)
{
	const int keys[][2] = {
		{ a->list, b->list }, { a->first_port, b->first_port },
		{ a->last_port, b->last_port }, { a->has_tcp, b->has_tcp },
		{ a->has_udp, b->has_udp },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

static int by_group(const void *a, const void *b)
{
	const struct egress_range *x = a, *y = b;
	int r = compare_group(x, y);

	return r ? r : x->first < y->first ? -1 : x->first > y->first;
}

/* Sorted ranges -> spans that are apart. The kernel refuses a set whose ranges meet. */
static size_t merge(struct span *out, const struct egress_range *v, size_t n)
{
	size_t made = 0;

	for (size_t i = 0; i < n; i++) {
		struct span *last = made ? &out[made - 1] : NULL;

		if (last && (last->last == UINT32_MAX || v[i].first <= last->last + 1)) {
			if (v[i].last > last->last)
				last->last = v[i].last;
		} else {
			out[made++] = (struct span){ v[i].first, v[i].last };
		}
	}
	return made;
}

static void put_group(struct batch *b, struct groups *all, const struct egress_range *v,
		      size_t n, struct span *spans)
{
	struct group *g = &all->v[all->n++];

	*g = (struct group){ .like = v, .id = (uint32_t)all->n };
	snprintf(g->set, sizeof(g->set), "set%u", g->id);
	put_set(b, g->set, g->id);
	put_spans(b, g->set, g->id, spans, merge(spans, v, n));
}

static void put_groups(struct batch *b, struct groups *all, const struct egress_range *v,
		       size_t n, struct span *spans)
{
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && compare_group(&v[from], &v[to]) == 0; to++)
			;
		put_group(b, all, v + from, to - from, spans);
	}
}

/* --- what a box may reach ------------------------------------------------------------------------ */

static void refuse_or_accept(struct batch *b, uint8_t list)
{
	if (list == EGRESS_ALLOWED)
		verdict(b, NF_ACCEPT, NULL);
	else
		verdict(b, NFT_GOTO, "refuse");
}

static void put_ports(struct batch *b, const struct group *g, uint8_t protocol)
{
	begin_rule(b, "judge");
	in_set(b, g->set, g->id, false);
	meta_byte(b, NFT_META_L4PROTO, NFT_CMP_EQ, protocol);
	ports_between(b, g->like->first_port, g->like->last_port);
	refuse_or_accept(b, g->like->list);
	end_rule(b);
}

/* With all ports of both: the address is meant, so ICMP as well. */
static void put_list_rule(struct batch *b, const struct group *g)
{
	const struct egress_range *r = g->like;

	if (r->has_tcp && r->has_udp && r->first_port <= ALL_PORTS_FIRST &&
	    r->last_port == ALL_PORTS_LAST) {
		begin_rule(b, "judge");
		in_set(b, g->set, g->id, false);
		refuse_or_accept(b, r->list);
		end_rule(b);
		return;
	}
	if (r->has_tcp)
		put_ports(b, g, IPPROTO_TCP);
	if (r->has_udp)
		put_ports(b, g, IPPROTO_UDP);
}

static void put_list(struct batch *b, const struct groups *all, uint8_t list)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].like->list == list)
			put_list_rule(b, &all->v[i]);
}

static const struct group *find(const struct groups *all, uint8_t list)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].like->list == list)
			return &all->v[i];
	return NULL;
}

static void put_always_denied(struct batch *b, const struct groups *all)
{
	const struct group *private = find(all, EGRESS_ALWAYS_DENIED);
	const struct group *lifted = find(all, EGRESS_LIFTED);

	begin_rule(b, "judge");
	in_set(b, private->set, private->id, false);
	if (lifted)
		in_set(b, lifted->set, lifted->id, true);
	verdict(b, NFT_GOTO, "refuse");
	end_rule(b);
}

static void put_judge(struct batch *b, const struct groups *all, const struct egress_rules *rules)
{
	bool deny_wins = egress_deny_wins(rules);

	put_chain(b, "judge", NULL, 0, 0);
	begin_rule(b, "judge");
	known_connection(b);
	verdict(b, NF_ACCEPT, NULL);
	end_rule(b);
	put_always_denied(b, all);
	put_list(b, all, deny_wins ? EGRESS_DENIED : EGRESS_ALLOWED);
	put_list(b, all, deny_wins ? EGRESS_ALLOWED : EGRESS_DENIED);
	begin_rule(b, "judge");
	if (egress_default_allows(rules))
		verdict(b, NF_ACCEPT, NULL);
	else
		verdict(b, NFT_GOTO, "refuse");
	end_rule(b);
}

/* So that connect(2) fails at once, and says what it says on the box's other path. */
static void put_refuse(struct batch *b)
{
	put_chain(b, "refuse", NULL, 0, 0);
	begin_rule(b, "refuse");
	meta_byte(b, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	reject(b, NFT_REJECT_TCP_RST, 0);
	end_rule(b);
	begin_rule(b, "refuse");
	reject(b, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	end_rule(b);
}

/* --- where the rules stand ------------------------------------------------------------------------ */

/* In the box: what leaves by its device. */
static void put_box(struct batch *b, const struct filter *f)
{
	put_chain(b, "from_box", "filter", NF_INET_LOCAL_OUT, PRIORITY_FILTER);
	begin_rule(b, "from_box");
	device(b, NFT_META_OIFNAME, NFT_CMP_NEQ, f->device);
	verdict(b, NF_ACCEPT, NULL);
	end_rule(b);
}

/* On the host: what comes in by its end, for others and for the host itself. */
static void put_host(struct batch *b, const struct filter *f)
{
	put_chain(b, "from_box", "filter", NF_INET_PRE_ROUTING, PRIORITY_FROM_BOX);
	begin_rule(b, "from_box");
	device(b, NFT_META_IIFNAME, NFT_CMP_NEQ, f->device);
	verdict(b, NF_ACCEPT, NULL);
	end_rule(b);
}

/* Nothing but IPv4, and nothing under another's address: IP_FREEBIND asks for no right. */
static void put_gate(struct batch *b, const struct filter *f)
{
	begin_rule(b, "from_box");
	meta_byte(b, NFT_META_NFPROTO, NFT_CMP_NEQ, NFPROTO_IPV4);
	verdict(b, NF_DROP, NULL);
	end_rule(b);
	begin_rule(b, "from_box");
	address(b, SOURCE, NFT_CMP_NEQ, f->box);
	verdict(b, NF_DROP, NULL);
	end_rule(b);
	begin_rule(b, "from_box");
	verdict(b, NFT_GOTO, "judge");
	end_rule(b);
}

/* The host may connect to a server in the box; others beyond the host may not. */
static void put_to_box(struct batch *b, const struct filter *f)
{
	put_chain(b, "to_box", "filter", NF_INET_FORWARD, PRIORITY_FILTER);
	begin_rule(b, "to_box");
	device(b, NFT_META_OIFNAME, NFT_CMP_NEQ, f->device);
	verdict(b, NF_ACCEPT, NULL);
	end_rule(b);
	begin_rule(b, "to_box");
	known_connection(b);
	verdict(b, NF_ACCEPT, NULL);
	end_rule(b);
	begin_rule(b, "to_box");
	verdict(b, NF_DROP, NULL);
	end_rule(b);
}

static void put_nat(struct batch *b, const struct filter *f)
{
	put_chain(b, "nat", "nat", NF_INET_POST_ROUTING, PRIORITY_SRCNAT);
	begin_rule(b, "nat");
	meta_byte(b, NFT_META_NFPROTO, NFT_CMP_EQ, NFPROTO_IPV4);
	address(b, SOURCE, NFT_CMP_EQ, f->box);
	device(b, NFT_META_OIFNAME, NFT_CMP_NEQ, f->device);
	masquerade(b);
	end_rule(b);
}

static int load(struct batch *b, const struct filter *f, struct egress_range *v, size_t n,
		struct mnl_socket *nl)
{
	struct groups all = { calloc(n, sizeof(*all.v)), 0 };
	struct span *spans = calloc(n, sizeof(*spans));
	int r = -ENOMEM;

	if (all.v && spans) {
		qsort(v, n, sizeof(*v), by_group);
		put_table(b, f->is_host ? NFT_TABLE_F_OWNER : 0);
		put_groups(b, &all, v, n, spans);
		put_refuse(b);
		put_judge(b, &all, f->rules);
		(f->is_host ? put_host : put_box)(b, f);
		put_gate(b, f);
		if (f->is_host) {
			put_to_box(b, f);
			put_nat(b, f);
		}
		r = batch_send(b, nl);
	}
	free(all.v);
	free(spans);
	return r;
}

int filter_load(const struct filter *f, struct mnl_socket *nl)
{
	struct egress_range *ranges;
	long n = egress_ranges4(f->rules, &ranges);
	struct batch b;
	int r = -ENOMEM;

	if (n < 0)
		return r;
	if (batch_begin(&b, f->table, ROOM + (size_t)n * (ROOM_OF_RANGE + ROOM_OF_GROUP))) {
		r = load(&b, f, ranges, (size_t)n, nl);
		batch_free(&b);
	}
	free(ranges);
	return r;
}
