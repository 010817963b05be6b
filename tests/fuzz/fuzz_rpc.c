/*
 * What a client writes to `nsbox rpc`: frames, JSON, requests. libFuzzer entry point; the
 * seeds are in corpus/rpc. The first byte says in which pieces the rest arrives.
 *
 * Besides not crashing (the sanitizers watch) these must hold for any bytes: pieces
 * change nothing; the values inside of one are JSON themselves; a refusal has one line, and
 * its answer is a frame.
 */
#include "tools/nsbox/nearest.c"
#include "tools/nsbox/rpc_frame.c"
#include "tools/nsbox/rpc_json.c"
#include "tools/nsbox/rpc_ops.c"
#include "tools/nsbox/say.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void require_error(int code, const struct nsbox_error *err)
{
	require(code == err->code && err->message[0]);
	require(!strchr(err->message, '\n') && !strchr(err->hint, '\n'));
}

/* Each value of @v, down to the leaves: inside of it, and JSON by itself. */
static size_t walk(struct jscan v, unsigned depth)
{
	struct jscan key, value, again;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	const char *last = v.p;
	size_t at = 0, n = 1, len;
	char *text = NULL;

	require(depth <= JSCAN_DEPTH_MAX + 1);
	if (jscan_kind(v) == JSCAN_STRING && jscan_string(v, true, &text, &len, &err) == 0)
		require(len < v.len && text[len] == '\0');
	free(text);
	text = NULL;
	if (jscan_kind(v) == JSCAN_STRING && rpc_base64(v, &text, &len, &err) == 0)
		require(len <= v.len);
	free(text);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	while (jscan_next(v, &at, &key, &value)) {
		require(value.p > last && value.len > 0 && value.p + value.len < v.p + v.len);
		require(!key.p || (key.p > last && key.p + key.len < value.p));
		require(jscan_check(&again, value.p, value.len, &err) == 0);
		require(again.p == value.p && again.len == value.len);
		last = value.p + value.len - 1;
		n += walk(value, depth + 1);
	}
	return n;
}

static void take(struct jscan frame)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct frame_out out = FRAME_OUT_INIT;
	struct rpc_request q;
	int r = rpc_request_take(&q, frame, &err);

	require(q.id <= RPC_NUMBER_MAX && q.op < OP_COUNT);
	if (r < 0) {
		struct jscan answer;

		require_error(r, &err);
		require(answer_error(&out, q.id, &err) == 0);
		err = (struct nsbox_error)NSBOX_ERROR_INIT;
		require(jscan_check(&answer, out.bytes.data + FRAME_HEAD,
				    out.bytes.len - FRAME_HEAD, &err) == 0);
	} else {
		require((q.id > 0 || q.op == OP_REPLY) && q.v[K_OP].p);
	}
	frame_out_free(&out);
}

/* The frames of a stream that comes in pieces of @piece bytes: count, and how it ended. */
static size_t feed(const uint8_t *data, size_t size, size_t piece, int *end)
{
	struct frame_in in = FRAME_IN_INIT;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	size_t n = 0, at = 0;
	int r = 0;

	while (at < size && r >= 0) {
		size_t len = size - at < piece ? size - at : piece;
		struct jscan frame;

		frame_in_add(&in, data + at, len);
		at += len;
		while ((r = frame_in_next(&in, &frame, &err)) == 1) {
			walk(frame, 0);
			take(frame);
			n++;
		}
		require(in.bytes.cap <= 4 * size + 4096);
	}
	if (r < 0)
		require_error(r, &err);
	*end = r;
	frame_in_free(&in);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct jscan v;
	int whole, pieces, r;

	if (size < 1)
		return 0;
	require(feed(data + 1, size - 1, size, &whole) ==
		feed(data + 1, size - 1, 1 + data[0] % 32, &pieces));
	require(whole == pieces);
	/* The same bytes as one text. */
	r = jscan_check(&v, (const char *)data + 1, size - 1, &err);
	if (r < 0) {
		require_error(r, &err);
	} else {
		walk(v, 0);
		take(v);
	}
	return 0;
}
