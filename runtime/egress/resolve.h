/*
 * Upstream lookups: the host's /etc/hosts, then its name servers, over UDP with TCP after
 * truncation. Asynchronous: a slow name holds up no other. Answers are cached for their
 * TTL (1 s to 5 min), failures for 2 s.
 */
#ifndef EGRESS_RESOLVE_H
#define EGRESS_RESOLVE_H

#include "policy/egress.h"
#include "runtime/egress/ask.h"
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

/*
 * As getaddrinfo(3) with "hosts: files dns" and no search list: a name is asked for as it
 * is. "localhost" and all below it is loopback and never asked for (RFC 6761). NULL: no
 * memory, or no randomness.
 */
struct resolver *resolver_new(struct loop *loop, const struct egress_config *config);
void resolver_free(struct resolver *r);	/* not within a callback of it */
/* @l->name and @l->done are set. 0, or -1: no memory, or too many at a time. */
int resolver_ask(struct resolver *r, struct lookup *l);
void resolver_cancel(struct resolver *r, struct lookup *l);
/* One question of another type, uncached; query.name, query.type and done are set. What it
 * costs is the caller's to bound. */
void resolver_relay(struct resolver *r, struct ask *a);
/* New configuration (servers, hosts): what is under way goes on with the old.
 * Without memory for it the old one stays. */
void resolver_configure(struct resolver *r, const struct egress_config *config);

#endif
