/*
 * test_box_channel.c - the stream socket between a payload and the program that runs it
 */
#include "box_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

static struct nsbox_box *box;

static struct nsbox_run with_channel(const char *const *argv)
{
	struct nsbox_run run = command(argv);

	run.flags |= NSBOX_RUN_CHANNEL;
	return run;
}

static struct nsbox_result *end_of_run(void)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = NULL;
	int ready;

	do {
		ready = nsbox_box_wait(box, -1, &err);
	} while (ready == 0);
	assert_int_equal(ready, 1);
	assert_int_equal(nsbox_box_collect(box, &r, &err), 0);
	return r;
}

static void start(const char *const *argv)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	const struct nsbox_run run = with_channel(argv);

	if (nsbox_box_start(box, &run, &err) < 0)
		fail_msg("%s", err.message);
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

static size_t read_all(int fd, char *to, size_t room)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	size_t n = 0;
	ssize_t got;

	while (n < room && poll(&pfd, 1, 20000) == 1 && (got = recv(fd, to + n, room - n, 0)) > 0)
		n += (size_t)got;
	return n;
}

static void bytes_go_both_ways_and_not_into_the_output(void **state)
{
	static const char *const argv[] = { "sh", "-c", "read line <&3; echo \"got $line\" >&3; echo out", NULL };
	struct nsbox_result *r;
	char text[64] = "";
	int fd;

	(void)state;
	start(argv);
	fd = nsbox_box_channel(box);
	assert_true(fd >= 0);
	assert_int_equal(send(fd, "ping\n", 5, MSG_NOSIGNAL), 5);
	assert_int_equal(read_all(fd, text, sizeof(text) - 1), strlen("got ping\n"));
	assert_string_equal(text, "got ping\n");
	r = end_of_run();
	assert_string_equal(nsbox_result_stdout(r, NULL), "out\n");
	assert_int_equal(nsbox_result_exit_code(r), 0);
	nsbox_result_free(r);
	assert_int_equal(nsbox_box_channel(box), -1);
}

static void the_hosts_end_is_close_on_exec_and_does_not_block(void **state)
{
	static const char *const argv[] = { "sh", "-c", "read line <&3", NULL };
	char c;
	int fd;

	(void)state;
	start(argv);
	fd = nsbox_box_channel(box);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(recv(fd, &c, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(send(fd, "\n", 1, MSG_NOSIGNAL), 1);
	nsbox_result_free(end_of_run());
}

static void without_the_flag_the_payload_has_three_descriptors_and_with_it_four(void **state)
{
	static const char *const argv[] = {
		"sh", "-c", "for i in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$i ] && printf \"$i \"; done",
		NULL
	};
	const struct nsbox_run without = command(argv);
	struct nsbox_result *r = result_of(box, &without);

	(void)state;
	assert_string_equal(nsbox_result_stdout(r, NULL), "0 1 2 ");
	nsbox_result_free(r);
	assert_int_equal(nsbox_box_channel(box), -1);
	start(argv);
	r = end_of_run();
	assert_string_equal(nsbox_result_stdout(r, NULL), "0 1 2 3 ");
	nsbox_result_free(r);
}

static void the_payloads_end_is_the_end_of_the_channel(void **state)
{
	static const char *const argv[] = { "sh", "-c", "exec 3<&-; sleep 0.1; exit 7", NULL };
	struct nsbox_result *r;
	char c;

	(void)state;
	start(argv);
	assert_int_equal(read_all(nsbox_box_channel(box), &c, 1), 0); /* EOF: nobody else holds it */
	r = end_of_run();
	assert_int_equal(nsbox_result_exit_code(r), 7);
	nsbox_result_free(r);
}

static void a_descriptor_that_the_box_sends_does_not_arrive(void **state)
{
	static const char *const argv[] = {
		"python3", "-c",
		"import socket, os\n"
		"s = socket.socket(fileno=3)\n"
		"socket.send_fds(s, [b'x'], [os.open('/', os.O_RDONLY)])\n",
		NULL
	};
	size_t before;
	char c = 0;

	(void)state;
	start(argv);
	before = open_descriptors();
	assert_int_equal(read_all(nsbox_box_channel(box), &c, 1), 1);
	assert_int_equal(c, 'x');
	assert_int_equal(open_descriptors(), before);
	nsbox_result_free(end_of_run());
}

static int open_box(void **state)
{
	(void)state;
	box = new_box(NULL, NULL);
	return 0;
}

static int close_box(void **state)
{
	(void)state;
	nsbox_box_close(box);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_go_both_ways_and_not_into_the_output),
		cmocka_unit_test(the_hosts_end_is_close_on_exec_and_does_not_block),
		cmocka_unit_test(without_the_flag_the_payload_has_three_descriptors_and_with_it_four),
		cmocka_unit_test(the_payloads_end_is_the_end_of_the_channel),
		cmocka_unit_test(a_descriptor_that_the_box_sends_does_not_arrive),
	};

	return cmocka_run_group_tests(tests, open_box, close_box);
}
