/*
 * egress_report.c - what the supervisor says of a box's network, as part of the record
 *
 * Runs in the launcher, once the box is dead.
 *
 * Must:    say null where the answer is missing or does not add up.
 * Mustn't: wait long for a program that read strangers' bytes.
 */
#include "runtime/egress.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/utf8.h"
#include "policy/egress.h"
#include "runtime/watch.h"

#include <stdio.h>
#include <string.h>

enum {
	REPORT_MS = 2000,
	LINES_MAX = 4096,	/* of each kind: the supervisor lists fewer */
};

static const char *const modes[] = {
	[NET_DISABLED] = "disabled", [NET_FILTERED] = "filtered", [NET_OPEN] = "open",
};

/* --- one packet ----------------------------------------------------------------- */

/* The strings of a denial: each within the packet, with its NUL, and UTF-8. */
static int take_denial(struct nsbox_result *r, const struct egress_packet *p)
{
	const char *text[3];
	size_t at = 0;

	for (int i = 0; i < 3; i++) {
		size_t n = strnlen(p->body + at, p->head.size - at);

		if (at + n >= p->head.size || !utf8_valid(p->body + at, n))
			return -1;
		text[i] = p->body + at;
		at += n + 1;
	}
	if (at != p->head.size || !text[0][0])
		return -1;
	return result_add_denial_times(r, "egress", (const char *const[]){ text[0],
				       text[1][0] ? text[1] : NULL, text[2][0] ? text[2] : NULL },
				       p->head.count);
}

static int take_host(struct network_use *u, const struct egress_packet *p)
{
	const char *name = p->body + sizeof(struct egress_host_report);
	struct network_host *v;
	size_t n;

	if (p->head.size <= sizeof(struct egress_host_report) || u->host_count >= LINES_MAX)
		return -1;
	n = p->head.size - sizeof(struct egress_host_report);
	if (strnlen(name, n) != n - 1 || !utf8_valid(name, n - 1))
		return -1;
	v = realloc(u->hosts, (u->host_count + 1) * sizeof(*v));
	if (!v)
		return NSBOX_E_NOMEM;
	u->hosts = v;
	v[u->host_count].name = strdup(name);
	if (!v[u->host_count].name)
		return NSBOX_E_NOMEM;
	memcpy(&v[u->host_count].use, p->body, sizeof(v->use));
	u->host_count++;
	return 0;
}

static int take_total(struct network_use *u, const struct egress_packet *p)
{
	if (p->head.size != sizeof(u->totals))
		return -1;
	memcpy(&u->totals, p->body, sizeof(u->totals));
	u->is_known = true;
	return 1;
}

/* 1: that was the last one; -1: it makes no sense; NSBOX_E_NOMEM. */
static int take(struct nsbox_result *r, const struct egress_packet *p, size_t *denials)
{
	switch (p->head.type) {
	case EGRESS_DENIAL:
		return (*denials)++ < LINES_MAX ? take_denial(r, p) : -1;
	case EGRESS_HOST:
		return take_host(&r->network, p);
	case EGRESS_TOTAL:
		return take_total(&r->network, p);
	case EGRESS_READY: /* of an update whose caller was no longer there to hear it */
		return 0;
	default:
		return -1;
	}
}

/* --- all of it ------------------------------------------------------------------- */

static int note(struct nsbox_result *r, const char *text)
{
	return strlist_add(&r->notes, text) < 0 ? NSBOX_E_NOMEM : 0;
}

static int unknown(struct nsbox_result *r, const char *why)
{
	network_use_forget(&r->network);
	return note(r, why);
}

static int hear_all(struct egress_link *l, struct nsbox_result *r)
{
	const struct egress_msg ask = { .magic = EGRESS_MAGIC, .type = EGRESS_REPORT };
	uint64_t until = now_us() + (uint64_t)REPORT_MS * 1000;
	struct egress_packet p;
	size_t denials = 0;
	int code = 0;

	if (egress_tell(l->sock, &ask, NULL, 0) < 0)
		return unknown(r, "nsbox-egress does not answer: what the network did is not known");
	while (code == 0) {
		if (egress_hear(l->sock, until, &p) < 0)
			return unknown(r, "the report of nsbox-egress broke off: what the network "
					  "did is not known in full");
		code = take(r, &p, &denials);
	}
	if (code == NSBOX_E_NOMEM)
		return code;
	if (code < 0)
		return unknown(r, "the report of nsbox-egress makes no sense: what the network did is "
				  "not known in full");
	return 0;
}

/* Its last words, where it had some. */
static int note_end(struct egress_link *l, struct nsbox_result *r)
{
	char line[EGRESS_TEXT + 128], text[EGRESS_TEXT];
	struct egress_packet p;
	const char *why = NULL;

	while (!why && egress_hear(l->sock, 0, &p) == 0)
		if (p.head.type == EGRESS_FAIL)
			why = egress_text(&p, text);
	snprintf(line, sizeof(line), "the egress supervisor ended; from then on the box had no network%s%s",
		 why ? ": " : "", why ? why : "");
	return unknown(r, line);
}

static int note_rest(const struct egress_link *l, struct nsbox_result *r)
{
	const struct egress_totals *t = &r->network.totals;
	char line[128];

	if (l->hosts_cut && note(r, "/etc/hosts is larger than 1 MiB: names behind that are not known "
				    "to the box") < 0)
		return NSBOX_E_NOMEM;
	if (!r->network.is_known || !(t->denials_left_out || t->hosts_left_out))
		return 0;
	snprintf(line, sizeof(line), "%llu more refusals and %llu more hosts of the network are not listed",
		 (unsigned long long)t->denials_left_out, (unsigned long long)t->hosts_left_out);
	return note(r, line);
}

int egress_report(struct egress_link *l, struct nsbox_result *r, const struct policy *p)
{
	int code;

	if (!egress_is_needed(p))
		return 0;
	r->network.mode = modes[p->net.mode];
	r->network.path = l->path;
	pthread_mutex_lock(&l->lock);
	l->is_serving = false; /* the socket is ours alone */
	pthread_mutex_unlock(&l->lock);
	if (l->sock < 0)
		return unknown(r, "no egress supervisor ran: what the network did is not known");
	code = l->is_ended ? note_end(l, r) : hear_all(l, r);
	if (code >= 0)
		code = note_rest(l, r);
	egress_end(l);
	return code;
}
