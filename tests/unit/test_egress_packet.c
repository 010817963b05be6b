/*
 * test_egress_packet.c - packets of a box's loopback: what is a SYN, and every byte of what
 * is sent back
 *
 * The bytes below come from another program, written in another language from the RFCs;
 * checksums are added up once more here, in another way.
 */
#include "base/cleanup.h"
#include "runtime/egress/packet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t syn4[] = {
	0x45, 0x00, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0xae, 0x90,
	0xc6, 0x13, 0xff, 0xfe, 0xc6, 0x12, 0x00, 0x07, 0x9c, 0x40, 0x01, 0xbb,
	0xff, 0xff, 0xff, 0xfe, 0x00, 0x00, 0x00, 0x00, 0xa0, 0xc2, 0xfa, 0xf0,
	0x1e, 0x23, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a,
	0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07,
};
static const uint8_t rst4[] = {
	0x45, 0x00, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0xae, 0xa4,
	0xc6, 0x12, 0x00, 0x07, 0xc6, 0x13, 0xff, 0xfe, 0x01, 0xbb, 0x9c, 0x40,
	0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x50, 0x14, 0x00, 0x00,
	0x85, 0xa9, 0x00, 0x00,
};
static const uint8_t udp4[] = {
	0x45, 0x00, 0x00, 0x23, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xae, 0x9e,
	0xc6, 0x12, 0x00, 0x07, 0xc6, 0x13, 0xff, 0xfe, 0x01, 0xbb, 0x9c, 0x40,
	0x00, 0x0f, 0x7a, 0x50, 0x61, 0x6e, 0x73, 0x77, 0x65, 0x72, 0x21,
};
static const uint8_t unreach4[] = {
	0x45, 0x00, 0x00, 0x38, 0x00, 0x00, 0x40, 0x00, 0x40, 0x01, 0xae, 0x99,
	0xc6, 0x12, 0x00, 0x07, 0xc6, 0x13, 0xff, 0xfe, 0x03, 0x03, 0x5e, 0xf9,
	0x00, 0x00, 0x00, 0x00, 0x45, 0x00, 0x00, 0x1c, 0x00, 0x00, 0x40, 0x00,
	0x40, 0x11, 0xae, 0xa5, 0xc6, 0x13, 0xff, 0xfe, 0xc6, 0x12, 0x00, 0x07,
	0x9c, 0x40, 0x01, 0xbb, 0x00, 0x08, 0x00, 0x00,
};
static const uint8_t syn6[] = {
	0x60, 0x00, 0x00, 0x00, 0x00, 0x28, 0x06, 0x40, 0x20, 0x01, 0x00, 0x02,
	0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x20, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x07, 0x9c, 0x40, 0x01, 0xbb, 0xff, 0xff, 0xff, 0xfe,
	0x00, 0x00, 0x00, 0x00, 0xa0, 0xc2, 0xfa, 0xf0, 0x6a, 0x41, 0x00, 0x00,
	0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0x01, 0x02, 0x03, 0x04,
	0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07,
};
static const uint8_t rst6[] = {
	0x60, 0x00, 0x00, 0x00, 0x00, 0x14, 0x06, 0x40, 0x20, 0x01, 0x00, 0x02,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
	0x20, 0x01, 0x00, 0x02, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x01, 0x01, 0xbb, 0x9c, 0x40, 0x00, 0x00, 0x00, 0x00,
	0xff, 0xff, 0xff, 0xff, 0x50, 0x14, 0x00, 0x00, 0xd1, 0xc7, 0x00, 0x00,
};
static const uint8_t udp6[] = {
	0x60, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x11, 0x40, 0x20, 0x01, 0x00, 0x02,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
	0x20, 0x01, 0x00, 0x02, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x01, 0x01, 0xbb, 0x9c, 0x40, 0x00, 0x0f, 0xc6, 0x6e,
	0x61, 0x6e, 0x73, 0x77, 0x65, 0x72, 0x21,
};
static const uint8_t unreach6[] = {
	0x60, 0x00, 0x00, 0x00, 0x00, 0x38, 0x3a, 0x40, 0x20, 0x01, 0x00, 0x02,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
	0x20, 0x01, 0x00, 0x02, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x01, 0x01, 0x04, 0x6f, 0x21, 0x00, 0x00, 0x00, 0x00,
	0x60, 0x00, 0x00, 0x00, 0x00, 0x08, 0x11, 0x40, 0x20, 0x01, 0x00, 0x02,
	0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x20, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x07, 0x9c, 0x40, 0x01, 0xbb, 0x00, 0x08, 0x00, 0x00,
};

enum { SYN_BIT = 0x02, FLAGS_THAT_MATTER = 0x17, OPTIONS = 20 };

static struct egress_addr addr(const char *text)
{
	struct egress_addr a = { .family = strchr(text, ':') ? 6 : 4 };

	assert_int_equal(inet_pton(a.family == 6 ? AF_INET6 : AF_INET, text, a.bytes), 1);
	return a;
}

static struct flow flow4(void)
{
	return (struct flow){ addr("198.19.255.254"), addr("198.18.0.7"), 40000, 443 };
}

static struct flow flow6(void)
{
	return (struct flow){ addr("2001:2:0:ffff::1"), addr("2001:2::7"), 40000, 443 };
}

/* In a block of exactly that size, so that a sanitizer sees the first byte beyond. */
static bool reads(struct syn *out, const uint8_t *p, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);
	bool is_syn;

	assert_non_null(exact);
	memcpy(exact, p, len);
	is_syn = packet_read_syn(out, exact, len);
	free(exact);
	return is_syn;
}

/* Ones' complement, byte after byte, with the carry brought round at each step. */
static uint16_t add_up(uint16_t before, const uint8_t *p, size_t len)
{
	uint32_t total = before;

	for (size_t i = 0; i < len; i++) {
		total += i % 2 ? p[i] : (uint32_t)p[i] << 8;
		if (total > 0xffff)
			total = total - 0x10000 + 1;
	}
	return (uint16_t)total;
}

/* Do all checksums of a packet hold, and do its lengths agree with its size? */
static bool is_sound(const uint8_t *p, size_t len)
{
	bool is_v4 = p[0] == 0x45;
	size_t head = is_v4 ? 20 : 40;
	uint8_t proto = is_v4 ? p[9] : p[6];
	const uint8_t end[4] = { 0, proto, (uint8_t)((len - head) >> 8), (uint8_t)(len - head) };
	size_t said = is_v4 ? (size_t)(p[2] << 8 | p[3]) : head + (size_t)(p[4] << 8 | p[5]);
	uint16_t total = 0;

	if (said != len || (!is_v4 && p[0] != 0x60) || (is_v4 && add_up(0, p, 20) != 0xffff))
		return false;
	if (proto != IPPROTO_ICMP)
		total = add_up(add_up(0, is_v4 ? p + 12 : p + 8, is_v4 ? 8 : 32), end, 4);
	return add_up(total, p + head, len - head) == 0xffff;
}

/* --- reading --------------------------------------------------------------------------- */

static void a_syn_is_read_by_both_families(void **state)
{
	struct flow want4 = flow4(), want6 = flow6();
	struct syn s;

	(void)state;
	assert_true(reads(&s, syn4, sizeof(syn4)));
	assert_true(flow_equal(&s.flow, &want4));
	assert_int_equal(s.seq, 0xfffffffe);
	assert_int_equal(s.tcp_len, 20 + OPTIONS);
	assert_memory_equal(s.tcp, syn4 + 20, s.tcp_len);
	assert_true(reads(&s, syn6, sizeof(syn6)));
	assert_true(flow_equal(&s.flow, &want6));
	assert_int_equal(s.seq, 0xfffffffe);
	assert_memory_equal(s.tcp, syn6 + 40, s.tcp_len);
}

static void a_checksum_that_is_not_there_yet_does_not_matter(void **state)
{
	uint8_t p[sizeof(syn4)];
	struct syn s;

	(void)state;
	memcpy(p, syn4, sizeof(p));
	p[20 + 16] ^= 0x55;
	p[11] ^= 0x55;
	assert_true(reads(&s, p, sizeof(p)));
}

/* A packet with that many words of IP options. */
static size_t with_ip_options(uint8_t *to, unsigned words)
{
	size_t len = sizeof(syn4) + words * 4;

	memcpy(to, syn4, 20);
	memset(to + 20, 1, words * 4);
	memcpy(to + 20 + words * 4, syn4 + 20, sizeof(syn4) - 20);
	to[0] = (uint8_t)(0x45 + words);
	to[3] = (uint8_t)len;
	return len;
}

static void ip_options_are_skipped_and_never_come_back(void **state)
{
	uint8_t p[sizeof(syn4) + 40], out[256];
	struct syn s;

	(void)state;
	for (unsigned words = 0; words <= 10; words++) {
		assert_true(reads(&s, p, with_ip_options(p, words)));
		assert_int_equal(packet_syn(out, sizeof(out), &s), sizeof(syn4));
		assert_memory_equal(out, syn4, sizeof(syn4));
	}
}

static void only_a_plain_syn_is_one(void **state)
{
	uint8_t p4[sizeof(syn4)], p6[sizeof(syn6)];
	struct syn s;

	(void)state;
	memcpy(p4, syn4, sizeof(p4));
	memcpy(p6, syn6, sizeof(p6));
	for (unsigned flags = 0; flags < 256; flags++) {
		bool want = (flags & FLAGS_THAT_MATTER) == SYN_BIT;

		p4[20 + 13] = p6[40 + 13] = (uint8_t)flags;
		assert_int_equal(reads(&s, p4, sizeof(p4)), want);
		assert_int_equal(reads(&s, p6, sizeof(p6)), want);
	}
}

static void what_is_no_whole_tcp_packet_is_refused(void **state)
{
	static const struct { unsigned at; uint8_t value; } rows4[] = {
		{ 0, 0x55 }, { 0, 0x05 }, { 0, 0x44 }, { 0, 0x40 }, { 0, 0x65 }, { 0, 0x4f },
		{ 6, 0x20 }, { 6, 0x60 }, { 6, 0x01 }, { 7, 0x01 }, /* fragments */
		{ 9, IPPROTO_UDP }, { 9, IPPROTO_ICMP },
		{ 2, 0xff }, /* only to show that a longer length is no reason: see below */
		{ 3, 19 }, { 3, 39 }, { 3, 59 },
		{ 20 + 12, 0x40 }, { 20 + 12, 0x00 }, { 20 + 12, 0xb0 }, { 20 + 12, 0xf0 },
	};
	static const struct { unsigned at; uint8_t value; } rows6[] = {
		{ 0, 0x40 }, { 0, 0x70 }, { 6, 0 }, { 6, 43 }, { 6, 44 }, { 6, 60 }, { 6, 17 },
		{ 5, 0 }, { 5, 19 }, { 5, 39 }, { 40 + 12, 0x40 }, { 40 + 12, 0xb0 },
	};
	uint8_t p[64 + 64];
	struct syn s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows4); i++) {
		memcpy(p, syn4, sizeof(syn4));
		p[rows4[i].at] = rows4[i].value;
		assert_int_equal(reads(&s, p, sizeof(syn4)), rows4[i].at == 2);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows6); i++) {
		memcpy(p, syn6, sizeof(syn6));
		p[rows6[i].at] = rows6[i].value;
		assert_false(reads(&s, p, sizeof(syn6)));
	}
}

/* The gate's filter keeps the first bytes of a packet: data may be missing, headers not. */
static void a_cut_in_the_headers_is_refused_and_one_in_the_data_is_not(void **state)
{
	uint8_t p4[sizeof(syn4) + 30] = { 0 }, p6[sizeof(syn6) + 30] = { 0 };
	struct syn s;

	(void)state;
	memcpy(p4, syn4, sizeof(syn4));
	memcpy(p6, syn6, sizeof(syn6));
	p4[3] = sizeof(p4);
	p6[5] = sizeof(p6) - 40;
	for (size_t len = 0; len <= sizeof(p4); len++)
		assert_int_equal(reads(&s, p4, len), len >= sizeof(syn4));
	for (size_t len = 0; len <= sizeof(p6); len++)
		assert_int_equal(reads(&s, p6, len), len >= sizeof(syn6));
	assert_int_equal(s.tcp_len, 20 + OPTIONS);
}

/* A SYN with other options in the place of the 20 bytes of them. */
static bool read_options(struct syn *s, const uint8_t options[OPTIONS])
{
	uint8_t p[sizeof(syn4)];

	memcpy(p, syn4, sizeof(p));
	memcpy(p + 40, options, OPTIONS);
	return reads(s, p, sizeof(p));
}

static void a_fast_open_cookie_goes_and_all_else_stays(void **state)
{
	static const struct { uint8_t in[OPTIONS], out[OPTIONS]; } rows[] = {
		{ { 2, 4, 5, 0xb4, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 4, 2, 34, 2, 1, 0 },
		  { 2, 4, 5, 0xb4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 2, 1, 1, 1, 0 } },
		/* the number it had before it had one of its own */
		{ { 254, 6, 0xf9, 0x89, 1, 2, 254, 4, 0xf9, 0x89, 254, 4, 0xe2, 0xd4, 1 },
		  { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 254, 4, 0xe2, 0xd4, 1 } },
		/* inside another option, and after the end: no options */
		{ { 8, 10, 34, 2, 34, 2, 34, 2, 34, 2, 0, 34, 2, 34, 2 },
		  { 8, 10, 34, 2, 34, 2, 34, 2, 34, 2, 0, 34, 2, 34, 2 } },
		/* of a length that cannot be: the kernel stops there */
		{ { 3, 0, 34, 4, 1, 2 }, { 3, 0, 34, 4, 1, 2 } },
		{ { 3, 1, 34, 4, 1, 2 }, { 3, 1, 34, 4, 1, 2 } },
		{ { 34, 21, 7 }, { 34, 21, 7 } },
		{ { 34, 20, 7 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
		{ { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 34 },
		  { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 34 } },
	};
	struct syn s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(read_options(&s, rows[i].in));
		assert_memory_equal(s.tcp + 20, rows[i].out, OPTIONS);
	}
}

static void random_bytes_are_no_danger_and_what_is_read_can_be_made(void **state)
{
	uint8_t p[160], out[256];
	unsigned seed = 7, read = 0;
	struct syn s;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		size_t len = (size_t)rand_r(&seed) % (sizeof(p) + 1);

		for (size_t k = 0; k < len; k++)
			p[k] = (uint8_t)rand_r(&seed);
		/* Most bytes as they should be, or nothing would ever pass. */
		if (i % 2 && len >= sizeof(syn4))
			memcpy(p, i % 4 == 1 ? syn4 : syn6, sizeof(syn4));
		p[(size_t)rand_r(&seed) % sizeof(p)] ^= (uint8_t)rand_r(&seed);
		if (!reads(&s, p, len))
			continue;
		read++;
		assert_in_range(s.tcp_len, 20, 60);
		len = packet_syn(out, sizeof(out), &s);
		assert_true(len && is_sound(out, len));
	}
	assert_true(read > 1000);
}

/* --- making --------------------------------------------------------------------------------- */

enum { CANARY = 0xa5 };

/* Calls @make with every size that is too small, and then with the right one: nothing is
 * written, then exactly `want`. */
static void made(size_t (*make)(uint8_t *p, size_t to), const uint8_t *want, size_t len)
{
	uint8_t *p = malloc(len);

	assert_non_null(p);
	for (size_t to = 0; to < len; to++) {
		memset(p, CANARY, len);
		assert_int_equal(make(p, to), 0);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(p[i], CANARY);
	}
	assert_int_equal(make(p, len), len);
	assert_memory_equal(p, want, len);
	assert_true(is_sound(p, len));
	free(p);
}

static struct syn read_syn(const uint8_t *p, size_t len)
{
	struct syn s;

	assert_true(packet_read_syn(&s, p, len));
	return s;
}

static size_t make_syn4(uint8_t *p, size_t to)
{
	struct syn s = read_syn(syn4, sizeof(syn4));

	return packet_syn(p, to, &s);
}

static size_t make_syn6(uint8_t *p, size_t to)
{
	struct syn s = read_syn(syn6, sizeof(syn6));

	return packet_syn(p, to, &s);
}

static size_t make_rst4(uint8_t *p, size_t to)
{
	struct syn s = read_syn(syn4, sizeof(syn4));

	return packet_rst(p, to, &s);
}

static size_t make_rst6(uint8_t *p, size_t to)
{
	struct syn s = read_syn(syn6, sizeof(syn6));

	return packet_rst(p, to, &s);
}

static size_t make_udp4(uint8_t *p, size_t to)
{
	struct flow f = flow4();

	return packet_udp(p, to, &f, (const uint8_t *)"answer!", 7);
}

static size_t make_udp6(uint8_t *p, size_t to)
{
	struct flow f = flow6();

	return packet_udp(p, to, &f, (const uint8_t *)"answer!", 7);
}

static size_t make_unreach4(uint8_t *p, size_t to)
{
	struct flow f = flow4();

	return packet_unreach_udp(p, to, &f, UNREACH_PORT);
}

static size_t make_unreach6(uint8_t *p, size_t to)
{
	struct flow f = flow6();

	return packet_unreach_udp(p, to, &f, UNREACH_PORT);
}

static void every_byte_is_as_another_program_made_it(void **state)
{
	static const struct {
		size_t (*make)(uint8_t *p, size_t to);
		const uint8_t *want;
		size_t len;
	} rows[] = {
		{ make_syn4, syn4, sizeof(syn4) }, { make_syn6, syn6, sizeof(syn6) },
		{ make_rst4, rst4, sizeof(rst4) }, { make_rst6, rst6, sizeof(rst6) },
		{ make_udp4, udp4, sizeof(udp4) }, { make_udp6, udp6, sizeof(udp6) },
		{ make_unreach4, unreach4, sizeof(unreach4) },
		{ make_unreach6, unreach6, sizeof(unreach6) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		made(rows[i].make, rows[i].want, rows[i].len);
}

static void the_code_of_an_unreachable_destination_is_the_familys(void **state)
{
	static const struct { enum unreach code; uint8_t v4, v6; } rows[] = {
		{ UNREACH_HOST, 1, 3 }, { UNREACH_PORT, 3, 4 }, { UNREACH_PROHIBITED, 13, 1 },
	};
	struct syn four = read_syn(syn4, sizeof(syn4)), six = read_syn(syn6, sizeof(syn6));
	uint8_t p[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = packet_unreach_tcp(p, sizeof(p), &four, rows[i].code);

		assert_true(is_sound(p, len));
		assert_int_equal(p[20], 3);
		assert_int_equal(p[21], rows[i].v4);
		/* the SYN as it was sent */
		assert_memory_equal(p + 28, syn4, sizeof(syn4));
		len = packet_unreach_tcp(p, sizeof(p), &six, rows[i].code);
		assert_true(is_sound(p, len));
		assert_int_equal(p[40], 1);
		assert_int_equal(p[41], rows[i].v6);
		assert_memory_equal(p + 48, syn6, sizeof(syn6));
	}
}

static void a_datagram_may_be_as_long_as_its_family_allows(void **state)
{
	static uint8_t data[65536], p[PACKET_MAX];
	struct flow four = flow4(), six = flow6();

	(void)state;
	memset(data, 0x5a, sizeof(data));
	assert_int_equal(packet_udp(p, sizeof(p), &four, data, 65507), 65535);
	assert_true(is_sound(p, 65535));
	assert_int_equal(packet_udp(p, sizeof(p), &four, data, 65508), 0);
	assert_int_equal(packet_udp(p, sizeof(p), &six, data, 65527), PACKET_MAX);
	assert_true(is_sound(p, PACKET_MAX));
	assert_int_equal(packet_udp(p, sizeof(p), &six, data, 65528), 0);
	assert_int_equal(packet_udp(p, sizeof(p), &four, data, SIZE_MAX - 4), 0);
	assert_int_equal(packet_udp(p, sizeof(p), &four, NULL, 0), 28);
	assert_true(is_sound(p, 28));
}

/* One value of the first two bytes of data makes the sum come out as 0. */
static void a_checksum_of_zero_is_sent_as_all_ones(void **state)
{
	struct flow six = flow6();
	uint8_t p[128], data[2];
	unsigned ones = 0;

	(void)state;
	for (unsigned v = 0; v < 65536; v++) {
		data[0] = (uint8_t)(v >> 8);
		data[1] = (uint8_t)v;
		assert_int_equal(packet_udp(p, sizeof(p), &six, data, 2), 50);
		assert_true(p[46] || p[47]);
		assert_true(is_sound(p, 50));
		ones += p[46] == 0xff && p[47] == 0xff;
	}
	assert_int_equal(ones, 1);
}

static void nothing_is_made_for_two_families_or_none(void **state)
{
	struct syn s = read_syn(syn4, sizeof(syn4));
	struct flow f = flow4();
	uint8_t p[256];

	(void)state;
	f.src = addr("2001:2::7");
	s.flow = f;
	assert_int_equal(packet_udp(p, sizeof(p), &f, syn4, 8), 0);
	assert_int_equal(packet_syn(p, sizeof(p), &s), 0);
	assert_int_equal(packet_rst(p, sizeof(p), &s), 0);
	f.src.family = f.dst.family = 0;
	assert_int_equal(packet_udp(p, sizeof(p), &f, syn4, 8), 0);
	s = read_syn(syn4, sizeof(syn4));
	assert_int_equal(packet_unreach_tcp(p, sizeof(p), &s, (enum unreach)3), 0);
	s.tcp_len = 61;
	assert_int_equal(packet_syn(p, sizeof(p), &s), 0);
	assert_int_equal(packet_unreach_tcp(p, sizeof(p), &s, UNREACH_HOST), 0);
	s.tcp_len = 19;
	assert_int_equal(packet_syn(p, sizeof(p), &s), 0);
	assert_int_equal(packet_unreach_tcp(p, sizeof(p), &s, UNREACH_HOST), 0);
}

/* --- flows -------------------------------------------------------------------------------- */

static void a_flow_is_its_five_parts_and_no_byte_beyond_them(void **state)
{
	struct flow a = flow4(), b = flow4();

	(void)state;
	memset(b.src.bytes + 4, 0xee, 12); /* of no meaning in IPv4 */
	memset(b.dst.bytes + 4, 0xdd, 12);
	assert_true(flow_equal(&a, &b));
	assert_int_equal(flow_hash(&a), flow_hash(&b));
	b.sport ^= 1;
	assert_false(flow_equal(&a, &b));
	b = flow4();
	b.dport ^= 1;
	assert_false(flow_equal(&a, &b));
	b = flow4();
	b.dst.bytes[3] ^= 1;
	assert_false(flow_equal(&a, &b));
	b = flow4();
	b.src.bytes[0] ^= 1;
	assert_false(flow_equal(&a, &b));
	a = flow6();
	b = flow6();
	b.src.bytes[15] ^= 1;
	assert_false(flow_equal(&a, &b));
	b = flow6();
	b.dst.family = 4;
	assert_false(flow_equal(&a, &b));
}

/* 60,000 ports of one address into 1,024 buckets: about 59 each. */
static void the_ports_of_one_address_spread_over_all_buckets(void **state)
{
	static unsigned buckets[1024];
	struct flow f = flow4();

	(void)state;
	for (unsigned port = 1; port <= 60000; port++) {
		f.sport = (uint16_t)port;
		buckets[flow_hash(&f) % 1024]++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(buckets); i++)
		assert_in_range(buckets[i], 1, 160);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_syn_is_read_by_both_families),
		cmocka_unit_test(a_checksum_that_is_not_there_yet_does_not_matter),
		cmocka_unit_test(ip_options_are_skipped_and_never_come_back),
		cmocka_unit_test(only_a_plain_syn_is_one),
		cmocka_unit_test(what_is_no_whole_tcp_packet_is_refused),
		cmocka_unit_test(a_cut_in_the_headers_is_refused_and_one_in_the_data_is_not),
		cmocka_unit_test(a_fast_open_cookie_goes_and_all_else_stays),
		cmocka_unit_test(random_bytes_are_no_danger_and_what_is_read_can_be_made),
		cmocka_unit_test(every_byte_is_as_another_program_made_it),
		cmocka_unit_test(the_code_of_an_unreachable_destination_is_the_familys),
		cmocka_unit_test(a_datagram_may_be_as_long_as_its_family_allows),
		cmocka_unit_test(a_checksum_of_zero_is_sent_as_all_ones),
		cmocka_unit_test(nothing_is_made_for_two_families_or_none),
		cmocka_unit_test(a_flow_is_its_five_parts_and_no_byte_beyond_them),
		cmocka_unit_test(the_ports_of_one_address_spread_over_all_buckets),
	};

	return cmocka_run_group_tests_name("egress_packet", tests, NULL, NULL);
}
