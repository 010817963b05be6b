/*
 * The tier local_unsafe: a plain process of the caller's, in no namespace, without a filter,
 * that sees and may do all the caller may. What holds: a process group that is killed as a
 * whole, an empty stdin unless asked for, bounded output, an exact timeout.
 */
#ifndef RUNTIME_UNSAFE_H
#define RUNTIME_UNSAFE_H

#include "nsbox.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "runtime/lang.h"
#include "runtime/record.h"

/* What holds after a stage in this tier; not what stage.h promises of a box. */
const char *unsafe_promise(unsigned stage);

/* The caller's policy without what would be done for a box: its network, and limits that a
 * launcher holds by looking at the box. */
int unsafe_policy(struct policy *out, const struct policy *p, struct nsbox_error *err);

/* What is in force: time and output. */
void unsafe_enforced(enum nsbox_strength out[ENF_COUNT], const struct policy *p,
		     const struct nsbox_run *run);

/* Session, umask, working folder, descriptors: no more is done in the child. */
void unsafe_plan(struct plan_builder *b, const char *cwd);

/*
 * The boot programs lie in a folder of their own (0700) instead of BOX_RUN_DIR;
 * argv and environment name them there. *dir is malloc'ed; unsafe_remove() ends it.
 */
int unsafe_files(char **dir, struct lang_command *cmd, struct nsbox_error *err);
void unsafe_remove(char *dir);
/* The same into a folder that is there. */
int unsafe_put(const char *dir, struct lang_command *cmd, struct nsbox_error *err);

/* HOME, PATH and the caches are the caller's, not those of a box. */
int unsafe_environment(struct strlist *env, const char *const *caller, struct nsbox_error *err);

#endif
