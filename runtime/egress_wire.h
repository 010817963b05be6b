/*
 * What launcher, child and supervisor (nsbox-egress) share.
 *
 * The inlet: sockets that the child opens inside the box's network namespace, before it
 * drops its capabilities, and passes out. A socket keeps its namespace, so the supervisor
 * serves the box from outside, and nothing inside keeps a capability.
 *
 * In the box every address is local (route "local default dev lo"). The rules of the box:
 *   - loopback addresses belong to the box itself;
 *   - a TCP SYN to any other address is dropped, but the gate (a packet socket on lo) has
 *     seen it: the supervisor judges, connects, and then either injects the same SYN with
 *     INLET_MARK, which reaches the listener with its own destination address (tproxy), or
 *     answers RST or ICMP. So connect(2) in the box tells the truth;
 *   - a UDP datagram to any other address reaches the UDP socket with its own destination;
 *   - everything else is dropped.
 */
#ifndef RUNTIME_EGRESS_WIRE_H
#define RUNTIME_EGRESS_WIRE_H

#include <stdint.h>

enum {
	INLET_MARK = 0x6e736278, /* SO_MARK needs CAP_NET_ADMIN or CAP_NET_RAW in the netns */
	INLET_PORT = 2,		/* TCP and UDP, all addresses, transparent; below 1024, where the
				   payload cannot bind */
	INLET_DNS_PORT = 53,	/* UDP and TCP on 127.0.0.1: resolv.conf of the box */
};

/* The box's own addresses on lo, so that AI_ADDRCONFIG finds both families; the fake
 * addresses of names come from the rest of the same ranges (RFC 2544, RFC 5180). */
#define INLET_ADDR4 "198.19.255.254"
#define INLET_ADDR6 "2001:2:0:ffff::1"
#define INLET_FAKE4 "198.18.0.0"	/* /16: name n has 198.18.n/256.n%256, n from 1 */
#define INLET_FAKE6 "2001:2::"		/* /112: name n has 2001:2::n */

/* Order of the descriptors in WIRE_TAG_INLET; `op` has a bit for each that is there. */
enum inlet_fd {
	INLET_GATE,		/* AF_PACKET, SOCK_DGRAM, on lo, with a filter: SYNs only */
	INLET_TCP4, INLET_TCP6,	/* listeners, transparent */
	INLET_UDP4, INLET_UDP6,	/* transparent, IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR */
	INLET_DNS_UDP, INLET_DNS_TCP,
	INLET_RAW4, INLET_RAW6,	/* SOCK_RAW, IPPROTO_RAW, with INLET_MARK: we write the header */
	INLET_FD_COUNT
};
/* Without nf_tables: one packet of WIRE_TAG_PORTS for up to 16 listeners, each on all
 * addresses of one port (IPv6, not v6only); getsockname(2) is the destination. Then there
 * is no gate, no UDP but DNS, and a refusal is an accepted connection that is reset. */

/* --- launcher <-> supervisor: SOCK_SEQPACKET, descriptor 0 of the supervisor --------- */

enum { EGRESS_MAGIC = 0x6e736567, EGRESS_PACKET_MAX = 8192 };

/*
 *   launcher -> supervisor  CONFIG   one sealed memfd: struct egress_config. First of all,
 *                                    and again later: new rules for a box that runs
 *   launcher -> supervisor  INLET    the descriptors of the inlet; `bits` says which
 *   launcher -> supervisor  PORTS    listeners instead of the inlet's TCP part
 *   launcher -> supervisor  CALLS    instead of an inlet: a socket to the broker of a box that
 *                                    shares this network namespace (runtime/calls_wire.h)
 *   launcher -> supervisor  PUBLISH  `bits` n: one listener of the host, for port n of the
 *                                    box; then POOL: up to 16 sockets of the box
 *   launcher -> supervisor  REPORT   the box is dead: say all, then end
 *   supervisor -> launcher  READY    serves under the latest CONFIG (answer to each CONFIG;
 *                                    the first is sent once the inlet is there as well)
 *   supervisor -> launcher  FAIL     `text`: why; then it ends
 *   supervisor -> launcher  DENIAL   three strings, each with its NUL: what, rule, allow;
 *                                    `count` times. Sent as part of the report
 *   supervisor -> launcher  HOST     struct egress_host_report, then the name with its NUL
 *   supervisor -> launcher  TOTAL    struct egress_totals; the last packet of the report
 */
enum egress_type {
	EGRESS_CONFIG = 1, EGRESS_INLET, EGRESS_PORTS, EGRESS_PUBLISH, EGRESS_POOL, EGRESS_REPORT,
	EGRESS_READY, EGRESS_FAIL, EGRESS_DENIAL, EGRESS_HOST, EGRESS_TOTAL, EGRESS_CALLS
};
struct egress_msg {
	uint32_t magic;
	uint16_t type, bits;
	uint32_t count, size;	/* size: bytes that follow */
};
struct egress_host_report {
	uint64_t connections, failed; /* failed: allowed, but the host could not be reached */
	uint64_t bytes_out, bytes_in; /* of payload: TCP streams, UDP data */
};
struct egress_totals {
	uint64_t connections, failed, denied, lookups;
	uint64_t bytes_out, bytes_in;
	uint64_t hosts_left_out, denials_left_out; /* beyond what the report lists */
	uint32_t cap;		/* bit of enum egress_cap: that cap was reached */
};
enum egress_cap { CAP_CONNECTIONS = 1, CAP_NAMES = 2, CAP_BYTES = 4, CAP_HOST_BYTES = 8 };

/* --- configuration --------------------------------------------------------------------- */

enum { EGRESS_SERVERS = 3 };	/* as resolv.conf(5): MAXNS */

struct egress_server {
	uint8_t family, bytes[16]; /* as struct egress_addr */
	uint16_t port;
	uint32_t scope;		/* of a link-local server: %eth0 */
};
enum egress_proxy_kind { PROXY_NONE, PROXY_HTTP, PROXY_SOCKS5 };

/* Offsets are from the start of the block; 0: none. */
struct egress_config {
	uint32_t magic, size;
	uint32_t rules;		/* struct egress_rules (policy/egress.h) */
	uint32_t uid, gid;	/* to become, when started as root; UINT32_MAX: stay */
	uint32_t calls;		/* 1: CALLS follows, so it has to bind and listen; else 0 */
	struct egress_server servers[EGRESS_SERVERS];
	uint32_t server_count, timeout_ms, attempts; /* of resolv.conf */
	uint32_t hosts, hosts_len; /* text of the host's /etc/hosts, at most 1 MiB */
	struct {
		uint32_t kind;	/* enum egress_proxy_kind */
		uint32_t host, user, password; /* strings */
		uint16_t port;
	} proxy;
	uint32_t max_connections, max_names; /* at a time; in all */
	uint64_t max_bytes, max_host_bytes; /* both ways; 0: none */
};

#endif
