/*
 * cgroup_owner.c - whose is a cgroup, who is in it, and what do two have in common
 *
 * Runs in the launcher, and in a child of doctor: system calls only, no malloc.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"
#include "base/lines.h"
#include "base/num.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && strcmp(name + n - m, end) == 0;
}

/* systemd marks what it delegates; the user's own manager may set only the latter. */
static bool is_delegated(int dirfd)
{
	static const char *const marks[] = { "trusted.delegate", "user.delegate" };
	char value[4];

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (fgetxattr(dirfd, marks[i], value, sizeof(value)) == 1 && value[0] == '1')
			return true;
	return false;
}

bool cgroup_is_ours(int dirfd, const char *name)
{
	struct stat st;

	if (fstat(dirfd, &st) < 0 || st.st_uid != geteuid() || ends_with(name, ".slice"))
		return false;
	if (ends_with(name, ".scope") || ends_with(name, ".service"))
		return is_delegated(dirfd);
	return true;
}

bool cgroup_is_alone(int dirfd, int pid, int parent)
{
	owned_fd int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct lines l = { .fd = fd };
	uint64_t there;
	char *line;

	if (fd < 0)
		return false;
	while ((line = lines_next(&l)))
		if (num_uint(line, 1, UINT32_MAX, &there) < 0 || /* "0": of another pid namespace */
		    (there != (uint64_t)pid && there != (uint64_t)parent))
			return false;
	return true;
}

size_t cgroup_common(const char *a, const char *b)
{
	size_t last = 0, i = 0;

	for (; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			last = i;
	return (!a[i] || a[i] == '/') && (!b[i] || b[i] == '/') ? i : last;
}
