/*
 * test_egress_udp_bounds.c - flows of datagrams: how many, how long, how much, and under
 * new rules
 */
#include "tests/unit/udp_box.h"

static struct echo heard_by;
static int wanted;

static bool has_heard_all(void)
{
	return heard_by.heard == wanted;
}

/* Sent and not answered. */
static void only_tell(int fd)
{
	heard_by.is_mute = true;
	wanted = heard_by.heard + 1;
	tell(fd, "ping");
	serve_until_true(has_heard_all);
	heard_by.is_mute = false;
}

static void evictions(void)
{
	const uint16_t *from = heard_by.from;
	int fds[3];

	begin(RULES(QUAD4 ":777/udp"));
	block.config.max_connections = 2;
	echo_at(&heard_by, QUAD4, 777);
	for (int i = 0; i < 3; i++)
		fds[i] = client(QUAD4, 777);
	note("first", ask(fds[0], "ping"));
	note("second", ask(fds[1], "ping"));
	only_tell(fds[0]);
	note("third", ask(fds[2], "ping"));
	note("open", (long)e.ledger.open);
	note("first goes on", ask(fds[0], "ping"));
	note("by its own flow", from[4] == from[0]);
	note("second begins anew", ask(fds[1], "ping"));
	note("flows in all", (long)e.ledger.totals.connections);
	finish();
}

static void the_flow_that_was_silent_the_longest_gives_way(void **state)
{
	(void)state;
	scene(evictions);
	expect("first", 4);
	expect("second", 4);
	expect("third", 4);
	expect("open", 2);
	expect("first goes on", 4);
	expect("by its own flow", 1);
	expect("second begins anew", 4);
	expect("flows in all", 4);
	expect_clean_end();
}

static void no_room(void)
{
	struct echo x;
	int fd;

	begin(RULES(QUAD4 ":777/udp"));
	block.config.max_connections = 2;
	echo_at(&x, QUAD4, 777);
	fd = client(QUAD4, 777);
	e.ledger.open = 2; /* TCP has them all */
	note("none", ask(fd, "ping"));
	note("says why", is_denied("connect " QUAD4, "net.connections=2", "--set net.connections=4"));
	e.ledger.open = 1;
	note("one", ask(fd, "ping"));
	e.ledger.open--;
	finish();
}

static void at_the_cap_of_connections_a_flow_is_refused(void **state)
{
	(void)state;
	scene(no_room);
	expect("none", -ECONNREFUSED);
	expect("says why", 1);
	expect("one", 4);
	expect_clean_end();
}

static bool is_idle(void)
{
	return !e.ledger.open;
}

static void silence(void)
{
	struct echo x;
	int fd;

	relay.idle_us = 1000;
	begin(RULES(QUAD4 ":777/udp"));
	echo_at(&x, QUAD4, 777);
	fd = client(QUAD4, 777);
	tell(fd, "ping"); /* the answer may come too late for so short a time */
	read_now(loop_now());
	note("began", (long)e.ledger.open);
	serve_until_true(is_idle);
	note("flows", (long)e.ledger.totals.connections);
	note("oldest", relay.oldest != NULL);
	note("timer", relay.idle.self != NULL);
	finish();
}

static void a_silent_flow_ends(void **state)
{
	(void)state;
	scene(silence);
	expect("began", 1);
	expect("flows", 1);
	expect("oldest", 0);
	expect("timer", 0);
	expect_clean_end();
}

/* One falls silent half of the time later: the timer must be set once more for it. */
static void one_by_one(void)
{
	uint64_t now;
	int a, b;

	begin(RULES(QUAD4 ":777/udp"));
	relay.idle_us = 200000;
	echo_at(&heard_by, QUAD4, 777);
	heard_by.is_mute = true;
	a = client(QUAD4, 777);
	b = client(QUAD4, 777);
	now = loop_now();
	tell(a, "ping");
	read_now(now);
	tell(b, "ping");
	read_now(now + 100000);
	note("two", (long)e.ledger.open);
	serve_until_true(is_idle);
	note("heard", heard_by.heard);
	finish();
}

static void silent_flows_end_one_after_the_other(void **state)
{
	(void)state;
	scene(one_by_one);
	expect("two", 2);
	expect("heard", 2);
	expect_clean_end();
}

static void changes(void)
{
	struct echo x, y;
	int a, b;

	begin(RULES(QUAD4 ":777/udp", OTHER4 ":777/udp"));
	echo_at(&x, QUAD4, 777);
	echo_at(&y, OTHER4, 777);
	a = client(QUAD4, 777);
	b = client(OTHER4, 777);
	note("one", ask(a, "ping"));
	note("other", ask(b, "ping"));
	new_rules(RULES(OTHER4 ":777/udp"));
	note("open", (long)e.ledger.open);
	note("one now", ask(a, "ping"));
	note("other now", ask(b, "ping"));
	note("by its own flow", y.from[0] == y.from[1]);
	finish();
}

static void new_rules_end_the_flows_that_they_deny_and_no_other(void **state)
{
	(void)state;
	scene(changes);
	expect("one", 4);
	expect("other", 4);
	expect("open", 1);
	expect("one now", -ECONNREFUSED);
	expect("other now", 4);
	expect("by its own flow", 1);
	expect_clean_end();
}

static void byte_cap(void)
{
	struct echo x;
	int fd;

	begin(RULES(QUAD4 ":777/udp"));
	block.config.max_bytes = 12;
	echo_at(&x, QUAD4, 777);
	fd = client(QUAD4, 777);
	note("8 bytes of 12", ask(fd, "ping"));
	note("open", (long)e.ledger.open);
	note("the 12th", ask(fd, "ping")); /* sent; then the flow ends */
	note("open then", (long)e.ledger.open);
	note("cap", e.ledger.totals.cap);
	finish();
}

static bool is_over(void)
{
	return e.ledger.denial_count > 0;
}

static void byte_cap_of_host(void)
{
	struct echo x, y;
	int fd;

	begin(RULES(QUAD4 ":777/udp", OTHER4 ":777/udp"));
	block.config.max_host_bytes = 6;
	echo_at(&x, QUAD4, 777);
	echo_at(&y, OTHER4, 777);
	fd = client(QUAD4, 777);
	tell(fd, "pingping");
	serve_until_true(is_over);
	note("open", (long)e.ledger.open);
	note("told", answer_of(fd, '-'));
	note("no more", ask(fd, "p"));
	note("another host", ask(client(OTHER4, 777), "p"));
	note("cap", e.ledger.totals.cap);
	finish();
}

static void byte_caps_end_a_flow_and_refuse_the_next(void **state)
{
	(void)state;
	scene(byte_cap);
	expect("8 bytes of 12", 4);
	expect("open", 1);
	expect("the 12th", -ECONNREFUSED);
	expect("open then", 0);
	expect("cap", CAP_BYTES);
	expect_clean_end();
	scene(byte_cap_of_host);
	expect("open", 0);
	expect("told", -ECONNREFUSED);
	expect("no more", -ECONNREFUSED);
	expect("another host", 1);
	expect("cap", CAP_HOST_BYTES);
	expect_clean_end();
}

enum { HUGE = 60000, HUGE_FIT = (4 << 20) / HUGE };

static bool is_asking_for_all(void)
{
	return relay.e->ledger.totals.connections == 10 && relay.queued == HUGE_FIT * HUGE;
}

/* Names whose server does not answer. */
static void slow_names(void)
{
	static char text[HUGE + 1];
	struct echo silent, x;
	char name[32];
	int fds[10];

	begin(RULES("*.slow.test:777/udp", "good.test:777/udp"));
	echo_at(&silent, QUAD4, 5353);
	silent.is_mute = true;
	block.config.servers[0] = (struct egress_server){ .family = 4, .bytes = { 9, 9, 9, 9 },
							   .port = 5353 };
	block.config.server_count = 1;
	resolver_configure(e.resolver, e.config);
	echo_at(&x, QUAD4, 777);
	memset(text, 'x', HUGE);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "n%d.slow.test", i);
		fds[i] = client_of_name(name, 777, false);
	}
	for (int k = 0; k < 10; k++)
		for (int i = 0; i < 10; i++) {
			tell(fds[i], text);
			read_now(loop_now());
		}
	serve_until_true(is_asking_for_all);
	note("others are not held up", ask(client_of_name("good.test", 777, false), "p"));
	new_rules(RULES("good.test:777/udp"));
	note("denied while they wait", (long)e.ledger.open);
	finish();
}

static void what_waits_for_slow_names_is_bounded(void **state)
{
	(void)state;
	scene(slow_names);
	expect("others are not held up", 1);
	expect("denied while they wait", 1);
	expect_clean_end();
}

static bool is_told;

static void told(struct lookup *l, enum lookup_result r)
{
	(void)l;
	(void)r;
	is_told = true;
}

static bool was_told(void)
{
	return is_told;
}

/* The flow's lookup would end before ours does, with nobody left to hear it. */
static void cancelled(void)
{
	struct lookup own = { .name = "later.slow.test", .done = told };
	struct echo silent;

	begin(RULES("*.slow.test:777/udp"));
	echo_at(&silent, QUAD4, 5353);
	silent.is_mute = true;
	block.config.servers[0] = (struct egress_server){ .family = 4, .bytes = { 9, 9, 9, 9 },
							   .port = 5353 };
	block.config.server_count = 1;
	block.config.timeout_ms = 100;
	resolver_configure(e.resolver, e.config);
	tell(client_of_name("n.slow.test", 777, false), "ping");
	read_now(loop_now());
	note("asking", (long)e.ledger.open);
	new_rules(RULES("good.test:777/udp"));
	note("open", (long)e.ledger.open);
	if (resolver_ask(e.resolver, &own) < 0)
		_exit(140);
	serve_until_true(was_told);
	note("failed", (long)e.ledger.totals.failed);
	finish();
}

static void a_flow_that_ends_while_it_asks_hears_of_no_answer(void **state)
{
	(void)state;
	scene(cancelled);
	expect("asking", 1);
	expect("open", 0);
	expect("failed", 0);
	expect_clean_end();
}

static void flood(void)
{
	struct echo x;
	unsigned seed = 5;
	uint8_t noise[64];
	int fd;

	begin(RULES(QUAD4 "/udp"));
	block.config.max_connections = 16;
	echo_at(&x, QUAD4, 777);
	for (int i = 0; i < 3000; i++) {
		fd = client(i % 3 ? QUAD4 : OTHER4, i % 5 ? (uint16_t)(1000 + i) : 53);
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)rand_r(&seed);
		send(fd, noise, (size_t)rand_r(&seed) % sizeof(noise), 0);
		read_now(loop_now());
		if (e.ledger.open > 16)
			_exit(137);
		close(fd);
	}
	note("open", (long)e.ledger.open);
	note("listed", e.ledger.denial_count <= LEDGER_DENIALS);
	note("still there", ask(client(QUAD4, 777), "ping"));
	finish();
}

static void a_flood_fills_no_table_beyond_its_cap(void **state)
{
	(void)state;
	scene(flood);
	expect("open", 16);
	expect("listed", 1);
	expect("still there", 4);
	expect_clean_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_flow_that_was_silent_the_longest_gives_way),
		cmocka_unit_test(at_the_cap_of_connections_a_flow_is_refused),
		cmocka_unit_test(a_silent_flow_ends),
		cmocka_unit_test(silent_flows_end_one_after_the_other),
		cmocka_unit_test(new_rules_end_the_flows_that_they_deny_and_no_other),
		cmocka_unit_test(byte_caps_end_a_flow_and_refuse_the_next),
		cmocka_unit_test(what_waits_for_slow_names_is_bounded),
		cmocka_unit_test(a_flow_that_ends_while_it_asks_hears_of_no_answer),
		cmocka_unit_test(a_flood_fills_no_table_beyond_its_cap),
	};

	return run_inlet_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
