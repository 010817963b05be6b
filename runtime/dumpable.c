/*
 * dumpable.c - the one thing of the caller that a launch cannot help touching
 *
 * Runs in the launcher. A change of ids clears "dumpable" of the memory (commit_creds in
 * the kernel), and the child's memory is the caller's until init is executed. Without
 * this the caller would lose its core dumps and its own /proc/self.
 *
 * The flag is one for the whole process, and several threads may launch at once: one
 * that asked meanwhile would see what another's child has just cleared and take it for
 * the caller's wish. So the answer of the first is shared by all that overlap it. That
 * is process-wide state by nature. It is one atomic word and no lock, so that a copy of
 * the process made by fork(2) in the middle of a launch never waits for a thread that it
 * does not have.
 *
 * Mustn't: make a process dumpable that was not when the first launch began.
 */
#include "runtime/dumpable.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>

/* Launches in flight; what the first found; and a count of changes, so that "nobody in
 * flight" before and after a question is the same moment. */
enum { IN_FLIGHT_MASK = 0xffff, WAS_DUMPABLE = 0x10000, CHANGE_SHIFT = 32 };
static _Atomic uint64_t state;

static uint64_t next_state(uint64_t old, uint64_t in_flight, bool was)
{
	return (((old >> CHANGE_SHIFT) + 1) << CHANGE_SHIFT) | (was ? WAS_DUMPABLE : 0) | in_flight;
}

bool dumpable_hold(void)
{
	uint64_t old = atomic_load(&state), in_flight;
	bool was;

	do {
		in_flight = old & IN_FLIGHT_MASK;
		was = in_flight ? (old & WAS_DUMPABLE) != 0
				: prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
	} while (!atomic_compare_exchange_weak(&state, &old, next_state(old, in_flight + 1, was)));
	return was;
}

void dumpable_release(bool was)
{
	uint64_t old;

	/* Each for itself: whoever is still in flight does it again after its own child. */
	if (was)
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	old = atomic_load(&state);
	while (!atomic_compare_exchange_weak(
		&state, &old, next_state(old, (old & IN_FLIGHT_MASK) - 1, (old & WAS_DUMPABLE) != 0)))
		;
}
