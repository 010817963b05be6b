/*
 * test_egress_ranges.c - the rules as ranges for a packet filter say what the matcher says
 *
 * The filter of tools/veth/rules.c is played here in C, and asked about every border of
 * every range; what it cannot say is refused by the check.
 */
#include "base/cleanup.h"
#include "policy/egress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct filter {
	struct egress_rules *rules;
	struct egress_range *v;
	long n;
};

static void set(struct policy *p, const char *key, const char *value)
{
	assert_int_equal(policy_set(p, key, value, NULL), 0);
}

/* "key=value" ... NULL */
static void read_settings(struct policy *p, const char *const *settings)
{
	assert_int_equal(policy_init(p, NULL), 0);
	set(p, "net.mode", "filtered");
	set(p, "net.path", "veth");
	for (; *settings; settings++) {
		char key[64];
		size_t n = strcspn(*settings, "=");

		assert_true(n < sizeof(key));
		memcpy(key, *settings, n);
		key[n] = '\0';
		set(p, key, *settings + n + 1);
	}
}

/* --- the filter, in C --------------------------------------------------------------------- */

static bool has(const struct filter *f, uint32_t a, uint8_t list)
{
	for (long i = 0; i < f->n; i++)
		if (f->v[i].list == list && a >= f->v[i].first && a <= f->v[i].last)
			return true;
	return false;
}

static bool lists(const struct filter *f, const struct egress_dest *d, uint32_t a, uint8_t list)
{
	for (long i = 0; i < f->n; i++) {
		const struct egress_range *r = &f->v[i];
		bool fits = d->proto == EGRESS_TCP ? r->has_tcp : r->has_udp;

		if (r->list == list && a >= r->first && a <= r->last && fits &&
		    d->port >= r->first_port && d->port <= r->last_port)
			return true;
	}
	return false;
}

static bool passes(const struct filter *f, const struct egress_dest *d, uint32_t a)
{
	bool allow = lists(f, d, a, EGRESS_ALLOWED), deny = lists(f, d, a, EGRESS_DENIED);

	if (has(f, a, EGRESS_ALWAYS_DENIED) && !has(f, a, EGRESS_LIFTED))
		return false;
	if (allow && deny)
		return !egress_deny_wins(f->rules);
	return allow || (!deny && egress_default_allows(f->rules));
}

/* --- against the matcher --------------------------------------------------------------------- */

static void compare_at(const struct filter *f, uint32_t a)
{
	static const uint16_t ports[] = { 1, 53, 79, 80, 90, 91, 443, 65535 };
	struct egress_addr addr = { .family = 4 };

	for (int i = 0; i < 4; i++)
		addr.bytes[i] = (uint8_t)(a >> (24 - 8 * i));
	if (addr.bytes[0] == 198 && (addr.bytes[1] & 0xfe) == 18)
		return; /* fake addresses: the inlet's alone */
	for (size_t i = 0; i < ARRAY_SIZE(ports) * 2; i++) {
		const struct egress_dest d = { .addr = &addr, .port = ports[i / 2],
					       .proto = i % 2 ? EGRESS_UDP : EGRESS_TCP };
		char text[EGRESS_ADDR_TEXT];

		if (egress_judge(f->rules, &d).allowed != passes(f, &d, a))
			fail_msg("%s:%u/%s: the matcher and the ranges differ",
				 egress_addr_text(&addr, text), d.port, i % 2 ? "udp" : "tcp");
	}
}

static void compare(const char *const *settings)
{
	struct policy p = { 0 };
	struct filter f;

	read_settings(&p, settings);
	assert_int_equal(policy_check(&p, NULL), 0);
	assert_int_equal(egress_compile(&f.rules, &p, NULL), 0);
	f.n = egress_ranges4(f.rules, &f.v);
	assert_true(f.n > 0);
	for (long i = 0; i < f.n; i++) {
		compare_at(&f, f.v[i].first - 1);
		compare_at(&f, f.v[i].first);
		compare_at(&f, f.v[i].first + 1);
		compare_at(&f, f.v[i].last);
		compare_at(&f, f.v[i].last + 1);
	}
	for (uint32_t a = 0, n = 0; n < 4096; n++, a += 0x000ffff1)
		compare_at(&f, a);
	free(f.v);
	free(f.rules);
	policy_free(&p);
}

static void the_ranges_say_what_the_matcher_says(void **state)
{
	static const char *const nothing[] = { NULL };
	static const char *const allow[] = {
		"net.allow_out=203.0.113.0/24", "net.allow_out=203.0.113.9",
		"net.allow_out=255.255.255.0/24", "net.allow_out=198.51.100.7:80-90/tcp",
		"net.allow_out=198.51.100.8:53/udp", "net.allow_out=10.0.0.0/8",
		"net.deny_out=203.0.113.128/25", "net.allow_private=10.1.0.0/16", NULL,
	};
	static const char *const deny_wins[] = {
		"net.precedence=deny", "net.allow_out=203.0.113.0/24",
		"net.deny_out=203.0.113.128/25", "net.deny_out=203.0.113.1:443", NULL,
	};
	static const char *const deny_alone[] = {
		"net.deny_out=203.0.113.0/24", "net.deny_out=198.51.100.0/24:80",
		"net.allow_private=192.168.7.0/24", NULL,
	};
	static const char *const all[] = {
		"net.allow_out=ALL_TRAFFIC", "net.deny_out=203.0.113.0/24", NULL,
	};
	static const char *const open[] = { "net.mode=open", "net.allow_private=0.0.0.0/0", NULL };

	(void)state;
	compare(nothing);
	compare(allow);
	compare(deny_wins);
	compare(deny_alone);
	compare(all);
	compare(open);
}

static void what_ranges_cannot_say_is_refused(void **state)
{
	static const char *const rows[][3] = {
		{ "net.allow_out=example.org", NULL, "\"example.org\"" },
		{ "net.deny_out=*.example.org:80", NULL, "\"*.example.org:80\"" },
		{ "net.allow_out=2001:db8::/32", NULL, "\"2001:db8::/32\"" },
		{ "net.allow_out=[2001:db8::1]:80", NULL, "\"[2001:db8::1]:80\"" },
		{ "net.allow_private=fd00::/8", NULL, "\"fd00::/8\"" },
		{ "net.publish=8080:80", NULL, "net.publish" },
		{ "net.proxy=http://192.0.2.1:3128", NULL, "net.proxy" },
		{ "net.connections=5", NULL, "net.connections" },
		{ "net.names=5", NULL, "net.names" },
		{ "net.bytes=1M", NULL, "net.bytes" },
		{ "net.host_bytes=1M", NULL, "net.host_bytes" },
		{ "net.mode=disabled", NULL, "net.mode is disabled" },
	};
	static const char *const fine[] = {
		"net.allow_out=ALL_TRAFFIC:443", "net.deny_out=2001:db8::/32",
		"net.allow_out=::ffff:203.0.113.1", "net.resolvers=203.0.113.1", NULL,
	};
	struct policy p = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;

		read_settings(&p, rows[i]);
		assert_int_equal(policy_check(&p, &err), NSBOX_E_POLICY);
		if (!strstr(err.message, rows[i][2]))
			fail_msg("%s: %s", rows[i][0], err.message);
		policy_free(&p);
	}
	read_settings(&p, fine);
	assert_int_equal(policy_check(&p, NULL), 0);
	policy_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ranges_say_what_the_matcher_says),
		cmocka_unit_test(what_ranges_cannot_say_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
