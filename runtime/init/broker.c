/*
 * broker.c - see broker.h. Runs in init, outside of the payload's lockdown.
 *
 * A call that is held cannot end before it is answered, unless its thread is killed. What is
 * read of the payload's memory is read once and then judged by the supervisor from that copy:
 * another thread that changes it meanwhile changes nothing. Whose memory, and whose
 * descriptors, is known from the number of the thread, which is that thread's for as long as
 * the kernel says that the notification is valid: so that is asked after the last look.
 *
 * The socket is looked for in the table of the thread's descriptors, and may have been exchanged
 * by then. That does not matter: what is done is done on the copy, and only to sockets of the
 * supervisor's own making; what is passed on to the kernel has no address that matters
 * (policy/seccomp_calls.c).
 *
 * Must:    never wait: not for the supervisor, not for the payload; answer ENETDOWN once the
 *          supervisor is gone.
 * Mustn't: pass connect, bind, listen or socket on to the kernel.
 */
#include "runtime/init/broker.h"

#include "runtime/calls_wire.h"
#include "runtime/init/modes.h"
#include "runtime/init/notice.h"
#include "runtime/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

enum { AT_A_TIME = 64 };	/* notifications of one turn */

struct broker {
	int listener, sock;	/* -1: over */
	long looked_ms;		/* when look_around() did */
	unsigned used;		/* of `waiting`: all that is in use is below */
	struct notice waiting[BROKER_WAITING];
};

static struct broker the_broker;
static struct {
	struct calls_ask head;
	unsigned char body[CALLS_NAME_MAX + CALLS_DATA_MAX];
} out __attribute__((aligned(8)));
static struct {
	struct calls_answer head;
	unsigned char body[CALLS_NAME_MAX + CALLS_DATA_MAX + 1];
} in __attribute__((aligned(8)));
/* Larger than the kernel's own structs may one day be: it zeroes and fills what it knows. */
static union {
	struct seccomp_notif now;
	char room[512];
} notification __attribute__((aligned(8)));

/* -------------------------------------------------------------------- answers -- */

/* SIGSTOP to init and a freeze of its cgroup interrupt the wait for the listener's lock: an
 * answer given up then would leave a thread waiting for ever. */
static long listener(const struct broker *b, unsigned long request, const void *arg)
{
	long r;

	do {
		r = sys(ioctl, b->listener, request, arg);
	} while (r == -EINTR);
	return r;
}

static void say(const struct broker *b, const struct seccomp_notif_resp *resp)
{
	/* ENOENT: who asked is dead. */
	listener(b, SECCOMP_IOCTL_NOTIF_SEND, resp);
}

static void fail(const struct broker *b, uint64_t id, int error)
{
	const struct seccomp_notif_resp resp = { .id = id, .error = -error };

	say(b, &resp);
}

static void succeed(const struct broker *b, uint64_t id, long value)
{
	const struct seccomp_notif_resp resp = { .id = id, .val = value };

	say(b, &resp);
}

static void pass(const struct broker *b, uint64_t id)
{
	const struct seccomp_notif_resp resp = { .id = id,
						 .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

	say(b, &resp);
}

static void forget(struct broker *b, struct notice *n)
{
	if (n->mem >= 0)
		sys(close, n->mem);
	if (n->fd >= 0)
		sys(close, n->fd);
	n->is_used = 0;
	n->mem = n->fd = -1;
	while (b->used && !b->waiting[b->used - 1].is_used)
		b->used--;
}

static int is_valid(const struct broker *b, uint64_t id)
{
	return listener(b, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) >= 0;
}

/* ------------------------------------------------------------------- asking -- */

static struct notice *free_notice(struct broker *b)
{
	for (unsigned i = 0; i < BROKER_WAITING; i++) {
		struct notice *n = &b->waiting[i];

		if (n->is_used)
			continue;
		if (i >= b->used)
			b->used = i + 1;
		*n = (struct notice){ .is_used = 1, .mem = -1, .fd = -1 };
		return n;
	}
	return 0;
}

static long ask(const struct broker *b, const struct calls_ask *head, const void *body, int fd)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)head, sizeof(*head) },
				{ (void *)(uintptr_t)body, head->name_len + head->size } };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (fd >= 0) {
		*(int *)CMSG_DATA(&control.head) = fd;
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	return sys(sendmsg, b->sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What the notice needs to know of the call: 0, or an errno to answer. */
static int look(const struct broker *b, struct notice *n, const struct seccomp_notif *call)
{
	int error = notice_read(n, call, &out.head, out.body);

	/* Before anything is done with it: was it really that thread's? */
	return is_valid(b, call->id) ? error : NOTICE_GONE;
}

static void begin(struct broker *b, const struct seccomp_notif *call)
{
	struct notice *n = free_notice(b);
	int error = n ? look(b, n, call) : ENOBUFS;

	if (error == NOTICE_PASS || (n && !error && b->sock < 0 && n->may_pass))
		pass(b, call->id);
	else if (error > 0)
		fail(b, call->id, error);
	else if (!error && b->sock < 0)
		fail(b, call->id, ENETDOWN);
	if (n && (error || b->sock < 0)) {
		forget(b, n);
		return;
	}
	if (!n)
		return;
	if (ask(b, &out.head, out.body, n->fd) < 0) {
		fail(b, call->id, ENOBUFS); /* full, or gone: then the next turn sees it */
		forget(b, n);
		return;
	}
	if (n->fd >= 0)
		sys(close, n->fd);
	n->fd = -1;
}

static int is_its_call(const void *arg, unsigned long id)
{
	return is_valid(arg, id);
}

static void take_call(struct broker *b, const struct seccomp_notif *call)
{
	int error;

	if (!modes_know(call->data.nr)) {
		begin(b, call);
		return;
	}
	error = modes_answer(call, is_its_call, b);
	if (error)
		fail(b, call->id, error);
	else
		succeed(b, call->id, 0);
}

static void hear_payload(struct broker *b)
{
	struct pollfd more = { .fd = b->listener, .events = POLLIN };
	const long at_once[2] = { 0, 0 };

	for (int i = 0; i < AT_A_TIME; i++) {
		for (size_t k = 0; k < sizeof(notification) / sizeof(long); k++)
			((volatile long *)&notification)[k] = 0;
		/* ENOENT: it was killed meanwhile. */
		if (sys(ioctl, b->listener, SECCOMP_IOCTL_NOTIF_RECV, &notification) >= 0)
			take_call(b, &notification.now);
		more.revents = 0;
		if (sys(ppoll, &more, 1, at_once, 0, 0) <= 0 || !(more.revents & POLLIN))
			return;
	}
}

/* --------------------------------------------------------------- the supervisor -- */

static void lose_supervisor(struct broker *b)
{
	sys(close, b->sock);
	b->sock = -1;
	while (b->used) {
		struct notice *n = &b->waiting[b->used - 1];

		fail(b, n->id, ENETDOWN);
		forget(b, n);
	}
}

static struct notice *find(struct broker *b, uint64_t id)
{
	for (unsigned i = 0; i < b->used; i++)
		if (b->waiting[i].is_used && b->waiting[i].id == id)
			return &b->waiting[i];
	return 0;
}

/*
 * In two steps, and not by SECCOMP_ADDFD_FLAG_SEND: when that is interrupted (SIGSTOP, a freeze)
 * the kernel takes the descriptor back, and the call returns 0 all the same
 * (seccomp_notify_addfd(), Linux 6.18), as if it were the payload's standard input.
 */
static void give(const struct broker *b, const struct calls_answer *a, int fd)
{
	const struct seccomp_notif_addfd add = { .id = a->id, .srcfd = (uint32_t)fd,
						 .newfd_flags = a->flags };
	long r = fd < 0 ? -ENETDOWN : listener(b, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

	if (r >= 0)
		succeed(b, a->id, r);
	else if (r != -ENOENT)
		fail(b, a->id, (int)-r); /* EMFILE: the payload's own limit */
}

static void answer(struct broker *b, struct notice *n, const struct calls_answer *a, int fd)
{
	long value = (long)a->value;

	if (a->how == CALLS_PASS && n->may_pass) {
		pass(b, a->id);
	} else if (a->how == CALLS_GIVE && n->wants_fd) {
		give(b, a, fd);
	} else if (a->how != CALLS_DONE || n->wants_fd) {
		fail(b, a->id, a->how == CALLS_DONE && a->error ? (int)a->error : ENETDOWN);
	} else if (a->error) {
		fail(b, a->id, (int)a->error);
	} else {
		value = notice_write(n, a, in.body);
		if (value < 0)
			fail(b, a->id, (int)-value);
		else
			succeed(b, a->id, value);
	}
	forget(b, n);
}

/* The one that came; -1: none; TOO_MANY: what nobody may send, and all of it is closed. */
enum { TOO_MANY = -2 };
static int descriptor_of(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	const int *fds = c ? (const int *)CMSG_DATA(c) : 0;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	if (c->cmsg_len == CMSG_LEN(sizeof(int)))
		return fds[0];
	for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
		sys(close, fds[i]);
	return TOO_MANY;
}

/* 1: there was one; 0: no more for now; -1: the supervisor is gone, or makes no sense. */
static int hear_supervisor(struct broker *b)
{
	struct iovec iov = { &in, sizeof(in) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct calls_answer *a = &in.head;
	struct notice *n;
	int fd = -1;
	long got;

	do {
		got = sys(recvmsg, b->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got == -EINTR);
	if (got == -EAGAIN)
		return 0;
	if (got > 0)
		fd = descriptor_of(&msg);
	if (got >= (long)sizeof(*a) && fd != TOO_MANY && a->magic == CALLS_MAGIC && a->how && a->how < CALLS_HOW_END &&
	    a->error < 4096 && a->value <= CALLS_DATA_MAX && a->name_len <= CALLS_NAME_MAX &&
	    a->size <= CALLS_DATA_MAX && got == (long)(sizeof(*a) + a->name_len + a->size)) {
		n = find(b, a->id);
		if (n)
			answer(b, n, a, fd);
		got = 1;
	} else {
		got = -1;
	}
	if (fd >= 0)
		sys(close, fd);
	return (int)got;
}

/* Nobody tells of who was killed while its call was held, or has a signal to handle. */
static void look_around(struct broker *b)
{
	for (unsigned i = b->used; i-- > 0;) {
		struct notice *n = &b->waiting[i];
		struct calls_ask cancel = { .magic = CALLS_MAGIC, .what = CALLS_CANCEL };
		int error;

		if (!n->is_used)
			continue;
		error = notice_signal(n);
		if (!error && is_valid(b, n->id))
			continue;
		cancel.id = n->id;
		/* Full: then at the next tick. */
		if (b->sock >= 0 && ask(b, &cancel, 0, -1) < 0)
			continue;
		if (error) /* of whoever has the number now; but then nobody waits for @id */
			fail(b, n->id, error);
		forget(b, n);
	}
}

static long now_ms(void)
{
	long t[2] = { 0, 0 }; /* struct timespec */

	sys(clock_gettime, CLOCK_MONOTONIC, t);
	return t[0] * 1000 + t[1] / 1000000;
}

/* --------------------------------------------------------------------- life -- */

struct broker *broker_begin(int listener, int sock)
{
	the_broker.listener = listener;
	the_broker.sock = sock;
	return &the_broker;
}

int broker_is_waiting(const struct broker *b)
{
	return b->used != 0;
}

int broker_fds(struct broker *b, struct pollfd fds[BROKER_FDS])
{
	int n = 0;

	if (b->sock >= 0)
		fds[n++] = (struct pollfd){ .fd = b->sock, .events = POLLIN };
	if (b->listener >= 0)
		fds[n++] = (struct pollfd){ .fd = b->listener, .events = POLLIN };
	return n;
}

void broker_turn(struct broker *b, const struct pollfd *fds, int count)
{
	for (int i = 0; i < count; i++) {
		int more = 1;

		if (!fds[i].revents)
			continue;
		if (fds[i].fd == b->listener) {
			if (fds[i].revents & POLLIN) {
				hear_payload(b);
			} else { /* nobody is left who could ask */
				sys(close, b->listener);
				b->listener = -1;
			}
			continue;
		}
		for (int k = 0; k < AT_A_TIME && more > 0; k++)
			more = hear_supervisor(b);
		if (more < 0)
			lose_supervisor(b);
	}
	if (b->used && now_ms() - b->looked_ms >= BROKER_TICK_MS) {
		look_around(b);
		b->looked_ms = now_ms();
	}
}
