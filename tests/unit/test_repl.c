/* test_repl.c - kernels by the public interface: arguments, the loop, what is left */
#include "box_run.h"

#include <poll.h>
#include <pthread.h>

static struct nsbox_box *box;

static int set_up(void **state)
{
	(void)state;
	box = new_box("python", NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	nsbox_box_close(box);
	return 0;
}

static struct nsbox_run python(void)
{
	struct nsbox_run run = NSBOX_RUN_INIT;

	run.language = "python";
	run.timeout_ms = 120000;
	return run;
}

static struct nsbox_kernel *kernel(void)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = python();
	struct nsbox_kernel *k = NULL;

	must(nsbox_kernel_open(&k, box, &run, &err), &err);
	assert_non_null(k);
	return k;
}

static void send(struct nsbox_kernel *k, const char *json)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;

	must(nsbox_kernel_send(k, json, strlen(json), &err), &err);
}

/* The next event, or NULL when the kernel is over. */
static const char *event(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct pollfd pfd = { .fd = nsbox_kernel_fd(k), .events = POLLIN };
	const char *json = NULL;
	size_t len = 0;
	int r;

	while ((r = nsbox_kernel_next(k, &json, &len, err)) == 0)
		assert_int_equal(poll(&pfd, 1, 60000), 1);
	if (r < 0)
		return NULL;
	assert_int_equal(strlen(json), len);
	return json;
}

static void wait_for(struct nsbox_kernel *k, const char *text)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	const char *json;

	do {
		json = event(k, &err);
		if (!json)
			fail_msg("%s: %s", text, err.message);
	} while (!strstr(json, text));
}

static size_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void cells_are_run_in_order_and_keep_their_state(void **state)
{
	struct nsbox_kernel *k = kernel();
	struct nsbox_result *r = NULL;

	(void)state;
	send(k, "{\"id\":1,\"op\":\"execute\",\"code\":\"x = 1\"}");
	send(k, "{\"id\":2,\"op\":\"execute\",\"code\":\"x += 1; x\"}");
	wait_for(k, "\"event\":\"ready\"");
	wait_for(k, "{\"id\":1,\"event\":\"done\",\"status\":\"ok\"");
	wait_for(k, "\"repr\":\"2\"");
	assert_int_equal(nsbox_kernel_close(k, &r, NULL), 0);
	assert_int_equal(nsbox_result_verdict(r), NSBOX_SIGNALED);
	nsbox_result_free(r);
}

static void wrong_calls_are_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = python();
	struct nsbox_kernel *k = NULL, *second = NULL;
	struct nsbox_result *r = NULL;
	const char *json;

	(void)state;
	assert_int_equal(nsbox_kernel_open(NULL, box, &run, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_kernel_open(&k, NULL, &run, &err), NSBOX_E_USAGE);
	run.code = "1";
	assert_int_equal(nsbox_kernel_open(&k, box, &run, &err), NSBOX_E_USAGE);
	run = python();
	run.flags = NSBOX_RUN_TTY;
	assert_int_equal(nsbox_kernel_open(&k, box, &run, &err), NSBOX_E_USAGE);
	run = python();
	run.out = NSBOX_IO_FD;
	assert_int_equal(nsbox_kernel_open(&k, box, &run, &err), NSBOX_E_USAGE);
	run = python();
	run.language = NULL;
	assert_int_equal(nsbox_kernel_open(&k, box, &run, &err), NSBOX_E_USAGE);
	run.language = "cobol";
	assert_int_equal(nsbox_kernel_open(&k, box, &run, &err), NSBOX_E_USAGE);
	assert_null(k);
	assert_int_equal(nsbox_kernel_fd(NULL), -1);
	assert_int_equal(nsbox_kernel_send(NULL, "{}", 2, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_kernel_next(NULL, &json, NULL, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_kernel_interrupt(NULL, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_kernel_close(NULL, NULL, &err), 0);
	assert_int_equal(nsbox_kernel_close(NULL, &r, &err), NSBOX_E_USAGE);
	k = kernel();
	run = python();
	assert_int_equal(nsbox_kernel_open(&second, box, &run, &err), NSBOX_E_BUSY);
	assert_int_equal(nsbox_box_start(box, &run, &err), NSBOX_E_BUSY);
	assert_int_equal(nsbox_kernel_interrupt(k, &err), 0); /* nothing is in hand */
	assert_int_equal(nsbox_kernel_close(k, NULL, &err), 0);
}

static void the_box_is_free_afterwards_and_nothing_is_left(void **state)
{
	struct nsbox_run run = NSBOX_RUN_INIT;
	struct nsbox_result *r;
	size_t before = open_descriptors();

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct nsbox_kernel *k = kernel();

		send(k, "{\"id\":1,\"op\":\"execute\",\"code\":\"while True: print(1)\"}");
		if (i & 1)
			wait_for(k, "stdout");
		assert_int_equal(nsbox_kernel_close(k, NULL, NULL), 0);
	}
	assert_int_equal(open_descriptors(), before);
	run.argv = LIST("true");
	r = result_of(box, &run);
	assert_int_equal(nsbox_result_exit_code(r), 0);
	nsbox_result_free(r);
}

static void *kill_it(void *arg)
{
	const struct timespec a_while = { .tv_nsec = 200000000 };

	nanosleep(&a_while, NULL);
	nsbox_box_kill(arg);
	return NULL;
}

static void a_kill_from_another_thread_ends_it(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_kernel *k = kernel();
	pthread_t thread;

	(void)state;
	wait_for(k, "ready");
	send(k, "{\"id\":1,\"op\":\"execute\",\"code\":\"while True: pass\"}");
	assert_int_equal(pthread_create(&thread, NULL, kill_it, box), 0);
	wait_for(k, "\"status\":\"exited\",\"restarted\":false");
	wait_for(k, "{\"event\":\"dead\",\"restarted\":false,\"reason\":\"killed: by the caller\"}");
	assert_null(event(k, &err));
	assert_int_equal(err.code, NSBOX_E_BUSY);
	pthread_join(thread, NULL);
	assert_int_equal(nsbox_kernel_close(k, NULL, NULL), 0);
}

static void a_driver_that_cannot_start_is_told(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = python();
	struct nsbox_kernel *k = NULL;

	(void)state;
	run.interpreter = "/bin/true"; /* an interpreter that answers nothing */
	if (nsbox_kernel_open(&k, box, &run, &err) < 0) {
		assert_true(err.message[0]);
		return;
	}
	send(k, "{\"id\":1,\"op\":\"execute\",\"code\":\"1\"}");
	wait_for(k, "{\"id\":1,\"event\":\"done\",\"status\":\"exited\"");
	wait_for(k, "\"event\":\"dead\",\"restarted\":false");
	assert_null(event(k, &err));
	assert_int_equal(err.code, NSBOX_E_SETUP);
	assert_int_equal(nsbox_kernel_close(k, NULL, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_are_run_in_order_and_keep_their_state),
		cmocka_unit_test(wrong_calls_are_refused),
		cmocka_unit_test(the_box_is_free_afterwards_and_nothing_is_left),
		cmocka_unit_test(a_kill_from_another_thread_ends_it),
		cmocka_unit_test(a_driver_that_cannot_start_is_told),
	};

	return cmocka_run_group_tests_name("kernels", tests, set_up, tear_down);
}
