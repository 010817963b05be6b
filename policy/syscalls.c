/*
 * Names and numbers of system calls on this architecture.
 *
 * Owns:    the table that tools/gen/gen_syscalls.c wrote when nsbox was built.
 * Runs in: whoever compiles or explains a policy.
 * Mustn't: use libseccomp; the static command has no third-party code.
 */
#include "policy/seccomp.h"

#include <linux/audit.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
	const char *name;
	int number;
} table[] = { /* sorted by name */
#include "syscalls.inc"
};

int syscall_number(const char *name)
{
	size_t low = 0, high = ARRAY_SIZE(table);

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(name, table[mid].name);

		if (order == 0)
			return table[mid].number;
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return -1;
}

const char *syscall_name(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].number == number)
			return table[i].name;
	return NULL;
}

/* --- other ABIs ---------------------------------------------------------- */

#include "foreign.inc"

#define X32_BIT 0x40000000u
#define X32_OWN 512u /* numbers below mean the native calls */

static const char *name_in(const char *const *names, size_t count, uint32_t nr)
{
	return nr < count ? names[nr] : NULL;
}

void syscall_describe(uint32_t audit_arch, uint32_t nr, struct syscall_text *out)
{
	if (audit_arch == AUDIT_ARCH_I386) {
		*out = (struct syscall_text){ "i386", nr,
					      name_in(i386_names, ARRAY_SIZE(i386_names), nr) };
	} else if (audit_arch == AUDIT_ARCH_X86_64 && nr & X32_BIT) {
		nr &= ~X32_BIT;
		*out = (struct syscall_text){ "x32", nr,
					      nr < X32_OWN ? syscall_name((int)nr)
							   : name_in(x32_names, ARRAY_SIZE(x32_names), nr) };
	} else {
		*out = (struct syscall_text){ "foreign", nr, NULL };
	}
}

/* --- guesses ------------------------------------------------------------- */

#define NAME_MAX_LEN 32

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Insertions, deletions and replacements from a to b (Levenshtein). */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_LEN + 1];
	size_t len = strlen(b);

	for (size_t j = 0; j <= len; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < len; j++) {
			unsigned change = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = least(change, row[j] + 1, diagonal + 1);
		}
	}
	return row[len];
}

static size_t common_start(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

/* At most a third of the letters may be wrong, or the guess is noise. Of two equally
 * near names the one that begins alike: umount is umount2, not mount. */
const char *syscall_nearest(const char *name)
{
	size_t len = strlen(name);
	unsigned best = (unsigned)len / 3 + 2;
	const char *found = NULL;

	if (len == 0 || len > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		unsigned d;

		if (strlen(table[i].name) > NAME_MAX_LEN)
			continue;
		d = distance(name, table[i].name);
		if (d < best || (found && d == best &&
				 common_start(name, table[i].name) > common_start(name, found))) {
			best = d;
			found = table[i].name;
		}
	}
	return found;
}
