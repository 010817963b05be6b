/*
 * From a policy and a request to everything a launch needs: the frozen plan, the
 * payload's argv and environment, its extra filter, and what will be in force.
 * Runs in the launcher before anything exists; changes nothing on the host but the
 * placeholders of rootfs/protect.h.
 */
#ifndef RUNTIME_ASSEMBLE_H
#define RUNTIME_ASSEMBLE_H

#include "nsbox.h"
#include "policy/plan.h"
#include "policy/seccomp.h"
#include "rootfs/view.h"
#include "runtime/cgroup.h"
#include "runtime/identity.h"
#include "runtime/interps.h"
#include "runtime/lang.h"
#include "runtime/packages.h"
#include "runtime/record.h"
#include "runtime/walls.h"

enum { CGROUP_ROWS_MAX = 16 };

struct host { /* what this host can do; found once for a box */
	struct identity id;
	struct cgroup_place place;
	int landlock_abi;	/* 0: none */
	unsigned cpus;		/* online */
	uint64_t memory;	/* bytes of RAM; 0: not known */
};
void host_find(struct host *h, const struct policy *p, struct nsbox_error *err, int *code);

struct assembly {
	struct plan *plan;
	struct view view;
	struct strlist argv;	/* "nsbox-init", then the payload's */
	struct strlist env;
	struct bpf payload_filter; /* count 0: none */
	unsigned held;		/* SECCOMP_HOLDS_*: it has a listener, for init */
	struct cgroup_value cgroup_rows[CGROUP_ROWS_MAX];
	int cgroup_row_count;
	enum nsbox_strength enforced[ENF_COUNT];
	struct in_force limits;
	char *scratch;		/* folder of boot programs on the host (unsafe.h); NULL */
	bool tty;
	bool is_plain;		/* tier local_unsafe */
	struct walls walls;	/* of a box without namespaces */
};

enum inlet_rung { /* how a box's connections are caught */
	INLET_GATED,		/* by the rules of nf_tables: all of them */
	INLET_BY_PORT,		/* the kernel has no nf_tables: a listener for each allowed port */
};

struct assemble_how {
	enum proc_rung proc;	/* the rung of the /proc ladder to plan for */
	enum inlet_rung inlet;
	unsigned pool;		/* sockets of the box for servers in it (net.publish) */
	bool no_listener;	/* the kernel gives none: who makes a foreign call just dies */
	const struct lang_check *check; /* of the source; NULL: none */
	bool is_plain;		/* tier local_unsafe: no box around the command */
	bool is_walled;		/* a box without namespaces: walls.h */
	bool no_nproc;		/* without RLIMIT_NPROC: walls_fit_nproc() */
	bool look_only;		/* dry run: nothing is made on the host */
	const struct packages *packages; /* of the run; NULL, or without a folder: none */
	struct interps *interps; /* of the box; filled when it is not yet */
};
int assemble(struct assembly *out, const struct host *host, const struct policy *policy,
	     const struct nsbox_run *run, const struct assemble_how *how,
	     struct nsbox_error *err);
void assembly_free(struct assembly *a);

/* assemble_net.c: lo, and what else policy net.* needs */
int assemble_network(struct plan_builder *b, const struct policy *p,
		     const struct assemble_how *how, struct nsbox_error *err);
/* Did the launch of `plan` fail for want of nf_tables? Then INLET_BY_PORT may work. */
bool assemble_lacks_rules(const struct plan *plan, int failed_op, int os_errno);

#endif
