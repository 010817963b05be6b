/*
 * A growing byte buffer with a ceiling that is fixed at creation. Adding never
 * reports an error by itself: a buffer that hit its ceiling or ran out of memory
 * turns `failed`, keeps what it had, and ignores what follows. Check once at the
 * end. The text is always NUL-terminated when cap > 0.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;
	size_t len, cap, max;
	bool failed;
};
#define BUF_INIT(limit_bytes) { .max = (limit_bytes) }

void buf_free(struct buf *b);
void buf_clear(struct buf *b);			/* keep memory, forget text */
void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *buf_text(const struct buf *b);	/* never NULL */
char *buf_take(struct buf *b);			/* malloc'ed; NULL when failed */

#endif
