/*
 * Python by lang.c: .pth files with code, and sitecustomize, must do what they do
 * under the bare interpreter with -I, in output, messages and what is left behind.
 */
#include "tests/unit/lang_run.h"

struct site_file {
	const char *name, *text;
};

#define SITEDIR "sys._getframe(1).f_locals['sitedir']"

/* Everything at once; a later file must not suffer from an earlier one that fails. */
static const struct site_file hostile[] = {
	{ "B_capital.pth", "import sys; print('capitals first', sys.argv[1:])\n" },
	{ "a_raise.pth", "import sys; sys.path.append('/first')\n# comment\n\n"
	  "import no_such_module\nimport sys; print('not reached')\n" },
	{ "b_frame.pth", "import sys; print(" SITEDIR ", __name__, sorted(locals()),"
	  " sys._getframe(1).f_code.co_name)\nimport\tos; print('tab', sys.prefix)\n" },
	{ "c_bom.pth", "\xef\xbb\xbfimport sys; print('after a mark')\n" },
	{ "d_path.pth", "import os, sys; sys.path.append(os.path.join(" SITEDIR ", 'late'))\n"
	  "early\nimport sys; sys.path.insert(0, '/zero')\n" },
	{ "e_plain.pth", "after\nlate\nimportlib\n" },
	{ "f_finder.pth", "import conjurer; conjurer.install('conjured')\n" },
	{ "g_syntax.pth", "import sys; print('half\nimport os; print('not reached')\n" },
	{ ".hidden.pth", "import sys; print('hidden')\n" },
	{ "h_error.pth", "import sys; raise ValueError('caf\\u00e9')\n" },
	{ "i_site.pth", "import site, sys; site.addsitedir(" SITEDIR " + '/after')\n" },
	{ 0 },
};

static const struct site_file custom[] = {
	{ "x.pth", "import sys; sys.path.insert(0, " SITEDIR ")\n" },
	{ "sitecustomize.py", "import sys, builtins\nbuiltins.answer = 42\n"
	  "sys.path.append('/custom')\nprint('custom', len(sys.argv), exit)\n" },
	{ 0 },
};

static const struct site_file broken_custom[] = {
	{ "sitecustomize.py", "raise ValueError('broken')\n" },
	{ "x.pth", "import sys; sys.path.insert(0, " SITEDIR ")\n" },
	{ 0 },
};

static const struct site_file only_custom[] = {
	{ "sitecustomize.py", "import builtins\nbuiltins.answer = 43\n" },
	{ 0 },
};

static const struct site_file nothing_to_run[] = {
	{ "x.pth", "early\nlate\n" },
	{ 0 },
};

/* What setuptools, virtualenv and the editable installs put there. */
static const struct site_file everyday[] = {
	{ "distutils-precedence.pth", "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled ="
	  " os.environ.get(var, 'x') == 'local'; enabled and __import__('_distutils_hack');\n" },
	{ "_virtualenv.pth", "import _virtualenv" },
	{ "_virtualenv.py", "import sys\n" },
	{ "__editable___demo_1_0_finder.pth",
	  "import conjurer; conjurer.install('conjured')" },
	{ 0 },
};

static const char conjurer[] =
	"import sys, importlib.util\nNAMES = []\nclass Finder:\n"
	"    @classmethod\n    def find_spec(cls, name, path=None, target=None):\n"
	"        if name in NAMES:\n"
	"            return importlib.util.spec_from_loader(name, cls)\n"
	"    @staticmethod\n    def create_module(spec): return None\n"
	"    @staticmethod\n    def exec_module(module): module.x = 7\n"
	"def install(name):\n    NAMES.append(name)\n    sys.meta_path.append(Finder)\n";

/* Prints all that such lines can have changed. */
static const char changed[] =
	"import sys, builtins\nprint('\\n'.join(sys.path))\n"
	"print(getattr(builtins, 'answer', None), exit, sys.prefix, sys.argv)\n"
	"print([getattr(f, '__name__', f) for f in sys.meta_path\n"
	"       if getattr(f, '__name__', '') != 'Late'], len(sys.path_hooks))\n"
	"try:\n    import conjured\n    print(conjured.x)\n"
	"except ImportError as e: print(e)\n"
	"print([m.__file__ for n, m in sorted(sys.modules.items())\n"
	"       if '/site-packages/' in (getattr(m, '__file__', None) or '')])\n";

static void write_site_file(const char *site, const char *name, const char *text)
{
	owned_mem char *folder = join(site, "/");
	owned_mem char *path = join(folder, name);

	write_file(path, text, strlen(text));
}

/* The folder of a new virtual environment's packages; malloc'ed, like its *program. */
static char *make_site(const struct interp *from, const struct site_file *files, char **program)
{
	owned_mem char *dir = join(scratch, "/pth");
	owned_mem char *gone = join("rm -rf ", dir);
	char *argv[] = { from->program, (char *)"-m", (char *)"venv", (char *)"--without-pip",
			 dir, NULL };
	char *env[] = { (char *)"PATH=/usr/bin:/bin", NULL };
	char line[512];
	FILE *f;

	assert_int_equal(system(gone), 0);
	expect(spawn(argv, env), 0, "", NULL);
	*program = join(dir, "/bin/python");
	snprintf(line, sizeof(line), "cd %s/lib/python*/site-packages && mkdir early late after"
		 " && echo 'import sys; print(1)' > after/x.pth && pwd", dir);
	f = popen(line, "re");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_int_equal(pclose(f), 0);
	line[strcspn(line, "\n")] = '\0';
	for (; files->name; files++)
		write_site_file(line, files->name, files->text);
	write_site_file(line, "conjurer.py", conjurer);
	return strdup(line);
}

static void find_python(struct interp *out, const char *program)
{
	owned_mem char *cache = join(scratch, "/cache");
	struct nsbox_error err = NSBOX_ERROR_INIT;

	if (interp_find(out, "python", program, "/usr/bin:/bin", cache, &err) < 0)
		fail_msg("%s", err.message);
}

/* The start of @files under the bare interpreter and ours; @runs: pth.py is needed. */
static void compare_site(const struct interp *from, const struct site_file *files, int runs)
{
	owned_mem char *script = join(scratch, "/cwd/changed.py");
	owned_mem char *program = NULL;
	owned_mem char *site = make_site(from, files, &program);
	owned(interp_free) struct interp i = { 0 };
	struct lang_request r = { .interp = &i, .file = script };

	assert_non_null(site);
	write_file(script, changed, sizeof(changed) - 1);
	find_python(&i, program);
	assert_false(i.needs_site);
	if (runs >= 0)
		assert_int_equal(i.site_files.n || i.has_sitecustomize, runs);
	same_outcome(files->name, run_bare(&i, FLAGS("-I", "-u", "-B"), script),
		     run_request(&r));
}

static void python_runs_what_pth_files_say_like_the_bare_interpreter(void **state)
{
	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		compare_site(&pythons[p], hostile, 1);
		compare_site(&pythons[p], nothing_to_run, -1);
	}
}

static void python_runs_a_sitecustomize_like_the_bare_interpreter(void **state)
{
	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		compare_site(&pythons[p], custom, 1);
		compare_site(&pythons[p], broken_custom, 1);
		compare_site(&pythons[p], only_custom, -1); /* the distribution may have one */
	}
}

static void python_runs_editable_installs_and_what_virtualenv_leaves(void **state)
{
	static const char code[] = "import conjured, sys\n"
		"print(conjured.x, sys.flags.no_site, '_virtualenv' in sys.modules)\n";

	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		owned_mem char *program = NULL;
		owned_mem char *site = make_site(&pythons[p], everyday, &program);
		owned(interp_free) struct interp i = { 0 };

		find_python(&i, program);
		expect(run_code(&i, code), 0, "7 1 False\n", NULL);
		write_site_file(site, "_virtualenv.pth", "import _virtualenv, sys");
		interp_free(&i);
		find_python(&i, program);
		expect(run_code(&i, code), 0, "7 1 True\n", NULL);
	}
}

/* site lets pass what is no Exception, and the interpreter does not start then. */
static void python_does_not_start_where_a_pth_file_ends_the_interpreter(void **state)
{
	static const struct site_file files[] = {
		{ "x.pth", "import sys; print('here'); sys.exit(3)\n" }, { 0 },
	};

	(void)state;
	for (size_t p = 0; p < python_count; p++) {
		owned_mem char *script = join(scratch, "/cwd/changed.py");
		owned_mem char *program = NULL;
		owned_mem char *site = make_site(&pythons[p], files, &program);
		owned(interp_free) struct interp i = { 0 };
		struct lang_request r = { .interp = &i, .file = script };

		write_file(script, "print('never')\n", 15);
		find_python(&i, program);
		expect(run_bare(&i, FLAGS("-I", "-u", "-B"), script), 1, "here\n",
		       "Failed to import the site module");
		expect(run_request(&r), 1, "here\n", "Failed to import the site module");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_runs_what_pth_files_say_like_the_bare_interpreter),
		cmocka_unit_test(python_runs_a_sitecustomize_like_the_bare_interpreter),
		cmocka_unit_test(python_runs_editable_installs_and_what_virtualenv_leaves),
		cmocka_unit_test(python_does_not_start_where_a_pth_file_ends_the_interpreter),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
