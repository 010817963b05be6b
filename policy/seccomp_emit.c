/*
 * Answers -> BPF.
 *
 * Owns:    the shape of the program: architecture, then a search tree over ranges
 *          of numbers, then argument checks and returns shared by all ranges.
 * Runs in: whoever compiles a policy, and the build.
 * Must:    look at nothing but the number for calls without argument checks: then
 *          the kernel's bitmap answers them without running the program at all.
 *
 * The program is written from its end to its start, because BPF jumps only forward:
 * whatever an instruction jumps to is there already. A place is the count of
 * instructions behind it. Conditional jumps reach 255 instructions; where that is
 * too near, a plain jump is put in between.
 */
#include "policy/seccomp_rules.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the low word of an argument is its first one only on little endian"
#endif

#define REACH 255u
#define MAX_ANSWERS 80
#define MAX_ISLANDS 6

#define OFFSET_NR offsetof(struct seccomp_data, nr)
#define OFFSET_ARCH offsetof(struct seccomp_data, arch)

/* first, first + 1, ... up to the next range. */
struct range {
	uint32_t first;
	uint16_t answer;
};

/* A range with single numbers inside that answer otherwise. */
struct leaf {
	uint32_t first;
	uint16_t answer, island_count;
	struct range islands[MAX_ISLANDS];
};

struct assembler {
	struct sock_filter insn[BPF_MAXINSNS]; /* last instruction first */
	uint32_t count;
	bool overflow;
	struct { uint16_t answer; uint32_t place; } known[MAX_ANSWERS];
	size_t known_count;
	struct range ranges[SYSCALL_LIMIT + 1];
	struct leaf leaves[SYSCALL_LIMIT + 1];
	size_t range_count, leaf_count;
};

/* --- instructions -------------------------------------------------------- */

static uint32_t push(struct assembler *a, uint16_t code, uint32_t k,
		     uint32_t jt, uint32_t jf)
{
	if (a->count >= BPF_MAXINSNS || jt > REACH || jf > REACH) {
		a->overflow = true;
		return 0;
	}
	a->insn[a->count] = (struct sock_filter){ code, (uint8_t)jt, (uint8_t)jf, k };
	return a->count++;
}

/* The place itself, or a plain jump to it when it is out of reach. */
static uint32_t reachable(struct assembler *a, uint32_t place)
{
	uint32_t skip = a->count - place - 1;

	return skip <= REACH ? place : push(a, BPF_JMP | BPF_JA, skip, 0, 0);
}

static uint32_t jump(struct assembler *a, uint16_t op, uint32_t k,
		     uint32_t yes, uint32_t no)
{
	yes = reachable(a, yes);
	no = reachable(a, no);
	yes = reachable(a, yes); /* the second detour may have pushed it away */
	return push(a, BPF_JMP | op | BPF_K, k, a->count - yes - 1, a->count - no - 1);
}

/* An instruction that goes on to `next`. */
static uint32_t before(struct assembler *a, uint16_t code, uint32_t k, uint32_t next)
{
	if (next != a->count - 1)
		push(a, BPF_JMP | BPF_JA, a->count - next - 1, 0, 0);
	return push(a, code, k, 0, 0);
}

/* --- argument checks ----------------------------------------------------- */

static uint32_t place_of(struct assembler *a, uint16_t answer);

/* What the accumulator holds: one word of an argument, perhaps masked. */
struct held {
	bool is_known;
	uint8_t arg;
	uint32_t mask;
};

/* Little endian: the low word of an argument comes first. */
static uint32_t offset_of(uint8_t arg)
{
	uint32_t low = (uint32_t)offsetof(struct seccomp_data, args) + 8u * (arg & 0x7fu);

	return arg & ARG_HIGH ? low + 4 : low;
}

static struct held held_after(const struct seccomp_test *t)
{
	return (struct held){ true, t->arg, t->mask };
}

/* Known only if both ways to fail the clause leave the same. */
static struct held held_after_clause(const struct seccomp_clause *c)
{
	struct held first = held_after(&c->all_of[0]), second;

	if (c->all_of[1].op == TEST_END)
		return first;
	second = held_after(&c->all_of[1]);
	if (first.arg != second.arg || first.mask != second.mask)
		return (struct held){ 0 };
	return first;
}

static uint32_t emit_test(struct assembler *a, const struct seccomp_test *t,
			  struct held held, uint32_t yes, uint32_t no)
{
	bool is_loaded = held.is_known && held.arg == t->arg &&
			 (held.mask == 0 || held.mask == t->mask);
	bool is_masked = is_loaded && held.mask == t->mask;
	uint32_t at;

	if (t->op == TEST_ANY_BIT)
		at = jump(a, BPF_JSET, t->value, yes, no);
	else if (t->op == TEST_NE)
		at = jump(a, BPF_JEQ, t->value, no, yes);
	else
		at = jump(a, BPF_JEQ, t->value, yes, no);
	if (t->mask && !is_masked)
		at = before(a, BPF_ALU | BPF_AND | BPF_K, t->mask, at);
	if (!is_loaded)
		at = before(a, BPF_LD | BPF_W | BPF_ABS, offset_of(t->arg), at);
	return at;
}

static uint32_t emit_clause(struct assembler *a, const struct seccomp_check *check,
			    size_t i, uint32_t no)
{
	const struct seccomp_clause *c = &check->clauses[i];
	const struct seccomp_test *first = &c->all_of[0], *second = &c->all_of[1];
	struct held held = { 0 };
	uint32_t yes = place_of(a, c->answer);

	if (second->op != TEST_END)
		yes = emit_test(a, second, held_after(first), yes, no);
	if (i > 0)
		held = held_after_clause(&check->clauses[i - 1]);
	return emit_test(a, first, held, yes, no);
}

static uint32_t emit_check(struct assembler *a, const struct seccomp_check *check)
{
	uint32_t at = place_of(a, check->otherwise);

	for (size_t i = check->count; i-- > 0;)
		at = emit_clause(a, check, i, at);
	return at;
}

/* --- answers ------------------------------------------------------------- */

static uint32_t return_value(uint16_t answer)
{
	switch (answer) {
	case ANSWER_ALLOW:
		return SECCOMP_RET_ALLOW;
	case ANSWER_LOG:
		return SECCOMP_RET_LOG;
	case ANSWER_KILL:
		return SECCOMP_RET_KILL_PROCESS;
	case ANSWER_PRETEND:
		return SECCOMP_RET_ERRNO;
	case ANSWER_NOTIFY:
		return SECCOMP_RET_USER_NOTIF;
	}
	return SECCOMP_RET_ERRNO | (answer & SECCOMP_RET_DATA);
}

/* Where an answer is given; written on first use, shared by all who need it. */
static uint32_t place_of(struct assembler *a, uint16_t answer)
{
	const struct seccomp_check *check = seccomp_check_of(answer);
	uint32_t place;

	for (size_t i = 0; i < a->known_count; i++)
		if (a->known[i].answer == answer)
			return a->known[i].place;
	place = check ? emit_check(a, check) :
			push(a, BPF_RET | BPF_K, return_value(answer), 0, 0);
	if (a->known_count == MAX_ANSWERS) {
		a->overflow = true;
		return place;
	}
	a->known[a->known_count].answer = answer;
	a->known[a->known_count++].place = place;
	return place;
}

/* --- numbers ------------------------------------------------------------- */

static void add_range(struct assembler *a, uint32_t first, uint16_t answer)
{
	if (a->range_count && a->ranges[a->range_count - 1].answer == answer)
		return;
	a->ranges[a->range_count++] = (struct range){ first, answer };
}

/*
 * x X x X x with single X costs one comparison an X as islands, two as ranges.
 */
static void ranges_to_leaves(struct assembler *a)
{
	const struct range *r = a->ranges;
	size_t i = 0;

	while (i < a->range_count) {
		struct leaf *leaf = &a->leaves[a->leaf_count++];

		*leaf = (struct leaf){ .first = r[i].first, .answer = r[i].answer };
		for (; i + 2 < a->range_count && leaf->island_count < MAX_ISLANDS; i += 2) {
			if (r[i + 2].first - r[i + 1].first != 1 ||
			    r[i + 2].answer != leaf->answer)
				break;
			leaf->islands[leaf->island_count++] = r[i + 1];
		}
		i++;
	}
}

static uint32_t emit_leaf(struct assembler *a, const struct leaf *leaf)
{
	uint32_t at = place_of(a, leaf->answer);

	for (size_t i = leaf->island_count; i-- > 0;)
		at = jump(a, BPF_JEQ, leaf->islands[i].first,
			  place_of(a, leaf->islands[i].answer), at);
	return at;
}

/* Depth is the logarithm of at most SYSCALL_LIMIT leaves. */
static uint32_t emit_tree(struct assembler *a, size_t begin, size_t end)
{
	size_t middle = begin + (end - begin) / 2;
	uint32_t above, below;

	if (end - begin == 1)
		return emit_leaf(a, &a->leaves[begin]);
	above = emit_tree(a, middle, end);
	below = emit_tree(a, begin, middle);
	return jump(a, BPF_JGE, a->leaves[middle].first, above, below);
}

/* Number -1 is no foreign call: a tracer writes it to skip one. */
static uint32_t emit_foreign(struct assembler *a, uint16_t beyond, uint32_t native)
{
	uint32_t foreign;

	if (!seccomp_native.foreign_bit)
		return native;
	foreign = jump(a, BPF_JEQ, UINT32_MAX, place_of(a, beyond),
		       place_of(a, ANSWER_KILL));
	return jump(a, BPF_JGE, seccomp_native.foreign_bit, foreign, native);
}

static void emit_program(struct assembler *a, uint16_t beyond)
{
	uint32_t kill = place_of(a, ANSWER_KILL), at;

	place_of(a, beyond);
	for (size_t i = 0; i < a->range_count; i++)
		place_of(a, a->ranges[i].answer);
	at = emit_foreign(a, beyond, emit_tree(a, 0, a->leaf_count));
	at = before(a, BPF_LD | BPF_W | BPF_ABS, OFFSET_NR, at);
	at = jump(a, BPF_JEQ, seccomp_native.audit_arch, at, kill);
	before(a, BPF_LD | BPF_W | BPF_ABS, OFFSET_ARCH, at);
}

int seccomp_emit(struct bpf *out, const uint16_t answers[SYSCALL_LIMIT],
		 uint16_t beyond, struct nsbox_error *err)
{
	owned_mem struct assembler *a = calloc(1, sizeof(*a));
	struct sock_filter *insn;

	if (!a)
		return err_nomem(err);
	for (uint32_t nr = 0; nr < SYSCALL_LIMIT; nr++)
		add_range(a, nr, answers[nr]);
	add_range(a, SYSCALL_LIMIT, beyond);
	ranges_to_leaves(a);
	emit_program(a, beyond);
	if (a->overflow)
		return err_set(err, NSBOX_E_POLICY,
			       "compile the system call filter: more than %d instructions",
			       BPF_MAXINSNS);
	insn = malloc(a->count * sizeof(*insn));
	if (!insn)
		return err_nomem(err);
	for (uint32_t i = 0; i < a->count; i++)
		insn[i] = a->insn[a->count - 1 - i];
	*out = (struct bpf){ insn, a->count };
	return 0;
}
