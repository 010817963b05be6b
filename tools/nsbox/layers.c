/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See layers.h. Runs in the command, before the box. Must treat a file that is
 * there but cannot be read as an error: skipping it would loosen the policy.
 */
#include "tools/nsbox/layers.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/nsbox/nearest.h"
#include "tools/nsbox/paths.h"
#include "tools/nsbox/say.h"

#define SYSTEM_FILE "/etc/nsbox/policy.json"
#define USER_FILE "nsbox/policy.json"
#define PROJECT_FILE ".nsbox.json"

int layers_load(struct nsbox_policy *policy, const char *path, enum nsbox_layer layer,
		struct nsbox_error *err)
{
	auto_free char *text = NULL;
	size_t len;
	int r = file_read(path, POLICY_FILE_MAX, &text, &len, err);

	if (r < 0)
		return r;
	return nsbox_policy_load(policy, text, len, path, layer, err);
}

/* 1: there is such a file, 0: there is none. */
static int look(const char *path, struct stat *st, struct nsbox_error *err)
{
	if (lstat(path, st) == 0)
		return 1;
	if (errno == ENOENT || errno == ENOTDIR)
		return 0;
	return cli_fail_errno(err, "look for the policy file %s", path);
}

static int load_if_there(struct nsbox_policy *policy, const char *path, enum nsbox_layer layer,
			 struct nsbox_error *err)
{
	struct stat st;
	int r = look(path, &st, err);

	return r > 0 ? layers_load(policy, path, layer, err) : r;
}

/* --- the user's file ------------------------------------------------------- */

static bool user_path(char *path, size_t size)
{
	const char *base = getenv("XDG_CONFIG_HOME");
	const char *sub = "";
	int n;

	if (!base || *base != '/') { /* the XDG rule: relative is as good as unset */
		base = getenv("HOME");
		sub = "/.config";
	}
	if (!base || *base != '/')
		return false;
	n = snprintf(path, size, "%s%s/%s", base, sub, USER_FILE);
	return n > 0 && (size_t)n < size;
}

/*
 * It may loosen, so it must be the caller's own: after "sudo -E" it would be a
 * file that an ordinary user writes and root obeys.
 */
static int load_user(struct nsbox_policy *policy, struct nsbox_error *err)
{
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (!user_path(path, sizeof(path)))
		return 0;
	r = look(path, &st, err);
	if (r <= 0)
		return r;
	if (stat(path, &st) < 0)
		return cli_fail_errno(err, "look at %s", path);
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022)) {
		cli_hint(err, "make it yours alone (chown, chmod go-w) or set XDG_CONFIG_HOME");
		return cli_fail(err, NSBOX_E_POLICY,
				"%s can be written by others: it belongs to uid %u, mode %03o", path,
				(unsigned)st.st_uid, (unsigned)st.st_mode & 0777);
	}
	return layers_load(policy, path, NSBOX_LAYER_USER, err);
}

/* --- the project's file ------------------------------------------------------ */

/*
 * It can only tighten; but in a folder that anybody may write, such as /tmp, a
 * stranger could break everybody's runs with one. 1: take it.
 */
static int is_ours(const char *dir, const struct stat *file)
{
	struct stat st;

	if (file->st_uid == geteuid() || file->st_uid == 0)
		return 1;
	return stat(dir, &st) == 0 && !(st.st_mode & S_IWOTH);
}

static bool is_boundary(const char *dir)
{
	const char *home = getenv("HOME");
	char git[PATH_MAX];
	struct stat st, at;

	/* By inode: getcwd(2) has no links in it, HOME may. */
	if (home && stat(home, &at) == 0 && stat(*dir ? dir : "/", &st) == 0 &&
	    at.st_dev == st.st_dev && at.st_ino == st.st_ino)
		return true;
	return snprintf(git, sizeof(git), "%s/.git", dir) >= (int)sizeof(git) ||
	       lstat(git, &st) == 0;
}

static int load_project_at(struct nsbox_policy *policy, const char *dir, struct nsbox_error *err)
{
	char path[PATH_MAX + sizeof(PROJECT_FILE) + 1];
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, PROJECT_FILE);
	r = look(path, &st, err);
	if (r <= 0)
		return r;
	if (!is_ours(dir, &st)) {
		say("ignored %s: uid %u put it into a folder that anybody may write", path,
		    (unsigned)st.st_uid);
		return 0;
	}
	r = layers_load(policy, path, NSBOX_LAYER_PROJECT, err);
	return r < 0 ? r : 1;
}

/* The nearest one, from here up to the root of the repository or the home. */
static int load_project(struct nsbox_policy *policy, struct nsbox_error *err)
{
	char dir[PATH_MAX];
	int r = 0;

	if (!getcwd(dir, sizeof(dir)) || dir[0] != '/')
		return 0; /* a folder that is gone holds no project */
	if (!dir[1])
		dir[0] = '\0';
	for (;;) {
		char *slash = strrchr(dir, '/');

		r = load_project_at(policy, dir, err);
		if (r != 0 || !slash || is_boundary(dir))
			return r < 0 ? r : 0;
		*slash = '\0';
	}
}

/* --- the flags ------------------------------------------------------------------ */

static bool is_file_name(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') || (len > 5 && strcmp(name + len - 5, ".json") == 0);
}

static int check_profile(const char *name, struct nsbox_error *err)
{
	struct nearest n = NEAREST_INIT(name);
	const char *known;

	for (size_t i = 0; (known = nsbox_profile_name(i)); i++) {
		if (strcmp(known, name) == 0)
			return 0;
		nearest_offer(&n, known);
	}
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	else
		cli_hint(err, "'nsbox help profiles' lists them; a policy file is named with a / "
			      "or .json");
	return cli_fail(err, NSBOX_E_POLICY, "unknown profile '%s'", name);
}

static int pick_profile(const struct args *a, const char **profile, struct nsbox_error *err)
{
	const char *found = NULL;

	for (size_t i = 0; i < a->policies.n; i++) {
		const char *name = a->policies.v[i];
		int r;

		if (is_file_name(name))
			continue;
		if (found && strcmp(found, name) != 0)
			return cli_fail(err, NSBOX_E_USAGE,
					"two profiles, '%s' and '%s': a policy starts from one",
					found, name);
		r = check_profile(name, err);
		if (r < 0)
			return r;
		found = name;
	}
	if (found)
		*profile = found;
	return 0;
}

/* PATH[:DEST], PATH from here. The destination is the box's and stays. */
static int absolute_bind(char **out, const char *value, struct nsbox_error *err)
{
	const char *dest = strstr(value, ":/");
	auto_free char *src = dest ? strndup(value, (size_t)(dest - value)) : strdup(value);
	auto_free char *full = NULL;
	int r;

	if (!src)
		return cli_nomem(err);
	r = path_absolute(&full, src, err);
	if (r < 0)
		return r;
	return asprintf(out, "%s%s", full, dest ? dest : "") < 0 ? cli_nomem(err) : 0;
}

static int apply_setting(struct nsbox_policy *policy, const struct args_setting *s,
			 struct nsbox_error *err)
{
	auto_free char *key = s->key_len ? strndup(s->key, s->key_len) : strdup(s->key);
	auto_free char *value = NULL;
	int r = 0;

	if (!key)
		return cli_nomem(err);
	/* "" clears a list: it is not a path. */
	if (*s->value && (!strcmp(key, "fs.read") || !strcmp(key, "fs.write"))) {
		r = absolute_bind(&value, s->value, err);
		if (r < 0)
			return r;
	}
	return nsbox_policy_set(policy, key, value ? value : s->value, err);
}

int layers_flags(struct nsbox_policy *policy, const struct args *a, struct nsbox_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->setting_count; i++)
		r = apply_setting(policy, &a->settings[i], err);
	for (size_t i = 0; r == 0 && i < a->env.n; i++)
		r = nsbox_policy_set(policy, strchr(a->env.v[i], '=') ? "env.set" : "env.pass",
				     a->env.v[i], err);
	if (r == 0 && a->no_imports)
		r = nsbox_policy_set(policy, "imports.allow", "", err);
	return r;
}

static int apply_layers(struct nsbox_policy *policy, const struct args *a,
			struct nsbox_error *err)
{
	int r = load_if_there(policy, SYSTEM_FILE, NSBOX_LAYER_SYSTEM, err);

	if (r == 0)
		r = load_user(policy, err);
	if (r == 0)
		r = load_project(policy, err);
	for (size_t i = 0; r == 0 && i < a->policies.n; i++) {
		if (is_file_name(a->policies.v[i]))
			r = layers_load(policy, a->policies.v[i], NSBOX_LAYER_FLAGS, err);
	}
	return r ? r : layers_flags(policy, a, err);
}

int layers_build(struct nsbox_policy **out, const struct args *a, const char *profile,
		 struct nsbox_error *err)
{
	struct nsbox_policy *policy;
	int r = pick_profile(a, &profile, err);

	if (r < 0)
		return r;
	r = nsbox_policy_new(&policy, profile, err);
	if (r < 0)
		return r;
	/* A command is its own process: it may be moved. Before the layers, which may
	 * say otherwise. */
	r = nsbox_policy_set(policy, "enforce.cgroup", "move", err);
	if (r == 0)
		r = apply_layers(policy, a, err);
	if (r < 0) {
		nsbox_policy_free(policy);
		return r;
	}
	*out = policy;
	return 0;
}
