/*
 * test_cgroup_files.c - reading mountinfo and the files of a leaf
 *
 * On plain texts and plain folders: exact values, and what no kernel here would do.
 */
#include "base/cleanup.h"
#include "runtime/cgroup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/plain_dir.h"

/* --- reading what /proc says --------------------------------------------------- */

static void mountinfo_lines_are_told_apart(void **state)
{
	static const struct { const char *line, *root, *point; int rw; } rows[] = {
		{ "38 31 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
		  "/", "/sys/fs/cgroup/unified", 1 },
		{ "38 31 0:29 / /sys/fs/cgroup rw shared:9 master:1 - cgroup2 c rw", "/",
		  "/sys/fs/cgroup", 1 },
		{ "1 2 0:3 /docker/ab /a\\040b ro,nosuid - cgroup2 c rw", "/docker/ab", "/a b", 0 },
		{ "1 2 0:3 / /x\\134y\\0 rw - cgroup2 c rw", "/", "/x\\y\\0", 1 },
		{ "32 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", NULL, NULL, 0 },
		{ "32 31 0:30 / /cgroup2 rw - tmpfs cgroup2 rw", NULL, NULL, 0 },
		{ "32 31 0:30 / /x rw cgroup2", NULL, NULL, 0 },
		{ "32 31 0:30 /", NULL, NULL, 0 },
		{ "", NULL, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cgroup_mount m = { .root = "untouched" };
		char line[256];

		strcpy(line, rows[i].line);
		if (!rows[i].root) {
			assert_int_equal(cgroup_parse_mount(line, &m), -1);
			assert_string_equal(m.root, "untouched");
			continue;
		}
		assert_int_equal(cgroup_parse_mount(line, &m), 0);
		assert_string_equal(m.root, rows[i].root);
		assert_string_equal(m.point, rows[i].point);
		assert_int_equal(m.is_writable, rows[i].rw);
	}
}

static void a_mount_point_too_long_to_keep_is_refused(void **state)
{
	struct cgroup_mount m;
	char line[600], point[400];

	(void)state;
	memset(point, 'x', sizeof(point));
	point[255] = '\0';
	snprintf(line, sizeof(line), "1 2 0:3 / %s rw - cgroup2 c rw", point);
	assert_int_equal(cgroup_parse_mount(line, &m), 0);
	point[255] = 'x';
	point[256] = '\0';
	snprintf(line, sizeof(line), "1 2 0:3 / %s rw - cgroup2 c rw", point);
	assert_int_equal(cgroup_parse_mount(line, &m), -1);
}

static void the_own_cgroup_is_seen_from_the_mount(void **state)
{
	static const struct { const char *root, *own, *below; } rows[] = {
		{ "/", "/", "" },
		{ "/", "/user.slice/a.scope", "user.slice/a.scope" },
		{ "/docker/ab", "/docker/ab", "" },
		{ "/docker/ab", "/docker/ab/c", "c" },
		{ "/docker/ab", "/docker/abc", NULL },
		{ "/docker/ab", "/other", NULL },
		{ "/", "/../other", NULL },
		{ "/", "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cgroup_mount m = { .is_writable = true };
		const char *below;

		strcpy(m.root, rows[i].root);
		below = cgroup_below_mount(&m, rows[i].own);
		if (rows[i].below)
			assert_string_equal(below, rows[i].below);
		else
			assert_null(below);
	}
}

static void a_mount_above_our_cgroup_namespace_is_told_apart(void **state)
{
	static const struct { const char *root; int outside; } rows[] = {
		{ "/", 0 }, { "/docker/ab", 0 }, { "/..", 1 }, { "/../..", 1 }, { "/.hidden", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cgroup_mount m = { .is_writable = true };

		strcpy(m.root, rows[i].root);
		assert_int_equal(cgroup_is_outside(&m), rows[i].outside);
	}
}

/* --- files of a leaf, as plain files ------------------------------------------- */

static void a_limit_that_the_file_keeps_is_accepted(void **state)
{
	struct cgroup_value row = { "memory.max", "67108864", "limits.memory" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	put(f.fd, "memory.max", "");
	assert_int_equal(cgroup_set(f.fd, &row, &err), 0);
	assert_int_equal(err.code, 0);
	plain_dir_free(&f);
}

/* A plain file keeps what stood behind the new text, as a kernel that rounds would. */
static void a_limit_that_reads_back_differently_is_an_error_with_both_values(void **state)
{
	struct cgroup_value row = { "memory.max", "1000001", "limits.memory" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	put(f.fd, "memory.max", "1000001999\n");
	assert_int_equal(cgroup_set(f.fd, &row, &err), NSBOX_E_UNSUPPORTED);
	assert_string_equal(err.message,
			    "limits.memory: cgroup file memory.max was given 1000001 and has 1000001999");
	assert_true(err.hint[0]);
	plain_dir_free(&f);
}

static void a_missing_file_is_an_error_that_names_key_and_file(void **state)
{
	struct cgroup_value row = { "memory.max", "1", "limits.memory" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	assert_int_equal(cgroup_set(f.fd, &row, &err), NSBOX_E_UNSUPPORTED);
	assert_int_equal(err.os_errno, ENOENT);
	assert_non_null(strstr(err.message, "limits.memory: write 1 to cgroup file memory.max"));
	assert_true(err.hint[0]);
	plain_dir_free(&f);
}

static void usage_is_read_exactly_and_absent_files_are_not_known(void **state)
{
	struct cgroup c = { .fd = -1 };
	struct cgroup_usage u;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	c.fd = f.fd;
	cgroup_read(&c, &u);
	assert_false(u.has_cpu || u.has_memory_peak || u.has_pids_peak || u.has_oom ||
		     u.has_pids_events);
	put(f.fd, "cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\nuser_usec_x 7\n");
	put(f.fd, "memory.peak", "67108864\n");
	put(f.fd, "pids.peak", "12\n");
	put(f.fd, "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
	put(f.fd, "pids.events", "max 6\n");
	cgroup_read(&c, &u);
	assert_true(u.has_cpu && u.has_memory_peak && u.has_pids_peak && u.has_oom &&
		    u.has_pids_events);
	assert_int_equal(u.user_us, 5);
	assert_int_equal(u.system_us, 4);
	assert_int_equal(u.memory_peak, 67108864);
	assert_int_equal(u.pids_peak, 12);
	assert_int_equal(u.oom_kills, 2);
	assert_int_equal(u.pids_max_events, 6);
	put(f.fd, "memory.peak", "12 34\n");
	put(f.fd, "cpu.stat", "user_usec 5\n");
	cgroup_read(&c, &u);
	assert_false(u.has_memory_peak);
	assert_false(u.has_cpu);
	plain_dir_free(&f);
}

static void what_a_leaf_uses_now_is_read_exactly(void **state)
{
	struct cgroup_now now;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	cgroup_read_now(f.fd, &now);
	assert_false(now.has_cpu || now.has_memory || now.has_pids);
	put(f.fd, "cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\n");
	put(f.fd, "memory.current", "4096\n");
	put(f.fd, "pids.current", "3\n");
	cgroup_read_now(f.fd, &now);
	assert_true(now.has_cpu && now.has_memory && now.has_pids);
	assert_int_equal(now.cpu_us, 9);
	assert_int_equal(now.memory_bytes, 4096);
	assert_int_equal(now.pids, 3);
	plain_dir_free(&f);
}

static void accounts_are_read_exactly_and_absent_ones_are_not_known(void **state)
{
	static const uint64_t want[STALL_COUNT] = { 11, 21, 22, 31, 32 };
	struct cgroup c = { .fd = -1 };
	struct cgroup_usage u;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	c.fd = f.fd;
	put(f.fd, "cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\n");
	cgroup_read(&c, &u);
	assert_true(u.has_cpu);
	assert_false(u.accounts.has_throttled || u.accounts.has_io);
	for (int i = 0; i < STALL_COUNT; i++)
		assert_false(u.accounts.has_stall[i]);
	put(f.fd, "cpu.stat", "user_usec 5\nsystem_usec 4\nnr_periods 8\nnr_throttled 3\n"
	    "throttled_usec 1234\nnr_bursts 0\n");
	put(f.fd, "io.stat", "8:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n"
	    "253:1 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n");
	put(f.fd, "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n");
	put(f.fd, "memory.pressure", "some avg10=9.99 avg60=0.00 avg300=0.00 total=21\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=22\n");
	put(f.fd, "io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=31\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=32\n");
	cgroup_read(&c, &u);
	assert_true(u.accounts.has_throttled && u.accounts.has_io);
	assert_int_equal(u.accounts.throttled_us, 1234);
	assert_int_equal(u.accounts.throttled_count, 3);
	assert_int_equal(u.accounts.io_read, 101);
	assert_int_equal(u.accounts.io_written, 22);
	for (int i = 0; i < STALL_COUNT; i++) {
		assert_true(u.accounts.has_stall[i]);
		assert_int_equal(u.accounts.stall_us[i], want[i]);
	}
	put(f.fd, "io.stat", ""); /* no device was touched: a zero that was read */
	put(f.fd, "memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=21\n");
	put(f.fd, "io.pressure", "some avg10=0.00 total=x1\n");
	cgroup_read(&c, &u);
	assert_true(u.accounts.has_io);
	assert_int_equal(u.accounts.io_read + u.accounts.io_written, 0);
	assert_true(u.accounts.has_stall[STALL_MEMORY]);
	assert_false(u.accounts.has_stall[STALL_MEMORY_FULL] || u.accounts.has_stall[STALL_IO]);
	plain_dir_free(&f);
}

static void a_list_of_devices_too_long_to_read_is_not_added_up(void **state)
{
	static const char line[] = "8:0 rbytes=1 wbytes=1\n";
	char text[2 * CGROUP_TEXT];
	size_t len = 0;
	struct cgroup c = { .fd = -1 };
	struct cgroup_usage u;
	struct plain_dir f;

	(void)state;
	for (; len < CGROUP_TEXT + 100; len += sizeof(line) - 1)
		memcpy(text + len, line, sizeof(line));
	plain_dir_new(&f);
	c.fd = f.fd;
	put(f.fd, "io.stat", text);
	cgroup_read(&c, &u);
	assert_false(u.accounts.has_io);
	plain_dir_free(&f);
}

static void without_a_place_making_is_refused_with_the_reason(void **state)
{
	struct cgroup_place place = { .fd = -1, .why = "it is Sunday" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct cgroup c = { .fd = 77 };

	(void)state;
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, &err), NSBOX_E_UNSUPPORTED);
	assert_non_null(strstr(err.message, "it is Sunday"));
	assert_int_equal(c.fd, 77); /* untouched */
}

static bool host_has_swap(void)
{
	char text[256] = "";
	owned_fd int fd = open("/proc/swaps", O_RDONLY | O_CLOEXEC);
	const char *end;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return false;
	end = strchr(text, '\n');
	return end && end[1];
}

static void no_swap_is_true_without_a_file_only_where_there_is_none(void **state)
{
	struct cgroup_value zero = { "memory.swap.max", "0", "limits.swap" };
	struct cgroup_value some = { "memory.swap.max", "4096", "limits.swap" };
	struct cgroup_place place = { .path = "a folder" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct cgroup c = { .fd = -1 };
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	place.fd = f.fd;
	assert_int_equal(cgroup_make(&c, &place, &zero, 1, &err),
			 host_has_swap() ? NSBOX_E_UNSUPPORTED : 0);
	cgroup_destroy(&c);
	err_clear(&err);
	assert_int_equal(cgroup_make(&c, &place, &some, 1, &err), NSBOX_E_UNSUPPORTED);
	assert_int_equal(err.os_errno, ENOENT);
	plain_dir_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mountinfo_lines_are_told_apart),
		cmocka_unit_test(a_mount_point_too_long_to_keep_is_refused),
		cmocka_unit_test(the_own_cgroup_is_seen_from_the_mount),
		cmocka_unit_test(a_mount_above_our_cgroup_namespace_is_told_apart),
		cmocka_unit_test(a_limit_that_the_file_keeps_is_accepted),
		cmocka_unit_test(a_limit_that_reads_back_differently_is_an_error_with_both_values),
		cmocka_unit_test(a_missing_file_is_an_error_that_names_key_and_file),
		cmocka_unit_test(usage_is_read_exactly_and_absent_files_are_not_known),
		cmocka_unit_test(what_a_leaf_uses_now_is_read_exactly),
		cmocka_unit_test(accounts_are_read_exactly_and_absent_ones_are_not_known),
		cmocka_unit_test(a_list_of_devices_too_long_to_read_is_not_added_up),
		cmocka_unit_test(without_a_place_making_is_refused_with_the_reason),
		cmocka_unit_test(no_swap_is_true_without_a_file_only_where_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
