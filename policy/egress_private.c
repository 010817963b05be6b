/*
 * Which addresses are nobody's on the Internet: never reached by a rule for a name or a
 * range, only by net.allow_private. Pure table.
 *
 * An IPv6 address that carries an IPv4 one is looked at as that one as well: NAT64 and 6to4
 * gateways would take the packet there.
 */
#include "policy/egress_block.h"

#include "base/cleanup.h"

#include <string.h>

#define V4(a, b, c, d, n, text) { 4, n, { a, b, c, d }, text }
#define V6(n, text, ...) { 6, n, { __VA_ARGS__ }, text }

static const struct range {
	uint8_t family, bits, bytes[16];
	const char *text;
} ranges[] = {
	V4(0, 0, 0, 0, 8, "this network 0.0.0.0/8"),
	V4(10, 0, 0, 0, 8, "private 10.0.0.0/8"),
	V4(100, 64, 0, 0, 10, "shared 100.64.0.0/10"),
	V4(127, 0, 0, 0, 8, "loopback 127.0.0.0/8"),
	V4(169, 254, 0, 0, 16, "link-local 169.254.0.0/16"),
	V4(172, 16, 0, 0, 12, "private 172.16.0.0/12"),
	V4(192, 0, 0, 0, 24, "protocol assignments 192.0.0.0/24"),
	V4(192, 168, 0, 0, 16, "private 192.168.0.0/16"),
	V4(198, 18, 0, 0, 15, "benchmarks 198.18.0.0/15"),
	V4(224, 0, 0, 0, 4, "multicast 224.0.0.0/4"),
	V4(240, 0, 0, 0, 4, "reserved 240.0.0.0/4"),
	V6(128, "unspecified ::", 0),
	V6(128, "loopback ::1", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
	V6(48, "benchmarks 2001:2::/48", 0x20, 0x01, 0x00, 0x02),
	V6(7, "unique local fc00::/7", 0xfc),
	V6(10, "link-local fe80::/10", 0xfe, 0x80),
	V6(10, "site-local fec0::/10", 0xfe, 0xc0),
	V6(8, "multicast ff00::/8", 0xff),
	V6(64, "discard-only 100::/64", 0x01),
};

/* Where an IPv4 address stands in an IPv6 one. */
static const struct carrier {
	uint8_t bits, at, bytes[12];
} carriers[] = {
	{ 96, 12, { 0 } },				 /* v4-compatible */
	{ 96, 12, { [10] = 0xff, [11] = 0xff } },	 /* v4-mapped */
	{ 96, 12, { [8] = 0xff, [9] = 0xff } },		 /* v4-translated, RFC 2765 */
	{ 16, 2, { 0x20, 0x02 } },			 /* 6to4 */
	{ 96, 12, { 0x00, 0x64, 0xff, 0x9b } },		 /* NAT64 */
	{ 48, 12, { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 } }, /* NAT64, RFC 8215 */
};

static bool has_prefix(const uint8_t *bytes, const uint8_t *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(bytes, prefix, whole) != 0)
		return false;
	return !rest || ((bytes[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

static const char *in_ranges(const struct egress_addr *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (ranges[i].family == a->family &&
		    has_prefix(a->bytes, ranges[i].bytes, ranges[i].bits))
			return ranges[i].text;
	return NULL;
}

const char *private_range(const struct egress_addr *a)
{
	const char *found = in_ranges(a);

	for (size_t i = 0; i < ARRAY_SIZE(carriers) && a->family == 6 && !found; i++) {
		struct egress_addr v4 = { .family = 4 };

		if (!has_prefix(a->bytes, carriers[i].bytes, carriers[i].bits))
			continue;
		memcpy(v4.bytes, a->bytes + carriers[i].at, 4);
		found = in_ranges(&v4);
	}
	return found;
}

size_t private_nets(struct private_net *out, size_t i)
{
	if (out && i < ARRAY_SIZE(ranges)) {
		*out = (struct private_net){ .bits = ranges[i].bits };
		out->addr.family = ranges[i].family;
		memcpy(out->addr.bytes, ranges[i].bytes, sizeof(out->addr.bytes));
	}
	return ARRAY_SIZE(ranges);
}
