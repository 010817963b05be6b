/*
 * Parsed policies, kept in the user's cache folder so that a run with -p FILE
 * starts no second program. 256 slots of one file each: it cannot grow.
 *
 * An entry counts only when the folder and the file belong to the caller alone and
 * its hash fits: whoever can write it could write the caller's policy as well. It
 * is an optimisation: every doubt is a miss, never an error.
 */
#ifndef RUNTIME_PARSE_CACHE_H
#define RUNTIME_PARSE_CACHE_H

#include "base/buf.h"

/* Folder @base (NULL: $XDG_CACHE_HOME or ~/.cache) + /nsbox/policy, made when
 * missing. A descriptor, or -1: no cache. */
int parse_cache_open(const char *base);

/* Appends the entry of this key to out. */
bool parse_cache_get(int dirfd, const unsigned char key[32], struct buf *out);

void parse_cache_put(int dirfd, const unsigned char key[32], const void *data,
		     size_t len);

#endif
