/*
 * test_egress_dns_stub.c - the box's name server: what it says to every type of question,
 * what it asks upstream, and its sockets
 */
#include "dns_server.h"

#include "runtime/egress/stub.h"

#include <stdlib.h>

static const struct zone_row zone[] = {
	{ "there.test", DNS_A, "192.0.2.1", 300, PLAIN },
	{ "there.test", DNS_MX, "mx.test", 300, PLAIN },
	{ "there.test", DNS_TXT, "\4text", 300, PLAIN },
	{ "text.test", DNS_TXT, "\4text", 300, PLAIN },
	{ "cut.test", DNS_TXT, "\4text", 300, CUT },
	{ "lying.test", DNS_TXT, "\4text", 300, LYING_LENGTH },
	{ "broken.test", 0, "2", 0, CODE },
	{ "slow.test", DNS_A, "192.0.2.2", 300, SILENT },
	{ "slow.test", DNS_AAAA, "2001:db8::2", 300, SILENT },
	{ 0 }
};

struct rig {
	struct loop loop;
	struct dns_server server;
	struct egress_config config;
	struct egress_rules *rules;
	struct ledger ledger;
	struct stub stub;
	/* the latest answer */
	uint8_t p[DNS_MESSAGE_MAX];
	size_t len;
	unsigned answers;
	bool stops;		/* an answer stops the loop */
};

static void add_all(struct strlist *to, const char *const *from)
{
	for (; from && *from; from++)
		assert_int_equal(strlist_add(to, *from), 0);
}

static void compile(struct rig *r, const char *const *allow, const char *const *deny)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };

	assert_int_equal(policy_init(&p, &err), 0);
	p.net.mode = NET_FILTERED;
	add_all(&p.net.allow_out, allow);
	add_all(&p.net.deny_out, deny);
	assert_int_equal(egress_compile(&r->rules, &p, &err), 0);
	policy_free(&p);
}

static void rig_up(struct rig *r, const char *const *allow, const char *const *deny)
{
	memset(r, 0, sizeof(*r));
	compile(r, allow, deny);
	assert_int_equal(loop_init(&r->loop), 0);
	server_up(&r->server, &r->loop, zone);
	r->config = (struct egress_config){ .timeout_ms = 30000, .attempts = 1, .max_names = 3,
					    .max_connections = 10 };
	server_configure(&r->config, &r->server);
	ledger_init(&r->ledger, &r->config, r->rules);
	r->stub = (struct stub){ .loop = &r->loop, .rules = r->rules, .ledger = &r->ledger,
				 .names = names_new(r->config.max_names), .has_v6 = true,
				 .resolver = resolver_new(&r->loop, &r->config) };
	assert_non_null(r->stub.names);
	assert_non_null(r->stub.resolver);
}

static void rig_down(struct rig *r)
{
	stub_end(&r->stub);
	resolver_free(r->stub.resolver);
	names_free(r->stub.names);
	ledger_free(&r->ledger);
	free(r->rules);
	server_down(&r->server);
	assert_null(r->loop.timers);
	close(r->loop.epoll);
}

static const char *const allow_test[] = { "a.test", "b.test", "c.test", "*.d.test",
					  "apex.example", NULL };
static const char *const deny_bad[] = { "bad.test", NULL };

/* --- asking ----------------------------------------------------------------------------------------- */

static void on_answer(void *arg, const uint8_t *answer, size_t len)
{
	struct rig *r = arg;

	memcpy(r->p, answer ? answer : r->p, len);
	r->len = len;
	r->answers++;
	r->loop.stop = r->stops;
}

static size_t query_bytes(uint8_t p[DNS_QUERY_MAX], const char *name, uint16_t type)
{
	struct dns_query q = { .id = 0x4242, .type = type, .class = DNS_CLASS_IN,
			       .wants_recursion = true };

	assert_true(dns_name_set(&q.name, name));
	return dns_write_query(p, DNS_QUERY_MAX, &q);
}

static void send_ask(struct rig *r, const char *name, uint16_t type, bool over_tcp)
{
	uint8_t p[DNS_QUERY_MAX];
	size_t n = query_bytes(p, name, type);

	assert_int_equal(stub_ask(&r->stub, p, n, over_tcp, on_answer, r), 0);
}

/* The answer's code. */
static unsigned ask(struct rig *r, const char *name, uint16_t type)
{
	unsigned before = r->answers;

	r->stops = true;
	send_ask(r, name, type, false);
	if (r->answers == before)
		run_loop(&r->loop);
	assert_int_equal(r->answers, before + 1);
	assert_true(r->len >= DNS_HEADER);
	assert_memory_equal(r->p, "\x42\x42", 2);
	return r->p[3] & 15;
}

static unsigned records(const struct rig *r)
{
	return (unsigned)(r->p[6] << 8 | r->p[7]);
}

/* The only record's address: what follows the last 4 or 16 bytes. */
static const char *address(const struct rig *r, int family)
{
	static char text[INET6_ADDRSTRLEN];
	size_t size = family == AF_INET ? 4 : 16;

	assert_int_equal(records(r), 1);
	assert_int_equal(r->p[r->len - size - 1], size);
	assert_non_null(inet_ntop(family, r->p + r->len - size, text, sizeof(text)));
	return text;
}

static void assert_denied(const struct rig *r, unsigned at, const char *what, const char *rule)
{
	assert_true(at < r->ledger.denial_count);
	assert_string_equal(r->ledger.denials[at].what, what);
	assert_string_equal(r->ledger.denials[at].rule, rule);
}

/* --- lists that allow ---------------------------------------------------------------------------------- */

static void an_allowed_name_has_a_fake_address_and_nobody_is_asked(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.1");
	assert_memory_equal(r.p + r.len - 10, "\0\0\0\74", 4); /* the TTL */
	assert_int_equal(ask(&r, "A.Test", DNS_AAAA), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET6), "2001:2::1");
	assert_int_equal(ask(&r, "apex.example", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.2");
	assert_string_equal(names_get(r.stub.names, 1), "a.test");
	assert_int_equal(r.server.queries, 0);
	assert_int_equal(r.ledger.denial_count, 0);
	assert_int_equal(r.ledger.totals.lookups, 3);
	rig_down(&r);
}

static void without_ipv6_in_the_box_there_is_no_aaaa(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	r.stub.has_v6 = false;
	assert_int_equal(ask(&r, "a.test", DNS_AAAA), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_null(names_get(r.stub.names, 1));
	rig_down(&r);
}

static void every_other_type_of_an_allowed_name_is_empty_or_refused(void **state)
{
	static const uint16_t refused[] = { DNS_SVCB, DNS_HTTPS, DNS_ANY, DNS_OPT, 128, 249, 250,
					    251, 252, 253, 254 };
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (unsigned type = 1; type < 1024; type++) {
		unsigned want = DNS_NOERROR;

		if (type == DNS_A || type == DNS_AAAA)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
			if (refused[i] == type || (type >= 128 && type <= 255))
				want = DNS_REFUSED;
		assert_int_equal(ask(&r, "a.test", (uint16_t)type), want);
		assert_int_equal(records(&r), 0);
	}
	assert_int_equal(r.server.queries, 0);
	assert_int_equal(r.ledger.denial_count, 0);
	assert_null(names_get(r.stub.names, 1));
	rig_down(&r);
}

static void a_denied_name_is_refused_noted_and_not_asked_for(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (unsigned type = 1; type < 300; type++)
		assert_int_equal(ask(&r, "evil.example", (uint16_t)type), DNS_REFUSED);
	assert_int_equal(r.server.queries, 0);
	assert_int_equal(r.ledger.denial_count, 1);
	assert_int_equal(r.ledger.denials[0].count, 299);
	assert_denied(&r, 0, "lookup evil.example", "net.allow_out (not listed)");
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR); /* control */
	rig_down(&r);
}

static void what_is_no_host_name_is_refused(void **state)
{
	static const char *const names[] = { "", "1.2.3.4", "0x7f.1", "a b.test", "a*.test" };
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(ask(&r, names[i], DNS_A), DNS_REFUSED);
	assert_int_equal(r.ledger.denial_count, ARRAY_SIZE(names));
	assert_denied(&r, 0, "lookup . (type 1)", "always denied: not a host name");
	assert_denied(&r, 3, "lookup a name with odd bytes (type 1)",
		      "always denied: not a host name");
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

static void a_question_of_another_class_is_refused(void **state)
{
	uint8_t p[DNS_QUERY_MAX];
	struct rig r;
	size_t n = query_bytes(p, "a.test", DNS_TXT);

	(void)state;
	rig_up(&r, allow_test, NULL);
	p[n - 1] = 3; /* CH */
	assert_int_equal(stub_ask(&r.stub, p, n, false, on_answer, &r), 0);
	assert_int_equal(r.p[3] & 15, DNS_REFUSED);
	assert_int_equal(r.ledger.denial_count, 1);
	rig_down(&r);
}

static void the_services_of_an_allowed_name_are_empty_and_no_denial(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (const char *const[]){ "apex.example", NULL }, NULL);
	assert_int_equal(ask(&r, "_http._tcp.apex.example", DNS_SRV), DNS_NOERROR);
	assert_int_equal(r.ledger.denial_count, 0);
	assert_int_equal(ask(&r, "_http._tcp.other.example", DNS_SRV), DNS_REFUSED);
	assert_int_equal(ask(&r, "_x.apex.example", DNS_A), DNS_REFUSED);
	assert_int_equal(ask(&r, "_443._https.apex.example", DNS_HTTPS), DNS_REFUSED);
	assert_int_equal(ask(&r, "_x", DNS_SRV), DNS_REFUSED);
	assert_int_equal(r.ledger.denial_count, 4);
	rig_down(&r);
}

static void localhost_is_the_box_itself(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "localhost", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "127.0.0.1");
	assert_int_equal(ask(&r, "x.LocalHost", DNS_AAAA), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET6), "::1");
	assert_int_equal(ask(&r, "localhost", DNS_MX), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_int_equal(ask(&r, "1.0.0.127.in-addr.arpa", DNS_PTR), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.ledger.denial_count, 0);
	rig_down(&r);
}

static void a_fake_address_has_its_name_and_others_have_none(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "1.0.18.198.in-addr.arpa", DNS_PTR), DNS_REFUSED);
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "1.0.18.198.in-addr.arpa", DNS_PTR), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_memory_equal(r.p + r.len - 8, "\1a\4test\0", 8);
	assert_int_equal(ask(&r, "1.0.18.198.in-addr.arpa", DNS_A), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_int_equal(ask(&r, "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.2"
			     ".ip6.arpa", DNS_PTR), DNS_NOERROR);
	assert_memory_equal(r.p + r.len - 8, "\1a\4test\0", 8);
	assert_int_equal(ask(&r, "8.8.8.8.in-addr.arpa", DNS_PTR), DNS_REFUSED);
	assert_denied(&r, 1, "lookup 8.8.8.8.in-addr.arpa (type 12)", "always denied: reverse lookup");
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

static void a_full_table_is_a_cap(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(ask(&r, "a.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "b.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "c.test", DNS_A), DNS_NOERROR);
	assert_int_equal(ask(&r, "x.d.test", DNS_A), DNS_SERVFAIL);
	assert_int_equal(r.ledger.totals.cap, CAP_NAMES);
	assert_denied(&r, 0, "lookup x.d.test", "net.names=3");
	assert_string_equal(r.ledger.denials[0].allow, "--set net.names=6");
	assert_int_equal(ask(&r, "b.test", DNS_A), DNS_NOERROR);
	rig_down(&r);
}

/* --- lists that deny --------------------------------------------------------------------------------- */

static void where_all_is_allowed_a_name_must_exist(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	assert_int_equal(ask(&r, "there.test", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.1");
	assert_int_equal(r.server.queries, 2);
	assert_int_equal(ask(&r, "there.test", DNS_AAAA), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET6), "2001:2::1");
	assert_int_equal(ask(&r, "none.test", DNS_A), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "text.test", DNS_A), DNS_NOERROR);
	assert_int_equal(records(&r), 0);
	assert_int_equal(ask(&r, "broken.test", DNS_A), DNS_SERVFAIL);
	assert_null(names_get(r.stub.names, 2)); /* what is not there takes no number */
	rig_down(&r);
}

static void where_all_is_allowed_a_denied_name_is_still_not_asked_for(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	for (unsigned type = 1; type < 300; type++)
		assert_int_equal(ask(&r, "bad.test", (uint16_t)type), DNS_REFUSED);
	assert_int_equal(ask(&r, "there.test", DNS_HTTPS), DNS_REFUSED);
	assert_int_equal(ask(&r, "there.test", DNS_ANY), DNS_REFUSED);
	assert_int_equal(ask(&r, "there.test", 4711), DNS_NOERROR);
	assert_int_equal(r.server.queries, 0);
	assert_denied(&r, 0, "lookup bad.test", "net.deny_out=bad.test");
	rig_down(&r);
}

static void where_all_is_allowed_plain_data_is_passed_on(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	assert_int_equal(ask(&r, "there.test", DNS_TXT), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_memory_equal(r.p + r.len - 5, "\4text", 5);
	assert_string_equal(r.server.last, "there.test");
	assert_int_equal(ask(&r, "there.test", DNS_MX), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_int_equal(ask(&r, "cut.test", DNS_TXT), DNS_NOERROR);
	assert_int_equal(records(&r), 1);
	assert_int_equal(r.server.tcp_queries, 1);
	assert_int_equal(ask(&r, "none.test", DNS_TXT), DNS_NXDOMAIN);
	assert_int_equal(ask(&r, "lying.test", DNS_TXT), DNS_SERVFAIL);
	assert_int_equal(ask(&r, "broken.test", DNS_MX), DNS_SERVFAIL);
	rig_down(&r);
}

static void behind_a_proxy_nobody_is_asked(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	r.config.proxy.kind = PROXY_HTTP;
	assert_int_equal(ask(&r, "there.test", DNS_A), DNS_NOERROR);
	assert_string_equal(address(&r, AF_INET), "198.18.0.1");
	assert_int_equal(ask(&r, "there.test", DNS_MX), DNS_NOERROR);
	assert_int_equal(r.server.queries, 0);
	rig_down(&r);
}

static void questions_under_way_are_bounded_and_end_with_the_stub(void **state)
{
	unsigned waiting = 0;
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	for (int i = 0; i < 1100; i++)
		send_ask(&r, "slow.test", DNS_A, false);
	waiting = 1100 - r.answers;
	assert_int_equal(waiting, 1024);
	assert_int_equal(r.p[3] & 15, DNS_SERVFAIL);
	send_ask(&r, "there.test", DNS_TXT, false);
	assert_int_equal(r.p[3] & 15, DNS_SERVFAIL);
	rig_down(&r);
	assert_int_equal(r.answers, 1101);
	assert_int_equal(r.len, 0);
}

static void relays_under_way_are_bounded(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	for (int i = 0; i < 70; i++)
		send_ask(&r, "there.test", DNS_TXT, false);
	assert_int_equal(r.answers, 6);
	rig_down(&r);
	assert_int_equal(r.answers, 70);
}

static void garbage_gets_no_answer_or_a_code(void **state)
{
	uint8_t p[DNS_QUERY_MAX];
	struct rig r;
	size_t n = query_bytes(p, "a.test", DNS_A);

	(void)state;
	rig_up(&r, allow_test, NULL);
	for (size_t len = 0; len < n; len++) {
		r.len = 1;
		assert_int_equal(stub_ask(&r.stub, p, len, false, on_answer, &r), 0);
		assert_int_equal(r.answers, len + 1);
		assert_int_equal(r.len, len < DNS_HEADER ? 0 : DNS_HEADER);
		if (r.len)
			assert_int_equal(r.p[3] & 15, DNS_FORMERR);
	}
	assert_int_equal(r.ledger.totals.lookups, 0);
	rig_down(&r);
}

/* --- its sockets --------------------------------------------------------------------------------------- */

static int client_of(int type, int server)
{
	struct sockaddr_in a;
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&a, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, size), 0);
	return fd;
}

static int serve(struct rig *r, int type)
{
	uint16_t port = 0;
	int fd = server_socket(type, &port);

	if (type == SOCK_STREAM) {
		assert_int_equal(listen(fd, 128), 0);
		assert_int_equal(stub_serve_tcp(&r->stub, fd), 0);
	} else {
		assert_int_equal(stub_serve_udp(&r->stub, fd), 0);
	}
	return fd;
}

struct hear {
	int fd;
	uint8_t p[1 << 16];
	size_t len, want;
	bool at_end;
};

static bool heard(void *arg)
{
	struct hear *h = arg;
	ssize_t n;

	while (!h->at_end && h->len < h->want) {
		n = recv(h->fd, h->p + h->len, h->want - h->len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return false;
		h->at_end = n <= 0;
		h->len += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static struct hear hear;

/* Until `want` bytes are there, or the end is. */
static void hear_from(struct rig *r, int fd, size_t want)
{
	memset(&hear, 0, sizeof(hear));
	hear.fd = fd;
	hear.want = want;
	run_until(&r->loop, heard, &hear);
}

static size_t put_framed(uint8_t *to, const char *name, uint16_t type, uint8_t id)
{
	size_t n = query_bytes(to + 2, name, type);

	to[0] = (uint8_t)(n >> 8);
	to[1] = (uint8_t)n;
	to[2] = 0;
	to[3] = id;
	return n + 2;
}

enum { ANSWER_SIZE = DNS_HEADER + 8 + 4 + 16 }; /* one A record for a.test */

static void it_answers_datagrams(void **state)
{
	uint8_t p[DNS_QUERY_MAX];
	size_t n = query_bytes(p, "a.test", DNS_A);
	struct rig r;
	int server, client;

	(void)state;
	rig_up(&r, allow_test, NULL);
	server = serve(&r, SOCK_DGRAM);
	client = client_of(SOCK_DGRAM, server);
	assert_int_equal(send(client, "garbage", 7, 0), 7);
	assert_int_equal(send(client, "", 0, 0), 0);
	assert_int_equal(send(client, p, n, 0), (ssize_t)n);
	hear_from(&r, client, ANSWER_SIZE);
	assert_int_equal(hear.len, ANSWER_SIZE);
	assert_memory_equal(hear.p + ANSWER_SIZE - 4, "\306\22\0\1", 4);
	close(client);
	rig_down(&r);
}

static void it_answers_many_questions_of_one_connection(void **state)
{
	uint8_t p[100 * (DNS_QUERY_MAX + 2)];
	size_t n = 0;
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, allow_test, NULL);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	for (uint8_t i = 0; i < 100; i++)
		n += put_framed(p + n, "a.test", DNS_A, i);
	assert_int_equal(send(client, p, 1, 0), 1); /* in parts */
	assert_int_equal(send(client, p + 1, 20, 0), 20);
	assert_int_equal(send(client, p + 21, n - 21, 0), (ssize_t)(n - 21));
	hear_from(&r, client, 100 * (2 + ANSWER_SIZE));
	assert_int_equal(hear.len, 100 * (2 + ANSWER_SIZE));
	for (uint8_t i = 0; i < 100; i++)
		assert_int_equal(hear.p[i * (2 + ANSWER_SIZE) + 3], i);
	shutdown(client, SHUT_WR);
	hear_from(&r, client, 1);
	assert_true(hear.at_end && hear.len == 0);
	assert_int_equal(r.stub.conn_count, 0);
	close(client);
	rig_down(&r);
}

/* More than may wait at once: reading stops, and goes on when upstream has answered. */
static void a_client_that_has_said_all_is_still_answered(void **state)
{
	uint8_t p[80 * (DNS_QUERY_MAX + 2)];
	size_t n = 0;
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	for (uint8_t i = 0; i < 80; i++)
		n += put_framed(p + n, "slow.test", DNS_A, i);
	assert_int_equal(send(client, p, n, 0), (ssize_t)n);
	shutdown(client, SHUT_WR);
	memset(&hear, 0, sizeof(hear));
	hear.fd = client;
	hear.want = 80 * (2 + ANSWER_SIZE + 3);
	while (r.server.held_count < 2 || r.stub.ask_count < 64)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	assert_int_equal(r.stub.ask_count, 64);
	server_release(&r.server);
	run_until(&r.loop, heard, &hear);
	assert_int_equal(hear.len, hear.want);
	hear_from(&r, client, 1);
	assert_true(hear.at_end);
	close(client);
	rig_down(&r);
}

static void a_client_that_goes_away_leaves_nothing_behind(void **state)
{
	uint8_t p[DNS_QUERY_MAX + 2];
	size_t n = put_framed(p, "slow.test", DNS_A, 1);
	struct linger reset = { 1, 0 };
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	assert_int_equal(send(client, p, n, 0), (ssize_t)n);
	while (r.stub.ask_count < 1)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(client);
	while (r.stub.conn_count)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	assert_int_equal(r.stub.ask_count, 1);
	while (r.server.held_count < 2)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	server_release(&r.server);
	while (r.stub.ask_count)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	rig_down(&r);
}

static void a_question_that_is_too_long_ends_the_connection(void **state)
{
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, allow_test, NULL);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	assert_int_equal(send(client, "\x20\0garbage", 9, 0), 9);
	hear_from(&r, client, 1);
	assert_true(hear.at_end && hear.len == 0);
	close(client);
	rig_down(&r);
}

static void sixty_four_connections_are_served_and_no_more(void **state)
{
	uint8_t p[DNS_QUERY_MAX + 2];
	size_t n = put_framed(p, "a.test", DNS_A, 1);
	struct rig r;
	int client[65], server;

	(void)state;
	rig_up(&r, allow_test, NULL);
	server = serve(&r, SOCK_STREAM);
	for (int i = 0; i < 65; i++)
		client[i] = client_of(SOCK_STREAM, server);
	hear_from(&r, client[64], 1);
	assert_true(hear.at_end);
	assert_int_equal(r.stub.conn_count, 64);
	assert_int_equal(send(client[0], p, n, 0), (ssize_t)n);
	hear_from(&r, client[0], 2 + ANSWER_SIZE);
	assert_int_equal(hear.len, 2 + ANSWER_SIZE);
	for (int i = 0; i < 65; i++)
		close(client[i]);
	rig_down(&r);
}

static void an_idle_connection_ends_after_ten_seconds(void **state)
{
	struct rig r;
	int client;
	uint64_t begin = loop_now(), took;

	(void)state;
	rig_up(&r, allow_test, NULL);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	assert_int_equal(send(client, "\0", 1, 0), 1); /* a byte is no question */
	hear_from(&r, client, 1);
	took = loop_now() - begin;
	assert_true(hear.at_end);
	assert_true(took >= 10 * UINT64_C(1000000));
	close(client);
	rig_down(&r);
}

static void a_client_on_its_way_elsewhere_is_served_as_well(void **state)
{
	uint8_t p[DNS_QUERY_MAX + 2];
	size_t n = put_framed(p, "a.test", DNS_A, 1);
	struct rig r;
	int pair[2];

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(stub_serve_client(&r.stub, pair[0]), 0);
	assert_int_equal(send(pair[1], p, n, 0), (ssize_t)n);
	hear_from(&r, pair[1], 2 + ANSWER_SIZE);
	assert_int_equal(hear.len, 2 + ANSWER_SIZE);
	close(pair[1]);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_allowed_name_has_a_fake_address_and_nobody_is_asked),
		cmocka_unit_test(without_ipv6_in_the_box_there_is_no_aaaa),
		cmocka_unit_test(every_other_type_of_an_allowed_name_is_empty_or_refused),
		cmocka_unit_test(a_denied_name_is_refused_noted_and_not_asked_for),
		cmocka_unit_test(what_is_no_host_name_is_refused),
		cmocka_unit_test(a_question_of_another_class_is_refused),
		cmocka_unit_test(the_services_of_an_allowed_name_are_empty_and_no_denial),
		cmocka_unit_test(localhost_is_the_box_itself),
		cmocka_unit_test(a_fake_address_has_its_name_and_others_have_none),
		cmocka_unit_test(a_full_table_is_a_cap),
		cmocka_unit_test(where_all_is_allowed_a_name_must_exist),
		cmocka_unit_test(where_all_is_allowed_a_denied_name_is_still_not_asked_for),
		cmocka_unit_test(where_all_is_allowed_plain_data_is_passed_on),
		cmocka_unit_test(behind_a_proxy_nobody_is_asked),
		cmocka_unit_test(questions_under_way_are_bounded_and_end_with_the_stub),
		cmocka_unit_test(relays_under_way_are_bounded),
		cmocka_unit_test(garbage_gets_no_answer_or_a_code),
		cmocka_unit_test(it_answers_datagrams),
		cmocka_unit_test(it_answers_many_questions_of_one_connection),
		cmocka_unit_test(a_client_that_has_said_all_is_still_answered),
		cmocka_unit_test(a_client_that_goes_away_leaves_nothing_behind),
		cmocka_unit_test(a_question_that_is_too_long_ends_the_connection),
		cmocka_unit_test(sixty_four_connections_are_served_and_no_more),
		cmocka_unit_test(an_idle_connection_ends_after_ten_seconds),
		cmocka_unit_test(a_client_on_its_way_elsewhere_is_served_as_well),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
