/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One box from start to collect, with the caller's signals and terminal: signals
 * come through a descriptor, so there is one way out and the terminal is put back
 * and the box removed on it.
 */
#ifndef NSBOX_WATCH_H
#define NSBOX_WATCH_H

#include "nsbox.h"

int watch_run(struct nsbox_box *box, struct nsbox_run *run, struct nsbox_result **out,
	      struct nsbox_error *err);

#endif
