/*
 * test_egress_dns_resolver.c - lookups through a name server of the test's own
 */
#include "dns_server.h"

#include "runtime/egress/resolve.h"

enum { MANY = 400 };

static const struct zone_row zone[] = {
	{ "both.test", DNS_A, "192.0.2.1", 300, PLAIN },
	{ "both.test", DNS_A, "192.0.2.2", 300, PLAIN },
	{ "both.test", DNS_AAAA, "2001:db8::1", 300, PLAIN },
	{ "v4.test", DNS_A, "192.0.2.4", 300, PLAIN },
	{ "v6.test", DNS_AAAA, "2001:db8::6", 300, PLAIN },
	{ "text.test", DNS_TXT, "\4text", 300, PLAIN },
	{ "mail.test", DNS_MX, "mx.test", 300, PLAIN },
	{ "short.test", DNS_A, "192.0.2.5", 0, PLAIN },
	{ "slow.test", DNS_A, "192.0.2.7", 300, SILENT },
	{ "slow.test", DNS_AAAA, "2001:db8::7", 300, SILENT },
	{ "half.test", DNS_A, "192.0.2.8", 300, PLAIN },
	{ "half.test", DNS_AAAA, "2001:db8::8", 300, SILENT },
	{ "cut.test", DNS_A, "192.0.2.9", 300, CUT },
	{ "hangup.test", DNS_A, "192.0.2.9", 300, HANGS_UP },
	{ "id.test", DNS_A, "192.0.2.10", 300, FORGED_ID },
	{ "case.abcdefghijklmnopqrstuvwxyz.test", DNS_A, "192.0.2.11", 300, FORGED_CASE },
	{ "source.test", DNS_A, "192.0.2.12", 300, FORGED_SOURCE },
	{ "old.test", DNS_A, "192.0.2.13", 300, NO_EDNS },
	{ "lying.test", DNS_A, "192.0.2.14", 300, LYING_LENGTH },
	{ "servfail.test", 0, "2", 0, CODE },
	{ "refused.test", 0, "5", 0, CODE },
	{ "alias.test", DNS_CNAME, "alias2.test", 300, PLAIN },
	{ "alias2.test", DNS_CNAME, "both.test", 300, PLAIN },
	{ "dangling.test", DNS_CNAME, "nowhere.test", 300, PLAIN },
	{ "pointless.test", DNS_CNAME, "text.test", 300, PLAIN },
	{ "round.test", DNS_CNAME, "and.round.test", 300, PLAIN },
	{ "and.round.test", DNS_CNAME, "round.test", 300, PLAIN },
	{ "self.test", DNS_CNAME, "self.test", 300, PLAIN },
	{ 0 }
};
static const struct zone_row failing[] = {
	{ "both.test", 0, "2", 0, CODE }, { "v4.test", 0, "5", 0, CODE },
	{ "v6.test", DNS_AAAA, "2001:db8::6", 300, LYING_LENGTH },
	{ "slow.test", 0, "", 0, SILENT },
	{ 0 }
};

/* --- a resolver with its server, and lookups that count ------------------------------------------ */

struct conf {
	struct egress_config c;
	char hosts[256];
};
struct rig {
	struct loop loop;
	struct dns_server server, other;
	struct conf conf;
	struct resolver *r;
	unsigned open;		/* lookups under way; the last one stops the loop */
};
struct wait {
	struct lookup l;
	struct rig *rig;
	enum lookup_result result;
	unsigned done;
};

static void rig_up(struct rig *r, const struct zone_row *other)
{
	memset(r, 0, sizeof(*r));
	assert_int_equal(loop_init(&r->loop), 0);
	server_up(&r->server, &r->loop, zone);
	if (other) {
		server_up(&r->other, &r->loop, other);
		server_configure(&r->conf.c, &r->other);
	}
	server_configure(&r->conf.c, &r->server);
	r->conf.c.timeout_ms = 30000; /* nothing here waits for it */
	r->conf.c.attempts = 1;
	r->conf.c.hosts = offsetof(struct conf, hosts);
}

static void rig_start(struct rig *r)
{
	r->conf.c.hosts_len = (uint32_t)strlen(r->conf.hosts);
	r->r = resolver_new(&r->loop, &r->conf.c);
	assert_non_null(r->r);
}

static void rig_down(struct rig *r)
{
	resolver_free(r->r);
	server_down(&r->server);
	if (r->other.loop)
		server_down(&r->other);
	assert_null(r->loop.timers);
	close(r->loop.epoll);
}

static void on_done(struct lookup *l, enum lookup_result result)
{
	struct wait *w = PART_OF(l, struct wait, l);

	w->result = result;
	w->done++;
	if (--w->rig->open == 0)
		w->rig->loop.stop = true;
}

static int try_ask(struct rig *r, struct wait *w, const char *name)
{
	int code;

	*w = (struct wait){ .rig = r, .l.done = on_done };
	snprintf(w->l.name, sizeof(w->l.name), "%s", name);
	code = resolver_ask(r->r, &w->l);
	assert_int_equal(w->done, 0); /* never within the call */
	r->open += code == 0;
	return code;
}

static void ask(struct rig *r, struct wait *w, const char *name)
{
	assert_int_equal(try_ask(r, w, name), 0);
}

static void look(struct rig *r, struct wait *w, const char *name)
{
	ask(r, w, name);
	run_loop(&r->loop);
	assert_int_equal(w->done, 1);
}

static bool has(const struct wait *w, const char *addr)
{
	for (unsigned i = 0; i < w->l.count; i++) {
		char text[INET6_ADDRSTRLEN];

		assert_non_null(inet_ntop(w->l.addrs[i].family == 4 ? AF_INET : AF_INET6,
					  w->l.addrs[i].bytes, text, sizeof(text)));
		if (strcmp(text, addr) == 0)
			return true;
	}
	return false;
}

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
