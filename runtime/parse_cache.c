/*
 * Owns the files below ~/.cache/nsbox/policy. Runs in the launcher, with the
 * caller's own rights.
 *
 * Must treat what it reads as a stranger's until owner, mode, key and hash fit.
 * Mustn't follow a link, wait on a FIFO, or work for a setuid program, whose
 * environment (HOME) is somebody else's.
 */
#include "runtime/parse_cache.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sha256.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>

enum { ENTRY_MAX = 8 * 1024 * 1024, STALE_SECONDS = 60 };

struct entry_head {
	char magic[8];
	unsigned char key[32], digest[32];
};

static const char magic[8] = "nsboxc1";

static bool is_private(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type &&
	       st.st_uid == geteuid() && !(st.st_mode & 022) &&
	       (type == S_IFDIR || st.st_nlink == 1);
}

/* Step into a folder of the caller's own, made when missing. */
static int step(int dirfd, const char *name)
{
	owned_fd int fd = -1;

	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = openat(dirfd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !is_private(fd, S_IFDIR))
		return -1;
	return take_fd(fd);
}

/* XDG Base Directory Specification: a relative $XDG_CACHE_HOME is ignored. */
static int open_base(const char *base)
{
	const char *home = getenv("HOME");
	owned_fd int fd = -1;

	if (!base)
		base = getenv("XDG_CACHE_HOME");
	if (base && base[0] == '/')
		return open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!home || home[0] != '/')
		return -1;
	fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -1 : step(fd, ".cache");
}

int parse_cache_open(const char *base)
{
	owned_fd int top = -1, own = -1;

	if (getauxval(AT_SECURE))
		return -1;
	top = open_base(base);
	own = top < 0 ? -1 : step(top, "nsbox");
	return own < 0 ? -1 : step(own, "policy");
}

static void slot_name(const unsigned char key[32], const char *suffix,
		      char name[16])
{
	snprintf(name, 16, "%02x%s", key[0], suffix);
}

bool parse_cache_get(int dirfd, const unsigned char key[32], struct buf *out)
{
	owned(buf_free) struct buf raw = BUF_INIT(ENTRY_MAX);
	owned_fd int fd = -1;
	struct entry_head head;
	unsigned char digest[32];
	struct sha256 sha;
	char name[16];
	bool good;

	slot_name(key, "", name);
	fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || !is_private(fd, S_IFREG) || fd_read_all(fd, &raw) < 0 ||
	    raw.len < sizeof(head))
		return false;
	memcpy(&head, raw.data, sizeof(head));
	sha256_init(&sha);
	sha256_add(&sha, raw.data + sizeof(head), raw.len - sizeof(head));
	sha256_end(&sha, digest);
	good = memcmp(head.magic, magic, sizeof(magic)) == 0 &&
	       memcmp(head.key, key, sizeof(head.key)) == 0 &&
	       memcmp(head.digest, digest, sizeof(digest)) == 0;
	if (good)
		buf_add(out, raw.data + sizeof(head), raw.len - sizeof(head));
	return good && !out->failed;
}

/* One writer a slot: the others don't wait, they leave it. A file that a killed
 * writer left behind is in the way for a minute. */
static int create_new(int dirfd, const char *name)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dirfd, name, flags, 0600);
	struct stat st;

	if (fd >= 0 || errno != EEXIST)
		return fd;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    time(NULL) - st.st_mtime < STALE_SECONDS ||
	    unlinkat(dirfd, name, 0) < 0)
		return -1;
	return openat(dirfd, name, flags, 0600);
}

void parse_cache_put(int dirfd, const unsigned char key[32], const void *data,
		     size_t len)
{
	struct entry_head head;
	struct sha256 sha;
	char name[16], new[16];
	owned_fd int fd = -1;

	memcpy(head.magic, magic, sizeof(magic));
	memcpy(head.key, key, sizeof(head.key));
	sha256_init(&sha);
	sha256_add(&sha, data, len);
	sha256_end(&sha, head.digest);
	slot_name(key, "", name);
	slot_name(key, ".new", new);
	fd = create_new(dirfd, new);
	if (fd < 0)
		return;
	if (fd_write_all(fd, &head, sizeof(head)) < 0 ||
	    fd_write_all(fd, data, len) < 0 ||
	    renameat(dirfd, new, dirfd, name) < 0)
		unlinkat(dirfd, new, 0);
}
