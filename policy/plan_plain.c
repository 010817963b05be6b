/*
 * Which targets of a plan need no careful lookup. Pure.
 *
 * Must: leave a target unmarked unless every folder above it is the plan's own: one
 * wrong mark would let a symlink of a bound tree lead the child out of the new root.
 */
#include "policy/plan.h"

#include <string.h>

static const char *dst_of(const struct plan_builder *b, const struct op *op)
{
	return op->dst ? b->bytes + (op->dst - 1) : NULL;
}

static bool has_target(const struct op *op)
{
	switch (op->kind) {
	case OP_BIND: case OP_ATTACH: case OP_TMPFS: case OP_PROC: case OP_DEVPTS:
	case OP_MQUEUE: case OP_MASK: case OP_FILE: case OP_DIR: case OP_SYMLINK:
		return true;
	default:
		return false;
	}
}

/* Below the targets of these the names are somebody else's. */
static bool is_foreign(const struct op *op)
{
	switch (op->kind) {
	case OP_BIND: case OP_ATTACH: case OP_SYMLINK: case OP_PROC: case OP_DEVPTS:
		return true;
	default:
		return false;
	}
}

static bool is_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && path[len] == '/';
}

/* "proc/sys", say: a name directly in proc is the kernel's, and no process's link. */
static bool is_name_in_proc(const struct op *above, const char *dst, const char *path)
{
	return above->kind == OP_PROC && !strchr(path + strlen(dst) + 1, '/') &&
	       strcmp(path + strlen(dst) + 1, "self") != 0;
}

static bool is_plain(const struct plan_builder *b, size_t at)
{
	const char *path = dst_of(b, &b->ops[at]);

	if (!path || !path[0])
		return false;
	for (size_t i = 0; i < b->op_count; i++) {
		const char *dst = dst_of(b, &b->ops[i]);

		if (i == at || !dst || !is_foreign(&b->ops[i]))
			continue;
		if (is_below(path, dst) && !is_name_in_proc(&b->ops[i], dst, path))
			return false;
		if (strcmp(path, dst) == 0) /* on a bound target, or through a link's name */
			return false;
	}
	return true;
}

void plan_mark_plain(struct plan_builder *b)
{
	for (size_t i = 0; i < b->op_count && !b->failed; i++)
		if (has_target(&b->ops[i]) && is_plain(b, i))
			b->ops[i].flags |= OP_PLAIN;
}
