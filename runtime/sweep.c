/*
 * sweep.c - everything that launchers left which were killed, in one go
 *
 * Runs in the caller: by hand, from cron or at boot; it makes no box. Each start of a box
 * sweeps a little where it works itself (cgroup.c), so this is for what no start comes to.
 *
 * Must:    take a lock before it believes that nobody is there.
 * Mustn't: kill, or go by a pid: the number may be another process's by now.
 */
#include "rootfs/sweep.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "runtime/box.h"
#include "runtime/cgroup.h"
#include "runtime/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DEPTH_MAX = 16,		/* of cgroups */
	OUT_MAX = 16 << 20,
};

/* -------------------------------------------------------------------- cgroups -- */

static int try_cgroup(struct swept *s, int parent, const char *name, const char *path,
		      struct nsbox_error *err)
{
	switch (cgroup_remove_abandoned(parent, name)) {
	case CGROUP_REMOVED:
		return swept_add(&s->removed, "cgroup", path, err);
	case CGROUP_POPULATED: /* its processes are dying, or wait inside the kernel */
		return swept_add(&s->kept, "cgroup", path, err);
	default:
		return 0;
	}
}

static int sweep_cgroups(struct swept *s, int parent, char path[PATH_MAX], int depth,
			 struct nsbox_error *err)
{
	owned_fd int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(path);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return 0; /* gone, or somebody else's */
	(void)take_fd(fd); /* the DIR has it now */
	while (r == 0 && (e = readdir(d))) {
		owned_fd int below = -1;

		if (e->d_type != DT_DIR || e->d_name[0] == '.' ||
		    snprintf(path + len, PATH_MAX - len, "/%s", e->d_name) >= (int)(PATH_MAX - len))
			continue;
		if (cgroup_is_leaf(e->d_name)) {
			r = try_cgroup(s, parent, e->d_name, path, err);
			continue;
		}
		below = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0 && depth < DEPTH_MAX)
			r = sweep_cgroups(s, below, path, depth + 1, err);
		/* The folder of all boxes, which the last of them removes. */
		if (r == 0 && depth == 0 && strcmp(e->d_name, CGROUP_OWN_FOLDER) == 0 &&
		    cgroup_remove_abandoned(parent, e->d_name) == CGROUP_REMOVED)
			r = swept_add(&s->removed, "cgroup", path, err);
	}
	path[len] = '\0';
	return r;
}

static int sweep_mount(struct swept *s, struct nsbox_error *err)
{
	struct cgroup_mount m;
	owned_fd int fd = -1;
	char path[PATH_MAX];

	if (cgroup_find_mount(&m) < 0 || !m.is_writable)
		return 0; /* then there never was a leaf */
	fd = openat(AT_FDCWD, m.point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	snprintf(path, sizeof(path), "%s", m.point);
	return sweep_cgroups(s, fd, path, 0, err);
}

/* ------------------------------------------------------------------ folders of runs */

struct found {
	struct swept *s;
	struct nsbox_error *err;
};

static int found_folder(void *arg, const char *path, bool is_removed)
{
	struct found *f = arg;

	return swept_add(is_removed ? &f->s->removed : &f->s->kept, "folder", path, f->err);
}

/* ------------------------------------------------------------------- the answer -- */

static void put_list(struct json *j, const char *key, const struct strlist *l)
{
	json_key(j, key);
	json_array(j);
	for (size_t i = 0; i < l->n; i++) {
		const char *space = strchr(l->v[i], ' ');

		json_object(j);
		json_key(j, "kind");
		json_strn(j, l->v[i], (size_t)(space - l->v[i]));
		json_kstr(j, "path", space + 1);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void put_json(struct buf *out, const struct swept *s)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	json_kstr(&j, "schema", "nsbox.sweep/1");
	put_list(&j, "removed", &s->removed);
	put_list(&j, "kept", &s->kept);
	json_end(&j, '}');
	buf_char(out, '\n');
}

/* A cgroup may be named by another user, for root's terminal. */
static void put_line(struct buf *out, const char *verb, const char *what, const char *why)
{
	buf_str(out, verb);
	for (; *what; what++)
		buf_char(out, *what >= ' ' && *what <= '~' ? *what : '?');
	buf_str(out, why);
}

static void put_text(struct buf *out, const struct swept *s)
{
	for (size_t i = 0; i < s->removed.n; i++)
		put_line(out, "removed ", s->removed.v[i], "\n");
	for (size_t i = 0; i < s->kept.n; i++)
		put_line(out, "kept ", s->kept.v[i], ": processes are left in it\n");
}

static int answer(char **out, const struct swept *s, const char *form, struct nsbox_error *err)
{
	struct buf text = BUF_INIT(OUT_MAX);

	(strcmp(form, "json") == 0 ? put_json : put_text)(&text, s);
	*out = text.failed ? NULL : buf_take(&text);
	buf_free(&text);
	return *out ? s->kept.n != 0 : err_nomem(err);
}

static int sweep_all(struct swept *s, const struct policy *p, const char *const *folders,
		     struct nsbox_error *err)
{
	struct strlist names = { 0 };
	int r = strlist_copy(&names, &p->fs.protect) < 0 ||
				strlist_copy(&names, &p->fs.protect_home) < 0
			? err_nomem(err) : sweep_mount(s, err);

	if (r == 0)
		r = sweep_cache(s, NULL, err);
	if (r == 0)
		r = walls_sweep(found_folder, &(struct found){ s, err });
	for (; r == 0 && folders && *folders; folders++)
		r = sweep_folder(s, *folders, &names, err);
	strlist_free(&names);
	return r;
}

int nsbox_sweep(const struct nsbox_policy *policy, const char *const *folders, const char *form,
		char **out, struct nsbox_error *err)
{
	struct nsbox_policy *usual = NULL;
	struct swept s = { 0 };
	int r = 0;

	err_clear(err);
	if (!form || !out || (strcmp(form, "text") != 0 && strcmp(form, "json") != 0))
		return err_set(err, NSBOX_E_USAGE, "nsbox_sweep: form is \"text\" or \"json\", out not NULL");
	if (!policy)
		r = nsbox_policy_new(&usual, NULL, err);
	if (r == 0)
		r = sweep_all(&s, policy ? &policy->p : &usual->p, folders, err);
	if (r == 0)
		r = answer(out, &s, form, err);
	nsbox_policy_free(usual);
	strlist_free(&s.removed);
	strlist_free(&s.kept);
	return r;
}
