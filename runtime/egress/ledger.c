/*
 * ledger.c - see ledger.h. Runs in the supervisor.
 *
 * Must:    stay within its tables whatever the payload asks for; hold a host that has no
 *          room in them to its cap all the same.
 * Mustn't: wait for a launcher that is slow or gone: the report is a second at most.
 */
#include "runtime/egress/ledger.h"

#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
	TEXT_MAX = 2048,	/* of a denial, each; longer ones are cut */
	REPORT_MS = 1000,	/* the launcher waits for two seconds */
};
_Static_assert(sizeof(struct egress_msg) + 3 * TEXT_MAX <= EGRESS_PACKET_MAX, "a denial fits");
_Static_assert(sizeof(struct egress_msg) + sizeof(struct host_entry) <= EGRESS_PACKET_MAX,
	       "a host fits");

void ledger_init(struct ledger *l, const struct egress_config *config,
		 const struct egress_rules *rules)
{
	memset(l, 0, sizeof(*l));
	l->config = config;
	l->rules = rules;
}

static void entry_free(struct denial_entry *e)
{
	free(e->what);
	free(e->rule);
	free(e->allow);
	*e = (struct denial_entry){ 0 };
}

void ledger_free(struct ledger *l)
{
	while (l->denial_count)
		entry_free(&l->denials[--l->denial_count]);
}

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* --- denials ------------------------------------------------------------------------ */

static bool is_same(const struct denial_entry *e, const char *what, const char *rule,
		    const char *allow)
{
	return strcmp(e->what, what) == 0 && strcmp(e->rule, rule) == 0 &&
	       strcmp(e->allow, allow) == 0;
}

/* The texts are at most TEXT_MAX with their NUL. */
static void note(struct ledger *l, const char *what, const char *rule, const char *allow)
{
	struct denial_entry e;

	l->totals.denied++;
	for (uint32_t i = 0; i < l->denial_count; i++)
		if (is_same(&l->denials[i], what, rule, allow)) {
			l->denials[i].count++;
			return;
		}
	/* No memory leaves an empty text, with which the launcher could do nothing. */
	if (l->denial_count == LEDGER_DENIALS || !what[0]) {
		l->totals.denials_left_out++;
		return;
	}
	e = (struct denial_entry){ strdup(what), strdup(rule), strdup(allow), 1 };
	if (!e.what || !e.rule || !e.allow) {
		entry_free(&e);
		l->totals.denials_left_out++;
		return;
	}
	l->denials[l->denial_count++] = e;
}

void ledger_deny(struct ledger *l, const struct egress_dest *d, const struct egress_verdict *v,
		 const char *verb)
{
	struct buf what = BUF_INIT(TEXT_MAX - 1), rule = BUF_INIT(TEXT_MAX - 1),
		   allow = BUF_INIT(TEXT_MAX - 1);

	egress_explain_denial(l->rules, d, v, verb,
			      &(struct egress_words){ &what, &rule, &allow });
	note(l, buf_text(&what), buf_text(&rule), buf_text(&allow));
	buf_free(&what);
	buf_free(&rule);
	buf_free(&allow);
}

static const char *cut(char to[TEXT_MAX], const char *text)
{
	snprintf(to, TEXT_MAX, "%s", text ? text : "");
	return to;
}

void ledger_deny_text(struct ledger *l, const char *what, const char *rule, const char *allow)
{
	char a[TEXT_MAX], b[TEXT_MAX], c[TEXT_MAX];

	note(l, cut(a, what), cut(b, rule), cut(c, allow));
}

/* --- caps ---------------------------------------------------------------------------- */

static const struct cap_row {
	enum egress_cap cap;
	const char *key;
	bool is_size;
} caps[] = {
	{ CAP_CONNECTIONS, "net.connections", false },
	{ CAP_NAMES, "net.names", false },
	{ CAP_BYTES, "net.bytes", true },
	{ CAP_HOST_BYTES, "net.host_bytes", true },
};

static uint64_t limit_of(const struct egress_config *c, enum egress_cap cap)
{
	switch (cap) {
	case CAP_CONNECTIONS:
		return c->max_connections;
	case CAP_NAMES:
		return c->max_names;
	case CAP_BYTES:
		return c->max_bytes;
	case CAP_HOST_BYTES:
		return c->max_host_bytes;
	}
	return 0;
}

static const char *amount(char text[32], const struct cap_row *row, uint64_t v)
{
	if (row->is_size)
		return num_size_text(v, text);
	snprintf(text, 32, "%llu", (unsigned long long)v);
	return text;
}

void ledger_cap(struct ledger *l, enum egress_cap cap, const char *verb, const char *name)
{
	char what[EGRESS_NAME_MAX + 64], rule[96], allow[96], text[32];
	const struct cap_row *row = caps;
	uint64_t limit = limit_of(l->config, cap);

	while (row->cap != cap)
		row++;
	snprintf(what, sizeof(what), "%s %s", verb, name ? name : "one more host");
	snprintf(rule, sizeof(rule), "%s=%s", row->key, amount(text, row, limit));
	snprintf(allow, sizeof(allow), "--set %s=%s", row->key,
		 amount(text, row, more(limit, limit)));
	l->totals.cap |= cap;
	note(l, what, rule, allow);
}

static uint64_t both_ways(uint64_t out, uint64_t in)
{
	return more(out, in);
}

static bool is_used_up(const struct ledger *l)
{
	uint64_t max = l->config->max_bytes;

	return max && both_ways(l->totals.bytes_out, l->totals.bytes_in) >= max;
}

/* What cannot be counted for itself has no bytes of its own: names are free to invent where
 * a wildcard is allowed, and would be a way around the cap. */
static bool is_host_used_up(const struct ledger *l, const struct host_entry *h)
{
	uint64_t max = l->config->max_host_bytes;

	return max && (!h || both_ways(h->report.bytes_out, h->report.bytes_in) >= max);
}

/* --- hosts ----------------------------------------------------------------------------- */

static const char *name_of(char text[EGRESS_ADDR_TEXT], const struct egress_dest *d)
{
	struct egress_addr a;

	if (d->name)
		return d->name;
	if (!d->addr)
		return "?";
	a = egress_addr_normal(*d->addr);
	return egress_addr_text(&a, text);
}

struct host_entry *ledger_host(struct ledger *l, const struct egress_dest *d)
{
	char text[EGRESS_ADDR_TEXT];
	const char *name = name_of(text, d);
	struct host_entry *h;

	for (uint32_t i = 0; i < l->host_count; i++)
		if (strcmp(l->hosts[i].name, name) == 0)
			return &l->hosts[i];
	if (l->host_count == LEDGER_HOSTS) {
		l->totals.hosts_left_out++; /* once for each time: the names are not kept */
		return NULL;
	}
	h = &l->hosts[l->host_count++];
	*h = (struct host_entry){ 0 };
	snprintf(h->name, sizeof(h->name), "%s", name);
	return h;
}

/* Refused before a descriptor is missing in the middle: a listener that cannot accept would
 * be ready for ever. */
static bool has_room(struct ledger *l, const char *name)
{
	char what[EGRESS_NAME_MAX + 16];

	if (!l->room || l->open < l->room)
		return true;
	snprintf(what, sizeof(what), "connect %s", name ? name : "another host");
	ledger_deny_text(l, what, "the caller's limit of open files (RLIMIT_NOFILE)", "");
	return false;
}

bool ledger_open(struct ledger *l, struct host_entry *h)
{
	const char *name = h ? h->name : NULL;

	if (!has_room(l, name))
		return false;
	if (l->open >= l->config->max_connections) {
		ledger_cap(l, CAP_CONNECTIONS, "connect", name);
		return false;
	}
	if (is_used_up(l)) {
		ledger_cap(l, CAP_BYTES, "connect", name);
		return false;
	}
	if (is_host_used_up(l, h)) {
		ledger_cap(l, CAP_HOST_BYTES, "connect", name);
		return false;
	}
	l->open++;
	l->totals.connections++;
	if (h)
		h->report.connections++;
	return true;
}

void ledger_close(struct ledger *l)
{
	if (l->open)
		l->open--;
}

bool ledger_bytes(struct ledger *l, struct host_entry *h, uint64_t out, uint64_t in)
{
	l->totals.bytes_out = more(l->totals.bytes_out, out);
	l->totals.bytes_in = more(l->totals.bytes_in, in);
	if (h) {
		h->report.bytes_out = more(h->report.bytes_out, out);
		h->report.bytes_in = more(h->report.bytes_in, in);
	}
	if (is_used_up(l)) {
		ledger_cap(l, CAP_BYTES, "transfer with", h ? h->name : NULL);
		return false;
	}
	if (is_host_used_up(l, h)) {
		ledger_cap(l, CAP_HOST_BYTES, "transfer with", h ? h->name : NULL);
		return false;
	}
	return true;
}

void ledger_failed(struct ledger *l, struct host_entry *h)
{
	l->totals.failed++;
	if (h)
		h->report.failed++;
}

/* --- the report -------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct sending {
	int fd;
	uint64_t until_ms;
};

static bool wait_for_room(const struct sending *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	uint64_t now = now_ms();

	if (now >= s->until_ms)
		return false;
	return poll(&p, 1, (int)(s->until_ms - now)) > 0 || errno == EINTR;
}

static int send_packet(const struct sending *s, enum egress_type type, uint64_t count,
		       const struct buf *body)
{
	struct egress_msg head = { .magic = EGRESS_MAGIC, .type = (uint16_t)type,
				   .count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count,
				   .size = (uint32_t)body->len };
	struct iovec iov[2] = { { &head, sizeof(head) }, { body->data, body->len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (body->failed)
		return -1;
	while (sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		if ((errno != EAGAIN && errno != EINTR) || !wait_for_room(s))
			return -1;
	return 0;
}

static int send_denial(const struct sending *s, const struct denial_entry *e)
{
	struct buf body = BUF_INIT(3 * TEXT_MAX);
	int r;

	buf_add(&body, e->what, strlen(e->what) + 1);
	buf_add(&body, e->rule, strlen(e->rule) + 1);
	buf_add(&body, e->allow, strlen(e->allow) + 1);
	r = send_packet(s, EGRESS_DENIAL, e->count, &body);
	buf_free(&body);
	return r;
}

static int send_host(const struct sending *s, const struct host_entry *h)
{
	struct buf body = BUF_INIT(sizeof(*h));
	int r;

	if (!h->report.connections && !h->report.failed)
		return 0; /* looked at, never reached for */
	buf_add(&body, &h->report, sizeof(h->report));
	buf_add(&body, h->name, strlen(h->name) + 1);
	r = send_packet(s, EGRESS_HOST, 1, &body);
	buf_free(&body);
	return r;
}

static int send_totals(const struct sending *s, const struct egress_totals *t)
{
	struct buf body = BUF_INIT(sizeof(*t));
	int r;

	buf_add(&body, t, sizeof(*t));
	r = send_packet(s, EGRESS_TOTAL, 1, &body);
	buf_free(&body);
	return r;
}

int ledger_report(struct ledger *l, int control)
{
	const struct sending s = { control, now_ms() + REPORT_MS };

	for (uint32_t i = 0; i < l->denial_count; i++)
		if (send_denial(&s, &l->denials[i]) < 0)
			return -1;
	for (uint32_t i = 0; i < l->host_count; i++)
		if (send_host(&s, &l->hosts[i]) < 0)
			return -1;
	return send_totals(&s, &l->totals);
}
