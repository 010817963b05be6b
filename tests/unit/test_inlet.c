/*
 * The inlet on this kernel: the operations of the plan, run in a network namespace of the
 * test's own, and what a program in it can then reach. The test plays the supervisor.
 *
 * Each scene runs in a child and leaves what it saw in shared memory. What must not arrive
 * is asked for after something that was sent later by the same way has arrived.
 */
#include "policy/policy.h"
#include "runtime/assemble.h"
#include "runtime/child_ops.h"
#include "runtime/egress_wire.h"
#include "runtime/stage.h"
#include "runtime/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 20000, SEEN_MAX = 64 };

static struct seen {
	int n;			/* -1: the scene did not come to its end */
	struct { char what[80]; long value; } v[SEEN_MAX];
	char text[16384];
} *seen;

static void note(const char *what, long value)
{
	snprintf(seen->v[seen->n].what, sizeof(seen->v[0].what), "%s", what);
	seen->v[seen->n++].value = value;
}

static void expect(const char *what, long value)
{
	for (int i = 0; i < seen->n; i++)
		if (strcmp(seen->v[i].what, what) == 0) {
			if (seen->v[i].value != value)
				print_error("%s: %ld, expected %ld\n", what, seen->v[i].value, value);
			assert_int_equal(seen->v[i].value, value);
			return;
		}
	fail_msg("the scene never came to: %s", what);
}

/* ----------------------------------------------------------------------- a box -- */

static int inlet[INLET_FD_COUNT];

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(101);
	close(fd);
}

static void own_namespaces(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		_exit(102);
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

/* One packet of descriptors: how many, and which bits it speaks of. */
static int take_packet(int sock, int tag, int fds[WIRE_FDS_MAX], unsigned *bits)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} control;
	struct wire_msg m = { 0 };
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	int n;

	if (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(m) || m.value != tag ||
	    m.type != WIRE_FD || m.stage != STAGE_network || !CMSG_FIRSTHDR(&msg))
		return -1;
	n = (int)((CMSG_FIRSTHDR(&msg)->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), (size_t)n * sizeof(int));
	*bits = (unsigned)m.op;
	return n;
}

static struct plan *network_plan(const struct assemble_how *how)
{
	struct plan_builder b = { 0 };
	struct policy p = { 0 };

	if (policy_init(&p, NULL) < 0)
		_exit(103);
	p.net.mode = NET_FILTERED;
	if (assemble_network(&b, &p, how, NULL) < 0)
		_exit(104);
	policy_free(&p);
	return plan_freeze(&b, NULL);
}

static long run_op(struct child_args *a, const struct op *op)
{
	switch (op->kind) {
	case OP_LOOPBACK: return do_loopback(a, op);
	case OP_NETLINK: return do_netlink(a, op);
	case OP_INLET: return do_inlet(a, op);
	case OP_PORTS: return do_ports(a, op);
	case OP_POOL: return do_pool(a, op);
	}
	return -ENOSYS;
}

static int run_plan(const struct assemble_how *how)
{
	struct child_args a = { .plan = network_plan(how), .stage = STAGE_network };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		_exit(105);
	a.sock = pair[1];
	for (uint32_t i = 0; i < a.plan->op_count; i++) {
		long r = run_op(&a, &plan_ops(a.plan)[i]);

		if (r < 0) {
			print_error("operation %u (%s): %s\n", i, op_name(plan_ops(a.plan)[i].kind),
				    strerror((int)-r));
			_exit(106);
		}
	}
	close(pair[1]);
	return pair[0];
}

static void gated_box(void)
{
	const struct assemble_how how = { .inlet = INLET_GATED };
	int fds[WIRE_FDS_MAX], n = 0, sock;
	unsigned bits = 0;

	own_namespaces();
	sock = run_plan(&how);
	if (take_packet(sock, WIRE_TAG_INLET, fds, &bits) != __builtin_popcount(bits))
		_exit(107);
	for (int i = 0; i < INLET_FD_COUNT; i++)
		inlet[i] = bits & 1U << i ? fds[n++] : -1;
	note("sockets", (long)bits);
}

static void scene(void (*play)(void))
{
	pid_t pid;
	int status;

	memset(seen, 0, sizeof(*seen));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the next test, here */
		play();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ------------------------------------------------------------------- addresses -- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static union address address(const char *text, uint16_t port)
{
	union address a = { 0 };

	if (strchr(text, ':')) {
		a.v6.sin6_family = AF_INET6;
		a.v6.sin6_port = htons(port);
		inet_pton(AF_INET6, text, &a.v6.sin6_addr);
	} else {
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons(port);
		inet_pton(AF_INET, text, &a.v4.sin_addr);
	}
	return a;
}

static socklen_t size_of(const union address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static bool same_address(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET
		       ? a->v4.sin_port == b->v4.sin_port &&
				 a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
		       : a->v6.sin6_port == b->v6.sin6_port &&
				 memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, 16) == 0;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, LONG_MS) == 1;
}

static int begin_connect(const char *text, uint16_t port)
{
	union address to = address(text, port);
	int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (connect(fd, &to.any, size_of(&to)) < 0 && errno != EINPROGRESS)
		_exit(110);
	return fd;
}

/* errno of a connect that ends */
static int connect_result(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int error = -1;

	if (poll(&p, 1, LONG_MS) != 1)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

static int server(const char *text, uint16_t port)
{
	union address at = address(text, port);
	int one = 1, fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &at.any, size_of(&at)) < 0 || listen(fd, 8) < 0)
		_exit(111);
	return fd;
}

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

/* ---------------------------------------------------------------- without power -- */

static void drop_capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

	if (syscall(SYS_capset, &h, none) < 0)
		_exit(112);
}

/* The errno that the kernel answers a request with */
static int netlink_answer(int protocol, int type, int flags, int family)
{
	struct {
		struct nlmsghdr h;
		union {
			struct nfgenmsg nf;
			struct rtmsg rt;
		} u;
	} req = { .h = { .nlmsg_type = (uint16_t)type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) } };
	char reply[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct nlmsghdr *h = (struct nlmsghdr *)reply;
	ssize_t n;

	req.h.nlmsg_len = NLMSG_LENGTH(protocol == NETLINK_ROUTE ? sizeof(req.u.rt) : sizeof(req.u.nf));
	if (protocol == NETLINK_ROUTE)
		req.u.rt = (struct rtmsg){ .rtm_family = (uint8_t)family, .rtm_table = RT_TABLE_LOCAL,
					   .rtm_type = RTN_LOCAL, .rtm_scope = RT_SCOPE_NOWHERE };
	else
		req.u.nf.nfgen_family = (uint8_t)family;
	send(fd, &req, req.h.nlmsg_len, 0);
	n = recv(fd, reply, sizeof(reply), 0);
	close(fd);
	if (n < (ssize_t)sizeof(*h))
		return -1;
	return h->nlmsg_type == NLMSG_ERROR ? -((struct nlmsgerr *)NLMSG_DATA(h))->error : 0;
}

/* Flushing is a batch: begin, delete every table, end. */
static int flush_answer(void)
{
	struct {
		struct nlmsghdr h;
		struct nfgenmsg g;
	} m[3] = { 0 };
	const int types[] = { NFNL_MSG_BATCH_BEGIN, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE,
			      NFNL_MSG_BATCH_END };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	char reply[4096];
	struct nlmsghdr *h = (struct nlmsghdr *)reply;

	for (int i = 0; i < 3; i++) {
		m[i].h.nlmsg_len = sizeof(m[i]);
		m[i].h.nlmsg_type = (uint16_t)types[i];
		m[i].h.nlmsg_flags = NLM_F_REQUEST | (i == 1 ? NLM_F_ACK : 0);
		m[i].h.nlmsg_seq = (uint32_t)i + 1;
		m[i].g.res_id = i == 1 ? 0 : htons(NFNL_SUBSYS_NFTABLES);
	}
	send(fd, m, sizeof(m), 0);
	if (recv(fd, reply, sizeof(reply), 0) < (ssize_t)sizeof(*h) || h->nlmsg_type != NLMSG_ERROR)
		return -1;
	close(fd);
	return -((struct nlmsgerr *)NLMSG_DATA(h))->error;
}

static int opened(int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? errno : 0;
}

static int option_set(int level, int name, int value)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? errno : 0;

	close(fd);
	return r;
}

static int bound(const char *ip, uint16_t port)
{
	union address at = address(ip, port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	r = bind(fd, &at.any, size_of(&at)) < 0 ? errno : 0;
	close(fd);
	return r;
}

static void powers(const char *who, bool is_last)
{
	const struct {
		const char *what;
		int got;
	} rows[] = {
		{ "mark", option_set(SOL_SOCKET, SO_MARK, INLET_MARK) },
		{ "transparent", option_set(IPPROTO_IP, IP_TRANSPARENT, 1) },
		{ "packet", opened(AF_PACKET, SOCK_DGRAM, 0) },
		{ "raw", opened(AF_INET, SOCK_RAW, IPPROTO_RAW) },
		{ "port 1", bound("0.0.0.0", 1) },
		{ "port 2", bound("127.7.7.7", INLET_PORT) },
		{ "port 53", bound("127.0.0.1", INLET_DNS_PORT) },
		{ "list", netlink_answer(NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE,
					 NLM_F_DUMP, AF_UNSPEC) },
		/* last: with the power to do it, it is done */
		{ "route", is_last ? netlink_answer(NETLINK_ROUTE, RTM_DELROUTE, NLM_F_ACK, AF_INET) : 0 },
		{ "flush", flush_answer() },
	};
	char what[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(what, sizeof(what), "%s: %s", who, rows[i].what);
		note(what, rows[i].got);
	}
}

static void with_power(void)
{
	gated_box();
	powers("root", true);
}

static void without_power(void)
{
	gated_box();
	drop_capabilities();
	powers("box", true);
}

static void a_box_without_capabilities_cannot_touch_its_network(void **state)
{
	static const struct {
		const char *what;
		int root, box;
	} rows[] = {
		{ "mark", 0, EPERM }, { "transparent", 0, EPERM }, { "packet", 0, EPERM },
		{ "raw", 0, EPERM }, { "port 1", 0, EACCES }, { "port 2", EADDRINUSE, EACCES },
		{ "port 53", EADDRINUSE, EACCES }, { "list", 0, EPERM }, { "route", 0, EPERM },
		{ "flush", 0, EPERM },
	};
	char what[64];

	(void)state;
	for (int i = 0; i < 2; i++) {
		scene(i ? without_power : with_power);
		for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			snprintf(what, sizeof(what), "%s: %s", i ? "box" : "root", rows[k].what);
			expect(what, i ? rows[k].box : rows[k].root);
		}
	}
}

/* ----------------------------------------------------------------- other shapes -- */

static void by_port(void)
{
	const struct assemble_how how = { .inlet = INLET_BY_PORT };
	int sock, fds[WIRE_FDS_MAX];
	unsigned bits = 0;
	int n;

	own_namespaces();
	sock = run_plan(&how);
	note("dns", take_packet(sock, WIRE_TAG_INLET, fds, &bits));
	note("dns bits", (long)bits);
	while ((n = take_packet(sock, WIRE_TAG_PORTS, fds, &bits)) > 0)
		;
	note("end", recv(sock, fds, sizeof(fds), MSG_DONTWAIT));
}

static void pool(void)
{
	const struct assemble_how how = { .pool = 20 };
	union address to = address("127.0.0.1", 8080);
	int sock, fds[WIRE_FDS_MAX];
	unsigned bits = 0;

	own_namespaces();
	sock = run_plan(&how);
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
	expect("end", 0);
}

/* ----------------------------------------------------------------------- oracle -- */

/* What nft(8) reads back, without what differs from one version and host to another. */
static void listed(void)
{
	FILE *f;
	size_t n;
	char *at;

	gated_box();
	f = popen("nft -j list ruleset", "r");
	n = fread(seen->text, 1, sizeof(seen->text) - 1, f);
	seen->text[n] = '\0';
	note("nft", pclose(f));
	while ((at = strstr(seen->text, "\"handle\": "))) {
		char *end = at + strcspn(at, ",}");

		end += end[0] == ',' ? 2 : 0;
		memmove(at, end, strlen(end) + 1);
	}
	at = strstr(seen->text, "{\"table\"");
	if (at)
		memmove(seen->text, at, strlen(at) + 1);
	seen->text[strcspn(seen->text, "\n")] = '\0';
}

static void nft_reads_back_the_rules_that_were_meant(void **state)
{
	static char golden[16384];
	FILE *f = fopen("tests/unit/inlet.nft", "r");
	size_t n;

	(void)state;
	assert_non_null(f);
	n = fread(golden, 1, sizeof(golden) - 1, f);
	fclose(f);
	assert_true(n > 0);
	golden[n - 1] = '\0'; /* the last newline; the others stand for blanks */
	for (char *at = golden; (at = strchr(at, '\n')); )
		*at = ' ';
	if (system("nft --version >/dev/null 2>&1") != 0) {
		print_message("SKIPPED: no nft here (package nftables): the rules are not read back\n");
		skip();
	}
	scene(listed);
	expect("nft", 0);
	assert_string_equal(seen->text, golden);
}

/* -------------------------------------------------------------------------- hints -- */

static void a_kernel_without_nf_tables_is_recognised(void **state)
{
	const struct assemble_how how = { .inlet = INLET_GATED };
	struct plan *p = network_plan(&how);
	int rules = -1, routes = -1;

	(void)state;
	for (uint32_t i = 0; i < p->op_count; i++) {
		if (plan_ops(p)[i].kind != OP_NETLINK)
			continue;
		if (plan_ops(p)[i].n == NETLINK_NETFILTER)
			rules = (int)i;
		else
			routes = (int)i;
	}
	assert_true(rules > 0 && routes > 0);
	assert_true(assemble_lacks_rules(p, rules, EPROTONOSUPPORT));
	assert_true(assemble_lacks_rules(p, rules, EOPNOTSUPP));
	assert_true(assemble_lacks_rules(p, rules, ENOENT));
	assert_false(assemble_lacks_rules(p, rules, EPERM));
	assert_false(assemble_lacks_rules(p, rules, ENOMEM));
	assert_false(assemble_lacks_rules(p, routes, EOPNOTSUPP));
	assert_false(assemble_lacks_rules(p, -1, EOPNOTSUPP));
	assert_false(assemble_lacks_rules(p, (int)p->op_count, EOPNOTSUPP));
	free(p);
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
		cmocka_unit_test(a_box_without_capabilities_cannot_touch_its_network),
		cmocka_unit_test(the_pool_comes_in_packets_and_connects_to_servers_of_the_box),
		cmocka_unit_test(without_nf_tables_only_the_resolver_and_the_ports_are_there),
		cmocka_unit_test(nft_reads_back_the_rules_that_were_meant),
		cmocka_unit_test(a_kernel_without_nf_tables_is_recognised),
	};

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
