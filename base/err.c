#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Errors that any call can meet, so that no call needs to know their remedy. */
static const char *remedy(int os_errno)
{
	switch (os_errno) {
	case EMFILE:
		return "this process may not have more open files: raise ulimit -n";
	case ENFILE:
		return "the host is out of open files: see /proc/sys/fs/file-max";
	default:
		return NULL;
	}
}

static int __attribute__((format(printf, 4, 0)))
record(struct nsbox_error *e, int code, int os_errno, const char *fmt,
       va_list ap)
{
	size_t n;

	if (!e || e->code) /* the first cause wins */
		return e ? e->code : code;
	e->code = code;
	e->os_errno = os_errno;
	vsnprintf(e->message, sizeof(e->message), fmt, ap);
	n = strlen(e->message);
	if (os_errno && n < sizeof(e->message) - 1)
		snprintf(e->message + n, sizeof(e->message) - n, ": %s",
			 err_text(os_errno));
	if (remedy(os_errno)) /* also instead of what the caller took for the likely cause */
		snprintf(e->hint, sizeof(e->hint), "%s", remedy(os_errno));
	return code;
}

int err_set(struct nsbox_error *e, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = record(e, code, 0, fmt, ap);
	va_end(ap);
	return r;
}

int err_sys(struct nsbox_error *e, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = record(e, NSBOX_E_SYSTEM, saved, fmt, ap);
	va_end(ap);
	errno = saved;
	return r;
}

int err_errno(struct nsbox_error *e, int code, int os_errno, const char *fmt,
	      ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = record(e, code, os_errno, fmt, ap);
	va_end(ap);
	return r;
}

int err_nomem(struct nsbox_error *e)
{
	return err_set(e, NSBOX_E_NOMEM, "out of memory");
}

void err_hint(struct nsbox_error *e, const char *fmt, ...)
{
	va_list ap;

	if (!e || e->hint[0])
		return;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
}

void err_wrap(struct nsbox_error *e, const char *fmt, ...)
{
	char old[sizeof(e->message)];
	va_list ap;
	size_t n;

	if (!e || !e->code)
		return;
	memcpy(old, e->message, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof(e->message), fmt, ap);
	va_end(ap);
	n = strlen(e->message);
	if (n < sizeof(e->message) - 1)
		snprintf(e->message + n, sizeof(e->message) - n, ": %s", old);
}

void err_stage(struct nsbox_error *e, const char *stage)
{
	if (e && !e->stage[0])
		snprintf(e->stage, sizeof(e->stage), "%s", stage);
}

void err_clear(struct nsbox_error *e)
{
	if (!e)
		return;
	e->code = 0;
	e->os_errno = 0;
	e->stage[0] = e->message[0] = e->hint[0] = '\0';
}

const char *err_text(int os_errno)
{
	/* strerror() is not thread-safe in every libc; the strings of both glibc
	 * and musl are static for known numbers, and that is all we pass. */
	return os_errno > 0 ? strerror(os_errno) : "no errno";
}
