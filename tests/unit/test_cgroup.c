/*
 * test_cgroup.c - where leaves are made, and their life
 *
 * Parsers and files are tried on plain folders; making, locking, killing, sweeping and
 * removing on leaves of our own below the host's cgroup2 mount, where this process may
 * write there. Nothing but such leaves is touched.
 */
#include "base/cleanup.h"
#include "runtime/cgroup.h"

#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

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

/* --- files of a leaf, as plain files ------------------------------------------- */

struct folder {
	char path[64];
	int fd;
};

static void folder_new(struct folder *f)
{
	strcpy(f->path, "/tmp/nsbox-test-cgroup-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void folder_free(struct folder *f)
{
	close(f->fd);
	assert_int_equal(nftw(f->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void put(int dirfd, const char *file, const char *text)
{
	owned_fd int fd = openat(dirfd, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void a_limit_that_the_file_keeps_is_accepted(void **state)
{
	struct cgroup_value row = { "memory.max", "67108864", "limits.memory" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct folder f;

	(void)state;
	folder_new(&f);
	put(f.fd, "memory.max", "");
	assert_int_equal(cgroup_set(f.fd, &row, &err), 0);
	assert_int_equal(err.code, 0);
	folder_free(&f);
}

/* A plain file keeps what stood behind the new text, as a kernel that rounds would. */
static void a_limit_that_reads_back_differently_is_an_error_with_both_values(void **state)
{
	struct cgroup_value row = { "memory.max", "1000001", "limits.memory" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct folder f;

	(void)state;
	folder_new(&f);
	put(f.fd, "memory.max", "1000001999\n");
	assert_int_equal(cgroup_set(f.fd, &row, &err), NSBOX_E_UNSUPPORTED);
	assert_string_equal(err.message,
			    "limits.memory: cgroup file memory.max was given 1000001 and has 1000001999");
	assert_true(err.hint[0]);
	folder_free(&f);
}

static void a_missing_file_is_an_error_that_names_key_and_file(void **state)
{
	struct cgroup_value row = { "memory.max", "1", "limits.memory" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct folder f;

	(void)state;
	folder_new(&f);
	assert_int_equal(cgroup_set(f.fd, &row, &err), NSBOX_E_UNSUPPORTED);
	assert_int_equal(err.os_errno, ENOENT);
	assert_non_null(strstr(err.message, "limits.memory: write 1 to cgroup file memory.max"));
	assert_true(err.hint[0]);
	folder_free(&f);
}

static void usage_is_read_exactly_and_absent_files_are_not_known(void **state)
{
	struct cgroup c = { .fd = -1 };
	struct cgroup_usage u;
	struct folder f;

	(void)state;
	folder_new(&f);
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
	folder_free(&f);
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
	struct folder f;

	(void)state;
	folder_new(&f);
	place.fd = f.fd;
	assert_int_equal(cgroup_make(&c, &place, &zero, 1, &err),
			 host_has_swap() ? NSBOX_E_UNSUPPORTED : 0);
	cgroup_destroy(&c);
	err_clear(&err);
	assert_int_equal(cgroup_make(&c, &place, &some, 1, &err), NSBOX_E_UNSUPPORTED);
	assert_int_equal(err.os_errno, ENOENT);
	folder_free(&f);
}

/* --- leaves on the host's cgroup2 mount ------------------------------------------ */

static void need_place(struct cgroup_place *place)
{
	cgroup_find(place);
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

/* A child that sleeps and dies with the test. */
static pid_t sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
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
		cgroup_find(&second);
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
		cgroup_find(&place);
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
		cmocka_unit_test(mountinfo_lines_are_told_apart),
		cmocka_unit_test(a_mount_point_too_long_to_keep_is_refused),
		cmocka_unit_test(the_own_cgroup_is_seen_from_the_mount),
		cmocka_unit_test(a_limit_that_the_file_keeps_is_accepted),
		cmocka_unit_test(a_limit_that_reads_back_differently_is_an_error_with_both_values),
		cmocka_unit_test(a_missing_file_is_an_error_that_names_key_and_file),
		cmocka_unit_test(usage_is_read_exactly_and_absent_files_are_not_known),
		cmocka_unit_test(without_a_place_making_is_refused_with_the_reason),
		cmocka_unit_test(no_swap_is_true_without_a_file_only_where_there_is_none),
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
