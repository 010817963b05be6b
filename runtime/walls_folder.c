/*
 * walls_folder.c - the folder of a run without namespaces, on the host
 *
 * Runs in the launcher, and in `nsbox sweep`. Must: remove whatever a hostile program left
 * in it, however deep and whatever its modes, without following anything out of it.
 */
#include "runtime/walls.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "runtime/unsafe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const parts[] = { "work", "tmp", "boot" };
enum { BOOT = 2 };	/* the one that stays the launcher's */

static const char *tmp_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp && tmp[0] == '/' ? tmp : "/tmp";
}

static int fill(struct walls *w, struct nsbox_error *err)
{
	w->lock = open(w->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->lock < 0 || flock(w->lock, LOCK_SH | LOCK_NB) < 0)
		return err_sys(err, "lock %s", w->dir);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (mkdirat(w->lock, parts[i], 0700) < 0)
			return err_sys(err, "make %s/%s", w->dir, parts[i]);
	return 0;
}

int walls_open(struct walls *w, bool look_only, struct nsbox_error *err)
{
	struct buf b = BUF_INIT(4096);
	char *real;

	buf_fmt(&b, "%s/" WALLS_PREFIX "XXXXXX", tmp_dir());
	w->dir = buf_take(&b);
	buf_free(&b);
	if (!w->dir)
		return err_nomem(err);
	if (look_only)
		return 0;
	if (!mkdtemp(w->dir)) {
		err_hint(err, "let TMPDIR name a folder that you may write");
		err_sys(err, "make a folder for the run");
		free(take_ptr(w->dir));
		return NSBOX_E_SETUP;
	}
	/* As the kernel says it of a process's folder: init compares (init/modes.c). */
	real = realpath(w->dir, NULL);
	if (!real)
		return err_sys(err, "find %s", w->dir);
	free(w->dir);
	w->dir = real;
	return fill(w, err);
}

int walls_give(const char *dir, uid_t uid, gid_t gid, struct nsbox_error *err)
{
	owned_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "open %s", dir);
	if (uid == geteuid() && gid == getegid())
		return 0;
	for (size_t i = 0; i < BOOT; i++)
		if (fchownat(fd, parts[i], uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(err, "give %s/%s to the box's user", dir, parts[i]);
	/* To walk through, and to read: nobody but the launcher renames what is in them. */
	if (fchmodat(fd, parts[BOOT], 0755, 0) < 0 || fchmod(fd, 0711) < 0)
		return err_sys(err, "open %s for the box's user", dir);
	return 0;
}

int walls_put(const struct walls *w, struct lang_command *cmd, bool look_only,
	      struct nsbox_error *err)
{
	struct buf b = BUF_INIT(4096);
	int r;

	if (look_only)
		return 0;
	buf_fmt(&b, "%s/boot", w->dir);
	r = b.failed ? err_nomem(err) : unsafe_put(buf_text(&b), cmd, err);
	buf_free(&b);
	return r;
}

/* -------------------------------------------------------------------- removing -- */

enum { DEPTH_MAX = 64 };	/* open folders at once */

struct removal {
	int top;
	unsigned moved;	/* folders that lay too deep, and lie in `top` now */
};

static int remove_below(struct removal *r, int fd, int depth);

/* The program may have taken rights away. Its folders are its own, or ours as root. */
static int open_below(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd;
}

static int remove_folder(struct removal *r, int dirfd, const char *name, int depth)
{
	owned_fd int fd = -1;

	if (depth >= DEPTH_MAX) {
		char up[32];

		snprintf(up, sizeof(up), "deep-%u", r->moved++);
		return renameat(dirfd, name, r->top, up);
	}
	fd = open_below(dirfd, name);
	if (fd < 0)
		return -1;
	(void)fchmod(fd, 0700);
	if (remove_below(r, fd, depth + 1) < 0)
		return -1;
	return unlinkat(dirfd, name, AT_REMOVEDIR);
}

static int remove_below(struct removal *r, int fd, int depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if ((errno != EISDIR && errno != EPERM) ||
		    remove_folder(r, fd, e->d_name, depth) < 0)
			return -1;
	}
	return 0;
}

/* Again while something was moved up: each round takes DEPTH_MAX levels. */
int walls_remove(int dirfd, const char *name)
{
	owned_fd int fd = open_below(dirfd, name);
	struct removal r = { .top = fd };
	unsigned before;

	if (fd < 0)
		return -1;
	do {
		before = r.moved;
		if (remove_below(&r, fd, 0) < 0)
			return -1;
	} while (r.moved != before);
	return unlinkat(dirfd, name, AT_REMOVEDIR);
}

void walls_close(struct walls *w)
{
	if (w->lock >= 0)
		(void)walls_remove(AT_FDCWD, w->dir);
	if (w->lock >= 0)
		close(w->lock);
	free(w->dir);
	*w = (struct walls)WALLS_INIT;
}

/* --------------------------------------------------------------------- sweeping -- */

/* One that is ours, and that no launcher holds any more. */
static bool is_left(int fd)
{
	struct stat st;

	/* A launcher makes it, and then locks it. */
	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && st.st_ctime + 60 < time(NULL) &&
	       flock(fd, LOCK_EX | LOCK_NB) == 0;
}

int walls_sweep(int (*found)(void *arg, const char *path, bool is_removed), void *arg)
{
	owned_dir DIR *d = opendir(tmp_dir());
	const struct dirent *e;
	int r = 0;

	while (d && r == 0 && (e = readdir(d))) {
		owned_fd int fd = -1;
		char path[512];

		if (strncmp(e->d_name, WALLS_PREFIX, sizeof(WALLS_PREFIX) - 1) != 0)
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || !is_left(fd))
			continue;
		snprintf(path, sizeof(path), "%s/%s", tmp_dir(), e->d_name);
		r = found(arg, path, walls_remove(dirfd(d), e->d_name) == 0);
	}
	return r;
}
