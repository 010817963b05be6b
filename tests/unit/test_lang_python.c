/*
 * Python by lang.c: what the user's program prints, and how it ends, must be what
 * the bare interpreter makes of the same text in a file.
 */
#include "tests/unit/lang_run.h"

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
	"def f(n): return f(n + 1)\ntry: f(0)\n"
	"except RecursionError as e: print(e)\n",
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
	"import doctest\ndef f():\n    '''\n    >>> f()\n    2\n    '''\n"
	"    return 2\nprint(doctest.testmod())\n",
	"import inspect\ndef f():\n    return 5  # five\nprint(inspect.getsource(f))\n",
	"import traceback\ndef f():\n    raise KeyError('k')\ntry:\n    f()\n"
	"except KeyError:\n    traceback.print_exc()\n",
	"import sys; print(sys.argv[1:], sys.flags.isolated)",
	"import warnings\nwarnings.simplefilter('ignore')\ntry:\n"
	"    import distutils\n    print(distutils.__file__)\n"
	"except ImportError as e: print(e)\n",
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
	owned_mem char *path = join(scratch, "/cwd/a script.py");

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
	owned_mem char *dir = join(scratch, "/cwd/pr\xc3\xb6j'\xff");
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

/* Before 3.12 it is in the library, unless setuptools says otherwise; then only
 * setuptools' stand-in is left, as with site. */
static void python_finds_the_distutils_there_is(void **state)
{
	owned_mem char *dir = join(scratch, "/packages");
	owned_mem char *hack = join(dir, "/_distutils_hack.py");
	owned_mem char *package = join(dir, "/stand_in.py");
	owned_mem char *pth = join(dir, "/distutils-precedence.pth");
	static const char finder[] =
		"import importlib.util, os\nclass DistutilsMetaFinder:\n"
		"    def find_spec(self, name, path, target=None):\n"
		"        return importlib.util.spec_from_file_location(name,"
		" os.path.dirname(__file__) + '/stand_in.py')\n";
	static const char precedence[] = "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled ="
		" os.environ.get(var, 'local') == 'local';"
		" enabled and __import__('_distutils_hack').add_shim(); \n";
	static const char code[] = "import sys, warnings\n"
		"warnings.simplefilter('ignore')\nimport distutils, os\n"
		"folders = [p + '/distutils-precedence.pth' for p in sys.path]\n"
		"there = any(\"'local') == 'local'\" in open(f).read()\n"
		"            for f in folders if os.path.exists(f))\n"
		"given = hasattr(distutils, 'stand_in') or 'setuptools' in distutils.__file__\n"
		"print(given == (there or sys.version_info >= (3, 12)))\n";

	(void)state;
	mkdir(dir, 0755);
	write_file(hack, finder, sizeof(finder) - 1);
	write_file(package, "stand_in = True\n", 16);
	for (size_t p = 0; p < 2 * python_count; p++) {
		struct lang_request r = { .interp = &pythons[p % python_count], .code = code,
					  .code_len = sizeof(code) - 1,
					  .project = dir };

		if (p == python_count)
			write_file(pth, precedence, sizeof(precedence) - 1);
		expect(run_request(&r), 0, "True\n", NULL);
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
	owned_mem char *path = join(scratch, "/cwd/prefix.py");

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
		" or 'main' in f.__module__ and f.__name__ != 'Late'])\n";

	(void)state;
	for (size_t p = 0; p < python_count; p++)
		expect(run_code(&pythons[p], code), 0, "[2, 3]\n[4]\n"
		       "def f(x): return x + 1\n[]\n", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_code_is_like_a_bare_file),
		cmocka_unit_test(python_file_is_like_a_bare_file),
		cmocka_unit_test(python_code_has_no_file_and_dash_c_as_its_name),
		cmocka_unit_test(python_path_is_the_module_path_and_nothing_else),
		cmocka_unit_test(a_project_comes_last_and_shadows_nothing),
		cmocka_unit_test(python_finds_the_distutils_there_is),
		cmocka_unit_test(python_keeps_site_where_the_interpreter_needs_it),
		cmocka_unit_test(python_prefix_is_that_of_the_bare_interpreter),
		cmocka_unit_test(python_source_that_is_no_text_is_a_syntax_error),
		cmocka_unit_test(python_code_is_found_by_inspect_and_by_spawned_workers),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
