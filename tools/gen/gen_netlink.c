/*
 * Writes what the child tells the kernel about a box's network, as data:
 *	static const unsigned char net_route4[] = { ... };	NETLINK_ROUTE
 *	static const unsigned char net_route6[] = { ... };	NETLINK_ROUTE
 *	static const unsigned char net_rules[] = { ... };	NETLINK_NETFILTER
 * Every message in them asks for its own acknowledgement, but the two that embrace the
 * rules: kernels before 6.10 give those none.
 *
 * Runs in: the build, linked with libmnl; nothing of it is shipped.
 * Must:    give the same bytes for the same inputs. The expressions are those that nft(8)
 *          makes of the same words, so that `nft list ruleset` reads them back
 *          (tests/unit/test_inlet.c).
 */
#include "runtime/egress_wire.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LO = 1,			/* LOOPBACK_IFINDEX: the kernel makes lo first of all */
	BATCH_MAX = 8192,
	SYN = 0x02, SYN_ACK = 0x12,
};

struct batch {
	char bytes[BATCH_MAX];
	size_t len;
	uint32_t seq;
	struct nlmsghdr *open;	/* the message that is being written */
};

static struct nlmsghdr *begin(struct batch *b, int type, int flags)
{
	b->open = mnl_nlmsg_put_header(b->bytes + b->len);
	b->open->nlmsg_type = (uint16_t)type;
	b->open->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	b->open->nlmsg_seq = ++b->seq;
	return b->open;
}

static void end(struct batch *b)
{
	b->len += MNL_ALIGN(b->open->nlmsg_len);
	if (b->len > BATCH_MAX - 1024) {
		fputs("gen_netlink: the batch is too long\n", stderr);
		exit(1);
	}
}

static void write_batch(const struct batch *b, const char *name)
{
	printf("static const unsigned char %s[] = {", name);
	for (size_t i = 0; i < b->len; i++)
		printf("%s0x%02x,", i % 12 ? " " : "\n\t", (unsigned char)b->bytes[i]);
	puts("\n};");
}

/* ------------------------------------------------------------------ addresses -- */

struct family {
	int af;
	size_t bytes;
	const char *own;	/* the box's own address */
};
static const struct family families[] = {
	{ AF_INET, 4, INLET_ADDR4 },
	{ AF_INET6, 16, INLET_ADDR6 },
};

static void own_address(const struct family *f, unsigned char out[16])
{
	if (inet_pton(f->af, f->own, out) != 1) {
		fprintf(stderr, "gen_netlink: %s is no address\n", f->own);
		exit(1);
	}
}

/* Without NODAD an IPv6 address may not be used before a worker of the kernel has looked
 * at it, even on lo. */
static void put_address(struct batch *b, const struct family *f)
{
	unsigned char own[16];
	struct ifaddrmsg *a;

	own_address(f, own);
	a = mnl_nlmsg_put_extra_header(begin(b, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL),
				       sizeof(*a));
	a->ifa_family = (uint8_t)f->af;
	a->ifa_prefixlen = (uint8_t)(8 * f->bytes);
	a->ifa_flags = f->af == AF_INET6 ? IFA_F_NODAD : 0;
	a->ifa_scope = RT_SCOPE_UNIVERSE;
	a->ifa_index = LO;
	mnl_attr_put(b->open, IFA_LOCAL, f->bytes, own);
	mnl_attr_put(b->open, IFA_ADDRESS, f->bytes, own);
	end(b);
}

/*
 * "local default dev lo": every address is the box's own, so a packet to any of them
 * comes back in on lo, where the rules are. With the box's address as the source: else
 * a connection would seem to come from where it goes to.
 */
static void put_route(struct batch *b, const struct family *f)
{
	unsigned char own[16];
	struct rtmsg *r;

	own_address(f, own);
	r = mnl_nlmsg_put_extra_header(begin(b, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL),
				       sizeof(*r));
	r->rtm_family = (uint8_t)f->af;
	r->rtm_table = RT_TABLE_LOCAL;
	r->rtm_protocol = RTPROT_STATIC;
	r->rtm_scope = f->af == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
	r->rtm_type = RTN_LOCAL;
	mnl_attr_put_u32(b->open, RTA_OIF, LO);
	mnl_attr_put(b->open, RTA_PREFSRC, f->bytes, own);
	end(b);
}

/* ---------------------------------------------------------------------- rules -- */

static void begin_nft(struct batch *b, int type, int flags)
{
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(
		begin(b, NFNL_SUBSYS_NFTABLES << 8 | type, NLM_F_ACK | flags), sizeof(*g));

	g->nfgen_family = NFPROTO_INET;
	g->version = NFNETLINK_V0;
}

static void put_bracket(struct batch *b, int type)
{
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(begin(b, type, 0), sizeof(*g));

	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	g->res_id = htons(NFNL_SUBSYS_NFTABLES);
	end(b);
}

static void put_u32(struct batch *b, int attr, uint32_t v)
{
	mnl_attr_put_u32(b->open, (uint16_t)attr, htonl(v)); /* nf_tables: big endian */
}

static struct nlattr *nest(struct batch *b, int attr)
{
	return mnl_attr_nest_start(b->open, (uint16_t)attr);
}

static void end_nest(struct batch *b, struct nlattr *n)
{
	mnl_attr_nest_end(b->open, n);
}

static void put_table(struct batch *b)
{
	begin_nft(b, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	mnl_attr_put_strz(b->open, NFTA_TABLE_NAME, "nsbox");
	put_u32(b, NFTA_TABLE_FLAGS, 0);
	end(b);
}

static void put_chain(struct batch *b, const char *name, uint32_t hook, int32_t priority)
{
	struct nlattr *n;

	begin_nft(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	mnl_attr_put_strz(b->open, NFTA_CHAIN_TABLE, "nsbox");
	mnl_attr_put_strz(b->open, NFTA_CHAIN_NAME, name);
	n = nest(b, NFTA_CHAIN_HOOK);
	put_u32(b, NFTA_HOOK_HOOKNUM, hook);
	put_u32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	end_nest(b, n);
	put_u32(b, NFTA_CHAIN_POLICY, NF_DROP);
	mnl_attr_put_strz(b->open, NFTA_CHAIN_TYPE, "filter");
	end(b);
}

struct rule { /* its two open nests */
	struct nlattr *expressions, *elem, *data;
};

static struct rule begin_rule(struct batch *b, const char *chain)
{
	begin_nft(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	mnl_attr_put_strz(b->open, NFTA_RULE_TABLE, "nsbox");
	mnl_attr_put_strz(b->open, NFTA_RULE_CHAIN, chain);
	return (struct rule){ .expressions = nest(b, NFTA_RULE_EXPRESSIONS) };
}

static void end_rule(struct batch *b, struct rule *r)
{
	end_nest(b, r->expressions);
	end(b);
}

static void begin_expr(struct batch *b, struct rule *r, const char *name)
{
	r->elem = nest(b, NFTA_LIST_ELEM);
	mnl_attr_put_strz(b->open, NFTA_EXPR_NAME, name);
	r->data = nest(b, NFTA_EXPR_DATA);
}

static void end_expr(struct batch *b, struct rule *r)
{
	end_nest(b, r->data);
	end_nest(b, r->elem);
}

static void put_value(struct batch *b, int attr, const void *value, size_t len)
{
	struct nlattr *n = nest(b, attr);

	mnl_attr_put(b->open, NFTA_DATA_VALUE, len, value);
	end_nest(b, n);
}

static void compare(struct batch *b, struct rule *r, uint32_t op, const void *value, size_t len)
{
	begin_expr(b, r, "cmp");
	put_u32(b, NFTA_CMP_SREG, NFT_REG_1);
	put_u32(b, NFTA_CMP_OP, op);
	put_value(b, NFTA_CMP_DATA, value, len);
	end_expr(b, r);
}

static void load_meta(struct batch *b, struct rule *r, uint32_t key)
{
	begin_expr(b, r, "meta");
	put_u32(b, NFTA_META_KEY, key);
	put_u32(b, NFTA_META_DREG, NFT_REG_1);
	end_expr(b, r);
}

static void meta_is(struct batch *b, struct rule *r, uint32_t key, uint32_t value)
{
	load_meta(b, r, key);
	compare(b, r, NFT_CMP_EQ, &value, sizeof(value)); /* registers: the host's order */
}

static void meta_byte(struct batch *b, struct rule *r, uint32_t key, uint32_t op, uint8_t value)
{
	load_meta(b, r, key);
	compare(b, r, op, &value, sizeof(value));
}

static void payload(struct batch *b, struct rule *r, uint32_t base, size_t offset, size_t len)
{
	begin_expr(b, r, "payload");
	put_u32(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_u32(b, NFTA_PAYLOAD_BASE, base);
	put_u32(b, NFTA_PAYLOAD_OFFSET, (uint32_t)offset);
	put_u32(b, NFTA_PAYLOAD_LEN, (uint32_t)len);
	end_expr(b, r);
}

static void protocol_is(struct batch *b, struct rule *r, uint8_t protocol)
{
	meta_byte(b, r, NFT_META_L4PROTO, NFT_CMP_EQ, protocol);
}

/* tcp flags & (syn | ack) == syn, or != */
static void syn_alone(struct batch *b, struct rule *r, uint32_t op)
{
	const uint8_t mask = SYN_ACK, zero = 0, syn = SYN;

	protocol_is(b, r, IPPROTO_TCP);
	payload(b, r, NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1);
	begin_expr(b, r, "bitwise");
	put_u32(b, NFTA_BITWISE_SREG, NFT_REG_1);
	put_u32(b, NFTA_BITWISE_DREG, NFT_REG_1);
	put_u32(b, NFTA_BITWISE_LEN, 1);
	put_value(b, NFTA_BITWISE_MASK, &mask, 1);
	put_value(b, NFTA_BITWISE_XOR, &zero, 1);
	end_expr(b, r);
	compare(b, r, op, &syn, 1);
}

static void verdict(struct batch *b, struct rule *r, uint32_t code)
{
	struct nlattr *data, *v;

	begin_expr(b, r, "immediate");
	put_u32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nest(b, NFTA_IMMEDIATE_DATA);
	v = nest(b, NFTA_DATA_VERDICT);
	put_u32(b, NFTA_VERDICT_CODE, code);
	end_nest(b, v);
	end_nest(b, data);
	end_expr(b, r);
}

static void tproxy_accept(struct batch *b, struct rule *r, uint32_t family)
{
	const uint16_t port = htons(INLET_PORT);

	begin_expr(b, r, "immediate");
	put_u32(b, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	put_value(b, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
	end_expr(b, r);
	begin_expr(b, r, "tproxy");
	put_u32(b, NFTA_TPROXY_FAMILY, family);
	put_u32(b, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	end_expr(b, r);
	verdict(b, r, NF_ACCEPT);
}

/* ip daddr, ip6 daddr; @len is shorter than an address for a prefix */
static void put_loopback(struct batch *b, uint8_t family, const void *addr, size_t len)
{
	struct rule r = begin_rule(b, "pre");

	meta_byte(b, &r, NFT_META_NFPROTO, NFT_CMP_EQ, family);
	payload(b, &r, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24, len);
	compare(b, &r, NFT_CMP_EQ, addr, len);
	verdict(b, &r, NF_ACCEPT);
	end_rule(b, &r);
}

/* The sockets behind INLET_PORT are reached by tproxy alone. Nobody in the box can have a
 * socket of that port, so a packet to it that was not let in wants to talk to them. */
static void put_port_guards(struct batch *b)
{
	const uint16_t port = htons(INLET_PORT);
	const uint32_t mark = INLET_MARK;
	struct rule r = begin_rule(b, "pre");

	protocol_is(b, &r, IPPROTO_UDP);
	payload(b, &r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
	compare(b, &r, NFT_CMP_EQ, &port, sizeof(port));
	verdict(b, &r, NF_DROP);
	end_rule(b, &r);

	r = begin_rule(b, "pre");
	syn_alone(b, &r, NFT_CMP_EQ);
	payload(b, &r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
	compare(b, &r, NFT_CMP_EQ, &port, sizeof(port));
	load_meta(b, &r, NFT_META_MARK);
	compare(b, &r, NFT_CMP_NEQ, &mark, sizeof(mark));
	verdict(b, &r, NF_DROP);
	end_rule(b, &r);
}

static void put_own(struct batch *b)
{
	static const unsigned char loopback4[] = { 127 }, loopback6[16] = { [15] = 1 };
	unsigned char own[16];

	put_loopback(b, NFPROTO_IPV4, loopback4, sizeof(loopback4));
	put_loopback(b, NFPROTO_IPV6, loopback6, sizeof(loopback6));
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		own_address(&families[i], own);
		put_loopback(b, families[i].af == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6, own,
			     families[i].bytes);
	}
}

/*
 * The supervisor let this connection in. tproxy "breaks" when a socket of the box holds
 * the same four numbers: that SYN then falls to the policy, and not to that socket.
 */
static void put_let_in(struct batch *b, uint8_t family)
{
	struct rule r = begin_rule(b, "pre");

	meta_byte(b, &r, NFT_META_NFPROTO, NFT_CMP_EQ, family);
	syn_alone(b, &r, NFT_CMP_EQ);
	meta_is(b, &r, NFT_META_MARK, INLET_MARK);
	tproxy_accept(b, &r, family);
	end_rule(b, &r);
}

/*
 * What belongs to a connection that was let in: without SYN, or SYN-ACK. It opens nothing:
 * all addresses are here, nothing leaves this namespace, and a segment without a
 * connection is answered RST by the box itself.
 */
static void put_rest_of_connections(struct batch *b)
{
	struct rule r = begin_rule(b, "pre");

	syn_alone(b, &r, NFT_CMP_NEQ);
	verdict(b, &r, NF_ACCEPT);
	end_rule(b, &r);
}

/* Answers of UDP and ICMP errors that the supervisor made. */
static void put_answers(struct batch *b)
{
	struct rule r = begin_rule(b, "pre");

	meta_is(b, &r, NFT_META_MARK, INLET_MARK);
	meta_byte(b, &r, NFT_META_L4PROTO, NFT_CMP_NEQ, IPPROTO_TCP);
	verdict(b, &r, NF_ACCEPT);
	end_rule(b, &r);
}

static void put_datagrams(struct batch *b, uint8_t family)
{
	struct rule r = begin_rule(b, "pre");

	meta_byte(b, &r, NFT_META_NFPROTO, NFT_CMP_EQ, family);
	protocol_is(b, &r, IPPROTO_UDP);
	tproxy_accept(b, &r, family);
	end_rule(b, &r);
}

/* The namespace has no other device; should it ever have one, nothing leaves by it. */
static void put_output(struct batch *b)
{
	struct rule r;

	put_chain(b, "out", NF_INET_LOCAL_OUT, 0);
	r = begin_rule(b, "out");
	meta_is(b, &r, NFT_META_OIF, LO);
	verdict(b, &r, NF_ACCEPT);
	end_rule(b, &r);
}

/* One transaction: all of it is there, or nothing. */
static void put_rules(struct batch *b)
{
	put_bracket(b, NFNL_MSG_BATCH_BEGIN);
	put_table(b);
	put_chain(b, "pre", NF_INET_PRE_ROUTING, -150); /* mangle: where tproxy belongs */
	put_rest_of_connections(b); /* first, for it is what most packets are */
	put_port_guards(b);
	put_own(b);
	put_let_in(b, NFPROTO_IPV4);
	put_let_in(b, NFPROTO_IPV6);
	put_answers(b);
	put_datagrams(b, NFPROTO_IPV4);
	put_datagrams(b, NFPROTO_IPV6);
	put_output(b);
	put_bracket(b, NFNL_MSG_BATCH_END);
}

int main(void)
{
	static struct batch routes[2], rules;

	puts("/* Made by tools/gen/gen_netlink.c. Do not edit. */");
	for (size_t i = 0; i < 2; i++) {
		put_address(&routes[i], &families[i]);
		put_route(&routes[i], &families[i]);
	}
	put_rules(&rules);
	write_batch(&routes[0], "net_route4");
	write_batch(&routes[1], "net_route6");
	write_batch(&rules, "net_rules");
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
