/*
 * pump.c - one stream, bounded, non-blocking. Runs in the launcher's event loop.
 *
 * Mustn't: block (a deadline of the box would pass unseen), raise SIGPIPE in the
 * caller, or change flags of a description that the caller shares with others.
 */
#include "runtime/pump.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool is_ready(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	return poll(&pfd, 1, 0) > 0;
}

/* Regular files and devices like /dev/null: epoll refuses them, they never block. */
static bool is_always_ready(int epoll, int fd, const struct stat *st)
{
	struct epoll_event ev = { 0 };

	if (S_ISREG(st->st_mode))
		return true;
	if (!S_ISCHR(st->st_mode))
		return false;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return errno == EPERM;
	epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
	return false;
}

static int prepare_end(int epoll, int fd, bool shared, bool *is_file)
{
	struct stat st;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return -1;
	*is_file = is_always_ready(epoll, fd, &st);
	return shared || *is_file ? 0 : fd_nonblocking(fd);
}

/*
 * A write to a terminal may block after POLLOUT, as long as ^S holds it or nobody reads:
 * room for one byte is all that POLLOUT says. So a description of our own, which may be
 * non-blocking, where the caller's can be opened again. Not a pty's master: to open
 * that makes another pty.
 */
static void open_terminal_again(struct pump_end *dst)
{
	unsigned number;
	char name[40];
	int own;

	if (dst->fd < 0 || !dst->shared || !isatty(dst->fd) ||
	    ioctl(dst->fd, TIOCGPTN, &number) == 0)
		return;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", dst->fd);
	own = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own < 0)
		return; /* another user's, say: then as with any shared description */
	close(dst->fd);
	*dst = (struct pump_end){ own, false };
}

int pump_open(struct pump *p, int epoll, struct pump_end src, struct pump_end dst,
	      struct nsbox_error *err)
{
	open_terminal_again(&dst);
	struct pump new = { .epoll = epoll, .src = src.fd, .dst = dst.fd, .limit = UINT64_MAX,
			    .src_shared = src.shared, .dst_shared = dst.shared,
			    .is_capture = dst.fd < 0 };

	*p = new;
	if (src.fd < 0 || prepare_end(epoll, src.fd, src.shared, &p->src_files) < 0 ||
	    prepare_end(epoll, dst.fd, dst.shared, &p->dst_files) < 0) {
		int code = err_sys(err, "prepare a stream");

		pump_close(p);
		return code;
	}
	return 0;
}

void pump_close(struct pump *p)
{
	if (p->src >= 0)
		close(p->src);
	if (p->dst >= 0)
		close(p->dst);
	free(p->room);
	free(p->escapes);
	p->room = NULL;
	p->escapes = NULL;
	p->src = p->dst = -1;
	p->src_in = p->dst_in = false;
	p->over = true;
}

/* --------------------------------------------------------------------- epoll -- */

static void set_interest(struct pump *p, int fd, bool *is_in, bool files, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = p };

	if (fd < 0 || files || *is_in == (events != 0))
		return;
	if (!events) {
		epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL);
		*is_in = false;
	} else if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &ev) == 0) {
		*is_in = true;
	} else {
		p->error = errno; /* nothing would ever wake this stream */
	}
}

static void wait_for(struct pump *p, bool source)
{
	set_interest(p, p->src, &p->src_in, p->src_files, source ? EPOLLIN : 0);
	set_interest(p, p->dst, &p->dst_in, p->dst_files, source ? 0 : EPOLLOUT);
}

/* ------------------------------------------------------------------- writing -- */

/*
 * write(2) without SIGPIPE for the caller: blocked for this thread, taken back when it
 * was ours. (MSG_NOSIGNAL is for sockets only.)
 */
static ssize_t write_quietly(int fd, const void *data, size_t len)
{
	const struct timespec now = { 0 };
	sigset_t pipe_only, old, pending;
	ssize_t n;
	int saved;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
	n = write(fd, data, len);
	saved = errno;
	if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return n;
}

enum step { STEP_ON, STEP_WAIT_SRC, STEP_WAIT_DST, STEP_OVER };

static enum step write_some(struct pump *p)
{
	size_t len = p->len - p->at;
	ssize_t n;

	if (p->dst_shared && !p->dst_files) {
		if (!is_ready(p->dst, POLLOUT))
			return STEP_WAIT_DST;
		/* A blocking description: after POLLOUT this much never blocks (pipe(7)). */
		if (len > PIPE_BUF)
			len = PIPE_BUF;
	}
	n = write_quietly(p->dst, p->room + p->at, len);
	if (n < 0 && errno == EINTR)
		return STEP_ON;
	if (n < 0 && errno == EAGAIN)
		return STEP_WAIT_DST;
	if (n < 0) {
		p->error = errno == EPIPE ? 0 : errno; /* EPIPE: the reader had enough */
		return STEP_OVER;
	}
	p->at += (size_t)n;
	return STEP_ON;
}

/* ------------------------------------------------------------------- reading -- */

static void take(struct pump *p, size_t n)
{
	uint64_t left = p->limit - p->passed;

	p->total += n;
	if (p->dst < 0) {
		capture_add(p->capture, p->room + ESCAPES_HELD_MAX, n);
		return;
	}
	p->at = ESCAPES_HELD_MAX;
	p->len = n < left ? n : (size_t)left; /* past the limit: counted and dropped */
	p->passed += p->len;
	if (p->escapes) {
		p->len = escapes_filter(p->escapes, p->room + p->at, p->len, p->room);
		p->at = 0;
	}
	p->len += p->at;
}

static enum step read_some(struct pump *p)
{
	ssize_t n;

	if (!p->room && !(p->room = malloc(ESCAPES_HELD_MAX + PUMP_ROOM))) {
		p->error = ENOMEM;
		return STEP_OVER;
	}
	if (p->src_shared && !p->src_files && !is_ready(p->src, POLLIN))
		return STEP_WAIT_SRC;
	n = read(p->src, p->room + ESCAPES_HELD_MAX, PUMP_ROOM);
	if (n < 0 && errno == EINTR)
		return STEP_ON;
	if (n < 0 && errno == EAGAIN)
		return STEP_WAIT_SRC;
	if (n <= 0)
		return STEP_OVER; /* EOF; EIO is a pty's way to say so */
	take(p, (size_t)n);
	return STEP_ON;
}

/* At most this many rounds a call, so that one stream cannot hold up the loop. */
enum { ROUNDS_MAX = 16 };

/* What an unprivileged process may make of a pipe (pipe-max-size), unless changed. */
enum { PIPE_MAX = 1 << 20 };

static enum step step_rounds(struct pump *p)
{
	enum step s = STEP_ON;

	for (int i = 0; i < ROUNDS_MAX && s == STEP_ON; i++)
		s = p->at < p->len ? write_some(p) : read_some(p);
	return s;
}

int pump_filter(struct pump *p, bool may_ask, struct nsbox_error *err)
{
	p->escapes = calloc(1, sizeof(*p->escapes));
	if (!p->escapes)
		return err_nomem(err);
	p->escapes->may_ask = may_ask;
	return 0;
}

void pump_start(struct pump *p)
{
	if (p->src_files)
		pump_step(p);
	else
		wait_for(p, true);
}

void pump_step(struct pump *p)
{
	enum step s;
	bool source;

	if (p->over)
		return;
	s = step_rounds(p);
	if (s == STEP_OVER) {
		pump_close(p); /* closing our end is what tells the other side */
		return;
	}
	/* Still going: the next wake-up comes at once, from the side that is due; from the
	 * other one when that side is always ready and so never wakes anybody. */
	source = s == STEP_ON ? p->at >= p->len : s == STEP_WAIT_SRC;
	wait_for(p, source ? !p->src_files : p->dst_files);
	if (p->error)
		pump_close(p);
}

/*
 * No more than a pipe can hold: the payload may have passed its end on, through a socket
 * in a folder that another box has too, to one that writes for ever.
 */
static uint64_t drain_limit(const struct pump *p)
{
	int held = 0;

	if (ioctl(p->src, FIONREAD, &held) < 0 || held < PIPE_MAX)
		held = PIPE_MAX;
	return p->total + (uint64_t)held;
}

bool pump_drain(struct pump *p)
{
	if (!p->over && !p->drain_limit)
		p->drain_limit = drain_limit(p);
	while (!p->over) {
		bool is_enough = p->at >= p->len && p->total >= p->drain_limit;
		enum step s = is_enough ? STEP_OVER : step_rounds(p);

		if (s == STEP_WAIT_DST) {
			wait_for(p, false);
			return false;
		}
		/* The writer is dead: an empty pipe stays empty. */
		if (s == STEP_OVER || s == STEP_WAIT_SRC)
			pump_close(p);
	}
	return true;
}
