/* A policy's network rules for tests, from a few words. */
#ifndef TESTS_UNIT_EGRESS_POLICY_H
#define TESTS_UNIT_EGRESS_POLICY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "policy/egress.h"

/* "allow a.test b.test deny ALL_TRAFFIC private 10.0.0.0/8 mode open deny-wins": a word before
 * its values; mode filtered unless named. */
static inline int rules_policy(struct policy *p, const char *words, struct nsbox_error *err)
{
	static const struct { const char *word, *key; } keys[] = {
		{ "allow", "net.allow_out" }, { "deny", "net.deny_out" },
		{ "private", "net.allow_private" }, { "mode", "net.mode" },
		{ "compat", "net.compat" },
	};
	owned_mem char *copy = strdup(words);
	const char *key = NULL;
	char *rest = NULL;

	assert_int_equal(policy_init(p, NULL), 0);
	assert_int_equal(policy_set(p, "net.mode", "filtered", NULL), 0);
	for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		bool is_key = strcmp(w, "deny-wins") == 0;

		if (is_key)
			assert_int_equal(policy_set(p, "net.precedence", "deny", NULL), 0);
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			if (strcmp(w, keys[i].word) == 0) {
				key = keys[i].key;
				is_key = true;
			}
		if (!is_key && policy_set(p, key, w, err) < 0)
			return NSBOX_E_POLICY;
	}
	return policy_check(p, err);
}

static inline struct egress_rules *rules_of(const char *words)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct egress_rules *r = NULL;
	struct policy p = { 0 };

	if (rules_policy(&p, words, &err) < 0 || egress_compile(&r, &p, &err) < 0)
		fail_msg("%s: %s", words, err.message);
	assert_true(egress_is_valid(r, r->size));
	policy_free(&p);
	return r;
}

#endif
