/*
 * child_mount.c - the child's operations on paths and mounts
 *
 * Runs in the child under the rules of child.c, with every capability in the box's own
 * user namespace. Must: resolve each target beneath the new root. Mustn't: follow a
 * link out of it, or clear a mount flag that the host had locked.
 */
#include "runtime/child_ops.h"

#include "runtime/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/stat.h>

/* ---------------------------------------------------- paths in the new root -- */

static long open_in_root(const struct child_args *a, const char *path, uint64_t flags,
			 uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.mode = mode,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	int tries = 100;
	long r;

	/* EAGAIN: a ".." on the way (of /var/tmp -> ../tmp, say) could not be checked, for
	 * somebody mounted or renamed meanwhile, anywhere on the host: other boxes do. */
	do {
		r = sys(openat2, a->root_fd, path, &how, sizeof(how));
	} while (r == -EAGAIN && --tries);
	return r;
}

enum { PATH_ROOM = 4096 };

static size_t parent_length(const char *path)
{
	size_t n = length(path);

	while (n && path[n - 1] != '/')
		n--;
	return n;
}

/*
 * The folder that path's last name is in. Where a part of the path may be somebody
 * else's (not plain), a name given to mkdirat or symlinkat would follow a link of theirs
 * out of the new root, which is not this process's root yet: so the folder is found
 * beneath the new root first. *name points into path.
 */
static long open_parent(const struct child_args *a, const char *path, const char **name)
{
	size_t len = parent_length(path);
	char folder[PATH_ROOM];

	*name = path + len;
	if (!len)
		return open_in_root(a, ".", O_PATH | O_DIRECTORY, 0);
	if (len >= sizeof(folder))
		return -ENAMETOOLONG;
	for (size_t i = 0; i < len; i++)
		folder[i] = path[i];
	folder[len - 1] = '\0'; /* the slash */
	return open_in_root(a, folder, O_PATH | O_DIRECTORY, 0);
}

static long make_folder(const struct child_args *a, const char *path, uint64_t mode, bool plain)
{
	const char *name;
	long parent, r;

	if (plain)
		return sys(mkdirat, a->root_fd, path, (int)mode);
	parent = open_parent(a, path, &name);
	if (parent < 0)
		return parent;
	r = sys(mkdirat, (int)parent, name, (int)mode);
	close_fd((int)parent);
	return r;
}

static long make_symlink(const struct child_args *a, const char *target, const char *path,
			 bool plain)
{
	const char *name;
	long parent, r;

	if (plain)
		return sys(symlinkat, target, a->root_fd, path);
	parent = open_parent(a, path, &name);
	if (parent < 0)
		return parent;
	r = sys(symlinkat, target, (int)parent, name);
	close_fd((int)parent);
	return r;
}

/* Make every missing folder above path. */
static long make_parents(const struct child_args *a, const char *path, bool plain)
{
	size_t len = parent_length(path);
	char part[PATH_ROOM];

	if (len >= sizeof(part))
		return -ENAMETOOLONG;
	for (size_t at = 0; at < len; at++) {
		long r;

		part[at] = path[at];
		if (path[at] != '/')
			continue;
		part[at] = '\0';
		r = make_folder(a, part, 0755, plain);
		if (r < 0 && r != -EEXIST)
			return r;
		part[at] = '/';
	}
	return 0;
}

/* The target of a mount, opened; made when the operation says so. */
static long open_target(const struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	long fd = open_in_root(a, dst, O_PATH, 0);

	if (fd != -ENOENT || !(op->flags & OP_MAKE_DST))
		return fd;
	fd = make_parents(a, dst, false);
	if (fd < 0)
		return fd;
	if (op->flags & OP_IS_FILE) {
		fd = open_in_root(a, dst, O_CREAT | O_EXCL | O_WRONLY, 0444);
		if (fd < 0)
			return fd;
		close_fd((int)fd);
	} else {
		fd = make_folder(a, dst, 0755, false);
		if (fd < 0 && fd != -EEXIST)
			return fd;
	}
	return open_in_root(a, dst, O_PATH, 0);
}

/* A plain target (plan_mark_plain) is made without a look: it is there or it is not. */
static long make_plain(const struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	bool is_file = op->flags & OP_IS_FILE;
	long r = 0;

	for (int i = 0; i < 2; i++) {
		r = is_file ? sys(mknodat, a->root_fd, dst, S_IFREG | 0444, 0)
			    : sys(mkdirat, a->root_fd, dst, 0755);
		if (r != -ENOENT || i)
			break;
		r = make_parents(a, dst, true);
		if (r < 0)
			break;
	}
	return r == -EEXIST ? 0 : r;
}

static long attach(const struct child_args *a, const struct op *op, int tree)
{
	long target, r;

	if (op->flags & OP_PLAIN) {
		r = op->flags & OP_MAKE_DST ? make_plain(a, op) : 0;
		return r < 0 ? r
			     : sys(move_mount, tree, "", a->root_fd, dst_of(a, op),
				   MOVE_MOUNT_F_EMPTY_PATH);
	}
	target = open_target(a, op);
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

long do_private(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return sys(mount, "none", "/", 0, MS_REC | MS_SLAVE, 0);
}

/* Append name and number; returns the end, which is terminated. */
static char *put_option(char *at, const char *name, uint64_t v, unsigned base)
{
	char digits[24];
	int n = 0;

	while (*name)
		*at++ = *name++;
	do {
		digits[n++] = (char)('0' + v % base);
		v /= base;
	} while (v);
	while (n)
		*at++ = digits[--n];
	*at = '\0';
	return at;
}

/* A detached tmpfs, for the root alone: it is used by its descriptor. */
static long new_tmpfs(uint64_t bytes, uint64_t inodes)
{
	char size[24], count[24];
	long fs = sys(fsopen, "tmpfs", FSOPEN_CLOEXEC);
	long r;

	if (fs < 0)
		return fs;
	put_option(size, "", bytes, 10);
	put_option(count, "", inodes, 10);
	r = sys(fsconfig, (int)fs, FSCONFIG_SET_STRING, "size", size, 0);
	if (r >= 0)
		r = sys(fsconfig, (int)fs, FSCONFIG_SET_STRING, "nr_inodes", count, 0);
	if (r >= 0)
		r = sys(fsconfig, (int)fs, FSCONFIG_SET_STRING, "mode", "0755", 0);
	if (r >= 0)
		r = sys(fsconfig, (int)fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (r >= 0)
		r = sys(fsmount, (int)fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
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
long do_root(struct child_args *a, const struct op *op)
{
	long fd = new_tmpfs(op->n, op->m);
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

long do_dir(struct child_args *a, const struct op *op)
{
	bool plain = op->flags & OP_PLAIN;
	long r = make_folder(a, dst_of(a, op), op->n, plain);

	if (r == -ENOENT) {
		r = make_parents(a, dst_of(a, op), plain);
		if (r >= 0)
			r = make_folder(a, dst_of(a, op), op->n, plain);
	}
	return r == -EEXIST ? 0 : r;
}

long do_symlink(struct child_args *a, const struct op *op)
{
	bool plain = op->flags & OP_PLAIN;
	long r = make_symlink(a, src_of(a, op), dst_of(a, op), plain);

	if (r == -ENOENT) {
		r = make_parents(a, dst_of(a, op), plain);
		if (r >= 0)
			r = make_symlink(a, src_of(a, op), dst_of(a, op), plain);
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

long do_file(struct child_args *a, const struct op *op)
{
	const char *dst = dst_of(a, op);
	const uint64_t flags = O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC;
	long fd = -ENOENT, r;

	for (int i = 0; i < 2 && fd == -ENOENT; i++) {
		r = i ? make_parents(a, dst, op->flags & OP_PLAIN) : 0;
		if (r < 0)
			return r;
		fd = op->flags & OP_PLAIN ? sys(openat, a->root_fd, dst, flags, op->n)
					  : open_in_root(a, dst, flags, op->n);
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

long do_bind(struct child_args *a, const struct op *op)
{
	long tree = clone_source(a, op);
	long r;

	/* The box's user may be another one than the launcher's, and not get there. */
	if ((tree == -ENOENT || tree == -EACCES) && (op->flags & OP_OPTIONAL)) {
		if (!a->left_out)
			a->left_out = a->op + 1;
		return 0;
	}
	if (tree < 0)
		return tree;
	r = restrict_tree((int)tree, op->flags);
	if (r >= 0)
		r = attach(a, op, (int)tree);
	close_fd((int)tree);
	return r;
}

long do_attach(struct child_args *a, const struct op *op)
{
	long r = restrict_tree(op->fd, op->flags);

	return r < 0 ? r : attach(a, op, op->fd);
}

static unsigned long mount_flags(const struct op *op)
{
	return MS_NOSUID | MS_NODEV | (op->flags & OP_NOEXEC ? MS_NOEXEC : 0) |
	       (op->flags & OP_RDONLY ? MS_RDONLY : 0);
}

/* A new file system at dst. mount(2) takes a path, so where the path needs a careful
 * lookup the child steps into the target it found and mounts on ".". */
static long mount_new(const struct child_args *a, const struct op *op, const char *type,
		      unsigned long flags, const char *options)
{
	long target, r;

	if (op->flags & OP_PLAIN) {
		r = op->flags & OP_MAKE_DST ? make_plain(a, op) : 0;
		return r < 0 ? r : sys(mount, "none", dst_of(a, op), type, flags, options);
	}
	target = open_target(a, op);
	if (target < 0)
		return target;
	r = sys(fchdir, (int)target);
	close_fd((int)target);
	if (r >= 0)
		r = sys(mount, "none", ".", type, flags, options);
	return r < 0 ? r : sys(fchdir, a->root_fd);
}

long do_tmpfs(struct child_args *a, const struct op *op)
{
	char options[80];
	char *at = put_option(options, "size=", op->n, 10);

	if (op->m)
		at = put_option(at, ",nr_inodes=", op->m, 10);
	put_option(at, ",mode=", op->flags >> 32, 8);
	return mount_new(a, op, "tmpfs", mount_flags(op), options);
}

long do_proc(struct child_args *a, const struct op *op)
{
	return mount_new(a, op, "proc", mount_flags(op) | MS_NOEXEC,
			 op->m & 1 ? "subset=pid" : 0);
}

/* No nodev: the slaves are devices. newinstance is what every mount is since 4.7. */
long do_devpts(struct child_args *a, const struct op *op)
{
	return mount_new(a, op, "devpts", MS_NOSUID | MS_NOEXEC,
			 "newinstance,ptmxmode=0666,mode=0620");
}

long do_mqueue(struct child_args *a, const struct op *op)
{
	return mount_new(a, op, "mqueue", mount_flags(op) | MS_NOEXEC, 0);
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

static bool is_absent(long r)
{
	return r == -ENOENT || r == -ENOTDIR;
}

/*
 * Known names only: with the wrong guess of the kind the kernel answers EINVAL. First a
 * look whether it is there at all: to drop a tree that was cloned in vain costs the
 * kernel an RCU grace period.
 */
static long mask_plain(const struct child_args *a, const struct op *op)
{
	bool is_dir = !(op->flags & OP_IS_FILE);
	long r = sys(faccessat, a->root_fd, dst_of(a, op), 0 /* F_OK */);

	if (is_absent(r))
		return op->flags & OP_MUST_EXIST ? r : 0;
	r = -EINVAL;
	for (int i = 0; i < 2 && (r == -EINVAL || r == -ENOTDIR); i++, is_dir = !is_dir) {
		long tree = mask_tree(a, is_dir);

		if (tree < 0)
			return tree;
		r = sys(move_mount, (int)tree, "", a->root_fd, dst_of(a, op),
			MOVE_MOUNT_F_EMPTY_PATH);
		close_fd((int)tree);
	}
	return r;
}

long do_mask(struct child_args *a, const struct op *op)
{
	struct stat st;
	long target, tree, r;

	if (op->flags & OP_PLAIN)
		return mask_plain(a, op);
	target = open_in_root(a, dst_of(a, op), O_PATH, 0);
	if (is_absent(target) && !(op->flags & OP_MUST_EXIST))
		return 0;
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

long do_readonly(struct child_args *a, const struct op *op)
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
long do_pivot(struct child_args *a, const struct op *op)
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

long do_chdir(struct child_args *a, const struct op *op)
{
	return sys(chdir, src_of(a, op));
}
