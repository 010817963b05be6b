/*
 * child_lock.c - the child's operations on identity, limits and privileges
 *
 * Runs in the child under the rules of child.c. Each takes something away for good;
 * the plan's order is the order of the stages (runtime/stage.h).
 */
#include "runtime/child_ops.h"

#include "policy/landlock.h"
#include "runtime/kernel.h"
#include "runtime/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

long die_with_parent(void)
{
	return sys(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

long do_hostname(struct child_args *a, const struct op *op)
{
	const char *name = src_of(a, op);

	return sys(sethostname, name, length(name));
}

long do_loopback(struct child_args *a, const struct op *op)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	long s = sys(socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long r;

	(void)a;
	(void)op;
	if (s < 0)
		return s;
	r = sys(ioctl, (int)s, SIOCSIFFLAGS, &req);
	close_fd((int)s);
	return r;
}

/*
 * Uid 0 is not mapped in the box's user namespace, so leaving the unmapped id for
 * the box's own one is no "root becomes ordinary" transition, and the capabilities
 * that the mounts need stay until DROPCAPS.
 */
long do_ids(struct child_args *a, const struct op *op)
{
	long r = sys(setresgid, op->m, op->m, op->m);

	(void)a;
	if (r >= 0)
		r = sys(setresuid, op->n, op->n, op->n);
	return r < 0 ? r : die_with_parent(); /* a change of ids clears it: prctl(2) */
}

/* The launcher took them from our pid, so that they are nobody else's (identity.h). */
long do_own_ids(struct child_args *a, const struct op *op)
{
	long r = sys(setresgid, a->own_gid, a->own_gid, a->own_gid);

	(void)op;
	if (r >= 0)
		r = sys(setresuid, a->own_uid, a->own_uid, a->own_uid);
	return r < 0 ? r : die_with_parent();
}

long do_session(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return sys(setsid);
}

long do_keyring(struct child_args *a, const struct op *op)
{
	long r = sys(keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0);

	(void)a;
	/* ENOSYS: a kernel without keys, or an outer filter that hides them: then
	 * there is nothing to inherit that the payload could reach either. */
	return r == -ENOSYS && (op->flags & OP_OPTIONAL) ? 0 : r;
}

long do_umask(struct child_args *a, const struct op *op)
{
	(void)a;
	return sys(umask, op->n);
}

long do_rlimit(struct child_args *a, const struct op *op)
{
	struct {
		uint64_t soft, hard;
	} limit = { op->n, op->m };

	(void)a;
	return sys(prlimit64, 0, op->flags, &limit, 0);
}

long do_nice(struct child_args *a, const struct op *op)
{
	(void)a;
	return sys(setpriority, PRIO_PROCESS, 0, (int)op->n);
}

long do_dropcaps(struct child_args *a, const struct op *op)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	long r;

	(void)a;
	r = sys(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r < 0)
		return r;
	/* EINVAL marks the end: the kernel knows no capability of that number. EPERM: a process
	 * without CAP_SETPCAP, in no user namespace of its own. What the bounding set bounds,
	 * it can never get: no_new_privs follows. */
	for (int cap = 0; cap < 64; cap++) {
		r = sys(prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (r == -EPERM && (op->flags & OP_OPTIONAL))
			break;
		if (r == -EINVAL && cap > CAP_CHECKPOINT_RESTORE)
			break;
		if (r < 0)
			return r;
	}
	return sys(capset, &head, none);
}

long do_nnp(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return sys(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Rows that LANDLOCK gathers; by themselves they change nothing. */
long do_landlock_path(struct child_args *a, const struct op *op)
{
	(void)a;
	(void)op;
	return 0;
}

static long add_landlock_rule(const struct child_args *a, int ruleset, const struct op *row)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = row->n };
	long fd = sys(openat, AT_FDCWD, src_of(a, row), O_PATH | O_CLOEXEC, 0);
	struct stat st;
	long r;

	if ((fd == -ENOENT || fd == -EACCES) && (row->flags & OP_OPTIONAL))
		return 0;
	if (fd < 0)
		return fd;
	rule.parent_fd = (int)fd;
	r = sys(fstat, (int)fd, &st);
	/* The kernel refuses rights of folders on a file with EINVAL. */
	if (r >= 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= LANDLOCK_FILE_RIGHTS;
	if (r >= 0)
		r = sys(landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	close_fd((int)fd);
	return r;
}

/* Rows belong to the next LANDLOCK alone. */
static uint32_t first_row(const struct op *ops, uint32_t at)
{
	while (at > 0 && ops[at - 1].kind != OP_LANDLOCK)
		at--;
	return at;
}

/* The kernel makes it close-on-exec, and init is still to come. */
static long keep_ruleset(int fd)
{
	return fd == BOX_FD_RULESET ? sys(fcntl, fd, F_SETFD, 0)
				    : sys(dup3, fd, BOX_FD_RULESET, 0);
}

long do_landlock(struct child_args *a, const struct op *op)
{
	const struct op *ops = plan_ops(a->plan);
	struct nsbox_landlock_ruleset attr = { .handled_access_fs = op->n,
					       .handled_access_net = op->m >> 32,
					       .scoped = op->m & 0xffffffff };
	/* A kernel below ABI 4 refuses the longer struct, even when it is zero. */
	size_t size = op->m ? sizeof(attr) : sizeof(attr.handled_access_fs);
	long ruleset = sys(landlock_create_ruleset, &attr, size, 0);
	const uint32_t at = a->op;
	long r = 0;

	if (ruleset < 0)
		return ruleset;
	for (uint32_t i = first_row(ops, at); i < at && r >= 0; i++) {
		a->op = i; /* what failed is the row */
		if (ops[i].kind == OP_LANDLOCK_PATH)
			r = add_landlock_rule(a, (int)ruleset, &ops[i]);
	}
	a->op = r < 0 ? a->op : at;
	if (r >= 0)
		r = op->flags & OP_KEEP ? keep_ruleset((int)ruleset)
					: sys(landlock_restrict_self, (int)ruleset, 0);
	if (!(op->flags & OP_KEEP) || ruleset != BOX_FD_RULESET)
		close_fd((int)ruleset);
	return r;
}

long do_seccomp(struct child_args *a, const struct op *op)
{
	struct sock_fprog prog = {
		.len = (unsigned short)(op->blob_len / sizeof(struct sock_filter)),
		.filter = (struct sock_filter *)((uintptr_t)a->plan + op->blob),
	};

	long r = sys(seccomp, SECCOMP_SET_MODE_FILTER, op->flags, &prog);
	int listener = (int)r;

	/* What the filter would kill for it asks the launcher about: who asks is held
	 * until the box is dead. Here the descriptor ends at once: whoever held it could
	 * answer, and let the call pass. */
	if (r < 0 || !(op->flags & SECCOMP_FILTER_FLAG_NEW_LISTENER))
		return r;
	r = child_send_fd(a, listener, (int)op->n);
	close_fd(listener);
	return r;
}
