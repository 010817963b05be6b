/*
 * test_cgroup.c - where leaves are made, and their life
 *
 * Making, locking, killing, sweeping and removing are tried on leaves of our own below
 * the host's cgroup2 mount, where this process may write there. Nothing else is touched.
 * (test_cgroup_files.c has what plain folders can show.)
 */
#include "base/cleanup.h"
#include "runtime/cgroup.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/sleeper.h"

static void need_place(struct cgroup_place *place)
{
	cgroup_find(place, REACH_HERE);
	if (place->fd >= 0)
		return;
	print_message("# SKIP: no writable cgroup2 here: %s (%s)\n", place->why,
		      err_text(place->os_errno));
	if (getenv("NSBOX_MUST_RUN"))
		fail();
	skip();
}

static bool is_there(const struct cgroup_place *place, const char *name)
{
	return faccessat(place->fd, name, F_OK, 0) == 0;
}

static void text_of(int dirfd, const char *file, char *text, size_t size)
{
	owned_fd int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, text, size - 1);
	assert_true(n >= 0);
	text[n] = '\0';
}

static int killed_by(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static pid_t dead_pid(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(killed_by(pid), 0);
	return pid;
}

/* Another program on this machine may be using the same folder just now: then it has
 * a leaf there, or the lock. */
static bool is_gone_or_used_by_others(const char *path)
{
	owned_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT;
	return flock(fd, LOCK_EX | LOCK_NB) < 0 || (fstat(fd, &st) == 0 && st.st_nlink > 2);
}

static void finding_and_closing_a_place_leaves_nothing(void **state)
{
	struct cgroup_place place, second;
	char path[512];

	(void)state;
	need_place(&place);
	strcpy(path, place.path);
	if (place.is_ours) {
		cgroup_find(&second, REACH_HERE);
		assert_string_equal(second.path, path);
		cgroup_place_close(&place);
		assert_int_equal(access(path, F_OK), 0); /* the second still uses it */
		cgroup_place_close(&second);
		assert_true(is_gone_or_used_by_others(path));
	}
	cgroup_place_close(&place);
	assert_int_equal(place.fd, -1);
}

static void looking_says_the_same_place_and_changes_nothing(void **state)
{
	struct cgroup_place place, look;

	(void)state;
	need_place(&place);
	cgroup_look(&look);
	assert_true(look.fd >= 0);
	assert_string_equal(look.path, place.path);
	assert_int_equal(look.kill, place.kill);
	assert_int_equal(look.memory, place.memory);
	cgroup_place_close(&look);
	assert_int_equal(access(place.path, F_OK), 0);
	cgroup_place_close(&place);
}

static void a_limit_on_a_real_leaf_holds(void **state)
{
	struct cgroup_value row = { "cgroup.max.descendants", "0", "test" };
	struct cgroup_place place;
	struct cgroup free_leaf = { .fd = -1 }, c = { .fd = -1 };
	char text[64];

	(void)state;
	need_place(&place);
	assert_int_equal(cgroup_make(&free_leaf, &place, NULL, 0, NULL), 0);
	assert_int_equal(mkdirat(free_leaf.fd, "below", 0700), 0); /* control */
	assert_int_equal(unlinkat(free_leaf.fd, "below", AT_REMOVEDIR), 0);
	assert_int_equal(cgroup_make(&c, &place, &row, 1, NULL), 0);
	text_of(c.fd, "cgroup.max.descendants", text, sizeof(text));
	assert_string_equal(text, "0\n");
	assert_int_equal(mkdirat(c.fd, "below", 0700), -1);
	assert_int_equal(errno, EAGAIN);
	cgroup_destroy(&free_leaf);
	cgroup_destroy(&c);
	cgroup_place_close(&place);
}

static void a_refused_limit_leaves_no_leaf(void **state)
{
	static const struct cgroup_value rows[] = {
		{ "cgroup.max.depth", "1", "test.first" },
		{ "cgroup.max.descendants", "several", "test.second" },
	};
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };
	struct stat before, after;

	(void)state;
	need_place(&place);
	assert_int_equal(fstat(place.fd, &before), 0);
	assert_int_equal(cgroup_make(&c, &place, rows, 2, &err), NSBOX_E_UNSUPPORTED);
	assert_int_equal(err.os_errno, EINVAL);
	assert_non_null(strstr(err.message, "test.second: write several"));
	assert_int_equal(c.fd, -1);
	assert_int_equal(fstat(place.fd, &after), 0);
	assert_int_equal(before.st_nlink, after.st_nlink);
	cgroup_place_close(&place);
}

static void two_leaves_have_two_names_and_a_destroyed_one_is_gone(void **state)
{
	struct cgroup_place place;
	struct cgroup a = { .fd = -1 }, b = { .fd = -1 };

	(void)state;
	need_place(&place);
	assert_int_equal(cgroup_make(&a, &place, NULL, 0, NULL), 0);
	assert_int_equal(cgroup_make(&b, &place, NULL, 0, NULL), 0);
	assert_string_not_equal(a.name, b.name);
	assert_true(is_there(&place, a.name));
	cgroup_destroy(&a);
	assert_false(is_there(&place, a.name));
	assert_true(is_there(&place, b.name));
	assert_int_equal(a.fd, -1);
	cgroup_destroy(&a); /* again is fine */
	cgroup_destroy(&b);
	assert_false(is_there(&place, b.name));
	cgroup_place_close(&place);
}

static void killing_a_leaf_kills_all_in_it_and_nobody_else(void **state)
{
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };
	pid_t in[3], out;

	(void)state;
	need_place(&place);
	assert_true(place.kill);
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, NULL), 0);
	out = sleeper();
	for (size_t i = 0; i < ARRAY_SIZE(in); i++) {
		in[i] = sleeper();
		assert_int_equal(cgroup_join(&c, in[i], NULL), 0);
	}
	assert_int_equal(cgroup_kill(&c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		assert_int_equal(killed_by(in[i]), SIGKILL);
	assert_int_equal(waitpid(out, NULL, WNOHANG), 0); /* alive */
	kill(out, SIGTERM);
	assert_int_equal(killed_by(out), SIGTERM);
	cgroup_destroy(&c);
	assert_false(is_there(&place, c.name));
	assert_int_equal(cgroup_kill(&c), -1);
	assert_int_equal(errno, EBADF);
	cgroup_place_close(&place);
}

static void joining_with_a_pid_that_is_none_is_an_error(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };

	(void)state;
	need_place(&place);
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, NULL), 0);
	/* 0 would mean "the writer itself": the launcher in its own box */
	assert_int_equal(cgroup_join(&c, 0, &err), NSBOX_E_USAGE);
	err_clear(&err);
	assert_int_equal(cgroup_join(&c, dead_pid(), &err), NSBOX_E_SYSTEM);
	assert_int_equal(err.os_errno, ESRCH);
	cgroup_destroy(&c);
	cgroup_place_close(&place);
}

static void a_child_is_born_in_the_leaf_and_its_cpu_time_is_counted(void **state)
{
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	struct cgroup_usage before, after;
	pid_t pid;

	(void)state;
	need_place(&place);
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, NULL), 0);
	cgroup_read(&c, &before);
	assert_true(before.has_cpu);
	assert_in_range(before.user_us + before.system_us, 0, 1000); /* nothing carried over */
	args.cgroup = (uint64_t)c.fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	assert_true(pid >= 0);
	if (!pid) {
		struct timespec t;

		do
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
		while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < 60);
		_exit(0);
	}
	assert_int_equal(killed_by(pid), 0);
	cgroup_read(&c, &after);
	assert_in_range(after.user_us + after.system_us, 40000, 2000000);
	cgroup_destroy(&c);
	cgroup_place_close(&place);
}

static void a_leaf_of_a_killed_launcher_is_swept_by_the_next_run(void **state)
{
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };
	char name[64] = "";
	int fds[2];
	pid_t pid;

	(void)state;
	need_place(&place);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (cgroup_make(&c, &place, NULL, 0, NULL) < 0 ||
		    write(fds[1], c.name, sizeof(c.name)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(fds[0], name, sizeof(name)), sizeof(name));
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, NULL), 0);
	assert_true(is_there(&place, name)); /* control: its launcher lives */
	cgroup_destroy(&c);
	kill(pid, SIGKILL);
	assert_int_equal(killed_by(pid), SIGKILL);
	assert_true(is_there(&place, name));
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, NULL), 0);
	assert_false(is_there(&place, name));
	cgroup_destroy(&c);
	close(fds[0]);
	close(fds[1]);
	cgroup_place_close(&place);
}

static void run_once(const struct cgroup_place *place)
{
	struct cgroup c = { .fd = -1 };

	assert_int_equal(cgroup_make(&c, place, NULL, 0, NULL), 0);
	cgroup_destroy(&c);
}

/* A launcher in another pid namespace looks dead by its pid. Its lock says otherwise. */
static void a_dead_pid_in_a_name_is_no_reason_to_remove_a_locked_leaf(void **state)
{
	struct cgroup_place place;
	char name[64];
	int fd;

	(void)state;
	need_place(&place);
	snprintf(name, sizeof(name), "nsbox-%d-7", dead_pid());
	assert_int_equal(mkdirat(place.fd, name, 0700), 0);
	fd = openat(place.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	run_once(&place);
	assert_true(is_there(&place, name));
	close(fd);
	run_once(&place);
	assert_false(is_there(&place, name));
	cgroup_place_close(&place);
}

static void a_leaf_that_somebody_lives_in_is_not_swept(void **state)
{
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };
	pid_t pid;

	(void)state;
	need_place(&place);
	snprintf(c.name, sizeof(c.name), "nsbox-%d-8", dead_pid());
	assert_int_equal(mkdirat(place.fd, c.name, 0700), 0);
	c.fd = openat(place.fd, c.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid = sleeper();
	assert_int_equal(cgroup_join(&c, pid, NULL), 0);
	run_once(&place);
	assert_true(is_there(&place, c.name));
	kill(pid, SIGKILL);
	assert_int_equal(killed_by(pid), SIGKILL);
	run_once(&place);
	assert_false(is_there(&place, c.name));
	close(c.fd);
	cgroup_place_close(&place);
}

static void names_that_are_not_ours_are_never_swept(void **state)
{
	static const char *const names[] = { "nsbox-", "nsbox-x-1", "nsbox-1", "other-99999999-1",
					     "nsbox-99999999-1x", "nsbox--1", "nsbox-99999999-" };
	struct cgroup_place place;

	(void)state;
	need_place(&place);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(mkdirat(place.fd, names[i], 0700), 0);
	run_once(&place);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(unlinkat(place.fd, names[i], AT_REMOVEDIR), 0);
	cgroup_place_close(&place);
}

static void destroying_a_leaf_with_processes_ends_them_first(void **state)
{
	struct cgroup_place place;
	struct cgroup c = { .fd = -1 };
	pid_t pid;

	(void)state;
	need_place(&place);
	assert_int_equal(cgroup_make(&c, &place, NULL, 0, NULL), 0);
	pid = sleeper();
	assert_int_equal(cgroup_join(&c, pid, NULL), 0);
	cgroup_destroy(&c);
	assert_int_equal(killed_by(pid), SIGKILL);
	assert_false(is_there(&place, c.name));
	cgroup_place_close(&place);
}

static void a_user_without_a_delegated_cgroup_is_told_why(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid()) {
		print_message("# SKIP: becoming another user needs root\n");
		if (getenv("NSBOX_MUST_RUN"))
			fail();
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct cgroup_place place;

		if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
		    setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		cgroup_find(&place, REACH_HERE);
		_exit(place.fd != -1	    ? 2 :
		      place.os_errno != EACCES ? 3 :
		      !place.why[0]	       ? 4 :
						 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finding_and_closing_a_place_leaves_nothing),
		cmocka_unit_test(looking_says_the_same_place_and_changes_nothing),
		cmocka_unit_test(a_limit_on_a_real_leaf_holds),
		cmocka_unit_test(a_refused_limit_leaves_no_leaf),
		cmocka_unit_test(two_leaves_have_two_names_and_a_destroyed_one_is_gone),
		cmocka_unit_test(killing_a_leaf_kills_all_in_it_and_nobody_else),
		cmocka_unit_test(joining_with_a_pid_that_is_none_is_an_error),
		cmocka_unit_test(a_child_is_born_in_the_leaf_and_its_cpu_time_is_counted),
		cmocka_unit_test(a_leaf_of_a_killed_launcher_is_swept_by_the_next_run),
		cmocka_unit_test(a_dead_pid_in_a_name_is_no_reason_to_remove_a_locked_leaf),
		cmocka_unit_test(a_leaf_that_somebody_lives_in_is_not_swept),
		cmocka_unit_test(names_that_are_not_ours_are_never_swept),
		cmocka_unit_test(destroying_a_leaf_with_processes_ends_them_first),
		cmocka_unit_test(a_user_without_a_delegated_cgroup_is_told_why),
	};

	alarm(60); /* a test that hangs is a failed one */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
