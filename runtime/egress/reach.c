/*
 * reach.c - the way to a destination: resolve, judge each address, connect, perhaps through
 * a proxy of the host's. Runs in the supervisor.
 *
 * Addresses are tried as RFC 8305 has it ("happy eyeballs"): a dead one costs a quarter of a
 * second, and the first that connects is taken.
 *
 * Must:    judge every address just before it is connected to, so that a name that leads to
 *          a private address (DNS rebinding) is refused whatever it led to before.
 * Mustn't: block. Every answer comes by the loop, also a failure that is known at once.
 */
#include "runtime/egress/tcp.h"

#include "base/cleanup.h"
#include "runtime/egress/sockaddr.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	DELAY_US = 250000,	 /* RFC 8305, 5: after that the next address is tried as well */
	NEXT_US = 2000000,	 /* one may take so long while others wait for its place */
	LAST_US = 130000000,	 /* the last one: about as long as the kernel tries itself */
	DIALOG_US = 30000000,	 /* with a proxy */
	MORE_TRIES = 256,	 /* of all connections: main.c leaves descriptors for them */
};

void reset_fd(int fd)
{
	const struct linger at_once = { .l_onoff = 1 };

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static const char *name_of(const struct conn *c)
{
	return c->name[0] ? c->name : NULL;
}

struct egress_dest conn_dest(const struct conn *c, const struct egress_addr *addr)
{
	return (struct egress_dest){ .name = name_of(c), .addr = addr, .proto = EGRESS_TCP,
				     .port = c->port };
}

/* --- the end of the way ------------------------------------------------------------------ */

static void finish(struct conn *c, enum reach how)
{
	timer_clear(&c->timer);
	if (how == REACH_OPEN && !conn_is_allowed(c))
		how = REACH_DENIED; /* by rules that came meanwhile */
	c->is_there = how == REACH_OPEN;
	if (how != REACH_OPEN && how != REACH_DENIED && c->is_counted)
		ledger_failed(&c->e->ledger, c->host);
	c->reached(c, how);
	if (how != REACH_OPEN)
		conn_drop(c);
}

/* Failures that are known at once are told by the next turn of the loop. */
static void finish_later(struct timer *t)
{
	struct conn *c = PART_OF(t, struct conn, timer);

	finish(c, c->worst);
}

static void fail_soon(struct conn *c, enum reach how)
{
	c->worst = how;
	c->timer.fire = finish_later;
	timer_set(&c->e->loop, &c->timer, c->e->loop.now_us);
}

/* Of several addresses the box is told what says most: that of one a rule, or the host
 * itself, does not want it matters more than that another has no route. */
static void note_failure(struct conn *c, enum reach how)
{
	static const int rank[] = {
		[REACH_UNREACHABLE] = 0, [REACH_TIMEOUT] = 1, [REACH_NO_ROOM] = 2,
		[REACH_REFUSED] = 3, [REACH_DENIED] = 4,
	};

	if (rank[how] > rank[c->worst])
		c->worst = how;
}

static enum reach reach_of(int os_errno)
{
	switch (os_errno) {
	case ECONNREFUSED:
	case ECONNRESET:
		return REACH_REFUSED;
	case ETIMEDOUT:
		return REACH_TIMEOUT;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		return REACH_NO_ROOM;
	default:
		return REACH_UNREACHABLE;
	}
}

/* --- the proxy ----------------------------------------------------------------------------- */

static const char *config_text(const struct egress_config *config, uint32_t offset)
{
	return offset ? (const char *)config + offset : NULL;
}

static bool say(int fd, struct buf *text)
{
	bool ok = !text->failed &&
		  (!text->len ||
		   send(fd, text->data, text->len, MSG_NOSIGNAL) == (ssize_t)text->len);

	buf_free(text);
	return ok;
}

static void hear_proxy(struct source *s, uint32_t events)
{
	struct conn *c = PART_OF(s, struct conn, side[1].in);
	struct buf answer = BUF_INIT(4096);
	uint8_t data[4096];
	ssize_t n = recv(s->fd, data, sizeof(data), MSG_PEEK);
	size_t taken;

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		finish(c, REACH_REFUSED);
		return;
	}
	taken = proxy_hear(&c->dialog, data, (size_t)n, &answer);
	/* What follows the dialog is the server's, and stays for the relay. */
	if (!say(s->fd, &answer) || c->dialog.state == PROXY_REFUSED ||
	    recv(s->fd, NULL, taken, MSG_TRUNC) != (ssize_t)taken) {
		finish(c, REACH_REFUSED);
		return;
	}
	if (c->dialog.state != PROXY_OPEN)
		return;
	loop_remove(&c->e->loop, s);
	finish(c, REACH_OPEN);
}

static void talk_to_proxy(struct conn *c)
{
	const struct egress_config *config = c->e->config;
	struct egress_addr addr = egress_addr_normal(c->addr);
	char text[EGRESS_ADDR_TEXT];
	const struct proxy_ask ask = {
		.kind = (enum egress_proxy_kind)config->proxy.kind,
		.user = config_text(config, config->proxy.user),
		.password = config_text(config, config->proxy.password),
		.host = c->name[0] ? c->name : egress_addr_text(&addr, text), .port = c->port,
	};
	struct buf first = BUF_INIT(4096);

	proxy_begin(&c->dialog, &ask, &first);
	c->is_talking = true;
	c->side[1].in.ready = hear_proxy;
	timer_set(&c->e->loop, &c->timer, loop_now() + DIALOG_US);
	if (!say(c->side[1].in.fd, &first) || c->dialog.state == PROXY_REFUSED ||
	    loop_add(&c->e->loop, &c->side[1].in, EPOLLIN) < 0)
		finish(c, REACH_REFUSED);
}

/* --- attempts -------------------------------------------------------------------------------- */

static void try_next(struct conn *c);

/* Its descriptor; the place is free. */
static int end_attempt(struct attempt *t)
{
	struct conn *c = t->conn;

	loop_remove(&c->e->loop, &t->source);
	t->conn = NULL;
	c->trying--;
	if (c->trying)
		c->e->more_tries--;
	return take_fd(t->source.fd);
}

static void stop_attempts(struct conn *c)
{
	for (int i = 0; i < TRIES; i++)
		if (c->tries[i].conn)
			close(end_attempt(&c->tries[i]));
}

/* Of those under way; there is one. */
static struct attempt *oldest(struct conn *c)
{
	struct attempt *found = NULL;

	for (int i = 0; i < TRIES; i++) {
		struct attempt *t = &c->tries[i];

		if (t->conn && (!found || t->begun_us < found->begun_us))
			found = t;
	}
	return found;
}

static struct attempt *free_attempt(struct conn *c)
{
	for (int i = 0; i < TRIES; i++)
		if (!c->tries[i].conn)
			return &c->tries[i];
	return NULL;
}

/* A small number of descriptors is better used for connections. */
static bool has_room(const struct conn *c)
{
	uint32_t room = c->e->ledger.room / 2;

	if (!room || room > MORE_TRIES)
		room = MORE_TRIES;
	return !c->trying || (c->trying < TRIES && c->e->more_tries < room);
}

static void arrived(struct attempt *t)
{
	struct conn *c = t->conn;

	c->to = t->addr;
	c->side[1].in.fd = end_attempt(t);
	stop_attempts(c);
	if (c->is_proxied)
		talk_to_proxy(c);
	else
		finish(c, REACH_OPEN);
}

static void attempt_ready(struct source *s, uint32_t events)
{
	struct attempt *t = PART_OF(s, struct attempt, source);
	struct conn *c = t->conn;
	int error = 0;
	socklen_t len = sizeof(error);

	(void)events;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (!error) {
		arrived(t);
		return;
	}
	close(end_attempt(t));
	note_failure(c, reach_of(error));
	try_next(c);
}

/* A second connect(2) tells at once how a first one ended: to a host of this machine it has,
 * and the loop need not turn for it. 1: connected; 0: not yet; -1 with errno. */
static int has_connected(int fd, const struct sockaddr_storage *to, socklen_t len)
{
	if (connect(fd, (const struct sockaddr *)to, len) == 0 || errno == EISCONN)
		return 1;
	return errno == EALREADY || errno == EINPROGRESS ? 0 : -1;
}

/* 1: connected; 0: under way; -1 with errno. */
static int begin_connect(struct attempt *t, uint16_t port)
{
	struct conn *c = t->conn;
	struct sockaddr_storage to;
	socklen_t len = sockaddr_of(&to, t->addr, port, 0);
	const int on = 1;
	int r;

	setsockopt(t->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(t->source.fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS)
		return -1;
	r = c->is_proxied ? 0 : has_connected(t->source.fd, &to, len);
	return r ? r : loop_add(&c->e->loop, &t->source, EPOLLOUT);
}

/* As begin_connect(). There is a place. */
static int begin_attempt(struct conn *c, const struct egress_addr *addr)
{
	uint16_t port = c->is_proxied ? c->e->config->proxy.port : c->port;
	int family = addr->family == 4 ? AF_INET : AF_INET6, saved, r;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct attempt *t = free_attempt(c);

	if (fd < 0)
		return -1;
	*t = (struct attempt){ { fd, attempt_ready }, c, addr, loop_now() };
	if (c->trying)
		c->e->more_tries++;
	c->trying++;
	r = begin_connect(t, port);
	if (r < 0) {
		saved = errno;
		close(end_attempt(t));
		errno = saved;
	} else if (r > 0) {
		arrived(t);
	}
	return r;
}

/* The proxy is the host's own choice: what the rules say of its address does not matter. */
static bool may_use(struct conn *c, const struct egress_addr *addr)
{
	struct egress_dest d = conn_dest(c, addr);
	struct egress_verdict v;

	if (c->is_proxied)
		return true;
	v = egress_judge(c->e->rules, &d);
	if (names_is_fake(addr))
		v = (struct egress_verdict){ .allowed = false, .why = EGRESS_BY_PRIVATE, .rule = -1 };
	if (!v.allowed && c->worst != REACH_DENIED)
		ledger_deny(&c->e->ledger, &d, &v, NULL);
	if (!v.allowed)
		note_failure(c, REACH_DENIED);
	return v.allowed;
}

/* --- when ------------------------------------------------------------------------------------- */

static void time_is_up(struct timer *timer)
{
	struct conn *c = PART_OF(timer, struct conn, timer);

	if (c->is_talking) {
		finish(c, REACH_TIMEOUT);
		return;
	}
	if (c->next_addr == c->lookup.count) {
		stop_attempts(c);
		note_failure(c, REACH_TIMEOUT);
	} else if (!has_room(c) && oldest(c)->begun_us + NEXT_US <= loop_now()) {
		close(end_attempt(oldest(c)));
		note_failure(c, REACH_TIMEOUT);
	}
	try_next(c);
}

/* For an answer, or for the time of the next address. */
static void await(struct conn *c)
{
	uint64_t latest = 0, at;

	for (int i = 0; i < TRIES; i++)
		if (c->tries[i].conn && c->tries[i].begun_us > latest)
			latest = c->tries[i].begun_us;
	if (c->next_addr == c->lookup.count)
		at = latest + LAST_US;
	else
		at = has_room(c) ? latest + DELAY_US : oldest(c)->begun_us + NEXT_US;
	c->timer.fire = time_is_up;
	timer_set(&c->e->loop, &c->timer, at);
}

static void try_next(struct conn *c)
{
	while (c->next_addr < c->lookup.count && has_room(c)) {
		const struct egress_addr *addr = &c->lookup.addrs[c->next_addr++];
		int r;

		if (!may_use(c, addr))
			continue;
		r = begin_attempt(c, addr);
		if (r > 0)
			return; /* `c` may be gone */
		if (r == 0)
			break;
		note_failure(c, reach_of(errno));
	}
	if (c->trying)
		await(c);
	else
		fail_soon(c, c->worst);
}

static void resolved(struct lookup *l, enum lookup_result r)
{
	struct conn *c = PART_OF(l, struct conn, lookup);

	c->is_asking = false;
	if (r == LOOKUP_TIMEOUT)
		note_failure(c, REACH_TIMEOUT);
	if (r != LOOKUP_FOUND)
		l->count = 0;
	try_next(c);
}

/* --- beginning -------------------------------------------------------------------------------- */

static int ask(struct conn *c, const char *name)
{
	if (!egress_name_canonical(c->lookup.name, name, strlen(name)))
		return -1;
	c->lookup.done = resolved;
	if (resolver_ask(c->e->resolver, &c->lookup) < 0)
		return -1;
	c->is_asking = true;
	return 0;
}

static void begin_literal(struct timer *t)
{
	try_next(PART_OF(t, struct conn, timer));
}

static int begin(struct conn *c)
{
	const struct egress_config *config = c->e->config;
	struct egress_addr proxy;
	const char *host = config_text(config, config->proxy.host);

	c->worst = REACH_UNREACHABLE;
	c->is_proxied = config->proxy.kind != PROXY_NONE;
	if (!c->is_proxied && c->name[0])
		return ask(c, c->name);
	if (!c->is_proxied)
		c->lookup.addrs[0] = c->addr;
	else if (addr_of_text(&proxy, host))
		c->lookup.addrs[0] = proxy;
	else
		return ask(c, host);
	c->lookup.count = 1;
	c->timer.fire = begin_literal;
	timer_set(&c->e->loop, &c->timer, c->e->loop.now_us);
	return 0;
}

void conn_stop_trying(struct conn *c)
{
	if (c->is_asking)
		resolver_cancel(c->e->resolver, &c->lookup);
	c->is_asking = false;
	timer_clear(&c->timer);
	stop_attempts(c);
}

/* Else what was looked up and connected to for the one would be taken for the other: a
 * destination would be sent the proxy's password. */
static void begin_again(struct conn *c)
{
	conn_stop_trying(c);
	if (c->side[1].in.fd >= 0) {
		loop_remove(&c->e->loop, &c->side[1].in);
		close(take_fd(c->side[1].in.fd));
	}
	explicit_bzero(&c->dialog, sizeof(c->dialog));
	c->is_talking = false;
	c->lookup.count = c->next_addr = 0;
	if (begin(c) < 0)
		fail_soon(c, REACH_NO_ROOM);
}

void conn_proxy_changed(struct egress *e)
{
	for (struct conn *c = e->conns; c; c = c->next)
		if (!c->is_there)
			begin_again(c);
}

struct conn *conn_begin(struct egress *e, const struct egress_dest *d, conn_reached *reached,
			void *owner)
{
	struct host_entry *host = ledger_host(&e->ledger, d);
	struct conn *c = calloc(1, sizeof(*c));

	if (!c || !ledger_open(&e->ledger, host)) {
		free(c);
		return NULL;
	}
	*c = (struct conn){ .e = e, .owner = owner, .reached = reached, .port = d->port,
			    .host = host, .is_counted = true,
			    .side = { { .in.fd = -1, .hold = BUF_INIT(HOLD_MAX) },
				      { .in.fd = -1, .hold = BUF_INIT(HOLD_MAX) } } };
	if (d->name)
		memcpy(c->name, d->name, strlen(d->name) + 1);
	if (d->addr)
		c->addr = *d->addr;
	c->next = e->conns;
	c->self = &e->conns;
	if (c->next)
		c->next->self = &c->next;
	e->conns = c;
	if (begin(c) == 0)
		return c;
	conn_drop(c);
	return NULL;
}
