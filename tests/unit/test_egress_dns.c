/*
 * test_egress_dns.c - DNS messages byte by byte
 */
#include "base/cleanup.h"
#include "runtime/egress/dns_wire.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Bytes of a literal without its final NUL. */
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static struct egress_addr addr_of(const char *text)
{
	struct egress_addr a = { .family = strchr(text, ':') ? 6 : 4 };

	assert_int_equal(inet_pton(a.family == 6 ? AF_INET6 : AF_INET, text, a.bytes), 1);
	return a;
}

static void assert_addr(const struct egress_addr *a, const char *text)
{
	char got[EGRESS_ADDR_TEXT];

	assert_non_null(inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->bytes, got,
				  sizeof(got)));
	assert_string_equal(got, text);
}

/* --- names on the wire ---------------------------------------------------------------------- */

static bool read_at(struct dns_name *n, const uint8_t *p, size_t len, size_t at)
{
	return dns_name_read(n, p, len, &at);
}

static void a_pointer_leads_backwards_only(void **state)
{
	/* header, then at 12 "ab", at 16 "c" + pointer to 12, at 20 pointer to 16 */
	uint8_t p[] = "\0\0\0\0\0\0\0\0\0\0\0\0" "\2ab\0" "\1c\300\14" "\300\20" "\300\30";
	char text[EGRESS_NAME_MAX + 1];
	struct dns_name n;
	size_t at = 20;

	(void)state;
	assert_true(dns_name_read(&n, p, 22, &at));
	assert_int_equal(at, 22);
	assert_true(dns_name_text(text, &n));
	assert_string_equal(text, "c.ab");
	assert_false(read_at(&n, p, 24, 22)); /* forwards, out of the message */
	p[23] = 22;
	assert_false(read_at(&n, p, 24, 22)); /* itself */
	p[23] = 11;
	assert_false(read_at(&n, p, 24, 22)); /* the header */
	p[23] = 16;
	assert_true(read_at(&n, p, 24, 22));
	p[19] = 16;
	assert_false(read_at(&n, p, 24, 22)); /* 16 leads to 16 */
	p[19] = 20;
	assert_false(read_at(&n, p, 24, 22)); /* 16 to 20 to 16 */
	assert_false(read_at(&n, p, 23, 22)); /* cut within the pointer */
}

/* A label there that reaches into the name that leads to it, or behind that. */
static void what_a_pointer_leads_to_has_ended_before(void **state)
{
	uint8_t p[] = "\0\0\0\0\0\0\0\0\0\0\0\0" "\1a\0" "\1b\300\14" "\0\0\0\0";
	struct dns_name n;

	(void)state;
	assert_true(read_at(&n, p, 23, 15));
	p[12] = 2; /* 2 bytes, then the label at 15, which is the name's own */
	assert_false(read_at(&n, p, 23, 15));
	p[12] = 7; /* over the pointer, to the zeros behind */
	assert_false(read_at(&n, p, 23, 15));
	assert_true(read_at(&n, p, 23, 12)); /* read by itself it is a name */
}

static void a_name_has_255_bytes_at_most(void **state)
{
	uint8_t p[400] = { 0 };
	struct dns_name n;
	char text[EGRESS_NAME_MAX + 1];

	(void)state;
	for (int i = 0; i < 4; i++) {
		p[64 * i] = 63;
		memset(p + 64 * i + 1, 'a', 63);
	}
	p[192] = 61;
	p[254] = 0;
	assert_true(read_at(&n, p, 255, 0));
	assert_int_equal(n.len, 255);
	assert_true(dns_name_text(text, &n));
	assert_int_equal(strlen(text), 253);
	assert_true(dns_name_set(&n, text));
	assert_memory_equal(n.wire, p, 255);
	p[192] = 62;
	p[255] = 0;
	assert_false(read_at(&n, p, 256, 0));
	p[192] = 64; /* no such kind of label */
	assert_false(read_at(&n, p, 400, 0));
	p[192] = 0x80;
	assert_false(read_at(&n, p, 400, 0));
	assert_false(read_at(&n, p, 10, 0));
	assert_false(read_at(&n, p, 0, 0));
	assert_true(dns_name_set(&n, ""));
	assert_int_equal(n.len, 1);
	assert_false(dns_name_set(&n, "a..b"));
	assert_false(dns_name_set(&n, ".a"));
}

static void bytes_that_would_read_as_something_else_are_no_text(void **state)
{
	static const char *const labels[] = { "\3a.b", "\2a\\", "\2a ", "\1\177", "\1\200" };
	char text[EGRESS_NAME_MAX + 1];
	struct dns_name n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		assert_true(read_at(&n, (const uint8_t *)labels[i], strlen(labels[i]) + 1, 0));
		assert_false(dns_name_text(text, &n));
	}
	assert_true(read_at(&n, BYTES("\2\0a\0"), 0));
	assert_false(dns_name_text(text, &n));
	assert_true(read_at(&n, BYTES("\4a_-B\0"), 0));
	assert_true(dns_name_text(text, &n));
	assert_string_equal(text, "a_-B");
}

static void reverse_names_are_read_in_one_spelling(void **state)
{
	static const struct { const char *name, *addr; } rows[] = {
		{ "4.3.2.1.in-addr.arpa", "1.2.3.4" },
		{ "0.0.18.198.in-addr.arpa", "198.18.0.0" },
		{ "255.255.255.255.in-addr.arpa", "255.255.255.255" },
		{ "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.2.ip6.arpa",
		  "2001:2::1" },
		{ "256.3.2.1.in-addr.arpa", NULL }, { "04.3.2.1.in-addr.arpa", NULL },
		{ "5.4.3.2.1.in-addr.arpa", NULL }, { "3.2.1.in-addr.arpa", NULL },
		{ "4.3.2.1.in-addr.arpa.x", NULL }, { "4.3.2.1", NULL }, { "", NULL },
		{ ".3.2.1.in-addr.arpa", NULL }, { "1000.3.2.1.in-addr.arpa", NULL },
		{ "1.0.0.2.ip6.arpa", NULL },
		{ "g.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.2.ip6.arpa",
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_addr a;

		assert_int_equal(dns_reverse(&a, rows[i].name), rows[i].addr != NULL);
		if (rows[i].addr)
			assert_addr(&a, rows[i].addr);
	}
}

/* --- questions and our answers ---------------------------------------------------------------- */

#define HEAD(id, flags, qd, an, ns, ar) id flags qd an ns ar
#define ONE "\0\1"
#define NONE "\0\0"
#define QUERY_A HEAD("\x12\x34", "\1\0", ONE, NONE, NONE, NONE) \
	"\7eXample\3Org\0" "\0\1\0\1"
#define QUERY_A_EDNS HEAD("\x12\x34", "\1\20", ONE, NONE, NONE, ONE) \
	"\7eXample\3Org\0" "\0\1\0\1" "\0" "\0\51" "\4\xd0" "\0\0\x80\0" "\0\0"

static struct dns_query query_of(const uint8_t *p, size_t len)
{
	struct dns_query q;
	enum dns_rcode rcode;

	assert_int_equal(dns_read_query(&q, &rcode, p, len), DNS_QUESTION);
	assert_int_equal(rcode, DNS_NOERROR);
	return q;
}

static void an_answer_repeats_the_question_with_its_case(void **state)
{
	static const char want[] = HEAD("\x12\x34", "\x81\x80", ONE, ONE, NONE, NONE)
		"\7eXample\3Org\0" "\0\1\0\1" "\300\14" "\0\1\0\1" "\0\0\0\74" "\0\4" "\306\22\0\1";
	struct dns_query q = query_of(BYTES(QUERY_A));
	struct egress_addr a = addr_of("198.18.0.1");
	uint8_t out[512];
	size_t n = dns_write_answer(out, sizeof(out), &q,
				    &(struct dns_reply){ .ttl = 60, .addrs = &a, .count = 1 });

	(void)state;
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, n);
}

static void edns_is_answered_with_edns(void **state)
{
	static const char want[] = HEAD("\x12\x34", "\x81\x95", ONE, NONE, NONE, ONE)
		"\7eXample\3Org\0" "\0\1\0\1" "\0" "\0\51" "\4\xd0" "\0\0\x80\0" "\0\0";
	struct dns_query q = query_of(BYTES(QUERY_A_EDNS));
	uint8_t out[512];
	size_t n = dns_write_answer(out, sizeof(out), &q,
				    &(struct dns_reply){ .rcode = DNS_REFUSED });

	(void)state;
	assert_true(q.has_edns && q.wants_dnssec && q.checking_off);
	assert_int_equal(q.edns_size, 1232);
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, n);
}

/* The least answer that a client can ask for has room for it behind the longest name. */
static void an_extended_error_is_a_part_of_the_opt(void **state)
{
	static const char want[] = HEAD("\x12\x34", "\x81\x93", ONE, NONE, NONE, ONE)
		"\7eXample\3Org\0" "\0\1\0\1" "\0" "\0\51" "\4\xd0" "\0\0\x80\0" "\0\6" "\0\17\0\2\0\17";
	const struct dns_reply r = { .rcode = DNS_NXDOMAIN, .extended = DNS_BLOCKED };
	struct dns_query plain = query_of(BYTES(QUERY_A)), q = query_of(BYTES(QUERY_A_EDNS));
	size_t size = sizeof(want) - 1;
	uint8_t out[512];

	(void)state;
	assert_int_equal(dns_write_answer(out, size - 1, &q, &r), 0);
	assert_int_equal(dns_write_answer(out, size, &q, &r), size);
	assert_memory_equal(out, want, size);
	assert_int_equal(dns_write_answer(out, sizeof(out), &plain, &r), sizeof(QUERY_A) - 1);
}

static void what_does_not_fit_is_marked_as_truncated(void **state)
{
	struct dns_query q = query_of(BYTES(QUERY_A_EDNS));
	struct egress_addr a[16];
	const struct dns_reply r = { .ttl = 1, .addrs = a, .count = 16 };
	uint8_t out[DNS_UDP_MAX];
	size_t whole;

	(void)state;
	for (int i = 0; i < 16; i++)
		a[i] = addr_of("2001:2::1");
	whole = dns_write_answer(out, sizeof(out), &q, &r);
	assert_int_equal(whole, 12 + 17 + 16 * 28 + 11);
	assert_int_equal(out[2] & 2, 0);
	assert_int_equal(dns_write_answer(out, whole, &q, &r), whole);
	assert_int_equal(dns_write_answer(out, whole - 1, &q, &r), 12 + 17 + 11);
	assert_int_equal(out[2] & 2, 2);
	assert_memory_equal(out + 6, "\0\0\0\0\0\1", 6);
	assert_int_equal(dns_write_answer(out, 12 + 17 + 10, &q, &r), 0);
	assert_int_equal(dns_write_answer(out, 0, &q, &r), 0);
}

static void the_room_for_an_answer_is_what_the_client_says_within_bounds(void **state)
{
	static const struct { unsigned edns; size_t room; } rows[] = {
		{ 0, 512 }, { 100, 512 }, { 512, 512 }, { 1232, 1232 }, { 4096, 4096 },
		{ 65535, 4096 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dns_query q = { .has_edns = i > 0, .edns_size = (uint16_t)rows[i].edns };

		assert_int_equal(dns_room(&q, false), rows[i].room);
		assert_int_equal(dns_room(&q, true), 65535);
	}
}

static void wrong_questions_get_their_code_and_no_questions_get_none(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum dns_read read;
		enum dns_rcode rcode;
	} rows[] = {
#define ROW(bytes, ...) { bytes, sizeof(bytes) - 1, __VA_ARGS__ }
#define NAME "\1a\0"
#define OPT(version) "\0" "\0\51" "\4\xd0" "\0" version "\0\0" "\0\0"
		ROW("", DNS_DROP, 0),
		ROW("\1\2\0\0\0\1\0\0\0\0\0", DNS_DROP, 0),
		ROW(HEAD("\0\1", "\x80\0", ONE, NONE, NONE, NONE) NAME "\0\1\0\1", DNS_DROP, 0),
		ROW(HEAD("\0\1", "\x28\0", ONE, NONE, NONE, NONE) NAME "\0\1\0\1", DNS_WRONG, DNS_NOTIMP),
		ROW(HEAD("\0\1", "\0\0", NONE, NONE, NONE, NONE), DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", "\0\2", NONE, NONE, NONE) NAME "\0\1\0\1" NAME "\0\1\0\1",
		    DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, ONE, NONE, NONE) NAME "\0\1\0\1", DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, NONE) NAME "\0\1\0", DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, NONE) NAME "\0\1\0\1x", DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, NONE) "\300\14\0\1\0\1", DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, NONE) "\5ab", DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, ONE) NAME "\0\1\0\1", DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, "\0\2") NAME "\0\1\0\1" OPT("\0") OPT("\0"),
		    DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, ONE) NAME "\0\1\0\1" "\1x" OPT("\0"),
		    DNS_WRONG, DNS_FORMERR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, ONE) NAME "\0\1\0\1" OPT("\1"),
		    DNS_WRONG, DNS_BADVERS),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, ONE) NAME "\0\1\0\1" OPT("\0"),
		    DNS_QUESTION, DNS_NOERROR),
		ROW(HEAD("\0\1", "\0\0", ONE, NONE, NONE, NONE) "\0" "\0\2\0\1", DNS_QUESTION, 0),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum dns_rcode rcode = DNS_NOERROR;
		struct dns_query q;
		uint8_t out[512];

		assert_int_equal(dns_read_query(&q, &rcode, (const uint8_t *)rows[i].bytes,
						rows[i].len), rows[i].read);
		assert_int_equal(rcode, rows[i].rcode);
		if (rows[i].read == DNS_DROP)
			continue;
		assert_true(dns_write_answer(out, sizeof(out), &q,
					     &(struct dns_reply){ .rcode = rcode }) >= 12);
		assert_int_equal(out[3] & 15, rcode & 15);
		assert_int_equal(out[2] & 0xf8, 0x80 | (rows[i].bytes[2] & 0x78));
	}
}

static void every_cut_of_a_question_is_refused(void **state)
{
	struct dns_query q;
	enum dns_rcode rcode;

	(void)state;
	for (size_t n = 0; n < sizeof(QUERY_A_EDNS) - 1; n++)
		assert_int_not_equal(dns_read_query(&q, &rcode, (const uint8_t *)QUERY_A_EDNS, n),
				     DNS_QUESTION);
	query_of(BYTES(QUERY_A_EDNS));
}

/* --- upstream ---------------------------------------------------------------------------------- */

static struct dns_query asked(uint16_t type)
{
	struct dns_query q = { .id = 0x1234, .type = type, .class = DNS_CLASS_IN,
			       .wants_recursion = true };

	assert_true(dns_name_set(&q.name, "eXample.Org"));
	return q;
}

#define Q "\7eXample\3Org\0" "\0\1\0\1"
#define ANSWER(counts) "\x12\x34" "\x81\x80" ONE counts Q

static void a_question_has_mixed_case_and_room_for_1232_bytes(void **state)
{
	static const char want[] = HEAD("\x12\x34", "\1\0", ONE, NONE, NONE, ONE)
		"\7ExamPLE\3ORG\0" "\0\34\0\1" "\0" "\0\51" "\4\xd0" "\0\0\0\0" "\0\0";
	static const uint8_t random[32] = { 0xe2, 0x1e };
	struct dns_query q = asked(DNS_AAAA);
	uint8_t out[DNS_QUERY_MAX];
	size_t n;

	(void)state;
	q.has_edns = true;
	dns_name_mix(&q.name, random);
	n = dns_write_query(out, sizeof(out), &q);
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, n);
	assert_int_equal(dns_write_query(out, n - 1, &q), 0);
}

static void a_chain_is_followed_to_its_addresses_and_no_others(void **state)
{
	/* out of order; an address of a name that is not in the chain is not ours */
	static const char p[] = ANSWER("\0\4" "\0\0" "\0\0")
		"\1b\300\14" "\0\1\0\1" "\0\0\0\12" "\0\4" "\1\2\3\4"
		"\300\14" "\0\5\0\1" "\0\0\0\144" "\0\4" "\1b\300\14"
		"\4evil\300\14" "\0\1\0\1" "\0\0\0\1" "\0\4" "\6\6\6\6"
		"\1B\300\14" "\0\1\0\1" "\0\0\0\24" "\0\4" "\5\6\7\10";
	struct dns_query q = asked(DNS_A);
	struct dns_result r;
	char text[EGRESS_NAME_MAX + 1];

	(void)state;
	assert_int_equal(dns_read_answer(&r, &q, BYTES(p)), DNS_OURS);
	assert_int_equal(r.count, 2);
	assert_addr(&r.addrs[0], "1.2.3.4");
	assert_addr(&r.addrs[1], "5.6.7.8");
	assert_int_equal(r.ttl, 10);
	assert_int_equal(r.links, 1);
	assert_true(dns_name_text(text, &r.last));
	assert_string_equal(text, "b.eXample.Org");
	assert_true(r.only_asked);
	for (size_t n = 0; n < sizeof(p) - 1; n++)
		assert_int_not_equal(dns_read_answer(&r, &q, (const uint8_t *)p, n), DNS_OURS);
}

static void what_is_not_our_answer_is_told_apart(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum dns_match match;
	} rows[] = {
		ROW(ANSWER("\0\0" "\0\0" "\0\0"), DNS_OURS),
		ROW("\x12\x35" "\x81\x80" "\0\1\0\0\0\0\0\0" Q, DNS_FOREIGN),
		ROW("\x12\x34" "\1\x80" "\0\1\0\0\0\0\0\0" Q, DNS_FOREIGN),
		ROW("\x12\x34" "\x91\x80" "\0\1\0\0\0\0\0\0" Q, DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x80" "\0\1\0\0\0\0\0\0" "\7eXample\3OrG\0\0\1\0\1", DNS_OTHER_CASE),
		ROW("\x12\x34" "\x81\x80" "\0\1\0\0\0\0\0\0" "\7eXamplf\3Org\0\0\1\0\1", DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x80" "\0\1\0\0\0\0\0\0" "\7eXample\3Org\0\0\34\0\1", DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x80" "\0\1\0\0\0\0\0\0" "\7eXample\3Org\0\0\1\0\3", DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x80" "\0\2\0\0\0\0\0\0" Q Q, DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x80" "\0\0\0\0\0\0\0\0", DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x83" "\0\0\0\0\0\0\0\0", DNS_FOREIGN),
		ROW("\x12\x34" "\x81\x81" "\0\0\0\0\0\0\0\0", DNS_OURS),
		/* left over; too few; lengths of data that lie */
		ROW(ANSWER("\0\0" "\0\0" "\0\0") "x", DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0"), DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\1\0\1" "\0\0\0\1" "\0\3" "\1\2\3",
		    DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\1\0\1" "\0\0\0\1" "\0\5" "\1\2\3\4\5",
		    DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\34\0\1" "\0\0\0\1" "\0\4" "\1\2\3\4",
		    DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\5\0\1" "\0\0\0\1" "\0\3" "\300\14x",
		    DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\5\0\1" "\0\0\0\1" "\0\0", DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\5\0\1" "\0\0\0\1" "\0\2" "\300\55",
		    DNS_BROKEN),
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\17\0\1" "\0\0\0\1" "\0\2" "\0\1", DNS_BROKEN),
		ROW(ANSWER("\2\1" "\0\0" "\0\0"), DNS_BROKEN),
		/* a chain that bites its tail */
		ROW(ANSWER("\0\1" "\0\0" "\0\0") "\300\14" "\0\5\0\1" "\0\0\0\1" "\0\2" "\300\14",
		    DNS_BROKEN),
	};
	struct dns_query q = asked(DNS_A);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dns_result r;
		enum dns_match match = dns_read_answer(&r, &q, (const uint8_t *)rows[i].bytes,
						       rows[i].len);

		if (match != rows[i].match)
			print_error("row %zu\n", i);
		assert_int_equal(match, rows[i].match);
	}
}

static void nothing_there_holds_as_long_as_the_soa_says(void **state)
{
	static const char p[] = "\x12\x34" "\x81\x83" "\0\1\0\0\0\1\0\0" Q
		"\300\14" "\0\6\0\1" "\0\0\2\130" "\0\30" "\300\14" "\300\14"
		"\0\0\0\1" "\0\0\0\2" "\0\0\0\3" "\0\0\0\4" "\0\0\0\55";
	struct dns_query q = asked(DNS_A);
	struct dns_result r;

	(void)state;
	assert_int_equal(dns_read_answer(&r, &q, BYTES(p)), DNS_OURS);
	assert_int_equal(r.rcode, DNS_NXDOMAIN);
	assert_true(r.has_soa);
	assert_int_equal(r.ttl, 45);
	assert_int_equal(r.count, 0);
}

static void a_ttl_with_the_top_bit_is_zero(void **state)
{
	static const char p[] = ANSWER("\0\1" "\0\0" "\0\0")
		"\300\14" "\0\1\0\1" "\x80\0\0\7" "\0\4" "\1\2\3\4";
	struct dns_query q = asked(DNS_A);
	struct dns_result r;

	(void)state;
	assert_int_equal(dns_read_answer(&r, &q, BYTES(p)), DNS_OURS);
	assert_int_equal(r.ttl, 0);
}

static void a_relayed_answer_has_the_answer_section_alone(void **state)
{
	static const char p[] = "\x12\x34" "\x85\x80" "\0\1\0\1\0\1\0\1" "\7eXample\3Org\0" "\0\17\0\1"
		"\300\14" "\0\17\0\1" "\0\0\0\1" "\0\7" "\0\12" "\2mx\300\14"
		"\300\14" "\0\2\0\1" "\0\0\0\1" "\0\2" "\300\14"
		"\2mx\300\14" "\0\1\0\1" "\0\0\0\1" "\0\4" "\1\2\3\4";
	static const char want[] = "\x77\x77" "\x81\x80" "\0\1\0\1\0\0\0\0" "\7example\3org\0" "\0\17\0\1"
		"\300\14" "\0\17\0\1" "\0\0\0\1" "\0\7" "\0\12" "\2mx\300\14";
	struct dns_query q = asked(DNS_MX), client = asked(DNS_MX);
	struct dns_result r;
	uint8_t out[512];
	size_t n;

	(void)state;
	client.id = 0x7777;
	assert_true(dns_name_set(&client.name, "example.org"));
	assert_int_equal(dns_read_answer(&r, &q, BYTES(p)), DNS_OURS);
	assert_true(r.only_asked);
	n = dns_write_relay(out, sizeof(out), &client, &r, (const uint8_t *)p);
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, n);
	n = dns_write_relay(out, n - 1, &client, &r, (const uint8_t *)p);
	assert_int_equal(n, 12 + 17);
	assert_int_equal(out[2] & 2, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pointer_leads_backwards_only),
		cmocka_unit_test(what_a_pointer_leads_to_has_ended_before),
		cmocka_unit_test(a_name_has_255_bytes_at_most),
		cmocka_unit_test(bytes_that_would_read_as_something_else_are_no_text),
		cmocka_unit_test(reverse_names_are_read_in_one_spelling),
		cmocka_unit_test(an_answer_repeats_the_question_with_its_case),
		cmocka_unit_test(edns_is_answered_with_edns),
		cmocka_unit_test(an_extended_error_is_a_part_of_the_opt),
		cmocka_unit_test(what_does_not_fit_is_marked_as_truncated),
		cmocka_unit_test(the_room_for_an_answer_is_what_the_client_says_within_bounds),
		cmocka_unit_test(wrong_questions_get_their_code_and_no_questions_get_none),
		cmocka_unit_test(every_cut_of_a_question_is_refused),
		cmocka_unit_test(a_question_has_mixed_case_and_room_for_1232_bytes),
		cmocka_unit_test(a_chain_is_followed_to_its_addresses_and_no_others),
		cmocka_unit_test(what_is_not_our_answer_is_told_apart),
		cmocka_unit_test(nothing_there_holds_as_long_as_the_soa_says),
		cmocka_unit_test(a_ttl_with_the_top_bit_is_zero),
		cmocka_unit_test(a_relayed_answer_has_the_answer_section_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
