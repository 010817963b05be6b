/* SPDX-License-Identifier: Apache-2.0 */
/* `nsbox doctor` and `nsbox version`. Runs in the command. */
#include <string.h>

#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

static int refuse_operands(const struct args *a, struct nsbox_error *err)
{
	if (a->operands.n == 0)
		return 0;
	return cli_fail(err, NSBOX_E_USAGE, "'nsbox %s' does not take '%s'",
			args_verb_name(a->verb), a->operands.v[0]);
}

/* 0: the local tier works fully, 1: degraded, 2: not at all. */
int verb_doctor(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	auto_free char *text = NULL;
	int r = refuse_operands(a, &err);

	if (r == 0)
		r = nsbox_doctor(a->json ? "json" : "text", &text, &err);
	if (r < 0)
		return report_error(a, &err);
	if (report_text(text) != STATUS_OK)
		return STATUS_NSBOX;
	if (text[0] && text[strlen(text) - 1] != '\n' && report_text("\n") != STATUS_OK)
		return STATUS_NSBOX;
	return r;
}

int verb_version(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char line[128];

	if (refuse_operands(a, &err) < 0)
		return report_error(a, &err);
	snprintf(line, sizeof(line), a->json ? "{\"nsbox\":\"%s\"}\n" : "nsbox %s\n",
		 nsbox_version());
	return report_text(line);
}
