/*
 * What the check programs (runtime/lang/check.*) say about a source. It comes out of a box
 * with an interpreter in it that read hostile text, so it is read as such.
 */
#ifndef RUNTIME_REPORT_H
#define RUNTIME_REPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { REPORT_MAX = 4 << 20 };	/* bytes; more is no report */

struct report {
	bool is_there;		/* somebody said something */
	bool may_run;		/* it parses, and imports what it may */
	char *reason;		/* "parse_failed: Parse failed. Line 3: ..." */
	char *analysis;		/* one JSON object */
};

/* @text: all that came from the channel. Nothing at all is no report and no error; what is
 * not a whole report is NSBOX_E_SETUP. */
int report_read(struct report *out, const char *text, size_t len, struct nsbox_error *err);

/* The report of a check that did not come to its end: @why is the verdict's reason. */
int report_broken(struct report *out, const char *language, const char *why,
		  struct nsbox_error *err);

/* bash -n has no report: its status and what it wrote to stderr. */
int report_bash(struct report *out, int status, const char *text, size_t len,
		struct nsbox_error *err);

void report_free(struct report *r);

#endif
