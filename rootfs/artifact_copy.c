/*
 * Owns: copying one file out of a box. Runs in the launcher.
 * Must: stop at the limit whatever the size was said to be; replace, never follow,
 * what has the destination's name. Mustn't: leave a half-written file.
 */
#include "rootfs/artifact_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sha256.h"

#define TEMP_PREFIX ".nsbox-"

struct temp {
	char name[48];	/* empty: it has none yet */
	int fd;
};

bool artifact_is_temp(const char *name)
{
	size_t n = strlen(TEMP_PREFIX);

	return strncmp(name, TEMP_PREFIX, n) == 0 && strlen(name) == n + 16 &&
	       strspn(name + n, "0123456789abcdef") == 16;
}

static int new_name(struct temp *t)
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return -1;
	snprintf(t->name, sizeof(t->name), TEMP_PREFIX "%016llx", (unsigned long long)r);
	return 0;
}

/* With a name from the start; the lock tells a sweep that somebody is writing it. */
static int make_named(struct temp *t, int folder)
{
	for (int tries = 0; tries < 16; tries++) {
		if (new_name(t) < 0)
			return -1;
		t->fd = openat(folder, t->name,
			       O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (t->fd >= 0)
			return flock(t->fd, LOCK_EX | LOCK_NB); /* -1: a sweep has it */
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* A file without a name is gone when the launcher is killed. Not every file system has
 * them, and a name is given through /proc. */
static int make_temp(struct temp *t, int folder)
{
	t->name[0] = '\0';
	t->fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	return t->fd >= 0 ? 0 : make_named(t, folder);
}

static int name_it(const struct temp *t, int folder, const char *name)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
	return linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW);
}

static void keep_head(struct copy *c, const char *data, size_t n)
{
	size_t room = CONTENT_HEAD - c->head_len;

	if (n > room)
		n = room;
	memcpy(c->head + c->head_len, data, n);
	c->head_len += n;
}

/* 1: longer than the limit. */
static int pump(struct copy *c, int to, struct sha256 *sum)
{
	char chunk[65536];

	for (;;) {
		ssize_t n = read(c->source, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -1 : 0;
		if ((uint64_t)n > c->limit - c->size)
			return 1;
		keep_head(c, chunk, (size_t)n);
		sha256_add(sum, chunk, (size_t)n);
		if (fd_write_all(to, chunk, (size_t)n) < 0)
			return -1;
		c->size += (uint64_t)n;
	}
}

/* Only a launcher of another uid needs to; that one may. */
static int give_to_owner(const struct copy *c, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_uid == c->uid && st.st_gid == c->gid)
		return 0;
	if (fchown(fd, c->uid, c->gid) == 0 || geteuid() == c->uid)
		return 0;
	return -1;
}

/* 0: it has its own name. 1: it must replace something, and has a name for that. */
static int give_name(const struct copy *c, struct temp *t)
{
	if (t->name[0])
		return 1;
	if (name_it(t, c->folder, c->name) == 0)
		return 0;
	for (int tries = 0; errno == EEXIST && tries < 16; tries++) {
		if (new_name(t) < 0)
			break;
		if (name_it(t, c->folder, t->name) == 0)
			return 1;
	}
	t->name[0] = '\0';
	return -1;
}

static int put_in_place(struct copy *c, struct temp *t, const char **why)
{
	int r = give_name(c, t);

	if (r <= 0 || renameat(c->folder, t->name, c->folder, c->name) == 0)
		return r < 0 ? -1 : 0;
	if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
		return -1;
	*why = "destination is a folder";
	return 1;
}

/* Disk full is reported by close(2) alone on some network file systems: by that of any
 * descriptor, while this one still holds lock and file. */
static int flush(int fd)
{
	int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return other < 0 ? -1 : close(other);
}

static int copy_to(struct copy *c, struct temp *t, struct sha256 *sum, const char **why)
{
	int r = pump(c, t->fd, sum);

	if (r == 1)
		*why = "limit";
	if (r == 0)
		r = give_to_owner(c, t->fd);
	if (r == 0)
		r = flush(t->fd);
	return r == 0 ? put_in_place(c, t, why) : r;
}

int artifact_copy(struct copy *c, const char **why)
{
	unsigned char digest[32];
	struct temp t = { .fd = -1 };
	struct sha256 sum;
	int r, saved;

	if (make_temp(&t, c->folder) < 0)
		return -1;
	sha256_init(&sum);
	r = copy_to(c, &t, &sum, why);
	saved = errno;
	if (r != 0 && t.name[0])
		unlinkat(c->folder, t.name, 0);
	close(t.fd);
	errno = saved;
	if (r != 0)
		return r;
	sha256_end(&sum, digest);
	sha256_hex(digest, c->sha256);
	return 0;
}
