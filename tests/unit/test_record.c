/*
 * test_record.c - the result of a run, in C and as JSON
 *
 * The JSON is read back with jansson: valid for any bytes, exact for every field.
 */
#include "base/cleanup.h"
#include "runtime/record.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct nsbox_result *new_result(void)
{
	struct nsbox_result *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->verdict = NSBOX_EXITED;
	r->exit_code = 0;
	r->out.captured = r->err.captured = true;
	return r;
}

static char *copy(const char *s)
{
	char *p = strdup(s);

	assert_non_null(p);
	return p;
}

static void set_stream(struct result_stream *s, const char *data, size_t len)
{
	s->data = malloc(len + 1);
	assert_non_null(s->data);
	memcpy(s->data, data, len);
	s->data[len] = '\0';
	s->len = s->total = len;
}

static json_t *parsed(const struct nsbox_result *r)
{
	const char *text = nsbox_result_json(r);
	json_error_t e;
	json_t *root;

	assert_non_null(text);
	assert_null(strchr(text, '\n')); /* one line */
	root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (!root)
		print_message("# %s at %d in %s\n", e.text, e.position, text);
	assert_non_null(root);
	return root;
}

static const char *word(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_string(v));
	return json_string_value(v);
}

static json_int_t number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static void is_null(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_non_null(v); /* there, and null: not left out */
	assert_true(json_is_null(v));
}

static void the_status_follows_from_the_verdict(void **state)
{
	static const struct {
		enum nsbox_verdict verdict;
		int exit_code, signal, status;
		const char *reason, *name;
	} rows[] = {
		{ NSBOX_EXITED, 0, 0, 0, NULL, "exited" },
		{ NSBOX_EXITED, 3, 0, 3, NULL, "exited" },
		{ NSBOX_EXITED, 255, 0, 255, NULL, "exited" },
		{ NSBOX_EXITED, 124, 0, 124, NULL, "exited" },
		{ NSBOX_EXITED, -1, 0, 125, NULL, "exited" },
		{ NSBOX_SIGNALED, -1, 9, 137, NULL, "signaled" },
		{ NSBOX_SIGNALED, -1, 11, 139, NULL, "signaled" },
		{ NSBOX_SIGNALED, -1, 0, 125, NULL, "signaled" },
		{ NSBOX_SKIPPED, -1, 0, 122, "imports: os", "skipped" },
		{ NSBOX_SKIPPED, -1, 0, 122, NULL, "skipped" },
		{ NSBOX_SKIPPED, -1, 0, 127, "not_found: no such file", "skipped" },
		{ NSBOX_SKIPPED, -1, 0, 126, "not_executable: a folder", "skipped" },
		{ NSBOX_SKIPPED, -1, 0, 122, "not_foundation: a word of its own", "skipped" },
		{ NSBOX_DENIED, -1, 31, 122, NULL, "denied" },
		{ NSBOX_TIMED_OUT, -1, 9, 124, NULL, "timed_out" },
		{ NSBOX_OUT_OF_MEMORY, -1, 9, 123, NULL, "out_of_memory" },
		{ NSBOX_PIDS_LIMIT, -1, 9, 123, NULL, "pids_limit" },
		{ NSBOX_DISK_LIMIT, -1, 9, 123, NULL, "disk_limit" },
		{ NSBOX_OUTPUT_LIMIT, -1, 9, 123, NULL, "output_limit" },
		{ (enum nsbox_verdict)99, -1, 0, 125, NULL, "?" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_result r = { .verdict = rows[i].verdict,
					  .exit_code = rows[i].exit_code,
					  .signal = rows[i].signal,
					  .reason = (char *)rows[i].reason };

		assert_int_equal(nsbox_result_status(&r), rows[i].status);
		assert_string_equal(nsbox_result_verdict_name(&r), rows[i].name);
		assert_int_equal(nsbox_result_verdict(&r), rows[i].verdict);
	}
}

static void getters_give_back_what_was_stored(void **state)
{
	struct nsbox_result *r = new_result();
	const char *path = "untouched", *host = NULL;
	uint64_t size = 7;
	size_t len = 99;

	(void)state;
	r->exit_code = 3;
	r->reason = copy("word: sentence");
	set_stream(&r->out, "a\0b", 3);
	r->err.captured = false;
	r->enforced[ENF_MEMORY] = NSBOX_STRENGTH_USERSPACE;
	r->enforced[ENF_LANDLOCK] = NSBOX_STRENGTH_KERNEL;
	r->artifacts.v = calloc(1, sizeof(struct artifact));
	assert_non_null(r->artifacts.v);
	r->artifacts.n = 1;
	r->artifacts.v[0] = (struct artifact){ .path = copy("p/a.png"),
					       .host_path = copy("/out/p/a.png"), .size = 5 };

	assert_int_equal(nsbox_result_exit_code(r), 3);
	assert_int_equal(nsbox_result_signal(r), 0);
	assert_string_equal(nsbox_result_reason(r), "word: sentence");
	assert_memory_equal(nsbox_result_stdout(r, &len), "a\0b", 3);
	assert_int_equal(len, 3);
	assert_null(nsbox_result_stderr(r, &len));
	assert_int_equal(len, 0);
	assert_int_equal(nsbox_result_enforced(r, "memory"), NSBOX_STRENGTH_USERSPACE);
	assert_int_equal(nsbox_result_enforced(r, "landlock"), NSBOX_STRENGTH_KERNEL);
	assert_int_equal(nsbox_result_enforced(r, "pids"), NSBOX_STRENGTH_NONE);
	assert_int_equal(nsbox_result_enforced(r, "no such layer"), NSBOX_STRENGTH_NONE);
	assert_int_equal(nsbox_result_enforced(r, NULL), NSBOX_STRENGTH_NONE);
	assert_int_equal(nsbox_result_artifact_count(r), 1);
	assert_int_equal(nsbox_result_artifact(r, 1, &path, &host, &size), NSBOX_E_USAGE);
	assert_string_equal(path, "untouched");
	assert_int_equal(nsbox_result_artifact(r, 0, &path, &host, &size), 0);
	assert_string_equal(path, "p/a.png");
	assert_string_equal(host, "/out/p/a.png");
	assert_int_equal(size, 5);
	nsbox_result_free(r);
	nsbox_result_free(NULL);
}

static void a_captured_but_silent_stream_is_empty_and_not_absent(void **state)
{
	struct nsbox_result *r = new_result();
	size_t len = 9;

	(void)state;
	assert_string_equal(nsbox_result_stdout(r, &len), "");
	assert_int_equal(len, 0);
	nsbox_result_free(r);
}

static void every_field_of_a_full_record_is_there(void **state)
{
	struct nsbox_result *r = new_result();
	json_t *root, *a;

	(void)state;
	r->tier = copy("local");
	r->working_directory = copy("/workspace");
	set_stream(&r->out, "hello\n", 6);
	r->out.total = 6000;
	r->out.truncated = true;
	r->usage.wall_us = 12345;
	r->usage.user_us = 8100;
	r->usage.system_us = 2000;
	r->usage.has_cpu = r->usage.has_memory_peak = r->usage.has_pids_peak = true;
	r->usage.memory_peak = 9437184;
	r->usage.pids_peak = 1;
	r->setup_us = 2900;
	r->orphans_killed = true;
	r->enforced[ENF_TIME] = NSBOX_STRENGTH_USERSPACE;
	r->enforced[ENF_NETWORK] = NSBOX_STRENGTH_KERNEL;
	assert_int_equal(result_add_denial(r, "egress", "connect example.org:443",
					   "net.mode=disabled", "--net filtered"), 0);
	assert_int_equal(result_add_denial(r, "syscalls", "keyctl", NULL, NULL), 0);
	root = parsed(r);

	assert_string_equal(word(root, "schema"), "nsbox.result/1");
	assert_string_equal(word(root, "tier"), "local");
	assert_string_equal(word(root, "verdict"), "exited");
	assert_int_equal(number(root, "exit_code"), 0);
	is_null(root, "signal");
	assert_true(json_is_true(json_object_get(root, "success")));
	is_null(root, "reason");
	assert_string_equal(word(root, "stdout"), "hello\n");
	assert_string_equal(word(root, "stdout_encoding"), "utf-8");
	assert_int_equal(number(root, "stdout_bytes"), 6000);
	assert_true(json_is_true(json_object_get(root, "stdout_truncated")));
	assert_string_equal(word(root, "stderr"), "");
	assert_true(json_is_false(json_object_get(root, "stderr_truncated")));
	a = json_object_get(root, "usage");
	assert_true(json_real_value(json_object_get(a, "wall_ms")) == 12.345);
	assert_true(json_real_value(json_object_get(a, "user_ms")) == 8.1);
	assert_true(json_real_value(json_object_get(a, "system_ms")) == 2.0);
	assert_int_equal(number(a, "memory_peak_bytes"), 9437184);
	assert_int_equal(number(a, "pids_peak"), 1);
	a = json_object_get(root, "enforced");
	assert_int_equal(json_object_size(a), ENF_COUNT);
	assert_string_equal(word(a, "time"), "userspace");
	assert_string_equal(word(a, "network"), "kernel");
	assert_string_equal(word(a, "memory"), "none");
	a = json_object_get(root, "denials");
	assert_int_equal(json_array_size(a), 2);
	assert_string_equal(word(json_array_get(a, 0), "allow"), "--net filtered");
	is_null(json_array_get(a, 1), "rule");
	assert_string_equal(word(root, "working_directory"), "/workspace");
	assert_true(json_real_value(json_object_get(root, "setup_ms")) == 2.9);
	assert_true(json_is_true(json_object_get(root, "orphans_killed")));
	is_null(root, "analysis");
	is_null(root, "packages");
	json_decref(root);
	nsbox_result_free(r);
}

static void accounts_and_limits_have_their_units(void **state)
{
	struct nsbox_result *r = new_result();
	json_t *root, *a;

	(void)state;
	r->usage.accounts = (struct accounts){ .has_io = true, .io_read = 4096, .io_written = 8192,
		.has_throttled = true, .throttled_us = 1500, .throttled_count = 2,
		.has_stall = { true, true, true, true, true }, .stall_us = { 1000, 2000, 3000, 4000, 5000 } };
	r->limits.v[LIMIT_TIMEOUT] = 1500000;
	r->limits.v[LIMIT_CPUS] = 250;
	r->limits.v[LIMIT_MEMORY] = 65536;
	r->limits.is_set[LIMIT_TIMEOUT] = r->limits.is_set[LIMIT_CPUS] =
		r->limits.is_set[LIMIT_MEMORY] = true;
	root = parsed(r);
	a = json_object_get(root, "usage");
	assert_int_equal(number(a, "io_read_bytes"), 4096);
	assert_int_equal(number(a, "io_written_bytes"), 8192);
	assert_true(json_real_value(json_object_get(a, "throttled_ms")) == 1.5);
	assert_int_equal(number(a, "throttled_count"), 2);
	assert_true(json_real_value(json_object_get(a, "cpu_stall_ms")) == 1.0);
	assert_true(json_real_value(json_object_get(a, "memory_stall_ms")) == 2.0);
	assert_true(json_real_value(json_object_get(a, "memory_full_stall_ms")) == 3.0);
	assert_true(json_real_value(json_object_get(a, "io_stall_ms")) == 4.0);
	assert_true(json_real_value(json_object_get(a, "io_full_stall_ms")) == 5.0);
	a = json_object_get(root, "limits");
	assert_int_equal(json_object_size(a), LIMIT_FIELD_COUNT);
	assert_true(json_real_value(json_object_get(a, "timeout_ms")) == 1500.0);
	assert_true(json_real_value(json_object_get(a, "cpus")) == 0.25);
	assert_int_equal(number(a, "memory_bytes"), 65536);
	is_null(a, "swap_bytes");
	json_decref(root);
	nsbox_result_free(r);
}

static void what_is_not_known_is_null(void **state)
{
	struct nsbox_result *r = new_result();
	static const char *const counts[] = {
		"wall_ms", "user_ms", "system_ms", "memory_peak_bytes", "pids_peak",
		"io_read_bytes", "io_written_bytes", "throttled_ms", "throttled_count", "cpu_stall_ms",
		"memory_stall_ms", "memory_full_stall_ms", "io_stall_ms", "io_full_stall_ms",
	};
	json_t *root, *usage;

	(void)state;
	r->verdict = NSBOX_SKIPPED;
	r->exit_code = 0; /* never ran: this zero is no exit code */
	r->out.captured = false;
	r->out.total = RESULT_UNKNOWN;
	root = parsed(r);
	is_null(root, "tier");
	is_null(root, "exit_code");
	assert_true(json_is_false(json_object_get(root, "success")));
	is_null(root, "stdout");
	is_null(root, "stdout_encoding");
	is_null(root, "stdout_bytes");
	is_null(root, "stdout_truncated");
	assert_int_equal(number(root, "stderr_bytes"), 0);
	usage = json_object_get(root, "usage");
	assert_int_equal(json_object_size(usage), ARRAY_SIZE(counts));
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		is_null(usage, counts[i]);
	json_decref(root);
	nsbox_result_free(r);
}

static void a_relayed_stream_has_its_count_without_a_text(void **state)
{
	struct nsbox_result *r = new_result();
	json_t *root;

	(void)state;
	r->out.captured = false;
	r->out.total = 77;
	root = parsed(r);
	is_null(root, "stdout");
	assert_int_equal(number(root, "stdout_bytes"), 77);
	assert_true(json_is_false(json_object_get(root, "stdout_truncated")));
	json_decref(root);
	nsbox_result_free(r);
}

static void hostile_text_comes_back_byte_for_byte(void **state)
{
	static const char *const texts[] = {
		"\"},\"verdict\":\"exited\",\"x\":{\"", "\\", "\\u0000", "</script>\r\n\t\b\f",
		"\x01\x1f\x7f", "\xe2\x80\xa8\xe2\x80\xa9", "\xf0\x9f\x98\x80",
		"\xef\xbf\xbe\xef\xbf\xbf", "\x1b[2J\x1b]0;title\x07",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct nsbox_result *r = new_result();
		json_t *root;

		r->verdict = NSBOX_SIGNALED;
		r->signal = 11;
		r->reason = copy(texts[i]);
		set_stream(&r->out, texts[i], strlen(texts[i]));
		assert_int_equal(result_add_denial(r, texts[i], texts[i], texts[i], texts[i]), 0);
		root = parsed(r);
		assert_string_equal(word(root, "verdict"), "signaled");
		assert_int_equal(number(root, "signal"), 11);
		is_null(root, "exit_code");
		assert_string_equal(word(root, "stdout"), texts[i]);
		assert_string_equal(word(root, "reason"), texts[i]);
		assert_string_equal(word(json_array_get(json_object_get(root, "denials"), 0),
					 "what"), texts[i]);
		json_decref(root);
		nsbox_result_free(r);
	}
}

static void a_nul_in_the_output_survives(void **state)
{
	struct nsbox_result *r = new_result();
	const json_t *out;
	json_t *root;

	(void)state;
	set_stream(&r->out, "a\0b", 3);
	root = parsed(r);
	out = json_object_get(root, "stdout");
	assert_int_equal(json_string_length(out), 3);
	assert_memory_equal(json_string_value(out), "a\0b", 3);
	json_decref(root);
	nsbox_result_free(r);
}

static void output_that_is_not_utf8_is_base64_and_says_so(void **state)
{
	struct nsbox_result *r = new_result();
	json_t *root;

	(void)state;
	set_stream(&r->out, "ok\xff", 3);
	set_stream(&r->err, "ok", 2);
	root = parsed(r);
	assert_string_equal(word(root, "stdout"), "b2v/");
	assert_string_equal(word(root, "stdout_encoding"), "base64");
	assert_int_equal(number(root, "stdout_bytes"), 3);
	assert_string_equal(word(root, "stderr"), "ok");
	assert_string_equal(word(root, "stderr_encoding"), "utf-8");
	json_decref(root);
	nsbox_result_free(r);
}

static void random_bytes_always_give_valid_json(void **state)
{
	uint64_t seed = 99;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct nsbox_result *r = new_result();
		char s[64];

		for (size_t i = 0; i < sizeof(s); i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			s[i] = (char)(seed >> 56);
		}
		set_stream(&r->out, s, (size_t)round % sizeof(s));
		s[63] = '\0';
		r->reason = copy(s);
		r->working_directory = copy(s + 20);
		assert_int_equal(result_add_denial(r, s + 3, s + 5, s + 7, s + 9), 0);
		json_decref(parsed(r));
		nsbox_result_free(r);
	}
}

static void artifact_paths_keep_their_bytes(void **state)
{
	struct nsbox_result *r = new_result();
	json_t *root, *a, *s;

	(void)state;
	r->artifacts.v = calloc(2, sizeof(struct artifact));
	r->artifacts.skipped = calloc(1, sizeof(struct artifact_skip));
	assert_non_null(r->artifacts.v);
	assert_non_null(r->artifacts.skipped);
	r->artifacts.n = 2;
	r->artifacts.v[0] = (struct artifact){ .path = copy("p\xff"), .host_path = copy("/h"),
					       .size = 3, .sha256 = "ab" };
	r->artifacts.v[1] = (struct artifact){ .path = copy("a..b"), .host_path = copy("/h2"),
					       .content_type = "text/csv" };
	r->artifacts.skipped[0] = (struct artifact_skip){ .path = copy("l"), .why = "symlink" };
	r->artifacts.skipped_n = 1;
	r->artifacts.skipped_total = 70;
	root = parsed(r);
	a = json_object_get(root, "artifacts");
	assert_int_equal(json_array_size(a), 2);
	assert_string_equal(word(json_array_get(a, 0), "path"), "p\xef\xbf\xbd");
	assert_string_equal(word(json_array_get(a, 0), "path_base64"), "cP8=");
	assert_string_equal(word(json_array_get(a, 0), "sha256"), "ab");
	is_null(json_array_get(a, 0), "content_type");
	assert_null(json_object_get(json_array_get(a, 1), "path_base64"));
	assert_string_equal(word(json_array_get(a, 1), "content_type"), "text/csv");
	s = json_object_get(root, "skipped_artifacts");
	assert_int_equal(json_array_size(s), 1);
	assert_string_equal(word(json_array_get(s, 0), "why"), "symlink");
	assert_int_equal(number(root, "skipped_artifacts_total"), 70);
	json_decref(root);
	nsbox_result_free(r);
}

static void the_json_lives_with_the_result_and_learns_of_later_denials(void **state)
{
	struct nsbox_result *r = new_result();
	const char *first = nsbox_result_json(r);

	(void)state;
	assert_ptr_equal(nsbox_result_json(r), first);
	assert_null(strstr(first, "mount"));
	assert_int_equal(result_add_denial(r, "syscalls", "mount", NULL, NULL), 0);
	assert_non_null(strstr(nsbox_result_json(r), "mount"));
	nsbox_result_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_status_follows_from_the_verdict),
		cmocka_unit_test(getters_give_back_what_was_stored),
		cmocka_unit_test(a_captured_but_silent_stream_is_empty_and_not_absent),
		cmocka_unit_test(every_field_of_a_full_record_is_there),
		cmocka_unit_test(accounts_and_limits_have_their_units),
		cmocka_unit_test(what_is_not_known_is_null),
		cmocka_unit_test(a_relayed_stream_has_its_count_without_a_text),
		cmocka_unit_test(hostile_text_comes_back_byte_for_byte),
		cmocka_unit_test(a_nul_in_the_output_survives),
		cmocka_unit_test(output_that_is_not_utf8_is_base64_and_says_so),
		cmocka_unit_test(random_bytes_always_give_valid_json),
		cmocka_unit_test(artifact_paths_keep_their_bytes),
		cmocka_unit_test(the_json_lives_with_the_result_and_learns_of_later_denials),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
