/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the keys of a request to a policy and a run. Runs in `nsbox rpc`. The policy is
 * that of `nsbox run` with the same words: profile, the files of the system, the user and
 * the project, then "policy", then "set".
 */
#ifndef NSBOX_RPC_BUILD_H
#define NSBOX_RPC_BUILD_H

#include "tools/nsbox/args.h"
#include "tools/nsbox/rpc_ops.h"

struct rpc_build {
	struct nsbox_policy *policy;
	enum nsbox_tier tier;
	struct nsbox_run run;	/* what it points to is held below */
	struct args base, flags; /* the layers under "policy" and above it */
	char **held;		/* owned texts */
	size_t held_count;
	int stdin_fd;		/* a file in memory; -1: none */
	bool wants_progress;	/* of the installation of packages */
};
#define RPC_BUILD_INIT { .run = NSBOX_RUN_INIT, .base = ARGS_INIT, .flags = ARGS_INIT, \
			 .stdin_fd = -1 }

int rpc_build(struct rpc_build *b, const struct rpc_request *q, struct nsbox_error *err);
void rpc_build_free(struct rpc_build *b);

#endif
