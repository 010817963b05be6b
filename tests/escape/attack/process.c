/*
 * Acts on processes, memory and CPU time.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int attach(char **arg)
{
	return answer(ptrace(PTRACE_ATTACH, (pid_t)number(arg[0]), 0, 0));
}

static int signal_one(char **arg)
{
	return answer(kill((pid_t)strtol(arg[0], NULL, 10), (int)number(arg[1])));
}

/* The act runs in a child of its own: kill(-1) spares the caller, not its reader. */
static int signal_all(char **arg)
{
	(void)arg;
	return answer(kill(-1, SIGKILL));
}

/* Fork without end; every child does the same. Ends when the box does. */
static int fork_bomb(char **arg)
{
	unsigned long most = number(arg[0]), n = 0;

	puts("started");
	fflush(stdout);
	while (!most || n < most) {
		pid_t pid = fork();

		if (pid > 0)
			n++;
		else if (pid < 0 && most)
			return -errno;
		if (!pid && most) {
			pause();
			_exit(0);
		}
	}
	return 0;
}

/* How many children can be had before fork() says no; they end with the caller. */
static int count_forks(char **arg)
{
	unsigned long n = 0, most = number(arg[0]);
	pid_t parent = getpid();
	int error = 0;

	for (; n < most && !error; n++) {
		pid_t pid = fork();

		if (pid < 0) {
			error = errno;
			break;
		}
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (getppid() == parent)
				pause();
			_exit(0);
		}
	}
	if (error)
		printf("%s after %lu\n", errno_text(error), n);
	else
		printf("%lu\n", n);
	fflush(stdout);
	_exit(0);
}

/* A daemon: two forks, a session of its own, deaf to the polite signals. */
static int daemonise(char **arg)
{
	if (fork())
		return 0;
	setsid();
	for (int s = 1; s < 32; s++)
		signal(s, SIG_IGN);
	if (fork())
		_exit(0);
	if (arg[1] && !strcmp(arg[1], "close"))
		syscall(SYS_close_range, 0u, ~0u, 0u);
	sleep((unsigned)number(arg[0]));
	_exit(0);
}

/* Ignores every signal that can be, forks the same twice, and stays. */
static int deaf(char **arg)
{
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	puts("deaf");
	fflush(stdout);
	for (int i = 0; i < 2; i++)
		if (!fork()) {
			setsid();
			if (fork())
				_exit(0);
		}
	sleep((unsigned)number(arg[0]));
	return 0;
}

static int eat_memory(char **arg)
{
	unsigned long want = number(arg[0]), step = 1 << 20;

	for (unsigned long done = 0; done < want; done += step) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return -errno;
		memset(p, 1, step);
	}
	return 0;
}

/* What runtimes with a heap of their own do: map much, use one page of it. */
static int reserve(char **arg)
{
	size_t writable = number(arg[0]), held = number(arg[1]);
	char *p = mmap(NULL, writable, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	*p = 1;
	p = mmap(NULL, held, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? -errno : 0;
}

/* As eat; a file of the host says how much it had when it was killed. */
static int eat_and_tell(char **arg)
{
	unsigned long want = number(arg[1]), step = 1 << 20;
	int fd = open(arg[0], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	volatile unsigned long *told;

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return -errno;
	told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (told == MAP_FAILED)
		return -errno;
	for (unsigned long done = 0; done < want; done += step) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return -errno;
		for (unsigned long i = 0; i < step; i += 4096) {
			p[i] = 1;
			*told += 4096;
		}
	}
	return 0;
}

/* The same spread over many processes, each of them small. */
static int eat_memory_many(char **arg)
{
	unsigned long children = number(arg[0]);

	for (unsigned long i = 0; i < children; i++)
		if (!fork()) {
			eat_memory(arg + 1);
			pause();
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	return 0;
}

/* Shared memory that no process maps any more is still memory. */
static int eat_memfd(char **arg)
{
	static char block[1 << 20];
	unsigned long want = number(arg[0]);
	int fd = (int)syscall(SYS_memfd_create, "x", 0);

	if (fd < 0)
		return -errno;
	for (unsigned long done = 0; done < want; done += sizeof(block))
		if (write(fd, block, sizeof(block)) < 0)
			return -errno;
	usleep(500000); /* it is to be seen */
	return 0;
}

/* Nor does a System V segment need anybody to have it attached. */
static int eat_segments(char **arg)
{
	enum { SEGMENT = 16 << 20, SEGMENTS = 256 };
	unsigned long want = number(arg[0]);
	int ids[SEGMENTS], n = 0, r = 0;

	for (unsigned long done = 0; done < want && n < SEGMENTS && !r; done += SEGMENT) {
		int id = shmget(IPC_PRIVATE, SEGMENT, IPC_CREAT | 0600);
		char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

		if (id >= 0)
			ids[n++] = id;
		if (p == (char *)-1) {
			r = -errno;
			break;
		}
		memset(p, 1, SEGMENT);
		shmdt(p);
	}
	if (!r)
		usleep(500000); /* they are to be seen */
	while (n)
		shmctl(ids[--n], IPC_RMID, NULL);
	return r;
}

static int burn(char **arg)
{
	volatile unsigned long n = 0;

	(void)arg;
	while (n + 1)
		n++;
	return 0;
}

static int receive_rights(char **arg)
{
	char byte, control[CMSG_SPACE(sizeof(int) * 8)];
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg((int)number(arg[0]), &msg, MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	puts(CMSG_FIRSTHDR(&msg) ? "rights" : "bytes");
	return SAID;
}

static int send_rights(char **arg)
{
	char byte = 'x', control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int dir = open("/", O_RDONLY | O_DIRECTORY);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &dir, sizeof(dir));
	return answer(sendmsg((int)number(arg[0]), &msg, MSG_DONTWAIT));
}

static int hold(char **arg)
{
	sleep((unsigned)number(arg[0]));
	return 0;
}

static int limit(char **arg)
{
	struct rlimit r;

	if (getrlimit((int)number(arg[0]), &r) < 0)
		return -errno;
	printf("%ld %ld\n", (long)r.rlim_cur, (long)r.rlim_max);
	return SAID;
}

/* The soft limit after it was set: what counts, whatever setrlimit() answered. */
static int set_limit(char **arg)
{
	int resource = (int)number(arg[0]);
	struct rlimit r;

	if (getrlimit(resource, &r) < 0)
		return -errno;
	r.rlim_cur = number(arg[1]);
	if (setrlimit(resource, &r) < 0 || getrlimit(resource, &r) < 0)
		return -errno;
	printf("%ld\n", (long)r.rlim_cur);
	return SAID;
}

static int raise_limit(char **arg)
{
	struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY };

	return answer(setrlimit((int)number(arg[0]), &r));
}

static int crash(char **arg)
{
	raise((int)number(arg[0]));
	return 0;
}

/* Dispositions and mask a program starts with: ignored signals survive exec. */
static int signals(char **arg)
{
	sigset_t set;
	const char *gap = "";

	(void)arg;
	sigprocmask(SIG_BLOCK, NULL, &set);
	for (int s = 1; s < 32; s++) {
		struct sigaction a;

		if (s == SIGKILL || s == SIGSTOP || sigaction(s, NULL, &a) < 0)
			continue;
		if (a.sa_handler != SIG_IGN && !sigismember(&set, s))
			continue;
		printf("%s%d", gap, s);
		gap = " ";
	}
	puts("");
	return SAID;
}

const struct attack process_attacks[] = {
	{ "ptrace",	1, attach,	   "PID" },
	{ "kill",	2, signal_one,	   "PID SIGNAL" },
	{ "kill-all",	0, signal_all,	   "SIGKILL to -1" },
	{ "fork-bomb",	1, fork_bomb,	   "COUNT, 0: no end" },
	{ "count-forks", 1, count_forks,   "MOST: children alive at once" },
	{ "daemon",	1, daemonise,	   "SECONDS [close]: double fork, setsid, deaf" },
	{ "deaf",	1, deaf,	   "SECONDS: ignore all signals, double fork, stay" },
	{ "eat",	1, eat_memory,	   "BYTES" },
	{ "reserve",	2, reserve,	   "WRITABLE HELD: bytes mapped, not used" },
	{ "eat-and-tell", 2, eat_and_tell, "FILE BYTES: FILE holds how many there were" },
	{ "eat-many",	2, eat_memory_many, "CHILDREN BYTES" },
	{ "eat-segments", 1, eat_segments, "BYTES in System V shared memory that nobody maps" },
	{ "eat-memfd",	1, eat_memfd,	   "BYTES in a file that is only memory" },
	{ "burn",	0, burn,	   "CPU time, for ever" },
	{ "recv-rights", 1, receive_rights, "FD" },
	{ "send-rights", 1, send_rights,   "FD" },
	{ "hold",	1, hold,	   "SECONDS: stay" },
	{ "limit",	1, limit,	   "RESOURCE: soft hard" },
	{ "set-limit",	2, set_limit,	   "RESOURCE SOFT: what it is afterwards" },
	{ "raise-limit", 1, raise_limit,   "RESOURCE to infinity" },
	{ "die",	1, crash,	   "SIGNAL" },
	{ "signals",	0, signals,	   "signals ignored or blocked at start" },
	{ 0 },
};
