/*
 * Random levels and names -> filter. Whatever the input, the compiler either refuses
 * with a reason or gives a program that the kernel would take, that answers only what
 * the rules know, that kills foreign architectures, and that denies what was denied.
 *
 * Input: level, then one byte of options and a name a time: a byte below 0xf0 picks a
 * known call (two bytes), else a length and that many bytes of text.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/seccomp_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t left;
};

static unsigned next_byte(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->data++;
}

static void require(int holds)
{
	if (!holds)
		__builtin_trap();
}

static void add_name(struct input *in, struct strlist *to)
{
	unsigned first = next_byte(in);
	const char *known;
	size_t len;

	if (first < 0xf0) {
		known = syscall_name((int)(first << 8 | next_byte(in)) % SYSCALL_LIMIT);
		if (known)
			require(strlist_add(to, known) == 0);
		return;
	}
	len = next_byte(in);
	if (len > in->left)
		len = in->left;
	require(strlist_add_len(to, (const char *)in->data, len) == 0);
	in->data += len;
	in->left -= len;
}

static int answer_is_known(uint32_t value)
{
	/* 0: a core limit is "set" without effect */
	static const uint32_t errnos[] = { 0, EPERM, ENOSYS, EAFNOSUPPORT, EPROTONOSUPPORT,
					   ESOCKTNOSUPPORT, ENOPROTOOPT };

	if (value == SECCOMP_RET_ALLOW || value == SECCOMP_RET_LOG ||
	    value == SECCOMP_RET_KILL_PROCESS)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++)
		if (value == (SECCOMP_RET_ERRNO | errnos[i]))
			return 1;
	return 0;
}

/* Every number, with arguments made of the input's own bytes. */
static void check_answers(const struct bpf *b, uint64_t argument)
{
	struct seccomp_data d = { .arch = seccomp_native.audit_arch };

	for (size_t i = 0; i < 6; i++)
		d.args[i] = argument * (i + 1);
	for (d.nr = 0; d.nr < SYSCALL_LIMIT + 8; d.nr++) {
		uint32_t value = bpf_evaluate(b->insn, b->count, &d);

		require(answer_is_known(value) && value != SECCOMP_RET_KILL_PROCESS);
		d.arch = AUDIT_ARCH_I386;
		require(bpf_evaluate(b->insn, b->count, &d) == SECCOMP_RET_KILL_PROCESS);
		d.arch = seccomp_native.audit_arch;
	}
}

static void check_denied(const struct bpf *b, const struct strlist *deny)
{
	struct seccomp_data d = { .arch = seccomp_native.audit_arch };

	for (size_t i = 0; i < deny->n; i++) {
		d.nr = syscall_number(deny->v[i]);
		require(bpf_evaluate(b->insn, b->count, &d) == (SECCOMP_RET_ERRNO | EPERM));
	}
}

/* Whatever was lifted, these stay as they are at every level. */
static void check_walls(const struct bpf *b)
{
	static const char *const walls[] = { "mount", "setns", "clone3", "openat2",
					     "io_uring_setup", "keyctl", "bpf" };
	struct seccomp_data d = { .arch = seccomp_native.audit_arch };

	for (size_t i = 0; i < ARRAY_SIZE(walls); i++) {
		d.nr = syscall_number(walls[i]);
		require((bpf_evaluate(b->insn, b->count, &d) & SECCOMP_RET_ACTION_FULL) ==
			SECCOMP_RET_ERRNO);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(strlist_free) struct strlist allow = { 0 }, deny = { 0 };
	owned(bpf_free) struct bpf b = { 0 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct input in = { data, size };
	int level = (int)(next_byte(&in) % (LEVEL_COUNT + 2)) - 1;
	uint64_t argument = 0;

	for (unsigned i = 0; i < 8; i++)
		argument = argument << 8 | next_byte(&in);
	while (in.left)
		add_name(&in, next_byte(&in) % 2 ? &deny : &allow);
	if (seccomp_compile(&b, level, &allow, &deny, &err) < 0) {
		require(err.message[0] && !b.insn);
		return 0;
	}
	require(bpf_is_valid(b.insn, b.count));
	check_answers(&b, argument);
	check_denied(&b, &deny);
	check_walls(&b);
	/* The input as a program: the checks themselves must survive it. */
	if (size % sizeof(struct sock_filter) == 0 && size) {
		struct sock_filter *program = malloc(size);
		struct seccomp_data d = { .nr = 1 };

		require(program != NULL);
		memcpy(program, data, size);
		bpf_evaluate(program, size / sizeof(*program), &d);
		free(program);
	}
	return 0;
}
