/*
 * The system call rules, all of them, with the reason for each group.
 *
 * Owns:    which call answers what at which level, and the argument checks.
 * Runs in: whoever compiles a policy; the tables are read-only data.
 * Must:    name every call of the table of tools/gen exactly once (a test).
 * Mustn't: contain code that decides; a rule is a row.
 *
 * ENOSYS says "this kernel has no such call", and libraries fall back. EPERM is
 * what an unprivileged caller gets for a call of the administrator. Numbers that
 * nobody listed, newer ones above all, are ENOSYS.
 */
#include "policy/seccomp_rules.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1UL << 3)
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#ifndef UDP_ENCAP
#define UDP_ENCAP 100
#endif
#ifndef ADDR_NO_RANDOMIZE
#define ADDR_NO_RANDOMIZE 0x0040000
#endif

#if defined(__x86_64__)
/* x32 shares the audit architecture of x86-64 and marks its numbers. */
const struct seccomp_arch seccomp_native = { AUDIT_ARCH_X86_64, 0x40000000u };
#elif defined(__aarch64__)
const struct seccomp_arch seccomp_native = { AUDIT_ARCH_AARCH64, 0 };
#else
#error "no row for this architecture"
#endif

/* --- calls at level default ---------------------------------------------- */

#define ALLOW ANSWER_ALLOW

const struct seccomp_group seccomp_groups[] = {
	{ "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 "
	  "lseek close close_range dup dup2 dup3 pipe pipe2 fcntl flock "
	  "sendfile splice tee copy_file_range fadvise64 readahead "
	  "fallocate truncate ftruncate fsync fdatasync sync syncfs sync_file_range "
	  "select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait "
	  "epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 "
	  "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
	  ALLOW, false, "reads, writes and waits on descriptors the box already has" },

	{ "access faccessat faccessat2 stat lstat fstat newfstatat statx statfs fstatfs "
	  "readlink readlinkat getcwd chdir fchdir getdents getdents64 "
	  "link linkat symlink symlinkat unlink unlinkat rename renameat renameat2 rmdir "
	  "chown fchown lchown fchownat utime utimes futimesat utimensat umask "
	  "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr "
	  "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr "
	  "getxattrat setxattrat listxattrat removexattrat",
	  ALLOW, false, "works on paths; mounts, Landlock and file modes decide which" },

	{ "brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall "
	  "munlock munlockall mseal map_shadow_stack memfd_create "
	  "pkey_alloc pkey_free pkey_mprotect membarrier "
	  "get_mempolicy set_mempolicy mbind",
	  ALLOW, false, "works on the caller's own memory" },

	{ "execve execveat exit exit_group fork vfork wait4 waitid "
	  "getpid getppid gettid getpgid getpgrp setpgid getsid setsid "
	  "set_tid_address set_robust_list get_robust_list rseq restart_syscall "
	  "futex futex_waitv futex_wake futex_wait futex_requeue arch_prctl "
	  "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
	  "sched_getscheduler sched_setscheduler sched_getattr sched_setattr "
	  "sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
	  "getpriority setpriority ioprio_get ioprio_set getcpu "
	  "getrlimit getrusage times sysinfo uname",
	  ALLOW, false, "starts, ends and schedules the box's own processes" },

	/* PR_SET_SPECULATION_CTRL weakens only the task that asks, and PR_SET_MM
	 * moves marks of the caller's own image; filters can only be added. */
	{ "prctl landlock_create_ruleset landlock_add_rule landlock_restrict_self",
	  ALLOW, false, "changes the caller itself, and can only tighten its walls" },

	/* The number is reserved for the kernel's own trampoline, which checks where
	 * it came from. Refusing it kills programs whose libraries the host traces. */
	{ "uretprobe uprobe",
	  ALLOW, false, "is made by the kernel's tracing trampoline, not by programs" },

	{ "kill tkill tgkill pidfd_open pidfd_send_signal pause alarm sigaltstack "
	  "rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn "
	  "rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo",
	  ALLOW, false, "signals; the pid namespace bounds whom they reach" },

	{ "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep "
	  "getitimer setitimer timer_create timer_delete timer_getoverrun "
	  "timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime "
	  "getrandom",
	  ALLOW, false, "reads clocks and random numbers" },

	{ "getuid geteuid getgid getegid getresuid getresgid getgroups "
	  "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid "
	  "setgroups capget capset",
	  ALLOW, false, "changes nothing without a capability, and the box has none" },

	{ "bind connect listen accept accept4 getsockname getpeername getsockopt "
	  "sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg shutdown",
	  ALLOW, false, "works on sockets that socket() let through" },

	{ "shmget shmat shmdt shmctl semget semop semtimedop semctl "
	  "msgget msgsnd msgrcv msgctl "
	  "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
	  ALLOW, false, "is bounded by the box's ipc namespace" },

	/* --- argument checks --- */

	{ "clone", CHECK_CLONE, true,
	  "may not make namespaces: the kernel's administration opens behind them" },
	{ "unshare", CHECK_UNSHARE, true,
	  "may not make namespaces: the kernel's administration opens behind them" },
	{ "clone3", ENOSYS, true,
	  "has its flags behind a pointer, where no filter can see a new namespace" },
	{ "socket", CHECK_SOCKET, true,
	  "may open UNIX, IPv4, IPv6 and route netlink sockets only: vsock reaches the "
	  "hypervisor, and the rarer families are where kernels break" },
	{ "socketpair", CHECK_SOCKETPAIR, true,
	  "may make UNIX pairs only" },
	{ "setsockopt", CHECK_SETSOCKOPT, true,
	  "may not put kernel protocols (TCP_ULP, UDP_ENCAP) on top of a socket" },
	{ "ioctl", CHECK_IOCTL, true,
	  "may not type into a terminal or change its line discipline" },
	{ "personality", CHECK_PERSONALITY, false,
	  "may only ask, or set the plain Linux personality" },
	{ "seccomp", CHECK_SECCOMP, true,
	  "may add filters, but not become the supervisor of one" },

	/* A host that pipes cores starts its handler, as root and outside of the box, for
	 * every crash, whatever the limit is, unless it is 1: core(5). Programs that want
	 * no core either, and set 0, must not fail. */
	{ "setrlimit", CHECK_SETRLIMIT, true,
	  "could have the host's core dump handler started by a crash" },
	{ "prlimit64", CHECK_PRLIMIT, true,
	  "could have the host's core dump handler started by a crash" },

	/* A setuid file left in a shared folder carries the rights of the caller to
	 * whoever runs it, outside of the box. Every call that takes a mode is here. */
	{ "chmod fchmod creat mkdir", CHECK_MODE_1, true,
	  "may not set setuid or setgid bits" },
	{ "fchmodat fchmodat2 mkdirat", CHECK_MODE_2, true,
	  "may not set setuid or setgid bits" },
	{ "open", CHECK_OPEN_1, true, "may not create setuid or setgid files" },
	{ "openat", CHECK_OPEN_2, true, "may not create setuid or setgid files" },
	{ "mknod", CHECK_MKNOD_1, true, "may make pipes, sockets and plain files only" },
	{ "mknodat", CHECK_MKNOD_2, true, "may make pipes, sockets and plain files only" },
	{ "openat2", ENOSYS, true,
	  "has its mode behind a pointer, where no filter can see a setuid bit" },

	/* --- looks as if it were not built in --- */

	{ "io_uring_setup io_uring_enter io_uring_register", ENOSYS, true,
	  "opens files and sockets past every rule about open and socket" },
	{ "add_key request_key keyctl", ENOSYS, true,
	  "reads keyrings, which no namespace separates" },
	{ "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
	  ENOSYS, false, "is the old asynchronous I/O that hardly anybody uses" },
	{ "memfd_secret modify_ldt remap_file_pages name_to_handle_at "
	  "get_thread_area set_thread_area process_mrelease set_mempolicy_home_node",
	  ENOSYS, false, "is rarely needed and has been a way into the kernel" },
	{ "cachestat", ENOSYS, false,
	  "tells which pages of the host's files others have used" },
	{ "statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules "
	  "file_getattr file_setattr",
	  ENOSYS, false, "is new, and every user of it has a fallback" },
	{ "_sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old "
	  "get_kernel_syms getpmsg lookup_dcookie nfsservctl putpmsg query_module "
	  "security sysfs tuxcall uselib ustat vserver",
	  ENOSYS, false, "is gone, or was never there" },

	/* --- what an unprivileged caller gets --- */

	{ "mount umount2 pivot_root chroot setns fsopen fsconfig fsmount fspick "
	  "move_mount open_tree open_tree_attr mount_setattr",
	  EPERM, true, "could rebuild the tree that is the box" },
	{ "bpf perf_event_open", EPERM, true, "observes or extends the host's kernel" },
	{ "init_module finit_module delete_module kexec_load kexec_file_load",
	  EPERM, true, "replaces code of the host's kernel" },
	{ "ptrace process_vm_readv process_vm_writev kcmp", EPERM, true,
	  "controls other processes, the box's init among them" },
	{ "pidfd_getfd", EPERM, true,
	  "takes descriptors from other processes, the box's init among them" },
	{ "open_by_handle_at", EPERM, true, "opens files by number, past every mount" },
	{ "adjtimex clock_adjtime clock_settime settimeofday", EPERM, true,
	  "sets the clock of the host" },
	{ "acct quotactl quotactl_fd swapon swapoff reboot syslog vhangup "
	  "setdomainname sethostname ioperm iopl",
	  EPERM, true, "administers the host" },
	{ "userfaultfd vmsplice process_madvise move_pages migrate_pages",
	  EPERM, false, "is the usual tool for winning races against the kernel" },
	{ "fanotify_init fanotify_mark", EPERM, false,
	  "watches whole file systems" },
};
const size_t seccomp_group_count = ARRAY_SIZE(seccomp_groups);

/* --- what a level changes ------------------------------------------------ */

const struct seccomp_override seccomp_overrides[] = {
	{ LEVEL_STRICT, EPERM, "socket bind connect listen accept accept4",
	  "strict has no sockets but pairs" },
	/* A datagram pair can still send to any address by name. */
	{ LEVEL_STRICT, CHECK_SOCKETPAIR_STREAM, "socketpair",
	  "strict has no sockets but connected pairs" },
	{ LEVEL_DEBUG, ALLOW, "ptrace process_vm_readv process_vm_writev kcmp",
	  "debuggers need them" },
	{ LEVEL_DEBUG, CHECK_PERSONALITY_DEBUG, "personality",
	  "gdb switches address randomisation off" },
	{ LEVEL_AUDIT, CHECK_PERSONALITY_LOG, "personality",
	  "audit logs what could be lifted" },
};
const size_t seccomp_override_count = ARRAY_SIZE(seccomp_overrides);

/* --- a box without namespaces --------------------------------------------- */

/*
 * What namespaces bound elsewhere, and Landlock does not know of. It is stacked on the
 * filter of the level. Signals, ptrace and descriptors in /proc are Landlock's.
 */
const struct seccomp_wall seccomp_walls[] = {
	{ "socket", EACCES, WALL_NO_SOCKETS, "reaches the host's network, and its sockets by name" },
	{ "socketpair", CHECK_SOCKETPAIR_STREAM, WALL_NO_SOCKETS,
	  "may make connected pairs only: a datagram pair can send to any name" },
	{ "bind connect listen accept accept4", EACCES, WALL_NO_SOCKETS, "names a socket of the host" },
	{ "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl "
	  "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
	  ENOSYS, WALL_ALWAYS, "is shared with all of the host's processes" },
	{ "prlimit64 sched_setaffinity sched_setparam sched_setscheduler sched_setattr",
	  CHECK_OWN_0, WALL_ALWAYS, "may change the caller alone, not other processes of its user" },
	{ "setpriority", CHECK_OWN_1, WALL_ALWAYS, "may change the caller alone" },
	{ "inotify_add_watch", EACCES, WALL_ALWAYS, "watches folders that cannot be read" },
	/* IOPRIO_WHO_* begin at 1. */
	{ "ioprio_set", EPERM, WALL_ALWAYS, "changes other processes of its user" },
	/* Init does it, for files in the run's own folder (runtime/init/modes.c). */
	{ "chmod fchmod fchmodat fchmodat2 utimensat", ANSWER_NOTIFY, WALL_SHARED,
	  "changes whatever its user owns, wherever that lies" },
	{ "file_setattr", EPERM, WALL_SHARED,
	  "changes whatever its user owns, wherever that lies" },
	{ "chown fchown lchown fchownat utime utimes futimesat", EPERM, WALL_SHARED,
	  "changes whatever its user owns, wherever that lies" },
	{ "ioctl", CHECK_HELD_IOCTL, WALL_SHARED,
	  "changes files of its user that are open for reading" },
	/* Init reads the payload's memory, and would wait for who serves a fault of it. */
	{ "userfaultfd", EPERM, WALL_SHARED, "could make init wait for the payload" },
	/* As where there are none: programs then copy modes alone. */
	{ "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr "
	  "removexattrat", EOPNOTSUPP, WALL_SHARED,
	  "changes whatever its user owns, wherever that lies" },
};
const size_t seccomp_wall_count = ARRAY_SIZE(seccomp_walls);

/* process.subprocesses is the way to say "no other program". */
const char seccomp_undeniable[] = "execve exit exit_group rt_sigreturn";

/* --- argument checks ----------------------------------------------------- */

#define EQ(n, v) { TEST_EQ, n, 0, v }
#define NE(n, v) { TEST_NE, n, 0, v }
#define EQ_MASKED(n, m, v) { TEST_EQ, n, m, v }
#define NE_MASKED(n, m, v) { TEST_NE, n, m, v }
#define ANY_BIT(n, v) { TEST_ANY_BIT, n, 0, v }

/* For clone, bit 0x80 belongs to the exit signal, not to CLONE_NEWTIME. */
#define NEW_NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
			CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const struct seccomp_clause clone_clauses[] = {
	{ { ANY_BIT(0, NEW_NAMESPACES) }, EPERM },
};

static const struct seccomp_clause unshare_clauses[] = {
	{ { ANY_BIT(0, NEW_NAMESPACES | CLONE_NEWTIME) }, EPERM },
};

static const struct seccomp_clause thread_clauses[] = {
	{ { ANY_BIT(0, CLONE_THREAD) }, ALLOW },
};

/*
 * Within INET the rare protocols (DCCP, SCTP, UDP-Lite, L2TP, SMC) are modules that
 * socket() loads on demand; type 10 is the old way into packet sockets. Raw answers
 * what a caller without CAP_NET_RAW gets. SOCK_TYPE_MASK is 0xf.
 */
static const struct seccomp_clause socket_clauses[] = {
	{ { EQ(0, AF_UNIX) }, ALLOW },
	{ { EQ(0, AF_NETLINK), EQ(2, NETLINK_ROUTE) }, ALLOW },
	{ { EQ(0, AF_NETLINK) }, EPROTONOSUPPORT },
	{ { NE(0, AF_INET), NE(0, AF_INET6) }, EAFNOSUPPORT },
	{ { EQ_MASKED(1, 0xf, SOCK_RAW) }, EPERM },
	{ { NE_MASKED(1, 0xf, SOCK_STREAM), NE_MASKED(1, 0xf, SOCK_DGRAM) },
	  ESOCKTNOSUPPORT },
	{ { EQ(2, 0) }, ALLOW },
	{ { EQ(2, IPPROTO_TCP) }, ALLOW },
	{ { EQ(2, IPPROTO_UDP) }, ALLOW },
	{ { EQ(2, IPPROTO_ICMP) }, ALLOW },
	{ { EQ(2, IPPROTO_ICMPV6) }, ALLOW },
};

static const struct seccomp_clause socketpair_clauses[] = {
	{ { EQ(0, AF_UNIX) }, ALLOW },
};

static const struct seccomp_clause socketpair_stream_clauses[] = {
	{ { NE(0, AF_UNIX) }, EAFNOSUPPORT },
	{ { EQ_MASKED(1, 0xf, SOCK_STREAM) }, ALLOW },
	{ { EQ_MASKED(1, 0xf, SOCK_SEQPACKET) }, ALLOW },
};

/* espintcp and ESP in UDP: the way from a plain socket to the IPsec code. */
static const struct seccomp_clause setsockopt_clauses[] = {
	{ { EQ(1, IPPROTO_TCP), EQ(2, TCP_ULP) }, ENOPROTOOPT },
	{ { EQ(1, IPPROTO_UDP), EQ(2, UDP_ENCAP) }, ENOPROTOOPT },
};

static const struct seccomp_clause ioctl_clauses[] = {
	{ { EQ(1, TIOCSTI) }, EPERM },
	{ { EQ(1, TIOCLINUX) }, EPERM },
	{ { EQ(1, TIOCCONS) }, EPERM },
	{ { EQ(1, TIOCSETD) }, EPERM },
};

static const struct seccomp_clause personality_clauses[] = {
	{ { EQ(0, PER_LINUX) }, ALLOW },
	{ { EQ(0, 0xffffffffu) }, ALLOW },	/* the query */
	{ { EQ(0, ADDR_NO_RANDOMIZE) }, ALLOW }, /* of level debug only */
};

static const struct seccomp_clause seccomp_clauses[] = {
	{ { ANY_BIT(1, SECCOMP_FILTER_FLAG_NEW_LISTENER) }, EPERM },
};

#define SETID_BITS (S_ISUID | S_ISGID)
/* O_TMPFILE contains O_DIRECTORY, which alone creates nothing. */
#define CREATES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

static const struct seccomp_clause mode_1_clauses[] = {
	{ { ANY_BIT(1, SETID_BITS) }, EPERM },
};
static const struct seccomp_clause mode_2_clauses[] = {
	{ { ANY_BIT(2, SETID_BITS) }, EPERM },
};
/* Without O_CREAT the mode is whatever the register held. */
static const struct seccomp_clause open_1_clauses[] = {
	{ { ANY_BIT(1, CREATES), ANY_BIT(2, SETID_BITS) }, EPERM },
};
static const struct seccomp_clause open_2_clauses[] = {
	{ { ANY_BIT(2, CREATES), ANY_BIT(3, SETID_BITS) }, EPERM },
};
static const struct seccomp_clause mknod_1_clauses[] = {
	{ { ANY_BIT(1, SETID_BITS) }, EPERM },
	{ { EQ_MASKED(1, S_IFMT, S_IFCHR) }, EPERM },
	{ { EQ_MASKED(1, S_IFMT, S_IFBLK) }, EPERM },
};
static const struct seccomp_clause mknod_2_clauses[] = {
	{ { ANY_BIT(2, SETID_BITS) }, EPERM },
	{ { EQ_MASKED(2, S_IFMT, S_IFCHR) }, EPERM },
	{ { EQ_MASKED(2, S_IFMT, S_IFBLK) }, EPERM },
};

static const struct seccomp_clause setrlimit_clauses[] = {
	{ { EQ(0, RLIMIT_CORE) }, ANSWER_PRETEND },
};
/* Only to ask is allowed: the new limit is NULL. */
static const struct seccomp_clause prlimit_clauses[] = {
	{ { EQ(1, RLIMIT_CORE), NE(2, 0) }, ANSWER_PRETEND },
	{ { EQ(1, RLIMIT_CORE), NE(2 | ARG_HIGH, 0) }, ANSWER_PRETEND },
};

static const struct seccomp_clause own_0_clauses[] = {
	{ { EQ(0, 0) }, ALLOW },
};
/* What takes a user, PRIO_USER or IOPRIO_WHO_USER, means all processes of the caller's. */
static const struct seccomp_clause own_1_clauses[] = {
	{ { NE(1, 0) }, EPERM },
	{ { EQ(0, PRIO_PROCESS) }, ALLOW },
	{ { EQ(0, PRIO_PGRP) }, ALLOW },
};

#define CHECK(id, rows, other) [id - CHECK_FIRST] = { rows, ARRAY_SIZE(rows), other }
#define CHECK_N(id, rows, n, other) [id - CHECK_FIRST] = { rows, n, other }

static const struct seccomp_check checks[CHECK_CALLS_FIRST - CHECK_FIRST] = {
	CHECK(CHECK_CLONE, clone_clauses, ALLOW),
	CHECK(CHECK_UNSHARE, unshare_clauses, ALLOW),
	CHECK(CHECK_THREAD, thread_clauses, EPERM),
	CHECK(CHECK_SOCKET, socket_clauses, EPROTONOSUPPORT),
	CHECK(CHECK_SOCKETPAIR, socketpair_clauses, EAFNOSUPPORT),
	CHECK(CHECK_SOCKETPAIR_STREAM, socketpair_stream_clauses, EPERM),
	CHECK(CHECK_SETSOCKOPT, setsockopt_clauses, ALLOW),
	CHECK(CHECK_IOCTL, ioctl_clauses, ALLOW),
	CHECK_N(CHECK_PERSONALITY, personality_clauses, 2, EPERM),
	CHECK_N(CHECK_PERSONALITY_DEBUG, personality_clauses, 3, EPERM),
	CHECK_N(CHECK_PERSONALITY_LOG, personality_clauses, 2, ANSWER_LOG),
	CHECK(CHECK_SECCOMP, seccomp_clauses, ALLOW),
	CHECK(CHECK_MODE_1, mode_1_clauses, ALLOW),
	CHECK(CHECK_MODE_2, mode_2_clauses, ALLOW),
	CHECK(CHECK_OPEN_1, open_1_clauses, ALLOW),
	CHECK(CHECK_OPEN_2, open_2_clauses, ALLOW),
	CHECK(CHECK_MKNOD_1, mknod_1_clauses, ALLOW),
	CHECK(CHECK_MKNOD_2, mknod_2_clauses, ALLOW),
	CHECK(CHECK_SETRLIMIT, setrlimit_clauses, ALLOW),
	CHECK(CHECK_PRLIMIT, prlimit_clauses, ALLOW),
	CHECK(CHECK_OWN_0, own_0_clauses, EPERM),
	CHECK(CHECK_OWN_1, own_1_clauses, EPERM),
};

const struct seccomp_check *seccomp_check_of(uint16_t answer)
{
	if (!answer_is_check(answer))
		return NULL;
	return answer < CHECK_CALLS_FIRST ? &checks[answer - CHECK_FIRST]
					  : seccomp_calls_check(answer);
}
