/*
 * Owns: the protected names of folders that a box may write. Runs in the launcher.
 * Must: seal every way to a name: the name itself, or the first part of it that is
 * missing, or that is no folder. Mustn't: touch a name that exists.
 */
#include "rootfs/protect.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/guardian.h"
#include "rootfs/paths.h"

struct protect {
	struct placeholder *v;
	size_t n;
	struct guardian guardian;
};

/* One writable folder while its names are looked at. */
struct ward {
	struct protect *p;
	const struct source_sink *to;
	const struct source *host;
	const char *box_dir;
	struct strlist sealed;	/* parts below the folder: read-only or covered */
	struct strlist points;	/* parts that are mount points, still writable */
};

static int fill_placeholder(const struct ward *w, struct placeholder *row, const char *part,
			    struct nsbox_error *err)
{
	const char *slash = strrchr(part, '/');
	const char *name = slash ? slash + 1 : part;
	owned_mem char *folder = slash ? strndup(part, (size_t)(slash - part)) : strdup(".");

	if (strlen(name) >= sizeof(row->name))
		return err_set(err, NSBOX_E_POLICY, "fs.protect name is too long: %s", part);
	snprintf(row->name, sizeof(row->name), "%s", name);
	row->shown = path_join(w->host->path, part);
	if (!row->shown || !folder)
		return err_nomem(err);
	row->dir = fd_open(w->host->fd, folder, O_RDONLY | O_DIRECTORY, 0,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	return row->dir < 0 ? err_sys(err, "open the folder of %s", row->shown) : 0;
}

static int add_placeholder(struct ward *w, const char *part, struct nsbox_error *err)
{
	struct placeholder *v = realloc(w->p->v, (w->p->n + 1) * sizeof(*v));

	if (!v)
		return err_nomem(err);
	w->p->v = v;
	v[w->p->n] = (struct placeholder){ .dir = -1, .fd = -1 };
	return fill_placeholder(w, &v[w->p->n++], part, err);
}

/* The name must be there when the mask comes: without it the box could make it. */
static int cover(struct ward *w, const char *part, struct nsbox_error *err)
{
	owned_mem char *dst = path_join(w->box_dir, part);

	if (!dst || strlist_add(&w->sealed, part) < 0)
		return err_nomem(err);
	PLAN_OP(w->to->b, .kind = OP_MASK, .stage = w->to->stage, .fd = -1, .dst = dst + 1,
		.flags = OP_MUST_EXIST);
	return 0;
}

static int bind_itself(struct ward *w, const char *part, enum source_use use,
		       struct nsbox_error *err)
{
	owned(source_close) struct source s = SOURCE_INIT;
	owned_mem char *dst = path_join(w->box_dir, part);
	int rc = dst ? source_below(&s, w->host, part, err) : err_nomem(err);

	if (rc == 0 && strlist_add(use == SOURCE_SEAL ? &w->sealed : &w->points, part) < 0)
		rc = err_nomem(err);
	return rc < 0 ? rc : source_mount(w->to, &s, dst, use, err);
}

static int refuse_link(const struct ward *w, const char *part, struct nsbox_error *err)
{
	err_hint(err, "replace the link by what it leads to, or take its name out of fs.protect");
	return err_set(err, NSBOX_E_POLICY,
		       "fs.write %s: the protected name %s is a symlink, which the box could replace",
		       w->host->path, part);
}

static int drop_placeholder(struct ward *w, const char *part, struct nsbox_error *err)
{
	struct placeholder *row = &w->p->v[--w->p->n];

	close(row->dir);
	free(row->shown);
	return strlist_add(&w->sealed, part) < 0 ? err_nomem(err) : 0;
}

/* Nothing there, or a placeholder of another box, which is then shared. */
static int seal_missing(struct ward *w, const char *part, struct nsbox_error *err)
{
	int rc = add_placeholder(w, part, err);
	struct statvfs fs;

	if (rc < 0)
		return rc;
	/* On a file system that is read-only the box cannot make it either. */
	if (fstatvfs(w->p->v[w->p->n - 1].dir, &fs) == 0 && (fs.f_flag & ST_RDONLY))
		return drop_placeholder(w, part, err);
	return cover(w, part, err);
}

/* What to do about one part of a name (@is_last: the whole); 1: go on with the next. */
static int seal_part(struct ward *w, const char *part, bool is_last, struct nsbox_error *err)
{
	struct stat st;
	int rc;

	if (strlist_has(&w->sealed, part))
		return 0;
	if (!is_last && strlist_has(&w->points, part))
		return 1;
	if (fstatat(w->host->fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? seal_missing(w, part, err)
				       : err_sys(err, "look at %s in %s", part, w->host->path);
	if (S_ISLNK(st.st_mode))
		return refuse_link(w, part, err);
	if (S_ISDIR(st.st_mode) && placeholder_is(w->host->fd, part))
		return seal_missing(w, part, err);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return cover(w, part, err);
	if (is_last || !S_ISDIR(st.st_mode))
		return bind_itself(w, part, SOURCE_SEAL, err);
	rc = bind_itself(w, part, SOURCE_WRITE, err);
	return rc < 0 ? rc : 1;
}

static int seal_name(struct ward *w, const char *text, struct nsbox_error *err)
{
	owned_mem char *name = path_clean("/", text);
	bool is_last = false;
	int rc = 1;

	if (!name && errno == ENOMEM)
		return err_nomem(err);
	if (!name || !name[1] || text[0] == '/')
		return err_set(err, NSBOX_E_POLICY,
			       "fs.protect \"%s\": give a name relative to the folder, without ..",
			       text);
	for (char *end = name + 1; rc == 1 && !is_last; end++) {
		end += strcspn(end, "/");
		is_last = !*end;
		*end = '\0';
		rc = seal_part(w, name + 1, is_last, err);
		*end = is_last ? '\0' : '/';
	}
	return rc < 0 ? rc : 0;
}

int protect_folder(struct protect **p, const struct source_sink *to, const struct source *host,
		   const char *box_dir, const struct strlist *names, struct nsbox_error *err)
{
	struct ward w = { .to = to, .host = host, .box_dir = box_dir };
	int rc = 0;

	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (!*p)
			return err_nomem(err);
	}
	w.p = *p;
	for (size_t i = 0; i < names->n && rc == 0; i++)
		rc = seal_name(&w, names->v[i], err);
	strlist_free(&w.sealed);
	strlist_free(&w.points);
	return rc;
}

/* ------------------------------------------------------- placeholders -- */

/* The folder's owner must be able to remove it by hand, whatever happens. */
static void give_away(const struct placeholder *row, int fd)
{
	struct stat dir;

	if (geteuid() == 0 && fstat(row->dir, &dir) == 0)
		(void)!fchown(fd, dir.st_uid, dir.st_gid);
}

/* A box that ends removes the placeholder under an exclusive lock: a moment. */
static int lock_shared(int fd)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	for (int i = 0; i < 2000; i++) {
		if (flock(fd, LOCK_SH | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -1;
		nanosleep(&moment, NULL);
	}
	return -1;
}

/* Open, lock, and see that the name still leads to it. -1 with errno. */
static int hold(struct placeholder *row, struct stat *st)
{
	owned_fd int fd = openat(row->dir, row->name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat named;

	if (fd < 0 || lock_shared(fd) < 0 || fstat(fd, st) < 0 ||
	    fstatat(row->dir, row->name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (named.st_dev != st->st_dev || named.st_ino != st->st_ino) {
		errno = ENOENT; /* removed and made anew in between */
		return -1;
	}
	row->fd = take_fd(fd);
	return 0;
}

static int mark(struct placeholder *row, bool is_new)
{
	const struct timespec times[2] = { { .tv_sec = PLACEHOLDER_MTIME },
					   { .tv_sec = PLACEHOLDER_MTIME } };

	if (!is_new)
		return 0;
	if (futimens(row->fd, times) < 0)
		return -1;
	give_away(row, row->fd);
	return 0;
}

static int busy(const struct placeholder *row, struct nsbox_error *err)
{
	err_hint(err, "run it again");
	return err_set(err, NSBOX_E_BUSY, "%s appeared while the box was being prepared",
		       row->shown);
}

/* The name is there: another box's placeholder, or somebody's file after all. */
static int take_over(struct protect *p, size_t index, bool is_new, struct nsbox_error *err)
{
	struct placeholder *row = &p->v[index];
	struct placeholder_mark *m = &p->guardian.marks[index];
	struct stat st;

	if (hold(row, &st) < 0) {
		if (errno == ENOENT)
			return 1;
		if (errno != ENOTDIR && errno != ELOOP)
			return err_sys(err, "hold %s", row->shown);
		st = (struct stat){ 0 }; /* somebody's file or link */
	}
	if (!is_new && !placeholder_is(row->dir, row->name)) {
		m->is_begun = false; /* nor does is_made hold: not ours to remove */
		return busy(row, err);
	}
	m->dev = st.st_dev;
	m->ino = st.st_ino;
	/* The guardian may look at any moment from here on: is_made comes last. */
	__atomic_store_n(&m->is_made, true, __ATOMIC_RELEASE);
	return mark(row, is_new) < 0 ? err_sys(err, "mark %s", row->shown) : 0;
}

/* 1: it vanished meanwhile, try again. */
static int make(struct protect *p, size_t index, struct nsbox_error *err)
{
	struct placeholder *row = &p->v[index];
	bool is_new = mkdirat(row->dir, row->name, PLACEHOLDER_MODE) == 0;

	if (is_new || errno == EEXIST)
		return take_over(p, index, is_new, err);
	err_hint(err, "take the name out of fs.protect, or make the folder writable");
	return err_sys(err, "make a placeholder for the protected name %s", row->shown);
}

static int arm_one(struct protect *p, size_t index, struct nsbox_error *err)
{
	int rc;

	__atomic_store_n(&p->guardian.marks[index].is_begun, true, __ATOMIC_RELEASE);
	for (int tries = 0; tries < 16; tries++) {
		rc = make(p, index, err);
		if (rc != 1)
			return rc;
	}
	return busy(&p->v[index], err);
}

int protect_arm(struct protect *p, struct nsbox_error *err)
{
	int rc = p->n ? guardian_start(&p->guardian, p->v, p->n, err) : 0;

	for (size_t i = 0; i < p->n && rc == 0; i++)
		rc = arm_one(p, i, err);
	return rc;
}

/* Closing the folder that is left gives up its lock: the guardian takes it. */
static void free_row(struct placeholder *row)
{
	if (row->fd >= 0)
		close(row->fd);
	if (row->dir >= 0)
		close(row->dir);
	free(row->shown);
}

void protect_release(struct protect *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		if (p->guardian.marks)
			placeholder_drop(&p->v[i], &p->guardian.marks[i], p->guardian.since);
		free_row(&p->v[i]);
	}
	guardian_end(&p->guardian);
	free(p->v);
	free(p);
}

void protect_leave(struct protect *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free_row(&p->v[i]);
	guardian_leave(&p->guardian);
	free(p->v);
	free(p);
}
