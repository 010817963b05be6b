/*
 * The plan: builder, freeze, and the check of a block that came from elsewhere.
 *
 * Owns:    the layout of the block (head, operations, bytes).
 * Runs in: the parent; nothing here is called between clone and exec.
 * Must:    bound every size before it is used; leave the builder empty after a
 *          freeze, whether it worked or not.
 * Mustn't: look at the host, or know what an operation does.
 */
#include "policy/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PLAN_MAGIC 0x6e706c31u	/* "1lpn" in memory; changes with the layout */
#define PLAN_ALIGN 8u
#define PLAN_MAX_OPS 65536u
#define PLAN_MAX_BYTES (16u << 20)

_Static_assert(sizeof(struct plan) % PLAN_ALIGN == 0, "operations follow the head");
_Static_assert(sizeof(struct op) % PLAN_ALIGN == 0, "bytes follow the operations");

static const struct {
	const char *name, *help;
} op_rows[OP_COUNT] = {
#define X(kind, text) [OP_##kind] = { #kind, text },
	OPS(X)
#undef X
};

const char *op_name(unsigned kind)
{
	return kind < OP_COUNT ? op_rows[kind].name : "?";
}

const char *op_help(unsigned kind)
{
	return kind < OP_COUNT ? op_rows[kind].help : "?";
}

/* --- building ------------------------------------------------------------ */

/* Doubling: a plan of n operations costs log n reallocations. */
static void *grown(void *old, size_t *cap, size_t need, size_t item)
{
	size_t want = *cap ? *cap : item == 1 ? 16384 : 128; /* a usual plan fits */
	void *p;

	while (want < need)
		want *= 2;
	if (want == *cap)
		return old;
	p = realloc(old, want * item);
	if (p)
		*cap = want;
	return p;
}

/* Returns the offset in the bytes + 1, so that 0 stays free for "none". */
static uint32_t add_bytes(struct plan_builder *b, const void *data, size_t len,
			  size_t align)
{
	size_t at = (b->byte_count + align - 1) / align * align, end;
	char *bytes;

	if (b->failed)
		return 0;
	if (__builtin_add_overflow(at, len, &end) || end > PLAN_MAX_BYTES) {
		b->failed = E2BIG;
		return 0;
	}
	bytes = grown(b->bytes, &b->byte_cap, end, 1);
	if (!bytes) {
		b->failed = ENOMEM;
		return 0;
	}
	b->bytes = bytes;
	memset(bytes + b->byte_count, 0, at - b->byte_count);
	if (len)
		memcpy(bytes + at, data, len);
	b->byte_count = end;
	return (uint32_t)at + 1;
}

static uint32_t add_string(struct plan_builder *b, const char *s)
{
	return s ? add_bytes(b, s, strlen(s) + 1, 1) : 0;
}

/* The kernel and the child read blobs as structs: they start aligned. */
static uint32_t add_blob(struct plan_builder *b, const void *data, size_t len)
{
	return data ? add_bytes(b, data, len, PLAN_ALIGN) : 0;
}

static struct op *next_op(struct plan_builder *b)
{
	struct op *ops;

	if (b->op_count >= PLAN_MAX_OPS) {
		b->failed = E2BIG;
		return NULL;
	}
	ops = grown(b->ops, &b->op_cap, b->op_count + 1, sizeof(*ops));
	if (!ops) {
		b->failed = ENOMEM;
		return NULL;
	}
	b->ops = ops;
	return &ops[b->op_count];
}

void plan_op(struct plan_builder *b, const struct op_spec *spec)
{
	struct op *op;

	if (b->failed)
		return;
	if ((unsigned)spec->kind >= OP_COUNT || spec->stage > UINT16_MAX) {
		b->failed = EINVAL;
		return;
	}
	op = next_op(b);
	if (!op)
		return;
	*op = (struct op){
		.kind = (uint16_t)spec->kind,
		.stage = (uint16_t)spec->stage,
		.fd = spec->kind == OP_ATTACH ? spec->fd : -1,
		.flags = spec->flags, .n = spec->n, .m = spec->m,
		.pin_dev = spec->pin_dev, .pin_ino = spec->pin_ino,
		.src = add_string(b, spec->src),
		.dst = add_string(b, spec->dst),
		.blob = add_blob(b, spec->blob, spec->blob_len),
		.blob_len = spec->blob ? (uint32_t)spec->blob_len : 0,
	};
	if (!b->failed)
		b->op_count++;
}

void plan_builder_free(struct plan_builder *b)
{
	free(b->ops);
	free(b->bytes);
	*b = (struct plan_builder){ 0 };
}

/* --- checking ------------------------------------------------------------ */

/* Where the bytes of a block begin and end. */
struct extent {
	const char *block;
	uint32_t begin, end;
};

static bool string_is_inside(const struct extent *x, uint32_t at)
{
	if (at == 0)
		return true;
	if (at < x->begin || at >= x->end)
		return false;
	return memchr(x->block + at, '\0', x->end - at) != NULL;
}

static bool blob_is_inside(const struct extent *x, uint32_t at, uint32_t len)
{
	uint32_t end;

	if (at == 0)
		return len == 0;
	return at % PLAN_ALIGN == 0 && at >= x->begin &&
	       !__builtin_add_overflow(at, len, &end) && end <= x->end;
}

/* "" is the new root itself; else a/b/c without empty, "." or ".." parts. */
static bool destination_is_clean(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		if (path[n] == '/' && path[n + 1] == '\0')
			return false;
		path += path[n] ? n + 1 : n;
	}
	return true;
}

/* NULL, or what is wrong with one operation. */
static const char *op_fault(const struct extent *x, const struct op *op)
{
	if (op->kind >= OP_COUNT)
		return "unknown kind";
	if (op->kind == OP_ATTACH ? op->fd < 0 : op->fd != -1)
		return "descriptor without use, or missing";
	if (!string_is_inside(x, op->src) || !string_is_inside(x, op->dst))
		return "string outside of the block";
	if (!blob_is_inside(x, op->blob, op->blob_len))
		return "blob outside of the block";
	if (op->dst && !destination_is_clean(x->block + op->dst))
		return "destination is not a clean path beneath the root";
	return NULL;
}

/* Head and size agree: fills in where the bytes are. */
static bool head_is_valid(const void *block, size_t size, struct extent *x)
{
	const struct plan *p = block;
	uint32_t ops_len, ops_end;

	if (!block || (uintptr_t)block % PLAN_ALIGN || size < sizeof(*p) ||
	    size > UINT32_MAX)
		return false;
	if (p->magic != PLAN_MAGIC || p->size != size)
		return false;
	if (p->op_offset < sizeof(*p) || p->op_offset % PLAN_ALIGN ||
	    p->op_count > PLAN_MAX_OPS)
		return false;
	if (__builtin_mul_overflow(p->op_count, (uint32_t)sizeof(struct op), &ops_len) ||
	    __builtin_add_overflow(p->op_offset, ops_len, &ops_end) ||
	    ops_end > size)
		return false;
	*x = (struct extent){ block, ops_end, (uint32_t)size };
	return true;
}

bool plan_is_valid(const void *block, size_t size)
{
	const struct plan *p = block;
	struct extent x;

	if (!head_is_valid(block, size, &x))
		return false;
	for (uint32_t i = 0; i < p->op_count; i++)
		if (op_fault(&x, &plan_ops(p)[i]))
			return false;
	return true;
}

/* --- freezing ------------------------------------------------------------ */

static uint32_t moved(uint32_t builder_offset, uint32_t bytes_begin)
{
	return builder_offset ? bytes_begin + builder_offset - 1 : 0;
}

static struct plan *packed(const struct plan_builder *b)
{
	size_t ops_len = b->op_count * sizeof(struct op);
	uint32_t begin = (uint32_t)(sizeof(struct plan) + ops_len);
	struct plan *p = malloc(begin + b->byte_count);
	struct op *ops;

	if (!p)
		return NULL;
	*p = (struct plan){ PLAN_MAGIC, (uint32_t)(begin + b->byte_count),
			    (uint32_t)b->op_count, sizeof(*p) };
	ops = (struct op *)((char *)p + sizeof(*p));
	if (ops_len)
		memcpy(ops, b->ops, ops_len);
	if (b->byte_count)
		memcpy((char *)p + begin, b->bytes, b->byte_count);
	for (size_t i = 0; i < b->op_count; i++) {
		ops[i].src = moved(ops[i].src, begin);
		ops[i].dst = moved(ops[i].dst, begin);
		ops[i].blob = moved(ops[i].blob, begin);
	}
	return p;
}

static int builder_error(int failed, struct nsbox_error *err)
{
	if (failed == ENOMEM)
		return err_nomem(err);
	if (failed == EINVAL)
		return err_set(err, NSBOX_E_USAGE, "plan an operation of an unknown kind");
	err_hint(err, "grant fewer paths, or a folder instead of its files");
	return err_set(err, NSBOX_E_POLICY, "plan the box: more than %u operations or %u bytes",
		       PLAN_MAX_OPS, PLAN_MAX_BYTES);
}

/* The sentence for the first operation that would not pass plan_is_valid(). */
static int op_error(const struct plan *p, struct nsbox_error *err)
{
	struct extent x;

	if (!head_is_valid(p, p->size, &x))
		return err_set(err, NSBOX_E_USAGE, "plan the box: malformed block");
	for (uint32_t i = 0; i < p->op_count; i++) {
		const struct op *op = &plan_ops(p)[i];
		const char *fault = op_fault(&x, op);

		if (fault)
			return err_set(err, NSBOX_E_USAGE, "plan %s of \"%s\" (operation %u): %s",
				       op_name(op->kind), op->dst ? plan_str(p, op->dst) : "",
				       i, fault);
	}
	return 0;
}

struct plan *plan_freeze(struct plan_builder *b, struct nsbox_error *err)
{
	owned_mem struct plan *p = NULL;

	if (!b->failed) {
		p = packed(b);
		if (!p)
			b->failed = ENOMEM;
	}
	if (b->failed) {
		builder_error(b->failed, err);
		plan_builder_free(b);
		return NULL;
	}
	plan_builder_free(b);
	if (op_error(p, err) < 0)
		return NULL;
	return take_ptr(p);
}
