/* The tiers: one table, read by the library, the command and the bindings. */
#ifndef RUNTIME_TIERS_H
#define RUNTIME_TIERS_H

#include "nsbox.h"

#include <stdbool.h>

const struct nsbox_tier_info *tier_row(enum nsbox_tier tier);	/* NULL: no tier */
/* 0, or why a box of this tier cannot be opened. */
int tier_check(enum nsbox_tier tier, struct nsbox_error *err);

#endif
