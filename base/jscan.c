/* Mustn't recurse: the depth is the writer's. */
#include "base/jscan.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

/* --- is it JSON? ------------------------------------------------------------- */

struct scan {
	const char *start, *p, *end;
	uint64_t objects[JSCAN_LEVELS / 64]; /* one bit a level: it is an object */
	unsigned depth, max_depth;
	const char *wrong;	/* what was not there */
};

static const char *blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

static bool fail(struct scan *s, const char *wrong)
{
	s->wrong = wrong;
	return false;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits at @p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
	int32_t v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int d = hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

static bool scan_escape(struct scan *s)
{
	if (s->p + 1 >= s->end)
		return fail(s, "a string has no end");
	if (s->p[1] == 'u') {
		if (hex4(s->p + 2, s->end) < 0)
			return fail(s, "\\u without four hexadecimal digits");
		s->p += 6;
		return true;
	}
	/* Not strchr(): a NUL would be found. */
	if (!memchr("\"\\/bfnrt", s->p[1], 8))
		return fail(s, "an unknown escape");
	s->p += 2;
	return true;
}

static bool scan_string(struct scan *s)
{
	for (s->p++; s->p < s->end && *s->p != '"';) {
		if ((unsigned char)*s->p < 0x20)
			return fail(s, "a control character in a string");
		if (*s->p != '\\')
			s->p++;
		else if (!scan_escape(s))
			return false;
	}
	if (s->p >= s->end)
		return fail(s, "a string has no end");
	s->p++;
	return true;
}

static bool scan_digits(struct scan *s)
{
	const char *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > from ? true : fail(s, "no digit");
}

static bool scan_number(struct scan *s)
{
	if (*s->p == '-')
		s->p++;
	if (s->p < s->end && *s->p == '0')
		s->p++; /* nothing may follow a leading zero */
	else if (!scan_digits(s))
		return false;
	if (s->p < s->end && *s->p == '.') {
		s->p++;
		if (!scan_digits(s))
			return false;
	}
	if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
		s->p++;
		if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
			s->p++;
		return scan_digits(s);
	}
	return true;
}

static bool scan_scalar(struct scan *s)
{
	static const char *const words[] = { "true", "false", "null" };

	if (s->p >= s->end)
		return fail(s, "a value is missing");
	if (*s->p == '"')
		return scan_string(s);
	if (*s->p == '-' || (*s->p >= '0' && *s->p <= '9'))
		return scan_number(s);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i]);

		if ((size_t)(s->end - s->p) >= len && memcmp(s->p, words[i], len) == 0) {
			s->p += len;
			return true;
		}
	}
	return fail(s, "no value");
}

static bool scan_key(struct scan *s)
{
	s->p = blanks(s->p, s->end);
	if (s->p >= s->end || *s->p != '"')
		return fail(s, "a key in quotes is missing");
	if (!scan_string(s))
		return false;
	s->p = blanks(s->p, s->end);
	if (s->p >= s->end || *s->p != ':')
		return fail(s, "':' is missing");
	s->p++;
	return true;
}

static bool in_object(const struct scan *s)
{
	unsigned level = s->depth - 1;

	return s->objects[level / 64] >> level % 64 & 1;
}

/* Into a container. *open: it has something in it, and its first value comes next. */
static bool scan_open(struct scan *s, bool *open)
{
	bool is_object = *s->p == '{';
	uint64_t *word = &s->objects[s->depth / 64];

	if (s->depth == s->max_depth)
		return fail(s, "nested too deep");
	*word &= ~(UINT64_C(1) << s->depth % 64);
	*word |= (uint64_t)is_object << s->depth % 64;
	s->depth++;
	s->p = blanks(s->p + 1, s->end);
	*open = s->p >= s->end || *s->p != (is_object ? '}' : ']');
	return !*open || !is_object || scan_key(s);
}

/* Behind a value: out of what ends here. *more: another value comes. */
static bool scan_after(struct scan *s, bool *more)
{
	*more = false;
	while (s->depth > 0) {
		bool is_object = in_object(s);

		s->p = blanks(s->p, s->end);
		if (s->p >= s->end)
			return fail(s, is_object ? "'}' is missing" : "']' is missing");
		if (*s->p == ',') {
			s->p++;
			*more = true;
			return !is_object || scan_key(s);
		}
		if (*s->p != (is_object ? '}' : ']'))
			return fail(s, "',' is missing");
		s->p++;
		s->depth--;
	}
	return true;
}

static bool scan_value(struct scan *s)
{
	bool more = true;

	while (more) {
		bool is_open = false;

		s->p = blanks(s->p, s->end);
		if (s->p < s->end && (*s->p == '{' || *s->p == '[')) {
			if (!scan_open(s, &is_open))
				return false;
			if (is_open)
				continue;
		} else if (!scan_scalar(s)) {
			return false;
		}
		if (!scan_after(s, &more))
			return false;
	}
	return true;
}

int jscan_check(struct jscan *out, const char *data, size_t len, struct nsbox_error *err)
{
	return jscan_check_deep(out, data, len, JSCAN_DEPTH_MAX, err);
}

int jscan_check_deep(struct jscan *out, const char *data, size_t len, unsigned max_depth,
		     struct nsbox_error *err)
{
	const char *from = blanks(data, data + len), *end;
	struct scan s = { .start = data, .p = from, .end = data + len, .max_depth = max_depth };

	if (max_depth > JSCAN_LEVELS)
		return err_set(err, NSBOX_E_USAGE, "%u levels are more than can be counted", max_depth);
	if (!utf8_valid(data, len))
		return err_set(err, NSBOX_E_USAGE, "not UTF-8");
	if (!scan_value(&s))
		return err_set(err, NSBOX_E_USAGE, "not JSON at byte %zu: %s",
				(size_t)(s.p - data), s.wrong);
	end = s.p;
	if (blanks(end, s.end) != s.end)
		return err_set(err, NSBOX_E_USAGE, "not JSON at byte %zu: more than one value",
				(size_t)(blanks(end, s.end) - data));
	*out = (struct jscan){ from, (size_t)(end - from) };
	return 0;
}

/* --- values of a text that is JSON ------------------------------------------------ */

enum jscan_kind jscan_kind(struct jscan v)
{
	if (!v.p)
		return JSCAN_NONE;
	switch (*v.p) {
	case '{':
		return JSCAN_OBJECT;
	case '[':
		return JSCAN_ARRAY;
	case '"':
		return JSCAN_STRING;
	case 't':
	case 'f':
		return JSCAN_BOOL;
	case 'n':
		return JSCAN_NULL;
	default:
		return JSCAN_NUMBER;
	}
}

const char *jscan_kind_name(enum jscan_kind kind)
{
	static const char *const names[] = {
		[JSCAN_NONE] = "nothing",	  [JSCAN_NULL] = "null",	 [JSCAN_BOOL] = "true or false",
		[JSCAN_NUMBER] = "a number",  [JSCAN_STRING] = "a string", [JSCAN_ARRAY] = "a list",
		[JSCAN_OBJECT] = "an object",
	};

	return names[kind];
}

static const char *behind_string(const char *p)
{
	for (p++; *p != '"'; p++) {
		if (*p == '\\')
			p++;
	}
	return p + 1;
}

static const char *behind_value(const char *p, const char *end)
{
	unsigned depth = 0;

	do {
		char c = *p;

		if (c == '"') {
			p = behind_string(p);
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if (c == '}' || c == ']')
			depth--;
		else if (depth == 0)
			return p + strcspn(p, ",]} \t\r\n");
		p++;
	} while (depth > 0 && p < end);
	return p;
}

static struct jscan cut(const char *p, const char *end)
{
	return (struct jscan){ p, (size_t)(behind_value(p, end) - p) };
}

bool jscan_next(struct jscan in, size_t *at, struct jscan *key, struct jscan *value)
{
	bool is_object = jscan_kind(in) == JSCAN_OBJECT;
	const char *end = in.p + in.len, *p;

	if (!is_object && jscan_kind(in) != JSCAN_ARRAY)
		return false;
	p = blanks(in.p + (*at ? *at : 1), end);
	if (*p == ',')
		p = blanks(p + 1, end);
	if (*p == '}' || *p == ']')
		return false;
	*key = (struct jscan){ NULL, 0 };
	if (is_object) {
		*key = cut(p, end);
		p = blanks(p + key->len, end);
		p = blanks(p + 1, end); /* ':' */
	}
	*value = cut(p, end);
	*at = (size_t)(value->p + value->len - in.p);
	return true;
}

/* --- strings -------------------------------------------------------------------------- */

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* The character of the escape at *p, which then is behind it. */
static uint32_t take_escape(const char **p, const char *end)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *short_form = strchr(from, (*p)[1]);
	int32_t c, low;

	if ((*p)[1] != 'u') {
		char plain = short_form ? to[short_form - from] : (*p)[1];

		*p += 2;
		return (unsigned char)plain;
	}
	c = hex4(*p + 2, end);
	*p += 6;
	if (c < 0xd800 || c > 0xdbff || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
		return (uint32_t)c;
	low = hex4(*p + 2, end);
	if (low < 0xdc00 || low > 0xdfff)
		return (uint32_t)c;
	*p += 6;
	return 0x10000 + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

int jscan_string(struct jscan v, bool loose, char **out, size_t *len, struct nsbox_error *err)
{
	const char *p = v.p + 1, *end = v.p + v.len - 1;
	owned_mem char *text = malloc(v.len); /* no escape is shorter than its character */
	size_t at = 0;

	if (!text)
		return err_nomem(err);
	while (p < end) {
		uint32_t c;

		if (*p != '\\') {
			text[at++] = *p++;
			continue;
		}
		c = take_escape(&p, end);
		if (!loose && c >= 0xd800 && c <= 0xdfff)
			return err_set(err, NSBOX_E_USAGE,
					"\\u%04x is half of a character: a surrogate without its "
					"partner", (unsigned)c);
		at += put_utf8(text + at, c);
	}
	text[at] = '\0';
	*len = at;
	*out = text;
	text = NULL;
	return 0;
}

bool jscan_uint(struct jscan v, uint64_t max, uint64_t *out)
{
	uint64_t n = 0;

	if (!v.len)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(v.p[i] - '0'), &n))
			return false;
	}
	if (n > max)
		return false;
	*out = n;
	return true;
}
