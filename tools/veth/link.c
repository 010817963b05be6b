/*
 * link.c - see link.h
 *
 * Runs in nsbox-veth.
 *
 * Must:    take an address that nothing of the host's has a route to; be back in the host's
 *          network namespace after each call.
 * Mustn't: change a device, a route or a sysctl of the host's that is not its own.
 */
#include "tools/veth/link.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/route.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Where the /30 of boxes come from, in this order: of the carriers' range, which nobody's own
 * network should have (RFC 6598), then private ones. */
static const struct range {
	uint32_t first;
	uint32_t slots;
} ranges[] = {
	{ 0x647f0000, 1 << 14 },	/* 100.127.0.0/16 */
	{ 0x0a7f0000, 1 << 14 },	/* 10.127.0.0/16 */
	{ 0xac1f0000, 1 << 14 },	/* 172.31.0.0/16 */
};
enum { PREFIX = 30, SLOT = 4, TRIES = 64, CARRIER_MS = 2000, IF_OPER_UP = 6 /* linux/if.h */ };

/* libnl has numbers of its own. */
static int os_errno_of(int nl)
{
	switch (-nl) {
	case 0:
		return 0;
	case NLE_EXIST:
		return -EEXIST;
	case NLE_PERM:
		return -EPERM;
	case NLE_OPNOTSUPP:
		return -EOPNOTSUPP;
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_NOADDR: case NLE_NODEV: case NLE_OBJ_NOTFOUND:
		return -ENODEV;
	case NLE_BUSY:
		return -EBUSY;
	default:
		return -EIO;
	}
}

/* --- free addresses ---------------------------------------------------------------------- */

struct search {
	uint32_t first, last;	/* of the /30 that is wanted */
	bool is_taken;
};

static void look_at_route(struct nl_object *o, void *arg)
{
	struct nl_addr *dst = rtnl_route_get_dst((struct rtnl_route *)o);
	unsigned bits = dst ? nl_addr_get_prefixlen(dst) : 0;
	struct search *s = arg;
	uint32_t first, rest;

	/* The default route is no claim to an address. */
	if (!dst || !bits || bits > 32 || nl_addr_get_family(dst) != AF_INET ||
	    nl_addr_get_len(dst) != sizeof(first))
		return;
	memcpy(&first, nl_addr_get_binary_addr(dst), sizeof(first));
	first = ntohl(first);
	rest = bits == 32 ? 0 : UINT32_MAX >> bits;
	s->is_taken |= first <= s->last && (first | rest) >= s->first;
}

/* Of all tables: the host's addresses are in "local". */
static int read_routes(struct pair *p, struct nl_cache **routes)
{
	int r = rtnl_route_alloc_cache(p->host, AF_INET, 0, routes);

	return os_errno_of(r);
}

static bool is_free(struct nl_cache *routes, uint32_t first)
{
	struct search s = { first, first + SLOT - 1, false };

	nl_cache_foreach(routes, look_at_route, &s);
	return !s.is_taken;
}

/* --- making ------------------------------------------------------------------------------- */

/* The name is the slot's: whoever has it has the addresses. */
static int make_pair(struct pair *p)
{
	struct rtnl_link *link = rtnl_link_veth_alloc(), *peer;
	int r;

	if (!link)
		return -ENOMEM;
	peer = rtnl_link_veth_get_peer(link);
	rtnl_link_set_name(link, p->device);
	rtnl_link_set_name(peer, VETH_BOX_DEVICE);
	rtnl_link_set_ns_fd(peer, p->box_ns);
	r = rtnl_link_add(p->host, link, NLM_F_CREATE | NLM_F_EXCL);
	rtnl_link_put(peer);
	rtnl_link_put(link);
	return os_errno_of(r);
}

static int try_slot(struct pair *p, struct nl_cache *routes, size_t range, uint32_t slot)
{
	uint32_t first = ranges[range].first + SLOT * slot;
	int r;

	if (!is_free(routes, first))
		return -EEXIST;
	p->host_address = first + 1;
	p->box_address = first + 2;
	snprintf(p->device, sizeof(p->device), "nsbox%zu-%04x", range, slot);
	r = make_pair(p);
	p->is_made = r == 0;
	return r;
}

int pair_make(struct pair *p, uint32_t begin_at, const char **what)
{
	struct nl_cache *routes = NULL;
	int r = read_routes(p, &routes);

	*what = "read the routes of the host";
	if (r < 0)
		return r;
	*what = "make a pair of devices";
	r = -EEXIST;
	for (size_t range = 0; range < ARRAY_SIZE(ranges) && r == -EEXIST; range++)
		for (uint32_t i = 0; i < TRIES && r == -EEXIST; i++)
			r = try_slot(p, routes, range, (begin_at + i) % ranges[range].slots);
	nl_cache_free(routes);
	if (r == -EEXIST) {
		*what = "find a range of addresses that no route of the host has";
		r = -EADDRNOTAVAIL;
	}
	return r;
}

/* --- starting -------------------------------------------------------------------------------- */

static struct nl_addr *address_of(uint32_t address, int bits)
{
	uint32_t big_endian = htonl(address);
	struct nl_addr *a = nl_addr_build(AF_INET, &big_endian, sizeof(big_endian));

	if (a)
		nl_addr_set_prefixlen(a, bits);
	return a;
}

static int add_address(struct nl_sock *nl, int device, uint32_t address)
{
	struct rtnl_addr *a = rtnl_addr_alloc();
	struct nl_addr *local = address_of(address, PREFIX);
	int r = -NLE_NOMEM;

	if (a && local) {
		rtnl_addr_set_ifindex(a, device);
		rtnl_addr_set_local(a, local);
		r = rtnl_addr_add(nl, a, NLM_F_EXCL);
	}
	rtnl_addr_put(a);
	nl_addr_put(local);
	return os_errno_of(r);
}

static int set_up(struct nl_sock *nl, int device)
{
	struct rtnl_link *which = rtnl_link_alloc(), *change = rtnl_link_alloc();
	int r = -NLE_NOMEM;

	if (which && change) {
		rtnl_link_set_ifindex(which, device);
		rtnl_link_set_flags(change, IFF_UP);
		r = rtnl_link_change(nl, which, change, 0);
	}
	rtnl_link_put(which);
	rtnl_link_put(change);
	return os_errno_of(r);
}

static int add_default_route(struct nl_sock *nl, int device, uint32_t gateway)
{
	struct nl_addr *to = address_of(0, 0), *by = address_of(gateway, 32);
	struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
	struct rtnl_route *route = rtnl_route_alloc();
	int r = -NLE_NOMEM;

	if (to && by && hop && route) {
		rtnl_route_nh_set_ifindex(hop, device);
		rtnl_route_nh_set_gateway(hop, by);
		rtnl_route_add_nexthop(route, hop);
		hop = NULL; /* the route's */
		rtnl_route_set_family(route, AF_INET);
		rtnl_route_set_dst(route, to);
		r = rtnl_route_add(nl, route, NLM_F_EXCL);
	}
	nl_addr_put(to);
	nl_addr_put(by);
	if (hop)
		rtnl_route_nh_free(hop);
	rtnl_route_put(route);
	return os_errno_of(r);
}

static int open_route(struct nl_sock **nl)
{
	int r;

	*nl = nl_socket_alloc();
	if (!*nl)
		return -ENOMEM;
	r = nl_connect(*nl, NETLINK_ROUTE);
	return os_errno_of(r);
}

/*
 * ping(8) without a capability: ICMP sockets for all groups of the box. A sysctl of the
 * box's namespace, which a write reaches from a process in it; where /proc/sys is
 * read-only there is no ping, and all else works.
 */
static void allow_ping(void)
{
	static const char all[] = "0 2147483647";
	owned_fd int fd = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, all, sizeof(all) - 1) < 0)
		return;
}

/* In the box's namespace. */
static int start_box(struct pair *p)
{
	struct nl_sock *nl = NULL;
	int device = (int)if_nametoindex(VETH_BOX_DEVICE), r = open_route(&nl);

	if (!device)
		r = -ENODEV;
	if (r == 0)
		r = add_address(nl, device, p->box_address);
	if (r == 0)
		r = set_up(nl, device);
	if (r == 0)
		r = add_default_route(nl, device, p->host_address);
	if (r == 0)
		allow_ping();
	nl_socket_free(nl);
	return r;
}

static int start_host(struct pair *p)
{
	int device = (int)if_nametoindex(p->device);
	int r = device ? add_address(p->host, device, p->host_address) : -ENODEV;

	return r < 0 ? r : set_up(p->host, device);
}

/*
 * The end that was up first learns of its carrier in a worker of the kernel; until then it
 * drops what it should send, and a connection would wait a second for its next SYN.
 */
static int await_carrier(struct pair *p)
{
	const struct timespec tick = { .tv_nsec = 1000000 };

	for (int i = 0; i < CARRIER_MS; i++) {
		struct rtnl_link *link = NULL;
		int r = rtnl_link_get_kernel(p->host, 0, p->device, &link);
		bool is_up = r == 0 && rtnl_link_get_operstate(link) == IF_OPER_UP;

		rtnl_link_put(link);
		if (r < 0 || is_up)
			return os_errno_of(r);
		nanosleep(&tick, NULL);
	}
	return -ETIMEDOUT;
}

static int enter(int ns)
{
	return setns(ns, CLONE_NEWNET) < 0 ? -errno : 0;
}

int pair_start(struct pair *p, const char **what)
{
	int r = start_host(p), back;

	*what = "give the host's device its address";
	if (r < 0)
		return r;
	*what = "set up the device in the box";
	r = enter(p->box_ns);
	if (r == 0)
		r = start_box(p);
	back = enter(p->own_ns);
	if (r == 0)
		r = back;
	if (r < 0)
		return r;
	*what = "wait for the devices";
	return await_carrier(p);
}

/* --- sockets ----------------------------------------------------------------------------------- */

static int open_nft(struct mnl_socket **nl)
{
	*nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	return *nl && mnl_socket_bind(*nl, 0, MNL_SOCKET_AUTOPID) == 0 ? 0 : -errno;
}

int pair_open(struct pair *p, const char **what)
{
	int r, back;

	*what = "open the host's network namespace";
	p->own_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (p->own_ns < 0)
		return -errno;
	*what = "open the kernel's tables";
	r = open_route(&p->host);
	if (r == 0)
		r = open_nft(&p->host_nft);
	if (r < 0)
		return r;
	*what = "enter the box's network namespace";
	r = enter(p->box_ns);
	if (r < 0)
		return r;
	r = open_nft(&p->box_nft);
	back = enter(p->own_ns);
	return r < 0 ? r : back;
}

static void delete_device(struct pair *p)
{
	struct rtnl_link *link = rtnl_link_alloc();

	if (!link)
		return; /* it goes with the box's namespace */
	rtnl_link_set_name(link, p->device);
	/* It may be gone already, for the same reason. */
	rtnl_link_delete(p->host, link);
	rtnl_link_put(link);
}

void pair_close_box(struct pair *p)
{
	if (p->box_nft)
		mnl_socket_close(p->box_nft);
	p->box_nft = NULL;
}

void pair_remove(struct pair *p)
{
	if (p->is_made)
		delete_device(p);
	p->is_made = false;
	pair_close_box(p);
	if (p->host_nft)
		mnl_socket_close(p->host_nft); /* and with it the host's table */
	nl_socket_free(p->host);
	if (p->own_ns >= 0)
		close(p->own_ns);
	p->host_nft = NULL;
	p->host = NULL;
	p->own_ns = -1;
}
