/*
 * modes.c - see modes.h. Runs in init, which may change all that the caller may: so nothing
 * but the run's folder is ever opened here, and beneath it alone.
 *
 * A name is read once out of the payload. Where it begins is what the kernel says of the
 * thread's folder or descriptor; what follows the run's folder in that text is opened
 * beneath it, by the kernel's own rule (RESOLVE_BENEATH), whatever links are there by then. A
 * name that leads there by another way is refused: EPERM, as for all other files.
 *
 * Must:    read each byte of the payload once; do it to the descriptor that was opened.
 * Mustn't: open a name of the payload's anywhere else: it may never come back.
 */
#include "runtime/init/modes.h"

#include "runtime/kernel.h"
#include "runtime/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/stat.h>

#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif

enum {
	PIDFD_OF_THREAD = O_EXCL, /* PIDFD_THREAD, Linux 6.9 */
	PATH_ROOM = 4096,
	PAGE = 4096,
	SETID_BITS = S_ISUID | S_ISGID,
};

/* What the box writes in the run's folder. */
static const char *const parts[] = { "work", "tmp" };
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };
static int part_fds[PARTS] = { -1, -1 };
static char place[PATH_ROOM];
static size_t place_len; /* without the NUL */
static char name[PATH_ROOM], full[2 * PATH_ROOM];

/* Which argument is what; -1: it has none. */
static const struct mode_call {
	int nr;
	int8_t dir, fd, path, mode, times, flags;
} calls[] = {
#ifdef __NR_chmod
	{ __NR_chmod, -1, -1, 0, 1, -1, -1 },
#endif
	{ __NR_fchmod, -1, 0, -1, 1, -1, -1 },
	{ __NR_fchmodat, 0, -1, 1, 2, -1, -1 },
	{ __NR_fchmodat2, 0, -1, 1, 2, -1, 3 },
	{ __NR_utimensat, 0, -1, 1, -1, 2, 3 },
};

static const struct mode_call *find(int nr)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return 0;
}

int modes_know(int nr)
{
	return find(nr) != 0;
}

static size_t put_number(char *to, uint32_t n)
{
	char digits[12];
	size_t k = 0, at = 0;

	do {
		digits[k++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (k)
		to[at++] = digits[--k];
	return at;
}

static size_t put_text(char *to, const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		to[n] = text[n];
	return n;
}

long modes_begin(const char *path, size_t len)
{
	if (len < 2 || len > PATH_ROOM - sizeof("/work"))
		return -EINVAL;
	place_len = put_text(place, path);
	for (int i = 0; i < PARTS; i++) {
		size_t n = put_text(full, place);
		long fd;

		full[n++] = '/';
		full[n + put_text(full + n, parts[i])] = '\0';
		fd = sys(openat, AT_FDCWD, full, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
		if (fd < 0)
			return fd;
		part_fds[i] = (int)fd;
	}
	return 0;
}

/* ------------------------------------------------------------------------ names -- */

/* "/proc/TID/what", or with a number behind it. */
static void proc_path(char to[64], uint32_t tid, const char *what, int number)
{
	size_t n = put_text(to, "/proc/");

	n += put_number(to + n, tid);
	n += put_text(to + n, what);
	if (number >= 0)
		n += put_number(to + n, (uint32_t)number);
	to[n] = '\0';
}

/* A page at a time: the next one may not be there, and the name end before it. */
static int read_name(uint32_t tid, uint64_t from)
{
	char path[64];
	long mem, n = 0;

	proc_path(path, tid, "/mem", -1);
	mem = sys(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (mem < 0)
		return (int)-mem;
	for (size_t at = 0; at < sizeof(name) && n >= 0;) {
		size_t part = PAGE - (from + at) % PAGE;

		if (part > sizeof(name) - at)
			part = sizeof(name) - at;
		n = sys(pread64, mem, name + at, part, from + at);
		for (long i = 0; i < n; i++)
			if (!name[at + (size_t)i]) {
				sys(close, mem);
				return 0;
			}
		if (n == 0)
			n = -EFAULT;
		at += n > 0 ? (size_t)n : 0;
	}
	sys(close, mem);
	return n < 0 ? EFAULT : ENAMETOOLONG;
}

/* Where a relative name begins, in `full`; the length, or -errno. */
static long base_of(uint32_t tid, int dir)
{
	char path[64];

	if (dir == AT_FDCWD)
		proc_path(path, tid, "/cwd", -1);
	else if (dir >= 0)
		proc_path(path, tid, "/fd/", dir);
	else
		return -EBADF;
	return sys(readlinkat, AT_FDCWD, path, full, PATH_ROOM - 1);
}

/* What follows @part in @path: "." for itself. NULL: it does not begin so. */
static const char *behind(const char *path, const char *part)
{
	while (*part && *path == *part) {
		path++;
		part++;
	}
	if (*part || (*path && *path != '/'))
		return 0;
	while (*path == '/')
		path++;
	return *path ? path : ".";
}

/* In which part of the run's folder `full` is, by its text, and what follows there; -1: none. */
static int part_of_full(const char **rest)
{
	const char *below = behind(full, place);

	for (int i = 0; below && i < PARTS; i++) {
		*rest = behind(below, parts[i]);
		if (*rest)
			return part_fds[i];
	}
	return -1;
}

/* The name that was read, from where it begins. A descriptor, or -errno. */
static long open_name(uint32_t tid, int dir, int follow)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	const char *rest = 0;
	long n = 0, r;
	int part;

	if (!name[0])
		return -ENOENT;
	if (name[0] != '/') {
		n = base_of(tid, dir);
		if (n < 0)
			return n;
		full[n++] = '/';
	}
	full[(size_t)n + put_text(full + n, name)] = '\0';
	part = part_of_full(&rest);
	r = part < 0 ? -EPERM : sys(openat2, part, rest, &how, sizeof(how));
	return r == -EXDEV ? -EPERM : r;
}

/* The payload's own descriptor, of a file in the run's folder. */
static long copy_fd(uint32_t tid, int fd)
{
	long thread = sys(pidfd_open, tid, PIDFD_OF_THREAD), copy, n;
	const char *rest;
	char path[64];

	copy = thread < 0 ? thread : sys(pidfd_getfd, thread, fd, 0);
	if (thread >= 0)
		sys(close, thread);
	if (copy < 0)
		return copy;
	proc_path(path, (uint32_t)sys(getpid), "/fd/", (int)copy);
	n = sys(readlinkat, AT_FDCWD, path, full, PATH_ROOM - 1);
	full[n < 0 ? 0 : n] = '\0';
	if (part_of_full(&rest) >= 0)
		return copy;
	sys(close, copy);
	return -EPERM;
}

/* ------------------------------------------------------------------------ doing -- */

struct wanted {
	uint32_t mode;
	int64_t times[4];	/* of two struct timespec */
	int has_times;
};

static int read_times(uint32_t tid, uint64_t from, struct wanted *w)
{
	char path[64];
	long mem, n;

	if (!from)
		return 0;
	proc_path(path, tid, "/mem", -1);
	mem = sys(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (mem < 0)
		return (int)-mem;
	n = sys(pread64, mem, w->times, sizeof(w->times), from);
	sys(close, mem);
	w->has_times = 1;
	return n == (long)sizeof(w->times) ? 0 : EFAULT;
}

static int do_it(const struct mode_call *c, int fd, const struct wanted *w)
{
	long r;

	if (c->mode < 0)
		r = sys(utimensat, fd, "", w->has_times ? w->times : 0, AT_EMPTY_PATH);
	else if (c->fd >= 0)
		r = sys(fchmod, fd, w->mode);
	else
		r = sys(fchmodat2, fd, "", w->mode, AT_EMPTY_PATH);
	return r < 0 ? (int)-r : 0;
}

int modes_answer(const struct seccomp_notif *call, int (*is_valid)(const void *arg, unsigned long id),
		 const void *arg)
{
	const uint64_t *args = (const uint64_t *)call->data.args;
	const struct mode_call *c = find(call->data.nr);
	/* utimensat() without one is futimens(). */
	int has_name = c->path >= 0 && (args[c->path] || c->mode >= 0);
	int flags = c->flags < 0 ? 0 : (int)args[c->flags], error = 0;
	struct wanted w = { .mode = c->mode < 0 ? 0 : (uint32_t)args[c->mode] & 07777 };
	long fd;

	if (flags & ~AT_SYMLINK_NOFOLLOW)
		return flags & AT_EMPTY_PATH ? EPERM : EINVAL;
	if (w.mode & SETID_BITS)
		return EPERM;
	if (c->times >= 0)
		error = read_times(call->pid, args[c->times], &w);
	if (!error && has_name)
		error = read_name(call->pid, args[c->path]);
	if (error)
		return error;
	fd = !has_name ? copy_fd(call->pid, (int)args[c->fd < 0 ? c->dir : c->fd])
		       : open_name(call->pid, c->dir < 0 ? AT_FDCWD : (int)args[c->dir],
				    !(flags & AT_SYMLINK_NOFOLLOW));
	if (fd < 0)
		return (int)-fd;
	/* Was it that thread's memory, folder and table? */
	error = is_valid(arg, call->id) ? do_it(c, (int)fd, &w) : EPERM;
	sys(close, fd);
	return error;
}
