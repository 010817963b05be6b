/*
 * relay.c - two streams that are passed on, each at the pace of its reader
 * Runs in the supervisor.
 *
 * Must:    keep a half-closed connection half-closed; do a bounded amount for one connection
 *          before the next has its turn.
 * Mustn't: pass on a byte of the client that peek.c has not let through; take bytes out of a
 *          socket that the other side has no room for. They wait in the kernel, in the
 *          window of who sends: a box that reads nothing fills no memory of ours.
 */
#include "runtime/egress/tcp.h"

#include "base/cleanup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* One for all: nothing stays in it between two events. */
static uint8_t chunk[CHUNK];

enum outcome { GOES_ON, OVER, BROKEN, FORBIDDEN };

enum { LAST_CHUNKS = 16 };	/* of a side that is broken: what its kernel had */

static struct half *side_of(struct conn *c, int i)
{
	return &c->side[i];
}

static size_t held(const struct half *h)
{
	return h->hold.len - h->held_from;
}

/* --- what epoll has to watch for ----------------------------------------------------------- */

static uint32_t wanted(struct conn *c, int i)
{
	struct half *h = side_of(c, i), *other = side_of(c, !i);
	uint32_t events = 0;

	if (!h->eof && !held(h) && !h->is_blocked && !(i == 0 && peek_is_waiting(&c->peek)))
		events |= EPOLLIN;
	if (held(other) || other->is_blocked)
		events |= EPOLLOUT;
	return events;
}

/* Of an end epoll tells unasked, and again at every turn. Where nothing can be done about it
 * yet, because the other side has no room, once must do. */
static uint32_t watched(struct conn *c, int i)
{
	uint32_t events = wanted(c, i);

	return events ? events : EPOLLET;
}

/* Nothing more to read from it and nothing to say: epoll would tell of its end for ever. */
static bool is_done(struct conn *c, int i)
{
	return side_of(c, i)->eof && side_of(c, !i)->sent_eof;
}

static int arm(struct conn *c, int i)
{
	struct half *h = side_of(c, i);
	uint32_t events = watched(c, i);

	if (is_done(c, i)) {
		loop_remove(&c->e->loop, &h->in);
		return 0;
	}
	if (events == h->armed)
		return 0;
	h->armed = events;
	return loop_change(&c->e->loop, &h->in, events);
}

/* --- moving bytes --------------------------------------------------------------------------- */

/* To the side that is not i. What it does not take now is held. */
static enum outcome pass(struct conn *c, int i, const uint8_t *data, size_t len)
{
	struct half *h = side_of(c, i);
	ssize_t n = 0;

	if (!held(h) && len)
		n = send(side_of(c, !i)->in.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN)
		return BROKEN;
	if (n < 0)
		n = 0;
	buf_add(&h->hold, data + n, len - (size_t)n);
	return h->hold.failed ? BROKEN : GOES_ON;
}

static enum outcome flush(struct conn *c, int i)
{
	struct half *h = side_of(c, i);
	ssize_t n;

	if (!held(h))
		return GOES_ON;
	n = send(side_of(c, !i)->in.fd, h->hold.data + h->held_from, held(h),
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN ? GOES_ON : BROKEN;
	h->held_from += (size_t)n;
	if (held(h))
		return GOES_ON;
	/* A connection that is idle should not keep the memory of its busiest moment. */
	buf_free(&h->hold);
	h->hold = (struct buf)BUF_INIT(HOLD_MAX);
	h->held_from = 0;
	return GOES_ON;
}

static enum outcome pass_eof(struct conn *c, int i)
{
	struct half *h = side_of(c, i);

	if (!h->eof || held(h) || h->sent_eof || (i == 0 && peek_is_holding(&c->peek)))
		return GOES_ON;
	h->sent_eof = true;
	if (shutdown(side_of(c, !i)->in.fd, SHUT_WR) < 0 && errno != ENOTCONN)
		return BROKEN;
	return GOES_ON;
}

static bool count(struct conn *c, int i, size_t n)
{
	if (!c->is_counted)
		return true;
	return ledger_bytes(&c->e->ledger, c->host, i == 0 ? n : 0, i == 0 ? 0 : n);
}

static enum outcome from_client(struct conn *c, size_t n)
{
	struct buf out = BUF_INIT(HOLD_MAX);
	enum outcome r = FORBIDDEN;

	if (peek_client(c, chunk, n, &out) == 0 && !out.failed)
		r = pass(c, 0, (const uint8_t *)buf_text(&out), out.len);
	buf_free(&out);
	return r;
}

/* The server's answer may set free what the client has said meanwhile. */
static enum outcome show_server(struct conn *c, size_t n)
{
	struct buf out = BUF_INIT(HOLD_MAX);
	enum outcome r = GOES_ON;

	if (peek_is_open(&c->peek))
		return GOES_ON;
	if (peek_server(c, chunk, n, &out) < 0 || out.failed)
		r = FORBIDDEN;
	else if (out.len)
		r = pass(c, 0, (const uint8_t *)out.data, out.len);
	buf_free(&out);
	return r;
}

static enum outcome ended(struct conn *c, int i)
{
	struct buf out = BUF_INIT(HOLD_MAX);
	enum outcome r = FORBIDDEN;

	side_of(c, i)->eof = true;
	if (i == 1 || peek_is_open(&c->peek))
		return GOES_ON;
	if (peek_end(c, &out) == 0 && !out.failed)
		r = pass(c, 0, (const uint8_t *)buf_text(&out), out.len);
	buf_free(&out);
	return r;
}

/* What is judged has to be taken out of the socket first: little at a time. */
static enum outcome take_judged(struct conn *c)
{
	ssize_t n = recv(side_of(c, 0)->in.fd, chunk, JUDGED, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN ? GOES_ON : BROKEN;
	if (n == 0)
		return ended(c, 0);
	return count(c, 0, (size_t)n) ? from_client(c, (size_t)n) : FORBIDDEN;
}

/*
 * Look, send, and only then take as much as was sent: MSG_TRUNC throws bytes of a TCP socket
 * away without a copy (recv(2)).
 */
static enum outcome move(struct conn *c, int i)
{
	struct half *h = side_of(c, i);
	ssize_t n = recv(h->in.fd, chunk, sizeof(chunk), MSG_DONTWAIT | MSG_PEEK), sent;

	if (n < 0)
		return errno == EAGAIN ? GOES_ON : BROKEN;
	if (n == 0)
		return ended(c, i);
	sent = send(side_of(c, !i)->in.fd, chunk, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0 && errno != EAGAIN)
		return BROKEN;
	h->is_blocked = sent < n;
	if (sent <= 0)
		return GOES_ON;
	if (recv(h->in.fd, NULL, (size_t)sent, MSG_DONTWAIT | MSG_TRUNC) != sent)
		return BROKEN;
	if (!count(c, i, (size_t)sent))
		return FORBIDDEN;
	return i == 1 ? show_server(c, (size_t)sent) : GOES_ON;
}

static enum outcome take(struct conn *c, int i)
{
	struct half *h = side_of(c, i);

	if (h->eof || held(h) || h->is_blocked || (i == 0 && peek_is_waiting(&c->peek)))
		return GOES_ON;
	return i == 0 && !peek_is_open(&c->peek) ? take_judged(c) : move(c, i);
}

/* The side that is not i has room again. */
static enum outcome resume(struct conn *c, int i)
{
	enum outcome r = flush(c, i);

	side_of(c, i)->is_blocked = false;
	return r == GOES_ON ? take(c, i) : r;
}

static bool is_over(struct conn *c)
{
	/* What waits for an answer of the server's waits in vain. */
	bool is_hopeless = c->side[1].eof && peek_is_waiting(&c->peek);

	return is_hopeless || (c->side[0].sent_eof && c->side[1].sent_eof);
}

static enum outcome turn(struct conn *c, int i, uint32_t events)
{
	enum outcome r = GOES_ON;

	if (events & EPOLLERR)
		return BROKEN;
	if (events & EPOLLOUT)
		r = resume(c, !i);
	if (r == GOES_ON && events & (EPOLLIN | EPOLLHUP))
		r = take(c, i);
	for (int k = 0; k < 2 && r == GOES_ON; k++)
		r = pass_eof(c, k);
	if (r == GOES_ON && is_over(c))
		return OVER;
	for (int k = 0; k < 2 && r == GOES_ON; k++)
		if (arm(c, k) < 0)
			r = BROKEN;
	return r;
}

/* --- life --------------------------------------------------------------------------------------- */

static void unlink_conn(struct conn *c)
{
	if (!c->self)
		return;
	*c->self = c->next;
	if (c->next)
		c->next->self = c->self;
	c->self = NULL;
}

static void end(struct conn *c, void (*close_one)(int fd))
{
	conn_over *over = c->over;
	void *owner = c->owner;

	conn_stop_trying(c);
	for (int i = 0; i < 2; i++) {
		struct half *h = side_of(c, i);

		if (h->in.fd >= 0) {
			loop_remove(&c->e->loop, &h->in);
			if (!(over && i == 0)) /* a published port's socket is used again */
				close_one(h->in.fd);
		}
		buf_free(&h->hold);
	}
	if (c->is_counted)
		ledger_close(&c->e->ledger);
	peek_free(&c->peek);
	unlink_conn(c);
	free(c);
	if (over)
		over(owner, close_one == reset_fd);
}

static void just_close(int fd)
{
	close(fd);
}

void conn_drop(struct conn *c)
{
	end(c, reset_fd);
}

/* What the kernel has of a side can be read after a reset as well: a server that refuses a
 * long request in its middle says why, and resets. */
static void pass_last_words(struct conn *c, int i)
{
	struct half *h = side_of(c, i);

	for (int n = 0; n < LAST_CHUNKS && !h->eof && !h->is_blocked; n++)
		if (move(c, i) != GOES_ON)
			return;
	pass_eof(c, i);
}

static void ready(struct conn *c, int i, uint32_t events)
{
	enum outcome r = turn(c, i, events);

	if (r == BROKEN)
		pass_last_words(c, 1);
	if (r == BROKEN && !c->is_counted)
		pass_last_words(c, 0);
	if (r != GOES_ON)
		end(c, r == OVER ? just_close : reset_fd);
}

static void box_ready(struct source *s, uint32_t events)
{
	ready(PART_OF(s, struct conn, side[0].in), 0, events);
}

static void outside_ready(struct source *s, uint32_t events)
{
	ready(PART_OF(s, struct conn, side[1].in), 1, events);
}

static void begin_streams(struct conn *c)
{
	for (int i = 0; i < 2; i++) {
		struct half *h = side_of(c, i);

		h->in.ready = i ? outside_ready : box_ready;
		h->armed = watched(c, i);
		if (loop_add(&c->e->loop, &h->in, h->armed) < 0) {
			conn_drop(c);
			return;
		}
	}
}

/* Who writes little by little has decided so itself. */
static void pass_at_once(int fd)
{
	const int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void conn_relay(struct conn *c, int fd)
{
	c->side[0].in.fd = fd;
	pass_at_once(fd);
	peek_begin(c);
	begin_streams(c);
}

int conn_join(struct egress *e, int box, int outside, conn_over *over, void *owner)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -1;
	*c = (struct conn){ .e = e, .owner = owner, .over = over,
			    .side = { { .in.fd = box, .hold = BUF_INIT(HOLD_MAX) },
				      { .in.fd = outside, .hold = BUF_INIT(HOLD_MAX) } } };
	pass_at_once(box);
	pass_at_once(outside);
	begin_streams(c);
	return 0;
}

/* --- new rules ------------------------------------------------------------------------------------ */

bool conn_is_allowed(const struct conn *c)
{
	struct egress_dest d;

	if (!c->is_counted)
		return true; /* a published port */
	d = conn_dest(c, !c->is_proxied ? c->to : c->name[0] ? NULL : &c->addr);
	return egress_judge(c->e->rules, &d).allowed;
}

void conn_rejudge_all(struct egress *e)
{
	struct conn *c = e->conns, *next;

	for (; c; c = next) {
		next = c->next;
		if (c->side[0].in.fd >= 0 && !conn_is_allowed(c))
			conn_drop(c);
	}
}
