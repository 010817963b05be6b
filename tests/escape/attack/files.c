/*
 * Acts on paths, descriptors, locks and sockets with a path.
 */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

static int print_line(int fd)
{
	char line[256];
	ssize_t n = read(fd, line, sizeof(line) - 1);

	if (n < 0)
		return -errno;
	line[n] = '\0';
	printf("%s\n", strtok(line, "\n") ? line : "");
	return SAID;
}

static int read_path(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_NONBLOCK);

	return fd < 0 ? -errno : print_line(fd);
}

static int read_fd(char **arg)
{
	return print_line((int)number(arg[0]));
}

static int write_path(char **arg)
{
	int fd = open(arg[0], O_WRONLY | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	return answer(write(fd, arg[1], strlen(arg[1])));
}

static int create_path(char **arg)
{
	return answer(open(arg[0], O_WRONLY | O_CREAT | O_EXCL, 0644));
}

/* Write back what is there: harmless where it works, telling where it does not. */
static int rewrite_path(char **arg)
{
	char text[4096];
	int in = open(arg[0], O_RDONLY), out = open(arg[0], O_WRONLY);
	ssize_t n;

	if (out < 0)
		return -errno;
	n = in < 0 ? 0 : read(in, text, sizeof(text));
	return n < 0 ? -errno : answer(write(out, text, (size_t)n));
}

static int open_write(char **arg)
{
	return answer(open(arg[0], O_WRONLY));
}

static int open_rdwr_trunc(char **arg)
{
	return answer(open(arg[0], O_RDWR | O_TRUNC));
}

static int stat_path(char **arg)
{
	struct stat st;

	if (stat(arg[0], &st) < 0)
		return -errno;
	printf("%o %u %u\n", st.st_mode, st.st_uid, st.st_gid);
	return SAID;
}

static int device_node(char **arg)
{
	mode_t type = arg[1][0] == 'b' ? S_IFBLK : S_IFCHR;

	return answer(mknod(arg[0], type | 0600, makedev((unsigned)number(arg[2]),
							 (unsigned)number(arg[3]))));
}

static int make_folder(char **arg)
{
	return answer(mkdir(arg[0], 0755));
}

static int remove_path(char **arg)
{
	return answer(remove(arg[0]));
}

static int rename_path(char **arg)
{
	return answer(rename(arg[0], arg[1]));
}

static int link_path(char **arg)
{
	return answer(link(arg[0], arg[1]));
}

static int symlink_path(char **arg)
{
	return answer(symlink(arg[0], arg[1]));
}

/* Descriptors open at start, in order; the folder's own is left out. */
static int list_fds(char **arg)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	const char *gap = "";

	(void)arg;
	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(dir))
			continue;
		printf("%s%s", gap, e->d_name);
		gap = " ";
	}
	puts("");
	return SAID;
}

/* Without /proc: which of the first 4096 numbers answer F_GETFD. */
static int probe_fds(char **arg)
{
	const char *gap = "";

	(void)arg;
	for (int fd = 0; fd < 4096; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		printf("%s%d", gap, fd);
		gap = " ";
	}
	puts("");
	return SAID;
}

static int lock_path(char **arg)
{
	int fd = open(arg[0], O_RDONLY);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	puts("ok");
	fflush(stdout);
	sleep((unsigned)number(arg[1]));
	return SAID;
}

static int connect_name(const char *name, size_t len)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0)
		return -errno;
	if (len > sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, name, len);
	return answer(connect(fd, (struct sockaddr *)&to,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)));
}

static int connect_path(char **arg)
{
	return connect_name(arg[0], strlen(arg[0]) + 1);
}

static int connect_abstract(char **arg)
{
	char name[108] = { 0 };
	size_t len = strlen(arg[0]);

	if (len >= sizeof(name))
		return -ENAMETOOLONG;
	memcpy(name + 1, arg[0], len);
	return connect_name(name, len + 1);
}

static int mount_flags(char **arg)
{
	struct statvfs v;

	if (statvfs(arg[0], &v) < 0)
		return -errno;
	printf("%s,%s,%s,%s\n", v.f_flag & ST_RDONLY ? "ro" : "rw",
	       v.f_flag & ST_NOSUID ? "nosuid" : "suid",
	       v.f_flag & ST_NODEV ? "nodev" : "dev",
	       v.f_flag & ST_NOEXEC ? "noexec" : "exec");
	return SAID;
}

static int fill_path(char **arg)
{
	static char block[1 << 16];
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	unsigned long want = number(arg[1]), done = 0;

	if (fd < 0)
		return -errno;
	while (done < want) {
		ssize_t n = write(fd, block, sizeof(block));

		if (n < 0)
			return -errno;
		done += (unsigned long)n;
	}
	return 0;
}

static int many_files(char **arg)
{
	char path[512];

	for (unsigned long i = 0; i < number(arg[1]); i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%lu", arg[0], i);
		fd = open(path, O_WRONLY | O_CREAT, 0644);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	return 0;
}

static int chdir_read(char **arg)
{
	if (chdir(arg[0]) < 0)
		return -errno;
	return read_path(arg + 1);
}

const struct attack file_attacks[] = {
	{ "read",	1, read_path,	   "PATH: its first line" },
	{ "read-fd",	1, read_fd,	   "N: the first line behind descriptor N" },
	{ "write",	2, write_path,	   "PATH TEXT, to an existing file" },
	{ "rewrite",	1, rewrite_path,   "PATH: write back what it holds" },
	{ "create",	1, create_path,	   "PATH, which must not exist" },
	{ "open-write",	1, open_write,	   "PATH: open for writing, write nothing" },
	{ "open-trunc",	1, open_rdwr_trunc, "PATH: open for writing and empty it" },
	{ "stat",	1, stat_path,	   "PATH: mode uid gid" },
	{ "device",	4, device_node,	   "PATH b|c MAJOR MINOR: mknod" },
	{ "folder",	1, make_folder,	   "PATH: mkdir" },
	{ "remove",	1, remove_path,	   "PATH" },
	{ "rename",	2, rename_path,	   "FROM TO" },
	{ "link",	2, link_path,	   "FROM TO" },
	{ "symlink",	2, symlink_path,   "TARGET PATH" },
	{ "fds",	0, list_fds,	   "open descriptors, from /proc/self/fd" },
	{ "probe-fds",	0, probe_fds,	   "open descriptors, by asking each number" },
	{ "flock",	2, lock_path,	   "PATH SECONDS: take the lock and keep it" },
	{ "connect",	1, connect_path,   "PATH: to a unix socket" },
	{ "connect-abstract", 1, connect_abstract, "NAME: to an abstract unix socket" },
	{ "mount-flags", 1, mount_flags,   "PATH: ro|rw,nosuid|suid,nodev|dev,..." },
	{ "fill",	2, fill_path,	   "PATH BYTES" },
	{ "many-files",	2, many_files,	   "FOLDER COUNT" },
	{ "chdir-read",	2, chdir_read,	   "FOLDER PATH" },
	{ 0 },
};
