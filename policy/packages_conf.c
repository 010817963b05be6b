/*
 * pip.conf and index URLs as text.
 *
 * Pure; fuzzed. Must read a file as pip does (RawConfigParser: no interpolation, comments
 * on lines of their own), so that an index that pip would not ask is not asked here.
 */
#include "policy/packages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

enum { VALUE_MAX = 64 * 1024, URL_MAX = 4096 };

void pip_key(const char *name, char out[64])
{
	size_t n = 0;

	if (strncmp(name, "PIP_", 4) == 0)
		name += 4;
	while (*name == '-')
		name++;
	for (; *name && n < 63; name++)
		out[n++] = (char)(*name == '_' ? '-'
				  : *name >= 'A' && *name <= 'Z' ? *name + 32 : *name);
	out[n] = '\0';
}

/* --------------------------------------------------------------------- files -- */

struct conf {
	char section[64], key[64];
	struct buf value;
	pip_take take;
	void *arg;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void add_value(struct conf *c, const char *s, size_t n)
{
	while (n && is_blank(*s)) {
		s++;
		n--;
	}
	while (n && is_blank(s[n - 1]))
		n--;
	if (n && c->value.len)
		buf_char(&c->value, '\n');
	buf_add(&c->value, s, n);
}

static int end_value(struct conf *c)
{
	int r = 0;

	if (c->key[0] && c->section[0])
		r = c->value.failed ? -1 : c->take(c->arg, c->section, c->key, buf_text(&c->value));
	c->key[0] = '\0';
	buf_clear(&c->value);
	return r;
}

static void begin_section(struct conf *c, const char *line, size_t n)
{
	const char *end = memchr(line, ']', n);

	snprintf(c->section, sizeof(c->section), "%.*s", end ? (int)(end - line - 1) : 0, line + 1);
}

static void begin_value(struct conf *c, const char *line, size_t n)
{
	char name[64];
	size_t k = 0;

	while (k < n && line[k] != '=' && line[k] != ':')
		k++;
	if (k == n || !k)
		return;
	snprintf(name, sizeof(name), "%.*s", (int)(k < 63 ? k : 63), line);
	for (size_t i = strlen(name); i > 0 && is_blank(name[i - 1]); i--)
		name[i - 1] = '\0';
	pip_key(name, c->key);
	add_value(c, line + k + 1, n - k - 1);
}

/* A line that begins with a blank goes on with the value; a comment does not end it. */
static int take_line(struct conf *c, const char *line, size_t n)
{
	size_t indent = 0;
	int r;

	while (indent < n && is_blank(line[indent]))
		indent++;
	if (indent == n || line[indent] == '#' || line[indent] == ';')
		return 0;
	if (indent && c->key[0]) {
		add_value(c, line, n);
		return 0;
	}
	r = end_value(c);
	line += indent;
	n -= indent;
	if (*line == '[')
		begin_section(c, line, n);
	else
		begin_value(c, line, n);
	return r;
}

int pip_conf_read(const char *text, size_t len, pip_take take, void *arg)
{
	struct conf c = { .value = BUF_INIT(VALUE_MAX), .take = take, .arg = arg };
	const char *end = text + len;
	int r = 0;

	while (text < end && r >= 0) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);

		r = memchr(text, '\0', n) ? 0 : take_line(&c, text, n);
		text += n + 1;
	}
	if (r >= 0)
		r = end_value(&c);
	buf_free(&c.value);
	return r;
}

/* ---------------------------------------------------------------------- URLs -- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %41 -> A; NULL: out of memory, or a NUL byte in it. */
static char *decoded(const char *s, size_t n)
{
	char *out = malloc(n + 1);
	size_t k = 0;

	for (size_t i = 0; out && i < n; i++) {
		int high = s[i] == '%' && i + 2 < n ? hex_digit(s[i + 1]) : -1;
		int low = high < 0 ? -1 : hex_digit(s[i + 2]);

		out[k++] = low < 0 ? s[i] : (char)(high * 16 + low);
		i += low < 0 ? 0 : 2;
	}
	if (out)
		out[k] = '\0';
	if (out && strlen(out) != k) {
		free(out);
		return NULL;
	}
	return out;
}

void index_url_free(struct index_url *u)
{
	free(u->bare);
	free(u->host);
	free(u->user);
	free(u->password);
	free(u->path);
	*u = (struct index_url){ 0 };
}

static bool take_login(struct index_url *u, const char *s, size_t n)
{
	const char *colon = memchr(s, ':', n);
	size_t user = colon ? (size_t)(colon - s) : n;

	u->user = decoded(s, user);
	u->password = colon ? decoded(colon + 1, n - user - 1) : strdup("");
	return u->user && u->password;
}

/* HOST, HOST:PORT, [::1]:PORT */
static bool take_host(struct index_url *u, const char *s, size_t n)
{
	const char *close = n && *s == '[' ? memchr(s, ']', n) : NULL;
	const char *rest = close ? close + 1 : s;
	const char *colon = memchr(rest, ':', n - (size_t)(rest - s));
	size_t host = close ? (size_t)(close - s - 1) : colon ? (size_t)(colon - s) : n;
	char number[8];
	uint64_t port;

	if (!host || (n && *s == '[' && !close) || (close && rest < s + n && rest != colon))
		return false;
	u->host = strndup(close ? s + 1 : s, host);
	for (char *c = u->host; c && *c; c++) {
		if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f)
			return false;
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
	}
	if (!u->host || !colon || colon + 1 == s + n)
		return u->host != NULL;
	snprintf(number, sizeof(number), "%.*s", (int)(s + n - colon - 1 < 7 ? s + n - colon - 1 : 7),
		 colon + 1);
	if (num_uint(number, 1, UINT16_MAX, &port) < 0)
		return false;
	u->port = (uint16_t)port;
	return true;
}

static bool take_web(struct index_url *u, const char *text, const char *rest)
{
	size_t n = strcspn(rest, "/?#"), login = 0;
	struct buf bare = BUF_INIT(URL_MAX);

	for (size_t i = 0; i < n; i++) /* the last one: a password may have an @ */
		if (rest[i] == '@')
			login = i + 1;
	if ((login && !take_login(u, rest, login - 1)) || !take_host(u, rest + login, n - login))
		return false;
	buf_add(&bare, text, (size_t)(rest - text));
	buf_str(&bare, rest + login);
	u->bare = buf_take(&bare);
	buf_free(&bare);
	u->path = strdup(rest + n);
	return u->bare && u->path;
}

static bool take_file(struct index_url *u, const char *text, const char *rest)
{
	if (strncmp(rest, "localhost/", 10) == 0)
		rest += 9;
	u->is_file = true;
	u->bare = strdup(text);
	u->host = strdup("");
	u->path = decoded(rest, strlen(rest));
	return u->bare && u->host && u->path && u->path[0] == '/';
}

static bool parse(struct index_url *u, const char *text)
{
	static const struct {
		const char *head;
		uint16_t port;
	} schemes[] = { { "https://", 443 }, { "http://", 80 }, { "file://", 0 } };

	for (const char *c = text; *c; c++)
		if ((unsigned char)*c <= 0x20 || *c == 0x7f)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(schemes) && strlen(text) < URL_MAX; i++) {
		size_t n = strlen(schemes[i].head);

		if (strncasecmp(text, schemes[i].head, n) != 0)
			continue;
		u->port = schemes[i].port;
		return schemes[i].port ? take_web(u, text, text + n) : take_file(u, text, text + n);
	}
	return false;
}

bool index_url_parse(struct index_url *out, const char *text)
{
	struct index_url u = { 0 };

	if (!parse(&u, text)) {
		index_url_free(&u);
		return false;
	}
	*out = u;
	return true;
}
