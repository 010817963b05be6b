/*
 * policy.limits -> RLIMIT operations and cgroup v2 files.
 *
 * Owns:    the translation of every limit that the kernel counts.
 * Runs in: the parent. Where the child's hard limit is lower already, the child
 *          keeps it: raising needs CAP_SYS_RESOURCE outside of the box.
 * Must:    name for each cgroup value the key that it makes true; write values that
 *          the kernel gives back unchanged, so that reading back proves them.
 * Mustn't: set RLIMIT_AS. It counts reservations, and Node, Go and Java reserve
 *          gigabytes they never touch.
 */
#include "policy/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"

/* init is a process of the box, but not one of the program's. */
#define INIT_PIDS 1

/*
 * RLIMIT_DATA counts what is reserved, memory.max what is touched: a program that asks
 * for a gigabyte and uses little of it must get it here too, and one that then fills it
 * must be killed for it (sample.c), not told ENOMEM. So this is no memory limit; it is
 * the most that one process can take should the launcher be held up, and leaves the
 * host at least half of its memory. A kernel refuses single requests beyond all of it in
 * the same way (overcommit). The floor is for small hosts.
 */
#define DATA_SPARE_FLOOR (1ull << 30)

/* The largest page of a supported kernel (aarch64): memory.max is kept in pages. */
#define PAGE_UNIT 65536u

#define MICROSECONDS 1000000u

/* pids.max refuses more than the kernel's highest pid. */
#define PIDS_CEILING (4u << 20)

static uint64_t sum(uint64_t a, uint64_t b)
{
	uint64_t total;

	return __builtin_add_overflow(a, b, &total) ? UINT64_MAX : total;
}

/* Down to whole pages: what is not a multiple reads back as another number. */
uint64_t limits_in_pages(uint64_t bytes)
{
	return bytes - bytes % PAGE_UNIT;
}

static uint64_t data_bound(const struct policy *p, const struct limits_have *have)
{
	uint64_t spare = have->host_memory / 2;

	return sum(sum(p->limits.memory, p->limits.swap),
		   spare > DATA_SPARE_FLOOR ? spare : DATA_SPARE_FLOOR);
}

static uint64_t pids_with_init(const struct policy *p)
{
	uint64_t pids = sum(p->limits.pids, INIT_PIDS);

	return pids < PIDS_CEILING ? pids : PIDS_CEILING;
}

static int need(uint64_t value, const char *key, struct nsbox_error *err)
{
	if (value)
		return 0;
	err_hint(err, "0 does not mean unlimited here: give a larger number");
	return err_set(err, NSBOX_E_POLICY, "%s: too small for any program", key);
}

static int need_limits(const struct policy *p, struct nsbox_error *err)
{
	int r = need(limits_in_pages(p->limits.memory), "limits.memory", err);

	if (r == 0 && p->limits.memory_high && !limits_in_pages(p->limits.memory_high)) {
		err_hint(err, "give 64K or more, or 0 for none");
		r = err_set(err, NSBOX_E_POLICY, "limits.memory_high: too small for any program");
	}
	if (r == 0)
		r = need(p->limits.pids, "limits.pids", err);
	if (r == 0)
		r = need(p->limits.files, "limits.files", err);
	return r;
}

/* --- rlimits ------------------------------------------------------------- */

/* The same in every box, whatever the policy says. */
static const struct {
	int resource;
	uint64_t value;
} fixed[] = {
	/* 0 stops cores in files only; 1 is the one value at which the kernel does not
	 * start the host's handler (core_pattern "|...") either: core(5) */
	{ RLIMIT_CORE, 1 },
	{ RLIMIT_MEMLOCK, 64 << 10 },	/* pinned pages cannot be reclaimed */
	{ RLIMIT_MSGQUEUE, 800 << 10 },	/* kernel memory that no mount bounds */
	{ RLIMIT_SIGPENDING, 1024 },	/* queued signals and timers: kernel memory */
	{ RLIMIT_RTPRIO, 0 },		/* a real-time loop starves the host */
	{ RLIMIT_NICE, 0 },
};

struct rlimits {
	struct plan_builder *b;
	unsigned stage;
};

static void add_rlimit(const struct rlimits *to, int resource, uint64_t soft,
		       uint64_t hard)
{
	PLAN_OP(to->b, .kind = OP_RLIMIT, .stage = to->stage, .flags = (uint64_t)resource,
		.n = soft, .m = hard);
}

/* At the soft limit SIGXCPU, which can be caught; a second later SIGKILL. */
static void add_cpu_time(const struct rlimits *to, uint64_t us)
{
	uint64_t seconds = us / MICROSECONDS + (us % MICROSECONDS != 0);

	if (us)
		add_rlimit(to, RLIMIT_CPU, seconds, seconds + 1);
}

int limits_compile_rlimits(struct plan_builder *b, const struct policy *p,
			   const struct limits_have *have, unsigned stage,
			   struct nsbox_error *err)
{
	const struct rlimits to = { b, stage };
	uint64_t data = data_bound(p, have), pids = pids_with_init(p);
	int r = need_limits(p, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		add_rlimit(&to, fixed[i].resource, fixed[i].value, fixed[i].value);
	add_rlimit(&to, RLIMIT_NOFILE, p->limits.files, p->limits.files);
	if (p->limits.file_size)
		add_rlimit(&to, RLIMIT_FSIZE, p->limits.file_size, p->limits.file_size);
	add_cpu_time(&to, p->limits.cpu_time);
	if (!have->cgroup_memory)
		add_rlimit(&to, RLIMIT_DATA, data, data);
	/* The kernel counts no refusal of this one, so that a fork bomb is known only by being
	 * over its limit: room for one more than a program may keep. */
	if (!have->cgroup_pids)
		add_rlimit(&to, RLIMIT_NPROC, pids + 1, pids + 1);
	return 0;
}

/* --- cgroup -------------------------------------------------------------- */

struct rows {
	struct cgroup_value *v;
	size_t n, max;
};

static struct cgroup_value *add_row(struct rows *rows, const char *file, const char *key)
{
	struct cgroup_value *v;

	if (rows->n == rows->max)
		return NULL;
	v = &rows->v[rows->n++];
	*v = (struct cgroup_value){ .file = file, .key = key };
	return v;
}

static void add_number(struct rows *rows, const char *file, uint64_t n, const char *key)
{
	struct cgroup_value *v = add_row(rows, file, key);

	if (v)
		snprintf(v->value, sizeof(v->value), "%" PRIu64, n);
}

/*
 * 100 ms is the kernel's own period; a quota below 1 ms is EINVAL, so a hundredth of
 * a core and less is spread over a second.
 */
static int add_cpu(struct rows *rows, uint64_t milli, struct nsbox_error *err)
{
	uint64_t period = milli < 10 ? 1000000 : 100000, quota;
	struct cgroup_value *v = add_row(rows, "cpu.max", "limits.cpus");

	if (__builtin_mul_overflow(milli, period / 1000, &quota))
		return err_set(err, NSBOX_E_POLICY, "limits.cpus: out of range");
	if (v && milli)
		snprintf(v->value, sizeof(v->value), "%" PRIu64 " %" PRIu64, quota, period);
	else if (v)
		snprintf(v->value, sizeof(v->value), "max 100000");
	return 0;
}

static void add_memory(struct rows *rows, const struct policy *p)
{
	add_number(rows, "memory.max", limits_in_pages(p->limits.memory), "limits.memory");
	add_number(rows, "memory.swap.max", limits_in_pages(p->limits.swap), "limits.swap");
	if (p->limits.memory_high)
		add_number(rows, "memory.high", limits_in_pages(p->limits.memory_high),
			   "limits.memory_high");
	/* One dead worker leaves a program that waits for ever: all of it or nothing,
	 * unless somebody asked for the other. */
	add_number(rows, "memory.oom.group", p->limits.oom == OOM_GROUP, "limits.oom");
}

/* bfq has a scale of its own, 1..1000 with the same middle: systemd's mapping. */
static uint64_t bfq_weight(uint64_t weight)
{
	return weight <= 100 ? weight : 100 + (weight - 100) * 900 / 9900;
}

static void add_io(struct rows *rows, const struct policy *p, const char *file)
{
	struct cgroup_value *v = p->limits.io_weight ? add_row(rows, file, "limits.io_weight")
						     : NULL;
	bool is_bfq = file && strcmp(file, "io.bfq.weight") == 0;

	if (v) /* "default": for every device that has no weight of its own here */
		snprintf(v->value, sizeof(v->value), "default %" PRIu64,
			 is_bfq ? bfq_weight(p->limits.io_weight) : p->limits.io_weight);
}

int limits_compile_cgroup(struct cgroup_value *rows, size_t max, const struct policy *p,
			  const struct limits_have *have, struct nsbox_error *err)
{
	struct cgroup_value made[LIMITS_CGROUP_ROWS];
	struct rows to = { made, 0, LIMITS_CGROUP_ROWS };
	int r = need_limits(p, err);

	if (r == 0 && max < LIMITS_CGROUP_ROWS)
		r = err_set(err, NSBOX_E_USAGE, "compile cgroup values: room for %zu of %d rows",
			    max, LIMITS_CGROUP_ROWS);
	/* First, so that a box that is moved in later cannot have made any. */
	add_number(&to, "cgroup.max.descendants", 0, "limits.memory");
	if (have->cgroup_memory)
		add_memory(&to, p);
	if (have->cgroup_pids)
		add_number(&to, "pids.max", pids_with_init(p), "limits.pids");
	if (r == 0 && have->cgroup_cpu)
		r = add_cpu(&to, p->limits.cpus, err);
	if (have->io_weight_file)
		add_io(&to, p, have->io_weight_file);
	if (r < 0)
		return r;
	for (size_t i = 0; i < to.n; i++)
		rows[i] = made[i];
	return (int)to.n;
}
