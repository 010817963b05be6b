/*
 * api.c - the public face of policies, keys, profiles and schemas
 */
#include "runtime/box.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4 << 20 };

#define TO_TEXT(x) #x
#define VERSION_TEXT(a, b, c) TO_TEXT(a) "." TO_TEXT(b) "." TO_TEXT(c)

const char *nsbox_version(void)
{
	return VERSION_TEXT(NSBOX_VERSION_MAJOR, NSBOX_VERSION_MINOR, NSBOX_VERSION_PATCH);
}

/* ------------------------------------------------------------------- policies -- */

int nsbox_policy_new(struct nsbox_policy **out, const char *profile, struct nsbox_error *err)
{
	struct nsbox_policy *policy;
	int r;

	err_clear(err);
	if (!out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_new: out is NULL");
	policy = calloc(1, sizeof(*policy));
	if (!policy)
		return err_nomem(err);
	r = policy_from_profile(&policy->p, profile ? profile : "default", err);
	if (r < 0) {
		nsbox_policy_free(policy);
		return r;
	}
	*out = policy;
	return 0;
}

int nsbox_policy_set(struct nsbox_policy *policy, const char *key, const char *value,
		     struct nsbox_error *err)
{
	err_clear(err);
	if (!policy || !key || !value)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_set: an argument is NULL");
	return policy_set(&policy->p, key, value, err);
}

int nsbox_policy_load(struct nsbox_policy *policy, const char *text, size_t len,
		      const char *name, enum nsbox_layer layer, struct nsbox_error *err)
{
	struct settings s = { 0 };
	int r;

	err_clear(err);
	if (!policy || !text || !name || (unsigned)layer > NSBOX_LAYER_FLAGS)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_load: bad argument");
	r = policy_parse(&s, text, len, name, err);
	if (r >= 0)
		r = policy_apply(&policy->p, &s, (enum layer)layer, err);
	settings_free(&s);
	return r;
}

int nsbox_policy_check(const struct nsbox_policy *policy, struct nsbox_error *err)
{
	err_clear(err);
	if (!policy)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_check: policy is NULL");
	return policy_check(&policy->p, err);
}

int nsbox_policy_json(const struct nsbox_policy *policy, char **out, struct nsbox_error *err)
{
	struct buf text = BUF_INIT(TEXT_MAX);
	char *result;

	err_clear(err);
	if (!policy || !out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_json: an argument is NULL");
	policy_to_json(&policy->p, &text);
	result = buf_take(&text);
	buf_free(&text);
	if (!result)
		return err_nomem(err);
	*out = result;
	return 0;
}

void nsbox_policy_free(struct nsbox_policy *policy)
{
	if (!policy)
		return;
	policy_free(&policy->p);
	free(policy);
}

/* ----------------------------------------------------------- tables and schemas -- */

static const char *const type_names[] = {
	[KEY_BOOL] = "bool",   [KEY_SIZE] = "size",	[KEY_TIME] = "time",
	[KEY_SHARE] = "share", [KEY_COUNT] = "count",	[KEY_CHOICE] = "choice",
	[KEY_STRING] = "string", [KEY_LIST] = "list",	[KEY_LIST_OR_NULL] = "list",
};

int nsbox_key_info(size_t i, struct nsbox_key *out)
{
	const struct key *k = &policy_keys[i];

	if (!out || i >= policy_key_count)
		return NSBOX_E_USAGE;
	*out = (struct nsbox_key){ .name = k->name, .type = type_names[k->type],
				   .preset = k->preset, .choices = k->choices, .flag = k->flag,
				   .letter = k->letter, .value_name = k->value_name,
				   .help = k->help };
	return 0;
}

const char *nsbox_profile_name(size_t i)
{
	return i < policy_profile_count ? policy_profiles[i].name : NULL;
}

const char *nsbox_profile_help(size_t i)
{
	return i < policy_profile_count ? policy_profiles[i].help : NULL;
}

char *nsbox_schema(const char *which)
{
	struct buf text = BUF_INIT(TEXT_MAX);
	char *result;

	if (which && strcmp(which, "policy") == 0)
		policy_schema(&text);
	else if (which && strcmp(which, "result") == 0)
		policy_result_schema(&text);
	else
		return NULL;
	result = buf_take(&text);
	buf_free(&text);
	return result;
}
