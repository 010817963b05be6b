/*
 * policy/{blank,load,wire}.c and runtime/parse_cache.c: a policy's text, and every
 * way to get it wrong. The texts are in tests/golden/policy_errors.txt;
 * NSBOX_GOLDEN_UPDATE=1 prints that file as it would pass, for a reviewer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/wire.h"
#include "runtime/parse_cache.h"

#define GOLDEN "tests/golden/policy_errors.txt"

/* --- golden errors ------------------------------------------------------------- */

static void expand(struct buf *out, const char *text, size_t len)
{
	static const struct { const char *mark, *bytes; size_t len; } marks[] = {
		{ "%NUL%", "\0", 1 },
		{ "%FF%", "\xff", 1 },
		{ "%BOM%", "\xef\xbb\xbf", 3 },
		{ "%DEEP%", "[[[[[[[[[[[[[[[[[", 17 },
	};
	size_t at = 0;

	while (at < len) {
		size_t i = 0;

		for (; i < ARRAY_SIZE(marks); i++)
			if (strncmp(text + at, marks[i].mark,
				    strlen(marks[i].mark)) == 0)
				break;
		if (i < ARRAY_SIZE(marks)) {
			buf_add(out, marks[i].bytes, marks[i].len);
			at += strlen(marks[i].mark);
		} else {
			buf_char(out, text[at++]);
		}
	}
}

static void answer_to(struct buf *out, const char *text, size_t len)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	struct policy p = { 0 };
	int code;

	assert_int_equal(policy_init(&p, NULL), 0);
	code = policy_parse(&s, text, len, "p.json", &err);
	if (code == 0)
		code = policy_apply(&p, &s, LAYER_FLAGS, &err);
	if (code == 0)
		code = policy_check(&p, &err);
	assert_int_equal(code, err.code);
	if (code == 0)
		buf_str(out, "ok\n");
	else
		buf_fmt(out, "%s\n%s%s", err.message, err.hint,
			err.hint[0] ? "\n" : "");
	assert_null(strchr(err.message, '\n'));
	settings_free(&s);
	policy_free(&p);
}

/* One "=== title" block; returns the next one or NULL. */
static char *golden_block(char *block, unsigned *count)
{
	bool update = getenv("NSBOX_GOLDEN_UPDATE") != NULL;
	char *text = strchr(block, '\n') + 1;
	char *want = strstr(text, "---\n");
	char *next = strstr(want, "\n=== ");
	struct buf raw = BUF_INIT(65536), got = BUF_INIT(65536);
	size_t len;

	assert_non_null(want);
	expand(&raw, text, (size_t)(want - text));
	answer_to(&got, buf_text(&raw), raw.len);
	if (update)
		printf("%.*s---\n%s%s", (int)(want - block), block,
		       buf_text(&got), next ? "\n" : "");
	want += strlen("---\n");
	len = next ? (size_t)(next - want) : strlen(want);
	if (!update && (got.len != len || memcmp(got.data, want, len) != 0))
		fail_msg("%.*s\nwanted:\n%.*s\ngot:\n%s",
			 (int)strcspn(block, "\n"), block, (int)len, want,
			 buf_text(&got));
	buf_free(&raw);
	buf_free(&got);
	(*count)++;
	return next ? next + 1 : NULL;
}

static void every_wrong_text_gets_its_exact_answer(void **state)
{
	struct buf file = BUF_INIT(1 << 20);
	unsigned count = 0;
	char *block;

	(void)state;
	if (fd_read_file(AT_FDCWD, GOLDEN, &file) < 0)
		fail_msg("%s: run from the top folder", GOLDEN);
	for (block = strstr(file.data, "\n=== ") + 1; block;)
		block = golden_block(block, &count);
	assert_in_range(count, 50, 1000);
	buf_free(&file);
}

/* --- what the settings are -------------------------------------------------------- */

static int load(struct settings *s, const char *text, struct nsbox_error *err)
{
	return policy_parse(s, text, strlen(text), "p.json", err);
}

static void settings_carry_their_text_and_place(void **state)
{
	static const char text[] = "{\n"
		"  \"limits\": { \"memory\": \"1\\u0047\", \"cpus\": 0.10 },\n"
		"  // \xc3\xa9\n"
		"  \"fs.read\": [\"/a\", /* \xc3\xa9 */ \"/b\"], \"fs.write\": [],\n"
		"  \"imports.allow\": null, \"env.inherit\": false,\n"
		"}\n";
	static const struct { const char *key, *value; unsigned line, column; } want[] = {
		{ "limits.memory", "1G", 2, 25 },
		{ "limits.cpus", "0.10", 2, 44 },
		{ "fs.read", "/a", 4, 15 },
		{ "fs.read", "/b", 4, 29 },
		{ "fs.write", "", 4, 48 },
		{ "imports.allow", "null", 5, 20 },
		{ "env.inherit", "false", 5, 41 },
	};
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };

	(void)state;
	if (load(&s, text, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(s.n, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(s.v[i].key, want[i].key);
		assert_string_equal(s.v[i].value, want[i].value);
		assert_int_equal(s.v[i].line, want[i].line);
		assert_int_equal(s.v[i].column, want[i].column);
		assert_string_equal(s.v[i].file, "p.json");
	}
	settings_free(&s);
}

static void the_size_limit_is_exact(void **state)
{
	enum { MAX = 1024 * 1024 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	char *text = malloc(MAX + 1);

	(void)state;
	memset(text, ' ', MAX + 1);
	text[0] = '{';
	text[1] = '}';
	assert_int_equal(policy_parse(&s, text, MAX, "p.json", &err), 0);
	assert_int_equal(policy_parse(&s, text, MAX + 1, "p.json", &err),
			 NSBOX_E_POLICY);
	assert_string_equal(err.message, "p.json: larger than 1048576 bytes");
	free(text);
}

static void the_depth_limit_is_exact(void **state)
{
	static const char *const rows[] = {
		/* 16 levels are JSON as far as depth goes: another error */
		"{\"a\":[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]}",
		"{\"a\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}",
	};
	static const char *const want[] = {
		"p.json:1:2: unknown key \"a\"",
		"p.json:1:21: nested deeper than 16 levels",
	};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct settings s = { 0 };

		assert_int_equal(load(&s, rows[i], &err), NSBOX_E_POLICY);
		assert_string_equal(err.message, want[i]);
	}
}

static void a_list_of_too_many_items_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct buf text = BUF_INIT(1 << 20);
	struct settings s = { 0 };

	(void)state;
	buf_str(&text, "{\"fs.read\":[");
	for (int i = 0; i < 200000; i++)
		buf_str(&text, "\"\",");
	buf_str(&text, "]}");
	assert_int_equal(load(&s, buf_text(&text), &err), NSBOX_E_POLICY);
	assert_string_equal(err.message, "p.json:1:16: fs.read: an empty string");
	buf_clear(&text);
	buf_str(&text, "{\"fs.read\":[");
	for (int i = 0; i < 1026; i++)
		buf_fmt(&text, "%s\"/%04d\"", i ? "," : "", i);
	buf_str(&text, "]}");
	err_clear(&err);
	assert_int_equal(load(&s, buf_text(&text), &err), NSBOX_E_POLICY);
	assert_string_equal(err.message,
			    "p.json:1:8213: fs.read: more than 1024 items");
	buf_free(&text);
}

/* Finding places must not be quadratic: 1 MiB of keys takes no time to speak of. */
static void a_large_text_is_read_in_linear_time(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct buf text = BUF_INIT(1 << 20);
	struct settings s = { 0 };
	clock_t start;

	(void)state;
	buf_str(&text, "{\"env.set\":[");
	for (int i = 0; i < 1000; i++)
		buf_fmt(&text, "%s\"V%d=%0900d\"", i ? "," : "", i, i);
	buf_str(&text, "]}");
	assert_false(text.failed);
	start = clock();
	assert_int_equal(load(&s, buf_text(&text), &err), 0);
	assert_int_equal(s.n, 1000);
	assert_true((clock() - start) / CLOCKS_PER_SEC < 2);
	settings_free(&s);
	buf_free(&text);
}

static void without_a_name_the_text_is_called_policy(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };

	(void)state;
	assert_int_equal(policy_parse(&s, "{", 1, NULL, &err), NSBOX_E_POLICY);
	assert_memory_equal(err.message, "policy:1:", 9);
}

static void every_prefix_of_a_good_text_is_refused_or_empty(void **state)
{
	static const char text[] = "/*c*/{\"fs\":{\"read\":[\"/a\",],},"
				   "\"limits.cpus\":1.5,\"imports.allow\":null}";
	struct settings s = { 0 };

	(void)state;
	assert_int_equal(load(&s, text, NULL), 0);
	settings_free(&s);
	for (size_t n = 0; n < strlen(text); n++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;

		assert_int_equal(policy_parse(&s, text, n, "p.json", &err),
				 NSBOX_E_POLICY);
		assert_memory_equal(err.message, "p.json:1:", 9);
		assert_null(s.v);
	}
}

/* --- wire ----------------------------------------------------------------------- */

static void settings_survive_the_wire(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 }, back = { 0 };
	struct buf wire = BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(settings_add(&s, "fs.read", "/a\n", &(struct origin){ "x", 7, 9 }), 0);
	assert_int_equal(settings_add(&s, "fs.write", "", &(struct origin){ "x", 8, 1 }), 0);
	wire_put(&wire, &s, 0, &err);
	assert_int_equal(wire_get(&back, wire.data, wire.len, "y", &err), 0);
	assert_int_equal(back.n, 2);
	assert_string_equal(back.v[0].key, "fs.read");
	assert_string_equal(back.v[0].value, "/a\n");
	assert_string_equal(back.v[0].file, "y");
	assert_int_equal(back.v[0].line, 7);
	assert_int_equal(back.v[1].column, 1);
	settings_free(&back);
	for (size_t n = 0; n < wire.len; n++) {
		err_clear(&err);
		assert_int_equal(wire_get(&back, wire.data, n, "y", &err),
				 NSBOX_E_SYSTEM);
		assert_null(back.v);
	}
	buf_char(&wire, 'x');
	err_clear(&err);
	assert_int_equal(wire_get(&back, wire.data, wire.len, "y", &err),
			 NSBOX_E_SYSTEM);
	assert_string_equal(err.message,
			    "nsbox-policyc answered with a malformed block");
	settings_free(&s);
	buf_free(&wire);
}

static void an_error_survives_the_wire(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT, back = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	struct buf wire = BUF_INIT(1 << 20);

	(void)state;
	err_hint(&err, "do that");
	err_errno(&err, NSBOX_E_POLICY, ENOENT, "p.json:1:2: what");
	wire_put(&wire, &s, err.code, &err);
	assert_int_equal(wire_get(&s, wire.data, wire.len, "y", &back),
			 NSBOX_E_POLICY);
	assert_memory_equal(&back, &err, sizeof(err));
	for (size_t n = 0; n < wire.len; n++)
		assert_int_equal(wire_get(&s, wire.data, n, "y", NULL),
				 NSBOX_E_SYSTEM);
	buf_free(&wire);
}

/* Lengths and counts that lie: no read outside (the sanitizers watch), no setting. */
static void a_hostile_block_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 }, back = { 0 };
	struct buf wire = BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(settings_add(&s, "fs.read", "/a", &(struct origin){ "x", 7, 9 }), 0);
	wire_put(&wire, &s, 0, &err);
	for (size_t i = 0; i < wire.len; i++) {
		char *copy = malloc(wire.len);

		memcpy(copy, wire.data, wire.len);
		copy[i] = (char)(copy[i] ^ 0xff);
		if (wire_get(&back, copy, wire.len, "y", NULL) == 0)
			settings_free(&back); /* a line, a column, a letter */
		assert_null(back.v);
		free(copy);
	}
	wire.data[8] = 1; /* a code that is neither success nor error */
	assert_int_equal(wire_get(&back, wire.data, wire.len, "y", NULL),
			 NSBOX_E_SYSTEM);
	settings_free(&s);
	buf_free(&wire);
}

/* --- cache ------------------------------------------------------------------------ */

static const unsigned char key_a[32] = { 0xab, 1 }, key_b[32] = { 0xab, 2 };

struct folder {
	char path[64];
	int fd;
};

static struct folder cache_in_a_new_folder(void)
{
	struct folder f = { "/tmp/nsbox-test-XXXXXX", -1 };

	assert_non_null(mkdtemp(f.path));
	f.fd = parse_cache_open(f.path);
	assert_true(f.fd >= 0);
	return f;
}

static void remove_folder(struct folder *f)
{
	static const char *const names[] = { "ab", "ab.new", "target" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unlinkat(f->fd, names[i], 0);
	close(f->fd);
	snprintf(path, sizeof(path), "%s/nsbox/policy", f->path);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/nsbox", f->path);
	rmdir(path);
	assert_int_equal(rmdir(f->path), 0);
}

static bool hit(const struct folder *f, const unsigned char *key)
{
	struct buf out = BUF_INIT(1 << 20);
	bool found = parse_cache_get(f->fd, key, &out);

	if (found)
		assert_string_equal(buf_text(&out), "payload");
	else
		assert_int_equal(out.len, 0);
	buf_free(&out);
	return found;
}

static void put(const struct folder *f, const unsigned char *key)
{
	parse_cache_put(f->fd, key, "payload", 7);
}

static void an_entry_is_found_by_its_own_key_alone(void **state)
{
	struct folder f = cache_in_a_new_folder();

	(void)state;
	assert_false(hit(&f, key_a));
	put(&f, key_a);
	assert_true(hit(&f, key_a));
	assert_false(hit(&f, key_b)); /* the same slot */
	put(&f, key_b);
	assert_true(hit(&f, key_b));
	assert_false(hit(&f, key_a));
	remove_folder(&f);
}

static void an_entry_that_was_touched_is_a_miss(void **state)
{
	struct folder f = cache_in_a_new_folder();
	struct stat st;
	int fd;

	(void)state;
	put(&f, key_a);
	assert_true(hit(&f, key_a));
	fd = openat(f.fd, "ab", O_WRONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(pwrite(fd, "X", 1, st.st_size - 1), 1);
	assert_false(hit(&f, key_a));
	assert_int_equal(pwrite(fd, "d", 1, st.st_size - 1), 1);
	assert_true(hit(&f, key_a));
	assert_int_equal(ftruncate(fd, 20), 0);
	assert_false(hit(&f, key_a));
	close(fd);
	remove_folder(&f);
}

static void an_entry_that_others_may_write_is_a_miss(void **state)
{
	struct folder f = cache_in_a_new_folder();

	(void)state;
	put(&f, key_a);
	assert_int_equal(fchmodat(f.fd, "ab", 0620, 0), 0);
	assert_false(hit(&f, key_a));
	assert_int_equal(fchmodat(f.fd, "ab", 0600, 0), 0);
	assert_true(hit(&f, key_a));
	assert_int_equal(linkat(f.fd, "ab", f.fd, "target", 0), 0);
	assert_false(hit(&f, key_a)); /* somebody else has a name for it */
	assert_int_equal(unlinkat(f.fd, "target", 0), 0);
	assert_true(hit(&f, key_a));
	if (geteuid() == 0) {
		assert_int_equal(fchownat(f.fd, "ab", 65534, 65534, 0), 0);
		assert_false(hit(&f, key_a));
	}
	remove_folder(&f);
}

static void links_and_fifos_in_a_slot_are_misses_and_get_replaced(void **state)
{
	struct folder f = cache_in_a_new_folder();

	(void)state;
	put(&f, key_a);
	assert_int_equal(renameat(f.fd, "ab", f.fd, "target"), 0);
	assert_int_equal(symlinkat("target", f.fd, "ab"), 0);
	assert_false(hit(&f, key_a));
	put(&f, key_a);
	assert_true(hit(&f, key_a));
	assert_int_equal(unlinkat(f.fd, "ab", 0), 0);
	assert_int_equal(mkfifoat(f.fd, "ab", 0600), 0);
	assert_false(hit(&f, key_a)); /* and does not wait for a writer */
	put(&f, key_a);
	assert_true(hit(&f, key_a));
	remove_folder(&f);
}

static void a_leftover_of_a_killed_writer_blocks_for_a_minute_only(void **state)
{
	struct timespec old[2] = { { time(NULL) - 61, 0 }, { time(NULL) - 61, 0 } };
	struct folder f = cache_in_a_new_folder();
	int fd;

	(void)state;
	fd = openat(f.fd, "ab.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	put(&f, key_a);
	assert_false(hit(&f, key_a));
	assert_int_equal(futimens(fd, old), 0);
	put(&f, key_a);
	assert_true(hit(&f, key_a));
	close(fd);
	remove_folder(&f);
}

static void a_folder_that_others_may_write_is_no_cache(void **state)
{
	struct folder f = cache_in_a_new_folder();
	char path[128];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/nsbox", f.path);
	assert_int_equal(chmod(path, 0770), 0);
	assert_int_equal(parse_cache_open(f.path), -1);
	assert_int_equal(chmod(path, 0700), 0);
	fd = parse_cache_open(f.path);
	assert_true(fd >= 0);
	close(fd);
	remove_folder(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_text_gets_its_exact_answer),
		cmocka_unit_test(settings_carry_their_text_and_place),
		cmocka_unit_test(the_size_limit_is_exact),
		cmocka_unit_test(the_depth_limit_is_exact),
		cmocka_unit_test(a_list_of_too_many_items_is_refused),
		cmocka_unit_test(a_large_text_is_read_in_linear_time),
		cmocka_unit_test(without_a_name_the_text_is_called_policy),
		cmocka_unit_test(every_prefix_of_a_good_text_is_refused_or_empty),
		cmocka_unit_test(settings_survive_the_wire),
		cmocka_unit_test(an_error_survives_the_wire),
		cmocka_unit_test(a_hostile_block_is_refused),
		cmocka_unit_test(an_entry_is_found_by_its_own_key_alone),
		cmocka_unit_test(an_entry_that_was_touched_is_a_miss),
		cmocka_unit_test(an_entry_that_others_may_write_is_a_miss),
		cmocka_unit_test(links_and_fifos_in_a_slot_are_misses_and_get_replaced),
		cmocka_unit_test(a_leftover_of_a_killed_writer_blocks_for_a_minute_only),
		cmocka_unit_test(a_folder_that_others_may_write_is_no_cache),
	};

	alarm(60); /* waiting for ever, on a FIFO say, is a failure too */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
