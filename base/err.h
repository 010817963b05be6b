/*
 * One failure, recorded where it happens and forwarded untouched.
 *
 * Every call returns the negative enum nsbox_code to return, accepts a NULL
 * record, and never replaces an earlier cause. Messages are one line: lower
 * case, verb and object, no newline, no "failed to". Hints say what to do.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "nsbox.h"

int err_set(struct nsbox_error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* NSBOX_E_SYSTEM with the current errno; ": <strerror>" is appended. */
int err_sys(struct nsbox_error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for an errno that was carried here (from the child, say). */
int err_errno(struct nsbox_error *e, int code, int os_errno, const char *fmt,
	      ...) __attribute__((format(printf, 4, 5)));

int err_nomem(struct nsbox_error *e);

/* First hint wins, as the first cause does. */
void err_hint(struct nsbox_error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Put "context: " in front of the message that is there. */
void err_wrap(struct nsbox_error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void err_stage(struct nsbox_error *e, const char *stage);
void err_clear(struct nsbox_error *e);

/* The errno's own text without locale or locks ("ENOENT: no such file"...). */
const char *err_text(int os_errno);

#endif
