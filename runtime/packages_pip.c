/*
 * packages_pip.c - what the caller's own pip would do: its files, its variables
 *
 * Runs in the launcher. Must: take the same files in the same order as pip (>= 20), and keep
 * every login out of the texts that are shown, hashed or stored. Mustn't: ask an index that
 * pip would not ask, or run pip.
 */
#include "runtime/packages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/egress_block.h"
#include "policy/egress_entry.h"
#include "policy/packages.h"
#include "rootfs/paths.h"

#define DEFAULT_INDEX "https://pypi.org/simple"
#define DEFAULT_FILES "files.pythonhosted.org:443" /* where that one keeps its files */

enum { CONF_MAX = 1 << 20, RANK_ENV = 2 };

void pip_config_free(struct pip_config *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].key);
		free(c->v[i].value);
	}
	free(c->v);
	strlist_free(&c->folders);
	strlist_free(&c->hosts);
	strlist_free(&c->trusted);
	strlist_free(&c->private);
	strlist_free(&c->secrets);
	free(c->proxy);
	buf_free(&c->conf);
	buf_free(&c->netrc);
	buf_free(&c->ca);
	buf_free(&c->client);
	buf_free(&c->constraints);
	buf_free(&c->names);
	buf_free(&c->shown);
	*c = (struct pip_config)PIP_CONFIG_INIT;
}

/* ------------------------------------------------------------------- settings -- */

static int set(struct pip_config *c, unsigned char rank, const char *key, const char *value)
{
	struct pip_setting *v;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].rank == rank && strcmp(c->v[i].key, key) == 0) {
			free(c->v[i].value);
			c->v[i].value = strdup(value);
			return c->v[i].value ? 0 : -1;
		}
	v = realloc(c->v, (c->n + 1) * sizeof(*v));
	if (!v)
		return -1;
	c->v = v;
	v[c->n] = (struct pip_setting){ rank, strdup(key), strdup(value) };
	c->n++;
	return v[c->n - 1].key && v[c->n - 1].value ? 0 : -1;
}

/* An empty value counts as none, as for pip. */
static const char *get(const struct pip_config *c, const char *key)
{
	const struct pip_setting *best = NULL;

	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].key, key) == 0 && c->v[i].value[0] &&
		    (!best || c->v[i].rank > best->rank))
			best = &c->v[i];
	return best ? best->value : NULL;
}

static bool is_true(const char *value)
{
	static const char *const words[] = { "1", "y", "yes", "t", "true", "on" };

	for (size_t i = 0; value && i < ARRAY_SIZE(words); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

static int take(void *arg, const char *section, const char *key, const char *value)
{
	if (strcmp(section, "global") == 0)
		return set(arg, 0, key, value);
	return strcmp(section, "install") == 0 ? set(arg, 1, key, value) : 0;
}

static int read_file(struct pip_config *c, const char *path)
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

static int read_below(struct pip_config *c, const char *folder, const char *rest)
{
	owned_mem char *path = folder && folder[0] == '/' ? path_join(folder, rest) : NULL;

	if (!path)
		return folder && folder[0] == '/' ? -1 : 0;
	return read_file(c, path);
}

/* $XDG_CONFIG_DIRS, the most important one last. */
static int read_global(struct pip_config *c)
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

static int read_user(struct pip_config *c)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	int r = read_below(c, home, ".pip/pip.conf");

	if (r == 0)
		r = xdg && *xdg ? read_below(c, xdg, "pip/pip.conf")
				: read_below(c, home, ".config/pip/pip.conf");
	return r;
}

/* PREFIX/pip.conf, of PREFIX/bin/python. */
static int read_site(struct pip_config *c, const char *program)
{
	owned_mem char *bin = path_parent(program);
	owned_mem char *prefix = bin ? path_parent(bin) : NULL;

	return prefix ? read_below(c, prefix, "pip.conf") : 0;
}

static int read_variables(struct pip_config *c)
{
	int r = 0;

	for (char **e = environ; e && *e && r == 0; e++) {
		const char *equals = strchr(*e, '=');
		char name[64], key[64];

		if (strncmp(*e, "PIP_", 4) != 0 || !equals || equals - *e >= 64)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(equals - *e), *e);
		pip_key(name, key);
		r = set(c, RANK_ENV, key, equals + 1);
	}
	return r;
}

static int read_all(struct pip_config *c, const char *program)
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

static int add_secret(struct pip_config *c, const char *text)
{
	return text && *text ? strlist_add(&c->secrets, text) : 0;
}

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
static int add_login(struct pip_config *c, const struct index_url *u)
{
	if (!u->user)
		return 0;
	buf_fmt(&c->netrc, "machine %s", u->host);
	add_token(&c->netrc, "login", u->user);
	add_token(&c->netrc, "password", u->password);
	buf_char(&c->netrc, '\n');
	if (add_secret(c, u->password) < 0)
		return -1;
	return u->password[0] ? 0 : add_secret(c, u->user); /* a token without a password */
}

static int add_host(struct pip_config *c, const char *host, unsigned port)
{
	char text[300];

	snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return strlist_has(&c->hosts, text) ? 0 : strlist_add(&c->hosts, text);
}

/* 127.0.0.1, localhost: addresses[0] and, for the name, [1]; false: something else. */
static bool is_loopback(const char *host, char addresses[2][EGRESS_ADDR_TEXT])
{
	struct egress_addr a;
	bool is_name = strcmp(host, "localhost") == 0;

	if (!is_name && strcmp(host, "::1") != 0 &&
	    !(addr_parse_loose(&a, host) && a.family == 4 && a.bytes[0] == 127))
		return false;
	addresses[1][0] = '\0';
	if (is_name || strcmp(host, "::1") == 0)
		snprintf(addresses[is_name], EGRESS_ADDR_TEXT, "::1");
	if (is_name)
		snprintf(addresses[0], EGRESS_ADDR_TEXT, "127.0.0.1");
	else if (strcmp(host, "::1") != 0)
		egress_addr_text(&a, addresses[0]);
	return true;
}

/*
 * The loopback of a box is its own: what connects there never leaves it. So the install box
 * knows the host's by another name, which only its supervisor can look up.
 */
static int rename_loopback(struct pip_config *c, char **host, bool *is_renamed)
{
	char addresses[2][EGRESS_ADDR_TEXT], name[128];
	int r = 0;

	*is_renamed = is_loopback(*host, addresses);
	if (!*is_renamed)
		return 0;
	snprintf(name, sizeof(name), "%s.loopback.nsbox.internal",
		 addresses[1][0] ? "name" : addresses[0]);
	for (char *p = name; strncmp(p, ".loopback", 9) != 0; p++)
		*p = (char)(*p == '.' ? '-' : *p == ':' ? '0' : *p);
	for (int i = 0; i < 2 && addresses[i][0] && r == 0; i++) {
		buf_fmt(&c->names, "%s %s\n", addresses[i], name);
		if (!strlist_has(&c->private, addresses[i]))
			r = strlist_add(&c->private, addresses[i]);
	}
	free(*host);
	*host = strdup(name);
	return *host ? r : -1;
}

/* The URL without its login, and with the host as the install box knows it. */
static void put_url(struct buf *out, const struct index_url *u)
{
	const char *rest = strstr(u->bare, "://") + 3;

	buf_add(out, u->bare, (size_t)(rest - u->bare));
	buf_fmt(out, "%s:%u%s", u->host, u->port, u->path);
}

/* A folder of the host under the name that it has in the install box. */
static int add_folder(struct pip_config *c, const char *path, const char *scheme)
{
	if (access(path, F_OK) < 0) /* pip only warns */
		return 0;
	if (strlist_add(&c->folders, path) < 0)
		return -1;
	buf_fmt(&c->conf, "%s/index/%zu", scheme, c->folders.n - 1);
	buf_fmt(&c->shown, "%s%s", c->shown.len ? ", " : "", path);
	return 0;
}

static int refuse_url(const struct pip_config *c, const char *key, struct nsbox_error *err)
{
	(void)c;
	err_hint(err, "look at it with: pip config list");
	return err_set(err, NSBOX_E_USAGE, /* not shown: it may hold a password */
		       "pip's setting %s is no URL of http, https or file", key);
}

/* One URL of @key: appended to the conf, without its login. */
static int add_url(struct pip_config *c, const char *key, const char *text,
		   struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	bool is_renamed;
	int r;

	if (!index_url_parse(&u, text))
		return refuse_url(c, key, err);
	if (u.is_file)
		return add_folder(c, u.path, "file://") < 0 ? err_nomem(err) : 0;
	buf_fmt(&c->shown, "%s%s", c->shown.len ? ", " : "", u.bare);
	r = rename_loopback(c, &u.host, &is_renamed);
	if (r == 0)
		r = add_host(c, u.host, u.port);
	if (r == 0 && is_renamed) /* as pip trusts the loopback without being told */
		r = strlist_add(&c->trusted, u.host);
	if (r == 0 && strcmp(u.host, "pypi.org") == 0 && !strlist_has(&c->hosts, DEFAULT_FILES))
		r = strlist_add(&c->hosts, DEFAULT_FILES);
	if (r == 0)
		r = add_login(c, &u);
	if (r == 0 && is_renamed)
		put_url(&c->conf, &u);
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

static int add_link(struct pip_config *c, const char *text, struct nsbox_error *err)
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
static int add_trusted(struct pip_config *c, const char *text, struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	bool has_port = strchr(text, ':') != NULL;
	char url[512];
	int r;

	if (snprintf(url, sizeof(url), "https://%s", text) >= (int)sizeof(url) ||
	    !index_url_parse(&u, url) || u.user || u.path[0])
		return refuse_url(c, "trusted-host", err);
	r = strlist_add(&c->trusted, text);
	if (r == 0)
		r = add_host(c, u.host, u.port);
	if (r == 0 && !has_port)
		r = add_host(c, u.host, 80);
	return r < 0 ? err_nomem(err) : 0;
}

static int add_list(struct pip_config *c, const char *key,
		    int (*add)(struct pip_config *c, const char *text, struct nsbox_error *err),
		    struct nsbox_error *err)
{
	const char *at = get(c, key), *end;
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

static int add_extra(struct pip_config *c, const char *text, struct nsbox_error *err)
{
	return add_url(c, "extra-index-url", text, err);
}

static int add_indexes(struct pip_config *c, struct nsbox_error *err)
{
	const char *index = get(c, "index-url");
	int r = 0;

	buf_str(&c->conf, "[global]\n");
	if (is_true(get(c, "no-index"))) {
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

static void add_plain(struct pip_config *c)
{
	static const char *const keys[] = {
		"only-binary", "no-binary", "prefer-binary", "pre", "timeout", "default-timeout",
		"retries", "require-hashes", "no-deps",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *value = get(c, keys[i]);

		if (!value)
			continue;
		buf_fmt(&c->conf, "%s = ", keys[i]);
		for (; *value; value++) /* as one line */
			buf_char(&c->conf, *value == '\n' ? ' ' : *value);
		buf_char(&c->conf, '\n');
	}
}

static int add_content(struct buf *out, const char *what, const char *path,
		       struct nsbox_error *err)
{
	owned_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, out) < 0) {
		err_hint(err, "look at it with: pip config list");
		return err_set(err, NSBOX_E_USAGE, "%s of pip's settings is no file to read: %s", what,
			       path);
	}
	return out->failed ? err_nomem(err) : 0;
}

static int add_files(struct pip_config *c, struct nsbox_error *err)
{
	static const char *const bundles[] = { "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
					       "SSL_CERT_FILE" };
	const char *cert = get(c, "cert"), *client = get(c, "client-cert");
	const char *at = get(c, "constraint"), *end;
	int r = 0;

	for (size_t i = 0; !cert && i < ARRAY_SIZE(bundles); i++)
		cert = getenv(bundles[i]);
	if (cert && *cert)
		r = add_content(&c->ca, "cert", cert, err);
	if (r == 0 && client)
		r = add_content(&c->client, "client-cert", client, err);
	while (r == 0 && at && (end = next_word(&at))) {
		owned_mem char *path = strndup(at, (size_t)(end - at));

		r = path ? add_content(&c->constraints, "constraint", path, err) : err_nomem(err);
		buf_char(&c->constraints, '\n');
		at = end;
	}
	return r;
}

static const char *variable(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	value = value && *value ? value : getenv(upper);
	return value && *value ? value : NULL;
}

/* pip's own setting, or what every program takes; a box goes out by it as a whole. */
static int add_proxy(struct pip_config *c, struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	const char *proxy = get(c, "proxy"), *none = variable("no_proxy", "NO_PROXY");
	struct buf url = BUF_INIT(8192);

	if (!proxy && !(none && strcmp(none, "*") == 0))
		proxy = variable("https_proxy", "HTTPS_PROXY");
	if (!proxy || !c->hosts.n)
		return 0;
	buf_fmt(&url, "%s%s", strstr(proxy, "://") ? "" : "http://", proxy);
	c->proxy = buf_take(&url);
	buf_free(&url);
	if (!c->proxy)
		return err_nomem(err);
	if (!index_url_parse(&u, c->proxy) || u.is_file)
		return refuse_url(c, "proxy", err);
	if (strlen(c->proxy) && c->proxy[strlen(c->proxy) - 1] == '/')
		c->proxy[strlen(c->proxy) - 1] = '\0';
	return add_secret(c, u.password) < 0 ? err_nomem(err) : 0;
}

int pip_config_read(struct pip_config *c, const char *program, struct nsbox_error *err)
{
	int r = read_all(c, program);

	if (r < 0)
		return err_nomem(err);
	r = add_indexes(c, err);
	if (r == 0)
		r = add_files(c, err);
	if (r == 0)
		r = add_proxy(c, err);
	add_plain(c);
	if (r == 0 && (c->conf.failed || c->netrc.failed || c->shown.failed))
		r = err_nomem(err);
	return r;
}

/* ------------------------------------------------------------------- addresses -- */

static int add_private(struct pip_config *c, const struct sockaddr *sa)
{
	struct egress_addr a = { .family = sa->sa_family == AF_INET6 ? 6 : 4 };
	char text[EGRESS_ADDR_TEXT];

	if (a.family == 6)
		memcpy(a.bytes, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
	else
		memcpy(a.bytes, &((const struct sockaddr_in *)sa)->sin_addr, 4);
	if (!private_range(&a) || private_is_fake(&a))
		return 0;
	egress_addr_text(&a, text);
	return strlist_has(&c->private, text) ? 0 : strlist_add(&c->private, text);
}

/* The caller named these hosts in pip's settings, so that their addresses may be private:
 * exactly those that the names have now. A name without one is the install's business. */
static int resolve(struct pip_config *c, const char *text, struct nsbox_error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct entry_error bad = { 0 };
	struct addrinfo *list = NULL;
	struct host_port h;
	int r = 0;

	if (host_port_split(&h, text, &bad) < 0)
		return err_set(err, NSBOX_E_USAGE, "pip's setting of an index names no host");
	if (getaddrinfo(h.host, NULL, &hints, &list) != 0)
		return 0;
	for (const struct addrinfo *a = list; a && r == 0; a = a->ai_next)
		if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
			r = add_private(c, a->ai_addr);
	freeaddrinfo(list);
	return r < 0 ? err_nomem(err) : 0;
}

int pip_config_resolve(struct pip_config *c, struct nsbox_error *err)
{
	int r = 0;

	for (size_t i = 0; i < c->hosts.n && !c->proxy && r == 0; i++)
		r = resolve(c, c->hosts.v[i], err);
	return r;
}
