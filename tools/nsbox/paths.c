/* SPDX-License-Identifier: Apache-2.0 */
/* See paths.h. Runs in the command, before the box. */
#include "tools/nsbox/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/nsbox/say.h"

/* Take one "." or ".." off the front of *path; false when there is none. */
static bool strip_step(const char **path, char *base)
{
	const char *p = *path;
	size_t dots = strspn(p, ".");
	char *slash;

	if (dots == 0 || dots > 2 || (p[dots] && p[dots] != '/'))
		return false;
	if (dots == 2) {
		slash = strrchr(base, '/');
		if (slash)
			*slash = '\0';
	}
	p += dots;
	while (*p == '/')
		p++;
	*path = p;
	return true;
}

static int join(char **out, const char *base, const char *path, struct nsbox_error *err)
{
	size_t len;

	if (asprintf(out, "%s%s%s", base, *path && *path != '/' ? "/" : "", path) < 0)
		return cli_nomem(err);
	for (len = strlen(*out); len > 1 && (*out)[len - 1] == '/'; len--)
		(*out)[len - 1] = '\0';
	return 0;
}

int path_absolute(char **out, const char *path, struct nsbox_error *err)
{
	auto_free char *cwd = NULL;

	if (!*path)
		return cli_fail(err, NSBOX_E_USAGE, "a path is empty");
	if (*path == '/')
		return join(out, "", path, err);
	cwd = getcwd(NULL, 0);
	if (!cwd || *cwd != '/') /* "(unreachable)...": the kernel's word for lost */
		return cli_fail_errno(err, "find the working folder for '%s'", path);
	if (!cwd[1])
		*cwd = '\0';
	while (strip_step(&path, cwd))
		;
	return join(out, *cwd || *path ? cwd : "/", path, err);
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int path_program(char **out, const char *name, struct nsbox_error *err)
{
	const char *path = getenv("PATH");
	char full[PATH_MAX];

	if (strchr(name, '/'))
		return path_absolute(out, name, err);
	while (path && *path) {
		size_t len = strcspn(path, ":");

		/* An empty or relative entry means the working folder: never. */
		if (*path == '/' &&
		    snprintf(full, sizeof(full), "%.*s/%s", (int)len, path, name) <
			    (int)sizeof(full) &&
		    is_program(full)) {
			*out = strdup(full);
			return *out ? 0 : cli_nomem(err);
		}
		path += len + (path[len] == ':');
	}
	cli_hint(err, "give its path");
	return cli_fail(err, NSBOX_E_USAGE, "interpreter '%s' is not on PATH", name);
}

int fd_slurp(int fd, const char *name, size_t max, char **out, size_t *len,
	     struct nsbox_error *err)
{
	size_t have = 0, room = 0;
	auto_free char *text = NULL;

	for (;;) {
		ssize_t n;

		if (room - have < 2) {
			char *more = realloc(text, room = room ? room * 2 : 65536);

			if (!more)
				return cli_nomem(err);
			text = more;
		}
		n = read(fd, text + have, room - have - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cli_fail_errno(err, "read %s", name);
		if (n == 0)
			break;
		have += (size_t)n;
		if (have > max)
			return cli_fail(err, NSBOX_E_USAGE, "%s is larger than %zu bytes", name,
					max);
	}
	text[have] = '\0';
	*out = text;
	*len = have;
	text = NULL;
	return 0;
}

int file_read(const char *path, size_t max, char **out, size_t *len, struct nsbox_error *err)
{
	/* O_NONBLOCK: opening a FIFO that nobody writes to must not hang. */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return cli_fail_errno(err, "open %s", path);
	if (fstat(fd, &st) < 0)
		return cli_fail_errno(err, "look at %s", path);
	/* A pipe is fine when the shell made it: -p <(generate-policy). */
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return cli_fail(err, NSBOX_E_USAGE, "%s is not a file", path);
	if (S_ISFIFO(st.st_mode) && fcntl(fd, F_SETFL, 0) < 0)
		return cli_fail_errno(err, "wait for %s", path);
	return fd_slurp(fd, path, max, out, len, err);
}
