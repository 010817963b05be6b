/*
 * batch.c - see batch.h
 *
 * Runs in nsbox-veth. The expressions are those that nft(8) makes of the same words, so
 * that `nft list ruleset` reads them back.
 *
 * Must: have the kernel's word for every message: the first error is the answer.
 */
#include "tools/veth/batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = 60000,	/* the length of an attribute has 16 bits */
	SPANS_AT_A_TIME = 500,	/* two elements each, of some 32 bytes */
};

/* --- messages ------------------------------------------------------------------------------ */

bool batch_begin(struct batch *b, const char *table, size_t room)
{
	*b = (struct batch){ .bytes = calloc(1, room + MESSAGE_MAX), .max = room, .table = table };
	return b->bytes != NULL;
}

void batch_free(struct batch *b)
{
	free(b->bytes);
	b->bytes = NULL;
}

static struct nlmsghdr *begin(struct batch *b, int type, int flags)
{
	if (b->len > b->max)
		abort(); /* the estimate of its size is wrong */
	b->open = mnl_nlmsg_put_header(b->bytes + b->len);
	b->open->nlmsg_type = (uint16_t)type;
	b->open->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	b->open->nlmsg_seq = ++b->seq;
	return b->open;
}

static void end(struct batch *b)
{
	b->len += MNL_ALIGN(b->open->nlmsg_len);
}

static void put_bracket(struct batch *b, int type)
{
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(begin(b, type, 0), sizeof(*g));

	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	g->res_id = htons(NFNL_SUBSYS_NFTABLES);
	end(b);
}

static void begin_nft(struct batch *b, int type, int flags)
{
	struct nfgenmsg *g;

	if (!b->len)
		put_bracket(b, NFNL_MSG_BATCH_BEGIN);
	g = mnl_nlmsg_put_extra_header(begin(b, NFNL_SUBSYS_NFTABLES << 8 | type,
					     NLM_F_CREATE | flags), sizeof(*g));
	g->nfgen_family = NFPROTO_INET;
	g->version = NFNETLINK_V0;
}

/* Errors come in the order of the messages: when the acknowledgement of the last one is
 * there, the others had none. */
static int hear(struct mnl_socket *nl, uint32_t last)
{
	char answer[8192] __attribute__((aligned(8)));

	for (;;) {
		ssize_t n = mnl_socket_recvfrom(nl, answer, sizeof(answer));
		int left = (int)n;

		if (n < 0)
			return -errno;
		for (struct nlmsghdr *h = (struct nlmsghdr *)answer; mnl_nlmsg_ok(h, left);
		     h = mnl_nlmsg_next(h, &left)) {
			const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);

			if (h->nlmsg_type != NLMSG_ERROR)
				return -EPROTO;
			if (e->error)
				return e->error;
			if (h->nlmsg_seq == last)
				return 0;
		}
	}
}

int batch_send(struct batch *b, struct mnl_socket *nl)
{
	int fd = mnl_socket_get_fd(nl), room = (int)b->len + MESSAGE_MAX;
	uint32_t last = b->seq;

	b->open->nlmsg_flags |= NLM_F_ACK;
	put_bracket(b, NFNL_MSG_BATCH_END);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0 ||
	    mnl_socket_sendto(nl, b->bytes, b->len) < 0)
		return -errno;
	return hear(nl, last);
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

static void put_value(struct batch *b, int attr, const void *value, size_t len)
{
	struct nlattr *n = nest(b, attr);

	mnl_attr_put(b->open, NFTA_DATA_VALUE, len, value);
	end_nest(b, n);
}

/* --- tables, chains, sets --------------------------------------------------------------------- */

void put_table(struct batch *b, uint32_t flags)
{
	begin_nft(b, NFT_MSG_NEWTABLE, NLM_F_EXCL);
	mnl_attr_put_strz(b->open, NFTA_TABLE_NAME, b->table);
	put_u32(b, NFTA_TABLE_FLAGS, flags);
	end(b);
}

void put_chain(struct batch *b, const char *name, const char *type, uint32_t hook,
	       int32_t priority)
{
	struct nlattr *n;

	begin_nft(b, NFT_MSG_NEWCHAIN, NLM_F_EXCL);
	mnl_attr_put_strz(b->open, NFTA_CHAIN_TABLE, b->table);
	mnl_attr_put_strz(b->open, NFTA_CHAIN_NAME, name);
	if (type) {
		n = nest(b, NFTA_CHAIN_HOOK);
		put_u32(b, NFTA_HOOK_HOOKNUM, hook);
		put_u32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
		end_nest(b, n);
		put_u32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
		mnl_attr_put_strz(b->open, NFTA_CHAIN_TYPE, type);
	}
	end(b);
}

void put_set(struct batch *b, const char *name, uint32_t id)
{
	enum { TYPE_IPV4_ADDR = 7 }; /* of nft's own: for its listing */

	begin_nft(b, NFT_MSG_NEWSET, NLM_F_EXCL);
	mnl_attr_put_strz(b->open, NFTA_SET_TABLE, b->table);
	mnl_attr_put_strz(b->open, NFTA_SET_NAME, name);
	put_u32(b, NFTA_SET_FLAGS, NFT_SET_INTERVAL);
	put_u32(b, NFTA_SET_KEY_TYPE, TYPE_IPV4_ADDR);
	put_u32(b, NFTA_SET_KEY_LEN, sizeof(uint32_t));
	put_u32(b, NFTA_SET_ID, id);
	end(b);
}

static void put_element(struct batch *b, uint32_t address, uint32_t flags)
{
	uint32_t key = htonl(address);
	struct nlattr *n = nest(b, NFTA_LIST_ELEM);

	put_value(b, NFTA_SET_ELEM_KEY, &key, sizeof(key));
	if (flags)
		put_u32(b, NFTA_SET_ELEM_FLAGS, flags);
	end_nest(b, n);
}

/* A range is where it begins and where it is over; one up to the last address is never
 * over. */
void put_spans(struct batch *b, const char *name, uint32_t id, const struct span *v, size_t n)
{
	while (n) {
		size_t some = n < SPANS_AT_A_TIME ? n : SPANS_AT_A_TIME;
		struct nlattr *elements;

		begin_nft(b, NFT_MSG_NEWSETELEM, 0);
		mnl_attr_put_strz(b->open, NFTA_SET_ELEM_LIST_TABLE, b->table);
		mnl_attr_put_strz(b->open, NFTA_SET_ELEM_LIST_SET, name);
		put_u32(b, NFTA_SET_ELEM_LIST_SET_ID, id);
		elements = nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
		for (size_t i = 0; i < some; i++) {
			put_element(b, v[i].first, 0);
			if (v[i].last != UINT32_MAX)
				put_element(b, v[i].last + 1, NFT_SET_ELEM_INTERVAL_END);
		}
		end_nest(b, elements);
		end(b);
		v += some;
		n -= some;
	}
}

/* --- rules ---------------------------------------------------------------------------------------- */

void begin_rule(struct batch *b, const char *chain)
{
	begin_nft(b, NFT_MSG_NEWRULE, NLM_F_APPEND);
	mnl_attr_put_strz(b->open, NFTA_RULE_TABLE, b->table);
	mnl_attr_put_strz(b->open, NFTA_RULE_CHAIN, chain);
	b->expressions = nest(b, NFTA_RULE_EXPRESSIONS);
}

void end_rule(struct batch *b)
{
	end_nest(b, b->expressions);
	end(b);
}

static void begin_expr(struct batch *b, const char *name)
{
	b->elem = nest(b, NFTA_LIST_ELEM);
	mnl_attr_put_strz(b->open, NFTA_EXPR_NAME, name);
	b->data = nest(b, NFTA_EXPR_DATA);
}

static void end_expr(struct batch *b)
{
	end_nest(b, b->data);
	end_nest(b, b->elem);
}

static void compare(struct batch *b, uint32_t op, const void *value, size_t len)
{
	begin_expr(b, "cmp");
	put_u32(b, NFTA_CMP_SREG, NFT_REG_1);
	put_u32(b, NFTA_CMP_OP, op);
	put_value(b, NFTA_CMP_DATA, value, len);
	end_expr(b);
}

static void load_meta(struct batch *b, uint32_t key)
{
	begin_expr(b, "meta");
	put_u32(b, NFTA_META_KEY, key);
	put_u32(b, NFTA_META_DREG, NFT_REG_1);
	end_expr(b);
}

static void load_payload(struct batch *b, uint32_t base, size_t offset, size_t len)
{
	begin_expr(b, "payload");
	put_u32(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_u32(b, NFTA_PAYLOAD_BASE, base);
	put_u32(b, NFTA_PAYLOAD_OFFSET, (uint32_t)offset);
	put_u32(b, NFTA_PAYLOAD_LEN, (uint32_t)len);
	end_expr(b);
}

void meta_byte(struct batch *b, uint32_t key, uint32_t op, uint8_t value)
{
	load_meta(b, key);
	compare(b, op, &value, sizeof(value));
}

void device(struct batch *b, uint32_t key, uint32_t op, const char *name)
{
	char padded[IFNAMSIZ] = { 0 };

	memcpy(padded, name, strnlen(name, sizeof(padded) - 1));
	load_meta(b, key);
	compare(b, op, padded, sizeof(padded));
}

void address(struct batch *b, size_t which, uint32_t op, uint32_t value)
{
	uint32_t big_endian = htonl(value);

	load_payload(b, NFT_PAYLOAD_NETWORK_HEADER, which, sizeof(big_endian));
	compare(b, op, &big_endian, sizeof(big_endian));
}

void in_set(struct batch *b, const char *name, uint32_t id, bool is_inverted)
{
	load_payload(b, NFT_PAYLOAD_NETWORK_HEADER, DESTINATION, sizeof(uint32_t));
	begin_expr(b, "lookup");
	mnl_attr_put_strz(b->open, NFTA_LOOKUP_SET, name);
	put_u32(b, NFTA_LOOKUP_SREG, NFT_REG_1);
	put_u32(b, NFTA_LOOKUP_SET_ID, id);
	if (is_inverted)
		put_u32(b, NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
	end_expr(b);
}

void ports_between(struct batch *b, uint16_t first, uint16_t last)
{
	uint16_t low = htons(first), high = htons(last);

	load_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof(low));
	compare(b, NFT_CMP_GTE, &low, sizeof(low));
	compare(b, NFT_CMP_LTE, &high, sizeof(high));
}

/* ct state established,related */
void known_connection(struct batch *b)
{
	uint32_t mask = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED);
	uint32_t zero = 0;

	begin_expr(b, "ct");
	put_u32(b, NFTA_CT_KEY, NFT_CT_STATE);
	put_u32(b, NFTA_CT_DREG, NFT_REG_1);
	end_expr(b);
	begin_expr(b, "bitwise");
	put_u32(b, NFTA_BITWISE_SREG, NFT_REG_1);
	put_u32(b, NFTA_BITWISE_DREG, NFT_REG_1);
	put_u32(b, NFTA_BITWISE_LEN, sizeof(mask));
	put_value(b, NFTA_BITWISE_MASK, &mask, sizeof(mask));
	put_value(b, NFTA_BITWISE_XOR, &zero, sizeof(zero));
	end_expr(b);
	compare(b, NFT_CMP_NEQ, &zero, sizeof(zero));
}

void verdict(struct batch *b, int32_t code, const char *chain)
{
	struct nlattr *data, *v;

	begin_expr(b, "immediate");
	put_u32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nest(b, NFTA_IMMEDIATE_DATA);
	v = nest(b, NFTA_DATA_VERDICT);
	put_u32(b, NFTA_VERDICT_CODE, (uint32_t)code);
	if (chain)
		mnl_attr_put_strz(b->open, NFTA_VERDICT_CHAIN, chain);
	end_nest(b, v);
	end_nest(b, data);
	end_expr(b);
}

void masquerade(struct batch *b)
{
	begin_expr(b, "masq");
	end_expr(b);
}

void reject(struct batch *b, uint32_t type, uint8_t icmp_code)
{
	begin_expr(b, "reject");
	put_u32(b, NFTA_REJECT_TYPE, type);
	mnl_attr_put_u8(b->open, NFTA_REJECT_ICMP_CODE, icmp_code);
	end_expr(b);
}
