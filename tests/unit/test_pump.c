/*
 * pump.c: streams whose other side does not do what it should. A test that hangs is
 * ended by SIGALRM, which is a failure.
 */
#include "runtime/pump.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

static struct pump opened(int epoll, int src, struct capture *into)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct pump p;

	capture_init(into, 4096);
	assert_int_equal(pump_open(&p, epoll, (struct pump_end){ .fd = src },
				   (struct pump_end){ .fd = -1 }, &err), 0);
	p.capture = into;
	return p;
}

/* Another box may have got the end of a dead one, and write to it for ever. */
static void a_source_without_end_is_drained_by_what_a_pipe_can_hold(void **state)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct capture into;
	struct pump p = opened(epoll, zero, &into);

	(void)state;
	alarm(10);
	assert_true(pump_drain(&p));
	alarm(0);
	assert_true(p.over);
	assert_true(p.total >= 1 << 20);
	assert_true(p.total <= 4 << 20);
	assert_int_equal(into.total, p.total);
	capture_free(&into);
	close(epoll);
}

static void a_full_pipe_is_drained_to_its_end(void **state)
{
	static char block[65536];
	int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2];
	uint64_t written = 0;
	struct capture into;
	struct pump p;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	(void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	while ((n = write(ends[1], block, sizeof(block))) > 0)
		written += (uint64_t)n;
	p = opened(epoll, ends[0], &into);
	alarm(10);
	assert_true(pump_drain(&p)); /* the writing end is open: "empty" is the end */
	alarm(0);
	assert_true(written >= sizeof(block));
	assert_int_equal(p.total, written);
	capture_free(&into);
	close(ends[1]);
	close(epoll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_without_end_is_drained_by_what_a_pipe_can_hold),
		cmocka_unit_test(a_full_pipe_is_drained_to_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
