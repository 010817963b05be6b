/*
 * explain.c - what a run would do, from the same plan that a run uses
 */
#include "runtime/box.h"

#include "base/json.h"
#include "runtime/egress.h"
#include "runtime/hints.h"
#include "runtime/stage.h"
#include "runtime/unsafe.h"

#include <stdlib.h>
#include <string.h>

enum { EXPLAIN_MAX = 4 << 20 };

static const char *strength_name(enum nsbox_strength s)
{
	return s == NSBOX_STRENGTH_KERNEL ? "kernel"
	     : s == NSBOX_STRENGTH_USERSPACE ? "userspace" : "none";
}

static void print_command(struct buf *out, const struct assembly *a)
{
	buf_str(out, "argv");
	for (size_t i = 1; i < a->argv.n; i++)
		buf_fmt(out, " %s", a->argv.v[i]);
	buf_char(out, '\n');
	for (size_t i = 0; i < a->env.n; i++) {
		/* Names only: values may be secrets (D22). */
		buf_fmt(out, "env %.*s\n", (int)strcspn(a->env.v[i], "="), a->env.v[i]);
	}
}

static void print_cgroup(struct buf *out, const struct assembly *a)
{
	for (int i = 0; i < a->cgroup_row_count; i++)
		buf_fmt(out, "%-9s %s = %s\n", stage_name(STAGE_cgroup), a->cgroup_rows[i].file,
			a->cgroup_rows[i].value);
}

static void print_plan(struct buf *out, const struct assembly *a)
{
	const struct op *ops = plan_ops(a->plan);

	print_cgroup(out, a);
	for (uint32_t i = 0; i < a->plan->op_count; i++) {
		buf_fmt(out, "%-9s ", stage_name(ops[i].stage));
		hints_op(out, a->plan, &ops[i]);
	}
	print_command(out, a);
}

static unsigned ops_of_stage(const struct plan *plan, unsigned stage)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < plan->op_count; i++)
		n += plan_ops(plan)[i].stage == stage;
	return n;
}

static const char *side_name(unsigned stage)
{
	static const char *const names[] = { [SIDE_PARENT] = "launcher", [SIDE_CHILD] = "child",
					     [SIDE_INIT] = "init" };

	return names[stage_side(stage)];
}

static const char *promise_of(const struct assembly *a, unsigned stage)
{
	return a->is_plain ? unsafe_promise(stage) : a->walls.dir ? walls_promise(stage) :
							     stage_promise(stage);
}

static void print_stages(struct buf *out, const struct assembly *a)
{
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		unsigned n = ops_of_stage(a->plan, s);

		buf_fmt(out, "%-9s %-9s %s", stage_name(s), side_name(s), promise_of(a, s));
		if (n)
			buf_fmt(out, " (%u operations)", n);
		buf_char(out, '\n');
	}
	buf_char(out, '\n');
	for (int l = 0; l < ENF_COUNT; l++)
		buf_fmt(out, "%-11s %s\n", enforced_name((enum enforced_layer)l),
			strength_name(a->enforced[l]));
}

static void json_stages(struct json *j, const struct assembly *a)
{
	json_key(j, "stages");
	json_array(j);
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		json_object(j);
		json_kstr(j, "name", stage_name(s));
		json_kstr(j, "side", side_name(s));
		json_kstr(j, "promise", promise_of(a, s));
		json_kuint(j, "operations", ops_of_stage(a->plan, s));
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void json_ops(struct json *j, const struct assembly *a)
{
	const struct op *ops = plan_ops(a->plan);
	struct buf line = BUF_INIT(16384);

	json_key(j, "operations");
	json_array(j);
	for (uint32_t i = 0; i < a->plan->op_count; i++) {
		buf_clear(&line);
		hints_op(&line, a->plan, &ops[i]);
		json_object(j);
		json_kstr(j, "stage", stage_name(ops[i].stage));
		json_kstr(j, "kind", op_name(ops[i].kind));
		json_key(j, "what");
		json_strn(j, buf_text(&line), line.len ? line.len - 1 : 0);
		json_end(j, '}');
	}
	json_end(j, ']');
	buf_free(&line);
}

static void print_json(struct buf *out, const struct assembly *a)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	json_kstr(&j, "schema", "nsbox.explain/1");
	json_stages(&j, a);
	json_ops(&j, a);
	json_key(&j, "argv");
	json_array(&j);
	for (size_t i = 1; i < a->argv.n; i++)
		json_str(&j, a->argv.v[i]);
	json_end(&j, ']');
	json_key(&j, "enforced");
	json_object(&j);
	for (int l = 0; l < ENF_COUNT; l++)
		json_kstr(&j, enforced_name((enum enforced_layer)l), strength_name(a->enforced[l]));
	json_end(&j, '}');
	json_end(&j, '}');
	buf_char(out, '\n');
}

static const struct form {
	const char *name;
	void (*print)(struct buf *out, const struct assembly *a);
} forms[] = {
	{ "plan", print_plan },
	{ "explain", print_stages },
	{ "json", print_json },
};

static const struct form *find_form(const char *name)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (name && strcmp(forms[i].name, name) == 0)
			return &forms[i];
	return NULL;
}

int nsbox_box_explain(struct nsbox_box *box, const struct nsbox_run *in, const char *form,
		      char **out, struct nsbox_error *err)
{
	struct assemble_how how = { .look_only = true };
	const struct form *f = find_form(form);
	struct buf text = BUF_INIT(EXPLAIN_MAX);
	struct assembly a = { .walls = WALLS_INIT };
	struct examine examine = { 0 };
	struct nsbox_run run;
	char *result;
	int r;

	err_clear(err);
	if (!box || !in || !out || !f)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_explain: bad argument");
	how.proc = box->proc;
	how.no_listener = box->no_listener;
	how.pool = box->policy.net.publish.n ? EGRESS_POOL_SIZE : 0;
	how.interps = &box->interps;
	r = run_read(&run, in, err);
	if (r >= 0)
		r = examine_decide(&examine, box->tier, &box->policy, &run, err);
	how.is_plain = box->tier == NSBOX_TIER_LOCAL_UNSAFE;
	how.is_walled = box->is_walled;
	how.check = examine.has_check ? &examine.check : NULL;
	if (r >= 0 && box->tier == NSBOX_TIER_STATIC)
		examine_request(&run);
	if (r >= 0)
		r = assemble(&a, &box->host, &box->policy, &run, &how, err);
	if (r < 0)
		return r;
	f->print(&text, &a);
	assembly_free(&a);
	result = buf_take(&text);
	buf_free(&text);
	if (!result)
		return err_nomem(err);
	*out = result;
	return 0;
}
