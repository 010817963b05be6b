/* SPDX-License-Identifier: Apache-2.0 */
/* `nsbox sweep`. Runs in the command; makes no box. */
#include "tools/nsbox/layers.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

/* The protected names are those of a run at this place. */
int verb_sweep(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *policy = NULL;
	auto_free char *text = NULL;
	int r = layers_build(&policy, a, NULL, &err);

	if (r == 0)
		r = nsbox_sweep(policy, a->operands.v, a->json ? "json" : "text", &text, &err);
	nsbox_policy_free(policy);
	if (r < 0)
		return report_error(a, &err);
	return report_text(text) == STATUS_OK ? r : STATUS_NSBOX;
}
