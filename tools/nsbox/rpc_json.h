/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON where it lies: one pass says whether a text is RFC 8259 and how deep it
 * is, and everything after that is a cut out of the text. No tree is built, so a frame
 * of ten million "[]," costs what its bytes cost, and a value that is only passed on
 * (a kernel's code, its typed values) is passed on as it was written.
 *
 * Runs in `nsbox rpc`. Must take any bytes: they are a client's.
 */
#ifndef NSBOX_RPC_JSON_H
#define NSBOX_RPC_JSON_H

#include "nsbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One value without the blanks around it. p NULL: there is none. */
struct jtext {
	const char *p;
	size_t len;
};

enum jkind { J_NONE, J_NULL, J_BOOL, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

/* At most 64 levels of [ and {: one bit each. */
#define JTEXT_DEPTH_MAX 64

/*
 * Is @data one JSON value in UTF-8, not deeper than JTEXT_DEPTH_MAX? *out is then the
 * value. NSBOX_E_USAGE otherwise, with the byte. The functions below want a value that
 * came out of here.
 */
int jtext_check(struct jtext *out, const char *data, size_t len, struct nsbox_error *err);

enum jkind jtext_kind(struct jtext v);
const char *jtext_kind_name(enum jkind kind);	/* "a list" */

/* The next member of an object or item of a list: *at from 0; false at the end. @key is
 * a string's text, or absent in a list. */
bool jtext_next(struct jtext in, size_t *at, struct jtext *key, struct jtext *value);

/*
 * The characters of a string, *out malloc'ed and NUL-terminated, *len bytes. A surrogate
 * without its partner is no character: NSBOX_E_USAGE, or with @loose the three bytes
 * that Python's "surrogatepass" makes of it, for an interpreter to judge.
 */
int jtext_string(struct jtext v, bool loose, char **out, size_t *len, struct nsbox_error *err);

/* A string that names something: on one line, and short enough; else false. */
bool jtext_word(struct jtext v, char *out, size_t size);

/* Digits alone, at most @max. */
bool jtext_uint(struct jtext v, uint64_t max, uint64_t *out);
bool jtext_true(struct jtext v);

/* What a string of RFC 4648 base64 holds; padding is optional, blanks are not taken. */
int jtext_base64(struct jtext v, char **out, size_t *len, struct nsbox_error *err);

#endif
