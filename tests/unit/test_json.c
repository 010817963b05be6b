/* base/json.c: what it writes is JSON to another's parser, with the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Three names are both ours and jansson's; here ours are meant. */
#define json_object jansson_object
#define json_array jansson_array
#define json_null jansson_null
#include <jansson.h>
#undef json_object
#undef json_array
#undef json_null

#include "base/json.h"

static void commas_and_nesting_are_placed_by_the_writer(void **state)
{
	struct buf b = BUF_INIT(4096);
	struct json j = JSON_INIT(&b);

	(void)state;
	json_object(&j);
	json_kstr(&j, "a", "x");
	json_key(&j, "b");
	json_array(&j);
	json_int(&j, -1);
	json_uint(&j, UINT64_MAX);
	json_array(&j);
	json_end(&j, ']');
	json_object(&j);
	json_kbool(&j, "t", true);
	json_knull(&j, "n");
	json_end(&j, '}');
	json_end(&j, ']');
	json_key(&j, "ms");
	json_ms(&j, 12345);
	json_kint(&j, "i", INT64_MIN);
	json_kuint(&j, "u", 7);
	json_end(&j, '}');
	assert_string_equal(buf_text(&b),
			    "{\"a\":\"x\",\"b\":[-1,18446744073709551615,[],"
			    "{\"t\":true,\"n\":null}],\"ms\":12.345,"
			    "\"i\":-9223372036854775808,\"u\":7}");
	assert_false(b.failed);
	buf_free(&b);
}

static void every_byte_below_0x80_survives_a_strict_parser(void **state)
{
	struct buf b = BUF_INIT(4096);
	struct json j = JSON_INIT(&b);
	char text[128];
	json_t *back;

	(void)state;
	for (int i = 0; i < 127; i++)
		text[i] = (char)(i + 1);
	text[127] = '\0';
	json_array(&j);
	json_str(&j, text);
	json_end(&j, ']');
	back = json_loads(buf_text(&b), 0, NULL);
	assert_non_null(back);
	assert_string_equal(json_string_value(json_array_get(back, 0)), text);
	json_decref(back);
	buf_free(&b);
}

static void bytes_that_are_not_utf8_become_the_replacement_character(void **state)
{
	static const struct { const char *in, *out; } rows[] = {
		{ "\xff", "[\"\xef\xbf\xbd\"]" },
		{ "a\xc3", "[\"a\xef\xbf\xbd\"]" },
		{ "\xc3\xa9", "[\"\xc3\xa9\"]" },
		{ "\xed\xa0\x80", "[\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"]" },
		{ "\xf0\x9f\x98\x80!", "[\"\xf0\x9f\x98\x80!\"]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf b = BUF_INIT(256);
		struct json j = JSON_INIT(&b);

		json_array(&j);
		json_str(&j, rows[i].in);
		json_end(&j, ']');
		assert_string_equal(buf_text(&b), rows[i].out);
		buf_free(&b);
	}
}

static void random_bytes_are_always_valid_json(void **state)
{
	uint32_t seed = 2463534242u;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct buf b = BUF_INIT(4096);
		struct json j = JSON_INIT(&b);
		char text[64];
		json_t *back;

		for (size_t i = 0; i < sizeof(text); i++) {
			seed ^= seed << 13;
			seed ^= seed >> 17;
			seed ^= seed << 5;
			text[i] = (char)(seed >> 24 ? seed >> 24 : 1);
		}
		json_array(&j);
		json_strn(&j, text, sizeof(text));
		json_end(&j, ']');
		back = json_loads(buf_text(&b), 0, NULL);
		assert_non_null(back);
		json_decref(back);
		buf_free(&b);
	}
}

static void nesting_deeper_than_the_limit_fails_instead_of_lying(void **state)
{
	struct buf b = BUF_INIT(4096);
	struct json j = JSON_INIT(&b);

	(void)state;
	for (int i = 0; i < 31; i++)
		json_array(&j);
	assert_false(b.failed);
	json_array(&j);
	assert_true(b.failed);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_and_nesting_are_placed_by_the_writer),
		cmocka_unit_test(every_byte_below_0x80_survives_a_strict_parser),
		cmocka_unit_test(bytes_that_are_not_utf8_become_the_replacement_character),
		cmocka_unit_test(random_bytes_are_always_valid_json),
		cmocka_unit_test(nesting_deeper_than_the_limit_fails_instead_of_lying),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
