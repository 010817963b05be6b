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
 * A box without namespaces sees the host's own tree: only these places. The payload gets
 * that ruleset (OP_KEEP), and init before it one that holds signals and abstract sockets
 * in: by that it ends all of the box, and nobody else (kill -1).
 */
struct landlock_place {
	const char *path;
	enum { PLACE_READ, PLACE_PROGRAMS, PLACE_DEVICE, PLACE_WRITE } kind;
	bool is_optional;	/* may be gone, or out of the box's user's reach */
};
enum { LANDLOCK_WALLS_ABI = 6 };	/* scopes of signals and sockets */

/* NSBOX_E_UNSUPPORTED: an ABI that has no scopes. */
int landlock_compile_walls(struct plan_builder *b, const struct landlock_place *places, size_t n,
			   const struct landlock_request *r, struct nsbox_error *err);

/*
 * The rights a rule may carry on a path that is not a folder. landlock_add_rule()
 * refuses the others with EINVAL, so whoever adds a row masks it after looking.
 */
#define LANDLOCK_FILE_RIGHTS 0xc007u

int landlock_compile(struct plan_builder *b, const struct landlock_request *r,
		     struct nsbox_error *err);

#endif
