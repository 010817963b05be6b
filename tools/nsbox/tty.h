/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's own terminal while a box has one (-t): raw, and put back on every
 * way out. The box never holds it.
 */
#ifndef NSBOX_TTY_H
#define NSBOX_TTY_H

#include "nsbox.h"

#include <stdbool.h>
#include <termios.h>

struct tty {
	int fd;		/* -1: no terminal in use */
	struct termios saved;
	bool is_raw;
};
#define TTY_INIT { .fd = -1 }

/* Standard input and output must both be one. Nothing is changed yet. */
int tty_open(struct tty *t, struct nsbox_error *err);
int tty_raw(struct tty *t, struct nsbox_error *err);
/* Each key at once and unseen; ^C and ^Z are signals still. */
int tty_keys(struct tty *t, struct nsbox_error *err);
void tty_restore(struct tty *t);	/* idempotent */

/* 24 x 80 when the terminal does not know. */
void tty_size(const struct tty *t, uint32_t *rows, uint32_t *cols);

#endif
