/*
 * What each system call answers, as data. Internal to the seccomp compiler:
 *
 *	seccomp_rules.c   the tables: groups, what a level changes, argument checks
 *	seccomp_calls.c   the same for a box whose sockets the supervisor makes
 *	seccomp.c         level + extra names -> one answer a number
 *	seccomp_emit.c    answers -> BPF
 *
 * Only the numbers of the native architecture are judged; everything that enters
 * by another one (i386, x32) is killed, because its numbers mean other calls. (Where
 * the launcher can have a listener, assemble.c turns that answer into a question to it.)
 */
#ifndef POLICY_SECCOMP_RULES_H
#define POLICY_SECCOMP_RULES_H

#include "policy/seccomp.h"

#include <linux/audit.h>
#include <stdbool.h>
#include <stdint.h>

/* Numbers below this are looked up; the rest is "unknown". */
#define SYSCALL_LIMIT 512

/*
 * An answer is one number: an errno (1..4095), one of these, or the index of an
 * argument check. Zero kills, so that a forgotten answer is noticed.
 */
enum {
	ANSWER_KILL = 0,
	ANSWER_ALLOW = 0x1000,
	ANSWER_LOG,		/* allowed, and the kernel logs it (level audit) */
	ANSWER_PRETEND,		/* success, and nothing is done */
	ANSWER_NOTIFY,		/* the holder of the filter's listener answers */
	CHECK_CLONE = 0x2000,
	CHECK_UNSHARE,
	CHECK_THREAD,		/* clone of the second filter: threads only */
	CHECK_SOCKET,
	CHECK_SOCKETPAIR,
	CHECK_SOCKETPAIR_STREAM,
	CHECK_SETSOCKOPT,
	CHECK_IOCTL,
	CHECK_PERSONALITY,
	CHECK_PERSONALITY_DEBUG,
	CHECK_PERSONALITY_LOG,
	CHECK_SECCOMP,
	CHECK_MODE_1,		/* no setuid or setgid bit in argument 1 */
	CHECK_MODE_2,
	CHECK_OPEN_1,		/* flags in argument 1, mode in 2 */
	CHECK_OPEN_2,
	CHECK_MKNOD_1,		/* mode and type in argument 1 */
	CHECK_MKNOD_2,
	CHECK_SETRLIMIT,
	CHECK_PRLIMIT,
	CHECK_OWN_0,		/* argument 0, a pid, is 0: the caller itself */
	CHECK_OWN_1,		/* argument 1, a pid, is 0, and argument 0 no user's */
	CHECK_CALLS_SOCKET,	/* from here on those of seccomp_calls.c */
	CHECK_CALLS_SOCKETPAIR,
	CHECK_CALLS_SENDTO,
	CHECK_CALLS_SENDMSG,
	CHECK_CALLS_SENDMMSG,
	CHECK_CALLS_RECVFROM,
	CHECK_CALLS_GETSOCKOPT,
	CHECK_CALLS_SETSOCKOPT,
	CHECK_CALLS_IOCTL,
	CHECK_HELD_IOCTL,	/* the same, and none of files */
	CHECK_END
};
#define CHECK_FIRST CHECK_CLONE
#define CHECK_CALLS_FIRST CHECK_CALLS_SOCKET

static inline bool answer_is_check(uint16_t answer)
{
	return answer >= CHECK_FIRST && answer < CHECK_END;
}

/* --- system calls -------------------------------------------------------- */

struct seccomp_group {
	const char *names;	/* separated by single spaces */
	uint16_t answer;	/* at level default */
	bool wall;		/* syscalls.allow may not lift the answer */
	const char *why;	/* completes "it ..."; shown when lifting is refused */
};
extern const struct seccomp_group seccomp_groups[];
extern const size_t seccomp_group_count;

struct seccomp_override {
	int level;		/* enum syscall_level */
	uint16_t answer;
	const char *names, *why;
};
extern const struct seccomp_override seccomp_overrides[];
extern const size_t seccomp_override_count;

/* Of a box without namespaces (isolation.floor=landlock). */
struct seccomp_wall {
	const char *names;
	uint16_t answer;
	enum { WALL_ALWAYS, WALL_SHARED, WALL_NO_SOCKETS } when; /* SHARED: where the box's
				   user is the caller; NO_SOCKETS: where nobody makes them */
	const char *why;
};
extern const struct seccomp_wall seccomp_walls[];
extern const size_t seccomp_wall_count;

/* Calls without which no program in the box could start or end. */
extern const char seccomp_undeniable[];

/* --- arguments ----------------------------------------------------------- */

/*
 * Tests look at the low 32 bits of an argument, because that is what the kernel
 * reads of every argument tested here: ioctl's cmd, socket's family and the flags
 * of open are ints, modes are umode_t, clone takes lower_32_bits() of its flags,
 * and unshare refuses any high bit by itself. Comparing 64 bits instead would let
 * TIOCSTI | 1 << 32 through. What a pointer points to is never tested: another thread
 * can change it after the check. Whether it is NULL takes both halves (ARG_HIGH).
 */
enum { TEST_END, TEST_EQ, TEST_NE, TEST_ANY_BIT };
enum { ARG_HIGH = 0x80 };	/* | arg: the high 32 bits of it */

struct seccomp_test {
	uint8_t op, arg;
	uint32_t mask;		/* of EQ and NE; 0: all bits */
	uint32_t value;
};

struct seccomp_clause {
	struct seccomp_test all_of[2];	/* one, or both must hold */
	uint16_t answer;
};

/* The first clause that holds answers; none: otherwise. */
struct seccomp_check {
	const struct seccomp_clause *clauses;
	size_t count;
	uint16_t otherwise;
};
const struct seccomp_check *seccomp_check_of(uint16_t answer);
const struct seccomp_check *seccomp_calls_check(uint16_t answer); /* from CHECK_CALLS_FIRST on */

/* What changes where the network is a matter of calls; level does not matter. */
extern const struct seccomp_override seccomp_calls[];
extern const size_t seccomp_calls_count;

/* --- architecture -------------------------------------------------------- */

struct seccomp_arch {
	uint32_t audit_arch;
	uint32_t foreign_bit;	/* numbers with it belong to another ABI; 0: none */
};
extern const struct seccomp_arch seccomp_native;

/* --- emission ------------------------------------------------------------ */

/* answers[nr] for nr < SYSCALL_LIMIT; `beyond` for all other native numbers. */
int seccomp_emit(struct bpf *out, const uint16_t answers[SYSCALL_LIMIT],
		 uint16_t beyond, struct nsbox_error *err);

/*
 * Calls each(number, context) for every name of a space-separated list that this
 * architecture has. Stops at, and returns, the first non-zero value.
 */
int seccomp_each_name(const char *names, int (*each)(int number, void *context),
		      void *context);

#endif
