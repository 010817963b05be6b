/*
 * Owns: the remembered answers of interpreters, one file each in the user's cache
 * folder. Runs in the launcher.
 * Must: look again at every file that the answer depends on. Mustn't: read what
 * somebody else could have written: the answer decides what a box sees of the host.
 *
 * A file is NUL-terminated records "key=value": a head, the question itself (a hash
 * names the file, the text decides), the dependencies, the answer, "end=ok".
 */
#include "rootfs/interp_parts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/sha256.h"
#include "rootfs/paths.h"

#define HEAD "head=nsbox-interp-3"

#define FILE_PREFIX "interp-"

enum { CACHE_MAX = 1 << 20 };

/* ------------------------------------------------------------- folder -- */

static bool is_private(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static char *default_folder(void)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (xdg && xdg[0] == '/')
		return path_join(xdg, "nsbox");
	return home && home[0] == '/' ? path_join(home, ".cache/nsbox") : NULL;
}

/* mkdir -p, each 0700; what is there is left alone. */
static void make_folders(char *path)
{
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	mkdir(path, 0700);
}

char *cache_path(const char *cache_dir)
{
	return cache_dir ? strdup(cache_dir) : default_folder();
}

int cache_open(const char *cache_dir)
{
	owned_mem char *path = cache_path(cache_dir);
	owned_fd int fd = -1;
	struct stat st;

	if (!path || path[0] != '/')
		return -1;
	fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		make_folders(path);
		fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0 || fstat(fd, &st) < 0 || !is_private(&st))
		return -1;
	return take_fd(fd);
}

static void file_name(char name[80], const struct buf *key)
{
	unsigned char digest[32];
	char hex[65];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, buf_text(key), key->len);
	sha256_end(&s, digest);
	sha256_hex(digest, hex);
	snprintf(name, 80, FILE_PREFIX "%s", hex);
}

/* -------------------------------------------------------- dependencies -- */

/*
 * Identity, size and both times: a change of content moves ctime, which nobody can
 * set back. 'L' looks at a link itself, 'S' at what it leads to.
 */
static void stamp(struct buf *out, char kind, const char *path)
{
	struct stat st;
	int r = kind == 'L' ? lstat(path, &st) : stat(path, &st);

	if (r < 0) {
		buf_fmt(out, "%c - %s", kind, path);
		return;
	}
	buf_fmt(out, "%c %llx.%llx.%llx.%llx.%lx.%llx.%lx.%o %s", kind,
		(unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
		(unsigned long long)st.st_size, (unsigned long long)st.st_mtim.tv_sec,
		(unsigned long)st.st_mtim.tv_nsec, (unsigned long long)st.st_ctim.tv_sec,
		(unsigned long)st.st_ctim.tv_nsec, (unsigned)st.st_mode, path);
}

int cache_stamp(struct strlist *deps, char kind, const char *path)
{
	struct buf text = BUF_INIT(8192);
	int r;

	stamp(&text, kind, path);
	r = text.failed ? -1 : strlist_add(deps, buf_text(&text));
	buf_free(&text);
	return r;
}

static bool is_unchanged(const char *dep)
{
	const char *space = dep[0] && dep[1] == ' ' ? strchr(dep + 2, ' ') : NULL;
	struct buf now = BUF_INIT(8192);
	bool same;

	if (!space)
		return false;
	stamp(&now, dep[0], space + 1);
	same = !now.failed && strcmp(buf_text(&now), dep) == 0;
	buf_free(&now);
	return same;
}

/* ------------------------------------------------------------- reading -- */

static int read_checked(int dir, const char *name, struct buf *out)
{
	owned_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_private(&st))
		return -1;
	return fd_read_all(fd, out);
}

static int set_text(char **to, const char *value)
{
	free(*to);
	*to = strdup(value);
	return *to ? 0 : -1;
}

static int take_record(struct interp *i, const struct answer *a, size_t k)
{
	const struct {
		const char *key;
		char **text;
		struct strlist *list;
	} rows[] = {
		{ "program", &i->program, NULL }, { "real", &i->real, NULL },
		{ "version", &i->version, NULL }, { "tree", NULL, &i->trees },
		{ "link", NULL, &i->links },	  { "path", NULL, &i->module_path },
		{ "pth", NULL, &i->site_files },
	};

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		const char *value = answer_value(a, k, rows[r].key);

		if (value)
			return rows[r].text ? set_text(rows[r].text, value)
					    : strlist_add(rows[r].list, value);
	}
	return 0;
}

static bool is_valid(const struct answer *a, const struct buf *key)
{
	const char *question = answer_get(a, "key");

	if (a->records.n < 3 || strcmp(a->records.v[0], HEAD) != 0 || !question ||
	    strcmp(question, buf_text(key)) != 0 ||
	    strcmp(a->records.v[a->records.n - 1], "end=ok") != 0)
		return false;
	for (size_t k = 0; k < a->records.n; k++) {
		const char *dep = answer_value(a, k, "dep");

		if (dep && !is_unchanged(dep))
			return false;
	}
	return true;
}

static int split_records(struct answer *a, const struct buf *text)
{
	for (size_t at = 0; at < text->len;) {
		size_t n = strlen(text->data + at); /* a buf ends with NUL */

		if (strlist_add(&a->records, text->data + at) < 0)
			return -1;
		at += n + 1;
	}
	return 0;
}

bool cache_load(struct interp *out, int dir, const struct buf *key)
{
	struct buf text = BUF_INIT(CACHE_MAX);
	owned(answer_free) struct answer a = { 0 };
	owned(interp_free) struct interp i = { 0 };
	const char *site, *custom;
	char name[80];
	int r;

	file_name(name, key);
	r = read_checked(dir, name, &text);
	if (r == 0)
		r = split_records(&a, &text);
	buf_free(&text);
	if (r < 0 || !is_valid(&a, key))
		return false;
	for (size_t k = 0; k < a.records.n && r == 0; k++)
		r = take_record(&i, &a, k);
	site = answer_get(&a, "site");
	custom = answer_get(&a, "custom");
	if (r < 0 || !i.program || !i.real || !i.version || !site || !custom)
		return false;
	i.has_sitecustomize = strcmp(custom, "0") != 0;
	i.needs_site = strcmp(site, "0") != 0;
	*out = i;
	i = (struct interp){ 0 };
	return true;
}

/* ------------------------------------------------------------- writing -- */

static void put(struct buf *b, const char *key, const char *value)
{
	buf_str(b, key);
	buf_char(b, '=');
	buf_str(b, value);
	buf_char(b, '\0');
}

static void put_list(struct buf *b, const char *key, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		put(b, key, l->v[i]);
}

/* interp-<64 digits>.<pid> */
bool cache_is_temp(const char *name)
{
	const char *dot = strchr(name, '.');
	uint64_t pid;

	return strncmp(name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0 && dot &&
	       dot - name == (ptrdiff_t)strlen(FILE_PREFIX) + 64 &&
	       num_uint(dot + 1, 1, INT_MAX, &pid) == 0;
}

/* The lock tells it from one that a killed launcher left. */
static void write_file(int dir, const char *name, const struct buf *text)
{
	char temp[112];
	owned_fd int fd = -1;

	snprintf(temp, sizeof(temp), "%s.%d", name, (int)getpid());
	unlinkat(dir, temp, 0);
	fd = openat(dir, temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return; /* a sweep has it, and removes it */
	if (fd_write_all(fd, text->data, text->len) < 0 || renameat(dir, temp, dir, name) < 0)
		unlinkat(dir, temp, 0);
}

void cache_store(const struct interp *i, int dir, const struct buf *key,
		 const struct strlist *deps)
{
	struct buf text = BUF_INIT(CACHE_MAX);
	char name[80];

	buf_add(&text, HEAD, sizeof(HEAD));
	put(&text, "key", buf_text(key));
	put_list(&text, "dep", deps);
	put(&text, "program", i->program);
	put(&text, "real", i->real);
	put(&text, "version", i->version);
	put(&text, "site", i->needs_site ? "1" : "0");
	put(&text, "custom", i->has_sitecustomize ? "1" : "0");
	put_list(&text, "tree", &i->trees);
	put_list(&text, "link", &i->links);
	put_list(&text, "path", &i->module_path);
	put_list(&text, "pth", &i->site_files);
	put(&text, "end", "ok");
	file_name(name, key);
	if (!text.failed)
		write_file(dir, name, &text);
	buf_free(&text);
}
