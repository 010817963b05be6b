/*
 * test_box_result.c - what a request asks for and what the result then says: languages,
 * files, environment, artifacts; getters against the JSON and its schema; explain
 */
#include "box_run.h"

#include <jansson.h>
#include <signal.h>

static struct nsbox_box *box;
static char scratch[64];

static void put_file(const char *name, const char *text, char path[128])
{
	int fd;

	snprintf(path, 128, "%s/%s", scratch, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static json_t *parsed(const char *text)
{
	json_error_t e;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);

	if (!j)
		fail_msg("%s at %d of %.200s", e.text, e.position, text);
	return j;
}

/* ----------------------------------------------------------------------- requests -- */

static struct nsbox_run code(const char *language, const char *text)
{
	struct nsbox_run run = NSBOX_RUN_INIT;

	run.language = language;
	run.code = text;
	return run;
}

static void code_runs_with_its_arguments(void **state)
{
	struct nsbox_run run = code("python", "import sys; print(sys.argv[1:], 6 * 7)");

	(void)state;
	run.argv = LIST("a b", "", "c");
	expect_out(result_of(box, &run), "['a b', '', 'c'] 42\n");
	run = code("bash", "echo \"$# $1\"");
	run.argv = LIST("x y");
	expect_out(result_of(box, &run), "1 x y\n");
}

static void code_len_cuts_the_code_and_allows_a_nul(void **state)
{
	struct nsbox_run run = code("python", "print(1)\nprint(2)\n");

	(void)state;
	run.code_len = 9;
	expect_out(result_of(box, &run), "1\n");
	run = code("bash", "echo one");
	run.code_len = 8;
	expect_out(result_of(box, &run), "one\n");
}

static void a_file_is_visible_alone_and_a_project_beside_it(void **state)
{
	struct nsbox_run run = NSBOX_RUN_INIT;
	char main_py[128], helper[128], want[256];

	(void)state;
	put_file("helper.py", "VALUE = 9\n", helper);
	put_file("main.py", "import os\nprint(os.listdir(os.path.dirname(__file__)))\n", main_py);
	run.language = "python";
	run.file = main_py;
	expect_out(result_of(box, &run), "['main.py']\n");
	run.project = scratch;
	put_file("main.py", "import helper\nprint(helper.VALUE, helper.__file__)\n", main_py);
	snprintf(want, sizeof(want), "9 %s\n", helper);
	expect_out(result_of(box, &run), want);
	unlink(main_py);
	unlink(helper);
}

static void an_interpreter_may_be_named(void **state)
{
	struct nsbox_run run = code("python", "import sys; print(sys.executable)");

	(void)state;
	run.interpreter = "/usr/bin/python3";
	expect_out(result_of(box, &run), "/usr/bin/python3\n");
}

static void env_cwd_and_timeout_are_those_of_the_run(void **state)
{
	static const char *const keys[] = { "env.set", "A=policy", "env.set", "B=policy", NULL };
	struct nsbox_box *own = new_box(NULL, keys);
	struct nsbox_run run = command(SH("echo $A,$B,$C,$D; pwd"));

	(void)state;
	run.env = LIST("A=run", "C=x=y", "D=");
	run.cwd = "/usr/bin";
	expect_out(result_of(own, &run), "run,policy,x=y,\n/usr/bin\n");
	run.env = NULL;
	run.cwd = NULL;
	expect_out(result_of(own, &run), "policy,policy,,\n/workspace\n"); /* not kept */
	nsbox_box_close(own);
}

static void secrets_of_the_caller_stay_outside(void **state)
{
	struct nsbox_run run = command(LIST("env"));
	struct nsbox_result *r;

	(void)state;
	assert_int_equal(setenv("NSBOX_TEST_SECRET_TOKEN", "hunter2", 1), 0);
	r = result_of(box, &run);
	assert_null(strstr(nsbox_result_json(r), "hunter2"));
	assert_non_null(strstr(nsbox_result_stdout(r, NULL), "HOME=/workspace")); /* the control */
	nsbox_result_free(r);
	unsetenv("NSBOX_TEST_SECRET_TOKEN");
}

/* ----------------------------------------------------------------------- artifacts -- */

static void artifacts_come_out_by_name_path_and_size(void **state)
{
	struct nsbox_run run = command(SH("echo 12345 > a.txt; mkdir d; : > d/empty; ln -s a.txt l"));
	const char *path = "?", *host = "?";
	uint64_t size = 99;
	struct nsbox_result *r;
	char dir[128], file[256];
	struct stat st;
	size_t seen = 0;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/out", scratch);
	run.artifacts_dir = dir; /* made when missing */
	r = result_of(box, &run);
	assert_int_equal(nsbox_result_artifact_count(r), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(nsbox_result_artifact(r, i, &path, &host, &size), 0);
		snprintf(file, sizeof(file), "%s/%s", dir, path);
		assert_string_equal(host, file);
		assert_int_equal(stat(host, &st), 0);
		assert_int_equal(st.st_size, size);
		assert_int_equal(st.st_uid, geteuid());
		assert_int_equal(size, strcmp(path, "a.txt") == 0 ? 6 : 0);
		seen |= strcmp(path, "a.txt") == 0 ? 1 : strcmp(path, "d/empty") == 0 ? 2 : 4;
		assert_int_equal(unlink(host), 0);
	}
	assert_int_equal(seen, 3);
	assert_int_equal(nsbox_result_artifact(r, 2, &path, &host, &size), NSBOX_E_USAGE);
	assert_int_equal(nsbox_result_artifact(r, 0, NULL, NULL, NULL), 0);
	nsbox_result_free(r);
	snprintf(file, sizeof(file), "%s/d", dir);
	assert_int_equal(rmdir(file), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void a_run_without_artifacts_leaves_no_folder(void **state)
{
	struct nsbox_run run = command(SH("echo x > f; exit 1"));
	char dir[128];
	struct nsbox_result *r;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/none", scratch);
	run.artifacts_dir = dir;
	r = result_of(box, &run); /* collected on success only */
	assert_int_equal(nsbox_result_exit_code(r), 1);
	assert_int_equal(nsbox_result_artifact_count(r), 0);
	nsbox_result_free(r);
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(errno, ENOENT);
}

/* -------------------------------------------------------------------- the record -- */

struct ending {
	const char *script;
	const char *verdict, *reason; /* reason: its word, or NULL */
	int exit_code, signal, status;
};

static const struct ending endings[] = {
	{ "exit 0", "exited", NULL, 0, 0, 0 },
	{ "exit 255", "exited", NULL, 255, 0, 255 },
	{ "kill -9 $$", "signaled", "signal", -1, SIGKILL, 128 + SIGKILL },
	{ "kill -TERM $$", "signaled", "signal", -1, SIGTERM, 128 + SIGTERM },
	{ "exec no-such-thing", "exited", NULL, 127, 0, 127 },
	{ "sleep 30", "timed_out", "timeout", -1, -1, 124 },
};

static int int_of(const json_t *o, const char *key, int if_null)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_null(v) || json_is_integer(v));
	return json_is_null(v) ? if_null : (int)json_integer_value(v);
}

static void layers_agree(const struct nsbox_result *r, json_t *record)
{
	static const char *const words[] = { "none", "userspace", "kernel" };
	const char *layer;
	json_t *value;

	json_object_foreach(json_object_get(record, "enforced"), layer, value)
		assert_string_equal(json_string_value(value), words[nsbox_result_enforced(r, layer)]);
	assert_int_equal(nsbox_result_enforced(r, "network"), NSBOX_STRENGTH_KERNEL);
	assert_int_equal(nsbox_result_enforced(r, "no-such-layer"), NSBOX_STRENGTH_NONE);
	assert_int_equal(nsbox_result_enforced(r, NULL), NSBOX_STRENGTH_NONE);
}

static bool is_of_type(const char *type, const json_t *v)
{
	static const struct {
		const char *name;
		int types[2];
	} rows[] = {
		{ "string", { JSON_STRING, JSON_STRING } }, { "null", { JSON_NULL, JSON_NULL } },
		{ "integer", { JSON_INTEGER, JSON_INTEGER } }, { "number", { JSON_INTEGER, JSON_REAL } },
		{ "boolean", { JSON_TRUE, JSON_FALSE } }, { "array", { JSON_ARRAY, JSON_ARRAY } },
		{ "object", { JSON_OBJECT, JSON_OBJECT } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].name, type) == 0)
			return (int)json_typeof(v) == rows[i].types[0] || (int)json_typeof(v) == rows[i].types[1];
	fail_msg("the schema has a type '%s'", type);
	return false;
}

/* One of the words of a list: as a type, or as a value. */
static bool is_in(const json_t *list, const json_t *v, bool as_type)
{
	const json_t *word;
	size_t i;

	json_array_foreach(list, i, word)
		if (as_type ? is_of_type(json_string_value(word), v) : json_equal(word, v))
			return true;
	return false;
}

/* As much of JSON Schema as ours uses: type, enum, const, properties, required, items. */
static void validate(const char *name, json_t *schema, json_t *v)
{
	json_t *type = json_object_get(schema, "type"), *words = json_object_get(schema, "enum");
	json_t *only = json_object_get(schema, "const"), *properties = json_object_get(schema, "properties");
	json_t *items = json_object_get(schema, "items"), *part;
	const char *key;
	size_t i;

	if (!type && !words && !only)
		fail_msg("%s is not in the schema", name);
	if ((json_is_string(type) && !is_of_type(json_string_value(type), v)) ||
	    (json_is_array(type) && !is_in(type, v, true)) || (words && !is_in(words, v, false)) ||
	    (only && !json_equal(only, v)))
		fail_msg("%s has a value that the schema forbids", name);
	json_array_foreach(json_object_get(schema, "required"), i, part)
		if (json_is_object(v) && !json_object_get(v, json_string_value(part)))
			fail_msg("%s has no %s", name, json_string_value(part));
	json_object_foreach(v, key, part)
		if (properties)
			validate(key, json_object_get(properties, key), part);
	json_array_foreach(v, i, part)
		validate(name, items, part);
}

static void schema_agrees(json_t *record)
{
	char *text = nsbox_schema("result");
	json_t *schema;

	assert_non_null(text);
	schema = parsed(text);
	assert_true(json_object_size(json_object_get(schema, "properties")) > 20);
	validate("the record", schema, record);
	json_decref(schema);
	free(text);
}

static void the_schema_holds_however_the_streams_are_connected(void **state)
{
	struct nsbox_run run = command(SH("echo x; mkfifo f; echo a > g"));
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char dir[128], file[160];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/modes", scratch);
	snprintf(file, sizeof(file), "%s/g", dir);
	run.artifacts_dir = dir;
	run.out_fd = run.err_fd = null;
	for (int mode = NSBOX_IO_CAPTURE; mode <= NSBOX_IO_RELAY; mode++) {
		struct nsbox_result *r;
		json_t *record;

		run.out = run.err = mode;
		r = result_of(box, &run);
		record = parsed(nsbox_result_json(r));
		schema_agrees(record);
		assert_int_equal(json_array_size(json_object_get(record, "artifacts")), 1);
		json_decref(record);
		nsbox_result_free(r);
		assert_int_equal(unlink(file), 0);
	}
	close(null);
	assert_int_equal(rmdir(dir), 0);
}

static void check_ending(const struct ending *e)
{
	struct nsbox_run run = NSBOX_RUN_INIT;
	const char *argv[] = { "sh", "-c", e->script, NULL };
	struct nsbox_result *r;
	const char *reason;
	json_t *record;

	run.argv = argv;
	run.timeout_ms = strcmp(e->verdict, "timed_out") == 0 ? 300 : 0;
	r = result_of(box, &run);
	reason = nsbox_result_reason(r);
	assert_string_equal(nsbox_result_verdict_name(r), e->verdict);
	assert_int_equal(nsbox_result_exit_code(r), e->exit_code);
	if (e->signal >= 0)
		assert_int_equal(nsbox_result_signal(r), e->signal);
	assert_int_equal(nsbox_result_status(r), e->status);
	assert_int_equal(reason != NULL, e->reason != NULL);
	if (reason)
		assert_int_equal(strncmp(reason, e->reason, strlen(e->reason)), 0);
	assert_ptr_equal(nsbox_result_json(r), nsbox_result_json(r)); /* lives with the result */
	record = parsed(nsbox_result_json(r));
	assert_string_equal(json_string_value(json_object_get(record, "verdict")), e->verdict);
	assert_string_equal(json_string_value(json_object_get(record, "tier")), "local");
	assert_int_equal(int_of(record, "exit_code", -1), nsbox_result_exit_code(r));
	assert_int_equal(int_of(record, "signal", 0), nsbox_result_signal(r));
	assert_int_equal(json_is_true(json_object_get(record, "success")),
			 nsbox_result_verdict(r) == NSBOX_EXITED && e->exit_code == 0);
	layers_agree(r, record);
	schema_agrees(record);
	json_decref(record);
	nsbox_result_free(r);
}

static void getters_and_json_tell_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		check_ending(&endings[i]);
}

struct used {
	double cpu_ms;
	json_int_t peak; /* -1: not known */
};

static struct used used_by(struct nsbox_box *of, const char *script)
{
	struct nsbox_result *r = result_of_sh(of, script);
	json_t *record = parsed(nsbox_result_json(r));
	const json_t *usage = json_object_get(record, "usage");
	const json_t *peak = json_object_get(usage, "memory_peak_bytes");
	const struct used u = {
		json_number_value(json_object_get(usage, "user_ms")) +
			json_number_value(json_object_get(usage, "system_ms")),
		json_is_null(peak) ? -1 : json_integer_value(peak),
	};

	assert_int_equal(nsbox_result_exit_code(r), 0);
	json_decref(record);
	nsbox_result_free(r);
	return u;
}

/* A fresh cgroup and fresh counters for each: what one run used is not the next one's. */
static void a_run_is_charged_for_itself_alone(void **state)
{
	struct nsbox_box *own = new_box(NULL, NULL);
	struct used small = used_by(own, ":"), big, after;

	(void)state;
	/* tail holds all of a line that does not end */
	big = used_by(own, "head -c 80000000 /dev/zero | tail -n 1 | wc -c >/dev/null; "
			   "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done");
	after = used_by(own, ":");
	assert_true(big.cpu_ms > 50);
	assert_true(big.peak == -1 || big.peak > 80000000);
	assert_true(after.cpu_ms < big.cpu_ms / 2);
	assert_true(after.peak < 20 << 20 && small.peak < 20 << 20);
	assert_true((after.peak == -1) == (big.peak == -1));
	nsbox_box_close(own);
}

static void notes_name_what_was_hidden(void **state)
{
	struct nsbox_result *r = result_of_sh(box, ":");

	(void)state;
	assert_null(nsbox_result_note(r, 0));
	assert_null(nsbox_result_note(r, SIZE_MAX));
	assert_null(nsbox_result_note(NULL, 0));
	nsbox_result_free(r);
}

/* A command that is not there: no output, and a record like any other. */
static void a_command_that_is_not_there_has_a_whole_record(void **state)
{
	const struct nsbox_run run = command(LIST("no-such-command"));
	struct nsbox_result *r = result_of(box, &run);
	json_t *record = parsed(nsbox_result_json(r));
	size_t len = 9;

	(void)state;
	schema_agrees(record);
	layers_agree(r, record);
	assert_string_equal(json_string_value(json_object_get(record, "working_directory")), "/workspace");
	assert_int_equal(nsbox_result_signal(r), 0);
	assert_int_equal(nsbox_result_artifact_count(r), 0);
	nsbox_result_stdout(r, &len);
	assert_int_equal(len, 0);
	json_decref(record);
	nsbox_result_free(r);
}

/* -------------------------------------------------------------------- explain -- */

static void explain_has_three_forms_and_runs_nothing(void **state)
{
	char dir[128];
	struct nsbox_run run = command(SH("echo SECRETARGUMENT"));
	char *plan = NULL, *stages = NULL, *text = NULL;
	json_t *all;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/planned", scratch);
	run.artifacts_dir = dir;
	run.env = LIST("PASSWORD=hunter2");
	assert_int_equal(nsbox_box_explain(box, &run, "plan", &plan, NULL), 0);
	assert_int_equal(nsbox_box_explain(box, &run, "explain", &stages, NULL), 0);
	assert_int_equal(nsbox_box_explain(box, &run, "json", &text, NULL), 0);
	assert_int_equal(access(dir, F_OK), -1); /* a look only */
	assert_non_null(strstr(plan, "PIVOT"));
	assert_non_null(strstr(plan, "env PASSWORD\n"));
	assert_null(strstr(plan, "hunter2"));
	assert_null(strstr(text, "hunter2"));
	assert_non_null(strstr(stages, "all five capability sets are empty"));
	all = parsed(text);
	assert_string_equal(json_string_value(json_object_get(all, "schema")), "nsbox.explain/1");
	assert_int_equal(json_array_size(json_object_get(all, "stages")), 12);
	assert_true(json_array_size(json_object_get(all, "operations")) > 30);
	assert_int_equal(json_array_size(json_object_get(all, "argv")), 3);
	assert_string_equal(json_string_value(json_object_get(json_object_get(all, "enforced"), "network")), "kernel");
	json_decref(all);
	free(plan);
	free(stages);
	free(text);
}

static int set_up(void **state)
{
	(void)state;
	return scratch_and_box(scratch, sizeof(scratch), "/tmp/nsbox-result.XXXXXX", &box);
}

static int tear_down(void **state)
{
	(void)state;
	nsbox_box_close(box);
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_runs_with_its_arguments),
		cmocka_unit_test(code_len_cuts_the_code_and_allows_a_nul),
		cmocka_unit_test(a_file_is_visible_alone_and_a_project_beside_it),
		cmocka_unit_test(an_interpreter_may_be_named),
		cmocka_unit_test(env_cwd_and_timeout_are_those_of_the_run),
		cmocka_unit_test(secrets_of_the_caller_stay_outside),
		cmocka_unit_test(artifacts_come_out_by_name_path_and_size),
		cmocka_unit_test(a_run_without_artifacts_leaves_no_folder),
		cmocka_unit_test(getters_and_json_tell_the_same),
		cmocka_unit_test(the_schema_holds_however_the_streams_are_connected),
		cmocka_unit_test(a_run_is_charged_for_itself_alone),
		cmocka_unit_test(notes_name_what_was_hidden),
		cmocka_unit_test(a_command_that_is_not_there_has_a_whole_record),
		cmocka_unit_test(explain_has_three_forms_and_runs_nothing),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
