/*
 * The inside of struct nsbox_kernel: an interpreter in a box that is held open.
 *
 *   repl.c	 open, close, what callers call
 *   repl_turn.c	 what is ready: deadlines, death, starting anew
 *   repl_wire.c	 frames: 4 bytes of length in network byte order, then JSON
 *   repl_text.c	 what the programs of the box print
 *   repl_shell.c	 requests for a shell
 *   repl_shell_said.c	 what only a shell says
 *   repl_ops.c	 what a request may be; events from what a driver says
 *
 * All of it runs in the caller's process, on the caller's thread. The driver in the box
 * (lang/kernel.*) is unreviewed code once a cell has run: what it says is checked, bounded,
 * and believed only about itself. A frame that is none ends the kernel; a frame that
 * belongs to no request in hand is dropped.
 */
#ifndef RUNTIME_REPL_H
#define RUNTIME_REPL_H

#include "base/buf.h"
#include "base/jscan.h"
#include "base/strlist.h"
#include "runtime/box.h"

#define REPL_FRAME_MAX ((size_t)64 << 20)
#define REPL_QUEUE_MAX ((size_t)128 << 20) /* bytes of requests and answers, unsent */
#define REPL_LIFE_US (UINT64_C(86400) * 1000000) /* a day, unless the run says otherwise */
#define REPL_ID_MAX (UINT64_C(1) << 53)
enum { REPL_ROOM = 65536, REPL_GRACE_MS = 2000, REPL_CALLS_MAX = 4096 };
enum { REPL_YOUNG_US = 5000 }; /* see repl_interrupt() */

struct repl_request {
	struct repl_request *next;
	uint64_t id, timeout_ms; /* timeout_ms 0: none */
	size_t len;
	char text[];		/* as the driver gets it */
};

struct repl_event {
	struct repl_event *next;
	struct buf text;
};

struct repl_stream { /* what one pipe has given during the request in hand */
	uint64_t limit, total, kept; /* bytes */
	char held[4];		/* the begin of a character whose rest is to come */
	size_t held_len;
	bool is_over, is_watched;
};

struct repl_outlet { /* to a socket of the box; unsent from `at` on */
	struct buf text;
	size_t at;
	bool waits;		/* for room */
};

enum repl_tag { TAG_CHANNEL, TAG_ANSWERS, TAG_STDOUT, TAG_STDERR, TAG_BOX, TAG_TIMER };

enum repl_cause { CAUSE_NONE, CAUSE_INTERRUPT, CAUSE_TIMEOUT };

struct nsbox_kernel {
	struct nsbox_box *box;
	struct nsbox_run run;	/* what it points to is held in the next three */
	struct strlist words, argv, env;
	bool is_shell;

	int epoll, timer;
	uint64_t life_us;	/* the end of the kernel, as now_us() counts */
	uint64_t cell_us;	/* for a request that says no time; 0: none */
	uint64_t next_us;	/* when the timer rings; 0: never */
	bool is_ready;		/* the driver has said so */
	bool is_dying;		/* its box is over, and what it left is being read */
	bool is_over;
	bool channel_over;	/* EOF */
	bool was_killed;	/* by us, to start anew */
	bool said_too_much;	/* that was for limits.stdout or limits.stderr */
	bool was_signalled;	/* an interrupt was sent that no settling has followed yet */
	bool is_settling;	/* `current` is a request of ours, with the id 0 */
	bool interrupts_first;	/* one came meanwhile, for the first in the queue */
	struct nsbox_error why;	/* is_over: what next answers */
	struct nsbox_result *last;

	struct repl_request *first, **last_request, *current;
	size_t queued;		/* bytes of all requests behind `first` */
	struct repl_outlet out;	/* to the driver */
	struct repl_outlet answers; /* of calls, to the processes of a shell */
	uint64_t calls[REPL_CALLS_MAX]; /* which wait for their answers */
	size_t call_count;

	unsigned char head[4];
	size_t head_len, body_len; /* of the frame that is coming */
	struct buf body;

	struct repl_stream streams[2];
	uint64_t begun_us, deadline_us, kill_us, again_us; /* of the request in hand; 0: none */
	enum repl_cause cause;

	struct repl_event *events, **last_event, *given;
	char room[REPL_ROOM];
};

/* --- repl_turn.c ------------------------------------------------------------------- */

int repl_start(struct nsbox_kernel *k, struct nsbox_error *err);
/* Do what can be done now; events may have come of it. */
void repl_turn(struct nsbox_kernel *k);
/*
 * For the request in hand; one that is about to be, when the last one is still settling. A
 * request of less than REPL_YOUNG_US gets it at that age, if it is there then: most are over,
 * and at the very begin of a script node would die of the signal (its handlers change hands).
 */
void repl_interrupt(struct nsbox_kernel *k, enum repl_cause cause);
/* Kill the box, wait for its end, keep its result. */
void repl_end_run(struct nsbox_kernel *k, struct nsbox_error *err);
/* The kernel cannot go on: every request gets its event, and `why` is @err. */
void repl_fail(struct nsbox_kernel *k, const struct nsbox_error *err);
/*
 * Hand the next request to the driver, if there is one and none is in hand. An interrupt that
 * was sent at the end of the last one may still be on its way: then we wait until init has sent
 * it (the kernel has marked it as pending by then), and have the driver settle, which is to take
 * what is pending while no cell runs.
 */
void repl_next_request(struct nsbox_kernel *k);
void repl_finish_request(struct nsbox_kernel *k);
void repl_arm(struct nsbox_kernel *k);

/* --- repl_wire.c ------------------------------------------------------------------- */

void repl_wire_reset(struct nsbox_kernel *k);
int repl_wire_watch(struct nsbox_kernel *k, struct nsbox_error *err);
void repl_wire_head(char head[4], size_t len);
/* Send the answer to a call. */
int repl_wire_answer(struct nsbox_kernel *k, const char *json, size_t len, struct nsbox_error *err);
/* Bytes that the box has not taken yet. */
size_t repl_wire_unsent(const struct nsbox_kernel *k);
/* Send what goes without waiting. */
void repl_wire_flush(struct nsbox_kernel *k);
/* 1: a whole frame is in k->body; 0: not yet; -1: the end of the channel. */
int repl_wire_read(struct nsbox_kernel *k);

/* --- repl_text.c ------------------------------------------------------------------- */

void repl_text_begin(struct nsbox_kernel *k); /* a new request is in hand */
void repl_text_end(struct nsbox_kernel *k);   /* none is: what comes waits in the pipe */
/* Read stream @i once; false: nothing is there. */
bool repl_text_read(struct nsbox_kernel *k, int i, size_t most);
/* What was written until now. @all: until the end, the writers being dead. */
void repl_text_drain(struct nsbox_kernel *k, bool all);

/* --- repl_ops.c -------------------------------------------------------------------- */

bool repl_is_text(struct jscan v, const char *text);
struct jscan repl_member(struct jscan object, const char *name);

/* A request or an answer, checked; *call is set for an answer. */
int repl_request_check(const char *json, size_t len, uint64_t *id, uint64_t *call,
		       uint64_t *timeout_ms, struct nsbox_error *err);

/* A new event at the end of the list; its text is still empty. NULL: no memory. */
struct repl_event *repl_event_add(struct nsbox_kernel *k);
void repl_event_free(struct repl_event *e);
/* The request in hand is over: nobody will answer the calls of a shell's processes. */
void repl_calls_end(struct nsbox_kernel *k);

/* One frame of the driver's: an event, or nothing. NSBOX_E_SYSTEM: it is none. */
int repl_frame_take(struct nsbox_kernel *k, struct nsbox_error *err);

/* The request in hand ends by the death of its interpreter. */
void repl_done_by_death(struct nsbox_kernel *k, const struct repl_request *q, bool restarted,
			const char *reason);
void repl_dead(struct nsbox_kernel *k, bool restarted, const char *reason);

/* --- repl_shell.c ------------------------------------------------------------------ */

/* A request that was checked, as a shell reads it. */
int repl_shell_request(struct buf *out, uint64_t id, const char *json, size_t len,
		       struct nsbox_error *err);
/* An answer to a call, checked, as a line "call kind text". */
int repl_shell_answer(struct buf *out, const char *json, size_t len, struct nsbox_error *err);
/* What stands in front of the words of a request. */
void repl_shell_head(struct buf *out, const char *op, uint64_t id, size_t words);

/* --- repl_shell_said.c ------------------------------------------------------------- */

/* The event "call" of a frame whose "words" are base64 of words, each with a NUL behind. */
void repl_shell_call(struct buf *out, struct jscan frame);
/* The members "entries" and "truncated", each behind a comma, from base64 of a listing. */
void repl_shell_listing(struct buf *out, struct jscan listing);

#endif
