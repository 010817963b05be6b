/*
 * Landlock as a second wall behind the mounts: read and execute beneath "/",
 * writing only where the policy made a writable place. Compiles to LANDLOCK_PATH
 * and LANDLOCK operations. Pure: the ABI is passed in.
 */
#ifndef POLICY_LANDLOCK_H
#define POLICY_LANDLOCK_H

#include "policy/plan.h"
#include "policy/policy.h"

/*
 * The ABI ladder: everything this kernel knows is handled, what it does not know
 * is dropped, newest first. abi 0: Landlock is absent, nothing is added and the
 * result says so.
 */
struct landlock_request {
	int abi;
	const struct strlist *writable;	/* absolute folders in the box */
	const struct strlist *exec_only; /* process.subprocesses=false: the files that
					    may be executed; NULL: all beneath "/" */
	unsigned stage;
};
int landlock_compile(struct plan_builder *b, const struct landlock_request *r,
		     struct nsbox_error *err);

#endif
