/*
 * What a proxy may answer. However it is portioned the dialog goes the same way, ends within
 * its bounds, and tells no secret. libFuzzer entry point; the seeds are in corpus/proxy.
 *
 * Input: a byte of options (SOCKS5, with a login, portions), then the answers.
 */
#include "base/buf.h"
#include "runtime/egress/proxy.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IS_SOCKS = 1, HAS_LOGIN = 2, PORTIONS = 2 /* shift */ };
#define SECRET "S3cr3t"

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static size_t talk(struct proxy_dialog *d, struct buf *said, const uint8_t *data, size_t size,
		   size_t step)
{
	struct proxy_ask a = { .kind = data[0] & IS_SOCKS ? PROXY_SOCKS5 : PROXY_HTTP,
			       .host = "a.test", .port = 443 };
	size_t taken = 0;

	if (data[0] & HAS_LOGIN) {
		a.user = "user";
		a.password = SECRET;
	}
	proxy_begin(d, &a, said);
	require(d->state == PROXY_TALKING && said->len);
	data++, size--;
	while (taken < size) {
		size_t n = step < size - taken ? step : size - taken;
		size_t got = proxy_hear(d, data + taken, n, said);

		require(got <= n && (got == n || d->state != PROXY_TALKING));
		taken += got;
		if (d->state != PROXY_TALKING)
			break;
	}
	return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf said = BUF_INIT(4096), parts_said = BUF_INIT(4096);
	struct proxy_dialog d, parts;
	size_t taken;

	if (!size)
		return 0;
	taken = talk(&d, &said, data, size, size);
	require(talk(&parts, &parts_said, data, size, 1 + (data[0] >> PORTIONS)) == taken);
	require(d.state == parts.state && !said.failed);
	require(said.len == parts_said.len && memcmp(said.data, parts_said.data, said.len) == 0);
	if (d.state == PROXY_REFUSED) {
		require(d.why[0] && strcmp(d.why, parts.why) == 0);
		require(!strstr(d.why, SECRET));
	}
	if (d.state != PROXY_TALKING) {
		require(!memmem(d.say, sizeof(d.say), SECRET, sizeof(SECRET) - 1));
		require(proxy_hear(&d, data, size, &said) == 0);
	}
	buf_free(&said);
	buf_free(&parts_said);
	return 0;
}
