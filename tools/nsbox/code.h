/* SPDX-License-Identifier: Apache-2.0 */
/* `nsbox code`: a snippet, a file or standard input in a language. */
#ifndef NSBOX_CODE_H
#define NSBOX_CODE_H

#include "tools/nsbox/args.h"

#define CODE_MAX (16u << 20)

struct code_language {
	const char *name;
	const char *also[5];	/* what people call it too */
	const char *suffixes[4];
	const char *profile;	/* where its policy starts */
	const char *variable;	/* names another interpreter; NULL: none */
};

/* By what it is called, or (@name NULL) by the suffix of @file; python when neither says. */
int code_language(const struct code_language **out, const char *name, const char *file,
		  struct nsbox_error *err);

/* By index; NULL past the end. */
const char *code_language_name(size_t i);

/* The interpreter that the language's variable names, *out malloc'ed; else unchanged. */
int code_interpreter(char **out, const struct code_language *l, struct nsbox_error *err);

int verb_code(struct args *a);
int verb_check(struct args *a);

#endif
