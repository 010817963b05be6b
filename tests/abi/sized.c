/*
 * struct nsbox_run as programs of other ages pass it: shorter (an older header),
 * longer with a zero tail (a newer one that asks for nothing new), longer with
 * something in the tail (asks for what this library does not know). TAP; runs no
 * box, plans one.
 */
#include <nsbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct longer {
	struct nsbox_run run;
	unsigned char tail[64];
};

static int count, failed;

static void expect(int got, int want, const char *name, const struct nsbox_error *err)
{
	printf("%s %d - %s\n", got == want ? "ok" : "not ok", ++count, name);
	if (got != want) {
		printf("# want %d, got %d: %s\n", want, got, err->message);
		failed = 1;
	}
}

static int plan(struct nsbox_box *box, const struct longer *l, struct nsbox_error *err)
{
	char *text = NULL;
	int ret;

	*err = (struct nsbox_error)NSBOX_ERROR_INIT;
	ret = nsbox_box_explain(box, &l->run, "plan", &text, err);
	if (ret == 0 && !strstr(text, "PIVOT"))
		ret = 1;
	free(text);
	return ret;
}

static void all_sizes(struct nsbox_box *box, struct nsbox_error *err)
{
	static const char *const argv[] = { "true", NULL };
	const struct longer clean = { .run = NSBOX_RUN_INIT };
	struct longer l = clean;

	l.run.argv = argv;
	expect(plan(box, &l, err), NSBOX_OK, "the size of this header is taken", err);

	l.run.artifacts_dir = (const char *)0x10;
	l.run.size = offsetof(struct nsbox_run, artifacts_dir);
	expect(plan(box, &l, err), NSBOX_OK, "a shorter one is taken and nothing behind it is read", err);
	l.run.artifacts_dir = NULL;

	l.run.name = "\n";
	l.run.size = offsetof(struct nsbox_run, name);
	expect(plan(box, &l, err), NSBOX_OK, "the one of before the name is taken, whatever stands there", err);
	l.run.size = sizeof(l.run);
	expect(plan(box, &l, err), NSBOX_E_USAGE, "a name with a control character is refused", err);
	l.run.name = "build 7";
	expect(plan(box, &l, err), NSBOX_OK, "a name of printable characters is taken", err);
	l.run.name = NULL;

	l.run.size = sizeof(l);
	expect(plan(box, &l, err), NSBOX_OK, "a longer one with a zero tail is taken", err);
	l.tail[sizeof(l.tail) - 1] = 1;
	expect(plan(box, &l, err), NSBOX_E_USAGE, "a longer one with a last byte that is not zero is refused", err);
	l.tail[sizeof(l.tail) - 1] = 0;

	l.run.size = 0;
	expect(plan(box, &l, err), NSBOX_E_USAGE, "size zero is refused", err);
	l.run.size = sizeof(uint32_t);
	expect(plan(box, &l, err), NSBOX_E_USAGE, "a size that holds nothing but itself is refused", err);
}

int main(void)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_policy *policy = NULL;
	struct nsbox_box *box = NULL;

	if (nsbox_policy_new(&policy, NULL, &err) < 0 ||
	    nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, &err) < 0) {
		printf("not ok 1 - a box opens\n# %s - %s\n1..1\n", err.message, err.hint);
		return 1;
	}
	all_sizes(box, &err);
	printf("1..%d\n", count);
	nsbox_box_close(box);
	nsbox_policy_free(policy);
	return failed;
}
