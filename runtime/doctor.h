/*
 * doctor: does this host give what the local tier needs? Every answer comes from
 * doing it in a throw-away child.
 *
 *   doctor.c        the table of checks, the verdict, text and JSON   (caller)
 *   doctor_run.c    one probe in a child, with a time limit           (caller, child)
 *   doctor_probe.c  the probes                                        (child)
 *   doctor_net.c    those of a box with a network                     (child)
 */
#ifndef RUNTIME_DOCTOR_H
#define RUNTIME_DOCTOR_H

#include "runtime/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a probe stopped. */
#define PROBE_STEPS(X) \
	X(START, "start the probe") \
	X(TIMEOUT, "finish within 5 s") \
	X(DIED, "survive the probe") \
	X(CLONE, "clone with new namespaces") \
	X(MAP, "map a uid and a gid") \
	X(IDS, "become the mapped user") \
	X(UNSHARE, "unshare") \
	X(SLAVE, "make mounts private") \
	X(TMPFS, "mount a tmpfs") \
	X(LOOPBACK, "bring lo up") \
	X(HOSTNAME, "set the host name") \
	X(OPEN_TREE, "open_tree") \
	X(SETATTR, "mount_setattr") \
	X(MOVE, "move_mount") \
	X(PIVOT, "pivot_root") \
	X(PROC, "mount a fresh proc") \
	X(OVERLAY, "mount an overlay") \
	X(FILTER, "load a seccomp filter") \
	X(RULESET, "create a Landlock ruleset") \
	X(RESTRICT, "restrict itself with Landlock") \
	X(PIDFD, "pidfd_open") \
	X(SIGNAL, "signal through a pidfd") \
	X(WAIT, "wait for a pidfd") \
	X(CLONE3, "clone3") \
	X(OPENAT2, "openat2") \
	X(CLOSE_RANGE, "close_range") \
	X(MEMFD, "make an executable sealed memfd") \
	X(KEYRING, "join a new session keyring") \
	X(SCHED_CORE, "make a core scheduling cookie") \
	X(CGROUP, "make a cgroup") \
	X(INTO_CGROUP, "start a child in the cgroup") \
	X(CGROUP_KILL, "kill through cgroup.kill") \
	X(SAMPLE, "read a process's memory in /proc") \
	X(EGRESS, "find nsbox-egress beside nsbox") \
	X(RULES, "load the rules of nf_tables into a new network namespace") \
	X(NO_EFFECT, "see the effect")

enum probe_step {
#define X(name, text) STEP_##name,
	PROBE_STEPS(X)
#undef X
	STEP_COUNT
};

/* What the child writes into the pipe, in one piece (it is below PIPE_BUF). */
struct probe_report {
	int32_t failed;		/* 0: it works */
	int32_t step;		/* enum probe_step of the failure */
	int32_t os_errno;
	int32_t value;		/* the probe's own: Landlock's ABI, ... */
	struct cgroup_place place; /* of probe_cgroup(); its fd means nothing here */
};

/* 0, or -1 with errno and r->step. */
typedef int probe_call(struct probe_report *r);

struct probe {
	probe_call *call;
	bool in_userns;		/* in a user namespace with an id mapped; else as caller */
	int namespaces;		/* CLONE_NEW* on top */
};

/* Never fails: what went wrong is in the report. Leaves nothing behind. */
void doctor_child(const struct probe *p, struct probe_report *out);

/* Between clone and _exit: start a child of the probe in new namespaces, with ids
 * mapped and taken. In the child: 0, with r->failed if it could not take them; in the
 * parent its pid; -1 with errno and r->step. */
int probe_clone_mapped(struct probe_report *r, int namespaces);

probe_call probe_userns, probe_mountns, probe_pidns, probe_netns, probe_ipcns, probe_utsns,
	probe_cgroupns, probe_timens, probe_mount_api, probe_pivot, probe_proc, probe_overlay,
	probe_seccomp, probe_landlock, probe_pidfd, probe_clone3, probe_sched_core, probe_syscalls, probe_memfd,
	probe_keyring, probe_idmap, probe_cgroup, probe_cgroup_kill, probe_sampling,
	probe_egress, probe_rules;

#endif
