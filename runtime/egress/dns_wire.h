/*
 * DNS messages as bytes: the box's questions, our answers to them, our questions upstream
 * and what comes back. Pure. Both sides are strangers, so it is strict: every length is
 * checked, a compression pointer leads backwards only, and what is left over is an error.
 */
#ifndef EGRESS_DNS_WIRE_H
#define EGRESS_DNS_WIRE_H

#include "policy/egress.h"

enum {
	DNS_HEADER = 12,
	DNS_NAME_WIRE = 255,	/* RFC 1035: with all length bytes and the root's */
	DNS_UDP_PLAIN = 512,	/* without EDNS */
	DNS_UDP_EDNS = 1232,	/* what we say that we take: no fragments even on IPv6 */
	DNS_UDP_MAX = 4096,	/* what we send, whatever the other end says that it takes */
	DNS_MESSAGE_MAX = 65535,
	DNS_QUERY_MAX = DNS_HEADER + DNS_NAME_WIRE + 4 + 11,
	DNS_CHAIN = 16,		/* CNAMEs of one lookup */
	DNS_ADDRS = 16,
	DNS_RECORDS = 512,	/* of one upstream answer */
};
enum dns_type {
	DNS_A = 1, DNS_NS = 2, DNS_CNAME = 5, DNS_SOA = 6, DNS_NULL = 10, DNS_PTR = 12,
	DNS_MX = 15, DNS_TXT = 16, DNS_AAAA = 28, DNS_SRV = 33, DNS_NAPTR = 35, DNS_DNAME = 39,
	DNS_OPT = 41, DNS_DS = 43, DNS_SSHFP = 44, DNS_RRSIG = 46, DNS_DNSKEY = 48,
	DNS_TLSA = 52, DNS_SVCB = 64, DNS_HTTPS = 65, DNS_SPF = 99,
	DNS_TKEY = 249, DNS_ANY = 255, DNS_URI = 256, DNS_CAA = 257,
};
enum { DNS_CLASS_IN = 1 };
enum dns_rcode {
	DNS_NOERROR, DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN, DNS_NOTIMP, DNS_REFUSED,
	DNS_BADVERS = 16	/* EDNS only */
};
enum { DNS_BLOCKED = 15 };	/* RFC 8914: by a policy of the server's operator */

/* Labels as they came, case and all, without pointers, the root's byte at the end. */
struct dns_name {
	uint8_t wire[DNS_NAME_WIRE];
	uint8_t len;
};
/* At *at of the message; *at is behind it afterwards. false: no name. */
bool dns_name_read(struct dns_name *out, const uint8_t *p, size_t len, size_t *at);
/* Dots between labels, no final one, case as it came; "" for the root. false: a label has a
 * byte that a host name cannot have, or that would read as something else. */
bool dns_name_text(char out[EGRESS_NAME_MAX + 1], const struct dns_name *n);
bool dns_name_set(struct dns_name *out, const char *text);
bool dns_name_equal(const struct dns_name *a, const struct dns_name *b);	/* any case */
/* A letter becomes upper case where the random bit of its place is set: an answer has to
 * repeat that ("0x20"), so it is as good as more bits of the id. */
void dns_name_mix(struct dns_name *n, const uint8_t random[(DNS_NAME_WIRE + 7) / 8]);
/* The address in d.c.b.a.in-addr.arpa and its like for IPv6. */
bool dns_reverse(struct egress_addr *out, const char *name);

struct dns_query {
	uint16_t id, type, class;
	bool wants_recursion, checking_off; /* RD, CD: an answer repeats them */
	bool has_edns, wants_dnssec;	/* the DO bit, likewise */
	uint16_t edns_size;
	uint8_t opcode;
	struct dns_name name;
};
enum dns_read {
	DNS_DROP,		/* no question: too short, or an answer. Say nothing */
	DNS_QUESTION,
	DNS_WRONG,		/* answer it with *rcode; the name may be missing */
};
enum dns_read dns_read_query(struct dns_query *q, enum dns_rcode *rcode, const uint8_t *p,
			     size_t len);
/* How large may an answer to it be? */
size_t dns_room(const struct dns_query *q, bool over_tcp);

struct dns_reply {
	enum dns_rcode rcode;
	uint32_t ttl;
	const struct egress_addr *addrs; /* of the family that was asked for */
	unsigned count;
	const struct dns_name *ptr;
	uint16_t extended;	/* an extended error, sent where the question had EDNS; 0: none */
};
/* Each returns the length, 0: `room` is too small for anything at all. An answer that does
 * not fit is sent without records, marked as truncated. */
size_t dns_write_answer(uint8_t *to, size_t room, const struct dns_query *q,
			const struct dns_reply *r);
size_t dns_write_query(uint8_t *to, size_t room, const struct dns_query *q);

struct dns_result {		/* of an upstream answer */
	enum dns_rcode rcode;
	bool truncated;		/* then nothing else is filled in */
	bool has_soa;		/* the server knows the end of the chain, and it has no such data */
	bool only_asked;	/* the answer section is what was asked for, and aliases */
	struct egress_addr addrs[DNS_ADDRS];
	unsigned count;
	uint32_t ttl;		/* the least of all that was used; UINT32_MAX: nothing was */
	struct dns_name last;	/* where the chain of CNAMEs ends: the name itself without any */
	unsigned links;
	size_t answers_at, answers_end; /* the answer section in the message */
	uint16_t answers;
};
enum dns_match {
	DNS_OURS,
	DNS_FOREIGN,		/* not the answer to this question: go on waiting */
	DNS_OTHER_CASE,		/* it would be, but for the letters' case */
	DNS_BROKEN,		/* ours, and malformed */
};
enum dns_match dns_read_answer(struct dns_result *out, const struct dns_query *asked,
			       const uint8_t *p, size_t len);
/* The answer section of `msg`, as read into `r`, as our answer to q. */
size_t dns_write_relay(uint8_t *to, size_t room, const struct dns_query *q,
		       const struct dns_result *r, const uint8_t *msg);

#endif
