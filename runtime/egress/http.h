/*
 * The client's side of an HTTP/1 connection, request after request: every one of them must be
 * for the host that was looked up. Pure, incremental, strict: what two parsers could read
 * differently (a bare LF, two Content-Length, Content-Length with chunked, obs-fold, NUL,
 * space before a colon) is refused.
 */
#ifndef EGRESS_HTTP_H
#define EGRESS_HTTP_H

#include "policy/egress.h"

enum { HTTP_HEAD_MAX = 32768 };	/* of a request's head, of the trailers of a body */

enum http_state {
	HTTP_HEAD,	/* inside a request's head: nothing of it may pass yet */
	HTTP_BODY,	/* inside a body */
	HTTP_WAIT,	/* Upgrade was asked for: what follows waits for the answer */
	HTTP_OPAQUE,	/* 101: no longer HTTP */
	HTTP_REFUSED,
};
struct http {
	enum http_state state;
	/* Of the latest request; canonical, or the text of an address. "": none. Set as well
	 * when that host was refused. */
	char host[EGRESS_NAME_MAX + 1];
	uint16_t port;		/* beside it; 0: none is written, which is 80 */
	const char *why;	/* HTTP_REFUSED: a sentence */
	/* the rest is http.c's own */
	uint8_t *head;		/* of the request, or trailers, until they are complete */
	size_t head_len, head_cap;
	uint64_t body_left;
	int chunk;		/* state of a chunked body */
	unsigned requests;
	bool wants_upgrade;
	int answer;		/* state of reading the server's status line */
	unsigned answer_len;	/* of its line so far */
	char answer_line[16];	/* and how that begins */
};
struct http_rule {
	/* May a request go to this host (canonical, or an address's text) and port (0: none
	 * is written)? NULL name: no Host header, in HTTP/1.0. */
	bool (*may)(void *arg, const char *host, uint16_t port);
	void *arg;
};
void http_init(struct http *h);
void http_free(struct http *h);
/*
 * Bytes from the client. Returns how many of `data` are taken (all, unless HTTP_WAIT or
 * HTTP_REFUSED); what may go to the server is appended to `out` (heads are held back until
 * they are complete and judged). -1: no memory.
 */
long http_client(struct http *h, const struct http_rule *rule, const uint8_t *data, size_t len,
		 struct buf *out);
/* Bytes from the server, all of them in order, only looked at: ends HTTP_WAIT. */
void http_server(struct http *h, const uint8_t *data, size_t len);
/* Must the server's next bytes still be shown to http_server()? Once not, never again. */
bool http_wants_server(const struct http *h);

#endif
