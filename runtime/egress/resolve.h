/*
 * Upstream lookups: the host's /etc/hosts, then its name servers, over UDP with TCP after
 * truncation. Asynchronous: a slow name holds up no other. Answers are cached for their
 * TTL (1 s to 5 min), failures for 2 s.
 */
#ifndef EGRESS_RESOLVE_H
#define EGRESS_RESOLVE_H

#include "policy/egress.h"
#include "runtime/egress/loop.h"
#include "runtime/egress_wire.h"

enum { LOOKUP_ADDRS = 16 };
enum lookup_result { LOOKUP_FOUND, LOOKUP_NO_NAME, LOOKUP_NO_ADDRESS, LOOKUP_FAILED,
		     LOOKUP_TIMEOUT };
const char *lookup_text(enum lookup_result r);	/* "no such name" */

struct resolver;
struct lookup {
	/* Called exactly once unless cancelled, never before resolver_ask() returned. */
	void (*done)(struct lookup *l, enum lookup_result r);
	char name[EGRESS_NAME_MAX + 1];
	struct egress_addr addrs[LOOKUP_ADDRS]; /* A and AAAA in the order to try (RFC 6724: v6
				   first where the host has a route, interleaved) */
	unsigned count;
	struct lookup *next, **self;	/* of the resolver */
};

struct resolver *resolver_new(struct loop *loop, const struct egress_config *config);
void resolver_free(struct resolver *r);
/* @l->name and @l->done are set. 0, or -1: no memory, or too many at a time. */
int resolver_ask(struct resolver *r, struct lookup *l);
void resolver_cancel(struct resolver *r, struct lookup *l);
/* New configuration (servers, hosts): what is under way goes on with the old. */
void resolver_configure(struct resolver *r, const struct egress_config *config);

#endif
