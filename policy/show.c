/*
 * A policy, and what one may contain, as JSON for people and programs.
 *
 * Pure. policy_to_json() must be a policy file that makes the same policy again, but for a
 * proxy's password (a test round-trips it); the schema is made from the key table alone.
 */
#include "policy/value.h"

#include "base/json.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- values ----------------------------------------------------------------- */

/* Times as seconds, exactly: JSON numbers are decimal. */
static void put_seconds(struct json *j, uint64_t us)
{
	char text[40];
	size_t n;

	snprintf(text, sizeof(text), "%" PRIu64 ".%06u", us / 1000000,
		 (unsigned)(us % 1000000));
	n = strlen(text);
	while (text[n - 1] == '0')
		n--;
	if (text[n - 1] == '.')
		n--;
	text[n] = '\0';
	json_raw(j, text);
}

static void put_number(struct json *j, const struct key *k, uint64_t v)
{
	char text[32];

	if (k->type == KEY_TIME)
		put_seconds(j, v);
	else if (k->type == KEY_SHARE)
		json_raw(j, num_share_text(v, text));
	else
		json_uint(j, v);
}

/* What policy_init() and the profile put there before the file is read. */
static bool starts_with_base(const struct strlist *l, const struct strlist *base)
{
	if (l->n < base->n)
		return false;
	for (size_t i = 0; i < base->n; i++)
		if (strcmp(l->v[i], base->v[i]) != 0)
			return false;
	return true;
}

/* An array adds to what is there, "" as its first item forgets that first. */
static void put_list(struct json *j, const struct key *k,
		     const struct policy *p, const struct policy *base)
{
	const struct strlist *l = key_list(p, k);

	if (k->type == KEY_LIST_OR_NULL &&
	    !((const struct nullable_list *)key_value(p, k))->is_set) {
		json_null(j);
		return;
	}
	json_array(j);
	if (base && l->n && !starts_with_base(l, key_list(base, k)))
		json_str(j, "");
	for (size_t i = 0; i < l->n; i++)
		json_str(j, l->v[i]);
	json_end(j, ']');
}

/* A proxy's password stays where it was written. */
static void put_string(struct json *j, const struct key *k, const char *text)
{
	struct buf shown = BUF_INIT(SIZE_MAX / 2);

	if (text && k->field == offsetof(struct policy, net.proxy)) {
		policy_proxy_shown(text, &shown);
		text = buf_text(&shown);
	}
	json_str(j, text);
	j->out->failed |= shown.failed;
	buf_free(&shown);
}

static void put_value(struct json *j, const struct key *k,
		      const struct policy *p, const struct policy *base)
{
	const void *field = key_value(p, k);

	if (key_is_number(k))
		put_number(j, k, *(const uint64_t *)field);
	else if (k->type == KEY_BOOL)
		json_bool(j, *(const bool *)field);
	else if (k->type == KEY_CHOICE)
		json_str(j, k->choices[*(const int *)field]);
	else if (k->type == KEY_STRING)
		put_string(j, k, *(char *const *)field);
	else
		put_list(j, k, p, base);
}

/* --- nesting by dots --------------------------------------------------------- */

/* Length of the group's name: "limits" of "limits.memory"; 0: none. */
static size_t group_len(const struct key *k)
{
	const char *dot = strchr(k->name, '.');

	return dot ? (size_t)(dot - k->name) : 0;
}

static bool same_group(const struct key *a, const struct key *b)
{
	size_t n = group_len(a);

	return n == group_len(b) && memcmp(a->name, b->name, n) == 0;
}

/* The rows of a group follow each other in the table (a test checks it). */
static size_t group_end(size_t i)
{
	size_t end = i + 1;

	while (group_len(&policy_keys[i]) && end < policy_key_count &&
	       same_group(&policy_keys[i], &policy_keys[end]))
		end++;
	return end;
}

static void put_group_key(struct json *j, const struct key *k)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)group_len(k), k->name);
	json_key(j, name);
}

struct shown_policy {
	const struct policy *p, *base;
};

static void put_keys(struct json *j, size_t from, size_t to,
		     const struct shown_policy *s)
{
	for (size_t i = from; i < to; i++) {
		const struct key *k = &policy_keys[i];

		if (k->also)
			continue; /* its two keys say it */
		if (k->type == KEY_STRING && !*(char *const *)key_value(s->p, k))
			continue;
		json_key(j, k->name + group_len(k) + (group_len(k) ? 1 : 0));
		put_value(j, k, s->p, s->base);
	}
}

void policy_to_json(const struct policy *p, struct buf *out)
{
	struct json j = JSON_INIT(out);
	struct policy base = { 0 };
	struct shown_policy s = { p, &base };

	if (policy_from_profile(&base, p->profile ? p->profile : "default",
				NULL) < 0) {
		out->failed = true;
		return;
	}
	json_object(&j);
	for (size_t i = 0, end; i < policy_key_count; i = end) {
		end = group_end(i);
		if (group_len(&policy_keys[i])) {
			put_group_key(&j, &policy_keys[i]);
			json_object(&j);
			put_keys(&j, i, end, &s);
			json_end(&j, '}');
		} else {
			put_keys(&j, i, end, &s);
		}
	}
	json_end(&j, '}');
	policy_free(&base);
}

/* --- schema of a policy ------------------------------------------------------ */

#define DIALECT "https://json-schema.org/draft/2020-12/schema"

static void put_string_array(struct json *j, const char *key,
			     const char *const *v)
{
	json_key(j, key);
	json_array(j);
	for (; *v; v++)
		json_str(j, *v);
	json_end(j, ']');
}

static void put_bounds(struct json *j, const struct key *k)
{
	static const char *const patterns[] = {
		[KEY_SIZE] = "^[0-9]+(\\.[0-9]{1,9})?([kKmMgGtTpP]([iI]?[bB])?|[bB])?$",
		[KEY_TIME] = "^[0-9]+(\\.[0-9]{1,9})?(us|ms|s|m|h|d)?$",
		[KEY_SHARE] = "^[0-9]+(\\.[0-9]{1,9})?$",
		[KEY_COUNT] = "^[0-9]+$",
	};

	put_string_array(j, "type", (const char *const[]){
		k->type == KEY_SIZE || k->type == KEY_COUNT ? "integer" :
							      "number",
		"string", NULL });
	json_key(j, "minimum");
	put_number(j, k, k->min);
	json_key(j, "maximum");
	put_number(j, k, k->max);
	json_kstr(j, "pattern", patterns[k->type]);
}

static void put_list_type(struct json *j, const struct key *k)
{
	put_string_array(j, "type", (const char *const[]){
		"array", "string", k->type == KEY_LIST ? NULL : "null", NULL });
	json_key(j, "items");
	json_object(j);
	json_kstr(j, "type", "string");
	json_end(j, '}');
}

static void put_type(struct json *j, const struct key *k)
{
	if (key_is_number(k))
		put_bounds(j, k);
	else if (key_is_list(k))
		put_list_type(j, k);
	else if (k->type == KEY_BOOL)
		json_kstr(j, "type", "boolean");
	else
		json_kstr(j, "type", "string");
	if (k->type == KEY_CHOICE)
		put_string_array(j, "enum", k->choices);
}

static void put_definition(struct json *j, const struct key *k,
			   const struct policy *defaults)
{
	json_key(j, k->name);
	json_object(j);
	put_type(j, k);
	json_kstr(j, "description", k->help);
	if (k->type != KEY_STRING) {
		json_key(j, "default");
		put_value(j, k, defaults, NULL);
	}
	json_end(j, '}');
}

static void put_ref(struct json *j, const char *property, const char *key)
{
	char ref[96];

	snprintf(ref, sizeof(ref), "#/$defs/%s", key);
	json_key(j, property);
	json_object(j);
	json_kstr(j, "$ref", ref);
	json_end(j, '}');
}

static void put_group_schema(struct json *j, size_t from, size_t to)
{
	put_group_key(j, &policy_keys[from]);
	json_object(j);
	json_kstr(j, "type", "object");
	json_kbool(j, "additionalProperties", false);
	json_key(j, "properties");
	json_object(j);
	for (size_t i = from; i < to; i++)
		put_ref(j, policy_keys[i].name + group_len(&policy_keys[i]) + 1,
			policy_keys[i].name);
	json_end(j, '}');
	json_end(j, '}');
}

/* Both spellings are fine: {"limits": {"memory": ..}} and {"limits.memory": ..}. */
static void put_properties(struct json *j)
{
	json_key(j, "properties");
	json_object(j);
	json_key(j, "$schema");
	json_raw(j, "{\"type\":\"string\"}");
	for (size_t i = 0, end; i < policy_key_count; i = end) {
		end = group_end(i);
		if (group_len(&policy_keys[i]))
			put_group_schema(j, i, end);
		for (size_t n = i; n < end; n++)
			put_ref(j, policy_keys[n].name, policy_keys[n].name);
	}
	json_end(j, '}');
}

void policy_schema(struct buf *out)
{
	struct json j = JSON_INIT(out);
	struct policy defaults = { 0 };

	if (policy_init(&defaults, NULL) < 0) {
		out->failed = true;
		return;
	}
	json_object(&j);
	json_kstr(&j, "$schema", DIALECT);
	json_kstr(&j, "title", "nsbox policy");
	json_kstr(&j, "description",
		  "What one box may do. Comments and trailing commas are fine.");
	json_kstr(&j, "type", "object");
	json_kbool(&j, "additionalProperties", false);
	put_properties(&j);
	json_key(&j, "$defs");
	json_object(&j);
	for (size_t i = 0; i < policy_key_count; i++)
		put_definition(&j, &policy_keys[i], &defaults);
	json_end(&j, '}');
	json_end(&j, '}');
	policy_free(&defaults);
}
