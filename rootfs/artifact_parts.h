/* The pieces of artifact collection: one file copied, one file named. */
#ifndef ROOTFS_ARTIFACT_PARTS_H
#define ROOTFS_ARTIFACT_PARTS_H

#include "rootfs/artifacts.h"

enum { CONTENT_HEAD = 16 };	/* bytes that content_type() looks at */

/* By name, confirmed by the first bytes where the type has any; NULL: unknown. */
const char *content_type(const char *name, const unsigned char *head, size_t len);

struct copy {
	int source;		/* open for reading */
	int folder;		/* of the destination */
	const char *name;	/* in folder */
	uint64_t limit;		/* bytes at most */
	uid_t uid;
	gid_t gid;
	/* results */
	uint64_t size;
	char sha256[65];
	unsigned char head[CONTENT_HEAD];
	size_t head_len;
};

/*
 * Copy into a new file beside the destination, then rename over it. 0: done; 1: not
 * taken, *why says it ("limit", "destination is a folder"); -1: errno, the host
 * cannot take it. Nothing is left behind unless 0.
 */
int artifact_copy(struct copy *c, const char **why);

/* The name of such a new file while it has a name (see artifact_copy.c). */
bool artifact_is_temp(const char *name);

#endif
