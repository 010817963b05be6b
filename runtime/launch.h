/*
 * launch.c - from a frozen plan to a running payload. The launcher's (parent's) half
 * of the stages; child.c and init are the other.
 */
#ifndef RUNTIME_LAUNCH_H
#define RUNTIME_LAUNCH_H

#include "policy/plan.h"
#include "policy/seccomp.h"
#include "rootfs/view.h"
#include "runtime/cgroup.h"
#include "runtime/identity.h"
#include "runtime/trees.h"

struct launch_request {
	const struct plan *plan;
	const struct identity *id;
	const struct view *view;	/* its detached trees get their id map here */
	const struct cgroup *cgroup;	/* leaf to start in; fd -1: none */
	const char *const *argv, *const *env; /* argv[0] is init's name */
	const struct bpf *payload_filter; /* stacked for the payload alone; may be NULL */
	int init_fd;			/* sealed memfd */
	int in, out, err;		/* the child's ends; -1: /dev/null */
	int channel;			/* the payload's end of its channel; -1: none */
	unsigned own_pipes;		/* 1 << 0..2: that end is a pipe of ours */
	bool tty;
	bool is_plain;			/* a process like any other: no namespace, no ids */
	bool is_walled;			/* is_plain, and held in by Landlock and seccomp (walls.h) */
	bool is_held;			/* payload_filter has a listener, for init */
	const char *place;		/* the run's folder, when is_walled */
	bool gives_place;		/* to the child's user */
	int deadline_ms;		/* for the set-up alone */
	/*
	 * For each packet of the box's network: tag WIRE_TAG_INLET, _PORTS or _POOL, `bits` as
	 * the wire has them. The descriptors stay the launch's. Then tag 0: that was the last
	 * one. The payload is not started before all of these calls returned 0. Must be there
	 * when the plan has any.
	 */
	int (*network)(void *arg, unsigned tag, unsigned bits, const int *fds, size_t n,
		       struct nsbox_error *err);
	void *network_arg;
	/* The child exists, in its namespaces, and waits: connect its network. NULL: nothing to
	 * connect. */
	int (*connect)(void *arg, pid_t child, struct nsbox_error *err);
	void *connect_arg;
};

struct live { /* a box that runs */
	pid_t pid;		/* of init, on the host; for printing and /proc */
	int pidfd, sock;
	int work_fd;		/* O_PATH of the work folder, when the plan sends it */
	int trees[TREES_MAX];	/* O_PATH of the plan's sized trees; -1: none */
	int listener;		/* where the filter tells of foreign calls; -1: none */
	int segments;		/* the box's /proc/sysvipc/shm, when the plan sends it */
	int pty;		/* master, when the plan makes one */
	uid_t uid;
	gid_t gid;
	bool is_plain;		/* not PID 1 of anything: see watch_kill() */
	uint32_t left_out;	/* 1 + index of the first optional bind left out; 0: none */
	int exec_errno;		/* launch() returned 1: why the payload did not start */
};

/*
 * 0: the payload runs. 1: the box was built, but the payload could not be executed
 * (out->exec_errno; everything else of *out is unset). Negative: err has stage and
 * hint; *failed_op is the index of the operation that failed, or -1. Unless 0 is
 * returned nothing runs and nothing is left.
 */
int launch(struct live *out, const struct launch_request *r, int *failed_op,
	   struct nsbox_error *err);
void live_close(struct live *l);
#define LIVE_INIT { .pid = -1, .pidfd = -1, .sock = -1, .work_fd = -1, .pty = -1, \
	.segments = -1, .listener = -1, .trees = { [0 ... TREES_MAX - 1] = -1 } }

/* Wait until init is dead and reaped; timeout_ms -1: for ever. 1: still alive. */
int live_reap(struct live *l, int timeout_ms);
void live_kill(const struct live *l);

#endif
