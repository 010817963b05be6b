/* The pair of devices of one box: on the host, and in the box's network namespace. */
#ifndef VETH_LINK_H
#define VETH_LINK_H

#include <netinet/in.h>

#include "runtime/veth_wire.h"

#include <libmnl/libmnl.h>
#include <netlink/netlink.h>
#include <stdint.h>

struct pair {
	struct nl_sock *host;	/* NETLINK_ROUTE of the host */
	struct mnl_socket *host_nft, *box_nft;
	int own_ns, box_ns;
	char device[VETH_NAME];	/* of the host; unique, so it is the lock on the address */
	uint32_t host_address, box_address; /* the host's byte order; of one /30 */
	bool is_made;
};
/* All of these: 0, or a negative errno and *what for a sentence. */

/* Sockets in both namespaces. */
int pair_open(struct pair *p, const char **what);
/* Find a free /30 and make both devices. They are down. */
int pair_make(struct pair *p, uint32_t begin_at, const char **what);
/* Addresses, routes, up. */
int pair_start(struct pair *p, const char **what);
/* Its socket in the box's namespace would keep that. */
void pair_close_box(struct pair *p);
/* Both devices go, whoever holds the box's namespace; then the host's table, and all else. */
void pair_remove(struct pair *p);

#endif
