/*
 * test_egress_udp.c - datagrams of a box through the relay: where they go, what is refused,
 * and what this kernel makes of the packets that say so
 */
#include "tests/unit/udp_box.h"

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
	note("no flag helps", is_denied("send 198.18.0.200:777/udp", "net.allow_out", ""));
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

/* Not even with a rule for its range: a fake address never leaves the box. */
static void fakes(void)
{
	begin(RULES("1.1.1.1"));
	use_rules(rules_in(NET_OPEN, (const char *const[]){ NULL }, "198.18.0.0/15"));
	note("by address", ask(client("198.18.0.200", 777), "ping"));
	note("connections", (long)e.ledger.totals.connections);
	note("says why", is_denied("send 198.18.0.200:777/udp", "always denied: ", ""));
	note("by name", ask(client_of_name("fake.test", 777, false), "ping"));
	note("says which", is_denied("send fake.test:777/udp (198.18.0.9)", "always denied: ", ""));
	note("failed", (long)e.ledger.totals.failed);
	finish();
}

static void a_fake_address_is_no_destination_whatever_the_rules(void **state)
{
	(void)state;
	scene(fakes);
	expect("by address", -ECONNREFUSED);
	expect("connections", 0);
	expect("says why", 1);
	expect("by name", -ECONNREFUSED);
	expect("says which", 1);
	expect("failed", 0);
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

static struct echo late;

static bool has_heard(void)
{
	return late.heard == 1;
}

/* The kernel tells of the first datagram's fate in the place of sending the second. */
static void late_server(void)
{
	int fd;

	begin(RULES(QUAD4 ":777/udp"));
	fd = client(QUAD4, 777);
	tell(fd, "lost");
	read_now(loop_now());
	echo_at(&late, QUAD4, 777);
	tell(fd, "ping");
	read_now(loop_now());
	serve_until_true(has_heard);
	note("the second one", strcmp(late.last, "ping") == 0);
	note("the fate of the first", answer_of(fd, 'q'));
	note("the answer", answer_of(fd, 'q'));
	finish();
}

static void a_datagram_is_not_lost_to_the_error_of_the_one_before(void **state)
{
	(void)state;
	scene(late_server);
	expect("the second one", 1);
	expect("the fate of the first", -ECONNREFUSED);
	expect("the answer", 4);
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
	use_rules(rules_in(NET_OPEN, (const char *const[]){ NULL }, NULL));
	note("and now no flow", (long)e.ledger.open);
	note("by default", look_up(client(OTHER4, 53), "good.test", got));
	note("it was not asked", other.heard);
	finish();
}

static void all_name_servers_of_the_world_are_the_stub_but_those_of_a_rule(void **state)
{
	(void)state;
	scene(name_servers);
	expect("allowed name", 0);
	expect("its fake address", 1);
	expect("denied name", DNS_NXDOMAIN);
	expect("v6", 0);
	expect("never asked", 0);
	expect("no flow of it", 0);
	expect("a server of a rule", 4);
	expect("it was asked", 1);
	expect("and now no flow", 0);
	expect("by default", 0);
	expect("it was not asked", 1);
	expect_clean_end();
}

/* --- what this kernel makes of the packets ------------------------------------------------------------- */

static size_t make_refusal(uint8_t *p, const struct syn *s, int how)
{
	if (how < 0)
		return packet_rst(p, 1024, s);
	return packet_unreach_tcp(p, 1024, s, (enum unreach)how);
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
		cmocka_unit_test(a_datagram_goes_there_and_its_answer_comes_from_who_was_asked),
		cmocka_unit_test(a_name_is_reached_over_either_family),
		cmocka_unit_test(eight_datagrams_wait_for_a_name_in_their_order),
		cmocka_unit_test(the_largest_datagrams_pass_and_empty_ones_too),
		cmocka_unit_test(what_is_not_allowed_is_refused_at_once_and_explained),
		cmocka_unit_test(a_fake_address_is_no_destination_whatever_the_rules),
		cmocka_unit_test(a_name_that_leads_to_a_private_address_leads_nowhere),
		cmocka_unit_test(behind_a_proxy_there_are_no_datagrams),
		cmocka_unit_test(a_refusal_of_the_other_side_is_passed_on),
		cmocka_unit_test(a_datagram_is_not_lost_to_the_error_of_the_one_before),
		cmocka_unit_test(all_name_servers_of_the_world_are_the_stub_but_those_of_a_rule),
		cmocka_unit_test(connect_fails_with_the_errno_of_its_refusal),
		cmocka_unit_test(a_syn_made_again_becomes_a_connection),
	};

	return run_inlet_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
