/* The parts of a host view that are the same for every policy, as operations. */
#ifndef ROOTFS_PARTS_H
#define ROOTFS_PARTS_H

#include "rootfs/view.h"

/* /etc: files of our own, and the host's where a row of the table allows it. */
int etc_build(struct plan_builder *b, const struct view_request *r, struct nsbox_error *err);

/* /dev, read-only in the end. NSBOX_E_POLICY: a device that is none. */
int dev_build(struct plan_builder *b, const struct view_request *r, struct nsbox_error *err);

/* /proc of the rung that was asked for. */
int proc_build(struct plan_builder *b, const struct view_request *r, struct nsbox_error *err);

/* What the caller should know about that rung; NULL: it is the usual one. */
const char *proc_note(enum proc_rung rung);

/* Inodes of a tmpfs of so many bytes (memory that its size does not count), and not more
 * than @most; 0: no such bound. */
uint64_t tmpfs_inodes(uint64_t bytes, uint64_t most);

#endif
