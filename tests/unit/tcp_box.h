/*
 * A box and its host for tests of connections: the namespaces of udp_box.h, with the gate
 * and the relay of streams in between, in one process and one loop.
 */
#ifndef TESTS_UNIT_TCP_BOX_H
#define TESTS_UNIT_TCP_BOX_H

#include "runtime/egress/gate.h"
#include "runtime/egress/publish.h"

#include "tests/unit/udp_box.h"

#include <netinet/tcp.h>

enum { PORT = 7000 };

static struct gate *gate;
static unsigned long turns; /* of the loop */

/* In the place of libc's: how often did the loop wait? */
int epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
	turns++;
	return epoll_pwait(fd, events, max, ms, NULL);
}

static inline void begin_tcp(const char *const *allow)
{
	begin(allow);
	gate = gate_new(&e, &stub, inlet);
	if (!gate)
		_exit(140);
}

static inline void finish_tcp(void)
{
	while (e.conns)
		conn_drop(e.conns);
	finish();
}

/* --- the loop ----------------------------------------------------------------------------- */

static inline void serve_until_ready(int fd, uint32_t events)
{
	struct source s = { fd, stop_at };

	if (loop_add(&e.loop, &s, events) < 0)
		_exit(141);
	run();
	loop_remove(&e.loop, &s);
}

static inline void time_is_up(struct timer *t)
{
	(void)t;
	e.loop.stop = true;
}

/* Returns how often the loop turned. */
static inline long serve_for(unsigned ms)
{
	struct timer t = { .fire = time_is_up };
	unsigned long before = turns;

	timer_set(&e.loop, &t, loop_now() + ms * 1000);
	run();
	timer_clear(&t);
	return (long)(turns - before);
}

static inline bool no_connection(void)
{
	return e.ledger.open == 0;
}

/* --- both ends ------------------------------------------------------------------------------ */

static inline int socket_in(int ns)
{
	int fd;

	enter(ns);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enter(host_ns);
	return fd;
}

static inline int server_in(int ns, const char *text, uint16_t port)
{
	int fd;

	enter(ns);
	fd = server(text, port);
	enter(host_ns);
	return fd;
}

static inline void begin_call(int fd, const char *text, uint16_t port)
{
	union address to = address(text, port);

	if (connect(fd, &to.any, size_of(&to)) < 0 && errno != EINPROGRESS)
		_exit(142);
}

static inline int result_of(int fd)
{
	socklen_t len = sizeof(int);
	int error = -1;

	serve_until_ready(fd, EPOLLOUT);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

/* errno of connect(2) in the box */
static inline int call(int *fd, const char *text, uint16_t port)
{
	*fd = socket_in(box_ns);
	begin_call(*fd, text, port);
	return result_of(*fd);
}

static inline int take_call(int listener)
{
	int fd;

	serve_until_ready(listener, EPOLLIN);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		_exit(143);
	return fd;
}

/* A box's client and the server it reached; the client's result is noted. */
static inline void meet(int *box, int *host, int listener, uint16_t port)
{
	note("connect", call(box, QUAD4, port));
	*host = take_call(listener);
}

/* One that waits fills the backlog: the next SYN is dropped, and comes again after a second. */
static inline int fill(int listener)
{
	int fd = socket_in(host_ns);

	if (listen(listener, 0) < 0)
		_exit(145);
	begin_call(fd, QUAD4, PORT);
	if (result_of(fd) != 0)
		_exit(148);
	return fd;
}

static inline bool is_on_the_way(void)
{
	return e.conns && (e.conns->trying || e.conns->side[1].in.fd >= 0);
}

/* All until the end: bytes; -errno when the end is none. */
static inline long drain(int fd, long *got)
{
	static char data[65536];
	ssize_t n;

	for (*got = 0;; *got += n) {
		serve_until_ready(fd, EPOLLIN);
		n = recv(fd, data, sizeof(data), 0);
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
}

/* What comes next is this text. */
static inline bool hears(int fd, const char *text)
{
	char data[256];
	size_t got = 0, len = strlen(text);

	while (got < len) {
		ssize_t n;

		serve_until_ready(fd, EPOLLIN);
		n = recv(fd, data + got, len - got, 0);
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return memcmp(data, text, len) == 0;
}

/* 0: a proper end; -errno; 1: data */
static inline long end_of(int fd)
{
	char byte;
	ssize_t n;

	serve_until_ready(fd, EPOLLIN);
	n = recv(fd, &byte, 1, 0);
	return n < 0 ? -errno : n;
}

/* Writes until what is read from side i of the only connection has nowhere to go. */
static inline long stuff(int fd, int i)
{
	static const char data[65536];
	long sent = 0;

	while (!e.conns->side[i].is_blocked) {
		ssize_t n = send(fd, data, sizeof(data), MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			_exit(144);
		sent += n > 0 ? n : 0;
		serve_for(2);
	}
	return sent;
}

#endif
