/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See envfile.h. Runs in the command, before the box. Mustn't print a value: they
 * are secrets; messages name the file and the line.
 */
#include "tools/nsbox/envfile.h"

#include <string.h>

#include "tools/nsbox/paths.h"
#include "tools/nsbox/say.h"

#define ENV_FILE_MAX (1u << 20)
#define NAME_START "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
#define NAME_CHARS NAME_START "0123456789"

static bool same_name(const char *a, const char *b)
{
	size_t len = strcspn(a, "=");

	return len == strcspn(b, "=") && strncmp(a, b, len) == 0;
}

/* Takes @pair over. */
static int put(struct envfile *e, char *pair, struct nsbox_error *err)
{
	char **v;

	for (size_t i = 0; i < e->n; i++) {
		if (same_name(e->v[i], pair)) {
			free(e->v[i]);
			e->v[i] = pair;
			return 0;
		}
	}
	v = realloc(e->v, (e->n + 2) * sizeof(*v));
	if (!v) {
		free(pair);
		return cli_nomem(err);
	}
	e->v = v;
	e->v[e->n++] = pair;
	e->v[e->n] = NULL;
	return 0;
}

static bool given_by_flag(const struct args *a, const char *line)
{
	for (size_t i = 0; i < a->env.n; i++) {
		if (same_name(a->env.v[i], line))
			return true;
	}
	return false;
}

static int take_line(struct envfile *e, const struct args *a, const char *line,
		     struct nsbox_error *err)
{
	const char *value;
	char *pair;

	if (given_by_flag(a, line))
		return 0;
	if (strchr(line, '=')) {
		pair = strdup(line);
		return pair ? put(e, pair, err) : cli_nomem(err);
	}
	value = getenv(line);
	if (!value)
		return 0;
	if (asprintf(&pair, "%s=%s", line, value) < 0)
		return cli_nomem(err);
	return put(e, pair, err);
}

static bool has_name(const char *line)
{
	size_t len = strspn(line, NAME_CHARS);

	return len > 0 && strchr(NAME_START, line[0]) && (line[len] == '=' || !line[len]);
}

static int read_one(struct envfile *e, const struct args *a, const char *path,
		    struct nsbox_error *err)
{
	auto_free char *text = NULL;
	size_t len, number = 0;
	char *next;
	int r = file_read(path, ENV_FILE_MAX, &text, &len, err);

	if (r == 0 && strlen(text) != len)
		r = cli_fail(err, NSBOX_E_USAGE, "%s has a NUL byte in it", path);
	for (char *line = text; r == 0 && line; line = next) {
		size_t n = strcspn(line, "\n");

		number++;
		next = line[n] ? line + n + 1 : NULL;
		if (n && line[n - 1] == '\r')
			line[n - 1] = '\0';
		line[n] = '\0';
		if (!*line || *line == '#')
			continue;
		if (has_name(line)) {
			r = take_line(e, a, line, err);
		} else {
			cli_hint(err, "write NAME=VALUE, NAME or # and a comment");
			r = cli_fail(err, NSBOX_E_USAGE, "%s:%zu: this is no variable", path,
				     number);
		}
	}
	return r;
}

int envfile_read(struct envfile *out, const struct args *a, struct nsbox_error *err)
{
	struct envfile e = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->env_files.n; i++)
		r = read_one(&e, a, a->env_files.v[i], err);
	if (r < 0) {
		envfile_free(&e);
		return r;
	}
	*out = e;
	return 0;
}

void envfile_free(struct envfile *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i]);
	free(e->v);
	*e = (struct envfile){ 0 };
}
