/*
 * What one run cost beside time and memory, as the kernel counted it for the run's
 * cgroup. Each figure is known or not; a zero is one that was read.
 */
#ifndef RUNTIME_ACCOUNTS_H
#define RUNTIME_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

/* Time that a part of the box (some) or all of it (full) waited for a resource: PSI,
 * Documentation/accounting/psi.rst. */
enum stall {
	STALL_CPU, STALL_MEMORY, STALL_MEMORY_FULL, STALL_IO, STALL_IO_FULL, STALL_COUNT
};

struct accounts {
	uint64_t throttled_us, throttled_count; /* held back by cpu.max */
	uint64_t io_read, io_written;		/* bytes of block devices */
	uint64_t stall_us[STALL_COUNT];
	bool has_throttled, has_io, has_stall[STALL_COUNT];
};

#endif
