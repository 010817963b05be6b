/*
 * A number as text with system calls only in mind: no stdio, no locale, usable
 * between fork and exec. `to` has room for 20 digits; returns the end, no NUL.
 */
#ifndef RUNTIME_DECIMAL_H
#define RUNTIME_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

static inline char *decimal_put(char *to, uint64_t v)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*to++ = digits[--n];
	return to;
}

#endif
