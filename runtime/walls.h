/*
 * A box without namespaces: where user namespaces are refused and the policy says
 * isolation.floor=landlock, Landlock and seccomp alone hold the payload in. Its processes
 * are the host's: what it sees are the host's paths, and its user is the caller, unless the
 * caller may take an id of its own for it (identity.h).
 *
 * The launch is that of the tier local_unsafe (init as subreaper, no namespace), with the
 * stages ids, limits, caps and lockdown of a box. Runs in the launcher.
 */
#ifndef RUNTIME_WALLS_H
#define RUNTIME_WALLS_H

#include "nsbox.h"
#include "policy/landlock.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "runtime/identity.h"
#include "runtime/lang.h"
#include "runtime/record.h"

#include <stdbool.h>

/* A folder of this run on the host, 0700: work (also HOME), tmp and boot (nsbox's own
 * programs, not writable) are in it. */
struct walls {
	char *dir;	/* owned; NULL: none */
	int lock;	/* owned: held as long as the launcher lives (sweep.c); -1: none */
};
#define WALLS_PREFIX "nsbox-box."
#define WALLS_INIT { .lock = -1 }

/* Does this host refuse the namespaces of a box? By doing, once in a process. */
bool walls_are_needed(void);

/* What holds after a stage; not what stage.h promises of a box with namespaces. */
const char *walls_promise(unsigned stage);

/* NSBOX_E_UNSUPPORTED: something of the policy or the run that only mounts or a network
 * namespace could make true. */
int walls_check(const struct policy *p, const struct nsbox_run *run, const struct identity *id,
		struct nsbox_error *err);

/* Only limits are weaker than in any box: those of folders, which nobody counts. */
int walls_enforced(enum nsbox_strength e[ENF_COUNT], const struct policy *p,
		   struct nsbox_error *err);

/* look_only: a name, and no folder. */
int walls_open(struct walls *w, bool look_only, struct nsbox_error *err);
/* The folders become those of the child's user. */
int walls_give(const char *dir, uid_t uid, gid_t gid, struct nsbox_error *err);
/* nsbox's own programs, into boot. */
int walls_put(const struct walls *w, struct lang_command *cmd, bool look_only,
	      struct nsbox_error *err);
/* Whatever is in it by now. What cannot be removed stays, for nsbox sweep. */
void walls_close(struct walls *w);

int walls_remove(int dirfd, const char *name);
/* Those in $TMPDIR that killed launchers left. @found: its answer but 0 ends it. */
int walls_sweep(int (*found)(void *arg, const char *path, bool is_removed), void *arg);

/* In the box's own words to this host's: "/workspace/x" is x in work of its folder, malloc'ed. */
char *walls_path(const struct walls *w, const char *path);
int walls_environment(struct strlist *env, const struct walls *w, struct nsbox_error *err);

/*
 * What the operations of a host view show, as Landlock rows: each place must be where the
 * host has it. Then the folders of @w, and the two rulesets.
 */
int walls_landlock(struct plan_builder *b, const struct plan_builder *view,
		   const struct walls *w, const struct landlock_request *r,
		   struct nsbox_error *err);

/*
 * RLIMIT_NPROC counts all tasks of a user, and this one is the caller: so those that are there
 * come on top. What ends of them meanwhile is room for the box; the launcher's own look at it
 * is what limits.pids says. @is_dropped: there are more of them elsewhere (in another
 * container) than /proc shows, and the limit would let none of the box's begin.
 */
void walls_fit_nproc(struct plan_builder *b, bool is_dropped);

#endif
