/*
 * box_over.c - runs that are over before their payload began: packages that could not be
 * installed, a source that may not run, a program that cannot be executed. Each is a result.
 */
#include "runtime/box.h"

#include "base/cleanup.h"
#include "runtime/hints.h"
#include "runtime/lang.h"
#include "runtime/record.h"
#include "runtime/stage.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

static bool set_helper(void *arg, struct nsbox_box *helper)
{
	struct nsbox_box *box = arg;
	bool is_killed;

	pthread_mutex_lock(&box->lock);
	box->helper = helper;
	is_killed = box->kill_wanted;
	pthread_mutex_unlock(&box->lock);
	return is_killed;
}

/* The run is over before it began: nsbox_box_fd() is readable at once. */
static int set_over(struct nsbox_box *box, const struct watch *w, struct nsbox_result *res,
		    const char *reason, struct nsbox_error *err)
{
	const struct itimerspec at_once = { .it_value.tv_nsec = 1 };

	if (!res)
		return err_nomem(err);
	res->reason = strdup(reason);
	box->failed_exec = res;
	timerfd_settime(w->timer, 0, &at_once, NULL);
	return res->reason ? 0 : err_nomem(err);
}

int run_without_packages(struct nsbox_box *box, const struct watch *w, struct nsbox_error *err)
{
	struct nsbox_result *res = calloc(1, sizeof(*res));
	const char *reason = box->packages.failed;

	if (res) {
		res->verdict = box->packages.is_killed ? NSBOX_SIGNALED : NSBOX_SKIPPED;
		res->signal = box->packages.is_killed ? SIGKILL : 0;
		res->exit_code = -1;
	}
	return set_over(box, w, res, reason ? reason : "killed: while packages were installed", err);
}

/* 1: nothing is to be run, and the result says why. */
int run_judge_first(struct nsbox_box *box, const struct watch *w, const struct nsbox_run *run,
		       struct nsbox_error *err)
{
	struct nsbox_result *found = NULL, *res;
	int r;

	if (!box->examine.is_wanted || box->tier == NSBOX_TIER_STATIC ||
	    (!box->policy.packages.list.n && !box->policy.packages.in_code))
		return 0;
	r = examine_first(&found, &box->policy, run, err);
	if (r < 0 || !found)
		return r;
	res = calloc(1, sizeof(*res));
	if (res) {
		res->verdict = NSBOX_SKIPPED;
		res->exit_code = -1;
		res->analysis = take_ptr(found->analysis);
	}
	r = set_over(box, w, res, found->reason, err);
	nsbox_result_free(found);
	return r < 0 ? r : 1;
}

/* Whose packages they are: the code's language, and for a command Python. */
static const struct interp *interp_of(const struct interps *in, const struct nsbox_run *run)
{
	const char *language = run->language ? lang_canonical(run->language) : "python";

	for (size_t i = 0; i < in->n; i++)
		if (language && packages_know(language) && strcmp(in->store[i].language, language) == 0)
			return &in->store[i];
	return NULL;
}

/* The block of PEP 723 is a Python thing; a command has no source at all. */
static int check_inline(const struct packages_request *q, const struct nsbox_run *run,
			struct nsbox_error *err)
{
	const char *language = run->language ? lang_canonical(run->language) : NULL;

	if (!q->run || !language || strcmp(language, "python") == 0)
		return 0;
	err_hint(err, "name its packages with --with (packages.list)");
	return err_set(err, NSBOX_E_UNSUPPORTED, "packages.inline (--with-inline) is for python alone: %s has no such blocks",
		       language);
}

/* 1: nothing is to be run. */
int run_take_packages(struct nsbox_box *box, const struct nsbox_run *run,
			 struct nsbox_error *err)
{
	const struct policy *p = &box->policy;
	struct packages_request q = {
		.list = &p->packages.list, .run = p->packages.in_code ? run : NULL,
		.max_bytes = p->packages.max_bytes, .installer = p->packages.installer,
		.progress = run->progress, .progress_arg = run->progress_arg,
		.running = set_helper, .running_arg = box,
	};
	int r;

	if (box->tier == NSBOX_TIER_STATIC || (!q.list->n && !q.run))
		return 0;
	r = check_inline(&q, run, err);
	if (r == 0)
		r = interps_get(&box->interps, run, err);
	if (r < 0)
		return r;
	q.interp = interp_of(&box->interps, run);
	if (!q.interp && !q.list->n)
		return 0; /* no language with such blocks */
	if (!q.interp) {
		err_hint(err, "packages are for python and javascript, and for 'nsbox run' where there is a python3");
		return err_set(err, NSBOX_E_UNSUPPORTED, "packages.list is not for %s",
			       run->language ? run->language : "a host without python3");
	}
	r = packages_get(&box->packages, &q, err);
	if (r == NSBOX_E_UNSUPPORTED && box->is_walled && err) {
		err->hint[0] = '\0'; /* it tells of a box that one asks for, and this is another */
		err_hint(err, "packages are installed in a box with namespaces: install them where those are "
			      "allowed, into the same cache, or take an interpreter that has them");
	}
	return r < 0 ? r : box->packages.failed || box->packages.is_killed;
}

/* The payload could not be executed: 126 and 127 are results, the rest are errors. */
int run_exec_failed(struct nsbox_box *box, const struct watch *w, struct nsbox_error *err)
{
	int os_errno = w->live.exec_errno;
	const char *name = box->plan.argv.v[1], *sentence = "";
	int status = hints_exec(os_errno, &sentence);
	struct nsbox_result *res;
	char text[512];

	if (!status) {
		err_stage(err, stage_name(STAGE_exec));
		if (os_errno == E2BIG)
			err_hint(err, "pass large data in a file (--ro) or on stdin (-i)");
		return err_errno(err, os_errno == E2BIG ? NSBOX_E_USAGE : NSBOX_E_SETUP, os_errno,
				 "execute %s", name);
	}
	res = calloc(1, sizeof(*res));
	if (!res)
		return err_nomem(err);
	snprintf(text, sizeof(text), "%s: %s", sentence, name);
	res->verdict = NSBOX_EXITED;
	res->exit_code = status;
	return set_over(box, w, res, text, err);
}
