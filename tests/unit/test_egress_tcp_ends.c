/*
 * test_egress_tcp_ends.c - published ports, names on a stream, proxies, and what runs out
 */
#include "tests/unit/tcp_box.h"

#include <sys/resource.h>

enum { FEW_TURNS = 100, IDLE_MS = 400, OUTER = 7100 };

/* -------------------------------------------------------------- published ports -- */

static struct publish *published;

static void begin_published(int sockets)
{
	begin_tcp(RULES(QUAD4));
	published = publish_new(&e);
	if (publish_port(published, server(QUAD4, OUTER), PORT) < 0)
		_exit(146);
	for (int i = 0; i < sockets; i++)
		if (publish_socket(published, socket_in(box_ns)) < 0)
			_exit(147);
}

static int caller(void)
{
	int fd = socket_in(host_ns);

	begin_call(fd, QUAD4, OUTER);
	return fd;
}

static bool no_relay(void)
{
	return !e.conns;
}

static void play_published(void)
{
	int listener, in, out;

	begin_published(1);
	out = caller();
	note("nobody", end_of(out));
	close(out);
	listener = server_in(box_ns, "127.0.0.1", PORT);
	for (int i = 0; i < 3; i++) {
		int waits;

		out = caller();
		in = take_call(listener);
		waits = caller(); /* for the only socket */
		tell(out, "question");
		note("question", hears(in, "question"));
		tell(in, "answer");
		note("answer", hears(out, "answer"));
		if (i == 1)
			reset_fd(out);
		else
			close(out);
		note("end", end_of(in));
		close(in);
		in = take_call(listener);
		tell(waits, "waited");
		note("waited", hears(in, "waited"));
		close(in);
		note("end of waited", end_of(waits));
		close(waits);
	}
	finish_tcp();
}

static void a_published_port_is_used_again_and_again(void **state)
{
	(void)state;
	scene(play_published);
	expect("nobody", -ECONNRESET);
	for (int i = 0; i < seen->n; i++)
		if (strcmp(seen->v[i].what, "question") == 0 ||
		    strcmp(seen->v[i].what, "answer") == 0 || strcmp(seen->v[i].what, "waited") == 0)
			assert_int_equal(seen->v[i].value, 1);
		else if (strcmp(seen->v[i].what, "end of waited") == 0)
			assert_int_equal(seen->v[i].value, 0);
	expect("end", 0);
	expect_clean_end();
}

/* The server has said all and reads slowly: its end of the data is in our kernel's queue
 * when both directions are closed. */
static void play_slow_server(void)
{
	int listener, in, out, small = 65536;
	long sent, got;

	begin_published(1);
	listener = server_in(box_ns, "127.0.0.1", PORT);
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	out = caller();
	in = take_call(listener);
	shutdown(in, SHUT_WR);
	note("half-closed", end_of(out));
	for (sent = 0; sent < 400000;) {
		ssize_t n = send(out, "0123456789abcdef", 16, MSG_NOSIGNAL);

		sent += n > 0 ? n : 0;
	}
	shutdown(out, SHUT_WR);
	serve_until_true(no_relay);
	note("end", drain(in, &got));
	note("all", got == sent);
	finish_tcp();
}

static void a_published_server_gets_all_before_its_socket_is_used_again(void **state)
{
	(void)state;
	scene(play_slow_server);
	expect("half-closed", 0);
	expect("end", 0);
	expect("all", 1);
	expect_clean_end();
}

/* ---------------------------------------------------------------- what runs out -- */

/* The host's kernel still tries, as the server's backlog is full; when the connection is
 * there, and the box's kernel has made its part, no descriptor is left for it. */
static void play_no_descriptor(void)
{
	int fd, listener, filler, room;
	struct rlimit limit, none;

	begin_tcp(RULES(QUAD4));
	listener = server(QUAD4, PORT);
	filler = fill(listener);
	fd = socket_in(box_ns);
	begin_call(fd, QUAD4, PORT);
	serve_until_true(is_on_the_way);
	room = dup(fd);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = limit;
	none.rlim_cur = (rlim_t)room + 1;
	setrlimit(RLIMIT_NOFILE, &none);
	close(room);
	note("the last", take_call(listener) == room);
	note("connect", result_of(fd));
	note("turns", serve_for(IDLE_MS) < FEW_TURNS);
	setrlimit(RLIMIT_NOFILE, &limit);
	tell(fd, "hello");
	note("hello", hears(take_call(listener), "hello"));
	close(filler);
	finish_tcp();
}

static void without_a_descriptor_a_connection_waits_and_nothing_spins(void **state)
{
	(void)state;
	scene(play_no_descriptor);
	expect("the last", 1);
	expect("turns", 1);
	expect("connect", 0);
	expect("hello", 1);
	expect_clean_end();
}

static void play_cap(void)
{
	int box, host, listener, second;

	begin_tcp(RULES(QUAD4));
	block.config.max_connections = 1;
	listener = server(QUAD4, PORT);
	meet(&box, &host, listener, PORT);
	note("second", call(&second, QUAD4, PORT));
	note("noted", is_denied("connect " QUAD4, "net.connections=1", "--set net.connections=2"));
	close(box);
	close(host);
	serve_until_true(no_connection);
	note("third", call(&second, QUAD4, PORT));
	close(second);
	finish_tcp();
}

static void connections_beyond_the_cap_are_refused(void **state)
{
	(void)state;
	scene(play_cap);
	expect("connect", 0);
	expect("second", ECONNREFUSED);
	expect("noted", 1);
	expect("third", 0);
	expect_clean_end();
}

/* ----------------------------------------------------------- names on a stream -- */

static int call_name(const char *name, uint16_t port)
{
	struct egress_addr a = names_addr4(names_add(e.names, name));
	char text[EGRESS_ADDR_TEXT];
	int fd;

	note("connect", call(&fd, egress_addr_text(&a, text), port));
	return fd;
}

static void play_short_word(void)
{
	int box, host, listener;

	begin_tcp(RULES("good.test:7000", "good.test:80"));
	listener = server(QUAD4, PORT);
	box = call_name("good.test", PORT);
	host = take_call(listener);
	tell(box, "PING");
	shutdown(box, SHUT_WR);
	note("ping", hears(host, "PING"));
	note("end", end_of(host));
	listener = server(QUAD4, 80);
	box = call_name("good.test", 80);
	host = take_call(listener);
	tell(box, "GET");
	shutdown(box, SHUT_WR);
	note("no request", end_of(host));
	finish_tcp();
}

/* "PING" could have gone on as a request's first line: not after its end. */
static void what_ends_before_it_is_http_is_passed_on_but_not_on_port_80(void **state)
{
	(void)state;
	scene(play_short_word);
	expect("ping", 1);
	expect("end", 0);
	expect("no request", 0);
	expect_clean_end();
}

static const char upgrade[] = "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\n"
			      "Upgrade: websocket\r\n\r\n";

static void play_no_answer(void)
{
	int box, host, listener;

	begin_tcp(RULES("good.test"));
	listener = server(QUAD4, 80);
	box = call_name("good.test", 80);
	host = take_call(listener);
	tell(box, upgrade);
	note("request", hears(host, upgrade));
	tell(box, "frames before the answer");
	serve_for(50);
	shutdown(host, SHUT_WR);
	note("end", end_of(box));
	serve_until_true(no_connection);
	finish_tcp();
}

static void what_waits_for_an_answer_does_not_wait_for_ever(void **state)
{
	(void)state;
	scene(play_no_answer);
	expect("connect", 0);
	expect("request", 1);
	expect("end", 0);
	expect_clean_end();
}

static void play_upgrade(void)
{
	int box, host, listener;

	begin_tcp(RULES("good.test"));
	listener = server(QUAD4, 80);
	box = call_name("good.test", 80);
	host = take_call(listener);
	tell(box, upgrade);
	tell(box, "frames");
	note("request", hears(host, upgrade));
	note("turns", serve_for(IDLE_MS) < FEW_TURNS);
	tell(host, "HTTP/1.1 101 Switching\r\n\r\nanswer");
	note("frames", hears(host, "frames"));
	note("answer", hears(box, "HTTP/1.1 101 Switching\r\n\r\nanswer"));
	finish_tcp();
}

static void what_follows_an_upgrade_waits_for_the_answer(void **state)
{
	(void)state;
	scene(play_upgrade);
	expect("connect", 0);
	expect("request", 1);
	expect("turns", 1);
	expect("frames", 1);
	expect("answer", 1);
	expect_clean_end();
}

static void play_wrong_host(void)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
	int box, host, listener;

	begin_tcp(RULES("good.test"));
	listener = server(QUAD4, 80);
	box = call_name("good.test", 80);
	host = take_call(listener);
	tell(box, request);
	note("reset", end_of(box));
	note("nothing came", end_of(host));
	finish_tcp();
}

static void a_foreign_host_is_reset_and_not_a_byte_of_it_passes(void **state)
{
	(void)state;
	scene(play_wrong_host);
	expect("connect", 0);
	expect("reset", -ECONNRESET);
	expect("nothing came", -ECONNRESET);
	expect_clean_end();
}

/* ----------------------------------------------------------------------- proxies -- */

static struct {
	struct egress_config config;
	char host[sizeof(QUAD4)];
} proxied = { .host = QUAD4 };

static void play_proxy(void)
{
	int box, host, listener;

	begin_tcp(RULES("good.test:7000"));
	proxied.config = block.config;
	proxied.config.proxy.kind = PROXY_HTTP;
	proxied.config.proxy.port = 3128;
	proxied.config.proxy.host = offsetof(typeof(proxied), host);
	e.config = &proxied.config;
	listener = server(QUAD4, 3128);
	box = socket_in(box_ns);
	begin_call(box, "198.18.0.1", PORT);
	names_add(e.names, "good.test");
	host = take_call(listener);
	note("CONNECT", hears(host, "CONNECT good.test:7000 HTTP/1.1\r\nHost: good.test:7000\r\n\r\n"));
	tell(host, "HTTP/1.1 200 OK\r\n\r\nSSH-2.0-first");
	note("connect", result_of(box));
	note("first", hears(box, "SSH-2.0-first"));
	note("counted", (long)e.ledger.totals.bytes_in);
	tell(box, "SSH-2.0-second");
	note("second", hears(host, "SSH-2.0-second"));
	finish_tcp();
}

static void what_a_server_says_first_through_a_proxy_arrives_and_counts(void **state)
{
	(void)state;
	scene(play_proxy);
	expect("CONNECT", 1);
	expect("connect", 0);
	expect("first", 1);
	expect("counted", 13);
	expect("second", 1);
	expect_clean_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_published_port_is_used_again_and_again),
		cmocka_unit_test(a_published_server_gets_all_before_its_socket_is_used_again),
		cmocka_unit_test(without_a_descriptor_a_connection_waits_and_nothing_spins),
		cmocka_unit_test(connections_beyond_the_cap_are_refused),
		cmocka_unit_test(what_ends_before_it_is_http_is_passed_on_but_not_on_port_80),
		cmocka_unit_test(what_waits_for_an_answer_does_not_wait_for_ever),
		cmocka_unit_test(what_follows_an_upgrade_waits_for_the_answer),
		cmocka_unit_test(a_foreign_host_is_reset_and_not_a_byte_of_it_passes),
		cmocka_unit_test(what_a_server_says_first_through_a_proxy_arrives_and_counts),
	};

	return run_inlet_tests(tests, ARRAY_SIZE(tests));
}
