/*
 * Both ends of the network rows.
 *   stream serve ADDRESS PORT          a byte to each client of PORT, zeros without end to
 *                                      each of PORT + 1; "ready" on stdout, then until killed
 *   stream connect ADDRESS PORT COUNT  median nanoseconds of connect and the first byte
 *   stream refused ADDRESS PORT COUNT  the same of a connect that must be refused
 *   stream bulk ADDRESS PORT BYTES     bytes a second
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char block[1 << 18];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int fail(const char *what)
{
	fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
	return 1;
}

static struct sockaddr_in address(char **arg, int more)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)(atoi(arg[1]) + more)) };

	if (inet_pton(AF_INET, arg[0], &a.sin_addr) != 1)
		exit(2);
	return a;
}

static int listen_on(struct sockaddr_in a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1024))
		exit(fail("listen"));
	return fd;
}

static void serve_bulk(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fork() == 0) {
			while (send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
				;
			_exit(0);
		}
		close(fd);
	}
}

static int serve(char **arg)
{
	int one = listen_on(address(arg, 0)), bulk = listen_on(address(arg, 1));
	pid_t other;

	signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a measurement that is killed leaves no server */
	other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* fork(2) clears it */
		serve_bulk(bulk);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		int fd = accept(one, NULL, NULL);

		if (fd < 0)
			return fail("accept");
		send(fd, "x", 1, MSG_NOSIGNAL);
		close(fd);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int dial(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0)
		return fd;
	close(fd);
	return -errno;
}

static int measure(char **arg, bool refused)
{
	struct sockaddr_in a = address(arg, 0);
	int count = atoi(arg[2]);
	uint64_t *took = calloc((size_t)count, sizeof(*took));

	for (int i = 0; i < count; i++) {
		uint64_t start = now_ns();
		int fd = dial(&a);
		char byte;

		if (refused ? fd != -ECONNREFUSED : fd < 0 || recv(fd, &byte, 1, 0) != 1)
			return fail("measure");
		took[i] = now_ns() - start;
		if (fd >= 0)
			close(fd);
	}
	qsort(took, (size_t)count, sizeof(*took), compare);
	printf("%llu\n", (unsigned long long)took[count / 2]);
	return 0;
}

static int bulk(char **arg)
{
	struct sockaddr_in a = address(arg, 0);
	uint64_t left = strtoull(arg[2], NULL, 10), all = left, start = now_ns();
	int fd = dial(&a);

	while (left) {
		ssize_t n = recv(fd, block, left < sizeof(block) ? left : sizeof(block), 0);

		if (n <= 0)
			return fail("bulk");
		left -= (uint64_t)n;
	}
	printf("%.0f\n", (double)all * 1e9 / (double)(now_ns() - start));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve(argv + 2);
	if (argc == 5 && !strcmp(argv[1], "connect"))
		return measure(argv + 2, false);
	if (argc == 5 && !strcmp(argv[1], "refused"))
		return measure(argv + 2, true);
	if (argc == 5 && !strcmp(argv[1], "bulk"))
		return bulk(argv + 2);
	return 2;
}
