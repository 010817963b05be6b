/*
 * Is a text that somebody else wrote one JSON value (RFC 8259)? Nothing is kept and
 * nothing recurses, so the text may be hostile.
 */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum { JSON_SCAN_DEPTH_MAX = 1024 };

/* UTF-8 throughout, white space around it is fine, at most @max_depth levels of nesting
 * (up to JSON_SCAN_DEPTH_MAX). */
bool json_is_valid(const char *text, size_t len, unsigned max_depth);

#endif
