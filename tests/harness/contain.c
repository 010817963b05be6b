/*
 * contain FIRST COUNT -- CMD: run CMD as root of a user namespace whose ids 0..COUNT-1
 * are FIRST.. of the host, with a mount namespace of its own: what a rootless
 * container engine gives its root. newuidmap(1) is not on every machine, so root
 * writes the maps itself.
 *
 * Runs before a suite, as its parent; as root of the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "contain: %s: %s\n", what, strerror(errno));
	return 125;
}

static int write_map(pid_t pid, const char *name, const char *first, const char *count)
{
	char path[64], text[64];
	int fd, len;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	len = snprintf(text, sizeof(text), "0 %s %s\n", first, count);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		return -1;
	return close(fd);
}

static int inside(int ready, int mapped, char **command)
{
	char c = 'x';

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return fail("unshare");
	/* EOF instead of a byte: the maps are not there */
	if (write(ready, &c, 1) != 1 || read(mapped, &c, 1) != 1)
		return 125;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return fail("become root of the namespace");
	execvp(command[0], command);
	return fail(command[0]);
}

int main(int argc, char **argv)
{
	int ready[2], mapped[2], status;
	char c = 'x';
	pid_t pid;

	if (argc < 5 || strcmp(argv[3], "--")) {
		fprintf(stderr, "usage: contain FIRST COUNT -- CMD [ARG...]\n");
		return 125;
	}
	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(mapped, O_CLOEXEC) < 0)
		return fail("pipe");
	pid = fork();
	if (pid < 0)
		return fail("fork");
	if (!pid)
		_exit(inside(ready[1], mapped[0], argv + 4));
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return fail("hear from the child");
	if (write_map(pid, "uid_map", argv[1], argv[2]) < 0 ||
	    write_map(pid, "gid_map", argv[1], argv[2]) < 0)
		fail("write the maps");
	else if (write(mapped[1], &c, 1) != 1)
		fail("tell the child");
	close(mapped[1]);
	if (waitpid(pid, &status, 0) < 0)
		return fail("wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
