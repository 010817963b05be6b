/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading fields of the result record (nsbox_result_json) for which the library
 * has no getter. The text is the library's own and well-formed; what is in its
 * strings is the program's.
 */
#ifndef NSBOX_RECORD_H
#define NSBOX_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of @key in the object at @json, or NULL. */
const char *record_field(const char *json, const char *key);
/* Item @i of the array at @array, or NULL. */
const char *record_item(const char *array, size_t i);

bool record_true(const char *value);	/* NULL: false */
/* A whole number, or false: absent, null, something else. */
bool record_uint(const char *value, uint64_t *out);
/* The string at @value, unescaped and cut to size; "" when it is none. */
const char *record_text(const char *value, char *out, size_t size);

#endif
