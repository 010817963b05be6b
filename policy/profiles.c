/*
 * Built-in profiles: a few settings each, on top of the defaults of the table.
 *
 * Pure data. Must differ from the defaults only where the kind of program needs
 * it; what a profile loosens is said in its help, because it is all a reader sees.
 */
#include "policy/value.h"

#include <string.h>

typedef const char *const pair[2];

static pair none[] = { { NULL, NULL } };

/* Pure computation: one process, no sockets, little of everything. */
static pair strict_settings[] = {
	{ "syscalls.level", "strict" },
	{ "process.subprocesses", "false" },
	{ "limits.timeout", "10s" },
	{ "limits.memory", "256M" },
	{ "limits.disk", "32M" },
	{ "limits.tmp", "16M" },
	{ "limits.shm", "16M" },
	{ "limits.pids", "32" },
	{ "limits.files", "256" },
	{ "limits.output", "256K" },
	{ "artifacts.max_count", "16" },
	{ "artifacts.max_bytes", "8M" },
	{ NULL, NULL },
};

/* What data work takes: a pool of workers that share arrays in /dev/shm, each with
 * a BLAS thread a core. The variables Python wants are in every box anyway. */
static pair python_settings[] = {
	{ "limits.memory", "1G" },
	{ "limits.shm", "256M" },
	{ "limits.pids", "256" },
	{ NULL, NULL },
};

/* V8 reserves address space for its heap up front and starts a thread a core plus
 * four for the file system; npm unpacks many small files. */
static pair node_settings[] = {
	{ "limits.memory", "1G" },
	{ "limits.pids", "256" },
	{ "limits.files", "4096" },
	{ NULL, NULL },
};

/* Pipelines are many short processes. */
static pair shell_settings[] = {
	{ "limits.pids", "256" },
	{ NULL, NULL },
};

static pair build_settings[] = {
	{ "syscalls.level", "build" },
	{ "limits.timeout", "600s" },
	{ "limits.cpus", "0" },
	{ "limits.memory", "2G" },
	{ "limits.disk", "2G" },
	{ "limits.tmp", "1G" },
	{ "limits.pids", "512" },
	{ "limits.files", "4096" },
	{ "limits.output", "4M" },
	{ NULL, NULL },
};

static pair debug_settings[] = {
	{ "syscalls.level", "debug" },
	{ "limits.timeout", "600s" },
	{ "limits.memory", "1G" },
	{ NULL, NULL },
};

const struct profile policy_profiles[] = {
	{ "strict", "pure computation: one process, no sockets, small limits",
	  strict_settings },
	{ "default", "the defaults of every key", none },
	{ "python", "Python: 1 GiB memory, 256 MiB /dev/shm, 256 processes and threads",
	  python_settings },
	{ "node", "Node.js: 1 GiB memory, 256 processes and threads, 4096 files",
	  node_settings },
	{ "shell", "shell scripts: 256 processes and threads", shell_settings },
	{ "build", "compilers and test suites: 2 GiB memory and disk, every core, 10 minutes",
	  build_settings },
	{ "debug", "debuggers: ptrace and friends allowed inside the box, 10 minutes",
	  debug_settings },
};
const size_t policy_profile_count = ARRAY_SIZE(policy_profiles);

const struct profile *policy_profile(const char *name)
{
	for (size_t i = 0; i < policy_profile_count; i++)
		if (strcmp(policy_profiles[i].name, name) == 0)
			return &policy_profiles[i];
	return NULL;
}

int policy_from_profile(struct policy *p, const char *name,
			struct nsbox_error *err)
{
	struct policy fresh = { 0 };
	int code = policy_init(&fresh, err);

	if (code == 0)
		code = policy_set(&fresh, "extends", name, err);
	if (code < 0) {
		policy_free(&fresh);
		return code;
	}
	policy_free(p);
	*p = fresh;
	return 0;
}
