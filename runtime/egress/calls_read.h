/* What the broker asks, as bytes. Pure. */
#ifndef EGRESS_CALLS_READ_H
#define EGRESS_CALLS_READ_H

#include "policy/egress.h"
#include "runtime/calls_wire.h"

#include <stddef.h>
#include <sys/socket.h>

struct calls_request {
	struct calls_ask head;
	const uint8_t *name, *data; /* of the packet; head.name_len and head.size */
	int fd;			/* the socket; -1: none. Whoever handles it may take it */
};
/* false: not well-formed. @has_fd: one descriptor came with it. */
bool calls_read(struct calls_request *out, const uint8_t *packet, size_t len, bool has_fd);

/* An address as the box wrote it, for a socket of this family (AF_INET, AF_INET6). */
struct calls_dest {
	struct egress_addr addr;	/* of the socket's family: ::ffff:1.2.3.4 for an IPv6 one */
	uint16_t port;
	bool is_unspec;		/* AF_UNSPEC: nobody any more */
};
/* 0, or the errno that the kernel would give. A stream socket is stricter than others. */
int calls_dest_of(struct calls_dest *out, const struct calls_request *r, int family,
		  bool is_stream);
/* The box's own: loopback, the unspecified address, and those that it takes for its own. */
bool calls_is_own(const struct egress_addr *addr);
bool calls_is_any(const struct egress_addr *addr);
/* What a socket of this family calls an address; both are of that family afterwards. */
struct egress_addr calls_addr_for(int family, struct egress_addr addr);
/* Of a socket that is connected to @peer: loopback where that is the box's own. */
struct egress_addr calls_own_for(int family, const struct egress_addr *peer);

#endif
