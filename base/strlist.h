/*
 * A list of owned strings. Free accepts a zeroed list.
 *
 * A long list keeps an index, so that ten thousand times "add unless it is there" is not
 * fifty million comparisons. Who changes `v` or `n` by hand changes both ends alone and
 * leaves the order; strlist_has() then looks at each item again.
 */
#ifndef BASE_STRLIST_H
#define BASE_STRLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strlist {
	char **v; /* v[n] is NULL once anything was added */
	size_t n;
	uint32_t *slots;	/* of the index: 1 + position; or NULL */
	size_t slot_count;	/* a power of two, at least twice `indexed` */
	size_t indexed;		/* the index holds the first ones up to here */
};

int strlist_add(struct strlist *l, const char *s); /* 0, or -1 (no memory) */
int strlist_add_len(struct strlist *l, const char *s, size_t len);
int strlist_copy(struct strlist *to, const struct strlist *from);
void strlist_remove(struct strlist *l, size_t at);
bool strlist_has(const struct strlist *l, const char *s);
void strlist_free(struct strlist *l);

#endif
