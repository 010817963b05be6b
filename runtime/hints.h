/*
 * From {operation, errno} to a sentence and a remedy. The child reports numbers; the
 * launcher owns the plan and writes the words.
 */
#ifndef RUNTIME_HINTS_H
#define RUNTIME_HINTS_H

#include "base/buf.h"
#include "base/err.h"
#include "policy/plan.h"

#define HINT_OLD_KERNEL \
	"the kernel, or a filter around nsbox, lacks a system call that is needed: " \
	"Linux 5.12 or newer; see nsbox doctor"

/* Each records the failure and returns its (negative) code. */
int hints_setup(struct nsbox_error *err, const struct plan *plan, int op, int os_errno);
int hints_clone(struct nsbox_error *err, int os_errno);

/* One line for people: "BIND /usr -> usr [rdonly rec]". */
void hints_op(struct buf *out, const struct plan *plan, const struct op *op);

/* Why a payload could not be executed: D21's 126 or 127 and a sentence, or 0 when the
 * fault is not the payload's. */
int hints_exec(int os_errno, const char **sentence);

#endif
