/*
 * What the tests of the public interface share: a box from a few keys, a run that must
 * work, its streams as text, and what a process looks like from outside. Included by
 * each of them, which is a program of its own.
 */
#ifndef TESTS_UNIT_BOX_RUN_H
#define TESTS_UNIT_BOX_RUN_H

#include "nsbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIST(...) (const char *const[]){ __VA_ARGS__, NULL }
#define SH(script) LIST("sh", "-c", script)

static inline void must(int r, const struct nsbox_error *err)
{
	if (r < 0)
		fail_msg("%d at '%s': %s (%s)", r, err->stage, err->message, err->hint);
}

/* pairs: key, value, ..., NULL; or NULL. */
static inline struct nsbox_box *new_box(const char *profile, const char *const *pairs)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *policy = NULL;
	struct nsbox_box *box = NULL;

	must(nsbox_policy_new(&policy, profile, &err), &err);
	for (; pairs && *pairs; pairs += 2)
		must(nsbox_policy_set(policy, pairs[0], pairs[1], &err), &err);
	must(nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, &err), &err);
	nsbox_policy_free(policy); /* the box has a copy */
	return box;
}

/* A scratch folder and a box of the default policy for a whole program; to be called by
 * its set-up and tear-down. */
static inline int scratch_and_box(char *folder, size_t size, const char *pattern,
				  struct nsbox_box **out)
{
	snprintf(folder, size, "%s", pattern);
	if (!mkdtemp(folder) || chdir("/") < 0)
		return -1;
	*out = new_box(NULL, NULL);
	return 0;
}

static inline struct nsbox_run command(const char *const *argv)
{
	struct nsbox_run run = NSBOX_RUN_INIT;

	run.argv = argv;
	return run;
}

static inline struct nsbox_result *result_of(struct nsbox_box *box, const struct nsbox_run *run)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = NULL;

	must(nsbox_box_run(box, run, &r, &err), &err);
	assert_non_null(r);
	assert_int_equal(err.code, 0);
	return r;
}

static inline struct nsbox_result *result_of_sh(struct nsbox_box *box, const char *script)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	const struct nsbox_run run = command(argv);

	return result_of(box, &run);
}

/* The run ended with 0 and printed exactly this. Frees the result. */
static inline void expect_out(struct nsbox_result *r, const char *want)
{
	size_t len = 99, err_len = 99;
	const char *out = nsbox_result_stdout(r, &len);
	const char *text = nsbox_result_stderr(r, &err_len);

	if (nsbox_result_verdict(r) != NSBOX_EXITED || nsbox_result_exit_code(r) != 0 || !out ||
	    len != strlen(want) || memcmp(out, want, len) != 0)
		fail_msg("want '%s', got '%s' (stderr '%s'): %s", want, out ? out : "NULL",
			 text ? text : "NULL", nsbox_result_json(r));
	nsbox_result_free(r);
}

static inline uint64_t monotonic_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Entries of a folder of /proc, with what each link says, as one text. */
static inline void list_links(const char *folder, char *out, size_t room)
{
	struct dirent **names = NULL;
	int n = scandir(folder, &names, NULL, alphasort);
	size_t at = 0;

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		char path[512], target[512] = "";

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		/* The folder's own descriptor is gone by now: no target. */
		if (readlink(path, target, sizeof(target) - 1) >= 0)
			at += (size_t)snprintf(out + at, room - at, "%s %s\n", names[i]->d_name,
					       target);
		assert_true(at < room);
		free(names[i]);
	}
	free(names);
}

static inline int count_entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* One line of /proc/self/status, without its name; -1 when it has no number. */
static inline long self_status(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[512];
	long v = -1;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtol(line + strlen(key), NULL, 10);
	fclose(f);
	return v;
}

/* Runs a test in a process of its own, which may ruin itself. It answers 0, or the
 * line where it went wrong. */
static inline void in_child(int (*test)(void))
{
	pid_t pid = fork();
	int status = -1;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		_exit(test() ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* For in_child(): asserts of cmocka belong to the parent. fd 9 is a copy of stderr. */
#define CHILD_CHECK(x)                                                                       \
	do {                                                                                 \
		if (!(x)) {                                                                  \
			dprintf(9, "# line %d: %s (errno %d)\n", __LINE__, #x, errno);        \
			return 1;                                                            \
		}                                                                            \
	} while (0)

#endif
