/*
 * dns_wire.c - the box's questions, our answers, our questions. See dns_wire.h. Runs in the
 * supervisor; pure.
 *
 * Must: repeat a question exactly as it came; a client may have mixed the case of its
 * letters to recognise the answer.
 */
#include "runtime/egress/dns_wire.h"

#include <string.h>

enum { /* the second 16 bits of the header */
	BIT_QR = 0x8000, BIT_TC = 0x0200, BIT_RD = 0x0100, BIT_RA = 0x0080, BIT_CD = 0x0010,
	OPCODE_SHIFT = 11, OPCODE_MASK = 15, RCODE_MASK = 15,
	EDNS_DO = 0x8000, OPT_SIZE = 11,
	OPTION_EXTENDED = 15, EXTENDED_SIZE = 6, /* RFC 8914, without a text */
};

/* --- reading ----------------------------------------------------------------- */

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* The fixed part of a record behind its name, and its data; *at is behind it afterwards. */
struct record {
	uint16_t type, class, size;
	const uint8_t *ttl;
};

static bool read_record(struct record *r, const uint8_t *p, size_t len, size_t *at)
{
	const uint8_t *f = p + *at;

	if (len - *at < 10)
		return false;
	*r = (struct record){ get16(f), get16(f + 2), get16(f + 8), f + 4 };
	if (len - *at - 10 < r->size)
		return false;
	*at += 10 + (size_t)r->size;
	return true;
}

/* What follows the question: an OPT at most once, and other additional records, which mean
 * nothing to us (a signature, say). */
static enum dns_rcode read_additional(struct dns_query *q, const uint8_t *p, size_t len,
				      size_t at)
{
	uint8_t version = 0;

	for (unsigned n = get16(p + 10); n; n--) {
		struct dns_name owner;
		struct record r;

		if (!dns_name_read(&owner, p, len, &at) || !read_record(&r, p, len, &at))
			return DNS_FORMERR;
		if (r.type != DNS_OPT)
			continue;
		if (q->has_edns || owner.len != 1)
			return DNS_FORMERR;
		q->has_edns = true;
		q->edns_size = r.class;
		q->wants_dnssec = get16(r.ttl + 2) & EDNS_DO;
		version = r.ttl[1];
	}
	if (at != len)
		return DNS_FORMERR;
	return version ? DNS_BADVERS : DNS_NOERROR;
}

static enum dns_rcode read_question(struct dns_query *q, const uint8_t *p, size_t len)
{
	size_t at = DNS_HEADER;

	if (q->opcode != 0)
		return DNS_NOTIMP;
	if (get16(p + 4) != 1 || get16(p + 6) || get16(p + 8))
		return DNS_FORMERR;
	if (!dns_name_read(&q->name, p, len, &at) || len - at < 4) {
		q->name.len = 0;
		return DNS_FORMERR;
	}
	q->type = get16(p + at);
	q->class = get16(p + at + 2);
	return read_additional(q, p, len, at + 4);
}

enum dns_read dns_read_query(struct dns_query *q, enum dns_rcode *rcode, const uint8_t *p,
			     size_t len)
{
	uint16_t flags;

	if (len < DNS_HEADER || get16(p + 2) & BIT_QR)
		return DNS_DROP;
	flags = get16(p + 2);
	*q = (struct dns_query){
		.id = get16(p), .opcode = flags >> OPCODE_SHIFT & OPCODE_MASK,
		.wants_recursion = flags & BIT_RD, .checking_off = flags & BIT_CD,
	};
	*rcode = read_question(q, p, len);
	return *rcode == DNS_NOERROR ? DNS_QUESTION : DNS_WRONG;
}

size_t dns_room(const struct dns_query *q, bool over_tcp)
{
	if (over_tcp)
		return DNS_MESSAGE_MAX;
	if (!q->has_edns || q->edns_size < DNS_UDP_PLAIN)
		return DNS_UDP_PLAIN;
	return q->edns_size < DNS_UDP_MAX ? q->edns_size : DNS_UDP_MAX;
}

/* --- writing ----------------------------------------------------------------- */

struct out {
	uint8_t *p;
	size_t size, len;
	bool full;
	uint16_t extended;	/* error, of the OPT to come */
};

static void put(struct out *o, const void *data, size_t len)
{
	o->full = o->full || o->size - o->len < len;
	if (o->full)
		return;
	memcpy(o->p + o->len, data, len);
	o->len += len;
}

static void put16(struct out *o, unsigned v)
{
	put(o, (uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

static void put_question(struct out *o, const struct dns_query *q)
{
	put(o, q->name.wire, q->name.len);
	put16(o, q->type);
	put16(o, q->class);
}

static void put_opt(struct out *o, const struct dns_query *q, enum dns_rcode rcode)
{
	put(o, "", 1);
	put16(o, DNS_OPT);
	put16(o, DNS_UDP_EDNS);
	put16(o, (unsigned)rcode >> 4 << 8);
	put16(o, q->wants_dnssec ? EDNS_DO : 0);
	put16(o, o->extended ? EXTENDED_SIZE : 0);
	if (!o->extended)
		return;
	put16(o, OPTION_EXTENDED);
	put16(o, sizeof(o->extended));
	put16(o, o->extended);
}

static size_t opt_size(const struct out *o, const struct dns_query *q)
{
	return !q->has_edns ? 0 : OPT_SIZE + (o->extended ? EXTENDED_SIZE : 0);
}

static void put_head(struct out *o, const struct dns_query *q, enum dns_rcode rcode)
{
	put16(o, q->id);
	put16(o, BIT_QR | BIT_RA | (unsigned)q->opcode << OPCODE_SHIFT |
		 (q->wants_recursion ? BIT_RD : 0) | (q->checking_off ? BIT_CD : 0) |
		 ((unsigned)rcode & RCODE_MASK));
	put16(o, q->name.len ? 1 : 0);
	put16(o, 0);
	put16(o, 0);
	put16(o, q->has_edns ? 1 : 0);
	if (q->name.len)
		put_question(o, q);
}

/* Its owner is the name of the question, which every answer has at the same place. */
static void put_record(struct out *o, const struct dns_query *q, uint32_t ttl, const void *data,
		       size_t size)
{
	put16(o, 0xc000 | DNS_HEADER);
	put16(o, q->type);
	put16(o, DNS_CLASS_IN);
	put16(o, ttl >> 16);
	put16(o, ttl & 0xffff);
	put16(o, (unsigned)size);
	put(o, data, size);
}

/* Ends the answer whose records, `count` of them, begin at `records`. */
static size_t finish(struct out *o, const struct dns_query *q, enum dns_rcode rcode,
		     size_t records, unsigned count)
{
	if (o->full) {
		*o = (struct out){ o->p, o->size, records, false, o->extended };
		o->p[2] |= BIT_TC >> 8;
		count = 0;
	}
	o->p[6] = (uint8_t)(count >> 8);
	o->p[7] = (uint8_t)count;
	if (q->has_edns) {
		o->size += opt_size(o, q);
		put_opt(o, q, rcode);
	}
	return o->len;
}

/* Head and question, with room for the OPT behind all; 0: not even that fits. */
static size_t begin(struct out *o, const struct dns_query *q, enum dns_rcode rcode)
{
	size_t opt = opt_size(o, q);

	if (o->size < opt)
		return 0;
	o->size -= opt;
	put_head(o, q, rcode);
	return o->full ? 0 : o->len;
}

size_t dns_write_answer(uint8_t *to, size_t room, const struct dns_query *q,
			const struct dns_reply *r)
{
	struct out o = { .p = to, .size = room, .extended = r->extended };
	size_t records = begin(&o, q, r->rcode);

	if (!records)
		return 0;
	for (unsigned i = 0; i < r->count; i++)
		put_record(&o, q, r->ttl, r->addrs[i].bytes, r->addrs[i].family == 4 ? 4 : 16);
	if (r->ptr)
		put_record(&o, q, r->ttl, r->ptr->wire, r->ptr->len);
	return finish(&o, q, r->rcode, records, r->count + (r->ptr ? 1 : 0));
}

size_t dns_write_relay(uint8_t *to, size_t room, const struct dns_query *q,
		       const struct dns_result *r, const uint8_t *msg)
{
	struct out o = { .p = to, .size = room };
	size_t records = begin(&o, q, r->rcode);

	/* Pointers of the section lead into it or into the question: both stay in place. */
	if (!records || records != r->answers_at)
		return 0;
	put(&o, msg + r->answers_at, r->answers_end - r->answers_at);
	return finish(&o, q, r->rcode, records, r->answers);
}

size_t dns_write_query(uint8_t *to, size_t room, const struct dns_query *q)
{
	struct out o = { .p = to, .size = room };

	put16(&o, q->id);
	put16(&o, (q->wants_recursion ? BIT_RD : 0) | (q->checking_off ? BIT_CD : 0));
	put16(&o, 1);
	put16(&o, 0);
	put16(&o, 0);
	put16(&o, q->has_edns ? 1 : 0);
	put_question(&o, q);
	if (q->has_edns)
		put_opt(&o, q, DNS_NOERROR);
	return o.full ? 0 : o.len;
}
