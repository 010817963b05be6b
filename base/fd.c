/*
 * Owns: whole reads and writes, sealed memory files, opens through openat2(2).
 * Runs in the launcher and the tools.
 * Must: leave no descriptor without CLOEXEC. Mustn't: fall back to openat(2) when
 * the kernel has no openat2(2): a path that may walk out is not a weaker success.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, struct buf *b)
{
	char chunk[8192];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			return 0;
		if ((size_t)n > b->max - b->len) {
			errno = EFBIG;
			return -1;
		}
		buf_add(b, chunk, (size_t)n);
		if (b->failed) {
			errno = ENOMEM;
			return -1;
		}
	}
}

int fd_read_file(int dirfd, const char *path, struct buf *b)
{
	owned_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : fd_read_all(fd, b);
}

int fd_open(int dirfd, const char *path, int flags, mode_t mode,
	    uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.resolve = resolve,
	};
	int tries = 100;
	long fd;

	/* openat2(2) refuses a mode without O_CREAT or O_TMPFILE with EINVAL. */
	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		how.mode = mode & 07777;
	/* EAGAIN: somebody renamed or mounted, anywhere on the host, while ".." was checked. */
	do {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || (errno == EAGAIN && tries-- > 0)));
	return (int)fd;
}

int fd_sealed(const char *name, const void *data, size_t len)
{
	/* MFD_EXEC: init is executed from such a file, and with
	 * vm.memfd_noexec=1 a memfd without the flag is not executable. */
	owned_fd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || fd_write_all(fd, data, len) < 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return take_fd(fd);
}

int fd_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}
