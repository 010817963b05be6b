#include "base/utf8.h"

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t utf8_length(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (!len)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (len < n)
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0; /* overlong */
	else if (s[0] == 0xed)
		high = 0x9f; /* surrogates */
	else if (s[0] == 0xf0)
		low = 0x90; /* overlong */
	else if (s[0] == 0xf4)
		high = 0x8f; /* above U+10FFFF */
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (!is_tail(s[i]))
			return 0;
	return n;
}

bool utf8_valid(const char *s, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = utf8_length(s + at, len - at);

		if (!n)
			return false;
		at += n;
	}
	return true;
}

/* Start of the character that covers byte `at`, or `at` when none does. */
static size_t start_of(const char *s, size_t len, size_t at)
{
	for (size_t back = 1; back <= 3 && back <= at; back++) {
		size_t from = at - back;

		if (is_tail((unsigned char)s[from]))
			continue;
		return utf8_length(s + from, len - from) > back ? from : at;
	}
	return at;
}

size_t utf8_cut_before(const char *s, size_t len, size_t want)
{
	if (want >= len)
		return len;
	return is_tail((unsigned char)s[want]) ? start_of(s, len, want) : want;
}

size_t utf8_cut_after(const char *s, size_t len, size_t want)
{
	size_t start;

	if (want >= len)
		return len;
	start = utf8_cut_before(s, len, want);
	return start == want ? want : start + utf8_length(s + start, len - start);
}

void base64_add(struct buf *b, const void *data, size_t len)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *s = data;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t v = (uint32_t)s[i] << 16;
		char out[4];

		if (left > 1)
			v |= (uint32_t)s[i + 1] << 8;
		if (left > 2)
			v |= s[i + 2];
		out[0] = set[v >> 18];
		out[1] = set[(v >> 12) & 63];
		out[2] = left > 1 ? set[(v >> 6) & 63] : '=';
		out[3] = left > 2 ? set[v & 63] : '=';
		buf_add(b, out, 4);
	}
}

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(char *text, size_t *len)
{
	size_t n = *len, at = 0;
	uint32_t bits = 0;
	unsigned held = 0;

	for (int i = 0; i < 2 && n > 0 && text[n - 1] == '='; i++)
		n--;
	if ((*len != n && *len % 4) || n % 4 == 1)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int six = sextet(text[i]);

		if (six < 0)
			return -1;
		bits = bits << 6 | (uint32_t)six;
		held += 6;
		if (held >= 8) {
			held -= 8;
			text[at++] = (char)(bits >> held);
		}
	}
	text[at] = '\0';
	*len = at;
	return 0;
}
