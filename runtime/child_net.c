/*
 * child_net.c - the child's operations on its network: netlink, and the sockets that it
 * passes out (runtime/egress_wire.h says what they are for)
 *
 * Runs in the child, under the rules of child.c: raw system calls only.
 *
 * Must:    have every message acknowledged; keep no socket; attach the gate's filter before
 *          the gate is bound, so that it never holds a packet that is none of its own.
 * Mustn't: decide anything: which sockets, which ports and which messages are the plan's.
 *
 * The ports below 1024 that are taken here (2 and 53) stay ours: a new network namespace has
 * net.ipv4.ip_unprivileged_port_start 1024 whatever the host says (inet_init_net), the
 * payload has no capability to bind below it, and SO_REUSEPORT shares a port only with a
 * socket that has that option as well. Ours have not.
 */
#include "runtime/child_ops.h"

#include "runtime/egress_wire.h"
#include "runtime/wire.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif
#ifndef IPV6_RECVORIGDSTADDR
#define IPV6_RECVORIGDSTADDR 74
#endif
#ifndef IP_RECVORIGDSTADDR
#define IP_RECVORIGDSTADDR 20
#endif

enum {
	LO = 1,			/* lo's index: the kernel makes it first of all */
	BACKLOG = 4096,		/* somaxconn of a new namespace */
	BUFFER = 4 << 20,	/* rmem_max clamps it */
	SNAP = 256,		/* the largest headers of IP and TCP are 60 bytes each */
};

/* ------------------------------------------------------------------- netlink -- */

/* The messages of the batch that ask for an acknowledgement. */
static unsigned acks_wanted(const char *at, uint32_t len)
{
	unsigned n = 0;

	while (len >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)at;
		uint32_t step = NLMSG_ALIGN(h->nlmsg_len);

		if (h->nlmsg_flags & NLM_F_ACK)
			n++;
		if (step < sizeof(*h) || step > len)
			break;
		at += step;
		len -= step;
	}
	return n;
}

/* Acknowledgements in one datagram of the kernel; or the first error. */
static long acks_in(const char *at, long len)
{
	long n = 0;

	while (len >= (long)NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)at;
		const struct nlmsgerr *e = NLMSG_DATA(h);
		long step = NLMSG_ALIGN(h->nlmsg_len);

		if (h->nlmsg_type != NLMSG_ERROR || step < (long)NLMSG_LENGTH(sizeof(*e)))
			return -EPROTO;
		if (e->error)
			return e->error;
		n++;
		at += step;
		len -= step;
	}
	return n ? n : -EPROTO;
}

/* The kernel works a batch off before sendto() returns: all answers are there by then. */
static long talk(int fd, const char *batch, uint32_t len)
{
	char answer[4096] __attribute__((aligned(8)));
	unsigned wanted = acks_wanted(batch, len);
	long r = sys(sendto, fd, batch, len, 0, 0, 0);

	if (r >= 0 && r != (long)len)
		return -EPROTO;
	while (r >= 0 && wanted) {
		r = sys(recvfrom, fd, answer, sizeof(answer), MSG_DONTWAIT, 0, 0);
		if (r >= 0)
			r = acks_in(answer, r);
		if (r > (long)wanted)
			return -EPROTO;
		if (r >= 0)
			wanted -= (unsigned)r;
	}
	return r < 0 ? r : 0;
}

/* OP_OPTIONAL: of IPv6, which may be off. A box without that route has no IPv6, not more. */
long do_netlink(struct child_args *a, const struct op *op)
{
	long fd = sys(socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, op->n);
	long r = fd;

	if (fd >= 0)
		r = talk((int)fd, (const char *)a->plan + op->blob, op->blob_len);
	close_fd((int)fd);
	return op->flags & OP_OPTIONAL ? 0 : r;
}

/* --------------------------------------------------------------------- gate -- */

#define OWN4 0xc613fffeU	/* INLET_ADDR4 */
#define OWN6_0 0x20010002U	/* INLET_ADDR6, in words */
#define OWN6_1 0x0000ffffU
#define ANCILLARY(what) (uint32_t)(SKF_AD_OFF + SKF_AD_##what)
#define LOAD(size, at) BPF_STMT(BPF_LD | size | BPF_ABS, at)
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)

/*
 * A SYN that comes in on lo, is for none of the box's own addresses, and was not let in by
 * the supervisor. Offsets are from the IP header (SOCK_DGRAM). IPv6 with an extension
 * header before TCP is none of it: the rules drop it unseen.
 */
enum { AT_V6 = 19, AT_OTHER6 = 29, AT_FLAGS6 = 32, AT_TAKE = 35, AT_DROP = 36 };
static const struct sock_filter gate_filter[] = {
	[0] = LOAD(BPF_W, ANCILLARY(PKTTYPE)),
	[1] = IS(PACKET_OUTGOING, AT_DROP - 2, 0),
	[2] = LOAD(BPF_W, ANCILLARY(MARK)),
	[3] = IS(INLET_MARK, AT_DROP - 4, 0),
	[4] = LOAD(BPF_W, ANCILLARY(PROTOCOL)),
	[5] = IS(ETH_P_IPV6, AT_V6 - 6, 0),
	[6] = IS(ETH_P_IP, 0, AT_DROP - 7),

	[7] = LOAD(BPF_B, 9),
	[8] = IS(IPPROTO_TCP, 0, AT_DROP - 9),
	[9] = LOAD(BPF_H, 6), /* not the first fragment */
	[10] = BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, AT_DROP - 11, 0),
	[11] = LOAD(BPF_B, 16),
	[12] = IS(127, AT_DROP - 13, 0),
	[13] = LOAD(BPF_W, 16),
	[14] = IS(OWN4, AT_DROP - 15, 0),
	[15] = BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	[16] = BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13),
	[17] = BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
	[18] = IS(0x02, AT_TAKE - 19, AT_DROP - 19),

	[AT_V6] = LOAD(BPF_B, 6),
	[20] = IS(IPPROTO_TCP, 0, AT_DROP - 21),
	[21] = LOAD(BPF_W, 36), /* ::1 and the own address both end in 1 */
	[22] = IS(1, 0, AT_FLAGS6 - 23),
	[23] = LOAD(BPF_W, 32),
	[24] = IS(0, 0, AT_FLAGS6 - 25),
	[25] = LOAD(BPF_W, 24),
	[26] = IS(OWN6_0, 0, AT_OTHER6 - 27),
	[27] = LOAD(BPF_W, 28),
	[28] = IS(OWN6_1, AT_DROP - 29, AT_FLAGS6 - 29),
	[AT_OTHER6] = IS(0, 0, AT_FLAGS6 - 30),
	[30] = LOAD(BPF_W, 28),
	[31] = IS(0, AT_DROP - 32, 0),
	[AT_FLAGS6] = LOAD(BPF_B, 40 + 13),
	[33] = BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
	[34] = IS(0x02, 0, AT_DROP - 35),
	[AT_TAKE] = BPF_STMT(BPF_RET | BPF_K, SNAP),
	[AT_DROP] = BPF_STMT(BPF_RET | BPF_K, 0),
};

static long open_gate(void)
{
	const struct sock_fprog filter = { sizeof(gate_filter) / sizeof(gate_filter[0]),
					   (struct sock_filter *)gate_filter };
	const struct sockaddr_ll lo = { .sll_family = AF_PACKET, .sll_ifindex = LO,
					.sll_protocol = __builtin_bswap16(ETH_P_ALL) };
	/* Protocol 0: it receives nothing until it is bound. */
	long fd = sys(socket, AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	long r = fd;

	if (r >= 0)
		r = sys(setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
	if (r >= 0)
		r = sys(bind, fd, &lo, sizeof(lo));
	if (r >= 0)
		return fd;
	close_fd((int)fd);
	return r;
}

/* ------------------------------------------------------------------- sockets -- */

static const struct shape {
	uint8_t family, type, protocol;
	uint16_t port;		/* 0: not bound */
	bool is_local;		/* 127.0.0.1; else any address */
	bool is_optional;	/* IPv6: the kernel may have none */
} shapes[INLET_FD_COUNT] = {
	[INLET_TCP4] = { AF_INET, SOCK_STREAM, 0, INLET_PORT, false, false },
	[INLET_TCP6] = { AF_INET6, SOCK_STREAM, 0, INLET_PORT, false, true },
	[INLET_UDP4] = { AF_INET, SOCK_DGRAM, 0, INLET_PORT, false, false },
	[INLET_UDP6] = { AF_INET6, SOCK_DGRAM, 0, INLET_PORT, false, true },
	[INLET_DNS_UDP] = { AF_INET, SOCK_DGRAM, 0, INLET_DNS_PORT, true, false },
	[INLET_DNS_TCP] = { AF_INET, SOCK_STREAM, 0, INLET_DNS_PORT, true, false },
	[INLET_RAW4] = { AF_INET, SOCK_RAW, IPPROTO_RAW, 0, false, false },
	[INLET_RAW6] = { AF_INET6, SOCK_RAW, IPPROTO_RAW, 0, false, true },
};

#define BIT(fd) (1U << INLET_##fd)
static const struct option {
	unsigned sockets;	/* bits of enum inlet_fd */
	int level, name, value;
} options[] = {
	{ BIT(TCP6) | BIT(UDP6), IPPROTO_IPV6, IPV6_V6ONLY, 1 },
	{ BIT(TCP4) | BIT(UDP4), IPPROTO_IP, IP_TRANSPARENT, 1 },
	{ BIT(TCP6) | BIT(UDP6), IPPROTO_IPV6, IPV6_TRANSPARENT, 1 },
	{ BIT(UDP4), IPPROTO_IP, IP_RECVORIGDSTADDR, 1 },
	{ BIT(UDP6), IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1 },
	{ BIT(RAW4), IPPROTO_IP, IP_HDRINCL, 1 },
	{ BIT(RAW4) | BIT(RAW6), SOL_SOCKET, SO_MARK, INLET_MARK },
	{ BIT(GATE) | BIT(UDP4) | BIT(UDP6) | BIT(DNS_UDP), SOL_SOCKET, SO_RCVBUF, BUFFER },
	{ BIT(RAW4) | BIT(RAW6), SOL_SOCKET, SO_SNDBUF, BUFFER },
};

static long set_options(long fd, unsigned which)
{
	long r = 0;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && r >= 0; i++)
		if (options[i].sockets & 1U << which)
			r = sys(setsockopt, fd, options[i].level, options[i].name,
				&options[i].value, sizeof(int));
	return r;
}

static long bind_to(long fd, int family, uint16_t port, bool is_local)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = __builtin_bswap16(port),
		.sin_addr.s_addr = is_local ? __builtin_bswap32(INADDR_LOOPBACK) : 0,
	};
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
					 .sin6_port = __builtin_bswap16(port) };

	return family == AF_INET ? sys(bind, fd, &v4, sizeof(v4)) : sys(bind, fd, &v6, sizeof(v6));
}

static long open_shape(unsigned which)
{
	const struct shape *s = &shapes[which];
	long r, fd = which == INLET_GATE
			     ? open_gate()
			     : sys(socket, s->family, s->type | SOCK_CLOEXEC | SOCK_NONBLOCK,
				   s->protocol);

	if (fd < 0)
		return fd;
	r = set_options(fd, which);
	if (r >= 0 && s->port)
		r = bind_to(fd, s->family, s->port, s->is_local);
	if (r >= 0 && s->port && s->type == SOCK_STREAM)
		r = sys(listen, fd, BACKLOG);
	if (r >= 0)
		return fd;
	close_fd((int)fd);
	return r;
}

/* ------------------------------------------------------------------- passing -- */

struct handful { /* descriptors of the next packet */
	struct wire_msg msg;
	int fds[WIRE_FDS_MAX];
	size_t n;
};

static void close_handful(struct handful *h)
{
	while (h->n)
		close_fd(h->fds[--h->n]);
}

static long pass_handful(const struct child_args *a, struct handful *h)
{
	long r = child_send_fds(a, &h->msg, h->fds, h->n);

	close_handful(h);
	h->msg.op = 0;
	return r;
}

static struct handful empty_handful(const struct child_args *a, const struct op *op)
{
	return (struct handful){ .msg = { .magic = WIRE_MAGIC, .type = WIRE_FD,
					  .stage = (uint16_t)a->stage,
					  .value = (int32_t)op->m } };
}

long do_inlet(struct child_args *a, const struct op *op)
{
	struct handful h = empty_handful(a, op);

	for (unsigned i = 0; i < INLET_FD_COUNT; i++) {
		long fd;

		if (!(op->n & 1U << i))
			continue;
		fd = open_shape(i);
		if (fd == -EAFNOSUPPORT && shapes[i].is_optional)
			continue;
		if (fd < 0) {
			close_handful(&h);
			return fd;
		}
		h.msg.op |= 1 << i;
		h.fds[h.n++] = (int)fd;
	}
	return pass_handful(a, &h);
}

/* One more of a series; a full packet, and the last one, are sent. */
static long add_to_series(const struct child_args *a, struct handful *h, long fd, bool is_last)
{
	if (fd < 0) {
		close_handful(h);
		return fd;
	}
	h->msg.op |= 1 << h->n;
	h->fds[h->n++] = (int)fd;
	return h->n == WIRE_FDS_MAX || is_last ? pass_handful(a, h) : 0;
}

/* Sockets of the box that are not connected: the supervisor connects them to servers of
 * the box. */
long do_pool(struct child_args *a, const struct op *op)
{
	struct handful h = empty_handful(a, op);
	long r = 0;

	for (uint64_t i = 0; i < op->n && r >= 0; i++)
		r = add_to_series(a, &h,
				  sys(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
				  i + 1 == op->n);
	return r;
}

/* Init's end stays open until do_fds() gives it its place. */
long do_calls(struct child_args *a, const struct op *op)
{
	struct handful h = empty_handful(a, op);
	int pair[2];
	long r = sys(socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);

	if (r < 0)
		return r;
	a->calls = pair[0];
	h.msg.op = 1;
	h.fds[h.n++] = pair[1];
	return pass_handful(a, &h);
}

/* On all addresses of both families; of IPv4 where there is no IPv6. */
static long listen_on(uint16_t port)
{
	int family = AF_INET6, off = 0;
	long fd = sys(socket, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	long r = 0;

	if (fd == -EAFNOSUPPORT) {
		family = AF_INET;
		fd = sys(socket, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	if (fd < 0)
		return fd;
	if (family == AF_INET6) /* net.ipv6.bindv6only may say otherwise */
		r = sys(setsockopt, fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (r >= 0)
		r = bind_to(fd, family, port, false);
	if (r >= 0)
		r = sys(listen, fd, BACKLOG);
	if (r >= 0)
		return fd;
	close_fd((int)fd);
	return r;
}

long do_ports(struct child_args *a, const struct op *op)
{
	const uint16_t *ports = (const uint16_t *)((const char *)a->plan + op->blob);
	uint32_t count = op->blob_len / sizeof(*ports);
	struct handful h = empty_handful(a, op);
	long r = 0;

	for (uint32_t i = 0; i < count && r >= 0; i++)
		r = add_to_series(a, &h, listen_on(ports[i]), i + 1 == count);
	return r;
}
