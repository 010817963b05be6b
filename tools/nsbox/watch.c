/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See watch.h. Runs in the command, beside the box. Mustn't do anything in a
 * signal handler: there is none.
 */
#include "tools/nsbox/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include "tools/nsbox/say.h"
#include "tools/nsbox/tty.h"

#define TWICE_MS 2000 /* a second ^C within this kills */

struct watch {
	struct nsbox_box *box;
	struct tty tty;
	int signals;		/* signalfd */
	int64_t interrupted_ms;	/* when SIGINT came last; 0: never */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The program may be gone already: then there is nobody to tell. */
static void forward(struct watch *w, int signo)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;

	if (nsbox_box_signal(w->box, signo, &ignored) < 0 && ignored.code != NSBOX_E_BUSY)
		say("signal %d could not be passed on: %s", signo, ignored.message);
}

static int on_interrupt(struct watch *w, int signo, struct nsbox_error *err)
{
	int64_t now = now_ms();

	(void)err;
	if (w->interrupted_ms && now - w->interrupted_ms <= TWICE_MS) {
		say("interrupted twice: killing the box");
		nsbox_box_kill(w->box);
		return 0;
	}
	w->interrupted_ms = now;
	forward(w, signo);
	return 0;
}

static int on_forward(struct watch *w, int signo, struct nsbox_error *err)
{
	(void)err;
	forward(w, signo);
	return 0;
}

/* The terminal is gone, and with it whoever could end a program that ignores this. */
static int on_hangup(struct watch *w, int signo, struct nsbox_error *err)
{
	if (w->tty.fd < 0)
		return on_forward(w, signo, err);
	nsbox_box_kill(w->box);
	return 0;
}

static int on_resize(struct watch *w, int signo, struct nsbox_error *err)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;
	uint32_t rows, cols;

	(void)signo;
	(void)err;
	if (w->tty.fd < 0)
		return 0;
	tty_size(&w->tty, &rows, &cols);
	/* A wrong width is no reason to end a run. */
	if (nsbox_box_resize(w->box, rows, cols, &ignored) < 0 && ignored.code != NSBOX_E_BUSY)
		say("the box did not learn the terminal's size: %s", ignored.message);
	return 0;
}

/*
 * The kernel drops SIGTSTP for a process group without a parent in its session,
 * and the program's is one: SIGSTOP is what stops it. The clock of the timeout
 * goes on.
 */
static int on_stop(struct watch *w, int signo, struct nsbox_error *err)
{
	(void)signo;
	forward(w, SIGSTOP);
	tty_restore(&w->tty);
	kill(getpid(), SIGSTOP);
	forward(w, SIGCONT);
	if (w->tty.fd < 0)
		return 0;
	return tty_raw(&w->tty, err) < 0 ? err->code : on_resize(w, SIGWINCH, err);
}

static const struct {
	int signo;
	int (*act)(struct watch *w, int signo, struct nsbox_error *err);
} actions[] = {
	{ SIGINT, on_interrupt }, { SIGTERM, on_forward }, { SIGHUP, on_hangup },
	{ SIGQUIT, on_forward },  { SIGUSR1, on_forward }, { SIGUSR2, on_forward },
	{ SIGWINCH, on_resize },  { SIGTSTP, on_stop },
};

/* A reader that went away is an EPIPE, a background terminal no stop. */
static int block_always(struct nsbox_error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGTTOU);
	return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? cli_fail_errno(err, "block signals") : 0;
}

static int take_signals(struct watch *w, struct nsbox_error *err)
{
	sigset_t watched;

	sigemptyset(&watched);
	for (size_t i = 0; i < CLI_COUNT(actions); i++)
		sigaddset(&watched, actions[i].signo);
	if (sigprocmask(SIG_BLOCK, &watched, NULL) < 0)
		return cli_fail_errno(err, "block signals");
	w->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signals < 0 ? cli_fail_errno(err, "open a signal descriptor") : 0;
}

static int handle_signal(struct watch *w, struct nsbox_error *err)
{
	struct signalfd_siginfo info;

	if (read(w->signals, &info, sizeof(info)) != sizeof(info))
		return errno == EAGAIN || errno == EINTR ? 0 :
							   cli_fail_errno(err, "read a signal");
	for (size_t i = 0; i < CLI_COUNT(actions); i++) {
		if (actions[i].signo == (int)info.ssi_signo)
			return actions[i].act(w, actions[i].signo, err);
	}
	return 0;
}

static int loop(struct watch *w, struct nsbox_error *err)
{
	for (;;) {
		struct pollfd p[] = { { .fd = nsbox_box_fd(w->box), .events = POLLIN },
				      { .fd = w->signals, .events = POLLIN } };
		int r;

		if (poll(p, CLI_COUNT(p), -1) < 0 && errno != EINTR)
			return cli_fail_errno(err, "wait for the box");
		r = p[1].revents ? handle_signal(w, err) : 0;
		if (r == 0)
			r = nsbox_box_wait(w->box, 0, err);
		if (r != 0)
			return r < 0 ? r : 0;
	}
}

static int start_and_wait(struct watch *w, struct nsbox_run *run, struct nsbox_result **out,
			  struct nsbox_error *err)
{
	int r = block_always(err);

	if (r < 0)
		return r;
	if (run->flags & NSBOX_RUN_TTY) {
		r = tty_open(&w->tty, err);
		if (r < 0)
			return r;
		tty_size(&w->tty, &run->tty_rows, &run->tty_cols);
	}
	/*
	 * Raw before the start: a ^C typed meanwhile is for the program. Without a terminal
	 * a signal during the set-up ends nsbox at once, and with it the unfinished box.
	 */
	if (w->tty.fd >= 0)
		r = tty_raw(&w->tty, err);
	if (r == 0 && w->tty.fd >= 0)
		r = take_signals(w, err);
	if (r == 0)
		r = nsbox_box_start(w->box, run, err);
	if (r == 0 && w->signals < 0)
		r = take_signals(w, err);
	if (r == 0)
		r = loop(w, err);
	return r < 0 ? r : nsbox_box_collect(w->box, out, err);
}

int watch_run(struct nsbox_box *box, struct nsbox_run *run, struct nsbox_result **out,
	      struct nsbox_error *err)
{
	struct watch w = { .box = box, .tty = TTY_INIT, .signals = -1 };
	int r = start_and_wait(&w, run, out, err);

	tty_restore(&w.tty);
	if (w.signals >= 0)
		close(w.signals);
	return r;
}
