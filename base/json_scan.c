/* See json_scan.h. One pass with a bit a level: 1 in an object, 0 in an array. */
#include "base/json_scan.h"

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

struct scan {
	const char *at, *end;
	unsigned depth, max_depth;
	uint8_t is_object[JSON_SCAN_DEPTH_MAX / 8];
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct scan *s)
{
	while (s->at < s->end && is_space(*s->at))
		s->at++;
}

static bool take(struct scan *s, char c)
{
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

static bool is_digit(const struct scan *s)
{
	return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

static bool take_digits(struct scan *s)
{
	if (!is_digit(s))
		return false;
	while (is_digit(s))
		s->at++;
	return true;
}

static bool take_number(struct scan *s)
{
	(void)take(s, '-');
	if (!take(s, '0') && !take_digits(s))
		return false;
	if (take(s, '.') && !take_digits(s))
		return false;
	if (take(s, 'e') || take(s, 'E')) {
		if (!take(s, '+'))
			(void)take(s, '-');
		return take_digits(s);
	}
	return true;
}

static bool take_hex(struct scan *s, unsigned count)
{
	for (; count; count--, s->at++)
		if (s->at == s->end || !*s->at || !strchr("0123456789abcdefABCDEF", *s->at))
			return false;
	return true;
}

static bool take_escape(struct scan *s)
{
	char c = s->at < s->end ? *s->at++ : '\0';

	if (c == 'u')
		return take_hex(s, 4);
	return c && strchr("\"\\/bfnrt", c);
}

static bool take_string(struct scan *s)
{
	if (!take(s, '"'))
		return false;
	while (s->at < s->end) {
		size_t n = utf8_length(s->at, (size_t)(s->end - s->at));

		if (take(s, '"'))
			return true;
		if (!n || (unsigned char)*s->at < 0x20)
			return false;
		s->at += n;
		if (s->at[-1] == '\\' && !take_escape(s))
			return false;
	}
	return false;
}

static bool take_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
		return false;
	s->at += n;
	return true;
}

static bool take_scalar(struct scan *s)
{
	switch (s->at < s->end ? *s->at : '\0') {
	case '"':
		return take_string(s);
	case 't':
		return take_word(s, "true");
	case 'f':
		return take_word(s, "false");
	case 'n':
		return take_word(s, "null");
	default:
		return take_number(s);
	}
}

static bool is_in_object(const struct scan *s)
{
	unsigned level = s->depth - 1;

	return s->is_object[level / 8] & 1u << level % 8;
}

static bool open_level(struct scan *s, bool is_object)
{
	unsigned level = s->depth, bit = 1u << level % 8;

	if (level == s->max_depth)
		return false;
	s->is_object[level / 8] = (uint8_t)(is_object ? s->is_object[level / 8] | bit
						      : s->is_object[level / 8] & ~bit);
	s->depth++;
	return true;
}

/* "key": of an object, nothing in an array. */
static bool take_key(struct scan *s)
{
	if (!s->depth || !is_in_object(s))
		return true;
	skip_space(s);
	if (!take_string(s))
		return false;
	skip_space(s);
	return take(s, ':');
}

/* What closes the levels that end here; then a comma and the next key, or the end. */
static bool take_after(struct scan *s, bool *is_over)
{
	for (;;) {
		skip_space(s);
		if (!s->depth) {
			*is_over = true;
			return s->at == s->end;
		}
		if (take(s, ','))
			return take_key(s);
		if (!take(s, is_in_object(s) ? '}' : ']'))
			return false;
		s->depth--;
	}
}

bool json_is_valid(const char *text, size_t len, unsigned max_depth)
{
	struct scan s = { .at = text, .end = text + len, .max_depth = max_depth };
	bool is_over = false, is_object;

	if (max_depth > JSON_SCAN_DEPTH_MAX)
		return false;
	while (!is_over) {
		skip_space(&s);
		is_object = s.at < s.end && *s.at == '{';
		if (is_object || (s.at < s.end && *s.at == '[')) {
			s.at++;
			if (!open_level(&s, is_object))
				return false;
			skip_space(&s);
			if (!(s.at < s.end && *s.at == (is_object ? '}' : ']'))) {
				if (!take_key(&s))
					return false;
				continue;
			}
		} else if (!take_scalar(&s)) {
			return false;
		}
		if (!take_after(&s, &is_over))
			return false;
	}
	return true;
}
