/* Scope-bound ownership: a variable marked owned_* is released on every way out. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void free_owned(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

/* Keeps errno, so that "return err_sys(...)" after it reports the real cause. */
static inline void close_owned(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void closedir_owned(DIR **d)
{
	int saved = errno;

	if (*d)
		closedir(*d);
	errno = saved;
}

#define owned_mem __attribute__((cleanup(free_owned)))
#define owned_fd __attribute__((cleanup(close_owned)))
#define owned_dir __attribute__((cleanup(closedir_owned)))
#define owned(release) __attribute__((cleanup(release)))

/* Hand ownership on: the value moves out, the variable is left empty. */
#define take_ptr(p) ({ __typeof__(p) taken_ = (p); (p) = NULL; taken_; })
#define take_fd(fd) ({ int taken_ = (fd); (fd) = -1; taken_; })

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
