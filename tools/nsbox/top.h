/* SPDX-License-Identifier: Apache-2.0 */
/* What `nsbox top` shows: one look at the caller's boxes, as a table or as JSON. */
#ifndef NSBOX_TOP_H
#define NSBOX_TOP_H

#include "nsbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct top_box {
	struct nsbox_box_info info;
	uint64_t cpu_milli;	/* thousandths of a core; NSBOX_UNKNOWN */
};

struct top_list {
	struct top_box *v;	/* running ones first */
	size_t n;		/* to be shown; all of the running, the last of the rest */
	size_t running, ended;	/* that there are */
	uint64_t at_us;		/* CLOCK_MONOTONIC */
};

struct top_how {
	size_t last;		/* how many that ended are shown */
	bool by_age;		/* youngest first, instead of the busiest */
	const struct top_list *before; /* the look before; NULL: the first */
};

int top_look(struct top_list *out, const struct top_how *how, struct nsbox_error *err);
void top_free(struct top_list *l);

/* A line of JSON (nsbox.top/1). */
void top_json(FILE *out, const struct top_list *l);

struct top_screen {
	size_t rows, cols;	/* 0: no bound */
	const char *line_end;	/* "\n", or what a terminal clears the rest of a line with */
	const char *head_begin, *head_end; /* around the titles; "" */
};
/* No text of a box reaches @out unless the library called it printable. */
void top_table(FILE *out, const struct top_list *l, const struct top_screen *screen);

#endif
