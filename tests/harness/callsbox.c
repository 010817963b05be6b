/*
 * callsbox.c - a program whose network is a matter of calls, and nothing else of a box
 *
 *   callsbox [-s KEY=VALUE]... [-n KEY=VALUE] [-p PID_FILE] -- CMD...
 *
 * The filter (policy/seccomp_calls.c), init with its broker, the real nsbox-egress: started
 * as the launcher starts them, without Landlock, folders or limits. -s sets a key of the policy
 * (net.mode is filtered); -p writes the supervisor's process id. Upon SIGUSR1
 * the setting of -n replaces the rules, and "new rules" goes to stderr. The record goes to
 * descriptor 9 where that is open. The exit status is the command's.
 */
#include "base/cleanup.h"
#include "policy/seccomp.h"
#include "runtime/egress.h"
#include "runtime/record.h"
#include "runtime/wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { RECORD_FD = 9, MS = 10000 };

static void die(const char *what, const struct nsbox_error *err)
{
	fprintf(stderr, "callsbox: %s: %s\n", what, err ? err->message : strerror(errno));
	exit(125);
}

static void start_init(const char *init, int sock, int calls, char **argv)
{
	/* Out of the way of the descriptors that init wants. */
	sock = fcntl(sock, F_DUPFD_CLOEXEC, 20);
	calls = fcntl(calls, F_DUPFD_CLOEXEC, 20);
	if (dup2(sock, BOX_FD_SOCK) < 0 || dup2(calls, BOX_FD_CALLS) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("prepare init", NULL);
	close(RECORD_FD);
	execve(init, argv, environ);
	die(init, NULL);
}

static void send_start(int sock, const struct bpf *filter)
{
	struct wire_start start = {
		.head = { .magic = WIRE_MAGIC, .type = WIRE_START, .op = -1 },
		.flags = WIRE_START_TREE | WIRE_START_HELD | WIRE_START_CALLS,
		.filter_len = (uint32_t)filter->count,
	};
	struct iovec iov[2] = { { &start, sizeof(start) },
				{ filter->insn, filter->count * sizeof(filter->insn[0]) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		die("tell init what to start", NULL);
}

/* KEY=VALUE, once for each value of a list. */
static void set(struct policy *p, char *assignment)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char *equals = strchr(assignment, '=');

	if (!equals)
		die(assignment, NULL);
	*equals = '\0';
	if (policy_set(p, assignment, equals + 1, &err) < 0)
		die(assignment, &err);
}

static volatile sig_atomic_t is_to_renew;

static void renew_soon(int signal)
{
	(void)signal;
	is_to_renew = 1;
}

/* @setting: KEY=VALUE, beside the network's mode; NULL: none. */
static void renew(struct egress_link *l, char *setting)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };
	struct identity id;

	is_to_renew = 0;
	policy_init(&p, NULL);
	policy_set(&p, "net.mode", "filtered", NULL);
	if (setting)
		set(&p, setting);
	if (policy_check(&p, &err) < 0 || identity_find(&id, &err) < 0 ||
	    egress_update(l, &p, &id, &err) < 0)
		die("new rules", &err);
	fprintf(stderr, "new rules\n");
	policy_free(&p);
}

/* The wait status of the command; @setting: of renew(). */
static int hear_end(int sock, struct egress_link *l, char *setting)
{
	union {
		struct wire_msg head;
		struct wire_exit end;
	} m;

	for (;;) {
		ssize_t n = recv(sock, &m, sizeof(m), 0);

		if (is_to_renew)
			renew(l, setting);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)sizeof(m.head))
			die("init ended without a word", NULL);
		if (m.head.type == WIRE_FAIL) {
			errno = m.head.value;
			die("start the command", NULL);
		}
		if (m.head.type == WIRE_EXIT)
			return m.end.status;
	}
}

static void start_supervisor(struct egress_link *l, const struct policy *p, int theirs)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct identity id;

	if (identity_find(&id, &err) < 0)
		die("find the identity", &err);
	l->by_calls = true;
	l->setup_ms = MS;
	if (egress_publish(l, p, &err) < 0 || egress_start(l, p, &id, &err) < 0 ||
	    egress_hand_over(l, WIRE_TAG_CALLS, 1, &theirs, 1, &err) < 0 ||
	    egress_hand_over(l, 0, 0, NULL, 0, &err) < 0)
		die("start the supervisor", &err);
	if (egress_settle(l, epoll_create1(EPOLL_CLOEXEC)) < 0)
		die("watch the supervisor", NULL);
	close(theirs);
}

static void write_record(struct egress_link *l, const struct policy *p)
{
	struct nsbox_result *r = calloc(1, sizeof(*r));
	const char *json;

	r->tier = strdup("local");
	if (egress_report(l, r, p) < 0)
		die("hear the report", NULL);
	json = nsbox_result_json(r);
	if (json && write(RECORD_FD, json, strlen(json)) < 0 && errno != EBADF)
		die("write the record", NULL);
}

static void write_pid(const char *path, pid_t pid)
{
	FILE *f = path ? fopen(path, "w") : NULL;

	if (path && (!f || fprintf(f, "%d\n", pid) < 0 || fclose(f) != 0))
		die(path, NULL);
}

static char *init_path(const char *self)
{
	static char path[4096];
	const char *slash = strrchr(self, '/');

	snprintf(path, sizeof(path), "%.*s/../gen/init.bin", slash ? (int)(slash - self) : 1,
		 slash ? self : ".");
	return path;
}

int main(int argc, char **argv)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct bpf filter = { 0 };
	struct policy p = { 0 };
	struct egress_link link;
	const char *pid_file = NULL;
	char *setting = NULL;
	int sock[2], calls[2], status, c;
	char *own = init_path(argv[0]);
	static char init_name[] = "nsbox-init";
	pid_t init;

	policy_init(&p, NULL);
	policy_set(&p, "net.mode", "filtered", NULL);
	while ((c = getopt(argc, argv, "+s:n:p:")) != -1) {
		if (c == 's')
			set(&p, optarg);
		else if (c == 'n')
			setting = optarg;
		else if (c == 'p')
			pid_file = optarg;
		else
			return 2;
	}
	if (optind == argc || policy_check(&p, &err) < 0)
		die("usage or policy", &err);
	if (seccomp_compile_held(&filter, &p, SECCOMP_HOLDS_CALLS, &err) < 0)
		die("compile the filter", &err);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) < 0)
		die("make pairs", NULL);
	egress_init(&link);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = renew_soon }, NULL);
	start_supervisor(&link, &p, calls[1]);
	write_pid(pid_file, link.process.pid);
	argv[--optind] = init_name; /* init's own name, in the place of "--" */
	init = fork();
	if (init == 0)
		start_init(own, sock[1], calls[0], argv + optind);
	close(sock[1]);
	close(calls[0]);
	send_start(sock[0], &filter);
	status = hear_end(sock[0], &link, setting);
	if (waitpid(init, NULL, 0) != init)
		die("wait for init", NULL);
	write_record(&link, &p);
	egress_destroy(&link);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
