/* runtime/packages_record.c: what of a layer's lock is in a record. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "runtime/packages.h"

#define HEAD "{\"installer\":\"pip\",\"layer\":\"abc\",\"resolved\":["

static const struct {
	const char *lock, *want;
	size_t len; /* 0: of the text */
} rows[] = {
	{ "", "", 0 },
	{ "six==1.16.0 --hash=sha256:0a\nnumpy==2.0\n",
	  "{\"name\":\"six\",\"version\":\"1.16.0\",\"hash\":\"sha256:0a\"},"
	  "{\"name\":\"numpy\",\"version\":\"2.0\",\"hash\":null}", 0 },
	{ "@s/a@1.0 --integrity=sha512-x=\nb@2",
	  "{\"name\":\"@s/a\",\"version\":\"1.0\",\"hash\":\"sha512-x=\"},"
	  "{\"name\":\"b\",\"version\":\"2\",\"hash\":null}", 0 },
	{ "nothing\n@x\n==1\na==\na@\n\n \nok==1\n", "{\"name\":\"ok\",\"version\":\"1\",\"hash\":null}", 0 },
	{ "a==1\xff\nq\"==\x1b\n", "{\"name\":\"q\\\"\",\"version\":\"\\u001b\",\"hash\":null}", 0 },
	{ "a==1\0b\nc==2\n", "{\"name\":\"a\",\"version\":\"1\\u0000b\",\"hash\":null},"
	  "{\"name\":\"c\",\"version\":\"2\",\"hash\":null}", 12 },
};

static char folder[] = "/tmp/nsbox-record.XXXXXX";

static void write_lock(int dirfd, const char *text, size_t len)
{
	owned_fd int fd = openat(dirfd, "lock", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
}

static void the_lines_of_a_lock_are_in_the_record(void **state)
{
	owned_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned_mem char *got = NULL;
		char want[512];

		write_lock(fd, rows[i].lock, rows[i].len ? rows[i].len : strlen(rows[i].lock));
		snprintf(want, sizeof(want), HEAD "%s]}", rows[i].want);
		got = packages_record(fd, "abc", "pip");
		assert_string_equal(got, want);
	}
}

static void what_is_no_lock_is_none(void **state)
{
	owned_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_mem char *fifo = NULL, *link = NULL;

	(void)state;
	unlinkat(fd, "lock", 0);
	assert_int_equal(mkfifoat(fd, "lock", 0600), 0);
	fifo = packages_record(fd, "abc", "pip");
	assert_string_equal(fifo, HEAD "]}");
	unlinkat(fd, "lock", 0);
	assert_int_equal(symlinkat("/etc/passwd", fd, "lock"), 0);
	link = packages_record(fd, "abc", "pip");
	assert_string_equal(link, HEAD "]}");
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	owned_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	unlinkat(fd, "lock", 0);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lines_of_a_lock_are_in_the_record),
		cmocka_unit_test(what_is_no_lock_is_none),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
