/*
 * Owns: finding what is left in folders of the host when a launcher and its guardian were
 * killed, or the machine lost its power. Runs in the launcher of nobody's box.
 * Must: take a lock first: who is still at work holds it. Mustn't: follow a link, or
 * remove a folder in which something is.
 */
#include "rootfs/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/artifact_parts.h"
#include "rootfs/guardian.h"
#include "rootfs/interp_parts.h"
#include "rootfs/paths.h"

int swept_add(struct strlist *to, const char *kind, const char *path, struct nsbox_error *err)
{
	struct buf text = BUF_INIT(8192);
	int r = 0;

	buf_fmt(&text, "%s %s", kind, path);
	if (text.failed || strlist_add(to, buf_text(&text)) < 0)
		r = err_nomem(err);
	buf_free(&text);
	return r;
}

/* ------------------------------------------------------- placeholders -- */

struct ground { /* one folder that is swept */
	struct swept *s;
	int fd;
	const char *path;
};

static int tell(const struct ground *g, const char *kind, const char *below,
		struct nsbox_error *err)
{
	owned_mem char *path = path_join(g->path, below);

	return path ? swept_add(&g->s->removed, kind, path, err) : err_nomem(err);
}

/* The rule by which a box takes a placeholder over, and the lock by which it holds one. */
static bool drop_placeholder(int dir, const char *name)
{
	struct placeholder row = { .dir = dir, .fd = -1 };
	struct placeholder_mark mark = { .is_made = true };
	struct stat st;

	if (strlen(name) >= sizeof(row.name) ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !placeholder_is(dir, name))
		return false;
	memcpy(row.name, name, strlen(name) + 1);
	mark.dev = st.st_dev;
	mark.ino = st.st_ino;
	return placeholder_drop(&row, &mark, 0) &&
	       fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* "a/b": "a" is the placeholder where it was missing too. 1: go on with the next part. */
static int sweep_part(const struct ground *g, char *part, struct nsbox_error *err)
{
	char *slash = strrchr(part, '/');
	owned_fd int dir = -1;

	if (slash)
		*slash = '\0';
	dir = fd_open(g->fd, slash ? part : ".", O_RDONLY | O_DIRECTORY, 0,
		      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (slash)
		*slash = '/';
	if (dir < 0)
		return 0; /* no such folder, or none that a box would have gone into */
	if (!drop_placeholder(dir, slash ? slash + 1 : part))
		return 1;
	return tell(g, "placeholder", part, err);
}

static int sweep_name(const struct ground *g, const char *text, struct nsbox_error *err)
{
	owned_mem char *name = path_clean("/", text);
	bool is_last = false;
	int rc = 1;

	if (!name && errno == ENOMEM)
		return err_nomem(err);
	if (!name || !name[1] || text[0] == '/')
		return 0; /* a box refuses such a name */
	for (char *end = name + 1; rc == 1 && !is_last; end++) {
		end += strcspn(end, "/");
		is_last = !*end;
		*end = '\0';
		rc = sweep_part(g, name + 1, err);
		*end = is_last ? '\0' : '/';
	}
	return rc < 0 ? rc : 0;
}

/* -------------------------------------------------- half-written files -- */

/* Nobody writes it any more: whoever does holds the lock until it has its own name. */
static bool drop_file(int dir, const char *name)
{
	owned_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir, name, 0) == 0;
}

static int sweep_files(const struct ground *g, bool (*is_temp)(const char *name),
		       struct nsbox_error *err)
{
	owned_fd int fd = openat(g->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int rc = 0;

	if (!d)
		return err_sys(err, "list %s", g->path);
	(void)take_fd(fd); /* the DIR has it now */
	while (rc == 0 && (e = readdir(d)))
		if (is_temp(e->d_name) && drop_file(g->fd, e->d_name))
			rc = tell(g, "file", e->d_name, err);
	return rc;
}

int sweep_folder(struct swept *s, const char *folder, const struct strlist *names,
		 struct nsbox_error *err)
{
	owned_fd int fd = openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct ground g = { .s = s, .fd = fd, .path = folder };
	int rc = 0;

	if (fd < 0) {
		err_hint(err, "give folders that exist and that you may read");
		return err_errno(err, NSBOX_E_USAGE, errno, "open %s", folder);
	}
	for (size_t i = 0; i < names->n && rc == 0; i++)
		rc = sweep_name(&g, names->v[i], err);
	return rc < 0 ? rc : sweep_files(&g, artifact_is_temp, err);
}

int sweep_cache(struct swept *s, const char *cache_dir, struct nsbox_error *err)
{
	owned_mem char *path = cache_path(cache_dir);
	owned_fd int fd = -1;
	struct ground g = { .s = s, .path = path };

	/* cache_open() would make the folder. */
	if (!path || access(path, F_OK) < 0)
		return 0;
	g.fd = fd = cache_open(path);
	return fd < 0 ? 0 : sweep_files(&g, cache_is_temp, err);
}
