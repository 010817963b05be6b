/*
 * packages_npm.c - what the caller's own npm would do: its files, its variables
 *
 * Runs in the launcher. Must: take the same files in the same order as npm (>= 7) but for the
 * project's, which is part of the code that nobody has read yet; give a login to the host it
 * is for alone. Mustn't: ask a registry that npm would not ask, or run npm.
 */
#include "runtime/packages.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "policy/packages.h"
#include "rootfs/paths.h"

#define DEFAULT_REGISTRY "https://registry.npmjs.org/"
#define PROGRAM "/bin/npm-cli.js"

enum { CONF_MAX = 1 << 20, VALUE_MAX = 256 * 1024 };
enum { RANK_BUILTIN, RANK_GLOBAL, RANK_USER, RANK_ENV };

/* ------------------------------------------------------------------------ npm -- */

/* "/usr/bin/npm" -> "/usr/lib/node_modules/npm"; NULL: it is no npm, but a shim maybe. */
static char *folder_of(const char *dir)
{
	owned_mem char *link = dir ? path_join(dir, "npm") : NULL;
	owned_mem char *real = link ? realpath(link, NULL) : NULL;
	size_t len = real ? strlen(real) : 0, tail = sizeof(PROGRAM) - 1;

	return len > tail && strcmp(real + len - tail, PROGRAM) == 0 ? strndup(real, len - tail) : NULL;
}

/* The one that came with the interpreter, or the one on PATH. */
static char *find_npm(const struct interp *node)
{
	owned_mem char *beside = path_parent(node->program), *real = path_parent(node->real);
	char *found = folder_of(beside);

	if (!found)
		found = folder_of(real);
	return found ? found : origin_on_path(folder_of);
}

/* ------------------------------------------------------------------- settings -- */

struct taker {
	struct pkg_origin *c;
	unsigned char rank;
};

/* "${NAME}" -> the variable; "${NAME?}": nothing without one. Else the text stays. */
static void expand(struct buf *out, const char *s)
{
	while (*s) {
		const char *end = strncmp(s, "${", 2) == 0 ? strchr(s, '}') : NULL;
		size_t n = end ? (size_t)(end - s) - 2 : 0;
		bool is_optional = n && s[n + 1] == '?';
		owned_mem char *name = n ? strndup(s + 2, n - is_optional) : NULL;
		const char *value = name && *name ? getenv(name) : NULL;

		if (value || is_optional) {
			buf_str(out, value ? value : "");
			s = end + 1;
		} else {
			buf_char(out, *s++);
		}
	}
}

/* An empty one is none; a list is joined by newlines. */
static int take(void *arg, const char *key, const char *value, bool is_more)
{
	const struct taker *t = arg;
	struct buf name = BUF_INIT(NPM_KEY_MAX), text = BUF_INIT(VALUE_MAX);
	int r = 0;

	expand(&name, key);
	for (size_t i = 0; is_more && i < t->c->n; i++)
		if (t->c->v[i].rank == t->rank && strcmp(t->c->v[i].key, buf_text(&name)) == 0)
			buf_fmt(&text, "%s\n", t->c->v[i].value);
	expand(&text, value);
	if (!name.failed && !text.failed && text.len)
		r = pkg_set(t->c, t->rank, buf_text(&name), buf_text(&text));
	buf_free(&name);
	buf_free(&text);
	return r;
}

static int read_file(struct pkg_origin *c, unsigned char rank, const char *path)
{
	owned_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct taker t = { c, rank };
	struct buf text = BUF_INIT(CONF_MAX);
	struct stat st;
	int r = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, &text) == 0)
		r = npm_conf_read(buf_text(&text), text.len, take, &t);
	buf_free(&text);
	return r;
}

static int read_below(struct pkg_origin *c, unsigned char rank, const char *folder, const char *rest)
{
	owned_mem char *path = folder && folder[0] == '/' ? path_join(folder, rest) : NULL;

	if (!path)
		return folder && folder[0] == '/' ? -1 : 0;
	return read_file(c, rank, path);
}

static int read_variables(struct pkg_origin *c)
{
	int r = 0;

	for (char **e = environ; e && *e && r == 0; e++) {
		const char *equals = strchr(*e, '=');
		char key[NPM_KEY_MAX];

		if (equals && equals[1] && npm_key(*e, (size_t)(equals - *e), key))
			r = pkg_set(c, RANK_ENV, key, equals + 1);
	}
	return r;
}

static int read_global(struct pkg_origin *c, const struct interp *node)
{
	const char *named = pkg_get(c, "globalconfig"), *prefix = pkg_get(c, "prefix");
	owned_mem char *bin = path_parent(node->real);
	owned_mem char *own = bin ? path_parent(bin) : NULL;

	if (named)
		return read_file(c, RANK_GLOBAL, named);
	return read_below(c, RANK_GLOBAL, prefix ? prefix : own, "etc/npmrc");
}

/* The environment first: it says where the files are. */
static int read_all(struct pkg_origin *c, const struct interp *node)
{
	const char *user;
	int r = read_variables(c);

	if (r == 0)
		r = read_below(c, RANK_BUILTIN, c->installer, "npmrc");
	user = pkg_get(c, "userconfig");
	if (r == 0)
		r = user ? read_file(c, RANK_USER, user)
			 : read_below(c, RANK_USER, getenv("HOME"), ".npmrc");
	return r < 0 ? r : read_global(c, node);
}

/* ----------------------------------------------------------------- registries -- */

/* KEY="VALUE", as the module ini reads it back. */
static void put_setting(struct buf *out, const char *key, const char *value)
{
	buf_fmt(out, "%s=\"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			buf_char(out, '\\');
		if (*value == '\n')
			buf_str(out, "\\n");
		else
			buf_char(out, *value);
	}
	buf_str(out, "\"\n");
}

/* user:password of a registry's URL, as npm keeps it. */
static int add_url_login(struct pkg_origin *c, const struct index_url *u)
{
	struct buf pair = BUF_INIT(8192), key = BUF_INIT(8192), value = BUF_INIT(16384);
	const char *rest = strstr(u->bare, "://") + 3;
	size_t host = strcspn(rest, "/");
	int r;

	buf_fmt(&pair, "%s:%s", u->user, u->password);
	base64_add(&value, buf_text(&pair), pair.len);
	buf_fmt(&key, "//%.*s%s%s:_auth", (int)host, rest, u->path,
		u->path[0] && u->path[strlen(u->path) - 1] == '/' ? "" : "/");
	r = pair.failed || key.failed || value.failed
		    ? -1 : pkg_set(c, RANK_ENV, buf_text(&key), buf_text(&value));
	buf_free(&pair);
	buf_free(&key);
	buf_free(&value);
	return r < 0 ? r : origin_secret(c, u->password[0] ? u->password : u->user);
}

/* A registry names itself in what it answers: the host's loopback keeps its name and port in
 * the box, where install.js listens there and passes plain http on. */
static int add_host(struct pkg_origin *c, const char *host, unsigned port)
{
	owned_mem char *name = strdup(host);
	bool is_renamed = false;
	int r = name ? origin_rename(c, &name, &is_renamed) : -1;

	if (r == 0 && is_renamed)
		buf_fmt(&c->forward, "%s %u %s\n", host, port, name);
	return r < 0 ? r : origin_host(c, name, port);
}

static int add_registry(struct pkg_origin *c, const char *key, const char *text, struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	int r = 0;

	if (!index_url_parse(&u, text) || u.is_file)
		return origin_refuse_url(c, key, err);
	if (strcmp(key, "registry") == 0)
		buf_fmt(&c->shown, "%s%s", c->shown.len ? ", " : "", u.bare);
	else
		buf_fmt(&c->shown, "%s%s (%.*s)", c->shown.len ? ", " : "", u.bare,
			(int)strcspn(key, ":"), key);
	if (u.user)
		r = add_url_login(c, &u);
	if (r == 0)
		r = add_host(c, u.host, u.port);
	buf_fmt(&c->conf, "%s=%s\n", key, u.bare);
	return r < 0 ? err_nomem(err) : 0;
}

static int by_key(const void *a, const void *b)
{
	const struct pkg_setting *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static bool is_scope(const char *key)
{
	size_t n = strlen(key);

	return key[0] == '@' && n > 10 && n < 256 && strcmp(key + n - 9, ":registry") == 0;
}

/* In the order of their names: the text is part of a layer's key. What add_registry() adds to
 * the settings comes behind them, and is no scope. */
static int add_registries(struct pkg_origin *c, struct nsbox_error *err)
{
	const char *registry = pkg_get(c, "registry");
	int r;

	qsort(c->v, c->n, sizeof(*c->v), by_key);
	r = add_registry(c, "registry", registry ? registry : DEFAULT_REGISTRY, err);
	for (size_t i = 0; i < c->n && r == 0; i++) {
		const char *key = c->v[i].key;

		if (is_scope(key) && (!i || strcmp(c->v[i - 1].key, key) != 0))
			r = add_registry(c, key, pkg_get(c, key), err);
	}
	return r;
}

/* --------------------------------------------------------------------- logins -- */

static bool has_host(const struct pkg_origin *c, const char *host, unsigned port)
{
	char text[300];

	snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return strlist_has(&c->hosts, text);
}

/* Such a key has no scheme, and no port that is the scheme's own. */
static bool is_known_host(struct pkg_origin *c, const struct index_url *u, bool has_port, char *other,
			  size_t size)
{
	owned_mem char *name = strdup(u->host);
	bool is_renamed;

	if (!name || origin_rename(c, &name, &is_renamed) < 0)
		return false;
	if (is_renamed && has_host(c, name, u->port)) /* it may name itself by what it is asked by */
		snprintf(other, size, "//%s:%u%s", name, u->port, u->path);
	return has_host(c, name, u->port) || (!has_port && has_host(c, name, 80));
}

static int digit_of(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* base64 -> text, up to what is none; NULL: out of memory. */
static char *decoded_text(const char *s)
{
	char *out = calloc(strlen(s) + 1, 1);
	unsigned bits = 0, value = 0;
	size_t n = 0;

	for (; out && digit_of(*s) >= 0; s++) {
		value = (value << 6 | (unsigned)digit_of(*s)) & 0xffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out[n++] = (char)(value >> bits & 0xff);
		}
	}
	return out;
}

/* The text, and for _password and _auth what it decodes to: all of it is nobody's business. */
static int hide(struct pkg_origin *c, const char *name, const char *value)
{
	owned_mem char *decoded = NULL;
	char *colon;
	int r;

	if (strcmp(name, "username") == 0 || strcmp(name, "email") == 0)
		return 0;
	r = origin_secret(c, value);
	if (r < 0 || strcmp(name, "_authToken") == 0)
		return r;
	decoded = decoded_text(value);
	colon = decoded && strcmp(name, "_auth") == 0 ? strchr(decoded, ':') : NULL;
	return decoded ? origin_secret(c, colon ? colon + 1 : decoded) : -1;
}

/* "//HOST[:PORT]/PATH/:_authToken": for a host that is asked, and no other. */
static int add_login(struct pkg_origin *c, const char *key, const char *value, struct nsbox_error *err)
{
	static const char *const names[] = { "_authToken", "_auth", "_password", "username", "email" };
	owned(index_url_free) struct index_url u = { 0 };
	const char *name = strrchr(key, ':');
	struct buf text = BUF_INIT(8192);
	char other[2048] = "";
	bool has_port, is_one = false;
	int r = 0;

	for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
		is_one |= strcmp(name + 1, names[i]) == 0;
	if (!is_one)
		return 0;
	buf_fmt(&text, "https:%.*s", (int)(name - key), key);
	if (text.failed || !index_url_parse(&u, buf_text(&text)) || u.is_file || u.user) {
		buf_free(&text);
		return 0; /* nor does npm find it */
	}
	has_port = strcspn(key + 2, ":") < strcspn(key + 2, "/") && u.host[0] != ':';
	if (is_known_host(c, &u, has_port, other, sizeof(other) - 16)) {
		put_setting(&c->logins, key, value);
		if (other[0])
			put_setting(&c->logins, strncat(other, name, 15), value);
		r = hide(c, name + 1, value);
	}
	buf_free(&text);
	return r < 0 ? err_nomem(err) : 0;
}

static int add_logins(struct pkg_origin *c, struct nsbox_error *err)
{
	int r = 0;

	qsort(c->v, c->n, sizeof(*c->v), by_key);
	for (size_t i = 0; i < c->n && r == 0; i++)
		if (strncmp(c->v[i].key, "//", 2) == 0 && (!i || strcmp(c->v[i - 1].key, c->v[i].key) != 0))
			r = add_login(c, c->v[i].key, pkg_get(c, c->v[i].key), err);
	return r;
}

/* ----------------------------------------------------------------- the others -- */

/* One value, or a list of them: "omit[]=". */
static void add_values(struct pkg_origin *c, const char *key, const char *value)
{
	bool is_list = strchr(value, '\n') != NULL;
	char name[64];

	snprintf(name, sizeof(name), "%s%s", key, is_list ? "[]" : "");
	while (*value) {
		size_t n = strcspn(value, "\n");
		owned_mem char *one = strndup(value, n);

		if (!one)
			c->conf.failed = true;
		else if (n)
			put_setting(&c->conf, name, one);
		value += n + (value[n] == '\n');
	}
}

/* What decides which versions there are, and how they are asked for. */
static void add_plain(struct pkg_origin *c)
{
	static const char *const keys[] = {
		"allow-scripts", "before", "dangerously-allow-all-scripts", "engine-strict",
		"fetch-retries", "fetch-retry-maxtimeout", "fetch-retry-mintimeout", "fetch-timeout",
		"force", "ignore-scripts", "include", "install-strategy", "legacy-peer-deps", "maxsockets",
		"min-release-age", "min-release-age-exclude", "omit", "replace-registry-host",
		"strict-allow-scripts", "strict-peer-deps", "strict-ssl", "tag",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (pkg_get(c, keys[i]))
			add_values(c, keys[i], pkg_get(c, keys[i]));
	c->no_scripts = pkg_true(pkg_get(c, "ignore-scripts"));
}

/* Inline certificates and a file of them, in the place of node's own; and what node itself is
 * told, beside them. */
static int add_certificates(struct pkg_origin *c, struct nsbox_error *err)
{
	const char *file = pkg_get(c, "cafile"), *text = pkg_get(c, "ca");
	const char *more = getenv("NODE_EXTRA_CA_CERTS");
	int r = 0;

	if (text)
		buf_fmt(&c->ca, "%s\n", text);
	if (file)
		r = origin_content(c, &c->ca, "cafile", file, err);
	if (r == 0 && more && *more && access(more, R_OK) == 0) /* node only warns */
		r = origin_content(c, &c->more_ca, "NODE_EXTRA_CA_CERTS", more, err);
	return r;
}

static int add_proxy(struct pkg_origin *c, struct nsbox_error *err)
{
	const char *proxy = pkg_get(c, "https-proxy"), *none = pkg_get(c, "noproxy");

	if (none && strcmp(none, "*") == 0)
		return 0;
	return origin_proxy(c, proxy ? proxy : pkg_get(c, "proxy"), err);
}

int origin_of_npm(struct pkg_origin *c, const struct packages_request *q, struct nsbox_error *err)
{
	const struct interp *node = q->interp;
	int r;

	c->tool = c->name = "npm";
	c->installer = find_npm(node);
	if (!c->installer) {
		err_hint(err, "install npm for it, or put one on PATH");
		return err_set(err, NSBOX_E_UNSUPPORTED, "packages need npm, and there is none for %s",
			       node->program);
	}
	if (read_all(c, node) < 0)
		return err_nomem(err);
	r = add_registries(c, err);
	if (r == 0)
		r = add_logins(c, err);
	if (r == 0)
		r = add_certificates(c, err);
	if (r == 0)
		r = add_proxy(c, err);
	add_plain(c);
	if (r == 0 && (c->conf.failed || c->logins.failed || c->shown.failed || c->ca.failed))
		r = err_nomem(err);
	return r;
}
