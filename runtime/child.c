/*
 * child.c - the child between clone() and the exec of init
 *
 * Runs in memory shared with a thread of the caller (CLONE_VM), which may hold any
 * lock for ever as far as the child can tell, and shares that thread's TLS, errno
 * included. So: raw system calls only. No libc at all, no stack protector (its
 * canary lives in TLS). tests/abi/child.allowed lists every symbol this object may
 * reference, and `make lint` compares.
 *
 * Must:    do exactly what the plan says, in its order, stopping at the first
 *          failure; report {stage, op, errno}.
 * Mustn't: decide anything. A choice made here is one that no dry run shows.
 *
 * Privileges: every capability in the box's own user namespace until DROPCAPS, none
 * of the host's.
 */
#include "runtime/child.h"

#include "policy/landlock.h"
#include "runtime/kernel.h"
#include "runtime/stage.h"
#include "runtime/sys.h"
#include "runtime/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

typedef long (*runner)(struct child_args *a, const struct op *op);

static const char *src_of(const struct child_args *a, const struct op *op)
{
	return plan_str(a->plan, op->src);
}

static const char *dst_of(const struct child_args *a, const struct op *op)
{
	return plan_str(a->plan, op->dst);
}

/*
 * Until init watches the handshake for EOF, the death of the launcher's thread is the
 * child's: it may be stuck in a mount while nobody is left to kill it.
 */
static long die_with_parent(void)
{
	return sys(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		sys(close, fd);
}

/* ---------------------------------------------------- paths in the new root -- */

static long open_in_root(const struct child_args *a, const char *path, uint64_t flags,
			 uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.mode = mode,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	return sys(openat2, a->root_fd, path, &how, sizeof(how));
}

enum { PATH_ROOM = 4096 };

/* Make every missing folder of the first `len` bytes of path. */
static long make_parents(const struct child_args *a, const char *path, size_t len)
{
	char part[PATH_ROOM];
	size_t at = 0;

	if (len >= sizeof(part))
		return -ENAMETOOLONG;
	for (; at < len; at++) {
		long r;

		part[at] = path[at];
		if (path[at] != '/')
			continue;
		part[at] = '\0';
		r = sys(mkdirat, a->root_fd, part, 0755);
		if (r < 0 && r != -EEXIST)
			return r;
		part[at] = '/';
	}
	return 0;
}

static size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static size_t parent_length(const char *path)
{
	size_t n = length(path);

	while (n && path[n - 1] != '/')
		n--;
	return n;
}

/* The target of a mount, opened; made when the operation says so. */
static long open_target(const struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	long fd = open_in_root(a, dst, O_PATH, 0);

	if (fd != -ENOENT || !(op->flags & OP_MAKE_DST))
		return fd;
	fd = make_parents(a, dst, parent_length(dst));
	if (fd < 0)
		return fd;
	if (op->flags & OP_IS_FILE) {
		fd = open_in_root(a, dst, O_CREAT | O_EXCL | O_WRONLY, 0444);
		if (fd < 0)
			return fd;
		close_fd((int)fd);
	} else {
		fd = sys(mkdirat, a->root_fd, dst, 0755);
		if (fd < 0 && fd != -EEXIST)
			return fd;
	}
	return open_in_root(a, dst, O_PATH, 0);
}

static long attach(const struct child_args *a, const struct op *op, int tree)
{
	long target = open_target(a, op);
	long r;

	if (target < 0)
		return target;
	r = sys(move_mount, tree, "", (int)target, "",
		MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_fd((int)target);
	return r;
}

/*
 * nosuid and nodev on every mount that comes from outside. mount_setattr only adds
 * flags here, so what the host had locked (nosuid, noexec, ...) stays.
 */
static long restrict_tree(int tree, uint64_t flags)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID };

	if (!(flags & OP_NODEV_OFF))
		attr.attr_set |= MOUNT_ATTR_NODEV;
	if (flags & OP_RDONLY)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (flags & OP_NOEXEC)
		attr.attr_set |= MOUNT_ATTR_NOEXEC;
	return sys(mount_setattr, tree, "",
		   AT_EMPTY_PATH | (flags & OP_REC ? AT_RECURSIVE : 0), &attr, sizeof(attr));
}

/* ----------------------------------------------------------- mount operations -- */

static long do_private(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return sys(mount, "none", "/", 0, MS_REC | MS_SLAVE, 0);
}

static char *put_number(char *end, uint64_t v)
{
	*--end = '\0';
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return end;
}

/* A detached tmpfs: fsopen, options, fsmount. */
static long new_tmpfs(uint64_t bytes, uint64_t inodes, uint64_t mode, uint64_t mount_attrs)
{
	char text[24], octal[8] = "0000";
	long fs = sys(fsopen, "tmpfs", FSOPEN_CLOEXEC);
	long r;

	if (fs < 0)
		return fs;
	for (int i = 3; i >= 0; i--, mode >>= 3)
		octal[i] = (char)('0' + (mode & 7));
	r = sys(fsconfig, (int)fs, FSCONFIG_SET_STRING, "size",
		put_number(text + sizeof(text), bytes), 0);
	if (r >= 0 && inodes)
		r = sys(fsconfig, (int)fs, FSCONFIG_SET_STRING, "nr_inodes",
			put_number(text + sizeof(text), inodes), 0);
	if (r >= 0)
		r = sys(fsconfig, (int)fs, FSCONFIG_SET_STRING, "mode", octal, 0);
	if (r >= 0)
		r = sys(fsconfig, (int)fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (r >= 0)
		r = sys(fsmount, (int)fs, FSMOUNT_CLOEXEC, mount_attrs);
	close_fd((int)fs);
	return r;
}

/*
 * What masks show: an empty folder and an empty file. The folder keeps its name (the
 * kernel answers ENOENT, not EROFS, to mkdir in a removed one); the file need not.
 */
static const char empty_dir[] = "var/empty", empty_file[] = "var/.empty";

static long make_mask_sources(const struct child_args *a)
{
	long r = sys(mkdirat, a->root_fd, "var", 0755);
	long fd;

	if (r >= 0)
		r = sys(mkdirat, a->root_fd, empty_dir, 0555);
	if (r < 0)
		return r;
	fd = sys(openat, a->root_fd, empty_file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	if (fd < 0)
		return fd;
	close_fd((int)fd);
	return 0;
}

/*
 * The new root is mounted on top of "/" itself: no staging folder on the host is
 * needed, and because lookups of absolute paths start at the process's root, not at
 * what is mounted over it, "/usr" still means the host's /usr until PIVOT.
 */
static long do_root(struct child_args *a, const struct op *op)
{
	long fd = new_tmpfs(op->n, op->m, 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	long r;

	if (fd < 0)
		return fd;
	a->root_fd = (int)fd;
	r = sys(move_mount, (int)fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
	if (r >= 0)
		r = sys(fchdir, (int)fd);
	if (r >= 0)
		r = make_mask_sources(a);
	return r;
}

static long do_dir(struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	long r = sys(mkdirat, a->root_fd, dst, (int)op->n);

	if (r == -ENOENT) {
		r = make_parents(a, dst, parent_length(dst));
		if (r >= 0)
			r = sys(mkdirat, a->root_fd, dst, (int)op->n);
	}
	return r == -EEXIST ? 0 : r;
}

static long do_symlink(struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	long r = sys(symlinkat, src_of(a, op), a->root_fd, dst);

	if (r == -ENOENT) {
		r = make_parents(a, dst, parent_length(dst));
		if (r >= 0)
			r = sys(symlinkat, src_of(a, op), a->root_fd, dst);
	}
	return r;
}

static long write_blob(int fd, const char *data, size_t len)
{
	while (len) {
		long n = sys(write, fd, data, len);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return n;
		if (n == 0)
			return -EIO;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static long do_file(struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	const uint64_t flags = O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW;
	long fd = open_in_root(a, dst, flags, op->n);
	long r;

	if (fd == -ENOENT) {
		r = make_parents(a, dst, parent_length(dst));
		if (r < 0)
			return r;
		fd = open_in_root(a, dst, flags, op->n);
	}
	if (fd < 0)
		return fd;
	r = write_blob((int)fd, (const char *)a->plan + op->blob, op->blob_len);
	close_fd((int)fd);
	return r;
}

/* Open the source again and compare: the name may lead elsewhere by now. */
static long open_pinned(const struct child_args *a, const struct op *op)
{
	struct stat st;
	long fd = sys(openat, AT_FDCWD, src_of(a, op),
		      O_PATH | O_CLOEXEC | (op->flags & OP_KEEP_SYMLINK ? O_NOFOLLOW : 0), 0);
	long r;

	if (fd < 0)
		return fd;
	r = sys(fstat, (int)fd, &st);
	if (r >= 0 && (st.st_dev != op->pin_dev || st.st_ino != op->pin_ino))
		r = -ESTALE;
	if (r >= 0)
		return fd;
	close_fd((int)fd);
	return r;
}

static long clone_source(const struct child_args *a, const struct op *op)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	long fd, tree;

	if (op->flags & OP_REC)
		flags |= AT_RECURSIVE;
	if (!op->pin_ino)
		return sys(open_tree, AT_FDCWD, src_of(a, op), flags);
	fd = open_pinned(a, op);
	if (fd < 0)
		return fd;
	tree = sys(open_tree, (int)fd, "", flags | AT_EMPTY_PATH);
	close_fd((int)fd);
	return tree;
}

static long do_bind(struct child_args *a, const struct op *op)
{
	long tree = clone_source(a, op);
	long r;

	if (tree == -ENOENT && (op->flags & OP_OPTIONAL))
		return 0;
	if (tree < 0)
		return tree;
	r = restrict_tree((int)tree, op->flags);
	if (r >= 0)
		r = attach(a, op, (int)tree);
	close_fd((int)tree);
	return r;
}

static long do_attach(struct child_args *a, const struct op *op)
{
	long r = restrict_tree(op->fd, op->flags);

	return r < 0 ? r : attach(a, op, op->fd);
}

static uint64_t mount_attrs(const struct op *op)
{
	return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
	       (op->flags & OP_NOEXEC ? MOUNT_ATTR_NOEXEC : 0) |
	       (op->flags & OP_RDONLY ? MOUNT_ATTR_RDONLY : 0);
}

static long attach_new(const struct child_args *a, const struct op *op, long tree)
{
	long r;

	if (tree < 0)
		return tree;
	r = attach(a, op, (int)tree);
	close_fd((int)tree);
	return r;
}

static long do_tmpfs(struct child_args *a, const struct op *op)
{
	return attach_new(a, op, new_tmpfs(op->n, op->m, op->flags >> 32, mount_attrs(op)));
}

struct fs_option {
	const char *key, *value; /* value NULL: a flag */
};

static long new_fs(const char *type, const struct fs_option *options, uint64_t attrs)
{
	long fs = sys(fsopen, type, FSOPEN_CLOEXEC);
	long r = 0;

	if (fs < 0)
		return fs;
	for (; options->key && r >= 0; options++)
		r = sys(fsconfig, (int)fs,
			options->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options->key,
			options->value, 0);
	if (r >= 0)
		r = sys(fsconfig, (int)fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (r >= 0)
		r = sys(fsmount, (int)fs, FSMOUNT_CLOEXEC, attrs);
	close_fd((int)fs);
	return r;
}

static long do_proc(struct child_args *a, const struct op *op)
{
	static const struct fs_option full[] = { { 0 } };
	static const struct fs_option subset[] = { { "subset", "pid" }, { 0 } };

	return attach_new(a, op, new_fs("proc", op->m & 1 ? subset : full,
					mount_attrs(op) | MOUNT_ATTR_NOEXEC));
}

static long do_devpts(struct child_args *a, const struct op *op)
{
	static const struct fs_option options[] = {
		{ "newinstance", 0 }, { "ptmxmode", "0666" }, { "mode", "0620" }, { 0 }
	};
	long tree = new_fs("devpts", options,
			   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

	return attach_new(a, op, tree);
}

static long do_mqueue(struct child_args *a, const struct op *op)
{
	static const struct fs_option none[] = { { 0 } };

	return attach_new(a, op, new_fs("mqueue", none,
					mount_attrs(op) | MOUNT_ATTR_NOEXEC));
}

static long mask_tree(const struct child_args *a, bool is_dir)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    MOUNT_ATTR_NOEXEC,
	};
	long tree = sys(open_tree, a->root_fd, is_dir ? empty_dir : empty_file,
			OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	long r;

	if (tree < 0)
		return tree;
	r = sys(mount_setattr, (int)tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	if (r >= 0)
		return tree;
	close_fd((int)tree);
	return r;
}

static long do_mask(struct child_args *a, const struct op *op)
{
	struct stat st;
	long target = open_in_root(a, dst_of(a, op), O_PATH, 0);
	long tree, r;

	if (target == -ENOENT || target == -ENOTDIR)
		return 0; /* nothing there to hide */
	if (target < 0)
		return target;
	r = sys(fstat, (int)target, &st);
	tree = r < 0 ? r : mask_tree(a, S_ISDIR(st.st_mode));
	r = tree < 0 ? tree
		     : sys(move_mount, (int)tree, "", (int)target, "",
			   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	if (tree >= 0)
		close_fd((int)tree);
	close_fd((int)target);
	return r;
}

static long do_readonly(struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	long fd = dst && dst[0] ? open_in_root(a, dst, O_PATH, 0) : a->root_fd;
	long r;

	if (fd < 0)
		return fd;
	if (fd == a->root_fd) /* the last chance: masks stay mounted without the name */
		sys(unlinkat, a->root_fd, empty_file, 0);
	r = restrict_tree((int)fd, op->flags | OP_RDONLY);
	if (fd != a->root_fd)
		close_fd((int)fd);
	return r;
}

/*
 * pivot_root(".", "."): the old root ends up mounted on top of the new one and is
 * detached there. From here on no name leads to the host's tree.
 */
static long do_pivot(struct child_args *a, const struct op *op)
{
	long r;

	(void)op;
	r = sys(fchdir, a->root_fd);
	if (r >= 0)
		r = sys(pivot_root, ".", ".");
	if (r >= 0)
		r = sys(umount2, ".", MNT_DETACH);
	if (r >= 0)
		r = sys(chdir, "/");
	if (r >= 0)
		close_fd(a->root_fd);
	a->root_fd = -1;
	return r;
}

static long do_chdir(struct child_args *a, const struct op *op)
{
	return sys(chdir, src_of(a, op));
}

/* ---------------------------------------------------------- other operations -- */

static long do_hostname(struct child_args *a, const struct op *op)
{
	const char *name = src_of(a, op);

	return sys(sethostname, name, length(name));
}

static long do_loopback(struct child_args *a, const struct op *op)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	long s = sys(socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long r;

	(void)a;
	(void)op;
	if (s < 0)
		return s;
	r = sys(ioctl, (int)s, SIOCSIFFLAGS, &req);
	close_fd((int)s);
	return r;
}

/*
 * Uid 0 is not mapped in the box's user namespace, so leaving the unmapped id for
 * the box's own one is no "root becomes ordinary" transition, and the capabilities
 * that the mounts need stay until DROPCAPS.
 */
static long do_ids(struct child_args *a, const struct op *op)
{
	long r = sys(setresgid, op->m, op->m, op->m);

	(void)a;
	if (r >= 0)
		r = sys(setresuid, op->n, op->n, op->n);
	return r < 0 ? r : die_with_parent(); /* a change of ids clears it: prctl(2) */
}

static long do_session(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return sys(setsid);
}

static long do_keyring(struct child_args *a, const struct op *op)
{
	long r = sys(keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0);

	(void)a;
	/* ENOSYS: a kernel without keys, or an outer filter that hides them: then
	 * there is nothing to inherit that the payload could reach either. */
	return r == -ENOSYS && (op->flags & OP_OPTIONAL) ? 0 : r;
}

static long do_umask(struct child_args *a, const struct op *op)
{
	(void)a;
	return sys(umask, op->n);
}

static long do_rlimit(struct child_args *a, const struct op *op)
{
	struct {
		uint64_t soft, hard;
	} limit = { op->n, op->m };

	(void)a;
	return sys(prlimit64, 0, op->flags, &limit, 0);
}

static long do_nice(struct child_args *a, const struct op *op)
{
	(void)a;
	return sys(setpriority, PRIO_PROCESS, 0, (int)op->n);
}

static long do_dropcaps(struct child_args *a, const struct op *op)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	long r;

	(void)a;
	(void)op;
	r = sys(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r < 0)
		return r;
	/* EINVAL marks the end: the kernel knows no capability of that number. */
	for (int cap = 0; cap < 64; cap++) {
		r = sys(prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (r == -EINVAL && cap > CAP_CHECKPOINT_RESTORE)
			break;
		if (r < 0)
			return r;
	}
	return sys(capset, &head, none);
}

static long do_nnp(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return sys(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Rows that LANDLOCK gathers; by themselves they change nothing. */
static long do_landlock_path(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return 0;
}

static long add_landlock_rule(const struct child_args *a, int ruleset, const struct op *row)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = row->n };
	long fd = sys(openat, AT_FDCWD, src_of(a, row), O_PATH | O_CLOEXEC, 0);
	struct stat st;
	long r;

	if (fd == -ENOENT && (row->flags & OP_OPTIONAL))
		return 0;
	if (fd < 0)
		return fd;
	rule.parent_fd = (int)fd;
	r = sys(fstat, (int)fd, &st);
	/* The kernel refuses rights of folders on a file with EINVAL. */
	if (r >= 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= LANDLOCK_FILE_RIGHTS;
	if (r >= 0)
		r = sys(landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	close_fd((int)fd);
	return r;
}

static long do_landlock(struct child_args *a, const struct op *op)
{
	const struct op *ops = plan_ops(a->plan);
	struct nsbox_landlock_ruleset attr = { .handled_access_fs = op->n, .scoped = op->m };
	/* A kernel below ABI 4 refuses the longer struct, even when it is zero. */
	size_t size = op->m ? sizeof(attr) : sizeof(attr.handled_access_fs);
	long ruleset = sys(landlock_create_ruleset, &attr, size, 0);
	long r = 0;

	if (ruleset < 0)
		return ruleset;
	for (uint32_t i = 0; i < a->op && r >= 0; i++)
		if (ops[i].kind == OP_LANDLOCK_PATH)
			r = add_landlock_rule(a, (int)ruleset, &ops[i]);
	if (r >= 0)
		r = sys(landlock_restrict_self, (int)ruleset, 0);
	close_fd((int)ruleset);
	return r;
}

static long do_seccomp(struct child_args *a, const struct op *op)
{
	struct sock_fprog prog = {
		.len = (unsigned short)(op->blob_len / sizeof(struct sock_filter)),
		.filter = (struct sock_filter *)((uintptr_t)a->plan + op->blob),
	};

	return sys(seccomp, SECCOMP_SET_MODE_FILTER, op->flags, &prog);
}

/* -------------------------------------------------------------- descriptors -- */

static long send_fd(const struct child_args *a, int fd, int tag)
{
	struct wire_msg msg = { .magic = WIRE_MAGIC, .type = WIRE_FD,
				.stage = (uint16_t)a->stage, .op = -1, .value = tag };
	struct iovec iov = { &msg, sizeof(msg) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct msghdr head = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			       .msg_controllen = sizeof(control.room) };
	long r;

	*(int *)CMSG_DATA(&control.head) = fd;
	r = sys(sendmsg, a->sock, &head, MSG_NOSIGNAL);
	return r < 0 ? r : 0;
}

static long do_send_dir(struct child_args *a, const struct op *op)
{
	long fd = sys(openat, AT_FDCWD, src_of(a, op), O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	long r;

	if (fd < 0)
		return fd;
	r = send_fd(a, (int)fd, (int)op->n);
	close_fd((int)fd);
	return r;
}

static long do_pty(struct child_args *a, const struct op *op)
{
	struct winsize size = { .ws_row = (unsigned short)op->n,
				.ws_col = (unsigned short)op->m };
	int unlock = 0;
	long master = sys(openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
	long slave, r;

	if (master < 0)
		return master;
	r = sys(ioctl, (int)master, TIOCSPTLCK, &unlock);
	if (r >= 0)
		r = sys(ioctl, (int)master, TIOCSWINSZ, &size);
	slave = r < 0 ? r : sys(ioctl, (int)master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return slave;
	a->in = a->out = a->err = (int)slave;
	r = send_fd(a, (int)master, (int)WIRE_TAG_PTY);
	close_fd((int)master);
	return r;
}

static long move_up(int *fd)
{
	long r = sys(fcntl, *fd, F_DUPFD_CLOEXEC, 16);

	if (r >= 0)
		*fd = (int)r;
	return r;
}

/*
 * 0, 1, 2 are the payload's streams, 3 the handshake, 4 init; all else is closed.
 * Sources are first copied out of the way: any of them may be one of the targets.
 */
static long do_fds(struct child_args *a, const struct op *op)
{
	int *const from[] = { &a->in, &a->out, &a->err, &a->sock, &a->init_fd };
	long r;

	(void)op;
	for (unsigned i = 0; i < 5; i++) {
		/* The box's own /dev/null, not the host's: it can be opened again by name. */
		if (*from[i] < 0)
			*from[i] = (int)sys(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
		if (*from[i] < 0)
			return *from[i];
		r = move_up(from[i]);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < 5; i++) {
		r = sys(dup3, *from[i], (int)i, i == BOX_FD_INIT ? O_CLOEXEC : 0);
		if (r < 0)
			return r;
		*from[i] = (int)i;
	}
	return sys(close_range, 5, ~0U, 0);
}

/* ------------------------------------------------------------------- walking -- */

static const runner runners[OP_COUNT] = {
	[OP_PRIVATE] = do_private,   [OP_ROOT] = do_root,	  [OP_DIR] = do_dir,
	[OP_SYMLINK] = do_symlink,   [OP_FILE] = do_file,	  [OP_BIND] = do_bind,
	[OP_ATTACH] = do_attach,     [OP_TMPFS] = do_tmpfs,	  [OP_PROC] = do_proc,
	[OP_DEVPTS] = do_devpts,     [OP_MQUEUE] = do_mqueue,	  [OP_MASK] = do_mask,
	[OP_READONLY] = do_readonly, [OP_PIVOT] = do_pivot,	  [OP_CHDIR] = do_chdir,
	[OP_HOSTNAME] = do_hostname, [OP_LOOPBACK] = do_loopback, [OP_IDS] = do_ids,
	[OP_SESSION] = do_session,   [OP_KEYRING] = do_keyring,	  [OP_UMASK] = do_umask,
	[OP_RLIMIT] = do_rlimit,     [OP_NICE] = do_nice,	  [OP_DROPCAPS] = do_dropcaps,
	[OP_NNP] = do_nnp,		  [OP_LANDLOCK] = do_landlock,
	[OP_LANDLOCK_PATH] = do_landlock_path,			  [OP_SECCOMP] = do_seccomp,
	[OP_SEND_DIR] = do_send_dir, [OP_PTY] = do_pty,		  [OP_FDS] = do_fds,
};

static void __attribute__((noreturn)) give_up(const struct child_args *a, long error)
{
	struct wire_msg msg = { .magic = WIRE_MAGIC, .type = WIRE_FAIL,
				.stage = (uint16_t)a->stage, .op = (int32_t)a->op,
				.value = (int32_t)-error };

	sys(sendto, a->sock, &msg, sizeof(msg), MSG_NOSIGNAL, 0, 0);
	for (;;)
		sys(exit_group, 125);
}

#ifdef NSBOX_FAULTS
/* Fault build: fail operation n, or stop or die once a stage is done. */
static long inject(struct child_args *a, uint32_t op, uint32_t next_stage)
{
	if (a->fault_op == op && a->fault_errno)
		return -a->fault_errno;
	if (a->fault_op != UINT32_MAX || a->fault_stage != a->stage || next_stage == a->stage)
		return 0;
	if (a->fault_action == FAULT_KILL_CHILD)
		sys(exit_group, 137);
	if (a->fault_action == FAULT_STOP_CHILD || a->fault_action == FAULT_KILL_PARENT) {
		a->fault_hit = 1;
		for (;;)
			sys(ppoll, 0, 0, 0, 0, 0);
	}
	return 0;
}
#endif

/* The parent's stages must be done, and the message must say so exactly. */
static void wait_for_go(const struct child_args *a)
{
	struct wire_msg msg;
	long n;

	do {
		n = sys(recvfrom, a->sock, &msg, sizeof(msg), 0, 0, 0);
	} while (n == -EINTR);
	if (n != sizeof(msg) || msg.magic != WIRE_MAGIC || msg.type != WIRE_GO ||
	    msg.stage != STAGE_cgroup)
		give_up(a, n < 0 ? n : -EPROTO);
}

void child_main(void *args)
{
	struct child_args *a = args;
	const struct op *ops = plan_ops(a->plan);
	long r;

	a->stage = STAGE_cgroup;
	/* With our copy open, the death of a launcher that died before the next line
	 * would not be EOF: we should wait for its word for ever. */
	close_fd(a->launcher_sock);
#ifdef NSBOX_FAULTS
	if (a->fault_action == FAULT_KILL_PARENT && a->fault_stage == STAGE_clone)
		sys(ppoll, 0, 0, &(struct timespec){ .tv_nsec = 100000000 }, 0, 0);
#endif
	r = die_with_parent();
	if (r < 0)
		give_up(a, r);
	wait_for_go(a);
	for (uint32_t i = 0; i < a->plan->op_count; i++) {
		a->stage = ops[i].stage;
		a->op = i;
		r = runners[ops[i].kind](a, &ops[i]);
#ifdef NSBOX_FAULTS
		if (r >= 0)
			r = inject(a, i, i + 1 < a->plan->op_count ? ops[i + 1].stage
								   : STAGE_COUNT);
#endif
		if (r < 0)
			give_up(a, r);
	}
	a->stage = STAGE_init;
	a->op = a->plan->op_count;
	r = sys(execveat, a->init_fd, "", a->argv, a->env, AT_EMPTY_PATH);
	give_up(a, r);
}
