/*
 * Compile a filter and ask it, for the tests of the seccomp compiler. Include behind
 * cmocka.h.
 */
#ifndef TESTS_UNIT_FILTER_H
#define TESTS_UNIT_FILTER_H

#include <linux/seccomp.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/seccomp_rules.h"

#define ALLOWED SECCOMP_RET_ALLOW
#define LOGGED SECCOMP_RET_LOG
#define KILLED SECCOMP_RET_KILL_PROCESS
#define E(n) (SECCOMP_RET_ERRNO | (n))
#define HIGH (1ull << 32)	/* a bit the kernel does not read */

static inline struct bpf compiled(int level, const struct strlist *allow, const struct strlist *deny)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct bpf b = { 0 };

	if (seccomp_compile(&b, level, allow, deny, &err) < 0)
		fail_msg("level %d: %s", level, err.message);
	return b;
}

static inline uint32_t answer(const struct bpf *b, uint32_t nr, const uint64_t args[6])
{
	struct seccomp_data d = { .nr = (int)nr, .arch = seccomp_native.audit_arch };

	if (args)
		memcpy(d.args, args, sizeof(d.args));
	return bpf_evaluate(b->insn, b->count, &d);
}

static inline uint32_t answer_name(const struct bpf *b, const char *name, const uint64_t args[6])
{
	int nr = syscall_number(name);

	if (nr < 0)
		fail_msg("no such call: %s", name);
	return answer(b, (uint32_t)nr, args);
}

#endif
