/*
 * The ladder of cgroup v2: where a writable cgroup comes from on this host, what
 * it can enforce, and one fresh leaf per run.
 *
 *   1. a cgroup v2 (sub)tree that this process may write, with controllers
 *   2. the same without cpu/memory/pids (hybrid hosts): kill, freeze, accounting
 *   3. none
 * A systemd user scope is asked for in a later version.
 */
#ifndef RUNTIME_CGROUP_H
#define RUNTIME_CGROUP_H

#include "base/err.h"
#include "policy/limits.h"

#include <stdbool.h>

struct cgroup_place {	/* found once per process, cheap to find */
	int fd;		/* folder in which leaves are made; -1: none */
	char path[512];
	bool memory, pids, cpu, io; /* controllers leaves get */
	bool kill;	/* cgroup.kill is there */
	char why[160];	/* "none": the reason, for doctor */
};
/* Never fails: rung 3 is fd -1 with `why`. */
void cgroup_find(struct cgroup_place *place);
void cgroup_place_close(struct cgroup_place *place);

struct cgroup {		/* one leaf */
	int fd;		/* for CLONE_INTO_CGROUP; -1: none */
	int place_fd;	/* borrowed from the place */
	char name[64];	/* unique: "nsbox-<pid>-<n>"; never reused while it exists */
};
/* Make the leaf and write the rows, each read back: what the kernel rounded or
 * refused is an error with the file's name. */
int cgroup_make(struct cgroup *c, const struct cgroup_place *place,
		const struct cgroup_value *rows, size_t count,
		struct nsbox_error *err);
int cgroup_join(const struct cgroup *c, int pid, struct nsbox_error *err);

struct cgroup_usage {
	uint64_t user_us, system_us, memory_peak, pids_peak;
	uint64_t oom_kills, pids_max_events;
	bool has_cpu, has_memory_peak, has_pids_peak, has_oom, has_pids_events;
};
void cgroup_read(const struct cgroup *c, struct cgroup_usage *out);

/* Kill all, wait for populated 0 (bounded), rmdir with EBUSY retries. Idempotent. */
void cgroup_destroy(struct cgroup *c);
int cgroup_kill(const struct cgroup *c); /* 0, or -1 with errno */

#endif
