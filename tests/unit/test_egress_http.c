/*
 * test_egress_http.c - requests of one connection: which host each is for, and what two
 * servers could read differently
 *
 * Every row is run in one piece, byte by byte and cut once at each place, with the same
 * result.
 */
#include "base/cleanup.h"
#include "runtime/egress/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OUT_MAX = 1 << 20 };

struct seen {
	char hosts[256]; /* "a.test:0 b.test:81 " */
	bool without;	 /* may a request have no host? */
};

static bool may(void *arg, const char *host, uint16_t port)
{
	struct seen *s = arg;
	struct buf line = BUF_INIT(sizeof(s->hosts));

	buf_fmt(&line, "%s%s:%u ", s->hosts, host ? host : "-", port);
	assert_true(line.len < sizeof(s->hosts));
	memcpy(s->hosts, buf_text(&line), line.len + 1);
	buf_free(&line);
	if (!host)
		return s->without;
	return strcmp(host, "a.test") == 0 || strcmp(host, "192.0.2.1") == 0 ||
	       strcmp(host, "2001:db8::1") == 0;
}

struct run {
	struct http h;
	struct seen seen;
	struct buf out;
	size_t taken;
};

static void run_begin(struct run *r, bool without)
{
	*r = (struct run){ .out = BUF_INIT(OUT_MAX), .seen.without = without };
	http_init(&r->h);
}

static void run_end(struct run *r)
{
	http_free(&r->h);
	buf_free(&r->out);
}

/* A copy of the exact size: the sanitizer sees a read past the end. */
static long feed(struct run *r, const char *p, size_t n)
{
	const struct http_rule rule = { may, &r->seen };
	owned_mem uint8_t *exact = malloc(n ? n : 1);
	long taken;

	assert_non_null(exact);
	memcpy(exact, p, n);
	taken = http_client(&r->h, &rule, exact, n, &r->out);
	assert_true(taken >= 0 && (size_t)taken <= n);
	if ((size_t)taken < n)
		assert_true(r->h.state == HTTP_WAIT || r->h.state == HTTP_REFUSED);
	r->taken += (size_t)taken;
	return taken;
}

static void same(const struct run *a, const struct run *b)
{
	assert_int_equal(a->h.state, b->h.state);
	assert_int_equal(a->taken, b->taken);
	assert_int_equal(a->out.len, b->out.len);
	assert_memory_equal(buf_text(&a->out), buf_text(&b->out), a->out.len);
	assert_string_equal(a->seen.hosts, b->seen.hosts);
	assert_string_equal(a->h.host, b->h.host);
	assert_ptr_equal(a->h.why, b->h.why);
}

static void in_pieces(struct run *whole, const char *p, size_t n)
{
	struct run r;

	for (size_t cut = 1; cut < n; cut++) {
		run_begin(&r, whole->seen.without);
		if ((size_t)feed(&r, p, cut) == cut)
			feed(&r, p + cut, n - cut);
		same(whole, &r);
		run_end(&r);
	}
	run_begin(&r, whole->seen.without);
	for (size_t i = 0; i < n && feed(&r, p + i, 1) == 1; i++)
		;
	same(whole, &r);
	run_end(&r);
}

/* What goes out is what came in. */
static void run(struct run *r, bool without, const char *p, size_t n)
{
	run_begin(r, without);
	feed(r, p, n);
	in_pieces(r, p, n);
	assert_true(r->out.len <= n);
	assert_memory_equal(buf_text(&r->out), p, r->out.len);
}

static void passes(const char *text, const char *hosts)
{
	struct run r;

	run(&r, false, text, strlen(text));
	if (r.h.state == HTTP_REFUSED)
		fail_msg("refused: %s: %s", r.h.why, text);
	assert_int_equal(r.taken, strlen(text));
	assert_int_equal(r.out.len, strlen(text));
	assert_string_equal(r.seen.hosts, hosts);
	run_end(&r);
}

/* @passed: bytes of the text that are through before that. */
static void refuses_bytes(const char *p, size_t n, size_t passed, const char *why)
{
	struct run r;

	run(&r, false, p, n);
	if (r.h.state != HTTP_REFUSED || !strstr(r.h.why, why))
		fail_msg("%s instead of \"%s\": %s", r.h.why ? r.h.why : "not refused", why, p);
	assert_int_equal(r.out.len, passed);
	assert_int_equal(feed(&r, "x", 1), 0); /* for good */
	run_end(&r);
}

static void refuses(const char *text, const char *why)
{
	refuses_bytes(text, strlen(text), 0, why);
}

#define HEAD "Host: a.test\r\n"
#define GET "GET / HTTP/1.1\r\n" HEAD "\r\n"

static void requests_for_the_host_pass_unchanged(void **state)
{
	(void)state;
	passes(GET, "a.test:0 ");
	passes(GET GET GET, "a.test:0 a.test:0 a.test:0 ");
	passes("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n", "a.test:0 ");
	passes("GET /a?b=c&d=%20 HTTP/1.1\r\nhOsT:A.Test.\r\nX:\r\nY: \t\xe9 \t\r\n\r\n", "a.test:0 ");
	passes("GET / HTTP/1.1\r\nHost:\t a.test:8080 \t\r\n\r\n", "a.test:8080 ");
	passes("GET / HTTP/1.1\r\nHost: 192.0.2.1:81\r\n\r\n", "192.0.2.1:81 ");
	passes("GET / HTTP/1.1\r\nHost: [2001:DB8:0::1]:81\r\n\r\n", "2001:db8::1:81 ");
	passes("OPTIONS * HTTP/1.1\r\n" HEAD "\r\n", "a.test:0 ");
	passes("M-SEARCH /x HTTP/1.1\r\n" HEAD "\r\n", "a.test:0 ");
	passes("GET //b.test/ HTTP/1.1\r\n" HEAD "\r\n", "a.test:0 ");
	passes("POST / HTTP/1.1\r\n" HEAD "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok" GET,
	       "a.test:0 a.test:0 ");
}

static void a_request_for_another_host_is_refused_also_later(void **state)
{
	static const char b[] = "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";
	static const char a_then_b[] = GET "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";
	static const char nul[] = "GET / HTTP/1.1\r\nHost: b.test\0.a.test\r\n\r\n";
	struct run r;

	(void)state;
	run(&r, false, b, sizeof(b) - 1);
	assert_int_equal(r.h.state, HTTP_REFUSED);
	assert_string_equal(r.h.host, "b.test"); /* for the record of the denial */
	assert_int_equal(r.out.len, 0);
	run_end(&r);
	refuses(b, "for another host");
	refuses_bytes(a_then_b, sizeof(a_then_b) - 1, sizeof(GET) - 1, "for another host");
	refuses_bytes(nul, sizeof(nul) - 1, 0, "control character");
	refuses("GET / HTTP/1.1\r\nHost: a.test.b.test\r\n\r\n", "for another host");
	refuses("GET / HTTP/1.1\r\nHost: u:p@a.test\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test@b.test\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test b.test\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: b\xc3\xbc.test\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test:\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test:0\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test:65536\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test:080\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: a.test:80:81\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: [fe80::1%25lo]\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost:\r\n\r\n", "malformed Host");
	refuses("GET / HTTP/1.1\r\nHost: http://a.test\r\n\r\n", "malformed Host");
}

static void there_is_one_host(void **state)
{
	static const char none[] = "GET / HTTP/1.0\r\n\r\n";
	struct run r;

	(void)state;
	refuses("GET / HTTP/1.1\r\n\r\n", "without a Host");
	refuses("GET http://a.test/ HTTP/1.1\r\n\r\n", "without a Host");
	refuses("GET / HTTP/1.1\r\n" HEAD HEAD "\r\n", "two Host");
	refuses("GET / HTTP/1.1\r\n" HEAD "host: b.test\r\n\r\n", "two Host");
	refuses("GET / HTTP/1.0\r\n" HEAD "host: b.test\r\n\r\n", "two Host");
	refuses(none, "names no host");
	run(&r, true, none, sizeof(none) - 1); /* where the rule lets it */
	assert_int_equal(r.h.state, HTTP_HEAD);
	assert_string_equal(r.seen.hosts, "-:0 ");
	assert_string_equal(r.h.host, "");
	assert_int_equal(r.out.len, sizeof(none) - 1);
	run_end(&r);
}

static void the_host_of_an_absolute_uri_is_judged_as_well(void **state)
{
	(void)state;
	passes("GET http://a.test/x HTTP/1.1\r\n" HEAD "\r\n", "a.test:0 ");
	passes("GET HTTP://A.test:80?q HTTP/1.1\r\n" HEAD "\r\n", "a.test:0 ");
	passes("GET http://a.test HTTP/1.1\r\nHost: a.test:80\r\n\r\n", "a.test:80 ");
	passes("GET http://a.test HTTP/1.0\r\n\r\n", "a.test:0 ");
	refuses("GET http://b.test/ HTTP/1.1\r\n" HEAD "\r\n", "differ");
	refuses("GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", "differ");
	refuses("GET http://a.test:81/ HTTP/1.1\r\n" HEAD "\r\n", "differ");
	refuses("GET http://b.test/ HTTP/1.0\r\n\r\n", "for another host");
	refuses("GET http://a.test@b.test/ HTTP/1.1\r\n" HEAD "\r\n", "malformed host");
	refuses("GET http://b.test\\@a.test/ HTTP/1.1\r\n" HEAD "\r\n", "malformed host");
	refuses("GET http://b.test#@a.test/ HTTP/1.1\r\n" HEAD "\r\n", "malformed target");
	refuses("GET http:///a.test/ HTTP/1.1\r\n" HEAD "\r\n", "malformed host");
	refuses("GET https://a.test/ HTTP/1.1\r\n" HEAD "\r\n", "neither a path");
	refuses("GET ftp://a.test/ HTTP/1.1\r\n" HEAD "\r\n", "neither a path");
	refuses("GET a.test/ HTTP/1.1\r\n" HEAD "\r\n", "neither a path");
	refuses("GET * HTTP/1.1\r\n" HEAD "\r\n", "neither a path");
	refuses("GET  HTTP/1.1\r\n" HEAD "\r\n", "neither a path");
}

static void no_tunnel_is_asked_for(void **state)
{
	(void)state;
	refuses("CONNECT a.test:443 HTTP/1.1\r\n" HEAD "\r\n", "CONNECT");
	refuses("connect a.test:443 HTTP/1.1\r\n" HEAD "\r\n", "CONNECT");
	refuses("CONNECT / HTTP/1.1\r\n" HEAD "\r\n", "CONNECT");
}

static void what_is_not_http_1_is_refused(void **state)
{
	(void)state;
	refuses("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "version");
	refuses("GET /\r\n", "no HTTP request");
	refuses("GET / HTTP/1.1 \r\n" HEAD "\r\n", "version");
	refuses("GET / HTTP/1.2\r\n" HEAD "\r\n", "version");
	refuses("GET / HTTP/11\r\n" HEAD "\r\n", "version");
	refuses("GET / http/1.1\r\n" HEAD "\r\n", "version");
	refuses("GET / a HTTP/1.1\r\n" HEAD "\r\n", "version");
	refuses("GET /\ta HTTP/1.1\r\n" HEAD "\r\n", "malformed target");
	refuses("G(T / HTTP/1.1\r\n" HEAD "\r\n", "no HTTP request");
	refuses("\r\n" GET, "no HTTP request");
	refuses(" " GET, "no HTTP request");
	refuses("\x16\x03\x01", "no HTTP request");
}

static void lines_have_one_end_and_names_no_space(void **state)
{
	(void)state;
	refuses("GET / HTTP/1.1\n" HEAD "\r\n", "ends without CR");
	refuses("GET / HTTP/1.1\r\nHost: a.test\n\r\n", "ends without CR");
	refuses("GET / HTTP/1.1\r\nHost: a.test\r\n\n", "ends without CR");
	refuses("GET / HTTP/1.1\r\nX: a\rHost: b.test\r\n\r\n", "CR without LF");
	refuses("GET / HTTP/1.1\r\r\n" HEAD "\r\n", "CR without LF");
	refuses("GET / HTTP/1.1\r\n" HEAD "X: a\x0b\r\n\r\n", "control character");
	refuses("GET / HTTP/1.1\r\n" HEAD "X: a\x7f\r\n\r\n", "control character");
	refuses("GET / HTTP/1.1\r\n" HEAD " folded\r\n\r\n", "malformed header");
	refuses("GET / HTTP/1.1\r\n" HEAD "\tfolded: x\r\n\r\n", "malformed header");
	refuses("GET / HTTP/1.1\r\n Host: a.test\r\n\r\n", "malformed header");
	refuses("GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", "malformed header");
	refuses("GET / HTTP/1.1\r\n" HEAD "X\t: 1\r\n\r\n", "malformed header");
	refuses("GET / HTTP/1.1\r\n" HEAD ": 1\r\n\r\n", "malformed header");
	refuses("GET / HTTP/1.1\r\n" HEAD "no colon\r\n\r\n", "malformed header");
}

/* --- bodies ------------------------------------------------------------------------------------ */

#define POST "POST / HTTP/1.1\r\n" HEAD
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static void a_body_has_one_length(void **state)
{
	(void)state;
	passes(POST "Content-Length: 0\r\n\r\n" GET, "a.test:0 a.test:0 ");
	passes(POST "Content-Length: 5\r\n\r\n\r\n\n\r\n", "a.test:0 ");
	passes(POST "content-length:31\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r" GET,
	       "a.test:0 a.test:0 ");
	refuses(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "two lengths");
	refuses(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "two lengths");
	refuses(POST "Content-Length: 5, 5\r\n\r\n", "two lengths");
	refuses(POST "Content-Length: +5\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: -5\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: 0x5\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: 05\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: 5 \x35\r\n\r\n", "malformed one");
	refuses(POST "Content-Length:\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: 9223372036854775808\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: 18446744073709551617\r\n\r\n", "malformed one");
	refuses(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "both");
	refuses(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "both");
	refuses(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "coding");
	refuses(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", "coding");
	refuses(POST "Transfer-Encoding: identity\r\n\r\n", "coding");
	refuses(POST "Transfer-Encoding: xchunked\r\n\r\n", "coding");
	refuses(POST "Transfer-Encoding: \"chunked\"\r\n\r\n", "coding");
	refuses(POST "Transfer-Encoding:\r\n\r\n", "coding");
	refuses("POST / HTTP/1.0\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n", "1.0 request");
}

/* The request after a body is a request again, and nothing in it was one. */
static void a_length_ends_where_it_says(void **state)
{
	static const char text[] = POST "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n"
				   "Host: b.test\r\n\r\n";
	size_t passed = strlen(text) - strlen("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");

	(void)state;
	refuses_bytes(text, sizeof(text) - 1, passed, "for another host");
}

static void chunked_bodies_pass_unchanged(void **state)
{
	(void)state;
	passes(CHUNKED "0\r\n\r\n" GET, "a.test:0 a.test:0 ");
	passes(CHUNKED "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n" GET, "a.test:0 a.test:0 ");
	passes(CHUNKED "0005;a=b;c=\"d e\"\r\n\r\n\r\n\r\r\n0;x\r\nX: y\r\nZ:\r\n\r\n" GET,
	       "a.test:0 a.test:0 ");
	passes(POST "transfer-encoding:  ChunKed \r\n\r\n1\r\nx\r\n0\r\n\r\n", "a.test:0 ");
}

static void chunk_refuses(const char *body, size_t passed, const char *why)
{
	struct buf b = BUF_INIT(OUT_MAX);

	buf_str(&b, CHUNKED);
	buf_str(&b, body);
	refuses_bytes(buf_text(&b), b.len, sizeof(CHUNKED) - 1 + passed, why);
	buf_free(&b);
}

static void malformed_chunks_are_refused(void **state)
{
	struct buf b = BUF_INIT(OUT_MAX);

	(void)state;
	chunk_refuses("\r\n", 0, "chunk size");
	chunk_refuses(";a\r\n", 0, "chunk size");
	chunk_refuses("+5\r\n", 0, "chunk size");
	chunk_refuses("0x5\r\n", 1, "chunk size");
	chunk_refuses("5 \r\n", 1, "chunk size");
	chunk_refuses("5\n", 1, "chunk size");
	chunk_refuses("5\rx", 2, "CR without LF");
	chunk_refuses("1000000000000000\r\n", 15, "chunk size");
	chunk_refuses("5;a\n", 3, "chunk extension");
	chunk_refuses("5;a\rb", 4, "CR without LF");
	chunk_refuses("1\r\nxyz", 4, "longer than its size");
	chunk_refuses("1\r\nx\n", 4, "longer than its size");
	chunk_refuses("1\r\nx\rz", 5, "CR without LF");
	chunk_refuses("0\r\nHost: b.test\r\n\r\n", 3, "belongs into the head");
	chunk_refuses("0\r\nContent-Length: 1\r\n\r\n", 3, "belongs into the head");
	chunk_refuses("0\r\nX : 1\r\n\r\n", 3, "malformed header");
	chunk_refuses("0\r\n folded\r\n\r\n", 3, "malformed header");
	chunk_refuses("0\r\nX: 1\n\r\n", 3, "ends without CR");
	chunk_refuses("0\r\n\n", 3, "ends without CR");
	buf_str(&b, "1;");
	for (int i = 0; i < 1024; i++)
		buf_char(&b, 'x');
	chunk_refuses(buf_text(&b), 1 + 1024, "too long");
	buf_free(&b);
}

static void fill(struct buf *b, const char *begin, size_t len, const char *end)
{
	buf_str(b, begin);
	while (b->len < len - strlen(end))
		buf_char(b, 'x');
	buf_str(b, end);
	assert_false(b->failed);
}

static void feeds_as(const struct buf *b, enum http_state want, size_t passed)
{
	struct run r;

	run_begin(&r, false);
	feed(&r, buf_text(b), b->len);
	assert_int_equal(r.h.state, want);
	assert_int_equal(r.out.len, passed);
	run_end(&r);
}

static void heads_and_trailers_are_bounded(void **state)
{
	owned(buf_free) struct buf head = BUF_INIT(OUT_MAX), trailers = BUF_INIT(OUT_MAX);
	static const char body[] = CHUNKED "0\r\n";

	(void)state;
	fill(&head, "GET / HTTP/1.1\r\n" HEAD "X: ", HTTP_HEAD_MAX, "\r\n\r\n");
	feeds_as(&head, HTTP_HEAD, HTTP_HEAD_MAX);
	buf_clear(&head);
	fill(&head, "GET / HTTP/1.1\r\n" HEAD "X: ", HTTP_HEAD_MAX + 1, "\r\n\r\n");
	feeds_as(&head, HTTP_REFUSED, 0);
	buf_str(&trailers, body);
	fill(&trailers, "X: ", sizeof(body) - 1 + HTTP_HEAD_MAX, "\r\n\r\n");
	feeds_as(&trailers, HTTP_HEAD, trailers.len);
	trailers.len -= 4;
	fill(&trailers, "", trailers.len + 5, "\r\n\r\n");
	feeds_as(&trailers, HTTP_REFUSED, sizeof(body) - 1);
}

/* --- upgrades ------------------------------------------------------------------------------------ */

#define WS "GET /ws HTTP/1.1\r\n" HEAD "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

static void hear(struct run *r, const char *text, bool byte_by_byte)
{
	size_t n = strlen(text), step = byte_by_byte ? 1 : n;

	for (size_t i = 0; i < n; i += step)
		http_server(&r->h, (const uint8_t *)text + i, step);
}

static void answered(const char *answer, enum http_state want)
{
	for (int byte_by_byte = 0; byte_by_byte < 2; byte_by_byte++) {
		struct run r;

		run_begin(&r, false);
		feed(&r, WS "\x81\x05hello", sizeof(WS) - 1 + 7);
		assert_int_equal(r.h.state, HTTP_WAIT);
		assert_int_equal(r.taken, sizeof(WS) - 1);
		assert_true(http_wants_server(&r.h));
		hear(&r, answer, byte_by_byte);
		assert_int_equal(r.h.state, want);
		run_end(&r);
	}
}

static void after_an_upgrade_the_answer_decides(void **state)
{
	(void)state;
	answered("HTTP/1.1 101 Switching Protocols\r\n", HTTP_OPAQUE);
	answered("HTTP/1.1 101\r\n", HTTP_OPAQUE);
	answered("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 x\r\n", HTTP_OPAQUE);
	answered("HTTP/1.1 103 x\r\nLink: y\r\n\r\nHTTP/1.1 200 x\r\n", HTTP_HEAD);
	answered("HTTP/1.1 103 x\r\nLink: HTTP/1.1 101 x\r\n", HTTP_WAIT);
	answered("HTTP/1.1 103 x\r\nHTTP/1.1 101 x\r\n", HTTP_WAIT);
	answered("HTTP/1.1 101 Switch", HTTP_WAIT);
	answered("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 101 x\r\n", HTTP_HEAD);
	answered("HTTP/1.1 426 x\r\n", HTTP_HEAD);
	answered("HTTP/1.1 1010 x\r\n", HTTP_HEAD);
	answered("HTTP/1.1 10\r\n", HTTP_HEAD);
	answered("HTTP/2 101 x\r\n", HTTP_HEAD);
	answered("\r\nHTTP/1.1 101 x\r\n", HTTP_HEAD);
	answered("garbage\n", HTTP_HEAD);
}

static void after_101_everything_passes_and_else_http_goes_on(void **state)
{
	struct run r;

	(void)state;
	run_begin(&r, false);
	feed(&r, WS, sizeof(WS) - 1);
	hear(&r, "HTTP/1.1 101 x\r\n\r\n", false);
	assert_false(http_wants_server(&r.h));
	assert_int_equal(feed(&r, "\0\n\xff", 3), 3);
	assert_int_equal(r.out.len, sizeof(WS) - 1 + 3);
	run_end(&r);

	run_begin(&r, false);
	feed(&r, WS, sizeof(WS) - 1);
	hear(&r, "HTTP/1.1 200 x\r\n\r\n", false);
	assert_false(http_wants_server(&r.h));
	feed(&r, GET, sizeof(GET) - 1);
	assert_int_equal(r.h.state, HTTP_HEAD);
	feed(&r, "\x81", 1);
	assert_int_equal(r.h.state, HTTP_REFUSED);
	run_end(&r);
}

static void an_upgrade_waits_for_the_body_and_knows_an_early_answer(void **state)
{
	static const char post[] = POST "Upgrade: x\r\nContent-Length: 3\r\n\r\n";
	struct run r;

	(void)state;
	run_begin(&r, false);
	feed(&r, post, sizeof(post) - 1);
	assert_int_equal(r.h.state, HTTP_BODY);
	hear(&r, "HTTP/1.1 101 x\r\n", false);
	assert_int_equal(r.h.state, HTTP_BODY);
	assert_int_equal(feed(&r, "abc\xff", 4), 4);
	assert_int_equal(r.h.state, HTTP_OPAQUE);
	run_end(&r);

	run_begin(&r, false);
	feed(&r, post, sizeof(post) - 1);
	hear(&r, "HTTP/1.1 413 x\r\n", false);
	feed(&r, "abc", 3);
	assert_int_equal(r.h.state, HTTP_HEAD);
	run_end(&r);
}

/* What an answer's body says, or a server that nobody asked, changes no protocol. */
static void only_the_answer_to_the_first_request_may_end_http(void **state)
{
	struct run r;

	(void)state;
	run_begin(&r, false);
	feed(&r, GET WS, sizeof(GET WS) - 1);
	assert_int_equal(r.h.state, HTTP_HEAD);
	hear(&r, "HTTP/1.1 200 x\r\n\r\nHTTP/1.1 101 x\r\n\r\n", false);
	hear(&r, "HTTP/1.1 101 x\r\n\r\n", false);
	assert_int_equal(r.h.state, HTTP_HEAD);
	feed(&r, "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n", 32);
	assert_int_equal(r.h.state, HTTP_REFUSED);
	run_end(&r);

	run_begin(&r, false);
	hear(&r, "HTTP/1.1 101 x\r\n\r\n", false); /* before any request */
	feed(&r, WS, sizeof(WS) - 1);
	assert_int_equal(r.h.state, HTTP_HEAD);
	run_end(&r);

	run_begin(&r, false);
	feed(&r, GET, sizeof(GET) - 1);
	hear(&r, "HTTP/1.1 101 x\r\n\r\n", false); /* of one without Upgrade */
	assert_int_equal(r.h.state, HTTP_HEAD);
	run_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_for_the_host_pass_unchanged),
		cmocka_unit_test(a_request_for_another_host_is_refused_also_later),
		cmocka_unit_test(there_is_one_host),
		cmocka_unit_test(the_host_of_an_absolute_uri_is_judged_as_well),
		cmocka_unit_test(no_tunnel_is_asked_for),
		cmocka_unit_test(what_is_not_http_1_is_refused),
		cmocka_unit_test(lines_have_one_end_and_names_no_space),
		cmocka_unit_test(a_body_has_one_length),
		cmocka_unit_test(a_length_ends_where_it_says),
		cmocka_unit_test(chunked_bodies_pass_unchanged),
		cmocka_unit_test(malformed_chunks_are_refused),
		cmocka_unit_test(heads_and_trailers_are_bounded),
		cmocka_unit_test(after_an_upgrade_the_answer_decides),
		cmocka_unit_test(after_101_everything_passes_and_else_http_goes_on),
		cmocka_unit_test(an_upgrade_waits_for_the_body_and_knows_an_early_answer),
		cmocka_unit_test(only_the_answer_to_the_first_request_may_end_http),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
