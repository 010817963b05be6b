/* What the caller's home holds that a box may never write (fs.protect_home). */
#ifndef ROOTFS_HOME_H
#define ROOTFS_HOME_H

#include "rootfs/source.h"

/*
 * The names of fs.protect_home as absolute paths of the host: below $HOME and the
 * home of the account, below $XDG_CACHE_HOME and $XDG_CONFIG_HOME where they are set,
 * and each once more with its links resolved. They need not exist.
 */
int home_paths(struct strlist *out, const struct strlist *names, struct nsbox_error *err);

/*
 * Append to @names what of @paths the writable folder @host holds, relative to it.
 * NSBOX_E_POLICY: @host itself is one of them, or lies in one.
 */
int home_protect(struct strlist *names, const struct source *host, const struct strlist *paths,
		 struct nsbox_error *err);

/* What follows the folder @top in @path, by device and inode of every folder on the
 * way: "" for @top itself, NULL when @path does not lead through it. */
const char *path_through(const char *path, const struct stat *top);

#endif
