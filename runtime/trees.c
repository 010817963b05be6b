/*
 * trees.c - was a sized tree of the box full?
 *
 * Runs in the launcher. Must: believe a descriptor only when it shows the tmpfs that the
 * plan made: a mask of fs.hidden may lie over it. Mustn't: look at a path of the box.
 */
#include "runtime/trees.h"

#include "base/buf.h"
#include "runtime/wire.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* /dev and a made-up /proc are read-only in the end: nobody can fill them. */
static bool is_made_readonly(const struct op *ops, size_t count, const char *strings,
			     const struct op *tmpfs)
{
	for (size_t i = 0; i < count; i++)
		if (ops[i].kind == OP_READONLY && ops[i].dst &&
		    strcmp(strings + ops[i].dst, strings + tmpfs->dst) == 0)
			return true;
	return false;
}

size_t trees_find(const struct op *ops, size_t count, const char *strings,
		  const struct op *out[TREES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < count && n < TREES_MAX; i++)
		if (ops[i].kind == OP_TMPFS && !(ops[i].flags & OP_RDONLY) &&
		    !is_made_readonly(ops, count, strings, &ops[i]))
			out[n++] = &ops[i];
	return n;
}

void trees_plan(struct plan_builder *b, unsigned stage)
{
	/* In a builder offsets are relative to here + 1: policy/plan.h. */
	const char *strings = b->bytes ? b->bytes - 1 : NULL;
	struct buf paths = BUF_INIT(1 << 20);
	const struct op *found[TREES_MAX];
	size_t n = trees_find(b->ops, b->op_count, strings, found);

	for (size_t i = 0; i < n; i++) {
		buf_char(&paths, '/');
		buf_add(&paths, strings + found[i]->dst, strlen(strings + found[i]->dst) + 1);
	}
	if (paths.failed)
		b->failed = ENOMEM;
	else if (n)
		PLAN_OP(b, .kind = OP_SEND_TREES, .stage = stage, .n = n, .m = WIRE_TAG_TREES,
			.blob = paths.data, .blob_len = paths.len);
	buf_free(&paths);
}

void trees_init(struct trees *t, const struct plan *plan)
{
	const struct op *found[TREES_MAX];

	memset(t, 0, sizeof(*t));
	t->count = trees_find(plan_ops(plan), plan->op_count, (const char *)plan, found);
	for (size_t i = 0; i < t->count; i++)
		t->v[i] = (struct tree){ .path = plan_str(plan, found[i]->dst),
					 .bytes = found[i]->n, .inodes = found[i]->m };
}

static bool is_the_tree(const struct tree *t, const struct statfs *s)
{
	uint64_t block = (uint64_t)s->f_bsize;

	return s->f_type == TMPFS_MAGIC && block &&
	       (uint64_t)s->f_blocks == (t->bytes + block - 1) / block &&
	       (uint64_t)s->f_files == t->inodes;
}

int trees_look(struct trees *t, const int fds[TREES_MAX])
{
	int full = -1;

	for (size_t i = 0; i < t->count; i++) {
		struct tree *one = &t->v[i];
		struct statfs s;

		if (fds[i] < 0 || fstatfs(fds[i], &s) < 0 || !is_the_tree(one, &s) ||
		    (s.f_bfree && s.f_ffree))
			continue;
		one->was_full |= !s.f_bfree;
		one->was_out_of_inodes |= !s.f_ffree;
		if (full < 0)
			full = (int)i;
	}
	return full;
}
