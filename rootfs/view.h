/*
 * The host view: which parts of the host a box sees, as operations of a plan.
 *
 * Runs in the launcher, before the child exists. Opens and checks every source,
 * changes nothing on the host (except the placeholders of protect.h).
 *
 * Two ways for a source to get into the box, told apart by `privileged`:
 *   - a launcher with CAP_SYS_ADMIN makes a detached copy of the tree with
 *     open_tree(2) and the child attaches it (ATTACH): the child runs as an
 *     unprivileged uid of its own that could not even walk to the source;
 *   - an ordinary launcher may not, so the child opens the path again in its own
 *     mount namespace, and the pin (dev, ino) proves that it is the same file
 *     (BIND): open_tree(2) refuses a descriptor of another mount namespace.
 */
#ifndef ROOTFS_VIEW_H
#define ROOTFS_VIEW_H

#include "base/strlist.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "rootfs/interp.h"

#include <sys/types.h>

enum proc_rung {	/* the ladder of /proc; the launcher steps down on EPERM */
	PROC_FULL,	/* fresh proc, host-wide parts masked */
	PROC_SUBSET,	/* fresh proc with subset=pid */
	PROC_SYNTHETIC	/* a tmpfs with self-made cpuinfo, meminfo, stat, ... */
};

/* One more file or folder than the policy names: the script, the project. */
struct view_extra {
	const char *src, *dst;	/* host path, absolute path in the box */
	bool is_own;		/* nsbox's own, read-only: no socket is in it */
};

/* A file that nsbox itself puts into the box (the boot program of a language). */
struct view_file {
	const char *dst;	/* absolute path in the box; mode 0444 */
	const void *data;
	size_t len;
};

struct view_request {
	const struct policy *policy;
	const struct interp *const *interps; /* made visible; NULL-terminated */
	bool interps_optional;	/* nobody asked for them: what cannot be reached is left out */
	const struct view_extra *extras;
	size_t extra_count;
	const struct view_file *files;
	size_t file_count;
	const char *caller_cwd;	/* absolute */
	const char *cwd;	/* asked for (--workdir), or NULL */
	bool privileged;
	uid_t owner_uid;	/* of the caller: whose the files in fs.write are */
	gid_t owner_gid;
	enum proc_rung proc;
	unsigned stage;		/* STAGE_mounts, for the operations */
	bool look_only;		/* dry run: no placeholder is made on the host */
};

/* A detached tree that must be idmapped once the box's ids are known. */
struct view_tree {
	int fd;			/* owned; close once the child has attached it */
	bool needs_idmap;	/* fs.write as root: caller's id <-> box's id */
	char *src;		/* for messages */
};

struct view {
	struct strlist writable;  /* absolute folders in the box (Landlock) */
	struct view_tree *trees;
	size_t tree_count;
	char *workdir;		  /* absolute, in the box */
	char *path;		  /* PATH for the box */
	struct protect *protect;  /* placeholders to remove afterwards; may be NULL */
	struct strlist notes;	  /* one sentence each: what the caller should know */
};

/*
 * Appends the operations of stage `mounts`: PRIVATE, ROOT, folders, binds, /etc,
 * /dev, /proc, /tmp, /workspace, masks, protected names, READONLY of the root,
 * PIVOT, CHDIR. Errors: NSBOX_E_POLICY for a source that does not exist, is a
 * socket or belongs to somebody else (fs.write); NSBOX_E_UNSUPPORTED where the
 * file system cannot be idmapped is reported later by the launcher.
 */
int view_build(struct plan_builder *b, const struct view_request *r,
	       struct view *out, struct nsbox_error *err);
void view_free(struct view *v);

#endif
