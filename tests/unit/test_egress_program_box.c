/*
 * test_egress_program_box.c - a box served by nsbox-egress, which is told by its wire
 */
#include "tests/unit/program_box.h"

static void play_streams(void)
{
	static char got[1 << 20], sent[600000];
	int listener, box, host;

	serve_box(&plain, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	box = call(QUAD4, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	memset(sent, 'q', sizeof(sent));
	fcntl(box, F_SETFL, 0);
	note("sent", send(box, sent, 100000, MSG_NOSIGNAL));
	shutdown(box, SHUT_WR);
	note("arrived", read_all(host, got, sizeof(got)));
	note("answered", send(host, sent, 200000, MSG_NOSIGNAL));
	close(host);
	note("answer arrived", read_all(box, got, sizeof(got)));
	close(box);
	note("nobody listens", result_of_call(QUAD4, PORT + 1));
	note("not allowed", result_of_call(OTHER4, PORT));
	note("private", result_of_call("10.0.0.1", PORT));
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("first denial", hear_it());
	note("of the other address", strcmp(heard.body, "connect " OTHER4 ":7000") == 0);
	note("second denial", hear_it());
	note("of the private one", strcmp(heard.body, "connect 10.0.0.1:7000") == 0);
	note("host", hear_it());
	note("report", hear_it());
	note("connections", (long)((struct egress_totals *)heard.body)->connections);
	note("bytes out", (long)((struct egress_totals *)heard.body)->bytes_out);
	note("bytes in", (long)((struct egress_totals *)heard.body)->bytes_in);
	note("ends with", end_of_program());
}

static void streams_go_both_ways_and_refusals_are_said(void **state)
{
	(void)state;
	scene(play_streams);
	expect("ready", EGRESS_READY);
	expect("allowed", 0);
	expect("sent", 100000);
	expect("arrived", 100000);
	expect("answered", 200000);
	expect("answer arrived", 200000);
	expect("nobody listens", ECONNREFUSED);
	expect("not allowed", ECONNREFUSED);
	expect("private", ECONNREFUSED);
	expect("first denial", EGRESS_DENIAL);
	expect("of the other address", 1);
	expect("second denial", EGRESS_DENIAL);
	expect("of the private one", 1);
	expect("host", EGRESS_HOST);
	expect("report", EGRESS_TOTAL);
	expect("connections", 2);
	expect("bytes out", 100000);
	expect("bytes in", 200000);
	expect("ends with", 0);
}

static void play_names(void)
{
	char good[EGRESS_ADDR_TEXT] = "0.0.0.0", private[EGRESS_ADDR_TEXT] = "0.0.0.0",
	     other[EGRESS_ADDR_TEXT];
	int listener, box, host;

	serve_box(&plain, RULES("good.test:7000", "private.test:7000"));
	listener = server_of_host(QUAD4, PORT);
	note("found", look_up(good, "good.test"));
	note("found as well", look_up(private, "private.test"));
	note("found not", look_up(other, "evil.test"));
	note("a fake", strncmp(good, "198.18.", 7) == 0);
	box = call(good, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	note("came", host >= 0);
	close(host);
	close(box);
	note("leads to a private address", result_of_call(private, PORT));
	note("nobody asked for it", result_of_call("198.18.77.77", PORT));
	note("not by its address", result_of_call(QUAD4, PORT));
	close(control);
	note("ends with", end_of_program());
}

static void names_lead_where_they_may(void **state)
{
	(void)state;
	scene(play_names);
	expect("ready", EGRESS_READY);
	expect("found", 1);
	expect("found as well", 1);
	expect("found not", 0);
	expect("a fake", 1);
	expect("allowed", 0);
	expect("came", 1);
	expect("leads to a private address", ECONNREFUSED);
	expect("nobody asked for it", ECONNREFUSED);
	expect("not by its address", ECONNREFUSED);
	expect("ends with", 0);
}

static void play_foreign_name(void)
{
	static const char right[] = "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
			  wrong[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
	char address_of_good[EGRESS_ADDR_TEXT] = "0.0.0.0", got[256];
	int listener, box, host;

	serve_box(&plain, RULES("good.test"));
	listener = server_of_host(QUAD4, 80);
	note("found", look_up(address_of_good, "good.test"));
	box = call(address_of_good, 80);
	note("allowed", connect_result(box));
	host = take_call(listener);
	tell(box, right);
	note("readable", readable(host));
	note("request", recv(host, got, sizeof(got), 0));
	tell(box, wrong);
	note("end in the box", read_all(box, got, sizeof(got)));
	note("end at the host", read_all(host, got, sizeof(got)));
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("denial", hear_it());
	note("of the name", strstr(heard.body, "evil.test") != NULL);
	close(control);
	note("ends with", end_of_program());
}

static void a_request_for_another_name_resets_both_ends(void **state)
{
	(void)state;
	scene(play_foreign_name);
	expect("ready", EGRESS_READY);
	expect("found", 1);
	expect("allowed", 0);
	expect("readable", 1);
	expect("request", 35);
	expect("end in the box", -ECONNRESET);
	expect("end at the host", -ECONNRESET);
	expect("denial", EGRESS_DENIAL);
	expect("of the name", 1);
}

static void play_new_rules(void)
{
	char got[16];
	int listener, box, host;

	serve_box(&plain, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	box = call(QUAD4, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	tell(box, "hello");
	note("came", readable(host) && recv(host, got, sizeof(got), 0) == 5);
	configure(&plain, RULES(OTHER4));
	note("ready again", hear_it());
	note("end in the box", read_all(box, got, sizeof(got)));
	note("end at the host", read_all(host, got, sizeof(got)));
	note("not allowed now", result_of_call(QUAD4, PORT));
	server_of_host(OTHER4, PORT);
	note("allowed now", result_of_call(OTHER4, PORT));
	tell_it(EGRESS_CONFIG, 0, NULL, 0);
	note("wrong rules", hear_it());
	note("end it with", end_of_program());
	note("nobody answers the box", is_unanswered(call(OTHER4, PORT)));
}

static void new_rules_hold_at_once_and_wrong_ones_end_all(void **state)
{
	(void)state;
	scene(play_new_rules);
	expect("ready", EGRESS_READY);
	expect("allowed", 0);
	expect("came", 1);
	expect("ready again", EGRESS_READY);
	expect("end in the box", -ECONNRESET);
	expect("end at the host", -ECONNRESET);
	expect("not allowed now", ECONNREFUSED);
	expect("allowed now", 0);
	expect("wrong rules", EGRESS_FAIL);
	expect("end it with", 1);
	expect("nobody answers the box", 1);
}

static void play_new_limit(void)
{
	static const uint32_t limits[] = { 2, 1, 3 };
	char text[EGRESS_ADDR_TEXT];
	struct egress_config c = plain;
	char what[32];

	c.max_names = 2;
	serve_box(&c, RULES("*.x.test"));
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		c.max_names = limits[i];
		configure(&c, RULES("*.x.test"));
		note("ready again", hear_it());
		for (char name[] = "a.x.test"; name[0] <= 'd'; name[0]++) {
			snprintf(what, sizeof(what), "%u: %s", limits[i], name);
			note(what, look_up(text, name));
		}
	}
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("denial", hear_it());
	note("of the first limit", strcmp(strchr(heard.body, 0) + 1, "net.names=2") == 0);
}

static void new_limits_of_names_hold_and_known_names_stay(void **state)
{
	static const char *const found[] = { "2: a.x.test", "2: b.x.test", "1: a.x.test",
					     "1: b.x.test", "3: a.x.test", "3: b.x.test",
					     "3: c.x.test" };
	static const char *const none[] = { "2: c.x.test", "2: d.x.test", "1: c.x.test",
					    "1: d.x.test", "3: d.x.test" };

	(void)state;
	scene(play_new_limit);
	expect("ready again", EGRESS_READY);
	for (size_t i = 0; i < ARRAY_SIZE(found); i++)
		expect(found[i], 1);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		expect(none[i], 0);
	expect("denial", EGRESS_DENIAL);
	expect("of the first limit", 1);
}

/* The first server's backlog is full: its kernel drops the SYN. */
static void play_new_proxy(void)
{
	static const char request[] = "CONNECT 8.8.4.4:7000 HTTP/1.1\r\nHost: 8.8.4.4:7000\r\n\r\n";
	struct egress_config by_proxy = plain;
	char got[sizeof(request)] = "";
	int box, host, proxy, full;

	by_proxy.proxy.kind = PROXY_HTTP;
	by_proxy.proxy.port = PORT;
	serve_box(&plain, RULES(OTHER4));
	full = server_of_host(OTHER4, PORT);
	proxy = server_of_host(QUAD4, PORT);
	if (listen(full, 0) < 0)
		_exit(159);
	note("the last place", connect_result(begin_connect(OTHER4, PORT)));
	box = call(OTHER4, PORT);
	configure(&plain, RULES(OTHER4, "192.0.2.1"));
	note("ready with new rules", hear_it());
	configure(&by_proxy, RULES(OTHER4));
	note("ready with a proxy", hear_it());
	host = take_call(proxy);
	note("asked", readable(host) && recv(host, got, sizeof(got), 0) == sizeof(request) - 1 &&
			      strcmp(got, request) == 0);
	tell(host, "HTTP/1.1 200 OK\r\n\r\n");
	note("allowed", connect_result(box));
}

static void a_new_proxy_is_asked_for_what_is_under_way(void **state)
{
	(void)state;
	scene(play_new_proxy);
	expect("ready", EGRESS_READY);
	expect("the last place", 0);
	expect("ready with new rules", EGRESS_READY);
	expect("ready with a proxy", EGRESS_READY);
	expect("asked", 1);
	expect("allowed", 0);
}

/* Of three connections with a cap of two the third is refused; all of them leave nothing. */
static void play_cap(void)
{
	struct egress_config two = plain;
	int listener, box[2], host[2], before, last = -1;

	two.max_connections = 2;
	serve_box(&two, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	before = open_descriptors();
	for (int i = 0; i < 2; i++) {
		box[i] = call(QUAD4, PORT);
		note(i ? "second" : "first", connect_result(box[i]));
		host[i] = take_call(listener);
	}
	note("third", result_of_call(QUAD4, PORT));
	for (int i = 0; i < 2; i++) {
		close(box[i]);
		close(host[i]);
	}
	for (int ms = 0; ms < LONG_MS && last != before; ms++) {
		last = open_descriptors();
		usleep(1000);
	}
	note("descriptors left", last - before);
	note("again", result_of_call(QUAD4, PORT));
	close(control);
	note("ends with", end_of_program());
}

static void a_cap_holds_and_nothing_leaks(void **state)
{
	(void)state;
	scene(play_cap);
	expect("ready", EGRESS_READY);
	expect("first", 0);
	expect("second", 0);
	expect("third", ECONNREFUSED);
	expect("descriptors left", 0);
	expect("again", 0);
	expect("ends with", 0);
}

static void play_launcher_gone_from_box(void)
{
	char got[16];
	int listener, box, host;

	serve_box(&plain, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	box = call(QUAD4, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	close(control);
	note("ends with", end_of_program());
	note("end in the box", read_all(box, got, sizeof(got)));
	note("end at the host", read_all(host, got, sizeof(got)));
	note("nobody answers the box", is_unanswered(call(QUAD4, PORT)));
}

static void with_its_launcher_gone_the_box_has_no_network(void **state)
{
	(void)state;
	scene(play_launcher_gone_from_box);
	expect("allowed", 0);
	expect("ends with", 0);
	expect("end in the box", 0);
	expect("end at the host", 0);
	expect("nobody answers the box", 1);
}

/* --- published ports ------------------------------------------------------------------------------ */

enum { POOL = 2, BOX_PORT = 8000 };

static int outside_port;

/* Sockets of the box, as the child makes them; and a listener of the host. */
static int publish_box(void)
{
	int pool[POOL], at_host, in_box;
	union address at = address("127.0.0.1", 0);
	socklen_t len = sizeof(at);

	serve_box(&plain, RULES(QUAD4));
	at_host = server("127.0.0.1", 0);
	if (getsockname(at_host, &at.any, &len) < 0)
		_exit(159);
	outside_port = ntohs(at.v4.sin_port);
	enter(box_ns);
	in_box = server("127.0.0.1", BOX_PORT);
	for (int i = 0; i < POOL; i++)
		pool[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enter(host_ns);
	tell_it(EGRESS_PUBLISH, BOX_PORT, &at_host, 1);
	tell_it(EGRESS_POOL, 0, pool, POOL);
	close(at_host);
	for (int i = 0; i < POOL; i++)
		close(pool[i]);
	return in_box;
}

static int call_from_outside(void)
{
	int fd = begin_connect("127.0.0.1", (uint16_t)outside_port);

	if (connect_result(fd))
		_exit(160);
	fcntl(fd, F_SETFL, 0);
	return fd;
}

/* It may have come to its end before it was looked at. */
static long end_of_call_from_outside(void)
{
	char got[16];
	int fd = begin_connect("127.0.0.1", (uint16_t)outside_port), error = connect_result(fd);

	fcntl(fd, F_SETFL, 0);
	return error ? -error : read_all(fd, got, sizeof(got));
}

static void play_published(void)
{
	char got[16];
	int in_box = publish_box(), good = 0, calls[POOL + 1], ends[POOL + 1];

	for (int i = 0; i < 5 * POOL; i++) {
		int outside = call_from_outside(), inside;

		tell(outside, "hello");
		inside = take_call(in_box);
		good += readable(inside) && recv(inside, got, sizeof(got), 0) == 5;
		tell(inside, "hi");
		close(inside);
		good += read_all(outside, got, sizeof(got)) == 2;
		close(outside);
	}
	note("heard and answered", good);
	for (int i = 0; i <= POOL; i++)
		calls[i] = call_from_outside();
	for (int i = 0; i < POOL; i++)
		ends[i] = take_call(in_box);
	note("one more", is_waiting(in_box));
	close(calls[0]);
	close(ends[0]);
	note("when one has ended", (ends[POOL] = take_call(in_box)) >= 0);
	tell(calls[POOL], "hello");
	note("it is heard", readable(ends[POOL]) && recv(ends[POOL], got, sizeof(got), 0) == 5);
	close(in_box);
	close(calls[1]);
	close(ends[1]);
	note("nobody listens", end_of_call_from_outside());
	close(control);
	note("ends with", end_of_program());
}

static void a_published_port_leads_into_the_box(void **state)
{
	(void)state;
	scene(play_published);
	expect("heard and answered", 10 * POOL);
	expect("one more", 1);
	expect("when one has ended", 1);
	expect("it is heard", 1);
	expect("nobody listens", -ECONNRESET);
	expect("ends with", 0);
}

/* The box has said all it has to say, and reads slowly what is still under way to it. */
static void play_slow_reader(void)
{
	static char data[1 << 20], got[1 << 20];
	int in_box = publish_box(), outside, inside, small = 4096;
	ssize_t sent;

	setsockopt(in_box, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	outside = call_from_outside();
	inside = take_call(in_box);
	shutdown(inside, SHUT_WR);
	note("its end came", read_all(outside, got, sizeof(got)));
	fcntl(outside, F_SETFL, O_NONBLOCK);
	sent = send(outside, data, 60000, MSG_NOSIGNAL);
	close(outside);
	usleep(200000); /* so that all of it is on its way into the box */
	note("all arrives", read_all(inside, got, sizeof(got)) == sent);
	note("and it was more than nothing", sent > 4096);
	close(inside);
	for (int i = 0; i < POOL; i++)
		call_from_outside();
	note("all sockets are free again", take_call(in_box) >= 0 && take_call(in_box) >= 0);
	close(control);
	note("ends with", end_of_program());
}

static void what_is_on_its_way_into_the_box_arrives(void **state)
{
	(void)state;
	scene(play_slow_reader);
	expect("its end came", 0);
	expect("all arrives", 1);
	expect("and it was more than nothing", 1);
	expect("all sockets are free again", 1);
	expect("ends with", 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_go_both_ways_and_refusals_are_said),
		cmocka_unit_test(names_lead_where_they_may),
		cmocka_unit_test(a_request_for_another_name_resets_both_ends),
		cmocka_unit_test(new_rules_hold_at_once_and_wrong_ones_end_all),
		cmocka_unit_test(new_limits_of_names_hold_and_known_names_stay),
		cmocka_unit_test(a_new_proxy_is_asked_for_what_is_under_way),
		cmocka_unit_test(a_cap_holds_and_nothing_leaks),
		cmocka_unit_test(with_its_launcher_gone_the_box_has_no_network),
		cmocka_unit_test(a_published_port_leads_into_the_box),
		cmocka_unit_test(what_is_on_its_way_into_the_box_arrives),
	};

	return run_inlet_tests(tests, ARRAY_SIZE(tests));
}
