/*
 * listed.c - what of a run is shown to the other programs of its caller
 *
 * Runs in the launcher, beside a payload that runs already: no start waits for it.
 *
 * Mustn't: show an argument, a variable, a path of the caller's or a word of the
 *          output; the name of the program is all.
 */
#include "runtime/listed.h"

#include "runtime/box.h"
#include "runtime/record.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *name_of(const struct nsbox_run *run)
{
	const char *command = run->argv && run->argv[0] ? run->argv[0] : "?";
	const char *slash;

	if (run->name)
		return run->name;
	if (run->language)
		return run->language;
	slash = strrchr(command, '/');
	return slash && slash[1] ? slash + 1 : command;
}

/* A path that is too long is left out: the figures then come from /proc. */
static void put_cgroup(struct registry_record *r, const struct nsbox_box *box)
{
	const struct cgroup *c = &box->watch->cgroup;
	int n = c->fd >= 0 ? snprintf(r->cgroup, sizeof(r->cgroup), "%s/%s", box->host.place.path,
				      c->name)
			   : 0;

	if (n < 0 || (size_t)n >= sizeof(r->cgroup))
		memset(r->cgroup, 0, sizeof(r->cgroup));
}

void listed_begin(struct nsbox_box *box, const struct nsbox_run *run)
{
	const struct policy *p = &box->policy;
	struct registry_record *r = &box->listed.record;

	if (!p->observe.listed)
		return;
	*r = (struct registry_record){
		.state = REGISTRY_RUNNING, .launcher_pid = (int32_t)getpid(),
		.init_pid = (int32_t)box->watch->live.pid, .exit_code = -1,
		.started_us = registry_now_us(), .memory_limit = p->limits.memory,
		.pids_limit = p->limits.pids, .cpus_milli = p->limits.cpus,
		.timeout_us = run->timeout_ms ? run->timeout_ms * 1000 : p->limits.timeout,
		.cpu_us = REGISTRY_UNKNOWN, .memory_peak = REGISTRY_UNKNOWN,
		.pids_peak = REGISTRY_UNKNOWN,
	};
	registry_clean_name(r->name, name_of(run));
	put_cgroup(r, box);
	registry_claim(&box->listed.slot, r);
}

void listed_end(struct nsbox_box *box, const struct nsbox_result *result)
{
	struct registry_record *r = &box->listed.record;

	if (box->listed.slot.fd < 0)
		return;
	r->ended_us = registry_now_us();
	r->state = result ? REGISTRY_FINISHED : REGISTRY_LOST;
	if (result) {
		r->verdict = (int32_t)result->verdict;
		r->exit_code = result->exit_code;
		r->signal = result->signal;
		r->wall_us = result->usage.wall_us;
		if (result->usage.has_cpu)
			r->cpu_us = result->usage.user_us + result->usage.system_us;
		if (result->usage.has_memory_peak)
			r->memory_peak = result->usage.memory_peak;
		if (result->usage.has_pids_peak)
			r->pids_peak = result->usage.pids_peak;
	}
	registry_finish(&box->listed.slot, r);
}
