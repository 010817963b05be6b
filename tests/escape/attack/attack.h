/*
 * The attack program: one static binary, bound read-only into a box (or run bare
 * as the positive control). `attack NAME ARG...` performs one act and prints
 * exactly one line: "ok", "errno=ENAME", or the value that the act yields; it
 * exits 0 either way, so that a death of the program is never taken for a denial.
 *
 * Must: do what its name says and nothing else, with raw system calls where a
 * libc wrapper would soften the act. Mustn't: clean up, retry or explain.
 */
#ifndef TESTS_ESCAPE_ATTACK_H
#define TESTS_ESCAPE_ATTACK_H

#include <stddef.h>

/* What run() answers: 0 is "ok", -errno is "errno=..."; SAID: it printed its line. */
#define SAID 1

struct attack {
	const char *name;
	int args;		/* how many it needs at least */
	int (*run)(char **arg);
	const char *help;
};

extern const struct attack file_attacks[], kernel_attacks[], process_attacks[],
	setid_attacks[];

unsigned long number(const char *text); /* 0x, 0 and decimal; exits 2 on junk */
const char *errno_text(int error);
int answer(long result);		/* of a system call: 0 or -errno */

#endif
