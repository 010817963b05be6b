/*
 * test_egress_tcp.c - connections of a box: to servers of the host, through the gate
 */
#include "tests/unit/tcp_box.h"

/* Loops that wait for something turn a few times; one that spins does so many thousand. */
enum { FEW_TURNS = 100, IDLE_MS = 400 };

/* ------------------------------------------------------------------ connect(2) -- */

static void play_truth(void)
{
	int fd, listener;

	begin_tcp(RULES(QUAD4, "10.0.0.1"));
	listener = server(QUAD4, PORT);
	note("allowed", call(&fd, QUAD4, PORT));
	close(take_call(listener));
	note("nobody listens", call(&fd, QUAD4, PORT + 1));
	note("not allowed", call(&fd, OTHER4, PORT));
	note("noted", is_denied("connect 8.8.4.4:7000", "net.allow_out (not listed)",
				"--allow-out 8.8.4.4:7000"));
	note("no route", call(&fd, "10.0.0.1", PORT));
	finish_tcp();
}

static void connect_tells_the_truth(void **state)
{
	(void)state;
	scene(play_truth);
	expect("allowed", 0);
	expect("nobody listens", ECONNREFUSED);
	expect("not allowed", ECONNREFUSED);
	expect("noted", 1);
	expect_clean_end();
}

static void play_both_ways(void)
{
	int box, host, listener;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	meet(&box, &host, listener, PORT);
	tell(box, "question");
	note("question", hears(host, "question"));
	shutdown(box, SHUT_WR);
	note("half-closed", end_of(host));
	tell(host, "a late answer");
	note("answer", hears(box, "a late answer"));
	close(host);
	note("closed", end_of(box));
	close(box);
	serve_until_true(no_connection);
	note("out", (long)e.ledger.totals.bytes_out);
	note("in", (long)e.ledger.totals.bytes_in);
	finish_tcp();
}

static void data_goes_both_ways_and_a_half_close_stays_one(void **state)
{
	(void)state;
	scene(play_both_ways);
	expect("connect", 0);
	expect("question", 1);
	expect("half-closed", 0);
	expect("answer", 1);
	expect("closed", 0);
	expect("out", 8);
	expect("in", 13);
	expect_clean_end();
}

/* The port of a client that gave up is used again, with another sequence number. */
static void call_again(int first, int listener)
{
	int second = socket_in(box_ns);
	const int one = 1;
	union address from;
	socklen_t len = sizeof(from);

	getsockname(first, &from.any, &len);
	reset_fd(first);
	setsockopt(second, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	note("bind", bind(second, &from.any, len));
	begin_call(second, QUAD4, PORT);
	note("second", result_of(second));
	tell(second, "hello");
	do {
		first = take_call(listener);
	} while (!hears(first, "hello"));
	note("heard", 1);
}

static void play_port_again_on_the_way(void)
{
	int fd, listener;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	fd = socket_in(box_ns);
	begin_call(fd, QUAD4, PORT);
	serve_until_true(is_on_the_way);
	call_again(fd, listener);
	finish_tcp();
}

static void play_port_again_let_in(void)
{
	int fd, listener;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	fd = socket_in(box_ns);
	begin_call(fd, QUAD4, PORT);
	/* Of two descriptors of one socket the younger is told first: the gate does not
	 * accept yet. */
	serve_until_ready(dup(inlet[INLET_TCP4]), EPOLLIN);
	call_again(fd, listener);
	finish_tcp();
}

static void a_port_that_is_used_again_does_not_wait_for_its_last_user(void **state)
{
	static void (*const plays[])(void) = { play_port_again_on_the_way, play_port_again_let_in };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(plays); i++) {
		scene(plays[i]);
		expect("bind", 0);
		expect("second", 0);
		expect("heard", 1);
		expect_clean_end();
	}
}

/* ------------------------------------------------------------------- the relay -- */

/* The server's end is known, its data wait for a client that does not read. */
static void play_slow_reader(void)
{
	int box, host, listener, small = 65536;
	long sent, got;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	meet(&box, &host, listener, PORT);
	setsockopt(box, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	shutdown(box, SHUT_WR);
	note("half-closed", end_of(host));
	sent = stuff(host, 1);
	shutdown(host, SHUT_WR);
	note("turns", serve_for(IDLE_MS) < FEW_TURNS);
	note("end", drain(box, &got));
	note("all", got == sent);
	finish_tcp();
}

static void a_client_that_does_not_read_costs_no_cpu_and_loses_nothing(void **state)
{
	(void)state;
	scene(play_slow_reader);
	expect("turns", 1);
	expect("end", 0);
	expect("all", 1);
	expect_clean_end();
}

static void play_last_words(void)
{
	int box, host, listener;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	meet(&box, &host, listener, PORT);
	tell(box, "a long request that nobody reads");
	serve_until_ready(host, EPOLLIN);
	tell(host, "413 too long");
	reset_fd(host);
	note("answer", hears(box, "413 too long"));
	note("reset", end_of(box));
	close(box);
	serve_until_true(no_connection);
	finish_tcp();
}

/* As without a box: what came before a reset can be read. */
static void the_last_words_before_a_reset_arrive(void **state)
{
	(void)state;
	scene(play_last_words);
	expect("answer", 1);
	expect("reset", -ECONNRESET);
	expect_clean_end();
}

/* ------------------------------------------------------------------- new rules -- */

static void set_rules(const char *const *allow)
{
	new_rules(allow);
	conn_rejudge_all(&e);
}

static void play_new_rules(void)
{
	int box, host, listener, other, kept, kept_host;

	begin_tcp(RULES(QUAD4, OTHER4));
	listener = server(QUAD4, PORT);
	other = server(OTHER4, PORT);
	meet(&box, &host, listener, PORT);
	note("other", call(&kept, OTHER4, PORT));
	kept_host = take_call(other);
	set_rules(RULES(OTHER4));
	note("reset in the box", end_of(box));
	note("reset outside", end_of(host));
	tell(kept, "still here");
	note("kept", hears(kept_host, "still here"));
	finish_tcp();
}

static void new_rules_end_what_they_deny_and_nothing_else(void **state)
{
	(void)state;
	scene(play_new_rules);
	expect("other", 0);
	expect("reset in the box", -ECONNRESET);
	expect("reset outside", -ECONNRESET);
	expect("kept", 1);
	expect_clean_end();
}

/* The rules change while the host's kernel still tries: the server's backlog is full. */
static void play_on_the_way(void)
{
	int fd, filler, listener;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	filler = fill(listener);
	fd = socket_in(box_ns);
	begin_call(fd, QUAD4, PORT);
	serve_until_true(is_on_the_way);
	set_rules(RULES(OTHER4));
	take_call(listener);
	note("connect", result_of(fd));
	close(filler);
	finish_tcp();
}

static void rules_that_change_on_the_way_refuse(void **state)
{
	(void)state;
	scene(play_on_the_way);
	expect("connect", ECONNREFUSED);
	expect_clean_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_tells_the_truth),
		cmocka_unit_test(data_goes_both_ways_and_a_half_close_stays_one),
		cmocka_unit_test(a_port_that_is_used_again_does_not_wait_for_its_last_user),
		cmocka_unit_test(a_client_that_does_not_read_costs_no_cpu_and_loses_nothing),
		cmocka_unit_test(the_last_words_before_a_reset_arrive),
		cmocka_unit_test(new_rules_end_what_they_deny_and_nothing_else),
		cmocka_unit_test(rules_that_change_on_the_way_refuse),
	};

	return run_inlet_tests(tests, ARRAY_SIZE(tests));
}
