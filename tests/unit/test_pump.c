/*
 * test_pump.c - one stream between a box and its caller, without a box
 */
#include "base/cleanup.h"
#include "runtime/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
	struct pump pump;
	struct capture capture;
	int epoll, in, out; /* our ends: what the payload writes to, what the caller reads */
};

static int flags_of(int fd)
{
	return fcntl(fd, F_GETFL);
}

/* A pipe into the pump and, unless it captures, one out of it. */
static void rig_up(struct rig *r, bool captures)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int in[2], out[2] = { -1, -1 };

	*r = (struct rig){ .epoll = epoll_create1(EPOLL_CLOEXEC) };
	capture_init(&r->capture, 1 << 20);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	if (!captures)
		assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pump_open(&r->pump, r->epoll, (struct pump_end){ in[0], false },
				   (struct pump_end){ out[1], true }, &err), 0);
	r->pump.capture = &r->capture;
	r->in = in[1];
	r->out = out[0];
}

static void rig_down(struct rig *r)
{
	pump_close(&r->pump);
	pump_close(&r->pump); /* twice is fine */
	capture_free(&r->capture);
	close(r->epoll);
	if (r->in >= 0)
		close(r->in);
	if (r->out >= 0)
		close(r->out);
}

static bool wakes(const struct rig *r)
{
	struct epoll_event ev;

	return epoll_wait(r->epoll, &ev, 1, 0) == 1;
}

static void what_is_written_is_captured_until_the_end(void **state)
{
	struct rig r;
	char *text;
	size_t len;

	(void)state;
	rig_up(&r, true);
	pump_step(&r.pump);
	assert_false(wakes(&r));
	assert_int_equal(write(r.in, "abc", 3), 3);
	assert_true(wakes(&r));
	pump_step(&r.pump);
	assert_false(wakes(&r));
	assert_int_equal(r.pump.total, 3);
	assert_false(r.pump.over);
	close(r.in);
	r.in = -1;
	assert_true(wakes(&r));
	pump_step(&r.pump);
	assert_true(r.pump.over);
	assert_true(r.pump.is_capture);
	text = capture_take(&r.capture, &len);
	assert_string_equal(text, "abc");
	free(text);
	rig_down(&r);
}

static void a_relay_stops_passing_at_its_limit_and_goes_on_counting(void **state)
{
	char got[16] = "";
	struct rig r;

	(void)state;
	rig_up(&r, false);
	r.pump.limit = 5;
	assert_int_equal(write(r.in, "0123456789", 10), 10);
	pump_step(&r.pump);
	assert_int_equal(read(r.out, got, sizeof(got)), 5);
	assert_string_equal(got, "01234");
	assert_int_equal(r.pump.total, 10);
	assert_int_equal(r.pump.passed, 5);
	assert_false(r.pump.is_capture);
	rig_down(&r);
}

static void a_reader_that_left_is_no_failure_and_raises_no_signal(void **state)
{
	sigset_t pending;
	struct rig r;

	(void)state;
	rig_up(&r, false);
	close(r.out);
	r.out = -1;
	assert_int_equal(write(r.in, "x", 1), 1);
	pump_step(&r.pump); /* SIGPIPE has its default action here */
	assert_true(r.pump.over);
	assert_int_equal(r.pump.error, 0);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 0);
	rig_down(&r);
}

static void a_full_disk_is_a_failure_with_its_errno(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int in[2], epoll = epoll_create1(EPOLL_CLOEXEC);
	struct pump p;

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pump_open(&p, epoll, (struct pump_end){ in[0], false },
				   (struct pump_end){ open("/dev/full", O_WRONLY | O_CLOEXEC), true }, &err), 0);
	assert_int_equal(write(in[1], "x", 1), 1);
	pump_step(&p);
	assert_true(p.over);
	assert_int_equal(p.error, ENOSPC);
	pump_close(&p);
	close(in[1]);
	close(epoll);
}

static void a_slow_reader_stops_the_reading_and_never_blocks(void **state)
{
	static char chunk[4096];
	size_t sent = 0, got = 0;
	struct rig r;
	ssize_t n;

	(void)state;
	rig_up(&r, false);
	assert_int_equal(fcntl(r.in, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 200; i++) { /* nobody reads: this must come to a stop */
		while ((n = write(r.in, chunk, sizeof(chunk))) > 0)
			sent += (size_t)n;
		pump_step(&r.pump);
	}
	assert_true(sent < 400000 && sent > 65536);
	assert_false(wakes(&r)); /* waits for the reader */
	close(r.in);
	r.in = -1;
	assert_int_equal(fcntl(r.out, F_SETFL, O_NONBLOCK), 0);
	while (!pump_drain(&r.pump)) {
		assert_false(wakes(&r));
		n = read(r.out, chunk, sizeof(chunk));
		assert_true(n > 0);
		got += (size_t)n;
	}
	while ((n = read(r.out, chunk, sizeof(chunk))) > 0)
		got += (size_t)n;
	assert_int_equal(n, 0); /* its end was closed */
	assert_int_equal(got, sent);
	rig_down(&r);
}

static void flags_of_the_caller_s_description_stay(void **state)
{
	int out[2], in[2], epoll = epoll_create1(EPOLL_CLOEXEC);
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct pump p;
	int theirs;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	theirs = fcntl(out[1], F_DUPFD_CLOEXEC, 0);
	assert_int_equal(pump_open(&p, epoll, (struct pump_end){ in[0], false },
				   (struct pump_end){ out[1], true }, &err), 0);
	assert_int_equal(flags_of(theirs) & O_NONBLOCK, 0);
	assert_int_equal(flags_of(in[0]) & O_NONBLOCK, O_NONBLOCK); /* the control: ours has it */
	pump_close(&p);
	assert_int_equal(flags_of(in[0]), -1); /* owned, and closed */
	close(theirs);
	close(out[0]);
	close(in[1]);
	close(epoll);
}

static void a_source_that_is_no_descriptor_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int epoll = epoll_create1(EPOLL_CLOEXEC), to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct pump p;

	(void)state;
	assert_true(pump_open(&p, epoll, (struct pump_end){ -1, true }, (struct pump_end){ to, true }, &err) < 0);
	assert_true(p.over);
	assert_int_equal(flags_of(to), -1); /* taken over also on failure */
	close(epoll);
}

static void what_a_dead_writer_left_is_drained(void **state)
{
	char data[40000], *text;
	struct rig r;
	size_t len;

	(void)state;
	memset(data, 'd', sizeof(data));
	rig_up(&r, true);
	assert_int_equal(write(r.in, data, sizeof(data)), sizeof(data));
	/* The far end stays open, as with a background child: no EOF will come. */
	assert_true(pump_drain(&r.pump));
	assert_true(r.pump.over);
	text = capture_take(&r.capture, &len);
	assert_int_equal(len, sizeof(data));
	free(text);
	rig_down(&r);
}

/* Another box may have got the end of a dead one, and write to it for ever. */
static void a_source_without_end_is_drained_by_what_a_pipe_can_hold(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rig r = { .in = -1, .out = -1, .epoll = epoll_create1(EPOLL_CLOEXEC) };
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	(void)state;
	capture_init(&r.capture, 4096);
	assert_int_equal(pump_open(&r.pump, r.epoll, (struct pump_end){ zero, false },
				   (struct pump_end){ -1, false }, &err), 0);
	r.pump.capture = &r.capture;
	alarm(10); /* without a bound it never comes back */
	assert_true(pump_drain(&r.pump));
	alarm(0);
	assert_true(r.pump.total >= 1 << 20);
	assert_true(r.pump.total <= 4 << 20);
	rig_down(&r);
}

static void a_full_pipe_is_drained_to_its_end(void **state)
{
	static char block[65536];
	uint64_t written = 0;
	struct rig r;
	ssize_t n;

	(void)state;
	rig_up(&r, true);
	assert_int_equal(fcntl(r.in, F_SETFL, O_NONBLOCK), 0);
	while ((n = write(r.in, block, sizeof(block))) > 0)
		written += (uint64_t)n;
	assert_true(pump_drain(&r.pump)); /* the writing end is open: "empty" is the end */
	assert_true(written > 0);
	assert_int_equal(r.pump.total, written);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_without_end_is_drained_by_what_a_pipe_can_hold),
		cmocka_unit_test(a_full_pipe_is_drained_to_its_end),
		cmocka_unit_test(what_is_written_is_captured_until_the_end),
		cmocka_unit_test(a_relay_stops_passing_at_its_limit_and_goes_on_counting),
		cmocka_unit_test(a_reader_that_left_is_no_failure_and_raises_no_signal),
		cmocka_unit_test(a_full_disk_is_a_failure_with_its_errno),
		cmocka_unit_test(a_slow_reader_stops_the_reading_and_never_blocks),
		cmocka_unit_test(flags_of_the_caller_s_description_stay),
		cmocka_unit_test(a_source_that_is_no_descriptor_is_refused),
		cmocka_unit_test(what_a_dead_writer_left_is_drained),
	};

	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
