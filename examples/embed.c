/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that runs untrusted Python through libnsbox and reads the verdict.
 *
 *	cc embed.c $(pkg-config --cflags --libs nsbox) -o embed
 *	./embed 'print(6 * 7)'
 *
 * Exit status: 0 when the code ended with 0, 1 when it did not, 2 when there was
 * no box.
 */
#include <nsbox.h>

#include <stdio.h>

static int complain(const struct nsbox_error *err)
{
	fprintf(stderr, "embed: %s%s%s\n", err->message, err->hint[0] ? "; " : "", err->hint);
	return 2;
}

static int report(const struct nsbox_result *res)
{
	const char *reason = nsbox_result_reason(res);
	const void *text;
	size_t len = 0;

	text = nsbox_result_stdout(res, &len);
	if (len > 0 && fwrite(text, 1, len, stdout) != len)
		return 2;
	printf("verdict: %s%s%s, exit code %d\n", nsbox_result_verdict_name(res),
	       reason ? ", " : "", reason ? reason : "", nsbox_result_exit_code(res));
	printf("network: %s\n", nsbox_result_enforced(res, "network") == NSBOX_STRENGTH_KERNEL ?
					"shut by the kernel" :
					"not shut");
	return nsbox_result_verdict(res) == NSBOX_EXITED && nsbox_result_exit_code(res) == 0 ? 0 :
											       1;
}

int main(int argc, char **argv)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = NSBOX_RUN_INIT;
	struct nsbox_policy *policy = NULL;
	struct nsbox_box *box = NULL;
	struct nsbox_result *res = NULL;
	int status;

	run.language = "python";
	run.code = argc > 1 ? argv[1] : "print(6 * 7)";
	if (nsbox_policy_new(&policy, "python", &err) < 0 ||
	    nsbox_policy_set(policy, "limits.timeout", "5s", &err) < 0 ||
	    nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, &err) < 0 ||
	    nsbox_box_run(box, &run, &res, &err) < 0)
		status = complain(&err);
	else
		status = report(res);
	nsbox_result_free(res);
	nsbox_box_close(box);
	nsbox_policy_free(policy);
	return status;
}
