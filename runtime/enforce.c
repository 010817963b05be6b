/*
 * enforce.c - which limits will be in force, how strongly, and with which numbers
 *
 * Must:    refuse what nobody can hold here, unless the policy says that it may be left
 *          out; take numbers from what will be done, not from what was asked for.
 * Mustn't: call a limit in force that only somebody else might hold.
 */
#include "runtime/enforce.h"

#include "base/cleanup.h"
#include "policy/limits.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---------------------------------------------------------------- strengths -- */

static bool is_optional(const struct policy *p, const char *key)
{
	return p->enforce.degraded || strlist_has(&p->enforce.optional, key);
}

/* One that a cgroup controller would hold in the kernel, else the launcher. */
struct limit {
	const char *key;
	bool kernel, wanted;
};

static int limit_strength(const struct policy *p, const struct cgroup_place *place,
			  const struct limit *l, enum nsbox_strength *out,
			  struct nsbox_error *err)
{
	const char *remedy = cgroup_remedy(place);

	*out = l->kernel ? NSBOX_STRENGTH_KERNEL : NSBOX_STRENGTH_USERSPACE;
	if (!l->wanted) {
		*out = NSBOX_STRENGTH_NONE;
		return 0;
	}
	if (l->kernel || p->enforce.floor != FLOOR_KERNEL || is_optional(p, l->key))
		return 0;
	err_hint(err, "%s; or drop --require kernel",
		 remedy ? remedy : "delegate the cgroup v2 controllers cpu, memory and pids");
	return err_set(err, NSBOX_E_UNSUPPORTED,
		       "%s would be enforced in userspace only: no cgroup v2 controller here%s%s%s",
		       l->key, place->why[0] ? " (" : "", place->why, place->why[0] ? ")" : "");
}

/* One that the launcher could not hold in the kernel's place. */
static int need_controller(const struct policy *p, const char *key, bool is_there,
			   const char *controller, struct nsbox_error *err)
{
	if (is_there || is_optional(p, key))
		return 0;
	err_hint(err, "delegate the cgroup v2 controller %s to this user (nsbox doctor says how), "
		 "drop the key, or let it be left out: --set enforce.optional=%s", controller, key);
	return err_set(err, NSBOX_E_UNSUPPORTED,
		       "%s cannot be enforced: no cgroup v2 controller %s here", key, controller);
}

const char *enforce_io_file(const struct cgroup_place *place)
{
	/* Where the place itself has the file, its leaves do once it hands io down. */
	if (place->fd < 0 || !place->io)
		return NULL;
	if (faccessat(place->fd, "io.weight", F_OK, 0) == 0)
		return "io.weight";
	return faccessat(place->fd, "io.bfq.weight", F_OK, 0) == 0 ? "io.bfq.weight" : NULL;
}

static int decide_kernel_only(enum nsbox_strength *io, const struct host *h,
			      const struct policy *p, struct nsbox_error *err)
{
	bool has_weight = enforce_io_file(&h->place) != NULL;
	int r = 0;

	*io = p->limits.io_weight && has_weight ? NSBOX_STRENGTH_KERNEL : NSBOX_STRENGTH_NONE;
	if (p->limits.memory_high)
		r = need_controller(p, "limits.memory_high", h->place.memory, "memory", err);
	if (r >= 0 && p->limits.oom != OOM_GROUP)
		r = need_controller(p, "limits.oom", h->place.memory, "memory", err);
	if (r >= 0 && p->limits.io_weight)
		r = need_controller(p, "limits.io_weight", has_weight, "io", err);
	return r;
}

/* A terminal that is passed on has no end: only an output limit that kills bounds it. */
static bool is_bounded(const struct policy *p, const struct nsbox_run *run, int io)
{
	if (run->flags & NSBOX_RUN_TTY)
		return run->out != NSBOX_IO_RELAY || p->limits.output_action == OUTPUT_KILL;
	return io != NSBOX_IO_FD; /* the program's own descriptor: nobody counts */
}

static enum nsbox_strength output_strength(const struct policy *p, const struct nsbox_run *run)
{
	return is_bounded(p, run, run->out) && is_bounded(p, run, run->err)
		       ? NSBOX_STRENGTH_USERSPACE : NSBOX_STRENGTH_NONE;
}

int enforce_decide(enum nsbox_strength e[ENF_COUNT], const struct host *h,
		   const struct policy *p, const struct nsbox_run *run, struct nsbox_error *err)
{
	bool no_cpu_limit = !p->limits.cpus || p->limits.cpus >= (uint64_t)h->cpus * 1000;
	const struct {
		struct limit limit;
		enum enforced_layer layer;
	} limits[] = {
		{ { "limits.memory", h->place.memory, p->limits.memory != 0 }, ENF_MEMORY },
		{ { "limits.pids", h->place.pids, p->limits.pids != 0 }, ENF_PIDS },
		/* As many cores as there are: nothing to hold back, the machine itself does. */
		{ { "limits.cpus", h->place.cpu || no_cpu_limit, p->limits.cpus != 0 }, ENF_CPU },
	};
	int r = 0;

	e[ENF_FILESYSTEM] = e[ENF_NETWORK] = e[ENF_SYSCALLS] = NSBOX_STRENGTH_KERNEL;
	e[ENF_DISK] = NSBOX_STRENGTH_KERNEL; /* sized tmpfs */
	e[ENF_TIME] = NSBOX_STRENGTH_USERSPACE;
	e[ENF_LANDLOCK] = h->landlock_abi ? NSBOX_STRENGTH_KERNEL : NSBOX_STRENGTH_NONE;
	e[ENF_OUTPUT] = output_strength(p, run);
	for (size_t i = 0; i < ARRAY_SIZE(limits) && r >= 0; i++)
		r = limit_strength(p, &h->place, &limits[i].limit, &e[limits[i].layer], err);
	return r < 0 ? r : decide_kernel_only(&e[ENF_IO], h, p, err);
}

/* ------------------------------------------------------------------ numbers -- */

static void hold(struct in_force *f, enum limit_field field, uint64_t v, bool is_held)
{
	f->is_set[field] = is_held;
	f->v[field] = is_held ? v : 0;
}

/* A caller's hard limit that is lower than the policy's is what holds (clip_rlimits). */
static void hold_rlimit(struct in_force *f, enum limit_field field, const struct plan *plan,
			int resource)
{
	const struct op *ops = plan_ops(plan);

	for (uint32_t i = 0; i < plan->op_count; i++)
		if (ops[i].kind == OP_RLIMIT && ops[i].flags == (uint64_t)resource)
			hold(f, field, ops[i].n, true);
}

/* A folder of the host that was bound in its place has no such limit. */
static void hold_tree(struct in_force *f, enum limit_field bytes, const struct plan *plan,
		      const char *dst)
{
	const struct op *ops = plan_ops(plan);

	for (uint32_t i = 0; i < plan->op_count; i++)
		if (ops[i].kind == OP_TMPFS && strcmp(plan_str(plan, ops[i].dst), dst) == 0) {
			hold(f, bytes, ops[i].n, true);
			hold(f, bytes + 1, ops[i].m, true);
		}
}

static void hold_cgroup(struct in_force *f, const struct assembly *a, const struct policy *p)
{
	bool kernel = a->enforced[ENF_MEMORY] == NSBOX_STRENGTH_KERNEL;

	hold(f, LIMIT_CPUS, p->limits.cpus, a->enforced[ENF_CPU] != NSBOX_STRENGTH_NONE);
	hold(f, LIMIT_PIDS, p->limits.pids, a->enforced[ENF_PIDS] != NSBOX_STRENGTH_NONE);
	hold(f, LIMIT_MEMORY, kernel ? limits_in_pages(p->limits.memory) : p->limits.memory,
	     a->enforced[ENF_MEMORY] != NSBOX_STRENGTH_NONE);
	hold(f, LIMIT_SWAP, limits_in_pages(p->limits.swap), kernel);
	hold(f, LIMIT_MEMORY_HIGH, limits_in_pages(p->limits.memory_high),
	     kernel && p->limits.memory_high);
	hold(f, LIMIT_IO_WEIGHT, p->limits.io_weight,
	     a->enforced[ENF_IO] == NSBOX_STRENGTH_KERNEL);
}

void enforce_limits(struct in_force *out, const struct assembly *a, const struct policy *p,
		    const struct nsbox_run *run)
{
	struct in_force f = { 0 };

	hold(&f, LIMIT_TIMEOUT, run->timeout_ms ? run->timeout_ms * 1000 : p->limits.timeout, true);
	hold(&f, LIMIT_CPU_TIME, p->limits.cpu_time, p->limits.cpu_time != 0);
	hold_cgroup(&f, a, p);
	hold_rlimit(&f, LIMIT_FILES, a->plan, RLIMIT_NOFILE);
	hold_rlimit(&f, LIMIT_FILE_SIZE, a->plan, RLIMIT_FSIZE);
	hold_tree(&f, LIMIT_DISK, a->plan, "workspace");
	hold_tree(&f, LIMIT_TMP, a->plan, "tmp");
	hold_tree(&f, LIMIT_SHM, a->plan, "dev/shm");
	hold(&f, LIMIT_STDOUT, p->limits.stdout_bytes, is_bounded(p, run, run->out));
	/* a terminal has one stream */
	hold(&f, LIMIT_STDERR, p->limits.stderr_bytes,
	     !(run->flags & NSBOX_RUN_TTY) && is_bounded(p, run, run->err));
	*out = f;
}
