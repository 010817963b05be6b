/*
 * names.c - see names.h. Runs in the supervisor.
 *
 * A number is never given twice: a payload that keeps a fake address for hours must not
 * reach another name by it.
 *
 * Must: take no name beyond `max`; the payload chooses them. What it has looked up stays,
 * also when `max` is lower later.
 */
#include "runtime/egress/names.h"

#include "runtime/egress/hash.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 65534 }; /* 198.18.0.0 and 198.18.255.255 stay unused */

struct names {
	struct hash_key key;
	uint32_t max, count;
	uint32_t room;		/* names that there is memory for */
	uint32_t mask;		/* slots - 1 */
	uint32_t *slots;	/* 0: empty, else a number; at most half are taken */
	char **text;		/* of number n: text[n - 1] */
};

/* Of `name`, or where it would be. */
static uint32_t *slot_of(const struct names *n, const char *name)
{
	uint32_t at = (uint32_t)hash_bytes(&n->key, name, strlen(name)) & n->mask;

	while (n->slots[at] && strcmp(n->text[n->slots[at] - 1], name) != 0)
		at = (at + 1) & n->mask;
	return &n->slots[at];
}

static int make_room(struct names *n, uint32_t room)
{
	uint32_t mask = 1, *slots;
	char **text;

	while (mask < 2 * room)
		mask = 2 * mask + 1;
	slots = calloc((size_t)mask + 1, sizeof(*slots));
	text = slots ? realloc(n->text, (size_t)room * sizeof(*text)) : NULL;
	if (!text) {
		free(slots);
		return -1;
	}
	free(n->slots);
	n->slots = slots;
	n->text = text;
	n->mask = mask;
	n->room = room;
	for (uint32_t i = 0; i < n->count; i++)
		*slot_of(n, n->text[i]) = i + 1;
	return 0;
}

int names_limit(struct names *n, uint32_t max)
{
	if (max > NUMBERS)
		max = NUMBERS;
	if (max > n->room && make_room(n, max) < 0)
		return -1;
	n->max = max;
	return 0;
}

struct names *names_new(uint32_t max)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	if (random_bytes(&n->key, sizeof(n->key)) < 0 || names_limit(n, max) < 0) {
		names_free(n);
		return NULL;
	}
	return n;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->count; i++)
		free(n->text[i]);
	free(n->text);
	free(n->slots);
	free(n);
}

uint32_t names_add(struct names *n, const char *name)
{
	uint32_t *slot = slot_of(n, name);
	char *copy;

	if (*slot || n->count >= n->max)
		return *slot;
	copy = strdup(name);
	if (copy) {
		n->text[n->count] = copy;
		*slot = ++n->count;
	}
	return *slot;
}

const char *names_get(const struct names *n, uint32_t number)
{
	return number && number <= n->count ? n->text[number - 1] : NULL;
}

/* INLET_FAKE4 and INLET_FAKE6; the number is in the last two bytes of both. */
static const uint8_t fake4[2] = { 198, 18 };
static const uint8_t fake6[14] = { 0x20, 0x01, 0, 2 };
static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

struct egress_addr names_addr4(uint32_t number)
{
	return (struct egress_addr){ 4, { fake4[0], fake4[1], (uint8_t)(number >> 8),
					  (uint8_t)number } };
}

struct egress_addr names_addr6(uint32_t number)
{
	struct egress_addr a = { .family = 6 };

	memcpy(a.bytes, fake6, sizeof(fake6));
	a.bytes[14] = (uint8_t)(number >> 8);
	a.bytes[15] = (uint8_t)number;
	return a;
}

/* The two bytes of the number; NULL: not in a fake range. ::ffff:198.18.0.1 is in one. */
static const uint8_t *number_in(const struct egress_addr *a)
{
	const uint8_t *b = a->bytes;

	if (a->family == 4)
		return memcmp(b, fake4, sizeof(fake4)) == 0 ? b + 2 : NULL;
	if (a->family != 6)
		return NULL;
	if (memcmp(b, fake6, sizeof(fake6)) == 0)
		return b + 14;
	return memcmp(b, mapped, sizeof(mapped)) == 0 &&
	       memcmp(b + 12, fake4, sizeof(fake4)) == 0 ? b + 14 : NULL;
}

const char *names_find(const struct names *n, const struct egress_addr *a)
{
	const uint8_t *number = number_in(a);

	return number ? names_get(n, (uint32_t)number[0] << 8 | number[1]) : NULL;
}

bool names_is_fake(const struct egress_addr *a)
{
	return number_in(a);
}
