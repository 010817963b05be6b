/*
 * Packets as a payload could make its kernel send them: read as the gate reads them, and
 * every answer made from what was read. libFuzzer entry point; the seeds are in
 * corpus/packet.
 *
 * Besides not crashing (the sanitizers watch) these must hold for any bytes: what is read as
 * a SYN is one, once made again it is read as the same, nothing is read beyond the length,
 * nothing is written beyond a buffer, and every packet's own lengths and checksum hold.
 */
#include "runtime/egress/packet.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static uint32_t add_up(uint32_t total, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		total += i % 2 ? p[i] : (uint32_t)p[i] << 8;
		total = (total & 0xffff) + (total >> 16);
	}
	return total;
}

static void check_sound(const uint8_t *p, size_t len)
{
	bool is_v4 = p[0] == 0x45;
	size_t head = is_v4 ? 20 : 40, rest = len - head;
	uint8_t proto = is_v4 ? p[9] : p[6];
	const uint8_t end[4] = { 0, proto, (uint8_t)(rest >> 8), (uint8_t)rest };
	uint32_t total = 0;

	require(len > head && (is_v4 || p[0] == 0x60));
	require((size_t)(is_v4 ? p[2] << 8 | p[3] : (p[4] << 8 | p[5]) + 40) == len);
	require(!is_v4 || add_up(0, p, 20) == 0xffff);
	if (proto != IPPROTO_ICMP)
		total = add_up(add_up(0, is_v4 ? p + 12 : p + 8, is_v4 ? 8 : 32), end, 4);
	require(add_up(total, p + head, rest) == 0xffff);
}

/* Into a block of exactly its size: a sanitizer sees a byte too many. */
static uint8_t *exact(size_t len)
{
	uint8_t *p = malloc(len ? len : 1);

	require(p != NULL);
	return p;
}

static void check_again(const struct syn *s)
{
	size_t len = (s->flow.src.family == 4 ? 20u : 40u) + s->tcp_len;
	uint8_t *p = exact(len);
	struct syn again;

	require(packet_syn(p, len - 1, s) == 0);
	require(packet_syn(p, len, s) == len);
	check_sound(p, len);
	require(packet_read_syn(&again, p, len));
	require(flow_equal(&again.flow, &s->flow) && again.seq == s->seq);
	require(flow_hash(&again.flow) == flow_hash(&s->flow));
	require(again.tcp_len == s->tcp_len && memcmp(again.tcp, s->tcp, 16) == 0);
	require(memcmp(again.tcp + 18, s->tcp + 18, s->tcp_len - 18u) == 0);
	free(p);
}

static void check_refusals(const struct syn *s)
{
	uint8_t p[1024];
	struct syn none;
	size_t len = packet_rst(p, sizeof(p), s);

	require(len != 0);
	check_sound(p, len);
	require(!packet_read_syn(&none, p, len));
	for (int code = UNREACH_HOST; code <= UNREACH_PROHIBITED; code++) {
		len = packet_unreach_tcp(p, sizeof(p), s, (enum unreach)code);
		require(len != 0);
		check_sound(p, len);
		require(!packet_read_syn(&none, p, len));
	}
}

static void check_answer(const struct flow *f, const uint8_t *data, size_t size)
{
	size_t len = (f->src.family == 4 ? 28u : 48u) + size;
	uint8_t *p = exact(len);
	size_t n = packet_udp(p, len, f, data, size);

	require(n == len || size > 65507);
	if (n)
		check_sound(p, n);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct syn s;

	if (!packet_read_syn(&s, data, size))
		return 0;
	require(s.flow.src.family == data[0] >> 4 && s.flow.dst.family == s.flow.src.family);
	require(s.tcp_len >= 20 && s.tcp_len <= 60 && (s.tcp[13] & 0x17) == 2);
	check_again(&s);
	check_refusals(&s);
	check_answer(&s.flow, data, size);
	return 0;
}
