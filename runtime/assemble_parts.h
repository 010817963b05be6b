/* What the ways to assemble a launch share: assemble.c, assemble_walls.c. */
#ifndef RUNTIME_ASSEMBLE_PARTS_H
#define RUNTIME_ASSEMBLE_PARTS_H

#include "runtime/assemble.h"
#include "runtime/lang.h"

#include <limits.h>

struct source { /* absolute host paths of what the run names; empty: nothing */
	char file[PATH_MAX], project[PATH_MAX];
};

struct parts { /* what lives only while the plan is made */
	const struct host *host;
	const struct policy *policy;
	const struct nsbox_run *run;
	const struct assemble_how *how;
	struct lang_command cmd;
	struct source src;
	struct plan_builder builder;
};

/* What the box sees, as operations of stage mounts. */
int parts_view(struct plan_builder *b, struct assembly *a, struct parts *w,
		      struct nsbox_error *err);
/* Stage limits; rows of the cgroup. */
int parts_limits(struct assembly *a, struct parts *w, struct nsbox_error *err);
/* The filter of the level, and the payload's own. */
int parts_seccomp(struct assembly *a, struct parts *w, struct nsbox_error *err);
/* argv, and the files of a language. */
int parts_command(struct assembly *a, struct parts *w, struct nsbox_error *err);
/* Once the view has its PATH. */
int parts_environment(struct assembly *a, const struct parts *w, struct nsbox_error *err);
/* The files that may be executed where no other program may be started. -1: no memory. */
int parts_exec_only(struct strlist *out, const struct interps *in);

/* assemble_walls.c: a box without namespaces */
int assemble_walled(struct assembly *a, struct parts *w, struct nsbox_error *err);

#endif
