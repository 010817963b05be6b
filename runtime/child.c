/*
 * child.c - the child between clone() and the exec of init
 *
 * Runs in memory shared with a thread of the caller (CLONE_VM), which may hold any
 * lock for ever as far as the child can tell, and shares that thread's TLS, errno
 * included. So: raw system calls only. No libc at all, no stack protector (its
 * canary lives in TLS). tests/abi/child.allowed lists every symbol that child*.o may
 * reference, and `make lint` compares. child_mount.c, child_lock.c and child_net.c have
 * most of the operations; here are the descriptors and the walk.
 *
 * Must:    do exactly what the plan says, in its order, stopping at the first
 *          failure; report {stage, op, errno}.
 * Mustn't: decide anything. A choice made here is one that no dry run shows.
 *
 * Privileges: every capability in the box's own user namespace until DROPCAPS, none
 * of the host's.
 */
#include "runtime/child_ops.h"

#include "runtime/kernel.h"
#include "runtime/stage.h"
#include "runtime/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#ifdef NSBOX_FAULTS
#include <time.h>
#endif

typedef long (*runner)(struct child_args *a, const struct op *op);

/* -------------------------------------------------------------- descriptors -- */

long child_send_fds(const struct child_args *a, const struct wire_msg *msg, const int *fds,
		    size_t count)
{
	struct iovec iov = { (void *)msg, sizeof(*msg) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(count * sizeof(int)),
				.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct msghdr head = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			       .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
	int *to = (int *)CMSG_DATA(&control.head);
	long r;

	for (size_t i = 0; i < count; i++)
		to[i] = fds[i];
	r = sys(sendmsg, a->sock, &head, MSG_NOSIGNAL);
	return r < 0 ? r : 0;
}

long child_send_fd(const struct child_args *a, int fd, int tag)
{
	const struct wire_msg msg = { .magic = WIRE_MAGIC, .type = WIRE_FD,
				      .stage = (uint16_t)a->stage, .op = -1, .value = tag };

	return child_send_fds(a, &msg, &fd, 1);
}

long do_send_dir(struct child_args *a, const struct op *op)
{
	long fd = sys(openat, AT_FDCWD, src_of(a, op), O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	long r;

	if (fd < 0)
		return fd;
	r = child_send_fd(a, (int)fd, (int)op->n);
	close_fd((int)fd);
	return r;
}

/* One that cannot be opened (a mask lies over it) is left out: its bit says so. */
long do_send_trees(struct child_args *a, const struct op *op)
{
	struct wire_msg msg = { .magic = WIRE_MAGIC, .type = WIRE_FD,
				.stage = (uint16_t)a->stage, .op = 0, .value = (int32_t)op->m };
	const char *path = (const char *)a->plan + op->blob;
	int fds[WIRE_FDS_MAX];
	size_t n = 0;
	long r = 0;

	for (unsigned i = 0; i < op->n && i < WIRE_FDS_MAX; i++) {
		long fd = sys(openat, AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

		path += length(path) + 1;
		if (fd < 0)
			continue;
		msg.op |= 1 << i;
		fds[n++] = (int)fd;
	}
	if (n)
		r = child_send_fds(a, &msg, fds, n);
	while (n)
		close_fd(fds[--n]);
	return r;
}

long do_send_file(struct child_args *a, const struct op *op)
{
	long fd = sys(openat, AT_FDCWD, src_of(a, op), O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
	long r;

	if (fd < 0)
		return op->flags & OP_OPTIONAL ? 0 : fd;
	r = child_send_fd(a, (int)fd, (int)op->n);
	close_fd((int)fd);
	return r;
}

long do_pty(struct child_args *a, const struct op *op)
{
	struct winsize size = { .ws_row = (unsigned short)op->n,
				.ws_col = (unsigned short)op->m };
	int unlock = 0;
	long master = sys(openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
	long slave, r;

	if (master < 0)
		return master;
	r = sys(ioctl, (int)master, TIOCSPTLCK, &unlock);
	if (r >= 0)
		r = sys(ioctl, (int)master, TIOCSWINSZ, &size);
	slave = r < 0 ? r : sys(ioctl, (int)master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return slave;
	a->in = a->out = a->err = (int)slave;
	r = child_send_fd(a, (int)master, (int)WIRE_TAG_PTY);
	close_fd((int)master);
	return r;
}

static long move_up(int *fd)
{
	long r = sys(fcntl, *fd, F_DUPFD_CLOEXEC, 16);

	if (r >= 0)
		*fd = (int)r;
	return r;
}

/*
 * 0, 1, 2 are the payload's streams, 3 the handshake, 4 init, 5 the channel, 7 the pair of
 * OP_CALLS; all else is closed. Sources are first copied out of the way: any of them may be
 * one of the targets.
 */
long do_fds(struct child_args *a, const struct op *op)
{
	static const int nobody = -1;
	int *const from[] = { &a->in, &a->out, &a->err, &a->sock, &a->init_fd, &a->channel,
			      (int *)&nobody, &a->calls };
	const unsigned n = sizeof(from) / sizeof(from[0]);
	long r;

	(void)op;
	for (unsigned i = 0; i < n; i++) {
		/* The box's own /dev/null, not the host's: it can be opened again by name. */
		if (i <= BOX_FD_INIT && *from[i] < 0)
			*from[i] = (int)sys(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
		if (i <= BOX_FD_INIT && *from[i] < 0)
			return *from[i];
		r = *from[i] < 0 ? 0 : move_up(from[i]);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < n; i++) {
		r = *from[i] < 0 ? sys(close, i)
				 : sys(dup3, *from[i], (int)i, i == BOX_FD_INIT ? O_CLOEXEC : 0);
		if (r < 0 && r != -EBADF)
			return r;
		if (*from[i] >= 0)
			*from[i] = (int)i;
	}
	return sys(close_range, n, ~0U, 0);
}

/* ------------------------------------------------------------------- walking -- */

static const runner runners[OP_COUNT] = {
	[OP_PRIVATE] = do_private,   [OP_ROOT] = do_root,	  [OP_DIR] = do_dir,
	[OP_SYMLINK] = do_symlink,   [OP_FILE] = do_file,	  [OP_BIND] = do_bind,
	[OP_ATTACH] = do_attach,     [OP_TMPFS] = do_tmpfs,	  [OP_PROC] = do_proc,
	[OP_DEVPTS] = do_devpts,     [OP_MQUEUE] = do_mqueue,	  [OP_MASK] = do_mask,
	[OP_READONLY] = do_readonly, [OP_PIVOT] = do_pivot,	  [OP_CHDIR] = do_chdir,
	[OP_HOSTNAME] = do_hostname, [OP_LOOPBACK] = do_loopback, [OP_IDS] = do_ids,
	[OP_SESSION] = do_session,   [OP_KEYRING] = do_keyring,	  [OP_UMASK] = do_umask,
	[OP_RLIMIT] = do_rlimit,     [OP_NICE] = do_nice,	  [OP_DROPCAPS] = do_dropcaps,
	[OP_NNP] = do_nnp,		  [OP_LANDLOCK] = do_landlock,
	[OP_LANDLOCK_PATH] = do_landlock_path,			  [OP_SECCOMP] = do_seccomp,
	[OP_SEND_DIR] = do_send_dir, [OP_SEND_TREES] = do_send_trees,
	[OP_SEND_FILE] = do_send_file,
	[OP_PTY] = do_pty,	     [OP_FDS] = do_fds,		  [OP_NETLINK] = do_netlink,
	[OP_CALLS] = do_calls,
	[OP_INLET] = do_inlet,	     [OP_POOL] = do_pool,	  [OP_PORTS] = do_ports,
};

static void __attribute__((noreturn)) give_up(const struct child_args *a, long error)
{
	struct wire_msg msg = { .magic = WIRE_MAGIC, .type = WIRE_FAIL,
				.stage = (uint16_t)a->stage, .op = (int32_t)a->op,
				.value = (int32_t)-error };

	sys(sendto, a->sock, &msg, sizeof(msg), MSG_NOSIGNAL, 0, 0);
	for (;;)
		sys(exit_group, 125);
}

#ifdef NSBOX_FAULTS
static const long a_moment[2] = { 0, 100000000 }, a_second[2] = { 1, 0 }; /* struct timespec */

/* Fault build: fail operation n, or stop or die once a stage is done. */
static long inject(struct child_args *a, uint32_t op, uint32_t next_stage)
{
	if (a->fault_op == op && a->fault_errno)
		return -a->fault_errno;
	if (a->fault_op != UINT32_MAX || a->fault_stage != a->stage || next_stage == a->stage)
		return 0;
	if (a->fault_action == FAULT_KILL_CHILD)
		sys(exit_group, 137);
	if (a->fault_action == FAULT_PAUSE_CHILD)
		sys(ppoll, 0, 0, a_second, 0, 0);
	if (a->fault_action == FAULT_STOP_CHILD || a->fault_action == FAULT_KILL_PARENT) {
		a->fault_hit = 1;
		for (;;)
			sys(ppoll, 0, 0, 0, 0, 0);
	}
	return 0;
}
#endif

/* The parent's stages must be done, and the message must say so exactly. */
static void wait_for_go(const struct child_args *a)
{
	struct wire_msg msg;
	long n;

	do {
		n = sys(recvfrom, a->sock, &msg, sizeof(msg), 0, 0, 0);
	} while (n == -EINTR);
	if (n != sizeof(msg) || msg.magic != WIRE_MAGIC || msg.type != WIRE_GO ||
	    msg.stage != STAGE_cgroup)
		give_up(a, n < 0 ? n : -EPROTO);
}

/* A cgroup namespace shows paths from where its maker was: made at birth, that was the
 * launcher's cgroup, and the names around it would be seen from the box. */
enum { NEW_CGROUP = 0x02000000 }; /* CLONE_NEWCGROUP: sched.h wants a libc */

static long leave_cgroup_of_launcher(void)
{
	return sys(unshare, NEW_CGROUP);
}

void child_main(void *args)
{
	struct child_args *a = args;
	const struct op *ops = plan_ops(a->plan);
	long r;

	a->stage = STAGE_cgroup;
	/* With our copy open, the death of a launcher that died before the next line
	 * would not be EOF: we should wait for its word for ever. */
	close_fd(a->launcher_sock);
#ifdef NSBOX_FAULTS
	if (a->fault_action == FAULT_KILL_PARENT && a->fault_stage == STAGE_clone)
		sys(ppoll, 0, 0, a_moment, 0, 0);
#endif
	r = die_with_parent();
	if (r < 0)
		give_up(a, r);
	wait_for_go(a);
	if (a->was_moved) {
		r = leave_cgroup_of_launcher();
		if (r < 0)
			give_up(a, r);
	}
	for (uint32_t i = 0; i < a->plan->op_count; i++) {
		a->stage = ops[i].stage;
		a->op = i;
		r = runners[ops[i].kind](a, &ops[i]);
#ifdef NSBOX_FAULTS
		if (r >= 0)
			r = inject(a, i, i + 1 < a->plan->op_count ? ops[i + 1].stage
								   : STAGE_COUNT);
#endif
		if (r < 0)
			give_up(a, r);
	}
	a->stage = STAGE_init;
	a->op = a->plan->op_count;
	r = sys(execveat, a->init_fd, "", a->argv, a->env, AT_EMPTY_PATH);
	give_up(a, r);
}
