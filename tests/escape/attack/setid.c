/*
 * Ways to leave a set-user-id or set-group-id file behind. A file of the caller
 * with such a bit would lend the caller's rights to whoever runs it, long after
 * the box is gone (E45), so the mode bits themselves are refused.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* The wrong bits are asked for on an empty file made beforehand, mode 0755. */
static int plain_file(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
}

static int do_chmod(char **arg)
{
	close(plain_file(arg[0]));
	return answer(syscall(SYS_chmod, arg[0], number(arg[1])));
}

static int do_fchmod(char **arg)
{
	int fd = plain_file(arg[0]);

	return fd < 0 ? -errno : answer(syscall(SYS_fchmod, fd, number(arg[1])));
}

static int do_fchmodat(char **arg)
{
	close(plain_file(arg[0]));
	return answer(syscall(SYS_fchmodat, AT_FDCWD, arg[0], number(arg[1])));
}

static int do_fchmodat2(char **arg)
{
	close(plain_file(arg[0]));
	return answer(syscall(SYS_fchmodat2, AT_FDCWD, arg[0], number(arg[1]), 0));
}

/* The high half of a register is no part of the mode: a filter must mask it. */
static int do_chmod_high(char **arg)
{
	close(plain_file(arg[0]));
	return answer(syscall(SYS_chmod, arg[0], number(arg[1]) | 1UL << 32));
}

static int do_open(char **arg)
{
	return answer(syscall(SYS_open, arg[0], O_WRONLY | O_CREAT, number(arg[1])));
}

static int do_openat(char **arg)
{
	return answer(syscall(SYS_openat, AT_FDCWD, arg[0], O_WRONLY | O_CREAT,
			      number(arg[1])));
}

static int do_openat2(char **arg)
{
	struct open_how how = { .flags = O_WRONLY | O_CREAT, .mode = number(arg[1]) };

	return answer(syscall(SYS_openat2, AT_FDCWD, arg[0], &how, sizeof(how)));
}

static int do_tmpfile(char **arg)
{
	return answer(syscall(SYS_openat, AT_FDCWD, arg[0], O_TMPFILE | O_WRONLY,
			      number(arg[1])));
}

static int do_creat(char **arg)
{
	return answer(syscall(SYS_creat, arg[0], number(arg[1])));
}

static int do_mkdir(char **arg)
{
	return answer(syscall(SYS_mkdir, arg[0], number(arg[1])));
}

static int do_mkdirat(char **arg)
{
	return answer(syscall(SYS_mkdirat, AT_FDCWD, arg[0], number(arg[1])));
}

static int do_mknod(char **arg)
{
	return answer(syscall(SYS_mknod, arg[0], S_IFREG | number(arg[1]), 0));
}

static int do_mknodat(char **arg)
{
	return answer(syscall(SYS_mknodat, AT_FDCWD, arg[0],
			      S_IFREG | number(arg[1]), 0));
}

/* File capabilities: cap_net_raw+ep, revision 2 (vfs_cap_data). */
static int do_setcap(char **arg)
{
	static const uint32_t value[5] = { 0x02000001, 1u << 13, 0, 0, 0 };
	int fd = plain_file(arg[0]);

	if (fd < 0)
		return -errno;
	return answer(fsetxattr(fd, "security.capability", value, sizeof(value), 0));
}

const struct attack setid_attacks[] = {
	{ "chmod",	2, do_chmod,	  "PATH MODE" },
	{ "chmod-high",	2, do_chmod_high, "PATH MODE, with bit 32 of the register set" },
	{ "fchmod",	2, do_fchmod,	  "PATH MODE" },
	{ "fchmodat",	2, do_fchmodat,	  "PATH MODE" },
	{ "fchmodat2",	2, do_fchmodat2,  "PATH MODE" },
	{ "creat",	2, do_creat,	  "PATH MODE" },
	{ "open-mode",	2, do_open,	  "PATH MODE" },
	{ "openat-mode", 2, do_openat,	  "PATH MODE" },
	{ "openat2-mode", 2, do_openat2,  "PATH MODE" },
	{ "tmpfile-mode", 2, do_tmpfile,  "FOLDER MODE" },
	{ "mkdir",	2, do_mkdir,	  "PATH MODE" },
	{ "mkdirat",	2, do_mkdirat,	  "PATH MODE" },
	{ "mknod-mode",	2, do_mknod,	  "PATH MODE" },
	{ "mknodat-mode", 2, do_mknodat,  "PATH MODE" },
	{ "setcap",	1, do_setcap,	  "PATH" },
	{ 0 },
};
