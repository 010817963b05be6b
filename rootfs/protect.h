/*
 * Names that the host would run later (fs.protect: .git/hooks, .envrc, ...) in
 * folders that a box may write.
 *
 * A name that exists is bound read-only over itself. A name that does not exist
 * yet needs something to mount on: an empty folder is made on the host as a
 * placeholder and removed after the run, if it is still the same and empty. (A
 * folder whatever the name stands for: git add -A in the box passes over it.) A small
 * guardian process removes it even when the launcher is killed by SIGKILL: it
 * watches the launcher's pidfd.
 *
 * For "a/b" where "a" does not exist, "a" itself is the placeholder. Where "a" is a
 * folder it becomes a mount point of its own: otherwise the box would rename "a"
 * and make a new one.
 *
 * Two boxes at once in one folder share a placeholder: each holds a shared flock(2)
 * on it, and the last one removes it. (Removing it earlier would tear the mount out
 * of the other box.) Its mode tells a placeholder from the moment it is made: boxes
 * that start at once do not take each other's for somebody's folder.
 */
#ifndef ROOTFS_PROTECT_H
#define ROOTFS_PROTECT_H

#include "rootfs/source.h"

struct protect;

/*
 * Adds to *p (made when NULL) what folder @host, seen in the box at @box_dir, needs,
 * and appends the mounts through @to. Nothing is made on the host yet.
 * NSBOX_E_POLICY: a protected name is (or passes through) a symlink: the box could
 * replace the link, and no mount keeps it from that.
 */
int protect_folder(struct protect **p, const struct source_sink *to, const struct source *host,
		   const char *box_dir, const struct strlist *names, struct nsbox_error *err);

/* Start the guardian, then make the placeholders. Call once, last. */
int protect_arm(struct protect *p, struct nsbox_error *err);

/* Remove the placeholders now (idempotent), end the guardian, free. NULL is fine. */
void protect_release(struct protect *p);

/* The same, but the guardian removes them, when it can: their file system does not
 * answer, and would hold the caller up. */
void protect_leave(struct protect *p);

#endif
