/*
 * refuse WHAT[,WHAT...] -- CMD: run CMD on a kernel that lacks something.
 *
 * Stacks a seccomp filter, so that fallbacks and refusals are really run and not
 * only read: "newuser" is a host that forbids user namespaces (clone and unshare
 * with CLONE_NEWUSER: EPERM; clone3, whose flags a filter cannot see: ENOSYS);
 * "listener" is a caller that has taken the one place for a seccomp listener (EBUSY for
 * another); "capabilities" is Ubuntu's AppArmor restriction: everybody may make a user
 * namespace, and inside of it what needs a capability is refused, mounts with EACCES
 * and the rest with EPERM; "nftables" is a kernel without nf_tables (no netlink socket of
 * netfilter: EPROTONOSUPPORT); "ipv6" one that was started with ipv6.disable=1 (no socket
 * of that family: EAFNOSUPPORT); any other word is a call that an old kernel does not have
 * (ENOSYS).
 *
 * Runs before nsbox, as its parent. Must fail loudly on an unknown word: a wrapper
 * that refuses nothing would turn its suite green.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEWUSER 0x10000000
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#endif

static const struct { const char *word; int number; } missing[] = {
	{ "clone3", SYS_clone3 },
	{ "openat2", SYS_openat2 },
	{ "close_range", SYS_close_range },
	{ "landlock", SYS_landlock_create_ruleset },
	{ "mount_setattr", SYS_mount_setattr },
	{ "memfd_create", SYS_memfd_create },
	{ "pidfd_open", SYS_pidfd_open },
};

/* What a namespace's root does first. open_tree without OPEN_TREE_CLONE needs no
 * capability; nobody here asks for that. */
static const struct { int number, error; } privileged[] = {
	{ SYS_mount, EACCES },
	{ SYS_umount2, EACCES },
	{ SYS_pivot_root, EACCES },
	{ SYS_open_tree, EACCES },
	{ SYS_move_mount, EACCES },
	{ SYS_fsopen, EACCES },
	{ SYS_mount_setattr, EACCES },
	{ SYS_sethostname, EPERM },
	{ SYS_chroot, EPERM },
};

static int install(const struct sock_filter *insn, size_t count)
{
	struct sock_fprog prog = { (unsigned short)count, (struct sock_filter *)insn };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int refuse_call(int nr, int error)
{
	const struct sock_filter insn[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
		FAIL((unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(insn, sizeof(insn) / sizeof(*insn));
}

static int refuse_newuser(void)
{
	const struct sock_filter insn[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEWUSER, 0, 1),
		FAIL(EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return refuse_call(SYS_clone3, ENOSYS) ||
	       install(insn, sizeof(insn) / sizeof(*insn));
}

/* Held open for ever, by the program too: once it is closed the place is free again. */
static int take_listener(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &prog);

	return fd < 0 ? -1 : fcntl((int)fd, F_SETFD, 0);
}

static int refuse_interface_flags(void)
{
	const struct sock_filter insn[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		LOAD(args[1]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIOCSIFFLAGS, 0, 1),
		FAIL(EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(insn, sizeof(insn) / sizeof(*insn));
}

static int refuse_capabilities(void)
{
	for (size_t i = 0; i < sizeof(privileged) / sizeof(*privileged); i++)
		if (refuse_call(privileged[i].number, privileged[i].error))
			return -1;
	return refuse_interface_flags();
}

static int refuse_nftables(void)
{
	const struct sock_filter insn[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
		LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_NETFILTER, 0, 1),
		FAIL(EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(insn, sizeof(insn) / sizeof(*insn));
}

static int refuse_ipv6(void)
{
	const struct sock_filter insn[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
		FAIL(EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(insn, sizeof(insn) / sizeof(*insn));
}

static int refuse_word(const char *word)
{
	if (!strcmp(word, "listener"))
		return take_listener();
	if (!strcmp(word, "newuser"))
		return refuse_newuser();
	if (!strcmp(word, "capabilities"))
		return refuse_capabilities();
	if (!strcmp(word, "nftables"))
		return refuse_nftables();
	if (!strcmp(word, "ipv6"))
		return refuse_ipv6();
	for (size_t i = 0; i < sizeof(missing) / sizeof(*missing); i++)
		if (!strcmp(missing[i].word, word))
			return refuse_call(missing[i].number, ENOSYS);
	errno = EINVAL;
	return -1;
}

int main(int argc, char **argv)
{
	if (argc < 4 || strcmp(argv[2], "--")) {
		fprintf(stderr, "usage: refuse WHAT[,WHAT...] -- CMD [ARG...]\n");
		return 125;
	}
	/* no_new_privs: an ordinary user may not install a filter without it */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		perror("refuse: no_new_privs");
		return 125;
	}
	for (char *word = strtok(argv[1], ","); word; word = strtok(NULL, ",")) {
		if (refuse_word(word)) {
			fprintf(stderr, "refuse: %s: %s\n", word, strerror(errno));
			return 125;
		}
	}
	execvp(argv[3], argv + 3);
	fprintf(stderr, "refuse: %s: %s\n", argv[3], strerror(errno));
	return 125;
}
