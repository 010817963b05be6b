/*
 * The plan: what the child will do, frozen before it exists.
 *
 * One contiguous, position-independent block: header, operations, bytes. Strings
 * and blobs are named by offset into the block, so that it can be copied, cached
 * or sent. The parent fills a builder, freezes it, and never changes it again;
 * the child walks the operations in order and decides nothing.
 *
 * What each kind means is one row of OPS: the runner in runtime/child.c, the
 * printer in runtime/explain.c and the fault tests all follow this table.
 */
#ifndef POLICY_PLAN_H
#define POLICY_PLAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(kind, what it does and which fields it reads)
 * Paths named `dst` are relative to the new root (cwd of the child while it
 * builds), have no leading slash, no "." or ".." part, and are resolved with
 * openat2(RESOLVE_IN_ROOT): a symlink inside the tree cannot lead out of it.
 */
#define OPS(X) \
	X(PRIVATE,   "make every mount of the copied namespace a slave") \
	X(ROOT,      "mount the new root (tmpfs) and move into it; n = size in bytes") \
	X(DIR,       "mkdir dst with mode n, parents 0755; existing is fine") \
	X(SYMLINK,   "symlink dst -> src") \
	X(FILE,      "create file dst with mode n from blob") \
	X(BIND,      "open_tree src of the host, check pin (dev, ino), attach at dst") \
	X(ATTACH,    "attach the detached tree that the parent holds as fd at dst") \
	X(TMPFS,     "mount tmpfs at dst: n = bytes, m = inodes, mode in flags>>32") \
	X(PROC,      "mount proc of the box's own pid namespace at dst") \
	X(DEVPTS,    "mount devpts, new instance, at dst") \
	X(MQUEUE,    "mount mqueue at dst") \
	X(MASK,      "cover dst with an empty read-only folder or file; absent is fine without OP_MUST_EXIST") \
	X(READONLY,  "mount_setattr dst read-only (recursively with OP_REC)") \
	X(PIVOT,     "pivot_root into the new root, detach the old one") \
	X(CHDIR,     "chdir to src (absolute, in the box)") \
	X(HOSTNAME,  "sethostname src") \
	X(LOOPBACK,  "bring lo up") \
	X(NETLINK,   "send the netlink messages in blob over protocol n; each is acknowledged, unless OP_OPTIONAL") \
	X(INLET,     "open the sockets of the network's inlet (n: bits) and pass them to the parent at once, tag m") \
	X(PORTS,     "listen on the ports (uint16) in blob and pass the listeners to the parent, tag m") \
	X(POOL,      "pass n new TCP sockets of the box to the parent, tag m") \
	X(CALLS,     "make the pair by which init asks about the payload's calls; pass one end on, tag m") \
	X(IDS,       "setresgid m, setresuid n (ids inside the box)") \
	X(OWN_IDS,   "setresgid, setresuid: one gid and one uid of the host that no process of the host has") \
	X(SESSION,   "setsid") \
	X(KEYRING,   "join a new, empty session keyring") \
	X(UMASK,     "umask n") \
	X(RLIMIT,    "setrlimit resource flags: soft n, hard m") \
	X(NICE,      "setpriority n") \
	X(DROPCAPS,  "empty bounding, ambient, inheritable, permitted, effective") \
	X(NNP,       "PR_SET_NO_NEW_PRIVS") \
	X(LANDLOCK,  "restrict to the LANDLOCK_PATH rows since the last one; n = handled, m = scoped; OP_KEEP: keep it for the payload") \
	X(LANDLOCK_PATH, "allow access n beneath src (absolute, in the box)") \
	X(SECCOMP,   "load the BPF program in blob; flags: SECCOMP_FILTER_FLAG_*; pass a listener on, tag n") \
	X(SEND_DIR,  "pass an O_PATH descriptor of src to the parent, tag n") \
	X(SEND_TREES, "pass O_PATH descriptors of the n folders in blob to the parent at once, tag m") \
	X(SEND_FILE, "pass a descriptor of src, open for reading, to the parent, tag n") \
	X(PTY,       "make a pty of the box's devpts (n rows, m columns) for 0, 1, 2; pass its master") \
	X(FDS,       "0, 1, 2 as given; 3 the handshake, 4 init, 5 the channel if there is one; everything else closed")

enum op_kind {
#define X(name, help) OP_##name,
	OPS(X)
#undef X
	OP_COUNT
};

/* flags of BIND, ATTACH, TMPFS, PROC, MASK, READONLY */
enum {
	OP_RDONLY = 1 << 0,
	OP_NOEXEC = 1 << 1,
	OP_REC = 1 << 2,	/* the whole tree below, not just the top mount */
	OP_OPTIONAL = 1 << 3,	/* BIND: a source that is gone or out of reach is left out */
	OP_NODEV_OFF = 1 << 4,	/* a device node: nodev would make it useless */
	OP_IS_FILE = 1 << 5,	/* the target is a file: create a file, not a folder */
	OP_MAKE_DST = 1 << 6,	/* create the missing target and its parents */
	OP_KEEP_SYMLINK = 1 << 7, /* do not follow src if it is a symlink */
	OP_MUST_EXIST = 1 << 9,	/* MASK: nothing there to cover is an error */
	OP_KEEP = 1 << 10,	/* LANDLOCK: the ruleset becomes descriptor 6, and restricts nobody yet */
	OP_PLAIN = 1 << 8,	/* set by plan_mark_plain(): no part of dst can lead out */
};

struct op {
	uint16_t kind;		/* enum op_kind */
	uint16_t stage;		/* enum stage of runtime/stage.h */
	int32_t fd;		/* ATTACH: a descriptor of the parent; else -1 */
	uint64_t flags, n, m;
	uint64_t pin_dev, pin_ino; /* BIND: what the parent saw; ino 0: no pin */
	uint32_t src, dst;	/* offset of a string in the block; 0: none */
	uint32_t blob, blob_len; /* offset and length of bytes in the block */
};

struct plan { /* the head of the block */
	uint32_t magic, size;	/* size of the whole block */
	uint32_t op_count, op_offset;
};

static inline const struct op *plan_ops(const struct plan *p)
{
	return (const struct op *)((const char *)p + p->op_offset);
}

static inline const char *plan_str(const struct plan *p, uint32_t offset)
{
	return offset ? (const char *)p + offset : NULL;
}

const char *op_name(unsigned kind);	/* "BIND"; "?" out of range */
const char *op_help(unsigned kind);

/* --- building (policy/plan.c) -------------------------------------------- */

struct plan_builder {
	struct op *ops;
	size_t op_count, op_cap;
	char *bytes;		/* offsets handed out are relative to here + 1 */
	size_t byte_count, byte_cap;
	int failed;		/* sticky errno: ENOMEM, E2BIG */
};

/* What to add; unset fields are zero. Strings and blob are copied. */
struct op_spec {
	enum op_kind kind;
	unsigned stage;
	int fd;			/* only read for ATTACH */
	uint64_t flags, n, m, pin_dev, pin_ino;
	const char *src, *dst;
	const void *blob;
	size_t blob_len;
};

void plan_op(struct plan_builder *b, const struct op_spec *spec);
#define PLAN_OP(b, ...) plan_op((b), &(struct op_spec){ __VA_ARGS__ })

/*
 * Mark the targets that need no careful lookup: all folders above them were made by
 * this plan itself, in its own tmpfs. Nothing of the host (a bound tree, a symlink, a
 * process's folder in proc) is on the way, so a plain relative path is safe and saves
 * the child two system calls a mount.
 */
void plan_mark_plain(struct plan_builder *b);

/* One malloc'ed block; the builder is emptied. NULL with err on failure. */
struct plan *plan_freeze(struct plan_builder *b, struct nsbox_error *err);
void plan_builder_free(struct plan_builder *b);

/* Is the block well-formed (offsets inside, kinds known, strings terminated)? */
bool plan_is_valid(const void *block, size_t size);

#endif
