/*
 * The client's side of an HTTP/1 connection. Whatever comes: the result is the same however
 * it is portioned, what goes out is a beginning of what came in, nothing passes before the
 * rule was asked, and nothing after a refusal. libFuzzer entry point; seeds: corpus/http.
 *
 * Input: a byte for the portions, two for the length of what the server says at the first
 * wait, that, then what the client says.
 */
#include "base/buf.h"
#include "runtime/egress/http.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

struct bytes {
	const uint8_t *p;
	size_t n;
};
struct run {
	struct http h;
	struct buf out;
	size_t taken;
	unsigned asked, refused;
};

static bool may(void *arg, const char *host, uint16_t port)
{
	struct run *r = arg;
	char again[EGRESS_NAME_MAX + 1];

	r->asked++;
	require(!r->refused);
	(void)port;
	if (!host)
		return true;
	if (!strchr(host, ':') && egress_name_canonical(again, host, strlen(host)))
		require(strcmp(again, host) == 0);
	if (host[0] == 'a')
		return true;
	r->refused++;
	return false;
}

static size_t portion(unsigned *state, size_t left)
{
	size_t n;

	if (!*state) /* all at once */
		return left;
	*state = *state * 1103515245u + 12345u;
	n = 1 + (*state >> 16) % 7;
	*state |= 1;
	return n < left ? n : left;
}

/* Until it stops taking. */
static void client(struct run *r, struct bytes in, unsigned *state)
{
	const struct http_rule rule = { may, r };

	while (r->taken < in.n) {
		size_t n = portion(state, in.n - r->taken);
		long taken = http_client(&r->h, &rule, in.p + r->taken, n, &r->out);

		require(taken >= 0 && (size_t)taken <= n);
		r->taken += (size_t)taken;
		if ((size_t)taken < n) {
			require(r->h.state == HTTP_WAIT || r->h.state == HTTP_REFUSED);
			break;
		}
	}
}

static void server(struct run *r, struct bytes in, unsigned *state)
{
	for (size_t at = 0; at < in.n;) {
		size_t n = portion(state, in.n - at);

		http_server(&r->h, in.p + at, n);
		at += n;
	}
}

static void run(struct run *r, struct bytes from_client, struct bytes from_server, unsigned state)
{
	*r = (struct run){ .out = BUF_INIT(1 << 20) };
	http_init(&r->h);
	client(r, from_client, &state);
	if (r->h.state == HTTP_WAIT)
		server(r, from_server, &state);
	client(r, from_client, &state);
	require(r->out.len <= r->taken && !r->out.failed);
	require(memcmp(buf_text(&r->out), from_client.p, r->out.len) == 0);
	require(r->asked || !r->out.len);
	require(!r->refused || r->h.state == HTTP_REFUSED);
	require((r->h.state == HTTP_REFUSED) == (r->h.why != NULL));
}

static void end(struct run *r)
{
	http_free(&r->h);
	buf_free(&r->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes from_server, from_client;
	struct run whole, parts;

	if (size < 3)
		return 0;
	from_server = (struct bytes){ data + 3, (size_t)data[1] << 8 | data[2] };
	if (from_server.n > size - 3)
		from_server.n = size - 3;
	from_client = (struct bytes){ data + 3 + from_server.n, size - 3 - from_server.n };
	run(&whole, from_client, from_server, 0);
	run(&parts, from_client, from_server, data[0] + 1u);
	require(whole.h.state == parts.h.state && whole.h.why == parts.h.why);
	require(whole.taken == parts.taken && whole.asked == parts.asked);
	require(whole.out.len == parts.out.len);
	require(strcmp(whole.h.host, parts.h.host) == 0 && whole.h.port == parts.h.port);
	end(&whole);
	end(&parts);
	return 0;
}
