/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rpc_frame.h. Runs in `nsbox rpc`. Mustn't wait in a write: a client that does not
 * read would stop the clocks of all boxes.
 */
#include "tools/nsbox/rpc_frame.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/utf8.h"
#include "tools/nsbox/say.h"

/* A buffer that was larger than this is given back once it is empty. */
#define IDLE_MAX (1u << 20)

/* Forget the first @n bytes, or all. Moving waits until half is gone, so that each byte is
 * moved once at most. */
static void drop(struct buf *b, size_t *at)
{
	if (*at == b->len) {
		if (b->cap > IDLE_MAX)
			buf_free(b);
		b->len = *at = 0;
	} else if (*at > b->len / 2) {
		memmove(b->data, b->data + *at, b->len - *at);
		b->len -= *at;
		*at = 0;
	}
}

/* --- in -------------------------------------------------------------------------------- */

void frame_in_add(struct frame_in *in, const void *data, size_t len)
{
	buf_add(&in->bytes, data, len);
}

static int check_length(size_t len, struct nsbox_error *err)
{
	if (len == 0)
		return cli_fail(err, NSBOX_E_USAGE, "a frame of 0 bytes");
	if (len <= FRAME_MAX)
		return 0;
	cli_hint(err, "each frame starts with its length: 4 bytes, the highest first");
	return cli_fail(err, NSBOX_E_USAGE, "a frame of %zu bytes; at most %u are taken", len,
			FRAME_MAX);
}

int frame_in_next(struct frame_in *in, struct jscan *out, struct nsbox_error *err)
{
	const unsigned char *head;
	size_t have, len;
	int r;

	in->at += in->taken;
	in->taken = 0;
	drop(&in->bytes, &in->at);
	if (in->bytes.failed)
		return cli_nomem(err);
	have = in->bytes.len - in->at;
	if (have < FRAME_HEAD)
		return 0;
	head = (const unsigned char *)in->bytes.data + in->at;
	len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	r = check_length(len, err);
	if (r < 0 || have < FRAME_HEAD + len)
		return r;
	r = jscan_check(out, in->bytes.data + in->at + FRAME_HEAD, len, err);
	if (r < 0)
		return r;
	in->taken = FRAME_HEAD + len;
	return 1;
}

int frame_in_end(const struct frame_in *in, struct nsbox_error *err)
{
	size_t left = in->bytes.len - in->at - in->taken;

	return left ? cli_fail(err, NSBOX_E_USAGE, "the input ended %zu bytes into a frame", left) :
		      0;
}

void frame_in_free(struct frame_in *in)
{
	buf_free(&in->bytes);
}

/* --- out ------------------------------------------------------------------------------- */

size_t frame_out_waiting(const struct frame_out *out)
{
	return out->bytes.len - out->at;
}

size_t frame_out_begin(struct frame_out *out)
{
	size_t start = out->bytes.len;

	buf_add(&out->bytes, "\0\0\0\0", FRAME_HEAD);
	return start;
}

void frame_out_undo(struct frame_out *out, size_t start)
{
	out->bytes.len = start;
	out->bytes.failed = false;
}

int frame_out_end(struct frame_out *out, size_t start)
{
	size_t len = out->bytes.len - start - FRAME_HEAD;
	unsigned char *head;

	if (out->bytes.failed || len > FRAME_MAX) {
		frame_out_undo(out, start);
		return -1;
	}
	head = (unsigned char *)out->bytes.data + start;
	for (int i = 0; i < FRAME_HEAD; i++)
		head[i] = (unsigned char)(len >> (24 - 8 * i));
	return 0;
}

/*
 * A pipe or terminal may be shared with others, so it is not made non-blocking: after
 * POLLOUT this much never blocks (pipe(7)). A socket is told each time.
 */
static ssize_t write_now(int fd, const char *data, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0 || errno != ENOTSOCK)
		return n;
	if (poll(&p, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(fd, data, len < PIPE_BUF ? len : PIPE_BUF);
}

int frame_out_write(struct frame_out *out, int fd)
{
	int r = 1;

	while (out->at < out->bytes.len) {
		ssize_t n = write_now(fd, out->bytes.data + out->at, out->bytes.len - out->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			r = errno == EAGAIN ? 0 : -1;
			break;
		}
		out->at += (size_t)n;
	}
	if (r >= 0)
		drop(&out->bytes, &out->at);
	return r;
}

void frame_out_free(struct frame_out *out)
{
	buf_free(&out->bytes);
}

/* --- answers and events ------------------------------------------------------------------ */

static const char *code_word(int code)
{
	static const char *const words[] = {
		[-NSBOX_E_USAGE] = "usage", [-NSBOX_E_POLICY] = "policy",
		[-NSBOX_E_UNSUPPORTED] = "unsupported", [-NSBOX_E_SETUP] = "setup",
		[-NSBOX_E_BUSY] = "busy", [-NSBOX_E_NOMEM] = "nomem",
		[-NSBOX_E_SYSTEM] = "system",
	};

	return code < 0 && (size_t)-code < CLI_COUNT(words) ? words[-code] : "system";
}

size_t frame_begin(struct frame_out *out, struct json *j, uint64_t id)
{
	size_t start = frame_out_begin(out);

	*j = (struct json)JSON_INIT(&out->bytes);
	json_object(j);
	json_key(j, "id");
	if (id)
		json_uint(j, id);
	else
		json_null(j);
	return start;
}

size_t answer_begin(struct frame_out *out, struct json *j, uint64_t id)
{
	size_t start = frame_begin(out, j, id);

	json_kbool(j, "ok", true);
	json_key(j, "result");
	return start;
}

int answer_error(struct frame_out *out, uint64_t id, const struct nsbox_error *err)
{
	struct json j;
	size_t start = frame_begin(out, &j, id);

	json_kbool(&j, "ok", false);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "code", code_word(err->code));
	json_kstr(&j, "stage", err->stage);
	json_kint(&j, "os_errno", err->os_errno);
	json_kstr(&j, "message", err->message);
	json_kstr(&j, "hint", err->hint);
	json_end(&j, '}');
	json_end(&j, '}');
	return frame_out_end(out, start);
}

int answer_end(struct frame_out *out, struct json *j, size_t start, uint64_t id)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	bool no_memory = out->bytes.failed;

	json_end(j, '}');
	no_memory |= out->bytes.failed;
	if (frame_out_end(out, start) == 0)
		return 0;
	if (no_memory) {
		cli_nomem(&err);
	} else {
		cli_hint(&err, "lower limits.stdout and limits.stderr, or read less at once");
		cli_fail(&err, NSBOX_E_USAGE, "the answer is larger than a frame, %u bytes",
			 FRAME_MAX);
	}
	return answer_error(out, id, &err);
}

int event_data(struct frame_out *out, uint64_t id, const char *name, const char *data, size_t len)
{
	struct json j;
	size_t start = frame_begin(out, &j, id);

	json_kstr(&j, "event", name);
	json_key(&j, "data");
	if (utf8_valid(data, len)) {
		json_strn(&j, data, len);
	} else {
		json_object(&j);
		json_key(&j, "base64");
		json_raw(&j, "\"");
		base64_add(&out->bytes, data, len);
		buf_char(&out->bytes, '"');
		json_end(&j, '}');
	}
	json_end(&j, '}');
	return frame_out_end(out, start);
}

void json_cut(struct json *j, struct jscan v)
{
	json_raw(j, "");
	buf_add(j->out, v.p, v.len);
}

void json_member(struct json *j, struct jscan key, struct jscan value)
{
	json_cut(j, key);
	buf_char(j->out, ':');
	j->after_key = true;
	json_cut(j, value);
}
