/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of the command line made absolute, and whole files read with a ceiling.
 * Links are not followed here: what a path really is, the library checks when it
 * opens it.
 */
#ifndef NSBOX_PATHS_H
#define NSBOX_PATHS_H

#include "nsbox.h"

#include <stddef.h>

/*
 * @path from the working folder: "." and leading ".." are taken away, exactly,
 * because getcwd(2) has no links in it. A ".." behind a name stays: only the
 * file system knows where it leads. *out is malloc'ed.
 */
int path_absolute(char **out, const char *path, struct nsbox_error *err);

/* A program: with a slash as above, else the first match on PATH. */
int path_program(char **out, const char *name, struct nsbox_error *err);

/* All of a file or descriptor, NUL-terminated, at most @max bytes. */
int file_read(const char *path, size_t max, char **out, size_t *len, struct nsbox_error *err);
int fd_slurp(int fd, const char *name, size_t max, char **out, size_t *len,
	     struct nsbox_error *err);

#endif
