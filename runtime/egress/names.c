/*
 * names.c - see names.h. Runs in the supervisor. Pure but for its memory.
 *
 * Must: never give a number twice: a fake address that a program has cached would lead
 *       somewhere else.
 */
#include "runtime/egress/names.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };

struct row {
	char *name;
	uint32_t next;		/* number of the next in the bucket; 0: none */
};
struct names {
	uint32_t max, count;
	uint32_t buckets[BUCKETS];
	struct row *rows;	/* number - 1 */
};

static const uint8_t fake6[14] = { 0x20, 0x01, 0x00, 0x02 };

struct names *names_new(uint32_t max)
{
	struct names *n = max && max <= 65534 ? calloc(1, sizeof(*n)) : NULL;

	if (!n)
		return NULL;
	n->max = max;
	n->rows = calloc(max, sizeof(*n->rows));
	if (n->rows)
		return n;
	free(n);
	return NULL;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->count; i++)
		free(n->rows[i].name);
	free(n->rows);
	free(n);
}

static uint32_t bucket_of(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return (h ^ h >> 16) % BUCKETS;
}

uint32_t names_add(struct names *n, const char *name)
{
	uint32_t *bucket = &n->buckets[bucket_of(name)];
	char *copy;

	for (uint32_t i = *bucket; i; i = n->rows[i - 1].next)
		if (strcmp(n->rows[i - 1].name, name) == 0)
			return i;
	copy = n->count < n->max ? strdup(name) : NULL;
	if (!copy)
		return 0;
	n->rows[n->count] = (struct row){ copy, *bucket };
	*bucket = ++n->count;
	return n->count;
}

const char *names_get(const struct names *n, uint32_t number)
{
	return number && number <= n->count ? n->rows[number - 1].name : NULL;
}

struct egress_addr names_addr4(uint32_t number)
{
	return (struct egress_addr){ 4, { 198, 18, (uint8_t)(number >> 8), (uint8_t)number } };
}

struct egress_addr names_addr6(uint32_t number)
{
	struct egress_addr a = { .family = 6 };

	memcpy(a.bytes, fake6, sizeof(fake6));
	a.bytes[14] = (uint8_t)(number >> 8);
	a.bytes[15] = (uint8_t)number;
	return a;
}

const char *names_find(const struct names *n, const struct egress_addr *a)
{
	if (a->family == 4 && a->bytes[0] == 198 && a->bytes[1] == 18)
		return names_get(n, (uint32_t)a->bytes[2] << 8 | a->bytes[3]);
	if (a->family == 6 && memcmp(a->bytes, fake6, sizeof(fake6)) == 0)
		return names_get(n, (uint32_t)a->bytes[14] << 8 | a->bytes[15]);
	return NULL;
}

bool names_is_fake(const struct egress_addr *a)
{
	if (a->family == 4)
		return a->bytes[0] == 198 && (a->bytes[1] & 0xfe) == 18;
	return a->family == 6 && memcmp(a->bytes, fake6, 6) == 0;
}
