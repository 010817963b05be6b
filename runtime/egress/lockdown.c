/*
 * lockdown.c - see lockdown.h. Runs in the supervisor, once, before it serves.
 *
 * Who takes this process over by a packet gets: sockets of the host's network, as the rules
 * would allow any program there, and nothing else. No file, no other program, no signal to
 * a process, no AF_UNIX but pairs for a box without a network namespace, no netlink.
 *
 * Must: fail when any step fails; the launcher then starts no box.
 */
#include "runtime/egress/lockdown.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <asm/ioctls.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
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
	__NR_recvmmsg, __NR_sendto, __NR_sendmsg, __NR_read, __NR_write, __NR_getsockname,
	__NR_getpeername, __NR_getsockopt, __NR_setsockopt,
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
	__NR_rt_sigprocmask,
};

/* For the calls of a box that has no network namespace; F_SETFL and F_GETFL are below. */
static const int allowed_for_calls[] = { __NR_bind, __NR_listen };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), yes, no)
/* The low half of an argument: both are little-endian machines. */
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
			     offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))

enum {
	ROOM = 2 * ARRAY_SIZE(allowed) + 2 * ARRAY_SIZE(allowed_for_calls) + 64,
	SOCK_TYPES = 0xf,	/* what is not SOCK_CLOEXEC and SOCK_NONBLOCK */
};

/*
 * What depends on arguments; the number of the call is loaded.
 * socket: TCP and UDP over IPv4 and IPv6, by their default protocols. Any user may ask for
 * MPTCP, SCTP or a ping socket; nobody here needs the kernel's code for them.
 * fcntl: the seals of a configuration, O_NONBLOCK. F_SETOWN with O_ASYNC would send a signal of
 * choice to a process of the same user.
 * mmap, mprotect (malloc, where brk(2) fails): nothing that could be executed.
 */
enum { AT_FCNTL = 10, AT_MEMORY = 15, AT_ALLOW = 19, AT_KILL = 20 };
static const struct sock_filter tail[] = {
	[0] = IS(__NR_socket, 0, AT_FCNTL - 1),
	[1] = LOAD_ARG(2),
	[2] = IS(0, 0, AT_KILL - 3),
	[3] = LOAD_ARG(0),
	[4] = IS(AF_INET, 1, 0),
	[5] = IS(AF_INET6, 0, AT_KILL - 6),
	[6] = LOAD_ARG(1),
	[7] = BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SOCK_TYPES),
	[8] = IS(SOCK_STREAM, AT_ALLOW - 9, 0),
	[9] = IS(SOCK_DGRAM, AT_ALLOW - 10, AT_KILL - 10),
	[AT_FCNTL] = IS(__NR_fcntl, 0, AT_MEMORY - 11),
	[11] = LOAD_ARG(1),
	[12] = IS(F_GETFL, AT_ALLOW - 13, 0),
	[13] = IS(F_SETFL, AT_ALLOW - 14, 0),
	[14] = IS(F_GET_SEALS, AT_ALLOW - 15, AT_KILL - 15),
	[AT_MEMORY] = IS(__NR_mmap, 1, 0),
	[16] = IS(__NR_mprotect, 0, AT_KILL - 17),
	[17] = LOAD_ARG(2),
	[18] = BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, AT_KILL - 19, AT_ALLOW - 19),
	[AT_ALLOW] = RETURN(SECCOMP_RET_ALLOW),
	[AT_KILL] = RETURN(SECCOMP_RET_KILL_PROCESS),
};

/* A pair whose other end the box has for a UDP socket, and how much of it is unread. */
static const struct sock_filter pairs[] = {
	IS(__NR_socketpair, 0, 7),
	LOAD_ARG(0),
	IS(AF_UNIX, 0, 4),
	LOAD_ARG(1),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SOCK_TYPES),
	IS(SOCK_SEQPACKET, 0, 1),
	RETURN(SECCOMP_RET_ALLOW),
	RETURN(SECCOMP_RET_KILL_PROCESS),
	IS(__NR_ioctl, 0, 4),
	LOAD_ARG(1),
	IS(SIOCOUTQ, 0, 1),
	RETURN(SECCOMP_RET_ALLOW),
	RETURN(SECCOMP_RET_KILL_PROCESS),
};

static size_t add_allowed(struct sock_filter *to, const int *calls, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		to[n++] = (struct sock_filter)IS((uint32_t)calls[i], 0, 1);
		to[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	}
	return n;
}

static size_t write_filter(struct sock_filter to[ROOM], bool calls)
{
	const struct sock_filter head[] = {
		LOAD(arch), IS(OWN_ARCH, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr),
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(head); i++)
		to[n++] = head[i];
	n += add_allowed(to + n, allowed, ARRAY_SIZE(allowed));
	if (calls)
		n += add_allowed(to + n, allowed_for_calls, ARRAY_SIZE(allowed_for_calls));
	for (size_t i = 0; calls && i < ARRAY_SIZE(pairs); i++)
		to[n++] = pairs[i];
	for (size_t i = 0; i < ARRAY_SIZE(tail); i++)
		to[n++] = tail[i];
	return n;
}

static int filter_calls(bool calls)
{
	struct sock_filter program[ROOM];
	struct sock_fprog prog = { .filter = program };

	prog.len = (unsigned short)write_filter(program, calls);
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

const char *lockdown(uint32_t uid, uint32_t gid, bool calls)
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
	if (filter_calls(calls) < 0)
		return "filter its system calls";
	return NULL;
}
