/*
 * Text to number and back: sizes, times, shares and counts. Pure integer
 * arithmetic, so that "0.1" means the same in every libc and locale.
 *
 * Must refuse what it does not understand whole. Mustn't round a value that is
 * not zero down to zero: zero means "no limit" for some keys.
 */
#include "base/num.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FRACTION_DIGITS = 9 };

struct decimal {
	uint64_t whole;
	uint64_t fraction;	/* scaled by 10^digits */
	uint64_t scale;
	const char *unit;	/* what follows the digits */
};

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", UINT64_C(1) << 10 },
	{ "m", UINT64_C(1) << 20 },
	{ "g", UINT64_C(1) << 30 },
	{ "t", UINT64_C(1) << 40 },
	{ "p", UINT64_C(1) << 50 },
	{ "kb", UINT64_C(1) << 10 },
	{ "mb", UINT64_C(1) << 20 },
	{ "gb", UINT64_C(1) << 30 },
	{ "tb", UINT64_C(1) << 40 },
	{ "pb", UINT64_C(1) << 50 },
	{ "kib", UINT64_C(1) << 10 },
	{ "mib", UINT64_C(1) << 20 },
	{ "gib", UINT64_C(1) << 30 },
	{ "tib", UINT64_C(1) << 40 },
	{ "pib", UINT64_C(1) << 50 },
	{ NULL, 0 },
};

/* Lower case only: "5M" would be minutes to one reader and months to another. */
static const struct unit time_units[] = {
	{ "", 1000000 },
	{ "us", 1 },
	{ "ms", 1000 },
	{ "s", 1000000 },
	{ "m", UINT64_C(60) * 1000000 },
	{ "h", UINT64_C(3600) * 1000000 },
	{ "d", UINT64_C(86400) * 1000000 },
	{ NULL, 0 },
};

static const struct unit share_units[] = {
	{ "", 1000 },
	{ NULL, 0 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_whole(const char **s, uint64_t *out)
{
	uint64_t v = 0;

	if (!is_digit(**s))
		return -1;
	for (; is_digit(**s); (*s)++)
		if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
		    __builtin_add_overflow(v, (uint64_t)(**s - '0'), &v))
			return -1;
	*out = v;
	return 0;
}

static int read_decimal(const char *s, struct decimal *d)
{
	unsigned digits = 0;

	d->fraction = 0;
	d->scale = 1;
	if (read_whole(&s, &d->whole) < 0)
		return -1;
	if (*s == '.') {
		for (s++; is_digit(*s); s++) {
			if (++digits > FRACTION_DIGITS)
				return -1;
			d->fraction = d->fraction * 10 + (uint64_t)(*s - '0');
			d->scale *= 10;
		}
		if (!digits)
			return -1;
	}
	d->unit = s;
	return 0;
}

static int apply_factor(const struct decimal *d, uint64_t factor, uint64_t *out)
{
	unsigned __int128 v = (unsigned __int128)d->whole * factor +
			      (unsigned __int128)d->fraction * factor / d->scale;

	if (v > UINT64_MAX)
		return -1;
	if (v == 0 && (d->whole || d->fraction))
		return -1;
	*out = (uint64_t)v;
	return 0;
}

static int with_unit(const char *s, const struct unit *units, bool any_case,
		     uint64_t *out)
{
	struct decimal d;

	if (read_decimal(s, &d) < 0)
		return -1;
	for (; units->name; units++) {
		int differs = any_case ? strcasecmp(d.unit, units->name) :
					 strcmp(d.unit, units->name);

		if (differs)
			continue;
		if (units->factor == 1 && d.scale > 1)
			return -1; /* half a byte */
		return apply_factor(&d, units->factor, out);
	}
	return -1;
}

static int in_range(uint64_t v, uint64_t min, uint64_t max, uint64_t *out)
{
	if (v < min || v > max)
		return -1;
	*out = v;
	return 0;
}

int num_uint(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t v;

	if (read_whole(&s, &v) < 0 || *s)
		return -1;
	return in_range(v, min, max, out);
}

int num_size(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t v;

	if (with_unit(s, size_units, true, &v) < 0)
		return -1;
	return in_range(v, min, max, out);
}

int num_time(const char *s, uint64_t min_us, uint64_t max_us, uint64_t *out_us)
{
	uint64_t v;

	if (with_unit(s, time_units, false, &v) < 0)
		return -1;
	return in_range(v, min_us, max_us, out_us);
}

int num_share(const char *s, uint64_t min, uint64_t max, uint64_t *out_milli)
{
	uint64_t v;

	if (with_unit(s, share_units, false, &v) < 0)
		return -1;
	return in_range(v, min, max, out_milli);
}

/* --- back to text ---------------------------------------------------------- */

enum { TEXT_SIZE = 32 };

/* The largest unit that divides v: at most as long as the plain number. */
static const char *whole_unit(uint64_t v, const struct unit *units, size_t count,
			      char *text)
{
	for (size_t i = count; i > 0; i--) {
		const struct unit *u = &units[i - 1];

		if (v && v % u->factor)
			continue;
		snprintf(text, TEXT_SIZE, "%" PRIu64 "%s", v / u->factor,
			 v ? u->name : "");
		return text;
	}
	return text;
}

const char *num_size_text(uint64_t bytes, char *text)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "K", UINT64_C(1) << 10 },
		{ "M", UINT64_C(1) << 20 },
		{ "G", UINT64_C(1) << 30 },
		{ "T", UINT64_C(1) << 40 },
		{ "P", UINT64_C(1) << 50 },
	};

	return whole_unit(bytes, units, sizeof(units) / sizeof(units[0]), text);
}

const char *num_time_text(uint64_t us, char *text)
{
	static const struct unit units[] = {
		{ "us", 1 },
		{ "ms", 1000 },
		{ "s", 1000000 },
		{ "m", UINT64_C(60) * 1000000 },
		{ "h", UINT64_C(3600) * 1000000 },
		{ "d", UINT64_C(86400) * 1000000 },
	};

	return whole_unit(us, units, sizeof(units) / sizeof(units[0]), text);
}

const char *num_share_text(uint64_t milli, char *text)
{
	size_t n;

	snprintf(text, TEXT_SIZE, "%" PRIu64 ".%03u", milli / 1000,
		 (unsigned)(milli % 1000));
	n = strlen(text);
	while (text[n - 1] == '0')
		text[--n] = '\0';
	if (text[n - 1] == '.')
		text[--n] = '\0';
	return text;
}
