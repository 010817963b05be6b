/*
 * packages_origin.c - where packages come from: what the settings of pip and of npm share
 *
 * Owns struct pkg_origin. Runs in the launcher. Must: let the install box reach the hosts that
 * the settings name and nothing else, by any name of theirs; know every login, so that no text
 * for people has one.
 */
#include "runtime/packages.h"

#include <arpa/inet.h>
#include <fcntl.h>
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

void origin_free(struct pkg_origin *c)
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
	free(c->installer);
	buf_free(&c->conf);
	buf_free(&c->logins);
	buf_free(&c->ca);
	buf_free(&c->client);
	buf_free(&c->constraints);
	buf_free(&c->names);
	buf_free(&c->forward);
	buf_free(&c->more_ca);
	buf_free(&c->shown);
	*c = (struct pkg_origin)ORIGIN_INIT;
}

/* ------------------------------------------------------------------- settings -- */

int pkg_set(struct pkg_origin *c, unsigned char rank, const char *key, const char *value)
{
	struct pkg_setting *v;

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
	v[c->n] = (struct pkg_setting){ rank, strdup(key), strdup(value) };
	c->n++;
	return v[c->n - 1].key && v[c->n - 1].value ? 0 : -1;
}

/* An empty value counts as none, as for pip and npm. */
const char *pkg_get(const struct pkg_origin *c, const char *key)
{
	const struct pkg_setting *best = NULL;

	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].key, key) == 0 && c->v[i].value[0] &&
		    (!best || c->v[i].rank > best->rank))
			best = &c->v[i];
	return best ? best->value : NULL;
}

bool pkg_true(const char *value)
{
	static const char *const words[] = { "1", "y", "yes", "t", "true", "on" };

	for (size_t i = 0; value && i < ARRAY_SIZE(words); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

/* In the order of PATH; an empty or relative entry would be the code's own folder. */
char *origin_on_path(char *(*find)(const char *dir))
{
	const char *at = getenv("PATH");
	char *found = NULL;

	while (!found && at && *at) {
		size_t n = strcspn(at, ":");
		owned_mem char *dir = strndup(at, n);

		found = dir && dir[0] == '/' ? find(dir) : NULL;
		at += n + (at[n] == ':');
	}
	return found;
}

/* ---------------------------------------------------------------------- hosts -- */

int origin_secret(struct pkg_origin *c, const char *text)
{
	return text && *text ? strlist_add(&c->secrets, text) : 0;
}

int origin_host(struct pkg_origin *c, const char *host, unsigned port)
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
int origin_rename(struct pkg_origin *c, char **host, bool *is_renamed)
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
	if (c->names.len && strstr(buf_text(&c->names), name)) /* told before */
		addresses[0][0] = addresses[1][0] = '\0';
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
void origin_put_url(struct buf *out, const struct index_url *u)
{
	const char *rest = strstr(u->bare, "://") + 3;

	buf_add(out, u->bare, (size_t)(rest - u->bare));
	buf_fmt(out, "%s:%u%s", u->host, u->port, u->path);
}

int origin_refuse_url(const struct pkg_origin *c, const char *key, struct nsbox_error *err)
{
	err_hint(err, "look at it with: %s config list", c->tool);
	return err_set(err, NSBOX_E_USAGE, /* not shown: it may hold a password */
		       "%s's setting %s is no URL that a box can use", c->tool, key);
}

/* ---------------------------------------------------------------------- others -- */

int origin_content(const struct pkg_origin *c, struct buf *out, const char *what, const char *path,
		   struct nsbox_error *err)
{
	owned_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, out) < 0) {
		err_hint(err, "look at it with: %s config list", c->tool);
		return err_set(err, NSBOX_E_USAGE, "%s of %s's settings is no file to read: %s", what,
			       c->tool, path);
	}
	return out->failed ? err_nomem(err) : 0;
}

static const char *variable(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	value = value && *value ? value : getenv(upper);
	return value && *value ? value : NULL;
}

/* The tool's own setting, or what every program takes; a box goes out by it as a whole. */
int origin_proxy(struct pkg_origin *c, const char *proxy, struct nsbox_error *err)
{
	owned(index_url_free) struct index_url u = { 0 };
	const char *none = variable("no_proxy", "NO_PROXY");
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
		return origin_refuse_url(c, "proxy", err);
	if (strlen(c->proxy) && c->proxy[strlen(c->proxy) - 1] == '/')
		c->proxy[strlen(c->proxy) - 1] = '\0';
	return origin_secret(c, u.password) < 0 ? err_nomem(err) : 0;
}

/* ------------------------------------------------------------------- addresses -- */

static int add_private(struct pkg_origin *c, const struct sockaddr *sa)
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

/* The caller named these hosts in the settings, so that their addresses may be private:
 * exactly those that the names have now. A name without one is the install's business. */
static int resolve(struct pkg_origin *c, const char *text, struct nsbox_error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct entry_error bad = { 0 };
	struct addrinfo *list = NULL;
	struct host_port h;
	int r = 0;

	if (host_port_split(&h, text, &bad) < 0)
		return err_set(err, NSBOX_E_USAGE, "the settings of %s name no host", c->tool);
	if (getaddrinfo(h.host, NULL, &hints, &list) != 0)
		return 0;
	for (const struct addrinfo *a = list; a && r == 0; a = a->ai_next)
		if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
			r = add_private(c, a->ai_addr);
	freeaddrinfo(list);
	return r < 0 ? err_nomem(err) : 0;
}

int origin_resolve(struct pkg_origin *c, struct nsbox_error *err)
{
	int r = 0;

	for (size_t i = 0; i < c->hosts.n && !c->proxy && r == 0; i++)
		r = resolve(c, c->hosts.v[i], err);
	return r;
}
