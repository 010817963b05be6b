/* assemble_walls.c - a launch without namespaces: see walls.h. Runs in the launcher. */
#include "runtime/assemble_parts.h"

#include "policy/landlock.h"
#include "runtime/enforce.h"
#include "runtime/stage.h"
#include "runtime/wire.h"

#include <stdlib.h>

static int exec_places(struct strlist *only, const struct parts *w, struct nsbox_error *err)
{
	if (w->policy->process.subprocesses || !w->run->language)
		return 0;
	return parts_exec_only(only, w->how->interps) < 0 ? err_nomem(err) : 1;
}

static int wall_landlock(struct assembly *a, struct parts *w, const struct plan_builder *view,
			 struct nsbox_error *err)
{
	struct strlist only = { 0 };
	struct landlock_request req = { .abi = w->host->landlock_abi, .stage = STAGE_lockdown };
	int r = exec_places(&only, w, err);

	if (r == 1)
		req.exec_only = &only;
	if (r >= 0)
		r = walls_landlock(&w->builder, view, &a->walls, &req, err);
	strlist_free(&only);
	return r;
}

/* Init, which answers for what is held, may not be under that filter. */
static int wall_seccomp(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	bool has_sockets = w->policy->net.mode != NET_DISABLED;
	struct bpf own = { 0 };
	int r = seccomp_compile_walls(&own, has_sockets, err);

	if (r < 0)
		return r;
	PLAN_OP(&w->builder, .kind = OP_SECCOMP, .stage = STAGE_lockdown, .blob = own.insn,
		.blob_len = own.count * sizeof(*own.insn));
	bpf_free(&own);
	a->held = (has_sockets ? SECCOMP_HOLDS_CALLS : 0) |
		  (w->host->id.uids.count ? 0 : SECCOMP_HOLDS_MODES);
	return a->held ? seccomp_compile_held(&a->payload_filter, w->policy, a->held, err)
		       : parts_seccomp(a, w, err);
}

static int wall_stages(struct assembly *a, struct parts *w, const struct plan_builder *view,
		       struct nsbox_error *err)
{
	struct plan_builder *b = &w->builder;
	int r;

	if (w->policy->net.mode != NET_DISABLED)
		PLAN_OP(b, .kind = OP_CALLS, .stage = STAGE_network, .m = WIRE_TAG_CALLS);
	if (w->host->id.uids.count)
		PLAN_OP(b, .kind = OP_OWN_IDS, .stage = STAGE_ids);
	PLAN_OP(b, .kind = OP_SESSION, .stage = STAGE_ids);
	PLAN_OP(b, .kind = OP_KEYRING, .stage = STAGE_ids, .flags = OP_OPTIONAL);
	PLAN_OP(b, .kind = OP_CHDIR, .stage = STAGE_mounts, .src = a->view.workdir);
	r = parts_limits(a, w, err);
	if (r < 0)
		return r;
	if (!w->host->id.uids.count)
		walls_fit_nproc(b, w->how->no_nproc);
	PLAN_OP(b, .kind = OP_DROPCAPS, .stage = STAGE_caps, .flags = OP_OPTIONAL);
	PLAN_OP(b, .kind = OP_NNP, .stage = STAGE_lockdown);
	r = wall_landlock(a, w, view, err);
	return r < 0 ? r : wall_seccomp(a, w, err);
}

static int wall_plan(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	struct plan_builder view = { 0 };
	int r = parts_view(&view, a, w, err);
	char *here = r < 0 ? NULL : walls_path(&a->walls, a->view.workdir);

	if (r >= 0 && !here)
		r = err_nomem(err);
	if (r >= 0) {
		free(a->view.workdir);
		a->view.workdir = here;
		r = view.failed ? err_nomem(err) : wall_stages(a, w, &view, err);
	}
	plan_builder_free(&view);
	if (r < 0)
		return r;
	a->plan = plan_freeze(&w->builder, err);
	return a->plan ? 0 : err ? err->code : NSBOX_E_NOMEM;
}

int assemble_walled(struct assembly *a, struct parts *w, struct nsbox_error *err)
{
	int r = walls_check(w->policy, w->run, &w->host->id, err);

	if (r >= 0)
		r = enforce_decide(a->enforced, w->host, w->policy, w->run, err);
	if (r >= 0)
		r = walls_enforced(a->enforced, w->policy, err);
	if (r >= 0)
		r = walls_open(&a->walls, w->how->look_only, err);
	if (r >= 0)
		r = parts_command(a, w, err);
	if (r >= 0)
		r = wall_plan(a, w, err);
	if (r >= 0)
		enforce_limits(&a->limits, a, w->policy, w->run);
	return r < 0 ? r : parts_environment(a, w, err);
}
