/* UTF-8 as RFC 3629 has it (no surrogates, nothing above U+10FFFF) and base64. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

/* Bytes of the valid character at s (1..4), or 0 when there is none. */
size_t utf8_length(const char *s, size_t len);
bool utf8_valid(const char *s, size_t len);

/* The largest cut <= want that does not split a character that is valid in s. */
size_t utf8_cut_before(const char *s, size_t len, size_t want);
/* The smallest cut >= want that does not split one. */
size_t utf8_cut_after(const char *s, size_t len, size_t want);

void base64_add(struct buf *b, const void *data, size_t len);
/* In place, with a NUL behind; *len is then of the bytes. -1: not RFC 4648 in one line. */
int base64_decode(char *text, size_t *len);

#endif
