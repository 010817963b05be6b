/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ended, told to people on stderr and to programs as the record. */
#ifndef NSBOX_REPORT_H
#define NSBOX_REPORT_H

#include "nsbox.h"
#include "tools/nsbox/args.h"

/* A failure of nsbox itself, in every form that @a asks for. Exit status. */
int report_error(const struct args *a, const struct nsbox_error *err);

/* The result of a run, in every form that @a asks for. Exit status. */
int report_result(const struct args *a, const struct nsbox_result *res);

/* @text as it is, then flushed. 0, or 125 with a line on stderr. */
int report_text(const char *text);

#endif
