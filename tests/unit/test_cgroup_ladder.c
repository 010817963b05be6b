/*
 * test_cgroup_ladder.c - whose a cgroup is, who is in it, and what would improve it
 *
 * On plain folders, which stand in for cgroups; the steps themselves need a kernel with
 * controllers and a systemd, and are tried in virtual machines.
 */
#include "base/cleanup.h"
#include "runtime/cgroup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "tests/unit/plain_dir.h"

static void the_folder_two_cgroups_share_is_found_at_whole_names(void **state)
{
	static const struct { const char *a, *b, *common; } rows[] = {
		{ "user.slice/a.scope", "user.slice/b.scope", "user.slice" },
		{ "user.slice/a.scope", "user.slice/a.scope/sup", "user.slice/a.scope" },
		{ "user.slice/a.scope/sup", "user.slice/a.scope", "user.slice/a.scope" },
		{ "user.slice/a", "user.slice/ab", "user.slice" },
		{ "a", "b", "" },
		{ "", "b/c", "" },
		{ "a/b", "a/b", "a/b" },
		{ "system.slice/x", "user.slice/x", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = cgroup_common(rows[i].a, rows[i].b);

		assert_int_equal(n, strlen(rows[i].common));
		assert_memory_equal(rows[i].a, rows[i].common, n);
	}
}

static void alone_is_who_shares_with_nobody_or_with_its_parent(void **state)
{
	static const struct { const char *procs; int pid, parent, alone; } rows[] = {
		{ "12\n", 12, 12, 1 },
		{ "12\n11\n", 12, 12, 0 },
		{ "12\n11\n", 12, 11, 1 },
		{ "12\n11\n10\n", 12, 11, 0 },
		{ "123\n", 12, 12, 0 },
		{ "12\n0\n", 12, 12, 0 }, /* somebody outside of our pid namespace */
		{ "12\nx\n", 12, 12, 0 },
	};
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	assert_false(cgroup_is_alone(f.fd, 12, 12)); /* no such file: not known */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		put(f.fd, "cgroup.procs", rows[i].procs);
		assert_int_equal(cgroup_is_alone(f.fd, rows[i].pid, rows[i].parent), rows[i].alone);
	}
	plain_dir_free(&f);
}

static void units_of_systemd_are_ours_only_when_they_are_delegated(void **state)
{
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	assert_true(cgroup_is_ours(f.fd, "sup"));
	assert_true(cgroup_is_ours(f.fd, ""));
	assert_false(cgroup_is_ours(f.fd, "app.slice"));
	assert_false(cgroup_is_ours(f.fd, "no-such-unit-anywhere.scope"));
	assert_false(cgroup_is_ours(f.fd, "no-such-unit-anywhere.service"));
	if (fsetxattr(f.fd, "user.delegate", "0", 1, 0) == 0) { /* not every tmpfs can */
		assert_false(cgroup_is_ours(f.fd, "no-such-unit-anywhere.scope"));
		assert_int_equal(fsetxattr(f.fd, "user.delegate", "1", 1, 0), 0);
		assert_true(cgroup_is_ours(f.fd, "no-such-unit-anywhere.scope"));
		assert_false(cgroup_is_ours(f.fd, "app.slice")); /* slices never are */
	}
	plain_dir_free(&f);
}

static void a_folder_of_another_user_is_not_ours(void **state)
{
	owned_fd int fd = open(geteuid() ? "/" : "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_fd int dir = -1;
	char path[] = "/tmp/nsbox-test-owner-XXXXXX";

	(void)state;
	assert_true(fd >= 0);
	if (geteuid()) {
		assert_false(cgroup_is_ours(fd, "sup"));
		return;
	}
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(cgroup_is_ours(dir, "sup")); /* control */
	assert_int_equal(fchown(dir, 65534, 65534), 0);
	assert_false(cgroup_is_ours(dir, "sup"));
	assert_int_equal(rmdir(path), 0);
}

static void each_kind_of_host_has_its_remedy(void **state)
{
	static const struct {
		struct cgroup_place place;
		const char *part;
	} rows[] = {
		{ { .memory = true, .pids = true, .cpu = true }, NULL },
		{ { .os_errno = EROFS, .is_user = true }, "--cgroupns=private" },
		{ { .why = "no cgroup2 file system is mounted" }, "as root: mount -t cgroup2" },
		{ { .path = "/c", .obstacle = OBSTACLE_OUTSIDE }, "in the container: mount -t cgroup2" },
		{ { .path = "/c", .has_no_controllers = true }, "systemd.unified_cgroup_hierarchy=1" },
		{ { .path = "/c", .has_no_controllers = true, .is_nested = true },
		  "outside of the container" },
		{ { .path = "/c", .is_nested = true }, "mkdir -p /sys/fs/cgroup/init" },
		{ { .path = "/c", .is_user = true, .own = "/system.slice/web.service" },
		  "Delegate=yes" },
		{ { .path = "/c", .is_user = true,
		    .own = "/user.slice/user-7.slice/user@7.service/app.slice/x.service",
		    .obstacle = OBSTACLE_NO_PROGRAM }, "libsystemd-dev" },
		{ { .path = "/c", .is_user = true, .obstacle = OBSTACLE_NOT_GIVEN },
		  "systemctl edit user@.service" },
		{ { .path = "/c", .is_user = true, .own = "/user.slice/user-7.slice/session-1.scope" },
		  "loginctl enable-linger" },
		{ { .path = "/c", .is_user = true, .step = CGROUP_SCOPE, .memory = true, .pids = true },
		  "systemctl edit user@.service" },
		{ { .path = "/c", .own = "/" }, "systemd-run --scope" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *remedy = cgroup_remedy(&rows[i].place);

		if (!rows[i].part)
			assert_null(remedy);
		else if (!remedy || !strstr(remedy, rows[i].part))
			fail_msg("row %zu is \"%s\", without \"%s\"", i, remedy ? remedy : "(null)",
				 rows[i].part);
	}
}

static void every_step_has_a_name_and_a_sentence(void **state)
{
	(void)state;
	assert_string_equal(cgroup_step_name(CGROUP_NONE), "none");
	assert_string_equal(cgroup_step_name(CGROUP_BARE), "bare");
	for (int i = CGROUP_NONE; i <= CGROUP_BARE; i++)
		assert_true(strlen(cgroup_step_text(i)) > 10);
	assert_string_equal(cgroup_step_name(-1), "?");
	assert_string_equal(cgroup_step_text(CGROUP_BARE + 1), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_folder_two_cgroups_share_is_found_at_whole_names),
		cmocka_unit_test(alone_is_who_shares_with_nobody_or_with_its_parent),
		cmocka_unit_test(units_of_systemd_are_ours_only_when_they_are_delegated),
		cmocka_unit_test(a_folder_of_another_user_is_not_ours),
		cmocka_unit_test(each_kind_of_host_has_its_remedy),
		cmocka_unit_test(every_step_has_a_name_and_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
