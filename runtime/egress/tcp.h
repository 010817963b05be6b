/*
 * One TCP connection of the box: first a destination that is judged and reached, then two
 * streams that are passed on.
 */
#ifndef EGRESS_TCP_H
#define EGRESS_TCP_H

#include "runtime/egress/ledger.h"
#include "runtime/egress/loop.h"
#include "runtime/egress/names.h"
#include "runtime/egress/peek.h"
#include "runtime/egress/proxy.h"
#include "runtime/egress/resolve.h"

#include <stddef.h>

enum {
	CHUNK = 512 * 1024,	/* moved at once, by a buffer that all share; 256 KiB are 7 % slower */
	JUDGED = 16 * 1024,	/* the same of what peek.c looks at */
	HOLD_MAX = 256 * 1024,	/* of the client's, judged and not yet taken by the server */
	TRIES = 4,		/* addresses that are being connected to, of one connection */
};

/* What all connections share. `rules` and `config` are the current ones. */
struct egress {
	struct loop loop;
	const struct egress_config *config;
	const struct egress_rules *rules;
	struct names *names;
	struct resolver *resolver;
	struct ledger ledger;
	struct conn *conns;	/* all that live */
	uint32_t more_tries;	/* of all connections, beyond the first of each */
};

enum reach { /* how the way to a destination ended */
	REACH_OPEN,
	REACH_DENIED,		/* an address of it is not allowed */
	REACH_REFUSED,		/* by the host that was asked */
	REACH_UNREACHABLE,	/* no such name, no route */
	REACH_TIMEOUT,
	REACH_NO_ROOM		/* of ours: descriptors, memory */
};

struct conn;
/* Told exactly once, never before conn_begin() returned. Unless REACH_OPEN the connection is
 * gone after it. */
typedef void conn_reached(struct conn *c, enum reach how);
/* The relay of conn_join() has ended; is_reset: not by both ends in their time. */
typedef void conn_over(void *owner, bool is_reset);

struct half {			/* one direction */
	struct source in;	/* read from here */
	struct buf hold;	/* read, and not yet taken by the other side */
	size_t held_from;
	bool eof, sent_eof;
	bool is_blocked;	/* the other side has no room: what is to read waits */
	uint32_t armed;		/* events that epoll watches for */
};

struct attempt {		/* one address that is being connected to */
	struct source source;
	struct conn *conn;	/* NULL: none */
	const struct egress_addr *addr; /* of the lookup */
	uint64_t begun_us;
};

struct conn {
	struct egress *e;
	struct conn *next, **self;
	void *owner;		/* of who began it */
	conn_reached *reached;
	conn_over *over;	/* of conn_join() */

	/* where to */
	char name[EGRESS_NAME_MAX + 1]; /* "": an address was asked for */
	struct egress_addr addr;
	uint16_t port;
	struct host_entry *host;
	bool is_counted;	/* ledger_open() said yes */

	/* the way there */
	struct lookup lookup;
	bool is_asking;
	bool is_proxied;	/* the lookup is the proxy's; as the configuration says until is_there */
	unsigned next_addr;
	struct attempt tries[TRIES];
	unsigned trying;
	enum reach worst;	/* of the addresses tried so far: what is told when none is left */
	struct timer timer;
	struct proxy_dialog dialog;
	bool is_talking;	/* to the proxy */
	const struct egress_addr *to; /* the one that it was */
	bool is_there;		/* REACH_OPEN was told */

	/* the streams: 0 the box, 1 the destination */
	struct half side[2];
	struct peek peek;
};

/* The destination of `d` has been judged without its address. NULL: no memory, or a cap
 * (noted). */
struct conn *conn_begin(struct egress *e, const struct egress_dest *d, conn_reached *reached,
			void *owner);
/* REACH_OPEN, and here is the box's socket (taken): the streams begin. */
void conn_relay(struct conn *c, int fd);
/* Both ends are reset; the connection is gone. */
void conn_drop(struct conn *c);
/* Do the present rules allow where it went? */
bool conn_is_allowed(const struct conn *c);
/* Rules have changed: reset what they deny now. */
void conn_rejudge_all(struct egress *e);
/* There is another proxy than before, or none any more: what is under way begins again. */
void conn_proxy_changed(struct egress *e);
/* Nothing is under way any more: no question, no timer, no attempt. */
void conn_stop_trying(struct conn *c);

/* A relay without a destination of rules: a published port. Takes both but gives `box` back:
 * @over is called, perhaps at once, when nobody uses it any more. -1: no memory (nothing was
 * taken). */
int conn_join(struct egress *e, int box, int outside, conn_over *over, void *owner);

struct egress_dest conn_dest(const struct conn *c, const struct egress_addr *addr);

/* Close so that the other end sees a reset. */
void reset_fd(int fd);

#endif
