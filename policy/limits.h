/*
 * policy.limits -> rlimits (RLIMIT operations) and cgroup v2 values. Pure.
 */
#ifndef POLICY_LIMITS_H
#define POLICY_LIMITS_H

#include "policy/plan.h"
#include "policy/policy.h"

/* What the cgroup will enforce, so that rlimits do not do it a second time. */
struct limits_have {
	bool cgroup_memory, cgroup_pids, cgroup_cpu;
	const char *io_weight_file; /* NULL: the leaves have none */
	uint64_t host_memory; /* bytes; 0: not known */
};

/* RLIMIT_CORE 0, NOFILE, FSIZE, CPU, MEMLOCK, MSGQUEUE, and the userspace fallback:
 * RLIMIT_DATA without cgroup memory, RLIMIT_NPROC without cgroup pids. A hard limit
 * of the caller that is lower stays (raising needs CAP_SYS_RESOURCE). */
int limits_compile_rlimits(struct plan_builder *b, const struct policy *p,
			   const struct limits_have *have, unsigned stage,
			   struct nsbox_error *err);

struct cgroup_value {
	const char *file;	/* "memory.max" */
	char value[64];		/* "67108864" */
	const char *key;	/* the policy key it makes true */
};
#define LIMITS_CGROUP_ROWS 8

/* What memory.max and its like keep of a number of bytes. */
uint64_t limits_in_pages(uint64_t bytes);

/* Rows to write, in order, for the controllers that the leaf has. Returns how many
 * (<= max), or a negative code. */
int limits_compile_cgroup(struct cgroup_value *rows, size_t max, const struct policy *p,
			  const struct limits_have *have, struct nsbox_error *err);

#endif
