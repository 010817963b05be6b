/*
 * nsbox-policyc NAME: a policy's text on stdin, its settings on stdout in the form
 * of policy/wire.h. The half of policy_parse() that needs jansson, as a program of
 * its own, because the static command links no library.
 *
 * Run by runtime/parse_exec.c with an empty environment. Reads nothing but stdin,
 * writes nothing but stdout. The exit code is 0 whenever the answer is whole, also
 * when the answer is an error; NAME only appears in messages.
 *
 * The one program under tools/ that includes the policy floor: it is that floor's
 * loader, not a user of the library.
 */
#include "base/cleanup.h"
#include "policy/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* One byte more than policy_parse() accepts, so that it says "larger than". */
enum { TEXT_MAX = 1024 * 1024 + 1, CHUNK = 64 * 1024 };

static int read_text(struct buf *text)
{
	owned_mem char *chunk = malloc(CHUNK);

	if (!chunk)
		return -1;
	while (text->len < TEXT_MAX) {
		size_t room = TEXT_MAX - text->len;
		ssize_t n = read(0, chunk, room < CHUNK ? room : CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		buf_add(text, chunk, (size_t)n);
	}
	return text->failed ? -1 : 0;
}

static int write_answer(const struct buf *answer)
{
	size_t at = 0;

	while (at < answer->len) {
		ssize_t n = write(1, answer->data + at, answer->len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings settings = { 0 };
	struct buf text = BUF_INIT(TEXT_MAX), answer = BUF_INIT(WIRE_SIZE_MAX);
	int code, status = 1;

	if (argc != 2) {
		fputs("usage: nsbox-policyc NAME < POLICY (a part of nsbox, not a command)\n",
		      stderr);
		return 125;
	}
	if (read_text(&text) < 0)
		code = err_sys(&err, "read a policy from stdin");
	else
		code = policy_parse(&settings, buf_text(&text), text.len,
				    argv[1], &err);
	wire_put(&answer, &settings, code, &err);
	if (!answer.failed && write_answer(&answer) == 0)
		status = 0;
	settings_free(&settings);
	buf_free(&text);
	buf_free(&answer);
	return status;
}
