/*
 * Names, addresses and entries of egress rules as text. Pure.
 *
 * Must: have one canonical form of a name, and refuse what two readers could take for two
 * things: an address in disguise, a NUL, userinfo, another alphabet.
 */
#include "policy/egress_entry.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* --- addresses ---------------------------------------------------------------------- */

struct egress_addr egress_addr_normal(struct egress_addr a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct egress_addr v4 = { .family = 4 };

	if (a.family != 6 || memcmp(a.bytes, mapped, sizeof(mapped)) != 0)
		return a;
	memcpy(v4.bytes, a.bytes + 12, 4);
	return v4;
}

char *egress_addr_text(const struct egress_addr *a, char text[EGRESS_ADDR_TEXT])
{
	if (!inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, text,
		       EGRESS_ADDR_TEXT))
		memcpy(text, "?", 2);
	return text;
}

bool addr_mask(struct egress_addr *a, unsigned bits)
{
	bool had_more = false;

	for (unsigned i = bits; i < addr_bits(a); i++) {
		uint8_t bit = (uint8_t)(0x80 >> (i % 8));

		had_more |= (a->bytes[i / 8] & bit) != 0;
		a->bytes[i / 8] = (uint8_t)(a->bytes[i / 8] & ~bit);
	}
	return had_more;
}

/* --- names ---------------------------------------------------------------------------- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '_';
}

static bool is_label(const char *p, size_t len)
{
	if (len < 1 || len > 63 || p[0] == '-' || p[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_label_char(p[i]))
			return false;
	return true;
}

/* inet_aton(3) takes 2130706433, 0x7f.1 and 127.1; a name whose last label is a number is
 * such an address, or would be taken for one by somebody. */
static bool is_number(const char *p, size_t len)
{
	if (len > 1 && p[0] == '0' && p[1] == 'x')
		return strspn(p + 2, "0123456789abcdef") >= len - 2;
	return strspn(p, "0123456789") >= len;
}

bool egress_name_canonical(char out[EGRESS_NAME_MAX + 1], const char *text, size_t len)
{
	char name[EGRESS_NAME_MAX + 1];
	const char *label = name;

	if (len && text[len - 1] == '.')
		len--;
	if (!len || len > EGRESS_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		name[i] = lower(text[i]);
	name[len] = '\0';
	if (strlen(name) != len)
		return false;
	for (;;) {
		size_t n = strcspn(label, ".");

		if (!is_label(label, n))
			return false;
		if (!label[n])
			break;
		label += n + 1;
	}
	if (is_number(label, strlen(label)))
		return false;
	memcpy(out, name, len + 1);
	return true;
}

/* --- entries ----------------------------------------------------------------------------- */

static int bad(struct entry_error *err, const char *why)
{
	err->why = why;
	return -1;
}

/* "80", "8000-8999" */
static int parse_ports(struct entry *e, const char *text, struct entry_error *err)
{
	char first[8];
	size_t n = strcspn(text, "-");
	uint64_t a, b;

	if (n >= sizeof(first))
		return bad(err, "its port is not a number from 1 to 65535");
	memcpy(first, text, n);
	first[n] = '\0';
	if (num_uint(first, 1, 65535, &a) < 0 ||
	    num_uint(text[n] ? text + n + 1 : first, 1, 65535, &b) < 0)
		return bad(err, "its port is not a number from 1 to 65535");
	if (b < a)
		return bad(err, "its range of ports ends before it begins");
	e->first = (uint16_t)a;
	e->last = (uint16_t)b;
	return 0;
}

static int suggest_net(const struct entry *e, struct entry_error *err)
{
	char text[EGRESS_ADDR_TEXT];

	snprintf(err->hint, sizeof(err->hint), "did you mean %s/%u?",
		 egress_addr_text(&e->addr, text), e->bits);
	return bad(err, "it has bits set beyond its prefix");
}

static bool is_unspecified(const struct entry *e)
{
	static const uint8_t none[16];

	return e->bits && memcmp(e->addr.bytes, none, addr_bits(&e->addr) / 8) == 0;
}

/* 1: a net; 0: no address at all */
static int parse_net(struct entry *e, const char *host, struct entry_error *err)
{
	char text[64];
	size_t n = strcspn(host, "/");
	uint64_t bits;

	if (n >= sizeof(text))
		return 0;
	memcpy(text, host, n);
	text[n] = '\0';
	e->addr = (struct egress_addr){ .family = strchr(text, ':') ? 6 : 4 };
	if (inet_pton(e->addr.family == 4 ? AF_INET : AF_INET6, text, e->addr.bytes) != 1)
		return host[n] ? bad(err, "it is not an address with a prefix") : 0;
	e->kind = ENTRY_NET;
	e->bits = addr_bits(&e->addr);
	if (host[n]) {
		if (num_uint(host + n + 1, 0, e->bits, &bits) < 0)
			return bad(err, "its prefix is not a number of bits");
		e->bits = (unsigned)bits;
	}
	if (e->addr.family == 6 && e->bits >= 96) {
		struct egress_addr v4 = egress_addr_normal(e->addr);

		e->bits -= v4.family == 4 ? 96 : 0;
		e->addr = v4;
	}
	if (addr_mask(&e->addr, e->bits))
		return suggest_net(e, err);
	if (is_unspecified(e))
		return bad(err, "it is the unspecified address: 0.0.0.0/0 and ::/0 mean all");
	return 1;
}

static int parse_name(struct entry *e, const char *host, struct entry_error *err)
{
	const char *name = host;

	e->kind = ENTRY_NAME;
	if (strncmp(host, "*.", 2) == 0) {
		e->kind = ENTRY_BELOW;
		name = host + 2;
	} else if (host[0] == '.') {
		e->kind = ENTRY_TREE;
		name = host + 1;
	}
	for (const char *c = host; *c; c++)
		if ((unsigned char)*c >= 0x80) {
			snprintf(err->hint, sizeof(err->hint),
				 "write it in punycode (xn--...), as DNS has it");
			return bad(err, "it is not ASCII");
		}
	if (strchr(name, '*')) {
		snprintf(err->hint, sizeof(err->hint),
			 "a star stands for whole labels in front: *.example.com; for everything: ALL_TRAFFIC");
		return bad(err, "a star is only allowed as its first label");
	}
	if (!egress_name_canonical(e->name, name, strlen(name)))
		return bad(err, "it is neither a name nor an address");
	if (e->kind != ENTRY_NAME && !strchr(e->name, '.'))
		return bad(err, "it would allow a whole top-level domain");
	return 0;
}

/* "http://host/path", "user@host": what people paste. */
static int check_paste(const char *text, struct entry_error *err)
{
	const char *scheme = strstr(text, "://");
	const char *host = scheme ? scheme + 3 : text, *at = strchr(host, '@');

	if (!scheme && !at)
		return 0;
	host = at ? at + 1 : host;
	snprintf(err->hint, sizeof(err->hint), "give the host alone: %.*s",
		 (int)strcspn(host, "/:?#"), host);
	return bad(err, scheme ? "it is a URL" : "it names a user");
}

/* Cuts "/udp" or "/tcp" off. */
static unsigned take_proto(char *text)
{
	static const struct { const char *suffix; unsigned bit; } protos[] = {
		{ "/udp", PROTO_UDP_BIT }, { "/tcp", PROTO_TCP_BIT },
	};
	size_t len = strlen(text);

	for (size_t i = 0; i < 2; i++)
		if (len > 4 && strcmp(text + len - 4, protos[i].suffix) == 0) {
			text[len - 4] = '\0';
			return protos[i].bit;
		}
	return 0;
}

/* "[::1]:80", "[::1]/64", "host:80": the host alone stays in text; the port's text or NULL.
 * A bare IPv6 address has more than one colon and no port. */
static char *take_port(char *text)
{
	char *colon = strrchr(text, ':'), *close = strchr(text, ']');
	size_t len = strlen(text);

	if (text[0] == '[' && close) {
		char *rest = close + 1;

		colon = strchr(rest, ':');
		if (colon)
			*colon++ = '\0';
		len = strlen(rest);
		memmove(close, rest, len + 1);
		memmove(text, text + 1, strlen(text + 1) + 1);
		return colon;
	}
	if (!colon || strchr(text, ':') != colon || !len)
		return NULL;
	*colon = '\0';
	return colon + 1;
}

static bool is_all(const char *host)
{
	static const char all[] = "all_traffic";
	size_t i = 0;

	while (all[i] && lower(host[i]) == all[i])
		i++;
	return !all[i] && !host[i];
}

static void set_defaults(struct entry *e, bool has_port)
{
	bool is_name = e->kind != ENTRY_NET && e->kind != ENTRY_ALL;

	if (!e->protos)
		e->protos = PROTO_TCP_BIT | (is_name ? 0U : PROTO_UDP_BIT);
	if (has_port)
		return;
	/* With /udp, 80 and 443 of the web (QUIC) are as good as any: only these. */
	e->first = is_name ? 0 : 1;
	e->last = is_name ? 0 : 65535;
}

int entry_parse(struct entry *out, const char *text, bool with_ports,
		struct entry_error *err)
{
	struct entry e = { 0 };
	char host[320], *port;
	int r;

	*err = (struct entry_error){ 0 };
	if (strlen(text) >= sizeof(host))
		return bad(err, "it is too long");
	if (check_paste(text, err) < 0)
		return -1;
	memcpy(host, text, strlen(text) + 1);
	e.protos = with_ports ? take_proto(host) : 0;
	port = with_ports ? take_port(host) : NULL;
	if (port && parse_ports(&e, port, err) < 0)
		return -1;
	if (is_all(host) && with_ports) {
		e.kind = ENTRY_ALL;
	} else {
		r = parse_net(&e, host, err);
		if (r == 0 && !with_ports)
			return bad(err, "it is not an address or CIDR");
		if (r < 0 || (r == 0 && parse_name(&e, host, err) < 0))
			return -1;
	}
	set_defaults(&e, port != NULL);
	*out = e;
	return 0;
}
