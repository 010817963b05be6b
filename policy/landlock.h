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
	const struct strlist *writable;	/* absolute places in the box, /tmp and
					   /dev/shm among them */
	const struct strlist *exec_only; /* process.subprocesses=false: the files that
					    may be executed, their ELF and #!
					    interpreters among them (the kernel opens
					    those for execution as well); NULL: all
					    beneath "/" and the writable places */
	unsigned stage;
};

/*
 * The rights a rule may carry on a path that is not a folder. landlock_add_rule()
 * refuses the others with EINVAL, so whoever adds a row masks it after looking.
 */
#define LANDLOCK_FILE_RIGHTS 0xc007u

int landlock_compile(struct plan_builder *b, const struct landlock_request *r,
		     struct nsbox_error *err);

#endif
