/*
 * test_box_loop.c - boxes in an event loop of the caller: one descriptor a box, which is
 * readable whenever there is something to do, and nothing else has to be called
 */
#include "box_run.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

enum { BOXES = 32 };

struct flight {
	struct nsbox_box *box;
	struct nsbox_result *result;
	bool is_over;
};

/* 1: collected, 0: not yet, negative: failed. */
static int try_collect(struct flight *f)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int r = nsbox_box_collect(f->box, &f->result, &err);

	if (r == NSBOX_E_BUSY)
		return 0;
	must(r, &err);
	f->is_over = true;
	return 1;
}

/* Only poll() and collect: the clocks of the box must do with that. */
static struct nsbox_result *poll_and_collect(struct nsbox_box *box, int most_ms)
{
	struct flight f = { .box = box };
	uint64_t end = monotonic_ms() + (uint64_t)most_ms;
	struct pollfd pfd = { .fd = nsbox_box_fd(box), .events = POLLIN };

	assert_true(pfd.fd >= 0);
	while (!f.is_over) {
		uint64_t now = monotonic_ms();

		if (now >= end || poll(&pfd, 1, (int)(end - now)) == 0)
			fail_msg("nothing within %d ms", most_ms);
		assert_int_equal(nsbox_box_fd(box), pfd.fd); /* the number stays */
		try_collect(&f);
	}
	assert_int_equal(nsbox_box_fd(box), -1);
	return f.result;
}

static void thirty_two_boxes_share_one_epoll_loop(void **state)
{
	struct flight flights[BOXES] = { { 0 } };
	int epoll = epoll_create1(EPOLL_CLOEXEC), left = BOXES, fds = 0;
	uint64_t start = monotonic_ms();

	(void)state;
	for (int i = 0; i < BOXES; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &flights[i] };
		struct nsbox_error err = NSBOX_ERROR_INIT;
		char script[64];
		const char *argv[] = { "sh", "-c", script, NULL };
		const struct nsbox_run run = command(argv);

		snprintf(script, sizeof(script), "sleep 0.%d; echo %d; exit %d", i % 5, i, i);
		flights[i].box = new_box(NULL, NULL);
		must(nsbox_box_start(flights[i].box, &run, &err), &err);
		memset(script, 'x', sizeof(script) - 1); /* nothing of the request is needed now */
		assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, nsbox_box_fd(flights[i].box), &ev), 0);
	}
	while (left > 0) {
		struct epoll_event evs[8];
		int n = epoll_wait(epoll, evs, 8, 20000);

		if (n <= 0)
			fail_msg("%d boxes said nothing for 20 s", left);
		for (int i = 0; i < n; i++)
			left -= try_collect(evs[i].data.ptr);
		assert_true(++fds < 100000); /* no busy loop */
	}
	for (int i = 0; i < BOXES; i++) {
		char want[8];

		snprintf(want, sizeof(want), "%d\n", i);
		assert_int_equal(nsbox_result_exit_code(flights[i].result), i);
		assert_string_equal(nsbox_result_stdout(flights[i].result, NULL), want);
		nsbox_result_free(flights[i].result);
		nsbox_box_close(flights[i].box);
	}
	assert_true(monotonic_ms() - start < 60000);
	close(epoll);
}

static void a_command_that_does_not_exist_is_readable_at_once(void **state)
{
	static const struct {
		const char *name;
		int status;
		const char *word;
	} rows[] = {
		{ "no-such-command", 127, "not_found" },
		{ "/no/such/command", 127, "not_found" },
		{ "/etc/passwd", 126, "not_executable" },
		{ "/usr", 126, "not_executable" },
	};
	struct nsbox_box *box = new_box(NULL, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *argv[] = { rows[i].name, NULL };
		const struct nsbox_run run = command(argv);
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct nsbox_result *r;
		struct pollfd pfd;

		must(nsbox_box_start(box, &run, &err), &err);
		pfd = (struct pollfd){ .fd = nsbox_box_fd(box), .events = POLLIN };
		assert_int_equal(poll(&pfd, 1, 2000), 1);
		assert_int_equal(nsbox_box_wait(box, 0, &err), 1);
		assert_int_equal(nsbox_box_start(box, &run, &err), NSBOX_E_BUSY); /* collect first */
		r = poll_and_collect(box, 1000);
		assert_int_equal(nsbox_result_verdict(r), NSBOX_EXITED);
		assert_int_equal(nsbox_result_exit_code(r), rows[i].status);
		assert_int_equal(nsbox_result_status(r), rows[i].status);
		assert_int_equal(strncmp(nsbox_result_reason(r), rows[i].word, strlen(rows[i].word)), 0);
		assert_non_null(strstr(nsbox_result_reason(r), rows[i].name));
		nsbox_result_free(r);
	}
	nsbox_box_close(box);
}

static void a_timeout_fires_while_the_caller_only_polls(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	struct nsbox_run run = command(SH("trap '' TERM; echo before; sleep 60 & while :; do sleep 1; done"));
	struct nsbox_error err = NSBOX_ERROR_INIT;
	uint64_t start = monotonic_ms();
	struct nsbox_result *r;

	(void)state;
	run.timeout_ms = 700;
	must(nsbox_box_start(box, &run, &err), &err);
	r = poll_and_collect(box, 10000);
	assert_int_equal(nsbox_result_verdict(r), NSBOX_TIMED_OUT);
	assert_int_equal(nsbox_result_status(r), 124);
	assert_non_null(strstr(nsbox_result_reason(r), "timeout: ran longer than 700ms"));
	assert_string_equal(nsbox_result_stdout(r, NULL), "before\n");
	assert_true(monotonic_ms() - start >= 700 && monotonic_ms() - start < 5000);
	nsbox_result_free(r);
	nsbox_box_close(box);
}

static void a_timeout_of_the_run_replaces_the_policy_s(void **state)
{
	static const char *const keys[] = { "limits.timeout", "300ms", "limits.grace", "0", NULL };
	struct nsbox_box *box = new_box(NULL, keys);
	struct nsbox_run run = command(SH("sleep 1; echo done"));
	struct nsbox_result *r = result_of(box, &run);

	(void)state;
	assert_int_equal(nsbox_result_verdict(r), NSBOX_TIMED_OUT);
	assert_int_equal(nsbox_result_signal(r), SIGKILL);
	nsbox_result_free(r);
	run.timeout_ms = 20000;
	expect_out(result_of(box, &run), "done\n");
	nsbox_box_close(box);
}

/* Big output while the caller looks in now and then: the streams do not jam. */
static void output_flows_while_the_caller_only_polls(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(SH("yes | head -c 20000000; exit 3"));
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r;

	(void)state;
	must(nsbox_box_start(box, &run, &err), &err);
	r = poll_and_collect(box, 30000);
	assert_int_equal(nsbox_result_exit_code(r), 3);
	assert_non_null(strstr(nsbox_result_json(r), "\"stdout_bytes\":20000000"));
	nsbox_result_free(r);
	nsbox_box_close(box);
}

static void a_child_that_keeps_stdout_open_does_not_delay_the_verdict(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(SH("setsid sleep 60 & echo mine; exit 2"));
	struct nsbox_error err = NSBOX_ERROR_INIT;
	uint64_t start = monotonic_ms();
	struct nsbox_result *r;

	(void)state;
	must(nsbox_box_start(box, &run, &err), &err);
	r = poll_and_collect(box, 10000);
	assert_int_equal(nsbox_result_exit_code(r), 2);
	assert_string_equal(nsbox_result_stdout(r, NULL), "mine\n");
	assert_non_null(strstr(nsbox_result_json(r), "\"orphans_killed\":true"));
	assert_true(monotonic_ms() - start < 8000);
	nsbox_result_free(r);
	nsbox_box_close(box);
}

static void wait_returns_when_its_time_is_over(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(LIST("sleep", "60"));
	struct nsbox_error err = NSBOX_ERROR_INIT;
	uint64_t start;

	(void)state;
	must(nsbox_box_start(box, &run, &err), &err);
	start = monotonic_ms();
	assert_int_equal(nsbox_box_wait(box, 0, &err), 0);
	assert_true(monotonic_ms() - start < 1000);
	nsbox_box_close(box); /* with a run in flight: nothing of it stays */
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thirty_two_boxes_share_one_epoll_loop),
		cmocka_unit_test(a_command_that_does_not_exist_is_readable_at_once),
		cmocka_unit_test(a_timeout_fires_while_the_caller_only_polls),
		cmocka_unit_test(a_timeout_of_the_run_replaces_the_policy_s),
		cmocka_unit_test(output_flows_while_the_caller_only_polls),
		cmocka_unit_test(a_child_that_keeps_stdout_open_does_not_delay_the_verdict),
		cmocka_unit_test(wait_returns_when_its_time_is_over),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
