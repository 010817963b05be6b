/* SPDX-License-Identifier: Apache-2.0 */
/* See code.h. Runs in the command. */
#include "tools/nsbox/code.h"

#include <string.h>

#include "tools/nsbox/nearest.h"
#include "tools/nsbox/paths.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/run.h"
#include "tools/nsbox/say.h"

static const struct code_language languages[] = {
	{ "python", { "py", "python3" }, { ".py", ".pyw" }, "python", "NSBOX_PYTHON" },
	{ "javascript", { "js", "node", "nodejs" }, { ".js", ".mjs", ".cjs" }, "node",
	  "NSBOX_NODE" },
	{ "bash", { "sh", "shell" }, { ".sh", ".bash" }, "shell", NULL },
};

static int by_name(const struct code_language **out, const char *name, struct nsbox_error *err)
{
	struct nearest n = NEAREST_INIT(name);

	for (size_t i = 0; i < CLI_COUNT(languages); i++) {
		const struct code_language *l = &languages[i];
		bool is_it = strcmp(l->name, name) == 0;

		for (size_t k = 0; k < CLI_COUNT(l->also) && l->also[k]; k++)
			is_it |= strcmp(l->also[k], name) == 0;
		if (is_it) {
			*out = l;
			return 0;
		}
		nearest_offer(&n, l->name);
	}
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	else
		cli_hint(err, "there are python, javascript and bash; 'nsbox run' runs any program");
	return cli_fail(err, NSBOX_E_USAGE, "unknown language '%s'", name);
}

static const struct code_language *by_suffix(const char *file)
{
	const char *dot = file ? strrchr(file, '.') : NULL;

	for (size_t i = 0; dot && i < CLI_COUNT(languages); i++) {
		const struct code_language *l = &languages[i];

		for (size_t k = 0; k < CLI_COUNT(l->suffixes) && l->suffixes[k]; k++) {
			if (strcmp(l->suffixes[k], dot) == 0)
				return l;
		}
	}
	return &languages[0];
}

int code_language(const struct code_language **out, const char *name, const char *file,
		  struct nsbox_error *err)
{
	if (name)
		return by_name(out, name, err);
	*out = by_suffix(file);
	return 0;
}

const char *code_language_name(size_t i)
{
	return i < CLI_COUNT(languages) ? languages[i].name : NULL;
}

/* Where the source comes from; owned until the run is over. */
struct source {
	char *text, *file, *interpreter;
};

static int take_source(struct source *s, const struct args *a, struct nsbox_run *run,
		       struct nsbox_error *err)
{
	const char *name = a->operands.n ? a->operands.v[0] : NULL;
	int r;

	run->argv = a->operands.v;
	if (a->code) {
		if (strlen(a->code) > CODE_MAX)
			return cli_fail(err, NSBOX_E_USAGE, "the code is larger than 16 MiB");
		run->code = a->code;
		return 0;
	}
	if (!name || !*name) {
		cli_hint(err, "%s", a->verb == FOR_STATIC
				    ? "say what to check: nsbox check (-c CODE | FILE | -)"
				    : "say what to run: nsbox code (-c CODE | FILE | -) [ARG...]");
		return cli_fail(err, NSBOX_E_USAGE, "no code given");
	}
	run->argv++;
	if (strcmp(name, "-") != 0) {
		r = path_absolute(&s->file, name, err);
		run->file = s->file;
		return r;
	}
	if (a->keep_stdin || a->tty) {
		cli_hint(err, "give the code with -c or as a file");
		return cli_fail(err, NSBOX_E_USAGE,
				"'-' reads the code from standard input, so -i and -t cannot");
	}
	r = fd_slurp(STDIN_FILENO, "the code on standard input", CODE_MAX, &s->text,
		     &run->code_len, err);
	run->code = s->text;
	return r;
}

int code_interpreter(char **out, const struct code_language *l, struct nsbox_error *err)
{
	const char *named = l->variable ? getenv(l->variable) : NULL;
	int r;

	if (!named || !*named)
		return 0;
	r = path_program(out, named, err);
	if (r < 0)
		snprintf(err->hint, sizeof(err->hint), "%s names it: give a path, or unset it",
			 l->variable);
	return r;
}

static int prepare(struct source *s, const struct args *a, struct nsbox_run *run,
		   const struct code_language **l, struct nsbox_error *err)
{
	int r = a->language ? code_language(l, a->language, NULL, err) : 0;

	if (r == 0)
		r = take_source(s, a, run, err);
	if (r == 0 && !a->language)
		r = code_language(l, NULL, run->file, err);
	if (r < 0)
		return r;
	run->language = (*l)->name;
	if (!a->interpreter)
		r = code_interpreter(&s->interpreter, *l, err);
	run->interpreter = s->interpreter;
	return r;
}

int verb_check(struct args *a)
{
	a->tier = "static";
	return verb_code(a);
}

int verb_code(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = NSBOX_RUN_INIT;
	const struct code_language *l = NULL;
	struct source s = { 0 };
	int status;

	if (prepare(&s, a, &run, &l, &err) < 0)
		status = report_error(a, &err);
	else
		status = run_request(a, &run, l->profile);
	free(s.text);
	free(s.file);
	free(s.interpreter);
	return status;
}
