/* nsbox_sweep(): what goes, what stays, and how a wrong call is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nsbox.h"
#include "rootfs/guardian.h"

static char dir[64];

static void shell(const char *text)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, text);
	assert_int_equal(system(cmd), 0);
}

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/nsbox-sweep-XXXXXX");
	return !mkdtemp(dir) || setenv("XDG_CACHE_HOME", dir, 1);
}

static int finish(void **state)
{
	(void)state;
	shell("rm -rf ../${PWD##*/}");
	return 0;
}

static bool there(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

static void make_placeholder(const char *name)
{
	const struct timespec times[2] = { { .tv_sec = PLACEHOLDER_MTIME },
					   { .tv_sec = PLACEHOLDER_MTIME } };
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(chmod(path, PLACEHOLDER_MODE), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* What the sweep of the folder says, as text; the rest of the host may add to it. */
static char *sweep(const struct nsbox_policy *policy, const char *form)
{
	const char *const folders[] = { dir, NULL };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *text = NULL;

	assert_in_range(nsbox_sweep(policy, folders, form, &text, &err), 0, 1);
	assert_non_null(text);
	return text;
}

static bool says(const char *text, const char *verb, const char *name)
{
	char line[256];

	snprintf(line, sizeof(line), "%s %s/%s\n", verb, dir, name);
	return strstr(text, line) != NULL;
}

static void placeholders_and_half_written_files_go(void **state)
{
	char *text;

	(void)state;
	make_placeholder(".envrc");
	make_placeholder("other");
	shell("mkdir -m 700 nsbox; mkdir .vscode; echo > .nsbox-0123456789abcdef; echo > .nsbox-notes;"
	      "n=interp-$(printf %064d 0); echo > nsbox/$n.12; echo > nsbox/$n");
	text = sweep(NULL, "text");
	assert_true(says(text, "removed placeholder", ".envrc"));
	assert_true(says(text, "removed file", ".nsbox-0123456789abcdef"));
	assert_false(there(".envrc") || there(".nsbox-0123456789abcdef"));
	assert_true(there("other") && there(".vscode") && there(".nsbox-notes"));
	shell("test $(ls nsbox | wc -l) = 1");
	free(text);
}

static void the_names_are_those_of_the_policy(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *policy = NULL;

	(void)state;
	make_placeholder("mine");
	make_placeholder(".envrc");
	assert_int_equal(nsbox_policy_new(&policy, NULL, &err), 0);
	assert_int_equal(nsbox_policy_set(policy, "fs.protect", "", &err), 0);
	assert_int_equal(nsbox_policy_set(policy, "fs.protect", "mine", &err), 0);
	free(sweep(policy, "json"));
	assert_false(there("mine"));
	assert_true(there(".envrc"));
	nsbox_policy_free(policy);
}

static void what_is_locked_is_in_use(void **state)
{
	char path[256], *text;
	int fd;

	(void)state;
	make_placeholder(".envrc");
	snprintf(path, sizeof(path), "%s/.envrc", dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	text = sweep(NULL, "text");
	assert_true(there(".envrc"));
	assert_false(says(text, "removed placeholder", ".envrc"));
	free(text);
	close(fd);
	free(sweep(NULL, "text"));
	assert_false(there(".envrc"));
}

static void links_are_not_followed(void **state)
{
	(void)state;
	shell("mkdir elsewhere; ln -s elsewhere .git; ln -s other .nsbox-0123456789abcdef; echo > other");
	make_placeholder("elsewhere/hooks");
	free(sweep(NULL, "text"));
	assert_true(there("elsewhere/hooks") && there("other"));
}

static void json_has_kind_and_path(void **state)
{
	char want[256], *text;

	(void)state;
	make_placeholder(".envrc");
	text = sweep(NULL, "json");
	snprintf(want, sizeof(want), "{\"kind\":\"placeholder\",\"path\":\"%s/.envrc\"}", dir);
	assert_memory_equal(text, "{\"schema\":\"nsbox.sweep/1\",", 26);
	assert_non_null(strstr(text, want));
	free(text);
}

static void a_wrong_call_is_an_error(void **state)
{
	const char *const none[] = { "/nsbox-no-such-folder", NULL };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *text = NULL;

	(void)state;
	assert_int_equal(nsbox_sweep(NULL, NULL, "xml", &text, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_sweep(NULL, NULL, "text", NULL, &err), NSBOX_E_USAGE);
	assert_int_equal(nsbox_sweep(NULL, none, "text", &text, &err), NSBOX_E_USAGE);
	assert_non_null(strstr(err.message, "/nsbox-no-such-folder"));
	assert_true(err.hint[0]);
	assert_null(text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(placeholders_and_half_written_files_go),
		CASE(the_names_are_those_of_the_policy),
		CASE(what_is_locked_is_in_use),
		CASE(links_are_not_followed),
		CASE(json_has_kind_and_path),
		CASE(a_wrong_call_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
