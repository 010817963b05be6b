/*
 * The ladder of cgroup v2: where a writable cgroup comes from on this host, what
 * it can enforce, and one fresh leaf per run. The steps, first that works:
 *
 *   top    <mount>/nsbox, below the top of the whole hierarchy (root on a host)
 *   above  the nearest cgroup around this process that has the controllers on for its
 *          children and is ours: delegated to us, or the top of a container
 *   own    the cgroup in which this process is alone: it moves into a leaf, the boxes
 *          come beside it. Only where the caller agreed to be moved.
 *   scope  a transient scope of the user's systemd (scope.h)
 *   bare   a cgroup of ours without controllers: kill, freeze, accounting
 *   none
 *
 * "Ours" is more than writable: a cgroup has one writer (systemd's CGROUP_DELEGATION).
 * A slice is systemd's; a scope or service is ours when it says that it is delegated;
 * any other folder when this user owns it.
 */
#ifndef RUNTIME_CGROUP_H
#define RUNTIME_CGROUP_H

#include "base/err.h"
#include "policy/limits.h"
#include "runtime/accounts.h"
#include "runtime/scope.h"

#include <stdbool.h>
#include <sys/types.h>

#define CGROUP_OWN_FOLDER "nsbox" /* below the top of the hierarchy */

#define CGROUP_STEPS(X) \
	X(NONE, "none", "no cgroup of version 2 can be written") \
	X(TOP, "top", "a folder of our own below the top of the hierarchy") \
	X(ABOVE, "above", "a cgroup around this process that is delegated to it") \
	X(OWN, "own", "the own cgroup; the calling process moves into a leaf of it") \
	X(SCOPE, "scope", "a transient scope of the user's systemd for each box") \
	X(BARE, "bare", "a cgroup without controllers: kill, freeze and accounting only")

enum cgroup_step {
#define X(name, word, text) CGROUP_##name,
	CGROUP_STEPS(X)
#undef X
};

/* What stood in the way, where the remedy depends on it; `why` is for people. */
enum cgroup_obstacle {
	OBSTACLE_OTHER,
	OBSTACLE_OUTSIDE,	/* the mount shows what is outside of our cgroup namespace */
	OBSTACLE_NO_PROGRAM,	/* nsbox-scope is not installed */
	OBSTACLE_NOT_GIVEN,	/* the user's systemd has no controllers to pass on */
};

struct cgroup_place {	/* found once for a box */
	int fd;		/* folder in which leaves are made; -1: none */
	char path[512];
	bool memory, pids, cpu, io; /* controllers leaves get */
	bool kill;	/* cgroup.kill is there */
	bool is_ours;	/* <mount>/nsbox, made by us: removed with its last user */
	int step;	/* enum cgroup_step */
	struct scope scope; /* of step scope */
	bool has_no_controllers; /* cgroup v1 has them, or the kernel was built without */
	bool is_nested;	/* the mount's top is not the hierarchy's: in a container */
	bool is_user;	/* the caller is not root */
	int obstacle;	/* enum cgroup_obstacle */
	char own[256];	/* this process's cgroup, as /proc/self/cgroup has it */
	char why[160];	/* bare and none: what stood in the way */
	int os_errno;	/* and the kernel's word for it, or 0 */
};
/* Never fails: step none is fd -1 with `why`. */
void cgroup_find(struct cgroup_place *place, enum cgroup_reach reach);
/* The same for doctor, and async-signal-safe: enables nothing, moves nobody, leaves
 * nothing. What cgroup_find() would have to enable first counts as there; a scope is
 * made, and goes when the place is closed. */
void cgroup_look(struct cgroup_place *place);
void cgroup_place_close(struct cgroup_place *place);
const char *cgroup_step_name(int step), *cgroup_step_text(int step);
/* The command or unit line that would give this place controllers; NULL: it has them. */
const char *cgroup_remedy(const struct cgroup_place *place);

/* How the place is found, apart, so that it can be tested without the mounts. */
struct cgroup_mount {
	char root[256], point[256];
	bool is_writable;
};
/* One line of mountinfo (cut up in place). -1: not a cgroup2 mount. */
int cgroup_parse_mount(char *line, struct cgroup_mount *out);
/* Its top lies above our cgroup namespace: nothing may be moved there. */
bool cgroup_is_outside(const struct cgroup_mount *m);
/* <own path of /proc/self/cgroup> seen from the mount: "" is the mount's top.
 * NULL: outside of what is mounted. */
const char *cgroup_below_mount(const struct cgroup_mount *m, const char *own);
int cgroup_find_mount(struct cgroup_mount *out); /* 0, or -1 with errno */
int cgroup_find_own(char *path, size_t size);    /* as /proc/self/cgroup has it */
/* Is the folder `name` (its path's last part) one in which we may make leaves? */
bool cgroup_is_ours(int dirfd, const char *name);
/* cgroup.procs lists `pid`, perhaps its parent (0: nobody else), and no other. */
bool cgroup_is_alone(int dirfd, int pid, int parent);
/* The folder that both paths are below: how much of `a` it is. */
size_t cgroup_common(const char *a, const char *b);

struct cgroup {		/* one leaf */
	int fd;		/* for CLONE_INTO_CGROUP; -1: none */
	int place_fd;	/* borrowed from the place */
	const struct scope *scope; /* borrowed as well; NULL: we may move processes ourselves */
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
/* Through systemd where only it may: see scope.h. Afterwards the process is in it. */
int cgroup_join(const struct cgroup *c, int pid, struct nsbox_error *err);

/* A whole file of a leaf, NUL-terminated, without its last newline: its length, or -1.
 * A longer one is cut: its length is then CGROUP_TEXT - 1. */
enum { CGROUP_TEXT = 4096 };
ssize_t cgroup_text(int dirfd, const char *file, char text[CGROUP_TEXT]);

struct cgroup_usage {
	uint64_t user_us, system_us, memory_peak, pids_peak;
	uint64_t oom_kills, pids_max_events;
	bool has_cpu, has_memory_peak, has_pids_peak, has_oom, has_pids_events;
	struct accounts accounts;
};
/* All that the kernel counted for a leaf; what it has no file for is not known. */
void cgroup_read(const struct cgroup *c, struct cgroup_usage *out);
/* The same for a look while it runs: processor time and refused forks alone. */
void cgroup_peek(const struct cgroup *c, struct cgroup_usage *out);

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
