/* Absolute paths as text: cleaning, joining, comparing. */
#ifndef ROOTFS_PATHS_H
#define ROOTFS_PATHS_H

#include <stdbool.h>

/*
 * @path, put behind @base when it is relative, without "//", "." and trailing
 * slashes. malloc'ed; NULL with EINVAL (empty, a ".." part, or @base not absolute)
 * or ENOMEM. ".." has no answer in text alone: the part before it may be a link.
 */
char *path_clean(const char *base, const char *path);

/* What follows @root in @path: "" for the same path, NULL when not below it. */
const char *path_below(const char *path, const char *root);

/* @dir "/" @rest, malloc'ed; rest "" gives @dir, dir "/" gives "/rest". */
char *path_join(const char *dir, const char *rest);

/* malloc'ed: everything before the last slash ("/" for "/x"). */
char *path_parent(const char *path);

/* Is it in the folders that every box sees (/usr, /bin, /lib, ...)? */
bool path_is_system(const char *path);

unsigned path_depth(const char *path);

#endif
