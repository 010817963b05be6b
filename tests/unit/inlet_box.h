/*
 * A box's network for tests, made by the operations of the plan in a namespace of the
 * test's own. Each scene runs in a child and leaves what it saw in shared memory.
 */
#ifndef TESTS_UNIT_INLET_BOX_H
#define TESTS_UNIT_INLET_BOX_H

#include "policy/policy.h"
#include "runtime/assemble.h"
#include "runtime/child_ops.h"
#include "runtime/egress_wire.h"
#include "runtime/stage.h"
#include "runtime/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 20000, SEEN_MAX = 64 };

static struct seen {
	int n;			/* -1: the scene did not come to its end */
	struct { char what[80]; long value; } v[SEEN_MAX];
	char text[16384];
} *seen;

static inline void note(const char *what, long value)
{
	snprintf(seen->v[seen->n].what, sizeof(seen->v[0].what), "%s", what);
	seen->v[seen->n++].value = value;
}

static inline void expect(const char *what, long value)
{
	for (int i = 0; i < seen->n; i++)
		if (strcmp(seen->v[i].what, what) == 0) {
			if (seen->v[i].value != value)
				print_error("%s: %ld, expected %ld\n", what, seen->v[i].value, value);
			assert_int_equal(seen->v[i].value, value);
			return;
		}
	fail_msg("the scene never came to: %s", what);
}

/* ----------------------------------------------------------------------- a box -- */

static int inlet[INLET_FD_COUNT];

static inline void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(101);
	close(fd);
}

static inline void own_namespaces(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		_exit(102);
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

/* One packet of descriptors: how many, and which bits it speaks of. */
static inline int take_packet(int sock, int tag, int fds[WIRE_FDS_MAX], unsigned *bits)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} control;
	struct wire_msg m = { 0 };
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	int n;

	if (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(m) || m.value != tag ||
	    m.type != WIRE_FD || m.stage != STAGE_network || !CMSG_FIRSTHDR(&msg))
		return -1;
	n = (int)((CMSG_FIRSTHDR(&msg)->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), (size_t)n * sizeof(int));
	*bits = (unsigned)m.op;
	return n;
}

static inline struct plan *network_plan(const struct assemble_how *how)
{
	struct plan_builder b = { 0 };
	struct policy p = { 0 };

	if (policy_init(&p, NULL) < 0)
		_exit(103);
	p.net.mode = NET_FILTERED;
	if (assemble_network(&b, &p, how, NULL) < 0)
		_exit(104);
	policy_free(&p);
	return plan_freeze(&b, NULL);
}

static inline long run_op(struct child_args *a, const struct op *op)
{
	switch (op->kind) {
	case OP_LOOPBACK: return do_loopback(a, op);
	case OP_NETLINK: return do_netlink(a, op);
	case OP_INLET: return do_inlet(a, op);
	case OP_PORTS: return do_ports(a, op);
	case OP_POOL: return do_pool(a, op);
	}
	return -ENOSYS;
}

static inline int run_plan(const struct plan *plan)
{
	struct child_args a = { .plan = plan, .stage = STAGE_network };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		_exit(105);
	a.sock = pair[1];
	for (uint32_t i = 0; i < a.plan->op_count; i++) {
		long r = run_op(&a, &plan_ops(a.plan)[i]);

		if (r < 0) {
			print_error("operation %u (%s): %s\n", i, op_name(plan_ops(a.plan)[i].kind),
				    strerror((int)-r));
			_exit(106);
		}
	}
	close(pair[1]);
	return pair[0];
}

static inline void gated_inlet(void)
{
	const struct assemble_how how = { .inlet = INLET_GATED };
	int fds[WIRE_FDS_MAX], n = 0, sock;
	unsigned bits = 0;

	sock = run_plan(network_plan(&how));
	if (take_packet(sock, WIRE_TAG_INLET, fds, &bits) != __builtin_popcount(bits))
		_exit(107);
	for (int i = 0; i < INLET_FD_COUNT; i++)
		inlet[i] = bits & 1U << i ? fds[n++] : -1;
	note("sockets", (long)bits);
}

static inline void gated_box(void)
{
	own_namespaces();
	gated_inlet();
}

static inline void scene(void (*play)(void))
{
	pid_t pid;
	int status;

	memset(seen, 0, sizeof(*seen));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the next test, here */
		play();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ------------------------------------------------------------------- addresses -- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline union address address(const char *text, uint16_t port)
{
	union address a = { 0 };

	if (strchr(text, ':')) {
		a.v6.sin6_family = AF_INET6;
		a.v6.sin6_port = htons(port);
		inet_pton(AF_INET6, text, &a.v6.sin6_addr);
	} else {
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons(port);
		inet_pton(AF_INET, text, &a.v4.sin_addr);
	}
	return a;
}

static inline socklen_t size_of(const union address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static inline bool same_address(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET
		       ? a->v4.sin_port == b->v4.sin_port &&
				 a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
		       : a->v6.sin6_port == b->v6.sin6_port &&
				 memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, 16) == 0;
}

static inline bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, LONG_MS) == 1;
}

static inline int begin_connect(const char *text, uint16_t port)
{
	union address to = address(text, port);
	int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (connect(fd, &to.any, size_of(&to)) < 0 && errno != EINPROGRESS)
		_exit(110);
	return fd;
}

/* errno of a connect that ends */
static inline int connect_result(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int error = -1;

	if (poll(&p, 1, LONG_MS) != 1)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

static inline int server(const char *text, uint16_t port)
{
	union address at = address(text, port);
	int one = 1, fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &at.any, size_of(&at)) < 0 || listen(fd, 8) < 0)
		_exit(111);
	return fd;
}

static inline int run_inlet_tests(const struct CMUnitTest *tests, size_t n)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return 1;
	return _cmocka_run_group_tests("inlet", tests, n, NULL, NULL);
}

#endif
