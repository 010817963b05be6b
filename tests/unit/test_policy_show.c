/* policy/{show,show_result}.c: a policy and the schemas as JSON, and back again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "policy/policy.h"

static void same_policy(const struct policy *a, const struct policy *b)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		struct buf x = BUF_INIT(1 << 20), y = BUF_INIT(1 << 20);

		policy_get(a, &policy_keys[i], &x);
		policy_get(b, &policy_keys[i], &y);
		assert_string_equal(buf_text(&x), buf_text(&y));
		buf_free(&x);
		buf_free(&y);
	}
}

static void there_and_back(const struct policy *p)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct buf text = BUF_INIT(1 << 20);
	struct settings s = { 0 };
	struct policy back = { 0 };

	policy_to_json(p, &text);
	assert_false(text.failed);
	assert_int_equal(policy_init(&back, NULL), 0);
	if (policy_parse(&s, buf_text(&text), text.len, "shown", &err) < 0 ||
	    policy_apply(&back, &s, LAYER_FLAGS, &err) < 0)
		fail_msg("%s in %s", err.message, buf_text(&text));
	same_policy(p, &back);
	settings_free(&s);
	policy_free(&back);
	buf_free(&text);
}

static void a_shown_policy_is_a_file_that_makes_it_again(void **state)
{
	static const char *const settings[][2] = {
		{ "limits.timeout", "1500us" },  { "limits.cpus", "2.125" },
		{ "limits.memory", "123456789" }, { "fs.read", "/a\"\\\n:/b" },
		{ "fs.tmpfs", "/t:1M" },	 { "env.set", "A=\xc3\xa9" },
		{ "imports.allow", "" },	 { "fs.protect", "" },
		{ "fs.protect", ".envrc" },	 { "net.mode", "filtered" },
		{ "enforce.degraded", "yes" },
	};
	struct policy p = { 0 };

	(void)state;
	for (size_t i = 0; i < policy_profile_count; i++) {
		assert_int_equal(policy_from_profile(&p, policy_profiles[i].name, NULL), 0);
		there_and_back(&p);
		for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
			assert_int_equal(policy_set(&p, settings[s][0], settings[s][1], NULL), 0);
			there_and_back(&p);
		}
		assert_int_equal(policy_set(&p, "env.set", "", NULL), 0);
		there_and_back(&p);
	}
	policy_free(&p);
}

static void a_shown_policy_has_plain_numbers_nested_by_the_dots(void **state)
{
	struct buf text = BUF_INIT(1 << 20);
	struct policy p = { 0 };
	json_t *root, *limits;

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(policy_set(&p, "limits.timeout", "1500ms", NULL), 0);
	policy_to_json(&p, &text);
	root = json_loads(buf_text(&text), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	limits = json_object_get(root, "limits");
	assert_int_equal(json_integer_value(json_object_get(limits, "memory")),
			 512 << 20);
	assert_true(json_real_value(json_object_get(limits, "timeout")) == 1.5);
	assert_null(json_object_get(limits, "output"));
	assert_true(json_is_null(json_object_get(
		json_object_get(root, "imports"), "allow")));
	json_decref(root);
	policy_free(&p);
	buf_free(&text);
}

static void the_policy_schema_knows_every_key_in_both_spellings(void **state)
{
	struct buf text = BUF_INIT(1 << 20);
	json_t *root, *defs, *props;

	(void)state;
	policy_schema(&text);
	assert_false(text.failed);
	root = json_loads(buf_text(&text), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	defs = json_object_get(root, "$defs");
	props = json_object_get(root, "properties");
	assert_int_equal(json_object_size(defs), policy_key_count);
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *k = &policy_keys[i];
		json_t *def = json_object_get(defs, k->name);

		assert_string_equal(json_string_value(json_object_get(
			def, "description")), k->help);
		assert_non_null(json_object_get(props, k->name));
		assert_int_equal(json_is_array(json_object_get(def, "enum")),
				 k->type == KEY_CHOICE);
	}
	assert_int_equal(json_integer_value(json_object_get(json_object_get(
		defs, "limits.pids"), "default")), 128);
	assert_true(json_is_false(json_object_get(json_object_get(
		props, "limits"), "additionalProperties")));
	json_decref(root);
	buf_free(&text);
}

static void the_result_schema_is_json_and_names_the_verdicts(void **state)
{
	struct buf text = BUF_INIT(1 << 20);
	json_t *root, *props, *verdicts;

	(void)state;
	policy_result_schema(&text);
	assert_false(text.failed);
	root = json_loads(buf_text(&text), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	props = json_object_get(root, "properties");
	verdicts = json_object_get(json_object_get(props, "verdict"), "enum");
	assert_int_equal(json_array_size(verdicts), 10);
	assert_int_equal(json_array_size(json_object_get(root, "required")),
			 json_object_size(props));
	assert_non_null(json_object_get(props, "denials"));
	json_decref(root);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shown_policy_is_a_file_that_makes_it_again),
		cmocka_unit_test(a_shown_policy_has_plain_numbers_nested_by_the_dots),
		cmocka_unit_test(the_policy_schema_knows_every_key_in_both_spellings),
		cmocka_unit_test(the_result_schema_is_json_and_names_the_verdicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
