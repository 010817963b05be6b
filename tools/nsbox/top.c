/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `nsbox top`: look, print, wait, again. Runs in the command; makes no box and
 * touches none.
 *
 * Must put the terminal back on every way out. Mustn't send a terminal anything that a
 * dumb one (TERM=dumb, or none) would show as rubbish.
 */
#include "tools/nsbox/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>

#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/tty.h"
#include "tools/nsbox/verbs.h"

#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"
#define CURSOR_OFF "\033[?25l"
#define CURSOR_ON "\033[?25h"
#define REVERSE "\033[7m"
#define PLAIN "\033[0m"

enum { INTERVAL_MS = 1000, INTERVAL_LEAST = 100, INTERVAL_MOST = 3600000, LAST = 10,
       LAST_MOST = 1000 };

struct top {
	const struct args *args;
	uint64_t interval_ms, last;
	struct top_list now;
	struct tty tty;		/* keys are read from it; fd -1: none */
	int signals;
	bool is_ansi;		/* draws over what it drew before */
	int status;		/* of the exit, once is_over */
	bool is_over;
};

/* --- flags ------------------------------------------------------------------- */

/* Digits at *text; false: none, or far too many. */
static bool take_number(const char **text, uint64_t *out)
{
	const char *p = *text;

	for (*out = 0; *p >= '0' && *p <= '9'; p++) {
		if (*out > 1000000000)
			return false;
		*out = *out * 10 + (uint64_t)(*p - '0');
	}
	if (p == *text)
		return false;
	*text = p;
	return true;
}

/* "2", "0.5", "1s" (seconds), "500ms" */
static bool interval_of(const char *text, uint64_t *ms)
{
	uint64_t whole, milli = 0, unit = 100;

	if (!take_number(&text, &whole))
		return false;
	if (strcmp(text, "ms") == 0) {
		*ms = whole;
		return true;
	}
	if (*text == '.') {
		for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
			milli += unit * (uint64_t)(*text - '0');
	}
	*ms = whole * 1000 + milli;
	return !*text || strcmp(text, "s") == 0;
}

static int read_flags(struct top *t, struct nsbox_error *err)
{
	const struct args *a = t->args;
	const char *last = a->last;

	t->interval_ms = INTERVAL_MS;
	t->last = LAST;
	if (a->operands.n)
		return cli_fail(err, NSBOX_E_USAGE, "'nsbox top' does not take '%s'",
				a->operands.v[0]);
	if (a->interval && (!interval_of(a->interval, &t->interval_ms) ||
			    t->interval_ms < INTERVAL_LEAST || t->interval_ms > INTERVAL_MOST)) {
		cli_hint(err, "for example --interval 2s; at least 100ms, at most an hour");
		return cli_fail(err, NSBOX_E_USAGE, "'%s' is no interval", a->interval);
	}
	if (last && (!take_number(&last, &t->last) || *last || t->last > LAST_MOST)) {
		cli_hint(err, "give a number from 0 to 1000");
		return cli_fail(err, NSBOX_E_USAGE, "--last cannot be '%s'", a->last);
	}
	return 0;
}

/* --- printing ---------------------------------------------------------------- */

static void put_table(FILE *out, struct top *t, bool is_first)
{
	static const struct tty standard_output = { .fd = STDOUT_FILENO };
	struct top_screen s = { .line_end = "\n", .head_begin = "", .head_end = "" };
	uint32_t rows = 0, cols = 0;

	if (isatty(STDOUT_FILENO))
		tty_size(&standard_output, &rows, &cols);
	s.cols = cols;
	if (t->is_ansi) {
		s = (struct top_screen){ .rows = rows, .cols = cols, .line_end = CLEAR_LINE "\n",
					 .head_begin = REVERSE, .head_end = PLAIN };
		fputs(is_first ? CURSOR_OFF HOME CLEAR_BELOW : CURSOR_OFF HOME, out);
	} else if (!is_first) {
		putc('\n', out);
	}
	top_table(out, &t->now, &s);
	if (t->is_ansi)
		fputs(CLEAR_BELOW, out);
}

static int look_and_print(struct top *t, bool is_first, struct nsbox_error *err)
{
	struct top_list fresh;
	const struct top_how how = { .last = t->last,
				     .by_age = t->args->sort && strcmp(t->args->sort, "age") == 0,
				     .before = is_first ? NULL : &t->now };
	auto_free char *text = NULL;
	size_t len = 0;
	FILE *out;
	int r = top_look(&fresh, &how, err);

	if (r < 0)
		return r;
	top_free(&t->now);
	t->now = fresh;
	out = open_memstream(&text, &len);
	if (!out)
		return cli_nomem(err);
	if (t->args->json)
		top_json(out, &t->now);
	else
		put_table(out, t, is_first);
	if (fclose(out) != 0 || !text)
		return cli_nomem(err);
	if (report_text(text) != STATUS_OK) { /* which has said so */
		t->is_over = true;
		t->status = STATUS_NSBOX;
	}
	return 0;
}

/* --- the terminal -------------------------------------------------------------- */

static int take_terminal(struct top *t, struct nsbox_error *err)
{
	const char *term = getenv("TERM");

	t->is_ansi = !t->args->json && !t->args->once && isatty(STDOUT_FILENO) && term && *term &&
		     strcmp(term, "dumb") != 0;
	if (t->args->once || t->args->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return 0;
	if (tty_open(&t->tty, err) < 0 || tty_keys(&t->tty, err) < 0)
		return err->code;
	return 0;
}

static void leave_terminal(struct top *t)
{
	if (t->is_ansi && report_text(CURSOR_ON) != STATUS_OK)
		t->is_ansi = false;
	tty_restore(&t->tty);
}

/* ^Z: the shell gets its terminal as it was, and we ours when it lets us go on. */
static int stop(struct top *t, struct nsbox_error *err)
{
	leave_terminal(t);
	kill(getpid(), SIGSTOP);
	return t->tty.fd >= 0 ? tty_keys(&t->tty, err) : 0;
}

static int take_signals(struct top *t, struct nsbox_error *err)
{
	static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < CLI_COUNT(watched); i++)
		sigaddset(&set, watched[i]);
	if (t->tty.fd >= 0) {
		sigaddset(&set, SIGTSTP);
		sigaddset(&set, SIGTTOU); /* tcsetattr() from the background */
	}
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cli_fail_errno(err, "block signals");
	sigdelset(&set, SIGTTOU);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->signals < 0 ? cli_fail_errno(err, "open a signal descriptor") : 0;
}

/* --- the loop ------------------------------------------------------------------ */

static int handle_signal(struct top *t, struct nsbox_error *err)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof(info)) != sizeof(info))
		return errno == EAGAIN || errno == EINTR ? 0 :
							   cli_fail_errno(err, "read a signal");
	if (info.ssi_signo == SIGWINCH)
		return 0;
	if (info.ssi_signo == SIGTSTP)
		return stop(t, err);
	t->is_over = true;
	t->status = info.ssi_signo == SIGINT ? STATUS_OK : 128 + (int)info.ssi_signo;
	return 0;
}

/* q ends it; so does the end of the input: the terminal is gone. */
static void handle_key(struct top *t)
{
	char keys[16];
	ssize_t n = read(t->tty.fd, keys, sizeof(keys));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0 || memchr(keys, 'q', (size_t)n) || memchr(keys, 'Q', (size_t)n))
		t->is_over = true;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Until the next look is due, or something calls for one (a new size, a stop). */
static int wait_a_turn(struct top *t, struct nsbox_error *err)
{
	int64_t end = now_ms() + (int64_t)t->interval_ms;

	for (;;) {
		struct pollfd p[] = { { .fd = t->signals, .events = POLLIN },
				      { .fd = t->tty.fd, .events = POLLIN } };
		int64_t left = end - now_ms();
		int n = left > 0 ? poll(p, CLI_COUNT(p), (int)left) : 0;

		if (n < 0 && errno != EINTR)
			return cli_fail_errno(err, "wait");
		if (n == 0)
			return 0;
		if (n > 0 && p[1].revents)
			handle_key(t);
		if (n > 0 && p[0].revents)
			return handle_signal(t, err);
		if (t->is_over)
			return 0;
	}
}

static int run(struct top *t, struct nsbox_error *err)
{
	int r = read_flags(t, err);

	if (r == 0)
		r = take_terminal(t, err);
	if (r == 0)
		r = take_signals(t, err);
	for (bool is_first = true; r == 0 && !t->is_over; is_first = false) {
		r = look_and_print(t, is_first, err);
		if (r == 0 && t->args->once)
			t->is_over = true;
		if (r == 0 && !t->is_over)
			r = wait_a_turn(t, err);
	}
	return r;
}

int verb_top(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct top t = { .args = a, .tty = TTY_INIT, .signals = -1 };
	int r = run(&t, &err);

	leave_terminal(&t);
	if (t.signals >= 0)
		close(t.signals);
	top_free(&t.now);
	return r < 0 ? report_error(a, &err) : t.status;
}
