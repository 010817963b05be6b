/* struct egress_addr and what the kernel calls an address. */
#ifndef EGRESS_SOCKADDR_H
#define EGRESS_SOCKADDR_H

#include "policy/egress.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static inline socklen_t sockaddr_of(struct sockaddr_storage *to, const struct egress_addr *a,
				    uint16_t port, uint32_t scope)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	if (a->family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, a->bytes, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	v6->sin6_scope_id = scope;
	memcpy(&v6->sin6_addr, a->bytes, 16);
	return sizeof(*v6);
}

/* Neither family: 0. */
static inline struct egress_addr addr_of_sockaddr(const struct sockaddr_storage *from,
						  uint16_t *port)
{
	struct egress_addr a = { 0 };

	*port = 0;
	if (from->ss_family == AF_INET) {
		a.family = 4;
		memcpy(a.bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
		*port = ntohs(((const struct sockaddr_in *)from)->sin_port);
	} else if (from->ss_family == AF_INET6) {
		a.family = 6;
		memcpy(a.bytes, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
		*port = ntohs(((const struct sockaddr_in6 *)from)->sin6_port);
	}
	return a;
}

static inline bool addr_of_text(struct egress_addr *out, const char *text)
{
	struct egress_addr a = { 0 };

	if (text && inet_pton(AF_INET, text, a.bytes) == 1)
		a.family = 4;
	else if (text && inet_pton(AF_INET6, text, a.bytes) == 1)
		a.family = 6;
	else
		return false;
	*out = a;
	return true;
}

#endif
