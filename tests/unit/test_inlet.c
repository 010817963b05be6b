/*
 * The inlet on this kernel: the operations of the plan, run in a network namespace of the
 * test's own, and what a program in it can then reach. The test plays the supervisor.
 *
 * What must not arrive is asked for after something that was sent later by the same way has arrived.
 */
#include "tests/unit/inlet_box.h"

#include <linux/netlink.h>
#include <netinet/ip_icmp.h>

#include "netlink.inc"

/* --------------------------------------------------------------------- packets -- */

static uint32_t sum(uint32_t s, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i + 1 < n; i += 2)
		s += (uint32_t)(p[i] << 8 | p[i + 1]);
	return n % 2 ? s + (uint32_t)(p[n - 1] << 8) : s;
}

static void put16(unsigned char *at, uint32_t v)
{
	at[0] = (unsigned char)(v >> 8);
	at[1] = (unsigned char)v;
}

/* TCP or UDP, its checksum at @at of the segment. */
static void fix_checksum(unsigned char *p, size_t len, size_t at)
{
	bool is_v4 = p[0] >> 4 == 4;
	size_t head = is_v4 ? (size_t)(p[0] & 15) * 4 : 40;
	uint32_t s;

	put16(p + head + at, 0);
	s = is_v4 ? sum(p[9], p + 12, 8) : sum(p[6], p + 8, 32);
	s = sum(s + (uint32_t)(len - head), p + head, len - head);
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	put16(p + head + at, ~s & 0xffff);
}

static long inject(const unsigned char *p, size_t len)
{
	union address to = { 0 };
	bool is_v4 = p[0] >> 4 == 4;

	if (is_v4) {
		to.v4.sin_family = AF_INET;
		memcpy(&to.v4.sin_addr, p + 16, 4);
	} else {
		to.v6.sin6_family = AF_INET6;
		memcpy(&to.v6.sin6_addr, p + 24, 16);
	}
	return sendto(inlet[is_v4 ? INLET_RAW4 : INLET_RAW6], p, len, 0, &to.any, size_of(&to));
}

/* ---------------------------------------------------------------------- scenes -- */

static void connect_by_gate(const char *ip, int listener)
{
	union address want = address(ip, 443), got = { 0 };
	bool is_v4 = want.any.sa_family == AF_INET;
	int squatter = server(is_v4 ? "0.0.0.0" : "::", 443), client, conn;
	unsigned char p[512];
	socklen_t len = sizeof(got);
	ssize_t n;

	client = begin_connect(ip, 443);
	note("the gate hears", readable(inlet[INLET_GATE]));
	n = recv(inlet[INLET_GATE], p, sizeof(p), 0);
	note("its destination", memcmp(p + (is_v4 ? 16 : 24), is_v4 ? (void *)&want.v4.sin_addr
				: (void *)&want.v6.sin6_addr, is_v4 ? 4 : 16) == 0);
	note("once", recv(inlet[INLET_GATE], p + 256, 256, 0) < 0 ? errno : 0);
	note("unmarked at the listener", accept(listener, NULL, NULL) < 0 ? errno : 0);
	note("unmarked at the box's server", accept(squatter, NULL, NULL) < 0 ? errno : 0);
	fix_checksum(p, (size_t)n, 16);
	note("injected", inject(p, (size_t)n) == n);
	note("connected", connect_result(client));
	note("listener hears", readable(listener));
	conn = accept(listener, &got.any, &len);
	note("accepted", conn >= 0);
	len = sizeof(got);
	getsockname(conn, &got.any, &len);
	note("destination is its own address", same_address(&got, &want));
	note("marked at the box's server", accept(squatter, NULL, NULL) < 0 ? errno : 0);
	note("marked at the gate", recv(inlet[INLET_GATE], p, sizeof(p), 0) < 0 ? errno : 0);
	note("data", send(client, "ping", 4, 0) == 4 && readable(conn) && recv(conn, p, 9, 0) == 4);
	len = sizeof(got);
	getsockname(client, &got.any, &len);
	want = address(is_v4 ? INLET_ADDR4 : INLET_ADDR6, 0);
	if (is_v4)
		want.v4.sin_port = got.v4.sin_port;
	else
		want.v6.sin6_port = got.v6.sin6_port;
	note("the client has the box's address", same_address(&got, &want));
}

static void gate4(void)
{
	gated_box();
	connect_by_gate("1.2.3.4", inlet[INLET_TCP4]);
}

static void gate6(void)
{
	gated_box();
	connect_by_gate("2606:4700::1", inlet[INLET_TCP6]);
}

static void expect_gate(void)
{
	expect("sockets", (1 << INLET_FD_COUNT) - 1);
	expect("the gate hears", true);
	expect("its destination", true);
	expect("once", EAGAIN);
	expect("unmarked at the listener", EAGAIN);
	expect("unmarked at the box's server", EAGAIN);
	expect("injected", true);
	expect("connected", 0);
	expect("listener hears", true);
	expect("accepted", true);
	expect("destination is its own address", true);
	expect("marked at the box's server", EAGAIN);
	expect("marked at the gate", EAGAIN);
	expect("data", true);
	expect("the client has the box's address", true);
}

static void a_connection_waits_at_the_gate_and_is_let_in_with_the_mark(void **state)
{
	(void)state;
	scene(gate4);
	expect_gate();
}

static void a_connection_by_ipv6_as_well(void **state)
{
	(void)state;
	scene(gate6);
	expect_gate();
}

static bool original_destination(struct msghdr *msg, const union address *want)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		union address got = { 0 };

		if (c->cmsg_type != (c->cmsg_level == IPPROTO_IP ? 20 : 74))
			continue;
		memcpy(&got, CMSG_DATA(c), size_of(want));
		return same_address(&got, want);
	}
	return false;
}

/* From @want back to @to, as the supervisor does it. */
static void answer(const union address *want, const union address *to)
{
	unsigned char p[64] = { 0 };
	bool is_v4 = want->any.sa_family == AF_INET;
	size_t head = is_v4 ? 20 : 40, len = head + 8 + 4;

	if (is_v4) {
		p[0] = 0x45;
		p[8] = 64;
		p[9] = IPPROTO_UDP;
		memcpy(p + 12, &want->v4.sin_addr, 4);
		memcpy(p + 16, &to->v4.sin_addr, 4);
	} else {
		p[0] = 0x60;
		put16(p + 4, 12);
		p[6] = IPPROTO_UDP;
		p[7] = 64;
		memcpy(p + 8, &want->v6.sin6_addr, 16);
		memcpy(p + 24, &to->v6.sin6_addr, 16);
	}
	memcpy(p + head, is_v4 ? &want->v4.sin_port : &want->v6.sin6_port, 2);
	memcpy(p + head + 2, is_v4 ? &to->v4.sin_port : &to->v6.sin6_port, 2);
	put16(p + head + 4, 12);
	memcpy(p + head + 8, "pong", 4);
	fix_checksum(p, len, 6);
	note("answered", inject(p, len) == (long)len);
}

static void datagram(const char *ip, int inlet_socket)
{
	union address want = address(ip, 777), from = { 0 };
	int client = socket(want.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	union {
		struct cmsghdr head;
		char room[256];
	} control;
	char text[16];
	struct iovec iov = { text, sizeof(text) };
	struct msghdr msg = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov,
			      .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	connect(client, &want.any, size_of(&want));
	note("sent", send(client, "ping", 4, 0));
	note("the inlet hears", readable(inlet_socket));
	note("received", recvmsg(inlet_socket, &msg, 0));
	note("with its destination", original_destination(&msg, &want));
	answer(&want, &from);
	note("the client hears", readable(client));
	note("the answer", recv(client, text, sizeof(text), MSG_DONTWAIT));
}

static void udp4(void)
{
	gated_box();
	datagram("9.9.9.9", inlet[INLET_UDP4]);
}

static void udp6(void)
{
	gated_box();
	datagram("2620:fe::fe", inlet[INLET_UDP6]);
}

static void datagrams_arrive_with_their_destination_and_are_answered(void **state)
{
	void (*const scenes[])(void) = { udp4, udp6 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		scene(scenes[i]);
		expect("sent", 4);
		expect("the inlet hears", true);
		expect("received", 4);
		expect("with its destination", true);
		expect("answered", true);
		expect("the client hears", true);
		expect("the answer", 4);
	}
}

static const char *const own_addresses[] = { "127.0.0.1", "127.9.9.9", "::1", INLET_ADDR4,
					     INLET_ADDR6 };
enum { OWN_COUNT = sizeof(own_addresses) / sizeof(own_addresses[0]) };

static long udp_error(const char *ip)
{
	union address to = address(ip, 999);
	int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	connect(fd, &to.any, size_of(&to));
	send(fd, "x", 1, 0);
	readable(fd);
	return recv(fd, (char[1]){ 0 }, 1, MSG_DONTWAIT) < 0 ? errno : 0;
}

static void loopback(void)
{
	char what[64];

	gated_box();
	server("0.0.0.0", 8080);
	for (int i = 0; i < OWN_COUNT; i++) {
		const char *ip = own_addresses[i];

		if (strchr(ip, ':'))
			server(ip, 8081);
		snprintf(what, sizeof(what), "connect %s", ip);
		note(what, connect_result(begin_connect(ip, strchr(ip, ':') ? 8081 : 8080)));
		snprintf(what, sizeof(what), "closed %s", ip);
		note(what, connect_result(begin_connect(ip, 999)));
		snprintf(what, sizeof(what), "udp %s", ip);
		note(what, udp_error(ip));
	}
	note("gate", recv(inlet[INLET_GATE], what, sizeof(what), 0) < 0 ? errno : 0);
	note("udp inlet", recv(inlet[INLET_UDP4], what, sizeof(what), 0) < 0 ? errno : 0);
}

static void the_box_talks_to_itself_without_the_inlet(void **state)
{
	char what[64];

	(void)state;
	scene(loopback);
	for (int i = 0; i < OWN_COUNT; i++) {
		snprintf(what, sizeof(what), "connect %s", own_addresses[i]);
		expect(what, 0);
		snprintf(what, sizeof(what), "closed %s", own_addresses[i]);
		expect(what, ECONNREFUSED);
		snprintf(what, sizeof(what), "udp %s", own_addresses[i]);
		expect(what, ECONNREFUSED);
	}
	expect("gate", EAGAIN);
	expect("udp inlet", EAGAIN);
}

static void send_datagram(const char *ip, uint16_t port, const char *text)
{
	union address to = address(ip, port);
	int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sendto(fd, text, strlen(text), 0, &to.any, size_of(&to)) < 0)
		note("send failed", errno);
	close(fd);
}

static void hidden_port(void)
{
	char text[16] = "";

	gated_box();
	for (int i = 0; i < OWN_COUNT; i++) {
		begin_connect(own_addresses[i], INLET_PORT);
		send_datagram(own_addresses[i], INLET_PORT, "no");
	}
	send_datagram("9.9.9.9", 53, "yes4");
	send_datagram("2620:fe::fe", 53, "yes6");
	note("heard", readable(inlet[INLET_UDP4]) && readable(inlet[INLET_UDP6]));
	note("first by ipv4", recv(inlet[INLET_UDP4], text, 16, 0) == 4 && !memcmp(text, "yes4", 4));
	note("first by ipv6", recv(inlet[INLET_UDP6], text, 16, 0) == 4 && !memcmp(text, "yes6", 4));
	note("listener", accept(inlet[INLET_TCP4], NULL, NULL) < 0 ? errno : 0);
	note("listener6", accept(inlet[INLET_TCP6], NULL, NULL) < 0 ? errno : 0);
}

static void nobody_reaches_the_inlets_sockets_by_their_port(void **state)
{
	(void)state;
	scene(hidden_port);
	expect("heard", true);
	expect("first by ipv4", true);
	expect("first by ipv6", true);
	expect("listener", EAGAIN);
	expect("listener6", EAGAIN);
}

/* An echo request; answers come to the same raw socket, and so do requests. */
static void ping(int fd, const char *ip)
{
	struct icmphdr h = { .type = ICMP_ECHO };
	union address to = address(ip, 0);

	h.checksum = (uint16_t)~ICMP_ECHO; /* the only word that is not 0, in the host's order */
	sendto(fd, &h, sizeof(h), 0, &to.any, size_of(&to));
}

static void echo(void)
{
	unsigned char p[128];
	int fd, replies = 0, foreign = 0;

	gated_box();
	fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	ping(fd, "1.2.3.4");
	ping(fd, "127.0.0.1");
	while (!replies && readable(fd) && recv(fd, p, sizeof(p), 0) >= 28) {
		foreign += p[12] == 1 || p[16] == 1;
		replies += p[20] == ICMP_ECHOREPLY && p[12] == 127;
	}
	note("the box answers", replies);
	note("foreign", foreign);
}

static void a_ping_to_a_foreign_address_gets_no_answer(void **state)
{
	(void)state;
	scene(echo);
	expect("the box answers", 1);
	expect("foreign", 0);
}

/* ----------------------------------------------------------------- other shapes -- */

enum { FIRST_PORT = 8000, PORT_COUNT = 20 };

static struct plan *ports_plan(void)
{
	uint16_t ports[PORT_COUNT];
	struct plan_builder b = { 0 };

	for (int i = 0; i < PORT_COUNT; i++)
		ports[i] = (uint16_t)(FIRST_PORT + i);
	PLAN_OP(&b, .kind = OP_LOOPBACK, .stage = STAGE_network);
	PLAN_OP(&b, .kind = OP_NETLINK, .stage = STAGE_network, .n = NETLINK_ROUTE,
		.blob = net_route4, .blob_len = sizeof(net_route4));
	PLAN_OP(&b, .kind = OP_NETLINK, .stage = STAGE_network, .n = NETLINK_ROUTE,
		.blob = net_route6, .blob_len = sizeof(net_route6));
	PLAN_OP(&b, .kind = OP_INLET, .stage = STAGE_network, .m = WIRE_TAG_INLET,
		.n = 1 << INLET_DNS_UDP | 1 << INLET_DNS_TCP);
	PLAN_OP(&b, .kind = OP_PORTS, .stage = STAGE_network, .m = WIRE_TAG_PORTS,
		.blob = ports, .blob_len = sizeof(ports));
	return plan_freeze(&b, NULL);
}

/* Who accepted on it sees where the client wanted to go. */
static void accepted_for(const char *what, const char *ip, int listener)
{
	union address got = { 0 };
	socklen_t len = sizeof(got);
	char text[INET6_ADDRSTRLEN] = "";
	int client = begin_connect(ip, FIRST_PORT + 3);
	int conn = readable(listener) ? accept(listener, NULL, NULL) : -1;

	getsockname(conn, &got.any, &len);
	inet_ntop(AF_INET6, &got.v6.sin6_addr, text, sizeof(text));
	note(what, connect_result(client) == 0 && strstr(text, ip) != NULL &&
			   got.v6.sin6_port == htons(FIRST_PORT + 3));
}

static void by_port(void)
{
	int sock, listener, fds[WIRE_FDS_MAX];
	unsigned bits = 0;

	own_namespaces();
	sock = run_plan(ports_plan());
	note("dns", take_packet(sock, WIRE_TAG_INLET, fds, &bits));
	note("dns bits", (long)bits);
	note("first", take_packet(sock, WIRE_TAG_PORTS, fds, &bits));
	listener = fds[3];
	note("second", take_packet(sock, WIRE_TAG_PORTS, fds, &bits));
	note("second bits", (long)bits);
	note("end", recv(sock, fds, sizeof(fds), MSG_DONTWAIT));
	accepted_for("by ipv4", "1.2.3.4", listener);
	accepted_for("by ipv6", "2606:4700::1", listener);
	note("another port", connect_result(begin_connect("1.2.3.4", 443)));
	note("udp", udp_error("1.2.3.4"));
}

static void pool(void)
{
	const struct assemble_how how = { .pool = 20 };
	union address to = address("127.0.0.1", 8080);
	int sock, fds[WIRE_FDS_MAX];
	unsigned bits = 0;

	own_namespaces();
	sock = run_plan(network_plan(&how));
	note("inlet", take_packet(sock, WIRE_TAG_INLET, fds, &bits));
	note("first", take_packet(sock, WIRE_TAG_POOL, fds, &bits));
	note("first bits", (long)bits);
	server("0.0.0.0", 8080);
	if (connect(fds[0], &to.any, size_of(&to)) < 0 && errno != EINPROGRESS)
		_exit(113);
	note("connects", connect_result(fds[0]));
	note("second", take_packet(sock, WIRE_TAG_POOL, fds, &bits));
	note("second bits", (long)bits);
	note("end", recv(sock, fds, sizeof(fds), MSG_DONTWAIT));
}

static void the_pool_comes_in_packets_and_connects_to_servers_of_the_box(void **state)
{
	(void)state;
	scene(pool);
	expect("inlet", INLET_FD_COUNT);
	expect("first", 16);
	expect("first bits", 0xffff);
	expect("connects", 0);
	expect("second", 4);
	expect("second bits", 0xf);
	expect("end", 0);
}

static void without_nf_tables_only_the_resolver_and_the_ports_are_there(void **state)
{
	(void)state;
	scene(by_port);
	expect("dns", 2);
	expect("dns bits", 1 << INLET_DNS_UDP | 1 << INLET_DNS_TCP);
	expect("first", 16);
	expect("second", PORT_COUNT - 16);
	expect("second bits", 0xf);
	expect("end", 0);
	expect("by ipv4", true);
	expect("by ipv6", true);
	expect("another port", ECONNREFUSED);
	expect("udp", ECONNREFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_waits_at_the_gate_and_is_let_in_with_the_mark),
		cmocka_unit_test(a_connection_by_ipv6_as_well),
		cmocka_unit_test(datagrams_arrive_with_their_destination_and_are_answered),
		cmocka_unit_test(the_box_talks_to_itself_without_the_inlet),
		cmocka_unit_test(nobody_reaches_the_inlets_sockets_by_their_port),
		cmocka_unit_test(a_ping_to_a_foreign_address_gets_no_answer),
		cmocka_unit_test(the_pool_comes_in_packets_and_connects_to_servers_of_the_box),
		cmocka_unit_test(without_nf_tables_only_the_resolver_and_the_ports_are_there),
	};

	return run_inlet_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
