/*
 * Owns: where the caller's home is, and what in it decides over later runs. Runs in the
 * launcher.
 * Must: compare by device and inode: a home is reached through links and bind mounts.
 * Mustn't: make anything, or ask the name service (a library call would load modules).
 */
#include "rootfs/home.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"
#include "rootfs/paths.h"

enum { PASSWD_MAX = 4 << 20 };

/* A part of the home that a variable moves elsewhere (XDG Base Directory Specification). */
static const struct {
	const char *part, *variable;
} moved[] = {
	{ ".cache", "XDG_CACHE_HOME" },
	{ ".config", "XDG_CONFIG_HOME" },
};

/* ------------------------------------------------------------- homes -- */

/* Field @n of a line of passwd(5), its end cut off; NULL: too short. */
static char *field(char *line, unsigned n)
{
	for (; n; n--) {
		line = strchr(line, ':');
		if (!line)
			return NULL;
		line++;
	}
	line[strcspn(line, ":")] = '\0';
	return line;
}

/* The sixth field first: cutting one off ends the line for those behind it. */
static const char *home_of(char *line, uid_t uid)
{
	const char *home = field(line, 5), *id = home ? field(line, 2) : NULL;
	uint64_t n;

	return id && num_uint(id, 0, UINT32_MAX, &n) == 0 && n == uid ? home : NULL;
}

/*
 * "sudo -E" leaves HOME with somebody else's, so the account's own counts as well. An
 * account that the file does not have (a directory service) has its HOME only.
 */
static int add_account_home(struct strlist *homes)
{
	struct buf text = BUF_INIT(PASSWD_MAX);
	int rc = 0;

	if (fd_read_file(AT_FDCWD, "/etc/passwd", &text) == 0)
		for (char *line = text.data, *next; line && *line; line = next) {
			const char *home;

			next = line + strcspn(line, "\n");
			if (*next)
				*next++ = '\0';
			home = home_of(line, geteuid());
			if (home && home[0] == '/' && !strlist_has(homes, home)) {
				rc = strlist_add(homes, home);
				break;
			}
		}
	buf_free(&text);
	return rc;
}

static int find_homes(struct strlist *homes)
{
	const char *home = getenv("HOME");

	if (home && home[0] == '/' && strlist_add(homes, home) < 0)
		return -1;
	return add_account_home(homes);
}

/* ------------------------------------------------------------- paths -- */

static int add_once(struct strlist *out, const char *path)
{
	return strlist_has(out, path) ? 0 : strlist_add(out, path);
}

/* With the links of the longest part that exists resolved. */
static int add_resolved(struct strlist *out, const char *path)
{
	owned_mem char *head = strdup(path);
	char real[PATH_MAX];
	char *cut = head ? head + strlen(head) : NULL;
	owned_mem char *whole = NULL;

	while (cut && cut > head && !realpath(head, real)) {
		while (cut > head && *--cut != '/')
			;
		*cut = '\0';
	}
	if (!cut)
		return -1;
	if (cut == head)
		return 0;
	whole = path_join(real, path[cut - head] ? path + (cut - head) + 1 : "");
	return whole ? add_once(out, whole) : -1;
}

static int add_path(struct strlist *out, const char *dir, const char *rest)
{
	owned_mem char *joined = path_join(dir, rest);
	owned_mem char *path = joined ? path_clean(NULL, joined) : NULL;

	if (!path)
		return joined && errno == EINVAL ? add_resolved(out, joined) : -1;
	return add_once(out, path) < 0 ? -1 : add_resolved(out, path);
}

static int add_name(struct strlist *out, const struct strlist *homes, const char *name)
{
	int rc = 0;

	for (size_t i = 0; i < homes->n && rc == 0; i++)
		rc = add_path(out, homes->v[i], name);
	for (size_t i = 0; i < ARRAY_SIZE(moved) && rc == 0; i++) {
		const char *dir = getenv(moved[i].variable);
		const char *rest = path_below(name, moved[i].part);

		if (rest && dir && dir[0] == '/')
			rc = add_path(out, dir, rest);
	}
	return rc;
}

int home_paths(struct strlist *out, const struct strlist *names, struct nsbox_error *err)
{
	struct strlist homes = { 0 };
	int rc = names->n ? find_homes(&homes) : 0;

	for (size_t i = 0; i < names->n && rc == 0; i++)
		rc = add_name(out, &homes, names->v[i]);
	strlist_free(&homes);
	return rc < 0 ? err_nomem(err) : 0;
}

/* ----------------------------------------------------------- compare -- */

const char *path_through(const char *path, const struct stat *top)
{
	char part[PATH_MAX];
	size_t n = 0, len = strlen(path);
	struct stat st;

	if (len >= sizeof(part))
		return NULL;
	while (n < len) {
		n += strspn(path + n, "/");
		n += strcspn(path + n, "/");
		memcpy(part, path, n);
		part[n] = '\0';
		if (stat(part, &st) < 0)
			return NULL;
		if (st.st_dev == top->st_dev && st.st_ino == top->st_ino)
			return path + n + strspn(path + n, "/");
	}
	return NULL;
}

static int refuse(const struct source *host, const char *path, struct nsbox_error *err)
{
	err_hint(err, "give a folder of its own; fs.protect_home lists what later runs on the host trust");
	return err_set(err, NSBOX_E_POLICY, "fs.write %s is protected: %s is in fs.protect_home",
		       host->path, path);
}

int home_protect(struct strlist *names, const struct source *host, const struct strlist *paths,
		 struct nsbox_error *err)
{
	for (size_t i = 0; i < paths->n; i++) {
		const char *path = paths->v[i], *rest = path_through(path, &host->st);
		struct stat st;

		if (rest && rest[0]) {
			if (add_once(names, rest) < 0)
				return err_nomem(err);
		} else if (rest || (stat(path, &st) == 0 && path_through(host->real, &st))) {
			return refuse(host, path, err);
		}
	}
	return 0;
}
