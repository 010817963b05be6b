/*
 * Turns "JSON with comments and trailing commas" into JSON of the same length:
 * what is not JSON becomes spaces, so that every offset still points into the
 * author's text. Also the place where size, depth and bytes are judged, before a
 * parser sees them.
 *
 * Pure, and hostile input: a project's policy file comes with the project.
 */
#include "policy/text.h"

#include "base/utf8.h"
#include "policy/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_place(const struct text *t, size_t offset, struct place *at)
{
	if (offset < at->offset || !at->line)
		*at = (struct place){ 0, 1, 1 };
	while (at->offset < offset && at->offset < t->len) {
		unsigned char c = (unsigned char)t->raw[at->offset++];

		if (c == '\n') {
			at->line++;
			at->column = 1;
		} else if ((c & 0xc0) != 0x80) {
			at->column++; /* characters, not bytes */
		}
	}
}

int text_fail(const struct text *t, size_t offset, struct nsbox_error *err,
	      const char *fmt, ...)
{
	struct place at = { 0 };
	char message[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	text_place(t, offset, &at);
	return err_set(err, NSBOX_E_POLICY, "%s:%u:%u: %s", SHOWN(t->file),
		       at.line, at.column, message);
}

/* --- bytes ------------------------------------------------------------------ */

static int check_bytes(const struct text *t, struct nsbox_error *err)
{
	const char *nul = memchr(t->raw, '\0', t->len);

	if (nul)
		return text_fail(t, (size_t)(nul - t->raw), err, "a NUL byte");
	for (size_t at = 0; at < t->len;) {
		size_t n = utf8_length(t->raw + at, t->len - at);

		if (!n)
			return text_fail(t, at, err, "a byte that is not UTF-8");
		at += n;
	}
	return 0;
}

/* --- comments, commas, depth -------------------------------------------------- */

struct scan {
	struct text *t;
	size_t at;
	unsigned depth;
	char before, last;	/* the two characters that mattered most recently */
	size_t last_at;
};

/* Past the closing quote, or to the end of a line that lacks one: the parser says
 * what is wrong with it. */
size_t text_skip_string(const struct text *t, size_t at)
{
	for (at++; at < t->len && t->json[at] != '\n'; at++) {
		if (t->json[at] == '"')
			return at + 1;
		if (t->json[at] == '\\' && at + 1 < t->len)
			at++;
	}
	return at;
}

static size_t line_comment_end(const struct text *t, size_t at)
{
	while (at < t->len && t->json[at] != '\n')
		at++;
	return at;
}

/* Past the closing star-slash; 0: there is none. */
static size_t block_comment_end(const struct text *t, size_t at)
{
	for (at += 2; at + 1 < t->len; at++)
		if (t->json[at] == '*' && t->json[at + 1] == '/')
			return at + 2;
	return 0;
}

static int blank_comment(struct scan *s, struct nsbox_error *err)
{
	struct text *t = s->t;
	char next = s->at + 1 < t->len ? t->json[s->at + 1] : '\0';
	size_t end;

	if (next != '/' && next != '*')
		return text_fail(t, s->at, err, "a stray \"/\"");
	end = next == '/' ? line_comment_end(t, s->at) :
			    block_comment_end(t, s->at);
	if (!end)
		return text_fail(t, s->at, err, "a comment without an end");
	for (; s->at < end; s->at++)
		if (t->json[s->at] != '\n')
			t->json[s->at] = ' ';
	return 0;
}

static bool ends_value(char c)
{
	return c && !strchr("[{,:", c);
}

static int take_mark(struct scan *s, char c, struct nsbox_error *err)
{
	if ((c == '{' || c == '[') && ++s->depth > TEXT_DEPTH_MAX)
		return text_fail(s->t, s->at, err,
				 "nested deeper than %d levels",
				 TEXT_DEPTH_MAX);
	if (c == '}' || c == ']') {
		if (s->depth)
			s->depth--;
		/* "[1,]" has a trailing comma, "[,]" has a missing value */
		if (s->last == ',' && ends_value(s->before))
			s->t->json[s->last_at] = ' ';
	}
	s->before = s->last;
	s->last = c;
	s->last_at = s->at;
	return 0;
}

static int blank(struct text *t, struct nsbox_error *err)
{
	struct scan s = { .t = t };
	int code = 0;

	if (t->len >= 3 && memcmp(t->json, "\xef\xbb\xbf", 3) == 0)
		memset(t->json, ' ', 3); /* a byte order mark */
	while (code == 0 && s.at < t->len) {
		char c = t->json[s.at];

		if (c == '/') {
			code = blank_comment(&s, err);
			continue;
		}
		if (!strchr(" \t\r\n", c))
			code = take_mark(&s, c, err);
		s.at = c == '"' ? text_skip_string(t, s.at) : s.at + 1;
	}
	return code;
}

int text_open(struct text *t, const char *raw, size_t len, const char *file,
	      struct nsbox_error *err)
{
	struct text new = { raw, NULL, len, file ? file : "policy" };
	int code;

	if (len > TEXT_SIZE_MAX)
		return err_set(err, NSBOX_E_POLICY,
			       "%s: larger than %d bytes", SHOWN(new.file),
			       TEXT_SIZE_MAX);
	code = check_bytes(&new, err);
	if (code < 0)
		return code;
	new.json = malloc(len + 1);
	if (!new.json)
		return err_nomem(err);
	memcpy(new.json, raw, len);
	new.json[len] = '\0';
	code = blank(&new, err);
	if (code < 0)
		free(new.json);
	else
		*t = new;
	return code;
}

void text_close(struct text *t)
{
	free(t->json);
	t->json = NULL;
}
