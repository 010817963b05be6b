/*
 * The rules for sockets of a box that shares the host's network namespace: each of them is
 * made by the supervisor, and what leads anywhere is done by it or not at all.
 *
 * Owns:    what answers otherwise than at the policy's level, and the argument checks.
 * Runs in: whoever compiles a policy; the tables are read-only data.
 * Must:    leave no call with an address to the kernel unless the address cannot matter. The
 *          box holds three kinds of sockets: TCP ones of the supervisor's, whose connect,
 *          bind and listen are never carried out as asked; pairs; and its "UDP sockets", which
 *          are one end of a pair each. Of the last two the kernel reads no name.
 * Mustn't: judge what a pointer points to.
 *
 * An option or an ioctl that is not listed is refused, because some of them are addresses in
 * disguise: IP_OPTIONS and IPV6_RTHDR send a packet to the first hop of a source route,
 * SO_BINDTODEVICE to a device, TCP_FASTOPEN_CONNECT and MSG_FASTOPEN connect by themselves;
 * SIOCGIFCONF and the like tell of the host's interfaces.
 */
#include "policy/seccomp_rules.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/cleanup.h"

#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif
#ifndef TCP_NOTSENT_LOWAT
#define TCP_NOTSENT_LOWAT 25
#endif
#ifndef TCP_INQ
#define TCP_INQ 36
#endif

#define ALLOW ANSWER_ALLOW
#define NOTIFY ANSWER_NOTIFY

const struct seccomp_override seccomp_calls[] = {
	{ 0, CHECK_CALLS_SOCKET, "socket", "the supervisor makes every socket" },
	{ 0, CHECK_CALLS_SOCKETPAIR, "socketpair",
	  "a pair of datagrams can send to any address by name" },
	{ 0, NOTIFY, "connect bind listen", "the supervisor does it, or nobody" },
	{ 0, NOTIFY, "getsockname getpeername", "the kernel knows the supervisor's addresses" },
	{ 0, CHECK_CALLS_SENDTO, "sendto", "has an address, or connects by itself" },
	{ 0, CHECK_CALLS_SENDMSG, "sendmsg", "may have an address" },
	{ 0, CHECK_CALLS_SENDMMSG, "sendmmsg", "may have addresses" },
	{ 0, CHECK_CALLS_RECVFROM, "recvfrom", "the supervisor knows who sent it" },
	{ 0, NOTIFY, "recvmsg recvmmsg", "the supervisor knows who sent it" },
	{ 0, CHECK_CALLS_GETSOCKOPT, "getsockopt", "the supervisor knows how a connect ended" },
	{ 0, CHECK_CALLS_SETSOCKOPT, "setsockopt", "some options are ways past connect" },
	{ 0, CHECK_CALLS_IOCTL, "ioctl", "sockets tell of the host's interfaces" },
	/* Init reads the payload's memory, and would wait for who serves a fault of it. */
	{ 0, EPERM, "userfaultfd", "could make init wait for the payload" },
};
const size_t seccomp_calls_count = ARRAY_SIZE(seccomp_calls);

/* --- argument checks ----------------------------------------------------- */

#define EQ(n, v) { TEST_EQ, n, 0, v }
#define NE(n, v) { TEST_NE, n, 0, v }
#define EQ_MASKED(n, m, v) { TEST_EQ, n, m, v }
#define NE_MASKED(n, m, v) { TEST_NE, n, m, v }
#define ANY_BIT(n, v) { TEST_ANY_BIT, n, 0, v }

static const struct seccomp_clause socket_clauses[] = {
	{ { EQ(0, AF_UNIX) }, EACCES }, /* paths of the host that nobody could judge */
	{ { NE(0, AF_INET), NE(0, AF_INET6) }, EAFNOSUPPORT },
	{ { EQ_MASKED(1, 0xf, SOCK_RAW) }, EPERM },
	{ { NE_MASKED(1, 0xf, SOCK_STREAM), NE_MASKED(1, 0xf, SOCK_DGRAM) }, ESOCKTNOSUPPORT },
	{ { EQ(2, 0) }, NOTIFY },
	{ { EQ(2, IPPROTO_TCP) }, NOTIFY },
	{ { EQ(2, IPPROTO_UDP) }, NOTIFY },
};

static const struct seccomp_clause socketpair_clauses[] = {
	{ { NE(0, AF_UNIX) }, EAFNOSUPPORT },
	{ { EQ_MASKED(1, 0xf, SOCK_STREAM) }, ALLOW },
	{ { EQ_MASKED(1, 0xf, SOCK_SEQPACKET) }, ALLOW },
};

/* An address is there when either half of the pointer is not zero. */
static const struct seccomp_clause sendto_clauses[] = {
	{ { ANY_BIT(3, MSG_FASTOPEN) }, EOPNOTSUPP },
	{ { NE(4, 0) }, NOTIFY },
	{ { NE(4 | ARG_HIGH, 0) }, NOTIFY },
};
static const struct seccomp_clause sendmsg_clauses[] = {
	{ { ANY_BIT(2, MSG_FASTOPEN) }, EOPNOTSUPP },
};
static const struct seccomp_clause sendmmsg_clauses[] = {
	{ { ANY_BIT(3, MSG_FASTOPEN) }, EOPNOTSUPP },
};
static const struct seccomp_clause recvfrom_clauses[] = {
	{ { NE(4, 0) }, NOTIFY },
	{ { NE(4 | ARG_HIGH, 0) }, NOTIFY },
};

/* How a connect ended, and what the box takes a pair for. */
static const struct seccomp_clause getsockopt_clauses[] = {
	{ { EQ(1, SOL_SOCKET), EQ(2, SO_ERROR) }, NOTIFY },
	{ { EQ(1, SOL_SOCKET), EQ(2, SO_TYPE) }, NOTIFY },
	{ { EQ(1, SOL_SOCKET), EQ(2, SO_DOMAIN) }, NOTIFY },
	{ { EQ(1, SOL_SOCKET), EQ(2, SO_PROTOCOL) }, NOTIFY },
};

#define OPTION(level, name, answer) { { EQ(1, level), EQ(2, name) }, answer }
#define OF_SOCKET(name) OPTION(SOL_SOCKET, name, ALLOW)
#define OF_TCP(name) OPTION(IPPROTO_TCP, name, ALLOW)
/* A pair has no IP options: who answers knows whether it is one that stands for UDP. */
#define OF_IP(name) OPTION(IPPROTO_IP, name, NOTIFY)
#define OF_IPV6(name) OPTION(IPPROTO_IPV6, name, NOTIFY)

static const struct seccomp_clause setsockopt_clauses[] = {
	/* Of a pair the kernel refuses it (6.13). */
	OPTION(SOL_SOCKET, SO_REUSEPORT, NOTIFY),
	OF_SOCKET(SO_REUSEADDR), OF_SOCKET(SO_KEEPALIVE), OF_SOCKET(SO_INCOMING_CPU),
	OF_SOCKET(SO_BROADCAST), OF_SOCKET(SO_SNDBUF), OF_SOCKET(SO_RCVBUF),
	OF_SOCKET(SO_OOBINLINE), OF_SOCKET(SO_PRIORITY), OF_SOCKET(SO_LINGER),
	OF_SOCKET(SO_PASSCRED), OF_SOCKET(SO_RCVLOWAT), OF_SOCKET(SO_ZEROCOPY),
	OF_SOCKET(20), OF_SOCKET(21), OF_SOCKET(66), OF_SOCKET(67), /* SO_RCVTIMEO, SO_SNDTIMEO */
	OF_SOCKET(29), OF_SOCKET(35), OF_SOCKET(63), OF_SOCKET(64), /* SO_TIMESTAMP, ..NS */

	OF_TCP(TCP_NODELAY), OF_TCP(TCP_MAXSEG), OF_TCP(TCP_CORK), OF_TCP(TCP_KEEPIDLE),
	OF_TCP(TCP_KEEPINTVL), OF_TCP(TCP_KEEPCNT), OF_TCP(TCP_SYNCNT), OF_TCP(TCP_LINGER2),
	OF_TCP(TCP_DEFER_ACCEPT), OF_TCP(TCP_WINDOW_CLAMP), OF_TCP(TCP_QUICKACK),
	OF_TCP(TCP_CONGESTION), OF_TCP(TCP_USER_TIMEOUT), OF_TCP(TCP_NOTSENT_LOWAT),
	OF_TCP(TCP_INQ),

	OF_IP(IP_TOS), OF_IP(IP_TTL), OF_IP(IP_MTU_DISCOVER), OF_IP(IP_RECVERR),
	OF_IP(IP_PKTINFO), OF_IP(IP_RECVTOS), OF_IP(IP_RECVTTL),
	OF_IP(IP_MULTICAST_TTL), OF_IP(IP_MULTICAST_LOOP),

	OF_IPV6(IPV6_V6ONLY), OF_IPV6(IPV6_UNICAST_HOPS), OF_IPV6(IPV6_MTU_DISCOVER),
	OF_IPV6(IPV6_RECVERR), OF_IPV6(IPV6_RECVPKTINFO), OF_IPV6(IPV6_TCLASS),
	OF_IPV6(IPV6_RECVTCLASS), OF_IPV6(IPV6_RECVHOPLIMIT), OF_IPV6(IPV6_DONTFRAG),
	OF_IPV6(IPV6_MULTICAST_HOPS), OF_IPV6(IPV6_MULTICAST_LOOP),
};

/*
 * What the level refuses as well (seccomp_rules.c), and all of sockets but SIOCATMARK. Of files
 * none: who owns one may change flags, make it unchangeable (FS_IOC_ENABLE_VERITY) or put a
 * snapshot beside it (btrfs) by a descriptor that is open for reading. The type of a
 * terminal's is 'T', and so is that of FIONREAD and its relatives.
 */
static const struct seccomp_clause ioctl_clauses[] = {
	{ { EQ(1, TIOCSTI) }, EPERM },
	{ { EQ(1, TIOCLINUX) }, EPERM },
	{ { EQ(1, TIOCCONS) }, EPERM },
	{ { EQ(1, TIOCSETD) }, EPERM },
	{ { EQ(1, SIOCATMARK) }, ALLOW },
	{ { EQ_MASKED(1, 0xff00, 0x8900) }, EPERM },
	{ { EQ_MASKED(1, 0xff00, 0x5400) }, ALLOW },
};

#define CHECK(id, rows, other) [id - CHECK_CALLS_FIRST] = { rows, ARRAY_SIZE(rows), other }
#define CHECK_N(id, rows, n, other) [id - CHECK_CALLS_FIRST] = { rows, n, other }

static const struct seccomp_check checks[CHECK_END - CHECK_CALLS_FIRST] = {
	CHECK(CHECK_CALLS_SOCKET, socket_clauses, EPROTONOSUPPORT),
	CHECK(CHECK_CALLS_SOCKETPAIR, socketpair_clauses, EPROTONOSUPPORT),
	CHECK(CHECK_CALLS_SENDTO, sendto_clauses, ALLOW),
	CHECK(CHECK_CALLS_SENDMSG, sendmsg_clauses, NOTIFY),
	CHECK(CHECK_CALLS_SENDMMSG, sendmmsg_clauses, NOTIFY),
	CHECK(CHECK_CALLS_RECVFROM, recvfrom_clauses, ALLOW),
	CHECK(CHECK_CALLS_GETSOCKOPT, getsockopt_clauses, ALLOW),
	CHECK(CHECK_CALLS_SETSOCKOPT, setsockopt_clauses, ENOPROTOOPT),
	CHECK_N(CHECK_CALLS_IOCTL, ioctl_clauses, 6, ALLOW),
	CHECK(CHECK_HELD_IOCTL, ioctl_clauses, ENOTTY),
};

const struct seccomp_check *seccomp_calls_check(uint16_t answer)
{
	return &checks[answer - CHECK_CALLS_FIRST];
}
