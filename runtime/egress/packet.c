/*
 * packet.c - see packet.h. Runs in the supervisor. Pure.
 *
 * Must:    read nothing beyond the length it was given; make headers without options of the
 *          payload's (source routes).
 * Mustn't: verify checksums of what it reads: on loopback the kernel leaves them half-made.
 */
#include "runtime/egress/packet.h"

#include <netinet/in.h>
#include <string.h>

enum {
	IP4_HEAD = 20, IP6_HEAD = 40, TCP_HEAD = 20, UDP_HEAD = 8, ICMP_HEAD = 8,
	TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16,
	TTL = 64,
	OPTION_END = 0, OPTION_NOP = 1, OPTION_FASTOPEN = 34,
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

static size_t addr_len(const struct egress_addr *a)
{
	return a->family == 4 ? 4 : 16;
}

/* --- flows -------------------------------------------------------------------------------- */

bool flow_equal(const struct flow *a, const struct flow *b)
{
	return a->sport == b->sport && a->dport == b->dport && a->src.family == b->src.family &&
	       memcmp(a->src.bytes, b->src.bytes, addr_len(&a->src)) == 0 &&
	       memcmp(a->dst.bytes, b->dst.bytes, addr_len(&a->dst)) == 0;
}

/* FNV-1a. Who makes all flows collide slows down nobody but itself, within its cap of
 * connections. */
static uint32_t mix(uint32_t h, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

uint32_t flow_hash(const struct flow *f)
{
	uint8_t ports[4];
	uint32_t h = 2166136261u;

	put16(ports, f->sport);
	put16(ports + 2, f->dport);
	h = mix(h, ports, sizeof(ports));
	h = mix(h, f->dst.bytes, addr_len(&f->dst));
	h ^= h >> 15;
	return h;
}

/* --- checksums -------------------------------------------------------------------------------- */

static uint32_t add_words(uint32_t sum, const uint8_t *p, size_t len)
{
	for (; len > 1; p += 2, len -= 2)
		sum += get16(p);
	if (len)
		sum += (uint32_t)p[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static uint16_t checksum(uint32_t sum)
{
	return (uint16_t)~sum;
}

static uint16_t transport_sum(const struct egress_addr *from, const struct egress_addr *to,
			      uint8_t protocol, const uint8_t *p, size_t len)
{
	uint32_t sum = (uint32_t)protocol + (uint32_t)(len >> 16) + (uint32_t)(len & 0xffff);

	sum = add_words(sum, from->bytes, addr_len(from));
	sum = add_words(sum, to->bytes, addr_len(to));
	return checksum(add_words(sum, p, len));
}

/* --- headers ------------------------------------------------------------------------------------ */

static size_t ip_head(const struct egress_addr *a)
{
	return a->family == 4 ? IP4_HEAD : IP6_HEAD;
}

static void put_ip(uint8_t *p, const struct egress_addr *from, const struct egress_addr *to,
		   uint8_t protocol, size_t payload)
{
	memset(p, 0, ip_head(from));
	if (from->family == 4) {
		p[0] = 0x45;
		put16(p + 2, IP4_HEAD + payload);
		p[6] = 0x40; /* don't fragment */
		p[8] = TTL;
		p[9] = protocol;
		memcpy(p + 12, from->bytes, 4);
		memcpy(p + 16, to->bytes, 4);
		put16(p + 10, checksum(add_words(0, p, IP4_HEAD)));
		return;
	}
	p[0] = 0x60;
	put16(p + 4, payload);
	p[6] = protocol;
	p[7] = TTL;
	memcpy(p + 8, from->bytes, 16);
	memcpy(p + 24, to->bytes, 16);
}

/* --- reading ---------------------------------------------------------------------------------------- */

static size_t read_ip4(struct flow *f, const uint8_t *p, size_t len)
{
	size_t head;

	if (len < IP4_HEAD || p[0] >> 4 != 4)
		return 0;
	head = (size_t)(p[0] & 15) * 4;
	/* A fragment has no port that could be judged. */
	if (head < IP4_HEAD || head > len || p[9] != IPPROTO_TCP || (get16(p + 6) & 0x3fff))
		return 0;
	f->src.family = f->dst.family = 4;
	memcpy(f->src.bytes, p + 12, 4);
	memcpy(f->dst.bytes, p + 16, 4);
	return head;
}

static size_t read_ip6(struct flow *f, const uint8_t *p, size_t len)
{
	if (len < IP6_HEAD || p[0] >> 4 != 6 || p[6] != IPPROTO_TCP)
		return 0;
	f->src.family = f->dst.family = 6;
	memcpy(f->src.bytes, p + 8, 16);
	memcpy(f->dst.bytes, p + 24, 16);
	return IP6_HEAD;
}

/* The data that Fast Open sends along is dropped, so its option must go as well: the other
 * end would take the cookie for one of its own. */
static bool clear_fastopen(uint8_t *tcp, size_t len)
{
	size_t i = TCP_HEAD;

	while (i < len && tcp[i] != OPTION_END) {
		size_t n = tcp[i] == OPTION_NOP ? 1 : i + 1 < len ? tcp[i + 1] : 0;

		if (!n || (tcp[i] != OPTION_NOP && n < 2) || n > len - i)
			return false;
		if (tcp[i] == OPTION_FASTOPEN)
			memset(tcp + i, OPTION_NOP, n);
		i += n;
	}
	return true;
}

bool packet_read_syn(struct syn *out, const uint8_t *p, size_t len)
{
	struct syn s = { 0 };
	size_t head = len && p[0] >> 4 == 4 ? read_ip4(&s.flow, p, len)
					     : read_ip6(&s.flow, p, len);
	const uint8_t *tcp = p + head;
	size_t tcp_len;

	if (!head || len - head < TCP_HEAD)
		return false;
	tcp_len = (size_t)(tcp[12] >> 4) * 4;
	if (tcp_len < TCP_HEAD || tcp_len > len - head || tcp_len > sizeof(s.tcp))
		return false;
	if ((tcp[13] & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) != TCP_SYN)
		return false;
	s.flow.sport = get16(tcp);
	s.flow.dport = get16(tcp + 2);
	s.seq = get32(tcp + 4);
	memcpy(s.tcp, tcp, tcp_len);
	s.tcp_len = (uint8_t)tcp_len;
	if (!clear_fastopen(s.tcp, tcp_len))
		return false;
	*out = s;
	return true;
}

/* --- making ------------------------------------------------------------------------------------------- */

size_t packet_syn(uint8_t *p, size_t to, const struct syn *s)
{
	size_t head = ip_head(&s->flow.src);
	uint8_t *tcp = p + head;

	if (to < head + s->tcp_len)
		return 0;
	put_ip(p, &s->flow.src, &s->flow.dst, IPPROTO_TCP, s->tcp_len);
	memcpy(tcp, s->tcp, s->tcp_len);
	put16(tcp + 16, 0);
	put16(tcp + 16, transport_sum(&s->flow.src, &s->flow.dst, IPPROTO_TCP, tcp, s->tcp_len));
	return head + s->tcp_len;
}

size_t packet_rst(uint8_t *p, size_t to, const struct syn *s)
{
	size_t head = ip_head(&s->flow.src);
	uint8_t *tcp = p + head;

	if (to < head + TCP_HEAD)
		return 0;
	put_ip(p, &s->flow.dst, &s->flow.src, IPPROTO_TCP, TCP_HEAD);
	memset(tcp, 0, TCP_HEAD);
	put16(tcp, s->flow.dport);
	put16(tcp + 2, s->flow.sport);
	put32(tcp + 8, s->seq + 1);
	tcp[12] = TCP_HEAD / 4 << 4;
	tcp[13] = TCP_RST | TCP_ACK;
	put16(tcp + 16, transport_sum(&s->flow.dst, &s->flow.src, IPPROTO_TCP, tcp, TCP_HEAD));
	return head + TCP_HEAD;
}

size_t packet_udp(uint8_t *p, size_t to, const struct flow *f, const uint8_t *data, size_t len)
{
	size_t head = ip_head(&f->src), size = UDP_HEAD + len;
	uint8_t *udp = p + head;
	uint16_t sum;

	if (size > 65535 - IP4_HEAD || to < head + size)
		return 0;
	put_ip(p, &f->dst, &f->src, IPPROTO_UDP, size);
	put16(udp, f->dport);
	put16(udp + 2, f->sport);
	put16(udp + 4, size);
	put16(udp + 6, 0);
	memcpy(udp + UDP_HEAD, data, len);
	sum = transport_sum(&f->dst, &f->src, IPPROTO_UDP, udp, size);
	put16(udp + 6, sum ? sum : 0xffff); /* 0 would mean: none */
	return head + size;
}

/* Type and code: ICMP 3/x (RFC 792, 1812), ICMPv6 1/x (RFC 4443). */
static const uint8_t codes4[] = { [UNREACH_HOST] = 1, [UNREACH_PORT] = 3, [UNREACH_PROHIBITED] = 13 };
static const uint8_t codes6[] = { [UNREACH_HOST] = 3, [UNREACH_PORT] = 4, [UNREACH_PROHIBITED] = 1 };

size_t packet_unreach(uint8_t *p, size_t to, const struct flow *f, uint8_t protocol,
		      const uint8_t *transport, size_t len, enum unreach code)
{
	bool is_v4 = f->src.family == 4;
	size_t head = ip_head(&f->src), quoted = len > 64 ? 64 : len;
	size_t size = ICMP_HEAD + head + quoted;
	uint8_t *icmp = p + head;

	if (quoted < 8 || to < head + size)
		return 0;
	put_ip(p, &f->dst, &f->src, is_v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, size);
	memset(icmp, 0, ICMP_HEAD);
	icmp[0] = is_v4 ? 3 : 1;
	icmp[1] = is_v4 ? codes4[code] : codes6[code];
	put_ip(icmp + ICMP_HEAD, &f->src, &f->dst, protocol, len);
	memcpy(icmp + ICMP_HEAD + head, transport, quoted);
	put16(icmp + 2, is_v4 ? checksum(add_words(0, icmp, size))
			       : transport_sum(&f->dst, &f->src, IPPROTO_ICMPV6, icmp, size));
	return head + size;
}
