/*
 * The rules of a policy as one block without pointers: compiling, and checking one that
 * came from elsewhere. Pure.
 *
 * Mustn't: let egress_is_valid() accept what makes egress_match.c read beyond the block.
 */
#include "policy/egress_block.h"

#include "base/cleanup.h"
#include "policy/value.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_MAX = 64 << 20 };

/* --- compiling ------------------------------------------------------------------------- */

struct builder {
	struct name_row *names;
	struct net_row *nets;
	uint32_t name_count, net_count;
	struct buf text;	/* names; a row's offset is into here until the end */
	bool has_deny_name;
	unsigned denied;	/* families that are denied as a whole: bits 4 and 6 */
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

	*row = (struct net_row){ .family = family, .bits = (uint8_t)e->bits, .ports = *ports };
	memcpy(row->bytes, e->addr.bytes, sizeof(row->bytes));
	if (ports->list == LIST_DENY && !e->bits && ports_are_whole(ports))
		b->denied |= 1u << family;
}

static void add_entry(struct builder *b, const struct entry *e, enum rule_list list,
		      uint32_t rule)
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

/* E2B has IPv4 alone: its 0.0.0.0/0 is everything. */
static void widen_for_e2b(struct entry *e, const struct policy *p)
{
	if (p->net.compat == COMPAT_E2B && e->kind == ENTRY_NET && !e->bits)
		e->kind = ENTRY_ALL;
}

static int for_each_entry(struct builder *b, const struct policy *p, struct nsbox_error *err)
{
	for (enum rule_list list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = rule_list(p, list);

		for (size_t i = 0; i < l->n; i++) {
			struct entry_error bad;
			struct entry e;

			if (entry_parse(&e, l->v[i], list, &bad) < 0)
				return entry_refused(&bad, list, i, l->v[i], err);
			if (!b)
				continue;
			widen_for_e2b(&e, p);
			add_entry(b, &e, list, (uint32_t)i);
		}
	}
	return 0;
}

int egress_check_entries(const struct policy *p, struct nsbox_error *err)
{
	return for_each_entry(NULL, p, err);
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

/* Open, or filtered with deny_out alone; E2B blocks what is denied and nothing else. With
 * everything denied no default is left, and names are held to what was looked up. */
static bool default_allows(const struct policy *p, const struct builder *b)
{
	if (p->net.mode == NET_DISABLED || b->denied == (1u << 4 | 1u << 6))
		return false;
	if (p->net.mode == NET_OPEN)
		return true;
	return p->net.compat == COMPAT_E2B || (p->net.deny_out.n && !p->net.allow_out.n);
}

static uint32_t flags_of(const struct policy *p, const struct builder *b)
{
	const struct { bool holds; uint32_t flag; } flags[] = {
		{ p->net.mode == NET_DISABLED, RULES_DISABLED },
		{ default_allows(p, b), RULES_DEFAULT_ALLOWS },
		{ p->net.precedence == PRECEDENCE_DENY, RULES_DENY_WINS },
		{ b->has_deny_name, RULES_DENIES_NAMES },
		{ p->net.mode == NET_OPEN || p->net.compat == COMPAT_E2B, RULES_OPEN },
	};
	uint32_t all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		all |= flags[i].holds ? flags[i].flag : 0;
	return all;
}

/* The entries as they were written, for messages: @size bytes of them, @count strings. */
static size_t size_of_texts(const struct policy *p, size_t *count)
{
	size_t size = 0;

	*count = 0;
	for (enum rule_list list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = rule_list(p, list);

		*count += l->n;
		for (size_t i = 0; i < l->n; i++)
			size += strlen(l->v[i]) + 1;
	}
	return size;
}

static void write_texts(struct block *out, const struct policy *p, uint32_t at, uint32_t text)
{
	for (enum rule_list list = 0; list < LIST_COUNT; list++) {
		const struct strlist *l = rule_list(p, list);
		uint32_t *offsets = (uint32_t *)((char *)out + at);

		out->text_count[list] = (uint32_t)l->n;
		out->texts[list] = at;
		for (size_t i = 0; i < l->n; i++) {
			size_t size = strlen(l->v[i]) + 1;

			offsets[i] = text;
			memcpy((char *)out + text, l->v[i], size);
			text += (uint32_t)size;
		}
		at += (uint32_t)(l->n * sizeof(*offsets));
	}
}

static void write_rows(struct block *out, const struct builder *b, uint32_t strings)
{
	struct name_row *name = (struct name_row *)((char *)out + out->names);
	struct net_row *net = (struct net_row *)((char *)out + out->nets);

	for (uint32_t i = 0; i < b->name_count; i++) {
		name[i] = b->names[i];
		name[i].name += strings;
	}
	for (uint32_t i = 0; i < b->net_count; i++) {
		uint8_t *has = &out->has_bits[b->nets[i].family == 6][b->nets[i].bits / 8];

		net[i] = b->nets[i];
		*has = (uint8_t)(*has | 1 << b->nets[i].bits % 8);
	}
	if (b->text.len)
		memcpy((char *)out + strings, b->text.data, b->text.len);
}

static struct block *write_block(const struct builder *b, const struct policy *p)
{
	size_t count, texts = size_of_texts(p, &count);
	size_t names = sizeof(struct block);
	size_t nets = names + b->name_count * sizeof(struct name_row);
	size_t offsets = nets + b->net_count * sizeof(struct net_row);
	size_t strings = offsets + count * sizeof(uint32_t);
	size_t size = strings + b->text.len + texts + 1; /* the last byte is always a NUL */
	struct block *out;

	size = (size + 7) & ~(size_t)7;
	if (size > BLOCK_MAX)
		return NULL;
	out = calloc(1, size);
	if (!out)
		return NULL;
	out->head = (struct egress_rules){ RULES_MAGIC, (uint32_t)size };
	out->flags = flags_of(p, b);
	out->name_count = b->name_count;
	out->names = (uint32_t)names;
	out->net_count = b->net_count;
	out->nets = (uint32_t)nets;
	write_rows(out, b, (uint32_t)strings);
	write_texts(out, p, (uint32_t)offsets, (uint32_t)(strings + b->text.len));
	return out;
}

static void sort(struct builder *b)
{
	if (b->name_count)
		qsort_r(b->names, b->name_count, sizeof(*b->names), by_name, b->text.data);
	if (b->net_count)
		qsort(b->nets, b->net_count, sizeof(*b->nets), by_net);
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
	r = b.names && b.nets ? for_each_entry(&b, p, err) : err_nomem(err);
	if (r == 0 && !b.text.failed) {
		sort(&b);
		block = write_block(&b, p);
	}
	if (r == 0 && !block)
		r = err_nomem(err);
	free(b.names);
	free(b.nets);
	buf_free(&b.text);
	if (r == 0)
		*out = &block->head;
	return r;
}

/* --- validating ---------------------------------------------------------------------------- */

static bool is_array(const struct block *b, uint32_t at, uint32_t count, size_t size)
{
	return at % sizeof(uint32_t) == 0 && at >= sizeof(*b) && at <= b->head.size &&
	       count <= (b->head.size - at) / size;
}

/* The last byte of the block is a NUL: any string ends in it. The bound keeps a hostile
 * block from making its check quadratic. */
static bool is_text(const struct block *b, uint32_t at)
{
	return at >= sizeof(*b) && at < b->head.size &&
	       strnlen(block_at(b, at), ENTRY_TEXT) < ENTRY_TEXT;
}

static bool texts_are_valid(const struct block *b)
{
	for (unsigned list = 0; list < LIST_COUNT; list++) {
		const uint32_t *offsets = block_at(b, b->texts[list]);

		if (!is_array(b, b->texts[list], b->text_count[list], sizeof(*offsets)))
			return false;
		for (uint32_t i = 0; i < b->text_count[list]; i++)
			if (!is_text(b, offsets[i]))
				return false;
	}
	return true;
}

static bool ports_are_valid(const struct block *b, const struct ports *p)
{
	return p->list < LIST_COUNT && p->rule < b->text_count[p->list] && p->rule <= INT32_MAX &&
	       p->first <= p->last && !(p->protos & ~(PROTO_TCP_BIT | PROTO_UDP_BIT));
}

static bool names_are_valid(const struct block *b)
{
	const struct name_row *row = block_at(b, b->names);

	if (!is_array(b, b->names, b->name_count, sizeof(*row)))
		return false;
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

	if (!is_array(b, b->nets, b->net_count, sizeof(*row)))
		return false;
	for (uint32_t i = 0; i < b->net_count; i++) {
		if ((row[i].family != 4 && row[i].family != 6) ||
		    row[i].bits > (row[i].family == 4 ? 32 : 128) ||
		    !block_has_bits(b, row[i].family, row[i].bits) ||
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

	if ((uintptr_t)block % sizeof(uint32_t) || size < sizeof(*b) ||
	    b->head.magic != RULES_MAGIC || b->head.size <= sizeof(*b) || b->head.size > size ||
	    b->flags & ~(uint32_t)RULES_FLAGS || ((const char *)block)[b->head.size - 1])
		return false;
	return texts_are_valid(b) && names_are_valid(b) && nets_are_valid(b);
}

/* --- looking up ------------------------------------------------------------------------------ */

const char *rules_text(const struct egress_rules *r, enum rule_list list, int32_t rule)
{
	const struct block *b = block_of(r);
	const uint32_t *offsets = block_at(b, b->texts[list]);

	if (rule < 0 || (uint32_t)rule >= b->text_count[list])
		return NULL;
	return block_at(b, offsets[rule]);
}

struct rows rows_of_name(const struct block *b, const char *name)
{
	const struct name_row *row = block_at(b, b->names);
	uint32_t low = 0, high = b->name_count;
	struct rows found;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (strcmp(block_at(b, row[mid].name), name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	found = (struct rows){ low, low };
	while (found.to < b->name_count && strcmp(block_at(b, row[found.to].name), name) == 0)
		found.to++;
	return found;
}

struct rows rows_of_net(const struct block *b, const struct egress_addr *net, unsigned bits)
{
	const struct net_row *row = block_at(b, b->nets);
	struct net_row key = { .family = net->family, .bits = (uint8_t)bits };
	uint32_t low = 0, high = b->net_count;
	struct egress_addr masked = *net;
	struct rows found;

	addr_mask(&masked, bits);
	memcpy(key.bytes, masked.bytes, addr_bits(net) / 8);
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (compare_net(&row[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	found = (struct rows){ low, low };
	while (found.to < b->net_count && compare_net(&row[found.to], &key) == 0)
		found.to++;
	return found;
}
