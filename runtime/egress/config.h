/* The configuration block of the launcher, checked to the last offset. */
#ifndef EGRESS_CONFIG_H
#define EGRESS_CONFIG_H

#include "policy/egress.h"
#include "runtime/egress_wire.h"

/* A mapping of the memfd, read-only; NULL: not sealed, or not well-formed. */
const struct egress_config *config_map(int fd);
/* The same way out: kind, host, port, user and password. */
bool config_same_proxy(const struct egress_config *a, const struct egress_config *b);
void config_unmap(const struct egress_config *c);
/* The same for a block in memory. */
bool config_is_valid(const void *block, size_t size);

static inline const struct egress_rules *config_rules(const struct egress_config *c)
{
	return (const struct egress_rules *)((const char *)c + c->rules);
}

#endif
