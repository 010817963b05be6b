#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_free(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

static bool make_room(struct buf *b, size_t more)
{
	size_t want, cap = b->cap ? b->cap : 64;
	char *p;

	if (b->failed || __builtin_add_overflow(b->len, more, &want) ||
	    want > b->max || want == SIZE_MAX) {
		b->failed = true;
		return false;
	}
	if (b->cap > want)
		return true;
	while (cap <= want)
		if (__builtin_mul_overflow(cap, (size_t)2, &cap)) {
			b->failed = true;
			return false;
		}
	p = realloc(b->data, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->data = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!make_room(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !make_room(b, (size_t)n)) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(b->data + b->len, b->cap - b->len, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

const char *buf_text(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
	char *p;

	if (!b->failed)
		buf_add(b, "", 0); /* an empty buffer still yields "" */
	if (b->failed)
		return NULL;
	p = b->data;
	b->data = NULL;
	b->len = b->cap = 0;
	return p;
}
