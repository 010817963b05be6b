/*
 * Interpreter discovery against layouts made here: system, venv, alias links, shims,
 * private homes, and what is remembered between calls.
 */
#include "tests/unit/interp_dirs.h"

static bool has_link(const char *path, const char *target)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s\t%s", path, target);
	return strlist_has(&found.links, text);
}

static bool sees(const char *path)
{
	for (size_t i = 0; i < found.trees.n; i++)
		if (path_below(path, found.trees.v[i]))
			return true;
	return false;
}

/* A box of links and folders, as the view makes it, must start the program: here a
 * chroot-free check of the same thing, that every tree is there and inside base. */
static void assert_trees_inside(const char *root)
{
	for (size_t i = 0; i < found.trees.n; i++)
		assert_non_null(path_below(found.trees.v[i], root));
}

static void the_systems_python_needs_no_tree(void **state)
{
	(void)state;
	assert_int_equal(find("python", NULL, SYSTEM_PATH), 0);
	assert_string_equal(found.language, "python");
	assert_string_equal(found.program, "/usr/bin/python3");
	assert_true(path_is_system(found.real));
	assert_int_equal(found.trees.n, 0);
	assert_int_equal(found.links.n, 0);
	assert_true(found.module_path.n >= 3);
	assert_int_equal(strncmp(found.version, "3.", 2), 0);
	for (size_t i = 0; i < found.module_path.n; i++)
		assert_true(path_is_system(found.module_path.v[i]));
}

static void node_and_bash_are_found_with_their_versions(void **state)
{
	(void)state;
	assert_int_equal(find("bash", NULL, SYSTEM_PATH), 0);
	assert_string_equal(found.program, "/usr/bin/bash");
	assert_int_equal(found.trees.n, 0);
	assert_true(found.version[0] >= '4' && found.version[0] <= '9');
	if (access("/usr/bin/node", X_OK) < 0)
		skip();
	assert_int_equal(find("javascript", NULL, SYSTEM_PATH), 0);
	assert_string_equal(found.program, "/usr/bin/node");
	assert_int_equal(found.trees.n, 0);
}

static void a_venv_keeps_its_own_program_and_shows_only_itself(void **state)
{
	(void)state;
	make_venv(in("home/proj/venv"));
	run("echo secret > %s/home/secret", base);
	assert_int_equal(find("python", in("home/proj/venv/bin/python"), SYSTEM_PATH), 0);
	assert_string_equal(found.program, in("home/proj/venv/bin/python"));
	assert_true(path_is_system(found.real));
	assert_int_equal(found.trees.n, 1);
	assert_string_equal(found.trees.v[0], in("home/proj/venv"));
	assert_int_equal(found.links.n, 0);
	assert_false(sees(in("home/secret")));
	assert_true(strlist_has(&found.module_path,
				in("home/proj/venv/lib/python%.*s/site-packages",
				   (int)strcspn(found.version + 2, ".") + 2, found.version)));
}

static void a_venv_on_path_is_found_first(void **state)
{
	char path[512];

	(void)state;
	make_venv(in("v"));
	snprintf(path, sizeof(path), "%s:%s", in("v/bin"), SYSTEM_PATH);
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("v/bin/python3"));
}

static void an_alias_folder_on_the_way_becomes_a_link(void **state)
{
	(void)state;
	make_venv(in("real/venv"));
	run("ln -s real %s/alias && ln -s %s/alias/venv %s/current", base, base, base);
	assert_int_equal(find("python", in("current/bin/python3"), SYSTEM_PATH), 0);
	assert_string_equal(found.program, in("current/bin/python3"));
	assert_int_equal(found.trees.n, 1);
	assert_string_equal(found.trees.v[0], in("real/venv"));
	assert_true(has_link(in("current"), in("alias/venv")));
	assert_true(has_link(in("alias"), "real"));
	assert_int_equal(found.links.n, 2);
}

/* uv: a venv whose python is a link through a "minor version" alias of an install. */
static void a_base_install_behind_an_alias_is_visible_with_the_venv(void **state)
{
	(void)state;
	run("mkdir -p %s/uv/cpython-3.x.y/bin %s/venv/bin %s/venv/lib && "
	    "ln -s cpython-3.x.y %s/uv/cpython-3.x && "
	    "cp /usr/bin/python3 %s/uv/cpython-3.x.y/bin/python3.real && "
	    "ln -s %s/uv/cpython-3.x/bin/python3.real %s/venv/bin/python3",
	    base, base, base, base, base, base, base);
	run("printf 'home = %s/uv/cpython-3.x/bin\\nversion = 3\\n' > %s/venv/pyvenv.cfg", base,
	    base);
	assert_int_equal(find("python", in("venv/bin/python3"), SYSTEM_PATH), 0);
	assert_string_equal(found.program, in("venv/bin/python3"));
	assert_string_equal(found.real, in("uv/cpython-3.x.y/bin/python3.real"));
	assert_true(sees(in("venv/bin/python3")));
	assert_true(sees(in("uv/cpython-3.x.y/bin/python3.real")));
	assert_true(has_link(in("uv/cpython-3.x"), "cpython-3.x.y"));
	assert_false(sees(in("uv/other")));
	assert_trees_inside(base);
}

static void make_shim(const char *log, const char *target)
{
	char text[1024];

	run("mkdir -p %s/shims", base);
	snprintf(text, sizeof(text),
		 "#!/bin/sh\necho asked >> %s\n[ -f .python-version ] && read v < .python-version\n"
		 "[ -n \"$PYENV_VERSION\" ] && v=$PYENV_VERSION\n"
		 "exec %s/${v:-one}/bin/python3 \"$@\"\n",
		 log, target);
	write_script(in("shims/python3"), text);
}

static void a_shim_is_asked_once_and_the_second_call_starts_nothing(void **state)
{
	char path[512], log[128];

	(void)state;
	snprintf(log, sizeof(log), "%s", in("log"));
	make_venv(in("versions/one"));
	make_shim(log, in("versions"));
	snprintf(path, sizeof(path), "%s:%s", in("shims"), SYSTEM_PATH);
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("versions/one/bin/python3"));
	assert_false(sees(in("shims/python3")));
	assert_int_equal(lines_of(log), 1);
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("versions/one/bin/python3"));
	assert_true(sees(in("versions/one/bin/python3")));
	assert_true(found.module_path.n > 0);
	assert_int_equal(lines_of(log), 1);
}

static void a_shim_is_asked_again_when_folder_environment_or_file_changed(void **state)
{
	char path[512], log[128];

	(void)state;
	snprintf(log, sizeof(log), "%s", in("log"));
	make_venv(in("versions/one"));
	make_venv(in("versions/two"));
	make_shim(log, in("versions"));
	snprintf(path, sizeof(path), "%s:%s", in("shims"), SYSTEM_PATH);
	run("mkdir %s/proj", base);
	assert_int_equal(chdir(in("proj")), 0);
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("versions/one/bin/python3"));

	run("echo two > %s/proj/.python-version", base); /* was absent: a dependency too */
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("versions/two/bin/python3"));

	setenv("PYENV_VERSION", "one", 1);
	assert_int_equal(find("python", NULL, path), 0);
	unsetenv("PYENV_VERSION");
	assert_string_equal(found.program, in("versions/one/bin/python3"));
	assert_int_equal(lines_of(log), 3);

	assert_int_equal(chdir("/"), 0);
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("versions/one/bin/python3"));
	assert_int_equal(lines_of(log), 4);

	assert_int_equal(chdir(in("proj")), 0); /* both old answers still hold */
	assert_int_equal(find("python", NULL, path), 0);
	assert_string_equal(found.program, in("versions/two/bin/python3"));
	assert_int_equal(lines_of(log), 4);
}

static void an_editable_install_elsewhere_stays_invisible(void **state)
{
	char site[512];

	(void)state;
	make_venv(in("v"));
	run("mkdir -p %s/elsewhere/src", base);
	assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
	snprintf(site, sizeof(site), "%s/v/lib/python%.*s/site-packages", base,
		 (int)strcspn(found.version + 2, ".") + 2, found.version);
	run("echo %s/elsewhere/src > %s/e.pth", base, site);
	assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
	assert_false(sees(in("elsewhere/src")));
	assert_false(strlist_has(&found.module_path, in("elsewhere/src")));
}

static void a_prefix_that_is_the_home_folder_is_refused(void **state)
{
	(void)state;
	make_venv(base); /* HOME */
	assert_int_equal(find("python", in("bin/python3"), SYSTEM_PATH), NSBOX_E_UNSUPPORTED);
	assert_true(strstr(err.message, "must not see all of that") != NULL);
	assert_true(strstr(err.hint, "virtual environment") != NULL);
	assert_null(found.program);
}

static void a_node_in_nvm_shows_its_version_and_one_in_local_bin_only_itself(void **state)
{
	(void)state;
	if (access("/usr/bin/node", X_OK) < 0)
		skip();
	run("mkdir -p %s/.nvm/versions/node/v1/bin %s/.local/bin", base, base);
	run("cp /usr/bin/node %s/.nvm/versions/node/v1/bin/node && "
	    "cp -l %s/.nvm/versions/node/v1/bin/node %s/.local/bin/node",
	    base, base, base);
	assert_int_equal(find("javascript", NULL, in(".nvm/versions/node/v1/bin")), 0);
	assert_string_equal(found.program, in(".nvm/versions/node/v1/bin/node"));
	assert_int_equal(found.trees.n, 1);
	assert_string_equal(found.trees.v[0], in(".nvm/versions/node/v1"));
	assert_int_equal(find("javascript", NULL, in(".local/bin")), 0);
	assert_int_equal(found.trees.n, 1);
	assert_string_equal(found.trees.v[0], in(".local/bin/node"));
}

static void relative_folders_on_path_are_not_looked_in(void **state)
{
	(void)state;
	write_script(in("python3"), "#!/bin/sh\ntouch ran\nexec /usr/bin/python3 \"$@\"\n");
	assert_int_equal(chdir(base), 0);
	assert_int_equal(find("python", NULL, ".:" SYSTEM_PATH), 0);
	assert_string_equal(found.program, "/usr/bin/python3");
	assert_int_equal(find("python", NULL, ":" SYSTEM_PATH), 0);
	assert_int_equal(access(in("ran"), F_OK), -1);
	assert_int_equal(find("python", "./python3", SYSTEM_PATH), 0); /* control: when named */
	assert_int_equal(access(in("ran"), F_OK), 0);
}

static void what_cannot_be_found_or_run_is_said(void **state)
{
	(void)state;
	assert_int_equal(find("cobol", NULL, SYSTEM_PATH), NSBOX_E_USAGE);
	assert_int_equal(find("python", NULL, "/nowhere"), NSBOX_E_UNSUPPORTED);
	assert_true(strstr(err.message, "no python3 on PATH") != NULL);
	assert_int_equal(find("python", "/etc/passwd", SYSTEM_PATH), NSBOX_E_UNSUPPORTED);
	assert_int_equal(find("python", "/etc", SYSTEM_PATH), NSBOX_E_UNSUPPORTED);
	write_script(in("bad"), "#!/bin/sh\necho no version 9 here >&2\nexit 1\n");
	assert_int_equal(find("python", in("bad"), SYSTEM_PATH), NSBOX_E_UNSUPPORTED);
	assert_true(strstr(err.message, "no version 9 here") != NULL);
}

static void a_probe_that_floods_or_leaves_children_ends_with_its_group(void **state)
{
	struct timespec a, b;

	(void)state;
	write_script(in("flood"), "#!/bin/sh\nsleep 97531 &\nexec yes\n");
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(find("python", in("flood"), SYSTEM_PATH), NSBOX_E_UNSUPPORTED);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(b.tv_sec - a.tv_sec < 9);
	usleep(100000);
	assert_int_not_equal(system("pgrep -f 'sleep 97531$' >/dev/null"), 0);
}

static void a_probe_that_hangs_ends_after_ten_seconds(void **state)
{
	struct timespec a, b;

	(void)state;
	write_script(in("hang"), "#!/bin/sh\nsleep 86420\n");
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(find("python", in("hang"), SYSTEM_PATH), NSBOX_E_UNSUPPORTED);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_in_range(b.tv_sec - a.tv_sec, 9, 12);
	assert_true(strstr(err.message, "no answer within 10 s") != NULL);
}

static void a_remembered_answer_that_others_could_write_is_not_read(void **state)
{
	char path[512], log[128];

	(void)state;
	snprintf(log, sizeof(log), "%s", in("log"));
	make_venv(in("versions/one"));
	make_shim(log, in("versions"));
	snprintf(path, sizeof(path), "%s:%s", in("shims"), SYSTEM_PATH);
	assert_int_equal(find("python", NULL, path), 0);
	run("test $(stat -c %%a %s) = 700; test $(stat -c %%a %s/interp-*) = 600", cache, cache);
	run("chmod 666 %s/interp-*", cache);
	assert_int_equal(find("python", NULL, path), 0);
	assert_int_equal(lines_of(log), 2); /* asked again, and replaced */
	run("test $(stat -c %%a %s/interp-*) = 600", cache);
	assert_int_equal(find("python", NULL, path), 0);
	assert_int_equal(lines_of(log), 2);
	run("chmod 777 %s", cache);
	assert_int_equal(find("python", NULL, path), 0);
	assert_int_equal(lines_of(log), 3);
	if (geteuid() != 0)
		return;
	run("chmod 700 %s && chown 12345 %s/interp-*", cache, cache);
	assert_int_equal(find("python", NULL, path), 0);
	assert_int_equal(lines_of(log), 4);
}

static void a_damaged_answer_is_asked_for_again(void **state)
{
	char path[512], log[128];

	(void)state;
	snprintf(log, sizeof(log), "%s", in("log"));
	make_venv(in("versions/one"));
	make_shim(log, in("versions"));
	snprintf(path, sizeof(path), "%s:%s", in("shims"), SYSTEM_PATH);
	assert_int_equal(find("python", NULL, path), 0);
	run("truncate -s -5 %s/interp-*", cache);
	assert_int_equal(find("python", NULL, path), 0);
	assert_int_equal(lines_of(log), 2);
	run("truncate -s 0 %s/interp-*", cache);
	assert_int_equal(find("python", NULL, path), 0);
	assert_int_equal(lines_of(log), 3);
	assert_string_equal(found.program, in("versions/one/bin/python3"));
}

static void a_folder_named_oddly_survives_the_cache(void **state)
{
	char program[512];

	(void)state;
	run("mkdir -p \"%s/a b\nc=d\"", base);
	snprintf(program, sizeof(program), "%s/a b\nc=d/v/bin/python3", base);
	run("/usr/bin/python3 -m venv --without-pip \"%s/a b\nc=d/v\"", base);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(find("python", program, SYSTEM_PATH), 0);
		assert_string_equal(found.program, program);
		assert_int_equal(found.trees.n, 1);
		assert_string_equal(found.trees.v[0], in("a b\nc=d/v"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_systems_python_needs_no_tree),
		CASE(node_and_bash_are_found_with_their_versions),
		CASE(a_venv_keeps_its_own_program_and_shows_only_itself),
		CASE(a_venv_on_path_is_found_first),
		CASE(an_alias_folder_on_the_way_becomes_a_link),
		CASE(a_base_install_behind_an_alias_is_visible_with_the_venv),
		CASE(a_shim_is_asked_once_and_the_second_call_starts_nothing),
		CASE(a_shim_is_asked_again_when_folder_environment_or_file_changed),
		CASE(an_editable_install_elsewhere_stays_invisible),
		CASE(a_prefix_that_is_the_home_folder_is_refused),
		CASE(a_node_in_nvm_shows_its_version_and_one_in_local_bin_only_itself),
		CASE(relative_folders_on_path_are_not_looked_in),
		CASE(what_cannot_be_found_or_run_is_said),
		CASE(a_probe_that_floods_or_leaves_children_ends_with_its_group),
		CASE(a_probe_that_hangs_ends_after_ten_seconds),
		CASE(a_remembered_answer_that_others_could_write_is_not_read),
		CASE(a_damaged_answer_is_asked_for_again),
		CASE(a_folder_named_oddly_survives_the_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
