/*
 * Owns: the box's /proc, on the rung of the ladder that the host allows. Runs in the
 * launcher.
 * Must: leave nothing in it that changes the host or tells its secrets.
 * Mustn't: look at the launcher's own /proc to see which names exist: it may be a
 * poorer one than the fresh procfs that the child mounts.
 */
#include "rootfs/parts.h"

#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"

/*
 * What a fresh procfs shows of the host. Each mask is one more mount, so what is
 * harmless or the box's own stays: cpuinfo, meminfo, stat, uptime, loadavg, version,
 * filesystems, net (the box's), sysvipc (the box's), self. So does what the kernel
 * opens to the host's root only (kmsg, timer_list, slabinfo, kpage*), which no box is.
 */
static const struct {
	const char *name;
	uint64_t flags;	/* what it is in every kernel; a wrong word costs time only */
	const char *reason;
} masks[] = {
	{ "sys", 0, "switches of the host: core_pattern, modprobe. libc asks system calls" },
	{ "sysrq-trigger", OP_IS_FILE, "reboots the host" },
	{ "irq", 0, "interrupt affinity" },
	{ "bus", 0, "PCI configuration space" },
	{ "fs", 0, "host file systems and NFS exports" },
	{ "acpi", 0, "firmware switches" },
	{ "scsi", 0, "adds and removes disks" },
	{ "asound", 0, "sound cards" },
	{ "kcore", OP_IS_FILE, "memory of the host" },
	{ "kallsyms", OP_IS_FILE, "kernel addresses" },
	{ "modules", OP_IS_FILE, "kernel modules and addresses" },
	{ "keys", OP_IS_FILE, "keys of the same uid on the host" },
	{ "cmdline", OP_IS_FILE, "boot parameters, sometimes with secrets" },
	{ "bootconfig", OP_IS_FILE, "the same" },
	{ "interrupts", OP_IS_FILE, "timing of the host's keyboard and network" },
	{ "sched_debug", OP_IS_FILE, "processes of the host" },
};

static void build_full(struct plan_builder *b, const struct view_request *r)
{
	char dst[32];

	PLAN_OP(b, .kind = OP_PROC, .stage = r->stage, .fd = -1,
		.flags = OP_MAKE_DST | OP_NOEXEC, .dst = "proc");
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		snprintf(dst, sizeof(dst), "proc/%s", masks[i].name);
		PLAN_OP(b, .kind = OP_MASK, .stage = r->stage, .fd = -1, .dst = dst,
			.flags = masks[i].flags);
	}
}

static void build_subset(struct plan_builder *b, const struct view_request *r)
{
	PLAN_OP(b, .kind = OP_PROC, .stage = r->stage, .fd = -1, .m = 1 /* subset=pid */,
		.flags = OP_MAKE_DST | OP_NOEXEC, .dst = "proc");
}

/* --------------------------------------------------------- synthetic -- */

static unsigned processors(const struct policy *p)
{
	long host = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t limit = (p->limits.cpus + 999) / 1000;

	if (host < 1)
		host = 1;
	return limit && limit < (uint64_t)host ? (unsigned)limit : (unsigned)host;
}

static void write_cpuinfo(struct buf *out, const struct policy *p)
{
	for (unsigned i = 0; i < processors(p); i++)
		buf_fmt(out, "processor\t: %u\nmodel name\t: nsbox\n\n", i);
}

static void write_meminfo(struct buf *out, const struct policy *p)
{
	uint64_t kb = p->limits.memory / 1024, swap = p->limits.swap / 1024;

	if (!kb)
		kb = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	buf_fmt(out,
		"MemTotal: %15llu kB\nMemFree: %16llu kB\nMemAvailable: %11llu kB\n"
		"Buffers: %16d kB\nCached: %17d kB\nSwapTotal: %14llu kB\nSwapFree: %15llu kB\n",
		(unsigned long long)kb, (unsigned long long)kb, (unsigned long long)kb, 0, 0,
		(unsigned long long)swap, (unsigned long long)swap);
}

static void write_stat(struct buf *out, const struct policy *p)
{
	buf_str(out, "cpu  0 0 0 0 0 0 0 0 0 0\n");
	for (unsigned i = 0; i < processors(p); i++)
		buf_fmt(out, "cpu%u 0 0 0 0 0 0 0 0 0 0\n", i);
	buf_str(out, "ctxt 0\nbtime 0\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n");
}

static void write_uptime(struct buf *out, const struct policy *p)
{
	(void)p;
	buf_str(out, "1.00 1.00\n");
}

static void write_loadavg(struct buf *out, const struct policy *p)
{
	(void)p;
	buf_str(out, "0.00 0.00 0.00 1/1 1\n");
}

static void write_version(struct buf *out, const struct policy *p)
{
	(void)p;
	buf_str(out, "Linux version (nsbox)\n");
}

static void write_filesystems(struct buf *out, const struct policy *p)
{
	(void)p;
	buf_str(out, "nodev\tproc\nnodev\ttmpfs\n");
}

static const struct {
	const char *dst;
	void (*write)(struct buf *out, const struct policy *p);
} made_files[] = {
	{ "proc/cpuinfo", write_cpuinfo },   { "proc/meminfo", write_meminfo },
	{ "proc/stat", write_stat },	     { "proc/uptime", write_uptime },
	{ "proc/loadavg", write_loadavg },   { "proc/version", write_version },
	{ "proc/filesystems", write_filesystems },
};

/*
 * Where no procfs may be mounted at all (an unprivileged container masks parts of its
 * own, and the kernel refuses a fresh one that would show them). No /proc/self then, so
 * /dev/stdin and the like lead nowhere, and programs that need it fail. What could stand
 * in is worse: the container's /proc shows its processes, their arguments and, with the
 * same uid, their files; the folder of one process there (init's) is not the reader's own,
 * and a program would take its exe, fd and maps for its own.
 */
static int build_synthetic(struct plan_builder *b, const struct view_request *r,
			   struct nsbox_error *err)
{
	PLAN_OP(b, .kind = OP_TMPFS, .stage = r->stage, .fd = -1, .n = 1 << 20, .m = 64,
		.flags = OP_MAKE_DST | OP_NOEXEC | (uint64_t)0555 << 32, .dst = "proc");
	for (size_t i = 0; i < ARRAY_SIZE(made_files); i++) {
		struct buf text = BUF_INIT(256 * 1024);

		made_files[i].write(&text, r->policy);
		if (text.failed) {
			buf_free(&text);
			return err_nomem(err);
		}
		PLAN_OP(b, .kind = OP_FILE, .stage = r->stage, .fd = -1, .n = 0444,
			.dst = made_files[i].dst, .blob = text.data, .blob_len = text.len);
		buf_free(&text);
	}
	PLAN_OP(b, .kind = OP_READONLY, .stage = r->stage, .fd = -1, .dst = "proc");
	return 0;
}

const char *proc_note(enum proc_rung rung)
{
	static const char *const notes[] = {
		[PROC_FULL] = NULL,
		[PROC_SUBSET] = "/proc of the box has processes only (subset=pid): this host masks parts "
				"of its own /proc, so a whole one is refused here",
		[PROC_SYNTHETIC] = "/proc of the box is made up, without processes: this host masks parts "
				   "of its own /proc, so none can be mounted here; /proc/self, /dev/fd, "
				   "/dev/stdin, /dev/stdout and /dev/stderr are missing",
	};

	return (size_t)rung < ARRAY_SIZE(notes) ? notes[rung] : NULL;
}

int proc_build(struct plan_builder *b, const struct view_request *r, struct nsbox_error *err)
{
	switch (r->proc) {
	case PROC_FULL:
		build_full(b, r);
		return 0;
	case PROC_SUBSET:
		build_subset(b, r);
		return 0;
	case PROC_SYNTHETIC:
		return build_synthetic(b, r, err);
	}
	return err_set(err, NSBOX_E_USAGE, "unknown rung %d of /proc", (int)r->proc);
}
