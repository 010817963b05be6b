/*
 * policy_parse() for the static command, which has no JSON parser: asks
 * nsbox-policyc, the program beside it, and remembers the answer.
 *
 * Runs in the launcher. Must find the helper by the command's own place, never by
 * PATH (a project could bring its own). Mustn't inherit anything to it: empty
 * environment, no descriptor but its two.
 */
#include "runtime/parse_cache.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "policy/text.h"
#include "policy/wire.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2) /* Linux 5.11 */
#endif

#ifndef PARSE_DEADLINE_MS /* the tests are in a hurry */
#define PARSE_DEADLINE_MS 10000
#endif

struct helper {
	int fd;			/* O_PATH */
	struct stat st;
	char path[PATH_MAX];
};

/* --- the helper ------------------------------------------------------------- */

static int self_folder(char path[PATH_MAX], struct stat *self,
		       struct nsbox_error *err)
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (n < 0 || stat("/proc/self/exe", self) < 0) {
		err_sys(err, "find nsbox-policyc beside this program: read /proc/self/exe");
		err_hint(err, "mount /proc, or give the settings as flags");
		return NSBOX_E_SYSTEM;
	}
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return err_set(err, NSBOX_E_SYSTEM,
			       "/proc/self/exe is no path: %s", path);
	*slash = '\0';
	return 0;
}

/* Nobody may be able to change the helper who could not change this program. */
static bool is_as_safe(const struct stat *helper, const struct stat *self)
{
	mode_t writers = helper->st_mode & 022;

	return S_ISREG(helper->st_mode) && (helper->st_mode & 0111) &&
	       (helper->st_uid == 0 || helper->st_uid == self->st_uid) &&
	       !(writers & ~self->st_mode) &&
	       (!(writers & 020) || helper->st_gid == self->st_gid);
}

static int find_helper(struct helper *h, struct nsbox_error *err)
{
	static const char *const places[] = {
		"nsbox-policyc", "../libexec/nsbox/nsbox-policyc",
	};
	char folder[PATH_MAX];
	struct stat self;
	int code = self_folder(folder, &self, err);

	if (code < 0)
		return code;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		owned_fd int fd = -1;
		int n = snprintf(h->path, sizeof(h->path), "%s/%s", folder,
				 places[i]);

		if (n < 0 || (size_t)n >= sizeof(h->path))
			continue;
		fd = open(h->path, O_PATH | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (fstat(fd, &h->st) < 0)
			return err_sys(err, "stat %s", h->path);
		if (!is_as_safe(&h->st, &self)) {
			err_set(err, NSBOX_E_SYSTEM,
				"%s is not a program of nsbox's own owner",
				h->path);
			err_hint(err, "its owner must be root or the owner of nsbox, and others may not write it");
			return NSBOX_E_SYSTEM;
		}
		h->fd = take_fd(fd);
		return 0;
	}
	err_set(err, NSBOX_E_SYSTEM, "nsbox-policyc is neither in %s nor in %s/../libexec/nsbox",
		folder, folder);
	err_hint(err, "policy files need it: install it beside nsbox, or give the settings as flags");
	return NSBOX_E_SYSTEM;
}

/* --- one call ---------------------------------------------------------------- */

struct call {
	int exe, in, out;	/* all >= 3 */
	const char *name;
};

/* Away from 0..2: a caller may have started us with those closed. */
static int above_stdio(int fd)
{
	owned_fd int low = fd;

	if (fd < 0 || fd > 2)
		return take_fd(low);
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static _Noreturn void run_helper(const struct call *c)
{
	char *argv[] = { (char *)"nsbox-policyc", (char *)c->name, NULL };
	char *envp[] = { NULL };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Before Linux 5.11 descriptors that the caller left open go along. */
	syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
	if (null < 0 || dup2(c->in, 0) < 0 || dup2(c->out, 1) < 0 ||
	    dup2(null, 2) < 0)
		_exit(126);
	if (null <= 2)
		fcntl(null, F_SETFD, 0);
	syscall(SYS_execveat, c->exe, "", argv, envp, AT_EMPTY_PATH);
	_exit(126);
}

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

/* The answer's end means that it is exiting; SIGKILL changes no exit code then. */
static int reap(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1; /* SIGCHLD is ignored: the kernel reaped it */
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_call(struct call *c, int answer_fd, struct buf *answer,
		    const struct helper *h, struct nsbox_error *err)
{
	int failed, status;
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(err, "fork for %s", h->path);
	if (pid == 0)
		run_helper(c);
	close_owned(&c->out); /* ours: or the answer would never end */
	c->out = -1;
	failed = read_answer(answer_fd, answer);
	status = reap(pid);
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

static int ask(const struct helper *h, const struct text *t, struct buf *answer,
	       struct nsbox_error *err)
{
	owned_fd int exe = above_stdio(fcntl(h->fd, F_DUPFD_CLOEXEC, 3));
	owned_fd int in = above_stdio(fd_sealed("policy", t->raw, t->len));
	owned_fd int answer_fd = -1;
	struct call c = { exe, in, -1, t->file };
	int ends[2], code;

	if (exe < 0 || in < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "prepare a call of %s", h->path);
	answer_fd = above_stdio(ends[0]);
	c.out = above_stdio(ends[1]);
	if (answer_fd < 0 || c.out < 0)
		code = err_sys(err, "prepare a call of %s", h->path);
	else
		code = run_call(&c, answer_fd, answer, h, err);
	close_owned(&c.out);
	return code;
}

/* --- policy_parse() ------------------------------------------------------------- */

/* What the answer depends on: the text, its name, and which helper gave it. */
static void cache_key(const struct helper *h, const struct text *t,
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

static int parse(struct settings *out, const struct helper *h,
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
	struct helper h = { .fd = -1 };
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
