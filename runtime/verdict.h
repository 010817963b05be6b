/* Evidence -> verdict, exit code, reason, usage. Nothing is guessed: see verdict.c. */
#ifndef RUNTIME_VERDICT_H
#define RUNTIME_VERDICT_H

#include "runtime/record.h"
#include "runtime/watch.h"

/* Fill verdict, exit_code, signal, reason, usage and orphans_killed of @r. */
int verdict_fill(struct nsbox_result *r, const struct watch *w, struct nsbox_error *err);

#endif
