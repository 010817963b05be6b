/*
 * egress_link.c - the supervisor's process, and the packets on its socket
 *
 * Runs in the launcher.
 *
 * Must:    take a short, late, wrong or missing answer for a failure; end the program it
 *          began; leave the box without network rather than under unknown rules.
 * Mustn't: show a text of the supervisor as it came: it reads what strangers send.
 */
#include "runtime/egress.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "runtime/stage.h"
#include "runtime/watch.h"
#include "runtime/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum {
	UPDATE_MS = 5000,
	FDS_MAX = 16,		/* in one packet: the inlet has 9, a set of ports 16 */
};

static void reap(struct egress_link *l)
{
	if (l->dying.pidfd >= 0)
		companion_end(&l->dying);
}

void egress_init(struct egress_link *l)
{
	*l = (struct egress_link){ .process.pidfd = -1, .dying.pidfd = -1, .sock = -1 };
	pthread_mutex_init(&l->lock, NULL);
}

void egress_destroy(struct egress_link *l)
{
	egress_end(l);
	reap(l);
	pthread_mutex_destroy(&l->lock);
}

bool egress_is_needed(const struct policy *p)
{
	return (p->net.mode != NET_DISABLED && p->net.path == PATH_INLET) ||
	       p->net.publish.n;
}

/* --- packets ------------------------------------------------------------------ */

int egress_tell(int sock, const struct egress_msg *head, const int *fds, size_t count)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { (void *)head, sizeof(*head) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c = &control.head;

	if (count > FDS_MAX) {
		errno = E2BIG;
		return -1;
	}
	if (count) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	/* It reads all the time: a full socket is one that nobody serves. */
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*head) ? 0 : -1;
}

static int wait_readable(int sock, uint64_t until_us)
{
	for (;;) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		uint64_t now = now_us();
		int ms = until_us > now ? (int)((until_us - now + 999) / 1000) : 0;
		int ready = poll(&p, 1, ms);

		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return -1;
		if (ready == 0 && now_us() >= until_us) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

/* Descriptors that came with it have nowhere to go: the kernel drops them. */
int egress_hear(int sock, uint64_t until_us, struct egress_packet *p)
{
	ssize_t n;

	if (wait_readable(sock, until_us) < 0)
		return -1;
	n = recv(sock, p, sizeof(*p), MSG_DONTWAIT | MSG_TRUNC);
	/* It ended with a packet of ours unread; its own last word is behind that error. */
	if (n < 0 && errno == ECONNRESET)
		n = recv(sock, p, sizeof(*p), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0)
		return -1;
	if (n == 0) {
		errno = EPIPE;
		return -1;
	}
	if ((size_t)n < sizeof(p->head) || (size_t)n > sizeof(*p) || p->head.magic != EGRESS_MAGIC ||
	    p->head.size != (size_t)n - sizeof(p->head)) {
		errno = EPROTO;
		return -1;
	}
	return 0;
}

const char *egress_text(const struct egress_packet *p, char text[EGRESS_TEXT])
{
	size_t n = strnlen(p->body, p->head.size);
	bool is_text;

	if (n >= EGRESS_TEXT)
		n = EGRESS_TEXT - 1;
	is_text = utf8_valid(p->body, n);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p->body[i];

		text[i] = c < 0x20 || c == 0x7f || (c >= 0x80 && !is_text) ? '?' : (char)c;
	}
	text[n] = '\0';
	return text;
}

/* --- errors ------------------------------------------------------------------- */

static int at_stage(struct nsbox_error *err, int code)
{
	err_stage(err, stage_name(STAGE_network));
	return code;
}

static const char *why_silent(int os_errno)
{
	switch (os_errno) {
	case ETIMEDOUT:
		return "nsbox-egress did not answer in time";
	case EPROTO:
		return "nsbox-egress gave an answer that makes no sense";
	default:
		return "nsbox-egress ended without an answer";
	}
}

/* What it says next must be READY; FAIL has the reason. */
static int hear_ready(struct egress_link *l, uint64_t until_us, struct nsbox_error *err)
{
	struct egress_packet p;
	char text[EGRESS_TEXT];

	if (egress_hear(l->sock, until_us, &p) < 0)
		return at_stage(err, err_set(err, NSBOX_E_SETUP, "%s", why_silent(errno)));
	if (p.head.type == EGRESS_FAIL)
		return at_stage(err, err_set(err, NSBOX_E_SETUP, "nsbox-egress: %s",
					     egress_text(&p, text)));
	if (p.head.type != EGRESS_READY)
		return at_stage(err, err_set(err, NSBOX_E_SETUP, "%s", why_silent(EPROTO)));
	return 0;
}

/* A packet could not be sent: where it ended by itself, its reason is there to be read. */
static int send_failed(struct egress_link *l, const char *what, struct nsbox_error *err)
{
	int os_errno = errno;
	bool is_gone = os_errno == EPIPE || os_errno == ECONNRESET;

	if (is_gone && hear_ready(l, 0, err) < 0)
		return NSBOX_E_SETUP;
	return at_stage(err, err_errno(err, NSBOX_E_SETUP, os_errno, "pass %s to nsbox-egress",
				       what));
}

/* --- start -------------------------------------------------------------------- */

static int not_found(const struct companion *program, struct nsbox_error *err)
{
	if (errno == EPERM) {
		err_hint(err, "let nobody but its owner write it");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "%s could be changed by others than the owner of nsbox",
			       program->path);
	}
	err_hint(err, "install nsbox-egress beside nsbox (make install does), or use --net disabled");
	return err_set(err, NSBOX_E_UNSUPPORTED,
		       "a box with a network needs nsbox-egress, which is not there");
}

static int start_program(struct egress_link *l, struct nsbox_error *err)
{
	static char name[] = "nsbox-egress";
	char *argv[] = { name, NULL };
	owned_fd int exe = -1, mine = -1, its = -1, null = -1;
	struct companion program;
	struct companion_call call;
	int pair[2];

	if (companion_find(&program, name) < 0)
		return not_found(&program, err);
	exe = companion_above_stdio(program.fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "make a socket pair for nsbox-egress");
	mine = companion_above_stdio(pair[0]);
	its = companion_above_stdio(pair[1]);
	null = companion_above_stdio(openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC));
	if (exe < 0 || mine < 0 || its < 0 || null < 0)
		return err_sys(err, "prepare a start of nsbox-egress");
	call = (struct companion_call){ exe, { its, null, null }, argv };
	if (companion_start(&l->process, &call) < 0)
		return err_sys(err, "start nsbox-egress");
	l->sock = take_fd(mine);
	return 0;
}

static int send_config(struct egress_link *l, const struct policy *p,
		       const struct identity *id, struct nsbox_error *err)
{
	const struct egress_msg head = { .magic = EGRESS_MAGIC, .type = EGRESS_CONFIG };
	owned_fd int fd = egress_config_fd(l, p, id, err);

	if (fd < 0)
		return fd;
	return egress_tell(l->sock, &head, &fd, 1) < 0 ? send_failed(l, "the rules", err) : 0;
}

static int send_published(struct egress_link *l, struct nsbox_error *err)
{
	l->has_ports = l->published_count != 0;
	for (size_t i = 0; i < l->published_count; i++) {
		const struct egress_msg head = { .magic = EGRESS_MAGIC, .type = EGRESS_PUBLISH,
						 .bits = l->published[i].port };

		if (egress_tell(l->sock, &head, &l->published[i].fd, 1) < 0)
			return send_failed(l, "a listener", err);
	}
	return 0;
}

/*
 * The process alone; the listeners are for the next attempt as well. Its end takes some 10 ms:
 * the kernel waits for all processors when a packet socket is closed. Nobody has to wait for
 * that with a result in hand, unless the next box may want the same port.
 */
static void end_process(struct egress_link *l)
{
	pthread_mutex_lock(&l->lock);
	l->is_serving = false;
	pthread_mutex_unlock(&l->lock);
	reap(l);
	if (l->process.pidfd >= 0) {
		syscall(SYS_pidfd_send_signal, l->process.pidfd, SIGKILL, NULL, 0);
		l->dying = l->process;
		l->process = (struct companion_process){ .pidfd = -1 };
	}
	if (l->has_ports)
		reap(l);
	l->has_ports = false;
	if (l->sock >= 0)
		close(l->sock);
	l->sock = -1;
	l->path = NULL;
}

int egress_start(struct egress_link *l, const struct policy *p, const struct identity *id,
		 struct nsbox_error *err)
{
	int r;

	end_process(l);
	reap(l);
	l->is_ended = false;
	r = start_program(l, err);
	if (r >= 0)
		r = send_config(l, p, id, err);
	if (r >= 0)
		r = send_published(l, err);
	if (r < 0) {
		end_process(l);
		return at_stage(err, r);
	}
	return 0;
}

static int await_ready(struct egress_link *l, struct nsbox_error *err)
{
	const struct egress_msg none = { .magic = EGRESS_MAGIC, .type = EGRESS_INLET };
	int r;

	/* A box that only publishes a server: an inlet without sockets. */
	if (!l->path && egress_tell(l->sock, &none, NULL, 0) < 0)
		return send_failed(l, "the sockets of the box", err);
	r = hear_ready(l, now_us() + (uint64_t)l->setup_ms * 1000, err);
	if (r < 0)
		err_hint(err, "nsbox doctor says what this host gives to a box with a network");
	return r;
}

int egress_hand_over(void *link, unsigned tag, unsigned bits, const int *fds, size_t count,
		     struct nsbox_error *err)
{
	static const struct { uint16_t type; const char *path; } kinds[] = {
		[WIRE_TAG_INLET] = { EGRESS_INLET, "inlet" },
		[WIRE_TAG_PORTS] = { EGRESS_PORTS, "ports" },
		[WIRE_TAG_POOL] = { EGRESS_POOL, NULL },
		[WIRE_TAG_CALLS] = { EGRESS_CALLS, "calls" },
	};
	struct egress_msg head = { .magic = EGRESS_MAGIC, .bits = (uint16_t)bits };
	struct egress_link *l = link;

	if (!tag)
		return await_ready(l, err);
	if (tag >= ARRAY_SIZE(kinds) || !kinds[tag].type)
		return at_stage(err, err_set(err, NSBOX_E_SETUP, "sockets of kind %u", tag));
	head.type = kinds[tag].type;
	if (egress_tell(l->sock, &head, fds, count) < 0)
		return send_failed(l, "the sockets of the box", err);
	/* With ports there is an inlet as well, for names. */
	if (kinds[tag].path && (!l->path || tag == WIRE_TAG_PORTS))
		l->path = kinds[tag].path;
	return 0;
}

/* --- while the box runs --------------------------------------------------------- */

static void close_published(struct egress_link *l)
{
	for (size_t i = 0; i < l->published_count; i++)
		close(l->published[i].fd);
	l->published_count = 0;
}

int egress_settle(struct egress_link *l, int epoll)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &l->process };

	/* A listener that nobody accepts on would keep its callers waiting. */
	close_published(l);
	if (l->process.pidfd < 0)
		return 0;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, l->process.pidfd, &ev) < 0)
		return -1;
	pthread_mutex_lock(&l->lock);
	l->is_serving = true;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

void egress_ended(struct egress_link *l, int epoll)
{
	epoll_ctl(epoll, EPOLL_CTL_DEL, l->process.pidfd, NULL);
	l->is_ended = true;
}

int egress_update(struct egress_link *l, const struct policy *p, const struct identity *id,
		  struct nsbox_error *err)
{
	int r;

	pthread_mutex_lock(&l->lock);
	if (!l->is_serving) {
		pthread_mutex_unlock(&l->lock);
		return err_set(err, NSBOX_E_BUSY, "no box with a network runs");
	}
	r = send_config(l, p, id, err);
	if (r >= 0)
		r = hear_ready(l, now_us() + (uint64_t)UPDATE_MS * 1000, err);
	if (r == NSBOX_E_SETUP) {
		l->is_serving = false;
		syscall(SYS_pidfd_send_signal, l->process.pidfd, SIGKILL, NULL, 0);
		err_hint(err, "the box has no network any more");
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

void egress_end(struct egress_link *l)
{
	end_process(l);
	close_published(l);
	l->is_ended = l->hosts_cut = false;
}
