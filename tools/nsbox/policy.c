/* SPDX-License-Identifier: Apache-2.0 */
/* `nsbox policy show|check|schema`, and `explain --to`. Runs in the command; makes no box. */
#include <string.h>

#include "tools/nsbox/layers.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

static int print_line(const char *text)
{
	auto_free char *line = NULL;

	if (asprintf(&line, "%s\n", text) < 0) {
		say("out of memory");
		return STATUS_NSBOX;
	}
	return report_text(line);
}

static int no_operands(const struct args *a, struct nsbox_error *err)
{
	if (a->operands.n == 0)
		return 0;
	cli_hint(err, "'nsbox %s --help' says what it takes", args_verb_name(a->verb));
	return cli_fail(err, NSBOX_E_USAGE, "'nsbox %s' does not take '%s'",
			args_verb_name(a->verb), a->operands.v[0]);
}

/* The policy that a run with the same flags would have. */
int verb_policy_show(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *policy = NULL;
	auto_free char *json = NULL;
	int r = no_operands(a, &err);

	if (r == 0)
		r = layers_build(&policy, a, NULL, &err);
	if (r == 0)
		r = nsbox_policy_json(policy, &json, &err);
	nsbox_policy_free(policy);
	return r < 0 ? report_error(a, &err) : print_line(json);
}

/* One line each on standard error: the policy is right all the same. */
static int say_warnings(const struct nsbox_policy *policy, const char *file,
			struct nsbox_error *err)
{
	auto_free char *text = NULL;
	char *rest = NULL;
	int r = nsbox_policy_warnings(policy, &text, err);

	if (r < 0)
		return r;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		say("%s%swarning: %s", file ? file : "", file ? ": " : "", line);
	return 0;
}

static int check_policy(const struct args *a, const char *file, struct nsbox_error *err)
{
	struct nsbox_policy *policy = NULL;
	int r;

	if (!file) {
		r = layers_build(&policy, a, NULL, err);
	} else {
		r = nsbox_policy_new(&policy, NULL, err);
		if (r == 0)
			r = layers_load(policy, file, NSBOX_LAYER_FLAGS, err);
		if (r == 0)
			r = layers_flags(policy, a, err);
	}
	if (r == 0)
		r = nsbox_policy_check(policy, err);
	if (r == 0)
		r = say_warnings(policy, file, err);
	nsbox_policy_free(policy);
	return r;
}

/* Each file by itself, with the flags on top; without one, what the layers of this place
 * make. */
int verb_policy_check(struct args *a)
{
	struct nsbox_error usage = NSBOX_ERROR_INIT;
	int status = STATUS_OK;
	size_t i = 0;

	if (a->operands.n && a->policies.n) {
		cli_hint(&usage, "give policy files as operands, or with -p");
		cli_fail(&usage, NSBOX_E_USAGE, "-p and operands exclude each other");
		return report_error(a, &usage);
	}
	do {
		const char *file = a->operands.n ? a->operands.v[i] : NULL;
		struct nsbox_error err = NSBOX_ERROR_INIT;
		auto_free char *line = NULL;

		if (check_policy(a, file, &err) < 0) {
			report_error(a, &err);
			status = STATUS_NSBOX;
		} else if (asprintf(&line, "%s: ok", file ? file : "the policy here") < 0 ||
			   print_line(line) != STATUS_OK) {
			status = STATUS_NSBOX;
		}
	} while (++i < a->operands.n);
	return status;
}

/* Whether a box with these flags could reach a destination, and why. */
int policy_reach(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *policy = NULL;
	auto_free char *text = NULL;
	int r = 0, status;

	if (a->operands.n) {
		cli_hint(&err, "--to asks about a destination, whatever runs");
		r = cli_fail(&err, NSBOX_E_USAGE, "--to and a command exclude each other");
	}
	if (r == 0)
		r = layers_build(&policy, a, NULL, &err);
	if (r == 0)
		r = say_warnings(policy, NULL, &err);
	if (r == 0)
		r = nsbox_policy_reach(policy, a->to, a->json ? "json" : "text", &text, &err);
	nsbox_policy_free(policy);
	if (r < 0)
		return report_error(a, &err);
	status = print_line(text);
	return status == STATUS_OK && r == 0 ? STATUS_REFUSED : status;
}

int verb_policy_schema(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	auto_free char *text = NULL;

	if (no_operands(a, &err) < 0)
		return report_error(a, &err);
	text = nsbox_schema(a->result ? "result" : "policy");
	if (!text) {
		cli_nomem(&err);
		return report_error(a, &err);
	}
	return print_line(text);
}
