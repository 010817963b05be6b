/*
 * Judging a source before it runs (imports.allow), or instead of it (tier static). The box
 * does it, with the interpreter that would run the source; here is what it is told, and
 * what becomes of its report.
 */
#ifndef RUNTIME_EXAMINE_H
#define RUNTIME_EXAMINE_H

#include "nsbox.h"
#include "policy/policy.h"
#include "runtime/lang.h"
#include "runtime/record.h"
#include "runtime/watch.h"

struct examine {
	bool is_wanted;		/* there is a report to wait for */
	bool has_check;		/* the interpreter is told of rules */
	struct lang_check check; /* borrows the policy's list */
};

/* What the policy and the tier ask of this run. NSBOX_E_UNSUPPORTED: import rules for what
 * is no Python source. */
int examine_decide(struct examine *out, enum nsbox_tier tier, const struct policy *p,
		   const struct nsbox_run *run, struct nsbox_error *err);

/* The same of a kernel, which judges each cell itself: there is no report. */
int examine_kernel(struct examine *out, enum nsbox_tier tier, const struct policy *p, const struct nsbox_run *run,
		   struct nsbox_error *err);

/* The policy of a box that only checks: nothing of the caller's but his import rules and
 * what a host must enforce. */
int examine_policy(struct policy *out, const struct policy *p, struct nsbox_error *err);
/* The request of one: no output but the report, no artifacts, no arguments. */
void examine_request(struct nsbox_run *run);

/*
 * Where packages would be installed before the run: the source is judged first, in a box of
 * the tier static. *out: why it may not run, as a result; NULL: it may.
 */
int examine_first(struct nsbox_result **out, const struct policy *p, const struct nsbox_run *run,
		  struct nsbox_error *err);

/* The box is dead and @r filled: add the analysis; a source that may not run was skipped. */
int examine_fill(struct nsbox_result *r, const struct examine *e, struct watch *w,
		 const char *language, struct nsbox_error *err);

#endif
