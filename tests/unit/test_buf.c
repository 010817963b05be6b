/* base/buf.c: the ceiling holds, failure sticks, text always ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void an_empty_buffer_has_empty_text(void **state)
{
	struct buf b = BUF_INIT(10);
	char *taken;

	(void)state;
	assert_string_equal(buf_text(&b), "");
	taken = buf_take(&b);
	assert_non_null(taken);
	assert_string_equal(taken, "");
	free(taken);
}

static void the_ceiling_is_reached_exactly_and_never_passed(void **state)
{
	struct buf b = BUF_INIT(5);

	(void)state;
	buf_str(&b, "12345");
	assert_false(b.failed);
	assert_int_equal(b.len, 5);
	buf_char(&b, '6');
	assert_true(b.failed);
	assert_string_equal(buf_text(&b), "12345");
	buf_free(&b);
}

static void a_failed_buffer_ignores_what_follows_until_cleared(void **state)
{
	struct buf b = BUF_INIT(4);

	(void)state;
	buf_str(&b, "ab");
	buf_str(&b, "too long");
	assert_true(b.failed);
	buf_char(&b, 'c');
	assert_string_equal(buf_text(&b), "ab");
	assert_null(buf_take(&b));
	buf_clear(&b);
	assert_false(b.failed);
	buf_str(&b, "cd");
	assert_string_equal(buf_text(&b), "cd");
	buf_free(&b);
}

static void formatted_text_is_whole_or_absent(void **state)
{
	struct buf b = BUF_INIT(8);

	(void)state;
	buf_fmt(&b, "%d-%s", 12, "abcd");
	assert_string_equal(buf_text(&b), "12-abcd");
	buf_fmt(&b, "%s", "xy");
	assert_true(b.failed);
	assert_string_equal(buf_text(&b), "12-abcd");
	buf_free(&b);
}

static void bytes_with_nul_are_kept_and_taken(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	char *taken;

	(void)state;
	for (int i = 0; i < 1000; i++)
		buf_add(&b, "a\0b", 3);
	assert_int_equal(b.len, 3000);
	taken = buf_take(&b);
	assert_memory_equal(taken + 2997, "a\0b", 4);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	free(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_buffer_has_empty_text),
		cmocka_unit_test(the_ceiling_is_reached_exactly_and_never_passed),
		cmocka_unit_test(a_failed_buffer_ignores_what_follows_until_cleared),
		cmocka_unit_test(formatted_text_is_whole_or_absent),
		cmocka_unit_test(bytes_with_nul_are_kept_and_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
