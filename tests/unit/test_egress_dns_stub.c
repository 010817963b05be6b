/*
 * test_egress_dns_stub.c - the box's name server: what it says to every type of question, and
 * what it asks upstream
 */
#include "stub_rig.h"

/* --- lists that allow ---------------------------------------------------------------------------------- */

static void an_allowed_name_has_a_fake_address_and_nobody_is_asked(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.1");
	assert_memory_equal(r.p + r.len - 10, "\0\0\0\74", 4); /* the TTL */
	assert_int_equal(ask(&r, "A.Test", DNS_AAAA), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET6), "2001:2::1");
	assert_int_equal(ask(&r, "apex.example", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.2");
	assert_string_equal(names_get(r.stub.names, 1), "a.test");
	assert_int_equal(r.server.queries, 0);
	assert_int_equal(r.ledger.denial_count, 0);
	assert_int_equal(r.ledger.totals.lookups, 3);
	rig_down(&r);
}

static void without_ipv6_in_the_box_there_is_no_aaaa(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	r.stub.has_v6 = false;
	assert_int_equal(ask(&r, "a.test", DNS_AAAA), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_null(names_get(r.stub.names, 1));
	rig_down(&r);
}

static void every_other_type_of_an_allowed_name_is_empty_or_refused(void **state)
{
	static const uint16_t refused[] = { DNS_SVCB, DNS_HTTPS, DNS_ANY, DNS_OPT, 128, 249, 250,
					    251, 252, 253, 254 };
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (unsigned type = 1; type < 1024; type++) {
		unsigned want = DNS_NOERROR;

		if (type == DNS_A || type == DNS_AAAA)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
			if (refused[i] == type || (type >= 128 && type <= 255))
				want = DNS_REFUSED;
		assert_int_equal(ask(&r, "a.test", (uint16_t)type), want);
		assert_int_equal(records(&r), 0);
	}
	assert_int_equal(r.server.queries, 0);
	assert_int_equal(r.ledger.denial_count, 0);
	assert_null(names_get(r.stub.names, 1));
	rig_down(&r);
}

static void a_denied_name_does_not_exist_is_noted_and_not_asked_for(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (unsigned type = 1; type < 300; type++)
		assert_int_equal(ask(&r, "evil.example", (uint16_t)type), DNS_NXDOMAIN);
	assert_int_equal(r.server.queries, 0);
	assert_int_equal(r.ledger.denial_count, 1);
	assert_int_equal(r.ledger.denials[0].count, 299);
	assert_denied(&r, 0, "lookup evil.example", "net.allow_out (not listed)");
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR); /* control */
	rig_down(&r);
}

/* What resolvers keep needs an SOA; what says why needs EDNS, and a client that has it. */
static void a_denied_name_is_not_kept_and_edns_says_why(void **state)
{
	static const char opt[] = "\0" "\0\51" "\4\xd0" "\0\0\0\0" "\0\6" "\0\17" "\0\2" "\0\17";
	struct dns_query q = { .id = 0x4242, .type = DNS_A, .class = DNS_CLASS_IN, .has_edns = true };
	uint8_t p[DNS_QUERY_MAX];
	struct rig r;
	const struct stub_client client = { on_answer, &r, false };
	size_t n;

	(void)state;
	rig_up(&r, allow_test, NULL);
	n = query_bytes(p, "evil.example", DNS_A);
	assert_int_equal(ask(&r, "evil.example", DNS_A), DNS_NXDOMAIN);
	assert_int_equal(r.len, n);
	assert_memory_equal(r.p + 6, "\0\0\0\0\0\0", 6);
	assert_true(dns_name_set(&q.name, "evil.example"));
	n = dns_write_query(p, sizeof(p), &q);
	assert_int_equal(stub_ask(&r.stub, p, n, &client), 0);
	assert_int_equal(r.p[3] & 15, DNS_NXDOMAIN);
	assert_memory_equal(r.p + 6, "\0\0\0\0\0\1", 6);
	assert_int_equal(r.len, n + 6);
	assert_memory_equal(r.p + r.len - 17, opt, 17);
	q.type = DNS_HTTPS; /* control: another refusal has no such option */
	assert_true(dns_name_set(&q.name, "a.test"));
	n = dns_write_query(p, sizeof(p), &q);
	assert_int_equal(stub_ask(&r.stub, p, n, &client), 0);
	assert_int_equal(r.p[3] & 15, DNS_REFUSED);
	assert_int_equal(r.len, n);
	rig_down(&r);
}

static void what_is_no_host_name_does_not_exist(void **state)
{
	static const char *const names[] = { "", "1.2.3.4", "0x7f.1", "a b.test", "a*.test" };
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(ask(&r, names[i], DNS_A), DNS_NXDOMAIN);
	assert_int_equal(r.ledger.denial_count, ARRAY_SIZE(names));
	assert_denied(&r, 0, "lookup . (type 1)", "always denied: not a host name");
	assert_denied(&r, 3, "lookup a name with odd bytes (type 1)",
		      "always denied: not a host name");
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

static void a_question_of_another_class_is_refused(void **state)
{
	uint8_t p[DNS_QUERY_MAX];
	struct rig r;
	const struct stub_client client = { on_answer, &r, false };
	size_t n = query_bytes(p, "a.test", DNS_TXT);

	(void)state;
	rig_up(&r, allow_test, NULL);
	p[n - 1] = 3; /* CH */
	assert_int_equal(stub_ask(&r.stub, p, n, &client), 0);
	assert_int_equal(r.p[3] & 15, DNS_REFUSED);
	assert_int_equal(r.ledger.denial_count, 1);
	rig_down(&r);
}

static void the_services_of_an_allowed_name_are_empty_and_no_denial(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (const char *const[]){ "apex.example", NULL }, NULL);
	assert_int_equal(ask(&r, "_http._tcp.apex.example", DNS_SRV), DNS_NOERROR);
	assert_int_equal(r.ledger.denial_count, 0);
	assert_int_equal(ask(&r, "_http._tcp.other.example", DNS_SRV), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "_x.apex.example", DNS_A), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "_443._https.apex.example", DNS_HTTPS), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "_x", DNS_SRV), DNS_NXDOMAIN);
	assert_int_equal(r.ledger.denial_count, 4);
	rig_down(&r);
}

static void localhost_is_the_box_itself(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "localhost", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "127.0.0.1");
	assert_int_equal(ask(&r, "x.LocalHost", DNS_AAAA), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET6), "::1");
	assert_int_equal(ask(&r, "localhost", DNS_MX), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_int_equal(ask(&r, "1.0.0.127.in-addr.arpa", DNS_PTR), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.ledger.denial_count, 0);
	rig_down(&r);
}

static void a_fake_address_has_its_name_and_others_have_none(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "1.0.18.198.in-addr.arpa", DNS_PTR), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "1.0.18.198.in-addr.arpa", DNS_PTR), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_memory_equal(r.p + r.len - 8, "\1a\4test\0", 8);
	assert_int_equal(ask(&r, "1.0.18.198.in-addr.arpa", DNS_A), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_int_equal(ask(&r, "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.2"
			     ".ip6.arpa", DNS_PTR), DNS_NOERROR);
	assert_memory_equal(r.p + r.len - 8, "\1a\4test\0", 8);
	assert_int_equal(ask(&r, "8.8.8.8.in-addr.arpa", DNS_PTR), DNS_NXDOMAIN);
	assert_denied(&r, 1, "lookup 8.8.8.8.in-addr.arpa (type 12)", "always denied: reverse lookup");
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

static void a_full_table_is_a_cap(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "b.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "c.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "x.d.test", DNS_A), DNS_SERVFAIL);
	assert_int_equal(r.ledger.totals.cap, CAP_NAMES);
	assert_denied(&r, 0, "lookup x.d.test", "net.names=3");
	assert_string_equal(r.ledger.denials[0].allow, "--set net.names=6");
	assert_int_equal(ask(&r, "b.test", DNS_A), DNS_NOERROR);
	rig_down(&r);
}

/* --- lists that deny --------------------------------------------------------------------------------- */

static void where_all_is_allowed_a_name_must_exist(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	assert_int_equal(ask(&r, "there.test", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.1");
	assert_int_equal(r.server.queries, 2);
	assert_int_equal(ask(&r, "there.test", DNS_AAAA), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET6), "2001:2::1");
	assert_int_equal(ask(&r, "none.test", DNS_A), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "text.test", DNS_A), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_int_equal(ask(&r, "broken.test", DNS_A), DNS_SERVFAIL);
	assert_null(names_get(r.stub.names, 2)); /* what is not there takes no number */
	rig_down(&r);
}

static void where_all_is_allowed_a_denied_name_is_still_not_asked_for(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	for (unsigned type = 1; type < 300; type++)
		assert_int_equal(ask(&r, "bad.test", (uint16_t)type), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "there.test", DNS_HTTPS), DNS_REFUSED);
	assert_int_equal(ask(&r, "there.test", DNS_ANY), DNS_REFUSED);
	assert_int_equal(ask(&r, "there.test", 4711), DNS_NOERROR);
	assert_int_equal(r.server.queries, 0);
	assert_denied(&r, 0, "lookup bad.test", "net.deny_out=bad.test");
	rig_down(&r);
}

static void where_all_is_allowed_plain_data_is_passed_on(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	assert_int_equal(ask(&r, "there.test", DNS_TXT), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_memory_equal(r.p + r.len - 5, "\4text", 5);
	assert_string_equal(r.server.last, "there.test");
	assert_int_equal(ask(&r, "there.test", DNS_MX), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_int_equal(ask(&r, "cut.test", DNS_TXT), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.server.tcp_queries, 1);
	assert_int_equal(ask(&r, "none.test", DNS_TXT), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "lying.test", DNS_TXT), DNS_SERVFAIL);
	assert_int_equal(ask(&r, "broken.test", DNS_MX), DNS_SERVFAIL);
	rig_down(&r);
}

static void behind_a_proxy_nobody_is_asked(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	r.config.proxy.kind = PROXY_HTTP;
	assert_int_equal(ask(&r, "there.test", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.1");
	assert_int_equal(ask(&r, "there.test", DNS_MX), DNS_NOERROR);
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

static void questions_under_way_are_bounded_and_end_with_the_stub(void **state)
{
	unsigned waiting = 0;
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	for (int i = 0; i < 1100; i++)
		send_ask(&r, "slow.test", DNS_A);
	waiting = 1100 - r.answers;
	assert_int_equal(waiting, 1024);
	assert_int_equal(r.p[3] & 15, DNS_SERVFAIL);
	send_ask(&r, "there.test", DNS_TXT);
	assert_int_equal(r.p[3] & 15, DNS_SERVFAIL);
	rig_down(&r);
	assert_int_equal(r.answers, 1101);
	assert_int_equal(r.len, 0);
}

static void relays_under_way_are_bounded(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	for (int i = 0; i < 70; i++)
		send_ask(&r, "there.test", DNS_TXT);
	assert_int_equal(r.answers, 6);
	rig_down(&r);
	assert_int_equal(r.answers, 70);
}

static void garbage_gets_no_answer_or_a_code(void **state)
{
	uint8_t p[DNS_QUERY_MAX];
	struct rig r;
	const struct stub_client client = { on_answer, &r, false };
	size_t n = query_bytes(p, "a.test", DNS_A);

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (size_t len = 0; len < n; len++) {
		r.len = 1;
		assert_int_equal(stub_ask(&r.stub, p, len, &client), 0);
		assert_int_equal(r.answers, len + 1);
		assert_int_equal(r.len, len < DNS_HEADER ? 0 : DNS_HEADER);
		if (r.len)
			assert_int_equal(r.p[3] & 15, DNS_FORMERR);
	}
	assert_int_equal(r.ledger.totals.lookups, 0);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_allowed_name_has_a_fake_address_and_nobody_is_asked),
		cmocka_unit_test(without_ipv6_in_the_box_there_is_no_aaaa),
		cmocka_unit_test(every_other_type_of_an_allowed_name_is_empty_or_refused),
		cmocka_unit_test(a_denied_name_does_not_exist_is_noted_and_not_asked_for),
		cmocka_unit_test(a_denied_name_is_not_kept_and_edns_says_why),
		cmocka_unit_test(what_is_no_host_name_does_not_exist),
		cmocka_unit_test(a_question_of_another_class_is_refused),
		cmocka_unit_test(the_services_of_an_allowed_name_are_empty_and_no_denial),
		cmocka_unit_test(localhost_is_the_box_itself),
		cmocka_unit_test(a_fake_address_has_its_name_and_others_have_none),
		cmocka_unit_test(a_full_table_is_a_cap),
		cmocka_unit_test(where_all_is_allowed_a_name_must_exist),
		cmocka_unit_test(where_all_is_allowed_a_denied_name_is_still_not_asked_for),
		cmocka_unit_test(where_all_is_allowed_plain_data_is_passed_on),
		cmocka_unit_test(behind_a_proxy_nobody_is_asked),
		cmocka_unit_test(questions_under_way_are_bounded_and_end_with_the_stub),
		cmocka_unit_test(relays_under_way_are_bounded),
		cmocka_unit_test(garbage_gets_no_answer_or_a_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
