/*
 * What one run did: struct nsbox_result, filled in by the launcher from evidence,
 * read by the public getters and printed as nsbox.result/1.
 * Absent knowledge is stored as such (has_* false, -1) and printed as null.
 */
#ifndef RUNTIME_RECORD_H
#define RUNTIME_RECORD_H

#include "nsbox.h"
#include "rootfs/artifacts.h"
#include "runtime/accounts.h"
#include "runtime/egress_wire.h"

#include <stdbool.h>

enum enforced_layer { /* one column of the record's "enforced" object each */
	ENF_MEMORY, ENF_CPU, ENF_PIDS, ENF_NETWORK, ENF_FILESYSTEM, ENF_SYSCALLS,
	ENF_TIME, ENF_DISK, ENF_OUTPUT, ENF_LANDLOCK, ENF_IO, ENF_COUNT
};
const char *enforced_name(enum enforced_layer l);
/* "exited", ...; "?": no enum nsbox_verdict. */
const char *verdict_name(int verdict);

/*
 * The limits that were in force, one field of the record's "limits" object each.
 * X(name, key, kind): LIMIT_MS holds microseconds, LIMIT_SHARE thousandths.
 */
enum limit_kind { LIMIT_COUNT, LIMIT_MS, LIMIT_SHARE };
#define LIMIT_FIELDS(X) \
	X(TIMEOUT, "timeout_ms", LIMIT_MS) \
	X(CPU_TIME, "cpu_time_ms", LIMIT_MS) \
	X(CPUS, "cpus", LIMIT_SHARE) \
	X(MEMORY, "memory_bytes", LIMIT_COUNT) \
	X(MEMORY_HIGH, "memory_high_bytes", LIMIT_COUNT) \
	X(SWAP, "swap_bytes", LIMIT_COUNT) \
	X(PIDS, "pids", LIMIT_COUNT) \
	X(FILES, "files", LIMIT_COUNT) \
	X(FILE_SIZE, "file_size_bytes", LIMIT_COUNT) \
	X(DISK, "disk_bytes", LIMIT_COUNT) \
	X(DISK_INODES, "disk_inodes", LIMIT_COUNT) \
	X(TMP, "tmp_bytes", LIMIT_COUNT) \
	X(TMP_INODES, "tmp_inodes", LIMIT_COUNT) \
	X(SHM, "shm_bytes", LIMIT_COUNT) \
	X(SHM_INODES, "shm_inodes", LIMIT_COUNT) \
	X(IO_WEIGHT, "io_weight", LIMIT_COUNT) \
	X(STDOUT, "stdout_bytes", LIMIT_COUNT) \
	X(STDERR, "stderr_bytes", LIMIT_COUNT)
enum limit_field {
#define X(name, key, kind) LIMIT_##name,
	LIMIT_FIELDS(X)
#undef X
	LIMIT_FIELD_COUNT
};
struct in_force {
	uint64_t v[LIMIT_FIELD_COUNT];
	bool is_set[LIMIT_FIELD_COUNT]; /* false: no such limit held */
};

struct denial {
	char *layer, *what, *rule, *allow; /* allow: the flag that would permit it */
	uint64_t count;		/* how often; 0: nobody counted */
};

struct network_host {
	char *name;		/* or an address */
	struct egress_host_report use;
};
struct network_use {		/* what the box's network did */
	const char *mode;	/* net.mode; NULL: nobody served this box, all of it is null */
	const char *path;	/* "inlet", "ports", "calls"; NULL: the box was never connected */
	bool is_known;		/* totals and hosts hold; else they are null */
	struct egress_totals totals;
	struct network_host *hosts;
	size_t host_count;
};

/*
 * Written by the payload itself (NSBOX_IO_FD): nobody counted. `total` is then
 * RESULT_UNKNOWN and the record says null.
 */
#define RESULT_UNKNOWN UINT64_MAX
struct result_stream {
	char *data;
	size_t len;
	uint64_t total;
	bool truncated, captured;
};

struct nsbox_result {
	char *tier;			/* "local" */
	const char *isolation;		/* "namespaces", "landlock", "none"; static */
	enum nsbox_verdict verdict;
	int exit_code;			/* -1: did not exit */
	int signal;			/* 0: none */
	char *reason;			/* "timeout: ran longer than 1 s"; NULL. A skipped
					   run that starts with "not_found" or
					   "not_executable" has the shell's status */
	struct result_stream out, err;
	struct artifacts artifacts;
	struct {
		uint64_t wall_us, user_us, system_us;
		uint64_t memory_peak, pids_peak;
		bool has_cpu, has_memory_peak, has_pids_peak;
		struct accounts accounts;
	} usage;
	enum nsbox_strength enforced[ENF_COUNT];
	struct in_force limits;
	struct denial *denials;
	size_t denial_count;
	struct network_use network;
	char *working_directory;
	struct strlist notes;		/* what the caller should know, one sentence each */
	uint64_t setup_us;
	bool orphans_killed;		/* processes were still alive at the end */
	char *analysis;			/* JSON object of a checked source; NULL */
	char *packages;			/* JSON object of the layer's; NULL */
	char *json;			/* made on demand */
};

/* Strings are copied; any but layer and what may be NULL. 0 or NSBOX_E_NOMEM. */
int result_add_denial(struct nsbox_result *r, const char *layer,
		      const char *what, const char *rule, const char *allow);
/* The same with how often it happened. @texts: what, rule, allow. */
int result_add_denial_times(struct nsbox_result *r, const char *layer,
			    const char *const texts[3], uint64_t count);

/* Mode and path stay: the numbers turned out to be none. */
void network_use_forget(struct network_use *u);

#endif
