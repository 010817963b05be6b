/*
 * test_box_caller.c - the library changes nothing of the program that calls it, leaves
 * nothing in it, and bears what that program does with its children and signals
 */
#include "box_run.h"

#include <grp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>

/* ------------------------------------------------------------- what a process is -- */

struct portrait {
	char fds[8192], cwd[512], status[2048], env[16384];
	mode_t mask;
	int dumpable, no_new_privs, keep_caps, death_signal, subreaper;
	sigset_t blocked;
	struct sigaction actions[65];
	struct rlimit limits[RLIM_NLIMITS];
	int tasks, children;
};

/* Names of lines of /proc/self/status that a run has no business to change. */
static bool is_kept(const char *line)
{
	static const char *const keys[] = { "Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:",
		"Seccomp", "Sig", "Shd", "Umask:", "TracerPid:", "Threads:", "NStgid:" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strncmp(line, keys[i], strlen(keys[i])) == 0)
			return strncmp(line, "SigQ:", 5) != 0;
	return false;
}

static void read_status(char *out, size_t room)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[512];
	size_t at = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (is_kept(line))
			at += (size_t)snprintf(out + at, room - at, "%s", line);
	fclose(f);
	assert_true(at > 0 && at < room);
}

static void read_env(char *out, size_t room)
{
	size_t at = 0;

	for (char **e = environ; *e; e++)
		at += (size_t)snprintf(out + at, room - at, "%p %s\n", (void *)*e, *e);
	assert_true(at < room);
}

static void portray(struct portrait *p)
{
	memset(p, 0, sizeof(*p));
	list_links("/proc/self/fd", p->fds, sizeof(p->fds));
	assert_non_null(getcwd(p->cwd, sizeof(p->cwd)));
	read_status(p->status, sizeof(p->status));
	read_env(p->env, sizeof(p->env));
	p->mask = umask(0);
	umask(p->mask);
	p->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	p->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	p->keep_caps = prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0);
	prctl(PR_GET_PDEATHSIG, &p->death_signal, 0, 0, 0);
	prctl(PR_GET_CHILD_SUBREAPER, &p->subreaper, 0, 0, 0);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &p->blocked), 0);
	for (int i = 1; i < 65; i++)
		sigaction(i, NULL, &p->actions[i]);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		getrlimit((__rlimit_resource_t)i, &p->limits[i]);
	p->tasks = count_entries("/proc/self/task");
	p->children = waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD ? 0 : 1;
}

static bool same_text(const char *a, const char *b)
{
	if (strcmp(a, b) != 0)
		dprintf(9, "# before:\n%s# after:\n%s", a, b);
	return strcmp(a, b) == 0;
}

static int same_portrait(const struct portrait *a, const struct portrait *b)
{
	CHILD_CHECK(same_text(a->fds, b->fds));
	CHILD_CHECK(same_text(a->status, b->status));
	CHILD_CHECK(same_text(a->env, b->env));
	CHILD_CHECK(a->dumpable == b->dumpable);
	CHILD_CHECK(a->mask == b->mask);
	CHILD_CHECK(a->tasks == b->tasks);
	CHILD_CHECK(a->children == 0 && b->children == 0);
	CHILD_CHECK(strcmp(a->cwd, b->cwd) == 0);
	CHILD_CHECK(a->no_new_privs == b->no_new_privs && a->keep_caps == b->keep_caps);
	CHILD_CHECK(a->death_signal == b->death_signal && a->subreaper == b->subreaper);
	CHILD_CHECK(memcmp(a->limits, b->limits, sizeof(a->limits)) == 0);
	for (int i = 1; i < 65; i++) {
		CHILD_CHECK(a->actions[i].sa_handler == b->actions[i].sa_handler);
		CHILD_CHECK(a->actions[i].sa_flags == b->actions[i].sa_flags);
		CHILD_CHECK(sigismember(&a->blocked, i) == sigismember(&b->blocked, i));
	}
	return 0;
}

/* Something to lose: a descriptor without CLOEXEC, a mask, a umask, groups. */
static int unusual_caller(void)
{
	static struct portrait before, after;
	const gid_t groups[] = { 12345, 54321 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(SH("echo out; sleep 0.05"));
	struct nsbox_policy *policy = NULL;
	struct nsbox_result *r = NULL;
	struct nsbox_box *box = NULL;
	sigset_t some;
	char *text = NULL;

	CHILD_CHECK(dup2(2, 9) == 9);
	CHILD_CHECK(chdir("/usr/bin") == 0);
	umask(0137);
	if (geteuid() == 0)
		CHILD_CHECK(setgroups(2, groups) == 0);
	CHILD_CHECK(open("/etc/passwd", O_RDONLY) >= 0); /* without CLOEXEC on purpose */
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	CHILD_CHECK(pthread_sigmask(SIG_BLOCK, &some, NULL) == 0);
	portray(&before);
	CHILD_CHECK(before.dumpable == 1);
	CHILD_CHECK(nsbox_policy_new(&policy, "python", &err) == 0);
	CHILD_CHECK(nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, &err) == 0);
	CHILD_CHECK(nsbox_box_explain(box, &run, "json", &text, &err) == 0);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0);
		CHILD_CHECK(nsbox_result_exit_code(r) == 0);
		nsbox_result_free(r);
	}
	run.argv = LIST("no-such-command");
	CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0);
	nsbox_result_free(r);
	run.cwd = "/no-such-folder";
	CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == NSBOX_E_POLICY);
	run.cwd = NULL;
	run.flags = NSBOX_RUN_TTY;
	run.argv = LIST("sh", "-c", "tty");
	CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0);
	nsbox_result_free(r);
	run.flags = 0;
	run.argv = LIST("sleep", "60");
	CHILD_CHECK(nsbox_box_start(box, &run, &err) == 0);
	nsbox_box_close(box); /* with a run in flight */
	nsbox_policy_free(policy);
	free(text);
	portray(&after);
	return same_portrait(&before, &after);
}

static void nothing_of_the_caller_is_changed(void **state)
{
	(void)state;
	in_child(unusual_caller);
}

static int doctor_as_caller(void)
{
	static struct portrait before, after;
	char *text = NULL;

	CHILD_CHECK(dup2(2, 9) == 9);
	portray(&before);
	CHILD_CHECK(nsbox_doctor("text", &text, NULL) >= 0);
	free(text);
	portray(&after);
	return same_portrait(&before, &after);
}

static void doctor_changes_nothing_of_the_caller(void **state)
{
	(void)state;
	in_child(doctor_as_caller);
}

/* ------------------------------------------------------------------------- children -- */

static volatile sig_atomic_t reaped;

static void reap_everything(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped++;
	errno = saved;
}

static int many_runs(int n)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(SH("sleep 0.02; echo out; exit 5"));

	for (int i = 0; i < n; i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct nsbox_result *r = NULL;

		CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0);
		CHILD_CHECK(nsbox_result_verdict(r) == NSBOX_EXITED);
		CHILD_CHECK(nsbox_result_exit_code(r) == 5);
		CHILD_CHECK(strcmp(nsbox_result_stdout(r, NULL), "out\n") == 0);
		nsbox_result_free(r);
	}
	nsbox_box_close(box);
	return 0;
}

static int with_a_handler_that_reaps(void)
{
	struct sigaction act = { .sa_handler = reap_everything };

	CHILD_CHECK(dup2(2, 9) == 9);
	CHILD_CHECK(sigaction(SIGCHLD, &act, NULL) == 0); /* no SA_RESTART: EINTR everywhere */
	CHILD_CHECK(many_runs(20) == 0);
	CHILD_CHECK(reaped > 0); /* it did get in the way */
	return 0;
}

/* Ignored signals stay ignored over exec: init must not inherit that one. */
static int with_sigchld_ignored(void)
{
	char folder[] = "/tmp/nsbox-caller.XXXXXX";
	const char *keys[] = { "fs.write", folder, NULL }; /* with placeholders to guard */
	struct nsbox_run run = NSBOX_RUN_INIT;
	struct nsbox_result *r = NULL;
	struct nsbox_box *box;
	int degraded = nsbox_doctor("text", &(char *){ NULL }, NULL);

	CHILD_CHECK(dup2(2, 9) == 9);
	CHILD_CHECK(mkdtemp(folder));
	signal(SIGCHLD, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	CHILD_CHECK(many_runs(20) == 0);
	box = new_box("python", keys);
	run.language = "python";
	run.code = "import subprocess, signal\n"
		   "print(subprocess.run(['sh', '-c', 'exit 6']).returncode, signal.getsignal(signal.SIGTERM))\n";
	CHILD_CHECK(nsbox_box_run(box, &run, &r, NULL) == 0);
	CHILD_CHECK(strcmp(nsbox_result_stdout(r, NULL), "6 0\n") == 0);
	nsbox_result_free(r);
	nsbox_box_close(box);
	CHILD_CHECK(rmdir(folder) == 0); /* nothing is left in it */
	CHILD_CHECK(nsbox_doctor("text", &(char *){ NULL }, NULL) == degraded);
	return 0;
}

static volatile sig_atomic_t ticks;

static void tick(int sig)
{
	(void)sig;
	ticks++;
}

static int with_a_timer_that_interrupts(void)
{
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction act = { .sa_handler = tick };

	CHILD_CHECK(dup2(2, 9) == 9);
	CHILD_CHECK(sigaction(SIGALRM, &act, NULL) == 0);
	CHILD_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	CHILD_CHECK(many_runs(20) == 0);
	CHILD_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	CHILD_CHECK(ticks > 20);
	return 0;
}

static void a_handler_that_reaps_every_child_takes_no_verdict_away(void **state)
{
	(void)state;
	in_child(with_a_handler_that_reaps);
}

static void an_ignored_sigchld_takes_no_verdict_away(void **state)
{
	(void)state;
	in_child(with_sigchld_ignored);
}

static void signals_of_the_caller_interrupt_nothing(void **state)
{
	(void)state;
	in_child(with_a_timer_that_interrupts);
}

/* A child of the caller's own that ended is still there for its own wait. */
static int own_child_is_kept(void)
{
	int status = 0;
	pid_t pid;

	CHILD_CHECK(dup2(2, 9) == 9);
	pid = fork();
	CHILD_CHECK(pid >= 0);
	if (pid == 0)
		_exit(42);
	CHILD_CHECK(many_runs(3) == 0);
	CHILD_CHECK(waitpid(pid, &status, WNOHANG) == pid);
	CHILD_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	return 0;
}

static void the_caller_s_own_children_are_its_own(void **state)
{
	(void)state;
	in_child(own_child_is_kept);
}

/* ----------------------------------------------------------------- a closed process -- */

/* As an ordinary user /proc/PID of a process that is not dumpable belongs to root. */
static int not_dumpable(void)
{
	const struct nsbox_run run = command(LIST("true"));
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	struct nsbox_result *r = NULL;
	struct nsbox_box *box = NULL;

	CHILD_CHECK(dup2(2, 9) == 9);
	if (geteuid() == 0) {
		CHILD_CHECK(setgroups(0, NULL) == 0);
		CHILD_CHECK(setresgid(65534, 65534, 65534) == 0);
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	}
	CHILD_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	CHILD_CHECK(nsbox_policy_new(&p, NULL, &err) == 0);
	CHILD_CHECK(nsbox_box_open(&box, NSBOX_TIER_LOCAL, p, &err) == 0);
	CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0); /* the control */
	nsbox_result_free(r);
	CHILD_CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == NSBOX_E_SYSTEM);
	CHILD_CHECK(err.os_errno == EACCES);
	CHILD_CHECK(strcmp(err.stage, "idmap") == 0);
	CHILD_CHECK(strstr(err.hint, "PR_SET_DUMPABLE"));
	CHILD_CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0); /* not ours to change */
	nsbox_box_close(box);
	nsbox_policy_free(p);
	return 0;
}

static void a_user_s_process_that_is_not_dumpable_is_told_so(void **state)
{
	(void)state;
	in_child(not_dumpable);
}

/* ------------------------------------------------------------- many open files -- */

/* A server: more descriptors than the box may have, and some of them right where the
 * child moves its own. */
static int with_many_descriptors(void)
{
	static const char *const keys[] = { "limits.files", "16", NULL };
	const struct nsbox_run run = command(SH("ls /proc/self/fd | wc -l; ulimit -n"));
	const struct rlimit many = { 4096, 4096 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = NULL;
	struct nsbox_box *box = new_box(NULL, keys);

	CHILD_CHECK(dup2(2, 9) == 9);
	if (setrlimit(RLIMIT_NOFILE, &many) < 0)
		CHILD_CHECK(errno == EPERM); /* what there is must do */
	while (dup(9) >= 0 && fcntl(1800, F_GETFD) < 0)
		;
	errno = 0;
	CHILD_CHECK(nsbox_box_run(box, &run, &r, &err) == 0 || (dprintf(9, "# %s\n", err.message), 0));
	CHILD_CHECK(strcmp(nsbox_result_stdout(r, NULL), "4\n16\n") == 0); /* 0, 1, 2 and ls's own */
	nsbox_result_free(r);
	nsbox_box_close(box);
	return 0;
}

static void a_caller_may_hold_more_files_than_the_box_may(void **state)
{
	(void)state;
	in_child(with_many_descriptors);
}

/* --------------------------------------------------------------------- again and again -- */

static void one_box_serves_fifty_runs(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);

	(void)state;
	for (int i = 0; i < 50; i++) {
		char script[64], want[16];

		/* Also: nothing of the run before is there. */
		snprintf(script, sizeof(script), "ls -A /workspace /tmp | grep -c x; echo %d > x; cat x", i);
		snprintf(want, sizeof(want), "0\n%d\n", i);
		expect_out(result_of_sh(box, script), want);
	}
	nsbox_box_close(box);
}

static void two_boxes_live_side_by_side_in_one_thread(void **state)
{
	static const char *const few[] = { "env.set", "WHO=one", NULL };
	static const char *const more[] = { "env.set", "WHO=two", NULL };
	struct nsbox_box *boxes[2] = { new_box(NULL, few), new_box("python", more) };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r[2] = { NULL, NULL };
	static const char *const argv[] = { "sh", "-c", "sleep 0.1; echo $WHO", NULL };
	const struct nsbox_run run = command(argv);

	(void)state;
	for (int i = 0; i < 2; i++)
		must(nsbox_box_start(boxes[i], &run, &err), &err);
	for (int i = 1; i >= 0; i--) { /* the other way round */
		while (nsbox_box_wait(boxes[i], -1, &err) == 0)
			;
		must(nsbox_box_collect(boxes[i], &r[i], &err), &err);
		nsbox_box_close(boxes[i]);
	}
	expect_out(r[0], "one\n"); /* a result outlives its box */
	expect_out(r[1], "two\n");
}

/* A sanitizer has an allocator of its own, and finds leaks itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_OWN_ALLOCATOR = 1 };
#else
enum { HAS_OWN_ALLOCATOR = 0 };
#endif

static size_t heap_in_use(void)
{
	return mallinfo2().uordblks;
}

static void two_hundred_runs_leave_nothing_in_the_process(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(LIST("echo", "x"));
	int fds, tasks, maps;
	long rss;
	size_t heap;

	(void)state;
	for (int i = 0; i < 10; i++)
		nsbox_result_free(result_of(box, &run));
	fds = count_entries("/proc/self/fd");
	tasks = count_entries("/proc/self/task");
	maps = count_entries("/proc/self/map_files");
	rss = self_status("VmRSS:");
	heap = heap_in_use();
	for (int i = 0; i < 200; i++)
		expect_out(result_of(box, &run), "x\n");
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(count_entries("/proc/self/task"), tasks);
	if (!HAS_OWN_ALLOCATOR) {
		assert_int_equal(count_entries("/proc/self/map_files"), maps);
		assert_true(heap_in_use() <= heap + 4096);
		assert_true(self_status("VmRSS:") <= rss + 256); /* KiB */
	}
	nsbox_box_close(box);
}

static void boxes_that_open_and_close_leave_nothing_either(void **state)
{
	int fds = count_entries("/proc/self/fd");
	size_t heap = 0;

	(void)state;
	for (int i = 0; i < 120; i++) {
		struct nsbox_box *box = new_box(i % 2 ? "python" : "strict", NULL);

		if (i % 3 == 0)
			expect_out(result_of_sh(box, "echo x"), "x\n");
		nsbox_box_close(box);
		if (i == 59)
			heap = heap_in_use();
	}
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_true(HAS_OWN_ALLOCATOR || heap_in_use() <= heap + 4096);
}

/* glibc counts what is free in its caches as in use; they fill for hundreds of rounds. */
static void without_malloc_caches(char **argv)
{
	const char *name = "GLIBC_TUNABLES";

	if (HAS_OWN_ALLOCATOR || getenv(name))
		return;
	setenv(name, "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0", 1);
	execv("/proc/self/exe", argv);
	abort();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_the_caller_is_changed),
		cmocka_unit_test(doctor_changes_nothing_of_the_caller),
		cmocka_unit_test(a_handler_that_reaps_every_child_takes_no_verdict_away),
		cmocka_unit_test(an_ignored_sigchld_takes_no_verdict_away),
		cmocka_unit_test(signals_of_the_caller_interrupt_nothing),
		cmocka_unit_test(the_caller_s_own_children_are_its_own),
		cmocka_unit_test(a_user_s_process_that_is_not_dumpable_is_told_so),
		cmocka_unit_test(a_caller_may_hold_more_files_than_the_box_may),
		cmocka_unit_test(one_box_serves_fifty_runs),
		cmocka_unit_test(two_boxes_live_side_by_side_in_one_thread),
		cmocka_unit_test(two_hundred_runs_leave_nothing_in_the_process),
		cmocka_unit_test(boxes_that_open_and_close_leave_nothing_either),
	};

	(void)argc;
	without_malloc_caches(argv);
	alarm(400);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
