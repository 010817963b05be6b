/*
 * doctor_net.c - the probes of what a box with a network needs
 *
 * Runs in a throw-away child, as doctor_probe.c does.
 *
 * Must:    load the very rules that a box gets, in the way a box does.
 */
#include "runtime/doctor.h"

#include "base/cleanup.h"
#include "runtime/child_ops.h"
#include "runtime/companion.h"

#include <linux/netlink.h>

#include "netlink.inc"

int probe_egress(struct probe_report *r)
{
	struct companion program;

	r->step = STEP_EGRESS;
	if (companion_find(&program, "nsbox-egress") < 0)
		return -1;
	close(program.fd);
	return 0;
}

/* The operation takes its messages from a plan's bytes: here these are the messages alone. */
int probe_rules(struct probe_report *r)
{
	struct child_args args = { .plan = (const struct plan *)(const void *)net_rules };
	const struct op op = { .kind = OP_NETLINK, .n = NETLINK_NETFILTER,
			       .blob_len = sizeof(net_rules) };
	long result = do_netlink(&args, &op);

	r->step = STEP_RULES;
	if (result < 0)
		errno = (int)-result;
	return result < 0 ? -1 : 0;
}
