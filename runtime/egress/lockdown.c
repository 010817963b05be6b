/*
 * lockdown.c - see lockdown.h. Runs in the supervisor, once, before it serves.
 *
 * Who takes this process over by a packet gets: sockets of the host's network, as the rules
 * would allow any program there, and nothing else. No file, no other program, no signal to
 * a process, no AF_UNIX, no netlink.
 *
 * Must: fail when any step fails; the launcher then starts no box.
 */
#include "runtime/egress/lockdown.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* --- system calls ---------------------------------------------------------------------------- */

static const int allowed[] = {
	/* sockets and streams */
	__NR_connect, __NR_accept4, __NR_shutdown, __NR_close, __NR_recvfrom, __NR_recvmsg,
	__NR_recvmmsg, __NR_sendto, __NR_sendmsg, __NR_sendmmsg, __NR_read, __NR_write, __NR_readv,
	__NR_writev, __NR_splice, __NR_pipe2, __NR_getsockname, __NR_getpeername,
	__NR_getsockopt, __NR_setsockopt, __NR_bind,
	/* the loop */
	__NR_epoll_create1, __NR_epoll_ctl, __NR_epoll_pwait, __NR_ppoll, __NR_clock_gettime,
	__NR_restart_syscall,
#ifdef __NR_epoll_wait
	__NR_epoll_wait, __NR_poll,
#endif
	/* memory; a new configuration is a memfd that is mapped */
	__NR_brk, __NR_munmap, __NR_mremap, __NR_madvise, __NR_fstat,
#ifdef __NR_newfstatat
	__NR_newfstatat, /* musl's fstat(fd), with an empty path; by name Landlock has no say, but
			    it only tells that a file is there */
#endif
	__NR_futex, __NR_getrandom, __NR_exit, __NR_exit_group, __NR_rt_sigreturn,
	__NR_rt_sigprocmask, __NR_getpid, __NR_gettid,
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
/* The low half of an argument: both are little-endian machines. */
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
			     offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))

enum { ROOM = 2 * ARRAY_SIZE(allowed) + 32 };

static size_t write_filter(struct sock_filter to[ROOM])
{
	const struct sock_filter head[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
	};
	const struct sock_filter tail[] = {
		/* socket: IPv4 and IPv6 */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 5),
		LOAD_ARG(0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		/* fcntl: F_SETOWN with O_ASYNC would send a signal of choice to a process of the
		 * same user */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, 6),
		LOAD_ARG(1),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GETFL, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETFL, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GET_SEALS, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		/* mmap, and mprotect of musl's malloc: nothing that could be executed */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mprotect, 0, 3),
		LOAD_ARG(2),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_KILL_PROCESS),
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(head); i++)
		to[n++] = head[i];
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
		to[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i],
						       0, 1);
		to[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tail); i++)
		to[n++] = tail[i];
	return n;
}

static int filter_calls(void)
{
	struct sock_filter program[ROOM];
	struct sock_fprog prog = { .filter = program };

	prog.len = (unsigned short)write_filter(program);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

/* --- ids, capabilities, files ------------------------------------------------------------------ */

/* Root of a user namespace that an ordinary user made may not drop groups: they are that
 * user's, as they are the box's (launch.c). */
static bool setgroups_is_denied(void)
{
	struct buf text = BUF_INIT(16);
	bool is_denied = fd_read_file(AT_FDCWD, "/proc/self/setgroups", &text) == 0 &&
			 strncmp(buf_text(&text), "deny", 4) == 0;

	buf_free(&text);
	return is_denied;
}

static int drop_groups(void)
{
	if (syscall(SYS_setgroups, 0, NULL) == 0)
		return 0;
	return errno == EPERM && setgroups_is_denied() ? 0 : -1;
}

static int become(uint32_t uid, uint32_t gid)
{
	if (gid != UINT32_MAX && (drop_groups() < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0))
		return -1;
	return uid != UINT32_MAX ? (int)syscall(SYS_setresuid, uid, uid, uid) : 0;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

	return (int)syscall(SYS_capset, &head, none);
}

/* All rights of the first version, and a path for none. No Landlock in the kernel: the
 * filter has no open(2) either way. */
static int no_files(void)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = (1ULL << 13) - 1 };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	int r;

	if (fd < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -1;
	r = (int)syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
	return r;
}

static int limit_resources(void)
{
	const struct rlimit none = { 0, 0 };
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -1;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
	    setrlimit(RLIMIT_FSIZE, &none) < 0 || setrlimit(RLIMIT_NPROC, &none) < 0)
		return -1;
	return 0;
}

const char *lockdown(uint32_t uid, uint32_t gid)
{
	if (limit_resources() < 0)
		return "limit its resources";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return "give up new privileges";
	if (become(uid, gid) < 0)
		return "become an ordinary user";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) /* after setresuid: it may set it again */
		return "hide its memory";
	if (drop_capabilities() < 0)
		return "drop its capabilities";
	if (no_files() < 0)
		return "give up files (Landlock)";
	if (filter_calls() < 0)
		return "filter its system calls";
	return NULL;
}
