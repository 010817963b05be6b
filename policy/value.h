/*
 * Inside policy/ only: what values, layers, checks and texts share about one key
 * of the table. Pure.
 */
#ifndef POLICY_VALUE_H
#define POLICY_VALUE_H

#include "base/cleanup.h"
#include "policy/policy.h"

/* A list longer than this is an attack on the launcher's memory. Block lists of
 * destinations are long by nature. */
enum { LIST_ITEMS_MAX = 1024, NET_ITEMS_MAX = 16384 };
int key_items_max(const struct key *k);

/* A name that other systems use for one of our keys (aliases.c). */
struct alias {
	const char *name, *key;
	const char *if_true, *if_false; /* a bool that becomes a choice; or NULL */
	const char *from;		/* whose name it is */
};
extern const struct alias policy_aliases[];
extern const size_t policy_alias_count;
const struct alias *policy_alias(const char *name);

/* The key behind a name or an alias; NULL: none. */
const struct key *key_of(const char *name);

/* "limits" for "limit"; NULL: nothing near. */
const char *key_group_nearest(const char *name);

static inline void *key_field(struct policy *p, const struct key *k)
{
	return (char *)p + k->field;
}

static inline const void *key_value(const struct policy *p, const struct key *k)
{
	return (const char *)p + k->field;
}

static inline bool key_is_number(const struct key *k)
{
	return k->type == KEY_SIZE || k->type == KEY_TIME ||
	       k->type == KEY_SHARE || k->type == KEY_COUNT;
}

static inline bool key_is_list(const struct key *k)
{
	return k->type == KEY_LIST || k->type == KEY_LIST_OR_NULL;
}

/* The items of a list key, whether nullable or not. */
const struct strlist *key_list(const struct policy *p, const struct key *k);

/* A number of the key's type as text for people and policy_set(). */
const char *key_number_text(const struct key *k, uint64_t v, char text[32]);

/* The paths' part of policy_check() (check_paths.c). */
int policy_check_paths(const struct policy *p, struct nsbox_error *err);

/* The network's part (check_net.c). */
enum { NET_RESOLVERS_MAX = 3, NET_PUBLISH_MAX = 16 };
int policy_check_net(const struct policy *p, struct nsbox_error *err);

/* "not a size such as 64M": the words for a value of the wrong kind. */
const char *key_expects(const struct key *k);

/*
 * Hostile text for a one-line message: control bytes and invalid UTF-8 become
 * '?', long text is cut with "...". Returns its own argument `shown`.
 */
enum { SHOWN_SIZE = 96 };
const char *shown(const char *text, char shown[SHOWN_SIZE]);
#define SHOWN(text) shown((text), (char[SHOWN_SIZE]){ 0 })

#endif
