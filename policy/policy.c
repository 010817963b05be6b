/*
 * The values of a policy: defaults, set, get, copy, free. Everything is driven by
 * the key table; no key has code of its own here but "extends" and env.set.
 *
 * Pure. Must leave a policy as it was when a value is refused.
 */
#include "policy/value.h"

#include "base/num.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* As long as the kernel takes for one argument or variable (MAX_ARG_STRLEN). */
enum { ITEM_LEN_MAX = 128 * 1024 };

/* --- words ----------------------------------------------------------------- */

const char *shown(const char *text, char out[SHOWN_SIZE])
{
	size_t len = strnlen(text, SHOWN_SIZE), n = 0;
	bool cut = len == SHOWN_SIZE;

	if (cut)
		len = utf8_cut_before(text, len, SHOWN_SIZE - 4);
	for (size_t at = 0; at < len;) {
		size_t c = utf8_length(text + at, len - at);

		if (c == 1 && ((unsigned char)text[at] < 0x20 ||
			       text[at] == 0x7f))
			c = 0;
		if (c)
			memcpy(out + n, text + at, c);
		else
			out[n] = '?';
		n += c ? c : 1;
		at += c ? c : 1;
	}
	memcpy(out + n, cut ? "..." : "", cut ? 4 : 1);
	return out;
}

const char *key_expects(const struct key *k)
{
	static const char *const words[] = {
		[KEY_BOOL] = "true or false",
		[KEY_SIZE] = "a size such as 64M",
		[KEY_TIME] = "a time such as 30s",
		[KEY_SHARE] = "a number of cores such as 0.5",
		[KEY_COUNT] = "a whole number",
		[KEY_CHOICE] = "one of the choices",
		[KEY_STRING] = "a name",
		[KEY_LIST] = "a list of strings",
		[KEY_LIST_OR_NULL] = "a list of strings or null",
	};

	return words[k->type];
}

const char *key_number_text(const struct key *k, uint64_t v, char text[32])
{
	switch (k->type) {
	case KEY_TIME:
		return num_time_text(v, text);
	case KEY_SHARE:
		return num_share_text(v, text);
	case KEY_COUNT: /* a plain number: 1024 files, not 1K */
		snprintf(text, 32, "%" PRIu64, v);
		return text;
	default:
		return num_size_text(v, text);
	}
}

int key_items_max(const struct key *k)
{
	return k->field == offsetof(struct policy, net.allow_out) ||
			       k->field == offsetof(struct policy, net.deny_out) ||
			       k->field == offsetof(struct policy, net.allow_private) ?
		       NET_ITEMS_MAX :
		       LIST_ITEMS_MAX;
}

const struct strlist *key_list(const struct policy *p, const struct key *k)
{
	const void *field = key_value(p, k);

	return k->type == KEY_LIST_OR_NULL ?
		       &((const struct nullable_list *)field)->list :
		       field;
}

size_t policy_split_bind(const char *entry, const char **dest)
{
	const char *last = NULL;

	for (const char *at = strstr(entry, ":/"); at; at = strstr(at + 1, ":/"))
		last = at;
	if (last == entry)
		last = NULL; /* no path before it: not a pair at all */
	*dest = last ? last + 1 : NULL;
	return last ? (size_t)(last - entry) : strlen(entry);
}

long policy_split_tmpfs(const char *entry, uint64_t *size)
{
	const char *colon = strrchr(entry, ':');
	uint64_t v = 0;

	/* tmpfs rounds up to pages, and 0 would mean "no limit". */
	if (colon && num_size(colon + 1, 4096, UINT64_C(1) << 46, &v) < 0)
		return -1;
	*size = v;
	return colon ? colon - entry : (long)strlen(entry);
}

/* --- set ------------------------------------------------------------------- */

struct request {
	struct policy *p;
	const struct key *key;
	const char *name;	/* as asked for: the key or an alias */
	const char *value;
};

static int refuse(const struct request *r, struct nsbox_error *err)
{
	err_set(err, NSBOX_E_POLICY, "%s: \"%s\" is not %s", r->name,
		SHOWN(r->value), key_expects(r->key));
	return NSBOX_E_POLICY;
}

static int parse_bool(const char *text, bool *out)
{
	static const struct { const char *word; bool value; } words[] = {
		{ "true", true },   { "yes", true }, { "on", true },
		{ "false", false }, { "no", false }, { "off", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(text, words[i].word) == 0) {
			*out = words[i].value;
			return 0;
		}
	return -1;
}

static int set_bool(const struct request *r, struct nsbox_error *err)
{
	if (parse_bool(r->value, key_field(r->p, r->key)) < 0)
		return refuse(r, err);
	return 0;
}

static int parse_number(const struct key *k, const char *text, uint64_t *out)
{
	switch (k->type) {
	case KEY_SIZE:
		return num_size(text, 0, UINT64_MAX, out);
	case KEY_TIME:
		return num_time(text, 0, UINT64_MAX, out);
	case KEY_SHARE:
		return num_share(text, 0, UINT64_MAX, out);
	default:
		return num_uint(text, 0, UINT64_MAX, out);
	}
}

static int set_number(const struct request *r, struct nsbox_error *err)
{
	const struct key *k = r->key;
	char limit[32];
	uint64_t v;

	if (parse_number(k, r->value, &v) < 0)
		return refuse(r, err);
	if (v < k->min)
		return err_set(err, NSBOX_E_POLICY,
			       "%s: %s is below the minimum of %s", r->name,
			       SHOWN(r->value),
			       key_number_text(k, k->min, limit));
	if (v > k->max)
		return err_set(err, NSBOX_E_POLICY,
			       "%s: %s is above the maximum of %s", r->name,
			       SHOWN(r->value),
			       key_number_text(k, k->max, limit));
	*(uint64_t *)key_field(r->p, k) = v;
	if (k->also)
		*(uint64_t *)((char *)r->p + k->also) = v;
	return 0;
}

static int set_choice(const struct request *r, struct nsbox_error *err)
{
	struct buf list = BUF_INIT(256);

	for (int i = 0; r->key->choices[i]; i++) {
		if (strcmp(r->value, r->key->choices[i]) == 0) {
			*(int *)key_field(r->p, r->key) = i;
			buf_free(&list);
			return 0;
		}
		buf_fmt(&list, "%s%s", i ? ", " : "", r->key->choices[i]);
	}
	err_set(err, NSBOX_E_POLICY, "%s: \"%s\" is not one of: %s", r->name,
		SHOWN(r->value), buf_text(&list));
	buf_free(&list);
	return NSBOX_E_POLICY;
}

static int set_string(const struct request *r, struct nsbox_error *err)
{
	char **field = key_field(r->p, r->key), *copy;

	if (strlen(r->value) > ITEM_LEN_MAX)
		return err_set(err, NSBOX_E_POLICY, "%s: longer than %d bytes",
			       r->name, ITEM_LEN_MAX);
	copy = strdup(r->value);
	if (!copy)
		return err_nomem(err);
	free(*field);
	*field = copy;
	return 0;
}

/* A variable set twice has the value of the last one. */
static void drop_same_variable(struct strlist *l, const char *item)
{
	size_t len = strcspn(item, "=") + 1;

	for (size_t i = l->n; i > 0; i--)
		if (strncmp(l->v[i - 1], item, len) == 0)
			strlist_remove(l, i - 1);
}

static int add_item(const struct request *r, struct strlist *l,
		    struct nsbox_error *err)
{
	if (strlist_has(l, r->value))
		return 0;
	if (strlen(r->value) > ITEM_LEN_MAX)
		return err_set(err, NSBOX_E_POLICY,
			       "%s: an item is longer than %d bytes", r->name,
			       ITEM_LEN_MAX);
	if (l->n >= (size_t)key_items_max(r->key))
		return err_set(err, NSBOX_E_POLICY, "%s: more than %d items",
			       r->name, key_items_max(r->key));
	if (strlist_add(l, r->value) < 0)
		return err_nomem(err);
	if (r->key->field == offsetof(struct policy, env.set) && l->n > 1) {
		char *last = l->v[--l->n];

		drop_same_variable(l, last);
		l->v[l->n++] = last;
		l->v[l->n] = NULL;
	}
	return 0;
}

static int set_list(const struct request *r, struct nsbox_error *err)
{
	struct strlist *l = key_field(r->p, r->key);

	if (*r->value)
		return add_item(r, l, err);
	strlist_free(l);
	return 0;
}

static int set_nullable(const struct request *r, struct nsbox_error *err)
{
	struct nullable_list *l = key_field(r->p, r->key);
	int code;

	if (*r->value && strcmp(r->value, "null") != 0) {
		code = add_item(r, &l->list, err);
		if (code == 0)
			l->is_set = true;
		return code;
	}
	strlist_free(&l->list);
	l->is_set = !*r->value;
	return 0;
}

static int (*const setters[])(const struct request *, struct nsbox_error *) = {
	[KEY_BOOL] = set_bool,	   [KEY_SIZE] = set_number,
	[KEY_TIME] = set_number,   [KEY_SHARE] = set_number,
	[KEY_COUNT] = set_number,  [KEY_CHOICE] = set_choice,
	[KEY_STRING] = set_string, [KEY_LIST] = set_list,
	[KEY_LIST_OR_NULL] = set_nullable,
};

static int unknown_key(const char *name, struct nsbox_error *err)
{
	const char *nearest = policy_key_nearest(name);

	err_set(err, NSBOX_E_POLICY, "unknown key \"%s\"", SHOWN(name));
	if (nearest)
		err_hint(err, "did you mean %s?", nearest);
	else
		err_hint(err, "nsbox policy schema lists every key");
	return NSBOX_E_POLICY;
}

static int apply_profile(struct policy *p, const char *name,
			 struct nsbox_error *err)
{
	const struct key *key = policy_key("extends");
	const struct profile *profile = policy_profile(name);
	struct policy next = { 0 };
	int code;

	if (!profile) {
		err_set(err, NSBOX_E_POLICY, "no profile named \"%s\"",
			SHOWN(name));
		err_hint(err, "built in: strict, default, python, node, shell, build, debug");
		return NSBOX_E_POLICY;
	}
	code = policy_copy(&next, p, err);
	for (size_t i = 0; code == 0 && profile->settings[i][0]; i++)
		code = policy_set(&next, profile->settings[i][0],
				  profile->settings[i][1], err);
	if (code == 0)
		code = set_string(&(struct request){ &next, key, "extends",
						     name }, err);
	if (code < 0) {
		policy_free(&next);
		return code;
	}
	policy_free(p);
	*p = next;
	return 0;
}

int policy_set(struct policy *p, const char *key, const char *value,
	       struct nsbox_error *err)
{
	const struct alias *a = policy_alias(key);
	struct request r = { p, key_of(key), key, value };
	bool on;

	if (!r.key)
		return unknown_key(key, err);
	if (r.key->field == offsetof(struct policy, profile))
		return apply_profile(p, value, err);
	if (a && a->if_true) {
		if (parse_bool(value, &on) < 0)
			return err_set(err, NSBOX_E_POLICY,
				       "%s: \"%s\" is not true or false", key,
				       SHOWN(value));
		r.value = on ? a->if_true : a->if_false;
	}
	return setters[r.key->type](&r, err);
}

/* --- get ------------------------------------------------------------------- */

static void get_list(const struct strlist *l, struct buf *out)
{
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_char(out, '\n');
		buf_str(out, l->v[i]);
	}
}

int policy_get(const struct policy *p, const struct key *key, struct buf *out)
{
	const void *field = key_value(p, key);
	char text[32];

	if (key_is_number(key))
		buf_str(out, key_number_text(key, *(const uint64_t *)field,
					     text));
	else if (key->type == KEY_BOOL)
		buf_str(out, *(const bool *)field ? "true" : "false");
	else if (key->type == KEY_CHOICE)
		buf_str(out, key->choices[*(const int *)field]);
	else if (key->type == KEY_LIST)
		get_list(field, out);
	else if (key->type == KEY_STRING)
		buf_str(out, *(char *const *)field ? *(char *const *)field :
						     "null");
	else if (((const struct nullable_list *)field)->is_set)
		get_list(key_list(p, key), out);
	else
		buf_str(out, "null");
	return out->failed ? NSBOX_E_NOMEM : 0;
}

/* --- whole policies -------------------------------------------------------- */

/* The default of one key into a field that is zero. */
static int set_preset(struct policy *p, const struct key *k,
		      struct nsbox_error *err)
{
	struct request r = { p, k, k->name, k->preset };
	const char *at = k->preset;

	if (!at)
		return 0;
	if (!key_is_list(k))
		return setters[k->type](&r, err);
	while (*at) {
		size_t len = strcspn(at, "\n");
		owned_mem char *item = strndup(at, len);
		int code;

		if (!item)
			return err_nomem(err);
		r.value = item;
		code = setters[k->type](&r, err);
		if (code < 0)
			return code;
		at += len + (at[len] == '\n');
	}
	return 0;
}

static void free_field(struct policy *p, const struct key *k)
{
	void *field = key_field(p, k);

	if (k->type == KEY_STRING)
		free(*(char **)field);
	else if (k->type == KEY_LIST)
		strlist_free(field);
	else if (k->type == KEY_LIST_OR_NULL)
		strlist_free(&((struct nullable_list *)field)->list);
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < policy_key_count; i++)
		free_field(p, &policy_keys[i]);
	memset(p, 0, sizeof(*p));
}

int policy_init(struct policy *p, struct nsbox_error *err)
{
	struct policy fresh = { 0 };

	for (size_t i = 0; i < policy_key_count; i++) {
		int code = set_preset(&fresh, &policy_keys[i], err);

		if (code < 0) {
			policy_free(&fresh);
			return code;
		}
	}
	policy_free(p);
	*p = fresh;
	return 0;
}

/* Everything plain is there already; what is owned gets memory of its own. */
static int copy_field(struct policy *to, const struct policy *from,
		      const struct key *k)
{
	void *field = key_field(to, k);
	char *const *text = key_value(from, k);

	if (k->type == KEY_STRING && *text) {
		*(char **)field = strdup(*text);
		return *(char **)field ? 0 : -1;
	}
	if (k->type == KEY_LIST)
		return strlist_copy(field, key_list(from, k));
	if (k->type == KEY_LIST_OR_NULL)
		return strlist_copy(&((struct nullable_list *)field)->list,
				    key_list(from, k));
	return 0;
}

static void forget_owned(struct policy *p)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *k = &policy_keys[i];

		if (k->type == KEY_STRING)
			*(char **)key_field(p, k) = NULL;
		else if (key_is_list(k))
			*(struct strlist *)key_list(p, k) =
				(struct strlist){ 0 };
	}
}

int policy_copy(struct policy *to, const struct policy *from,
		struct nsbox_error *err)
{
	struct policy fresh = *from;

	forget_owned(&fresh);
	for (size_t i = 0; i < policy_key_count; i++)
		if (copy_field(&fresh, from, &policy_keys[i]) < 0) {
			policy_free(&fresh);
			return err_nomem(err);
		}
	policy_free(to);
	*to = fresh;
	return 0;
}

bool policy_is_preset(const struct policy *p, const struct key *key)
{
	struct policy fresh = { 0 };
	struct buf now = BUF_INIT(SIZE_MAX / 2), then = BUF_INIT(SIZE_MAX / 2);
	bool same;

	same = set_preset(&fresh, key, NULL) == 0 &&
	       policy_get(p, key, &now) == 0 &&
	       policy_get(&fresh, key, &then) == 0 &&
	       strcmp(buf_text(&now), buf_text(&then)) == 0;
	free_field(&fresh, key);
	buf_free(&now);
	buf_free(&then);
	return same;
}
