/*
 * test_scope.c - the launcher's side of nsbox-scope: what it makes of every answer
 *
 * This test program plays both: it copies itself into a new folder as "launcher" (this
 * test, run again from there) and "nsbox-scope", whose behaviour is in a file beside it.
 * The real nsbox-scope needs a systemd, and is tried in a virtual machine.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/companion.h"
#include "runtime/scope.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char top[64]; /* where the copies are */

/* --- the other program --------------------------------------------------------- */

static int answer(struct scope_answer *a, size_t size)
{
	return send(0, a, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : 9;
}

static int count_inherited(void)
{
	int count = 0;

	for (int fd = 3; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	for (char **e = environ; *e; e++)
		count += 1000;
	return count;
}

/* Requests, until the launcher goes. */
static int serve(int failed)
{
	struct scope_request q;

	while (recv(0, &q, sizeof(q), 0) == (ssize_t)sizeof(q)) {
		struct scope_answer a = { .magic = SCOPE_MAGIC, .pid = q.pid, .failed = failed };
		struct scope_answer late = { .magic = SCOPE_MAGIC, .pid = q.pid + 1 };

		if (answer(&late, sizeof(late))) /* to a request that was given up */
			return 9;
		if (failed) {
			a.os_errno = EACCES;
			snprintf(a.text, sizeof(a.text), "%s is not for %u", q.leaf, q.pid);
		}
		if (answer(&a, sizeof(a)))
			return 9;
	}
	return 0;
}

static int play(const char *part)
{
	struct scope_answer a = { .magic = SCOPE_MAGIC };

	snprintf(a.path, sizeof(a.path), "/inherited/%d", count_inherited());
	if (strcmp(part, "silent") == 0)
		return 3;
	if (strcmp(part, "short") == 0)
		return answer(&a, sizeof(a) - 1);
	if (strcmp(part, "magic") == 0)
		a.magic++;
	if (strcmp(part, "refusal") == 0) {
		a.failed = 1;
		a.os_errno = EACCES;
		memset(a.text, 'x', sizeof(a.text)); /* no end of its own */
	}
	if (answer(&a, sizeof(a)))
		return 9;
	if (strcmp(part, "deaf") == 0)
		return 0;
	return serve(strcmp(part, "unwilling") == 0);
}

static int other_program(const char *self)
{
	owned(buf_free) struct buf part = BUF_INIT(64);
	char path[128];

	snprintf(path, sizeof(path), "%.*s/part", (int)(strrchr(self, '/') - self), self);
	return fd_read_file(AT_FDCWD, path, &part) < 0 ? 8 : play(buf_text(&part));
}

/* --- tests ---------------------------------------------------------------------- */

static void put_part(const char *part)
{
	char path[128];
	owned_fd int fd = -1;

	snprintf(path, sizeof(path), "%s/part", top);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, part, strlen(part)), 0);
}

static int begin(const char *part, struct scope *s, struct scope_answer *a)
{
	put_part(part);
	*s = (struct scope){ 0 };
	return scope_start(s, a);
}

static void nothing_is_left(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

static void a_good_answer_is_taken_and_nothing_was_inherited(void **state)
{
	struct scope_answer a;
	struct scope s;

	(void)state;
	assert_int_equal(begin("good", &s, &a), 0);
	assert_true(s.pid > 0);
	assert_string_equal(a.path, "/inherited/0");
	assert_int_equal(scope_attach(&s, "nsbox-1-2", 7, NULL), 0);
	scope_end(&s);
	assert_int_equal(s.pid, 0);
	scope_end(&s); /* again is fine */
	nothing_is_left();
}

static void every_bad_answer_is_a_failure_that_leaves_nothing(void **state)
{
	static const struct { const char *part, *text; int os_errno; } rows[] = {
		{ "silent", "nsbox-scope ended without an answer", 0 },
		{ "short", "nsbox-scope ended without an answer", 0 },
		{ "magic", "nsbox-scope ended without an answer", 0 },
		{ "refusal", NULL, EACCES },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scope_answer a;
		struct scope s;

		assert_int_equal(begin(rows[i].part, &s, &a), -1);
		assert_int_equal(s.pid, 0);
		assert_int_equal(a.os_errno, rows[i].os_errno);
		if (rows[i].text)
			assert_string_equal(a.text, rows[i].text);
		else
			assert_int_equal(strlen(a.text), sizeof(a.text) - 1);
		nothing_is_left();
	}
}

/* A caller that waits for everything reaps the program; its number is another's then. */
static void a_caller_that_reaped_it_first_is_not_harmed(void **state)
{
	struct scope_answer a;
	struct scope s;

	(void)state;
	assert_int_equal(begin("good", &s, &a), 0);
	kill(s.pid, SIGKILL);
	assert_int_equal(waitpid(-1, NULL, 0), s.pid);
	scope_end(&s);
	nothing_is_left();
}

static void a_refused_move_is_an_error_with_its_words(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct scope_answer a;
	struct scope s;

	(void)state;
	assert_int_equal(begin("unwilling", &s, &a), 0);
	assert_int_equal(scope_attach(&s, "nsbox-1-2", 7, &err), NSBOX_E_SYSTEM);
	assert_int_equal(err.os_errno, EACCES);
	assert_non_null(strstr(err.message,
			       "move process 7 into cgroup nsbox-1-2: nsbox-1-2 is not for 7"));
	scope_end(&s);
	nothing_is_left();
}

static void a_keeper_that_died_is_an_error_not_a_success(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct scope_answer a;
	struct scope s;

	(void)state;
	assert_int_equal(begin("deaf", &s, &a), 0);
	assert_int_equal(scope_attach(&s, "nsbox-1-2", 7, &err), NSBOX_E_SYSTEM);
	assert_true(err.message[0]);
	scope_end(&s);
	nothing_is_left();
	assert_int_equal(begin("good", &s, &a), 0);
	kill(s.pid, SIGKILL);
	err_clear(&err);
	assert_int_equal(scope_attach(&s, "nsbox-1-2", 7, &err), NSBOX_E_SYSTEM);
	scope_end(&s);
	nothing_is_left();
}

static void a_name_that_does_not_fit_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char name[SCOPE_LEAF_MAX + 1];
	struct scope_answer a;
	struct scope s;

	(void)state;
	memset(name, 'n', SCOPE_LEAF_MAX);
	name[SCOPE_LEAF_MAX] = '\0';
	assert_int_equal(begin("good", &s, &a), 0);
	assert_int_equal(scope_attach(&s, name, 7, &err), NSBOX_E_USAGE);
	name[SCOPE_LEAF_MAX - 1] = '\0'; /* control */
	assert_int_equal(scope_attach(&s, name, 7, NULL), 0);
	scope_end(&s);
}

static void without_the_program_or_with_an_unsafe_one_there_is_no_scope(void **state)
{
	char path[128], away[128];
	struct scope_answer a;
	struct scope s;

	(void)state;
	snprintf(path, sizeof(path), "%s/nsbox-scope", top);
	snprintf(away, sizeof(away), "%s/away", top);
	assert_int_equal(chmod(path, 0757), 0);
	assert_int_equal(begin("good", &s, &a), -1);
	assert_int_equal(a.os_errno, EPERM);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(begin("good", &s, &a), SCOPE_NO_PROGRAM);
	assert_int_equal(a.os_errno, ENOENT);
	assert_string_equal(a.text, "nsbox-scope is not installed beside nsbox");
	assert_int_equal(rename(away, path), 0);
	assert_int_equal(begin("good", &s, &a), 0); /* control */
	scope_end(&s);
}

static void note_signal(int sig)
{
	(void)sig;
}

/* What is no program fails in execve, and the caller hears that. */
static void a_start_reports_the_error_of_execve_and_keeps_the_callers_handlers(void **state)
{
	char *argv[] = { (char *)"x", NULL };
	owned_fd int file = companion_above_stdio(open(top, O_PATH | O_CLOEXEC));
	owned_fd int null = companion_above_stdio(open("/dev/null", O_RDWR | O_CLOEXEC));
	const struct companion_call call = { file, { null, null, null }, argv };
	struct companion_process process;
	struct sigaction mine = { .sa_handler = note_signal }, after;
	sigset_t mask;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &mine, NULL), 0);
	assert_int_equal(companion_start(&process, &call), -1);
	assert_int_equal(errno, EACCES);
	nothing_is_left();
	assert_int_equal(sigaction(SIGUSR1, NULL, &after), 0);
	assert_ptr_equal(after.sa_handler, note_signal);
	assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
	assert_int_equal(sigismember(&mask, SIGUSR1), 0);
}

/* --- the copies ------------------------------------------------------------------- */

static int copy_self(const char *name)
{
	owned(buf_free) struct buf self = BUF_INIT(64 << 20);
	char path[128];
	owned_fd int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	return fd < 0 || fd_read_file(AT_FDCWD, "/proc/self/exe", &self) < 0 ||
	       fd_write_all(fd, self.data, self.len) < 0 || fchmod(fd, 0755) < 0 ? -1 : 0;
}

static int run_and_wait(const char *program, char *const argv[])
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(program, argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_copies(void)
{
	char path[128], *again[] = { path, top, NULL };
	char *clean[] = { (char *)"rm", (char *)"-rf", top, NULL };
	int result;

	snprintf(top, sizeof(top), "/tmp/nsbox-test-XXXXXX");
	if (!mkdtemp(top) || copy_self("launcher") < 0 || copy_self("nsbox-scope") < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/launcher", top);
	result = run_and_wait(path, again);
	run_and_wait("rm", clean);
	return result;
}

static int run_here(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_answer_is_taken_and_nothing_was_inherited),
		cmocka_unit_test(every_bad_answer_is_a_failure_that_leaves_nothing),
		cmocka_unit_test(a_caller_that_reaped_it_first_is_not_harmed),
		cmocka_unit_test(a_refused_move_is_an_error_with_its_words),
		cmocka_unit_test(a_keeper_that_died_is_an_error_not_a_success),
		cmocka_unit_test(a_name_that_does_not_fit_is_refused),
		cmocka_unit_test(without_the_program_or_with_an_unsafe_one_there_is_no_scope),
		cmocka_unit_test(
			a_start_reports_the_error_of_execve_and_keeps_the_callers_handlers),
	};

	alarm(60); /* a test that hangs is a failed one */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	char self[PATH_MAX] = "";

	if (strcmp(argv[0], "nsbox-scope") == 0) {
		if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
			return 8;
		return other_program(self);
	}
	if (argc != 2)
		return run_copies();
	snprintf(top, sizeof(top), "%s", argv[1]);
	return run_here();
}
