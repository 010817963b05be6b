/*
 * Finds the act in the tables and prints its answer. Runs as the payload of a box
 * or bare. Must print one line and exit 0 for every act; exit 2 is a wrong call.
 */
#include "attack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERRORS(X) \
	X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(ENXIO) X(E2BIG) X(ENOEXEC) \
	X(EBADF) X(ECHILD) X(EAGAIN) X(ENOMEM) X(EACCES) X(EFAULT) X(ENOTBLK) \
	X(EBUSY) X(EEXIST) X(EXDEV) X(ENODEV) X(ENOTDIR) X(EISDIR) X(EINVAL) \
	X(ENFILE) X(EMFILE) X(ENOTTY) X(ETXTBSY) X(EFBIG) X(ENOSPC) X(ESPIPE) \
	X(EROFS) X(EMLINK) X(EPIPE) X(EDOM) X(ERANGE) X(ENAMETOOLONG) X(ENOLCK) \
	X(ENOSYS) X(ENOTEMPTY) X(ELOOP) X(ENODATA) X(EPROTO) X(EOVERFLOW) \
	X(EUSERS) X(ENOTSOCK) X(EDESTADDRREQ) X(EMSGSIZE) X(EPROTOTYPE) \
	X(ENOPROTOOPT) X(EPROTONOSUPPORT) X(ESOCKTNOSUPPORT) X(EOPNOTSUPP) \
	X(EPFNOSUPPORT) X(EAFNOSUPPORT) X(EADDRINUSE) X(EADDRNOTAVAIL) \
	X(ENETDOWN) X(ENETUNREACH) X(ECONNABORTED) X(ECONNRESET) X(ENOBUFS) \
	X(EISCONN) X(ENOTCONN) X(ETIMEDOUT) X(ECONNREFUSED) X(EHOSTUNREACH) \
	X(EALREADY) X(EINPROGRESS) X(ESTALE) X(EDQUOT) X(ENOKEY) X(EKEYREVOKED)

static const struct { int number; const char *text; } errors[] = {
#define X(name) { name, #name },
	ERRORS(X)
#undef X
};

static const struct attack *const tables[] = {
	file_attacks, kernel_attacks, process_attacks, setid_attacks,
};

const char *errno_text(int error)
{
	static char other[16];

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].number == error)
			return errors[i].text;
	snprintf(other, sizeof(other), "%d", error);
	return other;
}

unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (end == text || *end) {
		fprintf(stderr, "attack: not a number: %s\n", text);
		exit(2);
	}
	return n;
}

int answer(long result)
{
	return result < 0 ? -errno : 0;
}

static int usage(void)
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
		for (const struct attack *a = tables[t]; a->name; a++)
			fprintf(stderr, "%-14s %s\n", a->name, a->help);
	return 2;
}

static int perform(const struct attack *a, char **arg)
{
	int result = a->run(arg);

	if (result < 0)
		printf("errno=%s\n", errno_text(-result));
	else if (result != SAID)
		puts("ok");
	return fflush(stdout) ? 2 : 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage();
	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
		for (const struct attack *a = tables[t]; a->name; a++)
			if (!strcmp(a->name, argv[1]))
				return argc - 2 < a->args ? usage() : perform(a, argv + 2);
	fprintf(stderr, "attack: no such act: %s\n", argv[1]);
	return 2;
}
