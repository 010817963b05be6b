/*
 * test_box_streams.c - what becomes of a program's stdin, stdout and stderr, in each of
 * the ways that struct nsbox_run offers
 */
#include "box_run.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

enum { MIB = 1 << 20 };
static struct nsbox_box *box; /* the default policy: 1 MiB a stream */
static char scratch[64];

static int temp_fd(void)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/file.XXXXXX", scratch);
	fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static void file_is(int fd, const char *want)
{
	char got[4096];
	ssize_t n = pread(fd, got, sizeof(got) - 1, 0);

	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, want);
}

static struct nsbox_run both_streams(void)
{
	static const char *const argv[] = { "sh", "-c", "echo out; echo err >&2", NULL };

	return command(argv);
}

/* --------------------------------------------------------------------- by mode -- */

static void captured_streams_are_kept_apart(void **state)
{
	const struct nsbox_run run = both_streams();
	struct nsbox_result *r = result_of(box, &run);
	size_t out_len, err_len;

	(void)state;
	assert_string_equal(nsbox_result_stdout(r, &out_len), "out\n");
	assert_string_equal(nsbox_result_stderr(r, &err_len), "err\n");
	assert_int_equal(out_len, 4);
	assert_int_equal(err_len, 4);
	nsbox_result_free(r);
}

static void a_stream_that_stayed_empty_is_an_empty_text(void **state)
{
	struct nsbox_result *r = result_of_sh(box, ":");
	size_t len = 9;

	(void)state;
	assert_string_equal(nsbox_result_stdout(r, &len), "");
	assert_int_equal(len, 0);
	nsbox_result_free(r);
}

static void a_null_stream_is_dropped_and_not_captured(void **state)
{
	struct nsbox_run run = both_streams();
	struct nsbox_result *r;
	size_t len = 9;

	(void)state;
	run.out = NSBOX_IO_NULL;
	r = result_of(box, &run);
	assert_null(nsbox_result_stdout(r, &len));
	assert_int_equal(len, 0);
	assert_string_equal(nsbox_result_stderr(r, NULL), "err\n");
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout\":null"));
	nsbox_result_free(r);
}

static void a_descriptor_is_the_program_s_own(void **state)
{
	struct nsbox_run run = both_streams();
	int fd = temp_fd();
	struct nsbox_result *r;

	(void)state;
	run.out = run.err = NSBOX_IO_FD;
	run.out_fd = run.err_fd = fd;
	r = result_of(box, &run);
	assert_null(nsbox_result_stdout(r, NULL));
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout\":null"));
	nsbox_result_free(r);
	file_is(fd, "out\nerr\n");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* still ours, as it was */
	close(fd);
}

static void a_relay_copies_and_the_program_never_holds_the_file(void **state)
{
	struct nsbox_run run = command(SH("echo out; readlink /proc/self/fd/1 | cut -d: -f1; echo err >&2"));
	int out = temp_fd(), err = temp_fd();
	struct nsbox_result *r;

	(void)state;
	run.out = run.err = NSBOX_IO_RELAY;
	run.out_fd = out;
	run.err_fd = err;
	r = result_of(box, &run);
	assert_null(nsbox_result_stdout(r, NULL));
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout_bytes\":9"));
	nsbox_result_free(r);
	file_is(out, "out\npipe\n");
	file_is(err, "err\n");
	close(out);
	close(err);
}

static void one_number_may_be_given_for_both(void **state)
{
	struct nsbox_run run = both_streams();
	int fd = temp_fd();
	char got[64];
	ssize_t n;

	(void)state;
	run.out = run.err = NSBOX_IO_RELAY;
	run.out_fd = run.err_fd = fd;
	nsbox_result_free(result_of(box, &run));
	n = pread(fd, got, sizeof(got) - 1, 0);
	assert_int_equal(n, 8);
	got[n] = '\0';
	assert_non_null(strstr(got, "out\n"));
	assert_non_null(strstr(got, "err\n"));
	close(fd);
}

static void stdin_is_empty_unless_given(void **state)
{
	static const int modes[] = { NSBOX_IO_CAPTURE, NSBOX_IO_NULL };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct nsbox_run run = command(SH("cat; echo end"));

		run.in = modes[i];
		expect_out(result_of(box, &run), "end\n");
	}
}

/* ---------------------------------------------------------------------- broken ends -- */

static void a_full_disk_behind_a_relay_is_an_error_and_not_a_success(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(LIST("echo", "lost"));
	struct nsbox_result *r = NULL;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	run.out = NSBOX_IO_RELAY;
	run.out_fd = fd;
	assert_int_equal(nsbox_box_run(box, &run, &r, &err), NSBOX_E_SYSTEM);
	assert_int_equal(err.os_errno, ENOSPC);
	assert_non_null(strstr(err.message, "stdout"));
	assert_null(r);
	close(fd);
	expect_out(result_of_sh(box, "echo next"), "next\n");
}

/* SIGPIPE has its default action here, which would end this test program. */
static void a_reader_that_left_ends_neither_us_nor_the_run(void **state)
{
	static const char *const argv[] = { "sh", "-c",
		"i=0; while [ $i -lt 300 ]; do echo 0123456789 || exit 9; i=$((i+1)); done; sleep 0.1; echo more; exit 3", NULL };
	struct nsbox_run run = command(argv);
	struct nsbox_result *r;
	struct sigaction act;
	sigset_t pending;
	int ends[2];

	(void)state;
	assert_int_equal(sigaction(SIGPIPE, NULL, &act), 0);
	assert_true(act.sa_handler == SIG_DFL);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	run.out = NSBOX_IO_RELAY;
	run.out_fd = ends[1];
	r = result_of(box, &run);
	/* Its own pipe broke: it got the SIGPIPE that it would get in a shell. */
	if (nsbox_result_verdict(r) == NSBOX_SIGNALED)
		assert_int_equal(nsbox_result_signal(r), SIGPIPE);
	else
		assert_true(nsbox_result_exit_code(r) == 9 || nsbox_result_exit_code(r) == 3);
	nsbox_result_free(r);
	close(ends[1]);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 0);
}

static void a_sigpipe_that_was_pending_before_stays(void **state)
{
	struct nsbox_run run = command(LIST("echo", "x"));
	const struct timespec now = { 0 };
	sigset_t pipe_only, pending;
	int ends[2];

	(void)state;
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &pipe_only, NULL), 0);
	raise(SIGPIPE);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	run.out = NSBOX_IO_RELAY;
	run.out_fd = ends[1];
	nsbox_result_free(result_of(box, &run));
	close(ends[1]);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 1);
	assert_int_equal(sigtimedwait(&pipe_only, NULL, &now), SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &pipe_only, NULL), 0);
}

/* ----------------------------------------------------------------------------- big -- */

struct reader {
	int fd;
	unsigned pause_us;
	uint64_t bytes;
	bool is_right;
};

static void *read_slowly(void *arg)
{
	struct reader *r = arg;
	char chunk[65536];
	ssize_t n;

	r->is_right = true;
	while ((n = read(r->fd, chunk, sizeof(chunk))) > 0) {
		for (ssize_t i = 0; i < n; i++, r->bytes++)
			if (chunk[i] != (r->bytes % 8 == 7 ? '\n' : 'x'))
				r->is_right = false;
		usleep(r->pause_us);
	}
	return NULL;
}

static void a_slow_reader_gets_every_byte(void **state)
{
	static const char *const keys[] = { "limits.stdout", "64M", NULL };
	struct nsbox_box *wide = new_box(NULL, keys);
	struct nsbox_run run = command(SH("yes xxxxxxx | head -c 10485760"));
	struct reader reader = { .pause_us = 1000 };
	struct nsbox_result *r;
	pthread_t thread;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	reader.fd = ends[0];
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	run.out = NSBOX_IO_RELAY;
	run.out_fd = ends[1];
	r = result_of(wide, &run);
	assert_int_equal(nsbox_result_exit_code(r), 0);
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout_bytes\":10485760,\"stdout_truncated\":false"));
	nsbox_result_free(r);
	assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* ours to set, not the library's */
	close(ends[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(reader.bytes, 10 * MIB);
	assert_true(reader.is_right);
	close(ends[0]);
	nsbox_box_close(wide);
}

static void a_relay_stops_at_the_limit_and_the_record_knows(void **state)
{
	struct nsbox_run run = command(SH("head -c 3000000 /dev/zero"));
	struct nsbox_result *r;
	int fd = temp_fd();
	struct stat st;

	(void)state;
	run.out = NSBOX_IO_RELAY;
	run.out_fd = fd;
	r = result_of(box, &run);
	assert_int_equal(nsbox_result_exit_code(r), 0); /* the writer is not held up */
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout_bytes\":3000000,\"stdout_truncated\":true"));
	nsbox_result_free(r);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, MIB);
	close(fd);
}

static void a_capture_is_bounded_and_says_how_much_there_was(void **state)
{
	struct nsbox_result *r = result_of_sh(box, "yes | head -c 10000000");
	size_t len;

	(void)state;
	assert_non_null(nsbox_result_stdout(r, &len));
	assert_true(len <= MIB && len > MIB - 64);
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout_bytes\":10000000,\"stdout_truncated\":true"));
	nsbox_result_free(r);
}

static void *write_ten(void *arg)
{
	static char chunk[65536];
	int fd = *(int *)arg;

	for (int left = 10 * MIB; left > 0;) {
		ssize_t n = write(fd, chunk, sizeof(chunk) < (size_t)left ? sizeof(chunk) : (size_t)left);

		if (n <= 0)
			break;
		left -= (int)n;
	}
	close(fd);
	return NULL;
}

static void stdin_is_relayed_from_a_pipe_and_from_a_file(void **state)
{
	struct nsbox_run run = command(SH("wc -c"));
	int ends[2], fd = temp_fd();
	pthread_t thread;

	(void)state;
	run.in = NSBOX_IO_RELAY;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_ten, &ends[1]), 0);
	run.in_fd = ends[0];
	expect_out(result_of(box, &run), "10485760\n");
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(ends[0]);

	assert_int_equal(ftruncate(fd, 10 * MIB), 0);
	run.in_fd = fd;
	expect_out(result_of(box, &run), "10485760\n");
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	run.in = NSBOX_IO_FD;
	expect_out(result_of(box, &run), "10485760\n");
	close(fd);
}

/* A writer that never ends, and a program that does not read: the end still comes. */
static void an_open_stdin_does_not_hold_the_verdict(void **state)
{
	struct nsbox_run run = command(SH("head -c 1 >/dev/null; echo enough"));
	uint64_t start = monotonic_ms();
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	run.in = NSBOX_IO_RELAY;
	run.in_fd = ends[0];
	expect_out(result_of(box, &run), "enough\n");
	assert_true(monotonic_ms() - start < 10000);
	close(ends[0]);
	close(ends[1]);
}

static void bytes_that_are_no_text_come_as_they_are(void **state)
{
	struct nsbox_result *r = result_of_sh(box, "printf 'a\\000\\377b'");
	size_t len;

	(void)state;
	assert_memory_equal(nsbox_result_stdout(r, &len), "a\0\377b", 5);
	assert_int_equal(len, 4);
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout\":\"YQD/Yg==\",\"stdout_encoding\":\"base64\""));
	nsbox_result_free(r);
}

/* ---------------------------------------------------------------------------- a pty -- */

static void a_pty_needs_no_terminal_of_the_caller(void **state)
{
	struct nsbox_run run = command(SH("test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2"));

	(void)state;
	run.flags = NSBOX_RUN_TTY;
	expect_out(result_of(box, &run), "24 80\r\nerr\r\n");
	run.tty_rows = 7;
	run.tty_cols = 123;
	expect_out(result_of(box, &run), "7 123\r\nerr\r\n");
}

static enum nsbox_strength output_strength(const struct nsbox_run *run)
{
	struct nsbox_result *r = result_of(box, run);
	enum nsbox_strength s = nsbox_result_enforced(r, "output");
	nsbox_result_free(r);
	return s;
}

static void no_bound_is_claimed_for_a_pty_that_is_passed_on(void **state)
{
	struct nsbox_run run = command(SH("echo some"));
	int out = temp_fd();

	(void)state;
	assert_int_equal(output_strength(&run), NSBOX_STRENGTH_USERSPACE);
	run.flags = NSBOX_RUN_TTY; /* captured: bounded like a pipe */
	assert_int_equal(output_strength(&run), NSBOX_STRENGTH_USERSPACE);
	run.out = NSBOX_IO_RELAY, run.out_fd = out;
	assert_int_equal(output_strength(&run), NSBOX_STRENGTH_NONE);
	run.flags = 0;
	assert_int_equal(output_strength(&run), NSBOX_STRENGTH_USERSPACE);
	close(out);
}

static void a_pty_is_relayed_both_ways_and_resized(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(SH("stty -echo; read line; echo got $line; stty size"));
	struct nsbox_result *r = NULL;
	int in[2], out = temp_fd();

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	run.flags = NSBOX_RUN_TTY;
	run.in = run.out = NSBOX_IO_RELAY;
	run.in_fd = in[0];
	run.out_fd = out;
	must(nsbox_box_start(box, &run, &err), &err);
	must(nsbox_box_resize(box, 33, 44, &err), &err);
	for (uint64_t end = monotonic_ms() + 300; monotonic_ms() < end;)
		assert_int_equal(nsbox_box_wait(box, 50, &err), 0);
	assert_int_equal(write(in[1], "hi\n", 3), 3);
	while (nsbox_box_wait(box, -1, &err) == 0)
		;
	must(nsbox_box_collect(box, &r, &err), &err);
	assert_int_equal(nsbox_result_exit_code(r), 0);
	assert_null(nsbox_result_stdout(r, NULL));
	nsbox_result_free(r);
	file_is(out, "got hi\r\n33 44\r\n");
	close(in[0]);
	close(in[1]);
	close(out);
}

static void a_pty_to_nowhere_does_not_stall_its_program(void **state)
{
	struct nsbox_run run = command(SH("head -c 500000 /dev/zero; exit 4"));
	struct nsbox_result *r;

	(void)state;
	run.flags = NSBOX_RUN_TTY;
	run.out = NSBOX_IO_NULL;
	r = result_of(box, &run);
	assert_int_equal(nsbox_result_exit_code(r), 4);
	assert_null(nsbox_result_stdout(r, NULL));
	nsbox_result_free(r);
}

/* ---------------------------------------------------------------- the standard three -- */

/* Pipes of the library then get the numbers 0 to 2: none may be mixed up. */
static int without_standard_streams(void)
{
	static const char *const argv[] = { "sh", "-c", "cat; echo out; echo err >&2", NULL };
	struct nsbox_run run = command(argv);
	struct nsbox_result *r = NULL;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int in = temp_fd();

	CHILD_CHECK(write(in, "in\n", 3) == 3 && lseek(in, 0, SEEK_SET) == 0);
	CHILD_CHECK(dup2(2, 9) == 9);
	close(0), close(1), close(2);
	run.in = NSBOX_IO_RELAY;
	run.in_fd = in;
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0);
		CHILD_CHECK(nsbox_result_exit_code(r) == 0);
		CHILD_CHECK(strcmp(nsbox_result_stderr(r, NULL), "err\n") == 0);
		CHILD_CHECK(strcmp(nsbox_result_stdout(r, NULL), "in\nout\n") == 0);
		CHILD_CHECK(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0);
		CHILD_CHECK(lseek(in, 0, SEEK_SET) == 0);
		nsbox_result_free(r);
		r = NULL;
	}
	/* A box that opens without them has its own descriptors down there. */
	return 0;
}

static int box_opened_without_standard_streams(void)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	struct nsbox_box *own = NULL;
	struct nsbox_result *r = NULL;
	struct nsbox_run run = both_streams();

	CHILD_CHECK(dup2(2, 9) == 9);
	close(0), close(1), close(2);
	CHILD_CHECK(nsbox_policy_new(&p, NULL, &err) == 0);
	CHILD_CHECK(nsbox_box_open(&own, NSBOX_TIER_LOCAL, p, &err) == 0);
	CHILD_CHECK(nsbox_box_run(own, &run, &r, &err) == 0);
	CHILD_CHECK(strcmp(nsbox_result_stdout(r, NULL), "out\n") == 0);
	CHILD_CHECK(strcmp(nsbox_result_stderr(r, NULL), "err\n") == 0);
	nsbox_result_free(r);
	run.flags = NSBOX_RUN_TTY;
	CHILD_CHECK(nsbox_box_run(own, &run, &r, &err) == 0);
	CHILD_CHECK(strcmp(nsbox_result_stdout(r, NULL), "out\r\nerr\r\n") == 0);
	nsbox_result_free(r);
	nsbox_box_close(own);
	nsbox_policy_free(p);
	CHILD_CHECK(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0);
	return 0;
}

static void closed_standard_streams_are_no_obstacle(void **state)
{
	(void)state;
	in_child(without_standard_streams);
	in_child(box_opened_without_standard_streams);
}

static void a_socket_pair_works_as_a_stream(void **state)
{
	struct nsbox_run run = command(LIST("cat"));
	char got[8] = "";
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(write(pair[0], "ping", 4), 4);
	assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
	run.in = run.out = NSBOX_IO_RELAY;
	run.in_fd = run.out_fd = pair[1];
	nsbox_result_free(result_of(box, &run));
	assert_int_equal(read(pair[0], got, sizeof(got)), 4);
	assert_string_equal(got, "ping");
	close(pair[0]);
	close(pair[1]);
}

/* ----------------------------------------------------------------------------- main -- */

static int set_up(void **state)
{
	(void)state;
	return scratch_and_box(scratch, sizeof(scratch), "/tmp/nsbox-streams.XXXXXX", &box);
}

static int tear_down(void **state)
{
	(void)state;
	nsbox_box_close(box);
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_streams_are_kept_apart),
		cmocka_unit_test(a_stream_that_stayed_empty_is_an_empty_text),
		cmocka_unit_test(a_null_stream_is_dropped_and_not_captured),
		cmocka_unit_test(a_descriptor_is_the_program_s_own),
		cmocka_unit_test(a_relay_copies_and_the_program_never_holds_the_file),
		cmocka_unit_test(one_number_may_be_given_for_both),
		cmocka_unit_test(stdin_is_empty_unless_given),
		cmocka_unit_test(a_full_disk_behind_a_relay_is_an_error_and_not_a_success),
		cmocka_unit_test(a_reader_that_left_ends_neither_us_nor_the_run),
		cmocka_unit_test(a_sigpipe_that_was_pending_before_stays),
		cmocka_unit_test(a_slow_reader_gets_every_byte),
		cmocka_unit_test(a_relay_stops_at_the_limit_and_the_record_knows),
		cmocka_unit_test(a_capture_is_bounded_and_says_how_much_there_was),
		cmocka_unit_test(stdin_is_relayed_from_a_pipe_and_from_a_file),
		cmocka_unit_test(an_open_stdin_does_not_hold_the_verdict),
		cmocka_unit_test(bytes_that_are_no_text_come_as_they_are),
		cmocka_unit_test(a_pty_needs_no_terminal_of_the_caller),
		cmocka_unit_test(no_bound_is_claimed_for_a_pty_that_is_passed_on),
		cmocka_unit_test(a_pty_is_relayed_both_ways_and_resized),
		cmocka_unit_test(a_pty_to_nowhere_does_not_stall_its_program),
		cmocka_unit_test(closed_standard_streams_are_no_obstacle),
		cmocka_unit_test(a_socket_pair_works_as_a_stream),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
