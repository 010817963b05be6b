/* policy/{schema,aliases,policy,profiles}.c: keys, values, profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "policy/policy.h"

/* --- the table --------------------------------------------------------------- */

static size_t field_size(const struct key *k)
{
	static const size_t sizes[] = {
		[KEY_BOOL] = sizeof(bool),	[KEY_SIZE] = sizeof(uint64_t),
		[KEY_TIME] = sizeof(uint64_t),	[KEY_SHARE] = sizeof(uint64_t),
		[KEY_COUNT] = sizeof(uint64_t), [KEY_CHOICE] = sizeof(int),
		[KEY_STRING] = sizeof(char *),
		[KEY_LIST] = sizeof(struct strlist),
		[KEY_LIST_OR_NULL] = sizeof(struct nullable_list),
	};

	return sizes[k->type];
}

static void every_byte_of_the_struct_belongs_to_exactly_one_key(void **state)
{
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
	struct policy p;
	unsigned char owner[sizeof(struct policy)] = { 0 };
	const unsigned char *bytes = (const unsigned char *)&p;

	(void)state;
	memset(&p, 0xff, sizeof(p));
	__builtin_clear_padding(&p);
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *k = &policy_keys[i];

		if (k->also)
			continue;
		for (size_t b = 0; b < field_size(k); b++)
			owner[k->field + b]++;
	}
	for (size_t i = 0; i < sizeof(p); i++) {
		if (owner[i] > 1)
			fail_msg("byte %zu belongs to two keys", i);
		if (bytes[i] && !owner[i])
			fail_msg("byte %zu belongs to no key", i);
	}
#else
	(void)state;
	(void)field_size;
	skip();
#endif
}

static void names_are_unique_groups_together_and_flags_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *a = &policy_keys[i];
		size_t group = strcspn(a->name, ".");
		bool left = false;

		assert_non_null(a->help);
		assert_true(strlen(a->help) > 10);
		assert_ptr_equal(policy_key(a->name), a);
		assert_true((a->type == KEY_CHOICE) == (a->choices != NULL));
		assert_true(a->by != 0);
		for (size_t j = i + 1; j < policy_key_count; j++) {
			const struct key *b = &policy_keys[j];
			bool same = strcspn(b->name, ".") == group &&
				    strncmp(a->name, b->name, group) == 0;

			assert_string_not_equal(a->name, b->name);
			if (a->flag && b->flag)
				assert_string_not_equal(a->flag, b->flag);
			assert_false(a->letter && a->letter == b->letter);
			assert_false(left && same);
			left = left || !same;
		}
	}
}

static void the_flags_of_the_command_line_contract_are_there(void **state)
{
	static const struct { const char *flag, *key; } rows[] = {
		{ "--ro", "fs.read" },
		{ "--rw", "fs.write" },
		{ "--tmpfs", "fs.tmpfs" },
		{ "--net", "net.mode" },
		{ "--allow-out", "net.allow_out" },
		{ "--deny-out", "net.deny_out" },
		{ "--allow-private", "net.allow_private" },
		{ "--memory", "limits.memory" },
		{ "--cpus", "limits.cpus" },
		{ "--pids", "limits.pids" },
		{ "--disk", "limits.disk" },
		{ "--timeout", "limits.timeout" },
		{ "--cpu-time", "limits.cpu_time" },
		{ "--output-limit", "limits.output" },
		{ "--require", "enforce.floor" },
		{ "--allow-degraded", "enforce.degraded" },
		{ "--allow-import", "imports.allow" },
		{ "--with", "packages.list" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_string_equal(policy_key(rows[i].key)->flag,
				    rows[i].flag);
	assert_int_equal(policy_key("limits.memory")->letter, 'm');
	assert_int_equal(policy_key("env.set")->letter, 'e');
}

static void the_defaults_are_the_decided_ones(void **state)
{
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(p.limits.timeout, 30000000);
	assert_int_equal(p.limits.memory, 512 << 20);
	assert_int_equal(p.limits.swap, 0);
	assert_int_equal(p.limits.pids, 128);
	assert_int_equal(p.limits.cpus, 1000);
	assert_int_equal(p.limits.stdout_bytes, 1 << 20);
	assert_int_equal(p.limits.stderr_bytes, 1 << 20);
	assert_int_equal(p.limits.tmp, 64 << 20);
	assert_int_equal(p.limits.disk, 256 << 20);
	assert_int_equal(p.limits.shm, 64 << 20);
	assert_int_equal(p.limits.files, 1024);
	assert_int_equal(p.limits.cpu_time, 0);
	assert_int_equal(p.limits.file_size, 0);
	assert_int_equal(p.artifacts.max_count, 64);
	assert_int_equal(p.artifacts.max_bytes, 32 << 20);
	assert_int_equal(p.artifacts.max_depth, 8);
	assert_int_equal(p.artifacts.collect, COLLECT_ON_SUCCESS);
	assert_int_equal(p.net.mode, NET_DISABLED);
	assert_int_equal(p.syscalls.level, LEVEL_DEFAULT);
	assert_true(p.process.subprocesses);
	assert_false(p.env.inherit);
	assert_false(p.imports.allow.is_set);
	assert_false(p.enforce.degraded);
	assert_int_equal(p.enforce.floor, FLOOR_USERSPACE);
	assert_true(strlist_has(&p.fs.protect, ".git/hooks"));
	assert_false(strlist_has(&p.fs.protect, ".ssh"));
	assert_true(strlist_has(&p.fs.protect_home, ".ssh"));
	assert_true(strlist_has(&p.fs.protect_home, ".cache/nsbox"));
	assert_null(p.profile);
	for (size_t i = 0; i < policy_key_count; i++)
		assert_true(policy_is_preset(&p, &policy_keys[i]));
	assert_int_equal(policy_check(&p, NULL), 0);
	policy_free(&p);
}

/* --- values ------------------------------------------------------------------ */

struct set_row {
	const char *key, *value;
	const char *got;	/* what policy_get() says afterwards; NULL: refused */
	const char *message, *hint;
};

static const struct set_row set_rows[] = {
	{ "limits.memory", "1G", "1G", NULL, NULL },
	{ "limits.memory", "12Q", NULL,
	  "limits.memory: \"12Q\" is not a size such as 64M", "" },
	{ "limits.memory", "1K", NULL,
	  "limits.memory: 1K is below the minimum of 4M", "" },
	{ "limits.memory", "100P", NULL,
	  "limits.memory: 100P is above the maximum of 64T", "" },
	{ "limits.memory", "0", NULL,
	  "limits.memory: 0 is below the minimum of 4M", "" },
	{ "limits.disk", "0", NULL,
	  "limits.disk: 0 is below the minimum of 64K", "" },
	{ "limits.timeout", "0", NULL,
	  "limits.timeout: 0 is below the minimum of 1ms", "" },
	{ "limits.timeout", "500ms", "500ms", NULL, NULL },
	{ "limits.timeout", "1.5", "1500ms", NULL, NULL },
	{ "limits.cpus", "0.5", "0.5", NULL, NULL },
	{ "limits.cpus", "x", NULL,
	  "limits.cpus: \"x\" is not a number of cores such as 0.5", "" },
	{ "limits.pids", "0", NULL, "limits.pids: 0 is below the minimum of 1", "" },
	{ "limits.pids", "9999999", NULL,
	  "limits.pids: 9999999 is above the maximum of 4194304", "" },
	{ "limits.output", "7K", "7K", NULL, NULL },
	{ "net.mode", "open", "open", NULL, NULL },
	{ "net.mode", "opne", NULL,
	  "net.mode: \"opne\" is not one of: disabled, filtered, open", "" },
	{ "process.subprocesses", "no", "false", NULL, NULL },
	{ "process.subprocesses", "0", NULL,
	  "process.subprocesses: \"0\" is not true or false", "" },
	{ "fs.read", "/data", "/data", NULL, NULL },
	{ "imports.allow", "", "", NULL, NULL },
	{ "imports.allow", "math", "math", NULL, NULL },
	{ "imports.allow", "null", "null", NULL, NULL },
	{ "extends", "strict", "strict", NULL, NULL },
	{ "extends", "loose", NULL, "no profile named \"loose\"",
	  "built in: strict, default, python, node, shell, build, debug" },
	{ "limits.memroy", "1G", NULL, "unknown key \"limits.memroy\"",
	  "did you mean limits.memory?" },
	{ "memory", "1G", NULL, "unknown key \"memory\"",
	  "did you mean limits.memory?" },
	{ "network-access", "true", NULL, "unknown key \"network-access\"",
	  "did you mean network_access?" },
	{ "zzzzzzzz", "1", NULL, "unknown key \"zzzzzzzz\"",
	  "nsbox policy schema lists every key" },
	{ "a\nb\x01\xff", "1", NULL, "unknown key \"a?b??\"",
	  "nsbox policy schema lists every key" },
	{ "", "1", NULL, "unknown key \"\"",
	  "nsbox policy schema lists every key" },
	{ "network_access", "maybe", NULL,
	  "network_access: \"maybe\" is not true or false", "" },
};

static void setting_a_value_keeps_it_or_says_exactly_why_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(set_rows); i++) {
		const struct set_row *r = &set_rows[i];
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf text = BUF_INIT(4096);
		struct policy p = { 0 };
		int code;

		assert_int_equal(policy_init(&p, NULL), 0);
		code = policy_set(&p, r->key, r->value, &err);
		if (r->got) {
			assert_int_equal(code, 0);
			policy_get(&p, policy_key(r->key), &text);
			assert_string_equal(buf_text(&text), r->got);
		} else {
			assert_int_equal(code, NSBOX_E_POLICY);
			assert_int_equal(err.code, NSBOX_E_POLICY);
			assert_string_equal(err.message, r->message);
			assert_string_equal(err.hint, r->hint);
			for (size_t k = 0; k < policy_key_count; k++)
				assert_true(policy_is_preset(&p, &policy_keys[k]));
		}
		buf_free(&text);
		policy_free(&p);
	}
}

static void the_output_shorthand_sets_both_streams(void **state)
{
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(policy_set(&p, "limits.output", "5", NULL), 0);
	assert_int_equal(p.limits.stdout_bytes, 5);
	assert_int_equal(p.limits.stderr_bytes, 5);
	assert_int_equal(policy_set(&p, "limits.stderr", "6", NULL), 0);
	assert_int_equal(p.limits.stdout_bytes, 5);
	assert_int_equal(p.limits.stderr_bytes, 6);
	policy_free(&p);
}

static void lists_append_once_and_an_empty_value_clears(void **state)
{
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(policy_set(&p, "fs.read", "/a", NULL), 0);
	assert_int_equal(policy_set(&p, "fs.read", "/b", NULL), 0);
	assert_int_equal(policy_set(&p, "fs.read", "/a", NULL), 0);
	assert_int_equal(p.fs.read.n, 2);
	assert_int_equal(policy_set(&p, "fs.read", "", NULL), 0);
	assert_int_equal(p.fs.read.n, 0);
	assert_int_equal(policy_set(&p, "env.set", "A=1", NULL), 0);
	assert_int_equal(policy_set(&p, "env.set", "AB=2", NULL), 0);
	assert_int_equal(policy_set(&p, "env.set", "A=3", NULL), 0);
	assert_int_equal(p.env.set.n, 2);
	assert_string_equal(p.env.set.v[0], "AB=2");
	assert_string_equal(p.env.set.v[1], "A=3");
	assert_null(p.env.set.v[2]);
	policy_free(&p);
}

static void a_list_has_a_bound(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };
	char item[32];

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	for (int i = 0; i < 1024; i++) {
		snprintf(item, sizeof(item), "/p%d", i);
		assert_int_equal(policy_set(&p, "fs.read", item, NULL), 0);
	}
	assert_int_equal(policy_set(&p, "fs.read", "/more", &err),
			 NSBOX_E_POLICY);
	assert_string_equal(err.message, "fs.read: more than 1024 items");
	assert_int_equal(policy_set(&p, "fs.read", "/p7", NULL), 0);
	policy_free(&p);
}

static void other_systems_names_set_our_keys(void **state)
{
	static const struct { const char *alias, *value, *key, *got; } rows[] = {
		{ "filesystem_read_roots", "/d", "fs.read", "/d" },
		{ "filesystem_write_roots", "/d", "fs.write", "/d" },
		{ "network_access", "true", "net.mode", "open" },
		{ "network_access", "false", "net.mode", "disabled" },
		{ "package_installation", "true", "packages.install", "true" },
		{ "subprocess_execution", "false", "process.subprocesses", "false" },
		{ "env_var_access", "true", "env.inherit", "true" },
		{ "timeout", "60", "limits.timeout", "1m" },
		{ "stdout_max_bytes", "10240", "limits.stdout", "10K" },
		{ "stderr_max_bytes", "10240", "limits.stderr", "10K" },
		{ "artifact_export_paths", "out", "artifacts.paths", "out" },
		{ "packages", "numpy", "packages.list", "numpy" },
		{ "allowed_imports", "math", "imports.allow", "math" },
		{ "type", "filtered", "net.mode", "filtered" },
		{ "allow_out", "example.org", "net.allow_out", "example.org" },
		{ "deny_out", "ALL_TRAFFIC", "net.deny_out", "ALL_TRAFFIC" },
		{ "network_policy.type", "open", "net.mode", "open" },
		{ "network_enabled", "true", "net.mode", "open" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf text = BUF_INIT(256);
		struct policy p = { 0 };

		assert_int_equal(policy_init(&p, NULL), 0);
		if (policy_set(&p, rows[i].alias, rows[i].value, NULL) != 0)
			fail_msg("%s was refused", rows[i].alias);
		policy_get(&p, policy_key(rows[i].key), &text);
		assert_string_equal(buf_text(&text), rows[i].got);
		buf_free(&text);
		policy_free(&p);
	}
}

static void a_copy_shares_nothing_with_its_original(void **state)
{
	struct policy a = { 0 }, b = { 0 };

	(void)state;
	assert_int_equal(policy_from_profile(&a, "python", NULL), 0);
	assert_int_equal(policy_set(&a, "env.set", "A=1", NULL), 0);
	assert_int_equal(policy_set(&a, "imports.allow", "math", NULL), 0);
	assert_int_equal(policy_set(&b, "fs.read", "/old", NULL), 0);
	assert_int_equal(policy_copy(&b, &a, NULL), 0);
	assert_int_equal(b.fs.read.n, 0);
	assert_int_equal(policy_set(&b, "env.set", "", NULL), 0);
	assert_int_equal(policy_set(&b, "imports.allow", "null", NULL), 0);
	assert_int_equal(policy_set(&b, "extends", "shell", NULL), 0);
	assert_true(strlist_has(&a.env.set, "A=1"));
	assert_true(strlist_has(&a.imports.allow.list, "math"));
	assert_string_equal(a.profile, "python");
	policy_free(&a);
	policy_free(&b);
	policy_free(&b); /* a second time is harmless */
	policy_free(NULL);
}

/* --- profiles ---------------------------------------------------------------- */

static void every_profile_loads_and_makes_sense(void **state)
{
	static const char *const names[] = { "strict", "default", "python",
					     "node", "shell", "build", "debug" };

	(void)state;
	assert_int_equal(policy_profile_count, ARRAY_SIZE(names));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct policy p = { 0 };

		assert_string_equal(policy_profiles[i].name, names[i]);
		if (policy_from_profile(&p, names[i], &err) < 0)
			fail_msg("%s: %s", names[i], err.message);
		assert_int_equal(policy_check(&p, &err), 0);
		assert_string_equal(p.profile, names[i]);
		assert_int_equal(p.net.mode, NET_DISABLED);
		policy_free(&p);
	}
}

static void profiles_have_the_limits_their_help_promises(void **state)
{
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_from_profile(&p, "strict", NULL), 0);
	assert_int_equal(p.syscalls.level, LEVEL_STRICT);
	assert_false(p.process.subprocesses);
	assert_int_equal(policy_from_profile(&p, "node", NULL), 0);
	assert_int_equal(p.limits.memory, 1 << 30);
	assert_int_equal(p.limits.shm, 64 << 20);
	assert_int_equal(policy_from_profile(&p, "python", NULL), 0);
	assert_int_equal(p.limits.memory, 1 << 30);
	assert_int_equal(p.limits.shm, 256 << 20);
	assert_int_equal(policy_from_profile(&p, "build", NULL), 0);
	assert_int_equal(p.limits.memory, UINT64_C(2) << 30);
	assert_int_equal(p.limits.disk, UINT64_C(2) << 30);
	assert_int_equal(p.limits.pids, 512);
	assert_int_equal(p.limits.files, 4096);
	assert_int_equal(p.limits.timeout, UINT64_C(600000000));
	assert_int_equal(policy_from_profile(&p, "debug", NULL), 0);
	assert_int_equal(p.syscalls.level, LEVEL_DEBUG);
	assert_true(p.process.subprocesses);
	policy_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_of_the_struct_belongs_to_exactly_one_key),
		cmocka_unit_test(names_are_unique_groups_together_and_flags_unique),
		cmocka_unit_test(the_flags_of_the_command_line_contract_are_there),
		cmocka_unit_test(the_defaults_are_the_decided_ones),
		cmocka_unit_test(setting_a_value_keeps_it_or_says_exactly_why_not),
		cmocka_unit_test(the_output_shorthand_sets_both_streams),
		cmocka_unit_test(lists_append_once_and_an_empty_value_clears),
		cmocka_unit_test(a_list_has_a_bound),
		cmocka_unit_test(other_systems_names_set_our_keys),
		cmocka_unit_test(a_copy_shares_nothing_with_its_original),
		cmocka_unit_test(every_profile_loads_and_makes_sense),
		cmocka_unit_test(profiles_have_the_limits_their_help_promises),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
