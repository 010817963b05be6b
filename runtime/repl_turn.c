/*
 * repl_turn.c - a kernel's readiness: deadlines, the interpreter's death, starting anew
 *
 * Must: give every request its event "done", however its interpreter ends. Mustn't: wait
 * for anything but the death of a box that was killed.
 */
#include "runtime/repl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/cleanup.h"

enum { TURNS_MAX = 64 }; /* frames that come to nothing, in one call */

/* -------------------------------------------------------------------- clocks -- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a ? b : !b || a < b ? a : b;
}

void repl_arm(struct nsbox_kernel *k)
{
	uint64_t at = sooner(k->deadline_us, sooner(k->kill_us, k->again_us)), now, rest;
	struct itimerspec when = { 0 };

	if (at == k->next_us)
		return;
	k->next_us = at;
	if (at) {
		now = now_us();
		rest = at > now ? at - now : 1;
		when.it_value.tv_sec = (time_t)(rest / 1000000);
		when.it_value.tv_nsec = (long)(rest % 1000000 * 1000);
	}
	timerfd_settime(k->timer, 0, &when, NULL);
}

/* A payload that has ended meanwhile is noticed by its box. */
static void send_interrupt(struct nsbox_kernel *k)
{
	if (!k->box->watch || k->box->failed_exec)
		return;
	watch_signal_told(k->box->watch, SIGINT);
	k->was_signalled = true;
}

/* Twice, for one that came before the cell had begun. */
static void interrupt_again(struct nsbox_kernel *k, uint64_t now)
{
	uint64_t second = k->kill_us - REPL_GRACE_MS * 500;

	k->again_us = now < second ? second : 0;
	send_interrupt(k);
}

void repl_interrupt(struct nsbox_kernel *k, enum repl_cause cause)
{
	uint64_t now = now_us();
	bool is_between = k->is_settling || (!k->current && k->was_signalled);

	if (is_between && k->first)
		k->interrupts_first = true;
	if (is_between || !k->current || k->cause != CAUSE_NONE)
		return;
	k->cause = cause;
	k->deadline_us = 0;
	k->again_us = k->begun_us + REPL_YOUNG_US;
	k->kill_us = now + REPL_GRACE_MS * 1000;
	if (now >= k->again_us)
		interrupt_again(k, now);
	repl_arm(k);
}

static void look_at_clocks(struct nsbox_kernel *k)
{
	uint64_t rings = 0, now = now_us();

	if (read(k->timer, &rings, sizeof(rings)) < 0)
		return;
	k->next_us = 0;
	if (k->deadline_us && now >= k->deadline_us)
		repl_interrupt(k, CAUSE_TIMEOUT);
	if (k->again_us && now >= k->again_us)
		interrupt_again(k, now);
	if (k->kill_us && now >= k->kill_us) {
		k->kill_us = 0;
		k->was_killed = true;
		nsbox_box_kill(k->box);
	}
	repl_arm(k);
}

/* ------------------------------------------------------------------ requests -- */

static void hand_over(struct nsbox_kernel *k, struct repl_request *q)
{
	k->current = q;
	buf_add(&k->out.text, q->text, q->len);
	repl_wire_flush(k);
}

/* One that does not answer is killed as a cell that goes on after an interrupt. */
static void settle(struct nsbox_kernel *k)
{
	static const char json[] = "{\"id\":0,\"op\":\"settle\"}";
	struct nsbox_error err = NSBOX_ERROR_INIT;
	owned(buf_free) struct buf text = BUF_INIT(256);
	struct repl_request *q;
	char head[4];

	if (k->box->watch && k->box->watch->signals_due) /* look_at_box() comes here again */
		return;
	if (k->is_shell) {
		repl_shell_head(&text, "settle", 0, 0);
	} else {
		repl_wire_head(head, sizeof(json) - 1);
		buf_add(&text, head, sizeof(head));
		buf_str(&text, json);
	}
	q = text.failed ? NULL : calloc(1, sizeof(*q) + text.len);
	if (!q) {
		err_nomem(&err);
		repl_fail(k, &err);
		return;
	}
	q->len = text.len;
	memcpy(q->text, text.data, text.len);
	k->was_signalled = false;
	k->is_settling = true;
	k->cause = CAUSE_INTERRUPT;
	k->kill_us = now_us() + REPL_GRACE_MS * 1000;
	hand_over(k, q);
	repl_arm(k);
}

void repl_next_request(struct nsbox_kernel *k)
{
	struct repl_request *q = k->first;
	uint64_t time;

	if (k->current || !k->is_ready || k->is_dying || !q)
		return;
	if (k->was_signalled) {
		settle(k);
		return;
	}
	k->first = q->next;
	if (!k->first)
		k->last_request = &k->first;
	k->queued -= q->len;
	k->cause = CAUSE_NONE;
	time = q->timeout_ms ? q->timeout_ms * 1000 : k->cell_us;
	k->begun_us = now_us();
	k->deadline_us = time ? k->begun_us + time : 0;
	repl_text_begin(k);
	hand_over(k, q);
	repl_arm(k);
	if (k->interrupts_first) {
		k->interrupts_first = false;
		repl_interrupt(k, CAUSE_INTERRUPT);
	}
}

void repl_finish_request(struct nsbox_kernel *k)
{
	repl_calls_end(k);
	free(take_ptr(k->current));
	k->deadline_us = k->again_us = k->kill_us = 0;
	k->cause = CAUSE_NONE;
	k->is_settling = false;
	repl_next_request(k);
	repl_arm(k);
}

/* Nobody waits for a request of ours. */
static void drop_settling(struct nsbox_kernel *k)
{
	if (k->is_settling)
		free(take_ptr(k->current));
	k->is_settling = false;
}

static void refuse_requests(struct nsbox_kernel *k, const char *reason)
{
	struct repl_request *q;

	drop_settling(k);
	if (k->current) {
		repl_done_by_death(k, k->current, false, reason);
		free(take_ptr(k->current));
	}
	while ((q = k->first) != NULL) {
		k->first = q->next;
		repl_done_by_death(k, q, false, reason);
		free(q);
	}
	k->last_request = &k->first;
	k->queued = 0;
}

/* --------------------------------------------------------------- start and end -- */

int repl_start(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = TAG_BOX };
	uint64_t now = now_us();
	int r;

	if (now >= k->life_us)
		return err_set(err, NSBOX_E_BUSY, "the time of the kernel is over");
	k->run.timeout_ms = (k->life_us - now + 999) / 1000;
	r = run_start(k->box, &k->run, err);
	if (r < 0)
		return r;
	repl_wire_reset(k);
	k->is_ready = k->is_dying = k->was_killed = k->said_too_much = false;
	k->was_signalled = false;
	for (int i = 0; i < 2; i++)
		k->streams[i].is_over = k->streams[i].is_watched = false;
	if (epoll_ctl(k->epoll, EPOLL_CTL_ADD, nsbox_box_fd(k->box), &ev) < 0)
		r = err_sys(err, "watch the box");
	if (r >= 0)
		r = repl_wire_watch(k, err);
	if (r < 0)
		run_drop(k->box);
	return r;
}

void repl_end_run(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct nsbox_result *res = NULL;
	int r = 0;

	if (!k->box->watch)
		return;
	nsbox_box_kill(k->box);
	while (r == 0)
		r = nsbox_box_wait(k->box, -1, err);
	if (r < 0) {
		run_drop(k->box);
		return;
	}
	if (nsbox_box_collect(k->box, &res, err) < 0)
		return;
	nsbox_result_free(k->last);
	k->last = res;
}

void repl_fail(struct nsbox_kernel *k, const struct nsbox_error *err)
{
	struct nsbox_error own = *err;

	k->is_over = true;
	repl_end_run(k, NULL);
	refuse_requests(k, own.message);
	repl_dead(k, false, own.message);
	k->why = own;
}

/* ---------------------------------------------------------------------- death -- */

static void describe_death(const struct nsbox_kernel *k, char *text, size_t size)
{
	const struct nsbox_result *r = k->last;
	const char *reason = nsbox_result_reason(r);

	if (k->said_too_much)
		snprintf(text, size, "output_limit: it printed more than limits.stdout or limits.stderr");
	else if (k->was_killed && k->cause == CAUSE_TIMEOUT)
		snprintf(text, size, "timed_out: it went on after its time and an interrupt");
	else if (k->was_killed && k->cause == CAUSE_INTERRUPT)
		snprintf(text, size, "interrupted: it went on after an interrupt");
	else if (k->was_killed)
		snprintf(text, size, "closed: it closed its channel");
	else if (reason)
		snprintf(text, size, "%s", reason);
	else if (nsbox_result_signal(r))
		snprintf(text, size, "signaled: it died of signal %d", nsbox_result_signal(r));
	else
		snprintf(text, size, "exited: it ended with status %d", nsbox_result_exit_code(r));
}

/* What it said and printed before its end. */
static void read_the_rest(struct nsbox_kernel *k)
{
	k->is_dying = true;
	k->deadline_us = k->again_us = k->kill_us = 0;
	while (repl_wire_read(k) == 1)
		if (repl_frame_take(k, NULL) < 0)
			break;
	if (!k->current || k->is_settling)
		return;
	repl_text_drain(k, true);
	repl_text_end(k);
}

static void go_on(struct nsbox_kernel *k, const char *reason)
{
	repl_done_by_death(k, k->current, true, reason);
	free(take_ptr(k->current));
	k->cause = CAUSE_NONE;
}

static void handle_death(struct nsbox_kernel *k)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	enum kill_reason killed = k->box->watch->evidence.killed;
	bool was_ready = k->is_ready, is_ours = k->was_killed;
	struct nsbox_result *res = NULL;
	char reason[600];

	read_the_rest(k);
	if (nsbox_box_collect(k->box, &res, &err) < 0) {
		repl_fail(k, &err);
		return;
	}
	nsbox_result_free(k->last);
	k->last = res;
	describe_death(k, reason, sizeof(reason));
	drop_settling(k);
	if (!was_ready)
		err_set(&err, NSBOX_E_SETUP, "the interpreter did not come up: %s", reason);
	else if (killed == KILL_TIMEOUT || (killed == KILL_CALLER && !is_ours))
		err_set(&err, NSBOX_E_BUSY, "the kernel is over: %s", reason);
	else if (repl_start(k, &err) == 0) {
		if (k->current)
			go_on(k, reason);
		repl_dead(k, true, reason);
		repl_arm(k);
		return;
	}
	k->is_over = true;
	refuse_requests(k, reason);
	repl_dead(k, false, reason);
	k->why = err;
}

/* ----------------------------------------------------------------------- turn -- */

static void read_channel(struct nsbox_kernel *k)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int r = repl_wire_read(k);

	if (r == 1) {
		if (repl_frame_take(k, &err) < 0)
			repl_fail(k, &err);
	} else if (r < 0 && !k->current) {
		k->was_killed = true; /* with a request in hand another program may run there */
		nsbox_box_kill(k->box);
	}
}

static void look_at_box(struct nsbox_kernel *k)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int r = nsbox_box_wait(k->box, 0, &err);

	if (r < 0)
		repl_fail(k, &err);
	else if (r == 1)
		handle_death(k);
	else
		repl_next_request(k); /* one may wait for init's answer */
}

static void handle(struct nsbox_kernel *k, uint32_t tag)
{
	switch (tag) {
	case TAG_CHANNEL:
		if (k->out.waits)
			repl_wire_flush(k);
		read_channel(k);
		break;
	case TAG_ANSWERS:
		repl_wire_flush(k);
		break;
	case TAG_STDOUT:
	case TAG_STDERR:
		if (k->current && !k->is_settling)
			repl_text_read(k, tag == TAG_STDERR, REPL_ROOM);
		break;
	case TAG_TIMER:
		look_at_clocks(k);
		break;
	default:
		look_at_box(k);
	}
}

void repl_turn(struct nsbox_kernel *k)
{
	for (int i = 0; i < TURNS_MAX && !k->events && !k->is_over; i++) {
		struct epoll_event ready; /* one: what is handled may make the next one stale */

		if (epoll_wait(k->epoll, &ready, 1, 0) <= 0)
			return;
		handle(k, ready.data.u32);
	}
}
