/*
 * Compiles the filter of every level and writes them as C data.
 *
 * Runs in: the build, linked with the compiler's own sources.
 * Must:    fail the build rather than leave a level out.
 */
#include "policy/seccomp.h"

#include <stdio.h>

static int write_level(int level)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct bpf b = { 0 };

	if (seccomp_compile(&b, level, NULL, NULL, &err) < 0) {
		fprintf(stderr, "gen_filters: level %d: %s\n", level, err.message);
		return -1;
	}
	printf("static const struct sock_filter filter_%d[] = {\n", level);
	for (size_t i = 0; i < b.count; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", b.insn[i].code, b.insn[i].jt,
		       b.insn[i].jf, b.insn[i].k);
	printf("};\n\n");
	bpf_free(&b);
	return 0;
}

int main(void)
{
	puts("/* Made by tools/gen/gen_filters.c. Do not edit. */");
	for (int level = 0; level < LEVEL_COUNT; level++)
		if (write_level(level) < 0)
			return 1;
	puts("static const struct {\n\tconst struct sock_filter *insn;\n\tsize_t count;\n"
	     "} filters[] = {");
	for (int level = 0; level < LEVEL_COUNT; level++)
		printf("\t{ filter_%d, ARRAY_SIZE(filter_%d) },\n", level, level);
	puts("};");
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
