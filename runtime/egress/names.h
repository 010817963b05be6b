/* The names that the box looked up, and the fake address of each. */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include "policy/egress.h"

struct names;

struct names *names_new(uint32_t max);	/* NULL: no memory; max from 1 (65534 at most) */
/* Another one from now on; names that are there stay, and keep their numbers. -1: no memory
 * (the old limit holds). */
int names_limit(struct names *n, uint32_t max);
void names_free(struct names *n);
/* The number of a canonical name, from 1; 0: the table is full. Idempotent. */
uint32_t names_add(struct names *n, const char *name);
const char *names_get(const struct names *n, uint32_t number);	/* NULL: none */
struct egress_addr names_addr4(uint32_t number);
struct egress_addr names_addr6(uint32_t number);
/* The name behind a fake address; NULL: not one of ours, or nobody looked it up. */
const char *names_find(const struct names *n, const struct egress_addr *a);
/* Is it in a fake range, handed out or not? Such an address is never connected to. */
bool names_is_fake(const struct egress_addr *a);

#endif
