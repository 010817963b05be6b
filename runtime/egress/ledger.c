/*
 * ledger.c - see ledger.h. Runs in the supervisor.
 *
 * Must:    stay bounded: the payload chooses how many names and denials there are.
 * Mustn't: wait for a launcher that does not read for longer than a moment.
 */
#include "runtime/egress/ledger.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TEXT_MAX = 1024, SEND_MS = 1000 };

void ledger_init(struct ledger *l, const struct egress_config *config,
		 const struct egress_rules *rules)
{
	memset(l, 0, sizeof(*l));
	l->config = config;
	l->rules = rules;
}

void ledger_free(struct ledger *l)
{
	for (uint32_t i = 0; i < l->denial_count; i++) {
		free(l->denials[i].what);
		free(l->denials[i].rule);
		free(l->denials[i].allow);
	}
	l->denial_count = 0;
}

/* --- hosts --------------------------------------------------------------------------------- */

struct host_entry *ledger_host(struct ledger *l, const struct egress_dest *d)
{
	char text[EGRESS_ADDR_TEXT];
	const char *name = d->name ? d->name : d->addr ? egress_addr_text(d->addr, text) : "?";
	struct host_entry *h;

	for (uint32_t i = 0; i < l->host_count; i++)
		if (strcmp(l->hosts[i].name, name) == 0)
			return &l->hosts[i];
	if (l->host_count == LEDGER_HOSTS) {
		l->totals.hosts_left_out++;
		return NULL;
	}
	h = &l->hosts[l->host_count++];
	snprintf(h->name, sizeof(h->name), "%s", name);
	return h;
}

/* --- denials --------------------------------------------------------------------------------- */

void ledger_deny_text(struct ledger *l, const char *what, const char *rule, const char *allow)
{
	struct denial_entry *e;

	l->totals.denied++;
	for (uint32_t i = 0; i < l->denial_count; i++)
		if (strcmp(l->denials[i].what, what) == 0 &&
		    strcmp(l->denials[i].rule, rule) == 0) {
			l->denials[i].count++;
			return;
		}
	if (l->denial_count == LEDGER_DENIALS) {
		l->totals.denials_left_out++;
		return;
	}
	e = &l->denials[l->denial_count];
	*e = (struct denial_entry){ strdup(what), strdup(rule), strdup(allow ? allow : ""), 1 };
	if (e->what && e->rule && e->allow) {
		l->denial_count++;
		return;
	}
	free(e->what);
	free(e->rule);
	free(e->allow);
	l->totals.denials_left_out++;
}

void ledger_deny(struct ledger *l, const struct egress_dest *d, const struct egress_verdict *v,
		 const char *verb)
{
	struct buf what = BUF_INIT(TEXT_MAX), rule = BUF_INIT(TEXT_MAX), allow = BUF_INIT(TEXT_MAX);

	egress_explain_denial(l->rules, d, v, verb, &what, &rule, &allow);
	ledger_deny_text(l, buf_text(&what), buf_text(&rule), buf_text(&allow));
	buf_free(&what);
	buf_free(&rule);
	buf_free(&allow);
}

/* --- caps -------------------------------------------------------------------------------------- */

static void deny_cap(struct ledger *l, enum egress_cap cap, const struct host_entry *h,
		     const char *key, uint64_t limit)
{
	char what[EGRESS_NAME_MAX + 64], rule[96], allow[96];

	l->totals.cap |= cap;
	snprintf(what, sizeof(what), "%s %s", cap == CAP_CONNECTIONS ? "connect" : "go on with",
		 h ? h->name : "another host");
	snprintf(rule, sizeof(rule), "%s=%llu", key, (unsigned long long)limit);
	snprintf(allow, sizeof(allow), "--set %s=%llu", key, (unsigned long long)limit * 2);
	ledger_deny_text(l, what, rule, allow);
}

bool ledger_open(struct ledger *l, struct host_entry *h)
{
	if (l->open >= l->config->max_connections) {
		deny_cap(l, CAP_CONNECTIONS, h, "net.connections", l->config->max_connections);
		return false;
	}
	if (l->config->max_bytes &&
	    l->totals.bytes_out + l->totals.bytes_in >= l->config->max_bytes) {
		deny_cap(l, CAP_BYTES, h, "net.bytes", l->config->max_bytes);
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
	const struct egress_config *c = l->config;

	l->totals.bytes_out += out;
	l->totals.bytes_in += in;
	if (h) {
		h->report.bytes_out += out;
		h->report.bytes_in += in;
	}
	if (c->max_bytes && l->totals.bytes_out + l->totals.bytes_in > c->max_bytes) {
		deny_cap(l, CAP_BYTES, h, "net.bytes", c->max_bytes);
		return false;
	}
	if (h && c->max_host_bytes &&
	    h->report.bytes_out + h->report.bytes_in > c->max_host_bytes) {
		deny_cap(l, CAP_HOST_BYTES, h, "net.host_bytes", c->max_host_bytes);
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

/* --- the report --------------------------------------------------------------------------------- */

static int send_packet(int fd, struct egress_msg head, const void *body, size_t len)
{
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)body, len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	head.magic = EGRESS_MAGIC;
	head.size = (uint32_t)len;
	for (;;) {
		if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno != EAGAIN || poll(&p, 1, SEND_MS) != 1)
			return -1;
	}
}

static int report_denial(const struct denial_entry *e, int fd)
{
	const char *const texts[] = { e->what, e->rule, e->allow };
	struct buf body = BUF_INIT(3 * TEXT_MAX + 3);
	int r;

	for (int i = 0; i < 3; i++)
		buf_add(&body, texts[i], strlen(texts[i]) + 1);
	r = body.failed ? -1
			: send_packet(fd, (struct egress_msg){ .type = EGRESS_DENIAL,
							       .count = (uint32_t)e->count },
				      body.data, body.len);
	buf_free(&body);
	return r;
}

static int report_host(const struct host_entry *h, int fd)
{
	struct buf body = BUF_INIT(sizeof(h->report) + sizeof(h->name));
	int r;

	buf_add(&body, &h->report, sizeof(h->report));
	buf_add(&body, h->name, strlen(h->name) + 1);
	r = body.failed ? -1 : send_packet(fd, (struct egress_msg){ .type = EGRESS_HOST },
					   body.data, body.len);
	buf_free(&body);
	return r;
}

int ledger_report(struct ledger *l, int control)
{
	for (uint32_t i = 0; i < l->denial_count; i++)
		if (report_denial(&l->denials[i], control) < 0)
			return -1;
	for (uint32_t i = 0; i < l->host_count; i++)
		if (report_host(&l->hosts[i], control) < 0)
			return -1;
	return send_packet(control, (struct egress_msg){ .type = EGRESS_TOTAL }, &l->totals,
			   sizeof(l->totals));
}
