/*
 * assemble.c - decide before, act after: policy + host + request -> plan
 *
 * Must:    refuse what this host cannot enforce, and say exactly what will be in force
 *          (enforce.c).
 * Mustn't: start a process (interpreter discovery may, when its cache is cold).
 */
#include "runtime/assemble.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "policy/landlock.h"
#include "policy/limits.h"
#include "rootfs/paths.h"
#include "runtime/assemble_parts.h"
#include "runtime/box.h"
#include "runtime/enforce.h"
#include "runtime/environ.h"
#include "runtime/lang.h"
#include "runtime/stage.h"
#include "runtime/trees.h"
#include "runtime/unsafe.h"
#include "runtime/wire.h"

#include <errno.h>
#include <limits.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* --------------------------------------------------------------------- host -- */

static int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static unsigned online_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

static uint64_t all_memory(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 ? 0 : (uint64_t)info.totalram * info.mem_unit;
}

void host_find(struct host *h, const struct policy *p, struct nsbox_error *err, int *code)
{
	memset(h, 0, sizeof(*h));
	h->place.fd = -1;
	*code = identity_find(&h->id, err);
	if (*code < 0)
		return;
	cgroup_find(&h->place, (enum cgroup_reach)p->enforce.cgroup);
	h->landlock_abi = landlock_abi();
	h->memory = all_memory();
	h->cpus = online_cpus();
}

/* ------------------------------------------------------------------ the command -- */

static int strings_add(struct strlist *to, const char *const *from)
{
	for (; from && *from; from++)
		if (strlist_add(to, *from) < 0)
			return -1;
	return 0;
}

static int command_argv(struct assembly *a, const struct nsbox_run *run, struct nsbox_error *err)
{
	if (!run->argv || !run->argv[0])
		return err_set(err, NSBOX_E_USAGE, "no command and no code to run");
	if (!run->argv[0][0])
		return err_set(err, NSBOX_E_USAGE, "the command's name is empty");
	if (strlist_add(&a->argv, "nsbox-init") < 0 || strings_add(&a->argv, run->argv) < 0)
		return err_nomem(err);
	return 0;
}

static int absolute(char out[PATH_MAX], const char *path, mode_t type, struct nsbox_error *err)
{
	const char *what = type == S_IFREG ? "the script" : "the project folder";
	struct stat st;

	if (!path)
		return 0;
	if (!realpath(path, out) || stat(out, &st) < 0) {
		err_hint(err, "check the path; it is looked up on the host");
		return err_errno(err, NSBOX_E_USAGE, errno, "find %s %s", what, path);
	}
	if ((st.st_mode & S_IFMT) != type)
		return err_set(err, NSBOX_E_USAGE, "%s %s is not a %s", what, path,
			       type == S_IFREG ? "regular file" : "folder");
	return 0;
}

/* Where the run finds its packages: as a box shows them, or where they are. */
static const char *packages_folder(const struct parts *w)
{
	if (!w->how->packages || !w->how->packages->folder)
		return NULL;
	return w->how->is_plain || w->how->is_walled ? w->how->packages->folder : BOX_PACKAGES;
}

/* Packages of npm. In a box they are at /node_modules: the last folder in which node looks
 * for a package, from wherever it asks, for require() as well as for import. */
static bool has_modules(const struct parts *w)
{
	return packages_folder(w) && strcmp(w->how->packages->language, "javascript") == 0;
}

static int code_argv(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	const struct nsbox_run *run = w->run;
	const struct source *src = &w->src;
	const struct lang_request req = {
		.interp = w->how->interps->list[0],
		.check = w->how->check,
		.packages = packages_folder(w),
		.packages_pth = w->how->packages ? &w->how->packages->pth : NULL,
		.code = run->code,
		.code_len = run->code && !run->code_len ? strlen(run->code) : run->code_len,
		.file = src->file[0] ? src->file : NULL,
		.project = src->project[0] ? src->project : NULL,
		.is_kernel = (run->flags & RUN_KERNEL) != 0,
		.args = run->argv,
	};
	int r = lang_command(&w->cmd, &req, err);

	if (r >= 0 && w->how->is_plain && !w->how->look_only)
		r = unsafe_files(&a->scratch, &w->cmd, err);
	if (r >= 0 && w->how->is_walled)
		r = walls_put(&a->walls, &w->cmd, w->how->look_only, err);
	if (r < 0)
		return r;
	if (strlist_add(&a->argv, "nsbox-init") < 0 || strlist_copy(&a->argv, &w->cmd.argv) < 0)
		return err_nomem(err);
	return 0;
}

/* ---------------------------------------------------------------------- stages -- */

/*
 * System V segments that nobody has attached are in no process's figures. The kernel
 * lists those of the namespace that its reader was in when it opened the file, so the
 * child opens it, and before its /proc is another one. No such file: no segments.
 */
static void plan_segments(struct plan_builder *b, const struct assembly *a)
{
	if (a->enforced[ENF_MEMORY] == NSBOX_STRENGTH_USERSPACE)
		PLAN_OP(b, .kind = OP_SEND_FILE, .stage = STAGE_ids, .flags = OP_OPTIONAL,
			.src = "/proc/sysvipc/shm", .n = WIRE_TAG_SEGMENTS);
}

static void plan_identity(struct plan_builder *b)
{
	PLAN_OP(b, .kind = OP_IDS, .stage = STAGE_ids, .n = BOX_UID, .m = BOX_GID);
	PLAN_OP(b, .kind = OP_SESSION, .stage = STAGE_ids);
	PLAN_OP(b, .kind = OP_KEYRING, .stage = STAGE_ids, .flags = OP_OPTIONAL);
	PLAN_OP(b, .kind = OP_HOSTNAME, .stage = STAGE_ids, .src = "nsbox");
}

/* What the box sees, as operations of stage mounts. */
int parts_view(struct plan_builder *b, struct assembly *a, struct parts *w,
		      struct nsbox_error *err)
{
	const struct identity *id = &w->host->id;
	struct view_extra extras[4];
	owned_mem char *modules = has_modules(w) ? path_join(w->how->packages->folder, "node_modules")
						 : NULL;
	struct view_file files[12];
	char cwd[PATH_MAX];
	struct view_request req = {
		.policy = w->policy, .interps = w->how->interps->list,
		.interps_optional = !w->run->language, .extras = extras, .files = files,
		.caller_cwd = getcwd(cwd, sizeof(cwd)) ? cwd : "/", .cwd = w->run->cwd,
		.privileged = id->may_tree && !w->how->is_walled, .owner_uid = id->caller_uid,
		.owner_gid = id->caller_gid, .proc = w->how->proc, .stage = STAGE_mounts,
		.look_only = w->how->look_only,
	};

	if (w->src.file[0])
		extras[req.extra_count++] = (struct view_extra){ w->src.file, w->src.file, false };
	if (w->src.project[0])
		extras[req.extra_count++] =
			(struct view_extra){ w->src.project, w->src.project, false };
	if (packages_folder(w))
		extras[req.extra_count++] =
			(struct view_extra){ w->how->packages->folder, packages_folder(w), true };
	if (has_modules(w) && !modules)
		return err_nomem(err);
	if (modules && !w->how->is_walled)
		extras[req.extra_count++] = (struct view_extra){ modules, "/node_modules", true };
	if (w->cmd.file_count > ARRAY_SIZE(files))
		return err_set(err, NSBOX_E_SETUP, "a language has too many files");
	for (size_t i = 0; i < w->cmd.file_count && !w->how->is_walled; i++)
		files[req.file_count++] = (struct view_file){ w->cmd.files[i].path,
							      w->cmd.files[i].data,
							      w->cmd.files[i].len };
	return view_build(b, &req, &a->view, err);
}

static void plan_after_pivot(struct plan_builder *b, const struct nsbox_run *run)
{
	trees_plan(b, STAGE_mounts);
	if (run->artifacts_dir)
		PLAN_OP(b, .kind = OP_SEND_DIR, .stage = STAGE_mounts, .src = "/workspace",
			.n = WIRE_TAG_WORK);
	if (run->flags & NSBOX_RUN_TTY)
		PLAN_OP(b, .kind = OP_PTY, .stage = STAGE_mounts,
			.n = run->tty_rows ? run->tty_rows : 24,
			.m = run->tty_cols ? run->tty_cols : 80);
}

/* A hard limit of the caller stays: raising it needs CAP_SYS_RESOURCE. */
static void clip_rlimits(struct plan_builder *b)
{
	for (size_t i = 0; i < b->op_count; i++) {
		struct op *op = &b->ops[i];
		struct rlimit now;

		if (op->kind != OP_RLIMIT || getrlimit((int)op->flags, &now) < 0 ||
		    now.rlim_max == RLIM_INFINITY)
			continue;
		op->m = op->m < now.rlim_max ? op->m : now.rlim_max;
		op->n = op->n < op->m ? op->n : op->m;
	}
}

int parts_limits(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	const struct cgroup_place *place = &w->host->place;
	const struct limits_have have = { .cgroup_memory = place->memory,
					  .cgroup_pids = place->pids,
					  .cgroup_cpu = place->cpu,
					  .io_weight_file = enforce_io_file(place),
					  .host_memory = w->host->memory };
	int r;

	PLAN_OP(&w->builder, .kind = OP_UMASK, .stage = STAGE_limits, .n = 022);
	/* Before RLIMIT_NOFILE: a caller may hold more descriptors than the box may have. */
	PLAN_OP(&w->builder, .kind = OP_FDS, .stage = STAGE_limits);
	r = limits_compile_rlimits(&w->builder, w->policy, &have, STAGE_limits, err);
	if (r < 0)
		return r;
	clip_rlimits(&w->builder);
	a->cgroup_row_count = 0;
	if (place->fd < 0 ||
	    !(place->memory || place->pids || place->cpu || have.io_weight_file))
		return 0;
	r = limits_compile_cgroup(a->cgroup_rows, CGROUP_ROWS_MAX, w->policy, &have, err);
	a->cgroup_row_count = r < 0 ? 0 : r;
	return r < 0 ? r : 0;
}

/* The files that may be executed where no other program may be started. */
int parts_exec_only(struct strlist *out, const struct interps *in)
{
	static const char *const loaders[] = {
		"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
		"/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1",
	};

	if (strlist_add(out, in->list[0]->real) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(loaders); i++)
		if (access(loaders[i], X_OK) == 0 && strlist_add(out, loaders[i]) < 0)
			return -1;
	return 0;
}

static int plan_landlock(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	struct strlist only = { 0 };
	struct landlock_request req = { .abi = w->host->landlock_abi,
					.writable = &a->view.writable, .stage = STAGE_lockdown };
	int r;

	if (!w->host->landlock_abi)
		return 0;
	/* With a bare command the program is found only in the box; that no new process
	 * can be made is then the whole promise (seccomp). */
	if (!w->policy->process.subprocesses && w->run->language) {
		if (parts_exec_only(&only, w->how->interps) < 0) {
			strlist_free(&only);
			return err_nomem(err);
		}
		req.exec_only = &only;
	}
	r = landlock_compile(&w->builder, &req, err);
	strlist_free(&only);
	return r;
}

/* A copy of a ready-made filter where there is one for the policy, else a new one. */
static int make_filter(struct bpf *out, const struct policy *p, struct nsbox_error *err)
{
	bool is_plain = !p->syscalls.allow.n && !p->syscalls.deny.n;
	size_t count = 0;
	const struct sock_filter *ready =
		is_plain ? seccomp_builtin(p->syscalls.level, &count) : NULL;

	if (!ready)
		return seccomp_compile(out, p->syscalls.level, &p->syscalls.allow,
				       &p->syscalls.deny, err);
	out->insn = malloc(count * sizeof(*ready));
	if (!out->insn)
		return err_nomem(err);
	memcpy(out->insn, ready, count * sizeof(*ready));
	out->count = count;
	return 0;
}

/*
 * With a listener a foreign call is held and told to the launcher, which knows its name
 * and kills the box; a launcher that is gone answers ENOSYS by its end. It is never
 * carried out. The payload's own filter must then leave such calls to the first one:
 * the kernel takes the strictest answer, and a kill of one process has no name.
 */
int parts_seccomp(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	const struct policy *p = w->policy;
	bool has_listener = !w->how->no_listener;
	/* audit: what the filter denies is written to the kernel's log as well. */
	uint64_t flags = p->syscalls.level == LEVEL_AUDIT ? SECCOMP_FILTER_FLAG_LOG : 0;
	struct bpf own = { 0 };
	int r = make_filter(&own, p, err);

	if (r < 0)
		return r;
	if (has_listener) {
		flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER;
		bpf_replace_return(own.insn, own.count, SECCOMP_RET_KILL_PROCESS,
				   SECCOMP_RET_USER_NOTIF);
	}
	PLAN_OP(&w->builder, .kind = OP_SECCOMP, .stage = STAGE_lockdown, .blob = own.insn,
		.blob_len = own.count * sizeof(*own.insn), .flags = flags,
		.n = has_listener ? WIRE_TAG_LISTENER : 0);
	bpf_free(&own);
	if (p->process.subprocesses && p->syscalls.level != LEVEL_STRICT)
		return 0;
	r = seccomp_compile_no_fork(&a->payload_filter, err);
	if (r >= 0 && has_listener)
		bpf_replace_return(a->payload_filter.insn, a->payload_filter.count,
				   SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
	return r;
}

static int plan_lockdown(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	int r;

	PLAN_OP(&w->builder, .kind = OP_DROPCAPS, .stage = STAGE_caps);
	PLAN_OP(&w->builder, .kind = OP_NNP, .stage = STAGE_lockdown);
	r = plan_landlock(a, w, err);
	return r < 0 ? r : parts_seccomp(a, w, err);
}

/* -------------------------------------------------------------------- assembling -- */


static int build_plan(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	int r = assemble_network(&w->builder, w->policy, w->how, err);

	if (r < 0)
		return r;
	plan_identity(&w->builder);
	plan_segments(&w->builder, a);
	r = parts_view(&w->builder, a, w, err);
	if (r < 0)
		return r;
	plan_after_pivot(&w->builder, w->run);
	r = parts_limits(a, w, err);
	if (r >= 0)
		r = plan_lockdown(a, w, err);
	if (r < 0)
		return r;
	plan_mark_plain(&w->builder);
	a->plan = plan_freeze(&w->builder, err);
	return a->plan ? 0 : err ? err->code : NSBOX_E_NOMEM;
}

/* NAME=VALUE replaces what NAME was. */
static int env_put(struct strlist *env, const char *assignment)
{
	size_t len = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], assignment, len) == 0) {
			strlist_remove(env, i);
			break;
		}
	return strlist_add(env, assignment);
}

/*
 * Programs of the packages, and Python below the payload (a pool's workers, `python -m`),
 * find them by variables. The payload's own Python is told by its boot program, since it
 * reads none.
 */
static int env_put_first(struct strlist *env, const char *name, const char *folder)
{
	size_t len = strlen(name);
	struct buf b = BUF_INIT(256 * 1024);
	int r;

	buf_fmt(&b, "%s=%s", name, folder);
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=' && env->v[i][len + 1])
			buf_fmt(&b, ":%s", env->v[i] + len + 1);
	r = b.failed ? -1 : env_put(env, buf_text(&b));
	buf_free(&b);
	return r;
}

static int show_packages(struct assembly *a, const struct parts *w)
{
	const char *folder = packages_folder(w);
	char bin[PATH_MAX];

	if (!folder)
		return 0;
	snprintf(bin, sizeof(bin), "%s/%s", folder, w->how->packages->bin ? w->how->packages->bin : "");
	if (w->how->packages->bin && env_put_first(&a->env, "PATH", bin) < 0)
		return -1;
	return has_modules(w) ? 0 : env_put_first(&a->env, "PYTHONPATH", folder);
}

int parts_environment(struct assembly *a, const struct parts *w, struct nsbox_error *err)
{
	const char *const *caller = (const char *const *)environ;
	int r = environ_build(&a->env, w->policy, caller, a->view.path, err);

	if (r >= 0 && w->how->is_plain)
		r = unsafe_environment(&a->env, caller, err);
	if (r >= 0 && w->how->is_walled)
		r = walls_environment(&a->env, &a->walls, err);
	if (r < 0)
		return r;
	if (show_packages(a, w) < 0)
		return err_nomem(err);
	for (size_t i = 0; i < w->cmd.env.n; i++)
		if (env_put(&a->env, w->cmd.env.v[i]) < 0)
			return err_nomem(err);
	for (const char *const *e = w->run->env; e && *e; e++)
		if (env_put(&a->env, *e) < 0)
			return err_nomem(err);
	return 0;
}

int parts_command(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	const struct nsbox_run *run = w->run;
	int r = interps_get(w->how->interps, run, err);

	if (r >= 0)
		r = absolute(w->src.file, run->file, S_IFREG, err);
	if (r >= 0)
		r = absolute(w->src.project, run->project, S_IFDIR, err);
	if (r < 0)
		return r;
	return run->language ? code_argv(a, w, err) : command_argv(a, run, err);
}

/* The tier local_unsafe: a command, where to run it, and nothing around it. */
static int assemble_plain(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	const struct nsbox_run *run = w->run;
	owned_mem char *here = NULL;
	int r;

	unsafe_enforced(a->enforced, w->policy, run);
	r = parts_command(a, w, err);
	if (r < 0)
		return r;
	here = run->cwd ? strdup(run->cwd) : run->artifacts_dir ? realpath(run->artifacts_dir, NULL)
								: getcwd(NULL, 0);
	if (!here)
		return err_sys(err, "find the working folder");
	unsafe_plan(&w->builder, here);
	a->view.workdir = take_ptr(here);
	a->plan = plan_freeze(&w->builder, err);
	if (!a->plan)
		return err ? err->code : NSBOX_E_NOMEM;
	enforce_limits(&a->limits, a, w->policy, run);
	a->view.path = strdup("/usr/bin:/bin");
	r = a->view.path ? parts_environment(a, w, err) : err_nomem(err);
	return r;
}

static int assemble_with(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	const struct nsbox_run *run = w->run;
	int r = enforce_decide(a->enforced, w->host, w->policy, run, err);

	if (r >= 0)
		r = parts_command(a, w, err);
	if (r >= 0)
		r = build_plan(a, w, err);
	if (r >= 0)
		enforce_limits(&a->limits, a, w->policy, run);
	if (r >= 0)
		r = parts_environment(a, w, err);
	return r;
}

int assemble(struct assembly *out, const struct host *host, const struct policy *policy,
	     const struct nsbox_run *run, const struct assemble_how *how,
	     struct nsbox_error *err)
{
	struct assembly a = { .tty = (run->flags & NSBOX_RUN_TTY) != 0, .walls = WALLS_INIT,
			      .is_plain = how->is_plain };
	struct parts w = { .host = host, .policy = policy, .run = run, .how = how };
	int r = how->is_plain  ? assemble_plain(&a, &w, err) :
		how->is_walled ? assemble_walled(&a, &w, err) : assemble_with(&a, &w, err);

	lang_command_free(&w.cmd);
	plan_builder_free(&w.builder);
	if (r < 0) {
		err_stage(err, stage_name(STAGE_prepare));
		assembly_free(&a);
		return r;
	}
	*out = a;
	return 0;
}

void assembly_free(struct assembly *a)
{
	free(a->plan);
	a->plan = NULL;
	view_free(&a->view);
	strlist_free(&a->argv);
	strlist_free(&a->env);
	bpf_free(&a->payload_filter);
	unsafe_remove(take_ptr(a->scratch));
	if (a->walls.dir)
		walls_close(&a->walls);
}
