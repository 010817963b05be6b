/*
 * Writes the names of system calls of the ABIs that the kernel has beside the native one:
 *	static const char *const i386_names[] = { [5] = "open", ...
 * Numbers of x32 below 512 have the native names; only the others are written.
 *
 * Runs in: the build, linked with libseccomp; nothing of it is shipped.
 * Must:    give the same bytes for the same inputs.
 */
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT = 1024, X32_BIT = 0x40000000, X32_FIRST = 512 };

static void write_names(const char *table, uint32_t arch, int first, int bit)
{
	printf("static const char *const %s[] = {\n", table);
	if (first)
		puts("\t[0] = NULL,"); /* never empty */
	for (int i = first; i < LIMIT; i++) {
		char *name = seccomp_syscall_resolve_num_arch(arch, i | bit);

		if (name)
			printf("\t[%d] = \"%s\",\n", i, name);
		free(name);
	}
	puts("};");
}

int main(void)
{
	puts("/* Made by tools/gen/gen_foreign.c. Do not edit. */");
	write_names("i386_names", SCMP_ARCH_X86, 0, 0);
	write_names("x32_names", SCMP_ARCH_X32, X32_FIRST, X32_BIT);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
