/*
 * Names that the host would run later (fs.protect: .git/hooks, .envrc, ...) in
 * folders that a box may write.
 *
 * A name that exists is bound read-only over itself. A name that does not exist
 * yet needs something to mount on: an empty placeholder is made on the host and
 * removed after the run, if it is still the same empty file or folder. A small
 * guardian process removes it even when the launcher is killed by SIGKILL: it
 * waits for the end of a pipe that only the launcher holds.
 */
#ifndef ROOTFS_PROTECT_H
#define ROOTFS_PROTECT_H

#include "policy/plan.h"
#include "policy/policy.h"

struct protect;

/* Adds to *p (made when NULL) what folder @host_dir, seen in the box at @box_dir,
 * needs; appends the read-only binds to @b. @tree_fd: the privileged launcher's
 * way (see view.h); privileged ones are added through @attach. */
int protect_folder(struct protect **p, struct plan_builder *b,
		   const char *host_dir, const char *box_dir,
		   const struct strlist *names, unsigned stage,
		   struct nsbox_error *err);

/* Remove the placeholders now (idempotent), end the guardian, free. */
void protect_release(struct protect *p);

#endif
