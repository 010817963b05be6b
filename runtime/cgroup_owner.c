/*
 * cgroup_owner.c - whose is a cgroup, who is in it, and what do two have in common
 *
 * Runs in the launcher, and in a child of doctor: system calls only, no malloc.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"
#include "base/lines.h"
#include "base/num.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && strcmp(name + n - m, end) == 0;
}

/*
 * The system's systemd marks what it delegates. The user's did not before version 254,
 * but keeps the settings of a transient unit in a file: what "systemd-run --user --scope
 * -p Delegate=yes" makes.
 */
static bool says_delegate(const char *unit)
{
	char path[512] = "/run/user/", *to = decimal_put(path + 10, geteuid());
	static const char folder[] = "/systemd/transient/";
	owned_fd int fd = -1;
	struct lines l = { 0 };
	char *line;

	if ((size_t)(to - path) + sizeof(folder) + strlen(unit) > sizeof(path))
		return false;
	memcpy(to, folder, sizeof(folder) - 1);
	memcpy(to + sizeof(folder) - 1, unit, strlen(unit) + 1);
	l.fd = fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (line = lines_next(&l)))
		if (strcmp(line, "Delegate=yes") == 0)
			return true;
	return false;
}

static bool is_delegated(int dirfd, const char *unit)
{
	static const char *const marks[] = { "trusted.delegate", "user.delegate" };
	char value[4];

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (fgetxattr(dirfd, marks[i], value, sizeof(value)) == 1 && value[0] == '1')
			return true;
	return says_delegate(unit);
}

bool cgroup_is_ours(int dirfd, const char *name)
{
	struct stat st;

	if (fstat(dirfd, &st) < 0 || st.st_uid != geteuid() || ends_with(name, ".slice"))
		return false;
	if (ends_with(name, ".scope") || ends_with(name, ".service"))
		return is_delegated(dirfd, name);
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
