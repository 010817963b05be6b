/*
 * The child's side of a launch: everything it needs, in the memory it shares with
 * the launcher until init runs. The launcher must keep all of it alive and unchanged
 * until it has heard RUNNING or FAIL, or the child is dead.
 */
#ifndef RUNTIME_CHILD_H
#define RUNTIME_CHILD_H

#include "policy/plan.h"

#include <stdbool.h>
#include <sys/types.h>

struct child_args {
	const struct plan *plan;
	int sock;		/* the child's end of the handshake */
	int launcher_sock;	/* the other end: its copy is closed first of all */
	int in, out, err;	/* become 0, 1, 2; -1: the box's /dev/null */
	int init_fd;		/* sealed memfd with init */
	int channel;		/* the payload's end; -1: none */
	int calls;		/* init's end of the pair of OP_CALLS; the caller sets -1 */
	const char *const *argv; /* of init: "nsbox-init", then the payload's */
	const char *const *env;	/* of the payload; init passes it on */
	uid_t own_uid;		/* OWN_IDS; set before the GO */
	gid_t own_gid;
	bool was_moved;		/* into its cgroup, by the launcher, after its birth; set
				   before the GO */

	/* Written by the child, read by the launcher when the child is silent: how
	 * far it came. Shared memory, so even SIGKILL leaves it readable. */
	volatile uint32_t stage, op;
	volatile uint32_t left_out; /* 1 + index of the first optional bind that failed */

#ifdef NSBOX_FAULTS
	/* The fault build only: fail or stop on purpose. */
	uint32_t fault_stage, fault_op;	/* UINT32_MAX: none */
	int fault_errno, fault_action;
	volatile int fault_hit;
#endif

	/* What operations share while the child walks them. */
	int root_fd;
};

enum fault_action { FAULT_NONE, FAULT_KILL_CHILD, FAULT_STOP_CHILD, FAULT_KILL_PARENT,
		    FAULT_PAUSE_CHILD };

/* The entry point on the new stack. Never returns. */
void child_main(void *args);

#endif
