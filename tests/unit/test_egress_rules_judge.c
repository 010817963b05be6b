/* policy/{egress_match,egress_private,egress_explain,egress_warn}.c: verdicts, and what is
 * said about them. */
#include "tests/unit/egress_policy.h"

#include <arpa/inet.h>

/* --- verdicts --------------------------------------------------------------------------- */

struct verdict_row {
	const char *words, *to;	/* "a.test@192.0.2.1:80": the name resolved to that */
	bool allowed;
	enum egress_why why;
	int rule;
};

static struct egress_verdict judge(const struct egress_rules *r, const char *to)
{
	const char *at = strchr(to, '@');
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char name[EGRESS_NAME_MAX + 1];
	struct egress_asked a;

	if (egress_ask(&a, at ? at + 1 : to, &err) < 0)
		fail_msg("%s: %s", to, err.message);
	if (at) {
		assert_true(egress_name_canonical(name, to, (size_t)(at - to)));
		a.dest.name = name;
	}
	return egress_judge(r, &a.dest);
}

#define ALLOW(rule) true, EGRESS_BY_ALLOW, rule
#define DENY(rule) false, EGRESS_BY_DENY, rule
#define DEFAULT(allowed) allowed, EGRESS_BY_DEFAULT, -1
#define PORT(rule) false, EGRESS_BY_PORT, rule
#define PRIVATE false, EGRESS_BY_PRIVATE, -1

static const struct verdict_row verdict_rows[] = {
	/* the default: D9 */
	{ "mode disabled", "a.test", false, EGRESS_BY_DISABLED, -1 },
	{ "mode disabled deny a.test", "192.0.2.1", false, EGRESS_BY_DISABLED, -1 },
	{ "", "a.test", DEFAULT(false) },
	{ "", "192.0.2.1", DEFAULT(false) },
	{ "", "[2001:db8::1]:80", DEFAULT(false) },
	{ "private 10.0.0.0/8", "10.0.0.1", DEFAULT(false) },
	{ "allow a.test", "b.test", DEFAULT(false) },
	{ "deny a.test", "b.test", DEFAULT(true) },
	{ "deny a.test", "192.0.2.1:22", DEFAULT(true) },
	{ "mode open", "a.test:22", DEFAULT(true) },
	{ "mode open allow a.test", "b.test", DEFAULT(true) },
	{ "mode open deny a.test", "a.test", DENY(0) },
	/* E1: names */
	{ "allow a.test", "A.Test.", ALLOW(0) },
	{ "allow a.test", "x.a.test", DEFAULT(false) }, /* E8 */
	{ "allow *.a.test", "x.a.test", ALLOW(0) },
	{ "allow *.a.test", "y.x.a.test", ALLOW(0) },
	{ "allow *.a.test", "a.test", DEFAULT(false) },
	{ "allow *.a.test", "nota.test", DEFAULT(false) },
	{ "allow *.a.test", "a.test.evil.test", DEFAULT(false) },
	{ "allow .a.test", "a.test", ALLOW(0) },
	{ "allow .a.test", "y.x.a.test", ALLOW(0) },
	{ "allow .a.test", "xa.test", DEFAULT(false) },
	{ "allow b.test a.test *.a.test", "x.a.test", ALLOW(2) },
	{ "allow .a.test x.a.test", "x.a.test", ALLOW(0) },
	/* ports */
	{ "allow a.test", "a.test:80", ALLOW(0) },
	{ "allow a.test", "a.test:8080", PORT(0) },
	{ "allow a.test", "a.test:443/udp", PORT(0) },
	{ "allow a.test:8080", "a.test:8080", ALLOW(0) },
	{ "allow a.test:8080", "a.test:443", PORT(0) },
	{ "allow a.test:8000-8080", "a.test:8000", ALLOW(0) },
	{ "allow a.test:8000-8080", "a.test:8080", ALLOW(0) },
	{ "allow a.test:8000-8080", "a.test:8081", PORT(0) },
	{ "allow a.test:8000-8080", "a.test:7999", PORT(0) },
	{ "allow a.test:53/udp", "a.test:53/udp", ALLOW(0) },
	{ "allow a.test:53/udp", "a.test:53", PORT(0) },
	{ "allow a.test/udp", "a.test:443/udp", ALLOW(0) },
	{ "allow a.test a.test:22", "a.test:22", ALLOW(1) },
	{ "allow 192.0.2.1", "192.0.2.1:22", ALLOW(0) },
	{ "allow 192.0.2.1", "192.0.2.1:53/udp", ALLOW(0) }, /* E11 */
	{ "allow 192.0.2.1/tcp", "192.0.2.1:53/udp", PORT(0) },
	{ "allow 192.0.2.0/24:53/udp", "192.0.2.9:53/udp", ALLOW(0) },
	{ "allow 192.0.2.0/24:53/udp", "192.0.2.9:53", PORT(0) },
	/* a name that is denied is denied on every port */
	{ "deny a.test", "a.test:8080", DENY(0) },
	{ "deny a.test", "a.test:53/udp", DENY(0) },
	{ "deny a.test:25", "a.test:26", DEFAULT(true) },
	{ "deny a.test:25", "a.test:25", DENY(0) },
	/* addresses and ranges; E17 */
	{ "allow 192.0.2.1", "192.0.2.2", DEFAULT(false) },
	{ "allow 203.0.113.0/24", "203.0.113.255", ALLOW(0) },
	{ "allow 203.0.113.0/24", "203.0.112.255", DEFAULT(false) },
	{ "allow 203.0.113.128/25", "203.0.113.127", DEFAULT(false) },
	{ "deny 128.0.0.0/1", "203.0.113.1", DENY(0) },
	{ "deny 128.0.0.0/1", "127.255.255.255", PRIVATE },
	{ "deny 128.0.0.0/1", "9.9.9.9", DEFAULT(true) },
	{ "deny 240.0.0.0/4 255.255.255.255", "255.255.255.255", DENY(0) },
	{ "deny 203.0.113.0/24 203.0.112.0/22 203.0.113.7", "203.0.113.7", DENY(0) },
	{ "deny 203.0.113.7 203.0.113.0/24", "203.0.113.8", DENY(1) },
	{ "allow 2001:db8::/32", "[2001:db8:ffff::1]:22", ALLOW(0) },
	{ "allow 2001:db8::/32", "[2001:db9::1]:22", DEFAULT(false) },
	{ "allow 2001:db8::/33", "[2001:db8:8000::1]:22", DEFAULT(false) },
	{ "allow 192.0.2.1", "[::ffff:192.0.2.1]:22", ALLOW(0) },
	{ "allow ::ffff:192.0.2.0/120", "192.0.2.77:22", ALLOW(0) },
	{ "allow 0.0.0.0/0", "[2001:db8::1]:22", DEFAULT(false) },
	{ "allow ::/0", "192.0.2.1:22", DEFAULT(false) },
	{ "allow ALL_TRAFFIC", "[2001:db8::1]:22", ALLOW(0) },
	{ "allow all_traffic", "192.0.2.1:22", ALLOW(0) },
	{ "allow all_traffic", "a.test:22", ALLOW(0) },
	/* a range opens no name, and closes any */
	{ "allow 192.0.2.0/24", "a.test", DEFAULT(false) },
	{ "allow 192.0.2.0/24", "a.test@192.0.2.1:443", DEFAULT(false) },
	{ "mode open deny 192.0.2.0/24", "a.test@192.0.2.1:443", DENY(0) },
	{ "mode open deny 192.0.2.0/24", "a.test@203.0.113.1:443", DEFAULT(true) },
	{ "allow 0.0.0.0/0", "a.test", ALLOW(0) },
	{ "allow 0.0.0.0/0", "a.test@[2001:db8::1]:443", DEFAULT(false) },
	/* what a translator makes of it is denied as well */
	{ "mode open deny 9.9.9.0/24", "[64:ff9b::909:909]:443", DENY(0) },
	{ "mode open deny 9.9.9.0/24", "[2002:909:909::1]:443", DENY(0) },
	{ "mode open deny 9.9.9.0/24", "[64:ff9b::808:808]:443", DEFAULT(true) },
	/* both precedences: D11, E6 */
	{ "allow a.test deny ALL_TRAFFIC", "a.test", ALLOW(0) },
	{ "allow a.test deny ALL_TRAFFIC", "b.test", DENY(0) },
	{ "allow a.test deny ALL_TRAFFIC deny-wins", "a.test", DENY(0) },
	{ "allow 0.0.0.0/0 deny 192.0.2.0/24", "192.0.2.1", ALLOW(0) },
	{ "allow 0.0.0.0/0 deny 192.0.2.0/24 deny-wins", "192.0.2.1", DENY(0) },
	{ "allow 192.0.2.0/24 deny 0.0.0.0/0", "192.0.2.1", ALLOW(0) },
	{ "allow 0.0.0.0/0 deny 0.0.0.0/0", "192.0.2.1", ALLOW(0) },
	{ "allow .a.test deny x.a.test", "x.a.test", ALLOW(0) },
	{ "allow .a.test deny x.a.test deny-wins", "x.a.test", DENY(0) },
	{ "allow .a.test deny x.a.test deny-wins", "y.a.test", ALLOW(0) },
	{ "allow a.test deny 192.0.2.0/24", "a.test@192.0.2.1:443", ALLOW(0) },
	{ "allow a.test deny 192.0.2.0/24 deny-wins", "a.test@192.0.2.1:443", DENY(0) },
	{ "allow a.test deny 192.0.2.0/24 deny-wins", "a.test@203.0.113.1:443", ALLOW(0) },
	{ "allow a.test deny a.test:25 deny-wins", "a.test", ALLOW(0) },
	/* E7, D12: private, whatever allows it */
	{ "allow 10.0.0.0/8", "10.1.2.3", PRIVATE },
	{ "allow ALL_TRAFFIC", "10.1.2.3", PRIVATE },
	{ "mode open", "10.1.2.3", PRIVATE },
	{ "allow a.test", "a.test@10.1.2.3:443", PRIVATE },
	{ "allow a.test", "a.test@127.0.0.1:443", PRIVATE },
	{ "allow a.test", "a.test@[::ffff:10.1.2.3]:443", PRIVATE },
	{ "allow a.test private 10.0.0.0/8", "a.test@10.1.2.3:443", ALLOW(0) },
	{ "allow a.test private 10.1.2.3", "a.test@10.1.2.4:443", PRIVATE },
	{ "allow 10.0.0.0/8 private 10.1.0.0/16", "10.1.2.3", ALLOW(0) },
	{ "allow 10.0.0.0/8 private 10.1.0.0/16", "10.2.2.3", PRIVATE },
	{ "mode open private 0.0.0.0/0", "10.1.2.3", DEFAULT(true) },
	{ "mode open private 0.0.0.0/0", "169.254.169.254:80", DEFAULT(true) },
	{ "mode open private 0.0.0.0/0", "[fd00::1]:80", PRIVATE },
	{ "mode open private ::/0", "[fd00::1]:80", DEFAULT(true) },
	{ "mode open private ::/0", "10.1.2.3", PRIVATE },
	{ "mode open private 10.0.0.0/8", "[64:ff9b::a01:203]:80", PRIVATE },
	{ "mode open private 64:ff9b::/96", "[64:ff9b::a01:203]:80", DEFAULT(true) },
	/* the addresses that stand for names are never lifted */
	{ "mode open private 0.0.0.0/0 allow 198.18.0.0/15", "198.18.0.1:80", PRIVATE },
	{ "mode open private ::/0", "[2001:2::1]:80", PRIVATE },
	{ "allow a.test private 198.18.0.0/15", "a.test@198.19.255.254:443", PRIVATE },
	/* E2B's meaning: E6 */
	{ "compat e2b", "a.test:22", DEFAULT(true) },
	{ "compat e2b allow 192.0.2.1", "203.0.113.1", DEFAULT(true) },
	{ "compat e2b deny 0.0.0.0/0", "192.0.2.1", DENY(0) },
	{ "compat e2b deny 0.0.0.0/0", "[2001:db8::1]:80", DENY(0) },
	{ "compat e2b deny 0.0.0.0/0", "a.test", DENY(0) },
	{ "compat e2b deny 0.0.0.0/0 allow 192.0.2.1", "192.0.2.1:22", ALLOW(0) },
	{ "compat e2b deny 0.0.0.0/0 allow 192.0.2.1", "192.0.2.2", DENY(0) },
	{ "compat e2b deny 192.0.2.0/24", "192.0.2.2", DENY(0) },
	{ "compat e2b deny 192.0.2.0/24", "203.0.113.1", DEFAULT(true) },
	{ "compat e2b deny 0.0.0.0/0 allow a.test *.b.test", "x.b.test", ALLOW(1) },
	{ "compat e2b deny 0.0.0.0/0 allow 0.0.0.0/0", "192.0.2.1", ALLOW(0) },
	{ "compat e2b allow 10.0.0.0/8", "10.0.0.1", PRIVATE },
};

static void every_destination_gets_its_verdict(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(verdict_rows); i++) {
		const struct verdict_row *row = &verdict_rows[i];
		struct egress_rules *r = rules_of(row->words);
		struct egress_verdict v = judge(r, row->to);

		if (v.allowed != row->allowed || v.why != row->why || v.rule != row->rule)
			fail_msg("%s -> %s: allowed %d, why %d, rule %d", row->words, row->to,
				 v.allowed, v.why, v.rule);
		free(r);
	}
}

/* --- the always-denied set ------------------------------------------------------------------ */

/* The ends of each range, and the neighbours that are not in it. */
static void the_always_denied_set_has_exact_edges(void **state)
{
	static const struct { const char *addr; bool is_public; } rows[] = {
		{ "0.255.255.255", 0 },	  { "1.0.0.0", 1 },	     { "9.255.255.255", 1 },
		{ "10.0.0.0", 0 },	  { "10.255.255.255", 0 },   { "11.0.0.0", 1 },
		{ "100.63.255.255", 1 },  { "100.64.0.0", 0 },	     { "100.127.255.255", 0 },
		{ "100.128.0.0", 1 },	  { "126.255.255.255", 1 },  { "127.0.0.0", 0 },
		{ "127.255.255.255", 0 }, { "128.0.0.0", 1 },	     { "169.253.255.255", 1 },
		{ "169.254.0.0", 0 },	  { "169.254.255.255", 0 },  { "169.255.0.0", 1 },
		{ "172.15.255.255", 1 },  { "172.16.0.0", 0 },	     { "172.31.255.255", 0 },
		{ "172.32.0.0", 1 },	  { "192.0.0.0", 0 },	     { "192.0.0.255", 0 },
		{ "192.0.1.0", 1 },	  { "192.0.2.1", 1 },	     { "192.167.255.255", 1 },
		{ "192.168.0.0", 0 },	  { "192.168.255.255", 0 },  { "192.169.0.0", 1 },
		{ "198.17.255.255", 1 },  { "198.18.0.0", 0 },	     { "198.19.255.255", 0 },
		{ "198.20.0.0", 1 },	  { "198.51.100.1", 1 },     { "203.0.113.1", 1 },
		{ "223.255.255.255", 1 }, { "224.0.0.0", 0 },	     { "239.255.255.255", 0 },
		{ "240.0.0.0", 0 },	  { "255.255.255.255", 0 },
		{ "::", 0 },		  { "::1", 0 },		     { "::2", 0 },
		{ "::8.8.8.8", 1 },	  { "::10.0.0.1", 0 },	     { "::ffff:8.8.8.8", 1 },
		{ "::ffff:169.254.169.254", 0 }, { "::ffff:0:10.0.0.1", 0 },
		{ "64:ff9b::8.8.8.8", 1 }, { "64:ff9b::10.0.0.1", 0 }, { "64:ff9b:1::8.8.8.8", 0 },
		{ "64:ff9b:2::1", 1 },	  { "100::1", 0 },	     { "100:0:0:1::1", 1 },
		{ "2001::f5ff:fffe", 0 }, /* Teredo of 10.0.0.1 */
		{ "2001::f7f7:f7f7", 1 }, /* of 8.8.8.8 */
		{ "2001:2::1", 0 },	  { "2001:2:1::1", 1 },	     { "2001:db8::1", 1 },
		{ "2002:a00:1::1", 0 },	  { "2002:808:808::1", 1 },  { "2606:4700::5efe:10.0.0.1", 0 },
		{ "2606:4700::200:5efe:10.0.0.1", 0 },		     { "2606:4700::5efe:8.8.8.8", 1 },
		{ "fbff:ffff::1", 1 },	  { "fc00::", 0 },	     { "fdff:ffff::1", 0 },
		{ "fd00:ec2::254", 0 },	  { "fe00::1", 1 },	     { "fe80::1", 0 },
		{ "febf::1", 0 },	  { "fec0::1", 0 },	     { "feff::1", 0 },
		{ "ff02::1", 0 },
	};
	struct egress_rules *r = rules_of("mode open");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_addr a = { .family = strchr(rows[i].addr, ':') ? 6 : 4 };
		struct egress_dest d = { .addr = &a, .proto = EGRESS_TCP, .port = 80 };
		struct egress_verdict v;

		assert_int_equal(inet_pton(a.family == 4 ? AF_INET : AF_INET6, rows[i].addr, a.bytes), 1);
		v = egress_judge(r, &d);
		if (v.allowed != rows[i].is_public)
			fail_msg("%s: allowed %d", rows[i].addr, v.allowed);
		assert_int_equal(v.why, rows[i].is_public ? EGRESS_BY_DEFAULT : EGRESS_BY_PRIVATE);
	}
	free(r);
}

/* E31 */
static void the_metadata_address_is_denied_in_every_spelling(void **state)
{
	static const char *const spellings[] = {
		"169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518",
		"[::ffff:169.254.169.254]:80", "[64:ff9b::a9fe:a9fe]:80", "[2002:a9fe:a9fe::1]:80",
		"[fd00:ec2::254]:80", "[::169.254.169.254]:80",
	};
	struct egress_rules *open = rules_of("mode open allow 0.0.0.0/0 ::/0");
	struct egress_rules *lifted = rules_of("mode open private 0.0.0.0/0 ::/0");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		struct egress_verdict v = judge(open, spellings[i]);

		if (v.allowed || v.why != EGRESS_BY_PRIVATE)
			fail_msg("%s: allowed %d, why %d", spellings[i], v.allowed, v.why);
		assert_true(judge(lifted, spellings[i]).allowed);
	}
	free(open);
	free(lifted);
}

/* --- lookups, names on the wire, ports --------------------------------------------------------- */

static void a_name_is_looked_up_when_any_port_of_it_may_be_reached(void **state)
{
	static const struct { const char *words, *name; bool allowed; } rows[] = {
		{ "allow a.test", "a.test", true },
		{ "allow a.test:25", "a.test", true },
		{ "allow a.test:53/udp", "a.test", true },
		{ "allow a.test", "b.test", false },
		{ "allow 192.0.2.0/24", "a.test", false },
		{ "allow ALL_TRAFFIC:25", "a.test", true },
		{ "", "a.test", false },
		{ "mode disabled", "a.test", false },
		{ "mode open", "a.test", true },
		{ "mode open deny a.test", "a.test", false },
		{ "mode open deny a.test:443", "a.test", true },
		{ "mode open deny a.test/tcp", "a.test", true },
		{ "mode open deny ALL_TRAFFIC:443", "a.test", true },
		{ "mode open deny ALL_TRAFFIC", "a.test", false },
		{ "allow a.test deny ALL_TRAFFIC", "a.test", true },
		{ "allow x.a.test deny .a.test deny-wins", "x.a.test", false },
		{ "allow a.test deny a.test:25 deny-wins", "a.test", true },
		{ "mode open deny 192.0.2.0/24", "a.test", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_rules *r = rules_of(rows[i].words);

		if (egress_judge_lookup(r, rows[i].name).allowed != rows[i].allowed)
			fail_msg("%s -> %s", rows[i].words, rows[i].name);
		free(r);
	}
}

static void names_on_the_wire_are_looked_at_where_a_rule_could_be_broken(void **state)
{
	static const struct { const char *words; bool of_name, of_addr, default_allows; } rows[] = {
		{ "allow a.test", true, false, false },
		{ "allow 192.0.2.1", true, false, false },
		{ "mode open", false, false, true },
		{ "mode open deny 192.0.2.1", false, false, true },
		{ "mode open deny a.test", true, true, true },
		/* nothing is left of the default: names are held to what was looked up */
		{ "compat e2b allow a.test deny 0.0.0.0/0", true, false, false },
		{ "mode open allow a.test deny ALL_TRAFFIC", true, false, false },
		{ "mode open allow a.test deny 0.0.0.0/0", false, false, true },
		{ "mode open deny ALL_TRAFFIC:443", false, false, true },
	};
	const struct egress_addr addr = { 4, { 192, 0, 2, 1 } };
	const struct egress_dest name = { .name = "a.test", .proto = EGRESS_TCP, .port = 443 };
	const struct egress_dest literal = { .addr = &addr, .proto = EGRESS_TCP, .port = 443 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_rules *r = rules_of(rows[i].words);

		if (egress_wants_names_checked(r, &name) != rows[i].of_name ||
		    egress_wants_names_checked(r, &literal) != rows[i].of_addr ||
		    egress_default_allows(r) != rows[i].default_allows)
			fail_msg("%s", rows[i].words);
		free(r);
	}
}

static void the_ports_that_are_allowed_are_known(void **state)
{
	static const struct { const char *words; int count; uint16_t ports[4]; } rows[] = {
		{ "", 0, { 0 } },
		{ "allow a.test", 2, { 80, 443 } },
		{ "allow a.test b.test:22 c.test:22", 3, { 22, 80, 443 } },
		{ "allow 192.0.2.1:25", 1, { 25 } },
		{ "allow a.test:53/udp", 0, { 0 } },
		{ "allow a.test:1-4", 4, { 1, 2, 3, 4 } },
		{ "allow a.test:1-5", -1, { 0 } },
		{ "allow a.test b.test:1-3", -1, { 0 } },
		{ "allow 192.0.2.1", -1, { 0 } },
		{ "mode open", -1, { 0 } },
		{ "allow a.test:22 deny b.test:25", 1, { 22 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_rules *r = rules_of(rows[i].words);
		uint16_t ports[4] = { 0 };

		if (egress_ports(r, ports, 4) != rows[i].count)
			fail_msg("%s", rows[i].words);
		for (int n = 0; n < rows[i].count; n++)
			assert_int_equal(ports[n], rows[i].ports[n]);
		free(r);
	}
}

/* --- words ----------------------------------------------------------------------------------- */

static void a_denial_names_the_rule_and_the_flag_that_would_allow_it(void **state)
{
	static const struct { const char *words, *to, *what, *rule, *allow; } rows[] = {
		{ "allow a.test", "b.test", "connect b.test:443", "net.allow_out (not listed)",
		  "--allow-out b.test" },
		{ "allow a.test", "b.test:22", "connect b.test:22", "net.allow_out (not listed)",
		  "--allow-out b.test:22" },
		{ "allow a.test", "a.test:443/udp", "send a.test:443/udp",
		  "net.allow_out=a.test (other ports)", "--allow-out a.test:443/udp" },
		{ "allow a.test", "[2001:db8::1]:80", "connect [2001:db8::1]:80",
		  "net.allow_out (not listed)", "--allow-out [2001:db8::1]:80" },
		{ "allow a.test", "10.0.0.1:80", "connect 10.0.0.1:80", "net.allow_out (not listed)",
		  "--allow-out 10.0.0.1:80 --allow-private 10.0.0.1" },
		{ "allow a.test private 10.0.0.0/8", "10.0.0.1:80", "connect 10.0.0.1:80",
		  "net.allow_out (not listed)", "--allow-out 10.0.0.1:80" },
		{ "allow 10.0.0.1", "10.0.0.1:80", "connect 10.0.0.1:80",
		  "always denied: private 10.0.0.0/8", "--allow-private 10.0.0.1" },
		{ "mode open", "[::ffff:169.254.169.254]:80", "connect 169.254.169.254:80",
		  "always denied: link-local 169.254.0.0/16", "--allow-private 169.254.169.254" },
		{ "mode open", "198.18.0.1:80", "connect 198.18.0.1:80",
		  "always denied: benchmarks 198.18.0.0/15", "" },
		{ "allow a.test", "0:80", "connect 0.0.0.0:80", "net.allow_out (not listed)", "" },
		{ "deny 9.9.9.0/24", "9.9.9.9:53/udp", "send 9.9.9.9:53/udp",
		  "net.deny_out=9.9.9.0/24", "" },
		{ "mode open deny 9.9.9.0/24", "9.9.9.9", "connect 9.9.9.9:443",
		  "net.deny_out=9.9.9.0/24", "--allow-out 9.9.9.9:443" },
		{ "mode open deny 9.9.9.0/24 deny-wins", "9.9.9.9", "connect 9.9.9.9:443",
		  "net.deny_out=9.9.9.0/24", "" },
		{ "allow a.test deny ALL_TRAFFIC", "b.test", "connect b.test:443",
		  "net.deny_out=ALL_TRAFFIC", "--allow-out b.test" },
		{ "", "b.test", "connect b.test:443", "net.mode=filtered (nothing is allowed)",
		  "--allow-out b.test" },
		{ "mode disabled", "b.test", "connect b.test:443", "net.mode=disabled",
		  "--net filtered --allow-out b.test" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf what = BUF_INIT(512), rule = BUF_INIT(512), allow = BUF_INIT(512);
		struct egress_rules *r = rules_of(rows[i].words);
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct egress_verdict v;
		struct egress_asked a;

		assert_int_equal(egress_ask(&a, rows[i].to, &err), 0);
		v = egress_judge(r, &a.dest);
		assert_false(v.allowed);
		egress_explain_denial(r, &a.dest, &v, NULL,
				      &(struct egress_words){ &what, &rule, &allow });
		assert_string_equal(buf_text(&what), rows[i].what);
		assert_string_equal(buf_text(&rule), rows[i].rule);
		assert_string_equal(buf_text(&allow), rows[i].allow);
		buf_free(&what);
		buf_free(&rule);
		buf_free(&allow);
		free(r);
	}
}

/* "--allow-out b.test --allow-private 10.0.0.1" in the words of rules_policy() */
static void put_flags_as_words(struct buf *out, const char *flags)
{
	static const char *const pairs[][2] = { { "--allow-out ", "allow " },
						{ "--allow-private ", "private " } };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const char *value = strstr(flags, pairs[i][0]);

		if (!value)
			continue;
		value += strlen(pairs[i][0]);
		buf_fmt(out, " %s%.*s", pairs[i][1], (int)strcspn(value, " "), value);
	}
}

static void check_offer(const char *words, const char *to)
{
	struct buf what = BUF_INIT(512), rule = BUF_INIT(512), allow = BUF_INIT(512);
	struct egress_rules *r = rules_of(words), *then;
	struct buf more = BUF_INIT(1024);
	struct egress_verdict v;
	struct egress_asked a;

	assert_int_equal(egress_ask(&a, to, NULL), 0);
	v = egress_judge(r, &a.dest);
	egress_explain_denial(r, &a.dest, &v, NULL,
			      &(struct egress_words){ &what, &rule, &allow });
	if (v.allowed == (allow.len > 0))
		fail_msg("%s -> %s: allowed %d, offers \"%s\"", words, to, v.allowed, buf_text(&allow));
	buf_str(&more, words);
	put_flags_as_words(&more, buf_text(&allow));
	then = rules_of(buf_text(&more));
	if (!judge(then, to).allowed)
		fail_msg("%s: %s is denied still", buf_text(&more), to);
	free(r);
	free(then);
	buf_free(&what);
	buf_free(&rule);
	buf_free(&allow);
	buf_free(&more);
}

static void the_flags_that_are_offered_do_allow_it(void **state)
{
	static const char *const tos[] = { "b.test", "b.test:22", "b.test:53/udp", "192.0.2.7",
					   "10.0.0.1:80", "[fd00::1]:80", "[64:ff9b::a00:1]:80" };
	static const char *const words[] = { "allow a.test", "mode open", "mode filtered",
					     "mode open deny b.test 192.0.2.0/24",
					     "allow a.test deny ALL_TRAFFIC",
					     "allow 10.0.0.0/8 fd00::/8" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (size_t j = 0; j < ARRAY_SIZE(tos); j++)
			check_offer(words[i], tos[j]);
}

static void rules_without_effect_are_told(void **state)
{
	static const struct { const char *words, *warning; } rows[] = {
		{ "allow a.test deny ALL_TRAFFIC", NULL },
		{ "allow 0.0.0.0/0 deny 192.0.2.0/24",
		  "net.deny_out \"192.0.2.0/24\" has no effect: net.allow_out \"0.0.0.0/0\" has all of it, and allow wins (--set net.precedence=deny turns that round)" },
		{ "allow 0.0.0.0/0 deny 192.0.2.0/24 deny-wins", NULL },
		{ "allow 192.0.2.0/24 deny 192.0.0.0/16", NULL },
		{ "allow .a.test deny x.a.test", NULL }, /* ports other than 80 and 443 are left */
		{ "allow .a.test:1-65535 deny x.a.test", NULL }, /* UDP is left */
		{ "allow .a.test deny x.a.test:80/tcp",
		  "net.deny_out \"x.a.test:80/tcp\" has no effect: net.allow_out \".a.test\" has all of it, and allow wins (--set net.precedence=deny turns that round)" },
		{ "allow *.a.test deny a.test:80/tcp", NULL },
		{ "allow *.a.test deny *.a.test:443/tcp",
		  "net.deny_out \"*.a.test:443/tcp\" has no effect: net.allow_out \"*.a.test\" has all of it, and allow wins (--set net.precedence=deny turns that round)" },
		{ "allow ALL_TRAFFIC deny ALL_TRAFFIC:25",
		  "net.deny_out \"ALL_TRAFFIC:25\" has no effect: net.allow_out \"ALL_TRAFFIC\" has all of it, and allow wins (--set net.precedence=deny turns that round)" },
		{ "allow ALL_TRAFFIC deny a.test",
		  "net.deny_out \"a.test\" has no effect: net.allow_out \"ALL_TRAFFIC\" has all of it, and allow wins (--set net.precedence=deny turns that round)" },
		{ "", "net.mode=filtered without net.allow_out and net.deny_out reaches nothing" },
		{ "deny 0.0.0.0/0", "net.deny_out has all of IPv4 and not IPv6; ALL_TRAFFIC is both" },
		{ "deny 0.0.0.0/0 ::/0", NULL },
		{ "compat e2b deny 0.0.0.0/0", NULL },
		{ "mode disabled", NULL },
		{ "allow 10.0.0.0/8",
		  "net.allow_out \"10.0.0.0/8\" leads nowhere: private 10.0.0.0/8 is always denied without net.allow_private" },
		{ "allow 10.0.0.0/8 private 10.1.0.0/16", NULL },
		{ "allow 10.1.0.0/16 private 10.0.0.0/8", NULL },
		{ "allow 8.0.0.0/5", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct strlist out = { 0 };
		struct policy p = { 0 };

		assert_int_equal(rules_policy(&p, rows[i].words, NULL), 0);
		assert_int_equal(egress_warnings(&p, &out), 0);
		if (out.n != (rows[i].warning ? 1 : 0))
			fail_msg("%s: %zu, %s", rows[i].words, out.n, out.n ? out.v[0] : "");
		if (out.n)
			assert_string_equal(out.v[0], rows[i].warning);
		strlist_free(&out);
		policy_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_destination_gets_its_verdict),
		cmocka_unit_test(the_always_denied_set_has_exact_edges),
		cmocka_unit_test(the_metadata_address_is_denied_in_every_spelling),
		cmocka_unit_test(a_name_is_looked_up_when_any_port_of_it_may_be_reached),
		cmocka_unit_test(names_on_the_wire_are_looked_at_where_a_rule_could_be_broken),
		cmocka_unit_test(the_ports_that_are_allowed_are_known),
		cmocka_unit_test(a_denial_names_the_rule_and_the_flag_that_would_allow_it),
		cmocka_unit_test(the_flags_that_are_offered_do_allow_it),
		cmocka_unit_test(rules_without_effect_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
