/*
 * Owns: which folders and links of the host an interpreter needs to start. Runs in
 * the launcher.
 * Must: make visible the prefix and the links on the way to it, and nothing else of
 * a home folder. Mustn't: ever answer with a home folder or one that holds it.
 */
#include "rootfs/interp_parts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "rootfs/paths.h"

enum { HOPS_MAX = 40 };

/* ------------------------------------------------------- following links -- */

/* A path on its way: what is resolved, what is still to walk. */
struct trail {
	struct strlist *links;	/* "path\ttarget" of every link met */
	char done[PATH_MAX], rest[PATH_MAX];
	int hops;
};

static int note_link(struct trail *t, const char *target)
{
	struct buf text = BUF_INIT(2 * PATH_MAX);
	int r;

	buf_fmt(&text, "%s\t%s", t->done, target);
	r = text.failed ? -1 : 0;
	if (r == 0 && !strlist_has(t->links, buf_text(&text)))
		r = strlist_add(t->links, buf_text(&text));
	buf_free(&text);
	return r;
}

/* The link at t->done is replaced by where it leads. */
static int take_link(struct trail *t, const char *target)
{
	char rest[PATH_MAX];

	if (++t->hops > HOPS_MAX || note_link(t, target) < 0)
		return -1;
	if ((size_t)snprintf(rest, sizeof(rest), "%s/%s", target, t->rest) >= sizeof(rest))
		return -1;
	memcpy(t->rest, rest, sizeof(rest));
	*strrchr(t->done, '/') = '\0';
	if (target[0] == '/')
		t->done[0] = '\0';
	return 0;
}

/* One part of the path; what does not exist is taken as it is written. */
static int take_part(struct trail *t, const char *part)
{
	size_t at = strlen(t->done);
	char target[PATH_MAX];
	ssize_t n;

	if (strcmp(part, ".") == 0)
		return 0;
	if (strcmp(part, "..") == 0) {
		if (at)
			*strrchr(t->done, '/') = '\0';
		return 0;
	}
	if ((size_t)snprintf(t->done + at, sizeof(t->done) - at, "/%s", part) >=
	    sizeof(t->done) - at)
		return -1;
	n = readlink(t->done, target, sizeof(target) - 1);
	if (n <= 0)
		return 0;
	target[n] = '\0';
	return take_link(t, target);
}

/* The real path, malloc'ed; NULL: a loop, too long, or no memory. */
static char *follow(const char *path, struct strlist *links)
{
	owned_mem struct trail *t = calloc(1, sizeof(*t));
	char part[NAME_MAX + 1];

	if (!t || path[0] != '/' || strlen(path) >= sizeof(t->rest))
		return NULL;
	t->links = links;
	memcpy(t->rest, path, strlen(path) + 1);
	for (;;) {
		size_t skip = strspn(t->rest, "/");
		size_t n = strcspn(t->rest + skip, "/");

		if (!n)
			break;
		if (n > NAME_MAX)
			return NULL;
		memcpy(part, t->rest + skip, n);
		part[n] = '\0';
		memmove(t->rest, t->rest + skip + n, strlen(t->rest + skip + n) + 1);
		if (take_part(t, part) < 0)
			return NULL;
	}
	return strdup(t->done[0] ? t->done : "/");
}

/* ---------------------------------------------------------------- trees -- */

/* Folders that hold more than an interpreter: all of a home, or of many things. */
static bool is_broad(const char *path)
{
	static const char *const shared[] = { "/",     "/home", "/root", "/opt",   "/srv",
					      "/var",  "/tmp",	"/mnt",	 "/media", "/etc",
					      "/run",  "/proc", "/sys",	 "/dev",   "/var/tmp",
					      "/var/lib" };
	const char *home = getenv("HOME");
	owned_mem char *real = home && home[0] == '/' ? realpath(home, NULL) : NULL;
	const char *rest;

	for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
		if (strcmp(path, shared[i]) == 0)
			return true;
	if (!real || strcmp(real, "/") == 0)
		return false;
	rest = path_below(path, real);
	return path_below(real, path) || (rest && strcmp(rest, ".local") == 0);
}

static bool is_visible(const struct interp *i, const char *real)
{
	if (path_is_system(real))
		return true;
	for (size_t k = 0; k < i->trees.n; k++)
		if (path_below(real, i->trees.v[k]))
			return true;
	return false;
}

/* @real becomes visible; trees inside it are no longer needed. */
static int add_tree(struct interp *i, const char *real, struct nsbox_error *err)
{
	if (is_visible(i, real))
		return 0;
	for (size_t k = i->trees.n; k-- > 0;)
		if (path_below(i->trees.v[k], real))
			strlist_remove(&i->trees, k);
	return strlist_add(&i->trees, real) < 0 ? err_nomem(err) : 0;
}

static int unresolved(const char *path, struct nsbox_error *err)
{
	return err_set(err, NSBOX_E_UNSUPPORTED, "follow the links of %s: a loop, or too long", path);
}

static int add_prefix(struct interp *i, const char *prefix, struct nsbox_error *err)
{
	owned_mem char *real = follow(prefix, &i->links);
	struct stat st;

	if (!real)
		return unresolved(prefix, err);
	if (path_is_system(real) || stat(real, &st) < 0)
		return 0;
	if (is_broad(real)) {
		err_hint(err, "make a virtual environment in a folder of its own, or pass "
			      "--interpreter");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "%s has the prefix %s, and a box must not see all of that",
			       i->program, prefix);
	}
	return add_tree(i, real, err);
}

static int add_prefixes(struct interp *i, const struct answer *a, struct nsbox_error *err)
{
	int rc = 0;

	for (size_t k = 0; k < a->records.n && rc == 0; k++) {
		const char *prefix = answer_value(a, k, "prefix");

		if (prefix && prefix[0] == '/')
			rc = add_prefix(i, prefix, err);
	}
	return rc;
}

/*
 * A program that carries all it needs (node, bash): .../bin/node gives its prefix
 * when that is a folder of its own (nvm), and the file alone when it is not
 * (~/.local/bin/node).
 */
static int add_program_tree(struct interp *i, struct nsbox_error *err)
{
	owned_mem char *dir = path_parent(i->real);
	owned_mem char *prefix = dir ? path_parent(dir) : NULL;
	const char *base = dir ? strrchr(dir, '/') : NULL;

	if (!dir || !prefix)
		return err_nomem(err);
	if (strcmp(base, "/bin") == 0 && !is_broad(prefix))
		return add_tree(i, prefix, err);
	return add_tree(i, i->real, err);
}

/* Shared libraries outside /usr: the folder, for the loader asks by another name. */
static int add_libraries(struct interp *i, const struct answer *a, struct nsbox_error *err)
{
	int rc = 0;

	for (size_t k = 0; k < a->records.n && rc == 0; k++) {
		const char *lib = answer_value(a, k, "lib");
		owned_mem char *dir = lib ? path_parent(lib) : NULL;

		if (!lib || path_is_system(lib))
			continue;
		if (!dir)
			return err_nomem(err);
		rc = add_tree(i, is_broad(dir) ? lib : dir, err);
	}
	return rc;
}

/* One folder of sys.path, if a box can see it (an editable install may be elsewhere). */
static int add_module_folder(struct interp *i, const char *path)
{
	struct strlist met = { 0 };
	owned_mem char *real = path[0] == '/' ? follow(path, &met) : NULL;
	int rc = 0;

	if (real && is_visible(i, real) &&
	    (strlist_add(&i->module_path, path) < 0 || strlist_copy(&i->links, &met) < 0))
		rc = -1;
	strlist_free(&met);
	return rc;
}

/* A .pth file with code, and how much of sys.path is there when its turn comes. */
static int add_site_file(struct interp *i, const char *path)
{
	struct buf text = BUF_INIT(2 * PATH_MAX);
	int rc;

	buf_fmt(&text, "%zu\t%s", i->module_path.n, path);
	rc = text.failed ? -1 : strlist_add(&i->site_files, buf_text(&text));
	buf_free(&text);
	return rc;
}

static int add_module_path(struct interp *i, const struct answer *a, struct nsbox_error *err)
{
	for (size_t k = 0; k < a->records.n; k++) {
		const char *path = answer_value(a, k, "path");
		const char *file = answer_value(a, k, "pth");

		if ((path && add_module_folder(i, path) < 0) ||
		    (file && add_site_file(i, file) < 0))
			return err_nomem(err);
	}
	return 0;
}

/* Links that a bound folder shows anyway, or that were met twice, are not made. */
static void drop_needless_links(struct interp *i)
{
	for (size_t k = i->links.n; k-- > 0;) {
		char *tab = strchr(i->links.v[k], '\t');
		bool needless;

		*tab = '\0';
		needless = is_visible(i, i->links.v[k]) || path_below(i->links.v[k], "/proc") ||
			   path_below(i->links.v[k], "/dev");
		*tab = '\t';
		for (size_t m = 0; m < k && !needless; m++)
			needless = strcmp(i->links.v[m], i->links.v[k]) == 0;
		if (needless)
			strlist_remove(&i->links, k);
	}
}

int trees_work_out(struct interp *i, const struct asking *how, const struct answer *a,
		   struct nsbox_error *err)
{
	int rc;

	i->real = follow(i->program, &i->links);
	if (!i->real)
		return unresolved(i->program, err);
	rc = add_prefixes(i, a, err);
	if (rc == 0 && !is_visible(i, i->real))
		rc = how->needs_prefix ? add_tree(i, i->real, err) : add_program_tree(i, err);
	if (rc == 0)
		rc = add_libraries(i, a, err);
	if (rc == 0)
		rc = add_module_path(i, a, err);
	if (rc == 0)
		drop_needless_links(i);
	return rc;
}
