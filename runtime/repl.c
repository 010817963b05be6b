/*
 * repl.c - the public face of a kernel. Checks every argument, then repl_turn.c.
 */
#include "runtime/repl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/cleanup.h"
#include "runtime/lang.h"

/* ----------------------------------------------------------------------- open -- */

static int keep(struct strlist *words, const char **s, struct nsbox_error *err)
{
	if (!*s)
		return 0;
	if (strlist_add(words, *s) < 0)
		return err_nomem(err);
	*s = words->v[words->n - 1];
	return 0;
}

static int keep_list(struct strlist *to, const char *const **list, struct nsbox_error *err)
{
	if (!*list)
		return 0;
	for (const char *const *s = *list; *s; s++)
		if (strlist_add(to, *s) < 0)
			return err_nomem(err);
	*list = to->n ? (const char *const *)to->v : NULL;
	return 0;
}

/* The run as it is started again later: nothing of the caller's is needed then. */
static int keep_run(struct nsbox_kernel *k, struct nsbox_error *err)
{
	const char **const texts[] = { &k->run.language, &k->run.project, &k->run.interpreter,
				       &k->run.cwd, &k->run.artifacts_dir, &k->run.name };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r >= 0; i++)
		r = keep(&k->words, texts[i], err);
	if (r >= 0)
		r = keep_list(&k->argv, &k->run.argv, err);
	return r < 0 ? r : keep_list(&k->env, &k->run.env, err);
}

static int watch_timer(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = TAG_TIMER };

	k->epoll = epoll_create1(EPOLL_CLOEXEC);
	k->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (k->epoll < 0 || k->timer < 0 || epoll_ctl(k->epoll, EPOLL_CTL_ADD, k->timer, &ev) < 0)
		return err_sys(err, "make the event loop");
	return 0;
}

static void kernel_free(struct nsbox_kernel *k)
{
	struct repl_request *q;
	struct repl_event *e;

	while ((q = k->first) != NULL) {
		k->first = q->next;
		free(q);
	}
	while ((e = k->events) != NULL) {
		k->events = e->next;
		repl_event_free(e);
	}
	free(k->current);
	repl_event_free(k->given);
	buf_free(&k->out.text);
	buf_free(&k->answers.text);
	buf_free(&k->body);
	if (k->epoll >= 0)
		close(k->epoll);
	if (k->timer >= 0)
		close(k->timer);
	nsbox_result_free(k->last);
	strlist_free(&k->words);
	strlist_free(&k->argv);
	strlist_free(&k->env);
	free(k);
}

/* limits.timeout is that of a run; of a kernel that stays it is each cell's. */
static void set_times(struct nsbox_kernel *k)
{
	uint64_t cell = k->box->policy.limits.timeout, life = k->run.timeout_ms * 1000;

	k->cell_us = life ? 0 : cell;
	if (!life)
		life = cell > REPL_LIFE_US ? cell : REPL_LIFE_US;
	k->life_us = now_us() + life;
}

int nsbox_kernel_open(struct nsbox_kernel **out, struct nsbox_box *box, const struct nsbox_run *run,
		      struct nsbox_error *err)
{
	struct nsbox_kernel *k;
	const char *language;
	int r;

	err_clear(err);
	if (!out || !box || !run)
		return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_open: out, box or run is NULL");
	if (box->watch)
		return err_set(err, NSBOX_E_BUSY, "the box has a run in flight");
	k = calloc(1, sizeof(*k));
	if (!k)
		return err_nomem(err);
	k->box = box;
	k->epoll = k->timer = -1;
	k->last_request = &k->first;
	k->last_event = &k->events;
	r = run_read_kernel(&k->run, run, err);
	if (r >= 0)
		r = examine_kernel(&box->examine, box->tier, &box->policy, &k->run, err);
	if (r >= 0)
		r = keep_run(k, err);
	if (r >= 0)
		r = watch_timer(k, err);
	language = r < 0 ? NULL : lang_canonical(k->run.language);
	k->is_shell = language && strcmp(language, "bash") == 0;
	if (k->is_shell)
		k->run.flags |= RUN_ANSWERS;
	set_times(k);
	if (r >= 0)
		r = repl_start(k, err);
	if (r < 0) {
		kernel_free(k);
		return r;
	}
	*out = k;
	return 0;
}

int nsbox_kernel_close(struct nsbox_kernel *k, struct nsbox_result **out, struct nsbox_error *err)
{
	err_clear(err);
	if (!k)
		return out ? err_set(err, NSBOX_E_USAGE, "nsbox_kernel_close: no kernel") : 0;
	repl_end_run(k, err);
	if (out && !k->last) {
		kernel_free(k);
		return err_set(err, NSBOX_E_SYSTEM, "the box has no result");
	}
	if (out)
		*out = take_ptr(k->last);
	kernel_free(k);
	err_clear(err);
	return 0;
}

/* ------------------------------------------------------------------- meanwhile -- */

int nsbox_kernel_fd(const struct nsbox_kernel *k)
{
	return k ? k->epoll : -1;
}

static int send_answer(struct nsbox_kernel *k, uint64_t call, const char *json, size_t len,
		       struct nsbox_error *err)
{
	size_t i = 0;

	while (i < k->call_count && k->calls[i] != call)
		i++;
	if (i == k->call_count || k->is_dying)
		return err_set(err, NSBOX_E_BUSY, "nobody waits for the answer to call %llu",
			       (unsigned long long)call);
	k->calls[i] = k->calls[--k->call_count];
	return repl_wire_answer(k, json, len, err);
}

static bool is_known(const struct nsbox_kernel *k, uint64_t id)
{
	const struct repl_request *q = k->first;

	while (q && q->id != id)
		q = q->next;
	return q || (k->current && k->current->id == id);
}

/* The request as the driver reads it. */
static int write_request(struct nsbox_kernel *k, struct buf *text, uint64_t id,
			 const char *json, size_t len, struct nsbox_error *err)
{
	char head[4];

	if (k->is_shell)
		return repl_shell_request(text, id, json, len, err);
	repl_wire_head(head, len);
	buf_add(text, head, sizeof(head));
	buf_add(text, json, len);
	return text->failed ? err_nomem(err) : 0;
}

static int queue(struct nsbox_kernel *k, const struct repl_request *head, const char *json,
		 size_t len, struct nsbox_error *err)
{
	owned(buf_free) struct buf text = BUF_INIT(2 * REPL_FRAME_MAX);
	struct repl_request *q;
	int r;

	if (is_known(k, head->id))
		return err_set(err, NSBOX_E_USAGE, "the request %llu is not done yet: choose another id",
			       (unsigned long long)head->id);
	r = write_request(k, &text, head->id, json, len, err);
	if (r < 0)
		return r;
	q = malloc(sizeof(*q) + text.len);
	if (!q)
		return err_nomem(err);
	q->next = NULL;
	q->id = head->id;
	q->timeout_ms = head->timeout_ms;
	q->len = text.len;
	memcpy(q->text, text.data, text.len);
	*k->last_request = q;
	k->last_request = &q->next;
	k->queued += q->len;
	repl_next_request(k);
	return 0;
}

int nsbox_kernel_send(struct nsbox_kernel *k, const char *json, size_t len, struct nsbox_error *err)
{
	struct repl_request head = { 0 };
	uint64_t call = 0;
	int r;

	err_clear(err);
	if (!k || !json)
		return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_send: k or json is NULL");
	if (k->is_over)
		return err_set(err, NSBOX_E_BUSY, "the kernel is over: %s", k->why.message);
	r = repl_request_check(json, len, &head.id, &call, &head.timeout_ms, err);
	if (r < 0)
		return r;
	if (k->queued + repl_wire_unsent(k) + len > REPL_QUEUE_MAX) {
		err_hint(err, "read events until the requests before are done");
		return err_set(err, NSBOX_E_BUSY, "more than 128 MiB of requests are queued");
	}
	return call ? send_answer(k, call, json, len, err) : queue(k, &head, json, len, err);
}

int nsbox_kernel_next(struct nsbox_kernel *k, const char **json, size_t *len,
		      struct nsbox_error *err)
{
	struct repl_event *e;

	err_clear(err);
	if (!k || !json)
		return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_next: k or json is NULL");
	repl_event_free(take_ptr(k->given));
	if (!k->events && !k->is_over)
		repl_turn(k);
	e = k->events;
	if (!e && k->is_over)
		return err_set(err, k->why.code, "%s", k->why.message);
	if (!e)
		return 0;
	k->events = e->next;
	if (!k->events)
		k->last_event = &k->events;
	k->given = e;
	if (e->text.failed)
		return err_nomem(err);
	*json = buf_text(&e->text);
	if (len)
		*len = e->text.len;
	return 1;
}

int nsbox_kernel_interrupt(struct nsbox_kernel *k, struct nsbox_error *err)
{
	err_clear(err);
	if (!k)
		return err_set(err, NSBOX_E_USAGE, "nsbox_kernel_interrupt: no kernel");
	if (k->is_over)
		return err_set(err, NSBOX_E_BUSY, "the kernel is over: %s", k->why.message);
	repl_interrupt(k, CAUSE_INTERRUPT);
	return 0;
}
