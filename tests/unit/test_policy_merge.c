/* policy/merge.c: layers on top of each other, and what a project may not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "policy/policy.h"

static void add(struct settings *s, const char *key, const char *value,
		unsigned line)
{
	struct origin from = { "p.json", line, 3 };

	assert_int_equal(settings_add(s, key, value, &from), 0);
}

/* --- a project may only tighten ------------------------------------------------ */

struct tighten_row {
	const char *base[2][2];		/* what stands before, beyond the defaults */
	const char *project[2][2];	/* lines 1 and 2 of the project's file */
	const char *refused;		/* NULL: accepted */
};

#define NONE { { NULL, NULL }, { NULL, NULL } }
#define ONE(k, v) { { k, v }, { NULL, NULL } }
#define TWO(k, v, l, w) { { k, v }, { l, w } }

static const struct tighten_row tighten_rows[] = {
	/* numbers: lower is tighter, 0 is the loosest where it means "no limit" */
	{ NONE, ONE("limits.memory", "256M"), NULL },
	{ NONE, ONE("limits.memory", "512M"), NULL },
	{ NONE, ONE("limits.memory", "513M"),
	  "p.json:1:3: limits.memory: a project may only tighten: it is 512M, not 513M" },
	{ ONE("limits.memory", "2G"), ONE("limits.memory", "1G"), NULL },
	{ NONE, ONE("limits.timeout", "31"),
	  "p.json:1:3: limits.timeout: a project may only tighten: it is 30s, not 31s" },
	{ NONE, ONE("limits.cpus", "0.5"), NULL },
	{ NONE, ONE("limits.cpus", "0"),
	  "p.json:1:3: limits.cpus: a project may only tighten: it is 1, not 0" },
	{ NONE, ONE("limits.cpu_time", "5s"), NULL },
	{ ONE("limits.cpu_time", "5s"), ONE("limits.cpu_time", "0"),
	  "p.json:1:3: limits.cpu_time: a project may only tighten: it is 5s, not 0" },
	{ NONE, ONE("limits.pids", "64"), NULL },
	{ NONE, ONE("limits.pids", "129"),
	  "p.json:1:3: limits.pids: a project may only tighten: it is 128, not 129" },
	{ NONE, ONE("limits.output", "4K"), NULL },
	{ NONE, TWO("limits.output", "2M", "limits.stdout", "1K"),
	  "p.json:1:3: limits.stderr: a project may only tighten: it is 1M, not 2M" },
	{ NONE, TWO("limits.memory", "1M0", NULL, NULL),
	  "p.json:1:3: limits.memory: \"1M0\" is not a size such as 64M" },
	/* the last one counts, not the way to it */
	{ NONE, TWO("limits.memory", "1G", "limits.memory", "64M"), NULL },
	/* bools */
	{ NONE, ONE("process.subprocesses", "false"), NULL },
	{ ONE("process.subprocesses", "false"), ONE("process.subprocesses", "true"),
	  "p.json:1:3: process.subprocesses: a project may only tighten: it is false, not true" },
	{ NONE, ONE("enforce.degraded", "true"),
	  "p.json:1:3: enforce.degraded: a project may only tighten: it is false, not true" },
	{ NONE, ONE("env_var_access", "true"),
	  "p.json:1:3: env.inherit: a project may only tighten: it is false, not true" },
	/* choices, either way round */
	{ NONE, ONE("syscalls.level", "strict"), NULL },
	{ NONE, ONE("syscalls.level", "debug"),
	  "p.json:1:3: syscalls.level: a project may only tighten: it is default, not debug" },
	{ NONE, ONE("net.mode", "open"),
	  "p.json:1:3: net.mode: a project may only tighten: it is disabled, not open" },
	{ NONE, ONE("network_access", "true"),
	  "p.json:1:3: net.mode: a project may only tighten: it is disabled, not open" },
	{ ONE("net.mode", "open"), ONE("net.mode", "filtered"), NULL },
	{ NONE, ONE("net.precedence", "deny"), NULL },
	{ ONE("net.precedence", "deny"), ONE("net.precedence", "allow"),
	  "p.json:1:3: net.precedence: a project may only tighten: it is deny, not allow" },
	/* the network's lists together */
	{ TWO("net.mode", "filtered", "net.allow_out", "a.test"),
	  TWO("net.allow_out", "", "net.allow_out", "a.test"), NULL },
	{ TWO("net.mode", "filtered", "net.allow_out", "a.test"),
	  ONE("net.allow_out", ""),
	  "p.json:1:3: net.allow_out: a project may only tighten: it may not lift the list" },
	{ TWO("net.mode", "filtered", "net.allow_out", "a.test"),
	  ONE("net.allow_out", "b.test"),
	  "p.json:1:3: net.allow_out: a project may only tighten: it may not add \"b.test\"" },
	{ ONE("net.mode", "open"), TWO("net.mode", "filtered", "net.allow_out", "a.test"), NULL },
	{ TWO("net.mode", "open", "net.deny_out", "a.test"), ONE("net.deny_out", "b.test"), NULL },
	{ TWO("net.mode", "open", "net.deny_out", "a.test"), ONE("net.allow_out", "a.test"),
	  "p.json:1:3: net.allow_out: a project may only tighten: with \"a.test\" more could be reached than before" },
	{ TWO("net.mode", "filtered", "net.deny_out", "ALL_TRAFFIC"),
	  ONE("net.allow_out", "a.test"),
	  "p.json:1:3: net.allow_out: a project may only tighten: with \"a.test\" more could be reached than before" },
	{ TWO("net.mode", "filtered", "net.deny_out", "a.test"),
	  TWO("net.precedence", "deny", "net.allow_out", "a.test"), NULL },
	{ ONE("net.mode", "filtered"), ONE("net.allow_out", "a.test"),
	  "p.json:1:3: net.allow_out: a project may only tighten: with \"a.test\" more could be reached than before" },
	{ ONE("net.mode", "filtered"), ONE("net.deny_out", "a.test"),
	  "p.json:1:3: net.deny_out: a project may only tighten: with \"a.test\" more could be reached than before" },
	{ NONE, ONE("net.deny_out", "a.test"), NULL },
	/* the way out is not a project's business; a proxy's password is nobody's */
	{ NONE, ONE("net.proxy", "http://u:secret@p.test:3128"),
	  "p.json:1:3: net.proxy: a project may only tighten: it may not change it" },
	{ NONE, ONE("net.resolvers", "192.0.2.1"),
	  "p.json:1:3: net.resolvers: a project may only tighten: it may not lift the list" },
	{ NONE, ONE("net.publish", "8080:80"),
	  "p.json:1:3: net.publish: a project may only tighten: it may not add \"8080:80\"" },
	{ NONE, ONE("net.compat", "e2b"),
	  "p.json:1:3: net.compat: a project may only tighten: it is none, not e2b" },
	{ NONE, ONE("net.bytes", "1M"), NULL },
	{ ONE("net.bytes", "1M"), ONE("net.bytes", "0"),
	  "p.json:1:3: net.bytes: a project may only tighten: it is 1M, not 0" },
	{ NONE, ONE("enforce.floor", "kernel"), NULL },
	{ ONE("enforce.floor", "kernel"), ONE("enforce.floor", "userspace"),
	  "p.json:1:3: enforce.floor: a project may only tighten: it is kernel, not userspace" },
	{ NONE, ONE("artifacts.collect", "never"),
	  "p.json:1:3: artifacts.collect: a project may only tighten: it is success, not never" },
	{ NONE, ONE("artifacts.collect", "success"), NULL },
	/* lists of openings: fewer */
	{ NONE, ONE("fs.read", "/etc/shadow"),
	  "p.json:1:3: fs.read: a project may only tighten: it may not add \"/etc/shadow\"" },
	{ ONE("fs.read", "/data"), ONE("fs.read", "/data"), NULL },
	{ ONE("fs.read", "/data"), ONE("fs.read", ""), NULL },
	{ TWO("fs.read", "/a", "fs.read", "/b"),
	  TWO("fs.read", "", "fs.read", "/b"), NULL },
	{ TWO("fs.read", "/a", "fs.read", "/b"),
	  TWO("fs.read", "/a", "fs.read", "/c"),
	  "p.json:2:3: fs.read: a project may only tighten: it may not add \"/c\"" },
	{ NONE, ONE("fs.write", "/home"),
	  "p.json:1:3: fs.write: a project may only tighten: it may not add \"/home\"" },
	{ NONE, ONE("env.pass", "TOKEN"),
	  "p.json:1:3: env.pass: a project may only tighten: it may not add \"TOKEN\"" },
	{ ONE("env.set", "A=1"), ONE("env.set", "A=2"),
	  "p.json:1:3: env.set: a project may only tighten: it may not add \"A=2\"" },
	{ NONE, ONE("syscalls.allow", "ptrace"),
	  "p.json:1:3: syscalls.allow: a project may only tighten: it may not add \"ptrace\"" },
	{ NONE, ONE("enforce.optional", "limits.memory"),
	  "p.json:1:3: enforce.optional: a project may only tighten: it may not add \"limits.memory\"" },
	/* lists of closings: more */
	{ NONE, ONE("syscalls.deny", "ptrace"), NULL },
	{ NONE, ONE("fs.hidden", "/usr/share"), NULL },
	{ NONE, ONE("fs.protect", "Makefile"), NULL },
	{ NONE, ONE("fs.protect", ""),
	  "p.json:1:3: fs.protect: a project may only tighten: it may not drop \".git/hooks\"" },
	{ ONE("syscalls.deny", "ptrace"),
	  TWO("syscalls.deny", "", "syscalls.deny", "mount"),
	  "p.json:2:3: syscalls.deny: a project may only tighten: it may not drop \"ptrace\"" },
	/* lists where none means all */
	{ NONE, ONE("artifacts.paths", "out"), NULL },
	{ ONE("artifacts.paths", "out"), ONE("artifacts.paths", ""),
	  "p.json:1:3: artifacts.paths: a project may only tighten: it may not lift the list" },
	{ NONE, ONE("imports.allow", "math"), NULL },
	{ NONE, ONE("imports.allow", ""), NULL },
	{ ONE("imports.allow", "math"), ONE("imports.allow", ""), NULL },
	{ ONE("imports.allow", "math"), ONE("imports.allow", "os"),
	  "p.json:1:3: imports.allow: a project may only tighten: it may not add \"os\"" },
	{ ONE("imports.allow", "math"), ONE("imports.allow", "null"),
	  "p.json:1:3: imports.allow: a project may only tighten: it may not lift the list" },
	{ ONE("imports.allow", ""), ONE("imports.allow", "os"),
	  "p.json:1:3: imports.allow: a project may only tighten: it may not add \"os\"" },
	/* profiles are judged by what they set */
	{ NONE, ONE("extends", "strict"), NULL },
	{ NONE, ONE("extends", "build"),
	  "p.json:1:3: limits.timeout: a project may only tighten: it is 30s, not 10m" },
	{ ONE("extends", "build"), ONE("extends", "build"), NULL },
	{ ONE("extends", "build"), ONE("extends", "strict"), NULL },
	{ ONE("extends", "strict"), ONE("extends", "default"), NULL },
};

static void a_project_may_only_tighten(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tighten_rows); i++) {
		const struct tighten_row *r = &tighten_rows[i];
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct settings s = { 0 };
		struct policy p = { 0 };
		int code;

		assert_int_equal(policy_init(&p, NULL), 0);
		for (int n = 0; n < 2 && r->base[n][0]; n++)
			assert_int_equal(policy_set(&p, r->base[n][0],
						    r->base[n][1], NULL), 0);
		for (unsigned n = 0; n < 2 && r->project[n][0]; n++)
			add(&s, r->project[n][0], r->project[n][1], n + 1);
		code = policy_apply(&p, &s, LAYER_PROJECT, &err);
		if (code != (r->refused ? NSBOX_E_POLICY : 0))
			fail_msg("row %zu, %s=%s: got %d (%s)", i,
				 r->project[0][0], r->project[0][1], code,
				 err.message);
		assert_string_equal(err.message, r->refused ? r->refused : "");
		settings_free(&s);
		policy_free(&p);
	}
}

/* The control of the test above: everything it refuses is fine for a user. */
static void every_other_layer_may_loosen(void **state)
{
	static const enum layer layers[] = { LAYER_SYSTEM, LAYER_USER,
					     LAYER_FLAGS };

	(void)state;
	for (size_t l = 0; l < ARRAY_SIZE(layers); l++) {
		struct settings s = { 0 };
		struct policy p = { 0 };

		assert_int_equal(policy_init(&p, NULL), 0);
		add(&s, "limits.memory", "4G", 1);
		add(&s, "fs.protect", "", 2);
		add(&s, "net.mode", "open", 3);
		add(&s, "fs.read", "/data", 4);
		assert_int_equal(policy_apply(&p, &s, layers[l], NULL), 0);
		assert_int_equal(p.limits.memory, UINT64_C(4) << 30);
		assert_int_equal(p.fs.protect.n, 0);
		assert_int_equal(p.net.mode, NET_OPEN);
		assert_true(strlist_has(&p.fs.read, "/data"));
		settings_free(&s);
		policy_free(&p);
	}
}

static void a_refused_setting_leaves_the_whole_policy_untouched(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	add(&s, "limits.memory", "4G", 1);
	add(&s, "extends", "strict", 2);
	add(&s, "fs.read", "/data", 3);
	add(&s, "limits.pids", "many", 4);
	assert_int_equal(policy_apply(&p, &s, LAYER_USER, &err),
			 NSBOX_E_POLICY);
	assert_string_equal(err.message,
			    "p.json:4:3: limits.pids: \"many\" is not a whole number");
	for (size_t i = 0; i < policy_key_count; i++)
		assert_true(policy_is_preset(&p, &policy_keys[i]));
	settings_free(&s);
	policy_free(&p);
}

static void a_profile_comes_first_wherever_it_is_named(void **state)
{
	struct settings s = { 0 };
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	add(&s, "limits.memory", "777M", 1);
	add(&s, "extends", "build", 2);
	assert_int_equal(policy_apply(&p, &s, LAYER_USER, NULL), 0);
	assert_int_equal(p.limits.memory, UINT64_C(777) << 20);
	assert_int_equal(p.limits.pids, 512);
	assert_string_equal(p.profile, "build");
	settings_free(&s);
	policy_free(&p);
}

static void layers_stack_in_their_order(void **state)
{
	struct settings system = { 0 }, user = { 0 }, project = { 0 },
			flags = { 0 };
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	add(&system, "limits.memory", "1G", 1);
	add(&system, "fs.read", "/opt", 2);
	add(&user, "limits.memory", "2G", 1);
	add(&user, "fs.read", "/data", 2);
	add(&project, "limits.memory", "1500M", 1);
	add(&flags, "limits.pids", "9", 0);
	assert_int_equal(policy_apply(&p, &system, LAYER_SYSTEM, NULL), 0);
	assert_int_equal(policy_apply(&p, &user, LAYER_USER, NULL), 0);
	assert_int_equal(policy_apply(&p, &project, LAYER_PROJECT, NULL), 0);
	assert_int_equal(policy_apply(&p, &flags, LAYER_FLAGS, NULL), 0);
	assert_int_equal(p.limits.memory, UINT64_C(1500) << 20);
	assert_int_equal(p.fs.read.n, 2);
	assert_int_equal(p.limits.pids, 9);
	settings_free(&system);
	settings_free(&user);
	settings_free(&project);
	settings_free(&flags);
	policy_free(&p);
}

static void a_place_is_only_named_when_there_is_one(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(settings_add(&s, "limits.pids", "x", NULL), 0);
	assert_int_equal(policy_apply(&p, &s, LAYER_FLAGS, &err),
			 NSBOX_E_POLICY);
	assert_string_equal(err.message,
			    "limits.pids: \"x\" is not a whole number");
	settings_free(&s);
	policy_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_project_may_only_tighten),
		cmocka_unit_test(every_other_layer_may_loosen),
		cmocka_unit_test(a_refused_setting_leaves_the_whole_policy_untouched),
		cmocka_unit_test(a_profile_comes_first_wherever_it_is_named),
		cmocka_unit_test(layers_stack_in_their_order),
		cmocka_unit_test(a_place_is_only_named_when_there_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
