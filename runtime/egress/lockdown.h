/* What the supervisor gives up before it hears the first byte of a box. */
#ifndef EGRESS_LOCKDOWN_H
#define EGRESS_LOCKDOWN_H

#include <stdbool.h>
#include <stdint.h>

/* Ids of UINT32_MAX stay as they are. @calls: it makes, binds and listens for the box. NULL, or what failed (errno says why). */
const char *lockdown(uint32_t uid, uint32_t gid, bool calls);

#endif
