/*
 * cgroup.c - one fresh cgroup v2 leaf per run: make, limit, kill, remove
 *
 * Owns the leaves below a place. Runs in the launcher.
 *
 * Must:    read back every limit it writes; hold the leaf's lock as long as the run
 *          lives; remove the leaf when it ends.
 * Mustn't: kill by pid, or remove a leaf that somebody holds or lives in: a pid in a
 *          name may belong to another process by now.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"
#include "base/lines.h"
#include "base/num.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum {
	NAME_TRIES = 16,
	SWEEP_LOCKS = 8,      /* leaves that one cgroup_make() tries to lock */
	SWEEP_ENTRIES = 4096, /* and names that it reads */
	EMPTY_MS = 2000,      /* cgroup.kill needs 200 ms on a slow machine */
	RMDIR_TRIES = 10,
};

#define LEAF_PREFIX "nsbox-"

static uint64_t now_ns(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void leaf_name(char name[64], uint64_t n)
{
	char *to = name + sizeof(LEAF_PREFIX) - 1;

	memcpy(name, LEAF_PREFIX, sizeof(LEAF_PREFIX) - 1);
	to = decimal_put(to, (uint64_t)getpid());
	*to++ = '-';
	*decimal_put(to, n) = '\0';
}

/* Is the name still the folder that the descriptor has open? */
static bool is_still_there(int place_fd, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(place_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/*
 * Between mkdir and flock the leaf looks like one that a dead launcher left, and a
 * sweep may take it: so lock, then look whether it is still there.
 */
int cgroup_leaf(struct cgroup *c, int place_fd)
{
	uint64_t n = now_ns();

	for (int i = 0; i < NAME_TRIES; i++) {
		owned_fd int fd = -1;
		char name[64];

		leaf_name(name, n + (uint64_t)i);
		/* 0700: a lock needs no more than an open, so nobody else gets one */
		if (mkdirat(place_fd, name, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return -1;
		}
		fd = openat(place_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT) {
			int saved = errno; /* EMFILE, say: no use trying again */

			(void)unlinkat(place_fd, name, AT_REMOVEDIR);
			errno = saved;
			return -1;
		}
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ||
		    !is_still_there(place_fd, name, fd))
			continue; /* a sweep has it, and removes it */
		memcpy(c->name, name, sizeof(name));
		c->place_fd = place_fd;
		c->fd = take_fd(fd);
		return 0;
	}
	errno = EBUSY;
	return -1;
}

ssize_t cgroup_text(int dirfd, const char *file, char text[CGROUP_TEXT])
{
	owned_fd int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	do
		n = read(fd, text, CGROUP_TEXT - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	if (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return n;
}

static int write_text(int dirfd, const char *file, const char *value)
{
	owned_fd int fd = openat(dirfd, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = strlen(value);
	ssize_t n;

	if (fd < 0)
		return -1;
	do
		n = write(fd, value, len);
	while (n < 0 && errno == EINTR);
	if (n >= 0 && (size_t)n != len)
		errno = EIO;
	return n == (ssize_t)len ? 0 : -1;
}

int cgroup_set(int leaf_fd, const struct cgroup_value *row, struct nsbox_error *err)
{
	char kept[CGROUP_TEXT];

	if (write_text(leaf_fd, row->file, row->value) < 0) {
		err_hint(err, "nsbox doctor says which cgroup controllers this host gives");
		return err_errno(err, NSBOX_E_UNSUPPORTED, errno, "%s: write %s to cgroup file %s",
				 row->key, row->value, row->file);
	}
	if (cgroup_text(leaf_fd, row->file, kept) < 0)
		return err_sys(err, "%s: read back cgroup file %s", row->key, row->file);
	if (strcmp(kept, row->value) != 0) {
		err_hint(err, "give a value that the kernel keeps as it is, a multiple of the page size say");
		return err_set(err, NSBOX_E_UNSUPPORTED, "%s: cgroup file %s was given %s and has %.40s",
			       row->key, row->file, row->value, kept);
	}
	return 0;
}

/*
 * The file is missing where the kernel has no swap or was told not to account for it.
 * "No swap" is true all the same when the host has none at all.
 */
static bool is_moot(int leaf_fd, const struct cgroup_value *row)
{
	char text[CGROUP_TEXT];
	const char *header_end;

	if (strcmp(row->file, "memory.swap.max") != 0 || strcmp(row->value, "0") != 0 ||
	    faccessat(leaf_fd, row->file, F_OK, 0) == 0 || errno != ENOENT)
		return false;
	if (cgroup_text(AT_FDCWD, "/proc/swaps", text) < 0)
		return errno == ENOENT; /* CONFIG_SWAP is off */
	header_end = strchr(text, '\n');
	return !header_end || !header_end[1];
}

/* --- what killed launchers left --------------------------------------------- */

/* The pid in "nsbox-<pid>-<n>", or 0 for any other name. */
static pid_t leaf_pid(const char *name)
{
	char digits[24];
	const char *end;
	uint64_t pid, n;
	size_t len;

	if (strncmp(name, LEAF_PREFIX, sizeof(LEAF_PREFIX) - 1) != 0)
		return 0;
	name += sizeof(LEAF_PREFIX) - 1;
	end = strchr(name, '-');
	len = end ? (size_t)(end - name) : 0;
	if (!len || len >= sizeof(digits))
		return 0;
	memcpy(digits, name, len);
	digits[len] = '\0';
	if (num_uint(digits, 1, 1u << 30, &pid) < 0 || num_uint(end + 1, 0, UINT64_MAX, &n) < 0)
		return 0;
	return (pid_t)pid;
}

static bool is_populated(int leaf_fd)
{
	char text[CGROUP_TEXT];

	/* A leaf that cannot be read is left alone. */
	return cgroup_text(leaf_fd, "cgroup.events", text) < 0 || !strstr(text, "populated 0");
}

bool cgroup_is_leaf(const char *name)
{
	return leaf_pid(name) != 0;
}

enum cgroup_abandoned cgroup_remove_abandoned(int place_fd, const char *name)
{
	owned_fd int fd =
		openat(place_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_still_there(place_fd, name, fd))
		return CGROUP_IN_USE;
	if (is_populated(fd))
		return CGROUP_POPULATED;
	/* It may fail: somebody else swept it. The next run tries again. */
	return unlinkat(place_fd, name, AT_REMOVEDIR) == 0 ? CGROUP_REMOVED : CGROUP_IN_USE;
}

/*
 * A living pid spares the attempt (it is cheap, and the leaf most likely locked); a
 * dead one proves nothing, for it may live in another pid namespace: the lock does.
 */
static void sweep(int place_fd)
{
	int fd = openat(place_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	owned_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int locks = 0;
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (int i = 0; i < SWEEP_ENTRIES && locks < SWEEP_LOCKS && (e = readdir(d)); i++) {
		pid_t pid = leaf_pid(e->d_name);

		if (!pid || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		(void)cgroup_remove_abandoned(place_fd, e->d_name);
		locks++;
	}
}

/* --- the life of a leaf ------------------------------------------------------ */

int cgroup_make(struct cgroup *c, const struct cgroup_place *place,
		const struct cgroup_value *rows, size_t count, struct nsbox_error *err)
{
	struct cgroup made = { .fd = -1 };

	if (place->fd < 0)
		return err_set(err, NSBOX_E_UNSUPPORTED, "make a cgroup: there is none to write to (%s)",
			       place->why);
	sweep(place->fd);
	if (cgroup_leaf(&made, place->fd) < 0)
		return err_sys(err, "make a cgroup in %s", place->path);
	if (place->scope.pid && place->scope.is_apart)
		made.scope = &place->scope;
	for (size_t i = 0; i < count; i++) {
		int r = is_moot(made.fd, &rows[i]) ? 0 : cgroup_set(made.fd, &rows[i], err);

		if (r < 0) {
			cgroup_destroy(&made);
			return r;
		}
	}
	*c = made;
	return 0;
}

/* What systemd says is not believed: a box outside of its leaf has no limits. */
static int join_by_systemd(const struct cgroup *c, int pid, struct nsbox_error *err)
{
	owned_fd int fd = openat(c->fd, "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct lines l = { .fd = fd };
	int r = scope_attach(c->scope, c->name, pid, err);
	uint64_t there;
	char *line;

	if (r < 0)
		return r;
	while (fd >= 0 && (line = lines_next(&l)))
		if (num_uint(line, 1, UINT32_MAX, &there) == 0 && there == (uint64_t)pid)
			return 0;
	return err_set(err, NSBOX_E_SYSTEM, "systemd did not move process %d into cgroup %s", pid,
		       c->name);
}

int cgroup_join(const struct cgroup *c, int pid, struct nsbox_error *err)
{
	char text[24];

	if (pid <= 0)
		return err_set(err, NSBOX_E_USAGE, "join cgroup %s: %d is no pid", c->name, pid);
	if (c->scope)
		return join_by_systemd(c, pid, err);
	*decimal_put(text, (uint64_t)pid) = '\0';
	if (write_text(c->fd, "cgroup.procs", text) < 0)
		return err_sys(err, "move process %d into cgroup %s", pid, c->name);
	return 0;
}

int cgroup_kill(const struct cgroup *c)
{
	if (c->fd < 0) {
		errno = EBADF;
		return -1;
	}
	return write_text(c->fd, "cgroup.kill", "1");
}

/* kernfs wakes a poll for POLLPRI when the file changes after it was read. */
static bool wait_until_empty(int leaf_fd)
{
	owned_fd int fd = openat(leaf_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	uint64_t end = now_ns() + (uint64_t)EMPTY_MS * 1000000u;

	if (fd < 0)
		return true; /* no cgroup file: nothing lives here; rmdir decides */
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		char text[256];
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		uint64_t now = now_ns();

		if (n < 0)
			return errno == ENODEV; /* removed already */
		text[n] = '\0';
		if (strstr(text, "populated 0"))
			return true;
		if (now >= end)
			return false;
		poll(&p, 1, (int)((end - now) / 1000000u) + 1);
	}
}

/*
 * What cannot be removed now loses its lock here, so that a later sweep can. Without
 * cgroup.kill (before Linux 5.14) the death of the box's PID 1 has emptied the leaf.
 */
void cgroup_destroy(struct cgroup *c)
{
	if (c->fd < 0)
		return;
	(void)cgroup_kill(c);
	(void)wait_until_empty(c->fd);
	for (int i = 0; i < RMDIR_TRIES; i++) {
		struct timespec pause = { .tv_nsec = 1000000L << (i < 6 ? i : 6) };

		if (unlinkat(c->place_fd, c->name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	close(c->fd);
	c->fd = -1;
}

void cgroup_leave(struct cgroup *c)
{
	if (c->fd < 0)
		return;
	(void)cgroup_kill(c);
	(void)unlinkat(c->place_fd, c->name, AT_REMOVEDIR);
	close(c->fd);
	c->fd = -1;
}
