/*
 * streams.c - how a run's stdin, stdout and stderr are connected
 *
 * Mustn't: hand a descriptor of the caller to the payload unless it was asked for by
 * NSBOX_IO_FD: a shared description carries flags, position and, for a terminal, the
 * caller's own keyboard.
 */
#include "runtime/streams.h"

#include "base/cleanup.h"
#include "runtime/box.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy_of(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int bad_fd(struct nsbox_error *err, int i, int os_errno)
{
	static const char *const names[] = { "in_fd", "out_fd", "err_fd" };

	return err_errno(err, NSBOX_E_USAGE, os_errno, "use %s of the run", names[i]);
}

/*
 * Known before anything runs: whether the descriptor can do what is asked of it. A
 * folder (or any place) is refused: openat("..") of it leads out of the box.
 */
static int check_fd(int i, int mode, int fd, struct nsbox_error *err)
{
	int flags, useless = i == 0 ? O_WRONLY : O_RDONLY;
	struct stat st;

	if (mode != NSBOX_IO_FD && mode != NSBOX_IO_RELAY)
		return 0;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fstat(fd, &st) < 0)
		return bad_fd(err, i, errno);
	if (S_ISDIR(st.st_mode))
		return bad_fd(err, i, EISDIR);
	if ((flags & O_PATH) || (mode == NSBOX_IO_RELAY && (flags & O_ACCMODE) == useless))
		return bad_fd(err, i, EBADF);
	return 0;
}

/* A pipe whose far end the child gets; ours goes to pump i. */
static int connect_pipe(struct streams *s, struct watch *w, int i, int caller_fd,
			struct nsbox_error *err)
{
	struct pump_end caller = { -1, true }, box = { -1, false };
	int ends[2], r;

	if (caller_fd >= 0) {
		caller.fd = copy_of(caller_fd);
		if (caller.fd < 0)
			return err_sys(err, "copy a descriptor of the run");
	}
	if (pipe2(ends, O_CLOEXEC) < 0) {
		if (caller.fd >= 0)
			close(caller.fd);
		return err_sys(err, "make a pipe");
	}
	s->child[i] = i == 0 ? ends[0] : ends[1];
	s->child_owned[i] = true;
	box.fd = i == 0 ? ends[1] : ends[0];
	r = pump_open(&w->pumps[i], w->epoll, i == 0 ? caller : box, i == 0 ? box : caller, err);
	w->pump_used[i] = r >= 0;
	return r;
}

static int connect_one(struct streams *s, struct watch *w, int i, int mode, int fd,
		       struct nsbox_error *err)
{
	switch (mode) {
	case NSBOX_IO_NULL:
		return 0;
	case NSBOX_IO_FD:
		s->child[i] = fd;
		return 0;
	case NSBOX_IO_RELAY:
		return connect_pipe(s, w, i, fd, err);
	case NSBOX_IO_CAPTURE:
		return i == 0 ? 0 : connect_pipe(s, w, i, -1, err);
	default:
		return err_set(err, NSBOX_E_USAGE, "%d is no enum nsbox_io", mode);
	}
}

/* The caller's terminal obeys what it is sent: see escapes.h. */
static int guard_terminal(struct pump *p, bool used, const struct nsbox_run *run,
			  struct nsbox_error *err)
{
	if (!used || p->dst < 0 || (run->flags & NSBOX_RUN_RAW_ESCAPES) || !isatty(p->dst))
		return 0;
	return pump_filter(p, (run->flags & NSBOX_RUN_TTY) != 0, err);
}

/* The child's end blocks, as its streams do. */
static int open_channel(struct streams *s, struct watch *w, struct nsbox_error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(err, "make the channel's socket pair");
	w->channel = ends[0];
	s->child_channel = ends[1];
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, "set up the channel");
	return 0;
}

/* Where the channel would be, a pipe: one more stream that is captured. */
int streams_open_report(struct streams *s, struct watch *w, uint64_t limit,
			struct nsbox_error *err)
{
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "make a pipe");
	s->child_channel = ends[1];
	capture_init(&w->report, limit);
	r = pump_open(&w->pumps[PUMP_REPORT], w->epoll, (struct pump_end){ ends[0], false },
		      (struct pump_end){ -1, false }, err);
	w->pump_used[PUMP_REPORT] = r >= 0;
	w->pumps[PUMP_REPORT].capture = &w->report;
	return r;
}

/* A shell reads what its calls are answered by what it has as its input (repl_shell.c). A
 * socket, for a pipe that nobody reads would send its writer a signal. */
static int open_answers(struct streams *s, struct watch *w, struct nsbox_error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(err, "make a socket pair");
	w->answers = ends[0];
	s->child[0] = ends[1];
	s->child_owned[0] = true;
	return 0;
}

/* Pipes that the kernel's owner reads itself (repl_text.c). */
static int open_kernel_pipes(struct streams *s, struct watch *w, struct nsbox_error *err)
{
	for (int i = 0; i < 2; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_sys(err, "make a pipe");
		w->pipes[i] = ends[0];
		s->child[i + 1] = ends[1];
		s->child_owned[i + 1] = true;
		if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
			return err_sys(err, "set up a pipe");
	}
	return 0;
}

int streams_open(struct streams *s, struct watch *w, const struct nsbox_run *run,
		 const struct policy *p, struct nsbox_error *err)
{
	const int modes[] = { run->in, run->out, run->err };
	const int fds[] = { run->in_fd, run->out_fd, run->err_fd };
	int r = 0;

	*s = STREAMS_INIT;
	capture_init(&w->out, p->limits.stdout_bytes);
	capture_init(&w->err, p->limits.stderr_bytes);
	for (int i = 0; i < 3 && r >= 0; i++)
		r = check_fd(i, modes[i], fds[i], err);
	if (r >= 0 && (run->flags & NSBOX_RUN_CHANNEL))
		r = open_channel(s, w, err);
	if (r >= 0 && (run->flags & RUN_ANSWERS))
		r = open_answers(s, w, err);
	if (r >= 0 && (run->flags & RUN_KERNEL))
		return open_kernel_pipes(s, w, err);
	if (r < 0 || (run->flags & NSBOX_RUN_TTY))
		return r; /* the child makes the pty; see streams_open_pty() */
	for (int i = 0; i < 3 && r >= 0; i++)
		r = connect_one(s, w, i, modes[i], fds[i], err);
	w->pumps[1].capture = &w->out;
	w->pumps[2].capture = &w->err;
	if (w->pump_used[1] && run->out == NSBOX_IO_RELAY)
		w->pumps[1].limit = p->limits.stdout_bytes;
	if (w->pump_used[2] && run->err == NSBOX_IO_RELAY)
		w->pumps[2].limit = p->limits.stderr_bytes;
	for (int i = 1; i < 3 && r >= 0; i++)
		r = guard_terminal(&w->pumps[i], w->pump_used[i], run, err);
	return r;
}

void streams_close_child(struct streams *s)
{
	for (int i = 0; i < 3; i++) {
		if (s->child_owned[i])
			close(s->child[i]);
		s->child_owned[i] = false;
		s->child[i] = -1;
	}
	if (s->child_channel >= 0)
		close(s->child_channel);
	s->child_channel = -1;
}

int streams_open_pty(struct watch *w, const struct nsbox_run *run, struct nsbox_error *err)
{
	owned_fd int in = -1, out = -1, to = -1, from = -1;
	int r;

	in = run->in == NSBOX_IO_RELAY ? copy_of(run->in_fd) : -1;
	if (run->out == NSBOX_IO_NULL)
		out = open("/dev/null", O_WRONLY | O_CLOEXEC); /* read all the same: it must not stall */
	else if (run->out == NSBOX_IO_RELAY)
		out = copy_of(run->out_fd);
	to = copy_of(w->live.pty); /* two numbers: epoll knows one registration for each */
	from = copy_of(w->live.pty);
	if (to < 0 || from < 0 || (run->in == NSBOX_IO_RELAY && in < 0) ||
	    (run->out != NSBOX_IO_CAPTURE && out < 0))
		return err_sys(err, "connect the pty");
	if (in >= 0) {
		r = pump_open(&w->pumps[0], w->epoll, (struct pump_end){ take_fd(in), true },
			      (struct pump_end){ take_fd(to), false }, err);
		w->pump_used[0] = r >= 0;
		if (r < 0)
			return r;
	}
	r = pump_open(&w->pumps[1], w->epoll, (struct pump_end){ take_fd(from), false },
		      (struct pump_end){ take_fd(out), true }, err);
	w->pump_used[1] = r >= 0;
	w->pumps[1].capture = &w->out;
	return r < 0 ? r : guard_terminal(&w->pumps[1], true, run, err);
}
