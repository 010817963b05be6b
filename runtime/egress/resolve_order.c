/* resolve_order.c - see resolve_order.h. Runs in the supervisor. */
#include "runtime/egress/resolve_order.h"

#include "base/cleanup.h"
#include "runtime/egress/resolve.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* To connect a UDP socket sends nothing; it fails where no route or no source address is. */
static bool has_route6(const struct egress_addr *a)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(53) };
	owned_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&to.sin6_addr, a->bytes, sizeof(to.sin6_addr));
	return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
}

unsigned order_addrs(struct egress_addr *to, const struct egress_addr *v6, unsigned n6,
		     const struct egress_addr *v4, unsigned n4)
{
	bool v6_first = n6 && has_route6(&v6[0]);
	unsigned n = 0, i6 = 0, i4 = 0;

	while (n < LOOKUP_ADDRS && (i6 < n6 || i4 < n4)) {
		bool take6 = v6_first ? i6 <= i4 : i4 == n4;

		if (i4 == n4 || (take6 && i6 < n6))
			to[n++] = v6[i6++];
		else
			to[n++] = v4[i4++];
	}
	return n;
}

unsigned order_mixed(struct egress_addr *addrs, unsigned count)
{
	struct egress_addr v4[LOOKUP_ADDRS], v6[LOOKUP_ADDRS];
	unsigned n4 = 0, n6 = 0;

	for (unsigned i = 0; i < count; i++) {
		if (addrs[i].family == 4)
			v4[n4++] = addrs[i];
		else
			v6[n6++] = addrs[i];
	}
	return order_addrs(addrs, v6, n6, v4, n4);
}
