/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: 4 bytes of length in network byte order, then so many bytes of JSON.
 *
 * Runs in `nsbox rpc`. Must not believe a length: memory follows the bytes that came,
 * not those that were announced.
 */
#ifndef NSBOX_RPC_FRAME_H
#define NSBOX_RPC_FRAME_H

#include "base/buf.h"
#include "base/json.h"
#include "nsbox.h"
#include "tools/nsbox/rpc_json.h"

#define FRAME_MAX (64u << 20)
#define FRAME_HEAD 4

struct frame_in {
	struct buf bytes;	/* came, and was not taken yet from @at on */
	size_t at, taken;	/* taken: of the frame that was handed out last, head included */
};
#define FRAME_IN_INIT { .bytes = BUF_INIT(2 * (size_t)(FRAME_MAX + FRAME_HEAD)) }

void frame_in_add(struct frame_in *in, const void *data, size_t len);
/* 1: *out is the next frame's value, until the next call; 0: it is not whole yet. A
 * negative code: the stream is broken, and nothing behind this place means anything. */
int frame_in_next(struct frame_in *in, struct jscan *out, struct nsbox_error *err);
/* The stream has ended: NSBOX_E_USAGE when that was within a frame. */
int frame_in_end(const struct frame_in *in, struct nsbox_error *err);
void frame_in_free(struct frame_in *in);

struct frame_out {
	struct buf bytes;	/* still to be written from @at on */
	size_t at;
};
#define FRAME_OUT_INIT { .bytes = BUF_INIT(SIZE_MAX / 4) }

size_t frame_out_waiting(const struct frame_out *out);
/* Begin a frame: where it starts. Its JSON goes to out->bytes. */
size_t frame_out_begin(struct frame_out *out);
/* 0; or -1: larger than FRAME_MAX or no memory, and the frame is taken back. */
int frame_out_end(struct frame_out *out, size_t start);
void frame_out_undo(struct frame_out *out, size_t start);
/* Write what goes without waiting. 1: all of it; 0: the rest later; -1 with errno. */
int frame_out_write(struct frame_out *out, int fd);
void frame_out_free(struct frame_out *out);

/* --- what goes out; @id 0 is null ----------------------------------------------------- */

/* Begin an answer {"id":..,"ok":true,"result": : the caller writes the value. */
size_t answer_begin(struct frame_out *out, struct json *j, uint64_t id);
/* End it. One that is too large becomes an error that says so; -1: no memory even for that. */
int answer_end(struct frame_out *out, struct json *j, size_t start, uint64_t id);
int answer_error(struct frame_out *out, uint64_t id, const struct nsbox_error *err);

/* {"id":..,"event":NAME,"data":..}; bytes that are no UTF-8 go as base64. */
int event_data(struct frame_out *out, uint64_t id, const char *name, const char *data, size_t len);

/* Begin a frame {"id":..: the caller writes more members, the '}' and the end. */
size_t frame_begin(struct frame_out *out, struct json *j, uint64_t id);

/* The value at @v as it stands, and a member of an object. */
void json_cut(struct json *j, struct jscan v);
void json_member(struct json *j, struct jscan key, struct jscan value);

#endif
