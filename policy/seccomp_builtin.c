/*
 * The filters of the built-in levels, compiled when nsbox was built.
 *
 * Owns:    nothing but the data that tools/gen/gen_filters.c wrote.
 * Runs in: the parent of a box whose policy adds no names of its own.
 */
#include "policy/seccomp.h"

#include "base/cleanup.h"

#include "filters.inc"

const struct sock_filter *seccomp_builtin(int level, size_t *count)
{
	if (level < 0 || (size_t)level >= ARRAY_SIZE(filters) || !filters[level].insn)
		return NULL;
	*count = filters[level].count;
	return filters[level].insn;
}
