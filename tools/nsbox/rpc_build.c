/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rpc_build.h. Runs in `nsbox rpc`. Must refuse a text with a NUL wherever C would
 * end it there: what is judged must be what is used.
 */
#include "tools/nsbox/rpc_build.h"

#include <string.h>
#include <sys/mman.h>

#include "tools/nsbox/code.h"
#include "tools/nsbox/layers.h"
#include "tools/nsbox/nearest.h"
#include "tools/nsbox/paths.h"
#include "tools/nsbox/say.h"

/* --- texts --------------------------------------------------------------------- */

static int hold(struct rpc_build *b, char *text, struct nsbox_error *err)
{
	char **held = text ? realloc(b->held, (b->held_count + 1) * sizeof(*held)) : NULL;

	if (!held) {
		free(text);
		return cli_nomem(err);
	}
	b->held = held;
	b->held[b->held_count++] = text;
	return 0;
}

/* The text of @v, held by @b. @what names it in messages. */
static int text_of(struct rpc_build *b, struct jscan v, const char *what, const char **out,
		   struct nsbox_error *err)
{
	char *text = NULL;
	size_t len;
	int r = jscan_string(v, false, &text, &len, err);

	if (r == 0)
		r = hold(b, text, err);
	if (r == 0 && strlen(text) != len)
		return cli_fail(err, NSBOX_E_USAGE, "'%s' has a NUL in it", what);
	if (r == 0)
		*out = text;
	return r;
}

/* A string, or what its base64 holds. Any bytes. */
static int bytes_of(struct rpc_build *b, struct jscan v, const char **out, size_t *len,
		    struct nsbox_error *err)
{
	struct jscan key, value;
	char *text = NULL;
	size_t at = 0;
	int r;

	if (jscan_kind(v) == JSCAN_STRING)
		r = jscan_string(v, true, &text, len, err);
	else if (jscan_next(v, &at, &key, &value))
		r = rpc_base64(value, &text, len, err);
	else
		r = cli_fail(err, NSBOX_E_USAGE, "an object without base64");
	if (r == 0)
		r = hold(b, text, err);
	if (r == 0)
		*out = text;
	return r;
}

struct words {
	struct rpc_build *b;
	const char *what;
	const char **v;
	size_t n;
};

/* One more, with an end behind it. The list moves as it grows: it is held at the end. */
static int words_add(struct words *w, const char *text, struct nsbox_error *err)
{
	const char **v = realloc(w->v, (w->n + 2) * sizeof(*v));

	if (!v)
		return cli_nomem(err);
	w->v = v;
	if (text)
		w->v[w->n++] = text;
	w->v[w->n] = NULL;
	return 0;
}

/* "A=B" of a member. */
static int pair_of(struct rpc_build *b, struct jscan key, struct jscan value, const char **out,
		   struct nsbox_error *err)
{
	const char *name = NULL, *text = NULL;
	char *pair = NULL;
	int r = text_of(b, key, "env", &name, err);

	if (r == 0 && (!*name || strchr(name, '=')))
		return cli_fail(err, NSBOX_E_USAGE,
				"a name in 'env' is empty or has a '=' in it");
	if (r == 0)
		r = text_of(b, value, "env", &text, err);
	if (r < 0)
		return r;
	if (asprintf(&pair, "%s=%s", name, text) < 0)
		return cli_nomem(err);
	*out = pair;
	return hold(b, pair, err);
}

/* The strings of a list, or NAME=VALUE of each member of an object. */
static int words_of(struct rpc_build *b, struct jscan v, const char *what,
		    const char *const **out, struct nsbox_error *err)
{
	struct words w = { .b = b, .what = what };
	struct jscan key, item;
	int r = words_add(&w, NULL, err);
	size_t at = 0;

	while (r == 0 && jscan_next(v, &at, &key, &item)) {
		const char *text = NULL;

		r = key.p ? pair_of(b, key, item, &text, err) : text_of(b, item, what, &text, err);
		if (r == 0)
			r = words_add(&w, text, err);
	}
	if (r < 0) {
		free(w.v);
		return r;
	}
	*out = w.v;
	return hold(b, (char *)w.v, err);
}

/* --- the policy -------------------------------------------------------------------- */

static int add_setting(struct rpc_build *b, const char *key, const char *value,
		       struct nsbox_error *err)
{
	struct args_setting *v =
		realloc(b->flags.settings, (b->flags.setting_count + 1) * sizeof(*v));

	if (!v)
		return cli_nomem(err);
	b->flags.settings = v;
	v[b->flags.setting_count++] = (struct args_setting){ .key = key, .value = value };
	return 0;
}

static int add_list(struct rpc_build *b, const char *key, struct jscan list,
		    struct nsbox_error *err)
{
	struct jscan none, item;
	size_t at = 0, n = 0;
	int r = 0;

	while (r == 0 && jscan_next(list, &at, &none, &item)) {
		const char *text = NULL;

		r = text_of(b, item, key, &text, err);
		if (r == 0)
			r = add_setting(b, key, text, err);
		n++;
	}
	/* An empty list forgets what lower layers listed, as in a policy file. */
	return r == 0 && n == 0 ? add_setting(b, key, "", err) : r;
}

/* A number, true, false or null as it is written: that is what the key's parser reads. */
static int add_word(struct rpc_build *b, const char *key, struct jscan v, struct nsbox_error *err)
{
	char *text = strndup(v.p, v.len);
	int r = hold(b, text, err);

	return r < 0 ? r : add_setting(b, key, text, err);
}

static int add_settings(struct rpc_build *b, struct jscan set, struct nsbox_error *err)
{
	struct jscan name, value;
	size_t at = 0;
	int r = 0;

	while (r == 0 && set.p && jscan_next(set, &at, &name, &value)) {
		const char *key = NULL, *text = NULL;

		r = text_of(b, name, "set", &key, err);
		if (r < 0)
			return r;
		if (jscan_kind(value) == JSCAN_ARRAY) {
			r = add_list(b, key, value, err);
		} else if (jscan_kind(value) != JSCAN_STRING) {
			r = add_word(b, key, value, err);
		} else {
			r = text_of(b, value, key, &text, err);
			if (r == 0)
				r = add_setting(b, key, text, err);
		}
	}
	return r;
}

static int build_policy(struct rpc_build *b, const struct rpc_request *q, const char *profile,
			struct nsbox_error *err)
{
	struct jscan policy = q->v[K_POLICY];
	const char *named = NULL;
	int r = 0;

	if (q->v[K_PROFILE].p) {
		r = text_of(b, q->v[K_PROFILE], "profile", &named, err);
		if (r < 0)
			return r;
		b->base.policies.v = calloc(2, sizeof(*b->base.policies.v));
		if (!b->base.policies.v)
			return cli_nomem(err);
		b->base.policies.v[0] = named;
		b->base.policies.n = 1;
	}
	r = add_settings(b, q->v[K_SET], err);
	if (r == 0 && q->v[K_PACKAGES].p)
		r = add_list(b, "packages.list", q->v[K_PACKAGES], err);
	if (r == 0)
		r = layers_build(&b->policy, &b->base, profile, err);
	if (r == 0 && policy.p)
		r = nsbox_policy_load(b->policy, policy.p, policy.len, "policy",
				      NSBOX_LAYER_FLAGS, err);
	return r < 0 ? r : layers_flags(b->policy, &b->flags, err);
}

/* --- the run -------------------------------------------------------------------------- */

static int take_path(struct rpc_build *b, const struct rpc_request *q, enum rpc_key k,
		     const char **out, struct nsbox_error *err)
{
	const char *given = NULL;
	char *full = NULL;
	int r;

	if (!q->v[k].p)
		return 0;
	r = text_of(b, q->v[k], rpc_keys[k].name, &given, err);
	if (r < 0)
		return r;
	r = k == K_INTERPRETER ? path_program(&full, given, err) : path_absolute(&full, given, err);
	if (r == 0)
		r = hold(b, full, err);
	if (r == 0)
		*out = full;
	return r;
}

static int take_paths(struct rpc_build *b, const struct rpc_request *q, struct nsbox_error *err)
{
	const struct { enum rpc_key key; const char **out; } paths[] = {
		{ K_CWD, &b->run.cwd }, { K_PROJECT, &b->run.project },
		{ K_ARTIFACTS_DIR, &b->run.artifacts_dir }, { K_INTERPRETER, &b->run.interpreter },
		{ K_FILE, &b->run.file },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < CLI_COUNT(paths); i++)
		r = take_path(b, q, paths[i].key, paths[i].out, err);
	return r;
}

static int take_stdin(struct rpc_build *b, struct jscan v, struct nsbox_error *err)
{
	const char *data = NULL;
	size_t len = 0, at = 0;
	int r;

	if (!v.p)
		return 0;
	r = bytes_of(b, v, &data, &len, err);
	if (r < 0)
		return r;
	b->stdin_fd = memfd_create("nsbox-stdin", MFD_CLOEXEC);
	if (b->stdin_fd < 0)
		return cli_fail_errno(err, "make a file for the standard input");
	while (at < len) {
		ssize_t n = write(b->stdin_fd, data + at, len - at);

		if (n < 0)
			return cli_fail_errno(err, "keep the standard input");
		at += (size_t)n;
	}
	if (lseek(b->stdin_fd, 0, SEEK_SET) < 0)
		return cli_fail_errno(err, "rewind the standard input");
	b->run.in = NSBOX_IO_RELAY;
	b->run.in_fd = b->stdin_fd;
	return 0;
}

static int take_code(struct rpc_build *b, const struct rpc_request *q,
		     const struct code_language **l, struct nsbox_error *err)
{
	const char *name = NULL;
	char *interpreter = NULL;
	int r = 0;

	if (q->op != OP_OPEN && !q->v[K_CODE].p == !q->v[K_FILE].p) {
		cli_hint(err, "give the source in 'code', or the path of its file in 'file'");
		return cli_fail(err, NSBOX_E_USAGE, q->v[K_CODE].p ? "'code' and 'file' exclude each other" :
								    "no code given");
	}
	if (q->v[K_LANGUAGE].p)
		r = text_of(b, q->v[K_LANGUAGE], "language", &name, err);
	if (r == 0 && q->v[K_CODE].p)
		r = bytes_of(b, q->v[K_CODE], &b->run.code, &b->run.code_len, err);
	if (r == 0 && b->run.code_len > CODE_MAX)
		return cli_fail(err, NSBOX_E_USAGE, "the code is larger than 16 MiB");
	if (r == 0)
		r = code_language(l, name, b->run.file, err);
	if (r < 0)
		return r;
	b->run.language = (*l)->name;
	if (!b->run.interpreter) {
		r = code_interpreter(&interpreter, *l, err);
		b->run.interpreter = interpreter;
	}
	return r == 0 && interpreter ? hold(b, interpreter, err) : r;
}

static int take_tier(struct rpc_build *b, const struct rpc_request *q, struct nsbox_error *err)
{
	char name[64];
	struct nearest n = NEAREST_INIT(name);
	struct nsbox_tier_info info;

	b->tier = q->op == OP_CHECK ? NSBOX_TIER_STATIC : NSBOX_TIER_LOCAL;
	if (!q->v[K_TIER].p)
		return 0;
	if (!rpc_word(q->v[K_TIER], name, sizeof(name)))
		return cli_fail(err, NSBOX_E_USAGE, "'tier' is no name of a tier");
	for (size_t i = 0; nsbox_tier_info(i, &info) == 0; i++) {
		if (strcmp(info.name, name) == 0) {
			b->tier = (enum nsbox_tier)info.tier;
			return 0;
		}
		nearest_offer(&n, info.name);
	}
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	return cli_fail(err, NSBOX_E_USAGE, "unknown tier '%s'", name);
}

int rpc_build(struct rpc_build *b, const struct rpc_request *q, struct nsbox_error *err)
{
	const struct code_language *l = NULL;
	int r = take_tier(b, q, err);

	if (r == 0)
		r = take_paths(b, q, err);
	if (r == 0 && q->op != OP_RUN)
		r = take_code(b, q, &l, err);
	if (r == 0 && q->v[K_ARGV].p)
		r = words_of(b, q->v[K_ARGV], "argv", &b->run.argv, err);
	if (r == 0 && q->v[K_ARGS].p)
		r = words_of(b, q->v[K_ARGS], "args", &b->run.argv, err);
	if (r == 0 && q->v[K_ENV].p)
		r = words_of(b, q->v[K_ENV], "env", &b->run.env, err);
	if (r == 0 && q->v[K_NAME].p)
		r = text_of(b, q->v[K_NAME], "name", &b->run.name, err);
	if (r == 0 && q->op == OP_RUN && (!b->run.argv[0] || !b->run.argv[0][0]))
		return cli_fail(err, NSBOX_E_USAGE, "'argv' is empty: no command given");
	if (r == 0)
		r = take_stdin(b, q->v[K_STDIN], err);
	if (r == 0 && q->v[K_TIMEOUT_MS].p)
		jscan_uint(q->v[K_TIMEOUT_MS], RPC_NUMBER_MAX, &b->run.timeout_ms);
	if (rpc_true(q->v[K_AST]))
		b->run.flags |= NSBOX_RUN_AST;
	b->wants_progress = rpc_true(q->v[K_PROGRESS]);
	return r < 0 ? r : build_policy(b, q, l ? l->profile : NULL, err);
}

void rpc_build_free(struct rpc_build *b)
{
	nsbox_policy_free(b->policy);
	args_free(&b->base);
	args_free(&b->flags);
	for (size_t i = 0; i < b->held_count; i++)
		free(b->held[i]);
	free(b->held);
	if (b->stdin_fd >= 0)
		close(b->stdin_fd);
}
