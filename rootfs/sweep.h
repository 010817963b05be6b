/* What launchers that were killed left in folders: placeholders and half-written files. */
#ifndef ROOTFS_SWEEP_H
#define ROOTFS_SWEEP_H

#include "base/err.h"
#include "base/strlist.h"

struct swept {
	struct strlist removed, kept; /* "<kind> <path>"; kept: the kernel would not let go */
};
/* 0, or a negative code. */
int swept_add(struct strlist *to, const char *kind, const char *path, struct nsbox_error *err);

/*
 * Placeholders of @names in the folder, and files that artifacts were being copied to.
 * What a living box or launcher holds is locked, and stays.
 */
int sweep_folder(struct swept *s, const char *folder, const struct strlist *names,
		 struct nsbox_error *err);

/* Half-written files in the caller's cache of interpreters (NULL: where it is). */
int sweep_cache(struct swept *s, const char *cache_dir, struct nsbox_error *err);

#endif
