/* A policy's text: the author's bytes, the same as plain JSON, and places in it. */
#ifndef POLICY_TEXT_H
#define POLICY_TEXT_H

#include "base/err.h"

#include <stddef.h>

enum { TEXT_SIZE_MAX = 1024 * 1024, TEXT_DEPTH_MAX = 16 };

struct text {
	const char *raw;	/* borrowed */
	char *json;		/* owned; as long as raw, comments blanked */
	size_t len;
	const char *file;	/* borrowed; for messages */
};

/* 1-based; zero-initialise, then ask for growing offsets: linear in all. */
struct place {
	size_t offset;
	unsigned line, column;
};

int text_open(struct text *t, const char *raw, size_t len, const char *file,
	      struct nsbox_error *err);
void text_close(struct text *t);

void text_place(const struct text *t, size_t offset, struct place *at);
size_t text_skip_string(const struct text *t, size_t at);

/* NSBOX_E_POLICY, "file:line:column: message". */
int text_fail(const struct text *t, size_t offset, struct nsbox_error *err,
	      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
