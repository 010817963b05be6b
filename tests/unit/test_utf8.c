/*
 * test_utf8.c - which bytes are a character, where text may be cut, base64
 *
 * The whole space of code points is tried against an encoder of the test's own.
 */
#include "base/cleanup.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t encode(uint32_t point, char out[4])
{
	if (point < 0x80) {
		out[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		out[0] = (char)(0xc0 | point >> 6);
		out[1] = (char)(0x80 | (point & 63));
		return 2;
	}
	if (point < 0x10000) {
		out[0] = (char)(0xe0 | point >> 12);
		out[1] = (char)(0x80 | (point >> 6 & 63));
		out[2] = (char)(0x80 | (point & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | point >> 18);
	out[1] = (char)(0x80 | (point >> 12 & 63));
	out[2] = (char)(0x80 | (point >> 6 & 63));
	out[3] = (char)(0x80 | (point & 63));
	return 4;
}

static void every_code_point_has_its_length_and_surrogates_have_none(void **state)
{
	(void)state;
	for (uint32_t point = 0; point < 0x1fffff; point++) {
		bool legal = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
		char s[4];
		size_t n = encode(point, s);

		assert_int_equal(utf8_length(s, n), legal ? n : 0);
		assert_int_equal(utf8_length(s, n - 1), 0); /* one byte short */
	}
}

static void malformed_bytes_are_no_character(void **state)
{
	static const char *const bad[] = {
		"\x80", "\xbf", "\xc0\x80", "\xc1\xbf",	    /* stray tails, overlong NUL, / */
		"\xe0\x80\xaf", "\xe0\x9f\xbf",		    /* overlong in three bytes */
		"\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf",	    /* and in four */
		"\xed\xa0\x80", "\xed\xbf\xbf",		    /* surrogates */
		"\xf4\x90\x80\x80", "\xf5\x80\x80\x80",	    /* above U+10FFFF */
		"\xfe", "\xff", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98(",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(utf8_length(bad[i], strlen(bad[i])), 0);
		assert_false(utf8_valid(bad[i], strlen(bad[i])));
	}
	assert_true(utf8_valid("", 0));
	assert_true(utf8_valid("a\0\xe2\x82\xac", 5));
}

static void a_cut_lands_on_the_nearest_border_of_a_character(void **state)
{
	static const char s[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	static const size_t borders[] = { 0, 1, 3, 6, 10, 11 };

	(void)state;
	for (size_t want = 0; want <= 11; want++) {
		size_t below = 0, above = 11;

		for (size_t i = 0; i < ARRAY_SIZE(borders); i++) {
			if (borders[i] <= want)
				below = borders[i];
			if (borders[5 - i] >= want)
				above = borders[5 - i];
		}
		assert_int_equal(utf8_cut_before(s, 11, want), below);
		assert_int_equal(utf8_cut_after(s, 11, want), above);
	}
	assert_int_equal(utf8_cut_before(s, 11, 99), 11);
	assert_int_equal(utf8_cut_after(s, 11, 99), 11);
}

static void bytes_that_are_no_text_are_cut_where_one_wants(void **state)
{
	static const char tails[] = "\x80\x80\x80\x80\x80\x80\x80\x80";
	static const char broken[] = "\xe2\x82(\xe2\x82"; /* ends in the middle */

	(void)state;
	for (size_t want = 0; want <= 8; want++) {
		assert_int_equal(utf8_cut_before(tails, 8, want), want);
		assert_int_equal(utf8_cut_after(tails, 8, want), want);
	}
	for (size_t want = 0; want <= 5; want++) {
		assert_int_equal(utf8_cut_before(broken, 5, want), want);
		assert_int_equal(utf8_cut_after(broken, 5, want), want);
	}
}

static void base64_matches_the_vectors_of_rfc_4648(void **state)
{
	static const char *const rows[][2] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" },
		{ "\xff\xfe\xfd", "//79" }, { "\xfb\xef\xbe", "++++" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(buf_free) struct buf b = BUF_INIT(64);

		char back[16];
		size_t len = strlen(rows[i][1]);

		base64_add(&b, rows[i][0], strlen(rows[i][0]));
		assert_string_equal(buf_text(&b), rows[i][1]);
		memcpy(back, rows[i][1], len + 1);
		assert_int_equal(base64_decode(back, &len), 0);
		assert_int_equal(len, strlen(rows[i][0]));
		assert_string_equal(back, rows[i][0]);
	}
}

static void what_is_no_base64_is_not_decoded(void **state)
{
	static const char *const rows[] = { "Z", "Zg=", "Zm9v=", "Zm 9", "Zg==\n", "Zg===", "=", "Z-8_" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[16];
		size_t len = strlen(rows[i]);

		memcpy(text, rows[i], len + 1);
		assert_int_equal(base64_decode(text, &len), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_point_has_its_length_and_surrogates_have_none),
		cmocka_unit_test(malformed_bytes_are_no_character),
		cmocka_unit_test(a_cut_lands_on_the_nearest_border_of_a_character),
		cmocka_unit_test(bytes_that_are_no_text_are_cut_where_one_wants),
		cmocka_unit_test(base64_matches_the_vectors_of_rfc_4648),
		cmocka_unit_test(what_is_no_base64_is_not_decoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
