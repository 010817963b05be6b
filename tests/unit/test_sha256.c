/* SHA-256 against the standard's vectors and against sha256sum(1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sha256.h"

static void hash(const void *data, size_t len, size_t step, char text[65])
{
	const char *at = data;
	unsigned char digest[32];
	struct sha256 s;

	sha256_init(&s);
	while (len) {
		size_t n = len < step ? len : step;

		sha256_add(&s, at, n);
		at += n;
		len -= n;
	}
	sha256_end(&s, digest);
	sha256_hex(digest, text);
}

static void the_vectors_of_the_standard_come_out(void **state)
{
	static const struct {
		const char *text, *digest;
	} rows[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	};
	char text[65];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hash(rows[i].text, strlen(rows[i].text), 1, text);
		assert_string_equal(text, rows[i].digest);
	}
}

static void a_million_letters_come_out(void **state)
{
	char *million = malloc(1000000), text[65];

	(void)state;
	assert_non_null(million);
	memset(million, 'a', 1000000);
	hash(million, 1000000, 4093, text);
	assert_string_equal(text,
			    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(million);
}

static void every_length_around_a_block_equals_sha256sum(void **state)
{
	static const size_t steps[] = { 1, 7, 63, 64, 65, 200 };
	unsigned char data[200];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 37 + 11);
	for (size_t len = 50; len <= 135; len++) {
		char name[] = "/tmp/nsbox-sha-XXXXXX", cmd[64], want[65] = "", got[65];
		int fd = mkstemp(name);
		FILE *p;

		assert_true(fd >= 0);
		assert_int_equal(write(fd, data, len), (ssize_t)len);
		snprintf(cmd, sizeof(cmd), "sha256sum <%s", name);
		p = popen(cmd, "r");
		assert_non_null(p);
		assert_int_equal(fread(want, 1, 64, p), 64);
		pclose(p);
		close(fd);
		unlink(name);
		for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
			hash(data, len, steps[k], got);
			assert_string_equal(got, want);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vectors_of_the_standard_come_out),
		cmocka_unit_test(a_million_letters_come_out),
		cmocka_unit_test(every_length_around_a_block_equals_sha256sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
