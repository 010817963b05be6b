/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's own words: one line each on stderr, prefixed "nsbox: ", and the
 * error record of --json. Bytes that a terminal would obey never get through:
 * names in messages may come from the program that was boxed.
 */
#ifndef NSBOX_SAY_H
#define NSBOX_SAY_H

#include "nsbox.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* D21: what a caller can tell apart without reading a word. */
enum {
	STATUS_OK = 0,
	STATUS_REFUSED = 122,	/* the policy says no */
	STATUS_NSBOX = 125,	/* nsbox could not do its job */
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127
};

void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Record a failure of the command itself; the first cause wins. Returns @code. */
int cli_fail(struct nsbox_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a system call: ": <errno's text>" is appended. */
int cli_fail_errno(struct nsbox_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cli_hint(struct nsbox_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int cli_nomem(struct nsbox_error *err);

/* One line on stderr: stage, message, remedy. */
void say_error(const struct nsbox_error *err);

/* Bytes of the UTF-8 character at @text, or 0 when there is none. */
size_t say_character(const char *text);

/* A JSON string; bytes that are no UTF-8 become U+FFFD. */
void json_text(FILE *out, const char *text);

/* The nsbox.error/1 object and a newline; -1 when it could not be written. */
int error_json(FILE *out, const struct nsbox_error *err);

/* The exit status that an error means: 125, or 126/127 from the exec stage. */
int error_status(const struct nsbox_error *err);

static inline void cli_free(void *p)
{
	free(*(void **)p);
}

static inline void cli_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define auto_free __attribute__((cleanup(cli_free)))
#define auto_close __attribute__((cleanup(cli_close)))
#define CLI_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
