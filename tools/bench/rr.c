/*
 * rr - time several commands round robin
 *
 * rr ROUNDS WARMUP < SPEC > RAW
 *
 * One round runs every row once, so that whatever else the machine does hits all
 * rows alike and ratios within a round mean something. The start is posix_spawn()
 * (vfork underneath), the end is the reaped exit; stdin, stdout and stderr are
 * /dev/null. Warm-up rounds are not reported. Nothing is pinned.
 *
 * SPEC, one word of meaning a line:
 *   row NAME     begins a row
 *   fd N PATH    the command finds PATH open for reading as descriptor N
 *   serve        the command stays: each round sends it one byte, and it answers
 *                with the nanoseconds it took as eight bytes (0: it failed)
 *   arg TEXT     one argument of the command
 *
 * RAW: row<TAB>round<TAB>microseconds<TAB>exit status (-1: did not start).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS_MAX = 32, ARGS_MAX = 160, SERVE_TIMEOUT_MS = 60000 };

struct row {
	char *name;
	char *argv[ARGS_MAX + 1];
	int argc;
	int fd;		/* number in the command, or -1 */
	char *fd_path;
	bool is_server;
	pid_t server;
	int to, from;
};

extern char **environ;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int die(const char *what)
{
	fprintf(stderr, "rr: %s: %s\n", what, strerror(errno));
	return 2;
}

static int add_line(struct row *row, char *word, char *rest)
{
	if (!strcmp(word, "serve")) {
		row->is_server = true;
	} else if (!strcmp(word, "arg") && row->argc < ARGS_MAX) {
		row->argv[row->argc++] = strdup(rest);
	} else if (!strcmp(word, "fd") && strchr(rest, ' ')) {
		row->fd = (int)strtol(rest, NULL, 10);
		row->fd_path = strdup(strchr(rest, ' ') + 1);
	} else {
		fprintf(stderr, "rr: bad line: %s %s\n", word, rest);
		return -1;
	}
	return 0;
}

static int read_spec(struct row *rows)
{
	char line[65536];
	int n = 0;

	while (fgets(line, sizeof(line), stdin)) {
		char *rest = strchr(line, ' ');

		line[strcspn(line, "\n")] = '\0';
		if (rest)
			*rest++ = '\0';
		if (!strcmp(line, "row") && rest && n < ROWS_MAX) {
			rows[n].name = strdup(rest);
			rows[n++].fd = -1;
		} else if (!n || add_line(&rows[n - 1], line, rest ? rest : line) < 0) {
			return -1;
		}
	}
	return n;
}

/* Descriptors 0..2 of the command; a server has pipes for 0 and 1. */
static int spawn(struct row *row, pid_t *pid, int in, int out)
{
	posix_spawn_file_actions_t actions;
	int failed;

	posix_spawn_file_actions_init(&actions);
	if (in >= 0) {
		posix_spawn_file_actions_adddup2(&actions, in, 0);
		posix_spawn_file_actions_adddup2(&actions, out, 1);
	} else {
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	}
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (row->fd >= 0)
		posix_spawn_file_actions_addopen(&actions, row->fd, row->fd_path, O_RDONLY, 0);
	failed = posix_spawnp(pid, row->argv[0], &actions, NULL, row->argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return failed;
}

static int start_server(struct row *row)
{
	int in[2], out[2], failed;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return errno;
	failed = spawn(row, &row->server, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	row->to = in[1];
	row->from = out[0];
	return failed;
}

/* A server that died or hangs fails its row, not the bench. */
static uint64_t ask_server(struct row *row, int *status)
{
	struct pollfd answer = { .fd = row->from, .events = POLLIN };
	uint64_t ns = 0;

	*status = -1;
	if (write(row->to, "x", 1) != 1 || poll(&answer, 1, SERVE_TIMEOUT_MS) != 1 ||
	    read(row->from, &ns, sizeof(ns)) != (ssize_t)sizeof(ns) || !ns)
		return 0;
	*status = 0;
	return ns;
}

static uint64_t run_command(struct row *row, int *status)
{
	uint64_t start = now_ns();
	pid_t pid;
	int wait_status;

	*status = -1;
	if (spawn(row, &pid, -1, -1))
		return 0;
	while (waitpid(pid, &wait_status, 0) < 0)
		if (errno != EINTR)
			return 0;
	*status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
	return now_ns() - start;
}

static void run_round(struct row *rows, int n, long round)
{
	for (int i = 0; i < n; i++) {
		struct row *row = &rows[i];
		int status;
		uint64_t ns = row->is_server ? ask_server(row, &status) : run_command(row, &status);

		if (round >= 0)
			printf("%s\t%ld\t%.1f\t%d\n", row->name, round, (double)ns / 1000, status);
	}
}

static void stop_servers(struct row *rows, int n)
{
	for (int i = 0; i < n; i++) {
		if (!rows[i].is_server)
			continue;
		close(rows[i].to); /* end of input is the request to end */
		close(rows[i].from);
		waitpid(rows[i].server, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	static struct row rows[ROWS_MAX];
	long rounds = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	long warmup = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	int n = rounds > 0 ? read_spec(rows) : -1;

	if (n <= 0) {
		fprintf(stderr, "usage: rr ROUNDS WARMUP < SPEC\n");
		return 2;
	}
	/* A server that died is a failed row: the write must say EPIPE. */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return die("ignore SIGPIPE");
	for (int i = 0; i < n; i++)
		if (rows[i].is_server && start_server(&rows[i]))
			return die(rows[i].name);
	for (long round = -warmup; round < rounds; round++)
		run_round(rows, n, round);
	stop_servers(rows, n);
	return fflush(stdout) ? die("write") : 0;
}
