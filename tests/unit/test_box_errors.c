/*
 * test_box_errors.c - requests and policies that cannot be met: each has its own code,
 * errno, stage, sentence and hint
 */
#include "box_run.h"

#include <sys/socket.h>
#include <sys/un.h>

static char scratch[64];

static void make_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(snprintf(a.sun_path, sizeof(a.sun_path), "%s", path) < (int)sizeof(a.sun_path));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	close(fd);
}

struct failure {
	const char *name;
	void (*change)(struct nsbox_run *run);
	int code, os_errno;
	const char *stage, *message, *hint; /* parts; NULL: any */
};

static void no_command(struct nsbox_run *r) { r->argv = NULL; }
static const char *const no_words[] = { NULL };
static const char *const empty_word[] = { "", NULL };
static void empty_list(struct nsbox_run *r) { r->argv = no_words; }
static void empty_name(struct nsbox_run *r) { r->argv = empty_word; }
static void unknown_flag(struct nsbox_run *r) { r->flags = 1U << 31; }
static void reserved_flag(struct nsbox_run *r) { r->flags = 16; }
static void cwd_relative(struct nsbox_run *r) { r->cwd = "here"; }
static void cwd_empty(struct nsbox_run *r) { r->cwd = ""; }
static void cwd_missing(struct nsbox_run *r) { r->cwd = "/no-such-folder"; }
static void cwd_file(struct nsbox_run *r) { r->cwd = "/etc/passwd"; }
static void timeout_huge(struct nsbox_run *r) { r->timeout_ms = UINT64_MAX; }
static void code_alone(struct nsbox_run *r) { r->code = "1"; }
static void file_alone(struct nsbox_run *r) { r->file = "/etc/passwd"; }
static void project_alone(struct nsbox_run *r) { r->project = "/etc"; }
static void interpreter_alone(struct nsbox_run *r) { r->interpreter = "/bin/sh"; }
static void language_alone(struct nsbox_run *r) { r->argv = NULL, r->language = "python"; }
static void code_and_file(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "python", r->code = "1", r->file = "/etc/passwd";
}
static void language_unknown(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "cobol", r->code = "1";
}
static void language_empty(struct nsbox_run *r) { r->argv = NULL, r->language = "", r->code = "1"; }
static void file_missing(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "python", r->file = "/no-such.py";
}
static void file_is_folder(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "python", r->file = "/etc";
}
static void project_missing(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "python", r->code = "1", r->project = "/no-such-project";
}
static void project_is_file(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "python", r->code = "1", r->project = "/etc/passwd";
}
static void interpreter_missing(struct nsbox_run *r)
{
	r->argv = NULL, r->language = "python", r->code = "1", r->interpreter = "/no-such-python";
}
static void io_unknown(struct nsbox_run *r) { r->out = 9; }
static void io_negative(struct nsbox_run *r) { r->in = -1; }
static void fd_closed(struct nsbox_run *r) { r->out = NSBOX_IO_FD, r->out_fd = 987; }
static void fd_minus_one(struct nsbox_run *r) { r->err = NSBOX_IO_FD, r->err_fd = -1; }
static void in_fd_closed(struct nsbox_run *r) { r->in = NSBOX_IO_FD, r->in_fd = 987; }
static void relay_closed(struct nsbox_run *r) { r->out = NSBOX_IO_RELAY, r->out_fd = 987; }
static void relay_minus_one(struct nsbox_run *r) { r->out = NSBOX_IO_RELAY, r->out_fd = -1; }
static void relay_in_minus_one(struct nsbox_run *r) { r->in = NSBOX_IO_RELAY, r->in_fd = -1; }
static int read_only_fd = -1, write_only_fd = -1, folder_fd = -1, place_fd = -1;
static void relay_to_unwritable(struct nsbox_run *r) { r->err = NSBOX_IO_RELAY, r->err_fd = read_only_fd; }
static void relay_from_unreadable(struct nsbox_run *r) { r->in = NSBOX_IO_RELAY, r->in_fd = write_only_fd; }
static void tty_and_fd(struct nsbox_run *r) { r->flags = NSBOX_RUN_TTY, r->out = NSBOX_IO_FD, r->out_fd = 1; }
static void tty_and_unknown(struct nsbox_run *r) { r->flags = NSBOX_RUN_TTY, r->out = 9; }
static void tty_relay_closed(struct nsbox_run *r)
{
	r->flags = NSBOX_RUN_TTY, r->out = NSBOX_IO_RELAY, r->out_fd = 987;
}
static void tty_too_large(struct nsbox_run *r) { r->flags = NSBOX_RUN_TTY, r->tty_rows = 70000; }
static void artifacts_below_file(struct nsbox_run *r) { r->artifacts_dir = "/etc/passwd/out"; }
static void artifacts_empty(struct nsbox_run *r) { r->artifacts_dir = ""; }
static const char *const no_sign[] = { "A=1", "a secret", NULL };
static const char *const no_name[] = { "=value", NULL };
static void env_without_sign(struct nsbox_run *r) { r->env = no_sign; }
static void env_without_name(struct nsbox_run *r) { r->env = no_name; }
static char big[200 * 1024];
static const char *const with_big[] = { "true", big, NULL };
static void argument_too_large(struct nsbox_run *r) { r->argv = with_big; }
static void stdin_is_folder(struct nsbox_run *r) { r->in = NSBOX_IO_FD, r->in_fd = folder_fd; }
static void relay_from_folder(struct nsbox_run *r) { r->in = NSBOX_IO_RELAY, r->in_fd = folder_fd; }
static void stdout_is_a_place(struct nsbox_run *r) { r->out = NSBOX_IO_FD, r->out_fd = place_fd; }

static const struct failure failures[] = {
	{ "no command", no_command, NSBOX_E_USAGE, 0, NULL, "no command", NULL },
	{ "empty list", empty_list, NSBOX_E_USAGE, 0, NULL, "no command", NULL },
	{ "empty name", empty_name, NSBOX_E_USAGE, 0, NULL, "empty", NULL },
	{ "unknown flag", unknown_flag, NSBOX_E_USAGE, 0, "", "0x80000000", NULL },
	{ "reserved flag", reserved_flag, NSBOX_E_USAGE, 0, "", "0x10", NULL },
	{ "cwd relative", cwd_relative, NSBOX_E_USAGE, 0, NULL, "here", NULL },
	{ "cwd empty", cwd_empty, NSBOX_E_USAGE, 0, NULL, "not absolute", NULL },
	{ "cwd missing", cwd_missing, NSBOX_E_POLICY, ENOENT, "mounts", "/no-such-folder", "does not exist" },
	{ "cwd is a file", cwd_file, NSBOX_E_POLICY, ENOTDIR, "mounts", "/etc/passwd", "not a folder" },
	{ "timeout", timeout_huge, NSBOX_E_USAGE, 0, NULL, "timeout_ms", NULL },
	{ "code alone", code_alone, NSBOX_E_USAGE, 0, NULL, "need a language", NULL },
	{ "file alone", file_alone, NSBOX_E_USAGE, 0, NULL, "need a language", NULL },
	{ "project alone", project_alone, NSBOX_E_USAGE, 0, NULL, "need a language", NULL },
	{ "interpreter alone", interpreter_alone, NSBOX_E_USAGE, 0, NULL, "need a language", NULL },
	{ "language alone", language_alone, NSBOX_E_USAGE, 0, NULL, "either code or file", NULL },
	{ "code and file", code_and_file, NSBOX_E_USAGE, 0, NULL, "either code or file", NULL },
	{ "unknown language", language_unknown, NSBOX_E_USAGE, 0, "prepare", "cobol", "python" },
	{ "empty language", language_empty, NSBOX_E_USAGE, 0, "prepare", "language", "python" },
	{ "file missing", file_missing, NSBOX_E_USAGE, ENOENT, "prepare", "/no-such.py", "host" },
	{ "file is a folder", file_is_folder, NSBOX_E_USAGE, 0, "prepare", "not a regular file", NULL },
	{ "project missing", project_missing, NSBOX_E_USAGE, ENOENT, "prepare", "/no-such-project", "host" },
	{ "project is a file", project_is_file, NSBOX_E_USAGE, 0, "prepare", "not a folder", NULL },
	{ "interpreter missing", interpreter_missing, NSBOX_E_UNSUPPORTED, 0, "prepare", "/no-such-python", "path" },
	{ "unknown io", io_unknown, NSBOX_E_USAGE, 0, NULL, "9 is no enum nsbox_io", NULL },
	{ "negative io", io_negative, NSBOX_E_USAGE, 0, NULL, "-1 is no enum nsbox_io", NULL },
	{ "out_fd closed", fd_closed, NSBOX_E_USAGE, EBADF, NULL, "out_fd", NULL },
	{ "err_fd -1", fd_minus_one, NSBOX_E_USAGE, EBADF, NULL, "err_fd", NULL },
	{ "in_fd closed", in_fd_closed, NSBOX_E_USAGE, EBADF, NULL, "in_fd", NULL },
	{ "relay to a closed fd", relay_closed, NSBOX_E_USAGE, EBADF, NULL, "out_fd", NULL },
	{ "relay to -1", relay_minus_one, NSBOX_E_USAGE, EBADF, NULL, "out_fd", NULL },
	{ "relay from -1", relay_in_minus_one, NSBOX_E_USAGE, EBADF, NULL, "in_fd", NULL },
	{ "relay to a reader's fd", relay_to_unwritable, NSBOX_E_USAGE, EBADF, NULL, "err_fd", NULL },
	{ "relay from a writer's fd", relay_from_unreadable, NSBOX_E_USAGE, EBADF, NULL, "in_fd", NULL },
	{ "tty and fd", tty_and_fd, NSBOX_E_USAGE, 0, NULL, "NSBOX_IO_RELAY", NULL },
	{ "tty and unknown io", tty_and_unknown, NSBOX_E_USAGE, 0, NULL, "9 is no enum nsbox_io", NULL },
	{ "tty, relay closed", tty_relay_closed, NSBOX_E_USAGE, EBADF, NULL, "out_fd", NULL },
	{ "tty too large", tty_too_large, NSBOX_E_USAGE, 0, NULL, "70000", NULL },
	{ "artifacts below a file", artifacts_below_file, NSBOX_E_USAGE, ENOTDIR, NULL, "/etc/passwd/out", "folder" },
	{ "artifacts empty", artifacts_empty, NSBOX_E_USAGE, ENOENT, NULL, "artifact", NULL },
	{ "env without =", env_without_sign, NSBOX_E_USAGE, 0, NULL, "env[1] of the run is not NAME=VALUE", NULL },
	{ "env without name", env_without_name, NSBOX_E_USAGE, 0, NULL, "env[0] of the run is not NAME=VALUE", NULL },
	{ "stdin is a folder", stdin_is_folder, NSBOX_E_USAGE, EISDIR, NULL, "in_fd", NULL },
	{ "relay from a folder", relay_from_folder, NSBOX_E_USAGE, EISDIR, NULL, "in_fd", NULL },
	{ "stdout is O_PATH", stdout_is_a_place, NSBOX_E_USAGE, EBADF, NULL, "out_fd", NULL },
	{ "argument too large", argument_too_large, NSBOX_E_USAGE, E2BIG, "init", "command", "stdin" },
};

static void check_failure(struct nsbox_box *box, const struct failure *f)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(LIST("true"));
	struct nsbox_result *res = NULL;
	int r;

	f->change(&run);
	r = nsbox_box_run(box, &run, &res, &err);
	if (r != f->code || err.code != f->code || err.os_errno != f->os_errno ||
	    (f->stage && strcmp(err.stage, f->stage) != 0) || !strstr(err.message, f->message) ||
	    (f->hint && !strstr(err.hint, f->hint)) || res || strchr(err.message, '\n') ||
	    err.size != sizeof(err))
		fail_msg("%s: %d, errno %d at '%s': '%s' ('%s')", f->name, r, err.os_errno,
			 err.stage, err.message, err.hint);
	assert_int_equal(nsbox_box_fd(box), -1);
}

static void every_wrong_request_has_its_own_answer(void **state)
{
	struct nsbox_box *box = new_box(NULL, NULL);
	int before = count_entries("/proc/self/fd");

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	read_only_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	write_only_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	folder_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	place_fd = open("/dev/null", O_PATH | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		check_failure(box, &failures[i]);
	close(read_only_fd);
	close(write_only_fd);
	close(folder_fd);
	close(place_fd);
	assert_int_equal(count_entries("/proc/self/fd"), before);
	expect_out(result_of_sh(box, "echo still good"), "still good\n");
	nsbox_box_close(box);
}

/* The same requests planned only: what does not depend on the box fails alike. */
static void explain_refuses_what_a_run_refuses(void **state)
{
	static const char *const forms[] = { "plan", "explain", "json" };
	struct nsbox_box *box = new_box(NULL, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct nsbox_run run = command(LIST("true"));
		char *text = NULL;

		failures[i].change(&run);
		if (failures[i].code != NSBOX_E_USAGE || failures[i].os_errno == EBADF ||
		    failures[i].os_errno == EISDIR || failures[i].os_errno == E2BIG || run.artifacts_dir)
			continue; /* found while doing it */
		if (nsbox_box_explain(box, &run, forms[i % 3], &text, &err) != NSBOX_E_USAGE)
			fail_msg("%s: %s", failures[i].name, text ? text : err.message);
		assert_non_null(strstr(err.message, failures[i].message));
		assert_null(text);
	}
	nsbox_box_close(box);
}

static void a_policy_that_cannot_be_built_says_which_path(void **state)
{
	char path[100], bind[100];
	const char *const missing[] = { "fs.read", "/no-such-path", NULL };
	const char *const sock[] = { "fs.read", bind, NULL };
	const struct nsbox_run run = command(LIST("true"));
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *res = NULL;
	struct nsbox_box *box;

	(void)state;
	box = new_box(NULL, missing);
	assert_int_equal(nsbox_box_run(box, &run, &res, &err), NSBOX_E_POLICY);
	assert_int_equal(err.os_errno, ENOENT);
	assert_string_equal(err.stage, "prepare");
	assert_non_null(strstr(err.message, "/no-such-path"));
	nsbox_box_close(box);

	snprintf(path, sizeof(path), "%s/sock", scratch);
	memcpy(bind, path, sizeof(path));
	make_socket(path);
	box = new_box(NULL, sock);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(nsbox_box_run(box, &run, &res, &err), NSBOX_E_POLICY);
	assert_non_null(strstr(err.message, "socket"));
	assert_null(res);
	nsbox_box_close(box);
	unlink(path);
}

static void rules_that_cannot_hold_for_a_command_are_refused_before_it_runs(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_box *box = new_box(NULL, LIST("imports.allow", "os"));
	struct nsbox_run run = command(LIST("true"));
	struct nsbox_result *res = NULL;

	(void)state;
	assert_int_equal(nsbox_box_run(box, &run, &res, &err), NSBOX_E_UNSUPPORTED);
	assert_non_null(strstr(err.message, "imports.allow"));
	assert_true(err.hint[0] != '\0');
	assert_null(res);
	run = (struct nsbox_run)NSBOX_RUN_INIT; /* control: of a source they hold */
	run.language = "python";
	run.code = "import os";
	must(nsbox_box_run(box, &run, &res, &err), &err);
	assert_int_equal(nsbox_result_exit_code(res), 0);
	nsbox_result_free(res);
	nsbox_box_close(box);
}

/* ------------------------------------------------------------------------ main -- */

static int set_up(void **state)
{
	(void)state;
	snprintf(scratch, sizeof(scratch), "/tmp/nsbox-api.XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_request_has_its_own_answer),
		cmocka_unit_test(explain_refuses_what_a_run_refuses),
		cmocka_unit_test(a_policy_that_cannot_be_built_says_which_path),
		cmocka_unit_test(rules_that_cannot_hold_for_a_command_are_refused_before_it_runs),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
