/* SPDX-License-Identifier: Apache-2.0 */
/* See say.h. Runs in the command. */
#include "tools/nsbox/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* RFC 3629 */
size_t say_character(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	static const struct { unsigned char mask, lead, len; uint32_t least; } kinds[] = {
		{ 0x80, 0x00, 1, 0 }, { 0xe0, 0xc0, 2, 0x80 },
		{ 0xf0, 0xe0, 3, 0x800 }, { 0xf8, 0xf0, 4, 0x10000 },
	};

	for (size_t k = 0; k < CLI_COUNT(kinds); k++) {
		uint32_t c = s[0] & (unsigned char)~kinds[k].mask;

		if ((s[0] & kinds[k].mask) != kinds[k].lead)
			continue;
		for (size_t i = 1; i < kinds[k].len; i++) {
			if ((s[i] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (s[i] & 0x3f);
		}
		if (c < kinds[k].least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return 0;
		return kinds[k].len;
	}
	return 0;
}

/*
 * C0, DEL and C1 (as UTF-8: 0xc2 0x80..0x9f) become '?', and so do bytes that are
 * no UTF-8: an 8-bit terminal takes a bare 0x9b for ESC [.
 */
static void neutralise(char *text)
{
	unsigned char *s = (unsigned char *)text;

	while (*s) {
		size_t n = say_character((const char *)s);

		if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0) {
			s[0] = s[1] = '?';
		} else if (n == 0 || *s < 0x20 || *s == 0x7f) {
			*s = '?';
			n = 1;
		}
		s += n;
	}
}

void say(const char *fmt, ...)
{
	char line[2048] = "nsbox: ";
	size_t at = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + at, sizeof(line) - at - 1, fmt, ap);
	va_end(ap);
	neutralise(line);
	at = strlen(line);
	line[at++] = '\n';
	/* One write: lines of several boxes on one terminal do not mix. */
	if (write(STDERR_FILENO, line, at) < 0)
		return; /* nobody is left to be told */
}

static int __attribute__((format(printf, 4, 0)))
record(struct nsbox_error *err, int code, int os_errno, const char *fmt, va_list ap)
{
	size_t n;

	if (err->code)
		return err->code;
	err->code = code;
	err->os_errno = os_errno;
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	n = strlen(err->message);
	if (os_errno)
		snprintf(err->message + n, sizeof(err->message) - n, ": %s",
			 strerror(os_errno));
	if (os_errno == EMFILE)
		snprintf(err->hint, sizeof(err->hint),
			 "this process may not have more open files: raise ulimit -n");
	return code;
}

int cli_fail(struct nsbox_error *err, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = record(err, code, 0, fmt, ap);
	va_end(ap);
	return r;
}

int cli_fail_errno(struct nsbox_error *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = record(err, NSBOX_E_SYSTEM, saved, fmt, ap);
	va_end(ap);
	return r;
}

void cli_hint(struct nsbox_error *err, const char *fmt, ...)
{
	va_list ap;

	if (err->hint[0])
		return;
	va_start(ap, fmt);
	vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
}

int cli_nomem(struct nsbox_error *err)
{
	return cli_fail(err, NSBOX_E_NOMEM, "out of memory");
}

void say_error(const struct nsbox_error *err)
{
	say("%s%s%s%s%s", err->stage[0] ? err->stage : "", err->stage[0] ? ": " : "",
	    err->message[0] ? err->message : "unknown failure",
	    err->hint[0] ? "; " : "", err->hint);
}

void json_text(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	putc('"', out);
	while (*s) {
		size_t n = say_character((const char *)s);

		if (n == 0)
			fputs("\\ufffd", out);
		else if (*s < 0x20 || *s == '"' || *s == '\\')
			fprintf(out, "\\u%04x", *s);
		else
			fwrite(s, 1, n, out);
		s += n ? n : 1;
	}
	putc('"', out);
}

static void json_text_or_null(FILE *out, const char *key, const char *text)
{
	fprintf(out, ",\"%s\":", key);
	if (text[0])
		json_text(out, text);
	else
		fputs("null", out);
}

static const char *code_name(int code)
{
	static const char *const names[] = {
		[-NSBOX_E_USAGE] = "usage",   [-NSBOX_E_POLICY] = "policy",
		[-NSBOX_E_UNSUPPORTED] = "unsupported", [-NSBOX_E_SETUP] = "setup",
		[-NSBOX_E_BUSY] = "busy",     [-NSBOX_E_NOMEM] = "no_memory",
		[-NSBOX_E_SYSTEM] = "system",
	};

	if (code >= 0 || (size_t)-code >= CLI_COUNT(names))
		return "unknown";
	return names[-code];
}

int error_json(FILE *out, const struct nsbox_error *err)
{
	fprintf(out, "{\"schema\":\"nsbox.error/1\",\"code\":\"%s\",\"exit_status\":%d",
		code_name(err->code), error_status(err));
	json_text_or_null(out, "stage", err->stage);
	fprintf(out, ",\"errno\":");
	if (err->os_errno)
		fprintf(out, "%d", err->os_errno);
	else
		fputs("null", out);
	json_text_or_null(out, "message", err->message);
	json_text_or_null(out, "hint", err->hint);
	fputs("}\n", out);
	return fflush(out) || ferror(out) ? -1 : 0;
}

int error_status(const struct nsbox_error *err)
{
	if (strcmp(err->stage, "exec") != 0)
		return STATUS_NSBOX;
	switch (err->os_errno) {
	case ENOENT:
		return STATUS_NOT_FOUND;
	case EACCES:
	case ENOEXEC:
		return STATUS_NOT_EXECUTABLE;
	default:
		return STATUS_NSBOX;
	}
}
