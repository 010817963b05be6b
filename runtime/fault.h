/*
 * Faults on purpose, for tests/fault. Only the fault build has them; in every product
 * these are nothing. NSBOX_FAULT is read from the environment:
 *   stage=<name>:kill-child    the child dies once the stage is done
 *   stage=<name>:kill-parent   the launcher does
 *   stage=<name>:stop          the child stops there for ever
 *   stage=<name>:pause         the child waits there for a second
 *   op=<n>:<errno number>      the n-th operation of the plan fails
 *   proc=full:<errno number>   mounting a whole /proc does, as where the host masks its own
 */
#ifndef RUNTIME_FAULT_H
#define RUNTIME_FAULT_H

#include "runtime/child.h"

#ifdef NSBOX_FAULTS
void fault_arm(struct child_args *a);
void fault_parent(unsigned stage);
void fault_watch(const struct child_args *a);
#else
static inline void fault_arm(struct child_args *a)
{
	(void)a;
}
static inline void fault_parent(unsigned stage)
{
	(void)stage;
}
static inline void fault_watch(const struct child_args *a)
{
	(void)a;
}
#endif

#endif
