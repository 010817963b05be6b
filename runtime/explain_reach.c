/*
 * explain_reach.c - what the network rules of a policy say of one destination
 *
 * Runs in the caller of the library. Looks at the policy alone: neither at the host nor
 * at any name server.
 */
#include "runtime/box.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/egress.h"

#include <string.h>

enum { TEXT_MAX = 64 << 10, WARNINGS_MAX = 1 << 20 };

static const char *const whys[] = {
	[EGRESS_BY_DISABLED] = "disabled", [EGRESS_BY_DEFAULT] = "default",
	[EGRESS_BY_ALLOW] = "allow_out",   [EGRESS_BY_DENY] = "deny_out",
	[EGRESS_BY_PORT] = "other_port",   [EGRESS_BY_PRIVATE] = "private",
};

struct question {
	const char *text;
	struct egress_asked asked;
	struct egress_verdict verdict;
	const struct egress_rules *rules;
};

static void put_text(struct buf *out, const struct question *q)
{
	char addr[EGRESS_ADDR_TEXT];

	egress_explain(q->rules, &q->asked.dest, &q->verdict, out);
	if (q->asked.is_respelled)
		buf_fmt(out, " (that is what \"%s\" means: %s)", q->text,
			egress_addr_text(&q->asked.addr, addr));
}

static void put_json(struct buf *out, const struct question *q)
{
	struct buf what = BUF_INIT(TEXT_MAX), rule = BUF_INIT(TEXT_MAX), allow = BUF_INIT(TEXT_MAX);
	struct buf text = BUF_INIT(TEXT_MAX);
	struct json j = JSON_INIT(out);
	char addr[EGRESS_ADDR_TEXT];

	egress_explain_denial(q->rules, &q->asked.dest, &q->verdict, NULL,
			      &(struct egress_words){ &what, &rule, &allow });
	put_text(&text, q);
	json_object(&j);
	json_kstr(&j, "schema", "nsbox.reach/1");
	json_kstr(&j, "host", q->asked.dest.name ? q->asked.dest.name
						  : egress_addr_text(&q->asked.addr, addr));
	json_kuint(&j, "port", q->asked.dest.port);
	json_kstr(&j, "protocol", q->asked.dest.proto == EGRESS_UDP ? "udp" : "tcp");
	json_kbool(&j, "allowed", q->verdict.allowed);
	json_kstr(&j, "by", whys[q->verdict.why]);
	json_kstr(&j, "rule", buf_text(&rule));
	json_kstr(&j, "allow", allow.len ? buf_text(&allow) : NULL);
	json_kstr(&j, "text", buf_text(&text));
	json_end(&j, '}');
	out->failed |= what.failed || rule.failed || allow.failed || text.failed;
	buf_free(&what);
	buf_free(&rule);
	buf_free(&allow);
	buf_free(&text);
}

int nsbox_policy_reach(const struct nsbox_policy *policy, const char *destination,
		       const char *form, char **out, struct nsbox_error *err)
{
	struct buf text = BUF_INIT(TEXT_MAX);
	owned_mem struct egress_rules *rules = NULL;
	struct question q = { .text = destination };
	char *result;
	int r;

	err_clear(err);
	if (!policy || !destination || !form || !out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_reach: an argument is NULL");
	if (strcmp(form, "text") != 0 && strcmp(form, "json") != 0)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_reach: no form is called \"%s\"",
			       form);
	r = policy_check(&policy->p, err);
	if (r == 0)
		r = egress_ask(&q.asked, destination, err);
	if (r == 0)
		r = egress_compile(&rules, &policy->p, err);
	if (r < 0)
		return r;
	q.rules = rules;
	q.verdict = egress_judge(rules, &q.asked.dest);
	(strcmp(form, "json") == 0 ? put_json : put_text)(&text, &q);
	result = buf_take(&text);
	buf_free(&text);
	if (!result)
		return err_nomem(err);
	*out = result;
	return q.verdict.allowed;
}

int nsbox_policy_warnings(const struct nsbox_policy *policy, char **out, struct nsbox_error *err)
{
	struct buf text = BUF_INIT(WARNINGS_MAX);
	struct strlist lines = { 0 };
	char *result;
	int r;

	err_clear(err);
	if (!policy || !out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_policy_warnings: an argument is NULL");
	r = policy_check(&policy->p, err);
	if (r < 0)
		return r;
	r = egress_warnings(&policy->p, &lines);
	for (size_t i = 0; i < lines.n; i++)
		buf_fmt(&text, "%s\n", lines.v[i]);
	strlist_free(&lines);
	buf_str(&text, "");
	result = r < 0 ? NULL : text.len ? buf_take(&text) : strdup("");
	buf_free(&text);
	if (!result)
		return err_nomem(err);
	*out = result;
	return 0;
}
