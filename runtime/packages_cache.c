/*
 * packages_cache.c - what the folder of layers holds, and taking from it
 *
 * Runs in the caller; makes no box. Must: take each layer's lock before it believes that
 * nobody uses it. Mustn't: believe a file of the folder beyond text to show.
 */
#include "runtime/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/num.h"

enum { OUT_MAX = 16 << 20, FILE_MAX = 1 << 20 };

struct stored {
	char id[LAYER_ID + 1];
	struct buf about, lock;	/* texts of its files; may be empty */
	int64_t used;		/* seconds since 1970 */
};

static void stored_clear(struct stored *l)
{
	buf_free(&l->about);
	buf_free(&l->lock);
}

/* The value of a line "KEY=..." from @at on; NULL: none. */
static const char *value_of(const char **at, const char *key, size_t *len)
{
	size_t n = strlen(key);

	for (; **at; *at += **at == '\n') {
		const char *line = *at;

		*at += strcspn(line, "\n");
		if (strncmp(line, key, n) == 0 && line[n] == '=') {
			*len = (size_t)(*at - line) - n - 1;
			return line + n + 1;
		}
	}
	return NULL;
}

static uint64_t number_of(const struct stored *l, const char *key)
{
	const char *at = buf_text(&l->about);
	size_t len = 0;
	const char *value = value_of(&at, key, &len);
	char text[24];
	uint64_t v;

	if (!value || len >= sizeof(text))
		return 0;
	memcpy(text, value, len);
	text[len] = '\0';
	return num_uint(text, 0, UINT64_MAX, &v) < 0 ? 0 : v;
}

static void read_text(struct buf *out, int dirfd, const char *name)
{
	owned_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, out) < 0)
		buf_clear(out);
}

static bool stored_read(struct stored *l, const struct store *s, const char *name)
{
	owned_fd int fd = openat(s->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	*l = (struct stored){ .about = BUF_INIT(FILE_MAX), .lock = BUF_INIT(FILE_MAX) };
	if (!store_is_id(name) || fd < 0 || fstat(fd, &st) < 0)
		return false;
	memcpy(l->id, name, LAYER_ID);
	l->used = st.st_mtime;
	read_text(&l->about, fd, "about");
	read_text(&l->lock, fd, "lock");
	return true;
}

/* ------------------------------------------------------------------------ list -- */

static void json_words(struct json *j, const char *key, const char *text, const char *name)
{
	size_t len;

	json_key(j, key);
	json_array(j);
	if (name)
		for (const char *at = text, *v; (v = value_of(&at, name, &len));)
			json_strn(j, v, len);
	for (const char *at = text; !name && *at; at += strcspn(at, "\n"), at += *at == '\n')
		json_strn(j, at, strcspn(at, " \n"));
	json_end(j, ']');
}

static void json_layer(struct json *j, const struct stored *l)
{
	static const char *const texts[] = { "language", "interpreter", "version", "installer", "index" };

	json_object(j);
	json_kstr(j, "id", l->id);
	json_kuint(j, "bytes", number_of(l, "bytes"));
	json_kuint(j, "files", number_of(l, "files"));
	json_kuint(j, "created", number_of(l, "created"));
	json_kint(j, "used", l->used);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *at = buf_text(&l->about);
		size_t len = 0;
		const char *value = value_of(&at, texts[i], &len);

		json_key(j, texts[i]);
		json_strn(j, value ? value : "", len);
	}
	json_words(j, "specs", buf_text(&l->about), "spec");
	json_words(j, "resolved", buf_text(&l->lock), NULL);
	json_end(j, '}');
}

/* For a terminal: a file of the folder may hold anything. */
static void put_plain(struct buf *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf_char(out, s[i] >= ' ' && s[i] <= '~' ? s[i] : '?');
}

static void put_age(struct buf *out, int64_t seconds)
{
	static const struct {
		int64_t unit;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	size_t i = 0;

	seconds = seconds < 0 ? 0 : seconds;
	while (i + 1 < ARRAY_SIZE(units) && seconds < units[i].unit)
		i++;
	buf_fmt(out, "%lld %s", (long long)(seconds / units[i].unit), units[i].name);
}

static void put_size(struct buf *out, uint64_t bytes)
{
	if (bytes >= 1 << 20)
		buf_fmt(out, "%llu MiB", (unsigned long long)(bytes >> 20));
	else
		buf_fmt(out, "%llu KiB", (unsigned long long)((bytes + 1023) >> 10));
}

static void text_layer(struct buf *out, const struct stored *l)
{
	const char *at = buf_text(&l->about), *v;
	size_t len = 0, start = out->len;

	buf_fmt(out, "%.12s  ", l->id);
	put_size(out, number_of(l, "bytes"));
	buf_str(out, ", used ");
	put_age(out, (int64_t)time(NULL) - l->used);
	buf_str(out, " ago, ");
	v = value_of(&at, "language", &len);
	put_plain(out, v ? v : "?", v ? len : 1);
	at = buf_text(&l->about);
	v = value_of(&at, "version", &len);
	buf_char(out, ' ');
	put_plain(out, v ? v : "?", v ? len : 1);
	buf_char(out, ':');
	at = buf_text(&l->about);
	while ((v = value_of(&at, "spec", &len)) && out->len - start < 4096) {
		buf_char(out, ' ');
		put_plain(out, v, len);
	}
	buf_char(out, '\n');
}

/* ----------------------------------------------------------------------- prune -- */

struct answer { /* of list or prune, text or JSON */
	bool is_json, is_prune, is_stuck;
	uint64_t unused_ms, bytes;
	size_t count;
	struct buf kept;	/* ids that are in use, one a line */
	struct buf out;
	struct json json;	/* writes to out */
};

static bool is_old(const struct answer *a, int64_t used)
{
	int64_t age = (int64_t)time(NULL) - used;

	return !a->unused_ms || (age > 0 && (uint64_t)age >= a->unused_ms / 1000);
}

static int prune_layer(struct answer *a, const struct store *s, const struct stored *l,
		       struct nsbox_error *err)
{
	int r;

	if (!is_old(a, l->used))
		return 0;
	r = store_drop(s, l->id);
	if (r < 0)
		return err_sys(err, "remove %s/%s", s->path, l->id);
	if (r == 0)
		return 1;
	a->is_stuck = true;
	buf_fmt(&a->kept, "%s\n", l->id);
	return 0;
}

/* ID.new without a maker, a failure that is forgotten, a lock of nothing: not layers. */
static int prune_rest(const struct store *s, const char *name, struct nsbox_error *err)
{
	const char *dot = strchr(name, '.');
	char id[LAYER_ID + 1];
	struct stat st;

	if (!dot || dot - name != LAYER_ID)
		return 0;
	snprintf(id, sizeof(id), "%s", name);
	if (!store_is_id(id) || fstatat(s->fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return store_drop(s, id) < 0 ? err_sys(err, "remove %s/%s", s->path, name) : 0;
}

static int take_entry(struct answer *a, const struct store *s, const char *name,
		      struct nsbox_error *err)
{
	owned(stored_clear) struct stored l = { 0 };
	bool is_layer = stored_read(&l, s, name);
	int r = 1;

	if (a->is_prune)
		r = is_layer ? prune_layer(a, s, &l, err) : prune_rest(s, name, err);
	if (r <= 0 || !is_layer)
		return r < 0 ? r : 0;
	a->bytes += number_of(&l, "bytes");
	a->count++;
	if (a->is_json)
		json_layer(&a->json, &l);
	else
		text_layer(&a->out, &l);
	return 0;
}

/* ---------------------------------------------------------------------- answer -- */

/* All names first: what is removed meanwhile would confuse a reading of the folder. */
static int names_of(const struct store *s, struct strlist *names, struct nsbox_error *err)
{
	owned_fd int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return err_sys(err, "list %s", s->path);
	(void)take_fd(fd); /* the DIR has it now */
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strlist_add(names, e->d_name) < 0)
			return err_nomem(err);
	return 0;
}

static int take_all(struct answer *a, const struct store *s, struct nsbox_error *err)
{
	struct strlist names = { 0 };
	int r = names_of(s, &names, err);

	for (size_t i = 0; i < names.n && r == 0; i++)
		r = take_entry(a, s, names.v[i], err);
	strlist_free(&names);
	return r;
}

static void begin(struct answer *a, const struct store *s)
{
	if (!a->is_json)
		return;
	json_object(&a->json);
	json_kstr(&a->json, "schema", "nsbox.cache/1");
	json_kstr(&a->json, "folder", s->path); /* NULL: there is none yet */
	json_key(&a->json, a->is_prune ? "removed" : "layers");
	json_array(&a->json);
}

static void end(struct answer *a)
{
	if (a->is_json) {
		json_end(&a->json, ']');
		if (a->is_prune)
			json_words(&a->json, "kept", buf_text(&a->kept), NULL);
		json_kuint(&a->json, "bytes", a->bytes);
		json_end(&a->json, '}');
		buf_char(&a->out, '\n');
		return;
	}
	for (const char *at = buf_text(&a->kept); *at; at += LAYER_ID + 1)
		buf_fmt(&a->out, "%.12s  kept: a run uses it\n", at);
	buf_fmt(&a->out, "%s%zu layer%s, ", a->is_prune ? "removed " : "", a->count,
		a->count == 1 ? "" : "s");
	put_size(&a->out, a->bytes);
	buf_char(&a->out, '\n');
}

static int answer(struct answer *a, char **out, struct nsbox_error *err)
{
	owned(store_close) struct store s = STORE_INIT;
	int r = store_open(&s, false, err);

	a->out = (struct buf)BUF_INIT(OUT_MAX);
	a->kept = (struct buf)BUF_INIT(OUT_MAX);
	a->json = (struct json)JSON_INIT(&a->out);
	if (r >= 0) {
		begin(a, &s);
		r = r == 1 ? 0 : take_all(a, &s, err);
		end(a);
	}
	if (r == 0 && a->out.failed)
		r = err_nomem(err);
	if (r == 0) {
		*out = buf_take(&a->out);
		r = *out ? a->is_stuck : err_nomem(err);
	}
	buf_free(&a->out);
	buf_free(&a->kept);
	return r;
}

static int check_form(const char *form, char **out, const char *call, struct nsbox_error *err)
{
	err_clear(err);
	if (form && out && (strcmp(form, "text") == 0 || strcmp(form, "json") == 0))
		return 0;
	return err_set(err, NSBOX_E_USAGE, "%s: form is \"text\" or \"json\", out not NULL", call);
}

int nsbox_cache_list(const char *form, char **out, struct nsbox_error *err)
{
	struct answer a = { 0 };

	if (check_form(form, out, "nsbox_cache_list", err) < 0)
		return NSBOX_E_USAGE;
	a.is_json = strcmp(form, "json") == 0;
	return answer(&a, out, err);
}

int nsbox_cache_prune(uint64_t unused_ms, const char *form, char **out, struct nsbox_error *err)
{
	struct answer a = { .is_prune = true, .unused_ms = unused_ms };

	if (check_form(form, out, "nsbox_cache_prune", err) < 0)
		return NSBOX_E_USAGE;
	a.is_json = strcmp(form, "json") == 0;
	return answer(&a, out, err);
}
