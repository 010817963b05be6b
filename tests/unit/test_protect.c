/* Protected names: which mounts are planned, and what happens to placeholders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rootfs/protect.h"

static char dir[64];
static struct source host;
static struct nsbox_error err;
static struct plan_builder builder;
static struct view view;
static struct protect *protect;

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/nsbox-protect-XXXXXX");
	host = (struct source)SOURCE_INIT;
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	builder = (struct plan_builder){ 0 };
	view = (struct view){ 0 };
	protect = NULL;
	return !mkdtemp(dir) || source_open(&host, dir, &err) < 0;
}

static int finish(void **state)
{
	char cmd[128];

	(void)state;
	protect_release(protect);
	plan_builder_free(&builder);
	view_free(&view);
	source_close(&host);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static void shell(const char *text)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, text);
	assert_int_equal(system(cmd), 0);
}

static bool there(const char *name, struct stat *st)
{
	struct stat own;

	return fstatat(host.fd, name, st ? st : &own, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Names end with NULL. */
static int plan_names(struct protect **p, const char *const *names)
{
	const struct source_sink to = { .b = &builder, .view = &view, .stage = 7 };
	struct strlist list = { 0 };
	int rc;

	for (; *names; names++)
		strlist_add(&list, *names);
	rc = protect_folder(p, &to, &host, "/box", &list, &err);
	strlist_free(&list);
	return rc;
}
#define PLAN_NAMES(p, ...) plan_names(p, (const char *const[]){ __VA_ARGS__, NULL })

/* "KIND dst" of each operation, with "ro" or "rw" for binds, joined by "; ". */
static const char *planned(void)
{
	static char text[2048];
	size_t n = 0;
	struct plan *plan = plan_freeze(&builder, &err);

	assert_non_null(plan);
	text[0] = '\0';
	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan_ops(plan)[i];
		const char *how = op->kind != OP_BIND ? "" : op->flags & OP_RDONLY ? "ro " : "rw ";

		assert_int_equal(op->stage, 7);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s%s", i ? "; " : "",
				      op_name(op->kind), how, plan_str(plan, op->dst));
	}
	free(plan);
	return text;
}

static void what_exists_is_bound_read_only_and_its_folder_becomes_a_mount_point(void **state)
{
	(void)state;
	shell("mkdir -p .git/hooks && echo x >.git/config && echo y >.envrc");
	assert_int_equal(PLAN_NAMES(&protect, ".git/hooks", ".git/config", ".envrc"), 0);
	assert_string_equal(planned(), "BIND rw box/.git; BIND ro box/.git/hooks; "
				       "BIND ro box/.git/config; BIND ro box/.envrc");
	assert_int_equal(protect_arm(protect, &err), 0);
	protect_release(protect);
	protect = NULL;
	assert_true(there(".git/config", NULL) && there(".envrc", NULL)); /* untouched */
}

static void the_first_missing_part_is_what_gets_covered(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".git/hooks", ".git/config", ".envrc", ".husky/"), 0);
	for (size_t i = 0; i < builder.op_count; i++)
		assert_int_equal(builder.ops[i].flags, OP_MUST_EXIST);
	assert_string_equal(planned(), "MASK box/.git; MASK box/.envrc; MASK box/.husky");
	assert_false(there(".git", NULL)); /* planning changes nothing */
	assert_int_equal(protect_arm(protect, &err), 0);
	assert_true(there(".git", &st) && S_ISDIR(st.st_mode));
	assert_true(there(".envrc", &st) && S_ISDIR(st.st_mode));
	assert_true(there(".husky", &st) && S_ISDIR(st.st_mode));
	protect_release(protect);
	protect = NULL;
	assert_false(there(".git", NULL) || there(".envrc", NULL) || there(".husky", NULL));
}

/* Between mkdir and the time stamp, which another box sets a moment later. */
static void a_placeholder_that_is_just_being_made_is_shared(void **state)
{
	struct stat st;

	(void)state;
	shell("mkdir -m 1755 .git .idea && touch .idea/mine && mkdir .husky");
	assert_int_equal(PLAN_NAMES(&protect, ".git/hooks", ".idea", ".husky"), 0);
	assert_string_equal(planned(), "MASK box/.git; BIND ro box/.idea; BIND ro box/.husky");
	assert_int_equal(protect_arm(protect, &err), 0);
	protect_release(protect);
	protect = NULL;
	assert_false(there(".git", NULL)); /* empty, and nobody else's by now */
	assert_true(there(".idea/mine", NULL) && there(".husky", &st));
}

static void a_part_that_is_a_file_is_itself_protected(void **state)
{
	(void)state;
	shell("echo 'gitdir: /elsewhere' >.git"); /* a git worktree */
	assert_int_equal(PLAN_NAMES(&protect, ".git/hooks", ".git/config"), 0);
	assert_string_equal(planned(), "BIND ro box/.git");
}

static void a_name_inside_a_protected_one_is_not_opened_again(void **state)
{
	(void)state;
	shell("mkdir -p .git/hooks");
	assert_int_equal(PLAN_NAMES(&protect, ".git", ".git/hooks"), 0);
	assert_string_equal(planned(), "BIND ro box/.git");
}

static void a_symlink_is_refused_because_the_box_could_replace_it(void **state)
{
	(void)state;
	shell("mkdir real && ln -s real .vscode");
	assert_int_equal(PLAN_NAMES(&protect, "real"), 0); /* control */
	assert_int_equal(PLAN_NAMES(&protect, ".vscode"), NSBOX_E_POLICY);
	assert_true(strstr(err.message, "is a symlink") != NULL);
	assert_true(err.hint[0] != '\0');
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(PLAN_NAMES(&protect, ".vscode/tasks.json"), NSBOX_E_POLICY);
}

static void names_that_leave_the_folder_are_refused(void **state)
{
	static const char *const bad[] = { "/etc/passwd", "../x", "a/../../x", "", ".", "/" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct nsbox_error)NSBOX_ERROR_INIT;
		assert_int_equal(PLAN_NAMES(&protect, bad[i]), NSBOX_E_POLICY);
	}
}

static void a_placeholder_that_the_user_filled_meanwhile_stays(void **state)
{
	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".envrc", ".git/hooks", ".idea", ".mcp.json"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	shell("rmdir .envrc && echo mine >.envrc && echo mine >.git/HEAD && mkdir new && "
	      "rmdir .idea && mv new .idea");
	protect_release(protect);
	protect = NULL;
	assert_true(there(".envrc", NULL));
	assert_true(there(".git/HEAD", NULL));
	assert_true(there(".idea", NULL)); /* empty, but another one */
	assert_false(there(".mcp.json", NULL)); /* control */
}

static void two_boxes_share_a_placeholder_and_the_last_one_removes_it(void **state)
{
	struct protect *second = NULL;
	struct stat one, two;

	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".envrc", ".git/hooks"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	assert_true(there(".envrc", &one));
	assert_int_equal(PLAN_NAMES(&second, ".envrc", ".git/hooks"), 0);
	assert_int_equal(protect_arm(second, &err), 0);
	assert_true(there(".envrc", &two) && one.st_ino == two.st_ino);
	assert_string_equal(planned(), "MASK box/.envrc; MASK box/.git; MASK box/.envrc; "
				       "MASK box/.git");
	protect_release(protect);
	protect = NULL;
	assert_true(there(".envrc", NULL) && there(".git", NULL));
	protect_release(second);
	assert_false(there(".envrc", NULL) || there(".git", NULL));
}

static void a_name_that_appears_between_planning_and_arming_is_not_removed(void **state)
{
	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".envrc"), 0);
	shell("touch .envrc");
	assert_int_equal(protect_arm(protect, &err), NSBOX_E_BUSY);
	protect_release(protect);
	protect = NULL;
	assert_true(there(".envrc", NULL));
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(PLAN_NAMES(&protect, ".vscode"), 0);
	shell("mkdir .vscode");
	assert_int_equal(protect_arm(protect, &err), NSBOX_E_BUSY);
	protect_release(protect);
	protect = NULL;
	assert_true(there(".vscode", NULL));
}

static void git_in_the_folder_does_not_see_placeholders(void **state)
{
	(void)state;
	if (system("command -v git >/dev/null") != 0)
		skip();
	shell("git init -q . && touch seen");
	assert_int_equal(PLAN_NAMES(&protect, ".envrc", ".gitmodules", ".npmrc"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	shell("test \"$(git status --short 2>&1)\" = '?? seen'");
}

/* The guardian of a launcher, by its parent and name, once it has its name; 0: none. */
static pid_t guardian_of(pid_t launcher)
{
	char cmd[96];
	int pid = 0;

	snprintf(cmd, sizeof(cmd), "pgrep -x -P %d nsbox-guardian", (int)launcher);
	for (int i = 0; i < 20 && !pid; i++) {
		FILE *p = popen(cmd, "r");

		if (fscanf(p, "%d", &pid) != 1)
			pid = 0;
		pclose(p);
	}
	return pid;
}

static void wait_until_gone(const char *name)
{
	for (int i = 0; i < 300 && there(name, NULL); i++)
		usleep(10000);
}

/* A launcher in a process of its own: arms, says so, waits to be killed. */
static pid_t launch(struct protect **p)
{
	int ready[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (protect_arm(*p, &err) == 0)
			(void)!write(ready[1], "y", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void the_guardian_removes_placeholders_when_the_launcher_is_killed(void **state)
{
	pid_t pid;

	(void)state;
	shell("touch existing");
	assert_int_equal(PLAN_NAMES(&protect, ".envrc", ".git/hooks", "existing", ".idea"), 0);
	pid = launch(&protect);
	assert_true(there(".envrc", NULL) && there(".git", NULL) && there(".idea", NULL));
	shell("echo mine >.idea/workspace.xml");
	usleep(50000);
	assert_true(there(".envrc", NULL)); /* not before */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	wait_until_gone(".git");
	wait_until_gone(".envrc");
	assert_false(there(".envrc", NULL) || there(".git", NULL));
	assert_true(there("existing", NULL) && there(".idea", NULL));
}

static void the_guardian_takes_no_signal_that_ends_the_launcher(void **state)
{
	pid_t pid, guardian;

	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".envrc"), 0);
	pid = launch(&protect);
	guardian = guardian_of(pid);
	assert_true(guardian > 0);
	assert_int_equal(kill(guardian, SIGINT), 0);
	assert_int_equal(kill(guardian, SIGTERM), 0);
	assert_int_equal(kill(guardian, SIGHUP), 0);
	usleep(50000);
	assert_true(there(".envrc", NULL));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	wait_until_gone(".envrc");
	assert_false(there(".envrc", NULL));
}

static int descriptors_of(pid_t pid)
{
	char path[64];
	int n = -2;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static void the_guardian_holds_nothing_of_the_caller_and_is_no_child_to_wait_for(void **state)
{
	int leak = open("/etc/passwd", O_RDONLY); /* inheritable, high or low */
	pid_t pid;

	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".envrc", ".git/hooks"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	pid = guardian_of(getpid());
	assert_true(pid > 0);
	assert_int_equal(getsid(pid), pid);
	assert_int_equal(descriptors_of(pid), 4); /* pidfd, eventfd, two folders */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	protect_release(protect);
	protect = NULL;
	assert_int_equal(guardian_of(getpid()), 0);
	close(leak);
}

static void a_guardian_that_is_left_removes_them_while_the_launcher_lives_on(void **state)
{
	struct stat st;
	pid_t pid;

	(void)state;
	assert_int_equal(PLAN_NAMES(&protect, ".envrc"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	pid = guardian_of(getpid());
	assert_true(pid > 0);
	assert_true(there(".envrc", &st));
	protect_leave(protect);
	protect = NULL;
	for (int i = 0; i < 200 && there(".envrc", &st); i++)
		usleep(10000);
	assert_false(there(".envrc", &st));
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
	protect_leave(NULL);
}

static void with_nothing_missing_no_guardian_is_started(void **state)
{
	(void)state;
	shell("touch .envrc");
	assert_int_equal(PLAN_NAMES(&protect, ".envrc"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	assert_int_equal(guardian_of(getpid()), 0);
}

static void placeholders_made_by_root_belong_to_the_folders_owner(void **state)
{
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(dir, 12345, 12346), 0);
	assert_int_equal(PLAN_NAMES(&protect, ".envrc"), 0);
	assert_int_equal(protect_arm(protect, &err), 0);
	assert_true(there(".envrc", &st));
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 12346);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_exists_is_bound_read_only_and_its_folder_becomes_a_mount_point),
		CASE(the_first_missing_part_is_what_gets_covered),
		CASE(a_placeholder_that_is_just_being_made_is_shared),
		CASE(a_part_that_is_a_file_is_itself_protected),
		CASE(a_name_inside_a_protected_one_is_not_opened_again),
		CASE(a_symlink_is_refused_because_the_box_could_replace_it),
		CASE(names_that_leave_the_folder_are_refused),
		CASE(a_placeholder_that_the_user_filled_meanwhile_stays),
		CASE(two_boxes_share_a_placeholder_and_the_last_one_removes_it),
		CASE(a_name_that_appears_between_planning_and_arming_is_not_removed),
		CASE(git_in_the_folder_does_not_see_placeholders),
		CASE(the_guardian_removes_placeholders_when_the_launcher_is_killed),
		CASE(the_guardian_takes_no_signal_that_ends_the_launcher),
		CASE(the_guardian_holds_nothing_of_the_caller_and_is_no_child_to_wait_for),
		CASE(a_guardian_that_is_left_removes_them_while_the_launcher_lives_on),
		CASE(with_nothing_missing_no_guardian_is_started),
		CASE(placeholders_made_by_root_belong_to_the_folders_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
