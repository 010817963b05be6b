/*
 * lang.c without a box: the files of a command are written to a folder that
 * stands in for /run/nsbox, and the command is run. What the user's program
 * prints, and how it ends, must be what the bare interpreter makes of the same
 * text in a file.
 *
 * NSBOX_TEST_PYTHONS: a colon list of more interpreters to try.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "runtime/lang.h"

#define OUTPUT_MAX ((size_t)32 << 20)
#define PYTHONS_MAX 16

struct outcome {
	int status;		/* exit code, or 128 + signal */
	struct buf out, err;
};

static char scratch[64];	/* stands in for /run/nsbox: scratch/run */
static struct interp pythons[PYTHONS_MAX];
static size_t python_count;
static struct interp node = { .language = (char *)"javascript",
			      .program = (char *)"/usr/bin/node" };
static struct interp bash = { .language = (char *)"bash",
			      .program = (char *)"/bin/bash" };

/* ------------------------------------------------------------ running -- */

static char *join(const char *a, const char *b)
{
	char *s = NULL;

	assert_true(asprintf(&s, "%s%s", a, b) >= 0);
	return s;
}

static void write_file(const char *path, const void *data, size_t len)
{
	owned_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		assert_true(n > 0);
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

static void read_back(int fd, struct buf *b)
{
	char chunk[65536];
	ssize_t n;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(b, chunk, (size_t)n);
	assert_int_equal(n, 0);
	assert_false(b->failed);
}

/* Every @from in text becomes @to; malloc'ed. */
static char *replaced(const char *text, size_t len, const char *from,
		      const char *to, size_t *out_len)
{
	struct buf b = BUF_INIT(OUTPUT_MAX);
	size_t n = strlen(from);

	for (size_t i = 0; i < len;) {
		if (len - i >= n && memcmp(text + i, from, n) == 0) {
			buf_str(&b, to);
			i += n;
		} else {
			buf_char(&b, text[i++]);
		}
	}
	if (out_len)
		*out_len = b.len;
	return buf_take(&b);
}

static int temp_fd(void)
{
	owned_mem char *path = join(scratch, "/tmp.XXXXXX");
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static int ended(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + WTERMSIG(status);
}

static struct outcome spawn(char *const *argv, char *const *env)
{
	struct outcome o = { .out = BUF_INIT(OUTPUT_MAX), .err = BUF_INIT(OUTPUT_MAX) };
	owned_mem char *work = join(scratch, "/work");
	owned_fd int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	owned_fd int out = temp_fd();
	owned_fd int err = temp_fd();
	pid_t pid = fork();

	assert_true(pid >= 0 && in >= 0);
	if (pid == 0) {
		if (chdir(work) < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 ||
		    dup2(err, 2) < 0)
			_exit(120);
		execve(argv[0], argv, env);
		_exit(121);
	}
	o.status = ended(pid);
	read_back(out, &o.out);
	read_back(err, &o.err);
	return o;
}

static void base_env(struct strlist *env)
{
	assert_int_equal(strlist_add(env, "PATH=/usr/bin:/bin"), 0);
	assert_int_equal(strlist_add(env, "LANG=C.UTF-8"), 0);
	assert_int_equal(strlist_add(env, "PYTHONDONTWRITEBYTECODE=1"), 0);
}

static struct outcome run_command(const struct lang_command *c)
{
	owned_mem char *run = join(scratch, "/run");
	struct strlist argv = { 0 }, env = { 0 };
	struct outcome o;

	base_env(&env);
	for (size_t i = 0; i < c->argv.n; i++) {
		const char *a = c->argv.v[i];
		owned_mem char *s = replaced(a, strlen(a), BOX_RUN_DIR, run, NULL);

		assert_int_equal(strlist_add(&argv, s), 0);
	}
	for (size_t i = 0; i < c->env.n; i++) {
		const char *e = c->env.v[i];
		owned_mem char *s = replaced(e, strlen(e), BOX_RUN_DIR, run, NULL);

		assert_int_equal(strlist_add(&env, s), 0);
	}
	for (size_t i = 0; i < c->file_count; i++) {
		const struct lang_file *f = &c->files[i];
		owned_mem char *path = replaced(f->path, strlen(f->path),
						BOX_RUN_DIR, run, NULL);
		size_t len;
		owned_mem char *data = replaced(f->data, f->len, BOX_RUN_DIR,
						run, &len);

		write_file(path, data, len);
	}
	o = spawn(argv.v, env.v);
	strlist_free(&argv);
	strlist_free(&env);
	return o;
}

static struct outcome run_request(const struct lang_request *r)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct lang_command c = { 0 };
	struct outcome o;

	if (lang_command(&c, r, &err) < 0)
		fail_msg("%s", err.message);
	o = run_command(&c);
	lang_command_free(&c);
	return o;
}

static struct outcome run_code(const struct interp *i, const char *code)
{
	struct lang_request r = { .interp = i, .code = code,
				  .code_len = strlen(code) };

	return run_request(&r);
}

static void outcome_free(struct outcome *o)
{
	buf_free(&o->out);
	buf_free(&o->err);
}

static void expect(struct outcome o, int status, const char *out,
		   const char *err_part)
{
	if (strcmp(buf_text(&o.out), out) != 0 || o.status != status ||
	    (err_part && !strstr(buf_text(&o.err), err_part)) ||
	    (!err_part && o.err.len))
		fail_msg("status %d, not %d\nstdout: %s\nexpected: %s\n"
			 "stderr: %s\nexpected: %s", o.status, status,
			 buf_text(&o.out), out, buf_text(&o.err),
			 err_part ? err_part : "nothing");
	outcome_free(&o);
}

static void same_outcome(const char *what, struct outcome a, struct outcome b)
{
	if (a.status != b.status || strcmp(buf_text(&a.out), buf_text(&b.out)) ||
	    strcmp(buf_text(&a.err), buf_text(&b.err)))
		fail_msg("%s\nbare: %d\n%s%s\nnsbox: %d\n%s%s", what, a.status,
			 buf_text(&a.out), buf_text(&a.err), b.status,
			 buf_text(&b.out), buf_text(&b.err));
	outcome_free(&a);
	outcome_free(&b);
}

static void rename_in(struct buf *b, const char *from, const char *to)
{
	size_t len;
	char *s = replaced(buf_text(b), b->len, from, to, &len);

	buf_free(b);
	b->data = s;
	b->len = len;
	b->cap = len + 1;
}

/* The bare interpreter on the same text in a file that is called "<code>". */
static struct outcome run_bare(const struct interp *i, const char *const *flags,
			       const char *path)
{
	struct strlist argv = { 0 }, env = { 0 };
	struct outcome o;

	base_env(&env);
	assert_int_equal(strlist_add(&argv, i->program), 0);
	for (; flags && *flags; flags++)
		assert_int_equal(strlist_add(&argv, *flags), 0);
	assert_int_equal(strlist_add(&argv, path), 0);
	o = spawn(argv.v, env.v);
	strlist_free(&argv);
	strlist_free(&env);
	return o;
}

#define FLAGS(...) (const char *const[]){ __VA_ARGS__, NULL }

/* --------------------------------------------------------------- python -- */

/* Equal to the bare interpreter in output, messages and exit, as code and as file. */
static const char *const python_same[] = {
	"print('hello')",
	"",
	"import sys; sys.exit(3)",
	"import sys; sys.exit('a message')",
	"raise SystemExit",
	"exit(4)",
	"quit()",
	"1/0",
	"def f():\n    return nonexistent\ntry:\n    f()\nexcept NameError as e:\n"
	"    raise ValueError('x') from e\n",
	"class E(Exception): pass\ndef g(n):\n    return g(n - 1) if n else 1 / 0\n"
	"g(3)\n",
	"def f(n): return f(n + 1)\nf(0)\n",
	"raise KeyboardInterrupt",
	"x = (1,\n",
	"def f():\nreturn 1\n",
	"print(__name__, sorted(k for k in globals() if k != '__file__' and"
	" k != '__cached__'))",
	"import sys; print(sys.modules['__main__'].__dict__ is globals(),"
	" __builtins__ is sys.modules['builtins'], __spec__, __package__, __doc__)",
	"'''a docstring'''\nfrom __future__ import annotations\nprint(__doc__)\n"
	"def f(x: undefined_name): pass\nprint(f.__annotations__)\n",
	"def f(x: int): pass\nprint(f.__annotations__)\n",
	"import atexit\natexit.register(print, 'bye')\nprint('hi')\n1/0\n",
	"input()",
	"import sys\nsys.excepthook = lambda t, v, tb: print(t.__name__,"
	" tb.tb_next, tb.tb_frame.f_code.co_name)\n1/0\n",
	"import sys; print(sys.excepthook is sys.__excepthook__, sys.stdin.read())",
	"class C:\n    def __del__(self): print('del')\nc = C()\n",
	"import threading\nt = threading.Thread(target=print, args=('t',))\n"
	"t.start()\n",
	"import pickle\nclass C: pass\ndef f(): return 7\n"
	"print(pickle.loads(pickle.dumps(f))(), type(pickle.loads(pickle.dumps("
	"C()))) is C)\n",
	"print(type(exit).__name__, repr(exit), repr(quit), repr(help)[:9])",
	"import multiprocessing as m\ndef f(x): return x * x\n"
	"if __name__ == '__main__':\n"
	"    with m.get_context('fork').Pool(2) as p: print(p.map(f, range(4)))\n",
	"import multiprocessing as m\ndef f(x): return x * x\n"
	"if __name__ == '__main__':\n"
	"    with m.get_context('spawn').Pool(1) as p: print(p.map(f, range(4)))\n",
	"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
	"\xef\xbb\xbfprint('bom')\n",
	"print('crlf')\r\nif 1:\r\n    print('''a\r\nb''')\r\n",
	"print('cr')\rprint('again')\r",
	"print('\\ud800')",
	"import warnings\nwarnings.warn('careful')\nwarnings.warn('up', stacklevel=2)\n",
	"import doctest\ndef f():\n    '''\n    >>> f()\n    1\n    '''\n"
	"    return 2\nprint(doctest.testmod().failed)\n",
	"import inspect\ndef f():\n    return 5  # five\nprint(inspect.getsource(f))\n",
	"import traceback\ndef f():\n    raise KeyError('k')\ntry:\n    f()\n"
	"except KeyError:\n    traceback.print_exc()\n",
	"import sys; print(sys.argv[1:], sys.flags.isolated)",
	"import signal, os\nos.kill(os.getpid(), signal.SIGTERM)\n",
	"import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0\n"
	"asyncio.run(f())\n",
};

static void python_code_is_like_a_bare_file(void **state)
{
	owned_mem char *path = join(scratch, "/native/<code>");

	(void)state;
	for (size_t p = 0; p < python_count; p++)
		for (size_t i = 0; i < ARRAY_SIZE(python_same); i++) {
			const char *code = python_same[i];
			struct outcome a;

			write_file(path, code, strlen(code));
			a = run_bare(&pythons[p], FLAGS("-I", "-u", "-B"), path);
			rename_in(&a.err, path, "<code>");
			rename_in(&a.out, path, "<code>");
			same_outcome(code, a, run_code(&pythons[p], code));
		}
}

static void python_file_is_like_a_bare_file(void **state)
{
	owned_mem char *path = join(scratch, "/work/a script.py");

	(void)state;
	for (size_t p = 0; p < python_count; p++)
		for (size_t i = 0; i < ARRAY_SIZE(python_same); i++) {
			struct lang_request r = { .interp = &pythons[p],
						  .file = path };
			const char *code = python_same[i];
			struct outcome a;

			write_file(path, code, strlen(code));
			a = run_bare(&pythons[p], FLAGS("-I", "-u", "-B"), path);
			same_outcome(code, a, run_request(&r));
		}
}

static void python_code_has_no_file_and_dash_c_as_its_name(void **state)
{
	static const char code[] =
		"import sys\nprint('__file__' in globals(), sys.argv, __name__)\n";
	const char *const args[] = { "a b", "-x", "", NULL };

	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		struct lang_request r = { .interp = &pythons[p], .code = code,
					  .code_len = sizeof(code) - 1,
					  .args = args };

		expect(run_request(&r), 0,
		       "False ['-c', 'a b', '-x', ''] __main__\n", NULL);
	}
}

static void python_path_is_the_module_path_and_nothing_else(void **state)
{
	static const char code[] =
		"import sys, os\nprint('\\n'.join(sys.path))\n"
		"print(os.getcwd() in sys.path, [m for m in sys.modules"
		" if 'boot' in m and not m.startswith('_frozen')])\n";

	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		struct buf want = BUF_INIT(OUTPUT_MAX);

		for (size_t i = 0; i < pythons[p].module_path.n; i++) {
			buf_str(&want, pythons[p].module_path.v[i]);
			buf_char(&want, '\n');
		}
		buf_str(&want, "False []\n");
		expect(run_code(&pythons[p], code), 0, buf_text(&want), NULL);
		buf_free(&want);
	}
}

static void a_project_comes_last_and_shadows_nothing(void **state)
{
	owned_mem char *dir = join(scratch, "/work/pr\xc3\xb6j'\xff");
	owned_mem char *shadow = join(dir, "/json.py");
	owned_mem char *sibling = join(dir, "/sibling.py");
	owned_mem char *script = join(dir, "/main.py");
	static const char code[] = "import sys, json\n"
		"print(json.dumps([1]), sys.path[-1] == sys.path[-1])\n"
		"import sibling\nprint(sibling.x, sibling.__file__ =="
		" sys.path[-1] + '/sibling.py')\n";

	(void)state;
	mkdir(dir, 0755);
	write_file(shadow, "raise SystemExit(9)\n", 20);
	write_file(sibling, "x = 5\n", 6);
	write_file(script, code, sizeof(code) - 1);
	for (size_t p = 0; p < python_count; p++) {
		struct lang_request r = { .interp = &pythons[p],
					  .file = script, .project = dir };

		expect(run_request(&r), 0, "[1] True\n5 True\n", NULL);
		r.project = NULL; /* the folder of a script alone is not searched */
		expect(run_request(&r), 1, "[1] True\n", "No module named 'sibling'");
	}
}

static void python_keeps_site_where_the_interpreter_needs_it(void **state)
{
	static const char code[] = "import sys\nprint(sys.flags.no_site,"
		" 'site' in sys.modules, sys.path[-2:])\n";

	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		struct interp i = pythons[p];
		struct strlist more = { 0 };
		struct lang_request r = { .interp = &i, .code = code,
					  .code_len = sizeof(code) - 1,
					  .project = "/nonexistent/project" };

		i.needs_site = true;
		assert_int_equal(strlist_copy(&more, &i.module_path), 0);
		assert_int_equal(strlist_add(&more, "/nonexistent/extra"), 0);
		i.module_path = more;
		expect(run_request(&r), 0, "0 True ['/nonexistent/extra',"
		       " '/nonexistent/project']\n", NULL);
		strlist_free(&more);
	}
}

static void python_prefix_is_that_of_the_bare_interpreter(void **state)
{
	static const char code[] = "import sys\nprint(sys.prefix, sys.exec_prefix,"
		" sys.base_prefix, sys.executable)\n";
	owned_mem char *path = join(scratch, "/work/prefix.py");

	(void)state;
	write_file(path, code, sizeof(code) - 1);
	for (size_t p = 0; p < python_count; p++)
		same_outcome(pythons[p].program,
			     run_bare(&pythons[p], FLAGS("-I"), path),
			     run_code(&pythons[p], code));
}

static void python_source_that_is_no_text_is_a_syntax_error(void **state)
{
	static const struct {
		const char *code;
		size_t len;
		const char *message;
	} rows[] = {
		{ "print(1)\nx = '\0'\n", 16, "null bytes" },
		{ "x = '\xe9'\n", 8, "SyntaxError" },
		{ "x = '\xed\xa0\x80'\n", 10, "SyntaxError" }, /* a surrogate */
		{ "# coding: nonesuch\n", 19, "nonesuch" },
	};

	(void)state;
	for (size_t p = 0; p < python_count; p++)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			struct lang_request r = { .interp = &pythons[p],
						  .code = rows[i].code,
						  .code_len = rows[i].len };
			struct outcome o = run_request(&r);

			assert_non_null(strstr(buf_text(&o.err), "SyntaxError"));
			assert_non_null(strstr(buf_text(&o.err), "<code>"));
			assert_null(strstr(buf_text(&o.err), "bootstrap"));
			expect(o, 1, "", rows[i].message);
		}
}

static void source_of_16_mib_runs_and_more_is_refused(void **state)
{
	size_t len = (size_t)16 << 20;
	owned_mem char *code = malloc(len + 1);
	const struct interp *rows[] = { &pythons[0], &node, &bash };
	const char *const tails[] = { "\nprint('end')", "\nconsole.log('end')",
				      "\necho end" };

	(void)state;
	assert_non_null(code);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct lang_command c = { 0 };
		struct lang_request r = { .interp = rows[i], .code = code,
					  .code_len = len };
		size_t tail = strlen(tails[i]);

		memset(code, i == 1 ? '/' : '#', len);
		memcpy(code + len - tail, tails[i], tail);
		expect(run_request(&r), 0, "end\n", NULL);
		r.code_len = len + 1;
		code[len] = '\n';
		assert_int_equal(lang_command(&c, &r, &err), NSBOX_E_USAGE);
		assert_non_null(strstr(err.message, "16777217 bytes"));
		assert_null(c.files);
	}
}

static void python_code_is_found_by_inspect_and_by_spawned_workers(void **state)
{
	static const char code[] =
		"import multiprocessing as m\n"
		"def f(x): return x + 1\n"
		"if __name__ == '__main__':\n"
		"    with m.get_context('spawn').Pool(1) as p:\n"
		"        print(p.map(f, [1, 2]))\n"
		"    with m.get_context('forkserver').Pool(1) as p:\n"
		"        print(p.map(f, [3]))\n"
		"    import inspect, sys\n"
		"    print(inspect.getsource(f), end='')\n"
		"    print([f for f in sys.meta_path if not isinstance(f, type)"
		" or 'main' in f.__module__])\n";

	(void)state;
	for (size_t p = 0; p < python_count; p++)
		expect(run_code(&pythons[p], code), 0, "[2, 3]\n[4]\n"
		       "def f(x): return x + 1\n[]\n", NULL);
}

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
	{ "export const a = 1; console.log(a, import.meta.url.slice(-14),"
	  " import.meta.resolve('fs'))", 0, "1 work/%3Ccode%3E node:fs\n", NULL },
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
	owned_mem char *path = join(scratch, "/work/a script.js");

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
	owned_mem char *path = join(scratch, "/work/<code>");
	owned_mem char *script = join(scratch, "/work/a script.sh");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bash_same); i++) {
		struct lang_request r = { .interp = &bash, .file = script };
		size_t len = strlen(bash_same[i]);
		struct outcome bare;

		write_file(path, bash_same[i], len);
		bare = run_bare(&bash, NULL, "<code>"); /* relative to work */
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

/* --------------------------------------------------------------- tables -- */

static void names_and_extensions_are_known(void **state)
{
	(void)state;
	assert_string_equal(lang_canonical("py"), "python");
	assert_string_equal(lang_canonical("node"), "javascript");
	assert_string_equal(lang_canonical("js"), "javascript");
	assert_string_equal(lang_canonical("sh"), "bash");
	assert_string_equal(lang_canonical("bash"), "bash");
	assert_null(lang_canonical("perl"));
	assert_null(lang_canonical(""));
	assert_string_equal(lang_of_file("/a.b/x.py"), "python");
	assert_string_equal(lang_of_file("x.mjs"), "javascript");
	assert_string_equal(lang_of_file("x.tar.sh"), "bash");
	assert_null(lang_of_file("/x.py/plain"));
	assert_null(lang_of_file(".py"));
	assert_null(lang_of_file("x.PY"));
}

static void a_request_that_makes_no_sense_is_refused(void **state)
{
	const struct interp perl = { .language = (char *)"perl",
				     .program = (char *)"/usr/bin/perl" };
	const struct lang_request rows[] = {
		{ .interp = &bash },
		{ .interp = &bash, .code = "x", .code_len = 1, .file = "/x" },
		{ .interp = &bash, .file = "x.sh" },
		{ .interp = &bash, .file = "/x.sh", .project = "p" },
		{ .interp = &perl, .file = "/x.pl" },
		{ .file = "/x.sh" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct lang_command c = { 0 };

		assert_int_equal(lang_command(&c, &rows[i], &err), NSBOX_E_USAGE);
		assert_int_equal(err.code, NSBOX_E_USAGE);
		assert_true(err.message[0] && !c.argv.v && !c.files);
	}
}

static void old_nodes_are_told_to_detect_modules(void **state)
{
	static const struct { const char *version; bool flag; } rows[] = {
		{ "18.20.4", false }, { "20.9.0", false }, { "20.10.0", true },
		{ "20.18.3", true }, { "20.19.0", false }, { "21.0.0", false },
		{ "21.7.0", true }, { "22.6.0", true }, { "22.7.0", false },
		{ "24.1.0", false }, { "junk", false }, { NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct interp n = node;
		struct lang_request r = { .interp = &n, .file = "/x.js" };
		struct lang_command c = { 0 };

		n.version = (char *)rows[i].version;
		assert_int_equal(lang_command(&c, &r, NULL), 0);
		assert_int_equal(strlist_has(&c.argv, "--experimental-detect-module"),
				 rows[i].flag);
		lang_command_free(&c);
	}
}

/* ---------------------------------------------------------------- set-up -- */

static void add_python(const char *program)
{
	struct interp *i = &pythons[python_count];
	const char *argv[] = { program, "-I", "-c",
			       "import sys; print('\\n'.join(sys.path))", NULL };
	char *env[] = { (char *)"PATH=/usr/bin:/bin", NULL };
	struct outcome o;

	if (python_count == PYTHONS_MAX || access(program, X_OK) < 0)
		fail_msg("no interpreter %s", program);
	o = spawn((char *const *)argv, env);
	assert_int_equal(o.status, 0);
	for (char *s = o.out.data, *end; (end = strchr(s, '\n')); s = end + 1)
		assert_int_equal(strlist_add_len(&i->module_path, s,
						 (size_t)(end - s)), 0);
	outcome_free(&o);
	i->language = (char *)"python";
	i->program = strdup(program);
	assert_non_null(i->program);
	python_count++;
}

/* What `python3` on PATH really is: it may be a shim that is a script. */
static void add_path_python(void)
{
	FILE *f = popen("python3 -c 'import sys; print(sys.executable)'", "re");
	char line[4096];

	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_int_equal(pclose(f), 0);
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, "/usr/bin/python3") != 0)
		add_python(line);
}

static void add_venv(void)
{
	owned_mem char *dir = join(scratch, "/venv");
	owned_mem char *program = join(dir, "/bin/python");
	char *argv[] = { (char *)"/usr/bin/python3", (char *)"-m", (char *)"venv",
			 (char *)"--without-pip", dir, NULL };
	char *env[] = { (char *)"PATH=/usr/bin:/bin", NULL };
	struct outcome o = spawn(argv, env);

	if (o.status != 0)
		fail_msg("%s%s", buf_text(&o.out), buf_text(&o.err));
	outcome_free(&o);
	add_python(program);
}

static int set_up(void **state)
{
	static const char *const folders[] = { "/run", "/work", "/native" };
	const char *more = getenv("NSBOX_TEST_PYTHONS");
	owned_mem char *list = strdup(more ? more : "");

	(void)state;
	strcpy(scratch, "/tmp/nsbox-lang.XXXXXX");
	if (!list || !mkdtemp(scratch))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		owned_mem char *path = join(scratch, folders[i]);

		if (mkdir(path, 0755) < 0)
			return -1;
	}
	add_python("/usr/bin/python3");
	add_path_python();
	add_venv();
	for (char *s = strtok(list, ":"); s; s = strtok(NULL, ":"))
		add_python(s);
	return 0;
}

static int tear_down(void **state)
{
	char *argv[] = { (char *)"/bin/rm", (char *)"-rf", scratch, NULL };
	char *env[] = { NULL };
	struct outcome o;

	(void)state;
	for (size_t i = 0; i < python_count; i++) {
		free(pythons[i].program);
		strlist_free(&pythons[i].module_path);
	}
	o = spawn(argv, env);
	outcome_free(&o);
	return o.status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_extensions_are_known),
		cmocka_unit_test(a_request_that_makes_no_sense_is_refused),
		cmocka_unit_test(old_nodes_are_told_to_detect_modules),
		cmocka_unit_test(python_code_is_like_a_bare_file),
		cmocka_unit_test(python_file_is_like_a_bare_file),
		cmocka_unit_test(python_code_has_no_file_and_dash_c_as_its_name),
		cmocka_unit_test(python_path_is_the_module_path_and_nothing_else),
		cmocka_unit_test(a_project_comes_last_and_shadows_nothing),
		cmocka_unit_test(python_keeps_site_where_the_interpreter_needs_it),
		cmocka_unit_test(python_prefix_is_that_of_the_bare_interpreter),
		cmocka_unit_test(python_source_that_is_no_text_is_a_syntax_error),
		cmocka_unit_test(python_code_is_found_by_inspect_and_by_spawned_workers),
		cmocka_unit_test(source_of_16_mib_runs_and_more_is_refused),
		cmocka_unit_test(javascript_code_runs_as_script_and_as_module),
		cmocka_unit_test(javascript_file_is_like_a_bare_file),
		cmocka_unit_test(javascript_finds_the_packages_of_a_project),
		cmocka_unit_test(bash_code_is_like_a_bare_file),
		cmocka_unit_test(bash_gets_its_arguments),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
