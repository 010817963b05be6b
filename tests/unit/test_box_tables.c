/*
 * test_box_tables.c - what a program learns without running anything: version, keys,
 * profiles, schemas, policies as JSON, doctor
 */
#include "box_run.h"

#include <jansson.h>

static json_t *parsed(const char *text)
{
	json_error_t e;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);

	if (!j)
		fail_msg("%s at %d of %.200s", e.text, e.position, text);
	return j;
}

/* ------------------------------------------------------------- tables and schemas -- */

static void the_version_is_that_of_the_header(void **state)
{
	char want[32];

	(void)state;
	snprintf(want, sizeof(want), "%d.%d.%d", NSBOX_VERSION_MAJOR, NSBOX_VERSION_MINOR,
		 NSBOX_VERSION_PATCH);
	assert_string_equal(nsbox_version(), want);
}

static bool is_type(const char *type)
{
	static const char *const types[] = { "bool", "size", "time", "share", "count", "choice",
					     "string", "list" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i], type) == 0)
			return true;
	return false;
}

static void every_key_is_described_and_takes_its_own_preset(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	char *text = nsbox_schema("policy");
	json_t *schema = parsed(text), *sections = json_object_get(schema, "properties");
	struct nsbox_key k = { 0 };
	size_t n;

	(void)state;
	must(nsbox_policy_new(&p, NULL, &err), &err);
	for (n = 0; nsbox_key_info(n, &k) == 0; n++) {
		const char *dot = strchr(k.name, '.');
		char section[32];
		json_t *holder = sections; /* a key without a section is "extends" */

		assert_true(is_type(k.type));
		assert_true(k.help && k.help[0]);
		assert_int_equal(k.choices != NULL, strcmp(k.type, "choice") == 0);
		if (k.preset && k.preset[0])
			must(nsbox_policy_set(p, k.name, k.preset, &err), &err);
		for (size_t c = 0; k.choices && k.choices[c]; c++)
			must(nsbox_policy_set(p, k.name, k.choices[c], &err), &err);
		if (dot) {
			snprintf(section, sizeof(section), "%.*s", (int)(dot - k.name), k.name);
			holder = json_object_get(json_object_get(sections, section), "properties");
		}
		if (!json_object_get(holder, dot ? dot + 1 : k.name))
			fail_msg("%s is not in the schema", k.name);
	}
	assert_true(n > 40);
	assert_int_equal(nsbox_key_info(n, &k), NSBOX_E_USAGE);
	assert_int_equal(nsbox_key_info(SIZE_MAX, &k), NSBOX_E_USAGE);
	assert_int_equal(nsbox_key_info(0, NULL), NSBOX_E_USAGE);
	nsbox_policy_free(p);
	json_decref(schema);
	free(text);
}

static void every_profile_opens_a_box(void **state)
{
	size_t n;

	(void)state;
	for (n = 0; nsbox_profile_name(n); n++) {
		assert_true(nsbox_profile_help(n) && nsbox_profile_help(n)[0]);
		nsbox_box_close(new_box(nsbox_profile_name(n), NULL));
	}
	assert_int_equal(n, 7);
	assert_null(nsbox_profile_help(n));
	assert_null(nsbox_profile_name(SIZE_MAX));
}

static void an_unknown_schema_is_null(void **state)
{
	(void)state;
	assert_null(nsbox_schema(NULL));
	assert_null(nsbox_schema(""));
	assert_null(nsbox_schema("box"));
}

static void a_policy_comes_back_as_it_was_set(void **state)
{
	static const char text[] = "{ \"limits\": { \"pids\": 7, }, // comment\n }";
	static const char looser[] = "{ \"limits\": { \"pids\": 9000 } }";
	static const char wrong[] = "{\n  \"limits\": { \"pid\": 1 }\n}";
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	char *out = NULL;
	json_t *j;

	(void)state;
	must(nsbox_policy_new(&p, NULL, &err), &err);
	must(nsbox_policy_load(p, text, sizeof(text) - 1, "mine", NSBOX_LAYER_USER, &err), &err);
	assert_int_equal(nsbox_policy_load(p, looser, sizeof(looser) - 1, "theirs", NSBOX_LAYER_PROJECT, &err),
			 NSBOX_E_POLICY); /* may only tighten */
	assert_int_equal(nsbox_policy_load(p, wrong, sizeof(wrong) - 1, "bad", NSBOX_LAYER_USER, &err),
			 NSBOX_E_POLICY);
	assert_int_equal(strncmp(err.message, "bad:2:15: ", 10), 0);
	assert_non_null(strstr(err.hint, "limits.pids"));
	must(nsbox_policy_check(p, &err), &err);
	must(nsbox_policy_json(p, &out, &err), &err);
	j = parsed(out);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "limits"), "pids")), 7);
	json_decref(j);
	free(out);
	nsbox_policy_free(p);
}

/* ----------------------------------------------------------------------- doctor -- */

static void doctor_answers_in_both_forms_alike(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *text = NULL, *json = NULL;
	int a = nsbox_doctor("text", &text, &err), b = nsbox_doctor("json", &json, &err);
	json_t *j;

	(void)state;
	must(a, &err);
	assert_int_equal(a, b);
	assert_true(a == 0 || a == 1); /* this test runs boxes, so it works here */
	assert_true(strlen(text) > 100);
	j = parsed(json);
	assert_true(json_is_object(j));
	json_decref(j);
	free(text);
	free(json);
	text = NULL;
	assert_int_equal(nsbox_doctor("xml", &text, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_doctor(NULL, &text, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_doctor("text", NULL, &err), NSBOX_E_USAGE);
	assert_null(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_version_is_that_of_the_header),
		cmocka_unit_test(every_key_is_described_and_takes_its_own_preset),
		cmocka_unit_test(every_profile_opens_a_box),
		cmocka_unit_test(an_unknown_schema_is_null),
		cmocka_unit_test(a_policy_comes_back_as_it_was_set),
		cmocka_unit_test(doctor_answers_in_both_forms_alike),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
