/* test_jscan.c - texts that are JSON, and texts that are not */
#include "base/jscan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool json_is_valid(const char *text, size_t len, unsigned max_depth)
{
	struct jscan v;

	return jscan_check_deep(&v, text, len, max_depth, NULL) == 0;
}

static const char *const good[] = {
	"{}", "[]", "null", "true", "false", "0", "-0", "10.5e-3", "1E+9", "\"\"", " [ 1 , 2 ] \n",
	"{\"a\":{\"b\":[{},[],[[]]]},\"c\":\"\\u00e9\\n\\\\\\\"\"}", "\"\\ud800\"", "\"\xc3\xa9\"",
	"[{\"a\":1},{\"b\":[]}]",
};

static const char *const bad[] = {
	"", " ", "{", "[", "}", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1,}", "01",
	"1.", ".5", "1e", "+1", "nul", "nullx", "\"", "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "\"\xff\"",
	"\"\xed\xa0\x80\"", "[1 2]", "{}{}", "[]]", "{\"a\":1]", "[1}", "'a'", "NaN", "1,2", "\"\\",
	"\"\\u00",
};

static void texts_of_rfc_8259_are_valid(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!json_is_valid(good[i], strlen(good[i]), 8))
			fail_msg("%s", good[i]);
}

static void other_texts_are_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (json_is_valid(bad[i], strlen(bad[i]), 8))
			fail_msg("%s", bad[i]);
	assert_false(json_is_valid("1\0", 2, 8));
}

static void a_text_ends_where_its_length_says(void **state)
{
	char *exact = malloc(3); /* nothing behind it: a sanitizer sees the byte too much */

	(void)state;
	assert_non_null(exact);
	memcpy(exact, "[1]", 3);
	assert_true(json_is_valid(exact, 3, 8));
	for (size_t len = 0; len < 3; len++) {
		char *part = malloc(len ? len : 1);

		assert_non_null(part);
		memcpy(part, "[1]", len);
		assert_false(json_is_valid(part, len, 8));
		free(part);
	}
	free(exact);
}

static void nesting_ends_at_the_limit(void **state)
{
	enum { DEPTH = JSCAN_LEVELS };
	static char text[2 * DEPTH + 2];

	(void)state;
	memset(text, '[', DEPTH);
	memset(text + DEPTH, ']', DEPTH);
	assert_true(json_is_valid(text, 2 * DEPTH, DEPTH));
	assert_false(json_is_valid(text, 2 * DEPTH, DEPTH - 1));
	assert_false(json_is_valid(text, 2 * DEPTH, DEPTH + 1)); /* more than it can count */
	assert_true(json_is_valid("1", 1, 0));
	assert_false(json_is_valid("[]", 2, 0));
}

static void objects_and_arrays_are_told_apart_at_every_level(void **state)
{
	(void)state;
	assert_true(json_is_valid("[[[{\"a\":[{\"b\":1}]},2],3],4]", 27, 8));
	assert_false(json_is_valid("[[[{\"a\":[{\"b\":1}]},\"x\":2]]]", 28, 8));
	assert_false(json_is_valid("{\"a\":[\"b\":1]}", 13, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_of_rfc_8259_are_valid),
		cmocka_unit_test(other_texts_are_not),
		cmocka_unit_test(a_text_ends_where_its_length_says),
		cmocka_unit_test(nesting_ends_at_the_limit),
		cmocka_unit_test(objects_and_arrays_are_told_apart_at_every_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
