/* What a policy puts into a box besides the system: collected, checked, in order. */
#ifndef ROOTFS_BINDS_H
#define ROOTFS_BINDS_H

#include "rootfs/source.h"

enum bind_kind {
	BIND_READ,	/* fs.read, an extra */
	BIND_WRITE,	/* fs.write */
	BIND_TREE,	/* an interpreter's folder */
	BIND_LINK,	/* a symlink that an interpreter's path passes through */
	BIND_TMPFS,	/* fs.tmpfs, and /tmp and /workspace of every box */
};

struct bind {
	enum bind_kind kind;
	struct source source;	/* READ, WRITE, TREE */
	char *dst;		/* absolute in the box, clean */
	char *target;		/* LINK */
	uint64_t bytes, inodes;	/* TMPFS */
	unsigned mode;		/* TMPFS */
	bool is_optional;	/* TREE: of an interpreter that nobody asked for */
	size_t order;		/* as given: ties keep it */
};
struct bind_list {
	struct bind *v;
	size_t n;
	struct strlist notes;	/* what was left out, one sentence each */
};

/* Everything of the request, parents before what lies in them. */
int binds_collect(struct bind_list *out, const struct view_request *r,
		  struct nsbox_error *err);
void binds_free(struct bind_list *l);

#endif
