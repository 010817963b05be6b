/*
 * What discovery notes of the code that an interpreter's site would run: .pth files
 * and sitecustomize, against virtual environments made here.
 */
#include "tests/unit/interp_dirs.h"

static const char *make_venv_with_site(void)
{
	static char site[512];

	make_venv(in("v"));
	assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
	snprintf(site, sizeof(site), "%s/v/lib/python%.*s/site-packages", base,
		 (int)strcspn(found.version + 2, ".") + 2, found.version);
	return site;
}

/* Some versions read the folder of a virtual environment twice. */
static size_t distinct_files(void)
{
	size_t n = 0;

	for (size_t i = 0; i < found.site_files.n; i++) {
		const char *file = strchr(found.site_files.v[i], '\t');
		size_t k = 0;

		assert_non_null(file);
		while (k < i && strcmp(strchr(found.site_files.v[k], '\t'), file) != 0)
			k++;
		n += k == i;
	}
	return n;
}

/* Two calls: what was just asked, and what was remembered of it. */
static void assert_site_files(size_t n)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
		assert_false(found.needs_site);
		assert_int_equal(distinct_files(), n);
	}
}

static void a_new_pth_file_with_code_is_noticed(void **state)
{
	const char *site = make_venv_with_site();

	(void)state;
	assert_site_files(0);
	run("echo '# nothing' > %s/x.pth", site);
	assert_site_files(0);
	run("echo 'import os; os' > %s/x.pth", site); /* the folder's mtime stays */
	assert_site_files(1);
}

static void a_known_pth_file_runs_only_if_it_says_something_else(void **state)
{
	static const char precedence[] = "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled ="
		" os.environ.get(var, 'local') == 'local';"
		" enabled and __import__('_distutils_hack').add_shim(); \n";
	const char *site = make_venv_with_site();
	char path[600];

	(void)state;
	snprintf(path, sizeof(path), "%s/distutils-precedence.pth", site);
	write_script(path, precedence);
	run("echo 'import _virtualenv' > %s/_virtualenv.pth", site);
	assert_site_files(0);
	run("echo 'import os; print(os)' > %s/distutils-precedence.pth", site);
	assert_site_files(1);
	run("echo 'import virtualenv' > %s/_virtualenv.pth", site);
	assert_site_files(2);
}

static void pth_files_come_in_the_order_of_site_with_their_place_in_the_path(void **state)
{
	const char *site = make_venv_with_site();
	size_t n = found.module_path.n; /* with site-packages, the last one */
	char want[600];

	(void)state;
	run("cd %s && mkdir one two && printf 'import sys\\none\\nimport sys\\n' > b.pth &&"
	    " printf '\\357\\273\\277two\\nimport\\tsys\\n' > c.pth && echo importlib > a.pth",
	    site);
	run("echo 'import sys' > %s/B.pth", site);
	assert_site_files(3);
	assert_true(found.site_files.n >= 3);
	snprintf(want, sizeof(want), "%zu\t%s/B.pth", n, site);
	assert_string_equal(found.site_files.v[0], want);
	snprintf(want, sizeof(want), "%zu\t%s/b.pth", n, site);
	assert_string_equal(found.site_files.v[1], want);
	snprintf(want, sizeof(want), "%zu\t%s/c.pth", n + 1, site);
	assert_string_equal(found.site_files.v[2], want);
}

static void a_pth_file_is_noted_each_time_site_reads_it(void **state)
{
	const char *site = make_venv_with_site();

	(void)state;
	run("printf 'import os\n#\nimport os; os.write(3, b\"once\\\\n\")\n' > %s/x.pth", site);
	run("%s/v/bin/python3 -I -c '' 3>%s/log", base, base);
	assert_true(lines_of(in("log")) >= 1);
	assert_site_files(1);
	assert_int_equal(found.site_files.n, lines_of(in("log")));
}

static void code_of_pth_files_and_sitecustomize_does_not_run_outside_a_box(void **state)
{
	const char *site = make_venv_with_site();

	(void)state;
	run("echo 'import os; os.makedirs(\"%s/ran\", exist_ok=True)' > %s/x.pth", base, site);
	assert_site_files(1);
	assert_int_equal(access(in("ran"), F_OK), -1);
	assert_int_equal(errno, ENOENT);
	run("%s/v/bin/python3 -I -c '' && rmdir %s/ran", base, base); /* it would */
}

static void a_sitecustomize_that_is_not_the_distributions_is_noticed(void **state)
{
	const char *site = make_venv_with_site();

	(void)state;
	assert_site_files(0);
	assert_false(found.has_sitecustomize);
	/* The distribution may have one, earlier in the path: then this one is never seen. */
	run("echo 'import os; os.mkdir(\"%s/ran\")' > %s/sitecustomize.py", base, site);
	assert_site_files(0);
	assert_int_equal(access(in("ran"), F_OK), -1);
	run("%s/v/bin/python3 -I -c ''", base);
	assert_int_equal(found.has_sitecustomize, access(in("ran"), F_OK) == 0);
}

static void a_site_of_another_kind_is_run_as_a_whole(void **state)
{
	const char *site = make_venv_with_site();

	(void)state;
	assert_false(found.needs_site);
	run("echo x:main > %s/x.start", site);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
		assert_true(found.needs_site);
	}
}

#define NSPKG(root, name, last) \
	"import sys, types, os;has_mfs = sys.version_info > (3, 5);p = os.path.join(" root "," \
	" *('" name "',));importlib = has_mfs and __import__('importlib.util');" \
	"has_mfs and __import__('importlib.machinery');m = has_mfs and " \
	"sys.modules.setdefault('" name "', importlib.util.module_from_spec(" \
	"importlib.machinery.PathFinder.find_spec('" name "', [os.path.dirname(p)])));" \
	"m = m or sys.modules.setdefault('" name "', types.ModuleType('" name "'));" \
	"mp = (m or []) and m.__dict__.setdefault('__path__',[]);" last "\n"
#define SITEDIR "sys._getframe(1).f_locals['sitedir']"
#define APPEND "(p not in mp) and mp.append(p)"

static bool runs_code_with(const char *site, const char *text)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof(path), "%s/x-1.0-nspkg.pth", site);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
	return found.site_files.n != 0;
}

static void a_namespace_package_of_setuptools_needs_no_code(void **state)
{
	char site[512];

	(void)state;
	make_venv(in("v"));
	assert_int_equal(find("python", in("v/bin/python3"), SYSTEM_PATH), 0);
	snprintf(site, sizeof(site), "%s/v/lib/python%.*s/site-packages", base,
		 (int)strcspn(found.version + 2, ".") + 2, found.version);
	run("mkdir -p %s/ns/part", site);
	assert_false(runs_code_with(site, NSPKG(SITEDIR, "ns", APPEND)));
	assert_false(runs_code_with(site, "# two\n" NSPKG(SITEDIR, "ns", APPEND)
						   NSPKG(SITEDIR, "ms", APPEND)));
	assert_true(runs_code_with(site, NSPKG(SITEDIR, "ns", APPEND ";import evil")));
	assert_true(runs_code_with(site, NSPKG("'/elsewhere'", "ns", APPEND)));
	assert_true(runs_code_with(site, NSPKG(SITEDIR, "ns') or evil('", APPEND)));
	assert_true(runs_code_with(site, NSPKG(SITEDIR, "ns", APPEND) "import evil\n"));
	/* A package and a second portion: only the file joins them. */
	run("touch %s/ns/__init__.py", site);
	assert_false(runs_code_with(site, "# 1\n" NSPKG(SITEDIR, "ns", APPEND)));
	run("mkdir -p %s/other/ns && echo %s/other > %s/other.pth", base, base, site);
	assert_true(runs_code_with(site, "# 22\n" NSPKG(SITEDIR, "ns", APPEND)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_new_pth_file_with_code_is_noticed),
		CASE(a_known_pth_file_runs_only_if_it_says_something_else),
		CASE(pth_files_come_in_the_order_of_site_with_their_place_in_the_path),
		CASE(a_pth_file_is_noted_each_time_site_reads_it),
		CASE(code_of_pth_files_and_sitecustomize_does_not_run_outside_a_box),
		CASE(a_sitecustomize_that_is_not_the_distributions_is_noticed),
		CASE(a_site_of_another_kind_is_run_as_a_whole),
		CASE(a_namespace_package_of_setuptools_needs_no_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
