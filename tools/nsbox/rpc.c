/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `nsbox rpc`: the loop, and the operations that are answered at once. See rpc.h. Runs
 * in the command. Must end every box when the connection ends, in whatever way it does.
 */
#include "tools/nsbox/rpc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "tools/nsbox/code.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

#define FRAMES_A_TURN 8	/* starting boxes must not hold up those that run */
#define EVENTS_A_TURN 64
#define FLUSH_MS 1000	/* at the end a client may still read so long */

static void end(struct rpc *r, int status)
{
	if (!r->is_over || status != STATUS_OK)
		r->status = status;
	r->is_over = true;
}

void rpc_out_of_memory(struct rpc *r)
{
	say("out of memory for an answer");
	end(r, STATUS_NSBOX);
}

static void must(struct rpc *r, int written)
{
	if (written < 0)
		rpc_out_of_memory(r);
}

/* --- answered at once ------------------------------------------------------------------ */

static void put_languages(struct json *j)
{
	const char *name;

	json_key(j, "languages");
	json_array(j);
	for (size_t i = 0; (name = code_language_name(i)); i++)
		json_str(j, name);
	json_end(j, ']');
}

static bool has_tier(const struct nsbox_policy *policy, const struct nsbox_tier_info *info)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;
	struct nsbox_box *box = NULL;

	if (!info->is_built ||
	    nsbox_box_open(&box, (enum nsbox_tier)info->tier, policy, &ignored) < 0)
		return false;
	nsbox_box_close(box);
	return true;
}

/* Only what this build and this host really open. */
static int put_tiers(struct json *j, struct nsbox_error *err)
{
	struct nsbox_policy *policy = NULL;
	struct nsbox_tier_info info;
	int code = nsbox_policy_new(&policy, NULL, err);

	if (code < 0)
		return code;
	json_key(j, "tiers");
	json_array(j);
	for (size_t i = 0; nsbox_tier_info(i, &info) == 0; i++) {
		if (has_tier(policy, &info))
			json_str(j, info.name);
	}
	json_end(j, ']');
	nsbox_policy_free(policy);
	return 0;
}

static int put_hello(struct json *j, const struct rpc_request *q, struct nsbox_error *err)
{
	int code;

	(void)q;
	json_object(j);
	json_kstr(j, "version", nsbox_version());
	json_kuint(j, "protocol", RPC_PROTOCOL);
	code = put_tiers(j, err);
	put_languages(j);
	json_kint(j, "pid", getpid());
	json_end(j, '}');
	return code;
}

static int put_doctor(struct json *j, const struct rpc_request *q, struct nsbox_error *err)
{
	auto_free char *text = NULL;
	int code = nsbox_doctor("json", &text, err);

	(void)q;
	if (code < 0)
		return code;
	text[strcspn(text, "\n")] = '\0';
	json_raw(j, text);
	return 0;
}

static int put_schema(struct json *j, const struct rpc_request *q, struct nsbox_error *err)
{
	auto_free char *text = rpc_schema();

	(void)q;
	if (!text)
		return cli_nomem(err);
	json_raw(j, text);
	return 0;
}

/* --- requests --------------------------------------------------------------------------- */

static void answer_now(struct rpc *r, const struct rpc_request *q,
		       int (*put)(struct json *, const struct rpc_request *, struct nsbox_error *))
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct json j;
	size_t start = answer_begin(&r->out, &j, q->id);

	if (put(&j, q, &err) == 0) {
		must(r, answer_end(&r->out, &j, start, q->id));
		return;
	}
	frame_out_undo(&r->out, start);
	must(r, answer_error(&r->out, q->id, &err));
}

static int cancel(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	uint64_t target = 0;
	struct json j;
	size_t start;
	int found;

	jscan_uint(q->v[K_TARGET], RPC_NUMBER_MAX, &target);
	found = rpc_run_kill(r, target) ? 1 : rpc_kernel_cancel(r, target, err);
	if (found < 0)
		return found;
	start = answer_begin(&r->out, &j, q->id);
	json_object(&j);
	json_kuint(&j, "target", target);
	json_kbool(&j, "found", found);
	json_end(&j, '}');
	must(r, answer_end(&r->out, &j, start, q->id));
	return 0;
}

static int reply(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	(void)err;
	rpc_kernel_reply(r, q);
	return 0;
}

static void act(struct rpc *r, const struct rpc_request *q)
{
	static int (*const puts_result[OP_COUNT])(struct json *, const struct rpc_request *,
						  struct nsbox_error *) = {
		[OP_HELLO] = put_hello, [OP_DOCTOR] = put_doctor, [OP_SCHEMA] = put_schema,
	};
	static int (*const acts[OP_COUNT])(struct rpc *, const struct rpc_request *,
					   struct nsbox_error *) = {
		[OP_RUN] = rpc_run_start, [OP_CODE] = rpc_run_start, [OP_CHECK] = rpc_run_start,
		[OP_CANCEL] = cancel, [OP_OPEN] = rpc_kernel_open,
		[OP_INTERRUPT] = rpc_kernel_interrupt, [OP_REPLY] = reply,
		[OP_CLOSE] = rpc_kernel_close,
	};
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int code = 0;

	if (puts_result[q->op])
		answer_now(r, q, puts_result[q->op]);
	else
		code = (acts[q->op] ? acts[q->op] : rpc_kernel_request)(r, q, &err);
	if (code < 0)
		must(r, answer_error(&r->out, q->id, &err));
}

static void take_request(struct rpc *r, struct jscan frame)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc_request q;
	int code = rpc_request_take(&q, frame, &err);

	if (q.id && (rpc_run_has(r, q.id) || rpc_kernel_has(r, q.id))) {
		/* An answer with this id would be taken for that of the other. */
		err = (struct nsbox_error)NSBOX_ERROR_INIT;
		code = cli_fail(&err, NSBOX_E_USAGE, "the id %llu is that of a request in flight",
				(unsigned long long)q.id);
		q.id = 0;
	}
	if (code == 0)
		act(r, &q);
	else
		must(r, answer_error(&r->out, q.id, &err));
}

static void broken(struct rpc *r, const struct nsbox_error *err)
{
	must(r, answer_error(&r->out, 0, err));
	end(r, STATUS_NSBOX);
}

static void take_frames(struct rpc *r)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct jscan frame;
	int n = 0, code = 1;

	while (!r->is_over && !rpc_is_full(r) && n < FRAMES_A_TURN && code > 0) {
		code = frame_in_next(&r->in, &frame, &err);
		if (code > 0)
			take_request(r, frame);
		n += code > 0;
	}
	r->has_more = code > 0;
	if (code < 0)
		broken(r, &err);
}

/* --- the loop ------------------------------------------------------------------------------ */

static void read_input(struct rpc *r)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	ssize_t n;

	if (r->has_more || rpc_is_full(r))
		return; /* what came is to be taken first */
	n = read(STDIN_FILENO, r->room, RPC_ROOM);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		frame_in_add(&r->in, r->room, (size_t)n);
		r->has_more = true;
		return;
	}
	if (n < 0) {
		cli_fail_errno(&err, "read standard input");
		broken(r, &err);
	} else if (frame_in_end(&r->in, &err) < 0) {
		broken(r, &err);
	} else {
		end(r, STATUS_OK);
	}
}

static void write_output(struct rpc *r)
{
	if (frame_out_write(&r->out, STDOUT_FILENO) >= 0)
		return;
	/* A client that left is the end of a connection; anything else is a loss. */
	if (errno != EPIPE && errno != ECONNRESET)
		say("write to standard output: %s", strerror(errno));
	end(r, errno == EPIPE || errno == ECONNRESET ? STATUS_OK : STATUS_NSBOX);
	frame_out_free(&r->out);
	r->out = (struct frame_out)FRAME_OUT_INIT;
}

static void take_signal(struct rpc *r)
{
	struct signalfd_siginfo info;

	if (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		end(r, STATUS_OK);
}

static void dispatch(struct rpc *r, uint64_t data, uint32_t events)
{
	size_t slot = (size_t)(data >> 8);

	switch ((enum rpc_tag)(data & 0xff)) {
	case TAG_IN:
		read_input(r);
		break;
	case TAG_OUT:
		if (events & EPOLLERR) /* the reader is gone, whether or not something waits */
			end(r, STATUS_OK);
		break;
	case TAG_SIGNAL:
		take_signal(r);
		break;
	case TAG_BOX:
		rpc_run_box_ready(r, slot);
		break;
	case TAG_STDOUT:
	case TAG_STDERR:
		rpc_run_stream_ready(r, slot, (data & 0xff) == TAG_STDERR);
		break;
	case TAG_KERNEL:
		rpc_kernel_ready(r, slot);
		break;
	case TAG_STARTED:
		rpc_run_started(r, slot);
		break;
	case TAG_OPENED:
		rpc_kernel_opened(r, slot);
		break;
	}
}

/* What to wait for follows from what is held. */
static int set_interest(struct rpc *r, struct nsbox_error *err)
{
	bool wants_in = !r->in_files && !r->is_full && !r->has_more;
	struct epoll_event in = { .events = EPOLLIN, .data.u64 = RPC_TAG(TAG_IN, 0) };
	struct epoll_event out = { .events = frame_out_waiting(&r->out) ? EPOLLOUT : 0,
				   .data.u64 = RPC_TAG(TAG_OUT, 0) };

	if (rpc_is_full(r) != r->is_full) {
		r->is_full = !r->is_full;
		rpc_runs_watch(r, !r->is_full);
		rpc_kernels_watch(r, !r->is_full);
		return set_interest(r, err);
	}
	if (wants_in != r->in_watched) {
		if (epoll_ctl(r->epoll, wants_in ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, STDIN_FILENO,
			      &in) < 0)
			return cli_fail_errno(err, "watch standard input");
		r->in_watched = wants_in;
	}
	if (r->out_watched && epoll_ctl(r->epoll, EPOLL_CTL_MOD, STDOUT_FILENO, &out) < 0)
		return cli_fail_errno(err, "watch standard output");
	return 0;
}

static int turn(struct rpc *r, struct nsbox_error *err)
{
	struct epoll_event events[EVENTS_A_TURN];
	int code = set_interest(r, err), n;
	bool is_ready = (r->has_more || r->in_files || r->kernels_have_more) && !r->is_full;

	if (code < 0)
		return code;
	n = epoll_wait(r->epoll, events, EVENTS_A_TURN, is_ready ? 0 : -1);
	if (n < 0 && errno != EINTR)
		return cli_fail_errno(err, "wait");
	for (int i = 0; i < n && !r->is_over; i++)
		dispatch(r, events[i].data.u64, events[i].events);
	if (r->in_files && !r->is_over)
		read_input(r);
	take_frames(r);
	if (r->kernels_have_more && !r->is_over)
		rpc_kernels_go_on(r);
	write_output(r);
	return 0;
}

/* --- begin and end ---------------------------------------------------------------------------- */

/*
 * ^C in a terminal goes to the client's whole group: what it means is the client's to say,
 * and the end of it is the end of our input. Only when typed for us alone it ends us.
 */
static int take_signals(struct rpc *r, struct nsbox_error *err)
{
	sigset_t watched, blocked;

	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGHUP);
	if (isatty(STDIN_FILENO))
		sigaddset(&watched, SIGINT);
	blocked = watched;
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0)
		return cli_fail_errno(err, "block signals");
	r->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals < 0 ? cli_fail_errno(err, "open a signal descriptor") : 0;
}

/* A box takes about ten descriptors of ours; those of the programs in it are a limit of
 * the policy. */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == l.rlim_max)
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l); /* without it fewer runs fit, and EMFILE says so */
}

static int watch(struct rpc *r, int fd, enum rpc_tag tag, bool *is_file, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = tag == TAG_OUT ? 0 : EPOLLIN,
				  .data.u64 = RPC_TAG(tag, 0) };

	*is_file = false;
	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev) == 0)
		return 0;
	*is_file = errno == EPERM;
	return *is_file ? 0 : cli_fail_errno(err, "watch descriptor %d", fd);
}

static int begin(struct rpc *r, struct nsbox_error *err)
{
	bool out_files = false, none;
	int code = take_signals(r, err);

	if (code < 0)
		return code;
	raise_files();
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0)
		return cli_fail_errno(err, "make an epoll");
	code = watch(r, r->signals, TAG_SIGNAL, &none, err);
	if (code == 0)
		code = watch(r, STDIN_FILENO, TAG_IN, &r->in_files, err);
	if (code == 0)
		code = watch(r, STDOUT_FILENO, TAG_OUT, &out_files, err);
	r->in_watched = !r->in_files;
	r->out_watched = !out_files;
	return code;
}

/* What was answered before the end still goes out, if somebody reads. */
static void flush(struct rpc *r)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int code;

	do {
		code = frame_out_write(&r->out, STDOUT_FILENO);
	} while (code == 0 && poll(&p, 1, FLUSH_MS) > 0);
}

static int serve(struct rpc *r)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int code = begin(r, &err);

	while (code == 0 && !r->is_over)
		code = turn(r, &err);
	if (code < 0) {
		say_error(&err);
		end(r, STATUS_NSBOX);
	}
	rpc_runs_close(r);
	rpc_kernels_close(r);
	flush(r);
	return r->status;
}

static int print_schema(void)
{
	auto_free char *text = rpc_schema();

	if (!text) {
		say("out of memory for the schema");
		return STATUS_NSBOX;
	}
	return report_text(text) == STATUS_OK ? report_text("\n") : STATUS_NSBOX;
}

int verb_rpc(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc *r;
	int status;

	if (a->operands.n) {
		cli_fail(&err, NSBOX_E_USAGE, "'nsbox rpc' does not take '%s'", a->operands.v[0]);
		return report_error(a, &err);
	}
	if (a->schema)
		return print_schema();
	r = calloc(1, sizeof(*r));
	if (!r) {
		cli_nomem(&err);
		return report_error(a, &err);
	}
	r->epoll = r->signals = -1;
	r->in = (struct frame_in)FRAME_IN_INIT;
	r->out = (struct frame_out)FRAME_OUT_INIT;
	status = serve(r);
	frame_in_free(&r->in);
	frame_out_free(&r->out);
	if (r->epoll >= 0)
		close(r->epoll);
	if (r->signals >= 0)
		close(r->signals);
	free(r);
	return status;
}
