/* policy/egress_rules.c: the block of rules, long lists, and hostile blocks; and the lists as
 * other systems write them. */
#include "tests/unit/egress_policy.h"

#include <stdio.h>
#include <time.h>

enum { MANY = 10000 };

/* --- long lists ---------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void add_many(struct policy *p, const char *key, unsigned salt)
{
	char text[64];

	for (unsigned i = 0; i < MANY; i++) {
		if (i % 3 == 0)
			snprintf(text, sizeof(text), "%u.%u.%u.0/24", 11 + salt, i / 256, i % 256);
		else if (i % 3 == 1)
			snprintf(text, sizeof(text), "*.h%u-%u.example.org:%u", salt, i, 1000 + i);
		else
			snprintf(text, sizeof(text), "2001:db8:%x:%x::/64", salt, i);
		assert_int_equal(policy_set(p, key, text, NULL), 0);
	}
}

static bool allows(const struct egress_rules *r, const char *to)
{
	struct egress_asked a;

	assert_int_equal(egress_ask(&a, to, NULL), 0);
	return egress_judge(r, &a.dest).allowed;
}

/* Quadratic work would be 10^8 steps a list: processor time says so whatever else runs. */
static void ten_thousand_entries_a_list_are_fast(void **state)
{
	double start = cpu_seconds();
	struct egress_rules *r = NULL;
	struct strlist warnings = { 0 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(policy_set(&p, "net.mode", "filtered", NULL), 0);
	add_many(&p, "net.allow_out", 0);
	add_many(&p, "net.deny_out", 1);
	assert_int_equal(p.net.allow_out.n, MANY);
	add_many(&p, "net.allow_out", 0); /* twice is nothing */
	assert_int_equal(p.net.allow_out.n, MANY);
	assert_int_equal(policy_check(&p, &err), 0);
	assert_int_equal(egress_compile(&r, &p, &err), 0);
	assert_int_equal(egress_warnings(&p, &warnings), 0);
	assert_int_equal(warnings.n, 0);
	assert_true(egress_is_valid(r, r->size));
	assert_true(cpu_seconds() - start < 2.0);

	start = cpu_seconds();
	for (unsigned i = 0; i < 100; i++) {
		assert_true(allows(r, "11.0.3.77"));
		assert_true(allows(r, "a.b.h0-9997.example.org:10997"));
		assert_true(allows(r, "[2001:db8:0:270e::1]:80"));
		assert_false(allows(r, "11.0.4.77"));
		assert_false(allows(r, "a.b.h0-9997.example.org:10996"));
		assert_false(allows(r, "[2001:db8:0:270f::1]:80"));
		assert_false(allows(r, "12.0.3.77"));
	}
	assert_true(cpu_seconds() - start < 1.0);
	free(r);
	strlist_free(&warnings);
	policy_free(&p);
}

static void a_list_has_an_end(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };
	char text[64];
	int code = 0;
	unsigned i;

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	for (i = 0; code == 0 && i < 20000; i++) {
		snprintf(text, sizeof(text), "h%u.test", i);
		code = policy_set(&p, "net.deny_out", text, &err);
	}
	assert_int_equal(i, 16385);
	assert_int_equal(code, NSBOX_E_POLICY);
	assert_string_equal(err.message, "net.deny_out: more than 16384 items");
	policy_free(&p);
}

/* --- hostile blocks ------------------------------------------------------------------------- */

static const char *const some_rules =
	"allow a.test *.b.test .c.test:8080 192.0.2.0/24 2001:db8::/32 ALL_TRAFFIC:25 9.9.9.9:53/udp "
	"deny evil.test 203.0.113.0/24 ::/0 private 10.0.0.0/8 fd00::/8";

/* Ask all there is; under the sanitizers (make asan) this must not read beyond the block. */
static void use(const struct egress_rules *r)
{
	static const char *const tos[] = { "a.test", "x.b.test:80", "c.test:8080", "192.0.2.1:22",
					   "[2001:db8::1]:1/udp", "10.0.0.1", "203.0.113.1" };
	uint16_t ports[16];

	for (size_t i = 0; i < ARRAY_SIZE(tos); i++) {
		struct buf a = BUF_INIT(4096), b = BUF_INIT(4096), c = BUF_INIT(4096);
		struct egress_verdict v;
		struct egress_asked asked;

		assert_int_equal(egress_ask(&asked, tos[i], NULL), 0);
		v = egress_judge(r, &asked.dest);
		egress_explain_denial(r, &asked.dest, &v, NULL,
				      &(struct egress_words){ &a, &b, &c });
		egress_explain(r, &asked.dest, &v, &a);
		if (asked.dest.name)
			egress_judge_lookup(r, asked.dest.name);
		egress_wants_names_checked(r, &asked.dest);
		buf_free(&a);
		buf_free(&b);
		buf_free(&c);
	}
	egress_ports(r, ports, 16);
}

/* On a heap block of exactly that size, so that a sanitizer sees every step beyond. */
static bool try_block(const struct egress_rules *r, size_t size, size_t flip)
{
	unsigned char *copy = malloc(size ? size : 1);
	bool valid;

	assert_non_null(copy);
	memcpy(copy, r, size);
	if (flip < 8 * size)
		copy[flip / 8] ^= (unsigned char)(1 << flip % 8);
	valid = egress_is_valid(copy, size);
	if (valid)
		use((struct egress_rules *)copy);
	free(copy);
	return valid;
}

static void a_block_that_is_cut_short_is_refused(void **state)
{
	struct egress_rules *r = rules_of(some_rules);

	(void)state;
	assert_true(try_block(r, r->size, SIZE_MAX));
	for (size_t size = 0; size < r->size; size++)
		if (try_block(r, size, SIZE_MAX))
			fail_msg("%zu of %u bytes are taken", size, r->size);
	free(r);
}

static void a_block_with_any_bit_flipped_is_refused_or_harmless(void **state)
{
	struct egress_rules *r = rules_of(some_rules);
	size_t refused = 0;

	(void)state;
	for (size_t bit = 0; bit < 8 * (size_t)r->size; bit++)
		refused += !try_block(r, r->size, bit);
	assert_true(refused > 100); /* offsets, counts, order, strings */
	free(r);
}

static void a_block_that_says_it_is_larger_is_refused(void **state)
{
	struct egress_rules *r = rules_of(some_rules);
	uint32_t size = r->size;

	(void)state;
	r->size = size + 8;
	assert_false(egress_is_valid(r, size));
	r->size = UINT32_MAX;
	assert_false(egress_is_valid(r, size));
	r->size = 0;
	assert_false(egress_is_valid(r, size));
	r->size = size;
	r->magic ^= 1;
	assert_false(egress_is_valid(r, size));
	r->magic ^= 1;
	assert_true(egress_is_valid(r, size));
	free(r);
}

/* --- as others write it --------------------------------------------------------------------- */

static int read_policy(struct policy *p, const char *text, struct nsbox_error *err)
{
	struct settings s = { 0 };
	int code;

	assert_int_equal(policy_init(p, NULL), 0);
	code = policy_parse(&s, text, strlen(text), "p.json", err);
	if (code == 0)
		code = policy_apply(p, &s, LAYER_FLAGS, err);
	if (code == 0)
		code = policy_check(p, err);
	settings_free(&s);
	return code;
}

/* B13, B14 */
static void buds_network_policy_is_taken_as_it_is(void **state)
{
	static const struct { const char *text, *to; bool allowed; } rows[] = {
		{ "{}", "packages.example.org", false },
		{ "{\"type\":\"disabled\",\"allow_out\":[],\"deny_out\":[]}", "a.test", false },
		{ "{\"type\":\"open\",\"allow_out\":[],\"deny_out\":[]}", "a.test", true },
		{ "{\"type\":\"filtered\",\"allow_out\":[\"packages.example.org\"],\"deny_out\":[]}",
		  "packages.example.org", true },
		{ "{\"type\":\"filtered\",\"allow_out\":[\"packages.example.org\"],\"deny_out\":[]}",
		  "a.test", false },
		{ "{\"type\":\"filtered\",\"allow_out\":[\"packages.example.org\"],\"deny_out\":[\"ALL_TRAFFIC\"]}",
		  "packages.example.org", true },
		{ "{\"type\":\"filtered\",\"allow_out\":[\"packages.example.org\"],\"deny_out\":[\"all_traffic\"]}",
		  "a.test", false },
		{ "{\"network_policy\":{\"type\":\"filtered\",\"allow_out\":[\"a.test\"],\"deny_out\":[]}}",
		  "a.test", true },
		{ "{\"network_policy\":{\"type\":\"filtered\",\"allow_out\":[\"a.test\"],\"deny_out\":[]}}",
		  "b.test", false },
		{ "{\"network_policy\":null}", "a.test", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct egress_rules *r = NULL;
		struct policy p = { 0 };
		int code = read_policy(&p, rows[i].text, &err);

		if (code < 0)
			fail_msg("%s: %s", rows[i].text, err.message);
		assert_int_equal(egress_compile(&r, &p, &err), 0);
		if (allows(r, rows[i].to) != rows[i].allowed)
			fail_msg("%s -> %s", rows[i].text, rows[i].to);
		free(r);
		policy_free(&p);
	}
}

/* E4, E5 */
static void e2bs_rules_for_the_lists_hold_when_asked_for(void **state)
{
#define NAME_NEEDS "a name needs 0.0.0.0/0 in net.deny_out"
#define ADDRESSES "net.deny_out takes addresses and CIDRs only"
#define UNSPECIFIED "it is an unspecified address"
	static const struct { const char *words, *why; } rows[] = {
		{ "compat e2b", NULL },
		{ "compat e2b allow 192.0.2.1", NULL },
		{ "compat e2b allow 192.0.2.1 deny 203.0.113.0/24", NULL },
		{ "compat e2b allow a.test deny 0.0.0.0/0", NULL },
		{ "compat e2b allow a.test deny ALL_TRAFFIC", NULL },
		{ "compat e2b allow a.test *.b.test 192.0.2.1 deny 192.0.2.0/24 0.0.0.0/0", NULL },
		{ "compat e2b allow 2001:db8::1", NULL },
		{ "compat e2b allow a.test", NAME_NEEDS },
		{ "compat e2b allow *.a.test", NAME_NEEDS },
		{ "compat e2b allow 192.0.2.1 a.test deny 192.0.2.0/24", NAME_NEEDS },
		{ "compat e2b allow a.test deny 128.0.0.0/1 64.0.0.0/2", NAME_NEEDS },
		{ "compat e2b allow a.test deny ::/0", NAME_NEEDS },
		{ "compat e2b deny a.test", ADDRESSES },
		{ "compat e2b deny 0.0.0.0/0 *.a.test", ADDRESSES },
		{ "compat e2b deny 0.0.0.0/1", UNSPECIFIED },
		{ "compat e2b allow 0.0.0.0/1", UNSPECIFIED },
		{ "compat e2b deny-wins", "net.compat=e2b and net.precedence=deny contradict each other" },
		/* and are not asked for otherwise */
		{ "allow a.test", NULL }, { "deny a.test", NULL }, { "deny 0.0.0.0/1", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct policy p = { 0 };
		int code = rules_policy(&p, rows[i].words, &err);

		if (code != (rows[i].why ? NSBOX_E_POLICY : 0) ||
		    (rows[i].why && !strstr(err.message, rows[i].why)))
			fail_msg("%s: %d, %s", rows[i].words, code, err.message);
		policy_free(&p);
	}
}

/* --- what must not be seen ------------------------------------------------------------------- */

static void a_proxys_password_is_never_shown(void **state)
{
	static const struct { const char *url, *shown; } rows[] = {
		{ "http://proxy.test:3128", "http://proxy.test:3128" },
		{ "http://user:sesame@proxy.test:3128", "http://user:***@proxy.test:3128" },
		{ "http://user:se@same@proxy.test:3128", "http://user:***@proxy.test:3128" },
		{ "http://sesame@proxy.test:3128", "http://***@proxy.test:3128" },
		{ "socks5://user:sesame@[2001:db8::1]:1080/", "socks5://user:***@[2001:db8::1]:1080/" },
		{ "user:sesame@proxy.test", "user:***@proxy.test" },
		{ "http://user:se/same@proxy.test:1", "http://user:***@proxy.test:1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf text = BUF_INIT(1 << 20), json = BUF_INIT(1 << 20);
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct policy p = { 0 };

		policy_proxy_shown(rows[i].url, &text);
		assert_string_equal(buf_text(&text), rows[i].shown);
		assert_int_equal(policy_init(&p, NULL), 0);
		assert_int_equal(policy_set(&p, "net.proxy", rows[i].url, NULL), 0);
		policy_to_json(&p, &json);
		assert_non_null(strstr(buf_text(&json), rows[i].shown));
		assert_null(strstr(buf_text(&json), "same"));
		policy_check(&p, &err); /* well-formed or not */
		assert_null(strstr(err.message, "same"));
		assert_null(strstr(err.hint, "same"));
		buf_free(&text);
		buf_free(&json);
		policy_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_entries_a_list_are_fast),
		cmocka_unit_test(a_list_has_an_end),
		cmocka_unit_test(a_block_that_is_cut_short_is_refused),
		cmocka_unit_test(a_block_with_any_bit_flipped_is_refused_or_harmless),
		cmocka_unit_test(a_block_that_says_it_is_larger_is_refused),
		cmocka_unit_test(buds_network_policy_is_taken_as_it_is),
		cmocka_unit_test(e2bs_rules_for_the_lists_hold_when_asked_for),
		cmocka_unit_test(a_proxys_password_is_never_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
