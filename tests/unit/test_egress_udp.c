/*
 * test_egress_udp.c - datagrams of a box through the relay, on this kernel
 *
 * Each scene has two network namespaces: the host, where servers are and the relay makes
 * its sockets, and a box with the real inlet. Everything runs in one process, by one loop.
 */
#include "base/cleanup.h"
#include "runtime/egress/udp.h"

#include "tests/unit/inlet_box.h"

#include <net/if.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define QUAD4 "9.9.9.9"
#define OTHER4 "8.8.4.4"
#define QUAD6 "2620:fe::fe"
#define HOSTS QUAD4 " good.test both.test\n" \
	      "10.0.0.1 private.test both.test\n" \
	      QUAD6 " six.test\n"

static int host_ns, box_ns;
static struct egress e;
static struct stub stub;
static struct udp_relay relay;

static struct block {
	struct egress_config config;
	char hosts[sizeof(HOSTS)];
} block;

/* --- the host -------------------------------------------------------------------------- */

static void address_of_host(int index, const char *text)
{
	union address a = address(text, 0);
	int fd = socket(a.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (a.any.sa_family == AF_INET) {
		struct ifreq req = { .ifr_name = "lo:1" };

		req.ifr_name[3] = (char)('0' + index);
		memcpy(&req.ifr_addr, &a.v4, sizeof(a.v4));
		r = ioctl(fd, SIOCSIFADDR, &req);
	} else {
		struct { struct in6_addr addr; uint32_t prefix; int index; } req = {
			a.v6.sin6_addr, 128, 1 };

		r = ioctl(fd, SIOCSIFADDR, &req);
	}
	if (r < 0)
		_exit(120);
	close(fd);
}

static void make_host(void)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (ioctl(fd, SIOCSIFFLAGS, &up) < 0)
		_exit(121);
	close(fd);
	address_of_host(1, QUAD4);
	address_of_host(2, OTHER4);
	address_of_host(3, QUAD6);
}

static void enter(int ns)
{
	if (setns(ns, CLONE_NEWNET) < 0)
		_exit(122);
}

/* --- the supervisor ---------------------------------------------------------------------- */

static const struct egress_rules *rules_of(const char *const *allow)
{
	struct egress_rules *r;
	struct policy p = { 0 };

	if (policy_init(&p, NULL) < 0)
		_exit(123);
	p.net.mode = NET_FILTERED;
	for (; *allow; allow++)
		if (strlist_add(&p.net.allow_out, *allow) < 0)
			_exit(124);
	if (egress_compile(&r, &p, NULL) < 0)
		_exit(125);
	policy_free(&p);
	return r;
}

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void supervise(const char *const *allow)
{
	block.config.max_connections = 64;
	block.config.max_names = 64;
	block.config.timeout_ms = LONG_MS;
	block.config.attempts = 1;
	memcpy(block.hosts, HOSTS, sizeof(HOSTS));
	block.config.hosts = offsetof(struct block, hosts);
	block.config.hosts_len = sizeof(HOSTS) - 1;
	e.config = &block.config;
	e.rules = rules_of(allow);
	if (loop_init(&e.loop) < 0)
		_exit(126);
	ledger_init(&e.ledger, e.config, e.rules);
	e.names = names_new(64);
	e.resolver = resolver_new(&e.loop, e.config);
	stub = (struct stub){ .loop = &e.loop, .rules = e.rules, .names = e.names,
			      .resolver = e.resolver, .ledger = &e.ledger, .has_v6 = true };
	if (udp_start(&relay, &e, &stub, inlet) < 0)
		_exit(127);
}

static void begin(const char *const *allow)
{
	own_namespaces();
	make_host();
	host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (unshare(CLONE_NEWNET) < 0)
		_exit(128);
	gated_inlet();
	box_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	enter(host_ns);
	supervise(allow);
}

/* Nothing of any flow is left. */
static void finish(void)
{
	stub_end(&stub);
	udp_stop(&relay);
	note("open at the end", (long)e.ledger.open);
	note("queued at the end", (long)relay.queued);
	note("asked at the end", (long)relay.asked);
	resolver_free(e.resolver);
	names_free(e.names);
}

static void expect_clean_end(void)
{
	expect("open at the end", 0);
	expect("queued at the end", 0);
	expect("asked at the end", 0);
}

static void new_rules(const char *const *allow)
{
	e.rules = e.ledger.rules = stub.rules = rules_of(allow);
	udp_rules_changed(&relay);
}

/* --- the loop -------------------------------------------------------------------------------- */

static void stop_at(struct source *s, uint32_t events)
{
	(void)s;
	(void)events;
	e.loop.stop = true;
}

static void too_late(struct timer *t)
{
	(void)t;
	_exit(129);
}

static void run(void)
{
	struct timer limit = { .fire = too_late };

	timer_set(&e.loop, &limit, loop_now() + LONG_MS * 1000);
	e.loop.stop = false;
	loop_run(&e.loop);
	timer_clear(&limit);
}

/* Serves until there is something to read, or an error, at a client of the box. */
static void serve_until(int fd)
{
	struct source s = { fd, stop_at };

	if (loop_add(&e.loop, &s, EPOLLIN) < 0)
		_exit(130);
	run();
	loop_remove(&e.loop, &s);
}

static bool (*condition)(void);

static void look(struct timer *t)
{
	e.loop.stop = condition();
	if (!e.loop.stop)
		timer_set(&e.loop, t, loop_now() + 1000);
}

static void serve_until_true(bool (*holds)(void))
{
	struct timer t = { .fire = look };

	condition = holds;
	timer_set(&e.loop, &t, loop_now());
	run();
	timer_clear(&t);
}

/* --- servers and clients -------------------------------------------------------------------- */

struct echo {
	struct source s;
	bool is_mute;
	int heard;
	uint16_t from[256];	/* ports of those who sent */
	char last[64];
};

/* Data is sent back with its first byte one higher. */
static void echo_ready(struct source *s, uint32_t events)
{
	struct echo *x = PART_OF(s, struct echo, s);
	static uint8_t data[65536];
	union address who;
	socklen_t len = sizeof(who);
	ssize_t n = recvfrom(s->fd, data, sizeof(data), MSG_DONTWAIT, &who.any, &len);

	(void)events;
	if (n < 0)
		return;
	x->from[x->heard++ % 256] = ntohs(who.v4.sin_port); /* at the same place in IPv6 */
	snprintf(x->last, sizeof(x->last), "%.*s", (int)n, data);
	data[0]++;
	if (!x->is_mute && sendto(s->fd, data, (size_t)n, 0, &who.any, len) != n)
		_exit(131);
}

static void echo_at(struct echo *x, const char *text, uint16_t port)
{
	union address at = address(text, port);
	int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*x = (struct echo){ .s = { fd, echo_ready } };
	if (bind(fd, &at.any, size_of(&at)) < 0 || loop_add(&e.loop, &x->s, EPOLLIN) < 0)
		_exit(132);
}

/* Connected: its kernel takes answers of that address and port only. */
static int client(const char *text, uint16_t port)
{
	union address to = address(text, port);
	int fd, size = 4 << 20;

	enter(box_ns);
	fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enter(host_ns);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (connect(fd, &to.any, size_of(&to)) < 0)
		_exit(133);
	return fd;
}

static int client_of_name(const char *name, uint16_t port, bool by_v6)
{
	uint32_t number = names_add(e.names, name);
	struct egress_addr a = by_v6 ? names_addr6(number) : names_addr4(number);
	char text[EGRESS_ADDR_TEXT];

	return client(egress_addr_text(&a, text), port);
}

static void tell(int fd, const char *text)
{
	if (send(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		_exit(134);
}

/* Length of the answer that begins with `first`; -errno, -1000: another answer. */
static long answer_of(int fd, char first)
{
	static char data[65536];
	ssize_t n;

	serve_until(fd);
	n = recv(fd, data, sizeof(data), 0);
	if (n < 0)
		return -errno;
	return n && data[0] == first ? n : -1000;
}

static long ask(int fd, const char *text)
{
	tell(fd, text);
	return answer_of(fd, (char)(text[0] + 1));
}

static bool is_denied(const char *what, const char *rule, const char *allow)
{
	for (uint32_t i = 0; i < e.ledger.denial_count; i++) {
		const struct denial_entry *d = &e.ledger.denials[i];

		if (strcmp(d->what, what) == 0 && strstr(d->rule, rule) &&
		    strcmp(d->allow, allow) == 0)
			return true;
	}
	for (uint32_t i = 0; i < e.ledger.denial_count; i++)
		fprintf(stderr, "denied: %s | %s | %s\n", e.ledger.denials[i].what,
			e.ledger.denials[i].rule, e.ledger.denials[i].allow);
	return false;
}

/* --- there and back -------------------------------------------------------------------------- */

static void by_address(void)
{
	struct echo four, six;
	int a, b;

	begin(RULES(QUAD4 ":777/udp", "[" QUAD6 "]:777/udp"));
	echo_at(&four, QUAD4, 777);
	echo_at(&six, QUAD6, 777);
	a = client(QUAD4, 777);
	b = client(QUAD6, 777);
	note("v4", ask(a, "ping"));
	note("v6", ask(b, "pingping"));
	note("v4 again", ask(a, "a"));
	note("connections", (long)e.ledger.totals.connections);
	note("bytes out", (long)e.ledger.totals.bytes_out);
	note("bytes in", (long)e.ledger.totals.bytes_in);
	note("one port each", four.from[0] == four.from[1]);
	note("denials", e.ledger.denial_count);
	finish();
}

static void a_datagram_goes_there_and_its_answer_comes_from_who_was_asked(void **state)
{
	(void)state;
	scene(by_address);
	expect("v4", 4);
	expect("v6", 8);
	expect("v4 again", 1);
	expect("connections", 2);
	expect("bytes out", 13);
	expect("bytes in", 13);
	expect("one port each", 1);
	expect("denials", 0);
	expect_clean_end();
}

static void by_name(void)
{
	struct echo x, six;
	int a, b, c;

	begin(RULES("good.test:777/udp", "six.test:777/udp"));
	echo_at(&x, QUAD4, 777);
	echo_at(&six, QUAD6, 777);
	a = client_of_name("good.test", 777, false);
	b = client_of_name("good.test", 777, true);
	c = client_of_name("six.test", 777, false);
	note("v4", ask(a, "ping"));
	note("v6 in the box, v4 outside", ask(b, "ping"));
	note("v4 in the box, v6 outside", ask(c, "ping"));
	note("hosts", (long)e.ledger.host_count);
	note("by its name", strcmp(e.ledger.hosts[0].name, "good.test") == 0);
	note("of that host", (long)e.ledger.hosts[0].report.connections);
	finish();
}

static void a_name_is_reached_over_either_family(void **state)
{
	(void)state;
	scene(by_name);
	expect("v4", 4);
	expect("v6 in the box, v4 outside", 4);
	expect("v4 in the box, v6 outside", 4);
	expect("hosts", 2);
	expect("by its name", 1);
	expect("of that host", 2);
	expect_clean_end();
}

static struct echo burst_at;

static bool has_heard_8(void)
{
	return burst_at.heard == 8;
}

static void burst(void)
{
	struct echo *x = &burst_at;
	char text[2] = "0";
	int fd;

	begin(RULES("good.test:777/udp"));
	echo_at(x, QUAD4, 777);
	x->is_mute = true;
	fd = client_of_name("good.test", 777, false);
	for (int i = 0; i < 12; i++, text[0]++)
		tell(fd, text);
	serve_until_true(has_heard_8);
	note("the last of them", x->last[0]);
	x->is_mute = false;
	note("and on it goes", ask(fd, "z"));
	note("heard", x->heard);
	finish();
}

/* All twelve are read in one turn, before the name has an address. */
static void eight_datagrams_wait_for_a_name_in_their_order(void **state)
{
	(void)state;
	scene(burst);
	expect("the last of them", '7');
	expect("and on it goes", 1);
	expect("heard", 9);
	expect_clean_end();
}

static void large(void)
{
	static char text[65508];
	struct echo four, six;
	int a, b;

	begin(RULES(QUAD4 ":777/udp", "[" QUAD6 "]:777/udp"));
	echo_at(&four, QUAD4, 777);
	echo_at(&six, QUAD6, 777);
	a = client(QUAD4, 777);
	b = client(QUAD6, 777);
	memset(text, 'x', 65507);
	note("v4", ask(a, text));
	text[65488] = '\0'; /* with both headers the 65536 bytes of lo */
	note("v6", ask(b, text));
	note("empty", send(a, "", 0, 0));
	serve_until(a);
	note("empty answer", recv(a, text, sizeof(text), 0));
	finish();
}

static void the_largest_datagrams_pass_and_empty_ones_too(void **state)
{
	(void)state;
	scene(large);
	expect("v4", 65507);
	expect("v6", 65488);
	expect("empty", 0);
	expect("empty answer", 0);
	expect_clean_end();
}

/* --- refused ------------------------------------------------------------------------------------ */

static void refusals(void)
{
	struct echo x, y;

	begin(RULES(QUAD4 ":777/udp", "good.test"));
	echo_at(&x, QUAD4, 777);
	echo_at(&y, OTHER4, 777);
	note("allowed", ask(client(QUAD4, 777), "ping"));
	note("another address", ask(client(OTHER4, 777), "ping"));
	note("v6", ask(client(QUAD6, 777), "ping"));
	note("another port", ask(client(QUAD4, 778), "ping"));
	note("quic", ask(client_of_name("good.test", 443, false), "ping"));
	note("a name of nobody", ask(client("198.18.0.200", 777), "ping"));
	note("metadata", ask(client("169.254.169.254", 777), "ping"));
	note("not heard", y.heard);
	note("connections", (long)e.ledger.totals.connections);
	note("denied", (long)e.ledger.totals.denied);
	note("names address and flag", is_denied("send 8.8.4.4:777/udp", "net.allow_out",
						 "--allow-out 8.8.4.4:777/udp"));
	note("names the name", is_denied("send good.test:443/udp", "net.allow_out=good.test",
					 "--allow-out good.test:443/udp"));
	note("no flag helps", is_denied("send 198.18.0.200:777/udp", "for no name", ""));
	finish();
}

static void what_is_not_allowed_is_refused_at_once_and_explained(void **state)
{
	(void)state;
	scene(refusals);
	expect("allowed", 4);
	expect("another address", -ECONNREFUSED);
	expect("v6", -ECONNREFUSED);
	expect("another port", -ECONNREFUSED);
	expect("quic", -ECONNREFUSED);
	expect("a name of nobody", -ECONNREFUSED);
	expect("metadata", -ECONNREFUSED);
	expect("not heard", 0);
	expect("connections", 1);
	expect("denied", 6);
	expect("names address and flag", 1);
	expect("names the name", 1);
	expect("no flag helps", 1);
	expect_clean_end();
}

static void rebinding(void)
{
	struct echo x;

	begin(RULES("good.test:777/udp", "private.test:777/udp", "both.test:777/udp"));
	address_of_host(4, "10.0.0.1");
	echo_at(&x, "10.0.0.1", 777);
	note("private", ask(client_of_name("private.test", 777, false), "ping"));
	note("not heard", x.heard);
	note("open", (long)e.ledger.open);
	note("says which", is_denied("send private.test:777/udp (10.0.0.1)", "always denied: ",
				     "--allow-private 10.0.0.1"));
	echo_at(&x, QUAD4, 777);
	note("the public one of two", ask(client_of_name("both.test", 777, false), "ping"));
	finish();
}

static void a_name_that_leads_to_a_private_address_leads_nowhere(void **state)
{
	(void)state;
	scene(rebinding);
	expect("private", -ECONNREFUSED);
	expect("not heard", 0);
	expect("open", 0);
	expect("says which", 1);
	expect("the public one of two", 4);
	expect_clean_end();
}

static void behind_a_proxy(void)
{
	struct echo x;
	int fd;

	begin(RULES(QUAD4 ":777/udp"));
	echo_at(&x, QUAD4, 777);
	fd = client(QUAD4, 777);
	note("without", ask(fd, "ping"));
	block.config.proxy.kind = PROXY_HTTP;
	udp_rules_changed(&relay);
	note("flows", (long)e.ledger.open);
	note("with", ask(fd, "ping"));
	note("heard", x.heard);
	note("says why", is_denied("send " QUAD4 ":777/udp", "net.proxy", ""));
	finish();
}

static void behind_a_proxy_there_are_no_datagrams(void **state)
{
	(void)state;
	scene(behind_a_proxy);
	expect("without", 4);
	expect("flows", 0);
	expect("with", -ECONNREFUSED);
	expect("heard", 1);
	expect("says why", 1);
	expect_clean_end();
}

/* A port where nobody listens, and later somebody does. */
static void nobody_there(void)
{
	struct echo x;
	int fd, v6;

	begin(RULES(QUAD4 ":777/udp", "[" QUAD6 "]:777/udp", "nowhere.test:777/udp", "1.0.0.1"));
	fd = client(QUAD4, 777);
	v6 = client(QUAD6, 777);
	note("nobody", ask(fd, "ping"));
	note("nobody v6", ask(v6, "ping"));
	note("denials", e.ledger.denial_count);
	echo_at(&x, QUAD4, 777);
	note("somebody", ask(fd, "ping"));
	note("one flow", (long)e.ledger.totals.connections);
	note("no route", ask(client("1.0.0.1", 777), "ping"));
	note("failed", (long)e.ledger.totals.failed);
	finish();
}

static void a_refusal_of_the_other_side_is_passed_on(void **state)
{
	(void)state;
	scene(nobody_there);
	expect("nobody", -ECONNREFUSED);
	expect("nobody v6", -ECONNREFUSED);
	expect("denials", 0);
	expect("somebody", 4);
	expect("one flow", 2);
	expect("no route", -ECONNREFUSED);
	expect("failed", 1);
	expect_clean_end();
}

/* --- name servers ---------------------------------------------------------------------------------- */

static size_t dns_query(uint8_t *q, const char *name)
{
	size_t n = 12;

	memcpy(q, "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12);
	for (const char *dot; *name; name = dot + (*dot == '.')) {
		dot = strchrnul(name, '.');
		q[n++] = (uint8_t)(dot - name);
		memcpy(q + n, name, (size_t)(dot - name));
		n += (size_t)(dot - name);
	}
	memcpy(q + n, "\0\0\1\0\1", 5);
	return n + 5;
}

/* The response code, or -errno; the address goes to `to`. */
static long look_up(int fd, const char *name, uint8_t to[4])
{
	uint8_t data[512];
	size_t len = dns_query(data, name);
	ssize_t n;

	if (send(fd, data, len, 0) != (ssize_t)len)
		_exit(135);
	serve_until(fd);
	n = recv(fd, data, sizeof(data), 0);
	if (n < 12)
		return n < 0 ? -errno : -1000;
	memcpy(to, data + n - 4, 4);
	return data[0] == 0x12 && data[1] == 0x34 && data[2] & 0x80 ? data[3] & 15 : -1001;
}

static void name_servers(void)
{
	struct egress_addr fake;
	uint8_t got[4] = { 0 };
	struct echo own, other;
	int fd;

	begin(RULES("good.test", OTHER4 ":53/udp"));
	echo_at(&own, QUAD4, 53);
	echo_at(&other, OTHER4, 53);
	fd = client(QUAD4, 53);
	note("allowed name", look_up(fd, "good.test", got));
	fake = names_addr4(names_add(e.names, "good.test"));
	note("its fake address", memcmp(got, fake.bytes, 4) == 0);
	note("denied name", look_up(fd, "bad.test", got));
	note("v6", look_up(client(QUAD6, 53), "good.test", got));
	note("never asked", own.heard);
	note("no flow of it", (long)e.ledger.totals.connections);
	note("a server of a rule", ask(client(OTHER4, 53), "ping"));
	note("it was asked", other.heard);
	new_rules(RULES("good.test"));
	note("and now no flow", (long)e.ledger.open);
	finish();
}

static void all_name_servers_of_the_world_are_the_stub_but_those_of_a_rule(void **state)
{
	(void)state;
	scene(name_servers);
	expect("allowed name", 0);
	expect("its fake address", 1);
	expect("denied name", 5);
	expect("v6", 0);
	expect("never asked", 0);
	expect("no flow of it", 0);
	expect("a server of a rule", 4);
	expect("it was asked", 1);
	expect("and now no flow", 0);
	expect_clean_end();
}

/* --- bounds ------------------------------------------------------------------------------------------- */

static void evictions(void)
{
	struct echo x;
	int fds[3];

	begin(RULES(QUAD4 ":777/udp"));
	block.config.max_connections = 2;
	echo_at(&x, QUAD4, 777);
	for (int i = 0; i < 3; i++)
		fds[i] = client(QUAD4, 777);
	note("first", ask(fds[0], "ping"));
	note("second", ask(fds[1], "ping"));
	note("first again", ask(fds[0], "ping"));
	note("third", ask(fds[2], "ping"));
	note("open", (long)e.ledger.open);
	note("first goes on", ask(fds[0], "ping"));
	note("by its own flow", x.from[4] == x.from[0]);
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
	expect("first again", 4);
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
	serve_until_true(is_idle);
	serve_until(fd);
	note("flows", (long)e.ledger.totals.connections);
	note("oldest", relay.oldest != NULL);
	note("timer", relay.idle.self != NULL);
	finish();
}

static void a_silent_flow_ends(void **state)
{
	(void)state;
	scene(silence);
	expect("flows", 1);
	expect("oldest", 0);
	expect("timer", 0);
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
			e.loop.now_us = loop_now();
			relay.in4.ready(&relay.in4, EPOLLIN);
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
		e.loop.now_us = loop_now();
		relay.in4.ready(&relay.in4, EPOLLIN);
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

/* --- what this kernel makes of the packets ------------------------------------------------------------- */

static size_t make_refusal(uint8_t *p, const struct syn *s, int how)
{
	if (how < 0)
		return packet_rst(p, 1024, s);
	return packet_unreach(p, 1024, &s->flow, IPPROTO_TCP, s->tcp, s->tcp_len,
			      (enum unreach)how);
}

static void inject(const uint8_t *p, size_t len, const struct egress_addr *to)
{
	union address a = { 0 };

	a.any.sa_family = to->family == 4 ? AF_INET : AF_INET6;
	memcpy(to->family == 4 ? (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr, to->bytes,
	       to->family == 4 ? 4 : 16);
	if (sendto(inlet[to->family == 4 ? INLET_RAW4 : INLET_RAW6], p, len, 0, &a.any,
		   size_of(&a)) != (ssize_t)len)
		_exit(138);
}

/* errno of a blocking connect(2), whose SYNs are all answered like this: the first answer
 * may find the socket held by that very call, see packet.c. */
static int refused_connect(const char *text, int how)
{
	union address to = address(text, 443);
	uint8_t p[2048];
	struct syn s;
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		_exit(connect(fd, &to.any, size_of(&to)) < 0 ? errno : 0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		struct pollfd gate = { .fd = inlet[INLET_GATE], .events = POLLIN };
		ssize_t n;

		if (poll(&gate, 1, 10) != 1)
			continue;
		n = recv(inlet[INLET_GATE], p, sizeof(p), MSG_DONTWAIT);
		if (n <= 0 || !packet_read_syn(&s, p, (size_t)n))
			_exit(139);
		inject(p, make_refusal(p, &s, how), &s.flow.src);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void kernel_tcp(void)
{
	gated_box();
	note("rst", refused_connect(QUAD4, -1));
	note("rst v6", refused_connect(QUAD6, -1));
	note("host", refused_connect(QUAD4, UNREACH_HOST));
	note("host v6", refused_connect(QUAD6, UNREACH_HOST));
	note("port", refused_connect(QUAD4, UNREACH_PORT));
	note("port v6", refused_connect(QUAD6, UNREACH_PORT));
	note("prohibited", refused_connect(QUAD4, UNREACH_PROHIBITED));
	note("prohibited v6", refused_connect(QUAD6, UNREACH_PROHIBITED));
}

static void connect_fails_with_the_errno_of_its_refusal(void **state)
{
	(void)state;
	scene(kernel_tcp);
	expect("rst", ECONNREFUSED);
	expect("rst v6", ECONNREFUSED);
	expect("host", EHOSTUNREACH);
	expect("host v6", EHOSTUNREACH);
	expect("port", ECONNREFUSED);
	expect("port v6", ECONNREFUSED);
	expect("prohibited", EHOSTUNREACH);
	expect("prohibited v6", EACCES);
}

/* The same SYN once more, with the kernel's own options, is a connection. */
static int let_in(const char *text, int listener)
{
	int fd = begin_connect(text, 443), got;
	uint8_t p[2048];
	struct syn s;
	ssize_t n;

	if (!readable(inlet[INLET_GATE]))
		return -1;
	n = recv(inlet[INLET_GATE], p, sizeof(p), MSG_DONTWAIT);
	if (n <= 0 || !packet_read_syn(&s, p, (size_t)n))
		return -2;
	inject(p, packet_syn(p, sizeof(p), &s), &s.flow.dst);
	if (!readable(listener))
		return -3;
	got = accept(listener, NULL, NULL);
	return got < 0 ? -4 : connect_result(fd);
}

static void kernel_syn(void)
{
	gated_box();
	note("v4", let_in(QUAD4, inlet[INLET_TCP4]));
	note("v6", let_in(QUAD6, inlet[INLET_TCP6]));
}

static void a_syn_made_again_becomes_a_connection(void **state)
{
	(void)state;
	scene(kernel_syn);
	expect("v4", 0);
	expect("v6", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_fails_with_the_errno_of_its_refusal),
		cmocka_unit_test(a_syn_made_again_becomes_a_connection),
		cmocka_unit_test(a_datagram_goes_there_and_its_answer_comes_from_who_was_asked),
		cmocka_unit_test(a_name_is_reached_over_either_family),
		cmocka_unit_test(eight_datagrams_wait_for_a_name_in_their_order),
		cmocka_unit_test(the_largest_datagrams_pass_and_empty_ones_too),
		cmocka_unit_test(what_is_not_allowed_is_refused_at_once_and_explained),
		cmocka_unit_test(a_name_that_leads_to_a_private_address_leads_nowhere),
		cmocka_unit_test(behind_a_proxy_there_are_no_datagrams),
		cmocka_unit_test(a_refusal_of_the_other_side_is_passed_on),
		cmocka_unit_test(all_name_servers_of_the_world_are_the_stub_but_those_of_a_rule),
		cmocka_unit_test(the_flow_that_was_silent_the_longest_gives_way),
		cmocka_unit_test(at_the_cap_of_connections_a_flow_is_refused),
		cmocka_unit_test(a_silent_flow_ends),
		cmocka_unit_test(new_rules_end_the_flows_that_they_deny_and_no_other),
		cmocka_unit_test(byte_caps_end_a_flow_and_refuse_the_next),
		cmocka_unit_test(what_waits_for_slow_names_is_bounded),
		cmocka_unit_test(a_flood_fills_no_table_beyond_its_cap),
	};

	return run_inlet_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
