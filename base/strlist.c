#include "base/strlist.h"

#include <stdlib.h>
#include <string.h>

enum { INDEX_FROM = 64 }; /* a shorter list is searched as fast without */

/* --- the index ------------------------------------------------------------------------ */

/* FNV-1a. Who makes strings collide makes his own list slow, as long as it may be. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static void index_item(struct strlist *l, size_t at)
{
	size_t mask = l->slot_count - 1, i = hash(l->v[at]) & mask;

	while (l->slots[i])
		i = (i + 1) & mask;
	l->slots[i] = (uint32_t)at + 1;
}

static void drop_index(struct strlist *l)
{
	free(l->slots);
	l->slots = NULL;
	l->slot_count = l->indexed = 0;
}

/* After an item was added. Without memory there is no index, and the list is only slow. */
static void keep_index(struct strlist *l)
{
	size_t wanted = l->slot_count ? l->slot_count : 4 * INDEX_FROM;

	if (l->n < INDEX_FROM || l->n > UINT32_MAX / 4)
		return;
	if (l->indexed + 1 == l->n && 2 * l->n <= l->slot_count) {
		index_item(l, l->n - 1);
		l->indexed = l->n;
		return;
	}
	while (wanted < 4 * l->n)
		wanted *= 2;
	drop_index(l);
	l->slots = calloc(wanted, sizeof(*l->slots));
	if (!l->slots)
		return;
	l->slot_count = wanted;
	while (l->indexed < l->n)
		index_item(l, l->indexed++);
}

static bool index_has(const struct strlist *l, const char *s)
{
	size_t mask = l->slot_count - 1, i = hash(s) & mask;

	for (; l->slots[i]; i = (i + 1) & mask)
		if (strcmp(l->v[l->slots[i] - 1], s) == 0)
			return true;
	return false;
}

/* --- the list ------------------------------------------------------------------------- */

int strlist_add_len(struct strlist *l, const char *s, size_t len)
{
	char **v = realloc(l->v, (l->n + 2) * sizeof(*v));
	char *copy;

	if (!v)
		return -1;
	l->v = v;
	copy = malloc(len + 1);
	if (!copy) {
		v[l->n] = NULL;
		return -1;
	}
	memcpy(copy, s, len);
	copy[len] = '\0';
	v[l->n++] = copy;
	v[l->n] = NULL;
	keep_index(l);
	return 0;
}

int strlist_add(struct strlist *l, const char *s)
{
	return strlist_add_len(l, s, strlen(s));
}

int strlist_copy(struct strlist *to, const struct strlist *from)
{
	for (size_t i = 0; i < from->n; i++)
		if (strlist_add(to, from->v[i]) < 0)
			return -1;
	return 0;
}

void strlist_remove(struct strlist *l, size_t at)
{
	drop_index(l);
	free(l->v[at]);
	memmove(l->v + at, l->v + at + 1, (l->n - at) * sizeof(*l->v));
	l->n--;
}

bool strlist_has(const struct strlist *l, const char *s)
{
	if (l->slots && l->indexed == l->n)
		return index_has(l, s);
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return true;
	return false;
}

void strlist_free(struct strlist *l)
{
	drop_index(l);
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	l->v = NULL;
	l->n = 0;
}
