/*
 * Owns: the list of things to mount at places that the policy names. Runs in the
 * launcher.
 * Must: refuse whatever would make the kernel or the host's folders decide later
 * (a target that does not exist in a bound folder, a name given twice).
 * Mustn't: change the host.
 */
#include "rootfs/binds.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/parts.h"
#include "rootfs/paths.h"

static void bind_drop(struct bind *b)
{
	source_close(&b->source);
	free(b->dst);
	free(b->target);
	*b = (struct bind){ .source = SOURCE_INIT };
}

void binds_free(struct bind_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		bind_drop(&l->v[i]);
	free(l->v);
	strlist_free(&l->notes);
	*l = (struct bind_list){ 0 };
}

/* Moves *b into the list. */
static int append(struct bind_list *l, struct bind *b, struct nsbox_error *err)
{
	struct bind *v = realloc(l->v, (l->n + 1) * sizeof(*v));

	if (!v)
		return err_nomem(err);
	l->v = v;
	b->order = l->n;
	v[l->n++] = *b;
	*b = (struct bind){ .source = SOURCE_INIT };
	return 0;
}

static struct bind *find(const struct bind_list *l, const char *dst)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].dst, dst) == 0)
			return &l->v[i];
	return NULL;
}

/* The innermost bind that @dst lies in (not at), among the first @n; NULL: none. */
static const struct bind *parent_of(const struct bind_list *l, size_t n, const char *dst)
{
	const struct bind *best = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *rest = path_below(dst, l->v[i].dst);

		if (rest && rest[0] && (!best || path_below(l->v[i].dst, best->dst)))
			best = &l->v[i];
	}
	return best;
}

/* ------------------------------------------------------------ targets -- */

static int check_target(const char *dst, struct nsbox_error *err)
{
	static const struct {
		const char *root, *why;
	} rows[] = {
		{ "/proc", "the box has a /proc of its own" },
		{ "/sys", "a box has no /sys" },
		{ "/dev", "devices are named in devices.allow" },
		{ "/run/nsbox", "nsbox keeps its own files there" },
		{ "/var/run", "that is a link to /run: name it so" },
	};

	if (strcmp(dst, "/") == 0)
		return err_set(err, NSBOX_E_POLICY, "mount on /: the root of a box is made by nsbox");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		/* Below it, or so far above that it would cover it. */
		if (path_below(dst, rows[i].root) || path_below(rows[i].root, dst))
			return err_set(err, NSBOX_E_POLICY, "mount on %s: %s", dst, rows[i].why);
	return 0;
}

static char *clean_target(const char *text, struct nsbox_error *err)
{
	char *dst = path_clean(NULL, text);

	if (!dst && errno == EINVAL)
		err_set(err, NSBOX_E_POLICY, "mount on \"%s\": give an absolute path without ..",
			text);
	else if (!dst)
		err_nomem(err);
	if (dst && check_target(dst, err) < 0) {
		free(dst);
		return NULL;
	}
	return dst;
}

/* Without DEST: the same place. A path with ".." means what the kernel makes of it. */
static char *default_target(const char *given, const struct source *s, const char *cwd,
			    struct nsbox_error *err)
{
	owned_mem char *same = path_clean(cwd, given);

	if (!same && errno == ENOMEM) {
		err_nomem(err);
		return NULL;
	}
	return clean_target(same ? same : s->real, err);
}

/* ------------------------------------------------------------ sources -- */

static int check_owner(const struct source *s, uid_t owner, struct nsbox_error *err)
{
	if (s->st.st_uid == owner)
		return 0;
	err_hint(err, "give a folder of your own, or run nsbox as uid %u, or change the owner",
		 (unsigned)s->st.st_uid);
	return err_set(err, NSBOX_E_POLICY, "fs.write %s belongs to uid %u, not to you (uid %u)",
		       s->path, (unsigned)s->st.st_uid, (unsigned)owner);
}

static bool is_same(const struct source *a, const struct source *b)
{
	return a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino;
}

/* The same thing said twice is fine; two meanings for one place are not. */
static int check_twice(const struct bind *old, const struct bind *b, struct nsbox_error *err)
{
	if (old->kind != b->kind && old->kind != BIND_TMPFS && b->kind != BIND_TMPFS &&
	    is_same(&old->source, &b->source))
		return err_set(err, NSBOX_E_POLICY, "%s is given both read-only and writable",
			       b->dst);
	if (old->kind == b->kind && (b->kind == BIND_TMPFS || is_same(&old->source, &b->source)))
		return 0;
	return err_set(err, NSBOX_E_POLICY, "two different things are to be mounted on %s", b->dst);
}

static int add(struct bind_list *l, struct bind *b, struct nsbox_error *err)
{
	const struct bind *old = find(l, b->dst);

	return old ? check_twice(old, b, err) : append(l, b, err);
}

static int add_path(struct bind_list *l, const struct view_request *r, const char *text,
		    enum bind_kind kind, struct nsbox_error *err)
{
	owned(bind_drop) struct bind b = { .kind = kind, .source = SOURCE_INIT };
	const char *dest;
	size_t len = policy_split_bind(text, &dest);
	owned_mem char *path = strndup(text, len);
	owned_mem char *absolute = NULL;
	int rc;

	if (!path)
		return err_nomem(err);
	if (!path[0] || (path[0] != '/' && (!r->caller_cwd || r->caller_cwd[0] != '/')))
		return err_set(err, NSBOX_E_POLICY, "\"%s\" is not PATH or PATH:DEST", text);
	absolute = path[0] == '/' ? strdup(path) : path_join(r->caller_cwd, path);
	if (!absolute)
		return err_nomem(err);
	rc = source_open(&b.source, absolute, err);
	if (rc == 0 && kind == BIND_WRITE)
		rc = check_owner(&b.source, r->owner_uid, err);
	if (rc < 0)
		return rc;
	b.dst = dest ? clean_target(dest, err) : default_target(path, &b.source, r->caller_cwd, err);
	if (!b.dst)
		return err ? err->code : NSBOX_E_POLICY;
	return add(l, &b, err);
}

/* Already visible: at the same place, through what the policy binds. */
static bool is_covered(const struct bind_list *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind != BIND_TMPFS && l->v[i].kind != BIND_LINK &&
		    path_below(path, l->v[i].dst) &&
		    strcmp(l->v[i].dst, l->v[i].source.real) == 0)
			return true;
	return false;
}

static int add_extra(struct bind_list *l, const struct view_extra *x, struct nsbox_error *err)
{
	owned(bind_drop) struct bind b = { .kind = x->is_own ? BIND_TREE : BIND_READ,
					   .source = SOURCE_INIT };
	int rc;

	if (strcmp(x->src, x->dst) == 0 && is_covered(l, x->dst))
		return 0;
	rc = source_open(&b.source, x->src, err);
	if (rc < 0)
		return rc;
	b.dst = x->is_own ? strdup(x->dst) : clean_target(x->dst, err);
	if (!b.dst && x->is_own)
		return err_nomem(err);
	if (!b.dst)
		return err ? err->code : NSBOX_E_POLICY;
	return add(l, &b, err);
}

static int add_tmpfs(struct bind_list *l, const char *dst, uint64_t bytes, unsigned mode,
		     struct nsbox_error *err)
{
	owned(bind_drop) struct bind b = {
		.kind = BIND_TMPFS, .source = SOURCE_INIT, .bytes = bytes, .mode = mode,
	};

	b.dst = clean_target(dst, err);
	if (!b.dst)
		return err ? err->code : NSBOX_E_POLICY;
	return add(l, &b, err);
}

/* DEST[:SIZE] */
static int add_tmpfs_text(struct bind_list *l, const char *text, uint64_t preset,
			  struct nsbox_error *err)
{
	uint64_t bytes = 0;
	long len = policy_split_tmpfs(text, &bytes);
	owned_mem char *dst = len < 0 ? NULL : strndup(text, (size_t)len);

	if (len < 0)
		return err_set(err, NSBOX_E_POLICY, "fs.tmpfs \"%s\" has a malformed size", text);
	if (!dst)
		return err_nomem(err);
	return add_tmpfs(l, dst, bytes ? bytes : preset, 0755, err);
}

/* ------------------------------------------------------- interpreters -- */

/* Nobody asked for it: a command that needs no Python runs all the same. */
static int leave_out(struct bind_list *l, const char *path, struct nsbox_error *err)
{
	char note[1024];

	snprintf(note, sizeof(note), "%s, which an interpreter on PATH needs, is not in the box: %s",
		 path, err ? err->message : "it cannot be opened");
	err_clear(err);
	return strlist_add(&l->notes, note) < 0 ? err_nomem(err) : 0;
}

static int add_tree(struct bind_list *l, const char *path, bool is_optional,
		    struct nsbox_error *err)
{
	owned(bind_drop) struct bind b = { .kind = BIND_TREE, .source = SOURCE_INIT };
	int rc;

	if (is_covered(l, path))
		return 0;
	rc = source_open(&b.source, path, err);
	if (rc == NSBOX_E_POLICY && is_optional)
		return leave_out(l, path, err);
	if (rc < 0)
		return rc;
	b.is_optional = is_optional;
	b.dst = clean_target(path, err);
	if (!b.dst)
		return err ? err->code : NSBOX_E_POLICY;
	return add(l, &b, err);
}

static int add_link(struct bind_list *l, const char *text, struct nsbox_error *err)
{
	const char *tab = strchr(text, '\t');
	owned(bind_drop) struct bind b = { .kind = BIND_LINK, .source = SOURCE_INIT };

	if (!tab)
		return err_set(err, NSBOX_E_USAGE, "interpreter link without a target: %s", text);
	b.dst = strndup(text, (size_t)(tab - text));
	b.target = strdup(tab + 1);
	if (!b.dst || !b.target)
		return err_nomem(err);
	if (is_covered(l, b.dst) || find(l, b.dst))
		return 0;
	return append(l, &b, err);
}

static int add_interpreters(struct bind_list *l, const struct view_request *r,
			    struct nsbox_error *err)
{
	int rc = 0;

	for (size_t k = 0; r->interps && r->interps[k] && rc == 0; k++) {
		const struct interp *it = r->interps[k];

		for (size_t i = 0; i < it->trees.n && rc == 0; i++)
			rc = add_tree(l, it->trees.v[i], r->interps_optional, err);
		for (size_t i = 0; i < it->links.n && rc == 0; i++)
			rc = add_link(l, it->links.v[i], err);
	}
	return rc;
}

/* ------------------------------------------------------------- order -- */

static int by_depth(const void *a, const void *b)
{
	const struct bind *x = a, *y = b;
	unsigned dx = path_depth(x->dst), dy = path_depth(y->dst);

	if (dx != dy)
		return dx < dy ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool wants_folder(const struct bind *b)
{
	return b->kind == BIND_TMPFS || S_ISDIR(b->source.st.st_mode);
}

static int missing_target(const struct bind *b, const char *where, struct nsbox_error *err)
{
	err_hint(err, "make %s first, or choose a DEST that is not inside it", b->dst);
	return err_set(err, NSBOX_E_POLICY,
		       "mount on %s: there is no such %s in %s, and nsbox makes nothing there",
		       b->dst, wants_folder(b) ? "folder" : "file", where);
}

/*
 * A target inside a bound folder must be there: the child would make it, and in a
 * writable folder that would leave it behind on the host.
 */
static int check_nested(const struct bind_list *l, size_t at, struct nsbox_error *err)
{
	const struct bind *b = &l->v[at], *in = parent_of(l, at, b->dst);
	owned_fd int fd = -1;
	struct stat st;

	if (b->kind == BIND_LINK)
		return 0;
	if (!in && !path_is_system(b->dst))
		return 0;
	if (in && (in->kind == BIND_TMPFS || in->kind == BIND_LINK))
		return 0;
	fd = in ? fd_open(in->source.fd, path_below(b->dst, in->dst), O_PATH, 0, RESOLVE_IN_ROOT)
		: openat(AT_FDCWD, b->dst, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !!S_ISDIR(st.st_mode) != wants_folder(b))
		return missing_target(b, in ? in->dst : "the host's system folders", err);
	return 0;
}

static int collect_named(struct bind_list *l, const struct view_request *r,
			 struct nsbox_error *err)
{
	const struct policy *p = r->policy;
	int rc = 0;

	for (size_t i = 0; i < p->fs.write.n && rc == 0; i++)
		rc = add_path(l, r, p->fs.write.v[i], BIND_WRITE, err);
	for (size_t i = 0; i < p->fs.read.n && rc == 0; i++)
		rc = add_path(l, r, p->fs.read.v[i], BIND_READ, err);
	for (size_t i = 0; i < r->extra_count && rc == 0; i++)
		rc = add_extra(l, &r->extras[i], err);
	for (size_t i = 0; i < p->fs.tmpfs.n && rc == 0; i++)
		rc = add_tmpfs_text(l, p->fs.tmpfs.v[i], p->limits.tmp, err);
	return rc;
}

/* /tmp and /workspace, unless the policy put something of its own there. */
static int collect_presets(struct bind_list *l, const struct policy *p, struct nsbox_error *err)
{
	int rc = find(l, "/tmp") ? 0 : add_tmpfs(l, "/tmp", p->limits.tmp, 01777, err);

	if (rc < 0 || find(l, "/workspace"))
		return rc;
	return add_tmpfs(l, "/workspace", p->limits.disk, 0755, err);
}

int binds_collect(struct bind_list *out, const struct view_request *r, struct nsbox_error *err)
{
	owned(binds_free) struct bind_list l = { 0 };
	int rc = collect_named(&l, r, err);

	if (rc == 0)
		rc = collect_presets(&l, r->policy, err);
	if (rc == 0)
		rc = add_interpreters(&l, r, err);
	if (rc < 0)
		return rc;
	qsort(l.v, l.n, sizeof(*l.v), by_depth);
	for (size_t i = 0; i < l.n; i++) {
		l.v[i].inodes = tmpfs_inodes(l.v[i].bytes, r->policy->limits.inodes);
		rc = check_nested(&l, i, err);
		if (rc < 0)
			return rc;
	}
	*out = l;
	l = (struct bind_list){ 0 };
	return 0;
}
