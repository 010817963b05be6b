/*
 * Layers: settings with the place they came from, applied on top of a policy.
 *
 * Pure. Must leave the policy untouched when one setting is refused. Mustn't let a
 * project's file loosen anything: whoever sends a repository writes that file.
 */
#include "policy/value.h"

#include <string.h>

int settings_add(struct settings *s, const char *key, const char *value,
		 const struct origin *from)
{
	struct setting *v = realloc(s->v, (s->n + 1) * sizeof(*v));
	struct setting new = { .key = strdup(key), .value = strdup(value) };

	if (v)
		s->v = v;
	if (!v || !new.key || !new.value) {
		free(new.key);
		free(new.value);
		return -1;
	}
	if (from) {
		new.file = from->file;
		new.line = from->line;
		new.column = from->column;
	}
	s->v[s->n++] = new;
	return 0;
}

void settings_free(struct settings *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].key);
		free(s->v[i].value);
	}
	free(s->v);
	s->v = NULL;
	s->n = 0;
}

static int at_place(const struct setting *s, int code, struct nsbox_error *err)
{
	if (s && s->file && s->line)
		err_wrap(err, "%s:%u:%u", SHOWN(s->file), s->line, s->column);
	else if (s && s->file)
		err_wrap(err, "%s", SHOWN(s->file));
	return code;
}

/* --- what is looser -------------------------------------------------------- */

/* One key before and after. */
struct change {
	const struct key *key;
	const struct policy *old, *new;
	const char *item;	/* of a list: the one that was added or lost */
};

/* The first item of a that b lacks, or NULL. */
static const char *first_missing(const struct strlist *a,
				 const struct strlist *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (!strlist_has(b, a->v[i]))
			return a->v[i];
	return NULL;
}

static bool fewer_is_broken(struct change *c)
{
	const struct strlist *old = key_list(c->old, c->key);
	const struct strlist *new = key_list(c->new, c->key);

	if (c->key->type == KEY_LIST_OR_NULL) {
		const struct nullable_list *was = key_value(c->old, c->key);
		const struct nullable_list *is = key_value(c->new, c->key);

		if (!was->is_set)
			return false;
		if (!is->is_set)
			return true;
	}
	if (c->key->zero_is_all && !old->n)
		return false;
	if (c->key->zero_is_all && !new->n)
		return true;
	c->item = first_missing(new, old);
	return c->item != NULL;
}

static bool more_is_broken(struct change *c)
{
	c->item = first_missing(key_list(c->old, c->key),
				key_list(c->new, c->key));
	return c->item != NULL;
}

static uint64_t limit_of(const struct policy *p, const struct key *k)
{
	uint64_t v = *(const uint64_t *)key_value(p, k);

	return k->zero_is_all && !v ? UINT64_MAX : v;
}

static int choice_of(const struct policy *p, const struct key *k)
{
	return *(const int *)key_value(p, k);
}

static bool is_changed(const struct change *c)
{
	struct buf old = BUF_INIT(SIZE_MAX / 2), new = BUF_INIT(SIZE_MAX / 2);
	bool same = policy_get(c->old, c->key, &old) == 0 &&
		    policy_get(c->new, c->key, &new) == 0 &&
		    strcmp(buf_text(&old), buf_text(&new)) == 0;

	buf_free(&old);
	buf_free(&new);
	return !same;
}

static bool is_looser(struct change *c)
{
	const struct key *k = c->key;

	switch (k->tighter) {
	case TIGHTER_LOWER:
		return limit_of(c->new, k) > limit_of(c->old, k);
	case TIGHTER_FALSE:
		return *(const bool *)key_value(c->new, k) &&
		       !*(const bool *)key_value(c->old, k);
	case TIGHTER_FEWER:
		return fewer_is_broken(c);
	case TIGHTER_MORE:
		return more_is_broken(c);
	case TIGHTER_FIRST:
		return choice_of(c->new, k) > choice_of(c->old, k);
	case TIGHTER_LAST:
		return choice_of(c->new, k) < choice_of(c->old, k);
	case TIGHTER_FIXED:
		/* a profile may be named: its settings are judged one by one */
		return k->field != offsetof(struct policy, profile) && is_changed(c);
	}
	return true;
}

/* --- whose fault ----------------------------------------------------------- */

static bool names_key(const struct setting *s, const struct key *k)
{
	const struct key *named = key_of(s->key);

	return named && (named->field == k->field ||
			 (named->also && named->also == k->field));
}

/* The setting that did it: the one with the item, else the last of the key, else
 * the profile. */
static const struct setting *culprit(const struct settings *s,
				     const struct change *c)
{
	const struct setting *found = NULL, *profile = NULL;

	for (size_t i = 0; i < s->n; i++) {
		const struct setting *v = &s->v[i];

		if (strcmp(v->key, "extends") == 0)
			profile = v;
		if (!names_key(v, c->key))
			continue;
		if (c->item && strcmp(v->value, c->item) == 0)
			return v;
		found = v;
	}
	return found ? found : profile;
}

static int say_looser(const struct settings *s, const struct change *c,
		      struct nsbox_error *err)
{
	const struct setting *by = culprit(s, c);
	struct buf old = BUF_INIT(4096), new = BUF_INIT(4096);
	const char *name = c->key->name;
	int code = NSBOX_E_POLICY;

	if (c->item && c->key->tighter == TIGHTER_MORE)
		err_set(err, code, "%s: a project may only tighten: it may not drop \"%s\"",
			name, SHOWN(c->item));
	else if (c->item)
		err_set(err, code, "%s: a project may only tighten: it may not add \"%s\"",
			name, SHOWN(c->item));
	else if (key_is_list(c->key))
		err_set(err, code, "%s: a project may only tighten: it may not lift the list",
			name);
	else if (c->key->type == KEY_STRING) /* it may be a secret */
		err_set(err, code, "%s: a project may only tighten: it may not change it",
			name);
	else if (policy_get(c->old, c->key, &old) == 0 &&
		 policy_get(c->new, c->key, &new) == 0)
		err_set(err, code, "%s: a project may only tighten: it is %s, not %s",
			name, SHOWN(buf_text(&old)), SHOWN(buf_text(&new)));
	err_hint(err, "put it into a policy of your own and pass that with -p, or use --set");
	buf_free(&old);
	buf_free(&new);
	return at_place(by, code, err);
}

/*
 * The lists of the network together: each alone only grows tighter, and yet an allowance
 * that is the first one beats what was denied, and "all but this" is more than nothing.
 */
static const char *network_broken_by(const struct policy *old, const struct policy *new)
{
	bool had_nothing = old->net.mode == NET_FILTERED && old->net.compat == COMPAT_NONE &&
			   !old->net.allow_out.n && !old->net.deny_out.n;
	bool deny_wins = new->net.precedence == PRECEDENCE_DENY;

	if (old->net.mode == NET_DISABLED || new->net.mode == NET_DISABLED ||
	    old->net.allow_out.n)
		return NULL;
	if (new->net.allow_out.n && (had_nothing || (old->net.deny_out.n && !deny_wins)))
		return "net.allow_out";
	return had_nothing && new->net.deny_out.n ? "net.deny_out" : NULL;
}

static int check_network(const struct policy *old, const struct policy *new,
			 const struct settings *s, struct nsbox_error *err)
{
	const char *name = network_broken_by(old, new);
	struct change c = { .old = old, .new = new };

	if (!name)
		return 0;
	c.key = policy_key(name);
	c.item = key_list(new, c.key)->v[0];
	err_set(err, NSBOX_E_POLICY,
		"%s: a project may only tighten: with \"%s\" more could be reached than before",
		name, SHOWN(c.item));
	err_hint(err, "put it into a policy of your own and pass that with -p, or use --set");
	return at_place(culprit(s, &c), NSBOX_E_POLICY, err);
}

static int check_tighter(const struct policy *old, const struct policy *new,
			 const struct settings *s, struct nsbox_error *err)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		struct change c = { &policy_keys[i], old, new, NULL };

		if (!c.key->also && is_looser(&c))
			return say_looser(s, &c, err);
	}
	return check_network(old, new, s, err);
}

/* --- apply ----------------------------------------------------------------- */

/* A profile comes first wherever the file names it: what the file says itself
 * stands on top. */
static int apply_pass(struct policy *p, const struct settings *s, bool profiles,
		      struct nsbox_error *err)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct setting *v = &s->v[i];
		int code;

		if ((strcmp(v->key, "extends") == 0) != profiles)
			continue;
		code = policy_set(p, v->key, v->value, err);
		if (code < 0)
			return at_place(v, code, err);
	}
	return 0;
}

int policy_apply(struct policy *p, const struct settings *s, enum layer layer,
		 struct nsbox_error *err)
{
	struct policy next = { 0 };
	int code = policy_copy(&next, p, err);

	if (code == 0)
		code = apply_pass(&next, s, true, err);
	if (code == 0)
		code = apply_pass(&next, s, false, err);
	if (code == 0 && layer == LAYER_PROJECT)
		code = check_tighter(p, &next, s, err);
	if (code < 0) {
		policy_free(&next);
		return code;
	}
	policy_free(p);
	*p = next;
	return 0;
}
