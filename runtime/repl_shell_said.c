/*
 * repl_shell_said.c - what only a shell's driver says: it knows no JSON of any bytes
 *
 * Runs in the caller's process. Must: take it for what any program in the box may have
 * written; make of it what the other drivers say themselves.
 */
#include "runtime/repl.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"

enum { ENTRIES_MAX = 100000 };

/* ------------------------------------------------------------------- a call -- */

static void write_words(struct json *j, const char *text, size_t len)
{
	while (len) {
		const char *end = memchr(text, '\0', len);
		size_t n = end ? (size_t)(end - text) : len;

		if (utf8_valid(text, n)) {
			json_strn(j, text, n);
		} else {
			json_object(j);
			json_kstr(j, "$t", "bytes");
			json_key(j, "v");
			json_raw(j, "\"");
			base64_add(j->out, text, n);
			buf_char(j->out, '"');
			json_end(j, '}');
		}
		n += end ? 1 : 0;
		text += n;
		len -= n;
	}
}

static void write_member(struct buf *out, const char *key, struct jscan v)
{
	buf_fmt(out, ",\"%s\":", key);
	buf_add(out, v.p, v.len);
}

void repl_shell_call(struct buf *out, struct jscan frame)
{
	struct jscan words = repl_member(frame, "words");
	owned_mem char *text = NULL;
	struct json j = JSON_INIT(out);
	size_t len = 0;

	if (jscan_kind(words) != JSCAN_STRING || jscan_string(words, false, &text, &len, NULL) < 0 ||
	    base64_decode(text, &len) < 0)
		len = 0; /* something else of the box's wrote it */
	buf_str(out, "{\"event\":\"call\"");
	write_member(out, "id", repl_member(frame, "id"));
	write_member(out, "call", repl_member(frame, "call"));
	if (jscan_kind(repl_member(frame, "name")) == JSCAN_STRING)
		write_member(out, "name", repl_member(frame, "name"));
	buf_str(out, ",\"args\":");
	json_array(&j);
	write_words(&j, text, len);
	json_end(&j, ']');
	buf_str(out, ",\"kwargs\":{}}");
}

/* ---------------------------------------------------------------- a listing -- */

/* One record is "type size mode seconds name" as find -printf '%y %s %m %T@ %f\0' has it. */
struct entry {
	const char *name, *type;
	uint64_t size;
	unsigned mode;
	int64_t mtime_ms;
};

static const char *type_of(const char *letter)
{
	static const char *const types[][2] = { { "f", "file" }, { "d", "directory" }, { "l", "symlink" } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(letter, types[i][0]) == 0)
			return types[i][1];
	return "other";
}

static int read_mode(const char *octal, unsigned *mode)
{
	*mode = 0;
	for (; *octal; octal++) {
		if (*octal < '0' || *octal > '7' || *mode > 07777)
			return -1;
		*mode = *mode * 8 + (unsigned)(*octal - '0');
	}
	return *mode > 07777 ? -1 : 0;
}

/* "-2.5000000000" is a second and a half before 1970: the parts of a struct timespec. */
static int read_time(char *text, int64_t *ms)
{
	char *point = strchr(text, '.'), digits[4] = "000";
	bool is_before = *text == '-';
	uint64_t whole, part;

	if (point) {
		*point++ = '\0';
		for (size_t i = 0; i < 3 && point[i]; i++)
			digits[i] = point[i];
	}
	if (num_uint(text + is_before, 0, INT64_MAX / 2000, &whole) < 0 ||
	    num_uint(digits, 0, 999, &part) < 0)
		return -1;
	*ms = (is_before ? -(int64_t)(whole * 1000) : (int64_t)(whole * 1000)) + (int64_t)part;
	return 0;
}

static int read_entry(struct entry *e, char *record)
{
	char *word[5];

	for (size_t i = 0; i < 4; i++) {
		word[i] = record;
		record = strchr(record, ' ');
		if (!record)
			return -1;
		*record++ = '\0';
	}
	e->type = type_of(word[0]);
	e->name = record;
	if (!*record || num_uint(word[1], 0, INT64_MAX, &e->size) < 0 || read_mode(word[2], &e->mode) < 0)
		return -1;
	return read_time(word[3], &e->mtime_ms);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void write_entries(struct buf *out, const struct entry *e, size_t n)
{
	struct json j = JSON_INIT(out);

	json_array(&j);
	for (size_t i = 0; i < n; i++) {
		json_object(&j);
		json_kstr(&j, "name", e[i].name);
		json_kstr(&j, "type", e[i].type);
		json_kuint(&j, "size", e[i].size);
		json_kuint(&j, "mode", e[i].mode);
		json_kint(&j, "mtime_ms", e[i].mtime_ms);
		json_end(&j, '}');
	}
	json_end(&j, ']');
}

/* Records of @text, at most ENTRIES_MAX, up to the first that is none. */
static struct entry *read_entries(char *text, size_t len, size_t *n, bool *is_cut)
{
	struct entry *list = NULL;
	char *end;

	for (*n = 0; len; len -= (size_t)(end + 1 - text), text = end + 1) {
		struct entry *more = *n & (*n - 1) ? list : realloc(list, (*n ? *n * 2 : 1) * sizeof(*list));

		end = memchr(text, '\0', len);
		*is_cut = !more || !end || *n == ENTRIES_MAX || read_entry(&more[*n], text) < 0;
		list = more ? more : list;
		if (*is_cut)
			break;
		++*n;
	}
	return list;
}

void repl_shell_listing(struct buf *out, struct jscan listing)
{
	owned_mem char *text = NULL;
	owned_mem struct entry *list = NULL;
	bool is_cut = true;
	size_t len = 0, n = 0;

	if (jscan_kind(listing) == JSCAN_STRING && jscan_string(listing, false, &text, &len, NULL) == 0 &&
	    base64_decode(text, &len) == 0) {
		is_cut = false;
		list = read_entries(text, len, &n, &is_cut);
	}
	if (n)
		qsort(list, n, sizeof(*list), by_name);
	buf_str(out, ",\"entries\":");
	write_entries(out, list, n);
	buf_str(out, is_cut ? ",\"truncated\":true" : ",\"truncated\":false");
}
