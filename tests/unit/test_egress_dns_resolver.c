/*
 * test_egress_dns_resolver.c - lookups through a name server of the test's own
 */
#include "resolver_rig.h"

enum { MANY = 400 };

/* --- tests --------------------------------------------------------------------------------------- */

static void a_name_has_the_addresses_of_both_families_and_is_cached(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "both.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_int_equal(w.l.count, 3);
	assert_true(has(&w, "192.0.2.1") && has(&w, "192.0.2.2") && has(&w, "2001:db8::1"));
	assert_int_equal(r.server.queries, 2);
	look(&r, &w, "both.test");
	assert_int_equal(w.l.count, 3);
	assert_int_equal(r.server.queries, 2);
	rig_down(&r);
}

static void what_is_not_there_is_told_apart(void **state)
{
	static const struct { const char *name; enum lookup_result result; } rows[] = {
		{ "v4.test", LOOKUP_FOUND }, { "v6.test", LOOKUP_FOUND },
		{ "none.test", LOOKUP_NO_NAME }, { "text.test", LOOKUP_NO_ADDRESS },
		{ "servfail.test", LOOKUP_FAILED }, { "refused.test", LOOKUP_FAILED },
		{ "lying.test", LOOKUP_FAILED }, { "dangling.test", LOOKUP_NO_NAME },
		{ "pointless.test", LOOKUP_NO_ADDRESS },
	};
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		look(&r, &w, rows[i].name);
		assert_int_equal(w.result, rows[i].result);
		assert_int_equal(w.l.count, rows[i].result == LOOKUP_FOUND ? 1 : 0);
		assert_true(strlen(lookup_text(w.result)) > 3);
	}
	rig_down(&r);
}

static void hosts_and_localhost_come_first_and_ask_nobody(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	snprintf(r.conf.hosts, sizeof(r.conf.hosts),
		 "203.0.113.1 both.test Own.Test\n203.0.113.9 localhost\n");
	rig_start(&r);
	look(&r, &w, "both.test");
	assert_true(w.l.count == 1 && has(&w, "203.0.113.1"));
	look(&r, &w, "own.test");
	assert_true(w.l.count == 1 && has(&w, "203.0.113.1"));
	look(&r, &w, "localhost");
	assert_true(w.l.count == 2 && has(&w, "127.0.0.1") && has(&w, "::1"));
	look(&r, &w, "a.localhost");
	assert_true(w.l.count == 2 && has(&w, "127.0.0.1") && has(&w, "::1"));
	assert_int_equal(r.server.queries, 0);
	look(&r, &w, "v4.test"); /* control: the server is asked for the others */
	assert_int_equal(r.server.queries, 2);
	rig_down(&r);
}

/* As many as may be under way less one are stuck; the next is answered all the same. */
static void slow_names_hold_up_no_other(void **state)
{
	static struct wait slow[200];
	static struct zone_row rows[202];
	static char names[200][16];
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	for (int i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]), "s%d.test", i);
		rows[i] = (struct zone_row){ names[i], 0, "", 0, SILENT };
	}
	rows[200] = zone[3];
	r.server.zone = rows;
	r.conf.c.timeout_ms = 3000; /* a burst may be too much for the server's socket */
	r.conf.c.attempts = 5;
	rig_start(&r);
	for (int i = 0; i < 200; i++)
		ask(&r, &slow[i], names[i]);
	r.open = 0;
	look(&r, &w, "v4.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	for (int i = 0; i < 200; i++)
		assert_int_equal(slow[i].done, 0);
	rig_down(&r);
}

static void more_than_256_names_wait_for_their_turn(void **state)
{
	static struct wait w[MANY];
	static struct zone_row rows[MANY + 1];
	static char names[MANY][16];
	unsigned held;
	struct rig r;

	(void)state;
	rig_up(&r, NULL);
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "m%d.test", i);
		rows[i] = (struct zone_row){ names[i], DNS_A, "192.0.2.1", 300, PLAIN };
	}
	r.server.zone = rows;
	r.conf.c.timeout_ms = 3000; /* a burst may be too much for the server's socket */
	r.conf.c.attempts = 5;
	rig_start(&r);
	for (int i = 0; i < MANY; i++)
		ask(&r, &w[i], names[i]);
	held = 0;
	run_loop(&r.loop);
	for (int i = 0; i < MANY; i++)
		held += w[i].done == 1 && w[i].result == LOOKUP_FOUND;
	assert_int_equal(held, MANY);
	assert_true(r.server.queries >= 2 * MANY);
	rig_down(&r);
}

static void the_queue_has_an_end(void **state)
{
	static struct wait w[2000];
	char name[16];
	unsigned taken = 0;
	struct rig r;

	(void)state;
	rig_up(&r, NULL);
	r.conf.c.timeout_ms = 3000;
	r.conf.c.attempts = 5;
	rig_start(&r);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		snprintf(name, sizeof(name), "q%zu.test", i);
		taken += try_ask(&r, &w[i], name) == 0;
	}
	assert_int_equal(taken, 256 + 1024);
	assert_int_equal(try_ask(&r, &w[1999], "q0.test"), 0); /* joins one under way */
	resolver_cancel(r.r, &w[600].l); /* makes room */
	r.open--;
	assert_int_equal(try_ask(&r, &w[1998], "new.test"), 0);
	assert_int_equal(try_ask(&r, &w[1997], "newer.test"), -1);
	run_loop(&r.loop);
	assert_int_equal(w[600].done, 0);
	assert_int_equal(w[0].done, 1);
	assert_int_equal(w[1998].result, LOOKUP_NO_NAME);
	rig_down(&r);
}

static void many_who_ask_for_one_name_are_one_question(void **state)
{
	struct wait w[20];
	struct rig r;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	for (int i = 0; i < 20; i++)
		ask(&r, &w[i], "both.test");
	resolver_cancel(r.r, &w[3].l);
	r.open--;
	run_loop(&r.loop);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(w[i].done, i == 3 ? 0 : 1);
		assert_int_equal(w[i].l.count, i == 3 ? 0 : 3);
	}
	assert_int_equal(r.server.queries, 2);
	rig_down(&r);
}

static void a_cut_answer_is_asked_for_over_tcp(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "cut.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_true(has(&w, "192.0.2.9"));
	assert_int_equal(r.server.tcp_queries, 1);
	look(&r, &w, "hangup.test");
	assert_int_equal(w.result, LOOKUP_FAILED);
	assert_int_equal(r.server.tcp_queries, 2);
	rig_down(&r);
}

static void a_forged_answer_is_not_believed(void **state)
{
	static const struct { const char *name, *addr; unsigned tcp; } rows[] = {
		{ "id.test", "192.0.2.10", 0 }, { "source.test", "192.0.2.12", 0 },
		{ "case.abcdefghijklmnopqrstuvwxyz.test", "192.0.2.11", 1 },
	};
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		look(&r, &w, rows[i].name);
		assert_int_equal(w.result, LOOKUP_FOUND);
		assert_int_equal(w.l.count, 1);
		assert_true(has(&w, rows[i].addr));
		assert_int_equal(r.server.tcp_queries, rows[i].tcp);
	}
	rig_down(&r);
}

static void a_server_without_edns_is_asked_without(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "old.test");
	assert_true(w.l.count == 1 && has(&w, "192.0.2.13"));
	assert_int_equal(r.server.queries, 3); /* A twice, AAAA */
	rig_down(&r);
}

static void aliases_are_followed_and_circles_end(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "alias.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_int_equal(w.l.count, 3);
	assert_int_equal(r.server.queries, 6);
	look(&r, &w, "round.test");
	assert_int_equal(w.result, LOOKUP_FAILED);
	assert_true(r.server.queries <= 6 + 2 * (DNS_CHAIN + 1));
	look(&r, &w, "self.test");
	assert_int_equal(w.result, LOOKUP_FAILED);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_has_the_addresses_of_both_families_and_is_cached),
		cmocka_unit_test(what_is_not_there_is_told_apart),
		cmocka_unit_test(hosts_and_localhost_come_first_and_ask_nobody),
		cmocka_unit_test(slow_names_hold_up_no_other),
		cmocka_unit_test(more_than_256_names_wait_for_their_turn),
		cmocka_unit_test(the_queue_has_an_end),
		cmocka_unit_test(many_who_ask_for_one_name_are_one_question),
		cmocka_unit_test(a_cut_answer_is_asked_for_over_tcp),
		cmocka_unit_test(a_forged_answer_is_not_believed),
		cmocka_unit_test(a_server_without_edns_is_asked_without),
		cmocka_unit_test(aliases_are_followed_and_circles_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
