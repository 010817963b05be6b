/*
 * packages.c - from packages.list to a layer
 *
 * Runs in the launcher, before anything of the run exists. Must: make a layer once, however
 * many runs want it at a time; never let code run without the packages that it asked for.
 */
#include "runtime/packages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/sha256.h"
#include "policy/packages.h"
#include "rootfs/paths.h"

enum { PTH_MAX = 256, REASON_MAX = 4096, ABOUT_MAX = 256 * 1024, CODE_MAX = 16 << 20 };

void packages_free(struct packages *p)
{
	free(p->folder);
	strlist_free(&p->pth);
	free(p->record);
	free(p->failed);
	close_owned(&p->lock);
	*p = (struct packages)PACKAGES_INIT;
}

struct work { /* on one layer */
	const struct packages_request *r;
	const struct kind *kind;
	struct strlist specs;	/* normal forms, sorted, each once */
	struct pkg_origin config;
	struct store store;
	char id[LAYER_ID + 1];
};

static void work_free(struct work *w)
{
	strlist_free(&w->specs);
	origin_free(&w->config);
	store_close(&w->store);
}

/* One row a language that has packages. */
static const struct kind {
	const char *language;
	int (*spec)(const char *spec, struct buf *out, struct nsbox_error *err);
	int (*origin)(struct pkg_origin *c, const struct packages_request *r, struct nsbox_error *err);
	const char *bin;	/* where a layer has its programs */
	bool has_pth;
} kinds[] = {
	{ "python", package_spec, origin_of_pip, "bin", true },
	{ "javascript", npm_spec, origin_of_npm, "node_modules/.bin", false },
};

static const struct kind *kind_of(const char *language)
{
	for (size_t i = 0; language && i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].language, language) == 0)
			return &kinds[i];
	return NULL;
}

bool packages_know(const char *language)
{
	return kind_of(language) != NULL;
}

/* ------------------------------------------------------------------------- key -- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_specs(struct work *w, const struct strlist *list, struct nsbox_error *err)
{
	int r = 0;

	for (size_t i = 0; i < list->n && r == 0; i++) {
		struct buf one = BUF_INIT(4096);

		r = w->kind->spec(list->v[i], &one, err);
		if (r == 0 && !strlist_has(&w->specs, buf_text(&one)) &&
		    strlist_add(&w->specs, buf_text(&one)) < 0)
			r = err_nomem(err);
		buf_free(&one);
	}
	return r;
}

/* A file that cannot be read is the run's to refuse, in its own words. */
static void read_source(struct buf *out, const char *path)
{
	owned_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, out) < 0)
		buf_clear(out);
}

static int add_inline(struct work *w, struct nsbox_error *err)
{
	const struct nsbox_run *run = w->r->run;
	struct buf text = BUF_INIT(CODE_MAX);
	struct strlist found = { 0 };
	int r;

	if (run->file)
		read_source(&text, run->file);
	else if (run->code)
		buf_add(&text, run->code, run->code_len ? run->code_len : strlen(run->code));
	r = package_inline(buf_text(&text), text.len, w->r->interp->version, &found, err);
	if (r == 0)
		r = add_specs(w, &found, err);
	strlist_free(&found);
	buf_free(&text);
	return r;
}

static int take_specs(struct work *w, struct nsbox_error *err)
{
	int r = add_specs(w, w->r->list, err);

	if (r == 0 && w->r->run)
		r = add_inline(w, err);
	if (w->specs.n > 1)
		qsort(w->specs.v, w->specs.n, sizeof(*w->specs.v), by_text);
	return r;
}

static void add_text(struct sha256 *s, const char *text)
{
	sha256_add(s, text, strlen(text) + 1);
}

static void add_list(struct sha256 *s, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		add_text(s, l->v[i]);
	add_text(s, "");
}

/* Everything that decides what pip or npm would install; no login. */
static void make_id(struct work *w)
{
	const struct interp *interp = w->r->interp;
	unsigned char digest[32];
	struct utsname host = { 0 };
	struct sha256 s;

	uname(&host);
	sha256_init(&s);
	add_text(&s, "nsbox-layer-2");
	add_text(&s, interp->real);
	add_text(&s, interp->version);
	add_text(&s, host.machine);
	add_text(&s, w->config.name);
	add_text(&s, w->config.installer ? w->config.installer : "");
	add_list(&s, &w->specs);
	add_list(&s, &w->config.folders);
	add_text(&s, buf_text(&w->config.conf));
	add_text(&s, buf_text(&w->config.constraints));
	sha256_end(&s, digest);
	sha256_hex(digest, w->id);
}

/* ----------------------------------------------------------------------- layer -- */

static bool is_pth(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && name[0] != '.' && strcmp(name + n - 4, ".pth") == 0;
}

/* As site looks for them: sorted, without those that are hidden. */
static int find_pth(struct packages *out)
{
	owned_fd int fd = openat(out->lock, "packages", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	owned_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return -1;
	(void)take_fd(fd); /* the DIR has it now */
	while ((e = readdir(d)))
		if (is_pth(e->d_name) && out->pth.n < PTH_MAX && strlist_add(&out->pth, e->d_name) < 0)
			return -1;
	if (out->pth.n > 1)
		qsort(out->pth.v, out->pth.n, sizeof(*out->pth.v), by_text);
	return 0;
}

static int take_layer(struct packages *out, const struct work *w, struct nsbox_error *err)
{
	owned_mem char *layer = path_join(w->store.path, w->id);
	owned_mem char *bin = path_join("packages", w->kind->bin);

	if (!bin)
		return err_nomem(err);
	if (layer)
		out->folder = path_join(layer, "packages");
	out->language = w->kind->language;
	if (faccessat(out->lock, bin, F_OK, 0) == 0)
		out->bin = w->kind->bin;
	out->record = packages_record(out->lock, w->id, w->config.name);
	if (w->kind->has_pth && find_pth(out) < 0)
		return err_sys(err, "list %s", out->folder ? out->folder : "packages");
	return out->folder && out->record ? 0 : err_nomem(err);
}

static int set_failed(struct packages *out, const char *why, int64_t age, struct nsbox_error *err)
{
	struct buf b = BUF_INIT(REASON_MAX);

	buf_fmt(&b, "packages_failed: Package installation failed: %s", why);
	if (age >= 0)
		buf_fmt(&b, " (remembered from %lld s ago; tried again after %d minutes)",
			(long long)age, FAILURE_SECONDS / 60);
	out->failed = buf_take(&b);
	buf_free(&b);
	return out->failed ? 0 : err_nomem(err);
}

/* It was too large for a limit that has been raised since. */
static bool is_outgrown(const struct work *w, const char *why)
{
	const char *limit = strstr(why, SIZE_WORDS);
	char number[24];
	uint64_t bytes;

	if (!limit)
		return false;
	limit += sizeof(SIZE_WORDS) - 1;
	snprintf(number, sizeof(number), "%.*s", (int)strspn(limit, "0123456789"), limit);
	return num_uint(number, 0, UINT64_MAX, &bytes) == 0 && w->r->max_bytes > bytes;
}

/* 1: there is one, and it is told. */
static int recall(struct packages *out, const struct work *w, struct nsbox_error *err)
{
	struct buf why = BUF_INIT(REASON_MAX);
	uint64_t age;
	int r = 0;

	if (store_failed(&w->store, w->id, &why, &age) && !is_outgrown(w, buf_text(&why))) {
		r = set_failed(out, buf_text(&why), (int64_t)age, err);
		r = r < 0 ? r : 1;
	}
	buf_free(&why);
	return r;
}

/* ----------------------------------------------------------------------- build -- */

static void put_line(struct buf *out, const char *key, const char *value)
{
	buf_fmt(out, "%s=", key);
	for (; *value; value++)
		buf_char(out, *value == '\n' ? '?' : *value);
	buf_char(out, '\n');
}

/* The head of the file about; store_commit() adds the size. No login is in any of it. */
static void put_about(struct buf *out, const struct work *w)
{
	buf_fmt(out, "created=%lld\n", (long long)time(NULL));
	put_line(out, "language", w->r->interp->language);
	put_line(out, "interpreter", w->r->interp->real);
	put_line(out, "version", w->r->interp->version);
	put_line(out, "installer", w->config.name);
	put_line(out, "index", buf_text(&w->config.shown));
	for (size_t i = 0; i < w->specs.n; i++)
		put_line(out, "spec", w->specs.v[i]);
}

static void say_start(const struct work *w)
{
	struct buf b = BUF_INIT(1024);

	if (!w->r->progress)
		return;
	buf_str(&b, "installing");
	for (size_t i = 0; i < w->specs.n && b.len < 200; i++)
		buf_fmt(&b, "%s %s", i ? "," : "", w->specs.v[i]);
	buf_fmt(&b, " from %.300s", w->config.shown.len ? buf_text(&w->config.shown) : "nowhere");
	w->r->progress(w->r->progress_arg, buf_text(&b));
	buf_free(&b);
}

static int install(struct work *w, const char *folder, struct buf *why, struct nsbox_error *err)
{
	const struct install i = { .r = w->r, .specs = &w->specs, .config = &w->config,
				   .folder = folder };
	struct buf about = BUF_INIT(ABOUT_MAX), bad = BUF_INIT(REASON_MAX);
	int r = origin_resolve(&w->config, err);

	if (r == 0)
		r = packages_install(&i, why, err);
	put_about(&about, w);
	if (r == 0 && about.failed)
		r = err_nomem(err);
	if (r == 0)
		r = store_commit(&w->store, w->id, &about, &bad, err);
	if (r == 1 && bad.len)
		buf_fmt(why, "%s: %s", w->specs.v[0], buf_text(&bad));
	buf_free(&about);
	buf_free(&bad);
	return r;
}

static int build(struct packages *out, struct work *w, struct nsbox_error *err)
{
	owned_mem char *folder = store_begin(&w->store, w->id, err);
	struct buf why = BUF_INIT(REASON_MAX);
	int r;

	if (!folder)
		return err ? err->code : NSBOX_E_SYSTEM;
	say_start(w);
	r = install(w, folder, &why, err);
	if (w->r->progress)
		w->r->progress(w->r->progress_arg, NULL);
	if (r != 0)
		store_abort(&w->store, w->id);
	out->is_killed = r == 2;
	if (r == 1) {
		store_fail(&w->store, w->id, buf_text(&why));
		r = set_failed(out, buf_text(&why), -1, err);
	}
	buf_free(&why);
	return r < 0 ? r : 0;
}

static bool is_stopped(void *arg)
{
	const struct packages_request *r = arg;

	return r->running && r->running(r->running_arg, NULL);
}

/* The one that gets the lock makes it; the others find it, or the failure, made. */
static int make(struct packages *out, struct work *w, struct nsbox_error *err)
{
	owned_fd int lock = store_lock(&w->store, w->id, is_stopped, (void *)(uintptr_t)w->r);
	int r;

	if (lock < 0 && errno == ECANCELED) {
		out->is_killed = true;
		return 0;
	}
	if (lock < 0)
		return err_sys(err, "lock %s/%s.wait", w->store.path, w->id);
	if (store_take(&w->store, w->id, &out->lock))
		return take_layer(out, w, err);
	r = recall(out, w, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = build(out, w, err);
	if (r < 0 || out->failed || out->is_killed)
		return r;
	if (!store_take(&w->store, w->id, &out->lock))
		return err_set(err, NSBOX_E_SETUP, "the packages in %s/%s vanished", w->store.path, w->id);
	return take_layer(out, w, err);
}

static int find(struct packages *out, struct work *w, struct nsbox_error *err)
{
	int r = take_specs(w, err);

	if (r < 0 || !w->specs.n)
		return r;
	r = w->kind->origin(&w->config, w->r, err);
	if (r == 0)
		r = store_open(&w->store, true, err);
	if (r < 0)
		return r;
	make_id(w);
	if (store_take(&w->store, w->id, &out->lock))
		return take_layer(out, w, err);
	r = recall(out, w, err);
	return r != 0 ? (r < 0 ? r : 0) : make(out, w, err);
}

int packages_get(struct packages *out, const struct packages_request *r, struct nsbox_error *err)
{
	owned(work_free) struct work w = { .r = r, .config = ORIGIN_INIT, .store = STORE_INIT };
	owned(packages_free) struct packages p = PACKAGES_INIT;
	int code;

	w.kind = kind_of(r->interp->language);
	if (!w.kind)
		return err_set(err, NSBOX_E_UNSUPPORTED, "packages.list is not for %s",
			       r->interp->language);
	code = find(&p, &w, err);
	if (code < 0)
		return code;
	*out = p;
	p = (struct packages)PACKAGES_INIT;
	return 0;
}
