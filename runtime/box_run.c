/*
 * box_run.c - the life of one run: assemble, launch, watch, collect
 *
 * Must: leave nothing on the host whichever way a run ends (processes, cgroup,
 * placeholders, descriptors) but its entry in the list of boxes.
 */
#include "runtime/box.h"

#include "base/cleanup.h"
#include "policy/egress.h"
#include "rootfs/protect.h"
#include "runtime/denials.h"
#include "runtime/hints.h"
#include "runtime/record.h"
#include "runtime/report.h"
#include "runtime/stage.h"
#include "runtime/streams.h"
#include "runtime/tiers.h"
#include "runtime/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* --------------------------------------------------------------------- watch -- */

static struct watch *watch_new(struct nsbox_box *box, struct nsbox_error *err)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w) {
		err_nomem(err);
		return NULL;
	}
	w->policy = &box->policy;
	w->plan = &box->plan;
	w->egress = egress_is_needed(&box->policy) ? &box->egress : NULL;
	w->cgroup.fd = w->channel = w->answers = w->pipes[0] = w->pipes[1] = -1;
	w->live = (struct live)LIVE_INIT;
	pthread_mutex_init(&w->lock, NULL);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (w->epoll < 0 || w->timer < 0)
		err_sys(err, "make the event loop");
	return w;
}

static void watch_free(struct watch *w)
{
	if (!w)
		return;
	for (int i = 0; i < PUMP_COUNT; i++)
		if (w->pump_used[i])
			pump_close(&w->pumps[i]);
	live_close(&w->live);
	(w->is_stuck ? cgroup_leave : cgroup_destroy)(&w->cgroup);
	capture_free(&w->out);
	capture_free(&w->err);
	capture_free(&w->report);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->timer >= 0)
		close(w->timer);
	if (w->channel >= 0)
		close(w->channel);
	if (w->answers >= 0)
		close(w->answers);
	for (int i = 0; i < 2; i++)
		if (w->pipes[i] >= 0)
			close(w->pipes[i]);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void set_watch(struct nsbox_box *box, struct watch *w)
{
	pthread_mutex_lock(&box->lock);
	box->watch = w;
	pthread_mutex_unlock(&box->lock);
}

static void begin_start(struct nsbox_box *box)
{
	pthread_mutex_lock(&box->lock);
	box->starting = true;
	box->kill_wanted = false;
	pthread_mutex_unlock(&box->lock);
}

/* From here on nsbox_box_kill() finds the run; one that came too early counts as well. */
static void end_start(struct nsbox_box *box, struct watch *w)
{
	pthread_mutex_lock(&box->lock);
	box->watch = w;
	box->starting = false;
	if (w && box->kill_wanted)
		watch_kill(w, KILL_CALLER, 0);
	pthread_mutex_unlock(&box->lock);
}

void run_drop(struct nsbox_box *box)
{
	struct watch *w = box->watch;

	if (w && !w->dead) {
		watch_kill(w, KILL_CALLER, 0);
		w->is_stuck = live_reap(&w->live, 5000) == 1;
	}
	listed_end(box, NULL); /* unless its result was told */
	/* What the payload waits for would hold us up as well: a frozen file system, say. */
	if (w && w->is_stuck)
		protect_leave(take_ptr(box->plan.view.protect));
	egress_end(&box->egress);
	veth_end(&box->veth);
	set_watch(box, NULL);
	watch_free(w);
	assembly_free(&box->plan); /* removes the placeholders of fs.protect */
	memset(&box->plan, 0, sizeof(box->plan));
	if (box->artifacts_made)
		rmdir(box->artifacts_dir); /* stays when something is in it */
	box->artifacts_made = false;
	free(box->artifacts_dir);
	box->artifacts_dir = NULL;
	free(take_ptr(box->language));
	nsbox_result_free(box->failed_exec);
	box->failed_exec = NULL;
	packages_free(&box->packages);
	box->over = false;
}

/* --------------------------------------------------------------------- start -- */

#define UNSAFE_NOTE "the tier local_unsafe isolates nothing: of the policy only time and output are in force"

static bool is_plain(const struct nsbox_box *box)
{
	return box->tier == NSBOX_TIER_LOCAL_UNSAFE;
}

static int launch_once(struct nsbox_box *box, struct watch *w, const struct streams *s,
		       int *failed_op, struct nsbox_error *err)
{
	const struct assembly *a = &box->plan;
	const struct launch_request req = {
		.plan = a->plan, .id = &box->host.id, .view = &a->view, .cgroup = &w->cgroup,
		.argv = (const char *const *)a->argv.v, .env = (const char *const *)a->env.v,
		.payload_filter = &a->payload_filter, .init_fd = box->init_fd,
		.in = s->child[0], .out = s->child[1], .err = s->child[2],
		.own_pipes = (s->child_owned[0] ? 1U : 0) | (s->child_owned[1] ? 2U : 0) |
			     (s->child_owned[2] ? 4U : 0),
		.tty = a->tty, .is_plain = is_plain(box), .channel = s->child_channel, .deadline_ms = w->setup_ms,
		.network = w->egress ? egress_hand_over : NULL, .network_arg = w->egress,
		.connect = veth_is_wanted(&box->policy) ? veth_connect : NULL,
		.connect_arg = &box->veth,
	};

	return launch(&w->live, &req, failed_op, err);
}

static bool is_masked_proc(const struct assembly *a, int failed_op,
			   const struct nsbox_error *err)
{
	return failed_op >= 0 && plan_ops(a->plan)[failed_op].kind == OP_PROC &&
	       err->os_errno == EPERM;
}

/* EBUSY: there may be one listener in all filters of a process, and who runs us has it. */
static bool is_no_listener(const struct assembly *a, int failed_op,
			   const struct nsbox_error *err)
{
	const struct op *op = failed_op >= 0 ? &plan_ops(a->plan)[failed_op] : NULL;

	return op && op->kind == OP_SECCOMP && op->flags & SECCOMP_FILTER_FLAG_NEW_LISTENER &&
	       (err->os_errno == EBUSY || err->os_errno == EINVAL);
}

/* Is there a weaker way that this host may allow? Then the box remembers it. */
static bool step_down(struct nsbox_box *box, int failed_op, const struct nsbox_error *err)
{
	if (box->proc != PROC_SYNTHETIC && is_masked_proc(&box->plan, failed_op, err))
		box->proc++;
	else if (!box->no_listener && is_no_listener(&box->plan, failed_op, err))
		box->no_listener = true;
	else if (box->inlet == INLET_GATED &&
		 assemble_lacks_rules(box->plan.plan, failed_op, err->os_errno))
		box->inlet = INLET_BY_PORT;
	else
		return false;
	return true;
}

/*
 * Setting up takes milliseconds. A child that is stuck (in a dead network file system,
 * say) ends with the time of the run, within these bounds.
 */
enum { SETUP_MIN_MS = 3000, SETUP_MAX_MS = 30000 };

static int setup_deadline(const struct nsbox_box *box, const struct nsbox_run *run)
{
	uint64_t ms = run->timeout_ms ? run->timeout_ms : box->policy.limits.timeout / 1000;

	return ms < SETUP_MIN_MS ? SETUP_MIN_MS : ms > SETUP_MAX_MS ? SETUP_MAX_MS : (int)ms;
}

/* Build and start; where something around us forbids a part, one rung down and again. */
static int build_and_launch(struct nsbox_box *box, struct watch *w, const struct nsbox_run *run,
			    const struct streams *s, struct nsbox_error *err)
{
	for (;;) {
		struct nsbox_error own = NSBOX_ERROR_INIT;
		int failed_op = -1;
		const struct assemble_how how = {
			.proc = box->proc, .interps = &box->interps, .inlet = box->inlet,
			.no_listener = box->no_listener, .is_plain = is_plain(box),
			.packages = &box->packages,
			.check = box->examine.has_check ? &box->examine.check : NULL,
			.pool = box->policy.net.publish.n ? EGRESS_POOL_SIZE : 0,
		};
		int r = assemble(&box->plan, &box->host, &box->policy, run, &how, err);

		if (r < 0)
			return r;
		if (w->cgroup.fd < 0 && box->host.place.fd >= 0) {
			r = cgroup_make(&w->cgroup, &box->host.place, box->plan.cgroup_rows,
					(size_t)box->plan.cgroup_row_count, err);
			if (r < 0) {
				err_stage(err, stage_name(STAGE_cgroup));
				return r;
			}
		}
		/* It starts up while the box is set up. A new one for each attempt: the
		 * last one has sockets of a box that is no more. */
		r = w->egress ? egress_start(w->egress, &box->policy, &box->host.id, err) : 0;
		if (r < 0)
			return r;
		r = launch_once(box, w, s, &failed_op, &own);
		if (r < 0 && step_down(box, failed_op, &own)) {
			assembly_free(&box->plan);
			continue;
		}
		if (r < 0 && err)
			*err = own;
		return r;
	}
}

/* ------------------------------------------------------------------ packages -- */

static int start_watching(struct nsbox_box *box, struct watch *w, const struct nsbox_run *run,
			  struct nsbox_error *err)
{
	uint64_t timeout_us = run->timeout_ms ? run->timeout_ms * 1000 : box->policy.limits.timeout;
	int r = 0;

	if (run->flags & NSBOX_RUN_TTY)
		r = streams_open_pty(w, run, err);
	if (is_plain(box) && run->artifacts_dir)
		w->live.work_fd = open(box->plan.view.workdir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r >= 0 && w->egress && egress_settle(w->egress, w->epoll) < 0)
		r = err_sys(err, "watch nsbox-egress");
	if (r < 0) {
		live_kill(&w->live);
		live_reap(&w->live, -1);
		return r;
	}
	return watch_begin(w, timeout_us, err);
}

/* Before anything runs: a run whose results could not be kept is not worth starting. */
static int prepare_artifacts(struct nsbox_box *box, const char *dir, struct nsbox_error *err)
{
	owned_fd int fd = -1;
	bool is_new = access(dir, F_OK) < 0 && errno == ENOENT;

	if (artifacts_make_dir(dir) < 0)
		goto failed;
	box->artifacts_made = is_new;
	box->artifacts_dir = strdup(dir);
	if (!box->artifacts_dir) {
		if (box->artifacts_made)
			rmdir(dir);
		return err_nomem(err);
	}
	fd = openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
failed:
	err_hint(err, "give a folder that you may write");
	return err_errno(err, NSBOX_E_USAGE, errno, "open artifact folder %s", dir);
}

static int keep_language(struct nsbox_box *box, const char *language, struct nsbox_error *err)
{
	box->language = strdup(language);
	return box->language ? 0 : err_nomem(err);
}

int run_start(struct nsbox_box *box, const struct nsbox_run *run, struct nsbox_error *err)
{
	struct streams s = STREAMS_INIT;
	uint64_t from = now_us();
	int r, is_judged = 0;
	bool is_over;
	struct watch *w;

	/* The clock that file systems stamp with: it lags behind the exact one. */
	clock_gettime(CLOCK_REALTIME_COARSE, &box->started);
	begin_start(box);
	w = watch_new(box, err);
	if (!w) {
		end_start(box, NULL);
		return NSBOX_E_NOMEM;
	}
	w->setup_ms = box->egress.setup_ms = box->veth.setup_ms = setup_deadline(box, run);
	box->veth.policy = &box->policy;
	r = w->epoll < 0 || w->timer < 0 ? NSBOX_E_SYSTEM
					 : streams_open(&s, w, run, &box->policy, err);
	if (r >= 0 && box->examine.is_wanted)
		r = streams_open_report(&s, w, REPORT_MAX, err);
	if (r >= 0 && run->language)
		r = keep_language(box, run->language, err);
	if (r >= 0 && run->artifacts_dir)
		r = prepare_artifacts(box, run->artifacts_dir, err);
	if (r >= 0)
		is_judged = r = run_judge_first(box, w, run, err);
	if (r == 0)
		r = run_take_packages(box, run, err);
	is_over = r == 1;
	from = now_us();
	if (r == 0 && w->egress)
		r = egress_publish(w->egress, &box->policy, err);
	if (r == 0)
		r = build_and_launch(box, w, run, &s, err);
	streams_close_child(&s);
	if (is_over)
		r = is_judged == 1 ? 0 : run_without_packages(box, w, err);
	else if (r == 1)
		r = run_exec_failed(box, w, err);
	else if (r == 0)
		r = start_watching(box, w, run, err);
	box->setup_us = now_us() - from;
	w->dead = r < 0;
	end_start(box, w);
	if (r >= 0)
		listed_begin(box, run);
	if (r < 0 && err && err->os_errno == ENOSYS)
		err_hint(err, "%s", HINT_OLD_KERNEL);
	if (r < 0)
		run_drop(box);
	return r;
}

/* ------------------------------------------------------------------- collect -- */

static int take_stream(struct result_stream *s, struct capture *c, const struct pump *p, bool used)
{
	s->captured = used && p->is_capture;
	s->total = used ? p->total : RESULT_UNKNOWN; /* the payload had the descriptor itself */
	s->truncated = s->captured ? capture_truncated(c) : used && p->total > p->passed;
	s->data = capture_take(c, &s->len);
	return s->data ? 0 : -1;
}

/* A relay that lost bytes on the caller's side is no success of ours. */
static int check_relays(const struct watch *w, struct nsbox_error *err)
{
	static const char *const names[] = { "stdin", "stdout", "stderr" };

	for (int i = 1; i < 3; i++)
		if (w->pump_used[i] && w->pumps[i].error)
			return err_errno(err, NSBOX_E_SYSTEM, w->pumps[i].error, "pass on the %s of the program",
					 names[i]);
	return 0;
}

static int fill_streams(struct nsbox_result *r, struct watch *w, struct nsbox_error *err)
{
	int code = check_relays(w, err);

	if (code < 0)
		return code;
	if (take_stream(&r->out, &w->out, &w->pumps[1], w->pump_used[1]) < 0 ||
	    take_stream(&r->err, &w->err, &w->pumps[2], w->pump_used[2]) < 0)
		return err_nomem(err);
	return 0;
}

/* A bare command's python3 or node that the box's user cannot reach. */
static int note_left_out(struct nsbox_result *r, const struct nsbox_box *box)
{
	uint32_t left_out = box->watch ? box->watch->live.left_out : 0;
	char note[1024];

	if (!left_out || left_out > box->plan.plan->op_count)
		return 0;
	snprintf(note, sizeof(note),
		 "%s, which an interpreter on PATH needs, is not in the box: its user cannot reach it",
		 plan_str(box->plan.plan, plan_ops(box->plan.plan)[left_out - 1].src));
	return strlist_add(&r->notes, note);
}

static int fill_common(struct nsbox_result *r, const struct nsbox_box *box,
		       struct nsbox_error *err)
{
	memcpy(r->enforced, box->plan.enforced, sizeof(r->enforced));
	r->limits = box->plan.limits;
	r->tier = strdup(tier_row(box->tier)->name);
	r->working_directory = strdup(box->plan.view.workdir ? box->plan.view.workdir : "/");
	r->setup_us = box->setup_us;
	r->packages = box->packages.record ? strdup(box->packages.record) : NULL;
	if (!r->packages && box->packages.record)
		return err_nomem(err);
	if (is_plain(box) && strlist_add(&r->notes, UNSAFE_NOTE) < 0)
		return err_nomem(err);
	if (!r->tier || !r->working_directory || strlist_copy(&r->notes, &box->plan.view.notes) < 0 ||
	    note_left_out(r, box) < 0 || egress_warnings(&box->policy, &r->notes) < 0)
		return err_nomem(err);
	return 0;
}

static int fill_artifacts(struct nsbox_result *r, const struct nsbox_box *box,
			  struct nsbox_error *err)
{
	const struct policy *p = &box->policy;
	bool ok = r->verdict == NSBOX_EXITED && r->exit_code == 0;
	const struct artifacts_request req = {
		.work_fd = box->watch->live.work_fd, .host_dir = box->artifacts_dir, .policy = p,
		.owner_uid = box->host.id.caller_uid, .owner_gid = box->host.id.caller_gid,
		.since = box->started,
	};

	if (!box->artifacts_dir || p->artifacts.collect == COLLECT_NEVER ||
	    (p->artifacts.collect == COLLECT_ON_SUCCESS && !ok))
		return 0;
	if (req.work_fd < 0)
		return err_set(err, NSBOX_E_SETUP, "the box passed no work folder");
	return artifacts_collect(&r->artifacts, &req, err);
}

static int result_of_run(struct nsbox_box *box, struct nsbox_result **out,
			 struct nsbox_error *err)
{
	struct watch *w = box->watch;
	struct nsbox_result *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return err_nomem(err);
	cgroup_read(&w->cgroup, &w->evidence.cgroup);
	(void)trees_look(&w->trees, w->live.trees);
	code = fill_common(r, box, err);
	if (code >= 0)
		code = verdict_fill(r, w, err);
	if (code >= 0 && (denials_fill(r, w) < 0 ||
			  egress_report(&box->egress, r, &box->policy) < 0 ||
			  veth_report(&box->veth, r) < 0))
		code = err_nomem(err);
	if (code >= 0)
		code = fill_streams(r, w, err);
	if (code >= 0)
		code = examine_fill(r, &box->examine, w, box->language, err);
	if (code >= 0)
		code = fill_artifacts(r, box, err);
	if (code < 0) {
		nsbox_result_free(r);
		return code;
	}
	*out = r;
	return 0;
}

int run_collect(struct nsbox_box *box, struct nsbox_result **out, struct nsbox_error *err)
{
	int r;

	if (box->failed_exec) {
		r = fill_common(box->failed_exec, box, err);
		if (r >= 0 && (egress_report(&box->egress, box->failed_exec, &box->policy) < 0 ||
			       veth_report(&box->veth, box->failed_exec) < 0))
			r = err_nomem(err);
		if (r >= 0)
			*out = take_ptr(box->failed_exec);
	} else {
		r = result_of_run(box, out, err);
	}
	if (r >= 0)
		listed_end(box, *out);
	run_drop(box);
	return r;
}
