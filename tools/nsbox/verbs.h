/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs as a table: what main() dispatches, help lists and completion offers. */
#ifndef NSBOX_VERBS_H
#define NSBOX_VERBS_H

#include "tools/nsbox/args.h"

struct verb {
	const char *name;	/* "run", "policy show" */
	const char *synopsis;	/* behind the name; NULL: nothing */
	const char *help;	/* one line */
	unsigned flags;		/* FOR_*: which flags it takes; 0: not in this version */
	int (*act)(struct args *a);
};
extern const struct verb verbs[];
extern const size_t verb_count;

int verb_policy_show(struct args *a);
int verb_policy_check(struct args *a);
int verb_policy_schema(struct args *a);
int policy_reach(struct args *a);	/* policy explain --to */
int verb_doctor(struct args *a);
int verb_sweep(struct args *a);
int verb_cache_list(struct args *a);
int verb_cache_prune(struct args *a);
int verb_help(struct args *a);
int verb_rpc(struct args *a);
int verb_top(struct args *a);
int verb_version(struct args *a);

/* Print to standard output; the exit status. */
int help_verb(unsigned flags);
int help_overview(void);
int completion_bash(void);

#endif
