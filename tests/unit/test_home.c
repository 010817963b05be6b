/* fs.protect_home: which names of the caller's home a writable folder holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rootfs/home.h"

static char dir[PATH_MAX], home[PATH_MAX + 8];
static struct source host;
static struct nsbox_error err;
static struct strlist wanted, paths, got;

static int begin(void **state)
{
	char made[] = "/tmp/nsbox-home-XXXXXX";

	(void)state;
	host = (struct source)SOURCE_INIT;
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	wanted = paths = got = (struct strlist){ 0 };
	unsetenv("XDG_CACHE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	if (!mkdtemp(made) || !realpath(made, dir))
		return -1;
	snprintf(home, sizeof(home), "%s/home", dir);
	return mkdir(home, 0700) < 0 || setenv("HOME", home, 1) < 0;
}

static int finish(void **state)
{
	char cmd[PATH_MAX + 16];

	(void)state;
	source_close(&host);
	strlist_free(&wanted);
	strlist_free(&paths);
	strlist_free(&got);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static void shell(const char *text)
{
	char cmd[PATH_MAX + 512];

	snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, text);
	assert_int_equal(system(cmd), 0);
}

static const char *below(const char *name)
{
	static char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* What of the names (they end with NULL) folder @name holds, joined by blanks. */
static int protect(const char *name, const char *const *names)
{
	strlist_free(&wanted);
	strlist_free(&paths);
	strlist_free(&got);
	source_close(&host);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	for (; *names; names++)
		assert_int_equal(strlist_add(&wanted, *names), 0);
	assert_int_equal(source_open(&host, below(name), &err), 0);
	assert_int_equal(home_paths(&paths, &wanted, &err), 0);
	return home_protect(&got, &host, &paths, &err);
}
#define PROTECT(name, ...) protect(name, (const char *const[]){ __VA_ARGS__, NULL })

static const char *held(void)
{
	static char text[1024];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < got.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", got.v[i]);
	return text;
}

static void a_project_in_the_home_holds_none_of_its_names(void **state)
{
	(void)state;
	shell("mkdir -p home/project");
	assert_int_equal(PROTECT("home/project", ".bashrc", ".cache/nsbox", ".ssh"), 0);
	assert_string_equal(held(), "");
}

static void the_home_the_folder_above_and_the_folder_on_the_way_hold_them(void **state)
{
	(void)state;
	shell("mkdir -p home/.cache");
	assert_int_equal(PROTECT("home", ".bashrc", ".cache/nsbox", ".ssh"), 0);
	assert_string_equal(held(), ".bashrc .cache/nsbox .ssh");
	assert_int_equal(PROTECT("", ".bashrc", ".cache/nsbox"), 0);
	assert_string_equal(held(), "home/.bashrc home/.cache/nsbox");
	assert_int_equal(PROTECT("home/.cache", ".bashrc", ".cache/nsbox"), 0);
	assert_string_equal(held(), "nsbox");
}

static void the_protected_thing_itself_is_refused_and_what_lies_in_it(void **state)
{
	static const char *const refused[] = { "home/.cache/nsbox", "home/.cache/nsbox/policy",
					       "home/.bashrc" };

	(void)state;
	shell("mkdir -p home/.cache/nsbox/policy home/.cache/nsbox2 && touch home/.bashrc home/x");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(PROTECT(refused[i], ".cache/nsbox", ".bashrc"), NSBOX_E_POLICY);
		assert_non_null(strstr(err.message, "fs.protect_home"));
		assert_non_null(strstr(err.message, refused[i]));
		assert_true(err.hint[0] != '\0');
	}
	assert_int_equal(PROTECT("home/.cache/nsbox2", ".cache/nsbox", ".bashrc"), 0);
	assert_int_equal(PROTECT("home/x", ".cache/nsbox", ".bashrc"), 0);
}

static void a_hard_link_to_a_protected_file_is_refused(void **state)
{
	(void)state;
	shell("touch home/.bashrc && mkdir other && ln home/.bashrc other/innocent && touch other/x");
	assert_int_equal(PROTECT("other/x", ".bashrc"), 0);
	assert_int_equal(PROTECT("other/innocent", ".bashrc"), NSBOX_E_POLICY);
}

static void xdg_variables_move_the_cache_and_the_settings(void **state)
{
	(void)state;
	shell("mkdir -p c/x s home/.cache/nsbox");
	setenv("XDG_CACHE_HOME", below("c/x"), 1);
	setenv("XDG_CONFIG_HOME", below("s"), 1);
	assert_int_equal(PROTECT("c", ".cache/nsbox", ".config/nsbox"), 0);
	assert_string_equal(held(), "x/nsbox");
	assert_int_equal(PROTECT("s", ".cache/nsbox", ".config/nsbox"), 0);
	assert_string_equal(held(), "nsbox");
	assert_int_equal(PROTECT("home/.cache", ".cache/nsbox"), 0);
	assert_string_equal(held(), "nsbox"); /* another run may have no variable */
	setenv("XDG_CACHE_HOME", "c/x", 1); /* relative: not one */
	assert_int_equal(PROTECT("c", ".cache/nsbox"), 0);
	assert_string_equal(held(), "");
}

static void links_on_the_way_do_not_lead_around_it(void **state)
{
	(void)state;
	shell("mkdir -p far/cache dotfiles && ln -s ../far/cache home/.cache && "
	      "touch dotfiles/rc && ln -s ../dotfiles/rc home/.bashrc && ln -s home alias");
	assert_int_equal(PROTECT("far/cache", ".cache/nsbox"), 0);
	assert_string_equal(held(), "nsbox");
	assert_int_equal(PROTECT("far", ".cache/nsbox"), 0);
	assert_string_equal(held(), "cache/nsbox");
	assert_int_equal(PROTECT("dotfiles", ".bashrc"), 0);
	assert_string_equal(held(), "rc");
	setenv("HOME", below("alias"), 1);
	assert_int_equal(PROTECT("home", ".ssh"), 0);
	assert_string_equal(held(), ".ssh");
}

static void a_home_that_is_not_there_is_no_error(void **state)
{
	(void)state;
	shell("mkdir project");
	setenv("HOME", below("nowhere"), 1);
	assert_int_equal(PROTECT("project", ".ssh", ".cache/nsbox"), 0);
	assert_string_equal(held(), "");
	unsetenv("HOME");
	assert_int_equal(PROTECT("project", ".ssh", ".cache/nsbox"), 0);
	assert_string_equal(held(), "");
}

static void the_home_of_the_account_counts_whatever_HOME_says(void **state)
{
	bool found = false;
	char own[512];

	(void)state;
	snprintf(own, sizeof(own), "getent passwd %u | cut -d: -f6 | grep -qx /root", geteuid());
	if (system(own) != 0)
		skip();
	assert_int_equal(PROTECT("home", ".ssh"), 0);
	for (size_t i = 0; i < paths.n; i++)
		found = found || strcmp(paths.v[i], "/root/.ssh") == 0;
	assert_true(found);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_project_in_the_home_holds_none_of_its_names),
		CASE(the_home_the_folder_above_and_the_folder_on_the_way_hold_them),
		CASE(the_protected_thing_itself_is_refused_and_what_lies_in_it),
		CASE(a_hard_link_to_a_protected_file_is_refused),
		CASE(xdg_variables_move_the_cache_and_the_settings),
		CASE(links_on_the_way_do_not_lead_around_it),
		CASE(a_home_that_is_not_there_is_no_error),
		CASE(the_home_of_the_account_counts_whatever_HOME_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
