/*
 * http_head.c - see http_head.h; RFC 9112 sections 3, 5, 6, RFC 3986 section 3.2
 *
 * Runs in the supervisor, on bytes that the box chose.
 *
 * Must:    refuse whatever two servers could read differently: one Host, one length.
 * Mustn't: look outside of the head; change it.
 */
#include "runtime/egress/http_head.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

struct span {
	const char *p;
	size_t len;
};

enum { LENGTH_DIGITS_MAX = 19, PORT_DIGITS_MAX = 5, HTTP_PORT = 80 };

bool http_is_token(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct span s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!http_is_token((uint8_t)s.p[i]))
			return false;
	return s.len > 0;
}

static bool is_word(struct span s, const char *word)
{
	return s.len == strlen(word) && strncasecmp(s.p, word, s.len) == 0;
}

/* Up to the byte, which is dropped. false: it is not there, nothing was taken. */
static bool cut(struct span *from, char at, struct span *piece)
{
	const char *end = memchr(from->p, at, from->len);

	if (!end)
		return false;
	*piece = (struct span){ from->p, (size_t)(end - from->p) };
	from->p += piece->len + 1;
	from->len -= piece->len + 1;
	return true;
}

/* CR LF was checked when the bytes came. */
static bool next_line(struct span *from, struct span *line)
{
	if (!cut(from, '\r', line))
		return false;
	from->p++;
	from->len--;
	return true;
}

/* --- who ------------------------------------------------------------------------------------- */

/* Digits alone, no sign, no leading zero, which strtol(3) with base 0 takes for octal. */
static bool read_number(struct span s, size_t max_digits, uint64_t max, uint64_t *out)
{
	char text[LENGTH_DIGITS_MAX + 1];

	if (!s.len || s.len > max_digits || (s.p[0] == '0' && s.len > 1))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	return num_uint(text, 0, max, out) == 0;
}

/* 192.0.2.1 and [2001:db8::1], in the one form of inet_ntop(3). */
static bool read_address(struct span s, char name[EGRESS_NAME_MAX + 1])
{
	bool is_v6 = s.len > 2 && s.p[0] == '[' && s.p[s.len - 1] == ']';
	char text[INET6_ADDRSTRLEN];
	uint8_t bytes[16];
	int family = is_v6 ? AF_INET6 : AF_INET;

	if (is_v6)
		s = (struct span){ s.p + 1, s.len - 2 };
	if (s.len >= sizeof(text) || memchr(s.p, '\0', s.len))
		return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	return inet_pton(family, text, bytes) == 1 &&
	       inet_ntop(family, bytes, name, EGRESS_NAME_MAX + 1);
}

/* host[:port]. Who is before an "@" is no part of it, and no parser may think otherwise:
 * neither form of a host can have one. */
static bool read_authority(struct span s, struct http_host *out)
{
	size_t colon = s.len;
	uint64_t port = 0;

	while (colon && s.p[colon - 1] >= '0' && s.p[colon - 1] <= '9')
		colon--;
	if (colon && s.p[colon - 1] == ':') {
		struct span digits = { s.p + colon, s.len - colon };

		if (!read_number(digits, PORT_DIGITS_MAX, UINT16_MAX, &port) || port == 0)
			return false;
		s.len = colon - 1;
	}
	out->port = (uint16_t)port;
	out->is_there = true;
	return egress_name_canonical(out->name, s.p, s.len) || read_address(s, out->name);
}

static uint16_t port_of(const struct http_host *who)
{
	return who->port ? who->port : HTTP_PORT;
}

int http_judge_host(struct http *h, const struct http_facts *f, const struct http_rule *rule)
{
	const struct http_host *who = f->host.is_there ? &f->host : &f->target;

	if (f->host.is_there && f->target.is_there &&
	    (port_of(&f->host) != port_of(&f->target) || strcmp(f->host.name, f->target.name) != 0))
		return http_refuse(h, "an HTTP request whose URI and Host header differ");
	if (!f->host.is_there && !f->is_http_1_0)
		return http_refuse(h, "an HTTP/1.1 request without a Host header");
	memcpy(h->host, who->name, sizeof(h->host));
	h->port = who->port;
	if (rule->may(rule->arg, who->is_there ? who->name : NULL, h->port))
		return 0;
	return http_refuse(h, who->is_there ? "an HTTP request for another host"
					    : "an HTTP request that names no host");
}

/* --- the request line --------------------------------------------------------------------------- */

static int read_uri(struct http *h, struct http_facts *f, struct span uri)
{
	static const char scheme[] = "http://";
	size_t n = 0, skip = sizeof(scheme) - 1;

	if (uri.len < skip || strncasecmp(uri.p, scheme, skip) != 0)
		return http_refuse(h, "an HTTP request whose target is neither a path nor http://");
	uri.p += skip;
	uri.len -= skip;
	while (n < uri.len && uri.p[n] != '/' && uri.p[n] != '?')
		n++;
	if (!read_authority((struct span){ uri.p, n }, &f->target))
		return http_refuse(h, "an HTTP request whose URI has a malformed host");
	return 0;
}

static int read_target(struct http *h, struct http_facts *f, struct span method,
		       struct span target)
{
	for (size_t i = 0; i < target.len; i++)
		if (target.p[i] == '\t' || target.p[i] == '#')
			return http_refuse(h, "a malformed target of an HTTP request");
	/* A tunnel to a host of the client's choice. */
	if (is_word(method, "CONNECT"))
		return http_refuse(h, "HTTP CONNECT");
	if (target.len && target.p[0] == '/')
		return 0;
	if (is_word(target, "*") && is_word(method, "OPTIONS"))
		return 0;
	return read_uri(h, f, target);
}

static int read_request_line(struct http *h, struct http_facts *f, struct span line)
{
	struct span method, target;

	if (!cut(&line, ' ', &method) || !is_token(method) || !cut(&line, ' ', &target))
		return http_refuse(h, "what was sent is no HTTP request");
	f->is_http_1_0 = line.len == 8 && memcmp(line.p, "HTTP/1.0", 8) == 0;
	if (!f->is_http_1_0 && (line.len != 8 || memcmp(line.p, "HTTP/1.1", 8) != 0))
		return http_refuse(h, "a request of an HTTP version other than 1.0 and 1.1");
	return read_target(h, f, method, target);
}

/* --- the fields ---------------------------------------------------------------------------------- */

static int on_host(struct http *h, struct http_facts *f, struct span value)
{
	if (f->host.is_there)
		return http_refuse(h, "an HTTP request with two Host headers");
	if (!read_authority(value, &f->host))
		return http_refuse(h, "an HTTP request with a malformed Host header");
	return 0;
}

static int on_length(struct http *h, struct http_facts *f, struct span value)
{
	if (f->has_length || !read_number(value, LENGTH_DIGITS_MAX, INT64_MAX, &f->length))
		return http_refuse(h, "an HTTP request with two lengths or a malformed one");
	f->has_length = true;
	return 0;
}

static int on_coding(struct http *h, struct http_facts *f, struct span value)
{
	if (f->has_coding || !is_word(value, "chunked"))
		return http_refuse(h, "an HTTP request with a transfer coding other than chunked");
	f->has_coding = f->is_chunked = true;
	return 0;
}

static int on_upgrade(struct http *h, struct http_facts *f, struct span value)
{
	(void)h, (void)value;
	f->wants_upgrade = true;
	return 0;
}

static const struct field {
	const char *name;
	int (*read)(struct http *h, struct http_facts *f, struct span value);
} fields[] = {
	{ "host", on_host },
	{ "content-length", on_length },
	{ "transfer-encoding", on_coding },
	{ "upgrade", on_upgrade },
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct span trimmed(struct span s)
{
	while (s.len && is_blank(s.p[0]))
		s = (struct span){ s.p + 1, s.len - 1 };
	while (s.len && is_blank(s.p[s.len - 1]))
		s.len--;
	return s;
}

/* A name with a space before its colon, and a line that begins with one (obs-fold), are no
 * token. @f NULL: a trailer. */
static int read_field(struct http *h, struct http_facts *f, struct span line)
{
	struct span name;

	if (!cut(&line, ':', &name) || !is_token(name))
		return http_refuse(h, "a malformed header line in HTTP");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!is_word(name, fields[i].name))
			continue;
		if (!f)
			return http_refuse(h, "a trailer of HTTP that belongs into the head");
		return fields[i].read(h, f, trimmed(line));
	}
	return 0;
}

static int read_fields(struct http *h, struct http_facts *f, struct span rest)
{
	struct span line;

	while (next_line(&rest, &line) && line.len)
		if (read_field(h, f, line) < 0)
			return HTTP_STOP;
	return 0;
}

int http_read_trailers(struct http *h)
{
	return read_fields(h, NULL, (struct span){ (const char *)h->head, h->head_len });
}

/* What is held begins with a whole line: that, and the rest. */
static int read_first_line(struct http *h, struct http_facts *f, struct span *rest)
{
	struct span line;

	*f = (struct http_facts){ .is_chunked = false };
	*rest = (struct span){ (const char *)h->head, h->head_len };
	return next_line(rest, &line) ? read_request_line(h, f, line) : HTTP_STOP;
}

int http_check_request_line(struct http *h)
{
	struct http_facts f;
	struct span rest;

	return read_first_line(h, &f, &rest);
}

int http_read_head(struct http *h, struct http_facts *f)
{
	struct span rest;

	if (read_first_line(h, f, &rest) < 0 || read_fields(h, f, rest) < 0)
		return HTTP_STOP;
	if (f->has_coding && f->has_length)
		return http_refuse(h, "an HTTP request with both a length and a transfer coding");
	if (f->has_coding && f->is_http_1_0)
		return http_refuse(h, "an HTTP/1.0 request with a transfer coding");
	return 0;
}
