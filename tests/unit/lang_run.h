/*
 * Runs what lang.c makes without a box: the files of a command are written to a
 * folder that stands in for /run/nsbox, and the command is run. Included by each
 * test of lang.c, which is a program of its own.
 *
 * NSBOX_TEST_PYTHONS: a colon list of more interpreters to try.
 */
#ifndef TESTS_UNIT_LANG_RUN_H
#define TESTS_UNIT_LANG_RUN_H

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
static struct interp node __attribute__((unused)) = { .language = (char *)"javascript",
			      .program = (char *)"/usr/bin/node" };
static struct interp bash __attribute__((unused)) = { .language = (char *)"bash",
			      .program = (char *)"/bin/bash" };

/* ------------------------------------------------------------ running -- */

static inline char *join(const char *a, const char *b)
{
	char *s = NULL;

	assert_true(asprintf(&s, "%s%s", a, b) >= 0);
	return s;
}

static inline void write_file(const char *path, const void *data, size_t len)
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

static inline void read_back(int fd, struct buf *b)
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
static inline char *replaced(const char *text, size_t len, const char *from,
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

static inline int temp_fd(void)
{
	owned_mem char *path = join(scratch, "/tmp.XXXXXX");
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static inline int ended(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + WTERMSIG(status);
}

static inline struct outcome spawn(char *const *argv, char *const *env)
{
	struct outcome o = { .out = BUF_INIT(OUTPUT_MAX), .err = BUF_INIT(OUTPUT_MAX) };
	owned_mem char *work = join(scratch, "/cwd");
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

static inline void base_env(struct strlist *env)
{
	assert_int_equal(strlist_add(env, "PATH=/usr/bin:/bin"), 0);
	assert_int_equal(strlist_add(env, "LANG=C.UTF-8"), 0);
	assert_int_equal(strlist_add(env, "PYTHONDONTWRITEBYTECODE=1"), 0);
}

static inline struct outcome run_command(const struct lang_command *c)
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

static inline struct outcome run_request(const struct lang_request *r)
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

static inline struct outcome run_code(const struct interp *i, const char *code)
{
	struct lang_request r = { .interp = i, .code = code,
				  .code_len = strlen(code) };

	return run_request(&r);
}

static inline void outcome_free(struct outcome *o)
{
	buf_free(&o->out);
	buf_free(&o->err);
}

static inline void expect(struct outcome o, int status, const char *out,
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

static inline void same_outcome(const char *what, struct outcome a, struct outcome b)
{
	if (a.status != b.status || strcmp(buf_text(&a.out), buf_text(&b.out)) ||
	    strcmp(buf_text(&a.err), buf_text(&b.err)))
		fail_msg("%s\nbare: %d\n%s%s\nnsbox: %d\n%s%s", what, a.status,
			 buf_text(&a.out), buf_text(&a.err), b.status,
			 buf_text(&b.out), buf_text(&b.err));
	outcome_free(&a);
	outcome_free(&b);
}

static inline void rename_in(struct buf *b, const char *from, const char *to)
{
	size_t len;
	char *s = replaced(buf_text(b), b->len, from, to, &len);

	buf_free(b);
	b->data = s;
	b->len = len;
	b->cap = len + 1;
}

/* The bare interpreter on the same text in a file that is called "<code>". */
static inline struct outcome run_bare(const struct interp *i, const char *const *flags,
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

/* ---------------------------------------------------------------- set-up -- */

static inline void add_python(const char *program)
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
static inline void add_path_python(void)
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

static inline void add_venv(void)
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

static inline int set_up(void **state)
{
	static const char *const folders[] = { "/run", "/cwd", "/native" };
	const char *more = getenv("NSBOX_TEST_PYTHONS");
	owned_mem char *list = strdup(more ? more : "");

	(void)state;
	snprintf(scratch, sizeof(scratch), "/tmp/nsbox-lang.XXXXXX");
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
	for (char *rest, *s = strtok_r(list, ":", &rest); s;
	     s = strtok_r(NULL, ":", &rest))
		add_python(s);
	return 0;
}

static inline int tear_down(void **state)
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

#endif
