/*
 * One question to the host's name servers, in turn: over UDP from a fresh port with a fresh
 * id and mixed case, over TCP where the answer was cut. Ends with an answer that settles
 * the question, or when every server had `attempts` tries of `timeout_ms`: resolv.conf(5).
 */
#ifndef EGRESS_ASK_H
#define EGRESS_ASK_H

#include "runtime/egress/dns_wire.h"
#include "runtime/egress/loop.h"
#include "runtime/egress_wire.h"

struct ask_servers {
	struct egress_server v[EGRESS_SERVERS];
	uint8_t index[EGRESS_SERVERS];	/* v[i] is the owner's server number index[i] */
	unsigned count;
	uint32_t timeout_ms, attempts;
};
struct ask {
	/* @msg has r->answers_at. NULL: no server settled it; `timed_out` if the last one was
	 * silent. Never before ask_start() returned; the ask may be freed in it. */
	void (*done)(struct ask *a, const struct dns_result *r, const uint8_t *msg);
	struct dns_query query;		/* name and type are the caller's, the rest is ours */
	struct ask_servers servers;
	uint32_t silent;		/* bit index[i]: it did not answer in time */
	bool timed_out;
	/* the rest is ask.c's own */
	struct loop *loop;
	struct source source;
	struct timer timer;
	unsigned tries, server;
	bool over_tcp, ended;
	uint8_t out[2 + DNS_QUERY_MAX];
	size_t out_len, out_at;
	uint8_t *in;			/* over TCP: the length's two bytes, then the answer */
	size_t in_len, in_size;
};
/* done, query.name, query.type and servers are set, everything else is zero. */
void ask_start(struct ask *a, struct loop *loop);
void ask_cancel(struct ask *a);		/* also of one that never began, or is done */

#endif
