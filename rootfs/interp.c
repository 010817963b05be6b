/*
 * Owns: finding an interpreter: where it is looked for, what a remembered answer
 * depends on. Runs in the launcher.
 * Must: take only absolute PATH entries: "." on PATH would let the working folder
 * choose a program that runs outside the box. Mustn't: start a process when a
 * remembered answer still holds.
 */
#include "rootfs/interp.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/interp_parts.h"
#include "rootfs/paths.h"

extern char **environ;

void interp_free(struct interp *i)
{
	if (!i)
		return;
	free(i->language);
	free(i->program);
	free(i->real);
	free(i->version);
	strlist_free(&i->trees);
	strlist_free(&i->links);
	strlist_free(&i->module_path);
	strlist_free(&i->site_files);
	*i = (struct interp){ 0 };
}

/* ------------------------------------------------------------- looking -- */

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *look_in(const char *dir, size_t len, const char *name)
{
	owned_mem char *folder = strndup(dir, len);
	owned_mem char *path = folder ? path_join(folder, name) : NULL;

	return path && is_program(path) ? take_ptr(path) : NULL;
}

static char *look_on_path(const char *path_env, const char *name)
{
	for (const char *at = path_env; *at; at += *at == ':') {
		size_t n = strcspn(at, ":");
		char *hit = at[0] == '/' ? look_in(at, n, name) : NULL;

		if (hit)
			return hit;
		at += n;
	}
	return NULL;
}

/* A given path, made absolute; its last part is kept, for a venv is told by it. */
static char *absolute(const char *program)
{
	owned_mem char *cwd = getcwd(NULL, 0);
	owned_mem char *clean = path_clean(cwd, program);
	owned_mem char *parent = NULL;
	owned_mem char *real = NULL;

	if (clean || errno != EINVAL)
		return take_ptr(clean);
	parent = strndup(program, (size_t)(strrchr(program, '/') - program + 1));
	real = parent ? realpath(parent, NULL) : NULL;
	return real ? path_join(real, strrchr(program, '/') + 1) : NULL;
}

static int not_found(const struct asking *how, const char *program, struct nsbox_error *err)
{
	if (program) {
		err_hint(err, "give the path of an executable file");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "interpreter %s: no such executable file", program);
	}
	err_hint(err, "install %s, or pass --interpreter PATH", how->names[0]);
	return err_set(err, NSBOX_E_UNSUPPORTED, "no %s on PATH for language %s", how->names[0],
		       how->language);
}

static int look(char **hit, const struct asking *how, const char *program, const char *path_env,
		struct nsbox_error *err)
{
	const char *const given[2] = { program };
	const char *const *names = program ? given : how->names;
	owned_mem char *found = NULL;

	if (program && strchr(program, '/')) {
		found = absolute(program);
		if (!found || !is_program(found))
			return not_found(how, program, err);
	}
	for (; *names && !found; names++)
		found = look_on_path(path_env ? path_env : "", *names);
	if (!found)
		return not_found(how, program, err);
	*hit = take_ptr(found);
	return 0;
}

/* --------------------------------------------------------------- shims -- */

/*
 * A shim answers differently by folder and environment: a script, or a program of
 * another name behind a link (mise, volta).
 */
static bool is_shim(const char *hit)
{
	static const char *const own[] = { "python", "pypy", "graalpy", "node", "bash" };
	owned_fd int fd = openat(AT_FDCWD, hit, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	owned_mem char *real = realpath(hit, NULL);
	const char *base = real ? strrchr(real, '/') + 1 : "";
	char head[2] = "";

	if (fd < 0 || read(fd, head, sizeof(head)) != 2 || memcmp(head, "#!", 2) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strncmp(base, own[i], strlen(own[i])) == 0)
			return false;
	return true;
}

static bool steers_shims(const char *entry)
{
	static const char *const prefixes[] = { "PYENV_", "NODENV_", "ASDF_", "MISE_",
						"RTX_",	  "VOLTA_",  "FNM_",  "NVM_",
						"UV_",	  "CONDA_",  "HOME=", "XDG_CONFIG_HOME=" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

/* The question: everything that is not a file. */
static int make_key(struct buf *key, const struct asking *how, const char *hit, bool shim,
		    const char *path_env)
{
	owned_mem char *cwd = shim ? getcwd(NULL, 0) : NULL;

	buf_fmt(key, "%s\n%s\n%u\n", how->language, hit, (unsigned)geteuid());
	if (!shim)
		return key->failed ? -1 : 0;
	buf_fmt(key, "%s\n%s\n", cwd ? cwd : "", path_env ? path_env : "");
	for (char **e = environ; e && *e; e++)
		if (steers_shims(*e))
			buf_fmt(key, "%s\n", *e);
	return key->failed ? -1 : 0;
}

/* Files that shims look for from the working folder upwards, and in the home. */
static int stamp_version_files(struct strlist *deps)
{
	static const char *const names[] = { ".python-version", ".node-version", ".nvmrc",
					     ".tool-versions",	"mise.toml",	 ".mise.toml",
					     "mise.local.toml", ".config/mise.toml" };
	static const char *const at_home[] = { ".pyenv/version",   ".pyenv/versions",
					       ".nodenv/version",  ".nodenv/versions",
					       ".tool-versions",   ".config/mise/config.toml",
					       ".local/share/mise/installs/python",
					       ".asdf/installs/python" };
	const char *home = getenv("HOME");
	owned_mem char *dir = getcwd(NULL, 0);
	int r = dir ? 0 : -1;

	while (r == 0) {
		char *slash = strrchr(dir, '/');

		for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
			owned_mem char *path = path_join(dir[0] ? dir : "/", names[i]);

			r = path ? cache_stamp(deps, 'S', path) : -1;
		}
		if (!slash || !dir[0])
			break;
		*slash = '\0';
	}
	for (size_t i = 0; home && i < ARRAY_SIZE(at_home) && r == 0; i++) {
		owned_mem char *path = path_join(home, at_home[i]);

		r = path ? cache_stamp(deps, 'S', path) : -1;
	}
	return r;
}

static int stamp_roots(struct strlist *deps)
{
	static const char *const roots[] = { "PYENV_ROOT", "NODENV_ROOT" };

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		const char *root = getenv(roots[i]);
		owned_mem char *version = root ? path_join(root, "version") : NULL;
		owned_mem char *versions = root ? path_join(root, "versions") : NULL;

		if (root && (!version || !versions || cache_stamp(deps, 'S', version) < 0 ||
			     cache_stamp(deps, 'S', versions) < 0))
			return -1;
	}
	return 0;
}

/* ------------------------------------------------------------- finding -- */

struct search {
	const struct asking *how;
	const char *hit;
	const char *path_env;
	bool shim;
	struct strlist deps;	/* looked at before asking: a change meanwhile is seen */
};

static int stamp_question(struct search *s)
{
	if (cache_stamp(&s->deps, 'S', s->hit) < 0)
		return -1;
	if (!s->shim)
		return 0;
	return stamp_version_files(&s->deps) < 0 ? -1 : stamp_roots(&s->deps);
}

static int stamp_answer(struct search *s, const struct interp *i, const struct answer *a)
{
	int r = cache_stamp(&s->deps, 'S', i->program);

	for (size_t k = 0; k < a->records.n && r == 0; k++) {
		const char *file = answer_value(a, k, "dep");

		if (!file)
			file = answer_value(a, k, "path");
		if (file && file[0] == '/')
			r = cache_stamp(&s->deps, 'S', file);
	}
	for (size_t k = 0; k < i->links.n && r == 0; k++) {
		owned_mem char *path = strndup(i->links.v[k], strcspn(i->links.v[k], "\t"));

		r = path ? cache_stamp(&s->deps, 'L', path) : -1;
	}
	return r;
}

/* A shim's program is what it ran; anything else stays the path it was found at,
 * for a venv's python knows its venv by its own name. */
static const char *program_of(const struct search *s, const struct answer *a)
{
	const char *exe = answer_get(a, "exe");

	return s->shim ? exe : s->hit;
}

static int ask(struct search *s, struct interp *out, const struct buf *key, int cache,
	       struct nsbox_error *err)
{
	owned(answer_free) struct answer a = { 0 };
	const char *site, *custom;
	int rc;

	if (stamp_question(s) < 0)
		return err_nomem(err);
	rc = probe_run(&a, s->how, s->hit, s->path_env, err);
	if (rc < 0)
		return rc;
	site = answer_get(&a, "site");
	custom = answer_get(&a, "custom");
	out->program = strdup(program_of(s, &a));
	out->version = strdup(answer_get(&a, "version"));
	out->needs_site = site && strcmp(site, "0") != 0;
	out->has_sitecustomize = custom && strcmp(custom, "0") != 0;
	if (!out->program || !out->version)
		return err_nomem(err);
	rc = trees_work_out(out, s->how, &a, err);
	if (rc == 0 && cache >= 0 && stamp_answer(s, out, &a) == 0)
		cache_store(out, cache, key, &s->deps);
	return rc;
}

static int find(struct search *s, struct interp *i, const char *cache_dir,
		struct nsbox_error *err)
{
	struct buf key = BUF_INIT(256 * 1024);
	owned_fd int cache = cache_open(cache_dir);
	int rc = 0;

	if (make_key(&key, s->how, s->hit, s->shim, s->path_env) < 0)
		rc = err_nomem(err);
	else if (cache < 0 || !cache_load(i, cache, &key))
		rc = ask(s, i, &key, cache, err);
	buf_free(&key);
	return rc;
}

int interp_find(struct interp *out, const char *language, const char *program,
		const char *path_env, const char *cache_dir, struct nsbox_error *err)
{
	const struct asking *how = asking_of(language);
	owned(interp_free) struct interp i = { 0 };
	owned_mem char *hit = NULL;
	struct search s = { .how = how, .path_env = path_env };
	int rc;

	if (!how) {
		err_hint(err, "languages are python, javascript and bash");
		return err_set(err, NSBOX_E_USAGE, "unknown language \"%s\"", language);
	}
	rc = look(&hit, how, program, path_env, err);
	if (rc < 0)
		return rc;
	s.hit = hit;
	s.shim = is_shim(hit);
	rc = find(&s, &i, cache_dir, err);
	strlist_free(&s.deps);
	if (rc < 0)
		return rc;
	i.language = strdup(language);
	if (!i.language)
		return err_nomem(err);
	*out = i;
	i = (struct interp){ 0 };
	return 0;
}
