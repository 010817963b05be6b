/*
 * dns_answer.c - what a name server says to a question of ours. See dns_wire.h. Runs in the
 * supervisor; pure.
 *
 * Must:    believe nothing that does not repeat id, name, case, type and class.
 * Mustn't: take an address of any name but the one at the end of the chain.
 */
#include "runtime/egress/dns_wire.h"

#include <string.h>

enum { FLAG_QR = 0x8000, FLAG_TC = 0x0200, OPCODE = 0x7800, RCODE = 15 };

struct reader {
	const uint8_t *p;
	size_t len, at;
};
struct rr {
	struct dns_name owner;
	uint16_t type, class;
	uint32_t ttl;
	size_t data, size;	/* where in the message */
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static bool read_rr(struct reader *r, struct rr *out)
{
	const uint8_t *f;

	if (!dns_name_read(&out->owner, r->p, r->len, &r->at) || r->len - r->at < 10)
		return false;
	f = r->p + r->at;
	out->type = get16(f);
	out->class = get16(f + 2);
	out->ttl = get32(f + 4) >> 31 ? 0 : get32(f + 4); /* RFC 2181, 8 */
	out->data = r->at + 10;
	out->size = get16(f + 8);
	if (r->len - out->data < out->size)
		return false;
	r->at = out->data + out->size;
	return true;
}

/* Data of these types is bytes, `names` names that may be compressed, and bytes. */
struct shape {
	uint16_t type, before, names, after;
};
static const struct shape shapes[] = {
	{ DNS_A, 4, 0, 0 },     { DNS_AAAA, 16, 0, 0 },  { DNS_CNAME, 0, 1, 0 },
	{ DNS_NS, 0, 1, 0 },    { DNS_PTR, 0, 1, 0 },    { DNS_DNAME, 0, 1, 0 },
	{ DNS_MX, 2, 1, 0 },    { DNS_SRV, 6, 1, 0 },    { DNS_SOA, 0, 2, 20 },
};

/* Of other types anything goes. */
static bool has_shape(const struct reader *r, const struct rr *rr)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		const struct shape *s = &shapes[i];
		size_t at = rr->data + s->before, end = rr->data + rr->size;
		struct dns_name name;

		if (s->type != rr->type || rr->class != DNS_CLASS_IN)
			continue;
		for (int n = s->names; n && at < end; n--)
			if (!dns_name_read(&name, r->p, end, &at))
				return false;
		return at + s->after == end && (!s->names || rr->size > s->before + s->after);
	}
	return true;
}

/* --- one pass over everything ---------------------------------------------------- */

static void note_answer(struct dns_result *out, const struct dns_query *asked, const struct rr *rr)
{
	out->only_asked &= rr->class == DNS_CLASS_IN &&
			   (rr->type == asked->type || rr->type == DNS_CNAME ||
			    rr->type == DNS_DNAME);
}

/* How long "there is nothing" holds: RFC 2308. */
static void note_soa(struct dns_result *out, const struct reader *r, const struct rr *rr)
{
	uint32_t minimum;

	if (rr->type != DNS_SOA || rr->class != DNS_CLASS_IN)
		return;
	minimum = get32(r->p + rr->data + rr->size - 4);
	out->has_soa = true;
	minimum = minimum < rr->ttl ? minimum : rr->ttl;
	out->ttl = out->ttl < minimum ? out->ttl : minimum;
}

static bool read_sections(struct dns_result *out, const struct dns_query *asked,
			  struct reader *r)
{
	unsigned answers = get16(r->p + 6), authority = get16(r->p + 8);
	unsigned all = answers + authority + get16(r->p + 10);
	struct rr rr;

	out->answers_at = out->answers_end = r->at;
	out->answers = (uint16_t)answers;
	out->only_asked = true;
	if (all > DNS_RECORDS)
		return false;
	for (unsigned i = 0; i < all; i++) {
		if (!read_rr(r, &rr) || !has_shape(r, &rr))
			return false;
		if (i < answers) {
			note_answer(out, asked, &rr);
			out->answers_end = r->at;
		} else if (i < answers + authority) {
			note_soa(out, r, &rr);
		} else if (rr.type == DNS_OPT) { /* the upper bits of the code */
			out->rcode |= (enum dns_rcode)(rr.ttl >> 24 << 4);
		}
	}
	return r->at == r->len;
}

/* --- the chain --------------------------------------------------------------------- */

static void take_address(struct dns_result *out, const struct reader *r, const struct rr *rr)
{
	struct egress_addr *a = &out->addrs[out->count];

	if (out->count == DNS_ADDRS)
		return;
	*a = (struct egress_addr){ .family = rr->type == DNS_A ? 4 : 6 };
	memcpy(a->bytes, r->p + rr->data, rr->size);
	out->count++;
}

/* What the answer section says of out->last: addresses, or the next link. */
static bool take_link(struct dns_result *out, const struct dns_query *asked, struct reader r)
{
	struct dns_name next = { .len = 0 };
	unsigned found = 0;
	struct rr rr;

	r.at = out->answers_at;
	while (r.at < out->answers_end && read_rr(&r, &rr)) {
		bool is_wanted = rr.type == asked->type;
		size_t at = rr.data;

		if (rr.class != DNS_CLASS_IN || !dns_name_equal(&rr.owner, &out->last) ||
		    (!is_wanted && rr.type != DNS_CNAME))
			continue;
		out->ttl = out->ttl < rr.ttl ? out->ttl : rr.ttl;
		if (!is_wanted && !next.len)
			dns_name_read(&next, r.p, r.len, &at);
		if (is_wanted && (rr.type == DNS_A || rr.type == DNS_AAAA))
			take_address(out, &r, &rr);
		found += is_wanted;
	}
	if (found || !next.len)
		return false;
	out->last = next;
	out->links++;
	return true;
}

/* --- is it ours? ------------------------------------------------------------------- */

static enum dns_match match_question(const struct dns_query *asked, struct reader *r)
{
	struct dns_name name;

	if (get16(r->p + 4) != 1 || !dns_name_read(&name, r->p, r->len, &r->at) ||
	    r->len - r->at < 4 || !dns_name_equal(&name, &asked->name) ||
	    get16(r->p + r->at) != asked->type || get16(r->p + r->at + 2) != asked->class)
		return DNS_FOREIGN;
	r->at += 4;
	return memcmp(name.wire, asked->name.wire, name.len) ? DNS_OTHER_CASE : DNS_OURS;
}

/* Some servers send no question back with an error. All that a forger gains is a failure. */
static bool is_bare_error(const struct reader *r)
{
	return r->len == DNS_HEADER && !get16(r->p + 4) && get16(r->p + 2) & RCODE &&
	       (get16(r->p + 2) & RCODE) != DNS_NXDOMAIN;
}

enum dns_match dns_read_answer(struct dns_result *out, const struct dns_query *asked,
			       const uint8_t *p, size_t len)
{
	struct reader r = { p, len, DNS_HEADER };
	enum dns_match match;

	if (len < DNS_HEADER || get16(p) != asked->id ||
	    (get16(p + 2) & (FLAG_QR | OPCODE)) != FLAG_QR)
		return DNS_FOREIGN;
	*out = (struct dns_result){
		.rcode = get16(p + 2) & RCODE, .truncated = get16(p + 2) & FLAG_TC,
		.ttl = UINT32_MAX, .last = asked->name,
		.answers_at = DNS_HEADER, .answers_end = DNS_HEADER,
	};
	if (is_bare_error(&r))
		return DNS_OURS;
	match = match_question(asked, &r);
	if (match != DNS_OURS || out->truncated)
		return match;
	if (!read_sections(out, asked, &r))
		return DNS_BROKEN;
	while (take_link(out, asked, r))
		if (out->links > DNS_CHAIN)
			return DNS_BROKEN;
	return DNS_OURS;
}
