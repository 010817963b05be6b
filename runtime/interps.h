/*
 * The interpreters that a box shows, looked up once for a box: a second run with the
 * same language, interpreter and PATH finds them here.
 */
#ifndef RUNTIME_INTERPS_H
#define RUNTIME_INTERPS_H

#include "nsbox.h"
#include "rootfs/interp.h"

struct interps {
	struct interp store[2];
	const struct interp *list[3]; /* NULL-terminated */
	size_t n;
	char *key;		/* what it was looked up for; NULL: nothing yet */
};

/*
 * Fill @in for the run: the language's own interpreter, or for a bare command what
 * python3 and node on PATH are (neither need exist). Errors as of interp_find().
 */
int interps_get(struct interps *in, const struct nsbox_run *run, struct nsbox_error *err);
void interps_free(struct interps *in);

#endif
