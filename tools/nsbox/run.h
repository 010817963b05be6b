/* SPDX-License-Identifier: Apache-2.0 */
/* What `run`, `code` and `policy explain` share: one request into one box. */
#ifndef NSBOX_RUN_H
#define NSBOX_RUN_H

#include "nsbox.h"
#include "tools/nsbox/args.h"

/*
 * Fill in what the flags say, build the policy (from @profile when no -p names
 * one), open the box and run, or print what a run would do. @run already holds
 * argv, or language and source. Reports; returns the exit status.
 */
int run_request(const struct args *a, struct nsbox_run *run, const char *profile);

int verb_run(struct args *a);
int verb_explain(struct args *a);

#endif
