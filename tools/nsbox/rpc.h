/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `nsbox rpc`: many runs in one process, spoken to in frames of JSON on standard input
 * and output.
 *
 * One epoll. Starting a box takes milliseconds and is done in between; all else is
 * descriptors that are ready or not. Only a start that may take minutes, because packages
 * have to be installed or the source is judged first, has a thread (rpc_start.c). What the process holds is bounded: while a
 * client does not read, nothing more is taken from it or from the programs' pipes.
 */
#ifndef NSBOX_RPC_H
#define NSBOX_RPC_H

#include "tools/nsbox/rpc_frame.h"
#include "tools/nsbox/rpc_ops.h"

#define RPC_PROTOCOL 1
#define RPC_RUNS_MAX 1024
#define RPC_KERNELS_MAX 256
#define RPC_QUEUE_MAX (1u << 20) /* unread bytes above which nothing new is made */
#define RPC_ROOM 65536

/* What became ready: one of these, and the slot of a run above it. */
enum rpc_tag { TAG_IN, TAG_OUT, TAG_SIGNAL, TAG_BOX, TAG_STDOUT, TAG_STDERR, TAG_KERNEL,
	       TAG_STARTED, TAG_OPENED };
#define RPC_TAG(tag, slot) ((uint64_t)(tag) | (uint64_t)(slot) << 8)

struct rpc_run;
struct rpc_kernel;

struct rpc {
	int epoll, signals;
	struct frame_in in;
	struct frame_out out;
	struct rpc_run *runs[RPC_RUNS_MAX];
	struct rpc_kernel *kernels[RPC_KERNELS_MAX];
	unsigned kernels_named;	/* how many names were given */
	bool kernels_have_more;	/* events were left in one of them */
	bool in_watched, out_watched;
	bool in_files;		/* epoll refuses it: a file, always ready */
	bool has_more;		/* a whole frame waits to be taken */
	bool is_full;		/* too much is unread: nothing new is taken */
	bool is_over;
	int status;
	char room[RPC_ROOM];	/* what is being read */
};

/* The client is not reading, and more must not pile up. */
static inline bool rpc_is_full(const struct rpc *r)
{
	return frame_out_waiting(&r->out) > RPC_QUEUE_MAX;
}

/* --- rpc.c ---------------------------------------------------------------------------- */

/* An answer that could not be written leaves its client waiting: rather no connection. */
void rpc_out_of_memory(struct rpc *r);

/* --- rpc_start.c: starts that take long ---------------------------------------------- */

struct rpc_build;
struct rpc_start;

/* Has a run with this policy something to do before its box is there? */
bool rpc_start_is_slow(const struct rpc_build *b);
/* Start @box, or open a kernel in it, in a thread. @b is taken over. @tag and @slot say
 * what the loop hears when it is done. */
int rpc_start_begin(struct rpc *r, struct rpc_start **out, struct rpc_build *b,
		    struct nsbox_box *box, uint64_t tag, struct nsbox_error *err);
/* Something was heard of it. True: the thread is over. What is said meanwhile of an install
 * becomes an event of the request @id. */
bool rpc_start_over(struct rpc *r, struct rpc_start *s, uint64_t id);
/* The thread is over: free, and return what the start said; *kernel: when one was opened. */
int rpc_start_end(struct rpc_start *s, struct nsbox_kernel **kernel, struct nsbox_error *err);
/* Kill the box until the thread is over; free. The kernel that was opened, or NULL. */
struct nsbox_kernel *rpc_start_abort(struct rpc_start *s);

/* --- rpc_run.c: runs in flight ------------------------------------------------------ */

/* Start what @q asks for; its answer comes later. */
int rpc_run_start(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err);
bool rpc_run_has(const struct rpc *r, uint64_t id);
/* Kill it; false: there is none of that id. */
bool rpc_run_kill(struct rpc *r, uint64_t id);
/* The box, or stream @which (0: stdout, 1: stderr), of a slot is ready. A slot may be empty
 * or another run's by now: then nothing is ready, and nothing happens. */
void rpc_run_box_ready(struct rpc *r, size_t slot);
void rpc_run_started(struct rpc *r, size_t slot);
void rpc_run_stream_ready(struct rpc *r, size_t slot, int which);
/* Stop or go on reading all streams. */
void rpc_runs_watch(struct rpc *r, bool on);
/* Kill and forget all of them, without answers. */
void rpc_runs_close(struct rpc *r);

/* --- rpc_kernel.c: boxes that stay ---------------------------------------------------- */

int rpc_kernel_open(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err);
/* Pass one of RPC_CELLS on; its answer comes later. */
int rpc_kernel_request(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err);
void rpc_kernel_reply(struct rpc *r, const struct rpc_request *q);
int rpc_kernel_interrupt(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err);
int rpc_kernel_close(struct rpc *r, const struct rpc_request *q, struct nsbox_error *err);
bool rpc_kernel_has(const struct rpc *r, uint64_t id);
/* 1: it was in flight and is ended; 0: there is none of that id. */
int rpc_kernel_cancel(struct rpc *r, uint64_t id, struct nsbox_error *err);
void rpc_kernel_ready(struct rpc *r, size_t slot);
void rpc_kernel_opened(struct rpc *r, size_t slot);
/* Those that had more to say when their turn was over. */
void rpc_kernels_go_on(struct rpc *r);
void rpc_kernels_watch(struct rpc *r, bool on);
void rpc_kernels_close(struct rpc *r);

#endif
