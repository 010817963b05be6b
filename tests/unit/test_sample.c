/*
 * test_sample.c - memory, CPU time and processes of a box, seen through /proc
 *
 * A folder of plain files stands in for /proc where the answer must be exact; real
 * children show that the kernel's own files are read right.
 */
#include "base/cleanup.h"
#include "runtime/sample.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/plain_dir.h"

enum { MIB = 1 << 20 };

/* --- a /proc made of plain files ------------------------------------------ */

struct fake_process {
	int pid, parent, threads;
	char state;
	const char *comm, *children; /* children NULL: no such file */
	int pss_kb;		     /* -1: no smaps_rollup, 10 pages with 4 shared instead */
	int ticks;		     /* each of utime, stime, cutime, cstime */
};

static void put_process(struct plain_dir *f, const struct fake_process *p)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "%d", p->pid);
	assert_int_equal(mkdirat(f->fd, path, 0700), 0);
	snprintf(path, sizeof(path), "%d/task", p->pid);
	assert_int_equal(mkdirat(f->fd, path, 0700), 0);
	snprintf(path, sizeof(path), "%d/task/%d", p->pid, p->pid);
	assert_int_equal(mkdirat(f->fd, path, 0700), 0);
	snprintf(path, sizeof(path), "%d/stat", p->pid);
	snprintf(text, sizeof(text),
		 "%d (%s) %c %d 1 1 0 -1 4194560 1 2 3 4 %d %d %d %d 20 0 %d 0 99 1000 20\n",
		 p->pid, p->comm, p->state, p->parent, p->ticks, p->ticks, p->ticks, p->ticks,
		 p->threads);
	put(f->fd, path, text);
	snprintf(path, sizeof(path), "%d/statm", p->pid);
	put(f->fd, path, "100 10 4 1 0 5 0\n");
	if (p->pss_kb >= 0) {
		snprintf(path, sizeof(path), "%d/smaps_rollup", p->pid);
		snprintf(text, sizeof(text),
			 "5581-7ffd ---p 00000000 00:00 0    [rollup]\n"
			 "Rss:            9999999 kB\nPss:            %7d kB\n"
			 "Pss_Dirty:      8888888 kB\nSwap:           7777777 kB\n"
			 "SwapPss:              0 kB\n", p->pss_kb);
		put(f->fd, path, text);
	}
	if (p->children) {
		snprintf(path, sizeof(path), "%d/task/%d/children", p->pid, p->pid);
		put(f->fd, path, p->children);
	}
}

/* 100 is the box's init; 200 is a stranger that names 100 nowhere. */
static const struct fake_process tree[] = {
	{ 100, 50, 1, 'S', "init", "101 102 ", 10, 1 },
	{ 101, 100, 1, 'R', "a) S 1 (b", "103 ", 20, 2 },
	{ 102, 100, 1, 'Z', "gone", "", 999, 3 },
	{ 103, 101, 3, 'S', "x y", "", -1, 4 },
	{ 200, 1, 1, 'S', "stranger", "", 5000, 100 },
};

static void check_tree(const struct sample *s)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	assert_int_equal(s->processes, 4);
	assert_int_equal(s->threads, 6);
	assert_int_equal(s->memory_bytes, (10 + 20) * 1024 + (10 - 4) * page);
	assert_int_equal(s->cpu_us, (1 + 2 + 3 + 4) * 4 * 10000); /* 100 ticks a second */
}

static int sample(struct sample *out, int proc_fd, pid_t init, uint64_t max_pids, int segments)
{
	const struct sample_of of = { proc_fd, segments, init, max_pids };

	return sample_take(out, &of, false);
}

static void the_bound_is_what_is_resident_shared_or_not(void **state)
{
	uint64_t resident = 10 * (uint64_t)sysconf(_SC_PAGESIZE);
	struct sample exact, bound;
	struct sample_of of = { .segments_fd = -1, .init_pid = 100, .max_pids = 128 };
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	for (size_t i = 0; i < ARRAY_SIZE(tree); i++)
		put_process(&f, &tree[i]);
	of.proc_fd = f.fd;
	assert_int_equal(sample_take(&exact, &of, false), 0);
	assert_int_equal(sample_take(&bound, &of, true), 0);
	assert_int_equal(bound.memory_bytes, 3 * resident); /* a zombie has none */
	assert_true(bound.memory_bytes >= exact.memory_bytes);
	assert_int_equal(bound.threads, exact.threads);
	assert_int_equal(bound.cpu_us, exact.cpu_us);
	plain_dir_free(&f);
}

static void the_tree_below_init_is_summed_and_strangers_are_not(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	for (size_t i = 0; i < ARRAY_SIZE(tree); i++)
		put_process(&f, &tree[i]);
	assert_int_equal(sysconf(_SC_CLK_TCK), 100);
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), 0);
	check_tree(&s);
	assert_true(s.complete);
	plain_dir_free(&f);
}

/* As proc(5) has it; more than the reader takes at once. */
static void put_segments(struct plain_dir *f, int rows, unsigned long rss, unsigned long swap)
{
	char text[32768];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s",
		"       key      shmid perms                  size  cpid  lpid nattch   uid   gid"
		"  cuid  cgid      atime      dtime      ctime                   rss"
		"                  swap\n");

	for (int i = 0; i < rows; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
			"%10d %10d  %4o %21lu %5u %5u  %5lu %5u %5u %5u %5u %10llu %10llu %10llu"
			" %21lu %21lu\n", 0, i, 0600, 999999UL, 1, 1, 0UL, 1000, 1000, 1000, 1000,
			5ULL, 6ULL, 7ULL, rss, swap);
	assert_in_range(n, rows > 1 ? 8192 : 1, sizeof(text) - 1);
	put(f->fd, "shm", text);
}

static void swap_and_segments_that_nobody_attached_are_counted_and_mapped_ones_once(void **state)
{
	const struct fake_process mapped = { 100, 50, 1, 'S', "init", "", 10, 1 };
	uint64_t segments = 60 * (4096 + 8192);
	struct sample s;
	struct plain_dir f;
	int fd;

	(void)state;
	plain_dir_new(&f);
	put_process(&f, &mapped);
	put_segments(&f, 60, 4096, 8192);
	fd = openat(f.fd, "shm", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 2; i++) { /* each time from the start */
		assert_int_equal(sample(&s, f.fd, 100, 8, fd), 0);
		assert_int_equal(s.memory_bytes, 10 * 1024 + segments);
	}
	assert_int_equal(sample(&s, f.fd, 100, 8, -1), 0);
	assert_int_equal(s.memory_bytes, 10 * 1024);
	put(f.fd, "100/smaps_rollup", "x\nPss:  1000 kB\nPss_Shmem:   700 kB\n");
	assert_int_equal(sample(&s, f.fd, 100, 8, fd), 0);
	assert_int_equal(s.memory_bytes, 1000 * 1024 + segments - 700 * 1024);
	put(f.fd, "100/smaps_rollup",
	    "x\nPss:  1000 kB\nPss_Shmem:   700 kB\nSwap:  9000 kB\nSwapPss:  30 kB\n");
	assert_int_equal(sample(&s, f.fd, 100, 8, -1), 0);
	assert_int_equal(s.memory_bytes, 1030 * 1024); /* MADV_PAGEOUT hides nothing */
	put(f.fd, "100/smaps_rollup", "x\nPss:  1000 kB\nPss_Shmem:   700 kB\n");
	put_segments(&f, 1, 4096, 0);
	assert_int_equal(sample(&s, f.fd, 100, 8, fd), 0);
	assert_int_equal(s.memory_bytes, 1000 * 1024);
	close(fd);
	plain_dir_free(&f);
}

static void without_children_files_the_parents_give_the_same_sum(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	for (size_t i = 0; i < ARRAY_SIZE(tree); i++) {
		struct fake_process p = tree[i];

		p.children = NULL;
		put_process(&f, &p);
	}
	put(f.fd, "cpuinfo", "not a process");
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), 0);
	check_tree(&s);
	assert_true(s.complete);
	plain_dir_free(&f);
}

static void the_children_of_every_thread_are_found(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	put_process(&f, &(struct fake_process){ 100, 1, 2, 'S', "i", "", 1, 0 });
	put_process(&f, &(struct fake_process){ 101, 100, 1, 'S', "c", "", 2, 0 });
	assert_int_equal(mkdirat(f.fd, "100/task/105", 0700), 0);
	put(f.fd, "100/task/105/children", "101 ");
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), 0);
	assert_int_equal(s.processes, 2);
	assert_int_equal(s.memory_bytes, 3 * 1024);
	plain_dir_free(&f);
}

/* Moved to another parent between two reads: listed twice, counted once. */
static void a_process_that_is_listed_twice_counts_once(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	put_process(&f, &(struct fake_process){ 100, 1, 1, 'S', "i", "101 102 ", 1, 0 });
	put_process(&f, &(struct fake_process){ 101, 100, 1, 'S', "c", "102 ", 2, 0 });
	put_process(&f, &(struct fake_process){ 102, 101, 1, 'S', "c", "", 4, 0 });
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), 0);
	assert_int_equal(s.processes, 3);
	assert_int_equal(s.memory_bytes, 7 * 1024);
	plain_dir_free(&f);
}

static void a_pid_that_went_to_a_stranger_is_left_out(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	put_process(&f, &(struct fake_process){ 100, 1, 1, 'S', "i", "101 ", 1, 0 });
	put_process(&f, &(struct fake_process){ 101, 7, 1, 'S', "host", "", 4000, 0 });
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), 0);
	assert_int_equal(s.processes, 1);
	assert_int_equal(s.memory_bytes, 1024);
	assert_false(s.complete);
	plain_dir_free(&f);
}

static void a_process_that_ended_meanwhile_makes_the_sample_incomplete(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	put_process(&f, &(struct fake_process){ 100, 1, 1, 'S', "i", "101 ", 1, 0 });
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), 0);
	assert_int_equal(s.processes, 1);
	assert_false(s.complete);
	plain_dir_free(&f);
}

static void no_more_than_max_pids_are_looked_at(void **state)
{
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	for (size_t i = 0; i < ARRAY_SIZE(tree); i++)
		put_process(&f, &tree[i]);
	assert_int_equal(sample(&s, f.fd, 100, 2, -1), 0);
	assert_int_equal(s.processes, 2);
	assert_false(s.complete);
	plain_dir_free(&f);
}

static void a_list_longer_than_the_buffer_is_read_whole(void **state)
{
	enum { N = 1500 };
	char list[N * 6 + 1] = "";
	struct sample s;
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	for (int i = 0; i < N; i++)
		snprintf(list + strlen(list), 7, "%d ", 10000 + i);
	put_process(&f, &(struct fake_process){ 100, 1, 1, 'S', "i", list, 1, 0 });
	for (int i = 0; i < N; i++)
		put_process(&f, &(struct fake_process){ 10000 + i, 100, 1, 'S', "c", "", 1, 0 });
	assert_int_equal(sample(&s, f.fd, 100, 4000, -1), 0);
	assert_int_equal(s.processes, N + 1);
	assert_true(s.complete);
	plain_dir_free(&f);
}

static void without_init_there_is_no_sample(void **state)
{
	struct sample s = { .processes = 77 };
	struct plain_dir f;

	(void)state;
	plain_dir_new(&f);
	assert_int_equal(sample(&s, f.fd, 100, 128, -1), -1);
	assert_int_equal(s.processes, 77); /* untouched */
	plain_dir_free(&f);
}

/* --- the kernel's /proc ----------------------------------------------------- */

struct family {
	pid_t pid;
	int ready; /* here comes one byte from each that has its memory */
};

static void wait_killed(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void hold_memory(size_t bytes, int ready)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, bytes);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* A child with a child: 24 MiB and 40 MiB. No assertions: this also runs in a fork,
 * where a failed one would go on with the next test. */
static int family_start(struct family *f)
{
	int fds[2];
	char c;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	f->ready = fds[0];
	f->pid = fork();
	if (f->pid < 0)
		return -1;
	if (!f->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fork())
			hold_memory(24 * MIB, fds[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold_memory(40 * MIB, fds[1]);
	}
	close(fds[1]);
	return read(f->ready, &c, 1) == 1 && read(f->ready, &c, 1) == 1 ? 0 : -1;
}

/* AddressSanitizer's own memory comes on top of what the children wrote. */
#ifdef __SANITIZE_ADDRESS__
enum { OVERHEAD = 64 * MIB };
#else
enum { OVERHEAD = 8 * MIB };
#endif

/* 0, or the number of the check that failed. */
static int check_family(const struct family *f)
{
	owned_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sample s, self;

	if (sample(&s, proc, f->pid, 128, -1) < 0)
		return 1;
	if (s.processes != 2 || s.threads != 2 || !s.complete)
		return 2;
	if (s.memory_bytes < 64 * MIB || s.memory_bytes > 64 * MIB + OVERHEAD)
		return 3;
	/* control: the caller above them has one process more below it */
	if (sample(&self, proc, getpid(), 128, -1) < 0 || self.processes != 3)
		return 4;
	return self.memory_bytes > s.memory_bytes ? 0 : 5;
}

static int family_ok(void)
{
	struct family f = { .pid = -1, .ready = -1 };
	int r = family_start(&f) < 0 ? 99 : check_family(&f);

	if (f.pid > 0)
		wait_killed(f.pid);
	close(f.ready);
	return r;
}

static void real_children_have_the_memory_they_wrote(void **state)
{
	(void)state;
	assert_int_equal(family_ok(), 0);
}

/* unshare(CLONE_NEWPID) is for all later children of the caller, so the test does it
 * in a process of its own. */
static void a_pid_namespace_is_seen_from_outside(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid()) {
		print_message("# SKIP: a pid namespace without a user namespace needs root\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(unshare(CLONE_NEWPID) < 0 ? 98 : family_ok());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void burn(long ms)
{
	struct timespec t;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

/* Else a payload of many short processes would have all the CPU time it wants. */
static void wake(int sig)
{
	(void)sig;
}

static pid_t start_sleeper(void)
{
	const struct sigaction act = { .sa_handler = wake };
	pid_t pid;

	sigaction(SIGUSR1, &act, NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

/* On a busy host it takes a while until it sleeps. */
static bool comes_to_hold(struct sample *s, int proc, pid_t pid)
{
	for (int i = 0; i < 100; i++) {
		assert_int_equal(sample(s, proc, pid, 8, -1), 0);
		usleep(50000);
		if (sample_holds(s))
			return true;
	}
	return false;
}

static void a_sample_holds_until_a_process_of_the_box_has_run(void **state)
{
	owned_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid = start_sleeper();
	struct sample s;

	(void)state;
	assert_true(comes_to_hold(&s, proc, pid));
	kill(pid, SIGUSR1);
	for (int i = 0; i < 200 && sample_holds(&s); i++)
		usleep(10000);
	assert_false(sample_holds(&s)); /* it took a microsecond or two */
	assert_true(comes_to_hold(&s, proc, pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(sample_holds(&s)); /* it is gone */
}

static void a_sample_of_nothing_or_of_too_many_never_holds(void **state)
{
	struct sample s = { .complete = true };

	(void)state;
	assert_false(sample_holds(&s));
	s.processes = SAMPLE_CLOCKS + 1;
	assert_false(sample_holds(&s));
}

static void the_time_of_processes_that_ended_is_not_forgotten(void **state)
{
	owned_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fds[2];
	struct sample s;
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < 4; i++) {
			pid_t burner = fork();

			if (!burner) {
				burn(60);
				_exit(0);
			}
			waitpid(burner, NULL, 0);
		}
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_int_equal(sample(&s, proc, pid, 128, -1), 0);
	assert_int_equal(s.processes, 1);
	assert_in_range(s.cpu_us, 200000, 2000000);
	wait_killed(pid);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tree_below_init_is_summed_and_strangers_are_not),
		cmocka_unit_test(a_sample_holds_until_a_process_of_the_box_has_run),
		cmocka_unit_test(a_sample_of_nothing_or_of_too_many_never_holds),
		cmocka_unit_test(the_bound_is_what_is_resident_shared_or_not),
		cmocka_unit_test(swap_and_segments_that_nobody_attached_are_counted_and_mapped_ones_once),
		cmocka_unit_test(without_children_files_the_parents_give_the_same_sum),
		cmocka_unit_test(the_children_of_every_thread_are_found),
		cmocka_unit_test(a_process_that_is_listed_twice_counts_once),
		cmocka_unit_test(a_pid_that_went_to_a_stranger_is_left_out),
		cmocka_unit_test(a_process_that_ended_meanwhile_makes_the_sample_incomplete),
		cmocka_unit_test(no_more_than_max_pids_are_looked_at),
		cmocka_unit_test(a_list_longer_than_the_buffer_is_read_whole),
		cmocka_unit_test(without_init_there_is_no_sample),
		cmocka_unit_test(real_children_have_the_memory_they_wrote),
		cmocka_unit_test(a_pid_namespace_is_seen_from_outside),
		cmocka_unit_test(the_time_of_processes_that_ended_is_not_forgotten),
	};

	alarm(60); /* a test that hangs is a failed one */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
