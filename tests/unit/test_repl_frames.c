/* test_repl_frames.c - what a kernel's box may say, byte by byte */
#include "base/utf8.h"
#include "repl_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct repl_rig rig;

static int set_up(void **state)
{
	(void)state;
	return rig_open(&rig) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

static void say(const char *json)
{
	char head[4];

	repl_wire_head(head, strlen(json));
	assert_int_equal(write(rig.driver, head, 4), 4);
	assert_int_equal(write(rig.driver, json, strlen(json)), strlen(json));
}

/* One frame, whole; what became of it. */
static int take(struct nsbox_error *err)
{
	assert_int_equal(repl_wire_read(&rig.k), 1);
	*err = (struct nsbox_error)NSBOX_ERROR_INIT;
	return repl_frame_take(&rig.k, err);
}

static void refused(const char *json, const char *why)
{
	struct nsbox_error err;

	say(json);
	assert_int_equal(take(&err), NSBOX_E_SYSTEM);
	if (!strstr(err.message, why))
		fail_msg("%s: %s", json, err.message);
	assert_null(rig.k.events);
}

static void dropped(const char *json)
{
	struct nsbox_error err;

	say(json);
	assert_int_equal(take(&err), 0);
	if (rig.k.events)
		fail_msg("%s became %s", json, buf_text(&rig.k.events->text));
}

static void becomes(const char *json, const char *event)
{
	struct nsbox_error err;
	struct repl_event *e;

	say(json);
	assert_int_equal(take(&err), 0);
	e = rig_event(&rig);
	assert_non_null(e);
	assert_string_equal(buf_text(&e->text), event);
	repl_event_free(e);
}

static void what_is_no_message_is_refused(void **state)
{
	(void)state;
	rig_request(&rig, 1);
	refused("x", "not JSON");
	refused("[]", "not an object");
	refused("{}", "no \"event\"");
	refused("{\"event\":1}", "no \"event\"");
	refused("{\"event\":\"done\",\"event\":\"done\",\"id\":1}", "a key comes twice");
	refused("{\"\\u0065vent\":\"done\",\"id\":1}", "keys are no message's");
	refused("{\"event\":\"\xff\"}", "UTF-8");
	refused("{\"event\":\"what\"} {}", "not JSON");
	assert_non_null(rig.k.current);
}

static void lengths_out_of_bounds_are_refused_without_memory(void **state)
{
	static const unsigned char lengths[][4] = { { 0, 0, 0, 0 }, { 4, 0, 0, 1 }, { 255, 255, 255, 255 } };
	struct nsbox_error err;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(write(rig.driver, lengths[i], 4), 4);
		assert_int_equal(take(&err), NSBOX_E_SYSTEM);
		assert_non_null(strstr(err.message, "length"));
		assert_true(rig.k.body.cap == 0);
		repl_wire_reset(&rig.k);
	}
	/* The largest one that is allowed, announced, and never sent. */
	assert_int_equal(write(rig.driver, "\x04\0\0\0{\"a", 7), 7);
	assert_int_equal(repl_wire_read(&rig.k), 0);
	assert_true(rig.k.body.cap < 65536);
}

static void frames_come_in_any_pieces(void **state)
{
	static const char json[] = "{\"id\":1,\"event\":\"display\",\"m\":1}";
	struct nsbox_error err;
	struct repl_event *e;
	char frame[64];

	(void)state;
	rig_request(&rig, 1);
	repl_wire_head(frame, strlen(json));
	memcpy(frame + 4, json, sizeof(json));
	for (size_t i = 0; i < 3 + strlen(json); i++) {
		assert_int_equal(write(rig.driver, frame + i, 1), 1);
		assert_int_equal(repl_wire_read(&rig.k), 0);
	}
	assert_int_equal(write(rig.driver, "}", 1), 1);
	assert_int_equal(take(&err), 0);
	e = rig_event(&rig);
	assert_non_null(e);
	assert_string_equal(buf_text(&e->text), json);
	repl_event_free(e);
}

static void what_belongs_to_no_request_is_dropped(void **state)
{
	(void)state;
	dropped("{\"event\":\"done\",\"id\":1,\"status\":\"ok\"}");
	rig_request(&rig, 1);
	dropped("{\"event\":\"done\",\"id\":2,\"status\":\"ok\"}");
	dropped("{\"event\":\"done\",\"status\":\"ok\"}");
	dropped("{\"event\":\"done\",\"id\":-1,\"status\":\"ok\"}");
	dropped("{\"event\":\"done\",\"id\":1.0,\"status\":\"ok\"}");
	dropped("{\"event\":\"done\",\"id\":\"1\",\"status\":\"ok\"}");
	dropped("{\"event\":\"stdout\",\"id\":1,\"text\":\"forged\"}");
	dropped("{\"event\":\"dead\",\"id\":1,\"restarted\":true}");
	dropped("{\"event\":\"ready\"}");
	dropped("{\"event\":\"call\",\"id\":1}");
	dropped("{\"event\":\"call\",\"id\":1,\"call\":0}");
	assert_int_equal(rig.k.call_count, 0);
}

static void done_holds_no_claim_about_what_only_we_know(void **state)
{
	(void)state;
	rig_request(&rig, 1);
	becomes("{\"id\":1,\"event\":\"done\",\"status\":\"timed_out\",\"restarted\":true,\"stdout_bytes\":7,"
		"\"stderr_truncated\":true,\"repr\":\"2\",\"x\":[1, {}]}",
		"{\"id\":1,\"event\":\"done\",\"status\":\"error\",\"restarted\":false,\"stdout_bytes\":0,"
		"\"stdout_truncated\":false,\"stderr_bytes\":0,\"stderr_truncated\":false,"
		"\"repr\":\"2\",\"x\":[1, {}]}");
	assert_null(rig.k.current);
}

static void output_is_bounded_counted_and_cut_between_characters(void **state)
{
	char text[99];

	(void)state;
	rig_request(&rig, 1);
	memset(text, 'a', sizeof(text));
	assert_int_equal(write(rig.out, text, 99), 99);
	assert_int_equal(write(rig.out, "\xc3\xa9tail", 6), 6);
	assert_int_equal(write(rig.err, "\xe2\x82", 2), 2);
	becomes("{\"id\":1,\"event\":\"done\",\"status\":\"ok\"}",
		"{\"id\":1,\"event\":\"stdout\",\"text\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}");
	for (int i = 0; i < 2; i++) {
		static const char *const want[] = { "{\"id\":1,\"event\":\"stderr\",\"text\":\"\xef\xbf\xbd",
						    "\"stdout_bytes\":105,\"stdout_truncated\":true,"
						    "\"stderr_bytes\":2,\"stderr_truncated\":false" };
		struct repl_event *e = rig_event(&rig);

		assert_non_null(e);
		assert_non_null(strstr(buf_text(&e->text), want[i]));
		repl_event_free(e);
	}
}

static void a_character_in_two_pieces_is_one(void **state)
{
	struct repl_event *e;

	(void)state;
	rig_request(&rig, 1);
	assert_int_equal(write(rig.out, "a\xe2\x82", 3), 3);
	assert_true(repl_text_read(&rig.k, 0, 100));
	assert_int_equal(write(rig.out, "\xac\xf0\x9f", 3), 3);
	assert_true(repl_text_read(&rig.k, 0, 100));
	assert_int_equal(write(rig.out, "\x98\x80", 2), 2);
	assert_true(repl_text_read(&rig.k, 0, 100));
	assert_false(repl_text_read(&rig.k, 0, 100));
	for (int i = 0; i < 3; i++) {
		static const char *const want[] = { "\"a\"", "\"\xe2\x82\xac\"", "\"\xf0\x9f\x98\x80\"" };

		e = rig_event(&rig);
		assert_non_null(e);
		assert_non_null(strstr(buf_text(&e->text), want[i]));
		repl_event_free(e);
	}
}

static void answers_go_to_those_who_wait(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char text[64] = "";

	(void)state;
	rig_request(&rig, 1);
	assert_int_equal(nsbox_kernel_send(&rig.k, "{\"call\":5,\"value\":1}", 20, &err), NSBOX_E_BUSY);
	becomes("{\"event\":\"call\",\"id\":1,\"call\":5,\"name\":\"f\"}",
		"{\"event\":\"call\",\"id\":1,\"call\":5,\"name\":\"f\"}");
	assert_int_equal(nsbox_kernel_send(&rig.k, "{\"call\":5,\"value\":1}", 20, &err), 0);
	assert_int_equal(read(rig.driver, text, sizeof(text)), 24);
	assert_memory_equal(text, "\0\0\0\x14{\"call\":5,\"value\":1}", 24);
	assert_int_equal(nsbox_kernel_send(&rig.k, "{\"call\":5,\"value\":1}", 20, &err), NSBOX_E_BUSY);
	becomes("{\"event\":\"display\",\"id\":1,\"ack\":6}", "{\"event\":\"display\",\"id\":1,\"ack\":6}");
	assert_int_equal(read(rig.driver, text, sizeof(text)), 27);
	assert_memory_equal(text + 4, "{\"call\":6,\"value\":null}", 23);
}

static void calls_that_pile_up_are_bounded(void **state)
{
	char text[64];
	struct nsbox_error err;
	struct repl_event *e;

	(void)state;
	rig_request(&rig, 1);
	for (int i = 1; i <= REPL_CALLS_MAX + 5; i++) {
		snprintf(text, sizeof(text), "{\"event\":\"call\",\"id\":1,\"call\":%d}", i);
		say(text);
		assert_int_equal(take(&err), 0);
		e = rig_event(&rig);
		assert_true((e != NULL) == (i <= REPL_CALLS_MAX));
		repl_event_free(e);
	}
}

static void the_end_of_the_channel_is_seen_once(void **state)
{
	(void)state;
	assert_int_equal(repl_wire_read(&rig.k), 0);
	shutdown(rig.driver, SHUT_WR);
	assert_int_equal(repl_wire_read(&rig.k), -1);
	assert_int_equal(repl_wire_read(&rig.k), -1);
	repl_wire_flush(&rig.k);
}

static void requests_for_a_shell_are_words(void **state)
{
	static const struct {
		const char *json, *words;
		int code;
	} rows[] = {
		{ "{\"id\":7,\"op\":\"execute\",\"code\":\"a\\u00e9\",\"env\":{\"A\":\"1\",\"B\":2}}",
		  "        7execute        17        14       11a\\0303\\0251        0        3A=1        3B=2", 0 },
		{ "{\"id\":7,\"op\":\"exec\",\"argv\":[\"x\",\"\"],\"cwd\":\"/\"}", "        4exec        17        16        1/        0        0        10        1x        0", 0 },
		{ "{\"id\":7,\"op\":\"get\",\"path\":\"p\",\"max_bytes\":3}", "        3get        17        12        1p        13", 0 },
		{ "{\"id\":7,\"op\":\"put\",\"path\":\"p\",\"data\":\"eA==\",\"mode\":420}", "        3put        17        14        1p        4eA==        40644        11", 0 },
		{ "{\"id\":7,\"op\":\"set\",\"values\":{\"a\":null,\"b\":true}}", "        3set        17        12        2a=        6b=true", 0 },
		{ "{\"id\":7,\"op\":\"set\",\"values\":{\"a\":[]}}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"set\",\"values\":{\"a b\":1}}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"execute\",\"code\":\"a\\u0000b\"}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"execute\",\"code\":\"\\ud800\"}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"exec\",\"argv\":[]}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"list\",\"path\":\"a\\\\\\n\"}", "        4list        17        11       11a\\0134\\0012", 0 },
		{ "{\"id\":7,\"op\":\"execute\",\"code\":\"\",\"stdin\":true}", "        7execute        17        12        0        11", 0 },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[{\"name\":\"f_1\",\"doc\":\"x\",\"final\":false}]}", "        5tools        17        11        3f_1", 0 },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[{\"name\":\"f\",\"final\":true}]}", NULL, NSBOX_E_UNSUPPORTED },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[{\"name\":\"a-b\"}]}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[{\"name\":\"done\"}]}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[{\"name\":\"nsbox_send\"}]}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[{\"doc\":\"f\"}]}", NULL, NSBOX_E_USAGE },
		{ "{\"id\":7,\"op\":\"tools\",\"tools\":[\"f\"]}", NULL, NSBOX_E_USAGE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf b = BUF_INIT(4096);

		assert_int_equal(repl_shell_request(&b, 7, rows[i].json, strlen(rows[i].json), &err),
				 rows[i].code);
		if (rows[i].words)
			assert_string_equal(buf_text(&b), rows[i].words);
		buf_free(&b);
	}
}

static void answers_for_a_shell_are_lines(void **state)
{
	static const struct {
		const char *json, *line;
	} rows[] = {
		{ "{\"call\":5,\"value\":\"a\\u00e9\\n\\u0000\\\\\"}", "5 text a\\0303\\0251\\0012\\0000\\0134\n" },
		{ "{\"call\":5,\"value\":null}", "5 none \n" },
		{ "{\"call\":5,\"value\":-1.5e3}", "5 text -1.5e3\n" },
		{ "{\"call\":5,\"value\":[1,\"a\"]}", "5 text [1,\"a\"]\n" },
		{ "{\"call\":5,\"value\":{\"a\":{}}}", "5 text {\"a\":{}}\n" },
		{ "{\"call\":5,\"value\":{\"$t\":\"int\",\"v\":\"99\"}}", "5 text 99\n" },
		{ "{\"call\":5,\"value\":{\"$t\":\"bytes\",\"v\":\"/wo=\"}}", "5 raw \\0377\\0012\n" },
		{ "{\"call\":5,\"value\":{\"$t\":\"bytes\",\"v\":\"?\"}}", NULL },
		{ "{\"call\":5,\"value\":{\"$t\":\"set\",\"v\":[1]}}", "5 text {\"$t\":\"set\",\"v\":[1]}\n" },
		{ "{\"call\":5,\"error\":{\"name\":\"E\",\"value\":\"v\\n\"}}", "5 error E: v\\0012\n" },
		{ "{\"call\":5,\"error\":{\"name\":\"E\",\"value\":\"\"}}", "5 error E\n" },
		{ "{\"call\":5,\"error\":{}}", "5 error \n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf b = BUF_INIT(4096);
		int r = repl_shell_answer(&b, rows[i].json, strlen(rows[i].json), NULL);

		assert_int_equal(r, rows[i].line ? 0 : NSBOX_E_USAGE);
		assert_string_equal(buf_text(&b), rows[i].line ? rows[i].line : "");
		buf_free(&b);
	}
}

/* A NUL behind each word; what is no UTF-8 crosses as bytes. */
static void calls_of_a_shell_have_its_words(void **state)
{
	(void)state;
	rig.k.is_shell = true;
	rig_request(&rig, 1);
	becomes("{\"event\":\"call\",\"id\":1,\"call\":5,\"name\":\"f\",\"words\":\"YSBiAAD/AA==\"}",
		"{\"event\":\"call\",\"id\":1,\"call\":5,\"name\":\"f\",\"args\":[\"a b\",\"\","
		"{\"$t\":\"bytes\",\"v\":\"/w==\"}],\"kwargs\":{}}");
	becomes("{\"event\":\"call\",\"id\":1,\"call\":6,\"words\":7}",
		"{\"event\":\"call\",\"id\":1,\"call\":6,\"args\":[],\"kwargs\":{}}");
}

static void a_shells_calls_end_with_their_cell(void **state)
{
	static const char refused[] = "RuntimeError: the host can be called only while the cell runs\n";
	char text[256] = "", want[256];
	struct nsbox_error err;
	struct repl_event *e;

	(void)state;
	rig.k.is_shell = true;
	rig_request(&rig, 1);
	becomes("{\"event\":\"call\",\"id\":1,\"call\":5}",
		"{\"event\":\"call\",\"id\":1,\"call\":5,\"args\":[],\"kwargs\":{}}");
	say("{\"event\":\"done\",\"id\":1}");
	assert_int_equal(take(&err), 0);
	assert_int_equal(read(rig.answers, text, sizeof(text) - 1), sizeof(refused) + 7);
	snprintf(want, sizeof(want), "5 error %s", refused);
	assert_string_equal(text, want);
	assert_int_equal(nsbox_kernel_send(&rig.k, "{\"call\":5,\"value\":1}", 20, &err), NSBOX_E_BUSY);
	e = rig_event(&rig);
	assert_non_null(e);
	repl_event_free(e);
	say("{\"event\":\"call\",\"id\":1,\"call\":6}");
	assert_int_equal(take(&err), 0);
	memset(text, 0, sizeof(text));
	assert_int_equal(read(rig.answers, text, sizeof(text) - 1), sizeof(refused) + 7);
	assert_memory_equal(text, "6 error ", 8);
}

/* Nobody reads: what is sent is bounded, and goes on when there is room. */
static void unread_answers_wait(void **state)
{
	static char text[600000];
	size_t got = 0;
	int n = snprintf(text, sizeof(text), "{\"call\":5,\"value\":\"%0500000d\"}", 1);
	struct epoll_event ready;

	(void)state;
	rig.k.is_shell = true;
	assert_int_equal(repl_wire_answer(&rig.k, text, (size_t)n, NULL), 0);
	assert_true(repl_wire_unsent(&rig.k) > 0);
	while (got < 500008) {
		ssize_t part = read(rig.answers, text, sizeof(text));

		if (part > 0) {
			got += (size_t)part;
			continue;
		}
		assert_int_equal(epoll_wait(rig.k.epoll, &ready, 1, 0), 1);
		assert_int_equal(ready.data.u32, TAG_ANSWERS);
		repl_wire_flush(&rig.k);
	}
	assert_int_equal(repl_wire_unsent(&rig.k), 0);
	assert_int_equal(epoll_wait(rig.k.epoll, &ready, 1, 0), 0);
	close(rig.answers);
	rig.answers = -1;
	assert_int_equal(repl_wire_answer(&rig.k, "{\"call\":5,\"value\":1}", 20, NULL), 0);
	assert_int_equal(repl_wire_unsent(&rig.k), 0);
}

static void a_shells_done_says_each_thing_once(void **state)
{
	(void)state;
	rig.k.is_shell = true;
	rig_request(&rig, 1);
	becomes("{\"id\":1,\"event\":\"done\",\"status\":\"ok\",\"entries\":[1],\"listing\":\"\",\"truncated\":7}",
		"{\"id\":1,\"event\":\"done\",\"status\":\"ok\",\"restarted\":false,\"stdout_bytes\":0,"
		"\"stdout_truncated\":false,\"stderr_bytes\":0,\"stderr_truncated\":false,"
		"\"entries\":[],\"truncated\":false}");
}

static void what_a_shell_lists_is_taken_apart(void **state)
{
	static const char one[] = "f 3 644 12.3456 a b\0d 0 7777 -2.5 \xff", bad[] = "f 3 644 1 a\0f -3 644 1 b";
	static const char *const rows[] = {
		"\"\"", ",\"entries\":[],\"truncated\":false",
		"7", ",\"entries\":[],\"truncated\":true",
		"\"?\"", ",\"entries\":[],\"truncated\":true",
		"\"YQ==\"", ",\"entries\":[],\"truncated\":true",
	};
	struct buf b = BUF_INIT(4096), text = BUF_INIT(4096);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i += 2) {
		repl_shell_listing(&b, (struct jscan){ rows[i], strlen(rows[i]) });
		assert_string_equal(buf_text(&b), rows[i + 1]);
		buf_clear(&b);
	}
	buf_char(&text, '"');
	base64_add(&text, one, sizeof(one));
	buf_char(&text, '"');
	repl_shell_listing(&b, (struct jscan){ text.data, text.len });
	assert_string_equal(buf_text(&b),
			    ",\"entries\":[{\"name\":\"a b\",\"type\":\"file\",\"size\":3,\"mode\":420,\"mtime_ms\":12345},"
			    "{\"name\":\"\xef\xbf\xbd\",\"type\":\"directory\",\"size\":0,\"mode\":4095,"
			    "\"mtime_ms\":-1500}],\"truncated\":false");
	buf_clear(&b);
	buf_clear(&text);
	buf_char(&text, '"');
	base64_add(&text, bad, sizeof(bad));
	buf_char(&text, '"');
	repl_shell_listing(&b, (struct jscan){ text.data, text.len });
	assert_string_equal(buf_text(&b), ",\"entries\":[{\"name\":\"a\",\"type\":\"file\",\"size\":3,\"mode\":420,"
					  "\"mtime_ms\":1000}],\"truncated\":true");
	buf_free(&b);
	buf_free(&text);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(what_is_no_message_is_refused),
		TEST(lengths_out_of_bounds_are_refused_without_memory),
		TEST(frames_come_in_any_pieces),
		TEST(what_belongs_to_no_request_is_dropped),
		TEST(done_holds_no_claim_about_what_only_we_know),
		TEST(output_is_bounded_counted_and_cut_between_characters),
		TEST(a_character_in_two_pieces_is_one),
		TEST(answers_go_to_those_who_wait),
		TEST(calls_that_pile_up_are_bounded),
		TEST(the_end_of_the_channel_is_seen_once),
		TEST(requests_for_a_shell_are_words),
		TEST(answers_for_a_shell_are_lines),
		TEST(calls_of_a_shell_have_its_words),
		TEST(a_shells_calls_end_with_their_cell),
		TEST(unread_answers_wait),
		TEST(a_shells_done_says_each_thing_once),
		TEST(what_a_shell_lists_is_taken_apart),
	};

	return cmocka_run_group_tests_name("frames of kernels", tests, NULL, NULL);
}
