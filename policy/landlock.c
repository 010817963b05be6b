/*
 * Writable places -> Landlock rows of the plan.
 *
 * Owns:    the ladder of ABIs, and which right goes where.
 * Runs in: the parent. The child opens each path and makes the rules; see
 *          LANDLOCK_FILE_RIGHTS for what it must mask on a path that is a file.
 * Must:    handle every right the ABI has: what is not handled is not restricted.
 * Mustn't: name a right the ABI does not have (the kernel answers EINVAL).
 *
 * Nothing below /proc may be written, not even /proc/self/comm: a rule binds to an
 * inode, and the folder of a process that does not exist yet has none, so the rule
 * would have to cover all of /proc, /proc/sys included. Programs name their threads
 * with prctl; writing oom_score_adj or another thread's comm fails with EACCES.
 */
#include "policy/landlock.h"

/* Debian's headers know ABI 2; the numbers are the kernel's interface. */
enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_MAKE_CHAR = 1 << 6,
	FS_MAKE_BLOCK = 1 << 11,
	FS_REFER = 1 << 13,
	FS_TRUNCATE = 1 << 14,
	FS_IOCTL_DEV = 1 << 15,
};
#define FS_OF_ABI_1 0x1fff	/* EXECUTE .. MAKE_SYM */

enum {
	NET_BIND_TCP = 1 << 0,
	NET_CONNECT_TCP = 1 << 1,
};

enum {
	SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0,
	SCOPE_SIGNAL = 1 << 1,
};

_Static_assert(LANDLOCK_FILE_RIGHTS == (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE |
					FS_TRUNCATE | FS_IOCTL_DEV),
	       "rights that a rule on a file may carry");

/* What each ABI added. 4 is ports, for boxes that have no network namespace; 7 is
 * about logging. A kernel newer than the last row is treated as the last row. */
static const struct {
	int abi;
	uint64_t fs, scoped;
	uint32_t net;
} ladder[] = {
	{ 1, FS_OF_ABI_1, 0, 0 },
	{ 2, FS_REFER, 0, 0 },
	{ 3, FS_TRUNCATE, 0, 0 },
	{ 4, 0, 0, NET_BIND_TCP | NET_CONNECT_TCP },
	{ 5, FS_IOCTL_DEV, 0, 0 },
	{ 6, 0, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL, 0 },
};

struct rights {
	uint64_t fs, scoped;
	uint32_t net;
};

static struct rights rights_of(int abi)
{
	struct rights r = { 0 };

	for (size_t i = 0; i < sizeof(ladder) / sizeof(ladder[0]); i++) {
		if (ladder[i].abi > abi)
			break;
		r.fs |= ladder[i].fs;
		r.scoped |= ladder[i].scoped;
		r.net |= ladder[i].net;
	}
	return r;
}

struct walls {
	struct plan_builder *b;
	const struct landlock_request *r;
	struct rights have;
};

/* A folder that gets no right beyond those beneath "/" needs no row. */
static void add_path(const struct walls *w, const char *path, uint64_t wanted)
{
	uint64_t access = wanted & w->have.fs;

	if (access)
		PLAN_OP(w->b, .kind = OP_LANDLOCK_PATH, .stage = w->r->stage,
			.src = path, .n = access);
}

static int add_list(const struct walls *w, const struct strlist *paths,
		    uint64_t wanted, struct nsbox_error *err)
{
	for (size_t i = 0; paths && i < paths->n; i++) {
		if (paths->v[i][0] != '/')
			return err_set(err, NSBOX_E_USAGE,
				       "plan Landlock for \"%s\": the path is not absolute",
				       paths->v[i]);
		add_path(w, paths->v[i], wanted);
	}
	return 0;
}

int landlock_compile(struct plan_builder *b, const struct landlock_request *r,
		     struct nsbox_error *err)
{
	struct walls w = { b, r, rights_of(r->abi) };
	uint64_t execute = r->exec_only ? 0 : FS_EXECUTE;
	/* Device nodes: no program in a box has a reason to make one. */
	uint64_t write = w.have.fs & ~(uint64_t)(FS_EXECUTE | FS_MAKE_CHAR | FS_MAKE_BLOCK);
	int result;

	if (r->abi <= 0)
		return 0;
	add_path(&w, "/", FS_READ_FILE | FS_READ_DIR | execute);
	add_path(&w, "/dev", FS_WRITE_FILE | FS_IOCTL_DEV);
	result = add_list(&w, r->writable, write | execute, err);
	if (result == 0)
		result = add_list(&w, r->exec_only, FS_READ_FILE | FS_EXECUTE, err);
	if (result < 0)
		return result;
	PLAN_OP(b, .kind = OP_LANDLOCK, .stage = r->stage, .n = w.have.fs,
		.m = w.have.scoped);
	return 0;
}

int landlock_compile_walls(struct plan_builder *b, const struct landlock_place *places, size_t n,
			   const struct landlock_request *r, struct nsbox_error *err)
{
	struct walls w = { b, r, rights_of(r->abi) };
	const uint64_t execute = r->exec_only ? 0 : FS_EXECUTE;
	const uint64_t rights[] = {
		[PLACE_READ] = FS_READ_FILE | FS_READ_DIR,
		[PLACE_PROGRAMS] = FS_READ_FILE | FS_READ_DIR | execute,
		[PLACE_DEVICE] = FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV,
		[PLACE_WRITE] = (w.have.fs & ~(uint64_t)(FS_EXECUTE | FS_MAKE_CHAR | FS_MAKE_BLOCK)) |
				execute,
	};
	int result;

	if (r->abi < LANDLOCK_WALLS_ABI) {
		err_hint(err, "Linux 6.12 or newer, with landlock in the lsm= list");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "isolation by Landlock alone needs its ABI %d; this kernel has %d",
			       LANDLOCK_WALLS_ABI, r->abi);
	}
	for (size_t i = 0; i < n; i++)
		PLAN_OP(b, .kind = OP_LANDLOCK_PATH, .stage = r->stage, .src = places[i].path,
			.n = rights[places[i].kind] & w.have.fs,
			.flags = places[i].is_optional ? OP_OPTIONAL : 0);
	result = add_list(&w, r->exec_only, FS_READ_FILE | FS_EXECUTE, err);
	if (result < 0)
		return result;
	PLAN_OP(b, .kind = OP_LANDLOCK, .stage = r->stage, .flags = OP_KEEP, .n = w.have.fs,
		.m = w.have.scoped | (uint64_t)w.have.net << 32);
	/* A domain that says nothing of REFER denies it: then no file could be moved to
	 * another folder by whoever is in both. */
	PLAN_OP(b, .kind = OP_LANDLOCK_PATH, .stage = r->stage, .src = "/", .n = FS_REFER);
	PLAN_OP(b, .kind = OP_LANDLOCK, .stage = r->stage, .n = FS_REFER, .m = w.have.scoped);
	return 0;
}
