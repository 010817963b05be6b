/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy of one call, put together from its layers: a built-in profile, then
 * the system's file, the user's, the project's (which may only tighten), the -p
 * files, and the flags in the order they were given.
 */
#ifndef NSBOX_LAYERS_H
#define NSBOX_LAYERS_H

#include "nsbox.h"
#include "tools/nsbox/args.h"

#define POLICY_FILE_MAX (1u << 20)

/* @profile: where to start when no -p names a profile; NULL: "default". */
int layers_build(struct nsbox_policy **out, const struct args *a, const char *profile,
		 struct nsbox_error *err);

/* The flags alone onto @policy: keys and variables. */
int layers_flags(struct nsbox_policy *policy, const struct args *a, struct nsbox_error *err);

/* One file onto @policy. */
int layers_load(struct nsbox_policy *policy, const char *path, enum nsbox_layer layer,
		struct nsbox_error *err);

#endif
