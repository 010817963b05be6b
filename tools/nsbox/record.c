/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See record.h. Runs in the command, after the box. Must stay inside the text
 * even where it is malformed: every step stops at the NUL.
 */
#include "tools/nsbox/record.h"

#include <string.h>

static const char *blank(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1])
			p++;
	}
	return *p ? p + 1 : p;
}

/* Behind one value of any kind; depth by counting, strings skipped whole. */
static const char *skip_value(const char *p)
{
	unsigned depth = 0;

	p = blank(p);
	while (*p) {
		if (*p == '"') {
			p = skip_string(p);
		} else if (*p == '{' || *p == '[') {
			depth++;
			p++;
		} else if (*p == '}' || *p == ']') {
			if (depth == 0)
				return p;
			depth--;
			p++;
		} else if (depth == 0) {
			return p + strcspn(p, ",]} \t\r\n");
		} else {
			p++;
		}
		if (depth == 0)
			return p;
	}
	return p;
}

const char *record_field(const char *json, const char *key)
{
	size_t len = strlen(key);
	const char *p = blank(json);

	if (*p != '{')
		return NULL;
	p = blank(p + 1);
	while (*p == '"') {
		const char *name = p + 1, *value;

		p = blank(skip_string(p));
		if (*p != ':')
			return NULL;
		value = blank(p + 1);
		if (strncmp(name, key, len) == 0 && name[len] == '"')
			return value;
		p = blank(skip_value(value));
		if (*p != ',')
			return NULL;
		p = blank(p + 1);
	}
	return NULL;
}

const char *record_item(const char *array, size_t i)
{
	const char *p;

	if (!array || *array != '[')
		return NULL;
	p = blank(array + 1);
	if (*p == ']')
		return NULL;
	while (i-- > 0) {
		p = blank(skip_value(p));
		if (*p != ',')
			return NULL;
		p = blank(p + 1);
	}
	return *p ? p : NULL;
}

bool record_true(const char *value)
{
	return value && strncmp(value, "true", 4) == 0;
}

bool record_uint(const char *value, uint64_t *out)
{
	uint64_t n = 0;

	if (!value || *value < '0' || *value > '9')
		return false;
	for (; *value >= '0' && *value <= '9'; value++) {
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*value - '0'), &n))
			return false;
	}
	*out = n;
	return true;
}

const char *record_text(const char *value, char *out, size_t size)
{
	static const char from[] = "ntrbf", to[] = "\n\t\r\b\f";
	size_t at = 0;

	out[0] = '\0';
	if (!value || *value != '"')
		return out;
	for (const char *p = value + 1; *p && *p != '"' && at + 1 < size; p++) {
		const char *escape;

		if (*p != '\\' || !p[1]) {
			out[at++] = *p;
			continue;
		}
		p++;
		escape = strchr(from, *p);
		if (*p == 'u') { /* nothing printable is written that way */
			out[at++] = '?';
			p += strspn(p + 1, "0123456789abcdefABCDEF") < 4 ? 0 : 4;
		} else {
			out[at++] = escape ? to[escape - from] : *p;
		}
	}
	out[at] = '\0';
	return out;
}
