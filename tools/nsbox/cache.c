/* SPDX-License-Identifier: Apache-2.0 */
/* `nsbox cache list` and `nsbox cache prune`. Runs in the command; makes no box. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

#define AGE_MAX 100000 /* of each unit */

static int refuse_operands(const struct args *a, struct nsbox_error *err)
{
	if (a->operands.n == 0)
		return 0;
	return cli_fail(err, NSBOX_E_USAGE, "'nsbox %s' does not take '%s'",
			args_verb_name(a->verb), a->operands.v[0]);
}

/* "30d", "12h", "90m", "10s" */
static int age_of(const char *text, uint64_t *ms, struct nsbox_error *err)
{
	static const struct { char unit; uint64_t ms; } units[] = {
		{ 'd', UINT64_C(86400000) }, { 'h', 3600000 }, { 'm', 60000 }, { 's', 1000 },
	};
	size_t digits = strspn(text, "0123456789");
	unsigned long n = digits && digits < 7 ? strtoul(text, NULL, 10) : 0;

	for (size_t i = 0; i < CLI_COUNT(units); i++) {
		if (n && n <= AGE_MAX && text[digits] == units[i].unit && !text[digits + 1]) {
			*ms = n * units[i].ms;
			return 0;
		}
	}
	cli_hint(err, "a number and d, h, m or s: --older-than 30d");
	return cli_fail(err, NSBOX_E_USAGE, "'%s' is no age", text);
}

static int finish(const struct args *a, int r, const char *text, const struct nsbox_error *err)
{
	if (r < 0)
		return report_error(a, err);
	return report_text(text) == STATUS_OK ? r : STATUS_NSBOX;
}

int verb_cache_list(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	auto_free char *text = NULL;
	int r = refuse_operands(a, &err);

	if (r == 0)
		r = nsbox_cache_list(a->json ? "json" : "text", &text, &err);
	return finish(a, r, text, &err);
}

/* 1: something stayed, since a run uses it. */
int verb_cache_prune(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	auto_free char *text = NULL;
	uint64_t ms = 0;
	int r = refuse_operands(a, &err);

	if (r == 0 && a->older_than)
		r = age_of(a->older_than, &ms, &err);
	if (r == 0 && !a->older_than && !a->all) {
		cli_hint(&err, "say how much: --older-than 30d, or --all");
		r = cli_fail(&err, NSBOX_E_USAGE, "nothing is chosen to be removed");
	}
	if (r == 0)
		r = nsbox_cache_prune(ms, a->json ? "json" : "text", &text, &err);
	return finish(a, r, text, &err);
}
