/* SPDX-License-Identifier: Apache-2.0 */
/* The frames and requests of `nsbox rpc`: tools/nsbox/rpc_json.c, rpc_frame.c, rpc_ops.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "nsbox.h"
#include "tools/nsbox/nearest.c"
#include "tools/nsbox/rpc_frame.c"
#include "tools/nsbox/rpc_json.c"
#include "tools/nsbox/rpc_ops.c"
#include "tools/nsbox/rpc_schema.c"
#include "tools/nsbox/say.c"

/* --- JSON ----------------------------------------------------------------------- */

static int check(const char *text, size_t len, struct jscan *out)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int r = jscan_check(out, text, len, &err);

	assert_int_equal(r, err.code);
	return r;
}

static struct jscan parsed(const char *text)
{
	struct jscan v = { 0 };

	assert_int_equal(check(text, strlen(text), &v), 0);
	return v;
}

static void what_rfc_8259_has_is_json(void **state)
{
	static const char *const good[] = {
		"{}", "[]", " [ ] ", "\t{ \"a\" : 1 }\r\n", "0", "-0", "-1.5e+10", "1E5", "0.1",
		"\"\"", "\"\\u0000\\ud800\\\"\\/\"", "true", "false", "null", "[[],{},[{}]]",
		"{\"a\":{\"b\":[1,2,{\"c\":null}]},\"\":\"\"}", "\"\xc3\xa9\xf0\x9f\x98\x80\"",
		"[\"]\",\"}\",\"\\\"]\"]",
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(good); i++)
		parsed(good[i]);
}

static void what_it_has_not_is_refused_with_its_byte(void **state)
{
	static const char *const bad[] = {
		"", " ", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}",
		"{\"a\":1,}", "{a:1}", "{1:2}", "[1 2]", "{} {}", "[}", "{]", "[1}", "01", "1.",
		".5", "-", "+1", "1e", "1e+", "0x10", "nul", "True", "NaN", "Infinity", "\"",
		"\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "\"\t\"", "'a'", "[1]]",
		"// c\n1", "\xef\xbb\xbf{}", "{\"a\" 1}",
	};
	struct nsbox_error err;
	struct jscan v;

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(bad); i++) {
		err = (struct nsbox_error)NSBOX_ERROR_INIT;
		assert_int_equal(jscan_check(&v, bad[i], strlen(bad[i]), &err), NSBOX_E_USAGE);
		assert_ptr_equal(strstr(err.message, "not JSON at byte "), err.message);
	}
	/* A NUL is no blank, and ends nothing. */
	assert_int_equal(check("{}\0", 3, &v), NSBOX_E_USAGE);
	assert_int_equal(check("\"\\\0\"", 4, &v), NSBOX_E_USAGE);
}

static void bytes_that_are_no_utf_8_are_refused(void **state)
{
	static const char *const bad[] = {
		"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"",
	};
	struct jscan v;

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(bad); i++)
		assert_int_equal(check(bad[i], strlen(bad[i]), &v), NSBOX_E_USAGE);
}

static void sixty_four_levels_are_taken_and_no_more(void **state)
{
	char text[20001];
	struct jscan v;

	(void)state;
	for (size_t levels = 1; levels <= 10000; levels = levels < 70 ? levels + 1 : 10000 + (levels == 10000)) {
		memset(text, '[', levels);
		memset(text + levels, ']', levels);
		assert_int_equal(check(text, 2 * levels, &v), levels <= 64 ? 0 : NSBOX_E_USAGE);
	}
	memset(text, '[', 20000); /* and open ones */
	assert_int_equal(check(text, 20000, &v), NSBOX_E_USAGE);
}

static void members_and_items_come_in_order(void **state)
{
	static const char *const want[] = { "1", "\"x,]}\\\"\"", "[1,[2]]", "{\"q\":{}}", "null" };
	struct jscan v = parsed(" {\"a\":1 , \"b\" : \"x,]}\\\"\",\"c\":[1,[2]], \"d\":{\"q\":{}},\"e\":null } ");
	struct jscan key, value;
	size_t at = 0, n = 0;

	(void)state;
	while (jscan_next(v, &at, &key, &value)) {
		assert_true(n < CLI_COUNT(want));
		assert_int_equal(value.len, strlen(want[n]));
		assert_memory_equal(value.p, want[n], value.len);
		assert_int_equal(key.len, 3);
		assert_int_equal(key.p[1], 'a' + (int)n);
		n++;
	}
	assert_int_equal(n, CLI_COUNT(want));
	v = parsed("[ ]");
	at = 0;
	assert_false(jscan_next(v, &at, &key, &value));
	v = parsed("[7]");
	at = 0;
	assert_true(jscan_next(v, &at, &key, &value));
	assert_null(key.p);
	assert_false(jscan_next(v, &at, &key, &value));
}

static void strings_are_decoded(void **state)
{
	static const struct { const char *text, *want; size_t len; } rows[] = {
		{ "\"\"", "", 0 },
		{ "\"a\\n\\t\\\\\\/\\\"\\b\\f\\r\"", "a\n\t\\/\"\b\f\r", 9 },
		{ "\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9 },
		{ "\"\\u0000x\"", "\0x", 2 },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		char *text = NULL;
		size_t len = 0;

		assert_int_equal(jscan_string(parsed(rows[i].text), false, &text, &len, &err), 0);
		assert_int_equal(len, rows[i].len);
		assert_memory_equal(text, rows[i].want, len + 1);
		free(text);
	}
}

static void half_a_character_is_refused_or_kept_as_it_is(void **state)
{
	static const char *const halves[] = { "\"\\ud800\"", "\"\\ude00\"", "\"\\ud800x\"",
					      "\"\\ud800\\ud800\"", "\"\\ud800\\n\"" };
	char *text = NULL;
	size_t len = 0;

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(halves); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;

		assert_int_equal(jscan_string(parsed(halves[i]), false, &text, &len, &err),
				 NSBOX_E_USAGE);
		err = (struct nsbox_error)NSBOX_ERROR_INIT;
		assert_int_equal(jscan_string(parsed(halves[i]), true, &text, &len, &err), 0);
		assert_int_equal((unsigned char)text[0], 0xed);
		free(text);
	}
}

static void base64_is_decoded_or_refused(void **state)
{
	static const struct { const char *text, *want; } rows[] = {
		{ "\"\"", "" }, { "\"Zg==\"", "f" }, { "\"Zm8=\"", "fo" }, { "\"Zm9v\"", "foo" },
		{ "\"Zg\"", "f" }, { "\"+/+/\"", "\xfb\xff\xbf" }, { "\"Zg=\"", NULL },
		{ "\"Z\"", NULL }, { "\"Zg===\"", NULL }, { "\"Z g=\"", NULL }, { "\"Zg=\\n\"", NULL },
		{ "\"=\"", NULL }, { "\"Zm9v-_\"", NULL }, { "5", NULL },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		char *text = NULL;
		size_t len = 0;
		int r = rpc_base64(parsed(rows[i].text), &text, &len, &err);

		assert_int_equal(r, rows[i].want ? 0 : NSBOX_E_USAGE);
		if (rows[i].want)
			assert_string_equal(text, rows[i].want);
		free(text);
	}
}

static void numbers_are_whole_and_in_range(void **state)
{
	static const char *const bad[] = { "-1", "1.0", "1e3", "9007199254740993",
					   "99999999999999999999999", "\"1\"", "null" };
	uint64_t n = 0;

	(void)state;
	assert_true(jscan_uint(parsed("9007199254740992"), RPC_NUMBER_MAX, &n));
	assert_int_equal(n, RPC_NUMBER_MAX);
	for (size_t i = 0; i < CLI_COUNT(bad); i++)
		assert_false(jscan_uint(parsed(bad[i]), RPC_NUMBER_MAX, &n));
}

/* --- frames ---------------------------------------------------------------------- */

static void a_frame_may_come_byte_by_byte(void **state)
{
	static const char stream[] = "\0\0\0\2{}\0\0\0\7[1,2,3]";
	struct frame_in in = FRAME_IN_INIT;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct jscan v;
	size_t seen = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(stream) - 1; i++) {
		frame_in_add(&in, stream + i, 1);
		seen += (size_t)frame_in_next(&in, &v, &err);
		assert_int_equal(seen, (i >= 5) + (i >= 16));
	}
	assert_int_equal(v.len, 7);
	assert_int_equal(frame_in_end(&in, &err), 0);
	frame_in_free(&in);
}

static void many_frames_may_come_at_once(void **state)
{
	struct frame_in in = FRAME_IN_INIT;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct jscan v;
	int n = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		frame_in_add(&in, "\0\0\0\2{}", 6);
	while (frame_in_next(&in, &v, &err) == 1)
		n++;
	assert_int_equal(n, 1000);
	assert_int_equal(err.code, 0);
	frame_in_free(&in);
}

static void a_broken_length_costs_no_memory(void **state)
{
	static const struct { const char *head; bool good; } rows[] = {
		{ "\0\0\0\0", false }, { "\xff\xff\xff\xff", false }, { "\4\0\0\1", false },
		{ "\4\0\0\0", true }, /* exactly 64 MiB: wait for them */
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct frame_in in = FRAME_IN_INIT;
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct jscan v;

		frame_in_add(&in, rows[i].head, FRAME_HEAD);
		assert_int_equal(frame_in_next(&in, &v, &err), rows[i].good ? 0 : NSBOX_E_USAGE);
		assert_true(in.bytes.cap <= 4096);
		assert_int_equal(frame_in_end(&in, &err), NSBOX_E_USAGE);
		frame_in_free(&in);
	}
}

static void what_does_not_fit_a_frame_is_taken_back(void **state)
{
	struct frame_out out = FRAME_OUT_INIT;
	struct json j;
	size_t start, first, len = FRAME_MAX;
	char *big = calloc(1, len + 1);

	(void)state;
	assert_non_null(big);
	memset(big, 'x', len);
	start = answer_begin(&out, &j, 1);
	json_str(&j, "first");
	assert_int_equal(answer_end(&out, &j, start, 1), 0);
	first = out.bytes.len;
	start = answer_begin(&out, &j, 2);
	json_strn(&j, big, len);
	assert_int_equal(answer_end(&out, &j, start, 2), 0); /* an error instead */
	assert_true(out.bytes.len - first < 1024);
	assert_non_null(strstr(out.bytes.data + first + FRAME_HEAD, "\"id\":2,\"ok\":false"));
	assert_non_null(strstr(out.bytes.data + first + FRAME_HEAD, "larger than a frame"));
	frame_out_free(&out);
	free(big);
}

static void events_say_text_or_base64(void **state)
{
	struct frame_out out = FRAME_OUT_INIT;
	static const char text[] = "{\"id\":7,\"event\":\"stdout\",\"data\":\"a\\n\"}";
	static const char bytes[] = "{\"id\":7,\"event\":\"stderr\",\"data\":{\"base64\":\"/w==\"}}";

	(void)state;
	assert_int_equal(event_data(&out, 7, "stdout", "a\n", 2), 0);
	assert_memory_equal(out.bytes.data + FRAME_HEAD, text, strlen(text));
	frame_out_undo(&out, 0);
	assert_int_equal(event_data(&out, 7, "stderr", "\xff", 1), 0);
	assert_memory_equal(out.bytes.data + FRAME_HEAD, bytes, strlen(bytes));
	assert_int_equal(out.bytes.data[3], (int)strlen(bytes));
	frame_out_free(&out);
}

static void a_write_never_waits(void **state)
{
	struct frame_out out = FRAME_OUT_INIT;
	size_t total = 4u << 20, got = 0;
	int kinds[2][2];
	char *big = calloc(1, total);

	(void)state;
	assert_non_null(big);
	assert_int_equal(pipe(kinds[0]), 0); /* blocking, both */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, kinds[1]), 0);
	for (int k = 0; k < 2; k++) {
		char room[65536];

		buf_add(&out.bytes, big, total);
		got = 0;
		while (frame_out_write(&out, kinds[k][k ? 0 : 1]) == 0) {
			ssize_t n = read(kinds[k][k ? 1 : 0], room, sizeof(room));

			assert_true(n > 0);
			got += (size_t)n;
		}
		assert_true(got > 0 && got < total);
		assert_int_equal(frame_out_waiting(&out), 0);
		close(kinds[k][0]);
		close(kinds[k][1]);
	}
	frame_out_free(&out);
	free(big);
}

/* --- requests ---------------------------------------------------------------------- */

static void a_request_is_taken_apart(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc_request q;

	(void)state;
	assert_int_equal(rpc_request_take(&q, parsed("{\"argv\":[\"true\"],\"id\":3,\"o\\u0070\":\"run\","
						     "\"stream\":true}"), &err), 0);
	assert_int_equal(q.id, 3);
	assert_int_equal(q.op, OP_RUN);
	assert_true(rpc_true(q.v[K_STREAM]));
	assert_null(q.v[K_CWD].p);
}

static void a_key_may_have_two_kinds(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc_request q;

	(void)state;
	assert_int_equal(rpc_request_take(&q, parsed("{\"id\":1,\"op\":\"execute\",\"box\":\"b1\",\"code\":\"x\","
						     "\"stdin\":true,\"env\":null}"), &err), 0);
	assert_true(rpc_true(q.v[K_MAY_ASK]));
	assert_non_null(q.v[K_CELL].p);
	assert_null(q.v[K_CODE].p);
	assert_null(q.v[K_ENV].p); /* null is as good as not said */
	assert_int_equal(rpc_request_take(&q, parsed("{\"op\":\"reply\",\"box\":\"b1\",\"call\":9,"
						     "\"value\":null}"), &err), 0);
	assert_int_equal(q.id, 0);
	assert_int_equal(jscan_kind(q.v[K_VALUE]), JSCAN_NULL); /* but a value of null is one */
}

static void what_is_wrong_with_a_request_is_said(void **state)
{
	static const struct { const char *text, *message, *hint; uint64_t id; } rows[] = {
		{ "[]", "a request is an object, not a list", "", 0 },
		{ "{\"id\":1}", "\"op\" is missing", "", 1 },
		{ "{\"id\":1,\"op\":5}", "\"op\" is no name of an operation", "", 1 },
		{ "{\"id\":1,\"op\":\"helo\"}", "unknown operation 'helo'", "did you mean 'hello'?", 1 },
		{ "{\"id\":2,\"op\":\"hello\",\"x\":1}", "unknown key 'x' of \"hello\"",
		  "the operation \"schema\" lists the keys of each operation", 2 },
		{ "{\"id\":2,\"op\":\"run\",\"argv\":[],\"strm\":true}", "unknown key 'strm' of \"run\"",
		  "did you mean 'stream'?", 2 },
		{ "{\"op\":\"hello\"}", "\"hello\" needs 'id': names the request; unique among those in flight", "", 0 },
		{ "{\"id\":0,\"op\":\"hello\"}", "'id' takes a whole number from 1 to 2^53, not this number", "", 0 },
		{ "{\"id\":1,\"id\":1,\"op\":\"hello\"}", "the key 'id' is given twice", "", 1 },
		{ "{\"id\":1,\"op\":\"run\"}", "\"run\" needs 'argv': command and arguments", "", 1 },
		{ "{\"id\":1,\"op\":\"run\",\"argv\":\"ls\"}", "'argv' takes a list of strings, not a string", "", 1 },
		{ "{\"id\":1,\"op\":\"run\",\"argv\":[\"ls\",1]}", "'argv' takes a list of strings, not a list", "", 1 },
		{ "{\"id\":1,\"op\":\"run\",\"argv\":[],\"stdin\":{\"base65\":\"\"}}",
		  "'stdin' takes a string or {\"base64\":\"...\"}, not an object", "", 1 },
		{ "{\"id\":1,\"op\":\"run\",\"argv\":[],\"set\":{\"a\":{}}}",
		  "'set' takes an object of strings, numbers, booleans, null or lists of strings, not an object", "", 1 },
		{ "{\"id\":1,\"op\":\"execute\",\"box\":\"b1\",\"code\":null}", "'code' takes a string, not null", "", 1 },
		{ "{\"id\":1,\"op\":\"execute\",\"box\":\"b1\",\"code\":\"\",\"stdin\":\"\"}",
		  "'stdin' takes true or false, not a string", "", 1 },
		{ "{\"id\":1,\"op\":\"exec\",\"box\":\"b1\",\"argv\":[],\"stdin\":true}",
		  "'stdin' takes a string, not true or false", "", 1 },
		{ "{\"id\":1,\"op\":\"reply\",\"box\":\"b1\",\"call\":1}", "unknown key 'id' of \"reply\"",
		  "the operation \"schema\" lists the keys of each operation", 1 },
		{ "{\"id\":1,\"op\":\"cancel\"}", "\"cancel\" needs 'target': the id of the run to kill", "", 1 },
	};

	(void)state;
	for (size_t i = 0; i < CLI_COUNT(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct rpc_request q;

		assert_int_equal(rpc_request_take(&q, parsed(rows[i].text), &err), NSBOX_E_USAGE);
		assert_string_equal(err.message, rows[i].message);
		assert_string_equal(err.hint, rows[i].hint);
		assert_int_equal(q.id, rows[i].id);
	}
}

static void the_schema_is_json_with_every_operation(void **state)
{
	char *text = rpc_schema();
	char word[64];

	(void)state;
	assert_non_null(text);
	parsed(text);
	for (size_t i = 0; i < OP_COUNT; i++) {
		assert_non_null(rpc_ops[i].name);
		snprintf(word, sizeof(word), "{\"const\":\"%s\"}", rpc_ops[i].name);
		assert_non_null(strstr(text, word));
	}
	for (size_t i = 0; i < K_COUNT; i++)
		assert_true(rpc_keys[i].name && (rpc_keys[i].needs & ~rpc_keys[i].takes) == 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rfc_8259_has_is_json),
		cmocka_unit_test(what_it_has_not_is_refused_with_its_byte),
		cmocka_unit_test(bytes_that_are_no_utf_8_are_refused),
		cmocka_unit_test(sixty_four_levels_are_taken_and_no_more),
		cmocka_unit_test(members_and_items_come_in_order),
		cmocka_unit_test(strings_are_decoded),
		cmocka_unit_test(half_a_character_is_refused_or_kept_as_it_is),
		cmocka_unit_test(base64_is_decoded_or_refused),
		cmocka_unit_test(numbers_are_whole_and_in_range),
		cmocka_unit_test(a_frame_may_come_byte_by_byte),
		cmocka_unit_test(many_frames_may_come_at_once),
		cmocka_unit_test(a_broken_length_costs_no_memory),
		cmocka_unit_test(what_does_not_fit_a_frame_is_taken_back),
		cmocka_unit_test(events_say_text_or_base64),
		cmocka_unit_test(a_write_never_waits),
		cmocka_unit_test(a_request_is_taken_apart),
		cmocka_unit_test(a_key_may_have_two_kinds),
		cmocka_unit_test(what_is_wrong_with_a_request_is_said),
		cmocka_unit_test(the_schema_is_json_with_every_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
