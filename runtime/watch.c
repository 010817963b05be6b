/*
 * watch.c - one run in flight. Runs in the launcher, in whatever thread turns it.
 *
 * Must:    end the box exactly at its deadline, whatever the payload does with signals
 *          or descriptors; never block on a stream; take verdicts only from evidence.
 * Mustn't: trust a length or a number that comes from inside the box beyond showing it.
 */
#include "runtime/watch.h"

#include "base/cleanup.h"
#include "runtime/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SAMPLE_US = 20000,	  /* between two looks at memory and cpu */
	SAMPLE_MIN_US = 2000,	  /* the same shortly before the limit */
	QUIET_US = 100000,	  /* the same of a box that sleeps, far from it */
	SAMPLE_SHARE = 20,	  /* looks may cost at most 1/20 of the time */
	GROWTH = 4096,		  /* bytes a µs: what page faults fill a box with at most */
	CPU_BURST_US = 100000,	  /* over the share of cpu before a pause */
	PAUSE_MAX_US = 200000,
	SATURATED_US = 1000000,	  /* more processes wanted for so long: a fork bomb */
	EVENTS_US = 250000,	  /* between two looks at what the cgroup refused */
};

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ----------------------------------------------------------------------- clocks -- */

/* nsbox_box_kill() of another thread sets it. */
static uint64_t patience(struct watch *w)
{
	uint64_t at;

	pthread_mutex_lock(&w->lock);
	at = w->patience_us;
	pthread_mutex_unlock(&w->lock);
	return at;
}

static uint64_t earliest(struct watch *w)
{
	const uint64_t times[] = { w->deadline_us, w->kill_at_us, w->next_sample_us,
				   w->resume_us, patience(w) };
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (times[i] && times[i] < first)
			first = times[i];
	return first;
}

static void arm_timer(struct watch *w)
{
	uint64_t at = earliest(w);
	struct itimerspec spec = { 0 };

	if (at == w->armed_us)
		return;
	w->armed_us = at;
	if (at != UINT64_MAX) {
		spec.it_value.tv_sec = (time_t)(at / 1000000);
		spec.it_value.tv_nsec = (long)(at % 1000000) * 1000;
	}
	timerfd_settime(w->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void check_deadlines(struct watch *w, uint64_t now)
{
	if (w->deadline_us && now >= w->deadline_us) {
		w->deadline_us = 0;
		if (w->policy->limits.grace && !w->terminated) {
			w->terminated = true;
			w->kill_at_us = now + w->policy->limits.grace;
			watch_tell(w, WIRE_SIGNAL, SIGTERM);
		} else {
			watch_kill(w, KILL_TIMEOUT, now - w->started_us);
		}
	}
	if (w->kill_at_us && now >= w->kill_at_us) {
		w->kill_at_us = 0;
		watch_kill(w, KILL_TIMEOUT, now - w->started_us);
	}
}

/* --------------------------------------------------------- userspace enforcement -- */

static bool is_userspace(const struct watch *w, enum enforced_layer l)
{
	return w->plan->enforced[l] == NSBOX_STRENGTH_USERSPACE;
}

static bool needs_samples(const struct watch *w)
{
	return is_userspace(w, ENF_MEMORY) || is_userspace(w, ENF_PIDS) ||
	       is_userspace(w, ENF_CPU) || w->policy->limits.cpu_time;
}

/* The kernel holds the limit; whether a box does nothing but run into it is ours to see. */
static bool needs_events(const struct watch *w)
{
	return w->plan->enforced[ENF_PIDS] == NSBOX_STRENGTH_KERNEL;
}

/* The cgroup freezer is invisible to the payload; signals are what is left without. */
static void set_paused(struct watch *w, bool paused)
{
	owned_fd int fd = -1;

	w->paused = paused;
	if (w->cgroup.fd >= 0)
		fd = openat(w->cgroup.fd, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, paused ? "1" : "0", 1) == 1)
		return;
	watch_tell(w, WIRE_PAUSE, paused);
}

static void check_cpu(struct watch *w, uint64_t cpu_us, uint64_t now)
{
	const struct policy *p = w->policy;
	uint64_t allowed;

	if (cpu_us > w->cpu_seen_us)
		w->cpu_seen_us = cpu_us; /* of the living only: it may shrink */
	if (p->limits.cpu_time && w->cpu_seen_us > p->limits.cpu_time) {
		watch_kill(w, KILL_CPU, w->cpu_seen_us);
		return;
	}
	if (!is_userspace(w, ENF_CPU) || w->paused)
		return;
	allowed = (now - w->started_us) * p->limits.cpus / 1000 + CPU_BURST_US;
	if (w->cpu_seen_us > allowed) {
		uint64_t pause = (w->cpu_seen_us - allowed) * 1000 / p->limits.cpus;

		set_paused(w, true);
		w->resume_us = now + (pause < PAUSE_MAX_US ? pause : PAUSE_MAX_US);
	}
}

static void check_pids(struct watch *w, uint64_t tasks, uint64_t now)
{
	if (!is_userspace(w, ENF_PIDS) || tasks <= w->policy->limits.pids) {
		w->saturated_since_us = 0;
		return;
	}
	if (!w->saturated_since_us)
		w->saturated_since_us = now;
	if (now - w->saturated_since_us >= SATURATED_US)
		watch_kill(w, KILL_PIDS, tasks);
}

static bool is_full(const struct watch *w)
{
	struct cgroup_now use = { 0 };

	cgroup_read_now(w->cgroup.fd, &use);
	return use.has_pids && use.pids > w->policy->limits.pids; /* init is one of them */
}

/* Forks were refused now and a while ago, and the box had no room in between: bash, for
 * one, sleeps for seconds before it tries again, and all its copies do so together. */
static void check_refused_forks(struct watch *w, uint64_t now)
{
	struct cgroup_usage use = { 0 };

	cgroup_peek(&w->cgroup, &use);
	if (!use.has_pids_events || use.pids_max_events == w->refused_forks) {
		if (!is_full(w))
			w->saturated_since_us = 0;
		return;
	}
	w->refused_forks = use.pids_max_events;
	if (!w->saturated_since_us)
		w->saturated_since_us = now;
	else if (now - w->saturated_since_us >= SATURATED_US)
		watch_kill(w, KILL_PIDS, w->policy->limits.pids);
}

/* The most that was ever seen; what the record has when the kernel counted nothing. */
static void keep_peaks(struct evidence *e, const struct sample *s)
{
	if (s->processes - 1 > e->sampled_pids) /* without init */
		e->sampled_pids = s->processes - 1;
	if (s->cpu_us > e->sampled_user_us + e->sampled_system_us) {
		e->sampled_user_us = s->user_us;
		e->sampled_system_us = s->cpu_us - s->user_us;
	}
}

static int look(const struct watch *w, struct sample *s, bool only_bound)
{
	owned_fd int proc = openat(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct sample_of of = { .proc_fd = proc, .segments_fd = w->live.segments,
				      .init_pid = w->live.pid,
				      .max_pids = w->policy->limits.pids + 16 };

	return proc < 0 || sample_take(s, &of, only_bound) < 0 || !s->processes ? -1 : 0;
}

/* Of this thread: when the host is busy a look takes longer, but costs no more. */
static uint64_t cpu_us(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Twice, as there are two kinds of looks, each with its half of the share. */
static uint64_t pause_after(uint64_t cost, uint64_t at_least)
{
	uint64_t us = cost * 2 * SAMPLE_SHARE;

	return us > at_least ? us : at_least;
}

/* One that was paused wants to run as soon as it may. */
static bool is_quiet(const struct watch *w, uint64_t now)
{
	return !w->paused && now > w->busy_us + SAMPLE_US;
}

/* A box without a cgroup has no swap of its own: what it may have of both is one number. */
static uint64_t memory_limit(const struct policy *p)
{
	uint64_t bytes;

	return __builtin_add_overflow(p->limits.memory, p->limits.swap, &bytes) ? UINT64_MAX : bytes;
}

/*
 * What is resident is never less than what the limit counts (but for swap), and far
 * cheaper to learn, for the exact figure means a look at every page. So that one is taken
 * where the bound, less what the two differed by the last time, is over the limit; else
 * now and then, for swap, for the record's peak, and because pages that processes shared
 * may be theirs alone by now.
 */
static void check_memory(struct watch *w, uint64_t bound, uint64_t now)
{
	uint64_t limit = memory_limit(w->policy), began = cpu_us();
	uint64_t guess = bound > w->shared ? bound - w->shared : 0;
	bool is_due = now >= w->exact_us;
	struct sample s = { 0 };

	if ((is_due || guess > limit) && look(w, &s, false) == 0) {
		uint64_t cost = cpu_us() - began;

		/* One that was not due is on nobody's account but the cheap ones'. */
		w->exact_cost_us = is_due ? cost : 0;
		w->exact_us = now + pause_after(cost, SAMPLE_US);
		guess = s.memory_bytes;
		w->shared = bound > guess ? bound - guess : 0;
		if (s.memory_bytes > w->evidence.sampled_memory)
			w->evidence.sampled_memory = s.memory_bytes;
		if (is_userspace(w, ENF_MEMORY) && s.memory_bytes > limit)
			watch_kill(w, KILL_MEMORY, s.memory_bytes);
	}
	w->headroom = guess < limit ? limit - guess : 0;
}

static void take_sample(struct watch *w, uint64_t now)
{
	struct cgroup_usage use = { 0 };
	struct sample s = { 0 };

	if (sample_holds(&w->last)) {
		check_pids(w, w->last.threads - 1, now); /* those that sleep count as well */
		return;
	}
	if (look(w, &s, true) < 0)
		return;
	w->last = s;
	w->busy_us = now;
	cgroup_peek(&w->cgroup, &use);
	keep_peaks(&w->evidence, &s);
	check_memory(w, s.memory_bytes, now);
	check_cpu(w, use.has_cpu ? use.user_us + use.system_us : s.cpu_us, now);
	check_pids(w, s.threads - 1, now);
}

static void check_trees(struct watch *w)
{
	int full = trees_look(&w->trees, w->live.trees);

	if (full >= 0 && w->policy->limits.disk_action == DISK_KILL)
		watch_kill(w, KILL_DISK, (uint64_t)full);
}

static bool needs_trees(const struct watch *w)
{
	return w->trees.count != 0;
}

/*
 * The nearer a box is to its limit, the sooner the next look: as if page faults filled
 * the rest as fast as they can. One that sleeps can be over by what SAMPLE_US of them
 * fill when it wakes.
 */
static uint64_t sample_interval(const struct watch *w, uint64_t now)
{
	uint64_t us = w->headroom / GROWTH;

	if (!needs_samples(w))
		return w->policy->limits.disk_action == DISK_KILL ? SAMPLE_US : EVENTS_US;
	if (is_quiet(w, now))
		return us < SAMPLE_US ? SAMPLE_US : us > QUIET_US ? QUIET_US : us;
	if (!is_userspace(w, ENF_MEMORY))
		return SAMPLE_US;
	return us < SAMPLE_MIN_US ? SAMPLE_MIN_US : us > SAMPLE_US ? SAMPLE_US : us;
}

static void maybe_sample(struct watch *w, uint64_t now)
{
	uint64_t began = cpu_us();

	if (w->paused && w->resume_us && now >= w->resume_us) {
		w->resume_us = 0;
		set_paused(w, false);
	}
	if (!w->next_sample_us || now < w->next_sample_us || w->dead)
		return;
	w->exact_cost_us = 0;
	if (needs_samples(w))
		take_sample(w, now);
	if (needs_events(w))
		check_refused_forks(w, now);
	check_trees(w);
	/* An exact look has a pause of its own: shorter ones go on meanwhile. */
	w->next_sample_us = now_us() + pause_after(cpu_us() - began - w->exact_cost_us,
						   sample_interval(w, now));
}

static void check_output(struct watch *w)
{
	const struct policy *p = w->policy;

	if (p->limits.output_action != OUTPUT_KILL)
		return;
	if (w->pumps[1].total > p->limits.stdout_bytes)
		watch_kill(w, KILL_OUTPUT, w->pumps[1].total);
	else if (w->pumps[2].total > p->limits.stderr_bytes)
		watch_kill(w, KILL_OUTPUT, w->pumps[2].total);
}

/* ------------------------------------------------------------------------ events -- */

static void drop_interest(struct watch *w, int fd)
{
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Its next word but for answers to watch_signal_told(), which are counted on the way: when
 * init is dead its last word stands behind them. */
static ssize_t next_word(struct watch *w, struct wire_exit *msg)
{
	for (;;) {
		ssize_t n = recv(w->live.sock, msg, sizeof(*msg), MSG_DONTWAIT);

		/* init died with a message of ours unread: its last word is behind that error. */
		if (n < 0 && errno == ECONNRESET)
			n = recv(w->live.sock, msg, sizeof(*msg), MSG_DONTWAIT);
		if (n != (ssize_t)sizeof(msg->head) || msg->head.magic != WIRE_MAGIC ||
		    msg->head.type != WIRE_SIGNALED || !w->signals_due)
			return n;
		w->signals_due--;
	}
}

static void hear_init(struct watch *w)
{
	struct wire_exit msg;
	ssize_t n = next_word(w, &msg);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof(msg) && msg.head.magic == WIRE_MAGIC &&
	    msg.head.type == WIRE_EXIT && !w->evidence.has_exit) {
		w->ended_us = now_us();
		w->deadline_us = w->kill_at_us = w->next_sample_us = 0;
		pthread_mutex_lock(&w->lock);
		w->evidence.exit = msg;
		w->evidence.has_exit = true;
		w->patience_us = w->ended_us + PATIENCE_US;
		pthread_mutex_unlock(&w->lock);
	}
	/* Anything else is the end of init; the pidfd tells the rest. */
	drop_interest(w, w->live.sock);
}

/*
 * Somebody in the box made a call that no rule can judge, and is held until we answer.
 * We never do: the box is killed. Only numbers are taken; what the call's arguments point
 * to belongs to the box, and may change under us.
 */
static void hear_filter(struct watch *w, uint32_t events)
{
	struct seccomp_notif call = { 0 };

	if (events & EPOLLIN) {
		int r = ioctl(w->live.listener, SECCOMP_IOCTL_NOTIF_RECV, &call);

		if (r < 0 && (errno == ENOENT || errno == EINTR))
			return; /* the caller was killed meanwhile */
		w->evidence.foreign.is_seen = r == 0;
		w->evidence.foreign.arch = call.data.arch;
		w->evidence.foreign.nr = (uint32_t)call.data.nr;
		watch_kill(w, KILL_FOREIGN, 0);
	}
	/* EPOLLHUP: nobody is left who could make one. */
	drop_interest(w, w->live.listener);
}

static void reap(struct watch *w)
{
	struct rusage use = { 0 };
	siginfo_t info;
	long r;

	pthread_mutex_lock(&w->lock);
	do {
		r = syscall(SYS_waitid, 3 /* P_PIDFD */, w->live.pidfd, &info,
			    WEXITED | WNOHANG | __WALL, &use);
	} while (r < 0 && errno == EINTR);
	w->evidence.reaped = true;
	w->evidence.has_rusage = r == 0; /* ECHILD: the caller's own wait was first */
	w->evidence.rusage_user_us = (uint64_t)use.ru_utime.tv_sec * 1000000 +
				     (uint64_t)use.ru_utime.tv_usec;
	w->evidence.rusage_system_us = (uint64_t)use.ru_stime.tv_sec * 1000000 +
				       (uint64_t)use.ru_stime.tv_usec;
	drop_interest(w, w->live.pidfd);
	close(w->live.pidfd);
	w->live.pidfd = -1;
	w->dead = true; /* from here on no other thread touches the evidence */
	pthread_mutex_unlock(&w->lock);
	if (!w->evidence.has_exit)
		hear_init(w); /* its last word may still be in the socket */
	if (!w->ended_us)
		w->ended_us = now_us();
	w->deadline_us = w->kill_at_us = w->next_sample_us = w->resume_us = 0;
	w->patience_us = 0;
	if (!w->evidence.has_exit && w->evidence.killed == KILL_NONE)
		w->evidence.killed = KILL_LOST;
}

static void tick(struct watch *w)
{
	uint64_t expirations, now = now_us();

	if (read(w->timer, &expirations, sizeof(expirations)) < 0)
		return;
	w->armed_us = 0;
	check_deadlines(w, now);
	maybe_sample(w, now);
	pthread_mutex_lock(&w->lock);
	if (w->patience_us && now >= w->patience_us) {
		/* A process that SIGKILL does not end (it waits inside the kernel): the
		 * verdict is known, so say it; the kernel will do the rest. */
		w->patience_us = 0;
		w->dead = w->is_stuck = true;
		w->evidence.exit.orphans = 1;
		if (!w->ended_us)
			w->ended_us = now;
	}
	pthread_mutex_unlock(&w->lock);
}

static void dispatch(struct watch *w, const struct epoll_event *ev)
{
	if (ev->data.ptr == &w->timer)
		tick(w);
	else if (ev->data.ptr == &w->live.sock)
		hear_init(w);
	else if (ev->data.ptr == &w->live.pidfd)
		reap(w);
	else if (ev->data.ptr == &w->live.listener)
		hear_filter(w, ev->events);
	else if (w->egress && ev->data.ptr == &w->egress->process)
		egress_ended(w->egress, w->epoll);
	else
		pump_step(ev->data.ptr);
}

/* The box is dead: what is still in the pipes belongs to the result. */
static bool drained(struct watch *w)
{
	bool all = true;

	if (w->pump_used[0])
		pump_close(&w->pumps[0]); /* nobody is left to read it */
	for (int i = 1; i < PUMP_COUNT; i++)
		if (w->pump_used[i] && !pump_drain(&w->pumps[i]))
			all = false;
	return all;
}

int watch_turn(struct watch *w, int timeout_ms, struct nsbox_error *err)
{
	struct epoll_event events[16];
	int n;

	if (w->dead && drained(w))
		return 1;
	n = epoll_wait(w->epoll, events, (int)ARRAY_SIZE(events), timeout_ms);
	if (n < 0 && errno != EINTR)
		return err_sys(err, "wait for the box");
	for (int i = 0; i < n; i++)
		dispatch(w, &events[i]);
	check_output(w);
	if (w->dead && drained(w))
		return 1;
	arm_timer(w); /* the caller may poll our descriptor instead of coming back */
	return 0;
}

/* ------------------------------------------------------------------------- begin -- */

static int add_source(struct watch *w, int fd, int *key)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = key };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev);
}

int watch_begin(struct watch *w, uint64_t timeout_us, struct nsbox_error *err)
{
	w->started_us = now_us();
	w->timeout_us = timeout_us;
	w->deadline_us = w->started_us + timeout_us;
	trees_init(&w->trees, w->plan->plan);
	w->busy_us = w->started_us;
	w->headroom = memory_limit(w->policy);
	if (needs_samples(w) || needs_events(w) || needs_trees(w))
		w->next_sample_us = w->started_us + sample_interval(w, w->started_us);
	if (add_source(w, w->timer, &w->timer) < 0 ||
	    add_source(w, w->live.sock, &w->live.sock) < 0 ||
	    add_source(w, w->live.pidfd, &w->live.pidfd) < 0 ||
	    (w->live.listener >= 0 &&
	     add_source(w, w->live.listener, &w->live.listener) < 0)) {
		int code = err_sys(err, "watch the box");

		live_kill(&w->live);
		live_reap(&w->live, -1);
		return code;
	}
	for (int i = 0; i < PUMP_COUNT; i++)
		if (w->pump_used[i])
			pump_start(&w->pumps[i]);
	arm_timer(w);
	return 0;
}
