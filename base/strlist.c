#include "base/strlist.h"

#include <stdlib.h>
#include <string.h>

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
	free(l->v[at]);
	memmove(l->v + at, l->v + at + 1, (l->n - at) * sizeof(*l->v));
	l->n--;
}

bool strlist_has(const struct strlist *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return true;
	return false;
}

void strlist_free(struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	l->v = NULL;
	l->n = 0;
}
