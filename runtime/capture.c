/*
 * capture.c - keeps the head and the tail of one stream of a payload
 *
 * Owns one block of memory a stream. Runs in the launcher, inside its event loop.
 *
 * Must:    take any number of bytes at memory speed, in memory that depends on the
 *          limit alone; give the same text however the stream was cut into reads.
 * Mustn't: look at single bytes while the payload writes, or hold the stream twice.
 *
 * One block of keep + LOOKAHEAD bytes serves both ends. It fills from the front;
 * once it is full, its second half turns into a ring that holds the latest bytes.
 * The lookahead lets the cut at the end see the character that it would split.
 */
#include "runtime/capture.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOOKAHEAD = 4,		/* the longest UTF-8 character */
	FIRST_CAP = 4096,	/* most programs print less than this */
	NOTICE_MIN = 64,	/* below this a notice would displace the text */
	NOTICE_ROOM = 64,	/* 26 characters and 20 digits at most */
};

void capture_init(struct capture *c, uint64_t limit)
{
	*c = (struct capture){ .limit = limit };
	c->keep = limit < SIZE_MAX / 4 ? (size_t)limit : SIZE_MAX / 4;
}

/* The size of the block when it is full. One more byte is there for the NUL. */
static size_t room(const struct capture *c)
{
	return c->keep ? c->keep + LOOKAHEAD : 0;
}

static size_t ring_start(const struct capture *c)
{
	return c->keep < NOTICE_MIN ? room(c) : room(c) / 2;
}

/* What is there already becomes all that will be kept. */
static void stop_growing(struct capture *c)
{
	c->no_memory = true;
	c->keep = c->cap > LOOKAHEAD + 1 ? c->cap - LOOKAHEAD - 1 : 0;
}

static void grow(struct capture *c, size_t want)
{
	size_t cap = c->cap ? c->cap : FIRST_CAP;
	char *p;

	if (want > room(c))
		want = room(c);
	if (c->no_memory || want < c->cap)
		return;
	while (cap <= want)
		cap *= 2;
	if (cap > room(c) + 1)
		cap = room(c) + 1;
	p = realloc(c->data, cap);
	if (!p) {
		stop_growing(c);
		return;
	}
	c->data = p;
	c->cap = cap;
}

/* The block is full: the newest bytes push out the oldest of the ring. */
static void add_to_ring(struct capture *c, const char *s, size_t len)
{
	char *ring = c->data + ring_start(c);
	size_t size = room(c) - ring_start(c), first;

	if (!size)
		return;
	if (len >= size) {
		memcpy(ring, s + len - size, size);
		c->at = 0;
		return;
	}
	first = size - c->at < len ? size - c->at : len;
	memcpy(ring + c->at, s, first);
	memcpy(ring, s + first, len - first);
	c->at = (c->at + len) % size;
}

void capture_add(struct capture *c, const void *data, size_t len)
{
	const char *s = data;
	size_t n;

	if (__builtin_add_overflow(c->total, len, &c->total))
		c->total = UINT64_MAX;
	if (!len || !c->keep)
		return;
	if (c->len < room(c))
		grow(c, len < room(c) - c->len ? c->len + len : room(c));
	if (!c->data)
		return;
	n = room(c) - c->len < len ? room(c) - c->len : len;
	memcpy(c->data + c->len, s, n);
	c->len += n;
	if (n < len)
		add_to_ring(c, s + n, len - n);
}

bool capture_truncated(const struct capture *c)
{
	return c->total > c->keep;
}

static void reverse(char *s, size_t len)
{
	for (size_t i = 0; i < len / 2; i++) {
		char x = s[i];

		s[i] = s[len - 1 - i];
		s[len - 1 - i] = x;
	}
}

/* Turn the ring in place, so that the text needs no second block: oldest first. */
static void straighten(struct capture *c)
{
	char *ring = c->data + ring_start(c);
	size_t size = room(c) - ring_start(c);

	if (!c->at)
		return;
	reverse(ring, c->at);
	reverse(ring + c->at, size - c->at);
	reverse(ring, size);
	c->at = 0;
}

/*
 * Close the gap: head, notice, tail. The notice gets the room that the number of
 * all bytes would need, so that its own length does not change the number in it.
 */
static size_t join(struct capture *c)
{
	char notice[NOTICE_ROOM];
	size_t most, head, tail, n;

	n = (size_t)snprintf(notice, sizeof(notice),
			     "\n... [%llu bytes omitted] ...\n",
			     (unsigned long long)c->total);
	most = c->keep - n;
	head = utf8_cut_before(c->data, c->len, most / 2);
	tail = utf8_cut_after(c->data, c->len, c->len - (most - most / 2));
	n = (size_t)snprintf(notice, sizeof(notice),
			     "\n... [%llu bytes omitted] ...\n",
			     (unsigned long long)(c->total - head - (c->len - tail)));
	memmove(c->data + head + n, c->data + tail, c->len - tail);
	memcpy(c->data + head, notice, n);
	return head + n + (c->len - tail);
}

static size_t kept_text(struct capture *c)
{
	if (!capture_truncated(c))
		return c->len;
	if (c->keep < NOTICE_MIN)
		return utf8_cut_before(c->data, c->len, c->keep);
	straighten(c);
	return join(c);
}

char *capture_take(struct capture *c, size_t *len)
{
	size_t n = c->data ? kept_text(c) : 0;
	char *text = realloc(c->data, n + 1);

	if (!text && n >= c->cap)
		return NULL;
	if (!text)
		text = c->data; /* could not shrink: keep it as it is */
	text[n] = '\0';
	*len = n;
	c->data = NULL;
	c->len = c->cap = c->at = 0;
	return text;
}

void capture_free(struct capture *c)
{
	free(c->data);
	c->data = NULL;
	c->len = c->cap = c->at = 0;
}
