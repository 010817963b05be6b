/*
 * calls_read.c - see calls_read.h. Runs in the supervisor.
 *
 * Must: refuse what the broker could not have said; answer for an address what the kernel
 *       would, since programs try and look at errno.
 */
#include "runtime/egress/calls_read.h"

#include "runtime/egress/sockaddr.h"
#include "runtime/egress_wire.h"

#include <errno.h>
#include <stddef.h>

enum { SIN6_LEAST = 24 };	/* SIN6_LEN_RFC2133: without the scope */

static const struct shape {
	bool has_fd, may_name, may_data;
} shapes[CALLS_WHAT_END] = {
	[CALLS_SOCKET] = { false, false, false },   [CALLS_CONNECT] = { true, true, false },
	[CALLS_BIND] = { true, true, false },	    [CALLS_LISTEN] = { true, false, false },
	[CALLS_SOCKNAME] = { true, false, false },  [CALLS_PEERNAME] = { true, false, false },
	[CALLS_SEND] = { true, true, true },	    [CALLS_RECV] = { true, false, false },
	[CALLS_GETOPT] = { true, false, false },    [CALLS_SETOPT] = { true, false, false },
	[CALLS_CANCEL] = { false, false, false },
};

bool calls_read(struct calls_request *out, const uint8_t *packet, size_t len, bool has_fd)
{
	struct calls_ask *h = &out->head;
	const struct shape *s;

	if (len < sizeof(*h))
		return false;
	memcpy(h, packet, sizeof(*h));
	if (h->magic != CALLS_MAGIC || !h->what || h->what >= CALLS_WHAT_END)
		return false;
	s = &shapes[h->what];
	if (h->name_len > CALLS_NAME_MAX || h->size > CALLS_DATA_MAX ||
	    len != sizeof(*h) + h->name_len + h->size || has_fd != s->has_fd ||
	    (h->name_len && !s->may_name) || (h->size && !s->may_data))
		return false;
	out->name = packet + sizeof(*h);
	out->data = out->name + h->name_len;
	out->fd = -1;
	return true;
}

/* --- addresses ----------------------------------------------------------------------- */

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

struct egress_addr calls_addr_for(int family, struct egress_addr addr)
{
	struct egress_addr a = { .family = 6 };

	if (family != AF_INET6 || addr.family == 6)
		return addr;
	memcpy(a.bytes, mapped, sizeof(mapped));
	memcpy(a.bytes + sizeof(mapped), addr.bytes, 4);
	return a;
}

static int read_in(struct calls_dest *out, const struct calls_request *r, int family,
		   bool is_stream)
{
	struct sockaddr_in in;

	if (family == AF_INET6 && is_stream)
		return EAFNOSUPPORT;
	if (r->head.name_len < sizeof(in))
		return EINVAL;
	memcpy(&in, r->name, sizeof(in));
	out->addr.family = 4;
	memcpy(out->addr.bytes, &in.sin_addr, 4);
	out->addr = calls_addr_for(family, out->addr);
	out->port = ntohs(in.sin_port);
	return 0;
}

static int read_in6(struct calls_dest *out, const struct calls_request *r, int family)
{
	struct sockaddr_in6 in = { 0 };
	size_t len = r->head.name_len < sizeof(in) ? r->head.name_len : sizeof(in);

	if (len < SIN6_LEAST)
		return EINVAL;
	if (family != AF_INET6)
		return EAFNOSUPPORT;
	memcpy(&in, r->name, len);
	out->addr.family = 6;
	memcpy(out->addr.bytes, &in.sin6_addr, 16);
	out->port = ntohs(in.sin6_port);
	return 0;
}

int calls_dest_of(struct calls_dest *out, const struct calls_request *r, int family,
		  bool is_stream)
{
	sa_family_t named;

	*out = (struct calls_dest){ 0 };
	if (r->head.name_len < sizeof(named))
		return EINVAL;
	memcpy(&named, r->name, sizeof(named));
	switch (named) {
	case AF_UNSPEC:
		out->is_unspec = true;
		return 0;
	case AF_INET:
		return read_in(out, r, family, is_stream);
	case AF_INET6:
		return read_in6(out, r, family);
	}
	return EAFNOSUPPORT;
}

bool calls_is_any(const struct egress_addr *addr)
{
	static const uint8_t zero[16];
	struct egress_addr a = egress_addr_normal(*addr);

	return memcmp(a.bytes, zero, a.family == 4 ? 4 : 16) == 0;
}

static bool is_loopback(const struct egress_addr *addr)
{
	static const uint8_t one[16] = { [15] = 1 };
	struct egress_addr a = egress_addr_normal(*addr);

	return a.family == 4 ? a.bytes[0] == 127 : memcmp(a.bytes, one, sizeof(one)) == 0;
}

static bool is_text(const struct egress_addr *addr, const char *text)
{
	struct egress_addr a = egress_addr_normal(*addr), b;

	return addr_of_text(&b, text) && a.family == b.family &&
	       memcmp(a.bytes, b.bytes, a.family == 4 ? 4 : 16) == 0;
}

bool calls_is_own(const struct egress_addr *addr)
{
	return is_loopback(addr) || calls_is_any(addr) || is_text(addr, INLET_ADDR4) ||
	       is_text(addr, INLET_ADDR6);
}

/* A socket of IPv6 that speaks IPv4 has an address of IPv4. */
struct egress_addr calls_own_for(int family, const struct egress_addr *peer)
{
	struct egress_addr own = { 0 };
	bool is_v4 = egress_addr_normal(*peer).family == 4;

	if (calls_is_own(peer))
		addr_of_text(&own, is_v4 ? "127.0.0.1" : "::1");
	else
		addr_of_text(&own, is_v4 ? INLET_ADDR4 : INLET_ADDR6);
	return calls_addr_for(family, own);
}
