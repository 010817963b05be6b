/*
 * packages_install.c - the box that installs
 *
 * Runs in the launcher; what it starts is a box like any other, whose program is
 * lang/install.py or install.js with the settings in front. Python's packages may bring build
 * scripts: they run there, see the logins of the indexes, and reach those indexes and nothing
 * else. npm unpacks without running anything; the install scripts then run in a second box,
 * which reaches the same hosts and has no login.
 *
 * Must:    give logins by the program's text alone, which no argument list and no file of
 *          the host ever holds; show what pip says only without them.
 * Mustn't: believe what the box says beyond text to show.
 */
#include "runtime/packages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"
#include "runtime/box.h"

#include "install_js.inc"
#include "install_py.inc"

enum { PROGRAM_MAX = 16 << 20, WHY_MAX = 700 };
enum { DONE, FAILED, KILLED };
enum { LOOK_MS = 200 }; /* at least, between two looks at what was written */

#define BOX_INSTALLER "/installer" /* where the install box has npm's folder, or uv */

/* --------------------------------------------------------------------- program -- */

/* Bytes as a Python literal. */
static void put_bytes(struct buf *b, const char *data, size_t len)
{
	buf_str(b, "b'");
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c < 0x20 || c >= 0x7f || c == '\'' || c == '\\')
			buf_fmt(b, "\\x%02x", c);
		else
			buf_char(b, data[i]);
	}
	buf_char(b, '\'');
}

static void put_setting(struct buf *b, const char *name, const struct buf *value, bool is_text)
{
	buf_fmt(b, "%s = ", name);
	put_bytes(b, buf_text(value), value->len);
	buf_str(b, is_text ? ".decode('utf-8', 'surrogateescape')\n" : "\n");
}

static void python_program(struct buf *b, const struct install *i, const char *phase)
{
	const struct pkg_origin *c = i->config;

	(void)phase; /* there is one */
	buf_str(b, "SPECS = [");
	for (size_t k = 0; k < i->specs->n; k++) {
		put_bytes(b, i->specs->v[k], strlen(i->specs->v[k]));
		buf_str(b, ".decode(), ");
	}
	buf_str(b, "]\n");
	buf_fmt(b, "UV = '%s'\n", c->installer ? BOX_INSTALLER : "");
	put_setting(b, "CONF", &c->conf, true);
	put_setting(b, "NETRC", &c->logins, true);
	put_setting(b, "CERT", &c->ca, false);
	put_setting(b, "KEY", &c->client, false);
	put_setting(b, "CONSTRAINTS", &c->constraints, true);
	buf_add(b, install_py, sizeof(install_py));
}

/* A text of UTF-8 as JavaScript has it; JSON is part of that language. */
static void put_text(struct buf *b, const char *name, const char *text)
{
	struct json j = JSON_INIT(b);

	buf_fmt(b, "const %s = ", name);
	json_str(&j, text);
	buf_str(b, ";\n");
}

static void javascript_program(struct buf *b, const struct install *i, const char *phase)
{
	const struct pkg_origin *c = i->config;
	bool has_logins = strcmp(phase, "install") == 0;
	struct json j = JSON_INIT(b);

	buf_str(b, "const SPECS = ");
	json_array(&j);
	for (size_t k = 0; k < i->specs->n; k++)
		json_str(&j, i->specs->v[k]);
	json_end(&j, ']');
	buf_str(b, ";\n");
	put_text(b, "CONF", buf_text(&c->conf));
	put_text(b, "LOGINS", has_logins ? buf_text(&c->logins) : "");
	put_text(b, "FORWARD", buf_text(&c->forward));
	put_text(b, "CA", buf_text(&c->ca));
	put_text(b, "MORE_CA", buf_text(&c->more_ca));
	put_text(b, "NPM", BOX_INSTALLER "/bin/npm-cli.js");
	put_text(b, "PHASE", phase);
	buf_add(b, install_js, sizeof(install_js));
}

static char *make_program(const struct install *i, const char *phase)
{
	struct buf b = BUF_INIT(PROGRAM_MAX);
	char *text;

	if (strcmp(i->r->interp->language, "javascript") == 0)
		javascript_program(&b, i, phase);
	else
		python_program(&b, i, phase);
	text = buf_take(&b);
	buf_free(&b);
	return text;
}

/* ---------------------------------------------------------------------- policy -- */

static int set_bind(struct policy *p, const char *key, const char *from, const char *to,
		    struct nsbox_error *err)
{
	struct buf b = BUF_INIT(16384);
	int r;

	buf_fmt(&b, "%s:%s", from, to);
	r = b.failed ? err_nomem(err) : policy_set(p, key, buf_text(&b), err);
	buf_free(&b);
	return r;
}

static int set_list(struct policy *p, const char *key, const struct strlist *l,
		    struct nsbox_error *err)
{
	int r = 0;

	for (size_t k = 0; k < l->n && r == 0; k++)
		r = policy_set(p, key, l->v[k], err);
	return r;
}

static int set_network(struct policy *p, const struct pkg_origin *c, struct nsbox_error *err)
{
	int r;

	if (!c->hosts.n)
		return policy_set(p, "net.mode", "disabled", err);
	r = policy_set(p, "net.mode", "filtered", err);
	if (r == 0)
		r = set_list(p, "net.allow_out", &c->hosts, err);
	if (r == 0)
		r = set_list(p, "net.allow_private", &c->private, err);
	return r == 0 && c->proxy ? policy_set(p, "net.proxy", c->proxy, err) : r;
}

/* The folder is ours and holds nothing that anybody of the host executes: no name in it is
 * protected. */
static int make_policy(struct policy *p, const struct install *i, struct nsbox_error *err)
{
	static const char *const settings[][2] = {
		{ "fs.protect", "" }, { "fs.protect_home", "" }, { "limits.output", "1M" },
	};
	char size[24];
	int r = policy_from_profile(p, "build", err);

	for (size_t k = 0; k < ARRAY_SIZE(settings) && r == 0; k++)
		r = policy_set(p, settings[k][0], settings[k][1], err);
	if (r == 0)
		r = set_bind(p, "fs.write", i->folder, "/layer", err);
	for (size_t k = 0; k < i->config->folders.n && r == 0; k++) {
		char place[32];

		snprintf(place, sizeof(place), "/index/%zu", k);
		r = set_bind(p, "fs.read", i->config->folders.v[k], place, err);
	}
	if (r == 0 && i->config->installer)
		r = set_bind(p, "fs.read", i->config->installer, BOX_INSTALLER, err);
	/* A second bound, for a file that is deleted and still open. */
	snprintf(size, sizeof(size), "%llu", (unsigned long long)i->r->max_bytes * 2);
	if (r == 0)
		r = policy_set(p, "limits.file_size", size, err);
	return r < 0 ? r : set_network(p, i->config, err);
}

struct ended { /* an install box */
	struct nsbox_result *res;
	enum packages_size size;
};

/* ------------------------------------------------------------------- the words -- */

/* A text of the box for people: one line, printable, without a login, of bounded length. */
static void put_words(struct buf *out, const char *text, size_t len, const struct strlist *secrets)
{
	size_t start = out->len;

	for (size_t at = 0; at < len && out->len - start < WHY_MAX;) {
		size_t secret = 0;

		for (size_t k = 0; k < secrets->n && !secret; k++) {
			size_t n = strlen(secrets->v[k]);

			secret = n <= len - at && memcmp(text + at, secrets->v[k], n) == 0 ? n : 0;
		}
		if (secret)
			buf_str(out, "****");
		else
			buf_char(out, (unsigned char)text[at] < 0x20 || (unsigned char)text[at] >= 0x7f
					      ? ' ' : text[at]);
		at += secret ? secret : 1;
	}
	if (out->len - start >= WHY_MAX)
		buf_str(out, "...");
}

static void put_specs(struct buf *out, const struct strlist *specs)
{
	for (size_t k = 0; k < specs->n && out->len < WHY_MAX; k++)
		buf_fmt(out, "%s%s", k ? ", " : "", specs->v[k]);
}

/* "failed\tSPEC\tWHY\n" of install.py; false: it did not come so far. */
static bool put_told(struct buf *out, const struct nsbox_result *res, const struct strlist *secrets)
{
	const char *line = res->out.data ? strstr(res->out.data, "failed\t") : NULL;
	const char *why = line ? strchr(line + 7, '\t') : NULL;

	if (!why || res->verdict != NSBOX_EXITED)
		return false;
	line += 7;
	put_words(out, line, (size_t)(why - line), secrets);
	buf_str(out, ": ");
	put_words(out, why + 1, strcspn(why + 1, "\n"), secrets);
	return true;
}

/* What the network of the box refused is what a setting of pip lacks, mostly. */
static void put_denials(struct buf *out, const struct install *i, const struct nsbox_result *res)
{
	bool is_npm = strcmp(i->config->tool, "npm") == 0;
	unsigned told = 0;

	for (size_t k = 0; k < res->denial_count && told < 3; k++)
		if (strcmp(res->denials[k].layer, "egress") == 0)
			buf_fmt(out, "%s%.200s", told++ ? ", " : " (refused by the box: ",
				res->denials[k].what);
	if (told)
		buf_fmt(out, "; %s)", is_npm ? "npm's setting @SCOPE:registry names more hosts"
					     : "pip's setting trusted-host names more hosts");
}

static void put_size_words(struct buf *out, const struct install *i, enum packages_size size)
{
	put_specs(out, i->specs);
	if (size == SIZE_DEEP)
		buf_str(out, ": the install made folders that are more than 128 deep");
	else
		buf_fmt(out, ": the install wrote more than " SIZE_WORDS "%llu bytes, into %s; "
			"if that is what it needs: --set packages.max_bytes=%lluM",
			(unsigned long long)i->r->max_bytes, i->folder,
			(unsigned long long)(i->r->max_bytes >> 20) * 2);
}

/* One file beyond the second bound: its write fails, and the installer says so. */
static void put_large_file(struct buf *why, const struct install *i)
{
	if (strstr(buf_text(why), "EFBIG") || strstr(buf_text(why), "File too large"))
		buf_fmt(why, " (no file may exceed twice packages.max_bytes, which is %llu)",
			(unsigned long long)i->r->max_bytes);
}

static int tell(const struct install *i, const struct ended *e, struct buf *why)
{
	const struct nsbox_result *res = e->res;

	if (e->size != SIZE_FINE) {
		put_size_words(why, i, e->size);
		return FAILED;
	}
	if (res->verdict == NSBOX_EXITED && res->exit_code == 0)
		return DONE;
	if (!put_told(why, res, &i->config->secrets)) {
		put_specs(why, i->specs);
		buf_fmt(why, ": the install box ended with %s%s%s", nsbox_result_verdict_name(res),
			res->reason ? ", " : "", res->reason ? res->reason : "");
	}
	put_denials(why, i, res);
	put_large_file(why, i);
	return FAILED;
}

/* ------------------------------------------------------------------------- run -- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A look at a large tree costs: an eighth of the time at most. */
static int wait_for_end(const struct install *i, struct nsbox_box *box, enum packages_size *size,
			struct nsbox_error *err)
{
	owned_fd int folder = open(i->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t pause = LOOK_MS, next = now_ms() + LOOK_MS, before;
	int r = folder < 0 ? err_sys(err, "open %s", i->folder) : 0;

	while (r == 0) {
		before = now_ms();
		r = nsbox_box_wait(box, (int)(next > before ? next - before : 0), err);
		before = now_ms();
		if (r != 0 || before < next)
			continue;
		*size = packages_size(folder, i->r->max_bytes);
		if (*size != SIZE_FINE)
			nsbox_box_kill(box);
		pause = (now_ms() - before) * 7;
		next = now_ms() + (pause < LOOK_MS ? LOOK_MS : pause);
	}
	if (r == 1 && *size == SIZE_FINE) /* what it wrote since the last look */
		*size = packages_size(folder, i->r->max_bytes);
	return r < 0 ? r : 0;
}

/* Whoever wants to kill our caller's box has to kill this one. */
static int run_watched(const struct install *i, struct nsbox_box *box, const struct nsbox_run *run,
		       struct nsbox_result **res, enum packages_size *size, struct nsbox_error *err)
{
	const struct packages_request *r = i->r;
	bool is_killed = r->running && r->running(r->running_arg, box);
	int code = is_killed ? 0 : nsbox_box_start(box, run, err);

	if (code == 0 && !is_killed) {
		code = wait_for_end(i, box, size, err);
		if (code == 0)
			code = nsbox_box_collect(box, res, err);
	}
	is_killed |= r->running && r->running(r->running_arg, NULL);
	return code < 0 || !is_killed ? code : KILLED;
}

static int run_box(const struct install *i, const struct nsbox_policy *policy, char *program,
		   struct ended *e, struct nsbox_error *err)
{
	struct nsbox_run run = NSBOX_RUN_INIT;
	struct nsbox_box *box = NULL;
	int code = nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, err);

	if (code < 0)
		return code;
	run.language = i->r->interp->language;
	run.code = program;
	run.interpreter = i->r->interp->program;
	run.cwd = "/workspace";
	run.name = "packages";
	if (i->config->names.len)
		box->egress.more_hosts = buf_text(&i->config->names);
	code = run_watched(i, box, &run, &e->res, &e->size, err);
	nsbox_box_close(box);
	return code;
}

static int run_phase(const struct install *i, const struct nsbox_policy *policy, const char *phase,
		     bool *has_scripts, struct buf *why, struct nsbox_error *err)
{
	owned_mem char *program = make_program(i, phase);
	struct ended e = { 0 };
	int r = program ? run_box(i, policy, program, &e, err) : err_nomem(err);

	if (r == 0)
		r = tell(i, &e, why);
	*has_scripts = r == DONE && e.res->out.data && strncmp(e.res->out.data, "scripts\n", 8) == 0;
	nsbox_result_free(e.res);
	return r;
}

int packages_install(const struct install *i, struct buf *why, struct nsbox_error *err)
{
	struct nsbox_policy policy = { 0 };
	bool has_scripts = false;
	int r = make_policy(&policy.p, i, err);

	if (r == 0)
		r = run_phase(i, &policy, "install", &has_scripts, why, err);
	if (r == DONE && has_scripts && !i->config->no_scripts)
		r = run_phase(i, &policy, "scripts", &has_scripts, why, err);
	policy_free(&policy.p);
	if (r < 0)
		err_wrap(err, "install packages");
	return r;
}
