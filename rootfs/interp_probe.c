/*
 * Owns: asking an interpreter what it is, by running it once. Runs in the launcher;
 * what it starts is the caller's own interpreter (or shim), outside any box, with the
 * caller's environment, because a shim decides by it.
 * Must: end within the deadline with the whole process group gone.
 * Mustn't: believe an answer without its last record, or let user code of the working
 * folder in (python -I; no NODE_OPTIONS, BASH_ENV, PYTHON*).
 */
#include "rootfs/interp_parts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { PROBE_MS = 10000, ANSWER_MAX = 1 << 20, COMPLAINT_MAX = 4096 };

extern char **environ;

/*
 * What setuptools writes into NAME-nspkg.pth, in the two wordings that it had since 2016:
 * it makes the namespace package that the import system makes by itself (PEP 420). It
 * matters only where one portion is an ordinary package (has __init__.py) and another
 * folder of sys.path has a portion as well, so that is_namespace() looks for that.
 */
#define PYTHON_IS_NAMESPACE \
	"def is_namespace(line):\n" \
	"    name = line[line.find(\"find_spec('\") + 11:].split(\"'\")[0]\n" \
	"    parts, r = tuple(name.split('.')), repr(name)\n" \
	"    if not all(p.isidentifier() for p in parts): return False\n" \
	"    spec = ('sys.modules.setdefault(%s, importlib.util.module_from_spec(importlib.machinery.'\n" \
	"            'PathFinder.find_spec(%s, [os.path.dirname(p)])))' % (r, r))\n" \
	"    known = ['import sys, types, os', 'has_mfs = sys.version_info > (3, 5)',\n" \
	"        \"p = os.path.join(sys._getframe(1).f_locals['sitedir'], *%r)\" % (parts,),\n" \
	"        \"importlib = __import__('importlib.util')\", \"__import__('importlib.machinery')\",\n" \
	"        \"importlib = has_mfs and __import__('importlib.util')\",\n" \
	"        \"has_mfs and __import__('importlib.machinery')\",\n" \
	"        'm = ' + spec, 'm = has_mfs and ' + spec,\n" \
	"        'm = m or sys.modules.setdefault(%s, types.ModuleType(%s))' % (r, r),\n" \
	"        \"mp = (m or []) and m.__dict__.setdefault('__path__',[])\",\n" \
	"        '(p not in mp) and mp.append(p)',\n" \
	"        'm and setattr(sys.modules[%r], %r, m)' % ('.'.join(parts[:-1]), parts[-1])]\n" \
	"    dirs = [os.path.join(p, *parts) for p in sys.path]\n" \
	"    dirs = [d for d in dirs if os.path.isdir(d)]\n" \
	"    whole = [d for d in dirs if os.path.exists(os.path.join(d, '__init__.py'))]\n" \
	"    return all(s in known for s in line.split(';')) and (not whole or len(dirs) == 1)\n"

/*
 * The interpreter's own site is run, with two functions of its module replaced: exec(),
 * which it calls for each "import" line of a .pth file, notes the file instead, and no
 * sitecustomize is imported. So the order, the encodings and the hidden files are
 * those of this version, sys.path is what it is without those lines, and nothing of
 * theirs runs outside a box. A file is noted each time it is read: in a virtual
 * environment some versions do so twice. A site that calls exec() from elsewhere (3.15
 * has another way, and .start files) cannot be taken apart.
 */
#define PYTHON_SITE \
	"import site\n" \
	"lines, strange = [], []\n" \
	"def note(line, *names):\n" \
	"    frame = sys._getframe(1)\n" \
	"    v = frame.f_locals\n" \
	"    known = frame.f_code.co_name == 'addpackage' and 'sitedir' in v and 'name' in v\n" \
	"    if names or not known:\n" \
	"        return strange.append(line)\n" \
	"    lines.append((frame, len(sys.path), v['sitedir'], v['name'], line))\n" \
	"site.exec = note\n" \
	"site.execsitecustomize = lambda: None\n" \
	"site.main()\n"

/*
 * Lines that change nothing for a program in a box, by file: boot.py asks setuptools
 * for its distutils when somebody imports that (late.py); the others are for installing
 * packages, and for measuring the tests of the interpreter's owner.
 */
#define PYTHON_IS_QUIET \
	"enabled = \"enabled = os.environ.get(var, '%s') == 'local'\"\n" \
	"precedence = ['import os', \"var = 'SETUPTOOLS_USE_DISTUTILS'\", enabled % 'local', '',\n" \
	"    enabled % 'stdlib', \"enabled and __import__('_distutils_hack').add_shim()\"]\n" \
	"def is_quiet(name, line):\n" \
	"    line = line.strip()\n" \
	"    if name.endswith('-nspkg.pth'): return is_namespace(line)\n" \
	"    if name == 'distutils-precedence.pth':\n" \
	"        return all(s.strip() in precedence for s in line.split(';'))\n" \
	"    if name == 'a1_coverage.pth': return 'coverage.process_startup(' in line\n" \
	"    return name == '_virtualenv.pth' and line == 'import _virtualenv'\n"

static const char python_code[] =
	"import sys, os\n"
	PYTHON_SITE
	PYTHON_IS_NAMESPACE
	PYTHON_IS_QUIET
	"out = []\n"
	"def say(k, v): out.append(os.fsencode(k + '=' + v))\n"
	"say('exe', sys.executable)\n"
	"for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix):\n"
	"    say('prefix', p)\n"
	"say('version', '%d.%d.%d' % sys.version_info[:3])\n"
	"files, seen = [], []\n"
	"for frame, at, folder, name, line in lines:\n"
	"    if frame not in seen and not is_quiet(name, line):\n"
	"        files.append((at, folder, name))\n"
	"        seen.append(frame)\n"
	"for i, p in enumerate(sys.path):\n"
	"    for at, folder, name in files:\n"
	"        if at == i: say('pth', os.path.join(folder, name))\n"
	"    say('path', p)\n"
	"    if os.path.basename(p) not in ('site-packages', 'dist-packages'): continue\n"
	"    try: names = sorted(os.listdir(p))\n"
	"    except OSError: continue\n"
	"    for n in names:\n"
	"        if n.endswith('.start'): strange.append(n)\n"
	"        if n.endswith('.pth'): say('dep', os.path.join(p, n))\n"
	"for at, folder, name in files:\n"
	"    if at == len(sys.path): say('pth', os.path.join(folder, name))\n"
	"from importlib.machinery import PathFinder\n"
	"c = PathFinder.find_spec('sitecustomize')\n"
	"own = c and (c.origin or '').startswith(('/usr/lib/python3', '/etc/python3'))\n"
	"say('custom', '1' if c and not own else '0')\n"
	"say('site', '1' if strange else '0')\n"
	"say('dep', os.path.join(sys.prefix, 'pyvenv.cfg'))\n"
	"libs = set()\n"
	"for l in open('/proc/self/maps', 'rb'):\n"
	"    f = l.rstrip(b'\\n').split(None, 5)\n"
	"    if len(f) == 6 and f[5].startswith(b'/') and b'.so' in f[5]: libs.add(f[5])\n"
	"for l in sorted(libs): out.append(b'lib=' + l)\n"
	"out.append(b'end=ok')\n"
	"data = b'\\0'.join(out) + b'\\0'\n"
	"while data: data = data[os.write(1, data):]\n";

static const char node_code[] =
	"const fs = require('fs'), out = [];\n"
	"out.push('exe=' + process.execPath, 'version=' + process.versions.node);\n"
	"const libs = new Set();\n"
	"for (const l of fs.readFileSync('/proc/self/maps', 'utf8').split('\\n')) {\n"
	"  const at = l.indexOf('/');\n"
	"  if (at > 0 && l.indexOf('.so', at) > 0) libs.add(l.slice(at));\n"
	"}\n"
	"for (const l of libs) out.push('lib=' + l);\n"
	"out.push('end=ok');\n"
	"fs.writeSync(1, out.join('\\0') + '\\0');\n";

static const char bash_code[] =
	"printf '%s\\0' \"exe=$BASH\" \"version=${BASH_VERSION%%(*}\"\n"
	"while IFS= read -r l; do\n"
	"  case $l in *.so*) printf 'lib=/%s\\0' \"${l#*/}\";; esac\n"
	"done </proc/$$/maps\n"
	"printf '%s\\0' end=ok\n";

const struct asking askings[] = {
	{ "python", { "python3", "python" }, { "-I", "-S", "-c" }, python_code, true },
	{ "javascript", { "node", "nodejs" }, { "-e" }, node_code, false },
	{ "bash", { "bash" }, { "--noprofile", "--norc", "-c" }, bash_code, false },
	{ 0 },
};

const struct asking *asking_of(const char *language)
{
	for (const struct asking *a = askings; a->language; a++)
		if (strcmp(a->language, language) == 0)
			return a;
	return NULL;
}

/* ------------------------------------------------------------- answers -- */

void answer_free(struct answer *a)
{
	strlist_free(&a->records);
}

const char *answer_value(const struct answer *a, size_t i, const char *key)
{
	size_t n = strlen(key);
	const char *record = a->records.v[i];

	return strncmp(record, key, n) == 0 && record[n] == '=' ? record + n + 1 : NULL;
}

const char *answer_get(const struct answer *a, const char *key)
{
	for (size_t i = 0; i < a->records.n; i++)
		if (answer_value(a, i, key))
			return answer_value(a, i, key);
	return NULL;
}

/* A shim may have printed something of its own first: the answer begins at "exe=". */
static int parse(struct answer *out, const struct buf *text)
{
	const char *at = text->len ? memmem(text->data, text->len, "exe=/", 5) : NULL;
	const char *end = text->data + text->len;

	while (at && at < end) {
		const char *stop = memchr(at, '\0', (size_t)(end - at));

		if (!stop)
			break;
		if (strlist_add(&out->records, at) < 0)
			return -1;
		at = stop + 1;
	}
	return 0;
}

static bool is_complete(const struct answer *a)
{
	return a->records.n && strcmp(a->records.v[a->records.n - 1], "end=ok") == 0 &&
	       answer_get(a, "exe") && answer_get(a, "version");
}

/* --------------------------------------------------------- environment -- */

static bool is_passed(const char *entry)
{
	/* What would make the answer another one than in the box, or run more than asked.
	 * LD_LIBRARY_PATH stays: some interpreters do not start without it. */
	static const char *const dropped[] = { "PATH=", "PYTHON", "NODE_OPTIONS=", "BASH_ENV=",
					       "ENV=", "PYENV_DEBUG=", "LD_PRELOAD=",
					       "LD_AUDIT=" };

	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		if (strncmp(entry, dropped[i], strlen(dropped[i])) == 0)
			return false;
	return true;
}

static int make_environment(struct strlist *env, const char *path_env)
{
	struct buf path = BUF_INIT(1 << 20);
	int r;

	for (char **e = environ; e && *e; e++)
		if (is_passed(*e) && strlist_add(env, *e) < 0)
			return -1;
	buf_fmt(&path, "PATH=%s", path_env ? path_env : "/usr/local/bin:/usr/bin:/bin");
	r = path.failed ? -1 : strlist_add(env, buf_text(&path));
	buf_free(&path);
	return r;
}

/* ------------------------------------------------------------- process -- */

struct probe {
	pid_t pid;
	int out, err;		/* our ends; -1: end of file was seen */
	struct buf answer, complaint;
	bool timed_out;
};

static void probe_close(struct probe *p)
{
	if (p->out >= 0)
		close(p->out);
	if (p->err >= 0)
		close(p->err);
	buf_free(&p->answer);
	buf_free(&p->complaint);
}

static int spawn(struct probe *p, char *const *argv, char *const *env, const int ends[2])
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&files) != 0)
		return ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		posix_spawn_file_actions_destroy(&files);
		return ENOMEM;
	}
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, ends[0], 1);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, ends[1], 2);
	if (r == 0)
		r = posix_spawn(&p->pid, argv[0], &files, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return r;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Keep at most b->max bytes, read on regardless: a full pipe would stall it. */
static void take_some(int *fd, struct buf *b)
{
	char chunk[4096];
	ssize_t n = read(*fd, chunk, sizeof(chunk));
	size_t room = b->max - b->len;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		close(*fd);
		*fd = -1;
		return;
	}
	buf_add(b, chunk, (size_t)n < room ? (size_t)n : room);
}

static void listen_to(struct probe *p)
{
	int64_t deadline = now_ms() + PROBE_MS;

	while (p->out >= 0) {
		struct pollfd fds[] = { { .fd = p->out, .events = POLLIN },
					{ .fd = p->err, .events = POLLIN } };
		int64_t left = deadline - now_ms();

		p->timed_out = left <= 0;
		if (p->timed_out || p->answer.len == p->answer.max)
			return;
		if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			take_some(&p->out, &p->answer);
		if (fds[1].revents)
			take_some(&p->err, &p->complaint);
	}
}

/*
 * Whatever is left of the group goes before its leader is reaped, as long as the
 * number cannot be anybody else's. The exit status is not looked at: the caller may
 * ignore SIGCHLD, so that there is none; "end=ok" is the proof.
 */
static void finish(struct probe *p)
{
	if (p->err >= 0 && fd_nonblocking(p->err) == 0)
		take_some(&p->err, &p->complaint);
	kill(-p->pid, SIGKILL);
	while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int start(struct probe *p, const struct asking *how, const char *program,
		 const char *path_env)
{
	const char *argv[8] = { program };
	struct strlist env = { 0 };
	int out[2], complain[2], n = 1, r;

	for (size_t i = 0; how->args[i]; i++)
		argv[n++] = how->args[i];
	argv[n] = how->code;
	if (make_environment(&env, path_env) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		strlist_free(&env);
		return errno ? errno : ENOMEM;
	}
	p->out = out[0];
	if (pipe2(complain, O_CLOEXEC) < 0) {
		r = errno;
	} else {
		p->err = complain[0];
		r = spawn(p, (char *const *)argv, env.v, (int[2]){ out[1], complain[1] });
		close(complain[1]);
	}
	close(out[1]);
	strlist_free(&env);
	return r;
}

static void printable_line(char *line, size_t size, const struct buf *text)
{
	size_t n = 0;

	for (size_t i = 0; i < text->len && n + 1 < size; i++) {
		unsigned char c = (unsigned char)text->data[i];

		line[n++] = c < ' ' || c == 0x7f ? ' ' : (char)c;
	}
	while (n && line[n - 1] == ' ')
		n--;
	line[n] = '\0';
}

static int complain_about(const struct probe *p, const char *program, struct nsbox_error *err)
{
	char said[256];

	printable_line(said, sizeof(said), p->complaint.len ? &p->complaint : &p->answer);
	err_hint(err, "run it yourself to see what is wrong, or pass --interpreter PATH");
	if (p->timed_out)
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "ask %s what it is: no answer within %d s", program,
			       PROBE_MS / 1000);
	return err_set(err, NSBOX_E_UNSUPPORTED, "ask %s what it is: it said \"%s\"", program, said);
}

int probe_run(struct answer *out, const struct asking *how, const char *program,
	      const char *path_env, struct nsbox_error *err)
{
	owned(probe_close) struct probe p = {
		.out = -1, .err = -1, .answer = BUF_INIT(ANSWER_MAX),
		.complaint = BUF_INIT(COMPLAINT_MAX),
	};
	owned(answer_free) struct answer a = { 0 };
	int r = start(&p, how, program, path_env);

	if (r != 0) {
		err_hint(err, "give the path of an interpreter with --interpreter");
		return err_errno(err, NSBOX_E_UNSUPPORTED, r, "run %s", program);
	}
	listen_to(&p);
	finish(&p);
	if (p.answer.failed || parse(&a, &p.answer) < 0)
		return err_nomem(err);
	if (!is_complete(&a))
		return complain_about(&p, program, err);
	*out = a;
	a = (struct answer){ 0 };
	return 0;
}
