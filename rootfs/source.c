/*
 * Owns: host files and folders that are bound into a box. Runs in the launcher.
 * Must: judge by descriptor, so that a name swapped after the check changes nothing;
 * hand the child a pin (dev, ino) or the tree itself. Mustn't: change the host.
 */
#include "rootfs/source.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/paths.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

void source_close(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	free(s->real);
	*s = (struct source)SOURCE_INIT;
}

/* The kernel's own answer to "where is this": no second walk, no race. */
static char *real_path(int fd)
{
	char name[40], path[4096];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, sizeof(path) - 1);
	if (n <= 0 || n == sizeof(path) - 1)
		return NULL;
	path[n] = '\0';
	return strdup(path);
}

static const char *kind_problem(mode_t mode)
{
	static const struct {
		mode_t type;
		const char *why;
	} rows[] = {
		{ S_IFSOCK, "is a socket: whoever listens there would serve the box" },
		{ S_IFIFO, "is a FIFO: a box must not talk to a process of the host" },
		{ S_IFBLK, "is a block device" },
		{ S_IFCHR, "is a device: name it in devices.allow" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((mode & S_IFMT) == rows[i].type)
			return rows[i].why;
	return NULL;
}

static const char *place_problem(const char *real)
{
	static const struct {
		const char *root, *why;
	} rows[] = {
		{ "/proc", "is in /proc: the box has a /proc of its own" },
		{ "/sys", "is in /sys, which holds switches of the whole host" },
		{ "/dev", "is in /dev: name devices in devices.allow" },
	};

	if (strcmp(real, "/") == 0)
		return "is the whole host: name the folders that the box needs";
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (path_below(real, rows[i].root))
			return rows[i].why;
	return NULL;
}

/* /proc and friends mounted somewhere else are told by what they are. */
static const char *filesystem_problem(int fd)
{
	static const long kernel_made[] = { PROC_SUPER_MAGIC,	 SYSFS_MAGIC,
					    CGROUP_SUPER_MAGIC,	 CGROUP2_SUPER_MAGIC,
					    DEVPTS_SUPER_MAGIC,	 SECURITYFS_MAGIC,
					    DEBUGFS_MAGIC,	 TRACEFS_MAGIC,
					    BPF_FS_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return "cannot be examined";
	for (size_t i = 0; i < ARRAY_SIZE(kernel_made); i++)
		if ((long)fs.f_type == kernel_made[i])
			return "is on a file system of the kernel's own (/proc, /sys, cgroup)";
	return NULL;
}

static int check(const struct source *s, struct nsbox_error *err)
{
	const char *why = place_problem(s->real);

	if (!why)
		why = kind_problem(s->st.st_mode);
	if (!why)
		why = filesystem_problem(s->fd);
	return why ? err_set(err, NSBOX_E_POLICY, "%s %s", s->path, why) : 0;
}

int source_open(struct source *s, const char *path, struct nsbox_error *err)
{
	owned(source_close) struct source got = SOURCE_INIT;
	int r;

	got.fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
	if (got.fd < 0) {
		err_hint(err, "give a file or folder that exists and that you may reach");
		return err_errno(err, NSBOX_E_POLICY, errno, "open %s", path);
	}
	if (fstat(got.fd, &got.st) < 0)
		return err_sys(err, "stat %s", path);
	got.path = strdup(path);
	got.real = real_path(got.fd);
	if (!got.path)
		return err_nomem(err);
	if (!got.real) {
		err_hint(err, "nsbox needs a readable /proc to check what it binds");
		return err_sys(err, "ask where %s really is", path);
	}
	r = check(&got, err);
	if (r < 0)
		return r;
	*s = got;
	got = (struct source)SOURCE_INIT;
	return 0;
}

int source_below(struct source *s, const struct source *parent, const char *rest,
		 struct nsbox_error *err)
{
	owned(source_close) struct source got = SOURCE_INIT;

	got.fd = fd_open(parent->fd, rest, O_PATH | O_NOFOLLOW, 0,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (got.fd < 0 || fstat(got.fd, &got.st) < 0)
		return err_sys(err, "open %s in %s", rest, parent->path);
	got.path = path_join(parent->path, rest);
	got.real = path_join(parent->real, rest);
	if (!got.path || !got.real)
		return err_nomem(err);
	*s = got;
	got = (struct source)SOURCE_INIT;
	return 0;
}

static int detach_tree(const struct source *s)
{
	return (int)syscall(SYS_open_tree, s->fd, "",
			    AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* Give the tree to the view, which keeps it open until the child has attached it. */
static int keep_tree(struct view *v, int fd, bool needs_idmap, const char *src)
{
	struct view_tree *trees = realloc(v->trees, (v->tree_count + 1) * sizeof(*trees));
	char *copy = strdup(src);

	if (trees)
		v->trees = trees;
	if (!trees || !copy) {
		free(copy);
		return -1;
	}
	trees[v->tree_count++] = (struct view_tree){ fd, needs_idmap, copy };
	return 0;
}

/*
 * The box of a privileged launcher runs as a uid that owns nothing here. What it may
 * write is mapped to its id; what it may read is mapped only when others could not
 * read it anyway, because not every file system can be idmapped. A sealed name keeps the
 * ids of the folder that it is in: otherwise .git/hooks/x of mode 0600 would be there
 * and unreadable, and writing to it would be EACCES and not EROFS.
 */
static bool needs_idmap(const struct source *s, enum source_use use)
{
	mode_t others = S_ISDIR(s->st.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

	return (use != SOURCE_READ && use != SOURCE_TRY) || (s->st.st_mode & others) != others;
}

static uint64_t mount_flags(const struct source *s, enum source_use use)
{
	return OP_MAKE_DST | OP_REC | (S_ISDIR(s->st.st_mode) ? 0 : OP_IS_FILE) |
	       (use == SOURCE_WRITE ? 0 : OP_RDONLY) | (use == SOURCE_TRY ? OP_OPTIONAL : 0);
}

static int mount_attached(const struct source_sink *to, const struct source *s, const char *dst,
			  enum source_use use, struct nsbox_error *err)
{
	owned_fd int tree = detach_tree(s);

	if (tree < 0)
		return err_sys(err, "copy the mounts below %s", s->path);
	PLAN_OP(to->b, .kind = OP_ATTACH, .stage = to->stage, .fd = tree,
		.flags = mount_flags(s, use), .src = s->path, .dst = dst);
	if (keep_tree(to->view, tree, needs_idmap(s, use), s->path) < 0)
		return err_nomem(err);
	tree = -1; /* the view's now */
	return 0;
}

int source_mount(const struct source_sink *to, const struct source *s, const char *dst,
		 enum source_use use, struct nsbox_error *err)
{
	dst += dst[0] == '/';
	if (to->privileged)
		return mount_attached(to, s, dst, use, err);
	PLAN_OP(to->b, .kind = OP_BIND, .stage = to->stage, .fd = -1,
		.flags = mount_flags(s, use), .src = s->path, .dst = dst,
		.pin_dev = s->st.st_dev, .pin_ino = s->st.st_ino);
	return 0;
}
