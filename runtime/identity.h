/*
 * Who the box is on the host.
 *
 * The payload never has the host's uid 0 and never the caller's other groups:
 *   - a launcher that may map ids (CAP_SETUID, CAP_SETGID) gives each box one uid and
 *     one gid of its own from an unprivileged range. The number comes from the child's
 *     pid, which is unique among living processes, so no allocation can leak;
 *   - any other launcher maps its own uid and gid, which is all the kernel allows it.
 * Inside, both are 1000.
 */
#ifndef RUNTIME_IDENTITY_H
#define RUNTIME_IDENTITY_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum { BOX_UID = 1000, BOX_GID = 1000 };

struct id_range {
	uint32_t first, count;
};

struct identity {
	uid_t caller_uid;
	gid_t caller_gid;
	bool may_map;	/* CAP_SETUID and CAP_SETGID: a range of ids can be used */
	bool may_tree;	/* CAP_SYS_ADMIN over this mount namespace: open_tree works */
	bool is_host_root; /* the caller's uid is the host's 0, not a container's */
	struct id_range uids, gids; /* to choose from when may_map; count 0: own ids */
};

/* NSBOX_E_UNSUPPORTED when the host's root would be all there is to map. Ids of a user
 * namespace that maps no root of the host are ordinary ones, 0 included. */
int identity_find(struct identity *out, struct nsbox_error *err);
/*
 * Files that the box makes in a folder of the caller's must belong to the caller. The
 * root of a container may not make idmapped mounts of the host's file systems: its box
 * gets the caller's own ids after all. The host's root never does; without idmapped
 * mounts it is NSBOX_E_UNSUPPORTED.
 */
int identity_for_writing(struct identity *id, struct nsbox_error *err);
/* The caller's uid as the user namespace around this one has it; in the first one, and
 * where /proc does not tell, it is just the caller's. */
uid_t identity_outside(void);
uid_t identity_uid(const struct identity *id, pid_t child);
gid_t identity_gid(const struct identity *id, pid_t child);

#endif
