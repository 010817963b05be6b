/*
 * libnsbox from a program that stays: what an embedder pays for a box.
 *
 *   lib serve-fresh CMD...        a byte on stdin: open, run, close; answers nanoseconds
 *   lib serve-open CMD...         the same with one box that stays open
 *   lib serve-cell LANGUAGE CODE   a byte on stdin: one cell of a kernel that stays
 *   lib rate IN_FLIGHT SECONDS CMD...   one launcher, that many boxes at once
 *   lib rate-bare IN_FLIGHT SECONDS CMD...   the same with posix_spawn() and no box
 *
 * NSBOX_BENCH_RO: a folder that appears in the box at the same place.
 */
#include <errno.h>
#include <nsbox.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { FLIGHT_MAX = 256 };

struct bench {
	struct nsbox_policy *policy;
	struct nsbox_run run;
	struct nsbox_error err;
	char **argv;
};

struct slot { /* one of the boxes (or bare processes) in flight */
	struct nsbox_box *box;
	pid_t pid;
	int fd;
};

extern char **environ;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int complain(const struct bench *b, const char *what)
{
	fprintf(stderr, "lib: %s: %s%s%s\n", what, b->err.message, b->err.hint[0] ? " - " : "",
		b->err.hint);
	return 1;
}

static int bench_init(struct bench *b, char **argv)
{
	const char *folder = getenv("NSBOX_BENCH_RO");

	*b = (struct bench){ .run = NSBOX_RUN_INIT, .err = NSBOX_ERROR_INIT, .argv = argv };
	b->run.argv = (const char *const *)argv;
	b->run.out = b->run.err = NSBOX_IO_NULL;
	if (nsbox_policy_new(&b->policy, "default", &b->err) < 0)
		return -1;
	return folder ? nsbox_policy_set(b->policy, "fs.read", folder, &b->err) : 0;
}

/* Only a payload that ran to a good end counts. */
static bool ended_well(const struct nsbox_result *r)
{
	return nsbox_result_verdict(r) == NSBOX_EXITED && nsbox_result_exit_code(r) == 0;
}

static int run_in(struct bench *b, struct nsbox_box *box)
{
	struct nsbox_result *result;
	bool good;

	if (nsbox_box_run(box, &b->run, &result, &b->err) < 0)
		return -1;
	good = ended_well(result);
	nsbox_result_free(result);
	return good ? 0 : -1;
}

static int run_fresh(struct bench *b)
{
	struct nsbox_box *box;
	int ret;

	if (nsbox_box_open(&box, NSBOX_TIER_LOCAL, b->policy, &b->err) < 0)
		return -1;
	ret = run_in(b, box);
	nsbox_box_close(box);
	return ret;
}

static int serve(struct bench *b, bool keep_open)
{
	struct nsbox_box *box = NULL;
	char request;

	if (keep_open && nsbox_box_open(&box, NSBOX_TIER_LOCAL, b->policy, &b->err) < 0)
		return complain(b, "open");
	while (read(STDIN_FILENO, &request, 1) == 1) {
		uint64_t start = now_ns(), took;
		int ret = keep_open ? run_in(b, box) : run_fresh(b);

		took = ret < 0 ? 0 : now_ns() - start;
		if (write(STDOUT_FILENO, &took, sizeof(took)) != (ssize_t)sizeof(took))
			break;
		if (ret < 0) {
			nsbox_box_close(box);
			return complain(b, "run");
		}
	}
	nsbox_box_close(box);
	return 0;
}

/* Events until the one that holds @text. */
static int await(struct bench *b, struct nsbox_kernel *k, const char *text)
{
	struct pollfd pfd = { .fd = nsbox_kernel_fd(k), .events = POLLIN };
	const char *json = "";
	int ret;

	while ((ret = nsbox_kernel_next(k, &json, NULL, &b->err)) >= 0) {
		if (ret == 0 && poll(&pfd, 1, 30000) != 1)
			return -1;
		if (ret == 1 && strstr(json, text))
			return 0;
	}
	return -1;
}

/* @code is text that JSON writes as it is. */
static int run_cell(struct bench *b, struct nsbox_kernel *k, const char *code, unsigned id)
{
	char request[512], done[64];
	int len = snprintf(request, sizeof(request),
			   "{\"id\":%u,\"op\":\"execute\",\"code\":\"%s\"}", id, code);

	snprintf(done, sizeof(done), "{\"id\":%u,\"event\":\"done\",\"status\":\"ok\"", id);
	if (nsbox_kernel_send(k, request, (size_t)len, &b->err) < 0)
		return -1;
	return await(b, k, done);
}

static int serve_cells(struct bench *b, const char *language, const char *code)
{
	struct nsbox_run run = NSBOX_RUN_INIT;
	struct nsbox_kernel *k = NULL;
	struct nsbox_box *box = NULL;
	uint64_t took = 1;
	unsigned id = 1;
	char request;

	run.language = language;
	run.timeout_ms = 3600000;
	if (nsbox_box_open(&box, NSBOX_TIER_LOCAL, b->policy, &b->err) < 0 ||
	    nsbox_kernel_open(&k, box, &run, &b->err) < 0 || run_cell(b, k, "x=1", id) < 0)
		took = 0;
	while (took && read(STDIN_FILENO, &request, 1) == 1) {
		uint64_t start = now_ns();

		took = run_cell(b, k, code, ++id) < 0 ? 0 : now_ns() - start;
		if (write(STDOUT_FILENO, &took, sizeof(took)) != (ssize_t)sizeof(took))
			break;
	}
	if (!took)
		complain(b, "cell");
	if (nsbox_kernel_close(k, NULL, &b->err) < 0)
		took = 0;
	nsbox_box_close(box);
	return !took;
}

static int slot_start(struct bench *b, struct slot *slot, bool bare)
{
	if (bare) {
		if (posix_spawn(&slot->pid, b->argv[0], NULL, NULL, b->argv, environ))
			return -1;
		slot->fd = (int)syscall(SYS_pidfd_open, slot->pid, 0);
		return slot->fd < 0 ? -1 : 0;
	}
	if (nsbox_box_open(&slot->box, NSBOX_TIER_LOCAL, b->policy, &b->err) < 0 ||
	    nsbox_box_start(slot->box, &b->run, &b->err) < 0)
		return -1;
	slot->fd = nsbox_box_fd(slot->box);
	return slot->fd < 0 ? -1 : 0;
}

/* 1: ended and cleaned up; 0: still running; -1: failed. */
static int slot_finish(struct bench *b, struct slot *slot, bool bare)
{
	struct nsbox_result *result;
	int status, ret;
	bool good;

	if (bare) {
		close(slot->fd);
		return waitpid(slot->pid, &status, 0) == slot->pid && !status ? 1 : -1;
	}
	ret = nsbox_box_wait(slot->box, 0, &b->err);
	if (ret <= 0)
		return ret;
	if (nsbox_box_collect(slot->box, &result, &b->err) < 0)
		return -1;
	good = ended_well(result);
	nsbox_result_free(result);
	nsbox_box_close(slot->box);
	return good ? 1 : -1;
}

static int slot_watch(int epoll, struct slot *slot, bool watch)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = slot };

	return epoll_ctl(epoll, watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, slot->fd, &event);
}

/* Keep `n` in flight until the end, then let the last ones finish. */
static long rate_loop(struct bench *b, int n, uint64_t end, bool bare)
{
	static struct slot slots[FLIGHT_MAX];
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC), running = 0;
	long done = 0;

	for (int i = 0; i < n; i++, running++)
		if (epoll < 0 || slot_start(b, &slots[i], bare) < 0 || slot_watch(epoll, &slots[i], true) < 0)
			return -1;
	while (running) {
		struct slot *slot;
		int ret;

		if (epoll_wait(epoll, &event, 1, 30000) != 1)
			return -1;
		slot = event.data.ptr;
		if (bare && slot_watch(epoll, slot, false) < 0)
			return -1;
		ret = slot_finish(b, slot, bare);
		if (ret < 0)
			return -1;
		if (!ret)
			continue;
		done++;
		running--;
		if (now_ns() >= end)
			continue;
		if (slot_start(b, slot, bare) < 0 || slot_watch(epoll, slot, true) < 0)
			return -1;
		running++;
	}
	close(epoll);
	return done;
}

static int rate(struct bench *b, char **argv, bool bare)
{
	long n = strtol(argv[0], NULL, 10);
	double seconds = strtod(argv[1], NULL);
	uint64_t start = now_ns();
	long done;

	if (n < 1 || n > FLIGHT_MAX || seconds <= 0)
		return 2;
	done = rate_loop(b, (int)n, start + (uint64_t)(seconds * 1e9), bare);
	if (done < 0)
		return complain(b, "rate");
	printf("%.1f\n", (double)done * 1e9 / (double)(now_ns() - start));
	return 0;
}

int main(int argc, char **argv)
{
	bool is_rate = argc > 4 && !strncmp(argv[1], "rate", 4);
	struct bench b;
	int ret;

	if (argc < 3) {
		fprintf(stderr, "usage: lib serve-fresh|serve-open|serve-cell|rate|rate-bare ...\n");
		return 2;
	}
	if (bench_init(&b, argv + (is_rate ? 4 : 2)) < 0)
		return complain(&b, "policy");
	if (!strcmp(argv[1], "serve-cell") && argc == 4) {
		ret = serve_cells(&b, argv[2], argv[3]);
		nsbox_policy_free(b.policy);
		return ret;
	}
	ret = is_rate ? rate(&b, argv + 2, !strcmp(argv[1], "rate-bare")) :
			serve(&b, !strcmp(argv[1], "serve-open"));
	nsbox_policy_free(b.policy);
	return ret;
}
