/*
 * Userspace strength of memory, cpu-time and pids where no cgroup has the
 * controller: the launcher samples the box's processes through /proc.
 *
 * The processes of a box are those below its PID 1: found by walking
 * /proc/<pid>/task/<tid>/children from init's host pid (CONFIG_PROC_CHILDREN), or
 * by following the parents of all processes when that file is missing.
 */
#ifndef RUNTIME_SAMPLE_H
#define RUNTIME_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SAMPLE_CLOCKS = 16 };

struct sample_clock {
	pid_t pid;
	uint64_t ns;	/* CPU time of all its threads; UINT64_MAX: cannot be read */
};

struct sample {
	uint64_t memory_bytes;	/* sum of Pss and SwapPss (smaps_rollup), Rss minus shared where
				   that is unreadable; tmpfs pages when mapped, and what
				   memfd_create and System V segments hold unmapped */
	uint64_t user_us;	/* what of cpu_us was user time */
	uint64_t cpu_us;	/* user + system of the living and of those they reaped */
	uint64_t processes, threads;
	struct sample_clock clocks[SAMPLE_CLOCKS]; /* of the first, read before the rest */
	bool complete;		/* false: processes came and went while looking, or
				   there are more than max_pids */
};

struct sample_of {
	int proc_fd;		/* the launcher's /proc */
	int segments_fd;	/* /proc/sysvipc/shm as the box opened it; -1: none */
	pid_t init_pid;		/* host pid of the box's PID 1, unreaped */
	uint64_t max_pids;
};
/*
 * 0, or -1 when nothing could be read. Never blocks for long: at most max_pids.
 * @only_bound: memory_bytes is what is resident, pages that processes share once for
 * each of them, without swap: where there is none never less than the exact figure, and
 * much cheaper to have.
 */
int sample_take(struct sample *out, const struct sample_of *of, bool only_bound);

/* The parent of a process now; -1: it is gone. */
pid_t sample_parent(int proc_fd, pid_t pid);

/*
 * Has nothing of the box run since? Then all that the sample says still holds: who gets
 * memory or forks uses CPU time for it. One cheap call a process, so that a box that
 * sleeps costs next to nothing. False when there are more than SAMPLE_CLOCKS.
 */
bool sample_holds(const struct sample *s);

#endif
