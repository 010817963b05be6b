/*
 * ask.c - see ask.h. Runs in the supervisor, in the host's network namespace.
 *
 * Must:    touch the ask no more once done() was called.
 * Mustn't: block; believe an answer from anyone but the server that was asked (the socket is
 *          connected, so the kernel drops the others').
 */
#include "runtime/egress/ask.h"

#include "base/cleanup.h"
#include "runtime/egress/hash.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { DATAGRAMS = 16, /* read at a time: a flood must not hold up the loop */ MS = 1000 };

static void close_socket(struct ask *a)
{
	if (a->source.fd > 0) {
		loop_remove(a->loop, &a->source);
		close(a->source.fd);
	}
	a->source.fd = -1;
	free(a->in);
	a->in = NULL;
	a->in_len = a->in_size = 0;
}

void ask_cancel(struct ask *a)
{
	if (!a->loop)
		return;
	close_socket(a);
	timer_clear(&a->timer);
	a->loop = NULL;
}

static void finish(struct ask *a, const struct dns_result *r, const uint8_t *msg)
{
	uint8_t *in = take_ptr(a->in); /* msg may lie in it */

	ask_cancel(a);
	a->done(a, r, msg);
	free(in);
}

/* --- sending ----------------------------------------------------------------- */

static socklen_t server_address(struct sockaddr_storage *to, const struct egress_server *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(s->port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(s->port),
				    .sin6_scope_id = s->scope };

	memcpy(&in.sin_addr, s->bytes, 4);
	memcpy(&in6.sin6_addr, s->bytes, 16);
	memset(to, 0, sizeof(*to));
	if (s->family == 4)
		memcpy(to, &in, sizeof(in));
	else
		memcpy(to, &in6, sizeof(in6));
	return s->family == 4 ? sizeof(in) : sizeof(in6);
}

/* Over TCP a forger has to guess more than letters, and a server that does not repeat their
 * case can still answer. */
static int compose(struct ask *a)
{
	uint8_t random[2 + (DNS_NAME_WIRE + 7) / 8];
	size_t len;

	if (random_bytes(random, sizeof(random)) < 0)
		return -1;
	a->query.id = (uint16_t)(random[0] << 8 | random[1]);
	if (a->over_tcp)
		memset(random, 0, sizeof(random));
	dns_name_mix(&a->query.name, random + 2);
	len = dns_write_query(a->out + 2, sizeof(a->out) - 2, &a->query);
	a->out[0] = (uint8_t)(len >> 8);
	a->out[1] = (uint8_t)len;
	a->out_at = a->over_tcp ? 0 : 2;
	a->out_len = 2 + len;
	return len ? 0 : -1;
}

static int open_socket(struct ask *a)
{
	const struct egress_server *s = &a->servers.v[a->server];
	int type = a->over_tcp ? SOCK_STREAM : SOCK_DGRAM;
	owned_fd int fd = socket(s->family == 4 ? AF_INET : AF_INET6,
				 type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_storage to;
	socklen_t size = server_address(&to, s);

	if (fd < 0)
		return -1;
	/* Without bind(2) the kernel takes a random free port (UDP), and the one route's address. */
	if (connect(fd, (struct sockaddr *)&to, size) < 0 && errno != EINPROGRESS)
		return -1;
	if (!a->over_tcp && send(fd, a->out + 2, a->out_len - 2, MSG_NOSIGNAL) < 0)
		return -1;
	a->source.fd = fd;
	if (loop_add(a->loop, &a->source, a->over_tcp ? EPOLLOUT : EPOLLIN) < 0) {
		a->source.fd = -1;
		return -1;
	}
	fd = -1;
	return 0;
}

static int begin_try(struct ask *a)
{
	close_socket(a);
	if (compose(a) < 0 || open_socket(a) < 0)
		return -1;
	timer_set(a->loop, &a->timer, loop_now() + (uint64_t)a->servers.timeout_ms * MS);
	return 0;
}

/* The next server, or the end; that by the timer, so that it never comes within a call of
 * the owner's. */
static void next_try(struct ask *a)
{
	while (a->tries < a->servers.count * a->servers.attempts) {
		a->server = a->tries++ % a->servers.count;
		a->over_tcp = false;
		if (begin_try(a) == 0)
			return;
		a->timed_out = false;
	}
	close_socket(a);
	a->ended = true;
	timer_set(a->loop, &a->timer, loop_now());
}

static void refused(struct ask *a)
{
	a->timed_out = false;
	next_try(a);
}

static void again_over_tcp(struct ask *a)
{
	a->over_tcp = true;
	if (begin_try(a) < 0)
		refused(a);
}

/* The one server there is gets the same question again, so that its late answer to the first
 * counts: libc's resolver does the same. */
static bool ask_again(struct ask *a)
{
	if (a->servers.count != 1 || a->over_tcp || a->source.fd < 0 ||
	    a->tries >= a->servers.attempts)
		return false;
	a->tries++;
	timer_set(a->loop, &a->timer, loop_now() + (uint64_t)a->servers.timeout_ms * MS);
	return send(a->source.fd, a->out + 2, a->out_len - 2, MSG_NOSIGNAL) >= 0;
}

static void on_timer(struct timer *t)
{
	struct ask *a = PART_OF(t, struct ask, timer);

	if (a->ended) {
		finish(a, NULL, NULL);
		return;
	}
	a->timed_out = true;
	a->silent |= 1U << a->servers.index[a->server];
	if (!ask_again(a))
		next_try(a);
}

/* --- hearing ----------------------------------------------------------------- */

static void settle(struct ask *a, const struct dns_result *r, const uint8_t *msg)
{
	bool is_old = r->rcode == DNS_FORMERR || r->rcode == DNS_NOTIMP;

	if (r->rcode == DNS_NOERROR || r->rcode == DNS_NXDOMAIN) {
		finish(a, r, msg);
	} else if (is_old && a->query.has_edns) { /* a server from before 1999 */
		a->query.has_edns = false;
		if (begin_try(a) < 0)
			refused(a);
	} else {
		refused(a);
	}
}

/* true: go on reading. */
static bool hear_datagram(struct ask *a)
{
	uint8_t msg[DNS_UDP_MAX];
	struct dns_result r;
	ssize_t n = recv(a->source.fd, msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < 0) { /* an ICMP error: nobody there */
		refused(a);
		return false;
	}
	if ((size_t)n > sizeof(msg)) {
		again_over_tcp(a);
		return false;
	}
	switch (dns_read_answer(&r, &a->query, msg, (size_t)n)) {
	case DNS_FOREIGN:
		return true;
	case DNS_BROKEN:
		refused(a);
		return false;
	case DNS_OURS:
		if (!r.truncated) {
			settle(a, &r, msg);
			return false;
		} /* fall through */
	case DNS_OTHER_CASE:
		again_over_tcp(a);
	}
	return false;
}

static void hear_stream(struct ask *a)
{
	struct dns_result r;

	if (dns_read_answer(&r, &a->query, a->in + 2, a->in_len - 2) != DNS_OURS || r.truncated)
		refused(a);
	else
		settle(a, &r, a->in + 2);
}

static int send_rest(struct ask *a)
{
	ssize_t n = send(a->source.fd, a->out + a->out_at, a->out_len - a->out_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	a->out_at += (size_t)n;
	return a->out_at < a->out_len ? 0 : loop_change(a->loop, &a->source, EPOLLIN);
}

static int make_room(struct ask *a)
{
	uint8_t *more;

	if (!a->in)
		a->in_size = 2;
	else if (a->in_len == 2)
		a->in_size = 2 + ((size_t)a->in[0] << 8 | a->in[1]);
	more = realloc(a->in, a->in_size);
	a->in = more ? more : a->in;
	return more && a->in_size != a->in_len ? 0 : -1;
}

/* 1: the answer is complete. */
static int receive_rest(struct ask *a)
{
	ssize_t n;

	if ((!a->in || a->in_len == 2) && make_room(a) < 0)
		return -1;
	n = recv(a->source.fd, a->in + a->in_len, a->in_size - a->in_len, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	a->in_len += (size_t)n;
	if (n == 0)
		return -1;
	return a->in_len > 2 && a->in_len == a->in_size;
}

static void on_ready(struct source *s, uint32_t events)
{
	struct ask *a = PART_OF(s, struct ask, source);
	int got = 0;

	(void)events;
	if (!a->over_tcp) {
		for (int i = 0; i < DATAGRAMS && hear_datagram(a); i++)
			;
		return;
	}
	got = a->out_at < a->out_len ? send_rest(a) : receive_rest(a);
	if (got < 0)
		refused(a);
	else if (got > 0)
		hear_stream(a);
}

void ask_start(struct ask *a, struct loop *loop)
{
	a->loop = loop;
	a->source = (struct source){ -1, on_ready };
	a->timer.fire = on_timer;
	a->query.class = DNS_CLASS_IN;
	a->query.wants_recursion = true;
	a->query.has_edns = true;
	next_try(a);
}
