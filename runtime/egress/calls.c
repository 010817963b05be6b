/*
 * calls.c - see calls.h. Runs in the supervisor.
 *
 * What the box may reach is judged where everything is: a stream goes through gate.c's judge,
 * reach.c, peek.c and relay.c, a datagram through udp.c and the stub.
 *
 * Must:    answer each question once, unless it is cancelled; end when the broker speaks
 *          another language: then the box has no network.
 * Mustn't: wait for the broker, or for the box.
 */
#include "runtime/egress/calls_part.h"

#include "base/cleanup.h"
#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { AT_A_TIME = 64 };	/* questions in one turn of the loop */

struct calls_unsent {
	struct calls_unsent *next;
	int fd;			/* -1: none */
	size_t len;
	uint8_t packet[];
};

/* --- answers ------------------------------------------------------------------------------- */

static ssize_t send_packet(int sock, const void *packet, size_t len, int fd)
{
	struct iovec iov = { (void *)packet, len };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The broker speaks another language, or there is no memory to tell it something: the box's
 * network ends. */
static void end(struct calls *k)
{
	k->e->loop.stop = true;
}

/* The box is dead. What it did is still to be told to the launcher. */
static void lose_broker(struct calls *k)
{
	if (k->in.fd < 0)
		return;
	loop_remove(&k->e->loop, &k->in);
	close(take_fd(k->in.fd));
}

static void keep(struct calls *k, const void *packet, size_t len, int fd)
{
	struct calls_unsent *u = malloc(sizeof(*u) + len);

	if (!u) {
		if (fd >= 0)
			close(fd);
		end(k);
		return;
	}
	*u = (struct calls_unsent){ .fd = fd, .len = len };
	memcpy(u->packet, packet, len);
	*k->last_unsent = u;
	k->last_unsent = &u->next;
	loop_change(&k->e->loop, &k->in, EPOLLIN | EPOLLOUT);
}

static void send_unsent(struct calls *k)
{
	while (k->unsent) {
		struct calls_unsent *u = k->unsent;

		if (send_packet(k->in.fd, u->packet, u->len, u->fd) < 0) {
			if (errno != EAGAIN)
				lose_broker(k);
			return;
		}
		k->unsent = u->next;
		if (u->fd >= 0)
			close(u->fd);
		free(u);
	}
	k->last_unsent = &k->unsent;
	loop_change(&k->e->loop, &k->in, EPOLLIN);
}

static void say(struct calls *k, const void *packet, size_t len, int fd)
{
	bool is_sent = !k->unsent && k->in.fd >= 0 && send_packet(k->in.fd, packet, len, fd) >= 0;

	if (!is_sent && k->in.fd >= 0 && (k->unsent || errno == EAGAIN)) {
		keep(k, packet, len, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (!is_sent)
		lose_broker(k);
}

static struct calls_answer answer(enum calls_how how, uint64_t id)
{
	return (struct calls_answer){ .magic = CALLS_MAGIC, .how = (uint16_t)how, .id = id };
}

void calls_say(struct calls *k, uint64_t id, int error, uint32_t value)
{
	struct calls_answer a = answer(CALLS_DONE, id);

	a.error = (uint32_t)error;
	a.value = value;
	say(k, &a, sizeof(a), -1);
}

void calls_say_pass(struct calls *k, uint64_t id)
{
	const struct calls_answer a = answer(CALLS_PASS, id);

	say(k, &a, sizeof(a), -1);
}

void calls_say_fd(struct calls *k, uint64_t id, int fd, uint32_t flags)
{
	struct calls_answer a = answer(CALLS_GIVE, id);

	a.flags = flags;
	say(k, &a, sizeof(a), fd);
}

static void say_bytes(struct calls *k, uint64_t id, const void *bytes, size_t len)
{
	struct {
		struct calls_answer head;
		uint8_t bytes[sizeof(struct sockaddr_storage)];
	} a = { .head = answer(CALLS_DONE, id) };

	a.head.name_len = (uint16_t)len;
	memcpy(a.bytes, bytes, len);
	say(k, &a, sizeof(a.head) + len, -1);
}

void calls_say_name(struct calls *k, uint64_t id, const struct egress_addr *addr, uint16_t port)
{
	struct sockaddr_storage name;
	socklen_t len = sockaddr_of(&name, addr, port, 0);

	say_bytes(k, id, &name, len);
}

void calls_say_int(struct calls *k, uint64_t id, int value)
{
	say_bytes(k, id, &value, sizeof(value));
}

void calls_say_data(struct calls *k, uint64_t id, const struct calls_data *d)
{
	static struct {
		struct calls_answer head;
		uint8_t body[CALLS_NAME_MAX + CALLS_DATA_MAX];
	} a;
	struct sockaddr_storage name;
	socklen_t len = d->addr ? sockaddr_of(&name, d->addr, d->port, 0) : 0;

	a.head = answer(CALLS_DONE, id);
	a.head.value = d->value;
	a.head.flags = d->flags;
	a.head.name_len = (uint16_t)len;
	a.head.size = d->size;
	if (len)
		memcpy(a.body, &name, len);
	if (d->size)
		memcpy(a.body + len, d->data, d->size);
	say(k, &a, sizeof(a.head) + len + d->size, -1);
}

bool calls_is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || flags & O_NONBLOCK;
}

uint64_t calls_timeout_us(int fd, int option)
{
	struct timeval t = { 0 };
	socklen_t len = sizeof(t);

	if (getsockopt(fd, SOL_SOCKET, option, &t, &len) < 0 || t.tv_sec < 0 ||
	    t.tv_sec > 1000000)
		return 0;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

bool calls_is_over(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) != 0;
}

/* --- questions ------------------------------------------------------------------------------ */

static void make_socket(struct calls *k, const struct calls_request *r)
{
	unsigned type = r->head.arg[1] & 0xf, protocol = r->head.arg[2];
	bool is_stream = type == SOCK_STREAM;

	if (r->head.arg[0] != AF_INET && r->head.arg[0] != AF_INET6)
		calls_say(k, r->head.id, EAFNOSUPPORT, 0);
	else if (!is_stream && type != SOCK_DGRAM)
		calls_say(k, r->head.id, ESOCKTNOSUPPORT, 0);
	else if (protocol && protocol != (is_stream ? IPPROTO_TCP : IPPROTO_UDP))
		calls_say(k, r->head.id, EPROTONOSUPPORT, 0);
	else if (is_stream)
		calls_tcp_socket(k, r);
	else
		calls_udp_socket(k, r);
}

static int domain_of(int fd)
{
	int family = 0;
	socklen_t len = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0 ? -1 : family;
}

/* A pair that the box made itself: the kernel reads no name of it. */
static void answer_pair(struct calls *k, const struct calls_request *r)
{
	switch (r->head.what) {
	case CALLS_CONNECT:
		calls_say(k, r->head.id, EISCONN, 0);
		return;
	case CALLS_BIND:
	case CALLS_LISTEN:
		calls_say(k, r->head.id, EACCES, 0);
		return;
	}
	calls_say_pass(k, r->head.id);
}

static void take_question(struct calls *k, struct calls_request *r)
{
	struct calls_socket *s;
	int family;

	if (r->head.what == CALLS_CANCEL) {
		if (!calls_tcp_cancel(k, r->head.id))
			calls_udp_cancel(k, r->head.id);
		return;
	}
	if (r->head.what == CALLS_SOCKET) {
		make_socket(k, r);
		return;
	}
	family = domain_of(r->fd);
	if (family == AF_INET || family == AF_INET6) {
		calls_tcp(k, r);
		return;
	}
	s = calls_find(k, calls_inode(r->fd));
	if (s && s->end)
		calls_udp(k, s, r);
	else
		answer_pair(k, r);
}

/* 1: one was taken; 0: no more for now; -1: it makes no sense. */
static int hear(struct calls *k)
{
	static uint8_t packet[CALLS_PACKET_MAX + 1] __attribute__((aligned(8)));
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { packet, sizeof(packet) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(k->in.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL; /* n 0: it has closed its end */
	struct calls_request r;
	int fd = -1;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (n <= 0) {
		lose_broker(k);
		return 0;
	}
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (msg.msg_flags & MSG_TRUNC)
		return -1;
	/* No descriptor left for what came: the question has none, and cannot be answered. */
	if (!calls_read(&r, packet, (size_t)n, fd >= 0)) {
		if (fd >= 0)
			close(fd);
		if (!(msg.msg_flags & MSG_CTRUNC) || !calls_read(&r, packet, (size_t)n, true))
			return -1;
		calls_say(k, r.head.id, ENFILE, 0);
		return 1;
	}
	r.fd = fd;
	take_question(k, &r);
	if (r.fd >= 0)
		close(r.fd);
	return 1;
}

static void ready(struct source *s, uint32_t events)
{
	struct calls *k = PART_OF(s, struct calls, in);
	int r = 1;

	if (events & EPOLLOUT)
		send_unsent(k);
	for (int i = 0; i < AT_A_TIME && r > 0 && !k->e->loop.stop; i++)
		r = hear(k);
	if (r < 0)
		end(k);
}

struct calls *calls_new(struct egress *e, struct stub *stub, struct udp_relay *udp, int sock)
{
	struct calls *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->e = e;
	k->stub = stub;
	k->udp = udp;
	k->in = (struct source){ sock, ready };
	k->last_unsent = &k->unsent;
	if (calls_tcp_begin(k) < 0 || calls_udp_begin(k) < 0 ||
	    loop_add(&e->loop, &k->in, EPOLLIN) < 0) {
		free(k);
		return NULL;
	}
	return k;
}

uint16_t calls_server(struct calls *k, uint16_t port)
{
	const struct calls_port *p = calls_port_find(k, port, false);

	if (!p)
		p = calls_port_find(k, port, true);
	return p ? p->real : 0;
}
