/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that stay: an interpreter each, which runs one cell after another. Runs in
 * `nsbox rpc`, in its one loop. Requests and events are passed on as they were written;
 * only what names the box and the request is ours.
 *
 * Must answer each request that was passed on exactly once, also when its interpreter
 * died, its box was closed, or both.
 */
#include <string.h>
#include <sys/epoll.h>

#include "tools/nsbox/rpc.h"
#include "tools/nsbox/rpc_build.h"
#include "tools/nsbox/say.h"

#define EVENTS_A_TURN 64
#define PENDING_MAX 4096 /* requests that wait in one box */

struct rpc_kernel {
	char name[16];		/* "b12": never used twice */
	size_t slot;
	uint64_t opened_by;	/* the id of "open" */
	bool is_opening;	/* that one is not answered yet */
	bool is_over;		/* nothing more will come; it is there to be closed */
	bool is_watched, has_more;
	struct nsbox_box *box;
	struct nsbox_kernel *kernel; /* NULL while @start opens it */
	struct rpc_start *start;
	uint64_t *pending;	/* ids without an answer, the oldest first */
	size_t pending_count;
};

/* --- finding ---------------------------------------------------------------------- */

static int find(struct rpc *r, const struct rpc_request *q, struct rpc_kernel **out,
		struct nsbox_error *err)
{
	char name[16] = "";

	if (!rpc_word(q->v[K_BOX], name, sizeof(name)))
		return cli_fail(err, NSBOX_E_USAGE, "'box' is no name of a box");
	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		struct rpc_kernel *k = r->kernels[i];

		if (k && !k->is_opening && strcmp(k->name, name) == 0) {
			*out = k;
			return 0;
		}
	}
	cli_hint(err, "\"open\" gives one its name, and \"close\" takes it");
	return cli_fail(err, NSBOX_E_USAGE, "there is no box '%s'", name);
}

static struct rpc_kernel *waiting_for(const struct rpc *r, uint64_t id, size_t *place)
{
	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		struct rpc_kernel *k = r->kernels[i];

		for (size_t p = 0; k && p < k->pending_count; p++) {
			if (k->pending[p] == id) {
				*place = p;
				return k;
			}
		}
	}
	return NULL;
}

bool rpc_kernel_has(const struct rpc *r, uint64_t id)
{
	size_t place;

	return waiting_for(r, id, &place) != NULL;
}

static void forget(struct rpc_kernel *k, uint64_t id)
{
	for (size_t p = 0; p < k->pending_count; p++) {
		if (k->pending[p] != id)
			continue;
		k->pending_count--;
		memmove(k->pending + p, k->pending + p + 1,
			(k->pending_count - p) * sizeof(*k->pending));
		return;
	}
}

/* --- events ------------------------------------------------------------------------- */

static void must(struct rpc *r, int written)
{
	if (written < 0)
		rpc_out_of_memory(r);
}

struct event {
	struct jscan whole, id, name;
	uint64_t number;	/* of the request; 0: of none */
};

static int read_event(struct event *e, const char *json, size_t len, struct nsbox_error *err)
{
	struct jscan key, value;
	size_t at = 0;
	int code;

	*e = (struct event){ 0 };
	code = jscan_check(&e->whole, json, len, err);
	while (code == 0 && jscan_next(e->whole, &at, &key, &value)) {
		char name[16];

		if (!rpc_word(key, name, sizeof(name)))
			continue;
		if (strcmp(name, "id") == 0)
			e->id = value;
		else if (strcmp(name, "event") == 0)
			e->name = value;
	}
	if (e->id.p)
		jscan_uint(e->id, RPC_NUMBER_MAX, &e->number);
	return code;
}

static bool is_named(const struct event *e, const char *name)
{
	char word[32];

	return rpc_word(e->name, word, sizeof(word)) && strcmp(word, name) == 0;
}

/* All members but "id" and, with @bare, "event". */
static void put_members(struct json *j, const struct event *e, bool bare)
{
	struct jscan key, value;
	size_t at = 0;

	while (jscan_next(e->whole, &at, &key, &value)) {
		if (value.p != e->id.p && (!bare || value.p != e->name.p))
			json_member(j, key, value);
	}
}

static void answer_opened(struct rpc *r, struct rpc_kernel *k, const struct event *e)
{
	struct json j;
	size_t start = answer_begin(&r->out, &j, k->opened_by);

	json_object(&j);
	json_kstr(&j, "box", k->name);
	put_members(&j, e, true);
	json_end(&j, '}');
	must(r, answer_end(&r->out, &j, start, k->opened_by));
	forget(k, k->opened_by);
	k->is_opening = false;
}

static void answer_done(struct rpc *r, struct rpc_kernel *k, const struct event *e)
{
	struct json j;
	size_t start = answer_begin(&r->out, &j, e->number);

	json_object(&j);
	put_members(&j, e, true);
	json_end(&j, '}');
	must(r, answer_end(&r->out, &j, start, e->number));
	forget(k, e->number);
}

static void pass_on(struct rpc *r, const struct rpc_kernel *k, const struct event *e)
{
	struct json j;
	size_t start = frame_begin(&r->out, &j, e->number ? e->number : k->opened_by);

	if (!e->number)
		json_kstr(&j, "box", k->name);
	put_members(&j, e, false);
	json_end(&j, '}');
	/* Larger than a frame by what was added: a display that is not shown, no more. */
	if (frame_out_end(&r->out, start) < 0)
		say("an event of box %s fits no frame and was dropped", k->name);
}

static void take_event(struct rpc *r, struct rpc_kernel *k, const char *json, size_t len)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct event e;

	if (read_event(&e, json, len, &err) < 0)
		say("box %s: an event is %s", k->name, err.message);
	else if (k->is_opening && is_named(&e, "ready"))
		answer_opened(r, k, &e);
	else if (e.number && is_named(&e, "done"))
		answer_done(r, k, &e);
	else if (!k->is_opening)
		pass_on(r, k, &e);
}

static void watch(struct rpc *r, struct rpc_kernel *k, bool on)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = RPC_TAG(TAG_KERNEL, k->slot) };
	int fd = nsbox_kernel_fd(k->kernel);

	if (on == k->is_watched)
		return;
	if (epoll_ctl(r->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev) == 0)
		k->is_watched = on;
	else
		nsbox_box_kill(k->box); /* nobody would hear it */
}

static void free_kernel(struct rpc *r, struct rpc_kernel *k, struct nsbox_result **result,
			struct nsbox_error *err)
{
	r->kernels[k->slot] = NULL;
	if (k->start)
		k->kernel = rpc_start_abort(k->start);
	if (k->kernel && k->is_watched)
		watch(r, k, false);
	if (k->kernel && nsbox_kernel_close(k->kernel, result, err) < 0 && !err->code)
		cli_fail(err, NSBOX_E_SYSTEM, "the box could not be closed");
	nsbox_box_close(k->box);
	free(k->pending);
	free(k);
}

/* Every request that waits gets @err. */
static void refuse_pending(struct rpc *r, struct rpc_kernel *k, const struct nsbox_error *err)
{
	for (size_t i = 0; i < k->pending_count; i++)
		must(r, answer_error(&r->out, k->pending[i], err));
	k->pending_count = 0;
}

static void over(struct rpc *r, struct rpc_kernel *k, const struct nsbox_error *err)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;

	if (k->kernel)
		watch(r, k, false);
	k->is_over = true;
	refuse_pending(r, k, err);
	if (k->is_opening) /* nobody has its name */
		free_kernel(r, k, NULL, &ignored);
}

void rpc_kernel_ready(struct rpc *r, size_t slot)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc_kernel *k = r->kernels[slot];
	const char *json = NULL;
	size_t len = 0;
	int code = 1;

	if (!k || k->is_over || !k->kernel)
		return;
	for (int n = 0; n < EVENTS_A_TURN && code == 1 && !rpc_is_full(r); n++) {
		code = nsbox_kernel_next(k->kernel, &json, &len, &err);
		if (code == 1)
			take_event(r, k, json, len);
	}
	/* It is readable for what its box has to say, not for events that we left. */
	k->has_more = code == 1;
	r->kernels_have_more |= k->has_more;
	if (code < 0)
		over(r, k, &err);
}

void rpc_kernels_go_on(struct rpc *r)
{
	r->kernels_have_more = false;
	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		if (r->kernels[i] && r->kernels[i]->has_more)
			rpc_kernel_ready(r, i);
	}
}

void rpc_kernels_watch(struct rpc *r, bool on)
{
	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		if (r->kernels[i] && r->kernels[i]->kernel && !r->kernels[i]->is_over)
			watch(r, r->kernels[i], on);
	}
}

/* --- requests ------------------------------------------------------------------------- */

static int add_pending(struct rpc_kernel *k, uint64_t id, struct nsbox_error *err)
{
	uint64_t *pending;

	if (k->pending_count == PENDING_MAX) {
		cli_hint(err, "wait for the answer of one of them");
		return cli_fail(err, NSBOX_E_BUSY, "%d requests wait in this box already",
				PENDING_MAX);
	}
	pending = realloc(k->pending, (k->pending_count + 1) * sizeof(*pending));
	if (!pending)
		return cli_nomem(err);
	k->pending = pending;
	k->pending[k->pending_count++] = id;
	return 0;
}

static int free_slot(struct rpc *r, size_t *out, struct nsbox_error *err)
{
	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		if (!r->kernels[i]) {
			*out = i;
			return 0;
		}
	}
	cli_hint(err, "close one of them");
	return cli_fail(err, NSBOX_E_BUSY, "%d boxes are open already", RPC_KERNELS_MAX);
}

static int open_box(struct rpc *r, struct rpc_kernel *k, const struct rpc_request *q,
		    struct nsbox_error *err)
{
	struct rpc_build b = RPC_BUILD_INIT;
	int code = rpc_build(&b, q, err);

	if (code == 0)
		code = add_pending(k, q->id, err);
	if (code == 0)
		code = nsbox_box_open(&k->box, b.tier, b.policy, err);
	if (code == 0 && rpc_start_is_slow(&b))
		code = rpc_start_begin(r, &k->start, &b, k->box, RPC_TAG(TAG_OPENED, k->slot), err);
	else if (code == 0)
		code = nsbox_kernel_open(&k->kernel, k->box, &b.run, err);
	if (k->kernel && !r->is_full)
		watch(r, k, true);
	rpc_build_free(&b);
	return code;
}

void rpc_kernel_opened(struct rpc *r, size_t slot)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc_kernel *k = r->kernels[slot];
	int code;

	if (!k || !k->start || !rpc_start_over(r, k->start, k->opened_by))
		return;
	code = rpc_start_end(k->start, &k->kernel, &err);
	k->start = NULL;
	if (code < 0)
		over(r, k, &err);
	else if (!r->is_full)
		watch(r, k, true);
}

int rpc_kernel_open(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;
	size_t slot = 0;
	struct rpc_kernel *k;
	int code = free_slot(r, &slot, err);

	if (code < 0)
		return code;
	k = calloc(1, sizeof(*k));
	if (!k)
		return cli_nomem(err);
	k->slot = slot;
	k->opened_by = q->id;
	k->is_opening = true;
	snprintf(k->name, sizeof(k->name), "b%u", ++r->kernels_named);
	r->kernels[slot] = k;
	code = open_box(r, k, q, err);
	if (code < 0)
		free_kernel(r, k, NULL, &ignored);
	return code;
}

/* The request as the interpreter takes it: all of it but the name of the box. */
static int send(struct rpc_kernel *k, const struct rpc_request *q, struct nsbox_error *err)
{
	struct buf text = BUF_INIT(FRAME_MAX);
	struct json j = JSON_INIT(&text);
	int code;

	json_object(&j);
	if (q->op != OP_REPLY) {
		json_kuint(&j, "id", q->id);
		json_kstr(&j, "op", rpc_ops[q->op].name);
	}
	for (size_t i = 0; i < K_COUNT; i++) {
		if (!q->v[i].p || i == K_ID || i == K_OP || i == K_BOX)
			continue;
		json_key(&j, rpc_keys[i].name);
		json_cut(&j, q->v[i]);
	}
	json_end(&j, '}');
	if (text.failed)
		code = cli_nomem(err);
	else
		code = nsbox_kernel_send(k->kernel, text.data, text.len, err);
	buf_free(&text);
	return code;
}

int rpc_kernel_request(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	struct rpc_kernel *k = NULL;
	int code = find(r, q, &k, err);

	if (code == 0)
		code = add_pending(k, q->id, err);
	if (code < 0)
		return code;
	code = send(k, q, err);
	if (code < 0)
		forget(k, q->id);
	/* Something may be there to be told at once. */
	k->has_more = true;
	r->kernels_have_more = true;
	return code;
}

/*
 * There is no answer that could refuse a reply, and a cell waits for it: what cannot be
 * passed on becomes an exception in the cell. The call may be over by now; then nobody
 * waits.
 */
void rpc_kernel_reply(struct rpc *r, const struct rpc_request *q)
{
	struct nsbox_error err = NSBOX_ERROR_INIT, ignored = NSBOX_ERROR_INIT;
	struct buf text = BUF_INIT(FRAME_MAX);
	struct json j = JSON_INIT(&text);
	struct rpc_kernel *k = NULL;
	int code;

	if (find(r, q, &k, &ignored) < 0)
		return;
	if (!q->v[K_VALUE].p == !q->v[K_ERROR].p)
		code = cli_fail(&err, NSBOX_E_USAGE, "a reply has either 'value' or 'error'");
	else
		code = send(k, q, &err);
	if (code == 0 || code == NSBOX_E_BUSY)
		return;
	json_object(&j);
	json_key(&j, "call");
	json_cut(&j, q->v[K_CALL]);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "name", "RuntimeError");
	json_kstr(&j, "value", err.message);
	json_end(&j, '}');
	json_end(&j, '}');
	ignored = (struct nsbox_error)NSBOX_ERROR_INIT;
	if (!text.failed && nsbox_kernel_send(k->kernel, text.data, text.len, &ignored) < 0 &&
	    ignored.code != NSBOX_E_BUSY)
		say("a reply was refused: %s", err.message);
	buf_free(&text);
}

int rpc_kernel_interrupt(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	struct rpc_kernel *k = NULL;
	struct json j;
	size_t start;
	int code = find(r, q, &k, err);

	if (code == 0)
		code = nsbox_kernel_interrupt(k->kernel, err);
	if (code < 0)
		return code;
	start = answer_begin(&r->out, &j, q->id);
	json_object(&j);
	json_kstr(&j, "box", k->name);
	json_end(&j, '}');
	must(r, answer_end(&r->out, &j, start, q->id));
	return 0;
}

/* A cell in hand is interrupted; "open" is given up; what waits behind others cannot be
 * taken back. 1: found, 0: not. */
int rpc_kernel_cancel(struct rpc *r, uint64_t id, struct nsbox_error *err)
{
	struct nsbox_error given_up = NSBOX_ERROR_INIT;
	size_t place = 0;
	struct rpc_kernel *k = waiting_for(r, id, &place);
	int code;

	if (!k)
		return 0;
	if (k->is_opening) {
		cli_fail(&given_up, NSBOX_E_BUSY, "it was canceled");
		over(r, k, &given_up);
		return 1;
	}
	if (place > 0) {
		cli_hint(err, "\"interrupt\" ends the request that is in hand");
		return cli_fail(err, NSBOX_E_BUSY, "request %llu waits behind others in its box",
				(unsigned long long)id);
	}
	code = nsbox_kernel_interrupt(k->kernel, err);
	return code < 0 ? code : 1;
}

int rpc_kernel_close(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	struct nsbox_error closed = NSBOX_ERROR_INIT;
	struct nsbox_result *result = NULL;
	struct rpc_kernel *k = NULL;
	const char *record;
	struct json j;
	size_t start;
	int code = find(r, q, &k, err);

	if (code < 0)
		return code;
	cli_fail(&closed, NSBOX_E_BUSY, "the box was closed before this was done");
	refuse_pending(r, k, &closed);
	free_kernel(r, k, &result, err);
	record = result ? nsbox_result_json(result) : NULL;
	if (record) {
		start = answer_begin(&r->out, &j, q->id);
		json_raw(&j, record);
		must(r, answer_end(&r->out, &j, start, q->id));
	} else {
		code = err->code ? err->code : cli_nomem(err);
	}
	nsbox_result_free(result);
	return record ? 0 : code;
}

void rpc_kernels_close(struct rpc *r)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;

	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		if (r->kernels[i])
			nsbox_box_kill(r->kernels[i]->box);
	}
	for (size_t i = 0; i < RPC_KERNELS_MAX; i++) {
		if (r->kernels[i])
			free_kernel(r, r->kernels[i], NULL, &ignored);
	}
}
