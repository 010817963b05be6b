/*
 * lang_kernel.c - the programs that run cells, for kernels (repl.h)
 *
 * Owns kernel*.py, kernel*.js and kernel.sh (runtime/lang/), built in as data. Runs in the
 * launcher.
 */
#include "runtime/lang_parts.h"

#include "base/cleanup.h"

#include "kernel_errors_py.inc"
#include "kernel_files_py.inc"
#include "kernel_js.inc"
#include "kernel_py.inc"
#include "kernel_sh.inc"
#include "kernel_shell_py.inc"
#include "kernel_show_py.inc"
#include "kernel_types_js.inc"
#include "kernel_types_py.inc"

/* In the order in which boot.py runs them. */
static const struct {
	const char *path;
	const unsigned char *text;
	size_t len;
} python_parts[] = {
	{ PYTHON_PART("_types"), kernel_types_py, sizeof(kernel_types_py) },
	{ PYTHON_PART("_errors"), kernel_errors_py, sizeof(kernel_errors_py) },
	{ PYTHON_PART("_show"), kernel_show_py, sizeof(kernel_show_py) },
	{ PYTHON_PART("_shell"), kernel_shell_py, sizeof(kernel_shell_py) },
	{ PYTHON_PART("_kernel"), kernel_py, sizeof(kernel_py) },
	{ PYTHON_PART("_files"), kernel_files_py, sizeof(kernel_files_py) },
};

void kernel_python(struct draft *d, struct buf *boot)
{
	struct strlist paths = { 0 };

	for (size_t i = 0; d->r->is_kernel && i < ARRAY_SIZE(python_parts); i++) {
		struct buf b = BUF_INIT(BOOT_MAX);

		buf_add(&b, python_parts[i].text, python_parts[i].len);
		draft_file(d, python_parts[i].path, &b);
		if (strlist_add(&paths, python_parts[i].path) < 0)
			d->failed = true;
	}
	python_list(boot, "KERNEL", &paths, false);
	strlist_free(&paths);
}

void kernel_javascript(struct draft *d)
{
	static const char path[] = BOX_RUN_DIR "/kernel.js";
	struct buf b = BUF_INIT(BOOT_MAX);

	draft_arg(d, path);
	buf_add(&b, kernel_types_js, sizeof(kernel_types_js)); /* begins with 'use strict' */
	js_setting(&b, "PROJECT", d->r->project);
	buf_add(&b, kernel_js, sizeof(kernel_js));
	draft_file(d, path, &b);
}

void kernel_bash(struct draft *d)
{
	struct buf b = BUF_INIT(BOOT_MAX);

	buf_str(&b, "nsbox_start; ");
	buf_add(&b, kernel_sh, sizeof(kernel_sh));
	draft_file(d, BOX_RUN_DIR "/" CELL_NAME, &b);
}
