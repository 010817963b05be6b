/*
 * A box and its host for tests of the relay of datagrams: two network namespaces, servers in
 * one, the real inlet in the other, and the supervisor's parts in between, in one process
 * and one loop. Each scene makes its own in a child.
 */
#ifndef TESTS_UNIT_UDP_BOX_H
#define TESTS_UNIT_UDP_BOX_H

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
#ifndef HOSTS		/* a test may have its own */
#define HOSTS QUAD4 " good.test both.test\n" \
	      "10.0.0.1 private.test both.test\n" \
	      QUAD6 " six.test\n" \
	      "198.18.0.9 fake.test\n"
#endif

static int host_ns, box_ns;
static struct egress e;
static struct stub stub;
static struct udp_relay relay;

static struct block {
	struct egress_config config;
	char hosts[sizeof(HOSTS)];
} block;

/* --- the host -------------------------------------------------------------------------- */

static inline void address_of_host(int index, const char *text)
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
	/* One of IPv6 is there only once a worker of the kernel has looked at it. */
	for (int ms = 0; bind(fd, &a.any, size_of(&a)) < 0; ms++)
		if (errno != EADDRNOTAVAIL || ms == LONG_MS || usleep(1000) < 0)
			_exit(139);
	close(fd);
}

static inline void make_host(void)
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

static inline void enter(int ns)
{
	if (setns(ns, CLONE_NEWNET) < 0)
		_exit(122);
}

/* --- the supervisor ---------------------------------------------------------------------- */

static inline const struct egress_rules *rules_in(int mode, const char *const *allow,
						  const char *private)
{
	struct egress_rules *r;
	struct policy p = { 0 };

	if (policy_init(&p, NULL) < 0)
		_exit(123);
	p.net.mode = mode;
	for (; *allow; allow++)
		if (strlist_add(&p.net.allow_out, *allow) < 0)
			_exit(124);
	if (private && strlist_add(&p.net.allow_private, private) < 0)
		_exit(124);
	if (egress_compile(&r, &p, NULL) < 0)
		_exit(125);
	policy_free(&p);
	return r;
}

#define RULES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static inline void supervise(const char *const *allow)
{
	block.config.max_connections = 64;
	block.config.max_names = 64;
	block.config.timeout_ms = LONG_MS;
	block.config.attempts = 1;
	memcpy(block.hosts, HOSTS, sizeof(HOSTS));
	block.config.hosts = offsetof(struct block, hosts);
	block.config.hosts_len = sizeof(HOSTS) - 1;
	e.config = &block.config;
	e.rules = rules_in(NET_FILTERED, allow, NULL);
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

static inline void begin(const char *const *allow)
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
static inline void finish(void)
{
	stub_end(&stub);
	udp_stop(&relay);
	note("open at the end", (long)e.ledger.open);
	note("queued at the end", (long)relay.queued);
	note("asked at the end", (long)relay.asked);
	resolver_free(e.resolver);
	names_free(e.names);
}

static inline void expect_clean_end(void)
{
	expect("open at the end", 0);
	expect("queued at the end", 0);
	expect("asked at the end", 0);
}

static inline void use_rules(const struct egress_rules *r)
{
	e.rules = e.ledger.rules = stub.rules = r;
	udp_rules_changed(&relay);
}

static inline void new_rules(const char *const *allow)
{
	use_rules(rules_in(NET_FILTERED, allow, NULL));
}

/* --- the loop -------------------------------------------------------------------------------- */

static inline void stop_at(struct source *s, uint32_t events)
{
	(void)s;
	(void)events;
	e.loop.stop = true;
}

static inline void too_late(struct timer *t)
{
	(void)t;
	_exit(129);
}

static inline void run(void)
{
	struct timer limit = { .fire = too_late };

	timer_set(&e.loop, &limit, loop_now() + LONG_MS * 1000);
	e.loop.stop = false;
	loop_run(&e.loop);
	timer_clear(&limit);
}

/* Serves until there is something to read, or an error, at a client of the box. */
static inline void serve_until(int fd)
{
	struct source s = { fd, stop_at };

	if (loop_add(&e.loop, &s, EPOLLIN) < 0)
		_exit(130);
	run();
	loop_remove(&e.loop, &s);
}

static bool (*condition)(void);

static inline void look(struct timer *t)
{
	e.loop.stop = condition();
	if (!e.loop.stop)
		timer_set(&e.loop, t, loop_now() + 1000);
}

static inline void serve_until_true(bool (*holds)(void))
{
	struct timer t = { .fire = look };

	condition = holds;
	timer_set(&e.loop, &t, loop_now());
	run();
	timer_clear(&t);
}

/* What the box has sent is read, and nothing else is done. */
static inline void read_now(uint64_t at_us)
{
	e.loop.now_us = at_us;
	relay.in4.ready(&relay.in4, EPOLLIN);
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
static inline void echo_ready(struct source *s, uint32_t events)
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

static inline void echo_at(struct echo *x, const char *text, uint16_t port)
{
	union address at = address(text, port);
	int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*x = (struct echo){ .s = { fd, echo_ready } };
	if (bind(fd, &at.any, size_of(&at)) < 0 || loop_add(&e.loop, &x->s, EPOLLIN) < 0)
		_exit(132);
}

/* Connected: its kernel takes answers of that address and port only. */
static inline int client(const char *text, uint16_t port)
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

static inline int client_of_name(const char *name, uint16_t port, bool by_v6)
{
	uint32_t number = names_add(e.names, name);
	struct egress_addr a = by_v6 ? names_addr6(number) : names_addr4(number);
	char text[EGRESS_ADDR_TEXT];

	return client(egress_addr_text(&a, text), port);
}

static inline void tell(int fd, const char *text)
{
	if (send(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		_exit(134);
}

/* Length of the answer that begins with `first`; -errno, -1000: another answer. */
static inline long answer_of(int fd, char first)
{
	static char data[65536];
	ssize_t n;

	serve_until(fd);
	n = recv(fd, data, sizeof(data), 0);
	if (n < 0)
		return -errno;
	return n && data[0] == first ? n : -1000;
}

static inline long ask(int fd, const char *text)
{
	tell(fd, text);
	return answer_of(fd, (char)(text[0] + 1));
}

static inline bool is_denied(const char *what, const char *rule, const char *allow)
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

#endif
