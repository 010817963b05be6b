/*
 * The only place where text becomes a number. Every call takes the whole text:
 * trailing junk, a sign, an empty string, overflow or a value out of
 * [min, max] is -1 and *out is untouched. Fractions (at most 9 digits) round down,
 * but never to zero.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdint.h>

int num_uint(const char *s, uint64_t min, uint64_t max, uint64_t *out);

/* "512", "64K", "1.5G", "2GiB", "3MB" (powers of 1024); K M G T P, any case. */
int num_size(const char *s, uint64_t min, uint64_t max, uint64_t *out);

/* "2", "0.5" (seconds), "500ms", "250us", "2m", "1h", "1d"; result in µs. */
int num_time(const char *s, uint64_t min_us, uint64_t max_us, uint64_t *out_us);

/* "1", "0.25", "2.5": a share of a core; result in thousandths. */
int num_share(const char *s, uint64_t min, uint64_t max, uint64_t *out_milli);

/* A whole number with the largest unit that fits, a share with its decimals: text
 * that parses back to the same value. text has room for >= 32 bytes. */
const char *num_size_text(uint64_t bytes, char *text);
const char *num_time_text(uint64_t us, char *text);
const char *num_share_text(uint64_t milli, char *text);

#endif
