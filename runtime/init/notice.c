/*
 * notice.c - see notice.h. Runs in init.
 *
 * Must:    judge by a copy, and read for that each byte of the payload once; write into the payload alone, through the
 *          descriptor of its memory that was opened while it was held.
 * Mustn't: take a length of the payload's for more than there is room.
 */
#include "runtime/init/notice.h"

#include "runtime/calls_wire.h"
#include "runtime/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
	PIDFD_OF_THREAD = O_EXCL, /* PIDFD_THREAD, Linux 6.9 */
	IOVS_MAX = 1024,	/* UIO_MAXIOV */
	IOVS = 16,		/* read at once */
	INT = 4,
};

enum kind { KIND_STREAM, KIND_TCP, KIND_PAIR, KIND_STRANGE };

struct reading {
	struct notice *n;
	const uint64_t *args;
	struct calls_ask *head;
	unsigned char *body;
};

/* --------------------------------------------------------------------- memory -- */

static int get(const struct notice *n, void *to, uint64_t from, size_t len)
{
	return sys(pread64, n->mem, to, len, from) == (long)len ? 0 : EFAULT;
}

static int put(const struct notice *n, uint64_t to, const void *from, size_t len)
{
	return sys(pwrite64, n->mem, from, len, to) == (long)len ? 0 : EFAULT;
}

/* @name: seven letters at most. */
static long open_of_thread(uint32_t tid, const char *name, int flags)
{
	char path[32] = "/proc/", digits[12];
	int n = 6, k = 0;

	do {
		digits[k++] = (char)('0' + tid % 10);
		tid /= 10;
	} while (tid);
	while (k)
		path[n++] = digits[--k];
	path[n++] = '/';
	while (*name)
		path[n++] = *name++;
	path[n] = '\0';
	return sys(openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

static long copy_socket(uint32_t tid, int fd)
{
	long thread = sys(pidfd_open, tid, PIDFD_OF_THREAD);
	long r = thread < 0 ? thread : sys(pidfd_getfd, thread, fd, 0);

	if (thread >= 0)
		sys(close, thread);
	return r;
}

/* -errno: no socket. */
static int kind_of(int fd)
{
	static const int what[3] = { SO_DOMAIN, SO_TYPE, SO_PROTOCOL };
	int is[3] = { 0, 0, 0 };
	uint32_t len = sizeof(is[0]);

	for (int i = 0; i < 3; i++) {
		long r = sys(getsockopt, fd, SOL_SOCKET, what[i], &is[i], &len);

		if (r < 0)
			return (int)r;
	}
	if ((is[0] == AF_INET || is[0] == AF_INET6) && is[1] == SOCK_STREAM &&
	    is[2] == IPPROTO_TCP)
		return KIND_TCP;
	if (is[0] == AF_UNIX && is[1] == SOCK_SEQPACKET)
		return KIND_PAIR;
	return is[0] == AF_UNIX && is[1] == SOCK_STREAM ? KIND_STREAM : KIND_STRANGE;
}

/* -------------------------------------------------------------------- readers -- */

static int read_name(struct reading *r, uint64_t from, uint64_t len)
{
	if ((uint32_t)len > CALLS_NAME_MAX)
		return EINVAL;
	r->head->name_len = (uint16_t)len;
	return len ? get(r->n, r->body, from, (uint32_t)len) : 0;
}

static int read_socket(struct reading *r)
{
	for (int i = 0; i < 3; i++)
		r->head->arg[i] = (uint32_t)r->args[i];
	r->n->wants_fd = 1;
	return 0;
}

static int read_address(struct reading *r)
{
	return read_name(r, r->args[1], r->args[2]);
}

static int read_backlog(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[1];
	return 0;
}

/* Where to put something, and an int with the room there is. */
static int read_room(struct reading *r, uint64_t name, uint64_t len)
{
	int room;
	int error = get(r->n, &room, len, INT);

	if (error || room < 0)
		return error ? error : EINVAL;
	r->n->name = name;
	r->n->name_len = len;
	r->n->name_room = (uint32_t)room;
	return 0;
}

static int read_asks_name(struct reading *r)
{
	return read_room(r, r->args[1], r->args[2]);
}

static int read_getopt(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[2];
	r->n->clips = 1;
	return read_room(r, r->args[3], r->args[4]);
}

static int read_setopt(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[1];
	r->head->arg[1] = (uint32_t)r->args[2];
	return 0;
}

static int read_sendto(struct reading *r)
{
	int error = read_name(r, r->args[4], r->args[5]);

	r->head->arg[0] = (uint32_t)r->args[3];
	if (error)
		return error;
	if (r->args[2] > CALLS_DATA_MAX)
		return EMSGSIZE;
	r->head->size = (uint32_t)r->args[2];
	return r->head->size
		       ? get(r->n, r->body + r->head->name_len, r->args[1], r->head->size) : 0;
}

static int read_recvfrom(struct reading *r)
{
	uint64_t room = r->args[2];

	r->n->data = r->args[1];
	r->n->data_room = room > CALLS_DATA_MAX ? CALLS_DATA_MAX : (uint32_t)room;
	r->head->arg[0] = (uint32_t)r->args[3];
	r->head->arg[1] = r->n->data_room;
	return r->args[5] ? read_room(r, r->args[4], r->args[5]) : EFAULT;
}

/* --- struct msghdr --- */

/* Calls each(r, base, len) for its parts; stops at what is not 0. */
static int each_part(struct reading *r, const struct msghdr *msg,
		     int (*each)(struct reading *r, uint64_t base, uint64_t len))
{
	struct iovec iov[IOVS];
	int error = msg->msg_iovlen > IOVS_MAX ? EMSGSIZE : 0;

	for (size_t at = 0; at < msg->msg_iovlen && !error;) {
		size_t n = msg->msg_iovlen - at > IOVS ? IOVS : msg->msg_iovlen - at;

		error = get(r->n, iov, (uint64_t)(uintptr_t)msg->msg_iov + at * sizeof(iov[0]),
			    n * sizeof(iov[0]));
		for (size_t i = 0; i < n && !error; i++)
			error = each(r, (uint64_t)(uintptr_t)iov[i].iov_base, iov[i].iov_len);
		at += n;
	}
	return error;
}

static int gather(struct reading *r, uint64_t base, uint64_t len)
{
	unsigned char *to = r->body + r->head->name_len + r->head->size;

	if (len > CALLS_DATA_MAX - r->head->size)
		return EMSGSIZE;
	r->head->size += (uint32_t)len;
	return len ? get(r->n, to, base, len) : 0;
}

static int add_room(struct reading *r, uint64_t base, uint64_t len)
{
	uint32_t left = CALLS_DATA_MAX - r->n->data_room;

	(void)base;
	r->n->data_room += len > left ? left : (uint32_t)len;
	return 0;
}

/* Without an address its data stays where it is: the kernel may have it. */
static int read_out(struct reading *r, uint64_t at)
{
	struct msghdr msg;
	int error = get(r->n, &msg, at, sizeof(msg));

	r->n->msg = at;
	if (!error && msg.msg_name && msg.msg_namelen)
		error = read_name(r, (uint64_t)(uintptr_t)msg.msg_name, msg.msg_namelen);
	return error || !r->head->name_len ? error : each_part(r, &msg, gather);
}

static int read_in(struct reading *r, uint64_t at)
{
	struct msghdr msg;
	int error = get(r->n, &msg, at, sizeof(msg));

	r->n->msg = at;
	r->n->receives = 1;
	r->n->name = (uint64_t)(uintptr_t)msg.msg_name;
	r->n->name_room = msg.msg_name ? msg.msg_namelen : 0;
	if (!error)
		error = each_part(r, &msg, add_room);
	r->head->arg[1] = r->n->data_room;
	return error;
}

static int read_sendmsg(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[2];
	return read_out(r, r->args[1]);
}

static int read_recvmsg(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[2];
	return read_in(r, r->args[1]);
}

/* Of several the first one: 1 is an honest answer, and who has more asks again. */
static int read_sendmmsg(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[3];
	r->n->many = 1;
	return (uint32_t)r->args[2] ? read_out(r, r->args[1]) : NOTICE_PASS;
}

static int read_recvmmsg(struct reading *r)
{
	r->head->arg[0] = (uint32_t)r->args[3];
	r->n->many = 1;
	return (uint32_t)r->args[2] ? read_in(r, r->args[1]) : NOTICE_PASS;
}

/* ---------------------------------------------------------------------- calls -- */

static const struct call {
	int nr;
	uint16_t what;
	uint8_t may_pass, has_memory;
	int (*read)(struct reading *r);
} calls[] = {
	{ __NR_socket, CALLS_SOCKET, 0, 0, read_socket },
	{ __NR_connect, CALLS_CONNECT, 0, 1, read_address },
	{ __NR_bind, CALLS_BIND, 0, 1, read_address },
	{ __NR_listen, CALLS_LISTEN, 0, 0, read_backlog },
	{ __NR_getsockname, CALLS_SOCKNAME, 1, 1, read_asks_name },
	{ __NR_getpeername, CALLS_PEERNAME, 1, 1, read_asks_name },
	{ __NR_sendto, CALLS_SEND, 1, 1, read_sendto },
	{ __NR_sendmsg, CALLS_SEND, 1, 1, read_sendmsg },
	{ __NR_sendmmsg, CALLS_SEND, 1, 1, read_sendmmsg },
	{ __NR_recvfrom, CALLS_RECV, 1, 1, read_recvfrom },
	{ __NR_recvmsg, CALLS_RECV, 1, 1, read_recvmsg },
	{ __NR_recvmmsg, CALLS_RECV, 1, 1, read_recvmmsg },
	{ __NR_getsockopt, CALLS_GETOPT, 1, 1, read_getopt },
	{ __NR_setsockopt, CALLS_SETOPT, 1, 0, read_setopt },
};

static const struct call *call_of(int nr)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return 0;
}

/* Whose matter is it: the kernel's (NOTICE_PASS), nobody's (an errno), the supervisor's (0)? */
static int whose(const struct call *c, const struct seccomp_notif *call, int fd)
{
	int kind = kind_of(fd);

	if (kind < 0)
		return -kind;
	if (kind == KIND_PAIR)
		return 0;
	if (kind == KIND_STRANGE)
		return EACCES; /* nothing that the box may hold (init.c, may_inherit()) */
	if (kind == KIND_STREAM)
		return c->may_pass ? NOTICE_PASS : EACCES;
	if (c->what == CALLS_SEND || c->what == CALLS_RECV || c->what == CALLS_SETOPT)
		return NOTICE_PASS; /* of a connected stream the kernel reads no name */
	return c->what == CALLS_GETOPT && (int)call->data.args[2] != SO_ERROR ? NOTICE_PASS : 0;
}

int notice_read(struct notice *n, const struct seccomp_notif *call, struct calls_ask *head,
		unsigned char *body)
{
	const struct call *c = call_of(call->data.nr);
	struct reading r = { n, (const uint64_t *)call->data.args, head, body };
	int error = 0;
	long fd;

	n->id = call->id;
	n->tid = call->pid;
	if (!c)
		return ENOSYS; /* no row of the filter's */
	*head = (struct calls_ask){ .magic = CALLS_MAGIC, .what = c->what, .id = call->id };
	n->may_pass = c->may_pass;
	if (c->what != CALLS_SOCKET) {
		fd = copy_socket(call->pid, (int)call->data.args[0]);
		if (fd < 0)
			return (int)-fd;
		n->fd = (int)fd;
		error = whose(c, call, n->fd);
	}
	if (!error && c->has_memory) {
		n->mem = (int)open_of_thread(call->pid, "mem", O_RDWR);
		error = n->mem < 0 ? -n->mem : 0;
	}
	return error ? error : c->read(&r);
}

/* -------------------------------------------------------------------- signals -- */

static uint64_t number_at(const char *text, int base)
{
	uint64_t n = 0;

	for (; *text == ' ' || *text == '\t'; text++)
		;
	for (;; text++) {
		int digit = *text >= '0' && *text <= '9'   ? *text - '0'
			    : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
							   : 16;
		if (digit >= base)
			return n;
		n = n * (unsigned)base + (unsigned)digit;
	}
}

/* The number behind this name of proc_pid_status(5); 0: it is not there. */
static uint64_t field(const char *text, const char *name, int base)
{
	for (int i = 0, k; text[i]; i++) {
		if (i && text[i - 1] != '\n')
			continue;
		for (k = 0; name[k] && text[i + k] == name[k]; k++)
			;
		if (!name[k] && text[i + k] == ':')
			return number_at(text + i + k + 1, base);
	}
	return 0;
}

/*
 * Only a fatal signal ends a call that init has read of (init.c, load_filter()). Any other would
 * wait for as long as the call does, so it is looked for. ERESTARTSYS lets the kernel do as
 * the handler was asked for (SA_RESTART), but it must not reach a thread that then has no
 * signal to handle. One that waits for the whole process may be another thread's: EINTR.
 */
int notice_signal(const struct notice *n)
{
	enum { ERESTARTSYS = 512 };
	static char text[4096];
	long fd = open_of_thread(n->tid, "status", O_RDONLY);
	long got = fd < 0 ? -1 : sys(read, fd, text, sizeof(text) - 1);
	uint64_t deaf, own, shared;

	if (fd >= 0)
		sys(close, fd);
	if (got <= 0)
		return 0;
	text[got] = '\0';
	deaf = field(text, "SigBlk", 16) | field(text, "SigIgn", 16);
	own = field(text, "SigPnd", 16) & ~deaf;
	shared = field(text, "ShdPnd", 16) & ~deaf;
	if (own || (shared && field(text, "Threads", 10) == 1))
		return ERESTARTSYS;
	return shared ? EINTR : 0;
}

/* -------------------------------------------------------------------- answers -- */

static int put_name(const struct notice *n, const struct calls_answer *a, const unsigned char *body)
{
	uint32_t len = a->name_len, part = len < n->name_room ? len : n->name_room;
	int error = 0;

	if (n->clips)
		len = part;
	if (part && n->name)
		error = put(n, n->name, body, part);
	if (!error && n->name_len)
		error = put(n, n->name_len, &len, INT);
	return error;
}

struct writing {
	struct reading r; /* first: each_part() knows no other */
	const unsigned char *data;
	uint32_t left;
};

static int scatter(struct reading *r, uint64_t base, uint64_t len)
{
	struct writing *w = (struct writing *)r;
	uint32_t part = len < w->left ? (uint32_t)len : w->left;
	int error = part ? put(r->n, base, w->data, part) : 0;

	w->data += part;
	w->left -= part;
	return error;
}

static int put_message(const struct notice *n, const struct calls_answer *a,
		       const unsigned char *data)
{
	struct notice copy = *n;
	struct writing w = { { .n = &copy }, data, a->size };
	struct msghdr msg;
	int error = get(n, &msg, n->msg, sizeof(msg));

	if (!error)
		error = each_part(&w.r, &msg, scatter);
	msg.msg_namelen = n->name ? a->name_len : msg.msg_namelen;
	msg.msg_controllen = 0;
	msg.msg_flags = (int)a->flags;
	return error ? error : put(n, n->msg, &msg, sizeof(msg));
}

long notice_write(const struct notice *n, const struct calls_answer *a, const unsigned char *body)
{
	const unsigned char *data = body + a->name_len;
	int error = a->name_len ? put_name(n, a, body) : 0;

	if (!error && n->data && a->size)
		error = a->size <= n->data_room ? put(n, n->data, data, a->size) : EPROTO;
	/* A message that was sent is not written to. */
	if (!error && n->receives)
		error = a->size <= n->data_room ? put_message(n, a, data) : EPROTO;
	if (!error && n->many)
		error = put(n, n->msg + sizeof(struct msghdr), &a->value, INT);
	if (error)
		return -error;
	return n->many ? 1 : (long)a->value;
}
