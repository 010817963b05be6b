/* See walls.h. Runs in the launcher. */
#include "runtime/walls.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "rootfs/paths.h"
#include "runtime/doctor.h"
#include "runtime/environ.h"
#include "runtime/stage.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

const char *walls_promise(unsigned stage)
{
	static const char *const promises[STAGE_COUNT] = {
		[STAGE_prepare] = "the plan is frozen, every source is checked; a folder for the run is made",
		[STAGE_clone] = "the child is a process of the host: there are no namespaces here",
		[STAGE_idmap] = "the run's folder belongs to the box's user",
		[STAGE_cgroup] = "every limit that a cgroup enforces is written and read back; the child is inside",
		[STAGE_network] = "without a network seccomp and Landlock refuse sockets; with one the pair by which init asks about them is there",
		[STAGE_ids] = "an id of its own where the launcher may take one, else the caller's; a session and keyring of its own",
		[STAGE_mounts] = "the working folder; the host's tree is the tree",
		[STAGE_limits] = "resource limits, umask and descriptors are set",
		[STAGE_caps] = "no capability is left",
		[STAGE_lockdown] = "no_new_privs and seccomp are on; Landlock holds signals in, and has the payload's rules ready",
		[STAGE_init] = "init runs from a sealed file, as the subreaper of the box",
		[STAGE_exec] = "the payload is running, under Landlock's rules",
	};

	return stage < STAGE_COUNT ? promises[stage] : "?";
}

/* -------------------------------------------------------------------- the host -- */

static bool is_refused;

/* A host that is out of something for a moment, or too busy for the probe, refuses nothing: the
 * usual launch then says what is wrong, and no weaker box is made of it. */
static bool is_refusal(const struct probe_report *r)
{
	static const int passing[] = { EAGAIN, ENOMEM, EMFILE, ENFILE, EINTR };

	if (!r->failed || r->step == STEP_START || r->step == STEP_TIMEOUT || r->step == STEP_DIED)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
		if (r->os_errno == passing[i])
			return false;
	return true;
}

static void probe_namespaces(void)
{
	static const struct probe probes[] = {
		{ probe_userns, true, 0 },
		{ probe_pivot, true, CLONE_NEWNS },
		{ probe_netns, true, CLONE_NEWNET },
	};

	for (size_t i = 0; i < ARRAY_SIZE(probes) && !is_refused; i++) {
		struct probe_report r = { 0 };

		doctor_child(&probes[i], &r);
		is_refused = is_refusal(&r);
	}
}

bool walls_are_needed(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, probe_namespaces);
	return is_refused;
}

/* ------------------------------------------------------------ what cannot be had -- */

int walls_check(const struct policy *p, const struct nsbox_run *run, const struct identity *id,
		struct nsbox_error *err)
{
	const bool has_names = p->fs.protect.n || p->fs.protect_home.n;
	const struct {
		bool is_wanted;
		const char *what, *remedy;
	} rows[] = {
		{ p->net.mode != NET_DISABLED && p->net.path == PATH_VETH, "net.path=veth",
		  "leave net.path out" },
		{ p->fs.hidden.n != 0, "fs.hidden", "show less: name the parts that the box may read" },
		{ p->fs.tmpfs.n != 0, "fs.tmpfs", "use /tmp and /workspace of the box" },
		{ p->fs.write.n && has_names, "fs.write with protected names in it",
		  "copy results out (--artifacts), or empty fs.protect and fs.protect_home" },
		{ p->fs.write.n && id->uids.count, "fs.write of a box whose user is not the caller",
		  "run nsbox as the user whose folder it is" },
		{ p->devices.allow.n && !id->uids.count, "devices.allow",
		  "run nsbox as root of the container" },
		{ (run->flags & NSBOX_RUN_TTY) != 0, "a terminal of the box's own", "leave -t out" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].is_wanted) {
			err_hint(err, "%s; or allow user namespaces (nsbox doctor says how)", rows[i].remedy);
			return err_set(err, NSBOX_E_UNSUPPORTED,
				       "%s needs namespaces, which this host refuses", rows[i].what);
		}
	return 0;
}

int walls_enforced(enum nsbox_strength e[ENF_COUNT], const struct policy *p,
		   struct nsbox_error *err)
{
	static const char *const keys[] = { "limits.disk", "limits.tmp" };

	e[ENF_DISK] = NSBOX_STRENGTH_NONE;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!p->enforce.degraded && !strlist_has(&p->enforce.optional, keys[i])) {
			err_hint(err, "--allow-degraded, or --set enforce.optional=%s", keys[i]);
			return err_set(err, NSBOX_E_UNSUPPORTED,
				       "%s cannot be enforced without a mount namespace, which this host refuses",
				       keys[i]);
		}
	return 0;
}

/* Tasks of this user that /proc shows: a folder of it belongs to the process's user. */
static uint64_t tasks_of_user(void)
{
	owned_dir DIR *d = opendir("/proc");
	const struct dirent *e;
	uint64_t n = 0;

	while (d && (e = readdir(d))) {
		char path[NAME_MAX + 8];
		struct stat st;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "%s/task", e->d_name);
		if (fstatat(dirfd(d), path, &st, 0) == 0 && st.st_uid == geteuid() && st.st_nlink > 2)
			n += st.st_nlink - 2;
	}
	return n;
}

void walls_fit_nproc(struct plan_builder *b, bool is_dropped)
{
	uint64_t others = is_dropped ? 0 : tasks_of_user();
	size_t n = 0;

	for (size_t i = 0; i < b->op_count; i++) {
		struct op *op = &b->ops[i];

		if (op->kind == OP_RLIMIT && op->flags == RLIMIT_NPROC) {
			if (is_dropped)
				continue;
			op->n += others;
			op->m += others;
		}
		b->ops[n++] = *op;
	}
	b->op_count = n;
}

/* ----------------------------------------------------------------------- paths -- */

/* The folders of every box, and what they are here. */
static const struct {
	const char *in_box, *here;
} folders[] = {
	{ "/workspace", "work" },
	{ "/tmp", "tmp" },
};

char *walls_path(const struct walls *w, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		const char *rest = path_below(path, folders[i].in_box);
		owned_mem char *top = rest ? path_join(w->dir, folders[i].here) : NULL;

		if (rest)
			return top ? path_join(top, rest) : NULL;
	}
	return strdup(path);
}

/*
 * A file of the host's /etc that a box does not show is there all the same, and cannot be
 * opened: these programs take that for a broken configuration, and end.
 */
static int leave_configurations_out(struct strlist *env)
{
	static const char *const rows[] = {
		"GIT_CONFIG_NOSYSTEM=1", "PIP_CONFIG_FILE=/dev/null", "npm_config_globalconfig=/dev/null",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = strcspn(rows[i], "=") + 1;
		bool is_there = false;

		for (size_t k = 0; k < env->n && !is_there; k++)
			is_there = strncmp(env->v[k], rows[i], len) == 0;
		if (!is_there && strlist_add(env, rows[i]) < 0)
			return -1;
	}
	return 0;
}

/* Of the names that environ.c gives every box a folder for. */
int walls_environment(struct strlist *env, const struct walls *w, struct nsbox_error *err)
{
	static const char *const names[] = { "HOME=", "TMPDIR=", "XDG_CACHE_HOME=", "MPLCONFIGDIR=",
					     "PIP_CACHE_DIR=", "npm_config_cache=" };

	for (size_t i = 0; i < env->n; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			size_t len = strlen(names[k]);
			owned_mem char *value = NULL;
			struct buf b = BUF_INIT(PATH_MAX * 2);
			char *entry;

			if (strncmp(env->v[i], names[k], len) != 0)
				continue;
			value = walls_path(w, env->v[i] + len);
			buf_fmt(&b, "%s%s", names[k], value ? value : "");
			entry = value ? buf_take(&b) : NULL;
			buf_free(&b);
			if (!entry)
				return err_nomem(err);
			free(env->v[i]);
			env->v[i] = entry;
		}
	return leave_configurations_out(env) < 0 ? err_nomem(err) : 0;
}

/* ----------------------------------------------------------------- what it sees -- */

struct seen {
	struct landlock_place *v;
	size_t n;
	char **paths;		/* owned, one a place */
};

static int see(struct seen *s, const char *path, int kind, bool is_optional)
{
	struct landlock_place *more = realloc(s->v, (s->n + 1) * sizeof(*more));
	char **paths = more ? realloc(s->paths, (s->n + 1) * sizeof(*paths)) : NULL;

	s->v = more ? more : s->v;
	s->paths = paths ? paths : s->paths;
	if (!paths)
		return -1;
	paths[s->n] = strdup(path);
	if (!paths[s->n])
		return -1;
	s->v[s->n] = (struct landlock_place){ .path = paths[s->n], .is_optional = is_optional };
	s->v[s->n].kind = kind;
	s->n++;
	return 0;
}

static void seen_free(struct seen *s)
{
	while (s->n)
		free(s->paths[--s->n]);
	free(s->paths);
	free(s->v);
}

static const char *string_of(const struct plan_builder *b, uint32_t offset)
{
	return offset ? b->bytes + (offset - 1) : "";
}

/* Is the source what the host itself has at that place of the box? */
static bool is_in_place(const char *src, const char *place)
{
	char real[PATH_MAX], source[PATH_MAX];

	return strcmp(src, place) == 0 ||
	       (realpath(place, real) && realpath(src, source) && strcmp(real, source) == 0);
}

static int see_bind(struct seen *s, const struct plan_builder *view, const struct op *op,
		    struct nsbox_error *err)
{
	const char *src = string_of(view, op->src);
	char place[PATH_MAX];
	int kind = op->flags & OP_NODEV_OFF ? PLACE_DEVICE :
		   op->flags & OP_RDONLY    ? PLACE_PROGRAMS : PLACE_WRITE;

	if (snprintf(place, sizeof(place), "/%s", string_of(view, op->dst)) >= (int)sizeof(place))
		return err_set(err, NSBOX_E_USAGE, "a path is too long");
	if (!is_in_place(src, place)) {
		err_hint(err, "name it without a DEST; or allow user namespaces (nsbox doctor says how)");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "%s at %s needs a mount namespace, which this host refuses", src, place);
	}
	return see(s, src, kind, op->flags & OP_OPTIONAL) < 0 ? err_nomem(err) : 0;
}

/*
 * A text of a box's own /etc: the host's file of that name, where there is one. Not hosts: with
 * a network the supervisor knows what is in it, and gives a name's address as it does any
 * other, by which it knows the name again; a program that reads it would ask for an address.
 */
static int see_file(struct seen *s, const struct plan_builder *view, const struct op *op,
		    struct nsbox_error *err)
{
	const char *dst = string_of(view, op->dst);
	char path[PATH_MAX];

	if (strncmp(dst, "etc/", 4) != 0 || strcmp(dst, "etc/hosts") == 0)
		return 0;
	snprintf(path, sizeof(path), "/%s", dst);
	return see(s, path, PLACE_READ, true) < 0 ? err_nomem(err) : 0;
}

/*
 * Figures of the machine, which any box shows. The rest of /proc stays closed: a rule on a
 * folder of it would open all processes of the host. (A rule holds for the file as it is
 * cached now; where the kernel drops it from its cache in between, it is refused.)
 */
static int see_machine(struct seen *s, struct nsbox_error *err)
{
	static const char *const files[] = {
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg",
		"/proc/version", "/proc/filesystems",
		/* Which distribution it is; readers do without, but not with EACCES. */
		"/etc/debian_version", "/etc/lsb-release", "/etc/redhat-release", "/etc/alpine-release",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (see(s, files[i], PLACE_READ, true) < 0)
			return err_nomem(err);
	return 0;
}

/* nsbox's own programs cannot be changed from within. */
static int see_own(struct seen *s, const struct walls *w, struct nsbox_error *err)
{
	static const struct {
		const char *name;
		int kind;
	} own[] = { { "work", PLACE_WRITE }, { "tmp", PLACE_WRITE }, { "boot", PLACE_READ } };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		owned_mem char *path = path_join(w->dir, own[i].name);

		if (!path || see(s, path, own[i].kind, false) < 0)
			return err_nomem(err);
	}
	return 0;
}

int walls_landlock(struct plan_builder *b, const struct plan_builder *view,
		   const struct walls *w, const struct landlock_request *r,
		   struct nsbox_error *err)
{
	struct seen s = { 0 };
	int code = 0;

	for (size_t i = 0; i < view->op_count && code == 0; i++) {
		const struct op *op = &view->ops[i];

		if (op->kind == OP_BIND)
			code = see_bind(&s, view, op, err);
		else if (op->kind == OP_FILE)
			code = see_file(&s, view, op, err);
	}
	if (code == 0)
		code = see_machine(&s, err);
	if (code == 0)
		code = see_own(&s, w, err);
	if (code == 0)
		code = landlock_compile_walls(b, s.v, s.n, r, err);
	seen_free(&s);
	return code;
}
