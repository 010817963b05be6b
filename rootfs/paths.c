/*
 * Owns: paths as text. Pure.
 * Must: treat every byte but '/' and NUL as a part of a name. Mustn't: look at the
 * file system; what a name leads to is decided by descriptors (source.c).
 */
#include "rootfs/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static size_t part_length(const char *p)
{
	return strcspn(p, "/");
}

static bool is_dots(const char *part, size_t len, size_t dots)
{
	return len == dots && strncmp(part, "..", dots) == 0;
}

/* Append the parts of @path at @at; NULL when one of them is "..". */
static char *add_parts(char *at, const char *path)
{
	while (*path) {
		size_t n = part_length(path);

		if (is_dots(path, n, 2))
			return NULL;
		if (n && !is_dots(path, n, 1)) {
			*at++ = '/';
			memcpy(at, path, n);
			at += n;
		}
		path += n;
		path += *path == '/';
	}
	return at;
}

char *path_clean(const char *base, const char *path)
{
	bool relative = path[0] != '/';
	owned_mem char *out = NULL;
	char *at;

	if (!path[0] || (relative && (!base || base[0] != '/'))) {
		errno = EINVAL;
		return NULL;
	}
	out = calloc(1, (relative ? strlen(base) : 0) + strlen(path) + 3);
	if (!out)
		return NULL;
	at = relative ? add_parts(out, base) : out;
	at = at ? add_parts(at, path) : NULL;
	if (!at) {
		errno = EINVAL;
		return NULL;
	}
	if (at == out)
		*at++ = '/';
	return take_ptr(out);
}

const char *path_below(const char *path, const char *root)
{
	size_t n = strlen(root);

	while (n && root[n - 1] == '/')
		n--;
	if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	while (path[n] == '/')
		n++;
	return path + n;
}

char *path_join(const char *dir, const char *rest)
{
	size_t n = strlen(dir);
	char *out = malloc(n + strlen(rest) + 2);

	if (!out)
		return NULL;
	memcpy(out, dir, n + 1);
	if (!rest[0])
		return out;
	if (n && out[n - 1] != '/')
		out[n++] = '/';
	memcpy(out + n, rest, strlen(rest) + 1);
	return out;
}

char *path_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return strdup("/");
	return strndup(path, (size_t)(slash - path));
}

bool path_is_system(const char *path)
{
	static const char *const roots[] = { "/usr",   "/bin",	 "/sbin",  "/lib",
					     "/lib32", "/lib64", "/libx32" };

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		if (path_below(path, roots[i]))
			return true;
	return false;
}

unsigned path_depth(const char *path)
{
	unsigned depth = 0;

	while (*path) {
		size_t n = part_length(path);

		depth += n > 0;
		path += n;
		path += *path == '/';
	}
	return depth;
}
