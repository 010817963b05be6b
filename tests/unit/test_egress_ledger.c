/*
 * test_egress_ledger.c - what a box used and was refused: counted, bounded by full tables,
 * and told to a launcher that may be slow or gone
 */
#include "base/cleanup.h"
#include "runtime/egress/ledger.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct egress_config config;
static struct egress_rules *rules;
static struct ledger ledger; /* large */

static int fresh(void **state)
{
	(void)state;
	config = (struct egress_config){ .max_connections = 1024, .max_names = 256 };
	ledger_init(&ledger, &config, rules);
	return 0;
}

static int release(void **state)
{
	(void)state;
	ledger_free(&ledger);
	return 0;
}

static int compile_rules(void **state)
{
	struct policy p = { 0 };
	int code;

	(void)state;
	if (policy_init(&p, NULL) < 0)
		return -1;
	p.net.mode = NET_FILTERED;
	if (strlist_add(&p.net.allow_out, "good.test") < 0)
		return -1;
	code = egress_compile(&rules, &p, NULL);
	policy_free(&p);
	return code;
}

static int free_rules(void **state)
{
	(void)state;
	free(rules);
	return 0;
}

static struct egress_dest to_name(const char *name)
{
	return (struct egress_dest){ .name = name, .proto = EGRESS_TCP, .port = 443 };
}

static struct host_entry *host(const char *name)
{
	struct egress_dest d = to_name(name);

	return ledger_host(&ledger, &d);
}

static struct host_entry *host_at(const char *text)
{
	struct egress_addr a = { .family = strchr(text, ':') ? 6 : 4 };
	struct egress_dest d = { .addr = &a, .proto = EGRESS_UDP, .port = 53 };

	assert_int_equal(inet_pton(a.family == 6 ? AF_INET6 : AF_INET, text, a.bytes), 1);
	return ledger_host(&ledger, &d);
}

static const struct denial_entry *latest(void)
{
	assert_true(ledger.denial_count > 0);
	return &ledger.denials[ledger.denial_count - 1];
}

static void expect_latest(const char *what, const char *rule, const char *allow, uint64_t count)
{
	assert_string_equal(latest()->what, what);
	assert_string_equal(latest()->rule, rule);
	assert_string_equal(latest()->allow, allow);
	assert_int_equal(latest()->count, count);
}

/* --- hosts ------------------------------------------------------------------------------ */

static void a_name_and_an_address_are_one_host_each_whatever_the_port(void **state)
{
	struct host_entry *name, *v4, *v6;

	(void)state;
	name = host("good.test");
	assert_ptr_equal(host("good.test"), name);
	assert_ptr_not_equal(host("other.test"), name);
	v4 = host_at("9.9.9.9");
	assert_string_equal(v4->name, "9.9.9.9");
	assert_ptr_equal(host_at("::ffff:9.9.9.9"), v4);
	v6 = host_at("2620:fe::fe");
	assert_string_equal(v6->name, "2620:fe::fe");
	assert_int_equal(ledger.host_count, 4);
}

static void the_257th_host_has_no_line_and_is_counted_as_left_out(void **state)
{
	struct host_entry *first = host("h0.test");
	char name[32];

	(void)state;
	for (int i = 1; i < LEDGER_HOSTS; i++) {
		snprintf(name, sizeof(name), "h%d.test", i);
		assert_non_null(host(name));
	}
	assert_int_equal(ledger.totals.hosts_left_out, 0);
	assert_null(host("one.more.test"));
	assert_int_equal(ledger.totals.hosts_left_out, 1);
	assert_ptr_equal(host("h0.test"), first);
	/* It connects all the same: the totals have it. */
	assert_true(ledger_open(&ledger, NULL));
	assert_true(ledger_bytes(&ledger, NULL, 10, 20));
	ledger_failed(&ledger, NULL);
	ledger_close(&ledger);
	assert_int_equal(ledger.totals.connections, 1);
	assert_int_equal(ledger.totals.bytes_in, 20);
	assert_int_equal(ledger.totals.failed, 1);
}

static void a_name_may_be_253_bytes_long(void **state)
{
	char name[EGRESS_NAME_MAX + 1];

	(void)state;
	memset(name, 'a', EGRESS_NAME_MAX);
	name[EGRESS_NAME_MAX] = '\0';
	assert_string_equal(host(name)->name, name);
	assert_ptr_equal(host(name), host(name));
}

static void connections_and_bytes_count_for_the_host_and_in_all(void **state)
{
	struct host_entry *a = host("a.test"), *b = host("b.test");

	(void)state;
	assert_true(ledger_open(&ledger, a));
	assert_true(ledger_open(&ledger, a));
	assert_true(ledger_open(&ledger, b));
	assert_true(ledger_bytes(&ledger, a, 1, 2));
	assert_true(ledger_bytes(&ledger, b, 10, 20));
	ledger_failed(&ledger, b);
	assert_int_equal(ledger.open, 3);
	ledger_close(&ledger);
	assert_int_equal(ledger.open, 2);
	assert_int_equal(a->report.connections, 2);
	assert_int_equal(a->report.bytes_out, 1);
	assert_int_equal(a->report.bytes_in, 2);
	assert_int_equal(a->report.failed, 0);
	assert_int_equal(b->report.failed, 1);
	assert_int_equal(ledger.totals.connections, 3);
	assert_int_equal(ledger.totals.bytes_out, 11);
	assert_int_equal(ledger.totals.bytes_in, 22);
	assert_int_equal(ledger.totals.failed, 1);
	assert_int_equal(ledger.denial_count, 0);
}

/* --- denials -------------------------------------------------------------------------------- */

static void a_denial_names_act_rule_and_flag(void **state)
{
	struct egress_dest d = to_name("bad.test");
	struct egress_verdict v = egress_judge(rules, &d);

	(void)state;
	assert_false(v.allowed);
	ledger_deny(&ledger, &d, &v, NULL);
	assert_int_equal(ledger.denial_count, 1);
	assert_string_equal(latest()->what, "connect bad.test:443");
	assert_non_null(strstr(latest()->rule, "net.allow_out"));
	assert_non_null(strstr(latest()->allow, "--allow-out bad.test"));
	d.proto = EGRESS_UDP;
	v = egress_judge(rules, &d);
	ledger_deny(&ledger, &d, &v, NULL);
	assert_string_equal(latest()->what, "send bad.test:443/udp");
	ledger_deny(&ledger, &d, &v, "shout");
	assert_string_equal(latest()->what, "shout bad.test:443/udp");
	assert_int_equal(ledger.totals.denied, 3);
}

static void the_same_denial_is_one_line_with_a_count(void **state)
{
	struct egress_dest d = to_name("bad.test");
	struct egress_verdict v = egress_judge(rules, &d);

	(void)state;
	for (int i = 0; i < 1000; i++)
		ledger_deny(&ledger, &d, &v, NULL);
	assert_int_equal(ledger.denial_count, 1);
	assert_int_equal(latest()->count, 1000);
	assert_int_equal(ledger.totals.denied, 1000);
	assert_int_equal(ledger.totals.denials_left_out, 0);
	/* Each of the three texts tells denials apart. */
	ledger_deny_text(&ledger, "a", "b", "c");
	ledger_deny_text(&ledger, "a", "b", "x");
	ledger_deny_text(&ledger, "a", "x", "c");
	ledger_deny_text(&ledger, "x", "b", "c");
	ledger_deny_text(&ledger, "a", "b", "c");
	assert_int_equal(ledger.denial_count, 5);
	assert_int_equal(ledger.denials[1].count, 2);
	expect_latest("x", "b", "c", 1);
}

static void the_65th_denial_is_counted_as_left_out(void **state)
{
	char what[32];

	(void)state;
	for (int i = 0; i < LEDGER_DENIALS + 10; i++) {
		snprintf(what, sizeof(what), "connect h%d.test:443", i);
		ledger_deny_text(&ledger, what, "rule", NULL);
	}
	assert_int_equal(ledger.denial_count, LEDGER_DENIALS);
	assert_int_equal(ledger.totals.denials_left_out, 10);
	assert_int_equal(ledger.totals.denied, LEDGER_DENIALS + 10);
	ledger_deny_text(&ledger, "connect h0.test:443", "rule", "");
	assert_int_equal(ledger.denials[0].count, 2);
	assert_int_equal(ledger.totals.denials_left_out, 10);
}

static void the_text_of_a_denial_is_a_copy_and_is_cut(void **state)
{
	static char huge[10000];
	char what[8] = "what";

	(void)state;
	memset(huge, 'x', sizeof(huge) - 1);
	ledger_deny_text(&ledger, what, huge, huge);
	memset(what, 'z', 4);
	assert_string_equal(latest()->what, "what");
	assert_int_equal(strlen(latest()->rule), 2047);
	ledger_deny_text(&ledger, "what", huge, huge);
	assert_int_equal(latest()->count, 2);
	ledger_deny_text(&ledger, "", "nothing was done", ""); /* no use to anybody */
	assert_int_equal(ledger.denial_count, 1);
	assert_int_equal(ledger.totals.denials_left_out, 1);
}

/* --- caps -------------------------------------------------------------------------------------- */

static void connections_at_a_time_have_a_cap(void **state)
{
	struct host_entry *h = host("good.test");

	(void)state;
	config.max_connections = 2;
	assert_true(ledger_open(&ledger, h));
	assert_true(ledger_open(&ledger, h));
	assert_int_equal(ledger.totals.cap, 0);
	assert_false(ledger_open(&ledger, h));
	assert_false(ledger_open(&ledger, h));
	expect_latest("connect good.test", "net.connections=2", "--set net.connections=4", 2);
	assert_int_equal(ledger.totals.cap, CAP_CONNECTIONS);
	assert_int_equal(ledger.totals.connections, 2);
	assert_int_equal(ledger.totals.denied, 2);
	assert_false(ledger_open(&ledger, NULL));
	assert_string_equal(latest()->what, "connect one more host");
	ledger_close(&ledger);
	assert_true(ledger_open(&ledger, h));
	config.max_connections = 0; /* the safest value: none */
	assert_false(ledger_open(&ledger, h));
}

static void bytes_of_the_box_have_a_cap_both_ways_together(void **state)
{
	struct host_entry *a = host("a.test"), *b = host("b.test");

	(void)state;
	config.max_bytes = 1024 * 1024;
	assert_true(ledger_open(&ledger, a));
	assert_true(ledger_bytes(&ledger, a, 512 * 1024, 0));
	assert_true(ledger_bytes(&ledger, a, 0, 512 * 1024 - 1));
	assert_int_equal(ledger.denial_count, 0);
	assert_false(ledger_bytes(&ledger, b, 0, 1));
	expect_latest("transfer with b.test", "net.bytes=1M", "--set net.bytes=2M", 1);
	assert_int_equal(ledger.totals.cap, CAP_BYTES);
	assert_false(ledger_open(&ledger, a));
	expect_latest("connect a.test", "net.bytes=1M", "--set net.bytes=2M", 1);
}

static void bytes_of_one_host_have_a_cap_and_others_go_on(void **state)
{
	struct host_entry *a = host("a.test"), *b = host("b.test");

	(void)state;
	config.max_host_bytes = 1536;
	assert_true(ledger_open(&ledger, a));
	assert_true(ledger_bytes(&ledger, a, 1000, 535));
	assert_false(ledger_bytes(&ledger, a, 0, 5000));
	expect_latest("transfer with a.test", "net.host_bytes=1536", "--set net.host_bytes=3K", 1);
	assert_int_equal(ledger.totals.cap, CAP_HOST_BYTES);
	assert_false(ledger_open(&ledger, a));
	expect_latest("connect a.test", "net.host_bytes=1536", "--set net.host_bytes=3K", 1);
	assert_true(ledger_open(&ledger, b));
	assert_true(ledger_bytes(&ledger, b, 1535, 0));
}

/* Else *.good.test would be as many hosts, and bytes, as the payload can spell. */
static void a_host_that_cannot_be_counted_is_no_way_around_its_cap(void **state)
{
	(void)state;
	assert_true(ledger_open(&ledger, NULL));
	config.max_host_bytes = 1 << 20;
	assert_false(ledger_open(&ledger, NULL));
	expect_latest("connect one more host", "net.host_bytes=1M", "--set net.host_bytes=2M", 1);
}

static void a_cap_of_others_is_noted_by_its_bit_and_key(void **state)
{
	(void)state;
	config.max_names = 256;
	ledger_cap(&ledger, CAP_NAMES, "lookup", "n257.test");
	expect_latest("lookup n257.test", "net.names=256", "--set net.names=512", 1);
	assert_int_equal(ledger.totals.cap, CAP_NAMES);
	config.max_bytes = UINT64_MAX; /* no overflow: it stays where it is */
	ledger_bytes(&ledger, NULL, UINT64_MAX - 1, 0);
	assert_false(ledger_bytes(&ledger, NULL, 0, UINT64_MAX));
	assert_int_equal(ledger.totals.bytes_in, UINT64_MAX);
	assert_false(ledger_bytes(&ledger, NULL, 5, 5));
	assert_int_equal(ledger.totals.bytes_out, UINT64_MAX);
}

/* --- the report ---------------------------------------------------------------------------------- */

struct packet {
	struct egress_msg head;
	char body[EGRESS_PACKET_MAX];
};

static bool take(int fd, struct packet *p)
{
	ssize_t n = recv(fd, p, sizeof(*p), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return false;
	assert_true(n >= (ssize_t)sizeof(p->head) && n <= EGRESS_PACKET_MAX);
	assert_int_equal(p->head.magic, EGRESS_MAGIC);
	assert_int_equal(p->head.size, n - (ssize_t)sizeof(p->head));
	return true;
}

static void pair_of(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
}

static void the_report_lists_denials_hosts_and_the_totals_last(void **state)
{
	static const char texts[] = "connect bad.test:443\0rule\0";
	struct host_entry *h = host("good.test");
	struct egress_host_report r;
	struct egress_totals t;
	struct packet p;
	int fds[2];

	(void)state;
	pair_of(fds);
	host("never.opened.test");
	ledger_deny_text(&ledger, "connect bad.test:443", "rule", NULL);
	ledger.denials[0].count = UINT64_C(5000000000);
	assert_true(ledger_open(&ledger, h));
	assert_true(ledger_bytes(&ledger, h, 3, 4));
	assert_int_equal(ledger_report(&ledger, fds[0]), 0);
	assert_true(take(fds[1], &p));
	assert_int_equal(p.head.type, EGRESS_DENIAL);
	assert_int_equal(p.head.count, UINT32_MAX);
	assert_int_equal(p.head.size, sizeof(texts));
	assert_memory_equal(p.body, texts, sizeof(texts));
	assert_true(take(fds[1], &p));
	assert_int_equal(p.head.type, EGRESS_HOST);
	assert_int_equal(p.head.size, sizeof(r) + sizeof("good.test"));
	memcpy(&r, p.body, sizeof(r));
	assert_int_equal(r.connections, 1);
	assert_int_equal(r.bytes_out, 3);
	assert_int_equal(r.bytes_in, 4);
	assert_string_equal(p.body + sizeof(r), "good.test");
	assert_true(take(fds[1], &p));
	assert_int_equal(p.head.type, EGRESS_TOTAL);
	assert_int_equal(p.head.size, sizeof(t));
	memcpy(&t, p.body, sizeof(t));
	assert_int_equal(t.connections, 1);
	assert_int_equal(t.denied, 1);
	assert_false(take(fds[1], &p));
	close(fds[0]);
	close(fds[1]);
}

static void fill_all(void)
{
	static char longest[3000];
	char name[32], what[3100];

	memset(longest, 'x', sizeof(longest) - 1);
	for (int i = 0; i < LEDGER_HOSTS; i++) {
		snprintf(name, sizeof(name), "h%d.test", i);
		ledger_open(&ledger, host(name));
	}
	for (int i = 0; i < LEDGER_DENIALS; i++) {
		snprintf(what, sizeof(what), "%d %s", i, longest);
		ledger_deny_text(&ledger, what, longest, longest);
	}
}

/* A reader that begins late and is slow: the socket's buffer holds a part of it only. */
static void full_tables_reach_a_slow_launcher_whole(void **state)
{
	int fds[2], status, small = 4096, seen[EGRESS_TOTAL + 1] = { 0 };
	struct packet p;
	pid_t pid;

	(void)state;
	pair_of(fds);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	fill_all();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[1]);
		_exit(ledger_report(&ledger, fds[0]) < 0);
	}
	close(fds[0]);
	while (!seen[EGRESS_TOTAL]) {
		struct pollfd wait = { .fd = fds[1], .events = POLLIN };

		assert_int_equal(poll(&wait, 1, 20000), 1);
		while (!seen[EGRESS_TOTAL] && take(fds[1], &p))
			seen[p.head.type]++;
	}
	assert_int_equal(seen[EGRESS_DENIAL], LEDGER_DENIALS);
	assert_int_equal(seen[EGRESS_HOST], LEDGER_HOSTS);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fds[1]);
}

static void a_launcher_that_is_gone_is_no_signal_and_no_wait(void **state)
{
	int fds[2];

	(void)state;
	signal(SIGPIPE, SIG_DFL); /* which would end this test */
	pair_of(fds);
	close(fds[1]);
	assert_int_equal(ledger_report(&ledger, fds[0]), -1);
	close(fds[0]);
	assert_int_equal(ledger_report(&ledger, -1), -1);
}

static void a_launcher_that_does_not_read_is_given_up(void **state)
{
	int fds[2], small = 4096;
	struct timespec before, after;

	(void)state;
	pair_of(fds);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	fill_all();
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(ledger_report(&ledger, fds[0]), -1);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true(after.tv_sec - before.tv_sec < 20);
	close(fds[0]);
	close(fds[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, release)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_and_an_address_are_one_host_each_whatever_the_port),
		TEST(the_257th_host_has_no_line_and_is_counted_as_left_out),
		TEST(a_name_may_be_253_bytes_long),
		TEST(connections_and_bytes_count_for_the_host_and_in_all),
		TEST(a_denial_names_act_rule_and_flag),
		TEST(the_same_denial_is_one_line_with_a_count),
		TEST(the_65th_denial_is_counted_as_left_out),
		TEST(the_text_of_a_denial_is_a_copy_and_is_cut),
		TEST(connections_at_a_time_have_a_cap),
		TEST(bytes_of_the_box_have_a_cap_both_ways_together),
		TEST(bytes_of_one_host_have_a_cap_and_others_go_on),
		TEST(a_host_that_cannot_be_counted_is_no_way_around_its_cap),
		TEST(a_cap_of_others_is_noted_by_its_bit_and_key),
		TEST(the_report_lists_denials_hosts_and_the_totals_last),
		TEST(full_tables_reach_a_slow_launcher_whole),
		TEST(a_launcher_that_is_gone_is_no_signal_and_no_wait),
		TEST(a_launcher_that_does_not_read_is_given_up),
	};

	return cmocka_run_group_tests_name("egress_ledger", tests, compile_rules, free_rules);
}
