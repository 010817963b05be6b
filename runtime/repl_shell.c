/*
 * repl_shell.c - requests for a shell, which reads no JSON
 *
 * A request is its op, its id, how many words follow, and those; each of all these is a
 * length in nine columns and so many characters. Must: refuse what a shell's variable cannot
 * hold (NUL), and names that are none; write ASCII alone, for "read" counts characters, and
 * what they are is the locale's, which a cell may change. So are answers to calls, each in a
 * line: who waits for one may be killed half-way, and the next one begins at the next line.
 */
#include "runtime/repl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

enum { GET_MAX = 45 << 20 };

struct words {
	struct strlist list;
	struct jscan request;
};

static int no_memory_or(struct words *w, const char *text, struct nsbox_error *err)
{
	return strlist_add(&w->list, text) < 0 ? err_nomem(err) : 0;
}

static int add(struct words *w, const char *before, struct jscan v, struct nsbox_error *err)
{
	owned_mem char *text = NULL, *both = NULL;
	size_t len = 0;
	int r = jscan_string(v, false, &text, &len, err);

	if (r < 0)
		return r;
	if (strlen(text) != len)
		return err_set(err, NSBOX_E_USAGE, "a text for bash holds a NUL byte");
	if (!*before)
		return no_memory_or(w, text, err);
	both = malloc(strlen(before) + len + 1);
	if (!both)
		return err_nomem(err);
	memcpy(both, before, strlen(before));
	memcpy(both + strlen(before), text, len + 1);
	return no_memory_or(w, both, err);
}

/* The string of that key, or "" when it is not there. */
static int add_key(struct words *w, const char *key, struct nsbox_error *err)
{
	struct jscan v = repl_member(w->request, key);

	return jscan_kind(v) == JSCAN_STRING ? add(w, "", v, err) : no_memory_or(w, "", err);
}

static bool is_plain(char c)
{
	return c >= ' ' && c <= '~' && c != '\\';
}

static bool is_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool is_letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';

		if (!is_letter && (i == 0 || s[i] < '0' || s[i] > '9'))
			return false;
	}
	return len > 0;
}

static int add_pair(struct words *w, struct jscan key, struct jscan v, struct nsbox_error *err)
{
	char before[256];
	size_t len = key.len - 2;

	if (!is_name(key.p + 1, len) || len + 2 > sizeof(before))
		return err_set(err, NSBOX_E_USAGE, "%.*s is no name of a shell variable",
			       (int)(key.len < 64 ? key.len : 64), key.p);
	memcpy(before, key.p + 1, len);
	before[len] = '=';
	before[len + 1] = '\0';
	switch (jscan_kind(v)) {
	case JSCAN_STRING:
		return add(w, before, v, err);
	case JSCAN_NUMBER:
	case JSCAN_BOOL:
		if (v.len + len + 2 > sizeof(before))
			break;
		memcpy(before + len + 1, v.p, v.len);
		before[len + 1 + v.len] = '\0';
		return no_memory_or(w, before, err);
	case JSCAN_NULL:
		return no_memory_or(w, before, err);
	default:
		break;
	}
	return err_set(err, NSBOX_E_USAGE, "%.*s: a shell variable holds a text or a number, not %s",
		       (int)len, key.p + 1, jscan_kind_name(jscan_kind(v)));
}

/* The members of the object under @name as words NAME=VALUE; how many. */
static int add_pairs(struct words *w, const char *name, struct nsbox_error *err)
{
	struct jscan v = repl_member(w->request, name), key, value;
	int n = 0, r;

	if (jscan_kind(v) != JSCAN_OBJECT)
		return 0;
	for (size_t at = 0; jscan_next(v, &at, &key, &value); n++) {
		r = add_pair(w, key, value, err);
		if (r < 0)
			return r;
	}
	return n;
}

static int add_argv(struct words *w, struct nsbox_error *err)
{
	struct jscan v = repl_member(w->request, "argv"), key, value;
	int n = 0, r;

	for (size_t at = 0; jscan_next(v, &at, &key, &value); n++) {
		if (jscan_kind(value) != JSCAN_STRING)
			return err_set(err, NSBOX_E_USAGE, "\"argv\" is a list of strings");
		r = add(w, "", value, err);
		if (r < 0)
			return r;
	}
	return n ? 0 : err_set(err, NSBOX_E_USAGE, "\"argv\" is empty");
}

static int words_of_execute(struct words *w, struct nsbox_error *err)
{
	struct jscan asks = repl_member(w->request, "stdin");
	int r = add_key(w, "code", err);

	if (r >= 0)
		r = no_memory_or(w, asks.p && *asks.p == 't' ? "1" : "", err);
	return r < 0 ? r : add_pairs(w, "env", err);
}

static int words_of_exec(struct words *w, struct nsbox_error *err)
{
	struct jscan in = repl_member(w->request, "stdin");
	struct words env = { .request = w->request };
	char count[16];
	int n = add_pairs(&env, "env", err), r = n;

	if (r >= 0)
		r = add_key(w, "cwd", err);
	if (r >= 0)
		r = no_memory_or(w, jscan_kind(in) == JSCAN_STRING ? "1" : "", err);
	if (r >= 0)
		r = add_key(w, "stdin", err);
	snprintf(count, sizeof(count), "%d", n);
	if (r >= 0)
		r = no_memory_or(w, count, err);
	if (r >= 0 && strlist_copy(&w->list, &env.list) < 0)
		r = err_nomem(err);
	strlist_free(&env.list);
	return r < 0 ? r : add_argv(w, err);
}

static int words_of_put(struct words *w, struct nsbox_error *err)
{
	struct jscan parents = repl_member(w->request, "parents");
	uint64_t mode = 0;
	char octal[16] = "";
	int r = add_key(w, "path", err);

	if (jscan_uint(repl_member(w->request, "mode"), 07777, &mode))
		snprintf(octal, sizeof(octal), "%04o", (unsigned)mode);
	if (r >= 0)
		r = add_key(w, "data", err);
	if (r >= 0)
		r = no_memory_or(w, octal, err);
	return r < 0 ? r : no_memory_or(w, parents.p && *parents.p == 'f' ? "" : "1", err);
}

static int words_of_get(struct words *w, struct nsbox_error *err)
{
	uint64_t most = GET_MAX;
	char text[24];
	int r = add_key(w, "path", err);

	if (!jscan_uint(repl_member(w->request, "max_bytes"), GET_MAX, &most))
		most = GET_MAX;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)most);
	return r < 0 ? r : no_memory_or(w, text, err);
}

static int words_of_list(struct words *w, struct nsbox_error *err)
{
	return add_key(w, "path", err);
}

static int words_of_set(struct words *w, struct nsbox_error *err)
{
	return add_pairs(w, "values", err);
}

/* Each becomes a function: so no word of the language, and none that our driver needs. */
static int add_tool(struct words *w, struct jscan spec, struct nsbox_error *err)
{
	static const char *const taken[] = {
		"if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until",
		"do", "done", "in", "function", "time", "coproc", "builtin", "exec", "source", "read",
	};
	struct jscan name = repl_member(spec, "name"), final = repl_member(spec, "final");

	if (jscan_kind(name) != JSCAN_STRING || !is_name(name.p + 1, name.len - 2) || name.len > 250)
		return err_set(err, NSBOX_E_USAGE, "a function of a shell needs a name of letters, digits and _");
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (repl_is_text(name, taken[i]))
			return err_set(err, NSBOX_E_USAGE, "%s is no name for a function of a shell", taken[i]);
	if (strncmp(name.p + 1, "nsbox_", 6) == 0)
		return err_set(err, NSBOX_E_USAGE, "names with nsbox_ are the driver's");
	if (final.p && *final.p == 't')
		return err_set(err, NSBOX_E_UNSUPPORTED, "a shell has no final answer");
	return add(w, "", name, err);
}

static int words_of_tools(struct words *w, struct nsbox_error *err)
{
	struct jscan list = repl_member(w->request, "tools"), key, spec;
	int r = 0;

	for (size_t at = 0; jscan_next(list, &at, &key, &spec) && r >= 0;)
		r = jscan_kind(spec) == JSCAN_OBJECT ? add_tool(w, spec, err) :
			err_set(err, NSBOX_E_USAGE, "\"tools\" is a list of objects");
	return r;
}

static const struct {
	const char *op;
	int (*words)(struct words *w, struct nsbox_error *err);
} ops[] = {
	{ "execute", words_of_execute }, { "exec", words_of_exec }, { "put", words_of_put },
	{ "get", words_of_get }, { "list", words_of_list }, { "set", words_of_set },
	{ "tools", words_of_tools },
};

/* As printf %b reads it. */
static void write_text(struct buf *out, const char *text, size_t len)
{
	size_t from = 0, to;

	while (from < len) {
		for (to = from; to < len && is_plain(text[to]); to++)
			;
		buf_add(out, text + from, to - from);
		for (; to < len && !is_plain(text[to]); to++)
			buf_fmt(out, "\\0%03o", (unsigned char)text[to]);
		from = to;
	}
}

static void write_word(struct buf *out, const char *word)
{
	size_t len = strlen(word), size = len;

	for (size_t i = 0; i < len; i++)
		size += is_plain(word[i]) ? 0 : 4;
	buf_fmt(out, "%9zu", size);
	write_text(out, word, len);
}

void repl_shell_head(struct buf *out, const char *op, uint64_t id, size_t words)
{
	char text[24];

	write_word(out, op);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
	write_word(out, text);
	snprintf(text, sizeof(text), "%zu", words);
	write_word(out, text);
}

int repl_shell_request(struct buf *out, uint64_t id, const char *json, size_t len,
		       struct nsbox_error *err)
{
	struct words w = { 0 };
	struct jscan op;
	int r = jscan_check(&w.request, json, len, err);

	if (r < 0)
		return r;
	op = repl_member(w.request, "op");
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (!repl_is_text(op, ops[i].op))
			continue;
		r = ops[i].words(&w, err);
		if (r >= 0)
			repl_shell_head(out, ops[i].op, id, w.list.n);
		for (size_t n = 0; n < w.list.n && r >= 0; n++)
			write_word(out, w.list.v[n]);
		strlist_free(&w.list);
		return r < 0 ? r : out->failed ? err_nomem(err) : 0;
	}
	return err_set(err, NSBOX_E_UNSUPPORTED, "a shell has no such op");
}

/* ------------------------------------------------------------------- answers -- */

static int write_string(struct buf *out, const char *kind, struct jscan v, struct nsbox_error *err)
{
	owned_mem char *text = NULL;
	size_t len = 0;
	int r = jscan_string(v, true, &text, &len, err);

	if (r < 0)
		return r;
	buf_str(out, kind);
	write_text(out, text, len);
	return 0;
}

/* What has its bytes in base64. */
static int write_bytes(struct buf *out, struct jscan v, struct nsbox_error *err)
{
	owned_mem char *text = NULL;
	size_t len = 0;
	int r = jscan_string(v, false, &text, &len, err);

	if (r >= 0 && base64_decode(text, &len) < 0)
		r = err_set(err, NSBOX_E_USAGE, "the bytes of the value are no base64");
	if (r < 0)
		return r;
	buf_str(out, "raw ");
	write_text(out, text, len);
	return 0;
}

/* A text as it is, and so a number, a time and a path; of all else its JSON. */
static int write_value(struct buf *out, struct jscan v, struct nsbox_error *err)
{
	bool has_members = jscan_kind(v) == JSCAN_OBJECT;
	struct jscan none = { NULL, 0 };
	struct jscan tag = has_members ? repl_member(v, "$t") : none;
	struct jscan inner = has_members ? repl_member(v, "v") : none;

	if (jscan_kind(v) == JSCAN_STRING)
		return write_string(out, "text ", v, err);
	if (jscan_kind(v) == JSCAN_NULL) {
		buf_str(out, "none ");
		return 0;
	}
	if (tag.p && jscan_kind(inner) == JSCAN_STRING &&
	    (repl_is_text(tag, "bytes") || repl_is_text(tag, "bytearray") || repl_is_text(tag, "str")))
		return write_bytes(out, inner, err);
	if (tag.p && jscan_kind(inner) == JSCAN_STRING)
		return write_string(out, "text ", inner, err);
	buf_str(out, "text ");
	write_text(out, v.p, v.len);
	return 0;
}

static int write_error(struct buf *out, struct jscan v, struct nsbox_error *err)
{
	struct jscan name = repl_member(v, "name"), value = repl_member(v, "value");
	bool has_name = jscan_kind(name) == JSCAN_STRING;
	int r = 0;

	buf_str(out, "error ");
	if (has_name)
		r = write_string(out, "", name, err);
	if (r >= 0 && jscan_kind(value) == JSCAN_STRING && value.len > 2)
		r = write_string(out, has_name ? ": " : "", value, err);
	return r;
}

int repl_shell_answer(struct buf *out, const char *json, size_t len, struct nsbox_error *err)
{
	owned(buf_free) struct buf line = BUF_INIT(REPL_QUEUE_MAX);
	uint64_t call = 0;
	struct jscan v;
	int r = jscan_check(&v, json, len, err);

	if (r < 0)
		return r;
	jscan_uint(repl_member(v, "call"), REPL_ID_MAX, &call);
	buf_fmt(&line, "%llu ", (unsigned long long)call);
	if (repl_member(v, "error").p)
		r = write_error(&line, repl_member(v, "error"), err);
	else
		r = write_value(&line, repl_member(v, "value"), err);
	if (r < 0)
		return r;
	buf_char(&line, '\n');
	if (line.failed)
		return err_nomem(err);
	buf_add(out, line.data, line.len);
	return 0;
}
