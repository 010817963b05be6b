/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in flight: a box each, and with "stream" two pipes that the library fills. Runs in
 * `nsbox rpc`, in its one loop. Must send exactly one answer for a run that was started,
 * and every event of it before.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/utf8.h"
#include "tools/nsbox/rpc.h"
#include "tools/nsbox/rpc_build.h"
#include "tools/nsbox/say.h"

/* Of a streamed output, so much stands in the record as well. */
#define KEEP_MAX (8u << 20)

struct stream {
	int fd;			/* -1: not streamed, or over */
	bool is_watched;
	char carry[4];		/* the first bytes of a character */
	size_t carry_len;
	struct buf kept;
	bool is_cut;		/* more came than is kept */
};

struct rpc_run {
	uint64_t id;
	size_t slot;
	struct nsbox_box *box;
	struct rpc_start *start; /* its thread; NULL once the box runs */
	int ends[2];		/* of the pipes, for the library to fill; until the start is done */
	bool is_streamed;
	bool is_killed;		/* perhaps too early, while @start was at it */
	struct stream streams[2];
};

static const char *const stream_names[] = { "stdout", "stderr" };

/* --- starting ------------------------------------------------------------------------- */

static int free_slot(struct rpc *r, size_t *out, struct nsbox_error *err)
{
	for (size_t i = 0; i < RPC_RUNS_MAX; i++) {
		if (!r->runs[i]) {
			*out = i;
			return 0;
		}
	}
	cli_hint(err, "wait for the answer of one of them");
	return cli_fail(err, NSBOX_E_BUSY, "%d runs are in flight already", RPC_RUNS_MAX);
}

static void close_ends(struct rpc_run *run)
{
	for (int i = 0; i < 2; i++) {
		if (run->ends[i] >= 0)
			close(run->ends[i]);
		run->ends[i] = -1;
	}
}

static void run_free(struct rpc *r, struct rpc_run *run)
{
	if (run->start)
		rpc_start_abort(run->start);
	close_ends(run);
	for (int i = 0; i < 2; i++) {
		if (run->streams[i].fd >= 0)
			close(run->streams[i].fd);
		buf_free(&run->streams[i].kept);
	}
	nsbox_box_close(run->box);
	if (r->runs[run->slot] == run)
		r->runs[run->slot] = NULL;
	free(run);
}

static void watch_stream(struct rpc *r, struct rpc_run *run, int which, bool on)
{
	struct stream *s = &run->streams[which];
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = RPC_TAG(TAG_STDOUT + which, run->slot) };

	if (s->fd < 0 || s->is_watched == on)
		return;
	/* Taken out, not only muted: the end of a pipe would be told again and again. */
	if (epoll_ctl(r->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->fd, &ev) == 0)
		s->is_watched = on;
	else
		nsbox_box_kill(run->box); /* nobody would read it: the run would hang */
}

static int make_pipes(struct rpc_run *run, struct nsbox_run *to, struct nsbox_error *err)
{
	for (int i = 0; i < 2; i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
			return cli_fail_errno(err, "make a pipe for the %s", stream_names[i]);
		run->streams[i].fd = pair[0];
		run->ends[i] = pair[1];
	}
	to->out = to->err = NSBOX_IO_RELAY;
	to->out_fd = run->ends[0];
	to->err_fd = run->ends[1];
	return 0;
}

static int watch_box(struct rpc *r, struct rpc_run *run, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = RPC_TAG(TAG_BOX, run->slot) };

	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, nsbox_box_fd(run->box), &ev) < 0)
		return cli_fail_errno(err, "watch a box");
	return 0;
}

/* The box runs: hear it and its streams. */
static int watch_run(struct rpc *r, struct rpc_run *run, struct nsbox_error *err)
{
	int code = watch_box(r, run, err);

	close_ends(run); /* the library has its own by now */
	for (int i = 0; i < 2 && code == 0 && !r->is_full; i++)
		watch_stream(r, run, i, true);
	return code;
}

static int start(struct rpc *r, struct rpc_run *run, struct rpc_build *b, struct nsbox_error *err)
{
	int code = 0;

	if (run->is_streamed)
		code = make_pipes(run, &b->run, err);
	if (code == 0)
		code = nsbox_box_open(&run->box, b->tier, b->policy, err);
	if (code == 0 && rpc_start_is_slow(b))
		return rpc_start_begin(r, &run->start, b, run->box,
				       RPC_TAG(TAG_STARTED, run->slot), err);
	if (code == 0)
		code = nsbox_box_start(run->box, &b->run, err);
	return code < 0 ? code : watch_run(r, run, err);
}

int rpc_run_start(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err)
{
	struct rpc_build b = RPC_BUILD_INIT;
	struct rpc_run *run = calloc(1, sizeof(*run));
	int code;

	if (!run)
		return cli_nomem(err);
	run->id = q->id;
	run->is_streamed = rpc_true(q->v[K_STREAM]);
	run->ends[0] = run->ends[1] = -1;
	for (int i = 0; i < 2; i++)
		run->streams[i] = (struct stream){ .fd = -1, .kept = BUF_INIT(KEEP_MAX) };
	code = free_slot(r, &run->slot, err);
	if (code == 0)
		code = rpc_build(&b, q, err);
	if (code == 0)
		code = start(r, run, &b, err);
	rpc_build_free(&b);
	if (code < 0)
		run_free(r, run);
	else
		r->runs[run->slot] = run;
	return code;
}

void rpc_run_started(struct rpc *r, size_t slot)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct rpc_run *run = r->runs[slot];
	struct nsbox_kernel *none;
	int code;

	if (!run || !run->start || !rpc_start_over(r, run->start, run->id))
		return;
	code = rpc_start_end(run->start, &none, &err);
	run->start = NULL;
	if (code == 0 && run->is_killed)
		nsbox_box_kill(run->box);
	if (code == 0)
		code = watch_run(r, run, &err);
	if (code == 0)
		return;
	if (answer_error(&r->out, run->id, &err) < 0)
		rpc_out_of_memory(r);
	run_free(r, run);
}

/* --- streams ----------------------------------------------------------------------------- */

/* Bytes at the end of @s that may become a character once more has come: at most 3. */
static size_t begun_character(const char *s, size_t len)
{
	for (size_t n = 1; n <= 3 && n <= len; n++) {
		unsigned char c = (unsigned char)s[len - n];
		size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;

		if (whole)
			return whole > n ? n : 0;
		if (c < 0x80)
			return 0;
	}
	return 0;
}

static void keep(struct stream *s, const char *data, size_t len)
{
	size_t room = KEEP_MAX - 1 - s->kept.len;

	s->is_cut |= len > room;
	buf_add(&s->kept, data, len < room ? len : room);
	s->is_cut |= s->kept.failed;
}

/* Send @len new bytes at r->room + carry. At the end what is carried goes out as it is. */
static void send_chunk(struct rpc *r, struct rpc_run *run, int which, size_t len, bool is_end)
{
	struct stream *s = &run->streams[which];
	size_t whole, held;

	keep(s, r->room + s->carry_len, len);
	memcpy(r->room, s->carry, s->carry_len);
	whole = s->carry_len + len;
	held = is_end ? 0 : begun_character(r->room, whole);
	whole -= held;
	memcpy(s->carry, r->room + whole, held);
	s->carry_len = held;
	if (whole && event_data(&r->out, run->id, stream_names[which], r->room, whole) < 0)
		s->is_cut = true;
}

/* One read. False: nothing more now, or ever (then s->fd is -1). */
static bool read_stream(struct rpc *r, struct rpc_run *run, int which)
{
	struct stream *s = &run->streams[which];
	ssize_t n;

	if (s->fd < 0)
		return false;
	n = read(s->fd, r->room + s->carry_len, RPC_ROOM - s->carry_len);
	if (n > 0) {
		send_chunk(r, run, which, (size_t)n, false);
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	send_chunk(r, run, which, 0, true);
	close(s->fd); /* which takes it out of epoll too */
	s->fd = -1;
	return false;
}

void rpc_run_stream_ready(struct rpc *r, size_t slot, int which)
{
	if (r->runs[slot] && !r->runs[slot]->start && !rpc_is_full(r))
		read_stream(r, r->runs[slot], which);
}

void rpc_runs_watch(struct rpc *r, bool on)
{
	for (size_t i = 0; i < RPC_RUNS_MAX; i++) {
		for (int k = 0; k < 2 && r->runs[i] && !r->runs[i]->start; k++)
			watch_stream(r, r->runs[i], k, on);
	}
}

/* --- the answer --------------------------------------------------------------------------- */

static size_t kept_length(const struct stream *s)
{
	/* The cut may have gone through a character. */
	return s->kept.len - (s->is_cut ? begun_character(buf_text(&s->kept), s->kept.len) : 0);
}

static bool is_text(const struct stream *s)
{
	return utf8_valid(buf_text(&s->kept), kept_length(s));
}

static void put_kept(struct json *j, const struct stream *s)
{
	if (is_text(s)) {
		json_strn(j, buf_text(&s->kept), kept_length(s));
		return;
	}
	json_raw(j, "\"");
	base64_add(j->out, buf_text(&s->kept), kept_length(s));
	buf_char(j->out, '"');
}

/* What the record says of a streamed output in place of null. False: this key stays. */
static bool put_streamed(struct json *j, const struct rpc_run *run, struct jscan key)
{
	char name[32];

	if (!rpc_word(key, name, sizeof(name)))
		return false;
	for (int i = 0; i < 2; i++) {
		const struct stream *s = &run->streams[i];
		size_t len = strlen(stream_names[i]);

		if (strncmp(name, stream_names[i], len) != 0)
			continue;
		if (!name[len])
			put_kept(j, s);
		else if (strcmp(name + len, "_encoding") == 0)
			json_str(j, is_text(s) ? "utf-8" : "base64");
		else if (strcmp(name + len, "_truncated") == 0 && s->is_cut)
			json_bool(j, true);
		else
			return false;
		return true;
	}
	return false;
}

static void put_record(struct json *j, const struct rpc_run *run, const char *record)
{
	struct jscan whole = { record, strlen(record) }, key, value;
	size_t at = 0;

	if (!run->is_streamed) {
		json_raw(j, record);
		return;
	}
	json_object(j);
	while (jscan_next(whole, &at, &key, &value)) {
		json_cut(j, key);
		buf_char(j->out, ':');
		j->after_key = true;
		if (!put_streamed(j, run, key))
			json_cut(j, value);
	}
	json_end(j, '}');
}

static int answer(struct rpc *r, struct rpc_run *run, const struct nsbox_result *result)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	const char *record = nsbox_result_json(result);
	struct json j;
	size_t start;

	if (!record) {
		cli_nomem(&err);
		return answer_error(&r->out, run->id, &err);
	}
	start = answer_begin(&r->out, &j, run->id);
	put_record(&j, run, record);
	return answer_end(&r->out, &j, start, run->id);
}

void rpc_run_box_ready(struct rpc *r, size_t slot)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *result = NULL;
	struct rpc_run *run = r->runs[slot];
	int code;

	if (!run || run->start)
		return;
	code = nsbox_box_collect(run->box, &result, &err);
	if (code == NSBOX_E_BUSY)
		return;
	/* The library closed its ends: what is left in the pipes is all there is. */
	for (int i = 0; i < 2; i++) {
		while (read_stream(r, run, i))
			;
	}
	code = code < 0 ? answer_error(&r->out, run->id, &err) : answer(r, run, result);
	if (code < 0)
		rpc_out_of_memory(r);
	nsbox_result_free(result);
	run_free(r, run);
}

/* --- all of them ----------------------------------------------------------------------------- */

static struct rpc_run *find(const struct rpc *r, uint64_t id)
{
	for (size_t i = 0; i < RPC_RUNS_MAX; i++) {
		if (r->runs[i] && r->runs[i]->id == id)
			return r->runs[i];
	}
	return NULL;
}

bool rpc_run_has(const struct rpc *r, uint64_t id)
{
	return find(r, id) != NULL;
}

bool rpc_run_kill(struct rpc *r, uint64_t id)
{
	struct rpc_run *run = find(r, id);

	if (!run)
		return false;
	run->is_killed = true;
	nsbox_box_kill(run->box);
	return true;
}

void rpc_runs_close(struct rpc *r)
{
	/* All are dying before the first is waited for. */
	for (size_t i = 0; i < RPC_RUNS_MAX; i++) {
		if (r->runs[i])
			nsbox_box_kill(r->runs[i]->box);
	}
	for (size_t i = 0; i < RPC_RUNS_MAX; i++) {
		if (r->runs[i])
			run_free(r, r->runs[i]);
	}
}
