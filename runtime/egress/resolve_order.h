/* In which order the addresses of a name are tried: RFC 6724 and 8305, as far as needed. */
#ifndef EGRESS_RESOLVE_ORDER_H
#define EGRESS_RESOLVE_ORDER_H

#include "policy/egress.h"

/* IPv6 first and in turn, if the host has a route to the first of them; else all of IPv4
 * first. At most LOOKUP_ADDRS; returns how many. */
unsigned order_addrs(struct egress_addr *to, const struct egress_addr *v6, unsigned n6,
		     const struct egress_addr *v4, unsigned n4);
/* The same for a list of both. */
unsigned order_mixed(struct egress_addr *addrs, unsigned count);

#endif
