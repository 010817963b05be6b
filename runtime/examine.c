/* See examine.h. Runs in the launcher. */
#include "runtime/examine.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "runtime/box.h"
#include "runtime/report.h"

#include <stdlib.h>
#include <string.h>

static bool is_language(const char *language, const char *name)
{
	const char *canonical = language ? lang_canonical(language) : NULL;

	return canonical && strcmp(canonical, name) == 0;
}

static int refuse_language(struct nsbox_error *err)
{
	err_hint(err, "leave imports.allow out, or give a Python source with 'nsbox code'");
	return err_set(err, NSBOX_E_UNSUPPORTED,
		       "imports.allow can only be enforced for a Python source");
}

/* Drivers keep their descriptors out of the cells' way (kernel.py, kernel.sh). */
static int check_files(const struct policy *p, const char *language, struct nsbox_error *err)
{
	static const struct {
		const char *language;
		unsigned files;
	} least[] = { { "python", 104 }, { "bash", 120 } };

	for (size_t i = 0; i < ARRAY_SIZE(least); i++)
		if (is_language(language, least[i].language) && p->limits.files < least[i].files) {
			err_hint(err, "set limits.files to %u or more", least[i].files);
			return err_set(err, NSBOX_E_POLICY,
				       "limits.files is %llu: a kernel of %s has descriptors of its own up to %u",
				       (unsigned long long)p->limits.files, language,
				       least[i].files - 1);
		}
	return 0;
}

int examine_kernel(struct examine *out, enum nsbox_tier tier, const struct policy *p,
		   const struct nsbox_run *run, struct nsbox_error *err)
{
	bool has_rules = p->imports.allow.is_set;

	if (tier == NSBOX_TIER_STATIC)
		return err_set(err, NSBOX_E_USAGE, "the tier static runs nothing, so it has no kernels");
	*out = (struct examine){
		.has_check = has_rules,
		.check = { .allow = has_rules ? &p->imports.allow.list : NULL,
			   .strict = p->imports.mode == IMPORT_STRICT },
	};
	if (has_rules && !is_language(run->language, "python"))
		return refuse_language(err);
	return tier == NSBOX_TIER_LOCAL_UNSAFE ? 0 : check_files(p, run->language, err);
}

int examine_decide(struct examine *out, enum nsbox_tier tier, const struct policy *p,
		   const struct nsbox_run *run, struct nsbox_error *err)
{
	bool is_static = tier == NSBOX_TIER_STATIC, has_rules = p->imports.allow.is_set;

	*out = (struct examine){
		.is_wanted = is_static || has_rules,
		.has_check = is_static || has_rules,
		.check = { .only = is_static, .allow = has_rules ? &p->imports.allow.list : NULL,
			   .strict = p->imports.mode == IMPORT_STRICT,
			   .with_ast = (run->flags & NSBOX_RUN_AST) != 0 },
	};
	if (is_static && !run->language) {
		err_hint(err, "give code or file with a language");
		return err_set(err, NSBOX_E_USAGE, "the tier static checks sources, not commands");
	}
	if (!out->has_check)
		return 0;
	if (has_rules && !is_language(run->language, "python"))
		return refuse_language(err);
	if (out->is_wanted && (run->flags & NSBOX_RUN_CHANNEL))
		return err_set(err, NSBOX_E_USAGE,
			       "a run whose source is checked has no channel of its own");
	return 0;
}

int examine_policy(struct policy *out, const struct policy *p, struct nsbox_error *err)
{
	int r = policy_from_profile(out, "strict", err);

	if (r < 0)
		return r;
	/* V8 reserves more than the profile's memory, and starts a thread a core. */
	out->limits.memory = (uint64_t)512 << 20;
	out->limits.pids = 128;
	out->imports.mode = p->imports.mode;
	out->imports.allow.is_set = p->imports.allow.is_set;
	out->enforce.floor = p->enforce.floor;
	out->enforce.degraded = p->enforce.degraded;
	out->enforce.cgroup = p->enforce.cgroup;
	out->observe.listed = p->observe.listed;
	if (strlist_copy(&out->imports.allow.list, &p->imports.allow.list) < 0 ||
	    strlist_copy(&out->enforce.optional, &p->enforce.optional) < 0) {
		policy_free(out);
		return err_nomem(err);
	}
	return 0;
}

void examine_request(struct nsbox_run *run)
{
	run->flags &= (uint32_t)NSBOX_RUN_AST;
	run->in = NSBOX_IO_NULL;
	run->out = run->err = NSBOX_IO_CAPTURE;
	run->argv = run->env = NULL;
	run->artifacts_dir = run->cwd = NULL;
	run->timeout_ms = 0;
}

int examine_first(struct nsbox_result **out, const struct policy *p, const struct nsbox_run *run,
		  struct nsbox_error *err)
{
	const struct nsbox_policy policy = { .p = *p }; /* only to be copied from */
	struct nsbox_run only = *run;
	struct nsbox_result *r = NULL;
	struct nsbox_box *box = NULL;
	int code;

	only.flags &= (uint32_t)NSBOX_RUN_AST;
	only.in = only.out = only.err = 0;
	only.artifacts_dir = NULL;
	code = nsbox_box_open(&box, NSBOX_TIER_STATIC, &policy, err);
	if (code >= 0)
		code = nsbox_box_run(box, &only, &r, err);
	nsbox_box_close(box);
	if (code < 0)
		return code;
	if (nsbox_result_status(r) == 0) {
		nsbox_result_free(r);
		r = NULL;
	}
	*out = r;
	return 0;
}

/* With the last line of what it said. */
static void say_exit(struct buf *why, const struct nsbox_result *r)
{
	size_t end = r->err.len, from;

	while (end && r->err.data[end - 1] == '\n')
		end--;
	for (from = end; from && r->err.data[from - 1] != '\n'; from--)
		;
	buf_fmt(why, "the interpreter ended with status %d", r->exit_code);
	if (end > from)
		buf_fmt(why, " (%.*s)", (int)(end - from > 500 ? 500 : end - from),
			r->err.data + from);
}

/* How the interpreter ended that did not come to its report. */
static int broken(struct report *rep, const struct nsbox_result *r, const char *language,
		  struct nsbox_error *err)
{
	struct buf why = BUF_INIT(1024);
	int code;

	if (r->reason)
		buf_str(&why, r->reason);
	else if (r->verdict == NSBOX_EXITED)
		say_exit(&why, r);
	else
		buf_fmt(&why, "the interpreter died of signal %d", r->signal);
	code = report_broken(rep, lang_canonical(language), buf_text(&why), err);
	buf_free(&why);
	return code;
}

static int read_static(struct report *rep, const struct nsbox_result *r, const char *language,
		       const char *text, size_t len, struct nsbox_error *err)
{
	int code;

	if (is_language(language, "bash") && r->verdict == NSBOX_EXITED)
		return report_bash(rep, r->exit_code, r->err.data, r->err.len, err);
	code = report_read(rep, text, len, NULL);
	/* Nonsense is a broken interpreter as well: the source is the suspect, not we. */
	return code >= 0 && rep->is_there ? 0 : broken(rep, r, language, err);
}

static int read_before_run(struct report *rep, const struct nsbox_result *r, const char *text,
			   size_t len, struct nsbox_error *err)
{
	int code = report_read(rep, text, len, err);

	if (code < 0 || rep->is_there || r->verdict != NSBOX_EXITED)
		return code; /* killed while it was checked: the verdict says by what */
	err_hint(err, "the source broke the interpreter that checked it: do not run it");
	return err_set(err, NSBOX_E_SETUP, "the check of the source did not report");
}

static void forget_stream(struct result_stream *s)
{
	free(s->data);
	*s = (struct result_stream){ .total = RESULT_UNKNOWN };
}

static void skip(struct nsbox_result *r, struct report *rep, bool is_static)
{
	r->verdict = NSBOX_SKIPPED;
	r->exit_code = -1;
	r->signal = 0;
	free(r->reason);
	r->reason = take_ptr(rep->reason);
	if (!is_static)
		return;
	forget_stream(&r->out);
	forget_stream(&r->err);
}

int examine_fill(struct nsbox_result *r, const struct examine *e, struct watch *w,
		 const char *language, struct nsbox_error *err)
{
	struct report rep = { 0 };
	owned_mem char *text = NULL;
	size_t len;
	int code;

	if (!e->is_wanted)
		return 0;
	text = capture_take(&w->report, &len);
	if (!text)
		return err_nomem(err);
	code = e->check.only ? read_static(&rep, r, language, text, len, err)
			     : read_before_run(&rep, r, text, len, err);
	if (code < 0)
		return code;
	if (e->check.only || (rep.is_there && !rep.may_run))
		skip(r, &rep, e->check.only);
	r->analysis = take_ptr(rep.analysis);
	report_free(&rep);
	return 0;
}
