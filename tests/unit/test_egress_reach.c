/*
 * test_egress_reach.c - names with several addresses, and a way out that changes meanwhile
 */
#define HOSTS "9.9.8.1 dead.test six.test\n9.9.8.2 six.test\n9.9.8.3 six.test\n" \
	      "9.9.8.4 six.test\n9.9.8.5 six.test\n9.9.8.6 six.test\n" \
	      QUAD4 " good.test\n" \
	      "9.9.8.1 half.test\n" QUAD4 " half.test\n" \
	      "10.0.0.1 denied-first.test\n11.0.0.1 denied-first.test\n" \
	      "11.0.0.1 denied-last.test\n10.0.0.1 denied-last.test\n" \
	      "11.0.0.1 away.test\n" \
	      OTHER4 " refused-first.test\n11.0.0.1 refused-first.test\n" \
	      "11.0.0.1 refused-last.test\n" OTHER4 " refused-last.test\n" \
	      OTHER4 " proxies.test\n" QUAD4 " proxies.test\n"
#include "tests/unit/tcp_box.h"

enum { SIX = 6, PROXY_PORT = 3128 };

/* --- servers that do not answer ------------------------------------------------------------ */

static int dead[SIX], fillers[SIX];

/* A client that nobody accepts fills the backlog: the next SYN is dropped, again and again. */
static int fill_at(int listener, const char *text, uint16_t port)
{
	int fd = socket_in(host_ns);

	if (listen(listener, 0) < 0)
		_exit(145);
	begin_call(fd, text, port);
	if (result_of(fd) != 0)
		_exit(148);
	return fd;
}

static void make_dead(int count)
{
	for (int i = 0; i < count; i++) {
		char text[16];

		snprintf(text, sizeof(text), "9.9.8.%d", i + 1);
		address_of_host(4 + i, text);
		dead[i] = server(text, PORT);
		fillers[i] = fill_at(dead[i], text, PORT);
	}
}

/* It answers from now on: the kernel of who tries sends its SYN again within a second or two. */
static int revive(int i)
{
	close(take_call(dead[i]));
	return take_call(dead[i]);
}

static int begin_name(const char *name)
{
	struct egress_addr a = names_addr4(names_add(e.names, name));
	char text[EGRESS_ADDR_TEXT];
	int fd = socket_in(box_ns);

	begin_call(fd, egress_addr_text(&a, text), PORT);
	return fd;
}

static bool two_are_tried(void)
{
	return e.conns && e.conns->trying == 2;
}

static bool four_are_tried(void)
{
	return e.conns && e.conns->trying == 4;
}

/* --- several addresses ---------------------------------------------------------------------- */

static void play_dead_first(void)
{
	int box, host, listener;

	begin_tcp(RULES("half.test:7000"));
	make_dead(1);
	listener = server(QUAD4, PORT);
	box = begin_name("half.test");
	host = take_call(listener);
	note("connect", result_of(box));
	tell(box, "hello");
	note("hello", hears(host, "hello"));
	note("still tried", e.conns->trying + e.more_tries);
	note("failed", (long)e.ledger.totals.failed);
	finish_tcp();
}

static void the_first_address_that_connects_is_taken(void **state)
{
	(void)state;
	scene(play_dead_first);
	expect("connect", 0);
	expect("hello", 1);
	expect("still tried", 0);
	expect("failed", 0);
	expect_clean_end();
}

static void play_together(void)
{
	int box, host;

	begin_tcp(RULES("six.test:7000"));
	make_dead(SIX);
	box = begin_name("six.test");
	serve_until_true(two_are_tried);
	note("first two", e.conns->next_addr);
	note("one more", e.more_tries);
	serve_until_true(four_are_tried);
	note("first four", e.conns->next_addr);
	serve_for(600);
	note("four at most", e.conns->trying);
	note("and no fifth", e.conns->next_addr);
	host = revive(3);
	note("connect", result_of(box));
	tell(host, "the fourth");
	note("which", hears(box, "the fourth"));
	note("still tried", e.conns->trying + e.more_tries);
	finish_tcp();
}

static void several_addresses_are_tried_at_a_time_but_no_more_than_four(void **state)
{
	(void)state;
	scene(play_together);
	expect("first two", 2);
	expect("one more", 1);
	expect("first four", 4);
	expect("four at most", 4);
	expect("and no fifth", 4);
	expect("connect", 0);
	expect("which", 1);
	expect("still tried", 0);
	expect_clean_end();
}

static bool all_are_tried(void)
{
	return e.conns && e.conns->next_addr == SIX;
}

static void play_places(void)
{
	int box, host;

	begin_tcp(RULES("six.test:7000"));
	make_dead(SIX);
	box = begin_name("six.test");
	serve_until_true(all_are_tried);
	note("at a time", e.conns->trying);
	host = revive(5);
	note("connect", result_of(box));
	tell(host, "the sixth");
	note("which", hears(box, "the sixth"));
	finish_tcp();
}

static void an_address_that_takes_long_makes_room_for_the_next(void **state)
{
	(void)state;
	scene(play_places);
	expect("at a time", 4);
	expect("connect", 0);
	expect("which", 1);
	expect_clean_end();
}

/* Two connections have descriptors, and one of them a third. */
static void play_few_descriptors(void)
{
	int second;

	begin_tcp(RULES("six.test:7000", "half.test:7000"));
	make_dead(SIX);
	e.ledger.room = 2;
	begin_name("six.test");
	serve_until_true(two_are_tried);
	second = begin_name("half.test");
	serve_for(600);
	note("more", e.more_tries);
	note("of the first", e.conns->next->trying);
	note("of the second", e.conns->trying);
	server(QUAD4, PORT);
	note("connect", result_of(second));
	finish_tcp();
	note("more at the end", e.more_tries);
}

static void with_few_descriptors_fewer_addresses_are_tried_at_a_time(void **state)
{
	(void)state;
	scene(play_few_descriptors);
	expect("more", 1);
	expect("of the first", 2);
	expect("of the second", 1);
	expect("connect", 0);
	expect("more at the end", 0);
	expect_clean_end();
}

/* --- what is told ---------------------------------------------------------------------------- */

static const struct { const char *name; int error; } told[] = {
	{ "away.test", EHOSTUNREACH },
	{ "denied-first.test", ECONNREFUSED },
	{ "denied-last.test", ECONNREFUSED },
	{ "refused-first.test", ECONNREFUSED },
	{ "refused-last.test", ECONNREFUSED },
};

static void play_what_is_told(void)
{
	begin_tcp(RULES("away.test:7000", "denied-first.test:7000", "denied-last.test:7000",
			"refused-first.test:7000", "refused-last.test:7000"));
	for (size_t i = 0; i < ARRAY_SIZE(told); i++)
		note(told[i].name, result_of(begin_name(told[i].name)));
	note("denied", (long)e.ledger.totals.denied);
	finish_tcp();
}

static void of_several_failures_that_of_a_rule_is_told_and_no_route_is_the_least(void **state)
{
	(void)state;
	scene(play_what_is_told);
	for (size_t i = 0; i < ARRAY_SIZE(told); i++)
		expect(told[i].name, told[i].error);
	expect("denied", 2);
	expect_clean_end();
}

/* --- another way out --------------------------------------------------------------------------- */

static struct way {
	struct egress_config config;
	char hosts[sizeof(HOSTS)], host[32], user[8], password[8];
} ways[2];

static void go_by_proxy(struct way *w, const char *host)
{
	struct egress_config *c = &w->config;

	*c = block.config;
	memcpy(w->hosts, HOSTS, sizeof(HOSTS));
	snprintf(w->host, sizeof(w->host), "%s", host);
	snprintf(w->user, sizeof(w->user), "user");
	snprintf(w->password, sizeof(w->password), "secret");
	c->hosts = offsetof(struct way, hosts);
	c->proxy.kind = PROXY_HTTP;
	c->proxy.port = PROXY_PORT;
	c->proxy.host = offsetof(struct way, host);
	c->proxy.user = offsetof(struct way, user);
	c->proxy.password = offsetof(struct way, password);
	e.config = c;
	resolver_configure(e.resolver, c);
	conn_proxy_changed(&e);
}

static void go_directly(void)
{
	e.config = &block.config;
	resolver_configure(e.resolver, e.config);
	conn_proxy_changed(&e);
}

#define REQUEST "CONNECT dead.test:7000 HTTP/1.1\r\nHost: dead.test:7000\r\n" \
		"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n"

static void play_proxy_comes(void)
{
	int box, host, listener, kept, kept_host;

	begin_tcp(RULES("dead.test:7000", "good.test:7000"));
	make_dead(1);
	kept_host = server(QUAD4, PORT);
	kept = begin_name("good.test");
	note("kept is there", result_of(kept));
	kept_host = take_call(kept_host);
	listener = server(QUAD4, PROXY_PORT);
	box = begin_name("dead.test");
	serve_until_true(is_on_the_way);
	go_by_proxy(&ways[0], QUAD4);
	host = take_call(listener);
	note("CONNECT", hears(host, REQUEST));
	note("not to the destination", e.conns->trying);
	tell(host, "HTTP/1.1 200 OK\r\n\r\n");
	note("connect", result_of(box));
	tell(box, "hello");
	note("hello", hears(host, "hello"));
	tell(kept, "still here");
	note("kept", hears(kept_host, "still here"));
	finish_tcp();
}

static void a_proxy_that_comes_meanwhile_is_gone_by_and_what_is_there_is_kept(void **state)
{
	(void)state;
	scene(play_proxy_comes);
	expect("kept is there", 0);
	expect("CONNECT", 1);
	expect("not to the destination", 0);
	expect("connect", 0);
	expect("hello", 1);
	expect("kept", 1);
	expect_clean_end();
}

static void play_proxy_goes(void)
{
	int box, host, proxy, listener;

	begin_tcp(RULES("good.test:7000"));
	proxy = server(OTHER4, PROXY_PORT);
	fill_at(proxy, OTHER4, PROXY_PORT);
	listener = server(QUAD4, PORT);
	go_by_proxy(&ways[0], OTHER4);
	box = begin_name("good.test");
	serve_until_true(is_on_the_way);
	go_directly();
	host = take_call(listener);
	note("connect", result_of(box));
	tell(box, "hello");
	note("first of all", hears(host, "hello"));
	conn_rejudge_all(&e);
	tell(host, "and back");
	note("judged by its own address", hears(box, "and back"));
	finish_tcp();
}

static void where_the_proxy_goes_no_destination_hears_its_password(void **state)
{
	(void)state;
	scene(play_proxy_goes);
	expect("connect", 0);
	expect("first of all", 1);
	expect("judged by its own address", 1);
	expect_clean_end();
}

static void play_through_after_the_change(void)
{
	int box, host, listener;

	begin_tcp(RULES("dead.test:7000"));
	listener = server(QUAD4, PROXY_PORT);
	go_by_proxy(&ways[0], QUAD4);
	box = begin_name("dead.test");
	host = take_call(listener);
	note("CONNECT", hears(host, REQUEST));
	tell(host, "HTTP/1.1 200 OK\r\n\r\n");
	note("connect", result_of(box));
	go_directly();
	new_rules(RULES("dead.test:7000"));
	conn_rejudge_all(&e); /* by its name: the proxy's address is in no rule */
	tell(box, "hello");
	note("hello", hears(host, "hello"));
	new_rules(RULES("other.test"));
	conn_rejudge_all(&e);
	note("denied now", end_of(box));
	finish_tcp();
}

static void what_went_by_a_proxy_is_judged_as_such_whatever_comes_later(void **state)
{
	(void)state;
	scene(play_through_after_the_change);
	expect("CONNECT", 1);
	expect("connect", 0);
	expect("hello", 1);
	expect("denied now", -ECONNRESET);
	expect_clean_end();
}

static void play_other_proxy(void)
{
	int box, first, second, host, other;

	begin_tcp(RULES("dead.test:7000"));
	first = server(QUAD4, PROXY_PORT);
	second = server(OTHER4, PROXY_PORT);
	go_by_proxy(&ways[0], QUAD4);
	box = begin_name("dead.test");
	host = take_call(first);
	note("first", hears(host, REQUEST));
	go_by_proxy(&ways[1], OTHER4);
	note("its end", end_of(host));
	other = take_call(second);
	note("second", hears(other, REQUEST));
	tell(other, "HTTP/1.1 200 OK\r\n\r\n");
	note("connect", result_of(box));
	finish_tcp();
}

static void a_dialog_with_a_proxy_ends_when_there_is_another(void **state)
{
	(void)state;
	scene(play_other_proxy);
	expect("first", 1);
	expect("its end", 0);
	expect("second", 1);
	expect("connect", 0);
	expect_clean_end();
}

/* Nobody listens at the proxy's first address: that is told by the loop. */
static void play_proxy_of_two_addresses(void)
{
	int box, host, listener;

	begin_tcp(RULES("dead.test:7000"));
	listener = server(QUAD4, PROXY_PORT);
	go_by_proxy(&ways[0], "proxies.test");
	box = begin_name("dead.test");
	host = take_call(listener);
	note("CONNECT", hears(host, REQUEST));
	tell(host, "HTTP/1.1 200 OK\r\n\r\n");
	note("connect", result_of(box));
	finish_tcp();
}

static void a_proxy_may_have_several_addresses(void **state)
{
	(void)state;
	scene(play_proxy_of_two_addresses);
	expect("CONNECT", 1);
	expect("connect", 0);
	expect_clean_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_address_that_connects_is_taken),
		cmocka_unit_test(several_addresses_are_tried_at_a_time_but_no_more_than_four),
		cmocka_unit_test(an_address_that_takes_long_makes_room_for_the_next),
		cmocka_unit_test(with_few_descriptors_fewer_addresses_are_tried_at_a_time),
		cmocka_unit_test(of_several_failures_that_of_a_rule_is_told_and_no_route_is_the_least),
		cmocka_unit_test(a_proxy_that_comes_meanwhile_is_gone_by_and_what_is_there_is_kept),
		cmocka_unit_test(where_the_proxy_goes_no_destination_hears_its_password),
		cmocka_unit_test(what_went_by_a_proxy_is_judged_as_such_whatever_comes_later),
		cmocka_unit_test(a_dialog_with_a_proxy_ends_when_there_is_another),
		cmocka_unit_test(a_proxy_may_have_several_addresses),
	};

	return run_inlet_tests(tests, ARRAY_SIZE(tests));
}
