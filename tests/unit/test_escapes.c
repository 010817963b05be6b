/* What reaches the caller's terminal, byte by byte, however it was split. */
#include "runtime/escapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct row {
	const char *what, *in, *relayed, *pty; /* pty NULL: as relayed */
};

static const struct row rows[] = {
	{ "text", "hello\r\n\tw\xc3\xb6rld \xe2\x82\xac", "hello\r\n\tw\xc3\xb6rld \xe2\x82\xac", NULL },
	{ "colours and movement", "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;5H", "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;5H", NULL },
	{ "character sets and keypad", "\x1b(B\x1b=\x1b>\x1b" "7\x1b" "8", "\x1b(B\x1b=\x1b>\x1b" "7\x1b" "8", NULL },
	{ "clipboard, ended by BEL", "a\x1b]52;c;ZXZpbA==\x07" "b", "ab", NULL },
	{ "clipboard, ended by ST", "a\x1b]52;c;ZXZpbA==\x1b\\b", "ab", NULL },
	{ "title", "\x1b]0;title\x07x", "x", NULL },
	{ "DCS", "a\x1bPq#0;2\x1b\\b", "ab", NULL },
	{ "APC, PM, SOS", "\x1b_a\x1b\\1\x1b^b\x1b\\2\x1bXc\x1b\\3", "123", NULL },
	{ "OSC in its 8-bit form", "a\xc2\x9d" "52;c;x\x07" "b", "ab", NULL },
	{ "DCS in its 8-bit form", "a\xc2\x90" "q\x1b\\b", "ab", NULL },
	{ "other two-byte characters", "\xc2\xa9\xc2\xbf", "\xc2\xa9\xc2\xbf", NULL },
	{ "next line in its 8-bit form", "a\xc2\x85" "b", "a\xc2\x85" "b", NULL },
	{ "where is the cursor?", "a\x1b[6nb", "ab", "a\x1b[6nb" },
	{ "what are you?", "a\x1b[cb\x1b[>0cc\x1bZd", "abcd", "a\x1b[cb\x1b[>0cc\x1bZd" },
	{ "what is your title?", "a\x1b[21tb", "ab", "a\x1b[21tb" },
	{ "answerback", "a\x05" "b", "ab", "a\x05" "b" },
	{ "8-bit cursor report", "a\xc2\x9b" "6nb", "ab", "a\xc2\x9b" "6nb" },
	{ "8-bit colour", "a\xc2\x9b" "1mb", "a\xc2\x9b" "1mb", NULL },
	{ "a sequence that another one cuts", "\x1b[12\x1b[1mx", "\x1b[1mx", NULL },
	{ "a string that a sequence cuts", "\x1b]0;t\x1b[1mx", "\x1b[1mx", NULL },
	{ "a string in a string", "\x1b]0;t\x1b]52;c;x\x07y", "y", NULL },
	{ "two ESC", "\x1b\x1b[1mx", "\x1b\x1b[1mx", NULL },
	{ "CAN ends a string", "\x1b]0;t\x18x", "x", NULL },
};

static size_t run(const char *in, bool may_ask, size_t step, unsigned char *out)
{
	struct escapes e = { .may_ask = may_ask };
	size_t len = strlen(in), n = 0;

	for (size_t at = 0; at < len; at += step)
		n += escapes_filter(&e, in + at, len - at < step ? len - at : step, out + n);
	return n;
}

static void check(const struct row *r, bool may_ask, size_t step)
{
	const char *want = may_ask && r->pty ? r->pty : r->relayed;
	unsigned char out[512];
	size_t n = run(r->in, may_ask, step, out);

	if (n != strlen(want) || memcmp(out, want, n) != 0)
		fail_msg("%s (step %zu, pty %d): %zu bytes, want %zu", r->what, step, may_ask, n,
			 strlen(want));
}

static void each_sequence_passes_or_is_dropped_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t step = 1; step <= 64; step = step * 2 + 1) {
			check(&rows[i], false, step);
			check(&rows[i], true, step);
		}
}

static void an_unfinished_string_does_not_swallow_everything(void **state)
{
	static char in[100000];
	static unsigned char out[100064];
	struct escapes e = { 0 };
	size_t n;

	(void)state;
	memset(in, 'x', sizeof(in));
	memcpy(in, "\x1b]0;", 4);
	n = escapes_filter(&e, in, sizeof(in), out);
	assert_int_equal(n, sizeof(in) - 2 - 65537); /* ESC ], then the string */
}

static void an_endless_control_sequence_is_dropped(void **state)
{
	unsigned char out[512];
	char in[300];

	(void)state;
	memset(in, '1', sizeof(in) - 1);
	in[0] = 0x1b;
	in[1] = '[';
	in[sizeof(in) - 1] = '\0';
	assert_true(run(in, false, 7, out) < sizeof(in) - ESCAPES_HELD_MAX + 2);
}

static void in_and_out_may_share_a_buffer(void **state)
{
	unsigned char room[ESCAPES_HELD_MAX + 256];
	struct escapes e = { 0 };
	const char *first = "a\x1b[3", *second = "1mred\x1b]0;t\x07!";
	size_t n;

	(void)state;
	memcpy(room + ESCAPES_HELD_MAX, first, strlen(first));
	n = escapes_filter(&e, room + ESCAPES_HELD_MAX, strlen(first), room);
	assert_int_equal(n, 1);
	memcpy(room + ESCAPES_HELD_MAX, second, strlen(second));
	n = escapes_filter(&e, room + ESCAPES_HELD_MAX, strlen(second), room);
	assert_int_equal(n, strlen("\x1b[31mred!"));
	assert_memory_equal(room, "\x1b[31mred!", n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sequence_passes_or_is_dropped_whole),
		cmocka_unit_test(an_unfinished_string_does_not_swallow_everything),
		cmocka_unit_test(an_endless_control_sequence_is_dropped),
		cmocka_unit_test(in_and_out_may_share_a_buffer),
	};

	return cmocka_run_group_tests_name("escapes", tests, NULL, NULL);
}
