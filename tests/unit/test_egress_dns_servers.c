/*
 * test_egress_dns_servers.c - lookups when servers fail, over time, and under a new
 * configuration
 */
#include "resolver_rig.h"

static const struct zone_row failing[] = {
	{ "both.test", 0, "2", 0, CODE }, { "v4.test", 0, "5", 0, CODE },
	{ "v6.test", DNS_AAAA, "2001:db8::6", 300, LYING_LENGTH },
	{ "slow.test", 0, "", 0, SILENT },
	{ 0 }
};

/* The other server comes first, and cannot. */
static void the_next_server_is_asked_when_one_fails(void **state)
{
	static const char *const names[] = { "both.test", "v4.test", "v6.test" };
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, failing);
	rig_start(&r);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		look(&r, &w, names[i]);
		assert_int_equal(w.result, LOOKUP_FOUND);
	}
	assert_true(r.other.queries >= 5);
	assert_true(r.server.queries >= 5);
	rig_down(&r);
}

static void a_port_without_a_server_is_passed_at_once(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, failing);
	loop_remove(&r.loop, &r.other.udp);
	close(r.other.udp.fd);
	r.other.udp.fd = server_socket(SOCK_STREAM, &(uint16_t){ 0 }); /* for server_down() */
	rig_start(&r);
	look(&r, &w, "both.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_int_equal(r.other.queries, 0);
	rig_down(&r);
}

static void a_silent_server_is_asked_last_from_then_on(void **state)
{
	static const struct zone_row silent[] = {
		{ "v4.test", 0, "", 0, SILENT }, { "both.test", 0, "", 0, SILENT }, { 0 }
	};
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, silent);
	r.conf.c.timeout_ms = 1000;
	r.conf.c.attempts = 5;
	rig_start(&r);
	look(&r, &w, "v4.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_true(r.other.queries >= 2);
	r.other.queries = 0;
	look(&r, &w, "both.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_int_equal(r.other.queries, 0);
	rig_down(&r);
}

static void silence_ends_after_all_attempts(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, failing);
	r.conf.c.server_count = 1;
	r.conf.c.timeout_ms = 50;
	r.conf.c.attempts = 3;
	rig_start(&r);
	look(&r, &w, "slow.test");
	assert_int_equal(w.result, LOOKUP_TIMEOUT);
	assert_int_equal(r.other.queries, 2 * 3);
	rig_down(&r);
}

static void without_servers_a_lookup_fails(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	r.conf.c.server_count = 0;
	rig_start(&r);
	look(&r, &w, "both.test");
	assert_int_equal(w.result, LOOKUP_FAILED);
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

/* Nothing answers for AAAA within the half minute of the configuration. */
static void one_family_does_not_wait_for_the_other(void **state)
{
	uint64_t begin = loop_now();
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "half.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_true(w.l.count == 1 && has(&w, "192.0.2.8"));
	assert_true(loop_now() - begin < 25 * UINT64_C(1000000));
	rig_down(&r);
}

static void wake(struct timer *t)
{
	struct watchdog *w = PART_OF(t, struct watchdog, timer);

	w->loop->stop = true;
}

static void an_answer_is_forgotten_after_its_ttl(void **state)
{
	struct watchdog pause = { .timer.fire = wake };
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "short.test");
	assert_int_equal(r.server.queries, 2);
	pause.loop = &r.loop;
	timer_set(&r.loop, &pause.timer, loop_now() + 1100000); /* the least that is kept is 1 s */
	run_loop(&r.loop);
	look(&r, &w, "short.test");
	assert_int_equal(w.result, LOOKUP_FOUND);
	assert_int_equal(r.server.queries, 4);
	rig_down(&r);
}

static void the_cache_has_an_end(void **state)
{
	struct rig r;
	struct wait w;
	char name[16];

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	for (int i = 0; i < 1024; i++) {
		snprintf(name, sizeof(name), "c%d.test", i);
		look(&r, &w, name);
	}
	assert_int_equal(r.server.queries, 2048);
	look(&r, &w, "c0.test"); /* still there: SOA says a minute */
	assert_int_equal(r.server.queries, 2048);
	look(&r, &w, "one.more.test");
	look(&r, &w, "c0.test"); /* the oldest has gone */
	assert_int_equal(r.server.queries, 2052);
	look(&r, &w, "c1023.test");
	assert_int_equal(r.server.queries, 2052);
	rig_down(&r);
}

static bool both_are_held(void *arg)
{
	struct rig *r = arg;

	return r->server.held_count == 2;
}

static void a_new_configuration_forgets_what_the_old_one_said(void **state)
{
	struct rig r;
	struct wait w, slow;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	look(&r, &w, "both.test");
	ask(&r, &slow, "slow.test");
	r.conf.c.hosts_len = (uint32_t)snprintf(r.conf.hosts, sizeof(r.conf.hosts),
						"203.0.113.7 both.test\n");
	r.conf.c.server_count = 0;
	resolver_configure(r.r, &r.conf.c);
	ask(&r, &w, "both.test");
	r.open = 1;
	run_loop(&r.loop);
	assert_true(w.l.count == 1 && has(&w, "203.0.113.7"));
	assert_int_equal(slow.done, 0);
	run_until(&r.loop, both_are_held, &r); /* its questions reach the old server */
	server_release(&r.server);
	r.open = 1;
	run_loop(&r.loop);
	assert_int_equal(slow.result, LOOKUP_FOUND);
	assert_int_equal(slow.l.count, 2);
	rig_down(&r);
}

/* --- callbacks that do what they like ---------------------------------------------------------------- */

static struct wait nested[3];

static void ask_again(struct lookup *l, enum lookup_result result)
{
	struct wait *w = PART_OF(l, struct wait, l);

	on_done(l, result);
	ask(w->rig, &nested[0], "both.test");
	ask(w->rig, &nested[1], "v4.test");
	resolver_cancel(w->rig->r, &nested[2].l);
}

static bool both_are_told(void *arg)
{
	(void)arg;
	return nested[0].done && nested[1].done;
}

static void a_callback_may_ask_and_cancel(void **state)
{
	struct rig r;
	struct wait w;

	(void)state;
	rig_up(&r, NULL);
	rig_start(&r);
	memset(nested, 0, sizeof(nested));
	ask(&r, &nested[2], "both.test"); /* waits behind w: the last is told first */
	ask(&r, &w, "both.test");
	w.l.done = ask_again;
	r.open = 1000; /* nobody stops the loop */
	run_until(&r.loop, both_are_told, &r);
	assert_int_equal(w.done, 1);
	assert_int_equal(nested[2].done, 0);
	assert_int_equal(nested[0].l.count, 3);
	assert_int_equal(nested[1].l.count, 1);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_server_is_asked_when_one_fails),
		cmocka_unit_test(a_port_without_a_server_is_passed_at_once),
		cmocka_unit_test(a_silent_server_is_asked_last_from_then_on),
		cmocka_unit_test(silence_ends_after_all_attempts),
		cmocka_unit_test(without_servers_a_lookup_fails),
		cmocka_unit_test(one_family_does_not_wait_for_the_other),
		cmocka_unit_test(an_answer_is_forgotten_after_its_ttl),
		cmocka_unit_test(the_cache_has_an_end),
		cmocka_unit_test(a_new_configuration_forgets_what_the_old_one_said),
		cmocka_unit_test(a_callback_may_ask_and_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
