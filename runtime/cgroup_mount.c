/*
 * cgroup_mount.c - what /proc says: where cgroup2 is mounted, and which cgroup is ours
 *
 * Runs in the launcher, and in a child of doctor: system calls only, no malloc.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"
#include "base/lines.h"

#include <fcntl.h>
#include <string.h>

static char *next_word(char **at)
{
	char *s = *at;
	size_t n = strcspn(s, " ");

	if (!n)
		return NULL;
	*at = s + n;
	if (**at)
		*(*at)++ = '\0';
	return s;
}

static bool is_octal(const char *s)
{
	for (int i = 1; i <= 3; i++)
		if (s[i] < '0' || s[i] > '7')
			return false;
	return s[0] == '\\';
}

/* mountinfo writes space, tab, newline and backslash as \ooo. -1: too long. */
static int unescape(char *to, size_t size, const char *s)
{
	size_t n = 0;

	while (*s) {
		if (n + 1 >= size)
			return -1;
		if (is_octal(s)) {
			to[n++] = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			to[n++] = *s++;
		}
	}
	to[n] = '\0';
	return 0;
}

/* id parent dev ROOT POINT OPTIONS [optional...] - TYPE source super: proc(5). */
int cgroup_parse_mount(char *line, struct cgroup_mount *out)
{
	char *words[6], *at = line, *word;
	struct cgroup_mount m;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		words[i] = next_word(&at);
		if (!words[i])
			return -1;
	}
	do
		word = next_word(&at);
	while (word && strcmp(word, "-") != 0);
	word = word ? next_word(&at) : NULL;
	if (!word || strcmp(word, "cgroup2") != 0)
		return -1;
	if (unescape(m.root, sizeof(m.root), words[3]) < 0 ||
	    unescape(m.point, sizeof(m.point), words[4]) < 0)
		return -1;
	m.is_writable = strncmp(words[5], "rw", 2) == 0;
	*out = m;
	return 0;
}

const char *cgroup_below_mount(const struct cgroup_mount *m, const char *own)
{
	size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);

	/* "/../x": the cgroup is outside of this process's cgroup namespace */
	if (own[0] != '/' || strncmp(own, "/..", 3) == 0 || strncmp(own, m->root, n) != 0 ||
	    (own[n] != '/' && own[n] != '\0'))
		return NULL;
	own += n;
	return own + (*own == '/');
}

bool cgroup_is_outside(const struct cgroup_mount *m)
{
	return strncmp(m->root, "/..", 3) == 0;
}

static int worth(const struct cgroup_mount *m)
{
	return 2 * !cgroup_is_outside(m) + m->is_writable;
}

int cgroup_find_mount(struct cgroup_mount *out)
{
	owned_fd int fd = openat(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct lines l = { .fd = fd };
	struct cgroup_mount m;
	bool found = false;
	char *line;

	if (fd < 0)
		return -1;
	while ((line = lines_next(&l))) {
		if (cgroup_parse_mount(line, &m) < 0)
			continue;
		if (!found || worth(&m) > worth(out))
			*out = m;
		found = true;
	}
	errno = ENOENT;
	return found ? 0 : -1;
}

int cgroup_find_own(char *path, size_t size)
{
	owned_fd int fd = openat(AT_FDCWD, "/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	struct lines l = { .fd = fd };
	char *line;

	if (fd < 0)
		return -1;
	while ((line = lines_next(&l)))
		if (strncmp(line, "0::", 3) == 0) {
			size_t n = strlen(line + 3);

			if (n >= size) {
				errno = ENAMETOOLONG;
				return -1;
			}
			memcpy(path, line + 3, n + 1);
			return 0;
		}
	errno = ENOENT;
	return -1;
}
