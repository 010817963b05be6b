/*
 * One stream between the box and the caller: reads what is ready, keeps it (capture)
 * or passes it on (relay), never blocks, never holds more than its buffer.
 *
 * A pump owns its descriptors. Those of the caller are duplicated first: epoll knows
 * an open file by (file, number), and the caller may give one number twice.
 */
#ifndef RUNTIME_PUMP_H
#define RUNTIME_PUMP_H

#include "base/err.h"
#include "runtime/capture.h"
#include "runtime/escapes.h"

#include <stdbool.h>

enum { PUMP_ROOM = 65536 };

struct pump {
	int epoll;		/* borrowed */
	int src, dst;		/* owned; dst -1: into capture */
	struct capture *capture; /* borrowed */
	uint64_t limit, total, passed; /* bytes: relayed at most; seen; passed on */
	char *room;		/* ESCAPES_HELD_MAX + PUMP_ROOM bytes, made when first needed */
	size_t at, len;		/* from, to: what of it still has to be written */
	bool src_shared, dst_shared; /* a description of the caller's: may not be made
				   non-blocking, so it is polled before each use */
	bool src_files, dst_files; /* epoll refuses it (a regular file): always ready */
	bool src_in, dst_in;	/* is registered with epoll */
	bool is_capture;	/* was opened without a dst; stays true after the end */
	struct escapes *escapes; /* owned; set when dst is the caller's terminal */
	int error;		/* errno of a write that failed; EPIPE is no failure */
	uint64_t drain_limit;	/* the writer is dead: total at which to stop */
	bool over;		/* nothing more will come or go */
};

struct pump_end {
	int fd;
	bool shared;	/* a description of the caller's, see above */
};

/* Takes both ends over (also on failure). dst.fd -1: into the capture. */
int pump_open(struct pump *p, int epoll, struct pump_end src, struct pump_end dst,
	      struct nsbox_error *err);

/* What comes is filtered for a terminal (escapes.h). */
int pump_filter(struct pump *p, bool may_ask, struct nsbox_error *err);

/* Wait for the source. (Nothing was written yet, most likely.) */
void pump_start(struct pump *p);

/* Move what can be moved now, then wait for the side that is not ready. */
void pump_step(struct pump *p);

/* The writer is dead: take what is left in the pipe. True once all is delivered. */
bool pump_drain(struct pump *p);

void pump_close(struct pump *p);

#endif
