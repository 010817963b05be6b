/*
 * plain_dir.h - a folder of plain files that stands in for /proc or a cgroup
 *
 * Include behind cmocka.h.
 */
#ifndef TESTS_UNIT_PLAIN_DIR_H
#define TESTS_UNIT_PLAIN_DIR_H

#include "base/cleanup.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plain_dir {
	char path[64];
	int fd;
};

static inline void plain_dir_new(struct plain_dir *f)
{
	strcpy(f->path, "/tmp/nsbox-test-plain-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
}

static inline int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static inline void plain_dir_free(struct plain_dir *f)
{
	close(f->fd);
	assert_int_equal(nftw(f->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void put(int dirfd, const char *file, const char *text)
{
	owned_fd int fd = openat(dirfd, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

#endif
