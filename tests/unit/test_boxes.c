/*
 * test_boxes.c - what a run of the library leaves in the list of boxes, at each moment
 *
 * (test_registry.c has the file itself.) The list is in a folder of this program's own.
 */
#include "box_run.h"

#include "base/cleanup.h"

#include <signal.h>

static char place[64];
static struct nsbox_box *box;

static int set_up(void **state)
{
	(void)state;
	if (scratch_and_box(place, sizeof(place), "/tmp/nsbox-boxes.XXXXXX", &box) < 0)
		return -1;
	return setenv("XDG_RUNTIME_DIR", place, 1);
}

static int tear_down(void **state)
{
	char path[96];

	(void)state;
	nsbox_box_close(box);
	snprintf(path, sizeof(path), "%s/nsbox/boxes.1", place);
	(void)unlink(path);
	snprintf(path, sizeof(path), "%s/nsbox", place);
	(void)rmdir(path);
	return rmdir(place);
}

/* How many boxes of that name there are; *out is the last one. */
static int find(const char *name, struct nsbox_box_info *out)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_box_info info = NSBOX_BOX_INFO_INIT;
	struct nsbox_boxes *boxes;
	int n = 0, r;

	must(nsbox_boxes_open(&boxes, &err), &err);
	while ((r = nsbox_boxes_next(boxes, &info, &err)) == 1)
		if (strcmp(info.name, name) == 0) {
			*out = info;
			n++;
		}
	must(r, &err);
	nsbox_boxes_close(boxes);
	return n;
}

static struct nsbox_result *wait_and_collect(struct nsbox_box *b)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *r = NULL;
	int over;

	do {
		over = nsbox_box_wait(b, -1, &err);
		must(over, &err);
	} while (!over);
	must(nsbox_box_collect(b, &r, &err), &err);
	return r;
}

static void a_run_is_listed_while_it_runs_and_when_it_has_ended(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(SH("sleep 60"));
	struct nsbox_box_info info;
	struct nsbox_result *r;
	char id[16];

	(void)state;
	run.name = "sleeper";
	run.timeout_ms = 50000;
	must(nsbox_box_start(box, &run, &err), &err);
	assert_int_equal(find("sleeper", &info), 1);
	assert_int_equal(info.state, NSBOX_BOX_RUNNING);
	assert_int_equal(info.launcher_pid, getpid());
	assert_int_equal(info.memory_limit, UINT64_C(512) << 20);
	assert_int_equal(info.pids_limit, 128);
	assert_int_equal(info.cpus_milli, 1000);
	assert_int_equal(info.timeout_us, 50000000);
	assert_in_range(info.memory_bytes, 1, UINT64_C(64) << 20);
	assert_in_range(info.pids, 1, 2);
	assert_in_range(info.cpu_us, 0, 60000000);
	assert_null(info.verdict_name);
	memcpy(id, info.id, sizeof(id));
	nsbox_box_kill(box);
	r = wait_and_collect(box);
	assert_int_equal(find("sleeper", &info), 1);
	assert_string_equal(info.id, id);
	assert_int_equal(info.state, NSBOX_BOX_FINISHED);
	assert_int_equal(info.verdict, NSBOX_SIGNALED);
	assert_string_equal(info.verdict_name, "signaled");
	assert_int_equal(info.signal, SIGKILL);
	assert_int_equal(info.exit_code, -1);
	nsbox_result_free(r);
}

static void a_run_that_is_dropped_is_lost(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(SH("sleep 60"));
	struct nsbox_box *dropped = new_box(NULL, NULL);
	struct nsbox_box_info info;

	(void)state;
	run.name = "dropped";
	must(nsbox_box_start(dropped, &run, &err), &err);
	assert_int_equal(find("dropped", &info), 1);
	assert_int_equal(info.state, NSBOX_BOX_RUNNING); /* control */
	nsbox_box_close(dropped);
	assert_int_equal(find("dropped", &info), 1);
	assert_int_equal(info.state, NSBOX_BOX_LOST);
	assert_in_range(info.age_us, 1, 60000000);
}

static void a_command_that_is_not_there_is_listed_with_its_status(void **state)
{
	const struct nsbox_run run = command(LIST("/no/such/program-of-ours"));
	struct nsbox_box_info info;

	(void)state;
	nsbox_result_free(result_of(box, &run));
	assert_int_equal(find("program-of-ours", &info), 1);
	assert_int_equal(info.state, NSBOX_BOX_FINISHED);
	assert_int_equal(info.exit_code, 127);
	assert_int_equal(info.memory_bytes, NSBOX_UNKNOWN);
}

static void a_run_that_was_never_built_is_not_listed(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(LIST("true"));
	struct nsbox_box_info info;
	struct nsbox_result *r = NULL;

	(void)state;
	run.name = "never";
	run.artifacts_dir = "/proc/no-folder";
	assert_true(nsbox_box_run(box, &run, &r, &err) < 0);
	assert_int_equal(find("never", &info), 0);
	run.artifacts_dir = NULL;
	nsbox_result_free(result_of(box, &run)); /* control */
	assert_int_equal(find("never", &info), 1);
}

static void the_policy_decides_whether_a_run_is_listed(void **state)
{
	struct nsbox_box *quiet = new_box(NULL, LIST("observe.listed", "false"));
	struct nsbox_run run = command(LIST("true"));
	struct nsbox_box_info info;

	(void)state;
	run.name = "quiet";
	nsbox_result_free(result_of(quiet, &run));
	assert_int_equal(find("quiet", &info), 0);
	nsbox_result_free(result_of(box, &run)); /* control */
	assert_int_equal(find("quiet", &info), 1);
	nsbox_box_close(quiet);
}

static void a_name_that_a_terminal_would_obey_is_refused(void **state)
{
	static const char *const names[] = { "", "\033[2J", "a\nb", "\xff", "\xe2\x80\xaegnp" };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_run run = command(LIST("true"));

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		run.name = names[i];
		assert_int_equal(nsbox_box_start(box, &run, &err), NSBOX_E_USAGE);
		assert_null(strchr(err.message, '\033'));
	}
}

static void a_run_leaves_no_descriptor_of_the_list(void **state)
{
	static char before[8192], after[8192];

	(void)state;
	nsbox_result_free(result_of_sh(box, "true"));
	list_links("/proc/self/fd", before, sizeof(before));
	nsbox_result_free(result_of_sh(box, "true"));
	list_links("/proc/self/fd", after, sizeof(after));
	assert_string_equal(before, after);
	assert_null(strstr(after, "boxes.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_listed_while_it_runs_and_when_it_has_ended),
		cmocka_unit_test(a_run_that_is_dropped_is_lost),
		cmocka_unit_test(a_command_that_is_not_there_is_listed_with_its_status),
		cmocka_unit_test(a_run_that_was_never_built_is_not_listed),
		cmocka_unit_test(the_policy_decides_whether_a_run_is_listed),
		cmocka_unit_test(a_name_that_a_terminal_would_obey_is_refused),
		cmocka_unit_test(a_run_leaves_no_descriptor_of_the_list),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
