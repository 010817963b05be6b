/* A list of owned strings. Free accepts a zeroed list. */
#ifndef BASE_STRLIST_H
#define BASE_STRLIST_H

#include <stdbool.h>
#include <stddef.h>

struct strlist {
	char **v; /* v[n] is NULL once anything was added */
	size_t n;
};

int strlist_add(struct strlist *l, const char *s); /* 0, or -1 (no memory) */
int strlist_add_len(struct strlist *l, const char *s, size_t len);
int strlist_copy(struct strlist *to, const struct strlist *from);
void strlist_remove(struct strlist *l, size_t at);
bool strlist_has(const struct strlist *l, const char *s);
void strlist_free(struct strlist *l);

#endif
