/*
 * scope.c - the launcher's side of nsbox-scope
 *
 * Runs in the launcher, and in a child of doctor.
 *
 * Must:    take a short, late or missing answer for a failure; end the program it began.
 * Mustn't: believe the answer: the caller opens the path and looks.
 */
#include "runtime/scope.h"

#include "base/cleanup.h"
#include "runtime/companion.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
	/* nsbox-scope itself gives up after 7 s: systemd may have much to do. */
	START_MS = 8000,
	ATTACH_MS = 8000,
};

#define RUN_USER "/run/user/"

/* systemd's own folder for the sockets of a user; not XDG_RUNTIME_DIR, which whoever
 * set the environment could point elsewhere. */
bool scope_is_likely(void)
{
	char path[64] = RUN_USER, *to = decimal_put(path + sizeof(RUN_USER) - 1, geteuid());

	memcpy(to, "/systemd", sizeof("/systemd"));
	return faccessat(AT_FDCWD, path, X_OK, 0) == 0;
}

static void failed(struct scope_answer *a, const char *text, int os_errno)
{
	size_t n = strlen(text);

	memset(a, 0, sizeof(*a));
	a->failed = 1;
	a->os_errno = os_errno;
	memcpy(a->text, text, n < sizeof(a->text) ? n : sizeof(a->text) - 1);
}

/* One packet within the time; its texts end within their fields. */
static int hear(int sock, int within_ms, struct scope_answer *a)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;
	int ready;

	do
		ready = poll(&p, 1, within_ms);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0) {
		failed(a, "nsbox-scope did not answer in time", ready ? errno : ETIMEDOUT);
		return -1;
	}
	n = recv(sock, a, sizeof(*a), MSG_DONTWAIT | MSG_TRUNC);
	if (n != (ssize_t)sizeof(*a) || a->magic != SCOPE_MAGIC) {
		failed(a, "nsbox-scope ended without an answer", n < 0 ? errno : 0);
		return -1;
	}
	a->text[sizeof(a->text) - 1] = '\0';
	a->path[sizeof(a->path) - 1] = '\0';
	return a->failed ? -1 : 0;
}

/* Answers that came too late for their request are passed over. */
static int hear_about(int sock, uint32_t pid, struct scope_answer *a)
{
	int r;

	do
		r = hear(sock, ATTACH_MS, a);
	while (a->magic == SCOPE_MAGIC && a->pid != pid);
	return r;
}

static int start_program(struct companion_process *p, int exe, int its)
{
	char *argv[] = { (char *)"nsbox-scope", NULL };
	owned_fd int null = companion_above_stdio(openat(AT_FDCWD, "/dev/null",
							  O_RDWR | O_CLOEXEC));
	const struct companion_call call = { exe, { its, null, null }, argv };

	return null < 0 ? -1 : companion_start(p, &call);
}

int scope_start(struct scope *s, struct scope_answer *answer)
{
	struct companion program;
	owned_fd int exe = -1, mine = -1, its = -1;
	struct companion_process process;
	int pair[2];

	if (companion_find(&program, "nsbox-scope") < 0) {
		bool is_missing = errno == ENOENT;

		failed(answer, is_missing ? "nsbox-scope is not installed beside nsbox"
					  : "nsbox-scope cannot be used", errno);
		return is_missing ? SCOPE_NO_PROGRAM : -1;
	}
	exe = companion_above_stdio(program.fd);
	if (exe < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		failed(answer, "prepare a start of nsbox-scope", errno);
		return -1;
	}
	mine = companion_above_stdio(pair[0]);
	its = companion_above_stdio(pair[1]);
	if (mine < 0 || its < 0 || start_program(&process, exe, its) < 0) {
		failed(answer, "nsbox-scope cannot be started", errno);
		return -1;
	}
	close(take_fd(its)); /* so that its death is EOF here */
	if (hear(mine, START_MS, answer) < 0) {
		companion_end(&process);
		return -1;
	}
	*s = (struct scope){ .pid = process.pid, .pidfd = process.pidfd, .sock = take_fd(mine) };
	return 0;
}

int scope_attach(const struct scope *s, const char *leaf, pid_t pid, struct nsbox_error *err)
{
	struct scope_request r = { .magic = SCOPE_MAGIC, .pid = (uint32_t)pid };
	struct scope_answer a;
	size_t n = strlen(leaf);

	if (n >= sizeof(r.leaf))
		return err_set(err, NSBOX_E_USAGE, "the cgroup name %s is too long", leaf);
	memcpy(r.leaf, leaf, n);
	if (send(s->sock, &r, sizeof(r), MSG_NOSIGNAL) != (ssize_t)sizeof(r)) {
		err_hint(err, "something ended nsbox-scope; the next box gets a new one");
		return err_sys(err, "ask nsbox-scope to move a process");
	}
	if (hear_about(s->sock, r.pid, &a) < 0)
		return a.os_errno ? err_errno(err, NSBOX_E_SYSTEM, a.os_errno,
					      "move process %d into cgroup %s: %s", (int)pid, leaf,
					      a.text)
				  : err_set(err, NSBOX_E_SYSTEM,
					    "move process %d into cgroup %s: %s", (int)pid, leaf,
					    a.text);
	return 0;
}

void scope_end(struct scope *s)
{
	struct companion_process process = { s->pid, s->pidfd };
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };

	if (!s->pid)
		return;
	/* EOF is its sign to go, also while a copy of this process holds the socket. */
	shutdown(s->sock, SHUT_WR);
	poll(&p, 1, 200);
	companion_end(&process);
	close(s->sock);
	*s = (struct scope){ 0 };
}
