/*
 * Classic BPF as seccomp runs it: is a program well-formed, and what does it answer?
 *
 * Owns:    the check that mirrors the kernel's, and an interpreter.
 * Runs in: tests and `nsbox policy explain`; nothing here loads a filter.
 * Must:    stay inside the program and the data whatever the program is; answer
 *          KILL_PROCESS for anything malformed, as a load of it would fail.
 */
#include "policy/seccomp.h"

#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void bpf_free(struct bpf *b)
{
	free(b->insn);
	*b = (struct bpf){ 0 };
}

void bpf_replace_return(struct sock_filter *insn, size_t count, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < count; i++)
		if (insn[i].code == (BPF_RET | BPF_K) && insn[i].k == from)
			insn[i].k = to;
}

/* --- checking ------------------------------------------------------------ */

/* The opcodes seccomp accepts (seccomp_check_filter() of the kernel). */
static const uint16_t known_codes[] = { /* what compilers emit comes first */
	BPF_JMP | BPF_JEQ | BPF_K, BPF_JMP | BPF_JGE | BPF_K, BPF_LD | BPF_W | BPF_ABS,
	BPF_RET | BPF_K, BPF_JMP | BPF_JSET | BPF_K, BPF_ALU | BPF_AND | BPF_K,
	BPF_JMP | BPF_JA, BPF_JMP | BPF_JGT | BPF_K, BPF_RET | BPF_A,
	BPF_LD | BPF_W | BPF_LEN, BPF_LDX | BPF_W | BPF_LEN,
	BPF_LD | BPF_IMM, BPF_LDX | BPF_IMM, BPF_LD | BPF_MEM, BPF_LDX | BPF_MEM,
	BPF_ST, BPF_STX, BPF_MISC | BPF_TAX, BPF_MISC | BPF_TXA,
	BPF_ALU | BPF_ADD | BPF_K, BPF_ALU | BPF_ADD | BPF_X,
	BPF_ALU | BPF_SUB | BPF_K, BPF_ALU | BPF_SUB | BPF_X,
	BPF_ALU | BPF_MUL | BPF_K, BPF_ALU | BPF_MUL | BPF_X,
	BPF_ALU | BPF_DIV | BPF_K, BPF_ALU | BPF_DIV | BPF_X,
	BPF_ALU | BPF_OR | BPF_K, BPF_ALU | BPF_OR | BPF_X,
	BPF_ALU | BPF_XOR | BPF_K, BPF_ALU | BPF_XOR | BPF_X,
	BPF_ALU | BPF_LSH | BPF_K, BPF_ALU | BPF_LSH | BPF_X,
	BPF_ALU | BPF_RSH | BPF_K, BPF_ALU | BPF_RSH | BPF_X,
	BPF_ALU | BPF_AND | BPF_X, BPF_ALU | BPF_NEG,
	BPF_JMP | BPF_JEQ | BPF_X, BPF_JMP | BPF_JGT | BPF_X,
	BPF_JMP | BPF_JGE | BPF_X, BPF_JMP | BPF_JSET | BPF_X,
};

static bool code_is_known(uint16_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_codes); i++)
		if (known_codes[i] == code)
			return true;
	return false;
}

/* `left`: instructions behind this one. */
static bool insn_is_valid(const struct sock_filter *in, size_t left)
{
	if (!code_is_known(in->code))
		return false;
	switch (BPF_CLASS(in->code)) {
	case BPF_JMP:
		if (BPF_OP(in->code) == BPF_JA)
			return in->k < left;
		return in->jt < left && in->jf < left;
	case BPF_ST:
	case BPF_STX:
		return in->k < BPF_MEMWORDS;
	case BPF_ALU:
		if (BPF_SRC(in->code) == BPF_X)
			return true;
		if (BPF_OP(in->code) == BPF_DIV)
			return in->k != 0;
		return (BPF_OP(in->code) != BPF_LSH && BPF_OP(in->code) != BPF_RSH) ||
		       in->k < 32;
	case BPF_LD:
	case BPF_LDX:
		if (BPF_MODE(in->code) == BPF_MEM)
			return in->k < BPF_MEMWORDS;
		return BPF_MODE(in->code) != BPF_ABS ||
		       (in->k % 4 == 0 && in->k < sizeof(struct seccomp_data));
	}
	return true;
}

bool bpf_is_valid(const struct sock_filter *insn, size_t count)
{
	if (!insn || count == 0 || count > BPF_MAXINSNS)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!insn_is_valid(&insn[i], count - i - 1))
			return false;
	return BPF_CLASS(insn[count - 1].code) == BPF_RET;
}

/* --- running ------------------------------------------------------------- */

struct machine {
	uint32_t a, x, memory[BPF_MEMWORDS];
	const struct seccomp_data *data;
};

static uint32_t loaded(const struct machine *m, const struct sock_filter *in)
{
	uint32_t word;

	switch (BPF_MODE(in->code)) {
	case BPF_ABS:
		memcpy(&word, (const char *)m->data + in->k, sizeof(word));
		return word;
	case BPF_MEM:
		return m->memory[in->k];
	case BPF_LEN:
		return sizeof(*m->data);
	}
	return in->k;
}

static uint32_t computed(uint16_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD: return a + b;
	case BPF_SUB: return a - b;
	case BPF_MUL: return a * b;
	case BPF_DIV: return a / b; /* never 0: checked by the caller */
	case BPF_AND: return a & b;
	case BPF_OR:  return a | b;
	case BPF_XOR: return a ^ b;
	case BPF_LSH: return a << (b & 31);
	case BPF_RSH: return a >> (b & 31);
	}
	return 0 - a; /* BPF_NEG */
}

static bool holds(uint16_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ: return a == b;
	case BPF_JGT: return a > b;
	case BPF_JGE: return a >= b;
	}
	return (a & b) != 0; /* BPF_JSET */
}

/* How many instructions to skip. */
static size_t skipped(const struct machine *m, const struct sock_filter *in)
{
	uint32_t operand = BPF_SRC(in->code) == BPF_X ? m->x : in->k;

	if (BPF_OP(in->code) == BPF_JA)
		return in->k;
	return holds(BPF_OP(in->code), m->a, operand) ? in->jt : in->jf;
}

/* Everything but jumps and returns. */
static void step(struct machine *m, const struct sock_filter *in)
{
	uint32_t operand = BPF_SRC(in->code) == BPF_X ? m->x : in->k;

	switch (BPF_CLASS(in->code)) {
	case BPF_LD:
		m->a = loaded(m, in);
		break;
	case BPF_LDX:
		m->x = loaded(m, in);
		break;
	case BPF_ST:
		m->memory[in->k] = m->a;
		break;
	case BPF_STX:
		m->memory[in->k] = m->x;
		break;
	case BPF_ALU:
		m->a = computed(BPF_OP(in->code), m->a, operand);
		break;
	case BPF_MISC:
		if (BPF_MISCOP(in->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
		break;
	}
}

uint32_t bpf_evaluate(const struct sock_filter *insn, size_t count,
		      const struct seccomp_data *data)
{
	struct machine m = { .data = data };

	for (size_t pc = 0; pc < count; pc++) { /* jumps only go forward */
		const struct sock_filter *in = &insn[pc];

		if (!insn_is_valid(in, count - pc - 1))
			break;
		if (BPF_CLASS(in->code) == BPF_RET)
			return BPF_RVAL(in->code) == BPF_A ? m.a : in->k;
		if (in->code == (BPF_ALU | BPF_DIV | BPF_X) && m.x == 0)
			return SECCOMP_RET_KILL_THREAD; /* 0, as in the kernel */
		if (BPF_CLASS(in->code) == BPF_JMP)
			pc += skipped(&m, in);
		else
			step(&m, in);
	}
	return SECCOMP_RET_KILL_PROCESS;
}
