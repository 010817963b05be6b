#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

static void before_value(struct json *j)
{
	uint64_t bit = UINT64_C(1) << j->depth;

	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (j->comma & bit)
		buf_char(j->out, ',');
	j->comma |= bit;
}

static void open_level(struct json *j, char opener)
{
	before_value(j);
	buf_char(j->out, opener);
	if (++j->depth >= DEPTH_MAX)
		j->out->failed = true;
	else
		j->comma &= ~(UINT64_C(1) << j->depth);
}

void json_object(struct json *j)
{
	open_level(j, '{');
}

void json_array(struct json *j)
{
	open_level(j, '[');
}

void json_end(struct json *j, char closer)
{
	buf_char(j->out, closer);
	if (j->depth)
		j->depth--;
}

/* By hand: a program may print megabytes of NULs, and each of them comes here. */
static void put_escaped(struct buf *b, unsigned char c)
{
	static const char short_form[] = "btn\0fr"; /* 8..13 */
	static const char digits[] = "0123456789abcdef";
	char out[6] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };
	bool is_short = c == '"' || c == '\\' || (c >= 8 && c <= 13 && short_form[c - 8]);

	if (is_short)
		out[1] = (char)(c == '"' || c == '\\' ? c : short_form[c - 8]);
	buf_add(b, out, is_short ? 2 : sizeof(out));
}

void json_strn(struct json *j, const char *s, size_t len)
{
	size_t at = 0;

	before_value(j);
	buf_char(j->out, '"');
	while (at < len) {
		size_t plain = at;

		while (plain < len && (unsigned char)s[plain] >= 0x20 &&
		       (unsigned char)s[plain] < 0x7f && s[plain] != '"' &&
		       s[plain] != '\\')
			plain++;
		buf_add(j->out, s + at, plain - at);
		at = plain;
		if (at == len)
			break;
		if ((unsigned char)s[at] < 0x80) {
			put_escaped(j->out, (unsigned char)s[at++]);
		} else {
			size_t n = utf8_length(s + at, len - at);

			if (n)
				buf_add(j->out, s + at, n);
			else
				buf_str(j->out, "\xef\xbf\xbd");
			at += n ? n : 1;
		}
	}
	buf_char(j->out, '"');
}

void json_str(struct json *j, const char *s)
{
	if (s)
		json_strn(j, s, strlen(s));
	else
		json_null(j);
}

void json_key(struct json *j, const char *key)
{
	json_str(j, key);
	buf_char(j->out, ':');
	j->after_key = true;
}

void json_int(struct json *j, int64_t v)
{
	before_value(j);
	buf_fmt(j->out, "%lld", (long long)v);
}

void json_uint(struct json *j, uint64_t v)
{
	before_value(j);
	buf_fmt(j->out, "%llu", (unsigned long long)v);
}

void json_ms(struct json *j, uint64_t microseconds)
{
	before_value(j);
	buf_fmt(j->out, "%llu.%03u", (unsigned long long)(microseconds / 1000),
		(unsigned)(microseconds % 1000));
}

void json_bool(struct json *j, bool v)
{
	json_raw(j, v ? "true" : "false");
}

void json_null(struct json *j)
{
	json_raw(j, "null");
}

void json_raw(struct json *j, const char *text)
{
	before_value(j);
	buf_str(j->out, text);
}

void json_kstr(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_kint(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_int(j, v);
}

void json_kuint(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_uint(j, v);
}

void json_kbool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}

void json_knull(struct json *j, const char *key)
{
	json_key(j, key);
	json_null(j);
}
