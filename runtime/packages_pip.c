/*
 * packages_pip.c - what the caller's own pip would do: its files, its variables
 *
 * Runs in the launcher. Must: take the same files in the same order as pip (>= 20), and keep
 * every login out of the texts that are shown, hashed or stored. Mustn't: ask an index that
 * pip would not ask, or run pip.
 */
#include "runtime/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/packages.h"
#include "policy/policy.h"
#include "rootfs/paths.h"

#define DEFAULT_INDEX "https://pypi.org/simple"
#define DEFAULT_FILES "files.pythonhosted.org:443" /* where that one keeps its files */

enum { CONF_MAX = 1 << 20, RANK_ENV = 2 };

/* ------------------------------------------------------------------- settings -- */

static int take(void *arg, const char *section, const char *key, const char *value)
{
	if (strcmp(section, "global") == 0)
		return pkg_set(arg, 0, key, value);
	return strcmp(section, "install") == 0 ? pkg_set(arg, 1, key, value) : 0;
}

static int read_file(struct pkg_origin *c, const char *path)
{
	owned_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct buf text = BUF_INIT(CONF_MAX);
	struct stat st;
	int r = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, &text) == 0)
		r = pip_conf_read(buf_text(&text), text.len, take, c);
	buf_free(&text);
	return r;
}

static int read_below(struct pkg_origin *c, const char *folder, const char *rest)
{
	owned_mem char *path = folder && folder[0] == '/' ? path_join(folder, rest) : NULL;

	if (!path)
		return folder && folder[0] == '/' ? -1 : 0;
	return read_file(c, path);
}

/* $XDG_CONFIG_DIRS, the most important one last. */
static int read_global(struct pkg_origin *c)
{
	const char *dirs = getenv("XDG_CONFIG_DIRS");
	int r = 0;

	if (!dirs || !*dirs)
		dirs = "/etc/xdg";
	for (const char *end = dirs + strlen(dirs); r == 0 && end > dirs;) {
		const char *at = end;
		owned_mem char *one = NULL;

		while (at > dirs && at[-1] != ':')
			at--;
		one = strndup(at, (size_t)(end - at));
		r = one ? read_below(c, one, "pip/pip.conf") : -1;
		end = at > dirs ? at - 1 : dirs;
	}
	return r < 0 ? r : read_file(c, "/etc/pip.conf");
}

static int read_user(struct pkg_origin *c)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	int r = read_below(c, home, ".pip/pip.conf");

	if (r == 0)
		r = xdg && *xdg ? read_below(c, xdg, "pip/pip.conf")
				: read_below(c, home, ".config/pip/pip.conf");
	return r;
}

/* PREFIX/pip.conf, of PREFIX/bin/python. */
static int read_site(struct pkg_origin *c, const char *program)
{
	owned_mem char *bin = path_parent(program);
	owned_mem char *prefix = bin ? path_parent(bin) : NULL;

	return prefix ? read_below(c, prefix, "pip.conf") : 0;
}

static int read_variables(struct pkg_origin *c)
{
	int r = 0;

	for (char **e = environ; e && *e && r == 0; e++) {
		const char *equals = strchr(*e, '=');
		char name[64], key[64];

		if (strncmp(*e, "PIP_", 4) != 0 || !equals || equals - *e >= 64)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(equals - *e), *e);
		pip_key(name, key);
		r = pkg_set(c, RANK_ENV, key, equals + 1);
	}
	return r;
}

static int read_all(struct pkg_origin *c, const char *program)
{
	const char *named = getenv("PIP_CONFIG_FILE");
	bool is_none = named && strcmp(named, "/dev/null") == 0;
	int r = is_none ? 0 : read_global(c);

	if (r == 0 && !is_none && !(named && access(named, F_OK) == 0))
		r = read_user(c);
	if (r == 0 && !is_none)
		r = read_site(c, program);
	if (r == 0 && named && !is_none)
		r = read_file(c, named);
	return r < 0 ? r : read_variables(c);
}

/* ----------------------------------------------------------------------- URLs -- */

static void add_token(struct buf *b, const char *word, const char *value)
{
	/* Before 3.11 the quotes would be part of the value. */
	bool needs_quotes = !*value || strpbrk(value, " \t\"\\#");

	buf_fmt(b, " %s %s", word, needs_quotes ? "\"" : "");
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			buf_char(b, '\\');
		buf_char(b, *value);
	}
	if (needs_quotes)
		buf_char(b, '"');
}

/* The login goes into a netrc: pip puts URLs on the command lines of its own children. */
static int add_login(struct pkg_origin *c, const struct index_url *u)
{
	if (!u->user)
		return 0;
	buf_fmt(&c->logins, "machine %s", u->host);
	add_token(&c->logins, "login", u->user);
	add_token(&c->logins, "password", u->password);
	buf_char(&c->logins, '\n');
	if (origin_secret(c, u->password) < 0)
		return -1;
	return u->password[0] ? 0 : origin_secret(c, u->user); /* a token without a password */
}

/* pip asks for a login by the host's name alone. NETRC names the file, else it is the user's. */
static int add_netrc(struct pkg_origin *c, const char *host, const char *name_in_box)
{
	const char *named = getenv("NETRC"), *home = getenv("HOME");
	owned_mem char *own = home && home[0] == '/' ? path_join(home, ".netrc") : NULL;
	const char *path = named && *named ? named : own;
	owned_fd int fd = path ? openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct buf text = BUF_INIT(CONF_MAX), login = BUF_INIT(8192), password = BUF_INIT(8192);
	struct index_url u = { .host = (char *)(uintptr_t)name_in_box };
	struct stat st;
	int r = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, &text) == 0 &&
	    netrc_find(buf_text(&text), text.len, host, &login, &password)) {
		u.user = (char *)(uintptr_t)buf_text(&login);
		u.password = (char *)(uintptr_t)buf_text(&password);
		r = add_login(c, &u);
	}
	buf_free(&text);
	buf_free(&login);
	buf_free(&password);
	return r;
}

/* A folder of the host under the name that it has in the install box. */
static int add_folder(struct pkg_origin *c, const char *path, const char *scheme)
{
	if (access(path, F_OK) < 0) /* pip only warns */
		return 0;
	if (strlist_add(&c->folders, path) < 0)
		return -1;
	buf_fmt(&c->conf, "%s/index/%zu", scheme, c->folders.n - 1);
	buf_fmt(&c->shown, "%s%s", c->shown.len ? ", " : "", path);
	return 0;
}

/* One URL of @key: appended to the conf, without its login. */
static int add_url(struct pkg_origin *c, const char *key, const char *text,
		   struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	owned_mem char *host = NULL;
	bool is_renamed;
	int r;

	if (!index_url_parse(&u, text))
		return origin_refuse_url(c, key, err);
	if (u.is_file)
		return add_folder(c, u.path, "file://") < 0 ? err_nomem(err) : 0;
	buf_fmt(&c->shown, "%s%s", c->shown.len ? ", " : "", u.bare);
	host = strdup(u.host);
	r = host ? origin_rename(c, &u.host, &is_renamed) : -1;
	if (r == 0)
		r = origin_host(c, u.host, u.port);
	if (r == 0 && is_renamed) /* as pip trusts the loopback without being told */
		r = strlist_add(&c->trusted, u.host);
	if (r == 0 && strcmp(u.host, "pypi.org") == 0 && !strlist_has(&c->hosts, DEFAULT_FILES))
		r = strlist_add(&c->hosts, DEFAULT_FILES);
	if (r == 0 && !u.user)
		r = add_netrc(c, host, u.host);
	if (r == 0)
		r = add_login(c, &u);
	if (r == 0 && is_renamed)
		origin_put_url(&c->conf, &u);
	else
		buf_str(&c->conf, u.bare);
	return r < 0 ? err_nomem(err) : 0;
}

/* The next word of a list; its end, or NULL. */
static const char *next_word(const char **at)
{
	*at += strspn(*at, " \t\n");
	return **at ? *at + strcspn(*at, " \t\n") : NULL;
}

static int add_link(struct pkg_origin *c, const char *text, struct nsbox_error *err)
{
	const char *home = getenv("HOME");
	owned_mem char *path = NULL;
	char cwd[PATH_MAX];

	if (strstr(text, "://"))
		return add_url(c, "find-links", text, err);
	if (strncmp(text, "~/", 2) == 0 && home)
		path = path_join(home, text + 2);
	else if (text[0] != '/' && getcwd(cwd, sizeof(cwd)))
		path = path_join(cwd, text);
	else
		path = strdup(text);
	return !path || add_folder(c, path, "") < 0 ? err_nomem(err) : 0;
}

/* HOST or HOST:PORT: certificates are not looked at; and one more place to reach. */
static int add_trusted(struct pkg_origin *c, const char *text, struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	bool has_port = strchr(text, ':') != NULL;
	char url[512];
	int r;

	if (snprintf(url, sizeof(url), "https://%s", text) >= (int)sizeof(url) ||
	    !index_url_parse(&u, url) || u.user || u.path[0])
		return origin_refuse_url(c, "trusted-host", err);
	r = strlist_add(&c->trusted, text);
	if (r == 0)
		r = origin_host(c, u.host, u.port);
	if (r == 0)
		r = add_netrc(c, u.host, u.host);
	if (r == 0 && !has_port)
		r = origin_host(c, u.host, 80);
	return r < 0 ? err_nomem(err) : 0;
}

static int add_list(struct pkg_origin *c, const char *key,
		    int (*add)(struct pkg_origin *c, const char *text, struct nsbox_error *err),
		    struct nsbox_error *err)
{
	const char *at = pkg_get(c, key), *end;
	int r = 0;

	if (!at)
		return 0;
	if (add != add_trusted)
		buf_fmt(&c->conf, "%s =", key);
	while (r == 0 && (end = next_word(&at))) {
		owned_mem char *word = strndup(at, (size_t)(end - at));

		if (add != add_trusted)
			buf_str(&c->conf, "\n  ");
		r = word ? add(c, word, err) : err_nomem(err);
		at = end;
	}
	buf_char(&c->conf, '\n');
	return r;
}

static int add_extra(struct pkg_origin *c, const char *text, struct nsbox_error *err)
{
	return add_url(c, "extra-index-url", text, err);
}

static int add_indexes(struct pkg_origin *c, struct nsbox_error *err)
{
	const char *index = pkg_get(c, "index-url");
	int r = 0;

	buf_str(&c->conf, "[global]\n");
	if (pkg_true(pkg_get(c, "no-index"))) {
		buf_str(&c->conf, "no-index = true\n");
	} else {
		buf_str(&c->conf, "index-url = ");
		r = add_url(c, "index-url", index ? index : DEFAULT_INDEX, err);
		buf_char(&c->conf, '\n');
		if (r == 0)
			r = add_list(c, "extra-index-url", add_extra, err);
		if (r == 0)
			r = add_list(c, "trusted-host", add_trusted, err);
	}
	if (r == 0)
		r = add_list(c, "find-links", add_link, err);
	for (size_t i = 0; i < c->trusted.n; i++)
		buf_fmt(&c->conf, "%s  %s\n", i ? "" : "trusted-host =\n", c->trusted.v[i]);
	return r;
}

/* ----------------------------------------------------------------- the others -- */

static void add_plain(struct pkg_origin *c)
{
	static const char *const keys[] = {
		"only-binary", "no-binary", "prefer-binary", "pre", "timeout", "default-timeout",
		"retries", "require-hashes", "no-deps",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *value = pkg_get(c, keys[i]);

		if (!value)
			continue;
		buf_fmt(&c->conf, "%s = ", keys[i]);
		for (; *value; value++) /* as one line */
			buf_char(&c->conf, *value == '\n' ? ' ' : *value);
		buf_char(&c->conf, '\n');
	}
}

static int add_files(struct pkg_origin *c, struct nsbox_error *err)
{
	static const char *const bundles[] = { "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
					       "SSL_CERT_FILE" };
	const char *cert = pkg_get(c, "cert"), *client = pkg_get(c, "client-cert");
	const char *at = pkg_get(c, "constraint"), *end;
	int r = 0;

	for (size_t i = 0; !cert && i < ARRAY_SIZE(bundles); i++)
		cert = getenv(bundles[i]);
	if (cert && *cert)
		r = origin_content(c, &c->ca, "cert", cert, err);
	if (r == 0 && client)
		r = origin_content(c, &c->client, "client-cert", client, err);
	while (r == 0 && at && (end = next_word(&at))) {
		owned_mem char *path = strndup(at, (size_t)(end - at));

		r = path ? origin_content(c, &c->constraints, "constraint", path, err) : err_nomem(err);
		buf_char(&c->constraints, '\n');
		at = end;
	}
	return r;
}

/* -------------------------------------------------------------------------- uv -- */

/* A program, not the script of a shim: it has to run by itself in a box. */
static bool is_program(const char *path)
{
	owned_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char head[4];

	return fd >= 0 && access(path, X_OK) == 0 && read(fd, head, 4) == 4 &&
	       memcmp(head, "\177ELF", 4) == 0;
}

static char *uv_of(const char *dir)
{
	owned_mem char *file = path_join(dir, "uv");

	return file && is_program(file) ? realpath(file, NULL) : NULL;
}

/* These settings of pip have nothing like them in uv. */
static const char *pip_only(const struct pkg_origin *c)
{
	static const char *const keys[] = { "prefer-binary", "require-hashes" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (pkg_true(pkg_get(c, keys[i])))
			return keys[i];
	return NULL;
}

static int choose_installer(struct pkg_origin *c, int wanted, struct nsbox_error *err)
{
	const char *key = wanted == INSTALLER_PIP ? NULL : pip_only(c);

	if (wanted == INSTALLER_PIP || (wanted == INSTALLER_AUTO && key))
		return 0;
	if (key) {
		err_hint(err, "--set packages.installer=pip");
		return err_set(err, NSBOX_E_UNSUPPORTED, "uv knows nothing like pip's setting %s", key);
	}
	c->installer = origin_on_path(uv_of);
	if (c->installer)
		c->name = "uv";
	if (c->installer || wanted == INSTALLER_AUTO)
		return 0;
	err_hint(err, "a script that starts it is not enough, as the box could not run that");
	return err_set(err, NSBOX_E_UNSUPPORTED, "packages.installer is uv, and there is none on PATH");
}

int origin_of_pip(struct pkg_origin *c, const struct packages_request *q, struct nsbox_error *err)
{
	int r;

	c->tool = c->name = "pip";
	r = read_all(c, q->interp->program);

	if (r < 0)
		return err_nomem(err);
	r = choose_installer(c, q->installer, err);
	if (r == 0)
		r = add_indexes(c, err);
	if (r == 0)
		r = add_files(c, err);
	if (r == 0)
		r = origin_proxy(c, pkg_get(c, "proxy"), err);
	add_plain(c);
	if (r == 0 && (c->conf.failed || c->logins.failed || c->shown.failed))
		r = err_nomem(err);
	return r;
}
