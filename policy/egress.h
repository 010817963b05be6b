/*
 * Egress rules: which destinations a box may reach.
 *
 * A policy's net.* lists are compiled once into one position-independent block, which the
 * launcher hands to the supervisor (runtime/egress/) and which `nsbox policy explain`
 * reads as well: one matcher, one truth. Pure, no allocation while judging.
 *
 * Default: with mode filtered and any allow_out, everything else is denied, and without any
 * list everything. With mode open, or filtered with deny_out alone, everything is allowed
 * but deny_out and the private set. net.compat=e2b: allow_out alone blocks nothing.
 *
 * An entry without a port means all of them and both protocols; but of a name that is
 * allowed, TCP 80 and 443.
 */
#ifndef POLICY_EGRESS_H
#define POLICY_EGRESS_H

#include "policy/policy.h"

enum { EGRESS_NAME_MAX = 253 };	/* bytes of a name without the final dot: RFC 1035 */

enum egress_proto { EGRESS_TCP = 1, EGRESS_UDP = 2 };

/* Network byte order. v4-mapped, 6to4 and NAT64 forms of a v4 address are told apart by
 * egress_addr_normal(), which judging applies by itself. */
struct egress_addr {
	uint8_t family;		/* 4, 6; 0: none */
	uint8_t bytes[16];
};
/* ::ffff:1.2.3.4 -> 1.2.3.4 */
struct egress_addr egress_addr_normal(struct egress_addr a);
/* The text of inet_ntop(3); returns `text`. */
enum { EGRESS_ADDR_TEXT = 46 };
char *egress_addr_text(const struct egress_addr *a, char text[EGRESS_ADDR_TEXT]);

/*
 * One canonical form or a refusal: LDH labels (underscore as well), lower case, no final
 * dot, 1 to 253 bytes, labels of 1 to 63, not an address in any spelling that inet_aton(3)
 * takes ("0x7f.1", "2130706433"). @len bytes of @text, NUL is refused like any other byte.
 */
bool egress_name_canonical(char out[EGRESS_NAME_MAX + 1], const char *text, size_t len);

/* The three lists, entry by entry: part of policy_check(). */
int egress_check_entries(const struct policy *p, struct nsbox_error *err);

struct egress_rules {	/* the head of the block */
	uint32_t magic, size;	/* of all of it */
	/* the rest is the business of egress_rules.c */
};

/* One malloc'ed block, the caller's to free(). NSBOX_E_POLICY with key, entry and a
 * suggestion. The policy has passed policy_check(). */
int egress_compile(struct egress_rules **out, const struct policy *p, struct nsbox_error *err);
/* Is a block from elsewhere well-formed? Judging needs no further check after that. It
 * must be aligned for uint32_t. */
bool egress_is_valid(const void *block, size_t size);

enum egress_why {
	EGRESS_BY_DISABLED,	/* denied: no network at all */
	EGRESS_BY_DEFAULT,	/* no rule matched: allowed or denied by the default */
	EGRESS_BY_ALLOW,	/* rule: allow_out */
	EGRESS_BY_DENY,		/* rule: deny_out */
	EGRESS_BY_PORT,		/* denied: allow_out has the destination (rule), with other ports
				   or the other protocol */
	EGRESS_BY_PRIVATE,	/* denied: always-denied range, net.allow_private has it not */
};

struct egress_dest {
	const char *name;	/* canonical; NULL: an address was asked for */
	const struct egress_addr *addr; /* asked for, or what the name resolved to; NULL: not
				   resolved yet, and `allowed` then means: resolve and ask again */
	enum egress_proto proto;
	uint16_t port;
};
struct egress_verdict {
	bool allowed;
	enum egress_why why;
	int32_t rule;		/* index into the list that `why` speaks of; -1: none */
};
struct egress_verdict egress_judge(const struct egress_rules *r, const struct egress_dest *d);

/* May this name be looked up, that is: would any protocol and port of it be allowed? */
struct egress_verdict egress_judge_lookup(const struct egress_rules *r, const char *name);

/* No rule matched -> allowed? (mode open, or deny lists alone) */
bool egress_default_allows(const struct egress_rules *r);
/* Must SNI and Host be looked at on a connection to this destination? By name under
 * default-deny: always. Under default-allow: when deny_out has names. */
bool egress_wants_names_checked(const struct egress_rules *r, const struct egress_dest *d);

/* The ports that allow_out names, for a host without nf_tables: sorted, each once. The
 * number of them, or -1: a rule allows more than `max` ports or all of them. */
int egress_ports(const struct egress_rules *r, uint16_t *ports, int max);

/* --- for a packet filter (net.path=veth), which knows IPv4 addresses alone ------------- */

enum egress_list { EGRESS_ALLOWED, EGRESS_DENIED, EGRESS_LIFTED, EGRESS_ALWAYS_DENIED };
struct egress_range {
	uint32_t first, last;	/* the host's byte order */
	uint16_t first_port, last_port; /* 1 to 65535: all; of EGRESS_ALLOWED and _DENIED */
	bool has_tcp, has_udp;
	uint8_t list;		/* enum egress_list; always denied, but where lifted */
};
/* One malloc'ed array of all rules for IPv4; the number of them, or -1: no memory. */
long egress_ranges4(const struct egress_rules *r, struct egress_range **out);
/* net.precedence=deny */
bool egress_deny_wins(const struct egress_rules *r);
/* An entry that such ranges cannot say, as it was written: a name, or an allowed range of
 * IPv6. NULL: there is none. */
const char *egress_beyond_ranges4(const struct egress_rules *r);

/*
 * What a denial says: `what` "connect example.org:443", "lookup example.org", "send
 * 9.9.9.9:53/udp"; `rule` "net.deny_out=10.0.0.0/8", "net.allow_out (not listed)",
 * "net.mode=disabled", "always denied: link-local 169.254.0.0/16"; `allow` the flags that
 * would permit it, "--allow-out example.org:8443", "--allow-private 10.1.2.3", or empty: none
 * would. Appends to the three buffers; @verb NULL: "connect", or "send" for UDP.
 */
struct egress_words {
	struct buf *what, *rule, *allow;
};
void egress_explain_denial(const struct egress_rules *r, const struct egress_dest *d,
			   const struct egress_verdict *v, const char *verb,
			   const struct egress_words *out);
/* A sentence for `nsbox policy explain`: "allowed: net.allow_out \"*.example.org\" ...". */
void egress_explain(const struct egress_rules *r, const struct egress_dest *d,
		    const struct egress_verdict *v, struct buf *out);

/* What the rules say without meaning it, a sentence each (a denial that an allowance
 * swallows, say): appended. 0 or negative. Nothing for a policy that egress_compile() refuses. */
int egress_warnings(const struct policy *p, struct strlist *out);

/*
 * A destination as people write it: HOST[:PORT][/udp], HOST a name or an address in any
 * spelling of inet_aton(3). Port 443 unless written. NSBOX_E_USAGE.
 */
struct egress_asked {
	char name[EGRESS_NAME_MAX + 1];	/* empty: an address was asked for */
	struct egress_addr addr;
	struct egress_dest dest;	/* points into this struct: not to be copied */
	bool is_respelled;		/* "0x7f.1": `addr` is what it means */
};
int egress_ask(struct egress_asked *out, const char *text, struct nsbox_error *err);

#endif
