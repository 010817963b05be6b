/*
 * The first bytes of a TLS client. Besides not crashing: an answer stands whatever follows,
 * a full window is no "more", and a hello that is portioned into other records has the same
 * name. libFuzzer entry point; the seeds are in corpus/tls.
 */
#include "base/buf.h"
#include "runtime/egress/tls.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void same_hello(const struct tls_hello *a, const struct tls_hello *b)
{
	require(strcmp(a->name, b->name) == 0);
	require(a->has_sni == b->has_sni && a->has_ech == b->has_ech);
	require(a->has_sni || !a->name[0]);
}

/* The records of a hello that was accepted: its bytes as one message. */
static void message_of(struct buf *message, const uint8_t *p)
{
	size_t whole = 0;

	do {
		size_t n = (size_t)p[3] << 8 | p[4];
		const uint8_t *m;

		buf_add(message, p + 5, n);
		p += 5 + n;
		m = (const uint8_t *)message->data;
		if (message->len >= 4)
			whole = 4 + ((size_t)m[1] << 16 | (size_t)m[2] << 8 | m[3]);
	} while (!whole || message->len < whole);
	require(message->len == whole && !message->failed);
}

static void check_records(const struct tls_hello *hello, const uint8_t *data, size_t step)
{
	struct buf message = BUF_INIT(1 << 17), records = BUF_INIT(1 << 20);
	struct tls_hello again;
	enum tls_peek want;

	message_of(&message, data);
	for (size_t at = 0; at < message.len; at += step) {
		size_t n = step < message.len - at ? step : message.len - at;
		const char head[] = { 22, 3, 3, (char)(n >> 8), (char)n };

		buf_add(&records, head, sizeof(head));
		buf_add(&records, message.data + at, n);
	}
	want = records.len <= TLS_HELLO_MAX ? TLS_HELLO : TLS_BAD;
	require(tls_peek(&again, (const uint8_t *)records.data, records.len) == want);
	if (want == TLS_HELLO)
		same_hello(hello, &again);
	buf_free(&message);
	buf_free(&records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size > 40 ? 1u + data[40] * 4u : 1; /* of the random bytes */
	struct tls_hello whole, part;
	enum tls_peek r = tls_peek(&whole, data, size);

	require(r != TLS_MORE || size < TLS_HELLO_MAX);
	for (size_t n = 0; n < size; n += n < 64 ? 1 : step) {
		enum tls_peek early = tls_peek(&part, data, n);

		require(early == TLS_MORE || early == r);
		if (early == TLS_HELLO)
			same_hello(&whole, &part);
	}
	if (r == TLS_HELLO)
		check_records(&whole, data, step);
	return 0;
}
