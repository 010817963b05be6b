/*
 * test_egress_dns_diff.c - our reading of DNS messages against libc's (ns_initparse(3) and
 * its kin) and ldns's: messages that are made up, whole and damaged
 *
 * What ours takes, libc takes as well; what both take, both understand in the same way.
 */
#include "base/cleanup.h"
#include "runtime/egress/dns_wire.h"

#include <arpa/nameser.h>
#include <ldns/ldns.h>
#include <resolv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

enum { ROUNDS = 60000, MESSAGE = 2048 };

struct made {			/* a message in the making */
	uint8_t p[MESSAGE];
	size_t len;
	size_t names[64];	/* where names begin: for pointers */
	unsigned name_count;
};

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static unsigned draw(unsigned below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 16) % below);
}

static void put(struct made *m, const void *data, size_t len)
{
	if (sizeof(m->p) - m->len < len)
		return;
	memcpy(m->p + m->len, data, len);
	m->len += len;
}

static void put16(struct made *m, unsigned v)
{
	put(m, (uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

/* --- making ------------------------------------------------------------------------------------ */

/* Few different names, so that owners and targets meet. */
static void put_name(struct made *m)
{
	static const char *const labels[] = { "\1a", "\1A", "\1b", "\2cd", "\3x.y", "\1\\", "\1\1" };

	if (m->name_count < ARRAY_SIZE(m->names))
		m->names[m->name_count++] = m->len;
	for (unsigned n = draw(3); n; n--) {
		const char *label = labels[draw(20) ? draw(4) : draw(ARRAY_SIZE(labels))];

		put(m, label, strlen(label));
	}
	if (m->name_count > 1 && draw(2))
		put16(m, 0xc000 | (unsigned)m->names[draw(m->name_count - 1)]);
	else if (draw(60) == 0)
		put16(m, 0xc000 | draw(256)); /* anywhere */
	else
		put(m, "", 1);
}

static void put_data(struct made *m, unsigned type)
{
	static const uint8_t bytes[20] = { 0, 1, 2, 3, 0, 0, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 77 };
	size_t at = m->len;

	put16(m, 0);
	if (type == DNS_A)
		put(m, bytes, draw(40) ? 4 : draw(8));
	else if (type == DNS_AAAA)
		put(m, bytes, draw(40) ? 16 : draw(20));
	if (type == DNS_MX)
		put(m, bytes, 2);
	if (type == DNS_SRV)
		put(m, bytes, 6);
	if (type == DNS_CNAME || type == DNS_NS || type == DNS_MX || type == DNS_SRV || type == DNS_SOA)
		put_name(m);
	if (type == DNS_SOA) {
		put_name(m);
		put(m, bytes, 20);
	}
	if (type == DNS_TXT)
		put(m, "\3txt", 4);
	m->p[at] = (uint8_t)((m->len - at - 2) >> 8);
	m->p[at + 1] = (uint8_t)(m->len - at - 2);
}

static void put_record(struct made *m, unsigned type)
{
	put_name(m);
	put16(m, type);
	put16(m, draw(40) ? DNS_CLASS_IN : 3);
	put16(m, draw(50) ? 0 : 0x8000);
	put16(m, draw(1000));
	put_data(m, type);
}

static void put_opt(struct made *m)
{
	put(m, "", 1);
	put16(m, DNS_OPT);
	put16(m, draw(2) ? 1232 : draw(65536));
	put16(m, draw(20) ? 0 : draw(3) << 8 | draw(2));
	put16(m, draw(2) ? 0x8000 : 0);
	put16(m, 0);
}

static void make_message(struct made *m, bool is_answer)
{
	static const unsigned types[] = { DNS_A, DNS_A, DNS_A, DNS_CNAME, DNS_CNAME, DNS_CNAME,
					  DNS_AAAA, DNS_MX, DNS_SRV, DNS_TXT, DNS_NS, 4711 };
	static const unsigned asked[] = { DNS_A, DNS_A, DNS_AAAA, DNS_MX, DNS_TXT };
	unsigned answers = is_answer ? draw(8) : 0, authority = is_answer ? draw(3) : 0;
	unsigned has_opt = draw(2);

	*m = (struct made){ .len = 0 };
	put16(m, draw(65536));
	put16(m, (is_answer ? 0x8180 : 0x0100) | (draw(4) ? 0 : draw(6)) | (draw(40) ? 0 : 0x200));
	put16(m, draw(100) ? 1 : draw(3));
	put16(m, answers);
	put16(m, authority);
	put16(m, has_opt);
	put_name(m);
	put16(m, asked[draw(ARRAY_SIZE(asked))]);
	put16(m, DNS_CLASS_IN);
	for (unsigned i = 0; i < answers; i++)
		put_record(m, types[draw(ARRAY_SIZE(types))]);
	for (unsigned i = 0; i < authority; i++)
		put_record(m, draw(2) ? DNS_SOA : DNS_NS);
	if (has_opt)
		put_opt(m);
}

static void damage(struct made *m)
{
	for (unsigned n = draw(3) ? 0 : 1 + draw(3); n; n--) {
		if (draw(3))
			m->p[draw((unsigned)m->len)] = (uint8_t)draw(256);
		else if (draw(2) && m->len > 1)
			m->len = draw((unsigned)m->len - 1) + 1;
		else
			put16(m, draw(65536));
	}
}

/* --- libc --------------------------------------------------------------------------------------- */

static void name_text(char text[NS_MAXDNAME], const struct dns_name *n)
{
	assert_true(ns_name_ntop(n->wire, text, NS_MAXDNAME) >= 0);
}

static void same_question(const struct dns_name *name, uint16_t type, uint16_t class, ns_msg *m)
{
	char text[NS_MAXDNAME];
	ns_rr rr;

	name_text(text, name);
	assert_int_equal(ns_parserr(m, ns_s_qd, 0, &rr), 0);
	assert_string_equal(ns_rr_name(rr), text);
	assert_int_equal(ns_rr_type(rr), type);
	assert_int_equal(ns_rr_class(rr), class);
}

/* One step of the chain by libc alone; the names are its text. */
struct walk {
	char name[NS_MAXDNAME];
	unsigned links, count;
	uint32_t ttl;
	uint8_t addrs[DNS_ADDRS][16];
};

static uint32_t plain_ttl(ns_rr rr)
{
	return ns_rr_ttl(rr) >> 31 ? 0 : ns_rr_ttl(rr);
}

static bool walk_link(struct walk *w, ns_msg *m, unsigned type)
{
	char next[NS_MAXDNAME] = "";
	bool has_next = false, found = false;
	ns_rr rr;

	for (int i = 0; i < ns_msg_count(*m, ns_s_an); i++) {
		assert_int_equal(ns_parserr(m, ns_s_an, i, &rr), 0);
		if (ns_rr_class(rr) != 1 || strcasecmp(ns_rr_name(rr), w->name) != 0 ||
		    (ns_rr_type(rr) != type && ns_rr_type(rr) != ns_t_cname))
			continue;
		w->ttl = plain_ttl(rr) < w->ttl ? plain_ttl(rr) : w->ttl;
		if (ns_rr_type(rr) == type) {
			found = true;
			if ((type == ns_t_a || type == ns_t_aaaa) && w->count < DNS_ADDRS)
				memcpy(w->addrs[w->count++], ns_rr_rdata(rr), ns_rr_rdlen(rr));
		} else if (!has_next) {
			assert_true(dn_expand(ns_msg_base(*m), ns_msg_end(*m), ns_rr_rdata(rr), next,
					      sizeof(next)) > 0);
			has_next = true;
			if (!next[0])
				memcpy(next, ".", 2); /* as ns_rr_name() has it */
		}
	}
	if (found || !has_next)
		return false;
	memcpy(w->name, next, sizeof(next));
	w->links++;
	return true;
}

static uint32_t ttl_of_soa(ns_msg *m, bool *has_soa)
{
	uint32_t ttl = UINT32_MAX;
	ns_rr rr;

	*has_soa = false;
	for (int i = 0; i < ns_msg_count(*m, ns_s_ns); i++) {
		uint32_t minimum;

		assert_int_equal(ns_parserr(m, ns_s_ns, i, &rr), 0);
		if (ns_rr_type(rr) != ns_t_soa || ns_rr_class(rr) != 1)
			continue;
		minimum = (uint32_t)ns_get32(ns_rr_rdata(rr) + ns_rr_rdlen(rr) - 4);
		*has_soa = true;
		minimum = minimum < plain_ttl(rr) ? minimum : plain_ttl(rr);
		ttl = minimum < ttl ? minimum : ttl;
	}
	return ttl;
}

static void same_chain(const struct dns_result *r, const struct dns_query *q, ns_msg *m)
{
	struct walk w = { .ttl = UINT32_MAX };
	char text[NS_MAXDNAME];
	bool has_soa;

	w.ttl = ttl_of_soa(m, &has_soa);
	name_text(w.name, &q->name);
	while (walk_link(&w, m, q->type))
		assert_true(w.links <= DNS_CHAIN);
	name_text(text, &r->last);
	assert_true(strcasecmp(text, w.name) == 0);
	assert_int_equal(r->links, w.links);
	assert_int_equal(r->count, w.count);
	assert_int_equal(r->has_soa, has_soa);
	assert_true(r->ttl == w.ttl);
	for (unsigned i = 0; i < w.count; i++)
		assert_memory_equal(r->addrs[i].bytes, w.addrs[i], 16);
}

/* --- ldns ---------------------------------------------------------------------------------------- */

static unsigned by_ldns;	/* messages that ldns took as well */

static bool same_name_ldns(const struct dns_name *n, const ldns_rdf *name)
{
	return ldns_rdf_size(name) == n->len && memcmp(ldns_rdf_data(name), n->wire, n->len) == 0;
}

static void same_question_ldns(const struct dns_query *q, const ldns_pkt *pkt)
{
	const ldns_rr_list *list = ldns_pkt_question(pkt);
	const ldns_rr *rr = ldns_rr_list_rr(list, 0);

	assert_int_equal(ldns_rr_list_rr_count(list), 1);
	assert_true(same_name_ldns(&q->name, ldns_rr_owner(rr)));
	assert_int_equal(ldns_rr_get_type(rr), q->type);
	assert_int_equal(ldns_rr_get_class(rr), q->class);
	assert_int_equal(ldns_pkt_id(pkt), q->id);
}

/* Addresses whose owner is the chain's end, in order: no others, none left out. */
static void same_addrs_ldns(const struct dns_result *r, const struct dns_query *q,
			    const ldns_pkt *pkt)
{
	const ldns_rr_list *list = ldns_pkt_answer(pkt);
	unsigned n = 0;

	for (size_t i = 0; i < ldns_rr_list_rr_count(list); i++) {
		const ldns_rr *rr = ldns_rr_list_rr(list, i);
		ldns_rdf *last = ldns_dname_new_frm_data(r->last.len, r->last.wire);

		assert_non_null(last);
		if (ldns_rr_get_type(rr) == q->type && ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN &&
		    (q->type == DNS_A || q->type == DNS_AAAA) &&
		    ldns_dname_compare(ldns_rr_owner(rr), last) == 0) {
			const ldns_rdf *data = ldns_rr_rdf(rr, 0);

			assert_true(n < r->count);
			assert_memory_equal(ldns_rdf_data(data), r->addrs[n].bytes, ldns_rdf_size(data));
			n++;
		}
		ldns_rdf_deep_free(last);
	}
	assert_int_equal(n, r->count);
}

/*
 * Where the data of a record is shorter than its length says, ldns goes on in the rest of it
 * (seen with MR, and with A of class CH). Such a message it has not read as libc did: from
 * there on all of its records are others.
 */
static bool is_lost(const ldns_pkt *pkt, ns_msg *m)
{
	const ldns_rr_list *list = ldns_pkt_answer(pkt);
	ns_rr rr;

	if (ldns_rr_list_rr_count(list) != ns_msg_count(*m, ns_s_an))
		return true;
	for (int i = 0; i < ns_msg_count(*m, ns_s_an); i++) {
		const ldns_rr *other = ldns_rr_list_rr(list, (size_t)i);

		assert_int_equal(ns_parserr(m, ns_s_an, i, &rr), 0);
		if ((int)ldns_rr_get_type(other) != (int)ns_rr_type(rr) ||
		    (int)ldns_rr_get_class(other) != (int)ns_rr_class(rr) ||
		    ldns_rr_ttl(other) != ns_rr_ttl(rr))
			return true;
	}
	return false;
}

static ldns_pkt *ldns_of(const uint8_t *p, size_t len)
{
	ldns_pkt *pkt = NULL;

	if (ldns_wire2pkt(&pkt, p, len) != LDNS_STATUS_OK)
		return NULL;
	by_ldns++;
	return pkt;
}

/* --- the tests ------------------------------------------------------------------------------------- */

static void questions_are_read_as_others_read_them(void **state)
{
	unsigned taken = 0;

	(void)state;
	by_ldns = 0;
	for (int i = 0; i < ROUNDS; i++) {
		enum dns_rcode rcode;
		struct dns_query q;
		struct made m;
		ldns_pkt *pkt;
		ns_msg msg;

		make_message(&m, false);
		damage(&m);
		if (dns_read_query(&q, &rcode, m.p, m.len) != DNS_QUESTION)
			continue;
		taken++;
		assert_int_equal(ns_initparse(m.p, (int)m.len, &msg), 0);
		assert_int_equal(ns_msg_id(msg), q.id);
		same_question(&q.name, q.type, q.class, &msg);
		pkt = ldns_of(m.p, m.len);
		if (!pkt)
			continue;
		same_question_ldns(&q, pkt);
		assert_int_equal(ldns_pkt_edns(pkt), q.has_edns);
		if (q.has_edns) {
			assert_int_equal(ldns_pkt_edns_udp_size(pkt), q.edns_size);
			assert_int_equal(ldns_pkt_edns_do(pkt), q.wants_dnssec);
		}
		ldns_pkt_free(pkt);
	}
	assert_true(taken > ROUNDS / 4);
	assert_true(by_ldns > taken / 2);
}

/* The message is taken as the answer to the question that libc finds in it. */
static bool question_of(struct dns_query *q, struct made *m, ns_msg *msg)
{
	size_t at = DNS_HEADER;
	ns_rr rr;

	if (ns_initparse(m->p, (int)m->len, msg) < 0 || ns_msg_count(*msg, ns_s_qd) != 1 ||
	    ns_parserr(msg, ns_s_qd, 0, &rr) < 0)
		return false;
	*q = (struct dns_query){ .id = ns_msg_id(*msg), .type = ns_rr_type(rr),
				 .class = ns_rr_class(rr) };
	return dns_name_read(&q->name, m->p, m->len, &at);
}

static void answers_are_read_as_others_read_them(void **state)
{
	unsigned taken = 0, chains = 0, found = 0, lost = 0;

	(void)state;
	by_ldns = 0;
	for (int i = 0; i < ROUNDS; i++) {
		struct dns_result r;
		struct dns_query q;
		struct made m;
		ldns_pkt *pkt;
		ns_msg msg;

		make_message(&m, true);
		damage(&m);
		if (!question_of(&q, &m, &msg) ||
		    dns_read_answer(&r, &q, m.p, m.len) != DNS_OURS || r.truncated)
			continue;
		taken++;
		chains += r.links > 0;
		found += r.count > 0;
		same_question(&q.name, q.type, q.class, &msg);
		same_chain(&r, &q, &msg);
		pkt = ldns_of(m.p, m.len);
		if (!pkt)
			continue;
		same_question_ldns(&q, pkt);
		if (is_lost(pkt, &msg))
			lost++;
		else
			same_addrs_ldns(&r, &q, pkt);
		ldns_pkt_free(pkt);
	}
	print_message("answers: %u taken, %u chains, %u with addresses, %u by ldns, %u lost\n", taken,
		      chains, found, by_ldns, lost);
	assert_true(taken > ROUNDS / 8 && chains > 100 && found > 100);
	assert_true(by_ldns > taken / 2 && lost < by_ldns / 20);
}

/* Whatever was asked, and whatever we say: both others can read it. */
static void what_we_write_others_can_read(void **state)
{
	unsigned written = 0;

	(void)state;
	for (int i = 0; i < ROUNDS / 4; i++) {
		struct egress_addr addrs[8] = { 0 };
		struct dns_reply reply = { .ttl = draw(1000), .addrs = addrs };
		enum dns_rcode rcode;
		struct dns_query q;
		struct made m;
		uint8_t out[1232];
		ldns_pkt *pkt;
		ns_msg msg;
		size_t n;

		make_message(&m, false);
		damage(&m);
		if (dns_read_query(&q, &rcode, m.p, m.len) == DNS_DROP)
			continue;
		reply.rcode = rcode;
		reply.count = rcode == DNS_NOERROR && (q.type == DNS_A || q.type == DNS_AAAA) ? draw(8) : 0;
		for (unsigned k = 0; k < reply.count; k++)
			addrs[k].family = q.type == DNS_A ? 4 : 6;
		n = dns_write_answer(out, sizeof(out), &q, &reply);
		assert_true(n > 0);
		assert_int_equal(ns_initparse(out, (int)n, &msg), 0);
		assert_int_equal(ns_msg_count(msg, ns_s_an), reply.count);
		assert_int_equal(ns_msg_getflag(msg, ns_f_rcode), rcode & 15);
		pkt = ldns_of(out, n);
		assert_non_null(pkt);
		assert_int_equal(ldns_rr_list_rr_count(ldns_pkt_answer(pkt)), reply.count);
		ldns_pkt_free(pkt);
		written++;
	}
	assert_true(written > ROUNDS / 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions_are_read_as_others_read_them),
		cmocka_unit_test(answers_are_read_as_others_read_them),
		cmocka_unit_test(what_we_write_others_can_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
