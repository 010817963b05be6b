/* One entry of net.allow_out, net.deny_out or net.allow_private. Inside policy/ only. */
#ifndef POLICY_EGRESS_ENTRY_H
#define POLICY_EGRESS_ENTRY_H

#include "policy/egress.h"

enum rule_list { LIST_ALLOW, LIST_DENY, LIST_PRIVATE, LIST_COUNT };
extern const char *const rule_list_names[LIST_COUNT]; /* "net.allow_out", ... */
const struct strlist *rule_list(const struct policy *p, enum rule_list list);

enum entry_kind {
	ENTRY_NET,	/* addresses: `addr` and `bits` */
	ENTRY_ALL,	/* ALL_TRAFFIC: both families, every name */
	ENTRY_NAME,	/* this very name */
	ENTRY_BELOW,	/* *.name: below it, at any depth */
	ENTRY_TREE,	/* .name: it and all below */
};
enum { PROTO_TCP_BIT = 1 << EGRESS_TCP, PROTO_UDP_BIT = 1 << EGRESS_UDP };

struct entry {
	enum entry_kind kind;
	struct egress_addr addr;
	unsigned bits;		/* of the prefix */
	char name[EGRESS_NAME_MAX + 1];
	uint16_t first, last;	/* ports; 0 and 0: the ports of the web, 80 and 443 */
	unsigned protos;	/* PROTO_*_BIT */
};

enum {
	ENTRY_TEXT = 320,	/* a longer entry is refused: a name, a range of ports, "/udp" */
	ENTRY_HINT = 400
};
/* The reason of a refusal is a sentence without the entry; `hint` may stay empty. */
struct entry_error {
	const char *why;
	char hint[ENTRY_HINT];
	bool has_secret;	/* the entry itself is not to be shown */
};
/* 0 or -1. */
int entry_parse(struct entry *out, const char *text, enum rule_list list,
		struct entry_error *err);
/* NSBOX_E_POLICY with key, position, entry and suggestion. */
int entry_refused(const struct entry_error *bad, enum rule_list list, size_t at,
		  const char *text, struct nsbox_error *err);

/* Host bits beyond the prefix to zero; were there any? */
bool addr_mask(struct egress_addr *a, unsigned bits);
static inline unsigned addr_bits(const struct egress_addr *a)
{
	return a->family == 4 ? 32 : 128;
}
bool addr_has_prefix(const struct egress_addr *a, const struct egress_addr *net,
		     unsigned bits);
/* One address as inet_pton(3) takes it. */
bool addr_parse(struct egress_addr *out, const char *text);
/* An IPv4 address in any spelling of inet_aton(3): "127.1", "0x7f.1", "2130706433". */
bool addr_parse_loose(struct egress_addr *out, const char *text);

/* "host:80", "[::1]:80", "::1", "[::1]/64:80": what stands before the port. */
struct host_port {
	char host[ENTRY_TEXT];	/* without brackets */
	char port[16];		/* empty: none was written */
	bool has_port;
	unsigned proto;		/* PROTO_*_BIT of a suffix; 0: none */
};
int host_port_split(struct host_port *out, const char *text, struct entry_error *err);

#endif
