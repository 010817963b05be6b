/*
 * Writing JSON onto a buf: RFC 8259, one line, commas placed by the writer.
 * Strings must be UTF-8; bytes that are not come out as U+FFFD. Integers beyond
 * 2^53 are written as they are. Nesting is limited to 32 levels (more: failed).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

struct json {
	struct buf *out;
	unsigned depth;
	uint64_t comma;	/* one bit a level: something was written there */
	bool after_key;
};
#define JSON_INIT(buffer) { .out = (buffer) }

/* jansson has functions of these names: a program that links both libraries must
 * get the right one, so ours have linker names of their own. */
void json_object(struct json *j) __asm__("nsbox_json_object");
void json_array(struct json *j) __asm__("nsbox_json_array");
void json_end(struct json *j, char closer);	/* '}' or ']' */
void json_key(struct json *j, const char *key);
void json_str(struct json *j, const char *s);	/* NULL: null */
void json_strn(struct json *j, const char *s, size_t len);
void json_int(struct json *j, int64_t v);
void json_uint(struct json *j, uint64_t v);
void json_ms(struct json *j, uint64_t microseconds);	/* 12345 -> 12.345 */
void json_bool(struct json *j, bool v);
void json_null(struct json *j) __asm__("nsbox_json_null");
void json_raw(struct json *j, const char *text);	/* already JSON */

/* key and value in one call */
void json_kstr(struct json *j, const char *key, const char *s);
void json_kint(struct json *j, const char *key, int64_t v);
void json_kuint(struct json *j, const char *key, uint64_t v);
void json_kbool(struct json *j, const char *key, bool v);
void json_knull(struct json *j, const char *key);

#endif
