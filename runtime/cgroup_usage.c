/*
 * cgroup_usage.c - what the kernel counted for one leaf
 *
 * Runs in the launcher: at the end of a run, and in part while it lives.
 *
 * Must:    tell "not counted here" from 0. A kernel without the controller has no file,
 *          one that is older lacks a key (memory.peak: 5.19, pids.peak: 6.1).
 * Mustn't: take a number from a text that it could not read whole.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <string.h>

/* The digits at @at, up to a blank or the end. */
static bool number_at(const char *at, uint64_t *out)
{
	size_t len = strcspn(at, " \n");
	char digits[24];

	if (len >= sizeof(digits))
		return false;
	memcpy(digits, at, len);
	digits[len] = '\0';
	return num_uint(digits, 0, UINT64_MAX, out) == 0;
}

/* "key value" on a line of its own. */
static bool find_key(const char *text, const char *key, uint64_t *out)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) != 0 || line[n] != ' ')
			continue;
		/* nothing else may stand on the line */
		return !memchr(line + n + 1, ' ', strcspn(line + n + 1, "\n")) &&
		       number_at(line + n + 1, out);
	}
	return false;
}

static bool read_number(int dirfd, const char *file, uint64_t *out)
{
	char text[CGROUP_TEXT];

	return cgroup_text(dirfd, file, text) > 0 && num_uint(text, 0, UINT64_MAX, out) == 0;
}

static bool read_key(int dirfd, const char *file, const char *key, uint64_t *out)
{
	char text[CGROUP_TEXT];

	return cgroup_text(dirfd, file, text) > 0 && find_key(text, key, out);
}

/* Throttling is counted only where cpu.max exists. */
static void read_cpu(int leaf_fd, struct cgroup_usage *u)
{
	struct accounts *a = &u->accounts;
	char text[CGROUP_TEXT];

	if (cgroup_text(leaf_fd, "cpu.stat", text) <= 0)
		return;
	u->has_cpu = find_key(text, "user_usec", &u->user_us) &&
		     find_key(text, "system_usec", &u->system_us);
	a->has_throttled = find_key(text, "throttled_usec", &a->throttled_us) &&
			   find_key(text, "nr_throttled", &a->throttled_count);
}

/* Adds up "name=digits" of every line; a device that was not used has no line. */
static bool add_up(const char *text, const char *name, uint64_t *out)
{
	uint64_t sum = 0, one;

	for (const char *at = text; (at = strstr(at, name)); ) {
		at += strlen(name);
		if (!number_at(at, &one) || __builtin_add_overflow(sum, one, &sum))
			return false;
	}
	*out = sum;
	return true;
}

static void read_io(int leaf_fd, struct accounts *a)
{
	char text[CGROUP_TEXT];
	ssize_t n = cgroup_text(leaf_fd, "io.stat", text);

	a->has_io = n >= 0 && n < CGROUP_TEXT - 1 && add_up(text, " rbytes=", &a->io_read) &&
		    add_up(text, " wbytes=", &a->io_written);
}

/* some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS */
static bool find_stall(const char *text, const char *line, uint64_t *out)
{
	static const char key[] = " total=";
	const char *at = strstr(text, line);

	at = at ? strstr(at, key) : NULL;
	return at && number_at(at + sizeof(key) - 1, out);
}

static void read_stalls(int leaf_fd, struct accounts *a)
{
	static const struct { const char *file; int some, full; } rows[] = {
		{ "cpu.pressure", STALL_CPU, -1 }, /* full has no meaning of its own here */
		{ "memory.pressure", STALL_MEMORY, STALL_MEMORY_FULL },
		{ "io.pressure", STALL_IO, STALL_IO_FULL },
	};
	char text[CGROUP_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int some = rows[i].some, full = rows[i].full;

		/* Opening works also where the kernel was told not to count (psi=0). */
		if (cgroup_text(leaf_fd, rows[i].file, text) <= 0)
			continue;
		a->has_stall[some] = find_stall(text, "some ", &a->stall_us[some]);
		if (full >= 0)
			a->has_stall[full] = find_stall(text, "full ", &a->stall_us[full]);
	}
}

void cgroup_read(const struct cgroup *c, struct cgroup_usage *out)
{
	struct cgroup_usage u = { 0 };

	if (c->fd >= 0) {
		read_cpu(c->fd, &u);
		u.has_memory_peak = read_number(c->fd, "memory.peak", &u.memory_peak);
		u.has_pids_peak = read_number(c->fd, "pids.peak", &u.pids_peak);
		u.has_oom = read_key(c->fd, "memory.events", "oom_kill", &u.oom_kills);
		u.has_pids_events = read_key(c->fd, "pids.events", "max", &u.pids_max_events);
		read_io(c->fd, &u.accounts);
		read_stalls(c->fd, &u.accounts);
	}
	*out = u;
}

void cgroup_peek(const struct cgroup *c, struct cgroup_usage *out)
{
	struct cgroup_usage u = { 0 };

	if (c->fd >= 0) {
		read_cpu(c->fd, &u);
		u.has_pids_events = read_key(c->fd, "pids.events", "max", &u.pids_max_events);
	}
	*out = u;
}

void cgroup_read_now(int leaf_fd, struct cgroup_now *out)
{
	struct cgroup_now now = { 0 };

	now.has_cpu = read_key(leaf_fd, "cpu.stat", "usage_usec", &now.cpu_us);
	now.has_memory = read_number(leaf_fd, "memory.current", &now.memory_bytes);
	now.has_pids = read_number(leaf_fd, "pids.current", &now.pids);
	*out = now;
}
