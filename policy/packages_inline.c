/*
 * PEP 723: packages that a Python source names itself.
 *
 *	# /// script
 *	# requires-python = ">=3.11"
 *	# dependencies = ["requests<3", "rich"]
 *	# ///
 *
 * Pure; fuzzed. Reads as much TOML as it takes to find two keys and to pass over the rest.
 * Must refuse what it does not understand: code that runs without a package that it asked
 * for would fail later, and elsewhere.
 */
#include "policy/packages.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/strlist.h"
#include "policy/value.h"

#define BARE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

enum { BLOCK_MAX = 256 * 1024, NEST_MAX = 16 };

static int refuse(struct nsbox_error *err, const char *why)
{
	err_hint(err, "as in PEP 723: # dependencies = [\"requests<3\", \"rich\"]");
	return err_set(err, NSBOX_E_USAGE, "the code's block \"# /// script\" %s", why);
}

/* ----------------------------------------------------------------------- block -- */

static size_t line_length(const char *at, const char *end)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));
	size_t n = (size_t)((stop ? stop : end) - at);

	return n && at[n - 1] == '\r' ? n - 1 : n;
}

static const char *next_line(const char *at, const char *end)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));

	return stop ? stop + 1 : end;
}

static bool is_line(const char *at, const char *end, const char *text)
{
	return line_length(at, end) == strlen(text) && memcmp(at, text, strlen(text)) == 0;
}

/* "#" or "# ..." */
static bool is_comment(const char *at, const char *end)
{
	size_t n = line_length(at, end);

	return n && at[0] == '#' && (n == 1 || at[1] == ' ');
}

/* The text between the marks without its "# ": from the line behind the first one. The last
 * mark that comments lead to ends it. NULL: there is none, and it is no block. */
static const char *take_block(struct buf *out, const char *at, const char *end)
{
	const char *close = NULL;

	for (const char *p = at; p < end && is_comment(p, end); p = next_line(p, end))
		if (is_line(p, end, "# ///"))
			close = p;
	for (const char *p = at; close && p < close; p = next_line(p, end)) {
		size_t n = line_length(p, end);

		if (n > 2)
			buf_add(out, p + 2, n - 2);
		buf_char(out, '\n');
	}
	return close;
}

/* 0: none; 1: one. */
static int find_block(struct buf *out, const char *text, size_t len, struct nsbox_error *err)
{
	const char *end = text + len, *close;
	int found = 0;

	for (const char *p = text; p < end; p = next_line(p, end)) {
		if (!is_line(p, end, "# /// script"))
			continue;
		if (found)
			return refuse(err, "is there twice");
		close = take_block(out, next_line(p, end), end);
		found = close != NULL;
		p = close ? close : p;
	}
	return out->failed ? refuse(err, "is longer than 256 KiB") : found;
}

/* ------------------------------------------------------------------------ TOML -- */

struct toml {
	const char *at;
	struct strlist *out;
	const char *version;
	struct nsbox_error *err;
};

static void skip_line(struct toml *t)
{
	t->at += strcspn(t->at, "\n");
}

static void skip_space(struct toml *t, const char *blanks)
{
	for (;;) {
		t->at += strspn(t->at, blanks);
		if (*t->at != '#')
			return;
		skip_line(t);
	}
}

/* "...", '...' and both with three quotes. @out NULL: only pass it. Escapes other than of a
 * quote and a backslash have no place in a spec. */
static bool take_text(struct toml *t, struct buf *out)
{
	char quote = *t->at;
	size_t marks;

	if (quote != '"' && quote != '\'') /* or the end of the text */
		return false;
	marks = t->at[1] == quote && t->at[2] == quote ? 3 : 1;
	for (t->at += marks; *t->at; t->at++) {
		if (strncmp(t->at, quote == '"' ? "\"\"\"" : "'''", marks) == 0) {
			t->at += marks;
			return true;
		}
		if (*t->at == '\n' && marks == 1)
			return false;
		if (*t->at == '\\' && quote == '"') {
			t->at++;
			if (!*t->at || (out && !strchr("\"\\", *t->at)))
				return false;
		}
		if (out)
			buf_char(out, *t->at);
	}
	return false;
}

static bool skip_value(struct toml *t, int depth)
{
	bool is_nested = *t->at == '[' || *t->at == '{';

	if (*t->at == '"' || *t->at == '\'')
		return take_text(t, NULL);
	if (!is_nested) {
		size_t n = strcspn(t->at, ",]}#\n=[{");

		t->at += n;
		return n > 0;
	}
	if (depth >= NEST_MAX)
		return false;
	for (t->at++; *t->at && *t->at != ']' && *t->at != '}';) {
		skip_space(t, " \t\n,=");
		if (!*t->at || *t->at == ']' || *t->at == '}')
			break;
		if (!skip_value(t, depth + 1))
			return false;
	}
	return *t->at && *t->at++;
}

static int add_spec(struct toml *t, const char *spec)
{
	struct nsbox_error own = NSBOX_ERROR_INIT;

	if (package_spec(spec, NULL, &own) < 0) {
		err_hint(t->err, "%s", own.hint);
		return err_set(t->err, NSBOX_E_USAGE, "the code's block \"# /// script\": %s",
			       strstr(own.message, ": ") ? strstr(own.message, ": ") + 2
							 : own.message);
	}
	return strlist_has(t->out, spec) || strlist_add(t->out, spec) == 0 ? 0 : err_nomem(t->err);
}

static int take_dependencies(struct toml *t)
{
	int r = 0;

	if (*t->at++ != '[')
		return refuse(t->err, "has dependencies that are no list");
	for (;;) {
		struct buf one = BUF_INIT(PACKAGE_SPEC_MAX + 2);

		skip_space(t, " \t\n,");
		if (*t->at == ']') {
			t->at++;
			return 0;
		}
		r = take_text(t, &one) ? add_spec(t, buf_text(&one))
				       : refuse(t->err, "has dependencies that are no list of texts");
		buf_free(&one);
		if (r < 0)
			return r;
	}
}

/* --------------------------------------------------------------------- versions -- */

enum { PARTS = 4 };

/* "3.11" -> parts and their number; -1: not of this form. */
static int parse_version(const char *s, size_t len, unsigned parts[PARTS])
{
	int n = 0;

	memset(parts, 0, PARTS * sizeof(*parts));
	while (n < PARTS) {
		size_t digits = 0;
		char text[8];
		uint64_t v;

		while (digits < len && s[digits] >= '0' && s[digits] <= '9')
			digits++;
		if (!digits || digits >= sizeof(text))
			return -1;
		memcpy(text, s, digits);
		text[digits] = '\0';
		if (num_uint(text, 0, 1000000, &v) < 0)
			return -1;
		parts[n++] = (unsigned)v;
		if (digits == len)
			return n;
		if (s[digits] != '.')
			return -1;
		s += digits + 1;
		len -= digits + 1;
	}
	return -1;
}

static int compare(const unsigned *a, const unsigned *b, int count)
{
	for (int i = 0; i < count; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

/* One clause as ">=3.11" or "==3.12.*". 1: met; 0: not; -1: not understood. */
static int is_met(const char *clause, size_t len, const unsigned have[PARTS])
{
	static const char *const ops[] = { "==", "~=", "!=", "<=", ">=", "<", ">" };
	unsigned want[PARTS];
	size_t op = 0, skip;
	bool is_prefix;
	int n, c;

	while (op < ARRAY_SIZE(ops) && strncmp(clause, ops[op], strlen(ops[op])) != 0)
		op++;
	if (op == ARRAY_SIZE(ops) || len < strlen(ops[op]))
		return -1;
	skip = strlen(ops[op]);
	while (skip < len && clause[skip] == ' ')
		skip++;
	is_prefix = len - skip > 2 && memcmp(clause + len - 2, ".*", 2) == 0;
	n = parse_version(clause + skip, len - skip - (is_prefix ? 2 : 0), want);
	if (n < 0 || (is_prefix && op != 0 && op != 2) || (op == 1 && n < 2))
		return -1;
	c = compare(have, want, is_prefix ? n : PARTS);
	if (op == 1)
		return c >= 0 && compare(have, want, n - 1) == 0;
	return (const bool[]){ c == 0, false, c != 0, c <= 0, c >= 0, c < 0, c > 0 }[op];
}

static int take_python(struct toml *t)
{
	struct buf text = BUF_INIT(PACKAGE_SPEC_MAX);
	unsigned have[PARTS];
	int r = take_text(t, &text) && !text.failed &&
			parse_version(t->version, strlen(t->version), have) > 0 ? 1 : -1;

	for (const char *at = buf_text(&text); r == 1 && *at;) {
		size_t n;

		at += strspn(at, " ,");
		n = strcspn(at, ",");
		while (n && at[n - 1] == ' ')
			n--;
		r = n ? is_met(at, n, have) : 1;
		at += strcspn(at, ",");
	}
	if (r < 0)
		refuse(t->err, "has a requires-python that is not understood");
	else if (r == 0)
		err_set(t->err, NSBOX_E_USAGE, "the code wants Python %s, and this one is %s",
			SHOWN(buf_text(&text)), t->version);
	buf_free(&text);
	return r == 1 ? 0 : NSBOX_E_USAGE;
}

/* ------------------------------------------------------------------------ whole -- */

static bool take_key(struct toml *t, struct buf *key)
{
	size_t n = strspn(t->at, BARE ".");

	if (*t->at == '"' || *t->at == '\'')
		return take_text(t, key);
	buf_add(key, t->at, n);
	t->at += n;
	return n > 0;
}

static int take_setting(struct toml *t, const char *key)
{
	skip_space(t, " \t");
	if (*t->at++ != '=')
		return refuse(t->err, "is no TOML");
	t->at += strspn(t->at, " \t");
	if (strcmp(key, "dependencies") == 0)
		return take_dependencies(t);
	if (strcmp(key, "requires-python") == 0)
		return take_python(t);
	return skip_value(t, 0) ? 0 : refuse(t->err, "is no TOML");
}

/* Both keys stand before the first table: [tool.x] is not ours. */
static int take_settings(struct toml *t)
{
	for (;;) {
		struct buf key = BUF_INIT(PACKAGE_SPEC_MAX);
		int r;

		skip_space(t, " \t\n");
		if (!*t->at || *t->at == '[')
			return 0;
		r = take_key(t, &key) && !key.failed ? take_setting(t, buf_text(&key))
						     : refuse(t->err, "is no TOML");
		buf_free(&key);
		if (r < 0)
			return r;
		skip_space(t, " \t");
		if (*t->at && *t->at != '\n')
			return refuse(t->err, "is no TOML");
	}
}

int package_inline(const char *text, size_t len, const char *version, struct strlist *out,
		   struct nsbox_error *err)
{
	struct buf block = BUF_INIT(BLOCK_MAX);
	struct toml t = { .out = out, .version = version, .err = err };
	int r = find_block(&block, text, len, err);

	if (r == 1 && memchr(buf_text(&block), '\0', block.len))
		r = refuse(err, "has a NUL byte");
	t.at = buf_text(&block);
	if (r == 1)
		r = take_settings(&t);
	buf_free(&block);
	return r < 0 ? r : 0;
}
