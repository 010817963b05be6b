/* Inside lang*.c only: a language's command while it is put together. */
#ifndef RUNTIME_LANG_PARTS_H
#define RUNTIME_LANG_PARTS_H

#include "base/buf.h"
#include "runtime/lang.h"

#define CODE_NAME "<code>"
#define CODE_PATH BOX_RUN_DIR "/" CODE_NAME
#define CELL_NAME "<cell>"
/* The warnings module takes files of such names for the interpreter's own (boot.py). */
#define PYTHON_PART(name) BOX_RUN_DIR "/importlib_bootstrap" name ".py"
#define PYTHON_BOOT PYTHON_PART("")
#define CODE_MAX ((size_t)16 << 20)
#define BOOT_MAX ((size_t)4 << 20) /* a boot program and its settings */

/* What one language's row needs while the command is put together. */
struct draft {
	struct lang_command cmd;
	const struct lang_request *r;
	bool failed; /* out of memory, sticky */
};

void draft_arg(struct draft *d, const char *arg);
/* Takes the text out of @b, whether it can be kept or not. */
void draft_file(struct draft *d, const char *path, struct buf *b);
/* The source as a file, @head in front of its first line. */
void draft_code(struct draft *d, const char *head);

/* NAME = a string or None, in Python; const NAME = a string or null, in JavaScript. */
void python_setting(struct buf *b, const char *name, const char *value);
/* NAME = [a folder or, counted, "N\tFILE" each] */
void python_list(struct buf *b, const char *name, const struct strlist *l, bool is_counted);
void js_setting(struct buf *b, const char *name, const char *value);

/* lang_check.c. The command that checks and runs nothing, in each language. */
void check_python(struct draft *d);
void check_javascript(struct draft *d);
void check_bash(struct draft *d);
/* For boot.py: the file that judges imports; its path, or NULL when there are no rules. */
const char *check_rules(struct draft *d);

/* lang_kernel.c. The program that runs cells; for Python the setting KERNEL as well, which
 * is empty when no kernel is asked for. */
void kernel_python(struct draft *d, struct buf *boot);
void kernel_javascript(struct draft *d);
void kernel_bash(struct draft *d);

#endif
