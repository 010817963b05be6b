/*
 * watch.c - one run in flight: streams, deadlines, limits, evidence
 *
 * Everything is one epoll descriptor, so that a caller's event loop needs to know one
 * number. watch_turn() handles what is ready and says whether the run is over.
 */
#ifndef RUNTIME_WATCH_H
#define RUNTIME_WATCH_H

#include "policy/policy.h"
#include "runtime/assemble.h"
#include "runtime/capture.h"
#include "runtime/cgroup.h"
#include "runtime/egress.h"
#include "runtime/launch.h"
#include "runtime/pump.h"
#include "runtime/sample.h"
#include "runtime/wire.h"

#include <pthread.h>

enum kill_reason { /* why the launcher killed the box; the first one wins */
	KILL_NONE, KILL_TIMEOUT, KILL_CPU, KILL_MEMORY, KILL_PIDS, KILL_OUTPUT, KILL_CALLER,
	KILL_LOST, KILL_DISK, KILL_FOREIGN
};

struct evidence { /* what is known about how the run ended */
	enum kill_reason killed;
	bool has_exit, reaped, has_rusage;
	struct wire_exit exit;
	uint64_t kill_value;	/* bytes, processes or µs that broke the limit; of KILL_DISK
				   the index of the tree */
	uint64_t sampled_memory, sampled_pids; /* peaks; 0: never sampled */
	uint64_t rusage_user_us, rusage_system_us;
	uint64_t sampled_user_us, sampled_system_us; /* the most that was seen */
	struct cgroup_usage cgroup;
	struct {		/* the first call of another ABI that was held */
		bool is_seen;
		uint32_t arch, nr; /* AUDIT_ARCH_*, as in struct seccomp_data */
	} foreign;
};

enum { PUMP_REPORT = 3, PUMP_COUNT };

struct watch {
	const struct policy *policy;
	const struct assembly *plan;
	struct live live;
	struct cgroup cgroup;
	struct trees trees;
	struct egress_link *egress; /* of this run; NULL: the box has no network */
	struct capture out, err, report;
	struct pump pumps[PUMP_COUNT]; /* in, out, err; with a pty: in, out; report: what a
				   check of the source says (report.h) */
	bool pump_used[PUMP_COUNT];
	int epoll, timer;
	bool was_told;		/* init, to kill its descendants; under `lock` */
	int channel;		/* the host's end; -1: the run has none */
	int pipes[2];		/* of a kernel: its stdout and stderr, to read; -1: none */
	int answers;		/* of a shell's kernel: where calls are answered; -1: none */
	uint64_t timeout_us, started_us, ended_us, deadline_us, kill_at_us, patience_us;
	uint64_t next_sample_us, resume_us, armed_us;
	uint64_t cpu_seen_us, saturated_since_us, refused_forks;
	/* Looks at memory: when an exact one is due and what the last cost, how much the
	 * cheap ones say too much, what is left below the limit. */
	uint64_t exact_us, exact_cost_us, shared, headroom;
	struct sample last;	/* the last cheap one */
	uint64_t busy_us;	/* when the box was last seen to run */
	int setup_ms;		/* deadline of the set-up */
	unsigned signals_due;	/* of watch_signal_told(): those that init has not sent yet */
	bool terminated, paused, dead;
	bool is_stuck;		/* dead, but waits inside the kernel: wait for nothing of it */
	struct evidence evidence;
	pthread_mutex_t lock;	/* live.pidfd against nsbox_box_kill() of another thread */
};

enum { PATIENCE_US = 5000000 };	/* after SIGKILL: a process may sit in the kernel */

uint64_t now_us(void);

/* The payload runs (launch() returned 0): take the streams over and start the clocks.
 * @timeout_us: of this run. On failure the box is killed and reaped. */
int watch_begin(struct watch *w, uint64_t timeout_us, struct nsbox_error *err);

/* Handle what is ready; block for at most timeout_ms (-1: for ever). 1: over. */
int watch_turn(struct watch *w, int timeout_ms, struct nsbox_error *err);

/* One message to init; -1: it cannot be told any more. */
int watch_tell(const struct watch *w, int type, int value);
void watch_kill(struct watch *w, enum kill_reason why, uint64_t value);
int watch_signal(struct watch *w, int sig, struct nsbox_error *err);
/* The same, counted in signals_due until init has sent it; the payload may have ended. Few at
 * a time, and watch_turn() in between: init waits for room for its answers. */
void watch_signal_told(struct watch *w, int sig);

#endif
