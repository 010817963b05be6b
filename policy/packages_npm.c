/*
 * What npm takes as text: the spec of a package of a registry, and an .npmrc.
 *
 * Pure; fuzzed. Must refuse whatever npm would take for something else than a package of a
 * registry: a flag, a path, an archive, a URL, a git repository, an alias, a second line. Must
 * read an .npmrc as npm does (the module "ini": quotes, escapes, arrays, sections apart).
 */
#include "policy/packages.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/value.h"

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define BLANKS " \t"

enum { NAME_MAX_BYTES = 214, VALUE_BYTES = 256 * 1024 };

/* ----------------------------------------------------------------------- specs -- */

static int refuse(const char *spec, const char *why, const char *hint, struct nsbox_error *err)
{
	if (hint)
		err_hint(err, "%s", hint);
	return err_set(err, NSBOX_E_POLICY, "packages.list: \"%s\" %s", SHOWN(spec), why);
}

static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

/* As npm judges a name or a version: it would open such a file. */
static bool is_archive(const char *s, size_t n)
{
	static const char *const tails[] = { ".tgz", ".tar.gz", ".tar" };

	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		size_t t = strlen(tails[i]);

		if (n > t && strncasecmp(s + n - t, tails[i], t) == 0)
			return true;
	}
	return false;
}

/* "name" or "@scope/name" in front of @s; 0: none. */
static size_t name_length(const char *s)
{
	size_t scope = 0, n;

	if (*s == '@') {
		scope = 1 + strspn(s + 1, LETTERS DIGITS "-._~");
		if (scope == 1 || s[1] == '.' || s[scope] != '/')
			return 0;
		scope++;
	}
	n = strspn(s + scope, LETTERS DIGITS "-._~");
	if (!n || s[scope] == '.' || s[scope] == '_' || s[scope] == '-' || s[scope] == '~')
		return 0;
	return scope + n;
}

/* A version, a range or a tag: without a slash and a colon it leads to the registry alone. */
static bool is_range(const char *s, size_t n)
{
	return n > 0 && s[0] != '.' && s[0] != '-' &&
	       strspn(s, LETTERS DIGITS ".-+_*^~<>=| \t") >= n && !is_archive(s, n);
}

static void add_range(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool is_gap = strchr(BLANKS, s[i]) != NULL;

		if (!is_gap || !strchr(BLANKS, s[i - 1])) /* one never is the first */
			buf_char(out, is_gap ? ' ' : s[i]);
	}
}

static int check_kind(const char *spec, struct nsbox_error *err)
{
	const char *s = spec + strspn(spec, BLANKS);
	const char *version = *s ? strchr(s + 1, '@') : NULL;

	if (strlen(spec) > PACKAGE_SPEC_MAX)
		return refuse(spec, "is longer than 512 bytes", NULL, err);
	if (has_control(spec))
		return refuse(spec, "has a newline or another control character",
			      "one spec a flag: --with left-pad --with chalk", err);
	if (!*s)
		return err_set(err, NSBOX_E_POLICY,
			       "packages.list: a package spec must be a non-empty text");
	if (*s == '-')
		return refuse(spec, "is flag-style, and no flag reaches npm",
			      "npm's own settings (.npmrc, npm_config_*) are honoured", err);
	if (version && strncmp(version, "@npm:", 5) == 0)
		return refuse(spec, "is an alias", "give the package's own name: name@range", err);
	if (strchr(s, ':')) {
		err_hint(err, "give the name of a package of a registry: name@1.2.3");
		return err_set(err, NSBOX_E_POLICY, /* not shown: it may hold a password */
			       "packages.list: one item is a URL, a git repository or a path, and packages come from a registry alone");
	}
	return 0;
}

int npm_spec(const char *spec, struct buf *out, struct nsbox_error *err)
{
	const char *s = spec + strspn(spec, BLANKS), *range;
	size_t len = strlen(s), name, rest;
	int code = check_kind(spec, err);

	if (code < 0)
		return code;
	while (len && strchr(BLANKS, s[len - 1]))
		len--;
	name = name_length(s);
	if ((s[0] != '@' && memchr(s, '/', len)) || memchr(s, '\\', len) || s[0] == '.' ||
	    is_archive(s, len))
		return refuse(spec, "is a path or a git repository, and packages come from a registry alone",
			      "show a folder of your own with --project or --ro", err);
	range = s + name + (name < len);
	rest = name < len ? len - name - 1 : 0;
	if (rest && strchr(BLANKS, *range))
		rest = 0;
	if (!name || name > NAME_MAX_BYTES ||
	    (name < len && (s[name] != '@' || !is_range(range, rest))))
		return refuse(spec, "is no package spec of npm",
			      "name, name@1.2.3, name@^1, name@tag or @scope/name@range", err);
	if (!out)
		return 0;
	buf_add(out, s, name);
	if (rest) {
		buf_char(out, '@');
		add_range(out, range, rest);
	}
	return out->failed ? err_nomem(err) : 0;
}

int package_spec_any(const char *spec, struct nsbox_error *err)
{
	const char *s = spec + strspn(spec, BLANKS);
	const char *at = memchr(s, '@', strcspn(s, ";")); /* a marker may have one */

	/* "name @ URL" is what PEP 508 has, and no box takes. */
	if (!at || strstr(s, "://") || (at > s && strchr(BLANKS, at[-1])))
		return package_spec(spec, NULL, err);
	return npm_spec(spec, NULL, err);
}

/* ----------------------------------------------------------------------- files -- */

struct line {
	const char *s;
	size_t n;
};

static struct line trimmed(const char *s, size_t n)
{
	while (n && strchr(" \t\r", *s)) {
		s++;
		n--;
	}
	while (n && strchr(" \t\r", s[n - 1]))
		n--;
	return (struct line){ s, n };
}

/* What is between double quotes is JSON for npm. False: it is none, and stays as it is. */
static bool add_quoted(struct buf *out, struct line l)
{
	static const char names[] = "nrt\"\\/", values[] = "\n\r\t\"\\/";

	for (size_t i = 1; i + 1 < l.n; i++) {
		const char *name;
		char c = l.s[i];

		if (c == '"')
			return false;
		if (c == '\\') {
			i++;
			name = i + 1 < l.n ? memchr(names, l.s[i], sizeof(names) - 1) : NULL;
			if (!name)
				return false;
			c = values[name - names];
		}
		buf_char(out, c);
	}
	return true;
}

static void cut(struct buf *b, size_t len)
{
	if (b->len > len)
		b->data[len] = '\0';
	b->len = b->len > len ? len : b->len;
}

/* ";" and "#" begin a comment, unless a backslash is before them. */
static void add_bare(struct buf *out, struct line l)
{
	size_t start = out->len, end;

	for (size_t i = 0; i < l.n && l.s[i] != ';' && l.s[i] != '#'; i++) {
		if (l.s[i] == '\\' && i + 1 < l.n && strchr(";#\\", l.s[i + 1]))
			i++;
		buf_char(out, l.s[i]);
	}
	for (end = out->len; end > start && strchr(BLANKS, out->data[end - 1]);)
		end--;
	cut(out, end);
}

static void add_text(struct buf *out, struct line l)
{
	size_t start = out->len;

	if (l.n >= 2 && l.s[0] == '\'' && l.s[l.n - 1] == '\'') {
		buf_add(out, l.s + 1, l.n - 2);
		return;
	}
	if (l.n >= 2 && l.s[0] == '"' && l.s[l.n - 1] == '"') {
		if (add_quoted(out, l))
			return;
		cut(out, start);
		buf_add(out, l.s, l.n);
		return;
	}
	add_bare(out, l);
}

static int take_line(struct line l, npm_take take, void *arg)
{
	const char *equals = memchr(l.s, '=', l.n);
	size_t n = equals ? (size_t)(equals - l.s) : l.n;
	struct buf key = BUF_INIT(4096), value = BUF_INIT(VALUE_BYTES);
	bool is_more = false;
	int r = 0;

	add_text(&key, trimmed(l.s, n));
	if (equals)
		add_text(&value, trimmed(equals + 1, l.n - n - 1));
	else
		buf_str(&value, "true");
	if (key.len > 2 && memcmp(key.data + key.len - 2, "[]", 2) == 0) {
		is_more = true;
		cut(&key, key.len - 2);
	}
	if (key.len && !key.failed && !value.failed)
		r = take(arg, buf_text(&key), buf_text(&value), is_more);
	buf_free(&key);
	buf_free(&value);
	return r;
}

int npm_conf_read(const char *text, size_t len, npm_take take, void *arg)
{
	const char *end = text + len;
	int r = 0;

	while (text < end && r >= 0) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);
		struct line l = trimmed(text, n);

		text += n + 1;
		if (!l.n || *l.s == ';' || *l.s == '#' || memchr(l.s, '\0', l.n))
			continue;
		if (*l.s == '[' && l.s[l.n - 1] == ']')
			break; /* what follows is a section's, and no setting of npm */
		r = take_line(l, take, arg);
	}
	return r < 0 ? r : 0;
}

bool npm_key(const char *name, size_t len, char out[NPM_KEY_MAX])
{
	static const char head[] = "npm_config_";
	size_t n = 0;

	if (len <= sizeof(head) - 1 || len >= NPM_KEY_MAX || strncasecmp(name, head, sizeof(head) - 1) != 0)
		return false;
	name += sizeof(head) - 1;
	len -= sizeof(head) - 1;
	for (; n < len; n++) {
		char c = name[n];

		if (strncmp(name, "//", 2) != 0) /* such a one is the place of a login */
			c = (char)(c == '_' && n ? '-' : c >= 'A' && c <= 'Z' ? c + 32 : c);
		out[n] = c;
	}
	out[n] = '\0';
	return true;
}
