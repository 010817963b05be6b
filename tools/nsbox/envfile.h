/* SPDX-License-Identifier: Apache-2.0 */
/* --env-file: variables one a line, so that a secret never stands in argv. */
#ifndef NSBOX_ENVFILE_H
#define NSBOX_ENVFILE_H

#include "nsbox.h"
#include "tools/nsbox/args.h"

struct envfile {
	char **v;	/* owned NAME=VALUE; v[n] is NULL once anything was added */
	size_t n;
};

/*
 * All --env-file of @a, later ones winning; a name that -e gives as well is left
 * to -e. A line with a name alone passes the caller's variable on, if it is set.
 */
int envfile_read(struct envfile *out, const struct args *a, struct nsbox_error *err);
void envfile_free(struct envfile *e);

#endif
