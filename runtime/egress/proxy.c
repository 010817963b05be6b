/*
 * proxy.c - see proxy.h; RFC 9110 section 9.3.6, RFC 7617, RFC 1928, RFC 1929
 *
 * Runs in the supervisor. The proxy is the host's own, but what it says comes over a network:
 * its words are neither trusted nor repeated.
 *
 * Must:    act the same however the bytes are portioned; take no byte beyond the dialog.
 * Mustn't: put a user or password into `why`; keep them when the dialog is over.
 */
#include "runtime/egress/proxy.h"

#include "base/cleanup.h"
#include "base/utf8.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum step { HTTP_ANSWER, SOCKS_METHOD, SOCKS_LOGIN, SOCKS_REPLY };
enum {
	SOCKS5 = 5, SOCKS_CONNECT = 1, LOGIN_VERSION = 1,
	METHOD_NONE = 0, METHOD_LOGIN = 2, METHOD_NO_MATCH = 0xff,
	TYPE_V4 = 1, TYPE_NAME = 3, TYPE_V6 = 4,
};

static void refuse(struct proxy_dialog *d, const char *why)
{
	d->state = PROXY_REFUSED;
	snprintf(d->why, sizeof(d->why), "%s", why);
}

/* --- what we say --------------------------------------------------------------------------- */

/* Names and addresses: nothing that could end a line or a field of the request. */
static bool is_host(const char *host)
{
	size_t n = strlen(host);

	for (size_t i = 0; i < n; i++)
		if (host[i] <= ' ' || host[i] > '~')
			return false;
	return n > 0 && n <= EGRESS_NAME_MAX;
}

static const char *password_of(const struct proxy_ask *a)
{
	return a->password ? a->password : "";
}

static void ask_http(struct proxy_dialog *d, const struct proxy_ask *a, struct buf *out)
{
	char target[EGRESS_NAME_MAX + sizeof("[]:65535")];
	bool is_v6 = strchr(a->host, ':') != NULL;

	snprintf(target, sizeof(target), "%s%s%s:%u", is_v6 ? "[" : "", a->host,
		 is_v6 ? "]" : "", a->port);
	buf_fmt(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
	if (d->has_login) {
		struct buf login = BUF_INIT(2 * PROXY_LOGIN_MAX + 1);

		buf_fmt(&login, "%s:%s", a->user, password_of(a));
		buf_str(out, "Proxy-Authorization: Basic ");
		base64_add(out, buf_text(&login), login.len);
		buf_str(out, "\r\n");
		if (login.data)
			explicit_bzero(login.data, login.cap);
		buf_free(&login);
	}
	buf_str(out, "\r\n");
}

static void say_later(struct proxy_dialog *d, const void *p, size_t n)
{
	memcpy(d->say + d->say_len, p, n);
	d->say_len += n;
}

static void say_byte(struct proxy_dialog *d, size_t byte)
{
	d->say[d->say_len++] = (uint8_t)byte;
}

static void say_counted(struct proxy_dialog *d, const char *text)
{
	say_byte(d, strlen(text));
	say_later(d, text, strlen(text));
}

static void say_host(struct proxy_dialog *d, const char *host)
{
	uint8_t address[16];

	if (inet_pton(AF_INET, host, address) == 1) {
		say_byte(d, TYPE_V4);
		say_later(d, address, 4);
	} else if (inet_pton(AF_INET6, host, address) == 1) {
		say_byte(d, TYPE_V6);
		say_later(d, address, 16);
	} else {
		say_byte(d, TYPE_NAME);
		say_counted(d, host);
	}
}

static void ask_socks(struct proxy_dialog *d, const struct proxy_ask *a, struct buf *out)
{
	static const uint8_t without[] = { SOCKS5, 1, METHOD_NONE };
	static const uint8_t with[] = { SOCKS5, 2, METHOD_NONE, METHOD_LOGIN };
	static const uint8_t request[] = { SOCKS5, SOCKS_CONNECT, 0 };

	if (d->has_login) {
		buf_add(out, with, sizeof(with));
		say_byte(d, LOGIN_VERSION);
		say_counted(d, a->user);
		say_counted(d, password_of(a));
	} else {
		buf_add(out, without, sizeof(without));
	}
	d->login_len = d->say_len;
	say_later(d, request, sizeof(request));
	say_host(d, a->host);
	say_byte(d, a->port >> 8);
	say_byte(d, a->port & 0xff);
}

void proxy_begin(struct proxy_dialog *d, const struct proxy_ask *a, struct buf *out)
{
	*d = (struct proxy_dialog){ .state = PROXY_TALKING, .has_login = a->user && *a->user };
	if (d->has_login && (strlen(a->user) > PROXY_LOGIN_MAX ||
			     strlen(password_of(a)) > PROXY_LOGIN_MAX))
		return refuse(d, "the user or password for the proxy is longer than 255 bytes");
	/* RFC 7617: the first colon ends the user. */
	if (d->has_login && a->kind == PROXY_HTTP && strchr(a->user, ':'))
		return refuse(d, "the user for the HTTP proxy has a colon");
	if (!is_host(a->host))
		return refuse(d, "a host that no proxy could be asked for");
	if (a->kind == PROXY_HTTP) {
		d->step = HTTP_ANSWER;
		ask_http(d, a, out);
	} else if (a->kind == PROXY_SOCKS5) {
		d->step = SOCKS_METHOD;
		ask_socks(d, a, out);
	} else {
		refuse(d, "a proxy of an unknown kind");
	}
}

/* --- an HTTP proxy's answer -------------------------------------------------------------------- */

/* Byte by byte against the only beginning that an answer can have: what is no HTTP server
 * need not send 2 KiB before we see it. */
static bool is_status_line(const uint8_t *in, size_t len)
{
	static const char pattern[] = "HTTP/1.v ddd";

	for (size_t i = 0; i < len && pattern[i]; i++) {
		uint8_t c = in[i];
		bool fits = pattern[i] == 'v' ? c == '0' || c == '1' :
			    pattern[i] == 'd' ? c >= '0' && c <= '9' : c == (uint8_t)pattern[i];

		if (!fits)
			return false;
	}
	return len <= 12 || in[12] == ' ' || in[12] == '\r';
}

static void end_answer(struct proxy_dialog *d)
{
	int status = (d->in[9] - '0') * 100 + (d->in[10] - '0') * 10 + d->in[11] - '0';

	if (status >= 200 && status <= 299) {
		d->state = PROXY_OPEN;
	} else if (status >= 100 && status <= 199 && status != 101) {
		d->in_len = 0; /* an interim answer: the real one follows */
	} else if (status == 407) {
		refuse(d, d->has_login ? "the proxy does not accept the user and password (407)"
				       : "the proxy wants a user and password (407)");
	} else {
		d->state = PROXY_REFUSED;
		snprintf(d->why, sizeof(d->why), "the proxy answered with status %d", status);
	}
}

static void hear_http(struct proxy_dialog *d)
{
	const uint8_t *end = d->in + d->in_len;

	if (!is_status_line(d->in, d->in_len) || (end[-1] == '\n' && end[-2] != '\r'))
		refuse(d, "the proxy's answer is not that of an HTTP proxy");
	else if (d->in_len >= 16 && memcmp(end - 4, "\r\n\r\n", 4) == 0)
		end_answer(d);
}

/* --- SOCKS5 --------------------------------------------------------------------------------------- */

static void no_socks(struct proxy_dialog *d)
{
	refuse(d, "the proxy's answer is not that of a SOCKS5 proxy");
}

static void say(struct proxy_dialog *d, enum step next, struct buf *out)
{
	bool is_login = next == SOCKS_LOGIN;

	buf_add(out, d->say + (is_login ? 0 : d->login_len),
		is_login ? d->login_len : d->say_len - d->login_len);
	d->step = (int)next;
	d->in_len = 0;
}

static void hear_method(struct proxy_dialog *d, struct buf *out)
{
	if (d->in[0] != SOCKS5)
		return no_socks(d);
	if (d->in_len < 2)
		return;
	if (d->in[1] == METHOD_NONE)
		say(d, SOCKS_REPLY, out);
	else if (d->in[1] == METHOD_LOGIN && d->has_login)
		say(d, SOCKS_LOGIN, out);
	else if (d->in[1] == METHOD_NO_MATCH)
		refuse(d, d->has_login ? "the proxy accepts neither no login nor user and password"
				       : "the proxy wants a login, such as a user and password");
	else
		no_socks(d);
}

/* RFC 1929 gives this answer the login's version, 1; some servers say 5. */
static void hear_login(struct proxy_dialog *d, struct buf *out)
{
	if (d->in[0] != LOGIN_VERSION && d->in[0] != SOCKS5)
		return no_socks(d);
	if (d->in_len < 2)
		return;
	if (d->in[1] == 0)
		say(d, SOCKS_REPLY, out);
	else
		refuse(d, "the proxy does not accept the user and password");
}

static const char *const replies[] = {
	[1] = "the proxy failed", [2] = "the proxy's rules do not allow the connection",
	[3] = "the proxy has no route to the network", [4] = "the proxy cannot reach the host",
	[5] = "the host refused the proxy's connection",
	[6] = "the proxy's connection expired on its way",
	[7] = "the proxy does not make TCP connections",
	[8] = "the proxy does not know this type of address",
};

static void hear_reply(struct proxy_dialog *d)
{
	static const uint8_t of_type[] = { [TYPE_V4] = 4, [TYPE_V6] = 16 };
	uint8_t code = d->in[1], type = d->in[3];
	size_t address;

	if (d->in[0] != SOCKS5)
		return no_socks(d);
	if (d->in_len >= 2 && code)
		return refuse(d, code < ARRAY_SIZE(replies) ? replies[code]
							    : "the proxy refused for an unknown reason");
	if (d->in_len >= 4 && type != TYPE_V4 && type != TYPE_V6 && type != TYPE_NAME)
		return no_socks(d);
	if (d->in_len < 5)
		return;
	/* The address that the proxy connects from: of no use to us, but to be taken. */
	address = type == TYPE_NAME ? 1u + d->in[4] : of_type[type];
	if (d->in_len == 4 + address + 2)
		d->state = PROXY_OPEN;
}

/* --- both --------------------------------------------------------------------------------------------- */

size_t proxy_hear(struct proxy_dialog *d, const uint8_t *data, size_t len, struct buf *out)
{
	size_t taken = 0;

	while (taken < len && d->state == PROXY_TALKING) {
		if (d->in_len == sizeof(d->in)) {
			refuse(d, "the proxy's answer is longer than 2 KiB");
			break;
		}
		d->in[d->in_len++] = data[taken++];
		switch ((enum step)d->step) {
		case HTTP_ANSWER:
			hear_http(d);
			break;
		case SOCKS_METHOD:
			hear_method(d, out);
			break;
		case SOCKS_LOGIN:
			hear_login(d, out);
			break;
		case SOCKS_REPLY:
			hear_reply(d);
			break;
		}
	}
	if (d->state != PROXY_TALKING)
		explicit_bzero(d->say, sizeof(d->say));
	return taken;
}
