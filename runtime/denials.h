/* What the box was refused, from evidence, as entries of the record. */
#ifndef RUNTIME_DENIALS_H
#define RUNTIME_DENIALS_H

#include "runtime/record.h"
#include "runtime/watch.h"

/* After the verdict: what that says already is not said twice. 0 or NSBOX_E_NOMEM. */
int denials_fill(struct nsbox_result *r, const struct watch *w);

#endif
