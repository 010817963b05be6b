/* The inside of struct nsbox_box; for runtime/ only. */
#ifndef RUNTIME_BOX_H
#define RUNTIME_BOX_H

#include "nsbox.h"
#include "policy/policy.h"
#include "runtime/assemble.h"
#include "runtime/egress.h"
#include "runtime/examine.h"
#include "runtime/listed.h"
#include "runtime/packages.h"
#include "runtime/veth.h"
#include "runtime/watch.h"

struct nsbox_policy {
	struct policy p;
};

struct nsbox_box {
	enum nsbox_tier tier;
	struct policy policy;
	struct host host;
	struct interps interps;	/* looked up by the first run */
	int init_fd;		/* sealed memfd with init, for every run */
	enum proc_rung proc;	/* the rung that worked */
	enum inlet_rung inlet;	/* the same of the network */
	bool no_listener;	/* a filter around this process has one already */

	/* One run at a time. */
	struct watch *watch;	/* NULL: idle */
	struct examine examine;	/* of the run's source, before or instead of it */
	char *language;		/* of the run; NULL: a command */
	struct assembly plan;
	struct egress_link egress; /* serves the run's network */
	struct veth_link veth;	/* keeps it, with net.path=veth */
	struct packages packages; /* of the run */
	struct nsbox_box *helper; /* installs them just now; NULL: none */
	struct nsbox_result *failed_exec; /* the run was over before it began */
	char *artifacts_dir;
	bool artifacts_made;	/* by us, for this run */
	uint64_t setup_us;
	struct timespec started; /* artifacts are not older than this */
	struct listed listed;	/* what the list of boxes says of this run */
	bool over;
	bool starting, kill_wanted; /* killed while there was no watch yet */
	pthread_mutex_t lock;	/* watch, starting, kill_wanted, helper: nsbox_box_kill() of
				   another thread */
};

/* A flag of struct nsbox_run that callers cannot give: the run is a kernel's (repl.h). The
 * language starts its driver, and stdout and stderr are watch.pipes, which nobody pumps. */
enum { RUN_KERNEL = 1 << 30, RUN_ANSWERS = 1 << 29 };

/* The request with every field the caller's header had, the rest zero; checked. */
int run_read(struct nsbox_run *out, const struct nsbox_run *in, struct nsbox_error *err);
/* The same of a kernel: no code, no streams; with RUN_KERNEL and a channel. */
int run_read_kernel(struct nsbox_run *out, const struct nsbox_run *in, struct nsbox_error *err);

/* box_run.c: the life of one run. */
int run_start(struct nsbox_box *box, const struct nsbox_run *run, struct nsbox_error *err);
int run_collect(struct nsbox_box *box, struct nsbox_result **out, struct nsbox_error *err);
void run_drop(struct nsbox_box *box); /* kill, reap, remove every trace */

/* box_over.c: runs that are over before they begin. 1: over; 0: go on. */
int run_judge_first(struct nsbox_box *box, const struct watch *w, const struct nsbox_run *run,
		    struct nsbox_error *err);
int run_take_packages(struct nsbox_box *box, const struct nsbox_run *run,
		      struct nsbox_error *err);
/* The result of one: 0, and nsbox_box_fd() is readable. */
int run_without_packages(struct nsbox_box *box, const struct watch *w, struct nsbox_error *err);
int run_exec_failed(struct nsbox_box *box, const struct watch *w, struct nsbox_error *err);

#endif
