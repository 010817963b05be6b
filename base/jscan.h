/*
 * Reading JSON where it lies: one pass says whether a text is RFC 8259 and how deep it
 * is, and everything after that is a cut out of the text. No tree is built, so that a
 * frame of ten million "[]," costs what its bytes cost, and a value that is only passed
 * on is passed on as it was written.
 */
#ifndef BASE_JSCAN_H
#define BASE_JSCAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One value without the blanks around it. p NULL: there is none. */
struct jscan {
	const char *p;
	size_t len;
};

enum jscan_kind { JSCAN_NONE, JSCAN_NULL, JSCAN_BOOL, JSCAN_NUMBER, JSCAN_STRING, JSCAN_ARRAY,
		  JSCAN_OBJECT };

/* Levels of [ and {, one bit each: what a message may have, and what can be counted. */
#define JSCAN_DEPTH_MAX 64
#define JSCAN_LEVELS 512

/*
 * Is @data one JSON value in UTF-8, not deeper than JSCAN_DEPTH_MAX? *out is then the
 * value. NSBOX_E_USAGE otherwise, with the byte. The functions below want a value that
 * came out of here.
 */
int jscan_check(struct jscan *out, const char *data, size_t len, struct nsbox_error *err);
/* The same with another depth, up to JSCAN_LEVELS. */
int jscan_check_deep(struct jscan *out, const char *data, size_t len, unsigned max_depth,
		     struct nsbox_error *err);

enum jscan_kind jscan_kind(struct jscan v);
const char *jscan_kind_name(enum jscan_kind kind);	/* "a list" */

/* The next member of an object or item of a list: *at from 0; false at the end. @key is
 * a string with its quotes, or absent in a list. */
bool jscan_next(struct jscan in, size_t *at, struct jscan *key, struct jscan *value);

/*
 * The characters of a string, *out malloc'ed and NUL-terminated, *len bytes. A surrogate
 * without its partner is no character: NSBOX_E_USAGE, or with @loose the three bytes
 * that Python's "surrogatepass" makes of it.
 */
int jscan_string(struct jscan v, bool loose, char **out, size_t *len, struct nsbox_error *err);

/* Digits alone, at most @max. */
bool jscan_uint(struct jscan v, uint64_t max, uint64_t *out);

#endif
