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

/* As given and, where a link is in it, as it really is. */
static int add_folder(struct strlist *out, const char *dir)
{
	char real[PATH_MAX];

	if (!dir || dir[0] != '/')
		return 0;
	if (!strlist_has(out, dir) && strlist_add(out, dir) < 0)
		return -1;
	return !realpath(dir, real) || strlist_has(out, real) ? 0 : strlist_add(out, real);
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
			if (home) {
				rc = add_folder(homes, home);
				break;
			}
		}
	buf_free(&text);
	return rc;
}

struct folders {
	struct strlist home, moved[ARRAY_SIZE(moved)];
};

static void folders_free(struct folders *f)
{
	strlist_free(&f->home);
	for (size_t i = 0; i < ARRAY_SIZE(moved); i++)
		strlist_free(&f->moved[i]);
}

static int find_folders(struct folders *f)
{
	int rc = add_folder(&f->home, getenv("HOME"));

	if (rc == 0)
		rc = add_account_home(&f->home);
	for (size_t i = 0; i < ARRAY_SIZE(moved) && rc == 0; i++)
		rc = add_folder(&f->moved[i], getenv(moved[i].variable));
	return rc;
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

/* Is a part of @path from @at on a link? */
static bool has_link(char *path, size_t at)
{
	bool is_link = false;
	char target[1];

	while (path[at] && !is_link) {
		size_t end = at + 1 + strcspn(path + at + 1, "/");
		char saved = path[end];

		path[end] = '\0';
		is_link = readlink(path, target, sizeof(target)) >= 0;
		path[end] = saved;
		at = end;
	}
	return is_link;
}

static int add_below(struct strlist *out, const struct strlist *dirs, const char *rest)
{
	for (size_t i = 0; i < dirs->n; i++) {
		owned_mem char *path = path_join(dirs->v[i], rest);

		if (!path || add_once(out, path) < 0)
			return -1;
		if (has_link(path, strlen(dirs->v[i])) && add_resolved(out, path) < 0)
			return -1;
	}
	return 0;
}

static int add_name(struct strlist *out, const struct folders *f, const char *name)
{
	int rc = add_below(out, &f->home, name);

	for (size_t i = 0; i < ARRAY_SIZE(moved) && rc == 0; i++) {
		const char *rest = path_below(name, moved[i].part);

		if (rest)
			rc = add_below(out, &f->moved[i], rest);
	}
	return rc;
}

int home_paths(struct strlist *out, const struct strlist *names, struct nsbox_error *err)
{
	struct folders f = { 0 };
	int rc = names->n ? find_folders(&f) : 0;

	for (size_t i = 0; i < names->n && rc == 0; i++)
		rc = add_name(out, &f, names->v[i]);
	folders_free(&f);
	return rc < 0 ? err_nomem(err) : 0;
}

/* ----------------------------------------------------------- compare -- */

/* The same, but the first @known bytes of @path are known not to lead to @top. */
static const char *through(const char *path, size_t known, const struct stat *top)
{
	char part[PATH_MAX];
	size_t n = known, len = strlen(path);
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

const char *path_through(const char *path, const struct stat *top)
{
	return through(path, 0, top);
}

/* How much of @path is the folder that @before is in as well. */
static size_t shared_folder(const char *path, const char *before)
{
	size_t n = 0, slash = 0;

	for (; before[n] && path[n] == before[n]; n++)
		if (path[n] == '/')
			slash = n;
	return slash;
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
	const char *before = "";

	for (size_t i = 0; i < paths->n; i++) {
		const char *path = paths->v[i];
		const char *rest = through(path, shared_folder(path, before), &host->st);
		struct stat st;

		if (rest && rest[0]) {
			if (add_once(names, rest) < 0)
				return err_nomem(err);
			continue;
		}
		if (rest || (stat(path, &st) == 0 && path_through(host->real, &st)))
			return refuse(host, path, err);
		before = path;
	}
	return 0;
}
