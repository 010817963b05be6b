/*
 * A language and a source -> argv, environment and files for the box.
 *
 * Owns the boot programs (runtime/lang/), built in as data. Runs in the
 * launcher, before the child exists. Must: name the source "<code>" or by its own
 * path wherever the language prints it; carry the source as bytes, in a file (one
 * argv string ends at 128 KiB). Mustn't: look at what the source says.
 */
#include "runtime/lang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/lang_parts.h"

#include "boot_js.inc"
#include "boot_py.inc"
#include "boot_sh.inc"
#include "late_py.inc"
#include "pth_py.inc"

#define FILES_MAX 12

struct language {
	const char *name;
	const char *const *aliases;	/* NULL-terminated */
	const char *const *extensions;	/* NULL-terminated, with the dot */
	void (*build)(struct draft *d);
	void (*check)(struct draft *d);	/* for the tier static */
};

void draft_arg(struct draft *d, const char *arg)
{
	if (strlist_add(&d->cmd.argv, arg) < 0)
		d->failed = true;
}

static void add_args(struct draft *d, const char *const *args)
{
	for (size_t i = 0; args && args[i]; i++)
		draft_arg(d, args[i]);
}

static void add_env(struct draft *d, const char *name, const char *value,
		    const char *tail)
{
	struct buf b = BUF_INIT(BOOT_MAX);

	buf_fmt(&b, "%s=%s%s", name, value, tail);
	if (b.failed || strlist_add(&d->cmd.env, buf_text(&b)) < 0)
		d->failed = true;
	buf_free(&b);
}

void draft_file(struct draft *d, const char *path, struct buf *b)
{
	struct lang_file *f = &d->cmd.files[d->cmd.file_count];
	size_t len = b->len;

	if (d->failed || b->failed) {
		d->failed = true;
		buf_free(b);
		return;
	}
	f->path = strdup(path);
	f->data = buf_take(b);
	f->len = len;
	d->cmd.file_count++; /* before the check: the free of a half is fine */
	if (!f->path || !f->data)
		d->failed = true;
}

void draft_code(struct draft *d, const char *head)
{
	struct buf b = BUF_INIT(CODE_MAX + 64);

	if (!d->r->code)
		return;
	buf_str(&b, head);
	buf_add(&b, d->r->code, d->r->code_len);
	draft_file(d, CODE_PATH, &b);
}

/*
 * A path as a Python expression. ASCII goes in as it is; other bytes are decoded by
 * the interpreter, as it decodes argv, so that a name that is not UTF-8 survives.
 */
static void python_str(struct buf *b, const char *s)
{
	bool is_ascii = true;

	for (const char *p = s; *p; p++)
		is_ascii = is_ascii && (unsigned char)*p < 0x80;
	buf_str(b, is_ascii ? "'" : "b'");
	for (const char *p = s; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c >= 0x7f || c == '\'' || c == '\\')
			buf_fmt(b, "\\x%02x", c);
		else
			buf_char(b, *p);
	}
	buf_char(b, '\'');
	if (!is_ascii)
		buf_str(b, ".decode('utf-8', 'surrogateescape')");
}

void python_setting(struct buf *b, const char *name, const char *value)
{
	buf_fmt(b, "%s = ", name);
	if (value)
		python_str(b, value);
	else
		buf_str(b, "None");
	buf_char(b, '\n');
}

/* A folder or "N\tFILE" -> an element of a list, with its comma. */
static void python_element(struct buf *b, const char *s, bool is_counted)
{
	size_t digits = is_counted ? strcspn(s, "\t") : 0;

	if (is_counted) {
		buf_char(b, '(');
		buf_add(b, s, digits);
		buf_str(b, ", ");
		s += digits + (s[digits] == '\t');
	}
	python_str(b, s);
	buf_str(b, is_counted ? "), " : ", ");
}

void python_list(struct buf *b, const char *name, const struct strlist *l, bool is_counted)
{
	buf_fmt(b, "%s = [", name);
	for (size_t i = 0; i < l->n; i++)
		python_element(b, l->v[i], is_counted);
	buf_str(b, "]\n");
}

static void add_part(struct draft *d, const char *path, const void *text, size_t len)
{
	struct buf b = BUF_INIT(BOOT_MAX);

	buf_add(&b, text, len);
	draft_file(d, path, &b);
}

static void python_names(struct buf *b, const struct lang_request *r)
{
	const char *file = r->is_kernel ? PYTHON_BOOT : r->file;

	python_setting(b, "NAME", r->code ? CODE_NAME : file);
	python_setting(b, "SOURCE", r->code ? CODE_PATH : file);
	python_setting(b, "ARGV0", r->code || r->is_kernel ? "-c" : file);
}

static void python_boot(struct draft *d, const char *path)
{
	static const char late[] = BOX_RUN_DIR "/late.py", pth[] = BOX_RUN_DIR "/pth.py";
	const struct lang_request *r = d->r;
	const struct interp *i = r->interp;
	bool has_pth = i->site_files.n || i->has_sitecustomize;
	const struct strlist none = { 0 };
	struct buf b = BUF_INIT(BOOT_MAX);

	python_names(&b, r);
	kernel_python(d, &b);
	python_setting(&b, "PROJECT", r->project);
	python_setting(&b, "PACKAGES", r->packages);
	python_list(&b, "PACKAGES_PTH", r->packages && r->packages_pth ? r->packages_pth : &none, false);
	python_setting(&b, "LATE", late);
	python_setting(&b, "CHECK", r->check ? check_rules(d) : NULL);
	python_list(&b, "PATH", &i->module_path, false);
	python_setting(&b, "PTH", has_pth ? pth : NULL);
	if (has_pth) {
		python_list(&b, "PTH_FILES", &i->site_files, true);
		buf_fmt(&b, "CUSTOM = %s\n", i->has_sitecustomize ? "True" : "False");
	}
	buf_add(&b, boot_py, sizeof(boot_py));
	draft_file(d, path, &b);
	add_part(d, late, late_py, sizeof(late_py));
	if (has_pth)
		add_part(d, pth, pth_py, sizeof(pth_py));
}

/*
 * -I: no PYTHON* variable, no user site, no folder of the script on sys.path.
 * -S: site reads folders and files for half of the start-up time; what it would
 *     have found is in interp.module_path, and what it would have run in
 *     interp.site_files (pth.py).
 * -u: what was printed before a timeout's SIGKILL is kept.
 * -B: no __pycache__ among the artifacts. Not -X pycache_prefix: it would also
 *     hide the compiled files that the library has, and every import would
 *     compile anew.
 */
static void build_python(struct draft *d)
{
	draft_arg(d, "-I");
	if (!d->r->interp->needs_site)
		draft_arg(d, "-S");
	draft_arg(d, "-u");
	draft_arg(d, "-B");
	draft_arg(d, PYTHON_BOOT);
	python_boot(d, PYTHON_BOOT);
	draft_code(d, "");
}

void js_setting(struct buf *b, const char *name, const char *value)
{
	buf_fmt(b, "const %s = ", name);
	if (!value) {
		buf_str(b, "null;\n");
		return;
	}
	buf_char(b, '"');
	for (const char *p = value; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c == '"' || c == '\\')
			buf_fmt(b, "\\x%02x", c);
		else
			buf_char(b, *p);
	}
	buf_str(b, "\";\n");
}

/* "20.18.1" -> 20 and 18; 0 and 0 when it is no version. */
static void node_version(const char *s, unsigned *major, unsigned *minor)
{
	if (!s || sscanf(s, "%3u.%3u", major, minor) != 2)
		*major = *minor = 0;
}

/* Node guessed by content what a .js file is behind a flag, then without one. */
static bool node_wants_detect_flag(const char *version)
{
	unsigned major, minor;

	node_version(version, &major, &minor);
	return (major == 20 && minor >= 10 && minor < 19) ||
	       (major == 21 && minor >= 1) || (major == 22 && minor < 7);
}

/* Searched last, after every node_modules. In a box the packages are one of these. */
static void node_path(struct draft *d)
{
	const struct lang_request *r = d->r;
	struct buf b = BUF_INIT(BOOT_MAX);

	if (r->packages)
		buf_fmt(&b, "%s/node_modules", r->packages);
	if (r->project)
		buf_fmt(&b, "%s%s/node_modules", b.len ? ":" : "", r->project);
	if (b.len)
		add_env(d, "NODE_PATH", buf_text(&b), "");
	d->failed |= b.failed;
	buf_free(&b);
}

static void build_javascript(struct draft *d)
{
	static const char boot[] = BOX_RUN_DIR "/boot.js";
	const struct lang_request *r = d->r;
	struct buf b = BUF_INIT(BOOT_MAX);

	node_path(d);
	if (node_wants_detect_flag(r->interp->version))
		draft_arg(d, "--experimental-detect-module");
	if (r->is_kernel) {
		kernel_javascript(d);
		return;
	}
	if (!r->code) {
		draft_arg(d, r->file);
		return;
	}
	draft_arg(d, "--experimental-vm-modules");
	draft_arg(d, boot);
	js_setting(&b, "SOURCE", CODE_PATH);
	js_setting(&b, "PROJECT", r->project);
	js_setting(&b, "PACKAGES", r->packages);
	buf_add(&b, boot_js, sizeof(boot_js));
	draft_file(d, boot, &b);
	draft_code(d, "");
}

/* BASH_ENV is not read under POSIXLY_CORRECT: the program is not found then. */
static void build_bash(struct draft *d)
{
	static const char boot[] = BOX_RUN_DIR "/boot.sh";
	struct buf b = BUF_INIT(BOOT_MAX);

	draft_arg(d, d->r->is_kernel ? CELL_NAME : d->r->code ? CODE_NAME : d->r->file);
	if (!d->r->code && !d->r->is_kernel)
		return;
	add_env(d, "BASH_ENV", boot, "");
	buf_add(&b, boot_sh, sizeof(boot_sh));
	draft_file(d, boot, &b);
	draft_code(d, "nsbox_start; ");
	if (d->r->is_kernel)
		kernel_bash(d);
}

#define LIST(...) (const char *const[]){ __VA_ARGS__, NULL }
static const struct language languages[] = {
	{ "python", LIST("py", "python3"), LIST(".py", ".pyw"), build_python, check_python },
	{ "javascript", LIST("js", "node", "nodejs"),
	  LIST(".js", ".mjs", ".cjs"), build_javascript, check_javascript },
	{ "bash", LIST("sh", "shell"), LIST(".sh", ".bash"), build_bash, check_bash },
};

static bool is_in(const char *const *list, const char *s)
{
	for (; *list; list++)
		if (strcmp(*list, s) == 0)
			return true;
	return false;
}

const char *lang_canonical(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].name, name) == 0 ||
		    is_in(languages[i].aliases, name))
			return languages[i].name;
	return NULL;
}

const char *lang_of_file(const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	const char *dot = strrchr(base, '.');

	if (!dot || dot == base) /* ".py" is a hidden file without extension */
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (is_in(languages[i].extensions, dot))
			return languages[i].name;
	return NULL;
}

static int check_request(const struct lang_request *r, struct nsbox_error *err)
{
	if (!r->interp || !r->interp->program || !r->interp->language)
		return err_set(err, NSBOX_E_USAGE, "no interpreter is given");
	if (r->is_kernel ? r->code || r->file : !r->code == !r->file)
		return err_set(err, NSBOX_E_USAGE,
			       r->is_kernel ? "a kernel has no source text and no file"
					    : "give either source text or a file");
	if (r->file && r->file[0] != '/')
		return err_set(err, NSBOX_E_USAGE,
			       "the script '%s' is not an absolute path",
			       r->file);
	if (r->project && r->project[0] != '/')
		return err_set(err, NSBOX_E_USAGE,
			       "the project '%s' is not an absolute path",
			       r->project);
	if (r->code && r->code_len > CODE_MAX) {
		err_hint(err, "put the data into a file and give it with --ro");
		return err_set(err, NSBOX_E_USAGE,
			       "the source is %zu bytes long, more than %zu",
			       r->code_len, CODE_MAX);
	}
	return 0;
}

static const struct language *find_language(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

int lang_command(struct lang_command *out, const struct lang_request *r,
		 struct nsbox_error *err)
{
	struct draft d = { .r = r };
	const struct language *l;
	int ret = check_request(r, err);

	if (ret < 0)
		return ret;
	l = find_language(r->interp->language);
	if (!l) {
		err_hint(err, "known languages: python, javascript, bash");
		return err_set(err, NSBOX_E_USAGE, "unknown language '%s'",
			       r->interp->language);
	}
	d.cmd.files = calloc(FILES_MAX, sizeof(*d.cmd.files));
	if (!d.cmd.files)
		return err_nomem(err);
	draft_arg(&d, r->interp->program);
	if (r->check && r->check->only) {
		l->check(&d);
	} else {
		l->build(&d);
		add_args(&d, r->args);
	}
	if (d.failed) {
		lang_command_free(&d.cmd);
		return err_nomem(err);
	}
	*out = d.cmd;
	return 0;
}

void lang_command_free(struct lang_command *c)
{
	for (size_t i = 0; i < c->file_count; i++) {
		free(c->files[i].path);
		free(c->files[i].data);
	}
	free(c->files);
	strlist_free(&c->argv);
	strlist_free(&c->env);
	*c = (struct lang_command){ 0 };
}
