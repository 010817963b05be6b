/*
 * Names and addresses of egress rules as text. Pure.
 *
 * Must: have one canonical form of a name, and refuse what two readers could take for two
 * things: an address in disguise, a NUL, another alphabet.
 */
#include "policy/egress_entry.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <string.h>

/* --- addresses ------------------------------------------------------------------------ */

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
	struct egress_addr was = *a;
	unsigned at = bits / 8, size = addr_bits(a) / 8;

	if (at < size) {
		a->bytes[at] = (uint8_t)(a->bytes[at] & ~(0xff >> bits % 8));
		memset(a->bytes + at + 1, 0, size - at - 1);
	}
	return memcmp(was.bytes, a->bytes, size) != 0;
}

bool addr_has_prefix(const struct egress_addr *a, const struct egress_addr *net,
		     unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (a->family != net->family || memcmp(a->bytes, net->bytes, whole) != 0)
		return false;
	return !rest || (a->bytes[whole] ^ net->bytes[whole]) >> (8 - rest) == 0;
}

bool addr_parse(struct egress_addr *out, const char *text)
{
	struct egress_addr a = { .family = strchr(text, ':') ? 6 : 4 };

	if (inet_pton(a.family == 4 ? AF_INET : AF_INET6, text, a.bytes) != 1)
		return false;
	*out = a;
	return true;
}

/* A part of inet_aton(3): decimal, 0octal or 0xhex. Moves on to what follows it. */
static bool loose_part(const char **text, uint64_t *out)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = *text;
	unsigned base = 10;
	uint64_t v = 0;
	bool any = false;

	if (p[0] == '0') {
		base = p[1] == 'x' || p[1] == 'X' ? 16 : 8;
		p += base == 16 ? 2 : 1;
		any = base == 8;
	}
	for (; *p && *p != '.'; p++, any = true) {
		char c = *p >= 'A' && *p <= 'F' ? (char)(*p - 'A' + 'a') : *p;
		const char *digit = strchr(digits, c);

		if (!digit || (unsigned)(digit - digits) >= base || v > UINT32_MAX)
			return false;
		v = v * base + (unsigned)(digit - digits);
	}
	*text = p;
	*out = v;
	return any && v <= UINT32_MAX;
}

bool addr_parse_loose(struct egress_addr *out, const char *text)
{
	struct egress_addr a = { .family = 4 };
	uint64_t part, value = 0;
	unsigned n = 0;

	for (;;) {
		if (n == 4 || !loose_part(&text, &part))
			return false;
		n++;
		if (!*text)
			break;
		text++;
		if (part > 255)
			return false;
		value |= part << (32 - 8 * n);
	}
	if (part >> (40 - 8 * n)) /* the last part fills what is left */
		return false;
	value |= part;
	for (unsigned i = 0; i < 4; i++)
		a.bytes[i] = (uint8_t)(value >> (24 - 8 * i));
	*out = a;
	return true;
}

/* --- names ---------------------------------------------------------------------------- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
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

/* inet_aton(3) takes 2130706433, 0x7f.1 and 127.1: a name whose last label is a number is
 * such an address, or would be taken for one by somebody (WHATWG URL: "ends in a number"). */
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
