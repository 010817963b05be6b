/*
 * net.path=veth: the launcher's side of nsbox-veth, which connects a box to the host's
 * network by a pair of devices and keeps the rules of it until the box is dead.
 */
#ifndef RUNTIME_VETH_H
#define RUNTIME_VETH_H

#include "policy/policy.h"
#include "runtime/companion.h"
#include "runtime/record.h"
#include "runtime/veth_wire.h"

struct veth_link {
	const struct policy *policy;
	struct companion_process process; /* pidfd -1: none */
	int sock;		/* -1: none */
	int setup_ms;		/* for its answer */
	struct veth_answer answer;
};

void veth_init(struct veth_link *l);
bool veth_is_wanted(const struct policy *p);
/* The `connect` call of struct launch_request; @link: a struct veth_link. */
int veth_connect(void *link, pid_t child, struct nsbox_error *err);
/* The box is dead: into the record. 0 or NSBOX_E_NOMEM. */
int veth_report(struct veth_link *l, struct nsbox_result *r);
/* Everything of it is gone when this returns. */
void veth_end(struct veth_link *l);

#endif
