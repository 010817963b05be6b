/*
 * Acts on the system call table: calls that a box must not reach, sockets of odd
 * families, namespaces, foreign call conventions, terminal and keyring calls.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define X32_BIT 0x40000000
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

/* Names for the calls of the generic rows; a plain number works as well. */
#define CALLS(X) \
	X(acct) X(add_key) X(adjtimex) X(bpf) X(chroot) X(clock_settime) X(clone3) \
	X(delete_module) X(fanotify_init) X(finit_module) X(fsconfig) X(fsmount) \
	X(fsopen) X(fspick) X(init_module) X(io_setup) X(io_uring_enter) \
	X(io_uring_register) X(io_uring_setup) X(ioperm) X(iopl) X(kcmp) \
	X(kexec_load) X(keyctl) X(memfd_secret) X(modify_ldt) X(mount) \
	X(mount_setattr) X(move_mount) X(move_pages) X(name_to_handle_at) \
	X(open_by_handle_at) X(open_tree) X(perf_event_open) X(personality) \
	X(pidfd_getfd) X(pivot_root) X(process_madvise) X(process_vm_readv) \
	X(process_vm_writev) X(ptrace) X(quotactl) X(reboot) X(remap_file_pages) \
	X(request_key) X(seccomp) X(setdomainname) X(sethostname) X(setns) \
	X(settimeofday) X(swapoff) X(swapon) X(syslog) X(umount2) X(unshare) \
	X(userfaultfd) X(vhangup) X(vmsplice)

static const struct { const char *name; long number; } calls[] = {
#define X(name) { #name, SYS_##name },
	CALLS(X)
#undef X
};

static long call_number(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].number;
	return (long)number(name);
}

/* "self" stands for the caller's pid, "." for a valid pointer to zero bytes. */
static unsigned long call_arg(const char *text)
{
	static char zeroes[4096];

	if (!strcmp(text, "self"))
		return (unsigned long)getpid();
	return strcmp(text, ".") ? number(text) : (unsigned long)zeroes;
}

static int any_call(char **arg)
{
	unsigned long a[6] = { 0 };

	for (int i = 0; i < 6 && arg[i + 1]; i++)
		a[i] = call_arg(arg[i + 1]);
	return answer(syscall(call_number(arg[0]), a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* The i386 entry point takes its own numbers: a filter that looks at numbers only
 * would compare them with the wrong table. */
static int i386_call(char **arg)
{
	long r, nr = (long)number(arg[0]);

	__asm__ volatile("int $0x80" : "=a"(r)
			 : "a"(nr), "b"(arg[1] ? number(arg[1]) : 0),
			   "c"(arg[1] && arg[2] ? number(arg[2]) : 0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return r < 0 && r > -4096 ? (int)r : 0;
}

static int x32_call(char **arg)
{
	return answer(syscall(X32_BIT | (long)number(arg[0]), 0, 0, 0, 0, 0, 0));
}

static int one_socket(char **arg)
{
	return answer(socket((int)number(arg[0]), (int)number(arg[1]),
			     (int)number(arg[2])));
}

static int one_socketpair(char **arg)
{
	int pair[2];

	return answer(socketpair((int)number(arg[0]), (int)number(arg[1]),
				 (int)number(arg[2]), pair));
}

/* Which families give a socket of any type at all, first to last. */
static int families(char **arg)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };
	const char *gap = "";

	for (int f = 0; f <= (int)number(arg[0]); f++) {
		int fd = -1;

		for (size_t t = 0; fd < 0 && t < 4; t++)
			fd = socket(f, types[t] | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		close(fd);
		printf("%s%d", gap, f);
		gap = " ";
	}
	puts("");
	return SAID;
}

static const struct { const char *name; unsigned long flag; } namespaces[] = {
	{ "user", CLONE_NEWUSER }, { "pid", CLONE_NEWPID }, { "mnt", CLONE_NEWNS },
	{ "net", CLONE_NEWNET }, { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
	{ "cgroup", CLONE_NEWCGROUP }, { "time", 0x80 },
};

static unsigned long namespace_flag(const char *name)
{
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++)
		if (!strcmp(namespaces[i].name, name))
			return namespaces[i].flag;
	return number(name);
}

static int new_namespace(char **arg)
{
	return answer(syscall(SYS_unshare, namespace_flag(arg[0])));
}

static int settle(long pid)
{
	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(0);
	return answer(waitpid((pid_t)pid, NULL, __WALL));
}

static int clone_namespace(char **arg)
{
	return settle(syscall(SYS_clone, namespace_flag(arg[0]) | 17 /* SIGCHLD */,
			      0, 0, 0, 0));
}

static int clone3_namespace(char **arg)
{
	struct clone_args how = { .flags = namespace_flag(arg[0]), .exit_signal = 17 };

	return settle(syscall(SYS_clone3, &how, sizeof(how)));
}

static int mount_type(char **arg)
{
	return answer(mount(arg[0], arg[1], arg[0], 0,
			    strcmp(arg[2], "-") ? arg[2] : NULL));
}

static int remount(char **arg)
{
	return answer(mount(NULL, arg[0], NULL,
			    MS_REMOUNT | MS_BIND | number(arg[1]), NULL));
}

/* A request wider than 32 bits reaches the driver cut to 32 (CVE-2019-10063). */
static int terminal_call(char **arg)
{
	char c = 'x';

	return answer(syscall(SYS_ioctl, (int)number(arg[0]), number(arg[1]), &c));
}

/* TIOCSTI needs a controlling terminal; /dev/tty is one if there is any. */
static int push_input(char **arg)
{
	int fd = open("/dev/tty", O_RDWR);

	if (fd < 0)
		return -errno;
	for (const char *c = arg[0]; *c; c++)
		if (syscall(SYS_ioctl, fd, 0x5412, c) < 0)
			return -errno;
	return 0;
}

static int find_key(char **arg)
{
	return answer(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user",
			      arg[0], 0));
}

static int add_key(char **arg)
{
	return answer(syscall(SYS_add_key, "user", arg[0], "secret", 6,
			      KEY_SPEC_USER_KEYRING));
}

static int set_personality(char **arg)
{
	return answer(syscall(SYS_personality, number(arg[0])));
}

static int map_wx(char **arg)
{
	int fd = open(arg[0], O_RDONLY);

	if (fd < 0)
		return -errno;
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED
		? -errno : 0;
}

const struct attack kernel_attacks[] = {
	{ "call",	1, any_call,	    "NAME|NUMBER ARG...: any system call" },
	{ "int80",	1, i386_call,	    "NUMBER [ARG [ARG]]: by the i386 entry" },
	{ "x32",	1, x32_call,	    "NUMBER: with the x32 bit" },
	{ "socket",	3, one_socket,	    "FAMILY TYPE PROTOCOL" },
	{ "socketpair",	3, one_socketpair,  "FAMILY TYPE PROTOCOL" },
	{ "families",	1, families,	    "LAST: families 0..LAST that give a socket" },
	{ "unshare",	1, new_namespace,   "KIND" },
	{ "clone",	1, clone_namespace, "KIND" },
	{ "clone3",	1, clone3_namespace, "KIND" },
	{ "mount",	3, mount_type,	    "TYPE TARGET OPTIONS|-" },
	{ "remount",	2, remount,	    "TARGET FLAGS: bind remount" },
	{ "ioctl",	2, terminal_call,   "FD REQUEST, all 64 bits of it" },
	{ "push-input",	1, push_input,	    "TEXT: TIOCSTI on the terminal" },
	{ "find-key",	1, find_key,	    "NAME in the user keyring" },
	{ "add-key",	1, add_key,	    "NAME to the user keyring" },
	{ "personality", 1, set_personality, "VALUE" },
	{ "map-exec",	1, map_wx,	    "PATH: map it executable" },
	{ 0 },
};
