/*
 * packages_store.c - the folder of layers: ~/.cache/nsbox/layers
 *
 *   ID/packages   what a box shows      ID/lock        what was resolved, one a line
 *   ID/about     what it was made of    ID.new         being made, by who holds ID.wait
 *   ID.wait       the lock of makers    ID.failed      why it could not be made
 *
 * Runs in the launcher. What is in ID.new was written by code that nobody trusts.
 *
 * Must:    walk by descriptors and never through a link; let a box see plain files, folders
 *          and links alone; make a layer appear whole or not at all.
 * Mustn't: read what somebody else could have written, or wait on a FIFO.
 */
#include "runtime/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "rootfs/interp_parts.h"
#include "rootfs/paths.h"

enum {
	DEPTH_MAX = 64,		/* of folders in a layer */
	FAILURE_MAX = 4096,
	WAIT_MS = 50,		/* between two looks at a lock that another maker has */
};

static int open_folder(int dirfd, const char *name)
{
	return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void store_close(struct store *s)
{
	close_owned(&s->fd);
	free(s->path);
	*s = (struct store)STORE_INIT;
}

static bool is_own(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static int no_store(struct nsbox_error *err)
{
	err_hint(err, "nsbox keeps packages in $XDG_CACHE_HOME/nsbox or ~/.cache/nsbox, which only you may write");
	return err_set(err, NSBOX_E_SETUP, "there is no folder to keep packages in");
}

/* A setuid program has somebody else's HOME. */
int store_open(struct store *s, bool make, struct nsbox_error *err)
{
	owned_mem char *base = getauxval(AT_SECURE) ? NULL : cache_path(NULL);
	owned_fd int cache = -1, fd = -1;

	if (base && !make && access(base, F_OK) < 0)
		return 1;
	cache = base ? cache_open(base) : -1;
	if (cache < 0)
		return no_store(err);
	if (make && mkdirat(cache, "layers", 0700) < 0 && errno != EEXIST)
		return err_sys(err, "make %s/layers", base);
	fd = open_folder(cache, "layers");
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || !is_own(fd, S_IFDIR))
		return no_store(err);
	s->path = path_join(base, "layers");
	if (!s->path)
		return err_nomem(err);
	s->fd = take_fd(fd);
	return 0;
}

static void entry(char name[LAYER_ID + 8], const char *id, const char *suffix)
{
	snprintf(name, LAYER_ID + 8, "%.64s%s", id, suffix);
}

/* ---------------------------------------------------------------------- taking -- */

/* Prune removes such files: one that others waited for may be another by now. */
static bool is_still(const struct store *s, const char *name, int fd)
{
	struct stat held, now;

	return fstat(fd, &held) == 0 && fstatat(s->fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       held.st_ino == now.st_ino && held.st_dev == now.st_dev;
}

/* The time of the folder says when it was used last, for prune. */
bool store_take(const struct store *s, const char *id, int *lock)
{
	owned_fd int fd = open_folder(s->fd, id);

	if (fd < 0 || !is_own(fd, S_IFDIR) || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return false;
	if (!is_still(s, id, fd)) /* taken away between the two calls */
		return false;
	(void)futimens(fd, NULL); /* a full disk is no reason not to run */
	*lock = take_fd(fd);
	return true;
}

static void nap(void)
{
	const struct timespec t = { .tv_nsec = WAIT_MS * 1000000L };

	nanosleep(&t, NULL);
}

int store_lock(const struct store *s, const char *id, bool (*stop)(void *arg), void *arg)
{
	owned_fd int fd = -1;
	char name[LAYER_ID + 8];

	entry(name, id, ".wait");
	for (;;) {
		close_owned(&fd);
		fd = openat(s->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_still(s, name, fd))
			return take_fd(fd);
		if (stop(arg)) {
			errno = ECANCELED;
			return -1;
		}
		nap();
	}
}

/* -------------------------------------------------------------------- removing -- */

static int remove_below(int fd, int depth);

static int remove_entry(int dirfd, const char *name, int depth)
{
	owned_fd int fd = -1;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	/* The box may have taken away its own rights. */
	if (depth > 4 * DEPTH_MAX)
		return -1;
	fd = open_folder(dirfd, name);
	if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
		fd = open_folder(dirfd, name);
	if (fd < 0)
		return -1;
	(void)fchmod(fd, 0700);
	if (remove_below(fd, depth + 1) < 0)
		return -1;
	return unlinkat(dirfd, name, AT_REMOVEDIR);
}

static int remove_below(int fd, int depth)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	owned_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return -1;
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = remove_entry(fd, e->d_name, depth);
	return r;
}

int store_remove(int dirfd, const char *name)
{
	return remove_entry(dirfd, name, 0);
}

/* ---------------------------------------------------------------------- making -- */

char *store_begin(const struct store *s, const char *id, struct nsbox_error *err)
{
	char name[LAYER_ID + 8], *path;

	entry(name, id, ".new");
	if (store_remove(s->fd, name) < 0 || mkdirat(s->fd, name, 0700) < 0) {
		err_sys(err, "make %s/%s", s->path, name);
		return NULL;
	}
	path = path_join(s->path, name);
	if (!path)
		err_nomem(err);
	return path;
}

void store_abort(const struct store *s, const char *id)
{
	char name[LAYER_ID + 8];

	entry(name, id, ".new");
	(void)store_remove(s->fd, name); /* the next maker tries again */
}

struct clean {
	struct layer_size size;
	struct buf *why;
	dev_t dev;
};

static int refuse(struct clean *c, const char *name, const char *what)
{
	buf_fmt(c->why, "it holds %s: %.80s", what, name);
	return 1;
}

static int clean_below(struct clean *c, int fd, int depth);

/* setuid, and rights of others to write, are nothing that a package needs. */
static int clean_file(struct clean *c, int dirfd, const char *name, const struct stat *st)
{
	mode_t mode = st->st_mode & 0100 ? 0755 : 0644;

	c->size.files++;
	c->size.bytes += (uint64_t)st->st_blocks * 512;
	return (st->st_mode & 07777) == mode ? 0 : fchmodat(dirfd, name, mode, 0);
}

static int clean_entry(struct clean *c, int dirfd, const char *name, int depth)
{
	owned_fd int fd = -1;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISLNK(st.st_mode))
		return 0; /* leads to what the box has there */
	if (S_ISREG(st.st_mode))
		return clean_file(c, dirfd, name, &st);
	if (!S_ISDIR(st.st_mode))
		return refuse(c, name, "something that is no file, folder or link");
	if (depth >= DEPTH_MAX)
		return refuse(c, name, "folders that are more than 64 deep");
	if (fchmodat(dirfd, name, 0755, 0) < 0)
		return -1;
	fd = open_folder(dirfd, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	return st.st_dev == c->dev ? clean_below(c, fd, depth + 1)
				   : refuse(c, name, "another file system");
}

static int clean_below(struct clean *c, int fd, int depth)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	owned_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return -1;
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = clean_entry(c, fd, e->d_name, depth);
	return r;
}

static int put_about(int fd, const struct buf *about, const struct layer_size *size)
{
	struct buf text = BUF_INIT(1 << 20);
	owned_fd int file = openat(fd, "about", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r;

	buf_fmt(&text, "%sbytes=%llu\nfiles=%llu\n", buf_text(about),
		(unsigned long long)size->bytes, (unsigned long long)size->files);
	r = file < 0 || text.failed ? -1 : fd_write_all(file, text.data, text.len);
	buf_free(&text);
	return r;
}

static const char *const known[] = { "packages", "lock" };

static bool is_known(const char *name)
{
	return strcmp(name, known[0]) == 0 || strcmp(name, known[1]) == 0 || strcmp(name, ".") == 0 ||
	       strcmp(name, "..") == 0;
}

/* pip's own leavings, and whatever else a build script put there. */
static int remove_others(int fd)
{
	owned_fd int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return -1;
	(void)take_fd(copy); /* the DIR has it now */
	while (r == 0 && (e = readdir(d)))
		if (!is_known(e->d_name))
			r = store_remove(fd, e->d_name);
	return r;
}

/* Nothing of the box is left that could write here when this runs. */
static int clean_all(struct clean *c, int fd, const struct buf *about)
{
	struct stat st;
	int r = 0;

	if (remove_others(fd) < 0 || fstat(fd, &st) < 0)
		return -1;
	c->dev = st.st_dev;
	for (size_t i = 0; i < ARRAY_SIZE(known) && r == 0; i++)
		r = clean_entry(c, fd, known[i], 0);
	if (r == 0 && fstatat(fd, "packages", &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
		return refuse(c, "packages", "a link where the packages belong");
	return r == 0 ? put_about(fd, about, &c->size) : r;
}

int store_commit(const struct store *s, const char *id, const struct buf *about, struct buf *why,
		 struct nsbox_error *err)
{
	struct clean c = { .why = why };
	char name[LAYER_ID + 8], failed[LAYER_ID + 8];
	owned_fd int fd = -1;
	int r;

	entry(name, id, ".new");
	entry(failed, id, ".failed");
	/* The box had it as a folder of its own, mode included. */
	if (fchmodat(s->fd, name, 0700, 0) == 0)
		fd = open_folder(s->fd, name);
	r = fd < 0 ? -1 : clean_all(&c, fd, about);
	if (r == 0 && renameat(s->fd, name, s->fd, id) < 0)
		r = -1;
	if (r < 0)
		return err_sys(err, "keep the packages in %s/%s", s->path, name);
	if (r == 0)
		(void)unlinkat(s->fd, failed, 0);
	return r;
}

/* -------------------------------------------------------------------- dropping -- */

bool store_is_id(const char *name)
{
	return strlen(name) == LAYER_ID && !name[strspn(name, "0123456789abcdef")];
}

static bool at_once(void *arg)
{
	(void)arg;
	return true;
}

/*
 * Under the makers' lock the layer becomes ID.new, which the next maker would remove as
 * well. Whoever runs with it has the folder locked.
 */
int store_drop(const struct store *s, const char *id)
{
	owned_fd int wait = store_lock(s, id, at_once, NULL), layer = -1;
	char new[LAYER_ID + 8], other[LAYER_ID + 8];

	if (wait < 0)
		return errno == ECANCELED ? 1 : -1;
	layer = open_folder(s->fd, id);
	if (layer >= 0 && flock(layer, LOCK_EX | LOCK_NB) < 0)
		return 1;
	entry(new, id, ".new");
	if (store_remove(s->fd, new) < 0 ||
	    (layer >= 0 && renameat(s->fd, id, s->fd, new) < 0) || store_remove(s->fd, new) < 0)
		return -1;
	entry(other, id, ".failed");
	(void)unlinkat(s->fd, other, 0);
	entry(other, id, ".wait");
	return unlinkat(s->fd, other, 0);
}

/* -------------------------------------------------------------------- failures -- */

bool store_failed(const struct store *s, const char *id, struct buf *reason, uint64_t *age)
{
	owned_fd int fd = -1;
	char name[LAYER_ID + 8];
	struct stat st;
	time_t now = time(NULL);

	entry(name, id, ".failed");
	fd = openat(s->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || !is_own(fd, S_IFREG) || fstat(fd, &st) < 0 || st.st_mtime > now ||
	    now - st.st_mtime >= FAILURE_SECONDS || st.st_size > FAILURE_MAX)
		return false;
	*age = (uint64_t)(now - st.st_mtime);
	return fd_read_all(fd, reason) == 0 && reason->len > 0;
}

/* Cannot be kept: then the next run tries again at once. */
void store_fail(const struct store *s, const char *id, const char *reason)
{
	owned_fd int fd = -1;
	char name[LAYER_ID + 8];

	entry(name, id, ".failed");
	if (unlinkat(s->fd, name, 0) < 0 && errno != ENOENT)
		return;
	fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && fd_write_all(fd, reason, strnlen(reason, FAILURE_MAX)) < 0)
		(void)unlinkat(s->fd, name, 0);
}
