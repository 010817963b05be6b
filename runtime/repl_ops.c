/*
 * repl_ops.c - what a request may be, and events from what a driver says
 *
 * Must: refuse a key that an operation does not have; put into an event nothing of the
 * driver's but JSON that was checked, and no claim about what only we know.
 */
#include "runtime/repl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

/* ------------------------------------------------------------------- requests -- */

enum {
	OP_EXECUTE = 1, OP_SET = 2, OP_TOOLS = 4, OP_EXEC = 8, OP_PUT = 16, OP_GET = 32, OP_LIST = 64,
	OP_ALL = 127
};

static const struct {
	const char *name;
	unsigned op;
} ops[] = {
	{ "execute", OP_EXECUTE }, { "set", OP_SET }, { "tools", OP_TOOLS }, { "exec", OP_EXEC },
	{ "put", OP_PUT }, { "get", OP_GET }, { "list", OP_LIST },
};

static const struct {
	const char *name;
	enum jscan_kind kind;
	unsigned takes, needs;
} keys[] = {
	{ "id", JSCAN_NUMBER, OP_ALL, OP_ALL },
	{ "op", JSCAN_STRING, OP_ALL, OP_ALL },
	{ "timeout_ms", JSCAN_NUMBER, OP_ALL, 0 },
	{ "code", JSCAN_STRING, OP_EXECUTE, OP_EXECUTE },
	{ "env", JSCAN_OBJECT, OP_EXECUTE | OP_EXEC, 0 },
	{ "stdin", JSCAN_BOOL, OP_EXECUTE, 0 },
	{ "store", JSCAN_BOOL, OP_EXECUTE, 0 },
	{ "values", JSCAN_OBJECT, OP_SET, OP_SET },
	{ "tools", JSCAN_ARRAY, OP_TOOLS, OP_TOOLS },
	{ "argv", JSCAN_ARRAY, OP_EXEC, OP_EXEC },
	{ "stdin", JSCAN_STRING, OP_EXEC, 0 },
	{ "cwd", JSCAN_STRING, OP_EXEC, 0 },
	{ "path", JSCAN_STRING, OP_PUT | OP_GET | OP_LIST, OP_PUT | OP_GET | OP_LIST },
	{ "data", JSCAN_STRING, OP_PUT, OP_PUT },
	{ "mode", JSCAN_NUMBER, OP_PUT, 0 },
	{ "parents", JSCAN_BOOL, OP_PUT, 0 },
	{ "max_bytes", JSCAN_NUMBER, OP_GET, 0 },
};

bool repl_is_text(struct jscan v, const char *text)
{
	size_t len = strlen(text);

	return v.len == len + 2 && memcmp(v.p + 1, text, len) == 0;
}

struct jscan repl_member(struct jscan object, const char *name)
{
	struct jscan key, value;

	for (size_t at = 0; jscan_next(object, &at, &key, &value);)
		if (repl_is_text(key, name))
			return value;
	return (struct jscan){ NULL, 0 };
}

/* Row of @key for @op; -1: it has none. */
static int find_key(struct jscan key, unsigned op)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if ((keys[i].takes & op) && repl_is_text(key, keys[i].name))
			return (int)i;
	return -1;
}

static int check_member(struct jscan key, struct jscan value, unsigned op, unsigned *seen,
			struct nsbox_error *err)
{
	int len = (int)(key.len < 64 ? key.len : 64), i = find_key(key, op);
	enum jscan_kind kind = jscan_kind(value);

	if (i < 0)
		return err_set(err, NSBOX_E_USAGE, "the request has a key that its op does not know: %.*s",
			       len, key.p);
	if (*seen & (1U << i))
		return err_set(err, NSBOX_E_USAGE, "the request has the key %.*s twice", len, key.p);
	*seen |= 1U << i;
	if (kind != keys[i].kind && !(kind == JSCAN_NULL && !(keys[i].needs & op)))
		return err_set(err, NSBOX_E_USAGE, "%.*s of the request is %s, not %s", len, key.p,
			       jscan_kind_name(kind), jscan_kind_name(keys[i].kind));
	return 0;
}

static int check_members(struct jscan v, unsigned op, struct nsbox_error *err)
{
	struct jscan key, value;
	unsigned seen = 0;
	int r;

	for (size_t at = 0; jscan_next(v, &at, &key, &value);) {
		r = check_member(key, value, op, &seen, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if ((keys[i].needs & op) && !(seen & (1U << i)))
			return err_set(err, NSBOX_E_USAGE, "the request has no key \"%s\"", keys[i].name);
	return 0;
}

static int find_op(struct jscan v, unsigned *op, struct nsbox_error *err)
{
	struct jscan name = repl_member(v, "op");

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (name.p && repl_is_text(name, ops[i].name)) {
			*op = ops[i].op;
			return 0;
		}
	err_hint(err, "ops are execute, set, tools, exec, put, get and list");
	return err_set(err, NSBOX_E_USAGE, "the request has no \"op\" that a kernel knows");
}

/* {"call":N,"value":..} or {"call":N,"error":{"name":..,"value":..}} */
static int check_answer(struct jscan v, uint64_t *call, struct nsbox_error *err)
{
	struct jscan key, value;
	unsigned others = 0;

	if (!jscan_uint(repl_member(v, "call"), REPL_ID_MAX, call) || !*call)
		return err_set(err, NSBOX_E_USAGE, "\"call\" is the number of a call");
	for (size_t at = 0; jscan_next(v, &at, &key, &value);) {
		if (repl_is_text(key, "call"))
			continue;
		others++;
		if (!repl_is_text(key, "value") &&
		    !(repl_is_text(key, "error") && jscan_kind(value) == JSCAN_OBJECT))
			others = 2;
	}
	if (others != 1)
		return err_set(err, NSBOX_E_USAGE,
			       "an answer has either a \"value\" or an \"error\", an object");
	return 0;
}

int repl_request_check(const char *json, size_t len, uint64_t *id, uint64_t *call,
		       uint64_t *timeout_ms, struct nsbox_error *err)
{
	struct jscan v, timeout;
	unsigned op = 0;
	int r;

	*id = *call = *timeout_ms = 0;
	if (len == 0 || len > REPL_FRAME_MAX)
		return err_set(err, NSBOX_E_USAGE, "a request has 1 byte to 64 MiB, this one %zu", len);
	r = jscan_check(&v, json, len, err);
	if (r < 0)
		return r;
	if (jscan_kind(v) != JSCAN_OBJECT)
		return err_set(err, NSBOX_E_USAGE, "a request is an object, not %s",
			       jscan_kind_name(jscan_kind(v)));
	if (repl_member(v, "call").p)
		return check_answer(v, call, err);
	r = find_op(v, &op, err);
	if (r >= 0)
		r = check_members(v, op, err);
	if (r < 0)
		return r;
	if (!jscan_uint(repl_member(v, "id"), REPL_ID_MAX, id) || !*id)
		return err_set(err, NSBOX_E_USAGE, "\"id\" is a whole number from 1 to 2^53");
	timeout = repl_member(v, "timeout_ms");
	if (jscan_kind(timeout) == JSCAN_NUMBER && !jscan_uint(timeout, UINT64_MAX / 2000, timeout_ms))
		return err_set(err, NSBOX_E_USAGE, "\"timeout_ms\" is a whole number of milliseconds");
	return 0;
}

/* --------------------------------------------------------------------- events -- */

struct repl_event *repl_event_add(struct nsbox_kernel *k)
{
	struct repl_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->text = (struct buf)BUF_INIT(REPL_FRAME_MAX + REPL_ROOM * 8);
	*k->last_event = e;
	k->last_event = &e->next;
	return e;
}

void repl_event_free(struct repl_event *e)
{
	if (!e)
		return;
	buf_free(&e->text);
	free(e);
}

static int broken(struct nsbox_error *err, const char *what)
{
	err_hint(err, "code in the box wrote to the channel, or is out of memory");
	return err_set(err, NSBOX_E_SYSTEM, "the interpreter sent no message: %s", what);
}

struct said { /* what a frame of the driver's says */
	struct jscan all, event, id, call;
	size_t members;
};

/* A key may be there once, and is written plainly: readers differ in which of two counts. */
static int take_apart(struct said *s, const struct buf *body, struct nsbox_error *err)
{
	enum { MEMBERS_MAX = 32 };
	struct jscan seen[MEMBERS_MAX], key, value;
	struct nsbox_error own = NSBOX_ERROR_INIT;

	memset(s, 0, sizeof(*s));
	if (jscan_check(&s->all, buf_text(body), body->len, &own) < 0)
		return broken(err, own.message);
	if (jscan_kind(s->all) != JSCAN_OBJECT)
		return broken(err, "not an object");
	for (size_t at = 0; jscan_next(s->all, &at, &key, &value);) {
		if (s->members == MEMBERS_MAX || memchr(key.p, '\\', key.len))
			return broken(err, "its keys are no message's");
		for (size_t i = 0; i < s->members; i++)
			if (seen[i].len == key.len && memcmp(seen[i].p, key.p, key.len) == 0)
				return broken(err, "a key comes twice");
		seen[s->members++] = key;
		if (repl_is_text(key, "event"))
			s->event = value;
		else if (repl_is_text(key, "id"))
			s->id = value;
		else if (repl_is_text(key, "call"))
			s->call = value;
	}
	if (jscan_kind(s->event) != JSCAN_STRING)
		return broken(err, "no \"event\"");
	return 0;
}

static void copy_event(struct nsbox_kernel *k, const struct said *s)
{
	struct repl_event *e = repl_event_add(k);

	if (e)
		buf_add(&e->text, s->all.p, s->all.len);
}

static void add_counts(struct nsbox_kernel *k, struct buf *b)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (int i = 0; i < 2; i++) {
		const struct repl_stream *s = &k->streams[i];

		buf_fmt(b, ",\"%s_bytes\":%llu,\"%s_truncated\":%s", names[i],
			(unsigned long long)s->total, names[i], s->total > s->kept ? "true" : "false");
	}
}

/* Is that member of a "done" ours to say? */
static bool is_ours(struct jscan key, bool has_listing)
{
	static const char *const ours[] = { "id", "event", "status", "restarted", "stdout_bytes",
					    "stdout_truncated", "stderr_bytes", "stderr_truncated" };

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (repl_is_text(key, ours[i]))
			return true;
	return has_listing && (repl_is_text(key, "entries") || repl_is_text(key, "truncated"));
}

static void copy_members(struct nsbox_kernel *k, struct buf *to, const struct said *s)
{
	struct jscan key, value, listing = repl_member(s->all, "listing");
	bool has_listing = k->is_shell && listing.p;

	for (size_t at = 0; jscan_next(s->all, &at, &key, &value);) {
		if (has_listing && value.p == listing.p) {
			repl_shell_listing(to, listing);
		} else if (!is_ours(key, has_listing)) {
			buf_char(to, ',');
			buf_add(to, key.p, key.len);
			buf_char(to, ':');
			buf_add(to, value.p, value.len);
		}
	}
}

/* The driver's "done", with what only we know in place of what it says about that. */
static void done(struct nsbox_kernel *k, const struct said *s)
{
	static const char *const known[] = { "ok", "error", "final", "interrupted", "exited" };
	struct jscan status = repl_member(s->all, "status");
	struct repl_event *e;
	const char *word = "error";

	repl_text_end(k);
	e = repl_event_add(k);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (status.p && repl_is_text(status, known[i]))
			word = known[i];
	if (k->cause == CAUSE_TIMEOUT)
		word = "timed_out";
	if (e) {
		buf_fmt(&e->text, "{\"id\":%llu,\"event\":\"done\",\"status\":\"%s\",\"restarted\":false",
			(unsigned long long)k->current->id, word);
		add_counts(k, &e->text);
		copy_members(k, &e->text, s);
		buf_char(&e->text, '}');
	}
	repl_finish_request(k);
}

static void call(struct nsbox_kernel *k, const struct said *s)
{
	uint64_t number = 0;
	struct repl_event *e;

	if (!jscan_uint(s->call, REPL_ID_MAX, &number) || !number || k->call_count == REPL_CALLS_MAX)
		return;
	k->calls[k->call_count++] = number;
	if (!k->is_shell) {
		copy_event(k, s);
		return;
	}
	e = repl_event_add(k);
	if (e)
		repl_shell_call(&e->text, s->all);
}

/* An answer of our own. A box that reads none gets no more of them. */
static void answer(struct nsbox_kernel *k, const char *json)
{
	if (k->is_dying || repl_wire_unsent(k) > REPL_ROOM)
		return;
	if (repl_wire_answer(k, json, strlen(json), NULL) < 0) {
		k->was_killed = true; /* no memory: it would wait for ever */
		nsbox_box_kill(k->box);
	}
}

static void refuse_call(struct nsbox_kernel *k, uint64_t number)
{
	char text[200];

	snprintf(text, sizeof(text), "{\"call\":%llu,\"error\":{\"name\":\"RuntimeError\",\"value\":"
		 "\"the host can be called only while the cell runs\"}}", (unsigned long long)number);
	answer(k, text);
}

/* Processes of a shell outlive its cell, and one that waits keeps the others from calling. */
void repl_calls_end(struct nsbox_kernel *k)
{
	while (k->is_shell && k->call_count > 0)
		refuse_call(k, k->calls[--k->call_count]);
}

static void refuse_late_call(struct nsbox_kernel *k, const struct said *s)
{
	uint64_t number = 0;

	if (k->is_shell && repl_is_text(s->event, "call") && jscan_uint(s->call, REPL_ID_MAX, &number))
		refuse_call(k, number);
}

/* Its cell may wait until we have it, so that what is printed next comes behind it. */
static void display(struct nsbox_kernel *k, const struct said *s)
{
	uint64_t number = 0;
	char text[64];

	copy_event(k, s);
	if (!jscan_uint(repl_member(s->all, "ack"), REPL_ID_MAX, &number))
		return;
	snprintf(text, sizeof(text), "{\"call\":%llu,\"value\":null}", (unsigned long long)number);
	answer(k, text);
}

static void ready(struct nsbox_kernel *k, const struct said *s)
{
	if (k->is_ready || k->is_dying)
		return;
	k->is_ready = true;
	copy_event(k, s);
	repl_next_request(k);
}

int repl_frame_take(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct said s;
	uint64_t id = 0;
	int r;

	if (k->body_len == 0 || k->body_len > REPL_FRAME_MAX)
		return broken(err, "its length is not 1 byte to 64 MiB");
	if (k->body.failed)
		return err_nomem(err);
	r = take_apart(&s, &k->body, err);
	if (r < 0)
		return r;
	if (repl_is_text(s.event, "ready"))
		ready(k, &s);
	/* Whatever else belongs to the request in hand, or to nobody. */
	if (!k->current || !jscan_uint(s.id, REPL_ID_MAX, &id) || id != k->current->id) {
		refuse_late_call(k, &s);
		return 0;
	}
	if (k->is_settling) {
		if (repl_is_text(s.event, "done"))
			repl_finish_request(k);
		return 0;
	}
	repl_text_drain(k, false); /* it was printed before */
	if (repl_is_text(s.event, "done"))
		done(k, &s);
	else if (repl_is_text(s.event, "display"))
		display(k, &s);
	else if (repl_is_text(s.event, "call"))
		call(k, &s);
	return 0;
}

/* ---------------------------------------------------------------------- death -- */

static const char *status_of_death(const struct nsbox_kernel *k, const struct repl_request *q)
{
	static const char *const words[] = { "exited", "interrupted", "timed_out" };

	return words[q == k->current ? k->cause : CAUSE_NONE];
}

void repl_done_by_death(struct nsbox_kernel *k, const struct repl_request *q, bool restarted,
			const char *reason)
{
	const struct nsbox_result *r = k->last;
	struct repl_event *e = repl_event_add(k);
	struct json j = JSON_INIT(e ? &e->text : NULL);

	if (!e)
		return;
	json_object(&j);
	json_kuint(&j, "id", q->id);
	json_kstr(&j, "event", "done");
	json_kstr(&j, "status", status_of_death(k, q));
	json_kbool(&j, "restarted", restarted);
	if (q == k->current)
		add_counts(k, &e->text);
	json_knull(&j, "execution_count");
	json_knull(&j, "repr");
	json_knull(&j, "value");
	json_knull(&j, "mime");
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "name", "InterpreterDied");
	json_kstr(&j, "value", reason);
	json_key(&j, "traceback");
	json_array(&j);
	json_end(&j, ']');
	json_end(&j, '}');
	if (r && nsbox_result_exit_code(r) >= 0)
		json_kint(&j, "exit_code", nsbox_result_exit_code(r));
	else
		json_knull(&j, "exit_code");
	json_kint(&j, "signal", r ? nsbox_result_signal(r) : 0);
	json_kstr(&j, "verdict", r ? nsbox_result_verdict_name(r) : NULL);
	json_end(&j, '}');
}

void repl_dead(struct nsbox_kernel *k, bool restarted, const char *reason)
{
	struct repl_event *e = repl_event_add(k);
	struct json j = JSON_INIT(e ? &e->text : NULL);

	if (!e)
		return;
	json_object(&j);
	json_kstr(&j, "event", "dead");
	json_kbool(&j, "restarted", restarted);
	json_kstr(&j, "reason", reason);
	json_end(&j, '}');
}
