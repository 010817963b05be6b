/*
 * test_egress_proxy.c - what a proxy is told, and what is made of its answers
 *
 * Every answer is heard in one piece, byte by byte and cut once at each place.
 */
#include "base/cleanup.h"
#include "runtime/egress/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct proxy_ask http = { PROXY_HTTP, NULL, NULL, "a.test", 443 };
static const struct proxy_ask http_login = { PROXY_HTTP, "me", "s3cret", "a.test", 443 };
static const struct proxy_ask socks = { PROXY_SOCKS5, NULL, NULL, "a.test", 443 };
static const struct proxy_ask socks_login = { PROXY_SOCKS5, "me", "s3cret", "a.test", 443 };

struct bytes {
	const char *p;
	size_t n;
};
#define BYTES(text) { text, sizeof(text) - 1 }

static void begin(struct proxy_dialog *d, const struct proxy_ask *a, struct buf *out)
{
	memset(d, 0x55, sizeof(*d));
	proxy_begin(d, a, out);
}

static size_t hear(struct proxy_dialog *d, const char *p, size_t n, struct buf *out)
{
	owned_mem uint8_t *exact = malloc(n ? n : 1);

	assert_non_null(exact);
	memcpy(exact, p, n);
	return proxy_hear(d, exact, n, out);
}

static void expect_bytes(const struct buf *b, struct bytes want)
{
	assert_false(b->failed);
	assert_int_equal(b->len, want.n);
	assert_memory_equal(buf_text(b), want.p, want.n);
}

/* --- what we say first ------------------------------------------------------------------------ */

static void says_first(const struct proxy_ask *a, struct bytes want)
{
	owned(buf_free) struct buf out = BUF_INIT(4096);
	struct proxy_dialog d;

	begin(&d, a, &out);
	assert_int_equal(d.state, PROXY_TALKING);
	expect_bytes(&out, want);
}

static void an_http_proxy_is_asked_for_a_tunnel(void **state)
{
	const struct proxy_ask v6 = { PROXY_HTTP, "", "x", "2001:db8::1", 443 };
	const struct proxy_ask v4 = { PROXY_HTTP, NULL, NULL, "192.0.2.1", 443 };
	const struct proxy_ask colon = { PROXY_HTTP, "me", "a:b", "a.test", 443 };
	const struct proxy_ask no_password = { PROXY_HTTP, "me", NULL, "a.test", 443 };

	(void)state;
	says_first(&http, (struct bytes)BYTES("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"));
	says_first(&v4, (struct bytes)BYTES("CONNECT 192.0.2.1:443 HTTP/1.1\r\n"
					    "Host: 192.0.2.1:443\r\n\r\n"));
	says_first(&v6, (struct bytes)BYTES("CONNECT [2001:db8::1]:443 HTTP/1.1\r\n"
					    "Host: [2001:db8::1]:443\r\n\r\n"));
	says_first(&http_login,
		   (struct bytes)BYTES("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
				       "Proxy-Authorization: Basic bWU6czNjcmV0\r\n\r\n"));
	says_first(&colon,
		   (struct bytes)BYTES("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
				       "Proxy-Authorization: Basic bWU6YTpi\r\n\r\n"));
	says_first(&no_password,
		   (struct bytes)BYTES("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
				       "Proxy-Authorization: Basic bWU6\r\n\r\n"));
}

static void a_socks_proxy_is_offered_what_we_have(void **state)
{
	(void)state;
	says_first(&socks, (struct bytes)BYTES("\5\1\0"));
	says_first(&socks_login, (struct bytes)BYTES("\5\2\0\2"));
}

static void what_cannot_be_asked_is_refused_without_a_word(void **state)
{
	static char longest[PROXY_LOGIN_MAX + 1], too_long[PROXY_LOGIN_MAX + 2];
	const struct proxy_ask fits[] = {
		{ PROXY_SOCKS5, longest, longest, "a.test", 443 },
		{ PROXY_HTTP, longest, longest, "a.test", 443 },
		{ PROXY_SOCKS5, "a:b", "c", "a.test", 443 },
	};
	const struct proxy_ask rows[] = {
		{ PROXY_SOCKS5, too_long, "x", "a.test", 443 }, { PROXY_SOCKS5, "x", too_long, "a.test", 443 },
		{ PROXY_HTTP, too_long, "x", "a.test", 443 },   { PROXY_HTTP, "a:b", "c", "a.test", 443 },
		{ PROXY_HTTP, NULL, NULL, "", 443 },		   { PROXY_HTTP, NULL, NULL, "a b", 443 },
		{ PROXY_HTTP, NULL, NULL, "a\r\nX: y", 443 },   { PROXY_SOCKS5, NULL, NULL, "", 443 },
		{ PROXY_HTTP, NULL, NULL, "\xc3\xbc", 443 },	   { PROXY_NONE, NULL, NULL, "a.test", 443 },
		{ PROXY_SOCKS5, NULL, NULL, too_long, 443 },
	};

	(void)state;
	memset(longest, 'x', PROXY_LOGIN_MAX);
	memset(too_long, 'x', PROXY_LOGIN_MAX + 1);
	for (size_t i = 0; i < ARRAY_SIZE(fits); i++) {
		owned(buf_free) struct buf out = BUF_INIT(4096);
		struct proxy_dialog d;

		begin(&d, &fits[i], &out);
		assert_int_equal(d.state, PROXY_TALKING);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(buf_free) struct buf out = BUF_INIT(4096);
		struct proxy_dialog d;

		begin(&d, &rows[i], &out);
		assert_int_equal(d.state, PROXY_REFUSED);
		assert_true(d.why[0]);
		assert_int_equal(out.len, 0);
		assert_int_equal(hear(&d, "x", 1, &out), 0);
	}
}

/* --- dialogs ------------------------------------------------------------------------------------- */

/* cut: bytes of the first portion; 0: byte by byte. */
static size_t one_way(const struct proxy_ask *a, struct bytes in, size_t cut, struct proxy_dialog *d,
		      struct buf *said)
{
	size_t taken = 0;

	begin(d, a, said);
	buf_clear(said);
	while (taken < in.n) {
		size_t n = cut == 0 ? 1 : taken < cut ? cut - taken : in.n - taken;
		size_t got = hear(d, in.p + taken, n, said);

		taken += got;
		if (got < n)
			break;
	}
	return taken;
}

static void expect(const struct proxy_ask *a, struct bytes in, size_t taken, struct bytes say,
		   enum proxy_state state, const char *why)
{
	for (size_t cut = 0; cut <= in.n; cut++) {
		owned(buf_free) struct buf said = BUF_INIT(4096);
		struct proxy_dialog d;

		/* What is not taken is the server's. */
		assert_int_equal(one_way(a, in, cut, &d, &said), taken);
		if (d.state != state)
			fail_msg("state %d (%s): %s", (int)d.state, d.why, in.p);
		expect_bytes(&said, say);
		if (state != PROXY_REFUSED)
			continue;
		assert_non_null(strstr(d.why, why));
		assert_null(strstr(d.why, "s3cret"));
		assert_null(memmem(d.say, sizeof(d.say), "s3cret", 6));
	}
}

static const struct bytes nothing = { "", 0 };

static void http_opens(struct bytes in, size_t rest)
{
	expect(&http, in, in.n - rest, nothing, PROXY_OPEN, NULL);
}

static void a_tunnel_stands_with_any_2xx(void **state)
{
	(void)state;
	http_opens((struct bytes)BYTES("HTTP/1.1 200 Connection established\r\n\r\n"), 0);
	http_opens((struct bytes)BYTES("HTTP/1.0 200\r\n\r\n"), 0);
	http_opens((struct bytes)BYTES("HTTP/1.1 299 x\r\nVia: y\r\nContent-Length: 5\r\n\r\n"), 0);
	http_opens((struct bytes)BYTES("HTTP/1.1 200 x\r\n\r\n\r\n\r\nSSH-2.0"), 11);
	http_opens((struct bytes)BYTES("HTTP/1.1 103 x\r\nA: b\r\n\r\nHTTP/1.1 200 x\r\n\r\nZ"), 1);
}

static void http_refuses(const struct proxy_ask *a, const char *text, size_t taken, const char *why)
{
	expect(a, (struct bytes){ text, strlen(text) }, taken, nothing, PROXY_REFUSED, why);
}

static void any_other_status_is_told(void **state)
{
	(void)state;
	http_refuses(&http, "HTTP/1.1 403 s3cret\r\n\r\nbody", 23, "status 403");
	http_refuses(&http, "HTTP/1.1 502 x\r\nA: s3cret\r\n\r\n", 29, "status 502");
	http_refuses(&http, "HTTP/1.1 101 x\r\n\r\n", 18, "status 101");
	http_refuses(&http, "HTTP/1.1 302 x\r\n\r\n", 18, "status 302");
	http_refuses(&http, "HTTP/1.1 407 x\r\n\r\n", 18, "wants a user and password");
	http_refuses(&http_login, "HTTP/1.1 407 x\r\n\r\n", 18, "does not accept");
}

static void what_is_no_http_proxy_is_known_at_once(void **state)
{
	static const struct bytes nul = BYTES("HTTP/1.1 200 x\r\n\0\n");

	(void)state;
	http_refuses(&http, "SSH-2.0-x\r\n", 1, "not that of an HTTP proxy");
	http_refuses(&http, "\5", 1, "not that of an HTTP proxy");
	http_refuses(&http, "HTTP/2.0 200 x\r\n\r\n", 6, "not that of an HTTP proxy");
	http_refuses(&http, "HTTP/1.2 200 x\r\n\r\n", 8, "not that of an HTTP proxy");
	http_refuses(&http, "HTTP/1.1 20 x\r\n\r\n", 12, "not that of an HTTP proxy");
	http_refuses(&http, "HTTP/1.1 2000 x\r\n\r\n", 13, "not that of an HTTP proxy");
	http_refuses(&http, "HTTP/1.1 200 x\n\n", 15, "not that of an HTTP proxy");
	expect(&http, nul, nul.n, nothing, PROXY_REFUSED, "not that of an HTTP proxy");
}

static void an_answer_without_end_is_refused(void **state)
{
	owned(buf_free) struct buf b = BUF_INIT(8192), said = BUF_INIT(64);
	struct proxy_dialog d;

	(void)state;
	buf_str(&b, "HTTP/1.1 200 x\r\nX: ");
	while (b.len < sizeof(d.in) - 4)
		buf_char(&b, 'x');
	begin(&d, &http, &said);
	assert_int_equal(hear(&d, b.data, b.len, &said), b.len);
	assert_int_equal(d.state, PROXY_TALKING);
	assert_int_equal(hear(&d, "xxxxx", 5, &said), 4);
	assert_int_equal(d.state, PROXY_REFUSED);
	assert_non_null(strstr(d.why, "2 KiB"));
	said.len = 0;
	begin(&d, &http, &said);
	hear(&d, b.data, b.len, &said);
	assert_int_equal(hear(&d, "\r\n\r\n", 4, &said), 4); /* it just fits */
	assert_int_equal(d.state, PROXY_OPEN);
}

#define REQUEST "\5\1\0\3\6a.test\1\xbb"
#define LOGIN "\1\2me\6s3cret"
#define BOUND "\0\1\1\2\3\4\5\6" /* reserved, IPv4, address, port */

static void socks_opens(const struct proxy_ask *a, struct bytes in, size_t rest, struct bytes say)
{
	expect(a, in, in.n - rest, say, PROXY_OPEN, NULL);
}

static void a_socks_dialog_ends_with_the_bound_address(void **state)
{
	const struct proxy_ask v4 = { PROXY_SOCKS5, NULL, NULL, "192.0.2.1", 443 };
	const struct proxy_ask v6 = { PROXY_SOCKS5, NULL, NULL, "2001:db8::1", 443 };
	const struct bytes request = BYTES(REQUEST), both = BYTES(LOGIN REQUEST);
	const struct bytes to_v4 = BYTES("\5\1\0\1\xc0\0\2\1\1\xbb");
	const struct bytes to_v6 = BYTES("\5\1\0\4\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1\1\xbb");

	(void)state;
	socks_opens(&socks, (struct bytes)BYTES("\5\0\5\0" BOUND), 0, request);
	socks_opens(&socks, (struct bytes)BYTES("\5\0\5\0" BOUND "SSH"), 3, request);
	socks_opens(&socks_login, (struct bytes)BYTES("\5\0\5\0" BOUND), 0, request);
	socks_opens(&socks_login, (struct bytes)BYTES("\5\2\1\0\5\0" BOUND), 0, both);
	socks_opens(&socks_login, (struct bytes)BYTES("\5\2\5\0\5\0" BOUND), 0, both);
	socks_opens(&socks, (struct bytes)BYTES("\5\0\5\0\0\3\4name\5\6Z"), 1, request);
	socks_opens(&socks, (struct bytes)BYTES("\5\0\5\0\0\3\0\5\6Z"), 1, request);
	socks_opens(&socks, (struct bytes)BYTES("\5\0\5\0\0\4" "0123456789abcdef\5\6Z"), 1, request);
	socks_opens(&v4, (struct bytes)BYTES("\5\0\5\0" BOUND), 0, to_v4);
	socks_opens(&v6, (struct bytes)BYTES("\5\0\5\0" BOUND), 0, to_v6);
}

static void the_longest_login_and_name_go_out_whole(void **state)
{
	static char text[PROXY_LOGIN_MAX + 1], host[EGRESS_NAME_MAX + 1];
	const struct proxy_ask a = { PROXY_SOCKS5, text, text, host, 443 };
	owned(buf_free) struct buf said = BUF_INIT(4096);
	struct proxy_dialog d;

	(void)state;
	memset(text, 'x', PROXY_LOGIN_MAX);
	memset(host, 'y', EGRESS_NAME_MAX);
	begin(&d, &a, &said);
	hear(&d, "\5\2\1\0", 4, &said);
	assert_int_equal(said.len, 4 + (3 + 255 + 255) + (5 + 253 + 2));
	assert_memory_equal(said.data + 4 + 513, "\5\1\0\3\xfdyyyy", 9);
	assert_memory_equal(said.data + said.len - 3, "y\1\xbb", 3);
}

static void socks_refuses(const struct proxy_ask *a, struct bytes in, size_t taken, struct bytes say,
			  const char *why)
{
	expect(a, in, taken, say, PROXY_REFUSED, why);
}

static void refusals_of_a_socks_proxy_are_told(void **state)
{
	static const char *const why[] = {
		NULL, "failed", "rules", "no route", "cannot reach", "refused the proxy's", "expired",
		"TCP", "type of address", "unknown reason",
	};
	const struct bytes request = BYTES(REQUEST), login = BYTES(LOGIN);

	(void)state;
	socks_refuses(&socks, (struct bytes)BYTES("\5\xff"), 2, nothing, "wants a login");
	socks_refuses(&socks_login, (struct bytes)BYTES("\5\xff"), 2, nothing, "neither");
	socks_refuses(&socks_login, (struct bytes)BYTES("\5\2\1\1"), 4, login, "does not accept");
	for (size_t i = 1; i < ARRAY_SIZE(why); i++) {
		const char in[] = { 5, 0, 5, (char)i, 0 };

		socks_refuses(&socks, (struct bytes){ in, 5 }, 4, request, why[i]);
	}
}

static void what_is_no_socks_proxy_is_known_at_once(void **state)
{
	static const char no[] = "not that of a SOCKS5";
	const struct bytes request = BYTES(REQUEST), login = BYTES(LOGIN);

	(void)state;
	socks_refuses(&socks, (struct bytes)BYTES("HTTP/1.1"), 1, nothing, no);
	socks_refuses(&socks, (struct bytes)BYTES("\4\0"), 1, nothing, no);
	socks_refuses(&socks, (struct bytes)BYTES("\5\2"), 2, nothing, no); /* not offered */
	socks_refuses(&socks_login, (struct bytes)BYTES("\5\1"), 2, nothing, no);
	socks_refuses(&socks_login, (struct bytes)BYTES("\5\2\2\0"), 3, login, no);
	socks_refuses(&socks, (struct bytes)BYTES("\5\0\4\0"), 3, request, no);
	socks_refuses(&socks, (struct bytes)BYTES("\5\0\5\0\0\2"), 6, request, no);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_http_proxy_is_asked_for_a_tunnel),
		cmocka_unit_test(a_socks_proxy_is_offered_what_we_have),
		cmocka_unit_test(what_cannot_be_asked_is_refused_without_a_word),
		cmocka_unit_test(a_tunnel_stands_with_any_2xx),
		cmocka_unit_test(any_other_status_is_told),
		cmocka_unit_test(what_is_no_http_proxy_is_known_at_once),
		cmocka_unit_test(an_answer_without_end_is_refused),
		cmocka_unit_test(a_socks_dialog_ends_with_the_bound_address),
		cmocka_unit_test(the_longest_login_and_name_go_out_whole),
		cmocka_unit_test(refusals_of_a_socks_proxy_are_told),
		cmocka_unit_test(what_is_no_socks_proxy_is_known_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
