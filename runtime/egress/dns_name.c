/*
 * dns_name.c - names in DNS messages. See dns_wire.h. Runs in the supervisor; pure.
 *
 * Must: end on any input, and read no byte of a message twice for one name. A pointer leads
 * to before the place where this part of the name began, and the part there ends before it.
 */
#include "runtime/egress/dns_wire.h"

#include <string.h>

enum { LABEL_MAX = 63, POINTER = 0xc0 };

/* One label to the end of the name. */
static bool take_label(struct dns_name *n, const uint8_t *label)
{
	size_t size = 1 + (size_t)label[0];

	if (n->len + size > DNS_NAME_WIRE)
		return false;
	memcpy(n->wire + n->len, label, size);
	n->len = (uint8_t)(n->len + size);
	return true;
}

/* Where the pointer at `pos` leads; 0: nowhere (there is the header). */
static size_t follow(const uint8_t *p, size_t pos, size_t begin)
{
	size_t target = (size_t)(p[pos] & LABEL_MAX) << 8 | p[pos + 1];

	return target >= DNS_HEADER && target < begin ? target : 0;
}

bool dns_name_read(struct dns_name *out, const uint8_t *p, size_t len, size_t *at)
{
	size_t pos = *at, begin = *at, end = 0; /* of this part; of what *at passes */
	size_t limit = len;

	out->len = 0;
	while (pos < limit) {
		bool is_pointer = (p[pos] & POINTER) == POINTER;
		size_t size = is_pointer ? 2 : 1 + (size_t)p[pos];

		if (size > limit - pos || (!is_pointer && p[pos] > LABEL_MAX))
			return false;
		if (is_pointer) {
			end = end ? end : pos + 2;
			limit = begin; /* what it leads to has ended before this part */
			pos = follow(p, pos, begin);
			begin = pos;
			if (!pos)
				return false;
			continue;
		}
		if (!take_label(out, p + pos))
			return false;
		pos += size;
		if (size == 1) {
			*at = end ? end : pos;
			return true;
		}
	}
	return false;
}

/* Printable, and not what text takes for something else. */
static bool is_plain(uint8_t c)
{
	return c > ' ' && c < 0x7f && c != '.' && c != '\\';
}

bool dns_name_text(char out[EGRESS_NAME_MAX + 1], const struct dns_name *n)
{
	size_t len = 0;

	for (size_t at = 0; n->wire[at]; at += 1 + (size_t)n->wire[at]) {
		if (at)
			out[len++] = '.';
		for (size_t i = 1; i <= n->wire[at]; i++) {
			if (!is_plain(n->wire[at + i]))
				return false;
			out[len++] = (char)n->wire[at + i];
		}
	}
	out[len] = '\0';
	return true;
}

bool dns_name_set(struct dns_name *out, const char *text)
{
	uint8_t label[1 + LABEL_MAX];

	out->len = 0;
	while (*text) {
		size_t n = strcspn(text, ".");

		if (n == 0 || n > LABEL_MAX)
			return false;
		label[0] = (uint8_t)n;
		memcpy(label + 1, text, n);
		if (!take_label(out, label))
			return false;
		text += n;
		text += *text == '.';
	}
	return take_label(out, (const uint8_t *)"");
}

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* A length byte is at most 63 and so never a letter. */
bool dns_name_equal(const struct dns_name *a, const struct dns_name *b)
{
	if (a->len != b->len)
		return false;
	for (size_t i = 0; i < a->len; i++)
		if (lower(a->wire[i]) != lower(b->wire[i]))
			return false;
	return true;
}

void dns_name_mix(struct dns_name *n, const uint8_t random[(DNS_NAME_WIRE + 7) / 8])
{
	for (size_t i = 0; i < n->len; i++) {
		uint8_t c = lower(n->wire[i]);

		if (c >= 'a' && c <= 'z')
			n->wire[i] = random[i / 8] >> i % 8 & 1 ? (uint8_t)(c & ~0x20) : c;
	}
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "0" to "255" without a leading zero, up to the next dot, which is passed. */
static int decimal_label(const char **at)
{
	const char *s = *at;
	int v = 0;

	if (s[0] == '0' && s[1] != '.')
		return -1;
	for (; *s >= '0' && *s <= '9' && s - *at < 3; s++)
		v = 10 * v + (*s - '0');
	if (s == *at || *s != '.' || v > 255)
		return -1;
	*at = s + 1;
	return v;
}

static bool reverse4(struct egress_addr *out, const char *name)
{
	*out = (struct egress_addr){ .family = 4 };
	for (int i = 3; i >= 0; i--) {
		int v = decimal_label(&name);

		if (v < 0)
			return false;
		out->bytes[i] = (uint8_t)v;
	}
	return strcmp(name, "in-addr.arpa") == 0;
}

bool dns_reverse(struct egress_addr *out, const char *name)
{
	if (reverse4(out, name))
		return true;
	*out = (struct egress_addr){ .family = 6 };
	for (int i = 31; i >= 0; i--, name += 2) {
		int v = hex_digit(name[0]);

		if (v < 0 || name[1] != '.')
			return false;
		out->bytes[i / 2] |= (uint8_t)(i % 2 ? v : v << 4);
	}
	return strcmp(name, "ip6.arpa") == 0;
}
