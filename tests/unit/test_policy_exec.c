/*
 * runtime/parse_exec.c and tools/policyc: reading a policy by asking another
 * program. This test program plays all three parts: it copies itself into a new
 * folder as "nsbox" (this test, run again from there) and "nsbox-policyc" (the real
 * one's code, or a faulty one when the policy's name says so).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "policy/policy.h"

/* The library here has the other policy_parse(), from load.c: the reference. */
int parse_by_exec(struct settings *out, const char *text, size_t len,
		  const char *file, struct nsbox_error *err);
#define PARSE_DEADLINE_MS 1000 /* a sanitizer looks for leaks first */
#define policy_parse parse_by_exec
#include "runtime/parse_exec.c"
#undef policy_parse

int policyc_main(int argc, char **argv);
#define main policyc_main
#include "tools/policyc/main.c"
#undef main

/* --- the helper's faults --------------------------------------------------------- */

static void answer_with(const char *text)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings none = { 0 };
	struct buf out = BUF_INIT(4096);

	err_set(&err, NSBOX_E_POLICY, "%s", text);
	wire_put(&out, &none, err.code, &err);
	write_answer(&out);
}

static void say_what_was_inherited(void)
{
	char text[256];
	DIR *d = opendir("/proc/self/fd");
	unsigned long high = 0;
	unsigned vars = 0;
	char **e = environ;

	while (*e++)
		vars++;
	for (struct dirent *i = readdir(d); i; i = readdir(d))
		if (i->d_name[0] != '.' && atoi(i->d_name) > 2 &&
		    atoi(i->d_name) != dirfd(d))
			high++;
	closedir(d);
	snprintf(text, sizeof(text), "%u variables, %lu descriptors", vars, high);
	answer_with(text);
}

/* One byte a run into the file "count" beside the program. */
static int count_runs(int code)
{
	struct nsbox_error none = NSBOX_ERROR_INIT;
	struct buf out = BUF_INIT(4096);
	struct settings s = { 0 };
	struct companion self;
	int fd;

	if (companion_find(&self, "nsbox-policyc") < 0)
		return 9;
	fd = openat(open(self.folder, O_PATH), "count", O_WRONLY | O_CREAT | O_APPEND,
		    0600);
	if (write(fd, "x", 1) != 1)
		return 9;
	if (code < 0)
		err_set(&none, code, "p.json:1:1: refused");
	wire_put(&out, &s, code, &none);
	return write_answer(&out) < 0;
}

static int faulty(const char *fault)
{
	static const char garbage[65536];

	if (strcmp(fault, "count") == 0)
		return count_runs(0);
	if (strcmp(fault, "count-errors") == 0)
		return count_runs(NSBOX_E_POLICY);
	if (strcmp(fault, "silent") == 0)
		return 3;
	if (strcmp(fault, "garbage") == 0)
		return write(1, garbage, 100) != 100;
	if (strcmp(fault, "inherited") == 0)
		say_what_was_inherited();
	if (strcmp(fault, "endless") == 0)
		while (write(1, garbage, sizeof(garbage)) > 0)
			;
	if (strcmp(fault, "hang") == 0)
		for (;;)
			pause();
	if (strcmp(fault, "killed") == 0)
		kill(getpid(), SIGKILL);
	return 0;
}

/* --- tests ------------------------------------------------------------------------ */

static char top[64]; /* where the copies are */

static int exec_parse(struct settings *s, const char *text, const char *name,
		      struct nsbox_error *err)
{
	return parse_by_exec(s, text, strlen(text), name, err);
}

static void the_answer_is_that_of_the_library(void **state)
{
	static const char *const texts[] = {
		"{}",
		"{\"limits\":{\"memory\":\"1G\",},\"fs.read\":[\"/a\",\"/b\"],}",
		"{\"imports.allow\":null,\"fs.write\":[]}",
		"{\"limits\":{\"memroy\":1}}",
		"{\n \"fs.read\": 7 }",
		"{",
		"",
		"{ // \xff\n}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct nsbox_error a = NSBOX_ERROR_INIT, b = NSBOX_ERROR_INIT;
		struct settings x = { 0 }, y = { 0 };
		int code = policy_parse(&x, texts[i], strlen(texts[i]),
					"p.json", &a);

		assert_int_equal(exec_parse(&y, texts[i], "p.json", &b), code);
		assert_memory_equal(&a, &b, sizeof(a));
		assert_int_equal(x.n, y.n);
		for (size_t n = 0; n < x.n; n++) {
			assert_string_equal(x.v[n].key, y.v[n].key);
			assert_string_equal(x.v[n].value, y.v[n].value);
			assert_int_equal(x.v[n].line, y.v[n].line);
			assert_int_equal(x.v[n].column, y.v[n].column);
			assert_string_equal(y.v[n].file, "p.json");
		}
		settings_free(&x);
		settings_free(&y);
	}
}

static void the_helper_inherits_nothing(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	int leak = open("/dev/null", O_RDONLY); /* not O_CLOEXEC: a caller's */

	(void)state;
	assert_true(leak >= 0);
	setenv("LD_DEBUG_OUTPUT", "/nowhere", 1);
	assert_int_equal(exec_parse(&s, "{}", "fault:inherited", &err),
			 NSBOX_E_POLICY);
	assert_string_equal(err.message, "0 variables, 0 descriptors");
	unsetenv("LD_DEBUG_OUTPUT");
	close(leak);
}

static void a_helper_that_fails_is_an_error_with_its_path(void **state)
{
	static const struct { const char *fault, *before, *after; } rows[] = {
		{ "fault:silent", "", " ended with status 3 and no answer" },
		{ "fault:killed", "", " ended with status 137 and no answer" },
		{ "fault:endless", "read the answer of ", ": Message too long" },
		{ "fault:hang", "read the answer of ", ": Connection timed out" },
		{ "fault:garbage", NULL, "nsbox-policyc answered with a malformed block" },
		{ "fault:empty", NULL, "nsbox-policyc answered with a malformed block" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct buf want = BUF_INIT(512);
		struct settings s = { 0 };

		if (rows[i].before)
			buf_fmt(&want, "%s%s/nsbox-policyc", rows[i].before, top);
		buf_str(&want, rows[i].after);
		assert_int_equal(exec_parse(&s, "{}", rows[i].fault, &err),
				 NSBOX_E_SYSTEM);
		assert_string_equal(err.message, buf_text(&want));
		assert_null(s.v);
		/* nobody is left, neither running nor unreaped */
		assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
		assert_int_equal(errno, ECHILD);
		buf_free(&want);
	}
}

static void a_missing_helper_says_where_it_was_looked_for(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char helper[128], away[128], want[512];
	struct settings s = { 0 };

	(void)state;
	snprintf(helper, sizeof(helper), "%s/nsbox-policyc", top);
	snprintf(away, sizeof(away), "%s/away", top);
	snprintf(want, sizeof(want),
		 "nsbox-policyc is neither in %s nor in %s/../libexec/nsbox",
		 top, top);
	assert_int_equal(rename(helper, away), 0);
	assert_int_equal(exec_parse(&s, "{}", "p.json", &err), NSBOX_E_SYSTEM);
	assert_string_equal(err.message, want);
	assert_int_equal(rename(away, helper), 0);
	assert_int_equal(exec_parse(&s, "{}", "p.json", NULL), 0);
}

static void closed_standard_descriptors_do_not_confuse_it(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	int saved[2], code;

	(void)state;
	saved[0] = fcntl(0, F_DUPFD_CLOEXEC, 10);
	saved[1] = fcntl(1, F_DUPFD_CLOEXEC, 10);
	close(0);
	close(1);
	code = exec_parse(&s, "{\"limits.pids\":5}", "closed.json", &err);
	dup2(saved[0], 0);
	dup2(saved[1], 1);
	close(saved[0]);
	close(saved[1]);
	if (code < 0)
		fail_msg("%s", err.message);
	assert_int_equal(s.n, 1);
	settings_free(&s);
}

static void an_unsafe_helper_is_not_run(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	char helper[128], want[256];

	(void)state;
	snprintf(helper, sizeof(helper), "%s/nsbox-policyc", top);
	snprintf(want, sizeof(want),
		 "%s is not a program of nsbox's own owner", helper);
	assert_int_equal(chmod(helper, 0757), 0);
	assert_int_equal(exec_parse(&s, "{\"a\":1}", "p.json", &err),
			 NSBOX_E_SYSTEM);
	assert_string_equal(err.message, want);
	assert_int_equal(chmod(helper, 0755), 0);
	err_clear(&err);
	assert_int_equal(exec_parse(&s, "{\"a\":1}", "p.json", &err),
			 NSBOX_E_POLICY);
	if (geteuid() == 0) {
		assert_int_equal(chown(helper, 65534, 0), 0);
		err_clear(&err);
		assert_int_equal(exec_parse(&s, "{\"a\":1}", "p.json", &err),
				 NSBOX_E_SYSTEM);
		assert_string_equal(err.message, want);
		assert_int_equal(chown(helper, 0, 0), 0);
	}
}

static off_t runs_counted(void)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/count", top);
	return stat(path, &st) < 0 ? 0 : st.st_size;
}

static void the_second_time_no_program_is_started(void **state)
{
	static const struct { const char *text, *name; off_t runs; } rows[] = {
		{ "{}", "fault:count", 1 },
		{ "{}", "fault:count", 1 },
		{ "{ }", "fault:count", 2 }, /* another text */
		{ "{ }", "fault:count", 2 },
		{ "{}", "fault:count", 2 },
	};
	struct settings s = { 0 };
	char cache[128];

	(void)state;
	/* the control: without a cache every call starts it */
	assert_int_equal(exec_parse(&s, "{}", "fault:count", NULL), 0);
	assert_int_equal(exec_parse(&s, "{}", "fault:count", NULL), 0);
	assert_int_equal(runs_counted(), 2);
	snprintf(cache, sizeof(cache), "%s/count", top);
	assert_int_equal(unlink(cache), 0);

	snprintf(cache, sizeof(cache), "%s/cache", top);
	assert_int_equal(mkdir(cache, 0700), 0);
	setenv("XDG_CACHE_HOME", cache, 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(exec_parse(&s, rows[i].text, rows[i].name,
					    NULL), 0);
		assert_int_equal(runs_counted(), rows[i].runs);
	}
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
}

static void an_error_is_not_remembered(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	off_t before = runs_counted();
	char cache[128];

	(void)state;
	snprintf(cache, sizeof(cache), "%s/cache", top);
	setenv("XDG_CACHE_HOME", cache, 1);
	for (int i = 1; i <= 3; i++) {
		err_clear(&err);
		assert_int_equal(exec_parse(&s, "{}", "fault:count-errors",
					    &err), NSBOX_E_POLICY);
		assert_string_equal(err.message, "p.json:1:1: refused");
		assert_int_equal(runs_counted(), before + i);
	}
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
}

/* --- the three parts ---------------------------------------------------------------- */

static int copy_self(const char *name)
{
	char path[128];
	struct buf self = BUF_INIT(64 << 20);
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0 || fd_read_file(AT_FDCWD, "/proc/self/exe", &self) < 0 ||
	    fd_write_all(fd, self.data, self.len) < 0 || fchmod(fd, 0755) < 0)
		return -1;
	buf_free(&self);
	return close(fd);
}

static int run_here(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_is_that_of_the_library),
		cmocka_unit_test(the_helper_inherits_nothing),
		cmocka_unit_test(a_helper_that_fails_is_an_error_with_its_path),
		cmocka_unit_test(a_missing_helper_says_where_it_was_looked_for),
		cmocka_unit_test(closed_standard_descriptors_do_not_confuse_it),
		cmocka_unit_test(an_unsafe_helper_is_not_run),
		cmocka_unit_test(the_second_time_no_program_is_started),
		cmocka_unit_test(an_error_is_not_remembered),
	};

	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Runs the copy named "nsbox" and removes the folder afterwards. */
static int run_copies(char *self)
{
	char path[128], *argv[] = { self, top, NULL };
	int status = -1;
	pid_t pid;

	snprintf(top, sizeof(top), "/tmp/nsbox-test-XXXXXX");
	if (!mkdtemp(top) || copy_self("nsbox") < 0 ||
	    copy_self("nsbox-policyc") < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/nsbox", top);
	pid = fork();
	if (pid == 0) {
		execv(path, argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", top, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	if (strcmp(name ? name + 1 : argv[0], "nsbox-policyc") == 0)
		return strncmp(argv[1], "fault:", 6) ? policyc_main(argc, argv) :
						       faulty(argv[1] + 6);
	if (argc != 2)
		return run_copies(argv[0]);
	snprintf(top, sizeof(top), "%s", argv[1]);
	return run_here();
}
