/*
 * Whom does the client of a connection say that it talks to? By name under default-deny, and
 * where names are denied, SNI and Host must agree with the rules: else an allowed name would
 * be a way to everything else behind the same address (domain fronting).
 */
#ifndef EGRESS_PEEK_H
#define EGRESS_PEEK_H

#include "runtime/egress/http.h"
#include "runtime/egress/tls.h"

enum { PEEK_HELD_MAX = 64 * 1024 };	/* what may wait for a verdict */

enum peek_mode {
	PEEK_OPEN,	/* nothing (more) to look at */
	PEEK_FIRST,	/* what the client says first is not complete */
	PEEK_HTTP,	/* request after request */
};
struct peek {
	enum peek_mode mode;
	struct buf seen;	/* of PEEK_FIRST; of PEEK_HTTP: what waits for an answer */
	struct http http;
	bool is_http;		/* http is in use */
};

struct conn;
void peek_begin(struct conn *c);	/* by the rules and the port */
void peek_free(struct peek *p);
/* Bytes from the client; what may pass goes to `out`. -1: refused, and noted. */
int peek_client(struct conn *c, const uint8_t *data, size_t len, struct buf *out);
/* Bytes from the server. What they set free of the client's goes to `out`. */
int peek_server(struct conn *c, const uint8_t *data, size_t len, struct buf *out);
/* The client has no more to say; what that sets free goes to `out`. -1: what it left is no
 * beginning of anything allowed. */
int peek_end(struct conn *c, struct buf *out);

static inline bool peek_is_open(const struct peek *p)
{
	return p->mode == PEEK_OPEN;
}

/* An answer of the server's comes first: do not read on. */
static inline bool peek_is_waiting(const struct peek *p)
{
	return p->mode == PEEK_HTTP && p->http.state == HTTP_WAIT && p->seen.len;
}

static inline bool peek_is_holding(const struct peek *p)
{
	return p->mode != PEEK_OPEN && p->seen.len;
}

#endif
