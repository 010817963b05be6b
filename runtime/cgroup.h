/*
 * The ladder of cgroup v2: where a writable cgroup comes from on this host, what
 * it can enforce, and one fresh leaf per run.
 *
 *   1. a cgroup v2 (sub)tree that this process may write, with controllers
 *   2. the same without cpu/memory/pids (hybrid hosts): kill, freeze, accounting
 *   3. none
 * A systemd user scope is asked for in a later version.
 *
 * The tree is <mount>/nsbox/ where the root of the hierarchy is visible and writable,
 * else the cgroup that this process is in. There, "no internal processes" usually
 * means rung 2: moving the caller into a leaf of its own would give it controllers,
 * but a library does not move its caller.
 */
#ifndef RUNTIME_CGROUP_H
#define RUNTIME_CGROUP_H

#include "base/err.h"
#include "policy/limits.h"

#include <stdbool.h>

#define CGROUP_OWN_FOLDER "nsbox" /* below the top of the hierarchy */

struct cgroup_place {	/* found once per process, cheap to find */
	int fd;		/* folder in which leaves are made; -1: none */
	char path[512];
	bool memory, pids, cpu, io; /* controllers leaves get */
	bool kill;	/* cgroup.kill is there */
	bool is_ours;	/* <mount>/nsbox, made by us: removed with its last user */
	char why[160];	/* rung 2 and 3: what stood in the way, for doctor */
	int os_errno;	/* and the kernel's word for it, or 0 */
};
/* Never fails: rung 3 is fd -1 with `why`. */
void cgroup_find(struct cgroup_place *place);
/* The same for doctor: enables nothing, leaves nothing, and is async-signal-safe.
 * Controllers that cgroup_find() would have to enable first count as there. */
void cgroup_look(struct cgroup_place *place);
void cgroup_place_close(struct cgroup_place *place);

/* How the place is found, apart, so that it can be tested without the mounts. */
struct cgroup_mount {
	char root[256], point[256];
	bool is_writable;
};
/* One line of mountinfo (cut up in place). -1: not a cgroup2 mount. */
int cgroup_parse_mount(char *line, struct cgroup_mount *out);
/* <own path of /proc/self/cgroup> seen from the mount: "" is the mount's top.
 * NULL: outside of what is mounted. */
const char *cgroup_below_mount(const struct cgroup_mount *m, const char *own);
int cgroup_find_mount(struct cgroup_mount *out); /* 0, or -1 with errno */

struct cgroup {		/* one leaf */
	int fd;		/* for CLONE_INTO_CGROUP; -1: none */
	int place_fd;	/* borrowed from the place */
	char name[64];	/* unique: "nsbox-<pid>-<n>"; never reused while it exists */
};
/*
 * Make the leaf and write the rows, each read back: what the kernel rounded or
 * refused is an error with the file's name. First removes leaves that a killed
 * launcher left: unpopulated ones whose lock nobody holds.
 */
int cgroup_make(struct cgroup *c, const struct cgroup_place *place,
		const struct cgroup_value *rows, size_t count,
		struct nsbox_error *err);
/* The parts of cgroup_make(). An empty leaf, locked for the life of c->fd: 0, or -1
 * with errno, async-signal-safe. */
int cgroup_leaf(struct cgroup *c, int place_fd);
int cgroup_set(int leaf_fd, const struct cgroup_value *row, struct nsbox_error *err);
int cgroup_join(const struct cgroup *c, int pid, struct nsbox_error *err);

struct cgroup_usage {
	uint64_t user_us, system_us, memory_peak, pids_peak;
	uint64_t oom_kills, pids_max_events;
	bool has_cpu, has_memory_peak, has_pids_peak, has_oom, has_pids_events;
};
void cgroup_read(const struct cgroup *c, struct cgroup_usage *out);

/* What a leaf uses at this moment; its own processes and init. */
struct cgroup_now {
	uint64_t cpu_us, memory_bytes, pids;
	bool has_cpu, has_memory, has_pids;
};
void cgroup_read_now(int leaf_fd, struct cgroup_now *out);

/* Kill all, wait for populated 0 (bounded), rmdir with EBUSY retries. Idempotent. */
void cgroup_destroy(struct cgroup *c);
/* The same without waiting: processes in it wait inside the kernel. A sweep removes it. */
void cgroup_leave(struct cgroup *c);
int cgroup_kill(const struct cgroup *c); /* 0, or -1 with errno */

/* What a killed launcher left. "Abandoned" is a lock that nobody holds, never a pid. */
bool cgroup_is_leaf(const char *name);
enum cgroup_abandoned { CGROUP_IN_USE, CGROUP_POPULATED, CGROUP_REMOVED };
enum cgroup_abandoned cgroup_remove_abandoned(int place_fd, const char *name);

#endif
