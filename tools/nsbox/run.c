/* SPDX-License-Identifier: Apache-2.0 */
/* See run.h. Runs in the command. */
#include "tools/nsbox/run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tools/nsbox/envfile.h"
#include "tools/nsbox/layers.h"
#include "tools/nsbox/paths.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"
#include "tools/nsbox/watch.h"

/* Everything that one request owns until the process ends. */
struct request {
	char *workdir, *interpreter, *project, *artifacts;
	struct envfile env;
	struct nsbox_policy *policy;
	struct nsbox_box *box;
	struct nsbox_result *result;
};

static void request_free(struct request *q)
{
	nsbox_result_free(q->result);
	nsbox_box_close(q->box);
	nsbox_policy_free(q->policy);
	envfile_free(&q->env);
	free(q->workdir);
	free(q->interpreter);
	free(q->project);
	free(q->artifacts);
}

static enum nsbox_tier tier_of(const char *name)
{
	struct nsbox_tier_info info;

	for (size_t i = 0; name && nsbox_tier_info(i, &info) == 0; i++) {
		if (strcmp(info.name, name) == 0)
			return (enum nsbox_tier)info.tier;
	}
	return NSBOX_TIER_LOCAL; /* args.c let no other name through */
}

static int check_status_fd(int fd, struct nsbox_error *err)
{
	if (fd < 0)
		return 0;
	if (fcntl(fd, F_GETFD) < 0) {
		cli_hint(err, "open it in the shell, as in --status-fd 3 3>status.json");
		return cli_fail(err, NSBOX_E_USAGE, "descriptor %d of --status-fd is not open", fd);
	}
	return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? cli_fail_errno(err, "keep descriptor %d", fd) :
						    0;
}

static int fill_paths(struct request *q, const struct args *a, struct nsbox_run *run,
		      struct nsbox_error *err)
{
	int r = 0;

	if (a->workdir)
		r = path_absolute(&q->workdir, a->workdir, err);
	if (r == 0 && a->project)
		r = path_absolute(&q->project, a->project, err);
	if (r == 0 && a->artifacts)
		r = path_absolute(&q->artifacts, a->artifacts, err);
	if (r == 0 && a->interpreter)
		r = path_program(&q->interpreter, a->interpreter, err);
	if (r < 0)
		return r;
	run->cwd = q->workdir;
	run->project = q->project;
	run->artifacts_dir = q->artifacts;
	if (q->interpreter)
		run->interpreter = q->interpreter;
	return 0;
}

/* Was it closed when nsbox started? Then it has the wrong direction (main.c). */
static int relay_unless_closed(int fd, int useless)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || (flags & O_ACCMODE) == useless ? NSBOX_IO_NULL : NSBOX_IO_RELAY;
}

/*
 * The box gets pipes or a pty of its own, never our descriptors: a program that
 * held our terminal could type into it (TIOCSTI) or change its settings.
 */
static void fill_io(const struct args *a, struct nsbox_run *run)
{
	run->in = a->keep_stdin || a->tty ? relay_unless_closed(STDIN_FILENO, O_WRONLY)
					  : NSBOX_IO_NULL;
	run->in_fd = STDIN_FILENO;
	run->out = a->json ? NSBOX_IO_CAPTURE : relay_unless_closed(STDOUT_FILENO, O_RDONLY);
	run->out_fd = STDOUT_FILENO;
	run->err = a->json ? NSBOX_IO_CAPTURE : relay_unless_closed(STDERR_FILENO, O_RDONLY);
	run->err_fd = STDERR_FILENO;
	if (a->raw_escapes)
		run->flags |= NSBOX_RUN_RAW_ESCAPES;
	if (a->tty)
		run->flags |= NSBOX_RUN_TTY;
	if (a->ast)
		run->flags |= NSBOX_RUN_AST;
}

/* Of an install, which may take a minute: one line, gone when it is over. */
static void show_progress(void *arg, const char *text)
{
	(void)arg;
	if (text)
		fprintf(stderr, "nsbox: %.200s ...", text);
	else
		fputs("\r\033[K", stderr);
	fflush(stderr);
}

static int open_box(struct request *q, const struct args *a, struct nsbox_run *run,
		    const char *profile, struct nsbox_error *err)
{
	int r = check_status_fd(a->status_fd, err);

	if (r == 0)
		r = fill_paths(q, a, run, err);
	if (r == 0)
		r = envfile_read(&q->env, a, err);
	if (r == 0)
		r = layers_build(&q->policy, a, profile, err);
	if (r < 0)
		return r;
	run->env = (const char *const *)q->env.v;
	run->name = a->name;
	fill_io(a, run);
	if (!a->quiet && isatty(STDERR_FILENO))
		run->progress = show_progress;
	return nsbox_box_open(&q->box, tier_of(a->tier), q->policy, err);
}

static int print_plan(struct request *q, const struct args *a, const struct nsbox_run *run)
{
	const char *form = a->json ? "json" : a->dry_run ? "plan" : "explain";
	struct nsbox_error err = NSBOX_ERROR_INIT;
	auto_free char *text = NULL;

	if (nsbox_box_explain(q->box, run, form, &text, &err) < 0)
		return report_error(a, &err);
	return report_text(text);
}

int run_request(const struct args *a, struct nsbox_run *run, const char *profile)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct request q = { 0 };
	int status;

	if (open_box(&q, a, run, profile, &err) < 0)
		status = report_error(a, &err);
	else if (a->dry_run || a->explain)
		status = print_plan(&q, a, run);
	else if (watch_run(q.box, run, &q.result, &err) < 0)
		status = report_error(a, &err);
	else
		status = report_result(a, q.result);
	request_free(&q);
	return status;
}

int verb_run(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = NSBOX_RUN_INIT;

	if (a->operands.n == 0 || !a->operands.v[0][0]) {
		cli_hint(&err, "say what to run: nsbox run [FLAGS] [--] CMD [ARG...]");
		cli_fail(&err, NSBOX_E_USAGE, "no command given");
		return report_error(a, &err);
	}
	run.argv = a->operands.v;
	return run_request(a, &run, NULL);
}

/* What this policy makes of a run; of `true` when no command is given. */
int verb_explain(struct args *a)
{
	static const char *const nothing[] = { "true", NULL };
	struct nsbox_run run = NSBOX_RUN_INIT;

	if (a->to)
		return policy_reach(a);
	run.argv = a->operands.n ? a->operands.v : nothing;
	a->explain = true;
	return run_request(a, &run, NULL);
}
