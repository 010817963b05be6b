/*
 * Which addresses are nobody's on the Internet: never reached by a rule for a name or a
 * range, only by net.allow_private. Pure tables.
 *
 * An IPv6 address that carries an IPv4 one is looked at as that one as well: translators
 * and tunnels take the packet there. Documentation ranges are not in the set: nobody has
 * them, and tests use them.
 */
#include "policy/egress_block.h"

#include "base/cleanup.h"

#include <string.h>

#define V4(a, b, c, d, n, text) { { 4, { a, b, c, d } }, n, text }
#define V6(n, text, ...) { { 6, { __VA_ARGS__ } }, n, text }

static const struct range {
	struct egress_addr net;
	uint8_t bits;
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
	V4(240, 0, 0, 0, 4, "reserved 240.0.0.0/4"), /* and broadcast */
	V6(128, "unspecified ::", 0),
	V6(128, "loopback ::1", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
	V6(48, "local translation 64:ff9b:1::/48", 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01),
	V6(64, "discard-only 100::/64", 0x01),
	V6(48, "benchmarks 2001:2::/48", 0x20, 0x01, 0x00, 0x02),
	V6(7, "unique local fc00::/7", 0xfc), /* fd00:ec2::254 as well */
	V6(10, "link-local fe80::/10", 0xfe, 0x80),
	V6(10, "site-local fec0::/10", 0xfe, 0xc0),
	V6(8, "multicast ff00::/8", 0xff),
};

/* Where an IPv4 address stands in an IPv6 one. */
static const struct carrier {
	uint8_t from, to;	/* these bytes must be those */
	uint8_t at;		/* of the address */
	uint8_t flip;		/* 0xff: its bits are inverted */
	uint8_t bytes[12];
} carriers[] = {
	{ 0, 12, 12, 0, { 0 } },			    /* v4-compatible, RFC 4291 */
	{ 0, 12, 12, 0, { [10] = 0xff, [11] = 0xff } },	    /* v4-mapped */
	{ 0, 12, 12, 0, { [8] = 0xff, [9] = 0xff } },	    /* v4-translated, RFC 2765 */
	{ 0, 12, 12, 0, { 0x00, 0x64, 0xff, 0x9b } },	    /* NAT64, RFC 6052 */
	{ 0, 2, 2, 0, { 0x20, 0x02 } },			    /* 6to4, RFC 3056 */
	{ 0, 4, 12, 0xff, { 0x20, 0x01 } },		    /* Teredo, RFC 4380: the client */
	{ 8, 12, 12, 0, { [10] = 0x5e, [11] = 0xfe } },	    /* ISATAP, RFC 5214 */
	{ 8, 12, 12, 0, { [8] = 0x02, [10] = 0x5e, [11] = 0xfe } },
};

bool private_carried(const struct egress_addr *a, size_t *next, struct egress_addr *v4)
{
	while (*next < ARRAY_SIZE(carriers) && a->family == 6) {
		const struct carrier *c = &carriers[(*next)++];

		if (memcmp(a->bytes + c->from, c->bytes + c->from, c->to - c->from) != 0)
			continue;
		*v4 = (struct egress_addr){ .family = 4 };
		for (unsigned n = 0; n < 4; n++)
			v4->bytes[n] = a->bytes[c->at + n] ^ c->flip;
		return true;
	}
	return false;
}

const char *private_range_of_net(const struct egress_addr *net, unsigned bits)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (bits >= ranges[i].bits &&
		    addr_has_prefix(net, &ranges[i].net, ranges[i].bits))
			return ranges[i].text;
	return NULL;
}

const char *private_range(const struct egress_addr *a)
{
	const char *found = private_range_of_net(a, addr_bits(a));
	struct egress_addr v4;
	size_t next = 0;

	while (!found && private_carried(a, &next, &v4))
		found = private_range_of_net(&v4, 32);
	return found;
}

bool private_is_fake(const struct egress_addr *a)
{
	static const struct egress_addr v4 = { 4, { 198, 18 } },
					v6 = { 6, { 0x20, 0x01, 0x00, 0x02 } };

	return addr_has_prefix(a, &v4, 15) || addr_has_prefix(a, &v6, 48);
}

size_t private_nets(struct private_net *out, size_t i)
{
	if (out && i < ARRAY_SIZE(ranges))
		*out = (struct private_net){ ranges[i].net, ranges[i].bits };
	return ARRAY_SIZE(ranges);
}
