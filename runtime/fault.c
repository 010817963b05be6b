/*
 * fault.c - failures on purpose; empty in every product (see fault.h).
 */
#include "runtime/fault.h"

#ifdef NSBOX_FAULTS
#include "base/num.h"
#include "runtime/stage.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
	const char *name;
	int action;
} actions[] = {
	{ "kill-child", FAULT_KILL_CHILD },
	{ "kill-parent", FAULT_KILL_PARENT },
	{ "stop", FAULT_STOP_CHILD },
	{ "pause", FAULT_PAUSE_CHILD },
};

/* UINT32_MAX: this plan mounts none. */
static uint32_t whole_proc(const struct plan *p)
{
	for (uint32_t i = 0; p && i < p->op_count; i++)
		if (plan_ops(p)[i].kind == OP_PROC && !plan_ops(p)[i].m)
			return i;
	return UINT32_MAX;
}

static void parse(struct child_args *a)
{
	char text[64];
	const char *env = getenv("NSBOX_FAULT");
	char *colon;
	uint64_t v;

	a->fault_stage = a->fault_op = UINT32_MAX;
	a->fault_action = FAULT_NONE;
	a->fault_errno = 0;
	if (!env || strlen(env) >= sizeof(text))
		return;
	memcpy(text, env, strlen(env) + 1);
	colon = strchr(text, ':');
	if (!colon)
		return;
	*colon++ = '\0';
	if (strncmp(text, "op=", 3) == 0) {
		if (num_uint(text + 3, 0, UINT32_MAX - 1, &v) == 0)
			a->fault_op = (uint32_t)v;
		if (num_uint(colon, 1, 4095, &v) == 0)
			a->fault_errno = (int)v;
	}
	if (strcmp(text, "proc=full") == 0 && num_uint(colon, 1, 4095, &v) == 0) {
		a->fault_op = whole_proc(a->plan);
		a->fault_errno = (int)v;
	}
	for (unsigned s = 0; strncmp(text, "stage=", 6) == 0 && s < STAGE_COUNT; s++)
		if (strcmp(stage_name(s), text + 6) == 0)
			a->fault_stage = s;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(actions[i].name, colon) == 0)
			a->fault_action = actions[i].action;
}

void fault_arm(struct child_args *a)
{
	parse(a);
}

void fault_parent(unsigned stage)
{
	struct child_args a = { 0 };

	parse(&a);
	if (a.fault_stage == stage && a.fault_action == FAULT_KILL_PARENT)
		kill(getpid(), SIGKILL);
}

/* kill-parent after a stage of the child: it says when it is there. */
void fault_watch(const struct child_args *a)
{
	const struct timespec tick = { .tv_nsec = 200000 };

	if (a->fault_action != FAULT_KILL_PARENT || a->fault_stage >= STAGE_COUNT ||
	    stage_side(a->fault_stage) != SIDE_CHILD || a->fault_stage == STAGE_init)
		return;
	for (int i = 0; !a->fault_hit && i < 50000; i++)
		nanosleep(&tick, NULL);
	kill(getpid(), SIGKILL);
}
#else
typedef int fault_build_only; /* ISO C wants something in a file */
#endif
