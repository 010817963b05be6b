/*
 * policy_parse() for the static command, which has no JSON parser: asks
 * nsbox-policyc, the program beside it, and remembers the answer.
 *
 * Runs in the launcher. Must find the helper by the command's own place, never by
 * PATH (a project could bring its own). Mustn't inherit anything to it: empty
 * environment, no descriptor but its three (companion.h).
 */
#include "runtime/parse_cache.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "policy/text.h"
#include "policy/wire.h"
#include "runtime/companion.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#ifndef PARSE_DEADLINE_MS /* the tests are in a hurry */
#define PARSE_DEADLINE_MS 10000
#endif

/* --- the helper ------------------------------------------------------------- */

static int find_helper(struct companion *h, struct nsbox_error *err)
{
	if (companion_find(h, "nsbox-policyc") == 0)
		return 0;
	if (errno == EPERM) {
		err_set(err, NSBOX_E_SYSTEM,
			"%s is not a program of nsbox's own owner", h->path);
		err_hint(err, "its owner must be root or the owner of nsbox, and others may not write it");
	} else if (errno == ENOENT && h->folder[0]) {
		err_set(err, NSBOX_E_SYSTEM, "nsbox-policyc is neither in %s nor in %s/../libexec/nsbox",
			h->folder, h->folder);
		err_hint(err, "policy files need it: install it beside nsbox, or give the settings as flags");
	} else {
		err_sys(err, "find nsbox-policyc beside this program: read /proc/self/maps");
		err_hint(err, "mount /proc, or give the settings as flags");
	}
	return NSBOX_E_SYSTEM;
}

/* --- one call ---------------------------------------------------------------- */

struct call {
	int exe, in, out, null;	/* all >= 3 */
	const char *name;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Read to the end, or to the deadline, or to what no answer can be. */
static int read_answer(int fd, struct buf *answer)
{
	int64_t end = now_ms() + PARSE_DEADLINE_MS;
	char chunk[16 * 1024];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - now_ms();
		ssize_t n;

		if (left <= 0)
			return ETIMEDOUT;
		if (poll(&p, 1, (int)left) < 0 && errno != EINTR)
			return errno;
		if (!p.revents)
			continue;
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : 0;
		buf_add(answer, chunk, (size_t)n);
		if (answer->failed)
			return EMSGSIZE;
	}
}

static int run_call(struct call *c, int answer_fd, struct buf *answer,
		    const struct companion *h, struct nsbox_error *err)
{
	char *argv[] = { (char *)"nsbox-policyc", (char *)c->name, NULL };
	const struct companion_call start = { c->exe, { c->in, c->out, c->null }, argv };
	struct companion_process process;
	int failed, status;

	if (companion_start(&process, &start) < 0)
		return err_sys(err, "start %s", h->path);
	close_owned(&c->out); /* ours: or the answer would never end */
	c->out = -1;
	failed = read_answer(answer_fd, answer);
	/* The answer's end means that it is exiting; SIGKILL changes no exit code then. */
	status = companion_end(&process);
	if (failed)
		return err_errno(err, NSBOX_E_SYSTEM, failed,
				 "read the answer of %s", h->path);
	if (answer->len || status <= 0)
		return 0; /* whether it is whole is seen by its lengths */
	err_set(err, NSBOX_E_SYSTEM, "%s ended with status %d and no answer",
		h->path, status);
	err_hint(err, "run it by hand; ldd(1) shows a missing library (libjansson4)");
	return NSBOX_E_SYSTEM;
}

static int ask(const struct companion *h, const struct text *t, struct buf *answer,
	       struct nsbox_error *err)
{
	owned_fd int exe = companion_above_stdio(fcntl(h->fd, F_DUPFD_CLOEXEC, 3));
	owned_fd int in = companion_above_stdio(fd_sealed("policy", t->raw, t->len));
	owned_fd int null = companion_above_stdio(open("/dev/null", O_WRONLY | O_CLOEXEC));
	owned_fd int answer_fd = -1;
	struct call c = { exe, in, -1, null, t->file };
	int ends[2], code;

	if (exe < 0 || in < 0 || null < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "prepare a call of %s", h->path);
	answer_fd = companion_above_stdio(ends[0]);
	c.out = companion_above_stdio(ends[1]);
	if (answer_fd < 0 || c.out < 0)
		code = err_sys(err, "prepare a call of %s", h->path);
	else
		code = run_call(&c, answer_fd, answer, h, err);
	close_owned(&c.out);
	return code;
}

/* --- policy_parse() ------------------------------------------------------------- */

/* What the answer depends on: the text, its name, and which helper gave it. */
static void cache_key(const struct companion *h, const struct text *t,
		      unsigned char key[32])
{
	const uint64_t of_helper[] = {
		NSBOX_VERSION_MAJOR, NSBOX_VERSION_MINOR, NSBOX_VERSION_PATCH,
		h->st.st_dev, h->st.st_ino, (uint64_t)h->st.st_size,
		(uint64_t)h->st.st_mtim.tv_sec, (uint64_t)h->st.st_mtim.tv_nsec,
		strlen(t->file), t->len,
	};
	struct sha256 sha;

	sha256_init(&sha);
	sha256_add(&sha, of_helper, sizeof(of_helper));
	sha256_add(&sha, t->file, strlen(t->file));
	sha256_add(&sha, t->raw, t->len);
	sha256_end(&sha, key);
}

static int parse(struct settings *out, const struct companion *h,
		 const struct text *t, struct nsbox_error *err)
{
	owned_fd int cache = parse_cache_open(NULL);
	struct buf answer = BUF_INIT(WIRE_SIZE_MAX);
	unsigned char key[32];
	int code;

	cache_key(h, t, key);
	if (cache >= 0 && parse_cache_get(cache, key, &answer) &&
	    wire_get(out, answer.data, answer.len, t->file, NULL) == 0) {
		buf_free(&answer);
		return 0;
	}
	buf_clear(&answer);
	code = ask(h, t, &answer, err);
	if (code == 0)
		code = wire_get(out, buf_text(&answer), answer.len, t->file,
				err);
	if (code == 0 && cache >= 0)
		parse_cache_put(cache, key, answer.data, answer.len);
	buf_free(&answer);
	return code;
}

int policy_parse(struct settings *out, const char *text, size_t len,
		 const char *file, struct nsbox_error *err)
{
	struct companion h = { .fd = -1 };
	struct text t = { 0 };
	int code;

	/* What is too large or no text at all is refused without the helper, in
	 * the same words. */
	code = text_open(&t, text, len, file, err);
	if (code < 0)
		return code;
	code = find_helper(&h, err);
	if (code == 0)
		code = parse(out, &h, &t, err);
	close_owned(&h.fd);
	text_close(&t);
	return code;
}
