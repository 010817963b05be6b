/*
 * test_capture.c - the bounded capture of a payload's output
 *
 * Property tests with a fixed seed: the text does not depend on how the stream was
 * cut into reads, is exact below the limit, and never splits a character above it.
 */
#include "base/cleanup.h"
#include "base/utf8.h"
#include "runtime/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static char *captured(const char *s, size_t total, uint64_t limit, uint64_t seed,
		      size_t *len)
{
	struct capture c;
	char *text;

	capture_init(&c, limit);
	for (size_t at = 0; at < total;) {
		size_t n = seed ? next(&seed) % 97 : total;

		if (seed && next(&seed) % 8 == 0)
			n *= 41;
		n = n < total - at ? n : total - at;
		capture_add(&c, s + at, n);
		at += n;
		assert_true(c.cap <= limit + 8);
	}
	assert_int_equal(c.total, total);
	assert_int_equal(capture_truncated(&c), total > limit);
	text = capture_take(&c, len);
	assert_non_null(text);
	assert_int_equal(text[*len], 0);
	capture_free(&c);
	return text;
}

static void random_bytes(char *s, size_t len, uint64_t *seed)
{
	for (size_t i = 0; i < len; i++)
		s[i] = (char)next(seed);
}

static size_t text_of(char *s, size_t max, uint64_t *seed)
{
	static const char *const chars[] = { "a", "\xc3\xa9", "\xe2\x82\xac",
					     "\xf0\x9f\x98\x80", "\n" };
	size_t len = 0;

	while (len + 4 <= max) {
		const char *c = chars[next(seed) % ARRAY_SIZE(chars)];

		memcpy(s + len, c, strlen(c));
		len += strlen(c);
	}
	return len;
}

static void text_below_the_limit_is_untouched(void **state)
{
	static const uint64_t limits[] = { 1, 5, 63, 64, 65, 100, 4095, 4096, 4097, 9000 };
	uint64_t seed = 88172645463325252u;
	char s[9000];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		for (size_t less = 0; less < 3 && less <= limits[i]; less++) {
			size_t len, n = limits[i] - less;
			owned_mem char *out = NULL;

			random_bytes(s, n, &seed);
			out = captured(s, n, limits[i], seed, &len);
			assert_int_equal(len, n);
			assert_memory_equal(out, s, n);
		}
}

static void the_result_does_not_depend_on_how_the_stream_was_cut(void **state)
{
	uint64_t seed = 1234567;
	char s[20000];

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t total = next(&seed) % sizeof(s), whole, pieces;
		uint64_t limit = next(&seed) % 12000;
		owned_mem char *a = NULL, *b = NULL;

		if (round & 1)
			random_bytes(s, total, &seed);
		else
			total = text_of(s, total, &seed);
		a = captured(s, total, limit, 0, &whole);
		b = captured(s, total, limit, next(&seed), &pieces);
		assert_int_equal(whole, pieces);
		assert_memory_equal(a, b, whole);
	}
}

/* Head and tail are the stream's own, and the number between them is the truth. */
static void check_parts(const char *s, size_t total, const char *out, size_t len)
{
	const char *mark = memmem(out, len, "\n... [", 6);
	size_t head, tail;
	unsigned long long omitted;
	char *end;

	assert_non_null(mark);
	head = (size_t)(mark - out);
	omitted = strtoull(mark + 6, &end, 10);
	assert_memory_equal(end, " bytes omitted] ...\n", 20);
	tail = len - (size_t)(end + 20 - out);
	assert_int_equal(head + omitted + tail, total);
	assert_memory_equal(out, s, head);
	assert_memory_equal(end + 20, s + total - tail, tail);
}

static void truncated_text_is_head_notice_and_tail_within_the_limit(void **state)
{
	uint64_t seed = 42;
	char s[20000];

	(void)state;
	for (int round = 0; round < 600; round++) {
		uint64_t limit = 64 + next(&seed) % 3000;
		size_t len, total = text_of(s, limit + 10 + next(&seed) % 9000, &seed);
		owned_mem char *out = captured(s, total, limit, next(&seed), &len);

		assert_true(utf8_valid(s, total));
		assert_true(len <= limit);
		assert_true(len + 16 + 20 >= limit); /* cuts cost at most that */
		assert_true(utf8_valid(out, len));
		check_parts(s, total, out, len);
	}
}

static void bytes_that_are_not_text_are_kept_as_they_are(void **state)
{
	uint64_t seed = 7;
	char s[5000];

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint64_t limit = 64 + next(&seed) % 1000;
		size_t len, total = limit + 1 + next(&seed) % 3000;
		owned_mem char *out = NULL;

		for (size_t i = 0; i < total; i++)
			s[i] = (char)(0x80 + next(&seed) % 0x40); /* tails only */
		out = captured(s, total, limit, next(&seed), &len);
		check_parts(s, total, out, len);
	}
}

static void a_limit_below_the_notice_keeps_whole_characters_of_the_head(void **state)
{
	static const struct { uint64_t limit; size_t want; } rows[] = {
		{ 0, 0 }, { 1, 0 }, { 2, 2 }, { 14, 14 }, { 15, 14 }, { 63, 62 },
	};
	char s[100];

	(void)state;
	for (size_t i = 0; i < sizeof(s); i += 2)
		memcpy(s + i, "\xc3\xa9", 2);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			size_t len;
			owned_mem char *out =
				captured(s, sizeof(s), rows[i].limit, seed, &len);

			assert_int_equal(len, rows[i].want);
			assert_memory_equal(out, s, len);
		}
}

static void exactly_the_limit_is_whole_and_one_byte_more_is_cut(void **state)
{
	char s[101];
	size_t len;
	owned_mem char *whole = NULL, *cut = NULL;

	(void)state;
	memset(s, 'x', sizeof(s));
	whole = captured(s, 100, 100, 3, &len);
	assert_int_equal(len, 100);
	assert_null(strstr(whole, "omitted"));
	cut = captured(s, 101, 100, 3, &len);
	assert_true(len <= 100);
	assert_non_null(strstr(cut, "\n... [30 bytes omitted] ...\n"));
}

static void an_empty_stream_is_an_empty_string(void **state)
{
	size_t len = 1;
	owned_mem char *out = captured("", 0, 1000, 0, &len);

	(void)state;
	assert_int_equal(len, 0);
	assert_string_equal(out, "");
}

#ifdef __SANITIZE_ADDRESS__
#define SHADOW_MEMORY 1 /* reserves terabytes, so RLIMIT_AS cannot be used */
#else
#define SHADOW_MEMORY 0
#endif

/* RLIMIT_AS makes realloc fail for real; what was kept until then is still there. */
static void running_out_of_memory_keeps_what_was_there_and_goes_on_counting(void **state)
{
	enum { CHUNK = 1 << 20, LIMIT = 1 << 30, ROUNDS = 400 };
	struct rlimit old, small = { .rlim_cur = 160u << 20 };
	owned_mem char *chunk = NULL, *out = NULL;
	struct capture c;
	size_t len;

	(void)state;
	if (SHADOW_MEMORY) {
		print_message("# SKIP: RLIMIT_AS cannot be lowered under AddressSanitizer\n");
		skip();
	}
	chunk = malloc(CHUNK);
	assert_non_null(chunk);
	memset(chunk, 'y', CHUNK);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	small.rlim_max = old.rlim_max;
	capture_init(&c, LIMIT);
	assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
	for (int i = 0; i < ROUNDS; i++)
		capture_add(&c, chunk, CHUNK);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_true(c.no_memory);
	assert_true(capture_truncated(&c));
	assert_int_equal(c.total, (uint64_t)CHUNK * ROUNDS);
	out = capture_take(&c, &len);
	assert_non_null(out);
	assert_true(len > CHUNK);
	assert_true(len < small.rlim_cur);
	assert_non_null(strstr(out, "bytes omitted"));
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The floor is far below what memcpy gives, so that a busy machine does not fail it;
 * work per byte on the hot path (about 1 ns) would. */
static void a_gibibyte_passes_at_the_speed_of_memory(void **state)
{
	enum { CHUNK = 65536 };
	owned_mem char *chunk = malloc(CHUNK), *out = NULL;
	struct capture c;
	double start, took;
	size_t len;

	(void)state;
	assert_non_null(chunk);
	memset(chunk, 'z', CHUNK);
	capture_init(&c, 1 << 20);
	start = seconds();
	for (int i = 0; i < (1 << 30) / CHUNK; i++)
		capture_add(&c, chunk, CHUNK);
	took = seconds() - start;
	out = capture_take(&c, &len);
	assert_non_null(out);
	assert_int_equal(c.total, 1 << 30);
	print_message("# 1 GiB captured at %.1f GB/s\n", 1.0737 / took);
	assert_true(took < 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_below_the_limit_is_untouched),
		cmocka_unit_test(the_result_does_not_depend_on_how_the_stream_was_cut),
		cmocka_unit_test(truncated_text_is_head_notice_and_tail_within_the_limit),
		cmocka_unit_test(bytes_that_are_not_text_are_kept_as_they_are),
		cmocka_unit_test(a_limit_below_the_notice_keeps_whole_characters_of_the_head),
		cmocka_unit_test(exactly_the_limit_is_whole_and_one_byte_more_is_cut),
		cmocka_unit_test(an_empty_stream_is_an_empty_string),
		cmocka_unit_test(running_out_of_memory_keeps_what_was_there_and_goes_on_counting),
		cmocka_unit_test(a_gibibyte_passes_at_the_speed_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
