/*
 * stub_serve.c - the sockets of the box's name server. See stub.h. Runs in the supervisor;
 * the sockets are of the box's network namespace, so whoever talks is the box.
 *
 * Must: bound connections, what waits in each, and the time a connection may be idle.
 */
#include "runtime/egress/stub.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	DATAGRAMS = 64,			/* at a time */
	QUERY_MAX = 4096,		/* a question is 300 bytes; with options some more */
	CONNS_MAX = 64,
	WAITING_MAX = 64,		/* questions of one connection without an answer yet */
	UNSENT_FULL = 65536, UNSENT_MAX = 8 << 20, /* from the first on nothing more is read */
	IDLE_US = 10 * 1000000, RETRY_US = 100000,
};

struct stub_socket {
	struct source source;
	struct timer timer;		/* no descriptor left: listen again later */
	struct stub *stub;
	struct stub_socket *next;
};

/* --- UDP --------------------------------------------------------------------------------------- */

struct peer {
	int fd;
	socklen_t size;
	struct sockaddr_storage addr;
};

/* What does not fit is dropped, as UDP does. */
static void reply_datagram(void *arg, const uint8_t *msg, size_t len)
{
	struct peer *p = arg;

	if (len)
		sendto(p->fd, msg, len, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&p->addr, p->size);
	free(p);
}

static bool take_datagram(struct stub_socket *s)
{
	uint8_t query[QUERY_MAX];
	struct peer *p = malloc(sizeof(*p));
	const struct stub_client client = { reply_datagram, p, false };
	ssize_t n;

	if (!p)
		return false;
	p->fd = s->source.fd;
	p->size = sizeof(p->addr);
	n = recvfrom(p->fd, query, sizeof(query), MSG_DONTWAIT | MSG_TRUNC,
		     (struct sockaddr *)&p->addr, &p->size);
	if (n < 0 || (size_t)n > sizeof(query) ||
	    stub_ask(s->stub, query, (size_t)n, &client) < 0)
		free(p);
	return n >= 0;
}

static void on_datagrams(struct source *source, uint32_t events)
{
	struct stub_socket *s = PART_OF(source, struct stub_socket, source);

	(void)events;
	for (int i = 0; i < DATAGRAMS && take_datagram(s); i++)
		;
}

/* --- TCP --------------------------------------------------------------------------------------- */

struct stub_conn {
	struct source source;
	struct timer timer;
	struct stub *stub;
	struct stub_conn *next, **self;
	uint8_t in[2 + QUERY_MAX];
	size_t in_len;
	struct buf out;
	size_t sent;
	unsigned waiting;		/* answers to come; each holds a pointer to this */
	bool busy, at_end;		/* go_on() is at work; the client has said all */
};

static size_t unsent(const struct stub_conn *c)
{
	return c->out.len - c->sent;
}

/* It lives on without a descriptor until the last answer came. */
static void close_conn(struct stub_conn *c)
{
	if (c->source.fd >= 0) {
		loop_remove(c->stub->loop, &c->source);
		close(c->source.fd);
		c->source.fd = -1;
		timer_clear(&c->timer);
		*c->self = c->next;
		if (c->next)
			c->next->self = c->self;
		c->stub->conn_count--;
	}
	if (c->waiting)
		return;
	buf_free(&c->out);
	free(c);
}

static bool is_stuffed(const struct stub_conn *c)
{
	return c->waiting >= WAITING_MAX || unsent(c) >= UNSENT_FULL;
}

/* The length of the first question with its two bytes; 0: it is not complete. */
static size_t complete(const struct stub_conn *c)
{
	size_t size = c->in_len < 2 ? SIZE_MAX : 2 + ((size_t)c->in[0] << 8 | c->in[1]);

	return size <= c->in_len ? size : 0;
}

static bool is_too_long(const struct stub_conn *c)
{
	return c->in_len >= 2 && ((size_t)c->in[0] << 8 | c->in[1]) > QUERY_MAX;
}

static void still_alive(struct stub_conn *c)
{
	timer_set(c->stub->loop, &c->timer,
		  loop_now() + (c->stub->idle_us ? c->stub->idle_us : IDLE_US));
}

static void go_on(struct stub_conn *c);

static void reply_stream(void *arg, const uint8_t *msg, size_t len)
{
	struct stub_conn *c = arg;
	const char size[2] = { (char)(len >> 8), (char)len };

	c->waiting--;
	if (c->source.fd < 0) {
		if (!c->busy)
			close_conn(c);
		return;
	}
	if (len) {
		buf_add(&c->out, size, sizeof(size));
		buf_add(&c->out, msg, len);
	}
	if (!c->busy)
		go_on(c);
}

static void take_questions(struct stub_conn *c)
{
	const struct stub_client client = { reply_stream, c, true };

	for (size_t size; !is_stuffed(c) && (size = complete(c));) {
		uint8_t query[QUERY_MAX];

		memcpy(query, c->in + 2, size - 2);
		c->in_len -= size;
		memmove(c->in, c->in + size, c->in_len);
		still_alive(c);
		c->waiting++;
		if (stub_ask(c->stub, query, size - 2, &client) < 0)
			c->waiting--;
	}
}

static bool send_answers(struct stub_conn *c)
{
	if (c->out.failed)
		return false;
	while (unsent(c)) {
		ssize_t n = send(c->source.fd, c->out.data + c->sent, unsent(c),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		c->sent += (size_t)n;
		still_alive(c);
	}
	buf_clear(&c->out);
	c->sent = 0;
	return true;
}

/* Answer what can be, then wait for what is missing; `c` may be gone afterwards. */
static void go_on(struct stub_conn *c)
{
	uint32_t events;
	bool ok;

	c->busy = true;
	do {
		take_questions(c);
		ok = send_answers(c) && !is_too_long(c);
	} while (ok && complete(c) && !is_stuffed(c));
	c->busy = false;
	events = (uint32_t)(unsent(c) ? EPOLLOUT : 0) |
		 (uint32_t)(is_stuffed(c) || c->at_end ? 0 : EPOLLIN);
	if (!ok || (c->at_end && !c->waiting && !unsent(c)) ||
	    loop_change(c->stub->loop, &c->source, events) < 0)
		close_conn(c);
}

static void on_conn(struct source *source, uint32_t events)
{
	struct stub_conn *c = PART_OF(source, struct stub_conn, source);
	size_t room = sizeof(c->in) - c->in_len;
	ssize_t n;

	if (events & (EPOLLERR | EPOLLHUP)) { /* nothing can be sent any more */
		close_conn(c);
		return;
	}
	if (events & EPOLLIN && room && !c->at_end) {
		n = recv(source->fd, c->in + c->in_len, room, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			close_conn(c);
			return;
		}
		c->at_end = n == 0;
		c->in_len += n > 0 ? (size_t)n : 0;
	}
	go_on(c);
}

static void on_idle(struct timer *t)
{
	struct stub_conn *c = PART_OF(t, struct stub_conn, timer);

	if (c->waiting && !unsent(c))
		still_alive(c); /* it waits for us */
	else
		close_conn(c);
}

int stub_serve_client(struct stub *s, int fd)
{
	struct stub_conn *c = s->conn_count < CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (c) {
		c->source = (struct source){ fd, on_conn };
		c->timer.fire = on_idle;
		c->stub = s;
		c->out = (struct buf)BUF_INIT(UNSENT_MAX);
	}
	if (!c || loop_add(s->loop, &c->source, EPOLLIN) < 0) {
		free(c);
		close(fd);
		return -1;
	}
	c->next = s->conns;
	c->self = &s->conns;
	if (c->next)
		c->next->self = &c->next;
	s->conns = c;
	s->conn_count++;
	still_alive(c);
	return 0;
}

/* Without a free descriptor the listener stays ready, and the loop would spin. */
static void pause_listener(struct stub_socket *s)
{
	loop_remove(s->stub->loop, &s->source);
	timer_set(s->stub->loop, &s->timer, loop_now() + RETRY_US);
}

static void on_retry(struct timer *t)
{
	struct stub_socket *s = PART_OF(t, struct stub_socket, timer);

	if (loop_add(s->stub->loop, &s->source, EPOLLIN) < 0)
		timer_set(s->stub->loop, &s->timer, loop_now() + RETRY_US);
}

static void on_clients(struct source *source, uint32_t events)
{
	struct stub_socket *s = PART_OF(source, struct stub_socket, source);

	(void)events;
	for (int i = 0; i < CONNS_MAX; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			stub_serve_client(s->stub, fd);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			pause_listener(s);
		return;
	}
}

/* --- both -------------------------------------------------------------------------------------- */

static int serve(struct stub *s, int fd, bool is_tcp)
{
	struct stub_socket *k = fd_nonblocking(fd) == 0 ? calloc(1, sizeof(*k)) : NULL;

	if (!k)
		return -1;
	k->source = (struct source){ fd, is_tcp ? on_clients : on_datagrams };
	k->timer.fire = on_retry;
	k->stub = s;
	if (loop_add(s->loop, &k->source, EPOLLIN) < 0) {
		free(k);
		return -1;
	}
	k->next = s->sockets;
	s->sockets = k;
	return 0;
}

int stub_serve_udp(struct stub *s, int fd)
{
	return serve(s, fd, false);
}

int stub_serve_tcp(struct stub *s, int listener)
{
	return serve(s, listener, true);
}

void stub_serve_end(struct stub *s)
{
	while (s->conns)
		close_conn(s->conns);
	while (s->sockets) {
		struct stub_socket *k = s->sockets;

		s->sockets = k->next;
		loop_remove(s->loop, &k->source);
		timer_clear(&k->timer);
		close(k->source.fd);
		free(k);
	}
}
