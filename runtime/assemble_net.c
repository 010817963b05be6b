/*
 * assemble_net.c - the network of a box, as operations of its plan
 *
 * Runs in the launcher.
 *
 * Must:    plan the rules before the sockets: no moment has one without the other.
 * Mustn't: let the policy into the rules. They are constants; what a box may reach is the
 *          business of the supervisor, but where the kernel has no nf_tables.
 */
#include "runtime/assemble.h"

#include "policy/egress.h"
#include "runtime/egress_wire.h"
#include "runtime/stage.h"
#include "runtime/wire.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>

#include "netlink.inc"

enum {
	PORTS_MAX = 64,		/* a listener each; four packets */
	ALL_SOCKETS = (1 << INLET_FD_COUNT) - 1,
	DNS_SOCKETS = 1 << INLET_DNS_UDP | 1 << INLET_DNS_TCP,
};

static void plan_routes(struct plan_builder *b)
{
	PLAN_OP(b, .kind = OP_NETLINK, .stage = STAGE_network, .n = NETLINK_ROUTE,
		.blob = net_route4, .blob_len = sizeof(net_route4));
	/* ipv6.disable=1, or net.ipv6.conf.all.disable_ipv6 of the host */
	PLAN_OP(b, .kind = OP_NETLINK, .stage = STAGE_network, .n = NETLINK_ROUTE,
		.flags = OP_OPTIONAL, .blob = net_route6, .blob_len = sizeof(net_route6));
}

static void plan_inlet(struct plan_builder *b, unsigned sockets)
{
	PLAN_OP(b, .kind = OP_INLET, .stage = STAGE_network, .n = sockets, .m = WIRE_TAG_INLET);
}

/* Without nf_tables: a listener for each port that a rule names. */
static int plan_ports(struct plan_builder *b, const struct policy *p, struct nsbox_error *err)
{
	uint16_t ports[PORTS_MAX];
	struct egress_rules *rules = NULL;
	int n, r = egress_compile(&rules, p, err);

	if (r < 0)
		return r;
	n = egress_ports(rules, ports, PORTS_MAX);
	free(rules);
	if (n < 0) {
		err_hint(err, "load the kernel's nf_tables and nft_tproxy modules (as root: modprobe "
			      "nft_tproxy), or name at most %d ports: --allow-out example.org:443",
			 PORTS_MAX);
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "this kernel has no nf_tables with tproxy, and the rules allow more "
			       "than %d ports", PORTS_MAX);
	}
	if (n > 0)
		PLAN_OP(b, .kind = OP_PORTS, .stage = STAGE_network, .blob = ports,
			.blob_len = (size_t)n * sizeof(ports[0]), .m = WIRE_TAG_PORTS);
	return 0;
}

/* For net.publish: also in a box that reaches nothing itself. */
static void plan_pool(struct plan_builder *b, const struct assemble_how *how)
{
	if (how->pool)
		PLAN_OP(b, .kind = OP_POOL, .stage = STAGE_network, .n = how->pool,
			.m = WIRE_TAG_POOL);
}

int assemble_network(struct plan_builder *b, const struct policy *p,
		     const struct assemble_how *how, struct nsbox_error *err)
{
	int r = 0;

	PLAN_OP(b, .kind = OP_LOOPBACK, .stage = STAGE_network);
	/* nsbox-veth brings devices and rules from outside, before the child goes on. */
	if (p->net.mode == NET_DISABLED || p->net.path == PATH_VETH) {
		plan_pool(b, how);
		return 0;
	}
	plan_routes(b);
	if (how->inlet == INLET_BY_PORT) {
		plan_inlet(b, DNS_SOCKETS);
		r = plan_ports(b, p, err);
	} else {
		PLAN_OP(b, .kind = OP_NETLINK, .stage = STAGE_network, .n = NETLINK_NETFILTER,
			.blob = net_rules, .blob_len = sizeof(net_rules));
		plan_inlet(b, ALL_SOCKETS);
	}
	plan_pool(b, how);
	return r;
}

/* What a kernel says that lacks nf_tables (EPROTONOSUPPORT, EAFNOSUPPORT), one of its
 * families or expressions (EOPNOTSUPP, ENOENT), or IPv6 that it could filter. */
bool assemble_lacks_rules(const struct plan *plan, int failed_op, int os_errno)
{
	const struct op *op = failed_op >= 0 && (uint32_t)failed_op < plan->op_count
				      ? &plan_ops(plan)[failed_op] : NULL;

	return op && op->kind == OP_NETLINK && op->n == NETLINK_NETFILTER &&
	       (os_errno == EOPNOTSUPP || os_errno == EPROTONOSUPPORT || os_errno == ENOENT ||
		os_errno == EAFNOSUPPORT || os_errno == EINVAL);
}
