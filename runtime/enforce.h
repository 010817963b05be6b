/*
 * How strongly each limit of a policy holds on this host (D13: kernel, userspace, none),
 * and with which numbers. Runs in the launcher, before anything exists.
 */
#ifndef RUNTIME_ENFORCE_H
#define RUNTIME_ENFORCE_H

#include "runtime/assemble.h"

/* NSBOX_E_UNSUPPORTED: a limit that this host cannot hold, or not strongly enough. */
int enforce_decide(enum nsbox_strength out[ENF_COUNT], const struct host *h,
		   const struct policy *p, const struct nsbox_run *run,
		   struct nsbox_error *err);

/* The file by which leaves of the place share disks; NULL: they have none. */
const char *enforce_io_file(const struct cgroup_place *place);

/* The numbers that hold, from the strengths and the frozen plan of @a. */
void enforce_limits(struct in_force *out, const struct assembly *a, const struct policy *p,
		    const struct nsbox_run *run);

#endif
