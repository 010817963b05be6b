/* One file or folder of the host on its way into a box: opened, checked, mounted. */
#ifndef ROOTFS_SOURCE_H
#define ROOTFS_SOURCE_H

#include "rootfs/view.h"

#include <sys/stat.h>

struct source {
	int fd;		/* owned, O_PATH */
	char *path;	/* absolute, as it was asked for */
	char *real;	/* the same with every link resolved */
	struct stat st;
};
#define SOURCE_INIT { .fd = -1 }

/*
 * Open once and check by descriptor: a folder or a regular file, not "/" and not
 * in /proc, /sys or /dev. NSBOX_E_POLICY otherwise.
 */
int source_open(struct source *s, const char *path, struct nsbox_error *err);
/* The same for @rest below @parent, through no link. ENOENT in errno is left to see. */
int source_below(struct source *s, const struct source *parent, const char *rest,
		 struct nsbox_error *err);
void source_close(struct source *s);

/* Where the operations go, and how a source travels (view.h: BIND or ATTACH). */
struct source_sink {
	struct plan_builder *b;
	struct view *view;	/* takes the detached trees */
	bool privileged;
	unsigned stage;
};

enum source_use {
	SOURCE_READ,		/* read-only, the whole tree below */
	SOURCE_TRY,		/* the same, and left out where it cannot be reached */
	SOURCE_WRITE,		/* writable */
	SOURCE_SEAL,		/* read-only, with the ids of the writable folder around it */
};

/* Append what makes @s appear at @dst (absolute in the box). */
int source_mount(const struct source_sink *to, const struct source *s, const char *dst,
		 enum source_use use, struct nsbox_error *err);

/*
 * Cover every socket below @s, seen at @dst: a read-only mount does not keep a
 * program from connecting to one. Walks breadth first until *budget entries were
 * looked at (all sources of a view share it); beyond that only the sockets that
 * /proc/net/unix names are found, and view->notes says so.
 */
enum { SOCKETS_BUDGET = 16384 };
int sockets_mask(const struct source_sink *to, const struct source *s, const char *dst,
		 size_t *budget, struct nsbox_error *err);

#endif
