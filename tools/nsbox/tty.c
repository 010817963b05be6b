/* SPDX-License-Identifier: Apache-2.0 */
/* See tty.h. Runs in the command, beside the box. */
#include "tools/nsbox/tty.h"

#include <sys/ioctl.h>

#include "tools/nsbox/say.h"

int tty_open(struct tty *t, struct nsbox_error *err)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		cli_hint(err, "use -i to pass a pipe or a file on");
		return cli_fail(err, NSBOX_E_USAGE,
				"-t needs a terminal on standard input and output");
	}
	if (tcgetattr(STDIN_FILENO, &t->saved) < 0)
		return cli_fail_errno(err, "read the terminal's settings");
	t->fd = STDIN_FILENO;
	return 0;
}

int tty_raw(struct tty *t, struct nsbox_error *err)
{
	struct termios raw = t->saved;

	cfmakeraw(&raw);
	/* Not DRAIN: it waits for as long as the other end does not read. */
	if (tcsetattr(t->fd, TCSANOW, &raw) < 0)
		return cli_fail_errno(err, "put the terminal into raw mode");
	t->is_raw = true;
	return 0;
}

int tty_keys(struct tty *t, struct nsbox_error *err)
{
	struct termios keys = t->saved;

	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	if (tcsetattr(t->fd, TCSANOW, &keys) < 0)
		return cli_fail_errno(err, "read single keys from the terminal");
	t->is_raw = true;
	return 0;
}

void tty_restore(struct tty *t)
{
	/*
	 * From a background group tcsetattr(3) raises SIGTTOU; it is blocked while
	 * a box runs and in top, and then the kernel lets the call pass.
	 */
	if (t->is_raw && tcsetattr(t->fd, TCSANOW, &t->saved) == 0)
		t->is_raw = false;
}

void tty_size(const struct tty *t, uint32_t *rows, uint32_t *cols)
{
	struct winsize size = { 0 };

	*rows = 24;
	*cols = 80;
	if (ioctl(t->fd, TIOCGWINSZ, &size) < 0)
		return;
	if (size.ws_row)
		*rows = size.ws_row;
	if (size.ws_col)
		*cols = size.ws_col;
}
