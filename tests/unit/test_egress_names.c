/*
 * test_egress_names.c - names and their fake addresses, the hash they lie by, hosts(5)
 */
#include "base/cleanup.h"
#include "runtime/egress/hash.h"
#include "runtime/egress/hosts.h"
#include "runtime/egress/names.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

/* --- names.c, hash.c ------------------------------------------------------------------------ */

static void siphash_gives_the_values_of_its_paper(void **state)
{
	const struct hash_key key = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
	uint8_t data[15];

	(void)state;
	for (uint8_t i = 0; i < sizeof(data); i++)
		data[i] = i;
	assert_true(hash_bytes(&key, data, 15) == UINT64_C(0xa129ca6149be45e5));
	assert_true(hash_bytes(&key, data, 0) == UINT64_C(0x726fdb47dd0e0e31));
}

static void a_name_keeps_its_number_until_the_table_is_full(void **state)
{
	struct names *n = names_new(300);
	char name[32];

	(void)state;
	assert_non_null(n);
	for (uint32_t i = 1; i <= 300; i++) {
		snprintf(name, sizeof(name), "n%u.example.org", i);
		assert_int_equal(names_add(n, name), i);
		assert_int_equal(names_add(n, name), i);
		assert_string_equal(names_get(n, i), name);
	}
	assert_int_equal(names_add(n, "one.more.example.org"), 0);
	assert_int_equal(names_add(n, "n7.example.org"), 7);
	assert_null(names_get(n, 0));
	assert_null(names_get(n, 301));
	names_free(n);
}

static void a_lower_limit_keeps_what_is_there_and_a_higher_one_goes_on(void **state)
{
	struct names *n = names_new(3);
	char name[32];

	(void)state;
	for (uint32_t i = 1; i <= 3; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		assert_int_equal(names_add(n, name), i);
	}
	assert_int_equal(names_limit(n, 1), 0);
	assert_int_equal(names_add(n, "n4.test"), 0);
	assert_int_equal(names_add(n, "n3.test"), 3);
	assert_string_equal(names_get(n, 2), "n2.test");
	assert_int_equal(names_limit(n, UINT32_MAX), 0);
	for (uint32_t i = 1; i <= 65534; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		assert_int_equal(names_add(n, name), i);
	}
	assert_int_equal(names_add(n, "full.test"), 0);
	assert_string_equal(names_get(n, 2), "n2.test");
	names_free(n);
}

static void a_fake_address_leads_back_to_its_name(void **state)
{
	struct names *n = names_new(UINT32_MAX);
	struct egress_addr a;

	(void)state;
	for (uint32_t i = 1; i <= 65534; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(names_add(n, name), i);
	}
	assert_int_equal(names_add(n, "full"), 0);
	a = names_addr4(1);
	assert_addr(&a, "198.18.0.1");
	a = names_addr4(258);
	assert_addr(&a, "198.18.1.2");
	assert_string_equal(names_find(n, &a), "n258");
	a = names_addr6(65534);
	assert_addr(&a, "2001:2::fffe");
	assert_string_equal(names_find(n, &a), "n65534");
	a = addr_of("::ffff:198.18.0.9");
	assert_string_equal(names_find(n, &a), "n9");
	names_free(n);
}

static void what_is_fake_and_what_is_not(void **state)
{
	static const struct { const char *addr; bool fake; } rows[] = {
		{ "198.18.0.0", true }, { "198.18.255.255", true }, { "198.19.0.0", false },
		{ "198.17.255.255", false }, { "198.19.255.254", false },
		{ "2001:2::", true }, { "2001:2::ffff", true }, { "2001:2::1:0", false },
		{ "2001:2:0:ffff::1", false }, { "::ffff:198.18.1.1", true },
		{ "::ffff:198.19.1.1", false }, { "127.0.0.1", false }, { "::", false },
	};
	struct names *n = names_new(1);
	struct egress_addr none = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_addr a = addr_of(rows[i].addr);

		assert_int_equal(names_is_fake(&a), rows[i].fake);
		assert_null(names_find(n, &a));
	}
	assert_false(names_is_fake(&none));
	names_free(n);
}

/* --- hosts.c ----------------------------------------------------------------------------------- */

static void hosts_has_names_aliases_comments_and_both_families(void **state)
{
	static const char text[] =
		"# comment app\n"
		"192.0.2.1 app App.Example # www.example\n"
		"  192.0.2.2\tapp.example\r\n"
		"2001:db8::1 app.example other\n"
		"fe80::1%eth0 app.example\n"
		"not-an-address app.example\n"
		"192.0.2.300 app.example\n"
		"192.0.2.9\n"
		"192.0.2.4 last.example";
	static const struct { const char *name; unsigned count; const char *first; } rows[] = {
		{ "app.example", 3, "192.0.2.1" }, { "app", 1, "192.0.2.1" },
		{ "other", 1, "2001:db8::1" }, { "last.example", 1, "192.0.2.4" },
		{ "www.example", 0, NULL }, { "example", 0, NULL }, { "192.0.2.9", 0, NULL },
		{ "ap", 0, NULL },
	};
	struct egress_addr a[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(hosts_find(text, sizeof(text) - 1, rows[i].name, a, 16),
				 rows[i].count);
		if (rows[i].count)
			assert_addr(&a[0], rows[i].first);
	}
	assert_int_equal(hosts_find(text, sizeof(text) - 1, "app.example", a, 2), 2);
	assert_int_equal(hosts_find(NULL, 0, "app", a, 16), 0);
	assert_true(hosts_is_localhost("localhost") && hosts_is_localhost("a.b.localhost"));
	assert_false(hosts_is_localhost("notlocalhost") || hosts_is_localhost("localhost.example"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_gives_the_values_of_its_paper),
		cmocka_unit_test(a_name_keeps_its_number_until_the_table_is_full),
		cmocka_unit_test(a_lower_limit_keeps_what_is_there_and_a_higher_one_goes_on),
		cmocka_unit_test(a_fake_address_leads_back_to_its_name),
		cmocka_unit_test(what_is_fake_and_what_is_not),
		cmocka_unit_test(hosts_has_names_aliases_comments_and_both_families),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
