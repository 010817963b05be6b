/*
 * packages_size.c - how much an install has written so far
 *
 * Runs in the launcher while the install box writes into the same folder. Must: stay in that
 * folder, whatever is renamed or linked meanwhile; see what the box has made unreadable.
 * Mustn't: go on once it is too much.
 */
#include "runtime/packages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

enum {
	LEVELS_MAX = 128,	/* of folders; a build has a dozen */
	ENTRY_BYTES = 512,	/* what a name and an inode cost at least */
};

struct walk {
	uint64_t bytes, max;
	bool is_deep;
};

static bool is_done(const struct walk *w)
{
	return w->is_deep || w->bytes > w->max;
}

/* A folder whose owner took the right to read away from himself. By a descriptor that needs
 * no right, since the name may lead somewhere else a moment later. */
static int open_closed(int dirfd, const char *name)
{
	owned_fd int path = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char proc[40];

	if (path < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path);
	if (chmod(proc, 0700) < 0)
		return -1;
	return open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void walk_below(struct walk *w, int fd, int level);

static void walk_entry(struct walk *w, int dirfd, const char *name, int level)
{
	owned_fd int fd = -1;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* gone meanwhile */
	w->bytes += ENTRY_BYTES + (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode) || is_done(w))
		return;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		fd = open_closed(dirfd, name);
	if (fd >= 0)
		walk_below(w, fd, level + 1);
}

static void walk_below(struct walk *w, int fd, int level)
{
	owned_fd int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (level > LEVELS_MAX)
		w->is_deep = true;
	if (!d)
		return;
	(void)take_fd(copy); /* the DIR has it now */
	while (!is_done(w) && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			walk_entry(w, fd, e->d_name, level);
}

enum packages_size packages_size(int fd, uint64_t max)
{
	struct walk w = { .max = max };

	walk_below(&w, fd, 0);
	return w.is_deep ? SIZE_DEEP : w.bytes > max ? SIZE_FULL : SIZE_FINE;
}
