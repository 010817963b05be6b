/*
 * launch.c - the launcher's half of the stages: clone, idmap, cgroup, handshake
 *
 * Runs in the caller's thread. The child shares this process's memory until init is
 * executed, so everything it reads lives until then, and all signals are blocked while
 * it is made: a handler of the caller must not run in the child.
 *
 * Must:    treat a short, wrong or missing message as failure; leave nothing behind on
 *          failure (the child is killed and reaped).
 * Mustn't: change anything of the caller that another thread could see.
 */
#include "runtime/launch.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/child.h"
#include "runtime/dumpable.h"
#include "runtime/fault.h"
#include "runtime/hints.h"
#include "runtime/idmap.h"
#include "runtime/kernel.h"
#include "runtime/stage.h"
#include "runtime/sys.h"
#include "runtime/walls.h"
#include "runtime/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { STACK_SIZE = 64 * 1024, GUARD_SIZE = 4096 };

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | \
		    CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* --------------------------------------------------------------- stage clone -- */

struct clone_attempt {
	uint64_t flags;
	int cgroup_fd;
};

static long clone_once(struct child_args *a, char *stack, struct clone_attempt *try, int *pidfd)
{
	struct clone_args args = {
		.flags = try->flags | CLONE_VM | CLONE_PIDFD,
		.pidfd = (uintptr_t)pidfd,
		.stack = (uintptr_t)stack,
		.stack_size = STACK_SIZE,
		.cgroup = try->cgroup_fd >= 0 ? (uint64_t)try->cgroup_fd : 0,
	};
	long r;

	if (try->cgroup_fd >= 0)
		args.flags |= CLONE_INTO_CGROUP;
	r = sys_clone3_on(&args, sizeof(args), child_main, a);
	if (r != -ENOSYS)
		return r;
	/* An outer filter hides clone3: clone has no room for the newer flags, so this
	 * child is born in the launcher's cgroup and must be moved. */
	try->cgroup_fd = -1;
	return sys_clone_on((unsigned long)((try->flags & ~(uint64_t)CLONE_NEWTIME) | CLONE_VM |
					    CLONE_PIDFD),
			    stack + STACK_SIZE, pidfd, child_main, a);
}

/*
 * The time namespace needs CONFIG_TIME_NS; CLONE_INTO_CGROUP needs write access to the
 * common ancestor's cgroup.procs. Neither is a wall: without them the next attempt.
 */
static long clone_child(struct child_args *a, char *stack, int cgroup_fd, struct live *l,
			bool *in_cgroup)
{
	const bool is_plain = l->is_plain;
	const uint64_t namespaces = is_plain ? 0 : NAMESPACES;
	struct clone_attempt attempts[] = {
		{ is_plain ? 0 : NAMESPACES | CLONE_NEWTIME, cgroup_fd },
		{ namespaces, cgroup_fd },
		{ namespaces, -1 },
	};
	long r = -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		r = clone_once(a, stack, &attempts[i], &l->pidfd);
		*in_cgroup = attempts[i].cgroup_fd >= 0;
		if (r >= 0 || (r != -EINVAL && r != -EACCES && r != -EPERM && r != -EOPNOTSUPP))
			break;
	}
	return r;
}

/*
 * Raw setgroups(2) changes this thread alone (libc's would change all): the child is
 * born without the caller's supplementary groups, or not at all. An ordinary caller may
 * not drop them; in the box they then show as the overflow group.
 */
struct groups {
	gid_t *v;
	int n;
};

/* Root of a user namespace that an ordinary user made may not drop groups either. */
static bool setgroups_is_denied(void)
{
	struct buf text = BUF_INIT(16);
	bool is_denied = fd_read_file(AT_FDCWD, "/proc/self/setgroups", &text) == 0 &&
			 strncmp(buf_text(&text), "deny", 4) == 0;

	buf_free(&text);
	return is_denied;
}

static long drop_groups(const struct identity *id, struct groups *saved)
{
	int n = id->may_map ? getgroups(0, NULL) : 0;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	saved->v = calloc((size_t)n, sizeof(gid_t));
	if (!saved->v)
		return -ENOMEM;
	if (getgroups(n, saved->v) != n)
		return -errno;
	if (syscall(SYS_setgroups, 0, NULL) < 0)
		return errno == EPERM && setgroups_is_denied() ? 0 : -errno;
	saved->n = n;
	return 0;
}

static void restore_groups(struct groups *saved)
{
	if (saved->n > 0)
		syscall(SYS_setgroups, (size_t)saved->n, saved->v);
	free(saved->v);
}

/* Where only systemd may move it, the kernel would refuse, after all the work of a
 * clone. */
static int cgroup_to_clone_into(const struct cgroup *c)
{
	return c && !c->scope ? c->fd : -1;
}

static long stage_clone(struct child_args *a, char *stack, const struct launch_request *r,
			struct live *l, bool *in_cgroup)
{
	const uint64_t all = ~(uint64_t)0;
	struct groups groups = { 0 };
	uint64_t saved;
	long pid;

	/* Raw as well: libc's mask leaves its own internal signals open. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &saved, sizeof(all));
	pid = r->is_plain && !r->is_walled ? 0 : drop_groups(r->id, &groups);
	if (pid == 0)
		pid = clone_child(a, stack, cgroup_to_clone_into(r->cgroup), l, in_cgroup);
	restore_groups(&groups);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &saved, NULL, sizeof(saved));
	return pid;
}

/* ----------------------------------------------------------------- handshake -- */

/* A child that failed is gone before we have said all; why stands in what it left to be
 * read, so that is where to look (await_running). */
static bool is_gone(int error)
{
	return error == EPIPE || error == ECONNRESET;
}

static int send_go(int sock, struct nsbox_error *err)
{
	const struct wire_msg go = { .magic = WIRE_MAGIC, .type = WIRE_GO,
				     .stage = STAGE_cgroup, .op = -1 };

	if (send(sock, &go, sizeof(go), MSG_NOSIGNAL) == (ssize_t)sizeof(go) || is_gone(errno))
		return 0;
	return err_sys(err, "tell the child to go on");
}

static bool has_calls(const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->op_count; i++)
		if (plan_ops(plan)[i].kind == OP_CALLS)
			return true;
	return false;
}

static int send_start(int sock, const struct launch_request *r, struct nsbox_error *err)
{
	struct wire_start start = {
		.head = { .magic = WIRE_MAGIC, .type = WIRE_START, .stage = STAGE_init, .op = -1 },
		.flags = (r->tty ? (uint32_t)WIRE_START_TTY : 0) |
			 (r->channel >= 0 ? (uint32_t)WIRE_START_CHANNEL : 0) |
			 (r->is_plain ? (uint32_t)WIRE_START_TREE : 0) |
			 (r->is_walled ? (uint32_t)WIRE_START_WALLS : 0) |
			 (r->is_held ? (uint32_t)WIRE_START_HELD : 0) |
			 (has_calls(r->plan) ? (uint32_t)WIRE_START_CALLS : 0),
		.filter_len = r->payload_filter ? (uint32_t)r->payload_filter->count : 0,
	};
	const size_t filter_size = start.filter_len * sizeof(struct sock_filter);
	struct iovec iov[3] = {
		{ &start, sizeof(start) },
		{ filter_size ? r->payload_filter->insn : NULL, filter_size },
		{ (char *)(uintptr_t)r->place, r->place ? strlen(r->place) + 1 : 0 },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };

	start.place_len = (uint32_t)iov[2].iov_len;
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0 || is_gone(errno))
		return 0;
	return err_sys(err, "tell init what to start");
}

struct packet {
	struct wire_msg head;
	char rest[sizeof(struct wire_exit)];
	ssize_t len;
	int fds[WIRE_FDS_MAX];	/* received with it */
	size_t fd_count;
};

static void take_fds(struct packet *p, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);

	p->fd_count = 0;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	p->fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(p->fds, CMSG_DATA(c), p->fd_count * sizeof(int));
}

/* One packet, or a failure: EOF, a wrong magic and a deadline all are. */
static int receive(int sock, int deadline_ms, struct packet *p, struct nsbox_error *err)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov[2] = { { &p->head, sizeof(p->head) }, { p->rest, sizeof(p->rest) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	int ready;

	p->fd_count = 0;
	do {
		ready = poll(&pfd, 1, deadline_ms);
	} while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return err_set(err, NSBOX_E_SETUP, "no answer from the child within %d ms",
			       deadline_ms);
	p->len = ready < 0 ? -1 : recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	/* ECONNRESET: the child died with a message of ours unread; its own last word is
	 * still there, behind that error. */
	if (p->len < 0 && ready > 0 && errno == ECONNRESET)
		p->len = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (p->len < 0 && errno != ECONNRESET)
		return err_sys(err, "hear from the child");
	if (p->len < (ssize_t)sizeof(p->head) || p->head.magic != WIRE_MAGIC)
		return err_set(err, NSBOX_E_SETUP, "the child died without a word");
	take_fds(p, &msg);
	return 0;
}

/* The bits of op say which trees they are, in order. */
static size_t keep_trees(struct live *l, const struct packet *p)
{
	size_t n = 0;

	for (unsigned i = 0; i < TREES_MAX && n < p->fd_count; i++)
		if ((uint32_t)p->head.op & 1u << i && l->trees[i] < 0)
			l->trees[i] = p->fds[n++];
	return n;
}

static size_t keep_one(struct live *l, const struct packet *p)
{
	int *slot = p->head.value == WIRE_TAG_WORK ? &l->work_fd
		  : p->head.value == WIRE_TAG_PTY      ? &l->pty
		  : p->head.value == WIRE_TAG_SEGMENTS ? &l->segments
		  : p->head.value == WIRE_TAG_LISTENER ? &l->listener
						       : NULL;

	if (!slot || *slot >= 0 || !p->fd_count)
		return 0;
	*slot = p->fds[0];
	return 1;
}

/* How many packets the plan's operations on the network will send. */
static unsigned network_packets(const struct plan *plan)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan_ops(plan)[i];

		if (op->kind == OP_INLET || op->kind == OP_CALLS)
			n++;
		else if (op->kind == OP_POOL)
			n += (op->n + WIRE_FDS_MAX - 1) / WIRE_FDS_MAX;
		else if (op->kind == OP_PORTS)
			n += (op->blob_len / sizeof(uint16_t) + WIRE_FDS_MAX - 1) / WIRE_FDS_MAX;
	}
	return (unsigned)n;
}

static bool is_network(const struct packet *p)
{
	return p->head.value == WIRE_TAG_INLET || p->head.value == WIRE_TAG_PORTS ||
	       p->head.value == WIRE_TAG_POOL || p->head.value == WIRE_TAG_CALLS;
}

/* Fewer descriptors than the bits say: the caller is out of them (recvmsg drops the rest
 * without an error). A box with half a network is none. */
static int hand_on(const struct launch_request *r, const struct packet *p,
		   struct nsbox_error *err)
{
	unsigned bits = (unsigned)p->head.op;
	int code;

	if (!p->fd_count || (size_t)__builtin_popcount(bits) != p->fd_count) {
		err_hint(err, "raise the limit on open files (ulimit -n)");
		code = err_set(err, NSBOX_E_SETUP, "the box's sockets did not all arrive");
	} else {
		code = r->network(r->network_arg, (unsigned)p->head.value, bits, p->fds,
				  p->fd_count, err);
	}
	for (size_t i = 0; i < p->fd_count; i++)
		close(p->fds[i]);
	if (code < 0)
		err_stage(err, stage_name(STAGE_network));
	return code < 0 ? code : 0;
}

static void keep_fds(struct live *l, const struct packet *p)
{
	size_t kept = p->head.value == WIRE_TAG_TREES ? keep_trees(l, p) : keep_one(l, p);

	for (size_t i = kept; i < p->fd_count; i++)
		close(p->fds[i]);
}

static int setup_failed(const struct launch_request *r, const struct packet *p, int *failed_op,
			struct nsbox_error *err)
{
	*failed_op = p->head.op;
	err_stage(err, stage_name(p->head.stage));
	return hints_setup(err, r->plan, p->head.op, p->head.value);
}

/* A descriptor of the child's. The last packet of the network lets the payload start. */
static int take_packet(const struct launch_request *r, struct live *l, const struct packet *p,
		       unsigned *pending, struct nsbox_error *err)
{
	int code;

	if (!is_network(p) || !*pending) {
		keep_fds(l, p);
		return 0;
	}
	code = hand_on(r, p, err);
	if (code < 0 || --*pending)
		return code;
	code = r->network(r->network_arg, 0, 0, NULL, 0, err);
	if (code < 0)
		err_stage(err, stage_name(STAGE_network));
	return code < 0 ? code : send_start(l->sock, r, err);
}

/* Until RUNNING (0) or the failed exec of the payload (1); all else is a descriptor or
 * the end. @pending packets of the network come before init is told to start. */
static int await_running(const struct launch_request *r, struct live *l, unsigned pending,
			 int *failed_op, struct nsbox_error *err)
{
	for (;;) {
		struct packet p;
		int code = receive(l->sock, r->deadline_ms, &p, err);

		if (code < 0)
			return code;
		switch (p.head.type) {
		case WIRE_FD:
			code = take_packet(r, l, &p, &pending, err);
			if (code < 0)
				return code;
			continue;
		case WIRE_RUNNING:
			if (p.head.stage == STAGE_exec)
				return 0;
			break;
		case WIRE_FAIL:
			if (p.head.stage == STAGE_exec) {
				l->exec_errno = p.head.value;
				return 1;
			}
			return setup_failed(r, &p, failed_op, err);
		}
		return err_set(err, NSBOX_E_SETUP, "message %u of stage %u was not expected",
			       p.head.type, p.head.stage);
	}
}

/* -------------------------------------------------------------------- launch -- */

static int clone_failed(long r, struct nsbox_error *err)
{
	err_stage(err, stage_name(STAGE_clone));
	return hints_clone(err, (int)-r);
}

struct attempt { /* what the stages of one launch work on */
	const struct launch_request *r;
	struct child_args args;
	struct live live;
	int child_sock, failed_op;
	bool in_cgroup;
};

static int parent_stages(struct attempt *t, struct nsbox_error *err)
{
	const struct cgroup *cgroup = t->r->cgroup;
	int code;

	fault_parent(STAGE_clone);
	t->args.own_uid = t->live.uid;
	t->args.own_gid = t->live.gid;
	code = t->r->gives_place ? walls_give(t->r->place, t->live.uid, t->live.gid, err)
	       : t->r->is_plain ? 0 : stage_idmap(t->r, &t->live, err);
	if (code < 0) {
		err_stage(err, stage_name(STAGE_idmap));
		return code;
	}
	fault_parent(STAGE_idmap);
	if (cgroup && cgroup->fd >= 0 && !t->in_cgroup) {
		code = cgroup_join(cgroup, t->live.pid, err);
		if (code < 0)
			err_stage(err, stage_name(STAGE_cgroup));
		t->args.was_moved = !t->r->is_plain; /* it makes its cgroup namespace anew */
	}
	fault_parent(STAGE_cgroup);
	if (code >= 0 && t->r->connect) {
		code = t->r->connect(t->r->connect_arg, t->live.pid, err);
		if (code < 0)
			err_stage(err, stage_name(STAGE_network));
	}
	return code;
}

static int run_stages(struct attempt *t, struct nsbox_error *err)
{
	unsigned pending = network_packets(t->r->plan);
	int code = parent_stages(t, err);

	close(t->child_sock); /* so that the child's death is EOF here */
	if (code >= 0)
		code = send_go(t->live.sock, err);
	if (code >= 0 && !pending)
		code = send_start(t->live.sock, t->r, err);
	fault_watch(&t->args);
	if (code >= 0)
		code = await_running(t->r, &t->live, pending, &t->failed_op, err);
	fault_parent(STAGE_init);
	fault_parent(STAGE_exec);
	if (code < 0)
		err_stage(err, stage_name(t->args.stage)); /* how far it came: shared memory */
	return code;
}

static char *new_stack(void)
{
	char *p = mmap(NULL, STACK_SIZE + GUARD_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	mprotect(p, GUARD_SIZE, PROT_NONE);
	return p + GUARD_SIZE;
}

static void free_stack(char *stack)
{
	munmap(stack - GUARD_SIZE, STACK_SIZE + GUARD_SIZE);
}

static int launch_on(struct attempt *t, char *stack, struct nsbox_error *err)
{
	long pid = stage_clone(&t->args, stack, t->r, &t->live, &t->in_cgroup);
	int code;

	if (pid < 0) {
		close(t->child_sock);
		return clone_failed(pid, err);
	}
	t->live.pid = (pid_t)pid;
	t->live.uid = identity_uid(t->r->id, t->live.pid);
	t->live.gid = identity_gid(t->r->id, t->live.pid);
	code = run_stages(t, err);
	t->live.left_out = t->args.left_out;
	if (code != 0) {
		live_kill(&t->live);
		live_reap(&t->live, -1); /* before the stack goes: the child runs on it */
	}
	return code;
}

int launch(struct live *out, const struct launch_request *r, int *failed_op,
	   struct nsbox_error *err)
{
	struct attempt t = {
		.r = r, .failed_op = -1,
		.args = { .plan = r->plan, .in = r->in, .out = r->out, .err = r->err,
			  .init_fd = r->init_fd, .channel = r->channel, .calls = -1,
			  .argv = r->argv, .env = r->env,
			  .stage = STAGE_clone, .root_fd = -1 },
		.live = LIVE_INIT,
	};
	int pair[2], code;
	char *stack;

	if (!r->network && network_packets(r->plan))
		return err_set(err, NSBOX_E_USAGE, "the box has a network and nobody who serves it");
	t.live.is_plain = r->is_plain;
	fault_arm(&t.args);
	fault_parent(STAGE_prepare);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "make the handshake's socket pair");
	t.live.sock = t.args.launcher_sock = pair[0];
	t.child_sock = t.args.sock = pair[1];
	stack = new_stack();
	if (stack) {
		bool was_dumpable = dumpable_hold();

		code = launch_on(&t, stack, err);
		dumpable_release(was_dumpable);
		free_stack(stack);
	} else {
		close(pair[1]);
		code = err_nomem(err);
	}
	if (code != 0)
		live_close(&t.live);
	if (code >= 0)
		*out = t.live;
	*failed_op = t.failed_op;
	return code;
}
