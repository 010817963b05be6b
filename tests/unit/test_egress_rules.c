/* policy/{egress_addr,egress_entry}.c: what an entry may be, and the words for what not. */
#include "tests/unit/egress_policy.h"

/* --- entries ------------------------------------------------------------------------------ */

struct entry_row {
	const char *list, *entry;
	const char *why;	/* NULL: taken */
	const char *hint;
};

#define TAKEN(list, entry) { list, entry, NULL, NULL }
#define LIST_HINT "a name, *.name, .name, an address, a CIDR or ALL_TRAFFIC, each with :PORT and /udp if wanted"
#define STAR "a star is only allowed as its first label"
#define STAR_HINT "a star is a whole label, the first one: *.example.com"
#define NEITHER "it is neither a name nor an address"
#define NOBODY "it is the unspecified address, which nobody has"
#define NOBODY_HINT "for everything: ALL_TRAFFIC, 0.0.0.0/0 or ::/0"
#define PORT "its port is not a number from 1 to 65535"
#define HOSTS63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME253 HOSTS63 "." HOSTS63 "." HOSTS63 "." "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct entry_row entry_rows[] = {
	/* E3, E17: what must load */
	TAKEN("allow", "example.com"), TAKEN("allow", "Example.COM."),
	TAKEN("allow", "*.example.com"), TAKEN("allow", ".example.com"),
	TAKEN("allow", "xn--bcher-kva.example"), TAKEN("allow", "_dmarc.example.com"),
	TAKEN("allow", "localhost"), TAKEN("allow", NAME253),
	TAKEN("allow", "example.com:8443"), TAKEN("allow", "example.com:8000-8999"),
	TAKEN("allow", "example.com:53/udp"), TAKEN("allow", "example.com/udp"),
	TAKEN("allow", "example.com:443/tcp"), TAKEN("allow", "example.com:53/UDP"),
	TAKEN("deny", "ALL_TRAFFIC"), TAKEN("deny", "all_traffic"),
	TAKEN("deny", "All_Traffic:25"), TAKEN("deny", "ALL_TRAFFIC/udp"),
	TAKEN("deny", "0.0.0.0/0"), TAKEN("deny", "::/0"), TAKEN("deny", "240.0.0.0/4"),
	TAKEN("deny", "128.0.0.0/1"), TAKEN("deny", "255.255.255.255"),
	TAKEN("deny", "255.255.255.255/32"), TAKEN("deny", "255.255.255.254/31"),
	TAKEN("deny", "192.0.0.0/2"), TAKEN("deny", "224.0.0.0/3"), TAKEN("deny", "248.0.0.0/5"),
	TAKEN("deny", "255.0.0.0/8"), TAKEN("deny", "255.255.0.0/16"),
	TAKEN("deny", "255.255.255.0/24"), TAKEN("deny", "0.0.0.0/1"), TAKEN("deny", "::/1"),
	TAKEN("allow", "9.9.9.9:53/udp"), TAKEN("allow", "10.0.0.0/8:53/udp"),
	TAKEN("allow", "10.0.0.0/8/udp"), TAKEN("allow", "2001:db8::1"),
	TAKEN("allow", "[2001:db8::1]:443"), TAKEN("allow", "[2001:db8::]/32:443-444/udp"),
	TAKEN("allow", "[2001:db8::/32]:443"), TAKEN("allow", "2001:db8::/32"),
	TAKEN("allow", "::ffff:192.0.2.1"), TAKEN("allow", "::ffff:10.0.0.0/104"),
	TAKEN("private", "10.0.0.0/8"), TAKEN("private", "fd00::/8"),
	TAKEN("private", "127.0.0.1"), TAKEN("private", "0.0.0.0/0"),
	/* E3: what is no wildcard */
	{ "allow", "*", "a star stands for labels in front of a name",
	  "for everything: ALL_TRAFFIC" },
	{ "allow", "*.", NEITHER, LIST_HINT },
	{ "allow", "*.com", "it would be a whole top-level domain", "name the sites: *.example.com" },
	{ "allow", ".com", "it would be a whole top-level domain", "name the sites: *.example.com" },
	{ "allow", "*.*.com", STAR, STAR_HINT },
	{ "allow", "api*.com", STAR, STAR_HINT },
	{ "allow", "github.*", STAR, STAR_HINT },
	{ "allow", "*example.com", STAR, "did you mean *.example.com?" },
	/* names that are none */
	{ "allow", "a..b.test", "it has an empty label", LIST_HINT },
	{ "allow", "..example.com", "it has an empty label", LIST_HINT },
	{ "allow", "-a.test", NEITHER, LIST_HINT },
	{ "allow", "a b.test", NEITHER, LIST_HINT },
	{ "allow", "a.test\n", NEITHER, LIST_HINT },
	{ "allow", HOSTS63 "a.test", NEITHER, LIST_HINT },
	{ "allow", NAME253 "a", NEITHER, LIST_HINT },
	{ "allow", "1.2.3.4.5", NEITHER, LIST_HINT },
	{ "allow", "256.1.1.1", NEITHER, LIST_HINT },
	{ "allow", "a.test.0x1f", NEITHER, LIST_HINT },
	{ "allow", "b\303\274cher.test", "it is not ASCII",
	  "write it in punycode (xn--...), as DNS has it" },
	{ "allow", "[example.com]:80", "brackets are for an IPv6 address", LIST_HINT },
	{ "allow", "[::1]x", "something stands behind its bracket", LIST_HINT },
	/* addresses that are none, or in disguise (E31) */
	{ "allow", "0x7f.1", "it is an address in a spelling that others read as a name",
	  "did you mean 127.0.0.1?" },
	{ "allow", "2130706433", "it is an address in a spelling that others read as a name",
	  "did you mean 127.0.0.1?" },
	{ "allow", "0251.0376.0251.0376:80",
	  "it is an address in a spelling that others read as a name",
	  "did you mean 169.254.169.254?" },
	{ "allow", "fe80::1%eth0", "an address of a rule has no zone", "leave out what follows the %" },
	{ "allow", "1::2::3", "it is not an IPv6 address", LIST_HINT },
	{ "deny", "10.1.2.3/8", "it has bits set beyond its prefix", "did you mean 10.0.0.0/8?" },
	{ "deny", "2001:db8::1/32", "it has bits set beyond its prefix",
	  "did you mean 2001:db8::/32?" },
	{ "deny", "::ffff:10.0.0.1/104", "it has bits set beyond its prefix",
	  "did you mean 10.0.0.0/8?" },
	{ "deny", "10.0.0.0/33", "its prefix is not a number from 0 to 32", LIST_HINT },
	{ "deny", "10.0.0.0/", "its prefix is not a number from 0 to 32", LIST_HINT },
	{ "deny", "10.0.0.0/-1", "its prefix is not a number from 0 to 32", LIST_HINT },
	{ "deny", "2001:db8::/129", "its prefix is not a number from 0 to 128", LIST_HINT },
	{ "deny", "2001:db8::/32:443", "its prefix is not a number from 0 to 128",
	  "an IPv6 range with a port has brackets: [2001:db8::]/64:443" },
	/* E5 */
	{ "deny", "0.0.0.0", NOBODY, NOBODY_HINT }, { "deny", "0.0.0.0/32", NOBODY, NOBODY_HINT },
	{ "deny", "0.0.0.0/24", NOBODY, NOBODY_HINT }, { "deny", "::", NOBODY, NOBODY_HINT },
	{ "allow", "::/128", NOBODY, NOBODY_HINT }, { "allow", "0.0.0.0/8", NOBODY, NOBODY_HINT },
	{ "private", "0.0.0.0", NOBODY, NOBODY_HINT },
	{ "allow", "::ffff:0.0.0.0", NOBODY, NOBODY_HINT },
	/* ports and protocols */
	{ "allow", "a.test:", PORT, LIST_HINT }, { "allow", "a.test:0", PORT, LIST_HINT },
	{ "allow", "a.test:65536", PORT, LIST_HINT }, { "allow", "a.test:+80", PORT, LIST_HINT },
	{ "allow", "a.test:80-", PORT, LIST_HINT }, { "allow", "a.test:-80", PORT, LIST_HINT },
	{ "allow", "a.test:http", PORT, LIST_HINT },
	{ "allow", "a.test:00000000000000000080", PORT, LIST_HINT },
	{ "allow", "a.test:90-80", "its range of ports ends before it begins", LIST_HINT },
	{ "allow", "a.test/udp:53", "it is not an address with a prefix",
	  "the protocol comes last: HOST:PORT/udp" },
	{ "allow", "a.test/sctp", "it is not an address with a prefix",
	  "a rule has no path: give a.test" },
	/* what people paste */
	{ "allow", "http://a.test/x", "it is a URL", "give the host alone: a.test" },
	{ "allow", "https://a.test:8443", "it is a URL", "give the host alone: a.test:8443" },
	{ "allow", "a.test/index.html", "it is not an address with a prefix",
	  "a rule has no path: give a.test" },
	/* net.allow_private */
	{ "private", "intranet", "it is not an address or CIDR",
	  "names are resolved first, so only addresses count here: 10.0.0.0/8" },
	{ "private", "ALL_TRAFFIC", "it is not an address or CIDR",
	  "write 0.0.0.0/0 and ::/0 if it has to be all" },
	{ "private", "10.0.0.1:80", "it is an address with a port or protocol",
	  "ports belong into net.allow_out" },
};

static const char *key_of_word(const char *word)
{
	return strcmp(word, "allow") == 0  ? "net.allow_out" :
	       strcmp(word, "deny") == 0 ? "net.deny_out" : "net.allow_private";
}

static void every_entry_is_taken_or_refused_with_the_remedy(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(entry_rows); i++) {
		const struct entry_row *row = &entry_rows[i];
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf prefix = BUF_INIT(4096);
		struct policy p = { 0 };
		int code;

		assert_int_equal(rules_policy(&p, "", NULL), 0);
		/* the position counts from one, and this is the second */
		assert_int_equal(policy_set(&p, key_of_word(row->list), "192.0.2.200", NULL), 0);
		assert_int_equal(policy_set(&p, key_of_word(row->list), row->entry, NULL), 0);
		code = policy_check(&p, &err);
		if (code != (row->why ? NSBOX_E_POLICY : 0))
			fail_msg("%s: %d, %s", row->entry, code, err.message);
		buf_fmt(&prefix, "%s: entry 2, \"", key_of_word(row->list));
		if (row->why) {
			const char *why = strstr(err.message, "\": ");

			assert_memory_equal(err.message, prefix.data, prefix.len);
			assert_non_null(why);
			assert_string_equal(why + 3, row->why);
			assert_string_equal(err.hint, row->hint);
			assert_null(strchr(err.message, '\n'));
		}
		buf_free(&prefix);
		policy_free(&p);
	}
}

/* D22: not even in an error. */
static void an_entry_that_may_hold_a_secret_is_not_shown(void **state)
{
	static const char *const entries[] = {
		"user:sesame@a.test", "https://user:sesame@a.test/", "https://a.test/?key=sesame",
		"ftp://x@sesame@a.test",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct policy p = { 0 };

		assert_int_equal(rules_policy(&p, "", NULL), 0);
		assert_int_equal(policy_set(&p, "net.allow_out", entries[i], NULL), 0);
		assert_int_equal(policy_check(&p, &err), NSBOX_E_POLICY);
		assert_null(strstr(err.message, "sesame"));
		assert_string_equal(err.hint, "give the host alone: a.test");
		policy_free(&p);
	}
}

/* --- names -------------------------------------------------------------------------------- */

static void a_name_has_one_canonical_form(void **state)
{
	static const struct { const char *text; size_t len; const char *name; } rows[] = {
		{ "a.test", 6, "a.test" },	{ "A.TeSt.", 7, "a.test" },
		{ "a_b.test", 8, "a_b.test" },	{ "a.test\0", 7, NULL },
		{ "evil\0.a.test", 12, NULL },	{ "a.test..", 8, NULL },
		{ ".", 1, NULL },		{ "", 0, NULL },
		{ ".a.test", 7, NULL },		{ "a.test:80", 9, NULL },
		{ "u@a.test", 8, NULL },	{ "*.a.test", 8, NULL },
		{ "127.1", 5, NULL },		{ "0x7f.1", 6, NULL },
		{ "2130706433", 10, NULL },	{ "a.0x", 4, NULL },
		{ "a.1e", 4, "a.1e" },		{ "a\x80.test", 7, NULL },
		{ "::1", 3, NULL },		{ "a-.test", 7, NULL },
	};
	char out[EGRESS_NAME_MAX + 1], again[EGRESS_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool taken = egress_name_canonical(out, rows[i].text, rows[i].len);

		if (taken != (rows[i].name != NULL))
			fail_msg("%s: %d", rows[i].text, taken);
		if (!taken)
			continue;
		assert_string_equal(out, rows[i].name);
		assert_true(egress_name_canonical(again, out, strlen(out)));
		assert_string_equal(again, out);
	}
}

/* --- destinations to ask about --------------------------------------------------------------- */

static void a_destination_is_read_as_people_write_it(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		enum egress_proto proto;
		bool is_respelled;
	} rows[] = {
		{ "Example.org", "example.org", 443, EGRESS_TCP, false },
		{ "example.org:80", "example.org", 80, EGRESS_TCP, false },
		{ "example.org:53/udp", "example.org", 53, EGRESS_UDP, false },
		{ "192.0.2.1", "192.0.2.1", 443, EGRESS_TCP, false },
		{ "[2001:db8::1]:22", "2001:db8::1", 22, EGRESS_TCP, false },
		{ "2001:db8::1", "2001:db8::1", 443, EGRESS_TCP, false },
		{ "0x7f.1", "127.0.0.1", 443, EGRESS_TCP, true },
		{ "2852039166:80", "169.254.169.254", 80, EGRESS_TCP, true },
		{ "0251.0376.0251.0376", "169.254.169.254", 443, EGRESS_TCP, true },
		{ "0xA9FEA9FE", "169.254.169.254", 443, EGRESS_TCP, true },
		{ "169.254.43518", "169.254.169.254", 443, EGRESS_TCP, true },
	};
	char text[EGRESS_ADDR_TEXT];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct egress_asked a;

		if (egress_ask(&a, rows[i].text, &err) < 0)
			fail_msg("%s: %s", rows[i].text, err.message);
		assert_string_equal(a.dest.name ? a.dest.name : egress_addr_text(&a.addr, text),
				    rows[i].host);
		assert_int_equal(a.dest.port, rows[i].port);
		assert_int_equal(a.dest.proto, rows[i].proto);
		assert_int_equal(a.is_respelled, rows[i].is_respelled);
	}
}

static void what_is_no_destination_is_an_error(void **state)
{
	static const char *const rows[] = {
		"", "10.0.0.0/8", "*.a.test", "a.test:0", "http://a.test", "a.test/x", "[a.test]:1",
		"a.test:80-90", "1.2.3.4.5", "0x1ffffffff", "256.256.256.256", "08.1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct egress_asked a;

		if (egress_ask(&a, rows[i], &err) != NSBOX_E_USAGE)
			fail_msg("%s is taken", rows[i]);
		assert_true(err.message[0] && err.hint[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_entry_is_taken_or_refused_with_the_remedy),
		cmocka_unit_test(an_entry_that_may_hold_a_secret_is_not_shown),
		cmocka_unit_test(a_name_has_one_canonical_form),
		cmocka_unit_test(a_destination_is_read_as_people_write_it),
		cmocka_unit_test(what_is_no_destination_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
