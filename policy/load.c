/*
 * A policy's text to settings, with the place of each. jansson decides what is
 * JSON; a walk over the same text, in step with jansson's tree, finds the places,
 * which jansson does not keep.
 *
 * Runs in the caller of the library, and in nsbox-policyc for the static command.
 * Must name file, line and column for everything it refuses. Mustn't guess: a key
 * twice, or a value of the wrong kind, is an error.
 */
#include "policy/text.h"
#include "policy/value.h"

#include <jansson.h>
#include <string.h>

enum { PATH_SIZE = 256 };

struct walk {
	const struct text *t;
	size_t at;		/* in t->json */
	struct place place;
	char path[PATH_SIZE];	/* dotted key so far */
	unsigned *seen;		/* line that set a key, by its row; 0: none */
	struct settings *out;
	struct nsbox_error *err;
};

static void skip_blanks(struct walk *w, char also)
{
	while (w->at < w->t->len && (strchr(" \t\r\n", w->t->json[w->at]) ||
				     w->t->json[w->at] == also))
		w->at++;
}

static int emit(struct walk *w, size_t offset, const char *value)
{
	struct origin from = { .file = w->t->file };

	text_place(w->t, offset, &w->place);
	from.line = w->place.line;
	from.column = w->place.column;
	if (settings_add(w->out, w->path, value, &from) < 0)
		return err_nomem(w->err);
	return 0;
}

/* --- one value ---------------------------------------------------------------- */

static const char *kind_name(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",  [JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number",    [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",	     [JSON_NULL] = "null",
	};

	return names[json_typeof(v)];
}

static int wrong_kind(struct walk *w, size_t offset, const struct key *k,
		      const json_t *v)
{
	text_fail(w->t, offset, w->err, "%s: takes %s, not %s", w->path,
		  key_expects(k), kind_name(v));
	if (k->field == offsetof(struct policy, env.set))
		err_hint(w->err, "[\"NAME=VALUE\"]");
	return NSBOX_E_POLICY;
}

/* The word "null" is what policy_set() takes for "no check": a module of that name
 * must not lift the list. */
static int list_item(struct walk *w, const struct key *k, const json_t *v,
		     bool is_first)
{
	const char *text = json_string_value(v);
	size_t offset = w->at;

	if (!text)
		return wrong_kind(w, offset, k, v);
	if (k->type == KEY_LIST_OR_NULL && strcmp(text, "null") == 0) {
		text_fail(w->t, offset, w->err, "%s: \"null\" in quotes",
			  w->path);
		err_hint(w->err, "null without quotes and brackets lifts the list");
		return NSBOX_E_POLICY;
	}
	if (!*text && !is_first) {
		text_fail(w->t, offset, w->err, "%s: an empty string", w->path);
		err_hint(w->err, "as the first item it forgets what lower layers listed");
		return NSBOX_E_POLICY;
	}
	w->at = text_skip_string(w->t, offset);
	return emit(w, offset, text);
}

static int take_array(struct walk *w, const struct key *k, const json_t *v)
{
	size_t offset = w->at++;
	const json_t *item;
	size_t i;

	json_array_foreach(v, i, item) {
		int code;

		skip_blanks(w, ',');
		if (i > (size_t)key_items_max(k)) /* one more for a leading "" */
			return text_fail(w->t, w->at, w->err,
					 "%s: more than %d items", w->path,
					 key_items_max(k));
		code = list_item(w, k, item, i == 0);
		if (code < 0)
			return code;
	}
	skip_blanks(w, ',');
	w->at++;
	return i == 0 ? emit(w, offset, "") : 0;
}

static int take_null(struct walk *w, const struct key *k, const json_t *v)
{
	size_t offset = w->at;

	w->at += strlen("null");
	if (k->type == KEY_LIST_OR_NULL)
		return emit(w, offset, "null");
	/* What other systems leave out is None there: the default stays. */
	if (policy_alias(w->path) || k->type == KEY_STRING)
		return 0;
	return wrong_kind(w, offset, k, v);
}

/* Numbers as they are written: "0.1" is a decimal, not a double. */
static int take_bare(struct walk *w, const struct key *k, const json_t *v)
{
	size_t offset = w->at, len;
	owned_mem char *text = NULL;

	while (w->at < w->t->len && !strchr(" \t\r\n,]}", w->t->json[w->at]))
		w->at++;
	len = w->at - offset;
	if (k->type == KEY_STRING)
		return wrong_kind(w, offset, k, v);
	text = strndup(w->t->json + offset, len);
	return text ? emit(w, offset, text) : err_nomem(w->err);
}

static int take_value(struct walk *w, const struct key *k, const json_t *v)
{
	if (json_is_array(v) && key_is_list(k))
		return take_array(w, k, v);
	if (json_is_null(v))
		return take_null(w, k, v);
	if (json_is_string(v) || key_is_list(k))
		return list_item(w, k, v, true);
	if (json_is_number(v) || json_is_boolean(v))
		return take_bare(w, k, v);
	return wrong_kind(w, w->at, k, v);
}

/* --- keys ----------------------------------------------------------------------- */

static bool is_alias_group(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < policy_alias_count; i++)
		if (strncmp(policy_aliases[i].name, path, len) == 0 &&
		    policy_aliases[i].name[len] == '.')
			return true;
	return false;
}

static bool is_group(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < policy_key_count; i++)
		if (strncmp(policy_keys[i].name, path, len) == 0 &&
		    policy_keys[i].name[len] == '.')
			return true;
	return is_alias_group(path);
}

static int unknown(struct walk *w, size_t offset, bool is_object)
{
	const char *nearest = is_object ? key_group_nearest(w->path) :
					  policy_key_nearest(w->path);

	text_fail(w->t, offset, w->err, "unknown key \"%s\"", SHOWN(w->path));
	if (nearest)
		err_hint(w->err, "did you mean %s?", nearest);
	else
		err_hint(w->err, "nsbox policy schema lists every key");
	return NSBOX_E_POLICY;
}

/* Two names of one key (an alias, or both spellings of nesting) are a duplicate
 * that a JSON parser cannot see. */
static int note_seen(struct walk *w, size_t offset, const struct key *k)
{
	unsigned *line = &w->seen[k - policy_keys];

	if (*line) {
		if (strcmp(w->path, k->name) == 0)
			return text_fail(w->t, offset, w->err,
					 "%s is set already in line %u",
					 k->name, *line);
		return text_fail(w->t, offset, w->err,
				 "%s: its key %s is set already in line %u",
				 w->path, k->name, *line);
	}
	text_place(w->t, offset, &w->place);
	*line = w->place.line;
	return 0;
}

static int walk_object(struct walk *w, json_t *v, size_t path_len);

static int take_member(struct walk *w, size_t offset, json_t *v)
{
	const struct key *k = key_of(w->path);
	int code;

	if (strcmp(w->path, "$schema") == 0 && json_is_string(v)) {
		w->at = text_skip_string(w->t, w->at); /* for editors */
		return 0;
	}
	if (json_is_object(v) && is_group(w->path))
		return walk_object(w, v, strlen(w->path));
	if (json_is_null(v) && is_alias_group(w->path)) {
		w->at += strlen("null"); /* network_policy=None */
		return 0;
	}
	if (!k && is_group(w->path))
		return text_fail(w->t, w->at, w->err,
				 "%s: takes an object, not %s", w->path,
				 kind_name(v));
	if (!k)
		return unknown(w, offset, json_is_object(v));
	code = note_seen(w, offset, k);
	return code < 0 ? code : take_value(w, k, v);
}

static int walk_object(struct walk *w, json_t *v, size_t path_len)
{
	const char *name;
	json_t *member;

	w->at++;
	json_object_foreach(v, name, member) {
		size_t len = strlen(name), end = path_len, offset;
		int code;

		skip_blanks(w, ',');
		offset = w->at;
		if (path_len + 1 + len >= PATH_SIZE)
			return text_fail(w->t, offset, w->err,
					 "unknown key \"%s\"", SHOWN(name));
		if (path_len)
			w->path[end++] = '.';
		memcpy(w->path + end, name, len + 1);
		w->at = text_skip_string(w->t, w->at);
		skip_blanks(w, ':');
		code = take_member(w, offset, member);
		if (code < 0)
			return code;
		w->path[path_len] = '\0';
	}
	skip_blanks(w, ',');
	w->at++;
	return 0;
}

/* --- the whole -------------------------------------------------------------------- */

/* jansson stops behind the token that it names: point at its beginning. */
static size_t error_offset(const struct text *t, const json_error_t *e)
{
	static const char near[] = " near '";
	size_t at = e->position > 0 ? (size_t)e->position : 0;
	const char *token = strstr(e->text, near);
	const char *end = strrchr(e->text, '\'');
	size_t len;

	if (at > t->len)
		at = t->len;
	if (!token || !end || end < token + sizeof(near) - 1)
		return at;
	token += sizeof(near) - 1;
	len = (size_t)(end - token);
	if (len <= at && memcmp(t->json + at - len, token, len) == 0)
		at -= len;
	return at;
}

/* Where jansson's words are about its own flags or its own reading. */
static const char *syntax_text(const json_error_t *e)
{
	switch (json_error_code(e)) {
	case json_error_null_character:
	case json_error_null_byte_in_key:
		return "a string with \\u0000 in it";
	case json_error_duplicate_key:
		return "the same key twice";
	case json_error_premature_end_of_input:
		return "the text ends too early";
	default:
		return e->text;
	}
}

static int parse(struct walk *w, const struct text *t)
{
	json_error_t e = { 0 };
	json_t *root = json_loadb(t->json, t->len, JSON_REJECT_DUPLICATES, &e);
	int code;

	if (!root)
		return text_fail(t, error_offset(t, &e), w->err, "not JSON: %s",
				 SHOWN(syntax_text(&e)));
	skip_blanks(w, ' ');
	if (json_is_object(root))
		code = walk_object(w, root, 0);
	else
		code = text_fail(t, w->at, w->err,
				 "a policy is an object, not %s",
				 kind_name(root));
	json_decref(root);
	return code;
}

int policy_parse(struct settings *out, const char *text, size_t len,
		 const char *file, struct nsbox_error *err)
{
	owned_mem unsigned *seen = calloc(policy_key_count, sizeof(*seen));
	struct settings got = { 0 };
	struct text t = { 0 };
	struct walk w = { .t = &t, .seen = seen, .out = &got, .err = err };
	int code;

	if (!seen)
		return err_nomem(err);
	code = text_open(&t, text, len, file, err);
	if (code == 0)
		code = parse(&w, &t);
	text_close(&t);
	if (code < 0) {
		settings_free(&got);
		return code;
	}
	*out = got;
	return 0;
}
