/*
 * A language and a source -> the command that runs it in a box.
 *
 * Tables over branches: one row a language (lang.c). The small programs that start
 * the user's code (boot.py, boot.js, boot.sh) are files in runtime/lang/, built in
 * as data.
 */
#ifndef RUNTIME_LANG_H
#define RUNTIME_LANG_H

#include "base/err.h"
#include "base/strlist.h"
#include "rootfs/interp.h"

#include <stdbool.h>
#include <stddef.h>

/* Where nsbox puts its own files in a box; read-only, made by FILE operations. */
#define BOX_RUN_DIR "/run/nsbox"

struct lang_file {
	char *path;		/* in the box, absolute */
	char *data;
	size_t len;
};

/* What is said about a source before, or instead of, running it (lang_check.c). */
struct lang_check {
	bool only;		/* tier static: check, and that is all */
	const struct strlist *allow; /* imports.allow; NULL: all may be imported */
	bool strict;		/* imports.mode */
	bool with_ast;		/* the report has the syntax tree */
};

struct lang_request {
	const struct interp *interp;
	const char *code;	/* source text; NULL: file is given */
	size_t code_len;
	const char *file;	/* absolute path of the script in the box, or NULL */
	bool is_kernel;		/* neither: it runs cells (runtime/repl.h) */
	const char *project;	/* absolute folder in the box, or NULL */
	const char *packages;	/* absolute folder in the box, or NULL */
	const struct strlist *packages_pth; /* python: names of its .pth files, or NULL */
	const char *const *args; /* NULL-terminated, may be NULL */
	const struct lang_check *check; /* NULL: none */
};

struct lang_command {
	struct strlist argv;	/* argv[0] is the interpreter's path */
	struct strlist env;	/* NAME=VALUE to add */
	struct lang_file *files;
	size_t file_count;
};

/* "python", "javascript", "bash" from a file's name, or NULL. */
const char *lang_of_file(const char *name);
/* Canonical name ("py", "js", "node", "sh" are accepted), or NULL. */
const char *lang_canonical(const char *name);

int lang_command(struct lang_command *out, const struct lang_request *r,
		 struct nsbox_error *err);
void lang_command_free(struct lang_command *c);

#endif
