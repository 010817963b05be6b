/*
 * packet.c - see packet.h. Runs in the supervisor.
 *
 * Must:    look at no byte beyond the length it was given, whatever a header claims; write
 *          packets that the box's kernel accepts: lengths, checksums, quoted headers.
 * Mustn't: verify a checksum of what it reads (a packet socket on lo sees them unfinished),
 *          or copy IP options and extension headers into what it makes.
 */
#include "runtime/egress/packet.h"

#include "runtime/egress/hash.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/auxv.h>

enum {
	IPV4_HEAD = 20, IPV6_HEAD = 40, TCP_HEAD = 20, UDP_HEAD = 8, ICMP_HEAD = 8,
	PAYLOAD_MAX = 65535,	/* the 16-bit length of either family */
	TTL = 64,
	DONT_FRAGMENT = 0x4000, FRAGMENT = 0x3fff, /* more fragments, and the offset */
	FIN = 0x01, SYN = 0x02, RST = 0x04, ACK = 0x10,
	OPT_END = 0, OPT_NOP = 1, OPT_FAST_OPEN = 34, OPT_TRIAL = 254,
	TRIAL_FAST_OPEN = 0xf989, /* before RFC 7413 gave it a number */
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

/* --- flows ------------------------------------------------------------------ */

static size_t addr_len(const struct egress_addr *a)
{
	return a->family == 4 ? 4 : 16;
}

static bool addr_equal(const struct egress_addr *a, const struct egress_addr *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, addr_len(a)) == 0;
}

bool flow_equal(const struct flow *a, const struct flow *b)
{
	return a->sport == b->sport && a->dport == b->dport && addr_equal(&a->src, &b->src) &&
	       addr_equal(&a->dst, &b->dst);
}

/*
 * Under a key that the kernel gave this process at exec: the payload chooses addresses and
 * ports, and must not be able to choose the bucket.
 */
uint32_t flow_hash(const struct flow *f)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint8_t text[2 * 16 + 2 * 2] = { 0 };
	struct hash_key key = { 0 };

	if (random)
		memcpy(&key, random, sizeof(key));
	memcpy(text, f->src.bytes, addr_len(&f->src));
	memcpy(text + 16, f->dst.bytes, addr_len(&f->dst));
	put16(text + 32, f->sport);
	put16(text + 34, f->dport);
	return (uint32_t)hash_bytes(&key, text, sizeof(text));
}

/* --- reading ------------------------------------------------------------------ */

/* What is left of the packet after its IP header, at most as long as the header says. */
struct rest {
	const uint8_t *p;
	size_t len;
};

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool read_ipv4(struct flow *f, struct rest *rest, const uint8_t *p, size_t len)
{
	size_t head, total;

	if (len < IPV4_HEAD)
		return false;
	head = (size_t)(p[0] & 15) * 4;
	total = get16(p + 2);
	if (head < IPV4_HEAD || head > total || head > len || get16(p + 6) & FRAGMENT ||
	    p[9] != IPPROTO_TCP)
		return false;
	f->src = f->dst = (struct egress_addr){ .family = 4 };
	memcpy(f->src.bytes, p + 12, 4);
	memcpy(f->dst.bytes, p + 16, 4);
	*rest = (struct rest){ p + head, smaller(total, len) - head };
	return true;
}

static bool read_ipv6(struct flow *f, struct rest *rest, const uint8_t *p, size_t len)
{
	if (len < IPV6_HEAD || p[6] != IPPROTO_TCP)
		return false;
	f->src = f->dst = (struct egress_addr){ .family = 6 };
	memcpy(f->src.bytes, p + 8, 16);
	memcpy(f->dst.bytes, p + 24, 16);
	*rest = (struct rest){ p + IPV6_HEAD, smaller(get16(p + 4), len - IPV6_HEAD) };
	return true;
}

static bool is_fast_open(const uint8_t *option, size_t size)
{
	return option[0] == OPT_FAST_OPEN || (option[0] == OPT_TRIAL && size >= 4 &&
					      get16(option + 2) == TRIAL_FAST_OPEN);
}

/*
 * A cookie of TCP Fast Open goes: the SYN is sent in again without its data, and a listener
 * that took it would have a connection before the handshake. An option list that is
 * malformed ends where the kernel stops reading it as well.
 */
static void blank_fast_open(uint8_t *tcp, size_t len)
{
	size_t at = TCP_HEAD;

	while (at < len && tcp[at] != OPT_END) {
		size_t size = 1;

		if (tcp[at] != OPT_NOP) {
			if (at + 2 > len || tcp[at + 1] < 2 || tcp[at + 1] > len - at)
				return;
			size = tcp[at + 1];
			if (is_fast_open(tcp + at, size))
				memset(tcp + at, OPT_NOP, size);
		}
		at += size;
	}
}

bool packet_read_syn(struct syn *out, const uint8_t *p, size_t len)
{
	struct syn s = { 0 };
	struct rest tcp;
	size_t head;

	if (!len)
		return false;
	if (!(p[0] >> 4 == 4 && read_ipv4(&s.flow, &tcp, p, len)) &&
	    !(p[0] >> 4 == 6 && read_ipv6(&s.flow, &tcp, p, len)))
		return false;
	if (tcp.len < TCP_HEAD)
		return false;
	head = (size_t)(tcp.p[12] >> 4) * 4;
	if (head < TCP_HEAD || head > tcp.len || (tcp.p[13] & (FIN | SYN | RST | ACK)) != SYN)
		return false;
	s.flow.sport = get16(tcp.p);
	s.flow.dport = get16(tcp.p + 2);
	s.seq = get32(tcp.p + 4);
	memcpy(s.tcp, tcp.p, head);
	s.tcp_len = (uint8_t)head;
	blank_fast_open(s.tcp, head);
	*out = s;
	return true;
}

/* --- making -------------------------------------------------------------------- */

/* Where a packet goes: the box's own source and destination, or the other way round. */
struct way {
	const struct egress_addr *from, *to;
};

static struct way there(const struct flow *f)
{
	return (struct way){ &f->src, &f->dst };
}

static struct way back(const struct flow *f)
{
	return (struct way){ &f->dst, &f->src };
}

/* Length of the IP header; 0: a packet with that much after it cannot be made. */
static size_t head_of(struct way w, size_t to, size_t payload)
{
	size_t head = w.from->family == 4 ? IPV4_HEAD : IPV6_HEAD;
	size_t most = w.from->family == 4 ? PAYLOAD_MAX - IPV4_HEAD : PAYLOAD_MAX;

	if (w.from->family != w.to->family || (w.from->family != 4 && w.from->family != 6))
		return 0;
	return payload <= most && head + payload <= to ? head : 0;
}

static uint64_t sum(const uint8_t *p, size_t len)
{
	uint64_t total = 0;

	for (; len > 1; p += 2, len -= 2)
		total += get16(p);
	return len ? total + ((uint64_t)*p << 8) : total;
}

static uint16_t folded(uint64_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return (uint16_t)~total;
}

static uint64_t pseudo_sum(struct way w, uint8_t protocol, size_t payload)
{
	return sum(w.from->bytes, addr_len(w.from)) + sum(w.to->bytes, addr_len(w.to)) +
	       protocol + payload;
}

/* Identification 0 with "don't fragment" is an atomic datagram: RFC 6864. (The kernel
 * numbers it for itself.) */
static void put_head(uint8_t *p, struct way w, uint8_t protocol, size_t payload)
{
	memset(p, 0, w.from->family == 4 ? IPV4_HEAD : IPV6_HEAD);
	if (w.from->family == 6) {
		p[0] = 0x60;
		put16(p + 4, payload);
		p[6] = protocol;
		p[7] = TTL;
		memcpy(p + 8, w.from->bytes, 16);
		memcpy(p + 24, w.to->bytes, 16);
		return;
	}
	p[0] = 0x45;
	put16(p + 2, IPV4_HEAD + payload);
	put16(p + 6, DONT_FRAGMENT);
	p[8] = TTL;
	p[9] = protocol;
	memcpy(p + 12, w.from->bytes, 4);
	memcpy(p + 16, w.to->bytes, 4);
	put16(p + 10, folded(sum(p, IPV4_HEAD)));
}

/* The transport header and what follows it are in place, with a checksum of 0. */
static void put_sum(uint8_t *transport, size_t len, size_t at, uint64_t with)
{
	put16(transport + at, folded(with + sum(transport, len)));
}

size_t packet_syn(uint8_t *p, size_t to, const struct syn *s)
{
	struct way w = there(&s->flow);
	size_t head = head_of(w, to, s->tcp_len);

	if (!head || s->tcp_len < TCP_HEAD || s->tcp_len > sizeof(s->tcp))
		return 0;
	put_head(p, w, IPPROTO_TCP, s->tcp_len);
	memcpy(p + head, s->tcp, s->tcp_len);
	put16(p + head + 16, 0);
	put_sum(p + head, s->tcp_len, 16, pseudo_sum(w, IPPROTO_TCP, s->tcp_len));
	return head + s->tcp_len;
}

size_t packet_rst(uint8_t *p, size_t to, const struct syn *s)
{
	struct way w = back(&s->flow);
	size_t head = head_of(w, to, TCP_HEAD);
	uint8_t *tcp = p + head;

	if (!head)
		return 0;
	put_head(p, w, IPPROTO_TCP, TCP_HEAD);
	memset(tcp, 0, TCP_HEAD);
	put16(tcp, s->flow.dport);
	put16(tcp + 2, s->flow.sport);
	put32(tcp + 8, s->seq + 1);
	tcp[12] = TCP_HEAD / 4 << 4;
	tcp[13] = RST | ACK;
	put_sum(tcp, TCP_HEAD, 16, pseudo_sum(w, IPPROTO_TCP, TCP_HEAD));
	return head + TCP_HEAD;
}

size_t packet_udp(uint8_t *p, size_t to, const struct flow *f, const uint8_t *data, size_t len)
{
	struct way w = back(f);
	size_t head = len > PAYLOAD_MAX - UDP_HEAD ? 0 : head_of(w, to, UDP_HEAD + len);
	uint8_t *udp = p + head;

	if (!head)
		return 0;
	put_head(p, w, IPPROTO_UDP, UDP_HEAD + len);
	put16(udp, f->dport);
	put16(udp + 2, f->sport);
	put16(udp + 4, UDP_HEAD + len);
	put16(udp + 6, 0);
	if (len)
		memcpy(udp + UDP_HEAD, data, len);
	put_sum(udp, UDP_HEAD + len, 6, pseudo_sum(w, IPPROTO_UDP, UDP_HEAD + len));
	if (!get16(udp + 6)) /* 0 would say that there is none */
		put16(udp + 6, 0xffff);
	return head + UDP_HEAD + len;
}

/*
 * Which errors the box's kernel makes of them (icmp_err_convert, icmpv6_err_convert), and
 * when: a connected UDP socket hears only of what the kernel takes for final, which a host
 * that is not there is not. A TCP socket hears of all of them while it waits for an answer
 * to its SYN, unless connect(2) still holds it at that very moment; then it hears at the
 * next SYN, a second later. An RST has no such gap.
 */
static const struct unreach_row {
	uint8_t v4, v6;
} codes[] = {
	[UNREACH_HOST] = { 1, 3 },	/* EHOSTUNREACH */
	[UNREACH_PORT] = { 3, 4 },	/* ECONNREFUSED */
	[UNREACH_PROHIBITED] = { 13, 1 }, /* EHOSTUNREACH; EACCES over IPv6 */
};

/* What the message is about, as the box sent it. */
struct quote {
	uint8_t protocol, len;	/* at least 8: RFC 792; 60 at most */
	const uint8_t *transport;
};

static size_t put_unreach(uint8_t *p, size_t to, const struct flow *f, enum unreach code,
			  struct quote q)
{
	struct way w = back(f);
	bool is_v4 = f->dst.family == 4;
	size_t inner = is_v4 ? IPV4_HEAD : IPV6_HEAD, size = ICMP_HEAD + inner + q.len;
	size_t head = head_of(w, to, size);
	uint8_t proto = is_v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	uint8_t *icmp = p + head;

	if (!head || (size_t)code >= sizeof(codes) / sizeof(codes[0]))
		return 0;
	put_head(p, w, proto, size);
	memset(icmp, 0, ICMP_HEAD);
	icmp[0] = is_v4 ? 3 : 1;
	icmp[1] = is_v4 ? codes[code].v4 : codes[code].v6;
	put_head(icmp + ICMP_HEAD, there(f), q.protocol, q.len);
	memcpy(icmp + ICMP_HEAD + inner, q.transport, q.len);
	put_sum(icmp, size, 2, is_v4 ? 0 : pseudo_sum(w, proto, size));
	return head + size;
}

size_t packet_unreach_tcp(uint8_t *p, size_t to, const struct syn *s, enum unreach code)
{
	struct quote q = { IPPROTO_TCP, s->tcp_len, s->tcp };

	if (s->tcp_len < TCP_HEAD || s->tcp_len > sizeof(s->tcp))
		return 0;
	return put_unreach(p, to, &s->flow, code, q);
}

/* The kernel finds the socket by the ports, and looks at nothing else. */
size_t packet_unreach_udp(uint8_t *p, size_t to, const struct flow *f, enum unreach code)
{
	uint8_t udp[UDP_HEAD] = { 0 };

	put16(udp, f->sport);
	put16(udp + 2, f->dport);
	put16(udp + 4, UDP_HEAD);
	return put_unreach(p, to, f, code, (struct quote){ IPPROTO_UDP, UDP_HEAD, udp });
}
