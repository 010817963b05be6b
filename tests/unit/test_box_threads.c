/*
 * test_box_threads.c - distinct boxes in distinct threads, and nsbox_box_kill() from
 * another thread at any moment. Also built with the thread sanitizer (make tsan).
 */
#include "box_run.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum { THREADS = 8, RUNS = 20 };

/* ------------------------------------------------------------------ many launchers -- */

static const struct work {
	const char *profile;
	const char *pair[3];
	const char *script, *want;
} works[THREADS] = {
	{ "default", { "env.set", "T=0", NULL }, "echo $T; id -u", "0\n1000\n" },
	{ "strict", { "env.set", "T=1", NULL }, "echo $T", "1\n" },
	{ "python", { "limits.pids", "20", NULL }, "echo two", "two\n" },
	{ "node", { "limits.stdout", "2K", NULL }, "echo three", "three\n" },
	{ "shell", { "fs.tmpfs", "/four", NULL }, "ls -d /four", "/four\n" },
	{ "build", { "fs.read", "/etc/passwd:/five", NULL }, "test -s /five && echo five", "five\n" },
	{ "debug", { "limits.files", "50", NULL }, "ulimit -n", "50\n" },
	{ "default", { "limits.timeout", "20s", NULL }, "cat; echo seven", "seven\n" },
};

static atomic_int wrong;

/* No asserts of cmocka here: they belong to the main thread. */
static void *work(void *arg)
{
	const struct work *w = arg;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *p = NULL;
	struct nsbox_box *box = NULL;
	const char *argv[] = { "sh", "-c", w->script, NULL };
	const struct nsbox_run run = command(argv);

	if (nsbox_policy_new(&p, w->profile, &err) < 0 ||
	    nsbox_policy_set(p, w->pair[0], w->pair[1], &err) < 0 ||
	    nsbox_box_open(&box, NSBOX_TIER_LOCAL, p, &err) < 0) {
		print_message("# %s: %s\n", w->script, err.message);
		wrong++;
	}
	for (int i = 0; box && i < RUNS; i++) {
		struct nsbox_result *r = NULL;
		const char *out;

		if (nsbox_box_run(box, &run, &r, &err) < 0) {
			print_message("# %s: %s at '%s'\n", w->script, err.message, err.stage);
			wrong++;
			continue;
		}
		out = nsbox_result_stdout(r, NULL);
		if (nsbox_result_exit_code(r) != 0 || !out || strcmp(out, w->want) != 0) {
			print_message("# %s: %s\n", w->script, nsbox_result_json(r));
			wrong++;
		}
		nsbox_result_free(r);
	}
	nsbox_box_close(box);
	nsbox_policy_free(p);
	return NULL;
}

static void eight_threads_run_twenty_boxes_each(void **state)
{
	int fds = count_entries("/proc/self/fd"), dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(dumpable, 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)&works[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(wrong, 0);
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	/* One flag of the whole process, which each launch touches. */
	assert_int_equal(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

/*
 * In a box /var/tmp is a link with ".." in it. openat2() cannot check that while
 * anybody mounts something, and answers EAGAIN: each box then disturbed the others.
 */
static void boxes_that_are_built_at_once_do_not_disturb_each_other(void **state)
{
	char folder[] = "/var/tmp/nsbox-threads.XXXXXX";
	const struct work through_link = { "default", { "fs.read", folder, NULL }, "echo up", "up\n" };
	pthread_t threads[THREADS];

	(void)state;
	wrong = 0;
	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)&through_link), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(wrong, 0);
}

static struct nsbox_policy *shared_policy;

static void *open_from_shared(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		struct nsbox_box *box = NULL;
		char *text = NULL;

		if (nsbox_box_open(&box, NSBOX_TIER_LOCAL, shared_policy, NULL) < 0 ||
		    nsbox_policy_json(shared_policy, &text, NULL) < 0)
			wrong++;
		free(text);
		nsbox_box_close(box);
	}
	return NULL;
}

static void one_policy_is_read_by_many_threads(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	pthread_t threads[4];

	(void)state;
	wrong = 0;
	must(nsbox_policy_new(&shared_policy, "python", &err), &err);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_from_shared, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	nsbox_policy_free(shared_policy);
	assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------------ kill from aside -- */

struct killer {
	struct nsbox_box *box;
	unsigned after_us;
	atomic_bool stop;
};

static void *kill_later(void *arg)
{
	struct killer *k = arg;

	usleep(k->after_us);
	nsbox_box_kill(k->box);
	return NULL;
}

static void *kill_all_the_time(void *arg)
{
	struct killer *k = arg;

	while (!k->stop) {
		nsbox_box_kill(k->box);
		usleep(200);
	}
	return NULL;
}

static void a_kill_during_a_run_ends_it_at_once(void **state)
{
	struct killer k = { .box = new_box(NULL, NULL), .after_us = 300000 };
	const struct nsbox_run run = command(SH("trap '' TERM INT; sleep 60 & sleep 60"));
	uint64_t start = monotonic_ms();
	struct nsbox_result *r;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, kill_later, &k), 0);
	r = result_of(k.box, &run);
	assert_int_equal(nsbox_result_verdict(r), NSBOX_SIGNALED);
	assert_string_equal(nsbox_result_reason(r), "killed: by the caller");
	assert_true(monotonic_ms() - start < 10000);
	nsbox_result_free(r);
	assert_int_equal(pthread_join(thread, NULL), 0);
	nsbox_box_close(k.box);
}

/*
 * At whatever moment of the start it comes: once nsbox_box_run() has begun, a kill is not
 * lost. The delays walk through the whole of a launch.
 */
static void a_kill_during_the_start_is_not_lost(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	const struct nsbox_run run = command(LIST("sleep", "20"));
	int killed = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		struct killer k = { .box = box };
		struct nsbox_result *r;
		pthread_t thread;

		/* Killing again and again from before the start until after it: the run
		 * must end, and only a kill can end it in time. */
		assert_int_equal(pthread_create(&thread, NULL, kill_all_the_time, &k), 0);
		r = result_of(box, &run);
		k.stop = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		killed += nsbox_result_verdict(r) == NSBOX_SIGNALED;
		nsbox_result_free(r);
	}
	assert_int_equal(killed, 40);
	nsbox_box_close(box);
}

struct starter {
	struct nsbox_box *box;
	uint64_t took_ms;
	int verdict;
};

static void *start_and_tell(void *arg)
{
	static const char *const argv[] = { "sleep", "20", NULL };
	struct starter *s = arg;
	const struct nsbox_run run = command(argv);
	struct nsbox_result *r = NULL;
	uint64_t from = monotonic_ms();

	s->verdict = -1;
	if (nsbox_box_run(s->box, &run, &r, NULL) == 0)
		s->verdict = (int)nsbox_result_verdict(r);
	s->took_ms = monotonic_ms() - from;
	nsbox_result_free(r);
	return NULL;
}

/* One kill only, early in the launch (it takes some milliseconds): before there was a
 * child to kill, that was lost and the program ran on to its end. */
static void a_single_early_kill_is_enough(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct starter s = { .box = box };
		int next = fcntl(2, F_DUPFD_CLOEXEC, 0);
		pthread_t thread;

		close(next); /* the number that the run's first descriptor will get */
		assert_int_equal(pthread_create(&thread, NULL, start_and_tell, &s), 0);
		while (fcntl(next, F_GETFD) < 0)
			sched_yield();
		usleep(100 * i);
		nsbox_box_kill(box);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(s.verdict, NSBOX_SIGNALED);
		assert_true(s.took_ms < 10000);
	}
	nsbox_box_close(box);
}

static void a_kill_after_the_end_changes_nothing(void **state)
{
	struct killer k = { .box = new_box(NULL, NULL) };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, kill_later, &k), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_out(result_of_sh(k.box, "echo on"), "on\n");
	nsbox_box_kill(k.box);
	expect_out(result_of_sh(k.box, "echo on"), "on\n");
	nsbox_box_close(k.box);
}

/* --------------------------------------------------------- a thread that goes away -- */

struct handover {
	struct nsbox_box *box;
	int code;
};

static void *start_only(void *arg)
{
	static const char *const argv[] = { "sh", "-c", "sleep 0.5; echo survived", NULL };
	struct handover *h = arg;
	const struct nsbox_run run = command(argv);

	h->code = nsbox_box_start(h->box, &run, NULL);
	return NULL;
}

/* PR_SET_PDEATHSIG means the thread that cloned, not the process. */
static void a_run_outlives_the_thread_that_started_it(void **state)
{
	struct handover h = { .box = new_box(NULL, NULL), .code = -99 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = NULL;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, start_only, &h), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(h.code, 0);
	while (nsbox_box_wait(h.box, -1, &err) == 0)
		;
	must(nsbox_box_collect(h.box, &r, &err), &err);
	expect_out(r, "survived\n");
	nsbox_box_close(h.box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_threads_run_twenty_boxes_each),
		cmocka_unit_test(boxes_that_are_built_at_once_do_not_disturb_each_other),
		cmocka_unit_test(one_policy_is_read_by_many_threads),
		cmocka_unit_test(a_kill_during_a_run_ends_it_at_once),
		cmocka_unit_test(a_kill_during_the_start_is_not_lost),
		cmocka_unit_test(a_single_early_kill_is_enough),
		cmocka_unit_test(a_kill_after_the_end_changes_nothing),
		cmocka_unit_test(a_run_outlives_the_thread_that_started_it),
	};

	alarm(500);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
