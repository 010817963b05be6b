/* Descriptors: whole reads and writes, opens that stay beneath a folder. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

/*
 * Where a path is opened on the hot path it is openat(AT_FDCWD, ...): musl's open()
 * sets FD_CLOEXEC once more with a system call of its own.
 */

/* Write all of it, or -1 with errno. Retries EINTR. */
int fd_write_all(int fd, const void *data, size_t len);

/* Append until EOF; -1 with errno on a read error, EFBIG past the buf's max. */
int fd_read_all(int fd, struct buf *b);

/* Read a whole file: path relative to dirfd (AT_FDCWD). -1 with errno. */
int fd_read_file(int dirfd, const char *path, struct buf *b);

/* openat2(2) with the given RESOLVE_* flags; O_CLOEXEC is added. */
int fd_open(int dirfd, const char *path, int flags, mode_t mode,
	    uint64_t resolve);

/* A memfd with this content, sealed against every change. -1 with errno. */
int fd_sealed(const char *name, const void *data, size_t len);

int fd_nonblocking(int fd);

#endif
