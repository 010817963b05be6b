/*
 * "Dumpable" of the calling process, kept while children that share its memory change
 * their ids. For launch.c only.
 */
#ifndef RUNTIME_DUMPABLE_H
#define RUNTIME_DUMPABLE_H

#include <stdbool.h>

bool dumpable_hold(void);	   /* before the clone; says what to give to release */
void dumpable_release(bool was);   /* init runs, or the child is dead */

#endif
