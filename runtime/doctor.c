/*
 * doctor.c - what this host gives to the local tier, why not, and what to do about it
 *
 * Owns the table of checks, the verdict over all, and the two forms of the answer.
 * Runs in the caller; everything that is tried is tried in children (doctor_run.c).
 *
 * Must:    name the cause (a sysctl, an LSM, a filter around us) where it can be read.
 * Mustn't: change the host; call something there because a file or version says so.
 */
#include "runtime/doctor.h"
#include "policy/landlock.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

enum {
	DETAIL_MAX = 1024,
	OUT_MAX = 1 << 20,
};

/* What is left of the local tier without it. */
enum weight {
	NEEDED,	/* nothing: no box can be made */
	WANTED,	/* boxes, with less: degraded */
	EXTRA,	/* boxes, without one feature: no change of the verdict */
};

/* Which cause to look for when it fails. */
enum cause { CAUSE_OWN, CAUSE_USERNS, CAUSE_PROC, CAUSE_LANDLOCK, CAUSE_CGROUP };

enum check_id {
	C_SYSCALLS, C_CLONE3, C_PIDFD, C_MEMFD, C_USERNS, C_MOUNTNS, C_PIDNS, C_NETNS, C_IPCNS,
	C_UTSNS, C_CGROUPNS, C_TIMENS, C_MOUNT_API, C_PIVOT, C_PROC, C_OVERLAY, C_IDMAP,
	C_SECCOMP, C_LANDLOCK, C_KEYRING, C_CGROUP, C_CGROUP_KILL, C_SAMPLING, C_SCHED_CORE,
	C_EGRESS, C_RULES,
	C_PROBES,
	C_MEMORY = C_PROBES, C_PIDS, C_CPU, C_COUNT
};

struct check {
	const char *name, *gives, *without, *remedy;
	struct probe probe; /* call NULL: follows from other checks */
	enum weight weight;
	enum cause cause;
	bool root_only;
};

#define NEW_KERNEL "run a kernel of version 5.12 or newer"
#define SURROUNDINGS "lift the seccomp filter or LSM rule of the container or service around nsbox"

/* clang-format off */
static const struct check checks[C_COUNT] = {
	[C_SYSCALLS] = { "syscalls", "openat2 and close_range: no path or descriptor leaks in",
		"no box", NEW_KERNEL, { probe_syscalls, false, 0 }, NEEDED, CAUSE_OWN, false },
	[C_CLONE3] = { "clone3", "a child that is born with a pidfd and in its cgroup",
		"clone is used: no time namespace, and the child is moved into its cgroup", SURROUNDINGS,
		{ probe_clone3, false, 0 }, EXTRA, CAUSE_OWN, false },
	[C_PIDFD] = { "pidfd", "signals that cannot hit another process",
		"no box", NEW_KERNEL, { probe_pidfd, false, 0 }, NEEDED, CAUSE_OWN, false },
	[C_MEMFD] = { "memfd", "init from a sealed file in memory",
		"no box", "sysctl -w vm.memfd_noexec=0 (or 1)", { probe_memfd, false, 0 }, NEEDED, CAUSE_OWN, false },
	[C_USERNS] = { "user_namespace", "a uid of the box's own, without privilege outside",
		"no box", SURROUNDINGS, { probe_userns, true, 0 }, NEEDED, CAUSE_USERNS, false },
	[C_MOUNTNS] = { "mount_namespace", "a file tree of the box's own",
		"no box", SURROUNDINGS, { probe_mountns, true, CLONE_NEWNS }, NEEDED, CAUSE_USERNS, false },
	[C_PIDNS] = { "pid_namespace", "other processes are invisible, none survives",
		"no box", SURROUNDINGS, { probe_pidns, true, CLONE_NEWPID }, NEEDED, CAUSE_USERNS, false },
	[C_NETNS] = { "network_namespace", "no network but the box's own loopback",
		"no box", SURROUNDINGS, { probe_netns, true, CLONE_NEWNET }, NEEDED, CAUSE_USERNS, false },
	[C_IPCNS] = { "ipc_namespace", "no shared memory or queues of the host",
		"no box", SURROUNDINGS, { probe_ipcns, true, CLONE_NEWIPC }, NEEDED, CAUSE_USERNS, false },
	[C_UTSNS] = { "uts_namespace", "a host name of the box's own",
		"no box", SURROUNDINGS, { probe_utsns, true, CLONE_NEWUTS }, NEEDED, CAUSE_USERNS, false },
	[C_CGROUPNS] = { "cgroup_namespace", "the host's cgroup names are hidden",
		"the box sees the name of its cgroup", SURROUNDINGS, { probe_cgroupns, true, CLONE_NEWCGROUP }, NEEDED, CAUSE_USERNS, false },
	[C_TIMENS] = { "time_namespace", "an uptime of the box's own",
		"the box sees how long the host is up", "a kernel with CONFIG_TIME_NS", { probe_timens, true, 0 }, EXTRA, CAUSE_USERNS, false },
	[C_MOUNT_API] = { "mount_api", "open_tree, mount_setattr, move_mount: binds pinned by descriptor",
		"no box", NEW_KERNEL, { probe_mount_api, true, CLONE_NEWNS }, NEEDED, CAUSE_USERNS, false },
	[C_PIVOT] = { "pivot_root", "the host's root is gone, not just hidden",
		"no box", SURROUNDINGS, { probe_pivot, true, CLONE_NEWNS }, NEEDED, CAUSE_USERNS, false },
	[C_PROC] = { "proc", "a fresh /proc that shows the box alone",
		"a smaller /proc, or none", "in a container: run it with an unmasked /proc (docker: --security-opt systempaths=unconfined)",
		{ probe_proc, true, CLONE_NEWNS | CLONE_NEWPID }, WANTED, CAUSE_PROC, false },
	[C_OVERLAY] = { "overlay", "templates and layers without copying",
		"layers are not available", "a kernel of version 5.11 or newer with the overlay module", { probe_overlay, true, CLONE_NEWNS }, EXTRA, CAUSE_USERNS, false },
	[C_IDMAP] = { "idmapped_mounts", "--rw folders for a box that root started",
		"--rw needs a folder that the box's own uid may write", "a file system with idmapped mounts (ext4, xfs, btrfs; Linux 5.12), tmpfs since 6.3", { probe_idmap, false, 0 }, EXTRA, CAUSE_OWN, true },
	[C_SECCOMP] = { "seccomp", "the system call filter",
		"no box", "a kernel with CONFIG_SECCOMP_FILTER", { probe_seccomp, false, 0 }, NEEDED, CAUSE_OWN, false },
	[C_LANDLOCK] = { "landlock", "a second wall behind the mounts",
		"the mounts alone decide about files", "boot with landlock in the lsm= list; the kernel needs CONFIG_SECURITY_LANDLOCK", { probe_landlock, false, 0 }, WANTED, CAUSE_LANDLOCK, false },
	[C_KEYRING] = { "keyring", "a session keyring of the box's own",
		"keys of the caller's session may be reachable", SURROUNDINGS, { probe_keyring, false, 0 }, WANTED, CAUSE_OWN, false },
	[C_CGROUP] = { "cgroup", "a cgroup of version 2 for each run",
		"limits by sampling, killing by pid namespace", NULL,
		{ probe_cgroup, false, 0 }, WANTED, CAUSE_CGROUP, false },
	[C_CGROUP_KILL] = { "cgroup_kill", "one write kills all of a run",
		"the box is killed through its PID 1", "a writable cgroup2 and a kernel of version 5.14 or newer", { probe_cgroup_kill, false, 0 }, EXTRA, CAUSE_OWN, false },
	[C_SAMPLING] = { "sampling", "watching memory and time of a box from outside",
		"without a cgroup controller: no memory limit", "mount /proc without hidepid for this user", { probe_sampling, false, 0 }, EXTRA, CAUSE_OWN, false },
	[C_SCHED_CORE] = { "core_sched", "no other program on the threads of the core a box runs on",
		"unavailable: programs on the other threads of a core may time the box, and be timed by it",
		"a kernel with CONFIG_SCHED_CORE on a processor with SMT; this version does not use it yet",
		{ probe_sched_core, false, 0 }, EXTRA, CAUSE_OWN, false },
	[C_EGRESS] = { "egress", "networks that let out what the policy names (--net filtered, open), by nsbox-egress",
		"a box has no network", "install nsbox-egress beside nsbox (make install does), writable by its owner alone", { probe_egress, false, 0 }, EXTRA, CAUSE_OWN, false },
	[C_RULES] = { "network_rules", "every connection of a box is judged before it is answered, and UDP is passed on (nf_tables, tproxy)",
		"TCP to ports that the rules name, no UDP but lookups; a refusal is an accepted connection that is reset",
		"modprobe nft_tproxy (as root), or a kernel with CONFIG_NFT_TPROXY", { probe_rules, true, CLONE_NEWNET }, EXTRA, CAUSE_OWN, false },
	[C_MEMORY] = { "memory_limit", "limits.memory", "limits.memory is refused", NULL, { NULL, false, 0 }, WANTED, CAUSE_CGROUP, false },
	[C_PIDS] = { "pids_limit", "limits.pids", "limits.pids is refused", NULL, { NULL, false, 0 }, WANTED, CAUSE_CGROUP, false },
	[C_CPU] = { "cpu_limit", "limits.cpus and limits.cpu_time", "limits.cpus is refused", NULL, { NULL, false, 0 }, WANTED, CAUSE_CGROUP, false },
};
/* clang-format on */

static const char *const step_texts[STEP_COUNT] = {
#define X(name, text) [STEP_##name] = text,
	PROBE_STEPS(X)
#undef X
};

enum answer { NO, DEGRADED, YES };
static const char *const answer_words[] = { "no", "degraded", "yes" };

struct finding {
	enum answer answer;
	const char *strength; /* "kernel", "userspace", "none" */
	const char *remedy;   /* NULL: nothing to do, or said at its cause */
	char detail[DETAIL_MAX];
};

struct examination {
	struct probe_report reports[C_PROBES];
	struct finding found[C_COUNT];
	struct utsname host;
	bool is_root;
};

static void __attribute__((format(printf, 2, 3)))
detail(struct finding *f, const char *fmt, ...)
{
	size_t n = strlen(f->detail);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->detail + n, sizeof(f->detail) - n, fmt, ap);
	va_end(ap);
}

/* --- causes -------------------------------------------------------------------------- */

/* Switches of the kernel that forbid what failed, as they read when they do. */
static const struct {
	const char *file, *value, *says, *remedy;
	bool users_only;
} switches[] = {
	{ "/proc/sys/user/max_user_namespaces", "0",
	  "user.max_user_namespaces is 0",
	  "as root: sysctl -w user.max_user_namespaces=15000 (and the same in /etc/sysctl.d/)", false },
	{ "/proc/sys/kernel/unprivileged_userns_clone", "0",
	  "kernel.unprivileged_userns_clone is 0: users may not make user namespaces",
	  "as root: sysctl -w kernel.unprivileged_userns_clone=1 (and the same in /etc/sysctl.d/)", true },
	{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
	  "kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor takes the capabilities away inside",
	  "as root: give the nsbox command an AppArmor profile with \"userns,\", or sysctl -w "
	  "kernel.apparmor_restrict_unprivileged_userns=0", true },
};

static bool file_says(const char *path, const char *value)
{
	owned(buf_free) struct buf text = BUF_INIT(4096);
	size_t n = strlen(value);

	return fd_read_file(AT_FDCWD, path, &text) == 0 &&
	       strncmp(buf_text(&text), value, n) == 0 &&
	       (text.len == n || text.data[n] == '\n');
}

static bool has_outer_filter(void)
{
	owned(buf_free) struct buf text = BUF_INIT(65536);

	return fd_read_file(AT_FDCWD, "/proc/self/status", &text) == 0 &&
	       strstr(buf_text(&text), "\nSeccomp:\t2");
}

static void add_userns_cause(const struct examination *e, struct finding *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		if ((switches[i].users_only && e->is_root) ||
		    !file_says(switches[i].file, switches[i].value))
			continue;
		detail(f, "; %s", switches[i].says);
		f->remedy = switches[i].remedy;
		return;
	}
	if (has_outer_filter())
		detail(f, "; this process is under a seccomp filter that nsbox did not load "
			  "(a container, or another sandbox)");
}

static void explain_failure(const struct examination *e, enum check_id id, struct finding *f)
{
	const struct probe_report *r = &e->reports[id];
	const struct check *c = &checks[id];

	detail(f, "cannot %s", r->step >= 0 && r->step < STEP_COUNT ? step_texts[r->step] : "?");
	if (r->os_errno)
		detail(f, ": %s", err_text(r->os_errno));
	f->remedy = c->remedy;
	if (c->cause == CAUSE_USERNS)
		add_userns_cause(e, f);
	if (c->cause == CAUSE_PROC)
		detail(f, "; the /proc around this process has masked parts, which forbids a fresh one");
	if (c->cause == CAUSE_LANDLOCK && r->os_errno == ENOSYS)
		detail(f, "; this kernel was built without Landlock");
	if (c->cause == CAUSE_LANDLOCK && r->os_errno == EOPNOTSUPP)
		detail(f, "; Landlock is built in and not switched on");
	if (c->cause == CAUSE_CGROUP) {
		detail(f, "; step: %s", cgroup_step_name(r->place.step));
		if (r->place.why[0])
			detail(f, "; %s", r->place.why);
		f->remedy = cgroup_remedy(&r->place);
	}
	detail(f, "; without it: %s", c->without);
}

/* --- findings ------------------------------------------------------------------------- */

/* Answers that follow from another "no" repeat neither the attempt nor the remedy. */
static bool depends_in_vain(const struct examination *e, enum check_id id)
{
	return checks[id].probe.in_userns && id != C_USERNS && e->reports[C_USERNS].failed;
}

static void add_success(const struct examination *e, enum check_id id, struct finding *f)
{
	const struct probe_report *r = &e->reports[id];

	f->answer = YES;
	f->strength = "kernel";
	detail(f, "%s", checks[id].gives);
	if (id == C_LANDLOCK)
		detail(f, "; ABI %d%s", r->value, r->value < LANDLOCK_WALLS_ABI ? "" :
		       ", enough for boxes without namespaces (isolation.floor)");
	if (id == C_KEYRING && r->value)
		detail(f, "; this kernel has no keyrings, so there is nothing to reach");
	if (id == C_CGROUP)
		detail(f, "; step: %s (%s); below %s", cgroup_step_name(r->place.step),
		       cgroup_step_text(r->place.step), r->place.path);
	if (id == C_SAMPLING)
		f->strength = "userspace";
}

static void find_one(const struct examination *e, enum check_id id, struct finding *f)
{
	f->answer = NO;
	f->strength = "none";
	if (checks[id].root_only && !e->is_root) {
		f->answer = YES;
		f->strength = "kernel";
		detail(f, "not needed: boxes of a user write as that user");
	} else if (depends_in_vain(e, id)) {
		detail(f, "not tried: needs user_namespace");
	} else if (e->reports[id].failed) {
		explain_failure(e, id, f);
	} else {
		add_success(e, id, f);
	}
	if (f->answer == NO && checks[id].weight == WANTED)
		f->answer = DEGRADED;
}

/* kernel where a leaf gets the controller, else userspace: rlimits need nothing,
 * sampling needs /proc. */
static void find_limit(const struct examination *e, enum check_id id, struct finding *f)
{
	const struct probe_report *place = &e->reports[C_CGROUP];
	bool has = !place->failed && (id == C_MEMORY ? place->place.memory :
				      id == C_PIDS   ? place->place.pids :
						       place->place.cpu);

	if (has) {
		f->answer = YES;
		f->strength = "kernel";
		detail(f, "%s by the cgroup controller", checks[id].gives);
		return;
	}
	f->remedy = cgroup_remedy(&place->place);
	if (e->reports[C_SAMPLING].failed) {
		f->answer = DEGRADED;
		f->strength = "none";
		detail(f, "%s", checks[id].without);
		return;
	}
	f->answer = DEGRADED;
	f->strength = "userspace";
	detail(f, "%s by rlimits and sampling: a box may exceed it for a moment", checks[id].gives);
	if (place->place.why[0])
		detail(f, "; %s", place->place.why);
}

static void examine(struct examination *e)
{
	e->is_root = geteuid() == 0;
	uname(&e->host);
	for (enum check_id id = 0; id < C_PROBES; id++) {
		if ((checks[id].root_only && !e->is_root) || depends_in_vain(e, id))
			continue;
		doctor_child(&checks[id].probe, &e->reports[id]);
	}
	for (enum check_id id = 0; id < C_PROBES; id++)
		find_one(e, id, &e->found[id]);
	for (enum check_id id = C_MEMORY; id < C_COUNT; id++)
		find_limit(e, id, &e->found[id]);
}

enum status { FULL, PARTLY, NOT_AT_ALL };
static const char *const status_words[] = { "full", "degraded", "none" };

static enum status overall(const struct examination *e)
{
	enum status s = FULL;

	for (enum check_id id = 0; id < C_COUNT; id++) {
		if (e->found[id].answer == YES || checks[id].weight == EXTRA)
			continue;
		if (checks[id].weight == NEEDED)
			return NOT_AT_ALL;
		s = PARTLY;
	}
	return s;
}

/* --- the two forms --------------------------------------------------------------------- */

static const char *const status_sentences[] = {
	"the local tier works fully",
	"the local tier works, with the weaker parts named above",
	"the local tier does not work here",
};

static void to_text(const struct examination *e, enum status s, struct buf *b)
{
	buf_fmt(b, "host       Linux %s %s, %s\n", e->host.release, e->host.machine,
		e->is_root ? "as root" : "as a user");
	for (enum check_id id = 0; id < C_COUNT; id++) {
		const struct finding *f = &e->found[id];

		buf_fmt(b, "%-10s %-18s %-10s %s\n", answer_words[f->answer], checks[id].name,
			f->strength, f->detail);
		if (f->remedy)
			buf_fmt(b, "%-40s fix: %s\n", "", f->remedy);
	}
	buf_fmt(b, "%-10s %-18s %-10s %s\n", status_words[s], "tier local", "",
		status_sentences[s]);
}

static void to_json(const struct examination *e, enum status s, struct buf *b)
{
	struct json j = JSON_INIT(b);

	json_object(&j);
	json_kstr(&j, "schema", "nsbox.doctor/1");
	json_kstr(&j, "status", status_words[s]);
	json_kstr(&j, "kernel", e->host.release);
	json_kstr(&j, "machine", e->host.machine);
	json_kbool(&j, "root", e->is_root);
	json_key(&j, "tiers");
	json_object(&j);
	json_kstr(&j, "local", status_words[s]);
	json_end(&j, '}');
	json_kstr(&j, "cgroup_step", cgroup_step_name(e->reports[C_CGROUP].place.step));
	json_key(&j, "checks");
	json_array(&j);
	for (enum check_id id = 0; id < C_COUNT; id++) {
		const struct finding *f = &e->found[id];

		json_object(&j);
		json_kstr(&j, "name", checks[id].name);
		json_kstr(&j, "ok", answer_words[f->answer]);
		json_kstr(&j, "strength", f->strength);
		json_kstr(&j, "detail", f->detail);
		json_kstr(&j, "remedy", f->remedy);
		json_end(&j, '}');
	}
	json_end(&j, ']');
	json_end(&j, '}');
}

static const struct {
	const char *name;
	void (*print)(const struct examination *e, enum status s, struct buf *b);
} forms[] = {
	{ "text", to_text },
	{ "json", to_json },
};

int nsbox_doctor(const char *form, char **out, struct nsbox_error *err)
{
	owned(buf_free) struct buf text = BUF_INIT(OUT_MAX);
	owned_mem struct examination *e = NULL;
	size_t i = 0;
	enum status s;
	char *answer;

	err_clear(err);
	while (i < ARRAY_SIZE(forms) && (!form || strcmp(forms[i].name, form) != 0))
		i++;
	if (i == ARRAY_SIZE(forms) || !out) {
		err_hint(err, "give \"text\" or \"json\"");
		return err_set(err, NSBOX_E_USAGE, "doctor: unknown form \"%s\"",
			       form ? form : "(null)");
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return err_nomem(err);
	examine(e);
	s = overall(e);
	forms[i].print(e, s, &text);
	answer = buf_take(&text);
	if (!answer)
		return err_nomem(err);
	*out = answer;
	return (int)s;
}
