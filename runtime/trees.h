/*
 * The sized trees of a box that its program may fill: /workspace, /tmp, /dev/shm and
 * fs.tmpfs. The kernel counts no refused write of a tmpfs, so the launcher holds a
 * descriptor of each and looks now and then whether it is full. What is full and emptied
 * again between two looks is not seen.
 */
#ifndef RUNTIME_TREES_H
#define RUNTIME_TREES_H

#include "policy/plan.h"

enum { TREES_MAX = 16 }; /* of more than these, the rest is not looked at */

struct tree {
	const char *path;	 /* in the box, without its first slash; the plan's */
	uint64_t bytes, inodes;
	bool was_full, was_out_of_inodes;
};
struct trees {
	struct tree v[TREES_MAX];
	size_t count;
};

/* Operations of the plan that make such a tree: how many, in order. */
size_t trees_find(const struct op *ops, size_t count, const char *strings,
		  const struct op *out[TREES_MAX]);

/* Have the child send a descriptor of each, all at once. Before the plan is frozen. */
void trees_plan(struct plan_builder *b, unsigned stage);

void trees_init(struct trees *t, const struct plan *plan);

/* @fds: as the child sent them, -1: it had none. The index of the first tree that is full
 * now, or -1. */
int trees_look(struct trees *t, const int fds[TREES_MAX]);

#endif
