/* Connections that arrive at a listener. */
#ifndef EGRESS_ACCEPT_H
#define EGRESS_ACCEPT_H

#include "runtime/egress/loop.h"

enum { ACCEPTS = 64 };		/* in one turn of the loop */

struct arrivals {
	struct source in;
	struct timer rest;
	struct loop *loop;
};
/* The listener is taken and must not block. 0, or -1 with errno. */
int arrivals_begin(struct arrivals *a, struct loop *loop, struct source in, uint32_t events);
/* The next one, not blocking; -1: none now. Where the kernel has no room for one the
 * listener rests a moment. */
int arrivals_next(struct arrivals *a);

#endif
