/*
 * Writes our default system call filter as a file of struct sock_filter, so that a
 * neighbour that takes one (bwrap --seccomp FD) is measured under the same filter.
 */
#include "policy/policy.h"
#include "policy/seccomp.h"

#include <stdio.h>

int main(void)
{
	size_t count = 0;
	const struct sock_filter *insn = seccomp_builtin(LEVEL_DEFAULT, &count);

	if (!insn || fwrite(insn, sizeof(*insn), count, stdout) != count || fflush(stdout)) {
		fprintf(stderr, "filter: no built-in filter for this architecture\n");
		return 1;
	}
	return 0;
}
