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
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sha256.h"

struct temp {
	char name[48];
	int fd;
};

static int make_temp(struct temp *t, int folder)
{
	for (int tries = 0; tries < 16; tries++) {
		uint64_t r;

		if (getrandom(&r, sizeof(r), 0) != sizeof(r))
			return -1;
		snprintf(t->name, sizeof(t->name), ".nsbox-%016llx", (unsigned long long)r);
		t->fd = openat(folder, t->name,
			       O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (t->fd >= 0 || errno != EEXIST)
			return t->fd < 0 ? -1 : 0;
	}
	return -1;
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

static int put_in_place(struct copy *c, struct temp *t, const char **why)
{
	if (renameat(c->folder, t->name, c->folder, c->name) == 0)
		return 0;
	if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
		return -1;
	*why = "destination is a folder";
	return 1;
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
	r = pump(c, t.fd, &sum);
	if (r == 1)
		*why = "limit";
	if (r == 0)
		r = give_to_owner(c, t.fd);
	/* Disk full is reported by close(2) alone on some network file systems. */
	saved = errno;
	if (close(t.fd) < 0 && r == 0)
		r = -1;
	else
		errno = saved;
	if (r == 0)
		r = put_in_place(c, &t, why);
	if (r != 0) {
		saved = errno;
		unlinkat(c->folder, t.name, 0);
		errno = saved;
		return r;
	}
	sha256_end(&sum, digest);
	sha256_hex(digest, c->sha256);
	return 0;
}
