/*
 * main.c - nsbox-egress, the supervisor of one box's network
 *
 * Started by the launcher with a SOCK_SEQPACKET socket as descriptor 0, without environment.
 * Serves the sockets of the box that the launcher passes on (runtime/egress_wire.h), from
 * the launcher's own network namespace.
 *
 * Must:    give up every privilege before it serves; end when the control socket ends. With
 *          it the box has no network: nobody else serves its sockets.
 * Mustn't: go on after a message that it does not understand.
 */
#include "runtime/egress/calls.h"
#include "runtime/egress/config.h"
#include "runtime/egress/gate.h"
#include "runtime/egress/lockdown.h"
#include "runtime/egress/publish.h"
#include "runtime/egress/udp.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { CONTROL = 0, FDS_MAX = 16 };

enum { WAKE_US = 250000 };

struct supervisor {
	struct egress e;
	struct stub stub;
	struct gate *gate;
	struct publish *publish;
	struct calls *calls;
	struct udp_relay udp;
	struct source control;
	bool serves;		/* the inlet, or listeners, are here: READY was said */
	int code;		/* of the exit */
};

struct packet {
	struct egress_msg head;
	int fds[FDS_MAX];
	unsigned fd_count;
};

/* --- speaking ------------------------------------------------------------------------------- */

static int say(uint16_t type, const char *text)
{
	struct {
		struct egress_msg head;
		char text[256];
	} m = { .head = { .magic = EGRESS_MAGIC, .type = type } };

	m.head.size = (uint32_t)snprintf(m.text, sizeof(m.text), "%s", text) + 1;
	if (!text[0])
		m.head.size = 0;
	if (m.head.size > sizeof(m.text))
		m.head.size = sizeof(m.text);
	return send(CONTROL, &m, sizeof(m.head) + m.head.size, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static void give_up(struct supervisor *s, const char *why)
{
	say(EGRESS_FAIL, why);
	s->code = 1;
	s->e.loop.stop = true;
}

static void say_ready(struct supervisor *s)
{
	s->serves = true;
	if (say(EGRESS_READY, "") < 0)
		s->e.loop.stop = true;
}

/* --- hearing --------------------------------------------------------------------------------- */

static void take_fds(struct packet *p, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		p->fd_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(p->fds, CMSG_DATA(c), p->fd_count * sizeof(int));
	}
}

/* One packet with a head of ours. -1: the launcher is gone, or speaks another language. */
static int hear(struct packet *p)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { &p->head, sizeof(p->head) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	ssize_t n;

	p->fd_count = 0;
	n = recvmsg(CONTROL, &msg, MSG_CMSG_CLOEXEC);
	take_fds(p, &msg);
	return n == (ssize_t)sizeof(p->head) && p->head.magic == EGRESS_MAGIC &&
			       !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ? 0 : -1;
}

static const struct egress_config *take_config(struct packet *p)
{
	const struct egress_config *c = p->fd_count == 1 ? config_map(p->fds[0]) : NULL;

	for (unsigned i = 0; i < p->fd_count; i++)
		close(p->fds[i]);
	return c;
}

static const char *new_config(struct supervisor *s, struct packet *p)
{
	const struct egress_config *old = s->e.config, *c = take_config(p);

	if (!c || !s->serves)
		return c ? "new rules before the box's sockets"
			 : "the new configuration is not well-formed";
	if (names_limit(s->e.names, c->max_names) < 0)
		return "no memory for so many names";
	s->e.config = c;
	s->e.rules = s->stub.rules = config_rules(c);
	s->e.ledger.config = c;
	s->e.ledger.rules = s->e.rules;
	resolver_configure(s->e.resolver, c);
	conn_rejudge_all(&s->e);
	if (!config_same_proxy(old, c))
		conn_proxy_changed(&s->e);
	udp_rules_changed(&s->udp);
	config_unmap(old);
	say_ready(s);
	return NULL;
}

enum {
	DNS_PART = 1 << INLET_DNS_UDP | 1 << INLET_DNS_TCP,
	GATE_PART = 1 << INLET_GATE | 1 << INLET_TCP4 | 1 << INLET_UDP4 | 1 << INLET_RAW4,
};

/* With none of it the box only publishes servers; without the gate's part there are ports
 * (EGRESS_PORTS follows). */
static bool is_whole(unsigned bits)
{
	unsigned v4 = bits & (DNS_PART | GATE_PART);

	return !bits || bits == DNS_PART || v4 == (DNS_PART | GATE_PART);
}

static int serve_inlet(struct supervisor *s, unsigned bits, const int fds[INLET_FD_COUNT])
{
	if (bits & DNS_PART && (stub_serve_udp(&s->stub, fds[INLET_DNS_UDP]) < 0 ||
				stub_serve_tcp(&s->stub, fds[INLET_DNS_TCP]) < 0))
		return -1;
	if (!(bits & GATE_PART))
		return 0;
	s->stub.has_v6 = fds[INLET_TCP6] >= 0 && fds[INLET_RAW6] >= 0;
	s->gate = gate_new(&s->e, &s->stub, fds);
	return s->gate ? udp_start(&s->udp, &s->e, &s->stub, fds) : -1;
}

/* The descriptors of the packet, in the order of the set bits. */
static const char *take_inlet(struct supervisor *s, struct packet *p)
{
	int fds[INLET_FD_COUNT];
	unsigned n = 0;

	for (int i = 0; i < INLET_FD_COUNT; i++) {
		bool is_there = p->head.bits & 1u << i && n < p->fd_count;

		fds[i] = is_there ? p->fds[n++] : -1;
	}
	if (s->serves || p->fd_count != (unsigned)__builtin_popcount(p->head.bits) ||
	    !is_whole(p->head.bits))
		return "the inlet is not complete";
	if (serve_inlet(s, p->head.bits, fds) < 0)
		return "cannot serve the box's sockets";
	say_ready(s);
	return NULL;
}

static const char *take_ports(struct supervisor *s, struct packet *p)
{
	for (unsigned i = 0; i < p->fd_count; i++)
		if (ports_listen(&s->e, &s->stub, p->fds[i]) < 0)
			return "cannot serve the box's listeners";
	return NULL;
}

/* The box has no sockets of its own: those to its servers are made here. */
static int open_pool(struct supervisor *s)
{
	enum { POOL = 64 };

	publish_servers(s->publish, s->calls);
	for (int i = 0; i < POOL; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0 || publish_socket(s->publish, fd) < 0)
			return -1;
	}
	return 0;
}

static const char *take_calls(struct supervisor *s, struct packet *p)
{
	if (s->serves || p->fd_count != 1 || !s->e.config->calls)
		return "the box's calls are not to be served";
	s->stub.has_v6 = true;
	s->calls = calls_new(&s->e, &s->stub, &s->udp, p->fds[0]);
	if (!s->calls || (s->publish && open_pool(s) < 0))
		return "cannot serve the box's calls";
	say_ready(s);
	return NULL;
}

static const char *take_published(struct supervisor *s, struct packet *p)
{
	if (!s->publish)
		s->publish = publish_new(&s->e);
	if (!s->publish || p->fd_count != 1 ||
	    publish_port(s->publish, p->fds[0], p->head.bits) < 0)
		return "cannot serve a published port";
	return NULL;
}

static const char *take_pool(struct supervisor *s, struct packet *p)
{
	for (unsigned i = 0; i < p->fd_count; i++)
		if (!s->publish || publish_socket(s->publish, p->fds[i]) < 0)
			return "cannot use the box's sockets for published ports";
	return NULL;
}

static const char *report(struct supervisor *s, struct packet *p)
{
	(void)p;
	ledger_report(&s->e.ledger, CONTROL);
	s->e.loop.stop = true;
	return NULL;
}

static const struct {
	enum egress_type type;
	const char *(*handle)(struct supervisor *s, struct packet *p);
} handlers[] = {
	{ EGRESS_CONFIG, new_config },	 { EGRESS_INLET, take_inlet },
	{ EGRESS_PORTS, take_ports },	 { EGRESS_PUBLISH, take_published },
	{ EGRESS_POOL, take_pool },	 { EGRESS_REPORT, report },
	{ EGRESS_CALLS, take_calls },
};

static void control_ready(struct source *source, uint32_t events)
{
	struct supervisor *s = PART_OF(source, struct supervisor, control);
	const char *failed = "a message that is not understood";
	struct packet p;

	(void)events;
	if (hear(&p) < 0) {
		s->e.loop.stop = true; /* EOF: the launcher is gone, and so is its box */
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
		if (handlers[i].type == p.head.type)
			failed = handlers[i].handle(s, &p);
	if (failed)
		give_up(s, failed);
}

/* --- life ---------------------------------------------------------------------------------------- */

/* A connection has two descriptors, and a part is for questions to name servers, for second
 * addresses of names (MORE_TRIES of reach.c) and for what comes before a connection. Asked
 * before the lockdown, which raises the soft limit. */
static uint32_t room_for_connections(void)
{
	enum { OTHERS = 1024, LEAST = 8 };
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return LEAST;
	if (files.rlim_max > 1U << 20)
		return 0;
	if (files.rlim_max < 2 * OTHERS)
		return files.rlim_max / 4 > LEAST ? (uint32_t)files.rlim_max / 4 : LEAST;
	return ((uint32_t)files.rlim_max - OTHERS) / 2;
}

static int prepare(struct supervisor *s, const struct egress_config *c, uint32_t room)
{
	s->e.config = c;
	s->e.rules = config_rules(c);
	if (loop_init(&s->e.loop) < 0)
		return -1;
	ledger_init(&s->e.ledger, c, s->e.rules);
	s->e.ledger.room = room;
	s->e.names = names_new(c->max_names);
	s->e.resolver = resolver_new(&s->e.loop, c);
	s->stub = (struct stub){ .loop = &s->e.loop, .rules = s->e.rules, .names = s->e.names,
				 .resolver = s->e.resolver, .ledger = &s->e.ledger };
	s->control = (struct source){ CONTROL, control_ready };
	if (!s->e.names || !s->e.resolver)
		return -1;
	return loop_add(&s->e.loop, &s->control, EPOLLIN);
}

static void wake(int signal)
{
	(void)signal;
}

/*
 * The box shares O_NONBLOCK of its sockets with us, and may clear it in the moment before our
 * connect(2) (calls_tcp.c), which then waits: a signal ends that. Before lockdown().
 */
static int wake_often(void)
{
	const struct itimerval often = { { 0, WAKE_US }, { 0, WAKE_US } };

	return sigaction(SIGALRM, &(struct sigaction){ .sa_handler = wake }, NULL) < 0
		       ? -1 : setitimer(ITIMER_REAL, &often, NULL);
}

int main(void)
{
	static struct supervisor s;
	const struct egress_config *c;
	const char *failed;
	struct packet p;
	uint32_t room;

	if (hear(&p) < 0 || p.head.type != EGRESS_CONFIG)
		return 2;
	c = take_config(&p);
	if (!c) {
		say(EGRESS_FAIL, "the configuration is not well-formed");
		return 1;
	}
	room = room_for_connections();
	failed = c->calls && wake_often() < 0 ? "set its timer" : NULL;
	if (!failed)
		failed = lockdown(c->uid, c->gid, c->calls != 0);
	if (failed || prepare(&s, c, room) < 0) {
		say(EGRESS_FAIL, failed ? failed : "no memory");
		return 1;
	}
	if (loop_run(&s.e.loop) < 0)
		return 1;
	return s.code;
}
