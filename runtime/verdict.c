/*
 * verdict.c - what the evidence says
 *
 * The order of belief: our own kill (we know why), the kernel's counters of the run's
 * cgroup (OOM), the wait status that init saw. A status of 137 alone never means OOM.
 */
#include "runtime/verdict.h"

#include "base/buf.h"
#include "base/num.h"
#include "policy/seccomp.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const struct kill_row {
	enum nsbox_verdict verdict;
	int signal;
	const char *word;
} kill_rows[] = {
	[KILL_TIMEOUT] = { NSBOX_TIMED_OUT, SIGKILL, "timeout" },
	[KILL_CPU] = { NSBOX_TIMED_OUT, SIGKILL, "cpu_time" },
	[KILL_MEMORY] = { NSBOX_OUT_OF_MEMORY, SIGKILL, "memory" },
	[KILL_PIDS] = { NSBOX_PIDS_LIMIT, SIGKILL, "pids" },
	[KILL_OUTPUT] = { NSBOX_OUTPUT_LIMIT, SIGKILL, "output" },
	[KILL_CALLER] = { NSBOX_SIGNALED, SIGKILL, "killed" },
	[KILL_DISK] = { NSBOX_DISK_LIMIT, SIGKILL, "disk" },
	[KILL_FOREIGN] = { NSBOX_DENIED, SIGSYS, "seccomp" },
	[KILL_LOST] = { NSBOX_SIGNALED, SIGKILL, "lost" },
};

static void explain_disk(struct buf *b, const struct watch *w)
{
	const struct tree *t = &w->trees.v[w->evidence.kill_value % TREES_MAX];
	char size[32];

	if (t->was_full)
		buf_fmt(b, "filled the %s of /%s", num_size_text(t->bytes, size), t->path);
	else
		buf_fmt(b, "made the %llu files and folders that /%s can have",
			(unsigned long long)t->inodes, t->path);
}

static void explain_foreign(struct buf *b, const struct evidence *e)
{
	struct syscall_text call;

	if (!e->foreign.is_seen) {
		buf_str(b, "a system call of another ABI is forbidden");
		return;
	}
	syscall_describe(e->foreign.arch, e->foreign.nr, &call);
	buf_fmt(b, "system call %s (%s %u) is forbidden", call.name ? call.name : "of another ABI",
		call.abi, call.number);
}

static void explain_kill(struct buf *b, const struct watch *w)
{
	const struct policy *p = w->policy;
	char limit[32];

	switch (w->evidence.killed) {
	case KILL_TIMEOUT:
		buf_fmt(b, "ran longer than %s", num_time_text(w->timeout_us, limit));
		break;
	case KILL_CPU:
		buf_fmt(b, "used more than %s of processor time",
			num_time_text(p->limits.cpu_time, limit));
		break;
	case KILL_MEMORY:
		buf_fmt(b, "held %llu bytes of the %s allowed",
			(unsigned long long)w->evidence.kill_value,
			num_size_text(p->limits.memory, limit));
		break;
	case KILL_PIDS:
		buf_fmt(b, "wanted more than the %llu processes and threads allowed, again and again",
			(unsigned long long)p->limits.pids);
		break;
	case KILL_OUTPUT:
		buf_str(b, "wrote more than the output limit");
		break;
	case KILL_FOREIGN:
		explain_foreign(b, &w->evidence);
		break;
	case KILL_DISK:
		explain_disk(b, w);
		break;
	case KILL_CALLER:
		buf_str(b, "by the caller");
		break;
	default:
		buf_str(b, "the box's init was killed from outside (by the host's OOM killer?)");
	}
}

static void from_kill(struct nsbox_result *r, const struct watch *w, struct buf *reason)
{
	const struct kill_row *row = &kill_rows[w->evidence.killed];

	r->verdict = row->verdict;
	r->signal = row->signal;
	buf_fmt(reason, "%s: ", row->word);
	explain_kill(reason, w);
}

static void from_timeout(struct nsbox_result *r, const struct watch *w, struct buf *reason)
{
	char limit[32];

	r->verdict = NSBOX_TIMED_OUT;
	if (WIFSIGNALED(w->evidence.exit.status))
		r->signal = WTERMSIG(w->evidence.exit.status);
	buf_fmt(reason, "timeout: ran longer than %s and ended when asked to",
		num_time_text(w->timeout_us, limit));
}

/*
 * A signal that ends programs at RLIMIT_CPU, and the time to go with it: they can send
 * it to themselves. The kernel compares whole ticks, the status knows exact times, so
 * SIGXCPU may be a little early; SIGKILL comes a second after it.
 */
static bool is_cpu_limit(const struct watch *w, int sig)
{
	uint64_t limit = w->policy->limits.cpu_time;
	uint64_t used = w->evidence.exit.user_us + w->evidence.exit.system_us;

	if (!limit)
		return false;
	return sig == SIGXCPU ? used >= limit - limit / 4 : sig == SIGKILL && used >= limit;
}

static bool is_oom(const struct evidence *e)
{
	return e->cgroup.has_oom && e->cgroup.oom_kills;
}

static void from_oom(struct nsbox_result *r, const struct watch *w, struct buf *reason)
{
	char text[32];

	r->verdict = NSBOX_OUT_OF_MEMORY;
	r->signal = SIGKILL;
	buf_fmt(reason, "memory: the kernel ended it at the limit of %s",
		num_size_text(w->policy->limits.memory, text));
}

static void from_status(struct nsbox_result *r, const struct watch *w, struct buf *reason)
{
	const struct evidence *e = &w->evidence;
	int status = e->exit.status;
	char text[32];

	if (WIFEXITED(status)) {
		r->verdict = NSBOX_EXITED;
		r->exit_code = WEXITSTATUS(status);
		return;
	}
	r->signal = WTERMSIG(status);
	r->verdict = NSBOX_SIGNALED;
	if (is_oom(e) && r->signal == SIGKILL) {
		from_oom(r, w, reason);
	} else if (r->signal == SIGSYS) {
		r->verdict = NSBOX_DENIED;
		/* The wait status is the same when it sent the signal to itself. */
		buf_str(reason, "seccomp: died of SIGSYS, the signal for a forbidden system call");
	} else if (is_cpu_limit(w, r->signal)) {
		r->verdict = NSBOX_TIMED_OUT;
		buf_fmt(reason, "cpu_time: used more than %s of processor time",
			num_time_text(w->policy->limits.cpu_time, text));
	} else {
		buf_fmt(reason, "signal: died of signal %d", r->signal);
	}
}

/*
 * What a killed box used is in no rusage: the kernel lets the children of a dying PID 1
 * reap themselves (zap_pid_ns_processes). Then the last sample is the best that is known.
 */
static void fill_cpu(struct nsbox_result *r, const struct evidence *e)
{
	if (e->cgroup.has_cpu) {
		r->usage.user_us = e->cgroup.user_us;
		r->usage.system_us = e->cgroup.system_us;
	} else if (e->has_exit && !e->exit.orphans) {
		r->usage.user_us = e->exit.user_us;
		r->usage.system_us = e->exit.system_us;
	} else if (e->sampled_user_us + e->sampled_system_us >
		   e->rusage_user_us + e->rusage_system_us) {
		r->usage.user_us = e->sampled_user_us;
		r->usage.system_us = e->sampled_system_us;
	} else {
		r->usage.user_us = e->rusage_user_us;
		r->usage.system_us = e->rusage_system_us;
	}
}

/*
 * Without memory.peak the samples of the launcher, or the largest process that init
 * reaped when that is more. Where the kernel holds the limit and keeps no peak (before
 * 5.19) nobody samples, and one process is not the box: then it is not known.
 */
static void fill_memory(struct nsbox_result *r, const struct watch *w)
{
	const struct evidence *e = &w->evidence;
	uint64_t reaped = e->has_exit ? e->exit.max_rss_kib * 1024 : 0;
	uint64_t seen = reaped > e->sampled_memory ? reaped : e->sampled_memory;

	if (e->cgroup.has_memory_peak)
		seen = e->cgroup.memory_peak;
	else if (w->plan->enforced[ENF_MEMORY] == NSBOX_STRENGTH_KERNEL)
		seen = 0;
	r->usage.memory_peak = seen;
	r->usage.has_memory_peak = seen != 0;
}

static void fill_usage(struct nsbox_result *r, const struct watch *w)
{
	const struct evidence *e = &w->evidence;

	r->usage.wall_us = w->ended_us - w->started_us;
	fill_cpu(r, e);
	r->usage.has_cpu = e->cgroup.has_cpu || e->has_exit || e->has_rusage;
	fill_memory(r, w);
	r->usage.accounts = e->cgroup.accounts;
	/* init is in the cgroup too, and is not the payload's. */
	r->usage.pids_peak = e->cgroup.has_pids_peak && e->cgroup.pids_peak
				     ? e->cgroup.pids_peak - 1 : e->sampled_pids;
	r->usage.has_pids_peak = r->usage.pids_peak != 0;
}

int verdict_fill(struct nsbox_result *r, const struct watch *w, struct nsbox_error *err)
{
	struct buf reason = BUF_INIT(512);

	r->exit_code = -1;
	/* memory.oom.group takes init along: then nobody is left to tell the status. */
	if (w->evidence.killed == KILL_LOST && is_oom(&w->evidence))
		from_oom(r, w, &reason);
	else if (w->evidence.killed != KILL_NONE)
		from_kill(r, w, &reason);
	else if (w->terminated) /* it went by itself, because we had asked it to */
		from_timeout(r, w, &reason);
	else
		from_status(r, w, &reason);
	fill_usage(r, w);
	r->orphans_killed = w->evidence.exit.orphans != 0;
	if (reason.len)
		r->reason = buf_take(&reason);
	buf_free(&reason);
	return r->verdict != NSBOX_EXITED && !r->reason ? err_nomem(err) : 0;
}
