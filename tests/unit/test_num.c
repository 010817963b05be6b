/* base/num.c: what is a number, what is none, and that text goes back and forth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/num.h"

typedef int (*parse_fn)(const char *, uint64_t, uint64_t, uint64_t *);

struct row {
	parse_fn parse;
	const char *text;
	uint64_t value;
};

static const struct row good[] = {
	{ num_uint, "0", 0 },
	{ num_uint, "007", 7 },
	{ num_uint, "18446744073709551615", UINT64_MAX },
	{ num_size, "512", 512 },
	{ num_size, "64K", 65536 },
	{ num_size, "64k", 65536 },
	{ num_size, "1.5G", UINT64_C(1610612736) },
	{ num_size, "2GiB", UINT64_C(2147483648) },
	{ num_size, "3MB", 3145728 },
	{ num_size, "7b", 7 },
	{ num_size, "0.1M", 104857 }, /* rounds down */
	{ num_size, "1P", UINT64_C(1) << 50 },
	{ num_size, "16383P", UINT64_C(16383) << 50 },
	{ num_time, "2", 2000000 },
	{ num_time, "0.5", 500000 },
	{ num_time, "500ms", 500000 },
	{ num_time, "250us", 250 },
	{ num_time, "1.5ms", 1500 },
	{ num_time, "2m", 120000000 },
	{ num_time, "1h", UINT64_C(3600000000) },
	{ num_time, "1d", UINT64_C(86400000000) },
	{ num_time, "0", 0 },
	{ num_share, "1", 1000 },
	{ num_share, "0.25", 250 },
	{ num_share, "2.5", 2500 },
	{ num_share, "0.3333", 333 },
};

static const struct row bad[] = {
	{ num_uint, "", 0 },
	{ num_uint, "-1", 0 },
	{ num_uint, "+1", 0 },
	{ num_uint, " 1", 0 },
	{ num_uint, "1 ", 0 },
	{ num_uint, "1.0", 0 },
	{ num_uint, "0x10", 0 },
	{ num_uint, "1e3", 0 },
	{ num_uint, "18446744073709551616", 0 },
	{ num_size, "", 0 },
	{ num_size, "K", 0 },
	{ num_size, "1.5", 0 },
	{ num_size, "1.5B", 0 },
	{ num_size, ".5K", 0 },
	{ num_size, "5.K", 0 },
	{ num_size, "1KK", 0 },
	{ num_size, "1Q", 0 },
	{ num_size, "1 K", 0 },
	{ num_size, "-1K", 0 },
	{ num_size, "0.0001K", 0 }, /* would round down to "no limit" */
	{ num_size, "16384P", 0 },
	{ num_size, "0.1234567891G", 0 },
	{ num_time, "5M", 0 },
	{ num_time, "0.5us", 0 },
	{ num_time, "0.0000001", 0 },
	{ num_time, "1s1", 0 },
	{ num_time, "1e3", 0 },
	{ num_time, "99999999999999999999d", 0 },
	{ num_time, "9999999999999999999d", 0 },
	{ num_share, "1%", 0 },
	{ num_share, "0.0001", 0 },
	{ num_share, "nan", 0 },
};

static void every_good_text_has_its_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t v = 12345;

		if (good[i].parse(good[i].text, 0, UINT64_MAX, &v) != 0)
			fail_msg("\"%s\" was refused", good[i].text);
		assert_int_equal(v, good[i].value);
	}
}

static void every_bad_text_is_refused_and_leaves_the_output(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t v = 12345;

		if (bad[i].parse(bad[i].text, 0, UINT64_MAX, &v) != -1)
			fail_msg("\"%s\" was taken", bad[i].text);
		assert_int_equal(v, 12345);
	}
}

static void the_range_includes_its_ends_and_nothing_more(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_int_equal(num_uint("4", 4, 6, &v), 0);
	assert_int_equal(num_uint("6", 4, 6, &v), 0);
	assert_int_equal(num_uint("3", 4, 6, &v), -1);
	assert_int_equal(num_uint("7", 4, 6, &v), -1);
	assert_int_equal(v, 6);
	assert_int_equal(num_size("4K", 4096, 4096, &v), 0);
	assert_int_equal(num_size("4097", 4096, 4096, &v), -1);
	assert_int_equal(num_time("1ms", 1000, 1000, &v), 0);
	assert_int_equal(num_time("999us", 1000, 1000, &v), -1);
	assert_int_equal(num_share("1.001", 0, 1000, &v), -1);
}

static void text_names_the_largest_unit_that_fits(void **state)
{
	char t[32];

	(void)state;
	assert_string_equal(num_size_text(0, t), "0");
	assert_string_equal(num_size_text(1000, t), "1000");
	assert_string_equal(num_size_text(1024, t), "1K");
	assert_string_equal(num_size_text(UINT64_C(1536) << 20, t), "1536M");
	assert_string_equal(num_time_text(0, t), "0");
	assert_string_equal(num_time_text(1, t), "1us");
	assert_string_equal(num_time_text(30000000, t), "30s");
	assert_string_equal(num_time_text(60000000, t), "1m");
	assert_string_equal(num_share_text(1000, t), "1");
	assert_string_equal(num_share_text(250, t), "0.25");
	assert_string_equal(num_share_text(1001, t), "1.001");
	assert_string_equal(num_share_text(0, t), "0");
}

static void any_value_survives_text_and_back(void **state)
{
	uint64_t seed = 88172645463325252u, v, back;
	char t[32];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		v = seed >> (seed & 63);
		if (i % 3 == 0)
			v &= ~UINT64_C(0xfffff);
		assert_int_equal(num_size(num_size_text(v, t), 0, UINT64_MAX, &back), 0);
		assert_int_equal(back, v);
		assert_int_equal(num_time(num_time_text(v, t), 0, UINT64_MAX, &back), 0);
		assert_int_equal(back, v);
		assert_int_equal(num_share(num_share_text(v, t), 0, UINT64_MAX, &back), 0);
		assert_int_equal(back, v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_good_text_has_its_value),
		cmocka_unit_test(every_bad_text_is_refused_and_leaves_the_output),
		cmocka_unit_test(the_range_includes_its_ends_and_nothing_more),
		cmocka_unit_test(text_names_the_largest_unit_that_fits),
		cmocka_unit_test(any_value_survives_text_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
