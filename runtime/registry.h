/*
 * The list of one user's boxes, which `nsbox top` and nsbox_boxes_open() read. There is
 * no daemon to ask: each launcher claims a slot of one file.
 *
 * What proves that a box lives is an open file description lock on its slot, which the
 * kernel drops when the last process that holds the launcher's descriptors is gone: the
 * same ones whose end is the end of the box. A pid in a record proves nothing.
 *
 * The list is for showing. No limit, no verdict and no clean-up depends on it; a
 * run that cannot be listed (a full disk, a folder of somebody else) runs all the same.
 */
#ifndef RUNTIME_REGISTRY_H
#define RUNTIME_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define REGISTRY_FILE "boxes.1" /* the number of the format: two versions do not meet */
#define REGISTRY_UNKNOWN UINT64_MAX

enum {
	REGISTRY_SLOTS = 2048,
	REGISTRY_SLOT_SIZE = 1024,
	REGISTRY_TRIES = 1280,	/* slots looked at before a run stays unlisted */
	REGISTRY_NAME_MAX = 63,
	REGISTRY_PLACES = 3,
};

enum registry_state { REGISTRY_FREE, REGISTRY_RUNNING, REGISTRY_FINISHED, REGISTRY_LOST };

/* As it stands in the file: no pointers, no padding, in the byte order of the machine. */
struct registry_record {
	uint32_t magic, state;	/* enum registry_state */
	uint64_t sum;		/* of the record with a sum of 0: a torn one is seen */
	char id[16];		/* 12 hexadecimal digits */
	char name[REGISTRY_NAME_MAX + 1];
	int32_t launcher_pid, init_pid; /* as the launcher saw them; -1: none */
	int32_t verdict, exit_code, signal, reserved;
	uint64_t started_us, ended_us;	/* CLOCK_REALTIME; 0: not yet */
	uint64_t wall_us;
	uint64_t memory_limit, pids_limit, cpus_milli, timeout_us; /* 0: none */
	uint64_t cpu_us, memory_peak, pids_peak; /* at the end; REGISTRY_UNKNOWN */
	char cgroup[512];	/* absolute path of the leaf; "": none */
	char unused[312];
};

/* Before the slots, in the room of one. */
struct registry_header {
	uint32_t magic, slot_count, slot_size, reserved;
	uint64_t next;		/* where to look for a slot: the oldest. A hint, not locked */
};

struct registry_slot {	/* held by a run; fd -1: not listed */
	int fd;
	off_t at;
};

/*
 * Take a slot and write the record (magic, sum and id are filled in), or leave
 * slot->fd at -1. The descriptor is made here, after the child was: it is in no box.
 */
void registry_claim(struct registry_slot *slot, struct registry_record *r);
/* The last word of a run: write it and let the slot go. Does nothing without a slot. */
void registry_finish(struct registry_slot *slot, struct registry_record *r);

/* CLOCK_REALTIME: the list outlives a reboot where /tmp does. */
uint64_t registry_now_us(void);

/* --- reading ------------------------------------------------------------------ */

/* The i-th place where the caller's list may be, the file opened for reading; -1: no
 * list of the caller's is there. @i below REGISTRY_PLACES. */
int registry_open_read(size_t i);
/* Whole and ours: 0. -1: nothing there, torn (after a second look) or no record. */
int registry_read(int fd, size_t slot, struct registry_record *out);
/* Does a launcher hold the slot? */
bool registry_is_held(int fd, size_t slot);

/* --- parts, apart for the tests ----------------------------------------------- */

/*
 * The folder @name in @base, made when missing and @may_make says so. -1: not there, a
 * link, not the caller's, or somebody else may get in.
 */
int registry_folder(const char *base, const char *name, bool may_make);

/* @name made printable and short: control characters, bytes that are no UTF-8 and marks
 * that change the direction of text become '?'. */
void registry_clean_name(char out[REGISTRY_NAME_MAX + 1], const char *name);
bool registry_is_clean(const char *name); /* fits as it is, and is not empty */

#endif
