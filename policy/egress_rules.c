/*
 * The rules of a policy as one block, and the one matcher. Pure.
 *
 * Must:    give the same verdict for the same block everywhere: launcher, supervisor and
 *          `nsbox policy explain` all ask here.
 * Mustn't: read beyond a block that egress_is_valid() has accepted.
 */
#include "policy/egress_block.h"

#include "base/cleanup.h"
#include "policy/egress_entry.h"
#include "policy/value.h"

#include <stdlib.h>
#include <string.h>

enum { WEB_HTTP = 80, WEB_HTTPS = 443, BLOCK_MAX = 64 << 20 };

/* --- compiling ------------------------------------------------------------------------- */

struct builder {
	struct name_row *names;
	struct net_row *nets;
	uint32_t name_count, net_count;
	struct buf text;	/* all strings; a row's offset is into here until the end */
	bool has_deny_name;
};

static const struct strlist *list_of(const struct policy *p, unsigned list)
{
	return list == LIST_ALLOW ? &p->net.allow_out
	       : list == LIST_DENY ? &p->net.deny_out : &p->net.allow_private;
}

static const char *const list_names[] = {
	[LIST_ALLOW] = "net.allow_out", [LIST_DENY] = "net.deny_out",
	[LIST_PRIVATE] = "net.allow_private",
};

static uint32_t add_text(struct builder *b, const char *text)
{
	uint32_t at = (uint32_t)b->text.len;

	buf_add(&b->text, text, strlen(text) + 1);
	return at;
}

static void add_net(struct builder *b, const struct entry *e, uint8_t family,
		    const struct ports *ports)
{
	struct net_row *row = &b->nets[b->net_count++];

	*row = (struct net_row){ .family = family, .bits = (uint8_t)e->bits,
				 .is_all = e->kind == ENTRY_ALL || !e->bits, .ports = *ports };
	memcpy(row->bytes, e->addr.bytes, sizeof(row->bytes));
}

static void add_entry(struct builder *b, const struct entry *e, unsigned list, uint32_t rule)
{
	const struct ports ports = { e->first, e->last, (uint16_t)e->protos, (uint16_t)list,
				     rule };

	if (e->kind == ENTRY_ALL || e->kind == ENTRY_NET) {
		add_net(b, e, e->kind == ENTRY_ALL ? 4 : e->addr.family, &ports);
		if (e->kind == ENTRY_ALL)
			add_net(b, e, 6, &ports);
		return;
	}
	b->has_deny_name |= list == LIST_DENY;
	b->names[b->name_count++] = (struct name_row){ .name = add_text(b, e->name),
						       .kind = e->kind, .ports = ports };
}

static int refused(const struct entry_error *bad, unsigned list, size_t at, const char *text,
		   struct nsbox_error *err)
{
	if (bad->hint[0])
		err_hint(err, "%s", bad->hint);
	else
		err_hint(err, "a name, *.name, an address, a CIDR or ALL_TRAFFIC, each with :PORT if wanted");
	return err_set(err, NSBOX_E_POLICY, "%s: entry %zu, \"%s\": %s", list_names[list], at + 1,
		       SHOWN(text), bad->why);
}

int egress_check_entries(const struct policy *p, struct nsbox_error *err)
{
	for (unsigned list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = list_of(p, list);

		for (size_t i = 0; i < l->n; i++) {
			struct entry_error bad;
			struct entry e;

			if (entry_parse(&e, l->v[i], list != LIST_PRIVATE, &bad) < 0)
				return refused(&bad, list, i, l->v[i], err);
		}
	}
	return 0;
}

static int by_name(const void *a, const void *b, void *text)
{
	const struct name_row *x = a, *y = b;
	const char *base = text;

	return strcmp(base + x->name, base + y->name);
}

static int compare_net(const struct net_row *x, const struct net_row *y)
{
	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->bits != y->bits)
		return x->bits < y->bits ? -1 : 1;
	return memcmp(x->bytes, y->bytes, sizeof(x->bytes));
}

static int by_net(const void *a, const void *b)
{
	return compare_net(a, b);
}

static uint32_t flags_of(const struct policy *p, const struct builder *b)
{
	bool has_rules = p->net.allow_out.n || p->net.deny_out.n;
	uint32_t flags = 0;

	if (p->net.mode == NET_DISABLED)
		flags |= RULES_DISABLED;
	if (p->net.mode == NET_OPEN || (p->net.mode == NET_FILTERED && has_rules &&
					!p->net.allow_out.n))
		flags |= RULES_DEFAULT_ALLOWS;
	if (p->net.precedence == PRECEDENCE_DENY)
		flags |= RULES_DENY_WINS;
	if (b->has_deny_name)
		flags |= RULES_DENIES_NAMES;
	return flags;
}

static uint32_t aligned(size_t n)
{
	return (uint32_t)((n + 7) & ~(size_t)7);
}

static void write_texts(struct block *out, const struct policy *p, uint32_t at, uint32_t text)
{
	for (unsigned list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = list_of(p, list);
		uint32_t *offsets = (uint32_t *)((char *)out + at);

		out->text_count[list] = (uint32_t)l->n;
		out->texts[list] = at;
		for (size_t i = 0; i < l->n; i++) {
			offsets[i] = text;
			memcpy((char *)out + text, l->v[i], strlen(l->v[i]) + 1);
			text += (uint32_t)strlen(l->v[i]) + 1;
		}
		at += (uint32_t)(l->n * sizeof(*offsets));
	}
}

static size_t size_of_texts(const struct policy *p, size_t *count)
{
	size_t size = 0;

	*count = 0;
	for (unsigned list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = list_of(p, list);

		*count += l->n;
		for (size_t i = 0; i < l->n; i++)
			size += strlen(l->v[i]) + 1;
	}
	return size;
}

static struct block *write_block(struct builder *b, const struct policy *p)
{
	size_t count, texts = size_of_texts(p, &count);
	uint32_t names = aligned(sizeof(struct block));
	uint32_t nets = names + b->name_count * (uint32_t)sizeof(struct name_row);
	uint32_t offsets = nets + b->net_count * (uint32_t)sizeof(struct net_row);
	uint32_t strings = offsets + (uint32_t)(count * sizeof(uint32_t));
	uint32_t own = strings + (uint32_t)b->text.len;
	struct block *out = calloc(1, aligned(own + texts));

	if (!out)
		return NULL;
	out->head = (struct egress_rules){ RULES_MAGIC, aligned(own + texts) };
	out->flags = flags_of(p, b);
	out->name_count = b->name_count;
	out->names = names;
	out->net_count = b->net_count;
	out->nets = nets;
	for (uint32_t i = 0; i < b->name_count; i++)
		b->names[i].name += strings;
	for (uint32_t i = 0; i < b->net_count; i++)
		out->has_bits[b->nets[i].family == 6][b->nets[i].bits / 8] |=
			(uint8_t)(1 << b->nets[i].bits % 8);
	if (b->name_count)
		memcpy((char *)out + names, b->names, b->name_count * sizeof(*b->names));
	if (b->net_count)
		memcpy((char *)out + nets, b->nets, b->net_count * sizeof(*b->nets));
	if (b->text.len)
		memcpy((char *)out + strings, b->text.data, b->text.len);
	write_texts(out, p, offsets, own);
	return out;
}

static int fill(struct builder *b, const struct policy *p, struct nsbox_error *err)
{
	for (unsigned list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = list_of(p, list);

		for (size_t i = 0; i < l->n; i++) {
			struct entry_error bad;
			struct entry e;

			if (entry_parse(&e, l->v[i], list != LIST_PRIVATE, &bad) < 0)
				return refused(&bad, list, i, l->v[i], err);
			add_entry(b, &e, list, (uint32_t)i);
		}
	}
	if (b->name_count)
		qsort_r(b->names, b->name_count, sizeof(*b->names), by_name, b->text.data);
	if (b->net_count)
		qsort(b->nets, b->net_count, sizeof(*b->nets), by_net);
	return 0;
}

int egress_compile(struct egress_rules **out, const struct policy *p, struct nsbox_error *err)
{
	struct builder b = { .text = BUF_INIT(BLOCK_MAX) };
	struct block *block = NULL;
	size_t count;
	int r;

	size_of_texts(p, &count);
	b.names = calloc(count + 1, sizeof(*b.names));
	b.nets = calloc(2 * count + 1, sizeof(*b.nets));
	r = b.names && b.nets ? fill(&b, p, err) : err_nomem(err);
	if (r >= 0 && !b.text.failed)
		block = write_block(&b, p);
	if (r >= 0 && !block)
		r = err_nomem(err);
	free(b.names);
	free(b.nets);
	buf_free(&b.text);
	if (r >= 0)
		*out = &block->head;
	return r;
}

/* --- validating ---------------------------------------------------------------------------- */

static bool is_array(const struct block *b, uint32_t at, uint32_t count, size_t size, size_t align)
{
	return at % align == 0 && at >= sizeof(*b) && at <= b->head.size &&
	       count <= (b->head.size - at) / size;
}

static bool is_text(const struct block *b, uint32_t at)
{
	return at >= sizeof(*b) && at < b->head.size &&
	       memchr(block_at(b, at), 0, b->head.size - at) != NULL;
}

static bool ports_are_valid(const struct block *b, const struct ports *p)
{
	return p->list < LIST_COUNT && p->rule < b->text_count[p->list] && p->first <= p->last;
}

static bool names_are_valid(const struct block *b)
{
	const struct name_row *row = block_at(b, b->names);

	for (uint32_t i = 0; i < b->name_count; i++) {
		if (!is_text(b, row[i].name) || row[i].kind < ENTRY_NAME ||
		    row[i].kind > ENTRY_TREE || !ports_are_valid(b, &row[i].ports))
			return false;
		if (i && strcmp(block_at(b, row[i - 1].name), block_at(b, row[i].name)) > 0)
			return false;
	}
	return true;
}

static bool nets_are_valid(const struct block *b)
{
	const struct net_row *row = block_at(b, b->nets);

	for (uint32_t i = 0; i < b->net_count; i++) {
		if ((row[i].family != 4 && row[i].family != 6) ||
		    row[i].bits > (row[i].family == 4 ? 32 : 128) ||
		    !ports_are_valid(b, &row[i].ports))
			return false;
		if (i && compare_net(&row[i - 1], &row[i]) > 0)
			return false;
	}
	return true;
}

bool egress_is_valid(const void *block, size_t size)
{
	const struct block *b = block;

	if ((uintptr_t)block % 8 || size < sizeof(*b) || b->head.magic != RULES_MAGIC ||
	    b->head.size < sizeof(*b) || b->head.size > size ||
	    b->flags > (RULES_DISABLED | RULES_DEFAULT_ALLOWS | RULES_DENY_WINS |
			RULES_DENIES_NAMES))
		return false;
	for (unsigned list = 0; list < LIST_COUNT; list++) {
		if (!is_array(b, b->texts[list], b->text_count[list], sizeof(uint32_t), 4))
			return false;
		for (uint32_t i = 0; i < b->text_count[list]; i++)
			if (!is_text(b, ((const uint32_t *)block_at(b, b->texts[list]))[i]))
				return false;
	}
	return is_array(b, b->names, b->name_count, sizeof(struct name_row), 4) &&
	       is_array(b, b->nets, b->net_count, sizeof(struct net_row), 4) &&
	       names_are_valid(b) && nets_are_valid(b);
}

const char *rules_text(const struct egress_rules *r, enum rule_list list, int32_t rule)
{
	const struct block *b = block_of(r);

	if (rule < 0 || (uint32_t)rule >= b->text_count[list])
		return NULL;
	return block_at(b, ((const uint32_t *)block_at(b, b->texts[list]))[rule]);
}

/* --- matching ------------------------------------------------------------------------------- */

/* What the lists say of one destination: the first rule of each, and the first that has it
 * with other ports. */
struct hits {
	int32_t rule[LIST_COUNT], other_port[LIST_COUNT];
};

static bool has_port(const struct ports *p, const struct egress_dest *d)
{
	if (!(p->protos & 1u << d->proto))
		return false;
	if (!p->first && !p->last)
		return d->port == WEB_HTTP || d->port == WEB_HTTPS;
	return d->port >= p->first && d->port <= p->last;
}

static void note(struct hits *h, const struct ports *p, const struct egress_dest *d)
{
	int32_t *slot = p->list == LIST_PRIVATE || has_port(p, d) ? &h->rule[p->list]
								   : &h->other_port[p->list];

	if (*slot < 0 || p->rule < (uint32_t)*slot)
		*slot = (int32_t)p->rule;
}

static bool kind_fits(uint32_t kind, bool is_whole)
{
	return kind == ENTRY_TREE || (kind == ENTRY_NAME) == is_whole;
}

/* Rows whose name is exactly `suffix`; is_whole: it is the name itself. */
static void match_suffix(struct hits *h, const struct block *b, const struct egress_dest *d,
			 const char *suffix)
{
	const struct name_row *row = block_at(b, b->names);
	uint32_t low = 0, high = b->name_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (strcmp(block_at(b, row[mid].name), suffix) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < b->name_count && strcmp(block_at(b, row[low].name), suffix) == 0; low++)
		if (kind_fits(row[low].kind, suffix == d->name))
			note(h, &row[low].ports, d);
}

static void match_name(struct hits *h, const struct block *b, const struct egress_dest *d)
{
	for (const char *s = d->name; s; s = strchr(s, '.') ? strchr(s, '.') + 1 : NULL)
		match_suffix(h, b, d, s);
}

static void match_prefix(struct hits *h, const struct block *b, const struct egress_dest *d,
			 const struct net_row *key)
{
	const struct net_row *row = block_at(b, b->nets);
	uint32_t low = 0, high = b->net_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (compare_net(&row[mid], key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < b->net_count && compare_net(&row[low], key) == 0; low++) {
		/* A range lets nobody look up a name, and a name that leads into it is not
		 * allowed by it: only ALL_TRAFFIC is for names as well. But a range that is
		 * denied is denied under whatever name. */
		if (d->name && row[low].ports.list == LIST_ALLOW && !row[low].is_all)
			continue;
		note(h, &row[low].ports, d);
	}
}

static void match_addr(struct hits *h, const struct block *b, const struct egress_dest *d,
		       const struct egress_addr *addr)
{
	unsigned all = addr_bits(addr);
	const uint8_t *has = b->has_bits[addr->family == 6];

	for (unsigned bits = 0; bits <= all; bits++) {
		struct egress_addr masked = *addr;
		struct net_row key = { .family = addr->family, .bits = (uint8_t)bits };

		if (!(has[bits / 8] & 1 << bits % 8))
			continue;
		addr_mask(&masked, bits);
		memcpy(key.bytes, masked.bytes, sizeof(key.bytes));
		match_prefix(h, b, d, &key);
	}
}

/* A name that is not resolved yet: what is for all addresses is for it. */
static void match_any(struct hits *h, const struct block *b, const struct egress_dest *d)
{
	const struct net_row *row = block_at(b, b->nets);

	for (uint32_t i = 0; i < b->net_count; i++)
		if (row[i].is_all && row[i].ports.list != LIST_PRIVATE)
			note(h, &row[i].ports, d);
}

static struct hits match(const struct block *b, const struct egress_dest *d,
			 const struct egress_addr *addr)
{
	struct hits h = { { -1, -1, -1 }, { -1, -1, -1 } };

	if (d->name)
		match_name(&h, b, d);
	if (addr)
		match_addr(&h, b, d, addr);
	else if (d->name)
		match_any(&h, b, d);
	return h;
}

/* --- the verdict ------------------------------------------------------------------------------ */

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

/* The ranges of our own fake addresses: nothing but a name is behind them. */
static bool is_fake(const struct egress_addr *a)
{
	static const uint8_t v6[6] = { 0x20, 0x01, 0x00, 0x02 };

	return a->family == 4 ? a->bytes[0] == 198 && (a->bytes[1] & 0xfe) == 18
			      : memcmp(a->bytes, v6, sizeof(v6)) == 0;
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
	return h.rule[LIST_PRIVATE] >= 0 && !is_fake(&addr) ? v
							     : verdict(false, EGRESS_BY_PRIVATE, -1);
}

/* Any port and protocol: a name is looked up before anybody knows what for. */
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

/* --- ports -------------------------------------------------------------------------------------- */

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
