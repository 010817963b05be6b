/*
 * Owns: the order in which a host view is built. Runs in the launcher.
 * Must: append what view_build() promises, in that order, so that no operation can
 * meet a name that the box or a bound folder chose. Mustn't: change the host, except
 * for the placeholders of protect.c.
 */
#include "rootfs/view.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "rootfs/binds.h"
#include "rootfs/home.h"
#include "rootfs/parts.h"
#include "rootfs/paths.h"
#include "rootfs/protect.h"

#define WORKSPACE "/workspace"

struct protected_names {
	const struct strlist *project;	/* relative to each writable folder */
	struct strlist home;		/* absolute paths of the host */
};

enum { ROOT_BYTES = 4 << 20 }; /* of the root tmpfs, nsbox's own files not counted */

/* Every inode costs about a kilobyte of kernel memory that `size=` does not count. */
uint64_t tmpfs_inodes(uint64_t bytes, uint64_t most)
{
	uint64_t n = bytes / 4096;

	if (n < 1024)
		n = 1024;
	else if (n > 1 << 20)
		n = 1 << 20;
	return most && most < n ? most : n;
}

void view_free(struct view *v)
{
	for (size_t i = 0; i < v->tree_count; i++) {
		if (v->trees[i].fd >= 0)
			close(v->trees[i].fd);
		free(v->trees[i].src);
	}
	free(v->trees);
	strlist_free(&v->writable);
	strlist_free(&v->notes);
	free(v->workdir);
	free(v->path);
	protect_release(v->protect);
	*v = (struct view){ 0 };
}

/* ------------------------------------------------------------- system -- */

static void add_root(struct plan_builder *b, const struct view_request *r)
{
	uint64_t bytes = ROOT_BYTES;

	for (size_t i = 0; i < r->file_count; i++)
		bytes += r->files[i].len + 4096;
	PLAN_OP(b, .kind = OP_PRIVATE, .stage = r->stage, .fd = -1);
	PLAN_OP(b, .kind = OP_ROOT, .stage = r->stage, .fd = -1, .n = bytes,
		.m = tmpfs_inodes(bytes, 0));
}

/* /bin and friends as the host has them: a link into /usr, or a folder. */
static int add_top(struct plan_builder *b, unsigned stage, const char *name,
		   struct nsbox_error *err)
{
	char path[16], target[256];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/%s", name);
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "stat %s", path);
	if (S_ISDIR(st.st_mode)) {
		PLAN_OP(b, .kind = OP_BIND, .stage = stage, .fd = -1, .src = path, .dst = name,
			.flags = OP_RDONLY | OP_REC | OP_MAKE_DST, .pin_dev = st.st_dev,
			.pin_ino = st.st_ino);
		return 0;
	}
	n = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof(target) - 1) : -1;
	if (n <= 0)
		return err_set(err, NSBOX_E_UNSUPPORTED, "%s is neither a folder nor a link", path);
	target[n] = '\0';
	PLAN_OP(b, .kind = OP_SYMLINK, .stage = stage, .fd = -1, .src = target, .dst = name);
	return 0;
}

/* A host whose /home is a link: the box gets the link instead of an empty folder. */
static bool is_linked(const struct bind_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == BIND_LINK && strcmp(l->v[i].dst + 1, name) == 0)
			return true;
	return false;
}

static int add_system(struct plan_builder *b, const struct bind_list *l,
		      const struct view_request *r, struct nsbox_error *err)
{
	static const char *const tops[] = { "usr",   "bin",   "sbin",	"lib",
					    "lib32", "lib64", "libx32" };
	static const char *const empty[] = { "home",	  "opt",     "run",
					     "var/cache", "var/lib", "var/log" };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tops) && rc == 0; i++)
		rc = add_top(b, r->stage, tops[i], err);
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++)
		if (!is_linked(l, empty[i]))
			PLAN_OP(b, .kind = OP_DIR, .stage = r->stage, .fd = -1, .n = 0755,
				.dst = empty[i]);
	PLAN_OP(b, .kind = OP_SYMLINK, .stage = r->stage, .fd = -1, .src = "../tmp",
		.dst = "var/tmp");
	PLAN_OP(b, .kind = OP_SYMLINK, .stage = r->stage, .fd = -1, .src = "../run",
		.dst = "var/run");
	return rc;
}

static int add_files(struct plan_builder *b, const struct view_request *r,
		     struct nsbox_error *err)
{
	for (size_t i = 0; i < r->file_count; i++) {
		const struct view_file *f = &r->files[i];

		if (f->dst[0] != '/' || !f->dst[1])
			return err_set(err, NSBOX_E_USAGE, "file of nsbox at \"%s\"", f->dst);
		PLAN_OP(b, .kind = OP_FILE, .stage = r->stage, .fd = -1, .n = 0444,
			.dst = f->dst + 1, .blob = f->data, .blob_len = f->len);
	}
	return 0;
}

/* -------------------------------------------------------------- binds -- */

static int add_bind(const struct source_sink *to, const struct bind *m, struct nsbox_error *err)
{
	switch (m->kind) {
	case BIND_TREE:
		if (m->is_optional)
			return source_mount(to, &m->source, m->dst, SOURCE_TRY, err);
		/* fallthrough */
	case BIND_READ:
		return source_mount(to, &m->source, m->dst, SOURCE_READ, err);
	case BIND_WRITE:
		return source_mount(to, &m->source, m->dst, SOURCE_WRITE, err);
	case BIND_LINK:
		PLAN_OP(to->b, .kind = OP_SYMLINK, .stage = to->stage, .fd = -1, .src = m->target,
			.dst = m->dst + 1);
		return 0;
	case BIND_TMPFS:
		PLAN_OP(to->b, .kind = OP_TMPFS, .stage = to->stage, .fd = -1, .n = m->bytes,
			.m = m->inodes,
			.flags = OP_MAKE_DST | (uint64_t)m->mode << 32, .dst = m->dst + 1);
		return 0;
	}
	return err_set(err, NSBOX_E_USAGE, "unknown kind of bind");
}

static bool is_writable(const struct bind *m)
{
	return m->kind == BIND_WRITE || m->kind == BIND_TMPFS;
}

/* -------------------------------------------------------- protected names -- */

/* A name that another writable folder protects may lie in this one: --rw project with
 * --rw project/.git must not open project/.git/hooks. */
static int add_outer_names(struct strlist *names, const struct bind_list *l,
			   const struct bind *inner, const struct strlist *protect)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct bind *outer = &l->v[i];

		if (outer->kind != BIND_WRITE || outer == inner)
			continue;
		for (size_t k = 0; k < protect->n; k++) {
			owned_mem char *path = path_join(outer->source.real, protect->v[k]);
			const char *rest = path ? path_through(path, &inner->source.st) : NULL;

			if (!path || (rest && rest[0] && strlist_add(names, rest) < 0))
				return -1;
		}
	}
	return 0;
}

static int add_protected(const struct source_sink *to, const struct bind_list *l,
			 const struct bind *m, const struct protected_names *p,
			 struct nsbox_error *err)
{
	struct strlist names = { 0 };
	int rc = home_protect(&names, &m->source, &p->home, err);

	if (rc == 0 && S_ISDIR(m->source.st.st_mode)) {
		if (strlist_copy(&names, p->project) < 0 ||
		    add_outer_names(&names, l, m, p->project) < 0)
			rc = err_nomem(err);
		else
			rc = protect_folder(&to->view->protect, to, &m->source, m->dst, &names, err);
	}
	strlist_free(&names);
	return rc;
}

/*
 * What a writable folder protects comes right behind it, before the binds inside it: a
 * folder on the way to a name is bound over itself, and would cover a --ro in it.
 */
static int add_binds(const struct source_sink *to, const struct bind_list *l,
		     const struct protected_names *p, struct nsbox_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		int rc = add_bind(to, &l->v[i], err);

		if (rc == 0 && l->v[i].kind == BIND_WRITE)
			rc = add_protected(to, l, &l->v[i], p, err);
		if (rc < 0)
			return rc;
		if (is_writable(&l->v[i]) && strlist_add(&to->view->writable, l->v[i].dst) < 0)
			return err_nomem(err);
	}
	return 0;
}

/* The interpreter's own folders are not searched: they are large, on the hot path,
 * and nobody's place for a socket. */
static int add_socket_masks(const struct source_sink *to, const struct bind_list *l,
			    struct nsbox_error *err)
{
	size_t budget = SOCKETS_BUDGET;
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++)
		if (l->v[i].kind == BIND_READ || l->v[i].kind == BIND_WRITE)
			rc = sockets_mask(to, &l->v[i].source, l->v[i].dst, &budget, err);
	return rc;
}

static int add_hidden(const struct source_sink *to, const struct view_request *r,
		      struct nsbox_error *err)
{
	const struct strlist *hidden = &r->policy->fs.hidden;

	for (size_t i = 0; i < hidden->n; i++) {
		owned_mem char *dst = path_clean(NULL, hidden->v[i]);

		if (!dst && errno == ENOMEM)
			return err_nomem(err);
		if (!dst || !dst[1])
			return err_set(err, NSBOX_E_POLICY,
				       "fs.hidden \"%s\": give an absolute path below /",
				       hidden->v[i]);
		PLAN_OP(to->b, .kind = OP_MASK, .stage = to->stage, .fd = -1, .dst = dst + 1);
	}
	return 0;
}

/* ---------------------------------------------------------- where, PATH -- */

/* Where the caller's own folder is in the box, if a bind shows it; NULL: nowhere. */
static char *seen_at(const struct bind_list *l, const char *cwd)
{
	const char *best = NULL;
	const struct bind *in = NULL;

	for (size_t i = 0; cwd && i < l->n; i++) {
		const struct bind *m = &l->v[i];
		bool named = m->kind == BIND_READ || m->kind == BIND_WRITE;
		const char *rest = named && S_ISDIR(m->source.st.st_mode)
					   ? path_below(cwd, m->source.real)
					   : NULL;

		if (rest && (!best || strlen(rest) < strlen(best))) {
			best = rest;
			in = m;
		}
	}
	return in ? path_join(in->dst, best) : strdup(WORKSPACE);
}

static int choose_workdir(struct view *v, const struct bind_list *l,
			  const struct view_request *r, struct nsbox_error *err)
{
	if (r->cwd) {
		v->workdir = path_clean(NULL, r->cwd);
		if (!v->workdir && errno == EINVAL) {
			err_hint(err, "--workdir names a folder in the box, such as /workspace");
			return err_set(err, NSBOX_E_USAGE,
				       "workdir \"%s\": give an absolute path without ..", r->cwd);
		}
	} else {
		v->workdir = seen_at(l, r->caller_cwd);
	}
	return v->workdir ? 0 : err_nomem(err);
}

static bool is_in_path(const struct buf *path, const char *dir)
{
	size_t n = strlen(dir);

	for (const char *at = buf_text(path); *at; at += *at == ':') {
		size_t len = strcspn(at, ":");

		if (len == n && memcmp(at, dir, n) == 0)
			return true;
		at += len;
	}
	return false;
}

/* The interpreters' folders first: `python3` in the box is the caller's python3. */
static int choose_path(struct view *v, const struct view_request *r, struct nsbox_error *err)
{
	struct buf path = BUF_INIT(64 * 1024);

	for (size_t i = 0; r->interps && r->interps[i]; i++) {
		owned_mem char *dir = path_parent(r->interps[i]->program);

		/* A folder whose name has a colon cannot be in PATH. */
		if (!dir || strchr(dir, ':') || is_in_path(&path, dir))
			continue;
		if (strcmp(dir, "/usr/bin") == 0 || strcmp(dir, "/bin") == 0)
			continue;
		buf_str(&path, dir);
		buf_char(&path, ':');
	}
	buf_str(&path, "/usr/local/bin:/usr/bin:/bin");
	v->path = buf_take(&path);
	buf_free(&path);
	return v->path ? 0 : err_nomem(err);
}

/* -------------------------------------------------------------- build -- */

/* What Landlock lets the box write besides the binds: devices, shm, queues. */
static int name_writable(struct view *v, struct nsbox_error *err)
{
	return strlist_add(&v->writable, "/dev") < 0 ? err_nomem(err) : 0;
}

static int note_proc(struct view *v, const struct view_request *r, struct nsbox_error *err)
{
	const char *note = proc_note(r->proc);

	return note && strlist_add(&v->notes, note) < 0 ? err_nomem(err) : 0;
}

static int build_fixed(struct plan_builder *b, const struct bind_list *l,
		       const struct view_request *r, struct nsbox_error *err)
{
	int rc;

	add_root(b, r);
	rc = add_system(b, l, r, err);
	if (rc == 0)
		rc = etc_build(b, r, err);
	if (rc == 0)
		rc = dev_build(b, r, err);
	if (rc == 0)
		rc = proc_build(b, r, err);
	if (rc == 0)
		rc = add_files(b, r, err);
	return rc;
}

static int build_named(const struct source_sink *to, const struct bind_list *l,
		       const struct view_request *r, struct nsbox_error *err)
{
	struct protected_names p = { .project = &r->policy->fs.protect };
	int rc = name_writable(to->view, err);

	if (rc == 0 && r->policy->fs.write.n)
		rc = home_paths(&p.home, &r->policy->fs.protect_home, err);
	if (rc == 0)
		rc = add_binds(to, l, &p, err);
	strlist_free(&p.home);
	/* After the protected names: a folder bound over itself would lift a mask. */
	if (rc == 0)
		rc = add_socket_masks(to, l, err);
	if (rc == 0)
		rc = add_hidden(to, r, err);
	return rc;
}

static void build_end(struct plan_builder *b, const struct view_request *r, const struct view *v)
{
	PLAN_OP(b, .kind = OP_READONLY, .stage = r->stage, .fd = -1);
	PLAN_OP(b, .kind = OP_PIVOT, .stage = r->stage, .fd = -1);
	PLAN_OP(b, .kind = OP_CHDIR, .stage = r->stage, .fd = -1, .src = v->workdir);
}

int view_build(struct plan_builder *b, const struct view_request *r, struct view *out,
	       struct nsbox_error *err)
{
	owned(binds_free) struct bind_list l = { 0 };
	owned(view_free) struct view v = { 0 };
	const struct source_sink to = { b, &v, r->privileged, r->stage };
	int rc = binds_collect(&l, r, err);

	if (rc == 0)
		rc = choose_workdir(&v, &l, r, err);
	if (rc == 0)
		rc = choose_path(&v, r, err);
	if (rc == 0)
		rc = build_fixed(b, &l, r, err);
	if (rc == 0)
		rc = note_proc(&v, r, err);
	if (rc == 0 && strlist_copy(&v.notes, &l.notes) < 0)
		rc = err_nomem(err);
	if (rc == 0)
		rc = build_named(&to, &l, r, err);
	if (rc == 0 && v.protect && !r->look_only)
		rc = protect_arm(v.protect, err);
	if (rc < 0)
		return rc;
	build_end(b, r, &v);
	*out = v;
	v = (struct view){ 0 };
	return 0;
}
