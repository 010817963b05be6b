/*
 * http.c - see http.h; RFC 9112, RFC 9110 sections 7.2 and 7.8
 *
 * Runs in the supervisor, on bytes that the box chose and on those that a server chose.
 * Here: where requests, bodies and answers begin and end. What a head says: http_head.c.
 *
 * Attack: a request inside of what this parser takes for a body (request smuggling), or a
 * "101" inside of an answer's body, would let a request for another host through. So a body
 * has one length that everybody reads alike, and only the answer to the first request of a
 * connection may end HTTP: that one can be found without parsing the answers' bodies.
 *
 * Must:    act the same however the bytes are portioned; pass on what came, unchanged.
 * Mustn't: let a byte of a head pass before all of it was judged.
 */
#include "runtime/egress/http_head.h"

#include <stdlib.h>
#include <string.h>

enum chunk_state {
	CHUNK_NONE,		/* not chunked: body_left counts */
	CHUNK_SIZE,		/* hexadecimal digits */
	CHUNK_EXTENSION, CHUNK_SIZE_LF,
	CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
	CHUNK_TRAILERS,
};
enum answer_state {
	ANSWER_LINE,		/* the status line of an answer, or of an interim one */
	ANSWER_INTERIM,		/* the rest of the head of a 1xx: up to an empty line */
	ANSWER_SWITCHED, ANSWER_FINAL,
};
enum {
	CHUNK_LINE_MAX = 1024,	/* a size with its extensions */
	CHUNK_DIGITS_MAX = 15,	/* fits in 63 bits */
	FIRST_HEAD_ROOM = 1024,
};

void http_init(struct http *h)
{
	*h = (struct http){ .state = HTTP_HEAD };
}

void http_free(struct http *h)
{
	free(h->head);
	h->head = NULL;
	h->head_len = h->head_cap = 0;
}

int http_refuse(struct http *h, const char *why)
{
	h->state = HTTP_REFUSED;
	h->why = why;
	return HTTP_STOP;
}

/* --- the answer to an Upgrade -------------------------------------------------------------- */

/* When the request is complete and wants an upgrade, or the answer to it comes. */
static void settle_upgrade(struct http *h)
{
	if (h->answer == ANSWER_SWITCHED)
		h->state = HTTP_OPAQUE;
	else
		h->state = h->answer == ANSWER_FINAL ? HTTP_HEAD : HTTP_WAIT;
}

static void end_request(struct http *h)
{
	h->chunk = CHUNK_NONE;
	/* Of a later request we do not know when its answer begins. We go on as HTTP: if the
	 * server does change the protocol, the client's bytes are refused. */
	if (h->wants_upgrade && h->requests == 1)
		settle_upgrade(h);
	else
		h->state = HTTP_HEAD;
}

/* "HTTP/1.1 101 ...": the status, or 0 for what is none. */
static int status_of(const char *line, unsigned len)
{
	if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' ||
	    (len > 12 && line[12] != ' ' && line[12] != '\r'))
		return 0;
	for (int i = 9; i < 12; i++)
		if (line[i] < '0' || line[i] > '9')
			return 0;
	return (line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0';
}

static void end_status_line(struct http *h)
{
	int status = status_of(h->answer_line, h->answer_len);

	if (status == 101)
		/* Of a server that nobody asked, it is the end of all answers. */
		h->answer = h->wants_upgrade && h->requests == 1 ? ANSWER_SWITCHED : ANSWER_FINAL;
	else
		h->answer = status >= 100 && status <= 199 ? ANSWER_INTERIM : ANSWER_FINAL;
	h->answer_len = 0;
}

static void hear_answer(struct http *h, uint8_t c)
{
	if (c == '\n') {
		bool is_empty = h->answer_len == 0;

		if (h->answer == ANSWER_LINE)
			end_status_line(h);
		else if (is_empty)
			h->answer = ANSWER_LINE;
		h->answer_len = 0;
	} else if (h->answer == ANSWER_LINE) {
		if (h->answer_len < sizeof(h->answer_line))
			h->answer_line[h->answer_len++] = (char)c;
	} else if (c != '\r') {
		h->answer_len = 1;
	}
}

bool http_wants_server(const struct http *h)
{
	return h->answer == ANSWER_LINE || h->answer == ANSWER_INTERIM;
}

void http_server(struct http *h, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len && http_wants_server(h); i++)
		hear_answer(h, data[i]);
	if (h->state == HTTP_WAIT)
		settle_upgrade(h);
}

/* --- heads and trailers ---------------------------------------------------------------------- */

static int hold(struct http *h, uint8_t c)
{
	if (h->head_len == HTTP_HEAD_MAX)
		return http_refuse(h, "a head or trailers of HTTP of more than 32 KiB");
	if (h->head_len == h->head_cap) {
		size_t cap = h->head_cap ? h->head_cap * 2 : FIRST_HEAD_ROOM;
		uint8_t *more = realloc(h->head, cap);

		if (!more)
			return -1;
		h->head = more;
		h->head_cap = cap;
	}
	h->head[h->head_len++] = c;
	return 0;
}

/* A line end is CR LF and there are no other control characters: RFC 9112 section 2.2 lets
 * servers read them in several ways. */
static int check_byte(struct http *h, uint8_t c)
{
	bool after_cr = h->head_len && h->head[h->head_len - 1] == '\r';

	if (after_cr != (c == '\n'))
		return http_refuse(h, after_cr ? "a CR without LF in HTTP"
					       : "a line of HTTP that ends without CR");
	if ((c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
		return http_refuse(h, "a control character in HTTP");
	return 0;
}

/* What is held ends with an empty line, or is one. */
static bool is_complete(const struct http *h)
{
	const uint8_t *end = h->head + h->head_len;

	return h->head[h->head_len - 1] == '\n' &&
	       (h->head_len == 2 || (h->head_len >= 4 && end[-3] == '\n'));
}

static void pass_held(struct http *h, struct buf *out)
{
	buf_add(out, h->head, h->head_len);
	h->head_len = 0;
}

static int end_head(struct http *h, const struct http_rule *rule, struct buf *out)
{
	struct http_facts facts;

	if (http_read_head(h, &facts) < 0 || http_judge_host(h, &facts, rule) < 0)
		return HTTP_STOP;
	h->requests += h->requests < 2; /* the first, or a later one */
	h->wants_upgrade = facts.wants_upgrade;
	h->body_left = facts.length;
	h->chunk = facts.is_chunked ? CHUNK_SIZE : CHUNK_NONE;
	pass_held(h, out);
	if (facts.is_chunked || facts.length)
		h->state = HTTP_BODY;
	else
		end_request(h);
	return 0;
}

static int head_byte(struct http *h, const struct http_rule *rule, uint8_t c, struct buf *out)
{
	int r;

	if (h->head_len == 0 && !http_is_token(c))
		return http_refuse(h, "what was sent is no HTTP request");
	r = check_byte(h, c);
	if (r == 0)
		r = hold(h, c);
	if (r != 0 || c != '\n')
		return r;
	if (is_complete(h))
		return end_head(h, rule, out);
	/* Who speaks HTTP/0.9 or 2 would wait for an answer now. */
	return memchr(h->head, '\n', h->head_len - 1) ? 0 : http_check_request_line(h);
}

static int trailer_byte(struct http *h, uint8_t c, struct buf *out)
{
	int r = check_byte(h, c);

	if (r == 0)
		r = hold(h, c);
	if (r != 0 || !is_complete(h))
		return r;
	if (http_read_trailers(h) < 0)
		return HTTP_STOP;
	pass_held(h, out);
	end_request(h);
	return 0;
}

/* --- bodies ------------------------------------------------------------------------------------ */

static int hex_digit(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* head_len counts the bytes of the line, as nothing is held meanwhile. */
static int size_byte(struct http *h, uint8_t c)
{
	int digit = hex_digit(c);

	if (digit >= 0 && h->head_len < CHUNK_DIGITS_MAX) {
		h->body_left = h->body_left << 4 | (unsigned)digit;
		h->head_len++;
		return 0;
	}
	if (digit >= 0 || h->head_len == 0 || (c != '\r' && c != ';'))
		return http_refuse(h, "a malformed chunk size in HTTP");
	h->chunk = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
	return 0;
}

static int extension_byte(struct http *h, uint8_t c)
{
	if (c == '\r')
		h->chunk = CHUNK_SIZE_LF;
	else if ((c < ' ' && c != '\t') || c == 0x7f)
		return http_refuse(h, "a control character in a chunk extension of HTTP");
	else if (++h->head_len > CHUNK_LINE_MAX)
		return http_refuse(h, "a chunk extension of HTTP that is too long");
	return 0;
}

/* The bytes between the data. */
static int chunk_byte(struct http *h, uint8_t c)
{
	switch (h->chunk) {
	case CHUNK_SIZE:
		return size_byte(h, c);
	case CHUNK_EXTENSION:
		return extension_byte(h, c);
	case CHUNK_SIZE_LF:
		h->head_len = 0;
		h->chunk = h->body_left ? CHUNK_DATA : CHUNK_TRAILERS;
		break;
	case CHUNK_DATA_CR:
		h->chunk = CHUNK_DATA_LF;
		return c == '\r' ? 0 : http_refuse(h, "a chunk of HTTP that is longer than its size");
	default: /* CHUNK_DATA_LF */
		h->chunk = CHUNK_SIZE;
		break;
	}
	return c == '\n' ? 0 : http_refuse(h, "a CR without LF in a chunked body of HTTP");
}

/* As much as belongs to the body or chunk. */
static size_t body_bytes(struct http *h, const uint8_t *data, size_t len, struct buf *out)
{
	size_t n = h->body_left < len ? (size_t)h->body_left : len;

	buf_add(out, data, n);
	h->body_left -= n;
	if (h->body_left == 0 && h->chunk == CHUNK_DATA)
		h->chunk = CHUNK_DATA_CR;
	else if (h->body_left == 0)
		end_request(h);
	return n;
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* How many of the bytes were taken; HTTP_STOP; -1: no memory. */
static long some(struct http *h, const struct http_rule *rule, const uint8_t *data, size_t len,
		 struct buf *out)
{
	int r;

	if (h->state == HTTP_OPAQUE) {
		buf_add(out, data, len);
		return (long)len;
	}
	if (h->state == HTTP_BODY && (h->chunk == CHUNK_NONE || h->chunk == CHUNK_DATA))
		return (long)body_bytes(h, data, len, out);
	if (h->state == HTTP_HEAD) {
		r = head_byte(h, rule, data[0], out);
	} else if (h->chunk == CHUNK_TRAILERS) {
		r = trailer_byte(h, data[0], out);
	} else {
		r = chunk_byte(h, data[0]);
		if (r == 0)
			buf_add(out, data, 1);
	}
	return r == 0 ? 1 : r;
}

long http_client(struct http *h, const struct http_rule *rule, const uint8_t *data, size_t len,
		 struct buf *out)
{
	size_t taken = 0;

	while (taken < len && h->state != HTTP_WAIT && h->state != HTTP_REFUSED) {
		long n = some(h, rule, data + taken, len - taken, out);

		if (n == HTTP_STOP)
			break;
		if (n < 0 || out->failed)
			return -1;
		taken += (size_t)n;
	}
	return (long)taken;
}
