/*
 * Owns: the walk through a finished box's work folder. Runs in the launcher, when no
 * process of the box is left.
 * Must: bound everything by the policy and by WALK_MAX. Mustn't: follow a link, open
 * anything but folders and regular files, or write through a link in host_dir.
 */
#include "rootfs/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/strlist.h"
#include "rootfs/artifact_parts.h"
#include "rootfs/paths.h"

enum {
	WALK_MAX = 262144,	/* entries looked at in one collection */
	SKIPPED_MAX = 64,
	DEPTH_MAX = 64,		/* the walk recurses once a level */
};

#define STAY (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

struct walk {
	struct artifacts *out;
	const struct artifacts_request *r;
	int host;		/* host_dir */
	uint64_t files, bytes;	/* taken so far */
	size_t entries;
	struct nsbox_error *err;
};

void artifacts_free(struct artifacts *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++) {
		free(a->v[i].path);
		free(a->v[i].host_path);
	}
	for (size_t i = 0; i < a->skipped_n; i++)
		free(a->skipped[i].path);
	free(a->v);
	free(a->skipped);
	*a = (struct artifacts){ 0 };
}

static int skip(struct walk *w, const char *path, const char *why)
{
	struct artifacts *a = w->out;
	struct artifact_skip *rows;

	a->skipped_total++;
	if (a->skipped_n == SKIPPED_MAX)
		return 0;
	rows = realloc(a->skipped, (a->skipped_n + 1) * sizeof(*rows));
	if (!rows)
		return err_nomem(w->err);
	a->skipped = rows;
	rows[a->skipped_n] = (struct artifact_skip){ strdup(path), why };
	if (!rows[a->skipped_n].path)
		return err_nomem(w->err);
	a->skipped_n++;
	return 0;
}

/* ---------------------------------------------------------- host side -- */

static int open_host(const struct walk *w, const char *path)
{
	return fd_open(w->host, path, O_RDONLY | O_DIRECTORY, 0,
		       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static int give_folder(const struct walk *w, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if (geteuid() != 0 || (st.st_uid == w->r->owner_uid && st.st_gid == w->r->owner_gid))
		return 0;
	return fchown(fd, w->r->owner_uid, w->r->owner_gid);
}

static int make_host_folder(const struct walk *w, const char *path)
{
	owned_fd int fd = -1;

	if (mkdirat(w->host, path, 0700) < 0)
		return errno == EEXIST ? 0 : -1;
	fd = open_host(w, path);
	return fd < 0 ? -1 : give_folder(w, fd);
}

/*
 * The folder of host_dir that @path belongs in, made as needed; a link on the way is
 * somebody's, and is not followed (ELOOP, ENOTDIR).
 */
static int host_folder(const struct walk *w, const char *path)
{
	const char *slash = strrchr(path, '/');
	owned_mem char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");

	if (!dir)
		return -1;
	for (char *at = strchr(dir, '/'); slash; at = strchr(at + 1, '/')) {
		owned_fd int upper = -1;
		int r;

		if (at)
			*at = '\0';
		r = make_host_folder(w, dir);
		upper = r == 0 ? open_host(w, dir) : -1;
		if (upper < 0)
			return -1;
		if (!at)
			break;
		*at = '/';
	}
	return open_host(w, dir);
}

/* ---------------------------------------------------------- one file -- */

static int add(struct walk *w, const char *path, const struct copy *c)
{
	struct artifacts *a = w->out;
	struct artifact *rows = realloc(a->v, (a->n + 1) * sizeof(*rows));
	struct artifact *row;

	if (!rows)
		return err_nomem(w->err);
	a->v = rows;
	row = &rows[a->n];
	*row = (struct artifact){
		.path = strdup(path),
		.host_path = path_join(w->r->host_dir, path),
		.content_type = content_type(c->name, c->head, c->head_len),
		.size = c->size,
	};
	memcpy(row->sha256, c->sha256, sizeof(row->sha256));
	a->n++;
	return row->path && row->host_path ? 0 : err_nomem(w->err);
}

static const char *type_problem(mode_t mode)
{
	static const struct {
		mode_t type;
		const char *why;
	} rows[] = {
		{ S_IFLNK, "symlink" },	       { S_IFIFO, "fifo" },
		{ S_IFSOCK, "socket" },	       { S_IFCHR, "device" },
		{ S_IFBLK, "device" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((mode & S_IFMT) == rows[i].type)
			return rows[i].why;
	return NULL;
}

static bool is_old(const struct stat *st, const struct timespec *since)
{
	if (st->st_ctim.tv_sec != since->tv_sec)
		return st->st_ctim.tv_sec < since->tv_sec;
	return st->st_ctim.tv_nsec < since->tv_nsec;
}

/* Why a file is left out; NULL: it is taken. */
static const char *file_problem(const struct walk *w, const struct stat *st)
{
	const char *why = type_problem(st->st_mode);

	if (why)
		return why;
	if (!S_ISREG(st->st_mode))
		return "not a regular file";
	if (st->st_nlink > 1)
		return "hard link";
	if (w->files >= w->r->policy->artifacts.max_count ||
	    (uint64_t)st->st_size > w->r->policy->artifacts.max_bytes - w->bytes)
		return "limit";
	return NULL;
}

static int copy_failed(const struct walk *w, const char *path)
{
	err_hint(w->err, "give a folder that you may write, with room for %llu bytes",
		 (unsigned long long)w->r->policy->artifacts.max_bytes);
	return err_sys(w->err, "copy artifact %s to %s", path, w->r->host_dir);
}

static int copy_open(struct walk *w, const char *path, int source)
{
	const char *slash = strrchr(path, '/');
	owned_fd int folder = host_folder(w, path);
	const char *why = NULL;
	struct copy c = {
		.source = source, .folder = folder, .name = slash ? slash + 1 : path,
		.limit = w->r->policy->artifacts.max_bytes - w->bytes,
		.uid = w->r->owner_uid, .gid = w->r->owner_gid,
	};
	int r;

	if (folder < 0 && (errno == ELOOP || errno == ENOTDIR))
		return skip(w, path, "destination is not a folder");
	r = folder < 0 ? -1 : artifact_copy(&c, &why);
	if (r < 0)
		return copy_failed(w, path);
	if (r > 0)
		return skip(w, path, why);
	w->files++;
	w->bytes += c.size;
	return add(w, path, &c);
}

/* The name may have changed since it was looked at, so the descriptor is asked again. */
static int take_file(struct walk *w, int dir, const char *name, const char *path)
{
	owned_fd int fd = fd_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, STAY);
	const char *why;
	struct stat st;

	if (fd < 0)
		return skip(w, path, errno == EXDEV ? "another mount" : "unreadable");
	if (fstat(fd, &st) < 0)
		return skip(w, path, "unreadable");
	why = file_problem(w, &st);
	return why ? skip(w, path, why) : copy_open(w, path, fd);
}

/* ---------------------------------------------------------- the walk -- */

static int visit_folder(struct walk *w, int dir, const char *name, const char *path);

/* Written by programs for themselves, see the environment of a box. */
static bool is_cache(const char *path, const char *name)
{
	static const struct {
		const char *name;
		bool at_top;	/* only as a direct child of the work folder */
	} rows[] = {
		{ ".cache", true },	 { ".config", true },	  { ".local", true },
		{ ".npm", true },	 { ".matplotlib", true }, { ".ipython", true },
		{ "__pycache__", false }, { ".pytest_cache", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(name, rows[i].name) == 0)
			return !rows[i].at_top || !strchr(path, '/');
	return false;
}

static int visit(struct walk *w, int dir, const char *name, const char *path)
{
	struct stat st;
	const char *why;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return skip(w, path, "unreadable");
	if (S_ISDIR(st.st_mode))
		return is_cache(path, name) ? 0 : visit_folder(w, dir, name, path);
	if (S_ISREG(st.st_mode) && is_old(&st, &w->r->since))
		return 0;
	why = file_problem(w, &st);
	return why ? skip(w, path, why) : take_file(w, dir, name, path);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names of a folder, sorted: the same box gives the same answer. 1: too many. */
static int list(struct walk *w, int fd, struct strlist *names)
{
	owned_dir DIR *d = fdopendir(fd);

	if (!d) {
		close(fd);
		return -1;
	}
	for (;;) {
		struct dirent *e = readdir(d);

		if (!e)
			break;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (++w->entries > WALK_MAX)
			return 1;
		if (strlist_add(names, e->d_name) < 0)
			return -1;
	}
	if (names->n)
		qsort(names->v, names->n, sizeof(*names->v), by_name);
	return 0;
}

static int walk_names(struct walk *w, int fd, const char *path, const struct strlist *names)
{
	int rc = 0;

	for (size_t i = 0; i < names->n && rc == 0; i++) {
		owned_mem char *below = path[0] ? path_join(path, names->v[i])
						: strdup(names->v[i]);

		rc = below ? visit(w, fd, names->v[i], below) : err_nomem(w->err);
	}
	return rc;
}

static int walk_folder(struct walk *w, int fd, const char *path)
{
	struct strlist names = { 0 };
	int listing = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	int rc = listing < 0 ? -1 : list(w, listing, &names);

	if (rc < 0)
		rc = err_sys(w->err, "list the work folder of the box");
	else if (rc > 0)
		rc = skip(w, path[0] ? path : ".", "too many entries");
	if (rc == 0)
		rc = walk_names(w, fd, path, &names);
	strlist_free(&names);
	return rc;
}

static int visit_folder(struct walk *w, int dir, const char *name, const char *path)
{
	uint64_t depth = w->r->policy->artifacts.max_depth;
	owned_fd int fd = -1;

	/* What lies in it has one part more. */
	if (path_depth(path) >= (depth < DEPTH_MAX ? depth : DEPTH_MAX))
		return skip(w, path, "depth");
	fd = fd_open(dir, name, O_RDONLY | O_DIRECTORY, 0, STAY);
	if (fd < 0)
		return skip(w, path, errno == EXDEV ? "another mount" : "unreadable");
	return walk_folder(w, fd, path);
}

/* ---------------------------------------------------------- start, end -- */

/* A path of the policy: below the work folder, by its name in the box or relative. */
static int take_named(struct walk *w, int work, const char *text)
{
	const char *rest = text[0] == '/' ? path_below(text, "/workspace") : text;
	owned_mem char *clean = rest && rest[0] ? path_clean("/", rest) : NULL;
	owned_fd int dir = -1;
	owned_mem char *parent = NULL;
	const char *name;

	if (rest && !rest[0])
		return walk_folder(w, work, "");
	if (!clean)
		return skip(w, text, "outside the work folder");
	if (!clean[1])
		return walk_folder(w, work, "");
	parent = path_parent(clean);
	if (!parent)
		return err_nomem(w->err);
	name = strrchr(clean, '/') + 1;
	dir = fd_open(work, parent[1] ? parent + 1 : ".", O_RDONLY | O_DIRECTORY, 0, STAY);
	if (dir < 0 || faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return skip(w, clean + 1, "absent");
	return visit(w, dir, name, clean + 1);
}

int artifacts_make_dir(const char *path)
{
	owned_mem char *copy = strdup(path);

	if (!copy)
		return -1;
	if (!*copy) {
		errno = ENOENT;
		return -1;
	}
	for (char *at = copy + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return -1;
		*at = '/';
	}
	return mkdir(copy, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

/* Folders made on the way belong to the caller, as the files do. */
static int open_host_dir(struct walk *w)
{
	const char *path = w->r->host_dir;
	bool is_new = access(path, F_OK) < 0 && errno == ENOENT;
	owned_fd int fd = -1;

	if (is_new && artifacts_make_dir(path) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (is_new && give_folder(w, fd) < 0))
		return -1;
	return take_fd(fd);
}

static int collect(struct walk *w)
{
	const struct strlist *paths = &w->r->policy->artifacts.paths;
	owned_fd int work = fd_open(w->r->work_fd, ".", O_RDONLY | O_DIRECTORY, 0, 0);
	owned_fd int host = -1;
	int rc = 0;

	if (work < 0)
		return err_sys(w->err, "open the work folder of the box");
	host = open_host_dir(w);
	if (host < 0) {
		err_hint(w->err, "give a folder that you may write");
		return err_sys(w->err, "open artifact folder %s", w->r->host_dir);
	}
	w->host = host;
	if (!paths->n)
		return walk_folder(w, work, "");
	for (size_t i = 0; i < paths->n && rc == 0; i++)
		rc = take_named(w, work, paths->v[i]);
	return rc;
}

int artifacts_collect(struct artifacts *out, const struct artifacts_request *r,
		      struct nsbox_error *err)
{
	owned(artifacts_free) struct artifacts a = { 0 };
	struct walk w = { .out = &a, .r = r, .host = -1, .err = err };
	int rc;

	if (!r->host_dir || r->host_dir[0] != '/')
		return err_set(err, NSBOX_E_USAGE, "artifact folder \"%s\" is not absolute",
			       r->host_dir ? r->host_dir : "");
	rc = collect(&w);
	if (rc < 0)
		return rc;
	*out = a;
	a = (struct artifacts){ 0 };
	return 0;
}
