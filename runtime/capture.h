/*
 * Bounded capture of one stream: whatever the payload writes, the memory stays
 * below the limit. Keeps the head and the tail, and says how much is missing in
 * between with one notice; cuts never split a UTF-8 character. Bytes otherwise
 * untouched.
 */
#ifndef RUNTIME_CAPTURE_H
#define RUNTIME_CAPTURE_H

#include "base/buf.h"

struct capture {
	uint64_t limit;		/* bytes kept at most, notice included */
	uint64_t total;		/* bytes seen */
	char *data;		/* head, then a ring for the tail; grows on demand */
	size_t len, cap;	/* filled; allocated */
	size_t keep;		/* like limit, lower once memory ran out */
	size_t at;		/* of the oldest byte, counted from the ring's start */
	bool no_memory;		/* ran out while growing: counts go on */
};

void capture_init(struct capture *c, uint64_t limit);
void capture_add(struct capture *c, const void *data, size_t len);
bool capture_truncated(const struct capture *c);

/*
 * The kept text as one block, malloc'ed and NUL-terminated. With truncation:
 * head, "\n... [N bytes omitted] ...\n", tail; together <= limit. A limit too
 * small for a notice (< 64) keeps the head alone. limit 0: "". NULL: no memory.
 * Afterwards c is empty; total and limit stay readable.
 */
char *capture_take(struct capture *c, size_t *len);
void capture_free(struct capture *c);

#endif
