/* JavaScript and bash by lang.c, next to the bare interpreters. */
#include "tests/unit/lang_run.h"

/* ----------------------------------------------------------- javascript -- */

static const struct {
	const char *code;
	int status;
	const char *out, *err;
} js_rows[] = {
	{ "console.log(6 * 7)", 0, "42\n", NULL },
	{ "process.exit(3)", 3, "", NULL },
	{ "process.exitCode = 4; require('fs').writeSync(1, 'x')", 4, "x", NULL },
	{ "const f = () => { throw new Error('boom') };\nf()", 1, "",
	  "<code>:1\nconst f" },
	{ "function g() { throw new Error('boom') }\n\ng()", 1, "",
	  "at Object.<anonymous> (<code>:3:1)" },
	{ "let x = ;", 1, "", "<code>:1\nlet x = ;" },
	{ "#!/usr/bin/env node\nconsole.log(1)", 0, "1\n", NULL },
	{ "\xef\xbb\xbf" "console.log(2)", 0, "2\n", NULL },
	{ "console.log(require.main === module, this === module.exports,"
	  " __dirname === process.cwd(), typeof require.resolve('fs'))", 0,
	  "true true true string\n", NULL },
	{ "console.log(process.argv.length, process.argv[1] === __filename)", 0,
	  "2 true\n", NULL },
	{ "import('path').then((m) => console.log(m.join('a', 'b')))", 0,
	  "a/b\n", NULL },
	{ "import fs, { readFileSync } from 'fs';\nimport * as p from 'node:path';\n"
	  "console.log(fs.readFileSync === readFileSync, p.sep, typeof require);",
	  0, "true / undefined\n", NULL },
	{ "const x = await Promise.resolve(5);\nconsole.log(x)", 0, "5\n", NULL },
	{ "export const a = 1; console.log(a, import.meta.url.slice(-15),"
	  " import.meta.resolve('fs'))", 0, "1 /cwd/%3Ccode%3E node:fs\n", NULL },
	{ "import fs from 'fs';\nfunction g() { throw new Error('boom') }\ng()", 1,
	  "", "at <code>:3:1" },
	{ "import fs from 'fs';\nlet x = ;", 1, "", "<code>:2\nlet x = ;" },
	{ "import x from 'no-such-package'", 1, "", "ERR_MODULE_NOT_FOUND" },
	{ "import { nope } from 'fs'", 1, "", "nope" },
	{ "await new Promise(() => {})", 13, "", NULL },
	{ "Promise.reject(new Error('lost'))", 1, "", "lost" },
	{ "process.nextTick(() => console.log('tick'));\n"
	  "Promise.resolve().then(() => console.log('micro'));\n"
	  "setImmediate(() => console.log('late'));\nconsole.log('main')", 0,
	  "main\ntick\nmicro\nlate\n", NULL },
	{ "const w = require('worker_threads');\nif (w.isMainThread)\n"
	  "new w.Worker(__filename).on('message', (m) => console.log(m));\n"
	  "else w.parentPort.postMessage('from a worker')", 0, "from a worker\n",
	  NULL },
	{ "const { fork } = require('child_process');\nif (!process.send)"
	  " fork(__filename).on('message', (m) => console.log(m));\n"
	  "else process.send('from a child')", 0, "from a child\n", NULL },
};

static void javascript_code_runs_as_script_and_as_module(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(js_rows); i++) {
		struct outcome o = run_code(&node, js_rows[i].code);

		assert_null(strstr(buf_text(&o.err), "boot.js"));
		assert_null(strstr(buf_text(&o.err), "Experimental"));
		expect(o, js_rows[i].status, js_rows[i].out, js_rows[i].err);
	}
}

static void javascript_file_is_like_a_bare_file(void **state)
{
	owned_mem char *path = join(scratch, "/cwd/a script.js");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(js_rows); i++) {
		struct lang_request r = { .interp = &node, .file = path };

		write_file(path, js_rows[i].code, strlen(js_rows[i].code));
		same_outcome(js_rows[i].code, run_bare(&node, NULL, path),
			     run_request(&r));
	}
}

static void javascript_finds_the_packages_of_a_project(void **state)
{
	static const char *const codes[] = {
		"console.log(require('left').x)",
		"import left from 'left'; console.log(left.x)",
		"import('left').then((m) => console.log(m.default.x))",
	};
	owned_mem char *project = join(scratch, "/project");
	owned_mem char *modules = join(project, "/node_modules");
	owned_mem char *left = join(modules, "/left");
	owned_mem char *index = join(left, "/index.js");

	(void)state;
	mkdir(project, 0755);
	mkdir(modules, 0755);
	mkdir(left, 0755);
	write_file(index, "exports.x = 8", 13);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		struct lang_request r = { .interp = &node, .code = codes[i],
					  .code_len = strlen(codes[i]),
					  .project = project };

		expect(run_request(&r), 0, "8\n", NULL);
		r.project = NULL;
		expect(run_request(&r), 1, "", "left");
	}
}

/* ----------------------------------------------------------------- bash -- */

static const char *const bash_same[] = {
	"echo \"$0 $# $* $LINENO $-\" \"$PWD\" \"${OLDPWD-none}\" \"${BASH_SOURCE[0]}\"",
	"",
	"#!/bin/bash\nset -e\nfalse\necho unreachable",
	"exit 7",
	"nonesuch\necho after",
	"f() { nonesuch; caller 0; echo \"${FUNCNAME[*]} ${BASH_SOURCE[*]}\"; }\nf",
	"if true; then\n  echo x\n",
	"echo one\nif ; then",
	"set -u\necho $undefined",
	"[[ \"${BASH_SOURCE[0]}\" == \"$0\" ]] && echo main",
	"trap 'echo bye $?' EXIT\nfalse",
	"trap 'echo error on $LINENO' ERR\ntrue\nfalse\n(pwd)\ncat <(pwd) | cat",
	"(pwd); x=$(pwd); echo $x",
	"return 3",
	"kill -TERM $$",
	"read x; echo \"[$x]\"",
	"cat <<EOF\n$0\nEOF\n",
	"declare -F; compgen -v | grep -i nsbox; env | grep BASH",
	"cd /; cd -; echo $OLDPWD",
	"echo caf\xc3\xa9 \xff",
	"echo crlf\r\n",
};

static void bash_code_is_like_a_bare_file(void **state)
{
	owned_mem char *path = join(scratch, "/cwd/<code>");
	owned_mem char *script = join(scratch, "/cwd/a script.sh");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bash_same); i++) {
		struct lang_request r = { .interp = &bash, .file = script };
		size_t len = strlen(bash_same[i]);
		struct outcome bare;

		write_file(path, bash_same[i], len);
		bare = run_bare(&bash, NULL, "<code>"); /* relative to it */
		unlink(path);
		same_outcome(bash_same[i], bare, run_code(&bash, bash_same[i]));
		write_file(script, bash_same[i], len);
		same_outcome(bash_same[i], run_bare(&bash, NULL, script),
			     run_request(&r));
	}
}

static void bash_gets_its_arguments(void **state)
{
	const char *const args[] = { "a b", "-x", "", NULL };
	struct lang_request r = { .interp = &bash, .args = args,
				  .code = "printf '<%s>' \"$@\"", .code_len = 18 };

	(void)state;
	expect(run_request(&r), 0, "<a b><-x><>", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(javascript_code_runs_as_script_and_as_module),
		cmocka_unit_test(javascript_file_is_like_a_bare_file),
		cmocka_unit_test(javascript_finds_the_packages_of_a_project),
		cmocka_unit_test(bash_code_is_like_a_bare_file),
		cmocka_unit_test(bash_gets_its_arguments),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
