/*
 * A name server for tests, on the loop of who asks it: UDP and TCP on one port of
 * 127.0.0.1. What it says is a table; what it does to the answer is in the row.
 */
#ifndef DNS_SERVER_H
#define DNS_SERVER_H

#include "base/cleanup.h"
#include "runtime/egress/dns_wire.h"
#include "runtime/egress/loop.h"
#include "runtime/egress_wire.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cmocka.h>

enum zone_act {
	PLAIN,
	SILENT,			/* hears, says nothing until server_release() */
	CODE,			/* `data` is the rcode, a digit */
	CUT,			/* truncated over UDP */
	FORGED_ID, FORGED_CASE, FORGED_SOURCE, /* a false answer comes first */
	NO_EDNS,		/* FORMERR, header only, to a question with OPT */
	LYING_LENGTH,		/* the record is longer than the message */
	HANGS_UP,		/* truncated over UDP, closes over TCP */
};
struct zone_row {
	const char *name;
	unsigned type;
	const char *data;	/* an address, a name, or bytes: as the type wants */
	uint32_t ttl;
	enum zone_act act;
};

enum { SERVER_HELD = 1024, SERVER_CONNS = 8 };

struct server_conn {
	struct source source;
	struct dns_server *server;
	uint8_t in[2 + 512];
	size_t len;
};
struct dns_server {
	struct loop *loop;
	struct source udp, tcp;
	struct server_conn conns[SERVER_CONNS];
	const struct zone_row *zone; /* ends with a row without a name */
	uint16_t port;
	unsigned queries, tcp_queries;
	char last[EGRESS_NAME_MAX + 1]; /* name of the last question, lower case */
	struct {
		uint8_t p[512];
		size_t len;
		struct sockaddr_in from;
	} held[SERVER_HELD];
	unsigned held_count;
};

struct server_out {
	uint8_t p[1024];
	size_t len;
};

static inline void server_put(struct server_out *o, const void *data, size_t len)
{
	assert_true(o->len + len <= sizeof(o->p));
	memcpy(o->p + o->len, data, len);
	o->len += len;
}

static inline void server_put16(struct server_out *o, unsigned v)
{
	server_put(o, (uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

static inline void server_put_name(struct server_out *o, const char *text)
{
	struct dns_name n;

	assert_true(dns_name_set(&n, text));
	server_put(o, n.wire, n.len);
}

static inline void server_put_row(struct server_out *o, const struct zone_row *row)
{
	uint8_t addr[16];
	size_t at;

	server_put_name(o, row->name);
	server_put16(o, row->type);
	server_put16(o, DNS_CLASS_IN);
	server_put16(o, row->ttl >> 16);
	server_put16(o, row->ttl & 0xffff);
	at = o->len;
	server_put16(o, 0);
	if (row->type == DNS_A || row->type == DNS_AAAA) {
		assert_int_equal(inet_pton(row->type == DNS_A ? AF_INET : AF_INET6, row->data, addr), 1);
		server_put(o, addr, row->type == DNS_A ? 4 : 16);
	} else if (row->type == DNS_CNAME) {
		server_put_name(o, row->data);
	} else if (row->type == DNS_MX) {
		server_put16(o, 10);
		server_put_name(o, row->data);
	} else {
		server_put(o, row->data, strlen(row->data));
	}
	o->p[at] = (uint8_t)((o->len - at - 2) >> 8);
	o->p[at + 1] = (uint8_t)(o->len - at - 2 + (row->act == LYING_LENGTH ? 1 : 0));
}

static inline void server_put_soa(struct server_out *o)
{
	server_put_name(o, "test");
	server_put16(o, DNS_SOA);
	server_put16(o, DNS_CLASS_IN);
	server_put(o, "\0\0\0\74" "\0\26" "\0\0" "\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\74", 28);
}

/* The row that decides for (name, type): of the type, an alias, or an act of any type. */
static const struct zone_row *server_row(const struct zone_row *zone, const char *name, unsigned type)
{
	for (const struct zone_row *r = zone; r->name; r++)
		if (strcasecmp(r->name, name) == 0 &&
		    (r->type == type || r->type == DNS_CNAME || r->type == 0))
			return r;
	return NULL;
}

static inline bool server_has_name(const struct zone_row *zone, const char *name)
{
	for (const struct zone_row *r = zone; r->name; r++)
		if (strcasecmp(r->name, name) == 0)
			return true;
	return false;
}

static inline void server_head(struct server_out *o, const struct dns_query *q, unsigned rcode)
{
	o->len = 0;
	server_put16(o, q->id);
	server_put16(o, 0x8180 | rcode);
	server_put(o, "\0\1\0\0\0\0\0\0", 8);
	server_put(o, q->name.wire, q->name.len);
	server_put16(o, q->type);
	server_put16(o, q->class);
}

/* The answer as the table has it; aliases are not followed: that is asked for again. */
static inline void server_compose(struct server_out *o, const struct zone_row *zone,
			   const struct dns_query *q, const struct zone_row *row)
{
	unsigned n = 0;
	char name[EGRESS_NAME_MAX + 1];

	assert_true(dns_name_text(name, &q->name));
	server_head(o, q, row || server_has_name(zone, name) ? DNS_NOERROR : DNS_NXDOMAIN);
	for (const struct zone_row *r = row ? zone : NULL; r && r->name; r++)
		if (r->type == row->type && strcasecmp(r->name, name) == 0) {
			server_put_row(o, r);
			n++;
		}
	o->p[7] = (uint8_t)n;
	if (n)
		return;
	server_put_soa(o);
	o->p[9] = 1;
}

static inline void server_send(struct dns_server *s, const struct server_out *o, const struct sockaddr_in *to)
{
	assert_int_equal(sendto(s->udp.fd, o->p, o->len, 0, (const struct sockaddr *)to, sizeof(*to)),
			 (ssize_t)o->len);
}

/* What a forger would send: another address, with one thing wrong. */
static inline void server_forge(struct dns_server *s, const struct dns_query *q, enum zone_act act,
			 const struct sockaddr_in *to)
{
	static const struct zone_row lie[] = { { "x", DNS_A, "6.6.6.6", 300, PLAIN } };
	owned_fd int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct dns_query forged = *q;
	struct zone_row row = lie[0];
	struct server_out o;
	char name[EGRESS_NAME_MAX + 1];

	assert_true(dns_name_text(name, &q->name));
	if (act == FORGED_ID)
		forged.id ^= 1;
	for (size_t i = 0; act == FORGED_CASE && i < q->name.len; i++)
		if ((q->name.wire[i] | 0x20) >= 'a' && (q->name.wire[i] | 0x20) <= 'z')
			forged.name.wire[i] ^= 0x20;
	row.name = name;
	server_head(&o, &forged, DNS_NOERROR);
	server_put_row(&o, &row);
	o.p[7] = 1;
	if (act == FORGED_SOURCE)
		assert_int_equal(sendto(other, o.p, o.len, 0, (const struct sockaddr *)to, sizeof(*to)),
				 (ssize_t)o.len);
	else
		server_send(s, &o, to);
}

static inline void server_query(struct dns_server *s, struct dns_query *q, const uint8_t *p, size_t len)
{
	enum dns_rcode rcode;

	assert_int_equal(dns_read_query(q, &rcode, p, len), DNS_QUESTION);
	assert_true(dns_name_text(s->last, &q->name));
	for (char *c = s->last; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
	s->queries++;
}

static inline void server_answer_udp(struct dns_server *s, const uint8_t *p, size_t len,
			      const struct sockaddr_in *from)
{
	const struct zone_row *row;
	struct server_out o;
	struct dns_query q;

	server_query(s, &q, p, len);
	row = server_row(s->zone, s->last, q.type);
	if (row && row->act == SILENT) {
		assert_true(s->held_count < SERVER_HELD && len <= sizeof(s->held[0].p));
		memcpy(s->held[s->held_count].p, p, len);
		s->held[s->held_count].len = len;
		s->held[s->held_count++].from = *from;
		return;
	}
	server_compose(&o, s->zone, &q, row);
	if (row && row->act == CODE)
		server_head(&o, &q, (unsigned)(row->data[0] - '0'));
	if (row && row->act == NO_EDNS && q.has_edns) {
		o = (struct server_out){ .p = { (uint8_t)(q.id >> 8), (uint8_t)q.id, 0x80, 1 }, .len = 12 };
	}
	if (row && (row->act == CUT || row->act == HANGS_UP)) {
		server_head(&o, &q, DNS_NOERROR);
		o.p[2] |= 2;
	}
	if (row && row->act >= FORGED_ID && row->act <= FORGED_SOURCE)
		server_forge(s, &q, row->act, from);
	server_send(s, &o, from);
}

/* Now the silent rows speak. */
static inline void server_release(struct dns_server *s)
{
	struct server_out o;
	struct dns_query q;
	enum dns_rcode rcode;
	char name[EGRESS_NAME_MAX + 1];

	for (unsigned i = 0; i < s->held_count; i++) {
		assert_int_equal(dns_read_query(&q, &rcode, s->held[i].p, s->held[i].len), DNS_QUESTION);
		assert_true(dns_name_text(name, &q.name));
		server_compose(&o, s->zone, &q, server_row(s->zone, name, q.type));
		/* who has given up since is no error of ours */
		sendto(s->udp.fd, o.p, o.len, 0, (struct sockaddr *)&s->held[i].from,
		       sizeof(s->held[i].from));
	}
	s->held_count = 0;
}

static inline void server_on_udp(struct source *source, uint32_t events)
{
	struct dns_server *s = PART_OF(source, struct dns_server, udp);
	struct sockaddr_in from;
	socklen_t size = sizeof(from);
	uint8_t p[512];
	ssize_t n = recvfrom(source->fd, p, sizeof(p), 0, (struct sockaddr *)&from, &size);

	(void)events;
	if (n >= 0) /* else: ICMP, from who has closed the socket */
		server_answer_udp(s, p, (size_t)n, &from);
}

static inline void server_on_conn(struct source *source, uint32_t events)
{
	struct server_conn *c = PART_OF(source, struct server_conn, source);
	struct dns_server *s = c->server;
	ssize_t n = recv(source->fd, c->in + c->len, sizeof(c->in) - c->len, 0);
	const struct zone_row *row;
	struct server_out o;
	struct dns_query q;
	uint8_t size[2];

	(void)events;
	c->len += n > 0 ? (size_t)n : 0;
	if (n > 0 && (c->len < 2 || c->len < 2 + (size_t)(c->in[0] << 8 | c->in[1])))
		return;
	if (n > 0) {
		server_query(s, &q, c->in + 2, c->len - 2);
		s->tcp_queries++;
		row = server_row(s->zone, s->last, q.type);
		server_compose(&o, s->zone, &q, row);
		size[0] = (uint8_t)(o.len >> 8);
		size[1] = (uint8_t)o.len;
		if (row && row->act == HANGS_UP)
			o.len = 3; /* in the middle of it */
		assert_int_equal(send(source->fd, size, 2, MSG_NOSIGNAL), 2);
		assert_int_equal(send(source->fd, o.p, o.len, MSG_NOSIGNAL), (ssize_t)o.len);
	}
	loop_remove(s->loop, source);
	close(source->fd);
	source->fd = -1;
}

static inline void server_on_tcp(struct source *source, uint32_t events)
{
	struct dns_server *s = PART_OF(source, struct dns_server, tcp);
	struct server_conn *c = s->conns;

	(void)events;
	while (c < s->conns + SERVER_CONNS && c->server && c->source.fd >= 0)
		c++;
	assert_true(c < s->conns + SERVER_CONNS);
	*c = (struct server_conn){ .source = { accept4(source->fd, NULL, NULL, SOCK_CLOEXEC),
					       server_on_conn }, .server = s };
	assert_true(c->source.fd >= 0);
	assert_int_equal(loop_add(s->loop, &c->source, EPOLLIN), 0);
}

static inline int server_socket(int type, uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(*port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), mib = 1 << 20;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &mib, sizeof(mib));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		return -1;
	}
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static inline void server_up(struct dns_server *s, struct loop *loop, const struct zone_row *zone)
{
	int udp, tcp = -1;

	memset(s, 0, sizeof(*s));
	for (int i = 0; i < 100 && tcp < 0; i++) { /* another program may have the port for TCP */
		s->port = 0;
		udp = server_socket(SOCK_DGRAM, &s->port);
		assert_true(udp >= 0);
		tcp = server_socket(SOCK_STREAM, &s->port);
		if (tcp < 0)
			close(udp);
	}
	assert_true(tcp >= 0);
	assert_int_equal(listen(tcp, 64), 0);
	s->loop = loop;
	s->zone = zone;
	s->udp = (struct source){ udp, server_on_udp };
	s->tcp = (struct source){ tcp, server_on_tcp };
	assert_int_equal(loop_add(loop, &s->udp, EPOLLIN), 0);
	assert_int_equal(loop_add(loop, &s->tcp, EPOLLIN), 0);
}

static inline void server_down(struct dns_server *s)
{
	loop_remove(s->loop, &s->udp);
	loop_remove(s->loop, &s->tcp);
	close(s->udp.fd);
	close(s->tcp.fd);
	for (int i = 0; i < SERVER_CONNS; i++) {
		if (!s->conns[i].server || s->conns[i].source.fd < 0)
			continue;
		loop_remove(s->loop, &s->conns[i].source);
		close(s->conns[i].source.fd);
	}
}

static inline void server_configure(struct egress_config *c, const struct dns_server *s)
{
	c->servers[c->server_count++] = (struct egress_server){ .family = 4, .bytes = { 127, 0, 0, 1 },
								.port = s->port };
}

/* --- the loop, until something is so --------------------------------------------------------- */

struct watchdog {
	struct timer timer;
	struct loop *loop;
	bool barked;
};

static inline void watchdog_fire(struct timer *t)
{
	struct watchdog *w = PART_OF(t, struct watchdog, timer);

	w->barked = true;
	w->loop->stop = true;
}

/* Until somebody sets loop->stop. A minute is for a loaded machine, nothing waits for it. */
static inline void run_loop(struct loop *loop)
{
	struct watchdog w = { .timer.fire = watchdog_fire, .loop = loop };

	loop->stop = false;
	timer_set(loop, &w.timer, loop_now() + 60000000);
	assert_int_equal(loop_run(loop), 0);
	timer_clear(&w.timer);
	assert_false(w.barked);
}

struct until {
	struct timer timer;
	struct loop *loop;
	bool (*so)(void *arg);
	void *arg;
};

static inline void until_fire(struct timer *t)
{
	struct until *u = PART_OF(t, struct until, timer);

	u->loop->stop = u->so(u->arg);
	if (!u->loop->stop)
		timer_set(u->loop, t, loop_now() + 2000);
}

/* For what stops no loop by itself. */
static inline void run_until(struct loop *loop, bool (*so)(void *arg), void *arg)
{
	struct until u = { .timer.fire = until_fire, .loop = loop, .so = so, .arg = arg };

	timer_set(loop, &u.timer, loop_now());
	run_loop(loop);
	timer_clear(&u.timer);
}

#endif
