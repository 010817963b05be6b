/*
 * peek.c - see peek.h. Runs in the supervisor.
 *
 * Must:    let no byte of the client pass before it is judged; deny what it cannot read on
 *          ports 443 and 80.
 * Mustn't: hold back a server that speaks first (ssh, smtp).
 *
 * The outer SNI is what is checked. A browser sends an encrypted ClientHello that means
 * nothing (GREASE) to any server; a real one needs a key from an HTTPS record, and the
 * stub gives none.
 */
#include "runtime/egress/peek.h"

#include "runtime/egress/tcp.h"

#include <string.h>

enum { HTTPS = 443, HTTP = 80 };

void peek_begin(struct conn *c)
{
	struct egress_dest d = conn_dest(c, c->name[0] ? NULL : &c->addr);

	c->peek = (struct peek){ .seen = BUF_INIT(PEEK_HELD_MAX) };
	if (egress_wants_names_checked(c->e->rules, &d))
		c->peek.mode = PEEK_FIRST;
}

void peek_free(struct peek *p)
{
	buf_free(&p->seen);
	if (p->is_http)
		http_free(&p->http);
	*p = (struct peek){ .mode = PEEK_OPEN };
}

/* --- the verdict on a name ------------------------------------------------------------------- */

/* The name that was looked up; or under default-allow any that is not denied. */
static bool may_name(const struct conn *c, const char *name)
{
	struct egress_dest d = conn_dest(c, NULL);

	if (!egress_default_allows(c->e->rules))
		return strcmp(name, c->name) == 0;
	d.name = name;
	return egress_judge(c->e->rules, &d).allowed;
}

/* @name: the one that was said, and that a rule could allow; or NULL. */
static int deny(struct conn *c, const char *why, const char *name)
{
	struct buf what = BUF_INIT(1024), flag = BUF_INIT(512);
	char text[EGRESS_ADDR_TEXT];

	buf_fmt(&what, "connect %s:%u: %s%s", c->name[0] ? c->name : egress_addr_text(&c->addr, text),
		c->port, why, name ? name : "");
	if (name)
		buf_fmt(&flag, "--allow-out %s", name);
	if (name && c->port != HTTPS && c->port != HTTP)
		buf_fmt(&flag, ":%u", c->port);
	ledger_deny_text(&c->e->ledger, buf_text(&what),
			 "a stream must be for the name that was looked up", buf_text(&flag));
	buf_free(&what);
	buf_free(&flag);
	return -1;
}

/* --- HTTP -------------------------------------------------------------------------------------- */

static bool may_host(void *arg, const char *host, uint16_t port)
{
	const struct conn *c = arg;

	/* Without a Host (HTTP/1.0) the server decides by the address alone: not by a name
	 * that we could judge. */
	return host && (!port || port == c->port) && may_name(c, host);
}

static int refuse_request(struct conn *c)
{
	const char *why = c->peek.http.why ? c->peek.http.why : "it is not HTTP";

	if (c->peek.http.host[0] && !may_host(c, c->peek.http.host, c->peek.http.port))
		return deny(c, "the request is for ", c->peek.http.host);
	return deny(c, why, NULL);
}

static int hear_http(struct conn *c, const uint8_t *data, size_t len, struct buf *out)
{
	const struct http_rule rule = { may_host, c };
	long taken = http_client(&c->peek.http, &rule, data, len, out);

	if (taken < 0)
		return -1;
	if (c->peek.http.state == HTTP_REFUSED)
		return refuse_request(c);
	buf_add(&c->peek.seen, data + taken, len - (size_t)taken);
	return c->peek.seen.failed ? -1 : 0;
}

static int begin_http(struct conn *c, const uint8_t *data, size_t len, struct buf *out)
{
	c->peek.mode = PEEK_HTTP;
	c->peek.is_http = true;
	http_init(&c->peek.http);
	return hear_http(c, data, len, out);
}

/* --- the first bytes ------------------------------------------------------------------------------ */

static int open_up(struct conn *c, struct buf *out)
{
	buf_add(out, c->peek.seen.data, c->peek.seen.len);
	peek_free(&c->peek);
	return 0;
}

static int judge_hello(struct conn *c, const struct tls_hello *hello, struct buf *out)
{
	if (!hello->name[0] && !egress_default_allows(c->e->rules))
		return deny(c, "the ClientHello has no server name", NULL);
	if (hello->name[0] && !may_name(c, hello->name))
		return deny(c, "the ClientHello asks for ", hello->name);
	return open_up(c, out);
}

/* "GET ", "OPTIONS ": upper case, then a space. NULL-safe for what is too short to tell. */
static int looks_like_http(const uint8_t *p, size_t len)
{
	size_t i = 0;

	while (i < len && i < 16 && p[i] >= 'A' && p[i] <= 'Z')
		i++;
	if (i == len && i < 16)
		return -1; /* not to be told yet */
	return i > 1 && i < len && p[i] == ' ';
}

static int judge_other(struct conn *c, struct buf *out)
{
	const uint8_t *p = (const uint8_t *)c->peek.seen.data;
	int is_http = looks_like_http(p, c->peek.seen.len);
	struct buf seen;
	int r;

	if (c->port == HTTPS)
		return egress_default_allows(c->e->rules)
			       ? open_up(c, out)
			       : deny(c, "what is said on port 443 is not TLS", NULL);
	if (!is_http && c->port == HTTP && !egress_default_allows(c->e->rules))
		return deny(c, "what is said on port 80 is not HTTP", NULL);
	if (!is_http)
		return open_up(c, out);
	if (is_http < 0 && c->port != HTTP)
		return 0;
	seen = c->peek.seen;
	c->peek.seen = (struct buf)BUF_INIT(PEEK_HELD_MAX);
	r = begin_http(c, (const uint8_t *)seen.data, seen.len, out);
	buf_free(&seen);
	return r;
}

static int judge_first(struct conn *c, struct buf *out)
{
	struct tls_hello hello;

	switch (tls_peek(&hello, (const uint8_t *)c->peek.seen.data, c->peek.seen.len)) {
	case TLS_MORE:
		return 0;
	case TLS_HELLO:
		return c->port == HTTP && !egress_default_allows(c->e->rules)
			       ? deny(c, "what is said on port 80 is not HTTP", NULL)
			       : judge_hello(c, &hello, out);
	case TLS_BAD:
		return deny(c, "the ClientHello is malformed", NULL);
	case TLS_NOT:
		return judge_other(c, out);
	}
	return -1;
}

/* --- the stream ------------------------------------------------------------------------------------ */

int peek_client(struct conn *c, const uint8_t *data, size_t len, struct buf *out)
{
	if (c->peek.mode == PEEK_HTTP)
		return hear_http(c, data, len, out);
	buf_add(&c->peek.seen, data, len);
	if (c->peek.seen.failed)
		return -1;
	return judge_first(c, out);
}

int peek_server(struct conn *c, const uint8_t *data, size_t len, struct buf *out)
{
	struct buf seen = c->peek.seen;
	int r;

	if (c->peek.mode != PEEK_HTTP)
		return 0;
	http_server(&c->peek.http, data, len);
	if (!seen.len || c->peek.http.state == HTTP_WAIT)
		return 0;
	c->peek.seen = (struct buf)BUF_INIT(PEEK_HELD_MAX);
	r = hear_http(c, (const uint8_t *)seen.data, seen.len, out);
	buf_free(&seen);
	return r;
}

int peek_end(struct conn *c, struct buf *out)
{
	if (c->peek.mode != PEEK_FIRST || !c->peek.seen.len)
		return 0;
	if (c->port == HTTPS || c->port == HTTP)
		return deny(c, "it ended before it said what it is", NULL);
	return open_up(c, out); /* it can no longer become TLS or HTTP */
}
