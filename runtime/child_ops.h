/*
 * The runners of the plan's operations, one a row of OPS in policy/plan.h. All of them
 * run in the child, between clone() and the exec of init, under the rules of child.c:
 * raw system calls only. Each returns >= 0, or -errno.
 */
#ifndef RUNTIME_CHILD_OPS_H
#define RUNTIME_CHILD_OPS_H

#include "runtime/child.h"
#include "runtime/sys.h"

long do_calls(struct child_args *a, const struct op *op);
long do_private(struct child_args *a, const struct op *op);
long do_root(struct child_args *a, const struct op *op);
long do_dir(struct child_args *a, const struct op *op);
long do_symlink(struct child_args *a, const struct op *op);
long do_file(struct child_args *a, const struct op *op);
long do_bind(struct child_args *a, const struct op *op);
long do_attach(struct child_args *a, const struct op *op);
long do_tmpfs(struct child_args *a, const struct op *op);
long do_proc(struct child_args *a, const struct op *op);
long do_devpts(struct child_args *a, const struct op *op);
long do_mqueue(struct child_args *a, const struct op *op);
long do_mask(struct child_args *a, const struct op *op);
long do_readonly(struct child_args *a, const struct op *op);
long do_pivot(struct child_args *a, const struct op *op);
long do_chdir(struct child_args *a, const struct op *op);
long do_hostname(struct child_args *a, const struct op *op);
long do_loopback(struct child_args *a, const struct op *op);
long do_ids(struct child_args *a, const struct op *op);
long do_own_ids(struct child_args *a, const struct op *op);
long do_session(struct child_args *a, const struct op *op);
long do_keyring(struct child_args *a, const struct op *op);
long do_umask(struct child_args *a, const struct op *op);
long do_rlimit(struct child_args *a, const struct op *op);
long do_nice(struct child_args *a, const struct op *op);
long do_dropcaps(struct child_args *a, const struct op *op);
long do_nnp(struct child_args *a, const struct op *op);
long do_landlock(struct child_args *a, const struct op *op);
long do_landlock_path(struct child_args *a, const struct op *op);
long do_seccomp(struct child_args *a, const struct op *op);
long do_send_dir(struct child_args *a, const struct op *op);
long do_send_trees(struct child_args *a, const struct op *op);
long do_send_file(struct child_args *a, const struct op *op);
long do_pty(struct child_args *a, const struct op *op);
long do_fds(struct child_args *a, const struct op *op);
long do_netlink(struct child_args *a, const struct op *op);
long do_inlet(struct child_args *a, const struct op *op);
long do_pool(struct child_args *a, const struct op *op);
long do_ports(struct child_args *a, const struct op *op);

/* Pass a descriptor to the launcher; or up to WIRE_FDS_MAX of them in one packet. */
struct wire_msg;
long child_send_fd(const struct child_args *a, int fd, int tag);
long child_send_fds(const struct child_args *a, const struct wire_msg *msg, const int *fds,
		    size_t count);

/* Until init watches the handshake, the death of the launcher's thread is the child's:
 * it may be stuck in a mount while nobody is left to kill it. */
long die_with_parent(void);

static inline const char *src_of(const struct child_args *a, const struct op *op)
{
	return plan_str(a->plan, op->src);
}

static inline const char *dst_of(const struct child_args *a, const struct op *op)
{
	return plan_str(a->plan, op->dst);
}

static inline void close_fd(int fd)
{
	if (fd >= 0)
		sys(close, fd);
}

static inline size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

#endif
