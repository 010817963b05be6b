/*
 * lang_check.c - the commands that judge a source before, or instead of, running it
 *
 * Owns check.py, check_ast.py, check_main.py, imports.py and check.js (runtime/lang/), built in as data.
 * Runs in the launcher. What they report is read by report.c.
 */
#include "runtime/lang_parts.h"

#include <string.h>

#include "check_ast_py.inc"
#include "check_js.inc"
#include "check_main_py.inc"
#include "check_py.inc"
#include "imports_py.inc"

static const char *name_of(const struct lang_request *r)
{
	return r->code ? CODE_NAME : r->file;
}

/* The rules, then the program that knows them; the tree's part is compiled at every start,
 * so it comes only when it is wanted. */
static void python_rules(struct buf *b, const struct lang_check *c)
{
	if (c->allow)
		python_list(b, "ALLOW", c->allow, false);
	else
		buf_str(b, "ALLOW = None\n");
	buf_fmt(b, "STRICT = %s\nWITH_AST = %s\n", c->strict ? "True" : "False",
		c->with_ast ? "True" : "False");
	buf_add(b, check_py, sizeof(check_py));
	if (c->with_ast)
		buf_add(b, check_ast_py, sizeof(check_ast_py));
}

void check_python(struct draft *d)
{
	static const char path[] = BOX_RUN_DIR "/check.py";
	struct buf b = BUF_INIT(BOOT_MAX);

	draft_arg(d, "-I");
	draft_arg(d, "-S");
	draft_arg(d, "-B");
	draft_arg(d, path);
	python_setting(&b, "NAME", name_of(d->r));
	python_setting(&b, "SOURCE", d->r->code ? CODE_PATH : d->r->file);
	python_setting(&b, "PROJECT", d->r->project);
	python_rules(&b, d->r->check);
	buf_add(&b, check_main_py, sizeof(check_main_py));
	draft_file(d, path, &b);
	draft_code(d, "");
}

const char *check_rules(struct draft *d)
{
	static const char path[] = BOX_RUN_DIR "/importlib_bootstrap_imports.py";
	struct buf b = BUF_INIT(BOOT_MAX);

	python_rules(&b, d->r->check);
	buf_add(&b, imports_py, sizeof(imports_py));
	draft_file(d, path, &b);
	return path;
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), t = strlen(tail);

	return n >= t && strcmp(s + n - t, tail) == 0;
}

void check_javascript(struct draft *d)
{
	static const char path[] = BOX_RUN_DIR "/check.js";
	const char *file = d->r->file;
	struct buf b = BUF_INIT(BOOT_MAX);

	draft_arg(d, "--experimental-vm-modules");
	draft_arg(d, path);
	js_setting(&b, "NAME", name_of(d->r));
	js_setting(&b, "SOURCE", file ? file : CODE_PATH);
	js_setting(&b, "KIND", file && ends_with(file, ".mjs")   ? "module"
			       : file && ends_with(file, ".cjs") ? "commonjs"
								 : NULL);
	buf_add(&b, check_js, sizeof(check_js));
	draft_file(d, path, &b);
	draft_code(d, "");
}

/* With -n bash reads and runs nothing; what it says on stderr is read by report.c. */
void check_bash(struct draft *d)
{
	draft_arg(d, "-n");
	draft_arg(d, d->r->code ? CODE_PATH : d->r->file);
	draft_code(d, "");
}
