/*
 * test_registry.c - the list of boxes: slots, locks, and what others may have put there
 *
 * The list of these tests is in a folder of their own, which XDG_RUNTIME_DIR names.
 */
#include "base/cleanup.h"
#include "runtime/record.h"
#include "runtime/registry.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/sleeper.h"

struct place {
	char base[64], folder[80], file[96];
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	strcpy(p->base, "/tmp/nsbox-registry.XXXXXX");
	assert_non_null(mkdtemp(p->base));
	snprintf(p->folder, sizeof(p->folder), "%s/nsbox", p->base);
	snprintf(p->file, sizeof(p->file), "%s/%s", p->folder, REGISTRY_FILE);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", p->base, 1), 0);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	(void)unlink(p->file);
	(void)rmdir(p->folder);
	assert_int_equal(rmdir(p->base), 0);
	free(p);
	return 0;
}

static struct registry_record record_of(const char *name)
{
	struct registry_record r = { .state = REGISTRY_RUNNING, .launcher_pid = getpid(),
				     .init_pid = -1, .exit_code = -1,
				     .started_us = registry_now_us(), .cpu_us = REGISTRY_UNKNOWN,
				     .memory_peak = REGISTRY_UNKNOWN,
				     .pids_peak = REGISTRY_UNKNOWN };

	assert_true(strlen(name) < sizeof(r.name));
	memcpy(r.name, name, strlen(name));
	return r;
}

static struct registry_slot claimed(struct registry_record *r)
{
	struct registry_slot s;

	registry_claim(&s, r);
	assert_true(s.fd >= 0);
	return s;
}

static size_t number_of(const struct registry_slot *s)
{
	return (size_t)s->at / REGISTRY_SLOT_SIZE - 1;
}

static void finish(struct registry_slot *s, struct registry_record *r)
{
	r->state = REGISTRY_FINISHED;
	registry_finish(s, r);
	assert_int_equal(s->fd, -1);
}

/* What the public call says of one box; state 0: nothing. */
static struct nsbox_box_info info_of(const char *id)
{
	struct nsbox_box_info info = NSBOX_BOX_INFO_INIT, found = NSBOX_BOX_INFO_INIT;
	struct nsbox_boxes *boxes;
	int r;

	assert_int_equal(nsbox_boxes_open(&boxes, NULL), 0);
	while ((r = nsbox_boxes_next(boxes, &info, NULL)) == 1)
		if (strcmp(info.id, id) == 0)
			found = info;
	assert_int_equal(r, 0);
	nsbox_boxes_close(boxes);
	return found;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* --------------------------------------------------------------------- slots -- */

static void a_claimed_slot_is_held_until_the_run_is_finished(void **state)
{
	struct registry_record r = record_of("one"), seen;
	struct registry_slot s = claimed(&r);
	size_t n = number_of(&s);
	owned_fd int fd = registry_open_read(0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(s.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC); /* no exec takes it along */
	assert_true(registry_is_held(fd, n));
	assert_int_equal(registry_read(fd, n, &seen), 0);
	assert_string_equal(seen.name, "one");
	assert_string_equal(seen.id, r.id);
	assert_int_equal(seen.state, REGISTRY_RUNNING);
	assert_int_equal(info_of(r.id).state, NSBOX_BOX_RUNNING);
	r.verdict = NSBOX_TIMED_OUT;
	r.wall_us = 1500000;
	finish(&s, &r);
	assert_false(registry_is_held(fd, n));
	assert_int_equal(info_of(r.id).state, NSBOX_BOX_FINISHED);
	assert_string_equal(info_of(r.id).verdict_name, "timed_out");
	assert_int_equal(info_of(r.id).age_us, 1500000);
}

static void claims_of_one_process_exclude_each_other(void **state)
{
	struct registry_record a = record_of("a"), b = record_of("b");
	struct registry_slot first = claimed(&a), second;
	owned_fd int fd = open(((struct place *)*state)->file, O_RDWR | O_CLOEXEC);

	/* As if the hint had gone back: the slot is taken all the same. */
	assert_int_equal(pwrite(fd, "\0\0\0\0\0\0\0\0", 8, offsetof(struct registry_header, next)), 8);
	second = claimed(&b);
	assert_int_not_equal(first.at, second.at);
	assert_string_not_equal(a.id, b.id);
	finish(&first, &a);
	finish(&second, &b);
}

static void claims_of_two_processes_exclude_each_other(void **state)
{
	int told[2], go[2];
	struct registry_record a = record_of("a"), b = record_of("b");
	struct registry_slot first, second;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		registry_claim(&first, &a);
		(void)!write(told[1], &first.at, sizeof(first.at));
		(void)!read(go[0], told, 1);
		_exit(0);
	}
	assert_int_equal(read(told[0], &first.at, sizeof(first.at)), sizeof(first.at));
	second = claimed(&b);
	assert_int_not_equal(first.at, second.at);
	end(pid);
	finish(&second, &b);
	close(told[0]), close(told[1]), close(go[0]), close(go[1]);
}

static void the_slot_of_a_killed_launcher_is_free_and_its_box_is_lost(void **state)
{
	struct registry_record a = record_of("killed");
	struct nsbox_box_info info;
	int told[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		struct registry_slot s;

		registry_claim(&s, &a);
		(void)!write(told[1], &a, sizeof(a));
		for (;;)
			pause();
	}
	assert_int_equal(read(told[0], &a, sizeof(a)), sizeof(a));
	assert_int_equal(info_of(a.id).state, NSBOX_BOX_RUNNING); /* control */
	end(pid);
	info = info_of(a.id);
	assert_int_equal(info.state, NSBOX_BOX_LOST);
	assert_string_equal(info.name, "killed");
	assert_int_equal(info.age_us, NSBOX_UNKNOWN);
	assert_null(info.verdict_name);
	assert_int_equal(info.exit_code, -1);
	close(told[0]), close(told[1]);
}

static void a_fork_of_the_launcher_does_not_keep_a_finished_slot(void **state)
{
	struct registry_record r = record_of("forked");
	struct registry_slot s = claimed(&r);
	size_t n = number_of(&s);
	owned_fd int fd = registry_open_read(0);
	pid_t copy = sleeper();

	(void)state;
	assert_true(registry_is_held(fd, n));
	finish(&s, &r);
	assert_false(registry_is_held(fd, n));
	end(copy);
}

static void the_oldest_slot_is_taken_first(void **state)
{
	char first[16], second[16], third[16];
	struct registry_record r;
	struct registry_slot s;

	(void)state;
	for (int i = 0; i < REGISTRY_SLOTS + 2; i++) {
		r = record_of("many");
		s = claimed(&r);
		finish(&s, &r);
		if (i < 3)
			memcpy(i == 0 ? first : i == 1 ? second : third, r.id, sizeof(r.id));
	}
	assert_int_equal(info_of(first).state, 0);
	assert_int_equal(info_of(second).state, 0);
	assert_int_equal(info_of(third).state, NSBOX_BOX_FINISHED);
}

static void a_full_list_leaves_a_run_unlisted(void **state)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct registry_record r = record_of("first");
	struct registry_slot s = claimed(&r);
	owned_fd int fd = open(((struct place *)*state)->file, O_RDWR | O_CLOEXEC);

	finish(&s, &r);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
	registry_claim(&s, &r);
	assert_int_equal(s.fd, -1);
	registry_finish(&s, &r); /* nothing to do */
	all.l_type = F_UNLCK;
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
	s = claimed(&r);
	finish(&s, &r);
}

static void a_file_size_limit_brings_no_signal(void **state)
{
	struct rlimit old, small = { .rlim_cur = 4096 };
	struct registry_record r = record_of("limited");
	struct registry_slot s;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	registry_claim(&s, &r); /* SIGXFSZ would end this test */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(s.fd, -1);
	s = claimed(&r);
	finish(&s, &r);
}

/* ------------------------------------------------------------- what others wrote -- */

static void a_torn_record_is_not_shown(void **state)
{
	struct registry_record r = record_of("torn"), other = record_of("whole"), seen;
	struct registry_slot s = claimed(&r), t = claimed(&other);
	owned_fd int fd = open(((struct place *)*state)->file, O_RDWR | O_CLOEXEC);
	size_t n = number_of(&s);

	assert_int_equal(registry_read(fd, n, &seen), 0); /* control */
	assert_int_equal(pwrite(fd, "other", 5, s.at + offsetof(struct registry_record, name)), 5);
	assert_int_equal(registry_read(fd, n, &seen), -1);
	assert_int_equal(info_of(r.id).state, 0);
	assert_int_equal(info_of(other.id).state, NSBOX_BOX_RUNNING);
	finish(&s, &r); /* writes it anew */
	assert_int_equal(info_of(r.id).state, NSBOX_BOX_FINISHED);
	finish(&t, &other);
}

static void text_of_a_record_is_made_printable(void **state)
{
	struct registry_record r = record_of("\033]0;owned\007\xc2\x9b\x80 \xe2\x80\xae" "cod");
	struct registry_slot s = claimed(&r);

	(void)state;
	assert_string_equal(info_of(r.id).name, "?]0;owned??? ?cod");
	memset(r.name, 'x', sizeof(r.name)); /* and has no end */
	finish(&s, &r);
	assert_int_equal(strlen(info_of(r.id).name), REGISTRY_NAME_MAX);
}

static void records_with_no_id_or_state_are_not_shown(void **state)
{
	struct registry_record r = record_of("odd"), seen;
	struct registry_slot s = claimed(&r);
	owned_fd int fd = registry_open_read(0);
	size_t n = number_of(&s);

	(void)state;
	r.state = 77;
	registry_finish(&s, &r);
	assert_int_equal(registry_read(fd, n, &seen), -1);
	r = record_of("odd");
	s = claimed(&r);
	n = number_of(&s);
	assert_int_equal(registry_read(fd, n, &seen), 0); /* control */
	r.id[0] = '\033';
	finish(&s, &r);
	assert_int_equal(registry_read(fd, n, &seen), -1);
}

static void a_verdict_that_does_not_exist_has_no_words(void **state)
{
	struct registry_record r = record_of("odd");
	struct registry_slot s = claimed(&r);

	(void)state;
	r.verdict = -5;
	finish(&s, &r);
	assert_string_equal(info_of(r.id).verdict_name, "?");
}

/* A record names a pid and a path; neither is believed. */
static void figures_come_from_a_child_of_the_launcher_or_from_nowhere(void **state)
{
	struct registry_record r = record_of("forged");
	struct registry_slot s;
	pid_t child = sleeper();

	(void)state;
	r.init_pid = child;
	s = claimed(&r);
	assert_in_range(info_of(r.id).memory_bytes, 1, UINT64_C(1) << 32); /* control */
	assert_int_equal(info_of(r.id).pids, 0); /* "init" is not counted */
	finish(&s, &r);
	r = record_of("forged");
	r.init_pid = getppid(); /* no child of ours */
	s = claimed(&r);
	assert_int_equal(info_of(r.id).memory_bytes, NSBOX_UNKNOWN);
	assert_int_equal(info_of(r.id).cpu_us, NSBOX_UNKNOWN);
	assert_int_equal(info_of(r.id).pids, NSBOX_UNKNOWN);
	finish(&s, &r);
	end(child);
}

static void a_path_that_is_no_cgroup_is_not_read(void **state)
{
	const struct place *p = *state;
	char folder[96], file[128];
	struct registry_record r = record_of("path");
	struct registry_slot s;

	snprintf(folder, sizeof(folder), "%s/leaf", p->base);
	snprintf(file, sizeof(file), "%s/memory.current", folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(mkfifo(file, 0600), 0); /* would hold up whoever opens it */
	strcpy(r.cgroup, folder);
	s = claimed(&r);
	assert_int_equal(info_of(r.id).memory_bytes, NSBOX_UNKNOWN);
	finish(&s, &r);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void a_file_of_another_format_is_left_alone(void **state)
{
	static const char text[] = "these are my notes, and no list of boxes at all";
	const struct place *p = *state;
	struct registry_record r = record_of("notes");
	struct registry_slot s;
	char now[sizeof(text)] = "";
	owned_fd int fd = -1;

	assert_int_equal(mkdir(p->folder, 0700), 0);
	fd = open(p->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	registry_claim(&s, &r);
	assert_int_equal(s.fd, -1);
	assert_int_equal(registry_open_read(0), -1);
	assert_int_equal(pread(fd, now, sizeof(now), 0), sizeof(text));
	assert_string_equal(now, text);
	assert_int_equal(lseek(fd, 0, SEEK_END), sizeof(text));
}

/* A link in its place leads nowhere, neither soft nor hard. */
static void a_link_instead_of_the_file_is_not_followed(void **state)
{
	const struct place *p = *state;
	struct registry_record r = record_of("link");
	struct registry_slot s;
	char target[96];
	struct stat st;

	snprintf(target, sizeof(target), "%s/target", p->base);
	assert_int_equal(mkdir(p->folder, 0700), 0);
	close(open(target, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	for (int is_hard = 0; is_hard < 2; is_hard++) {
		assert_int_equal(is_hard ? link(target, p->file) : symlink(target, p->file), 0);
		assert_int_equal(registry_open_read(0), -1);
		registry_claim(&s, &r); /* perhaps in the next place */
		finish(&s, &r);
		assert_int_equal(stat(target, &st), 0);
		assert_int_equal(st.st_size, 0);
		assert_int_equal(unlink(p->file), 0);
	}
	assert_int_equal(unlink(target), 0);
}

/* -------------------------------------------------------------------- folders -- */

static void the_folder_is_the_callers_alone_or_none(void **state)
{
	const struct place *p = *state;
	struct stat st;
	int fd;

	assert_int_equal(registry_folder(p->base, "nsbox", false), -1);
	assert_int_equal(access(p->folder, F_OK), -1);
	fd = registry_folder(p->base, "nsbox", true);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	close(fd);
	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		assert_int_equal(chmod(p->folder, 0700 | bit), 0);
		assert_int_equal(registry_folder(p->base, "nsbox", true), -1);
	}
	assert_int_equal(chmod(p->folder, 0700), 0);
	fd = registry_folder(p->base, "nsbox", false); /* control */
	assert_true(fd >= 0);
	close(fd);
}

static void a_folder_of_somebody_else_is_not_used(void **state)
{
	const struct place *p = *state;

	if (geteuid() != 0) { /* who may not give one away: root's own */
		assert_int_equal(registry_folder("/", "root", true), -1);
		return;
	}
	assert_int_equal(mkdir(p->folder, 0700), 0);
	assert_int_equal(chown(p->folder, 12345, 12345), 0);
	assert_int_equal(registry_folder(p->base, "nsbox", true), -1);
}

/* As somebody else would prepare /tmp/nsbox-1000. */
static void a_link_instead_of_the_folder_is_not_followed(void **state)
{
	const struct place *p = *state;
	char target[96], inside[128];

	snprintf(target, sizeof(target), "%s/mine", p->base);
	snprintf(inside, sizeof(inside), "%s/%s", target, REGISTRY_FILE);
	assert_int_equal(mkdir(target, 0700), 0);
	assert_int_equal(symlink(target, p->folder), 0);
	assert_int_equal(registry_folder(p->base, "nsbox", true), -1);
	assert_int_equal(access(inside, F_OK), -1);
	assert_int_equal(unlink(p->folder), 0);
	assert_int_equal(rmdir(target), 0);
}

static void nothing_is_made_in_a_folder_that_others_may_write(void **state)
{
	const struct place *p = *state;

	assert_int_equal(chmod(p->base, 0777), 0);
	assert_int_equal(registry_folder(p->base, "nsbox", true), -1);
	assert_int_equal(access(p->folder, F_OK), -1);
	assert_int_equal(chmod(p->base, 01777), 0); /* as /tmp is: control */
	close(registry_folder(p->base, "nsbox", true));
	assert_int_equal(access(p->folder, F_OK), 0);
	assert_int_equal(chmod(p->base, 0700), 0);
}

/* ---------------------------------------------------------------------- names -- */

static void names_are_cut_and_cleaned(void **state)
{
	static const struct { const char *name, *clean; } rows[] = {
		{ "python", "python" },
		{ "na\xc3\xafve \xe5\x90\x8d", "na\xc3\xafve \xe5\x90\x8d" },
		{ "", "" },
		{ "a\nb\tc\x7f", "a?b?c?" },
		{ "\xc2\x85\xff\xc0\x80", "????" },
		{ "\xe2\x80\xaegnp.exe", "?gnp.exe" },
		{ "zero\xe2\x80\x8bwidth\xef\xbb\xbf", "zero?width?" },
		{ "0123456789012345678901234567890123456789012345678901234567890123",
		  "012345678901234567890123456789012345678901234567890123456789012" },
		/* a character that would not fit whole is left out */
		{ "01234567890123456789012345678901234567890123456789012345678901\xc3\xa9",
		  "01234567890123456789012345678901234567890123456789012345678901" },
	};
	char out[REGISTRY_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		registry_clean_name(out, rows[i].name);
		assert_string_equal(out, rows[i].clean);
		assert_int_equal(registry_is_clean(rows[i].name),
				 *rows[i].name && strcmp(rows[i].name, rows[i].clean) == 0);
	}
}

/* --------------------------------------------------------------------- public -- */

static void callers_of_other_ages_get_what_they_know(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct registry_record r = record_of("short");
	struct registry_slot s = claimed(&r);
	struct nsbox_box_info info = NSBOX_BOX_INFO_INIT;
	struct nsbox_boxes *boxes;

	(void)state;
	assert_int_equal(nsbox_boxes_open(&boxes, &err), 0);
	info.size = 0;
	assert_int_equal(nsbox_boxes_next(boxes, &info, &err), NSBOX_E_USAGE);
	info = (struct nsbox_box_info)NSBOX_BOX_INFO_INIT;
	info.size = offsetof(struct nsbox_box_info, started_us);
	info.started_us = 1234;
	do {
		assert_int_equal(nsbox_boxes_next(boxes, &info, &err), 1);
	} while (strcmp(info.id, r.id) != 0);
	assert_int_equal(info.launcher_pid, getpid());
	assert_int_equal(info.started_us, 1234);
	assert_int_equal(info.size, offsetof(struct nsbox_box_info, started_us));
	nsbox_boxes_close(boxes);
	nsbox_boxes_close(NULL);
	assert_int_equal(nsbox_boxes_open(NULL, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_boxes_next(NULL, &info, &err), NSBOX_E_USAGE);
	finish(&s, &r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_claimed_slot_is_held_until_the_run_is_finished),
		TEST(claims_of_one_process_exclude_each_other),
		TEST(claims_of_two_processes_exclude_each_other),
		TEST(the_slot_of_a_killed_launcher_is_free_and_its_box_is_lost),
		TEST(a_fork_of_the_launcher_does_not_keep_a_finished_slot),
		TEST(the_oldest_slot_is_taken_first),
		TEST(a_full_list_leaves_a_run_unlisted),
		TEST(a_file_size_limit_brings_no_signal),
		TEST(a_torn_record_is_not_shown),
		TEST(text_of_a_record_is_made_printable),
		TEST(records_with_no_id_or_state_are_not_shown),
		TEST(a_verdict_that_does_not_exist_has_no_words),
		TEST(figures_come_from_a_child_of_the_launcher_or_from_nowhere),
		TEST(a_path_that_is_no_cgroup_is_not_read),
		TEST(a_file_of_another_format_is_left_alone),
		TEST(a_link_instead_of_the_file_is_not_followed),
		TEST(the_folder_is_the_callers_alone_or_none),
		TEST(a_folder_of_somebody_else_is_not_used),
		TEST(a_link_instead_of_the_folder_is_not_followed),
		TEST(nothing_is_made_in_a_folder_that_others_may_write),
		TEST(names_are_cut_and_cleaned),
		TEST(callers_of_other_ages_get_what_they_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
