/*
 * Writes the table of system calls of this architecture, sorted by name:
 *	{ "accept", 43 },
 *
 * Owns:    the numbers that libseccomp is too old to know (to Linux 6.18).
 * Runs in: the build, linked with libseccomp; nothing of it is shipped.
 * Must:    give the same bytes for the same inputs; stop at any disagreement.
 */
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT 512

struct row {
	const char *name;
	int number;
};

/* From 424 on all architectures share their numbers. */
static const struct row newer[] = {
	{ "set_mempolicy_home_node", 450 },
	{ "cachestat", 451 },
	{ "fchmodat2", 452 },
	{ "map_shadow_stack", 453 },
	{ "futex_wake", 454 },
	{ "futex_wait", 455 },
	{ "futex_requeue", 456 },
	{ "statmount", 457 },
	{ "listmount", 458 },
	{ "lsm_get_self_attr", 459 },
	{ "lsm_set_self_attr", 460 },
	{ "lsm_list_modules", 461 },
	{ "mseal", 462 },
	{ "setxattrat", 463 },
	{ "getxattrat", 464 },
	{ "listxattrat", 465 },
	{ "removexattrat", 466 },
	{ "open_tree_attr", 467 },
	{ "file_getattr", 468 },
	{ "file_setattr", 469 },
#ifdef __x86_64__
	{ "uretprobe", 335 },
	{ "uprobe", 336 },
#endif
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

/* Our rows fill gaps; where both know a name or a number they must agree. */
static bool add_newer(const char *name_of[LIMIT])
{
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
		const struct row *r = &newer[i];
		int known = seccomp_syscall_resolve_name(r->name);

		if ((known >= 0 && known != r->number) ||
		    (name_of[r->number] && strcmp(name_of[r->number], r->name) != 0)) {
			fprintf(stderr, "gen_syscalls: %s: ours is %d, libseccomp says %d and %s\n",
				r->name, r->number, known,
				name_of[r->number] ? name_of[r->number] : "nothing");
			return false;
		}
		name_of[r->number] = r->name;
	}
	return true;
}

int main(void)
{
	const char *name_of[LIMIT] = { NULL };
	struct row rows[LIMIT];
	size_t n = 0;

	for (int i = 0; i < LIMIT; i++)	/* the names live as long as the process */
		name_of[i] = seccomp_syscall_resolve_num_arch(seccomp_arch_native(), i);
	if (!add_newer(name_of))
		return 1;
	for (int i = 0; i < LIMIT; i++)
		if (name_of[i])
			rows[n++] = (struct row){ name_of[i], i };
	qsort(rows, n, sizeof(rows[0]), by_name);

	puts("/* Made by tools/gen/gen_syscalls.c. Do not edit. */");
	for (size_t i = 0; i < n; i++)
		printf("{ \"%s\", %d },\n", rows[i].name, rows[i].number);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
