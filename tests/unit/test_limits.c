/* Every limit becomes the row that the kernel counts by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "policy/limits.h"

#define NO_ROW UINT64_MAX

static const struct limits_have all = { .cgroup_memory = true, .cgroup_pids = true,
					.cgroup_cpu = true };

static struct policy usual(void)
{
	struct policy p = { 0 };

	p.limits.memory = 512u << 20;
	p.limits.pids = 128;
	p.limits.files = 1024;
	p.limits.cpus = 1000;
	return p;
}

static struct plan *rlimits_of(const struct policy *p, struct limits_have have)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };
	struct plan *plan;

	assert_int_equal(limits_compile_rlimits(&b, p, &have, 7, &err), 0);
	plan = plan_freeze(&b, &err);
	assert_non_null(plan);
	return plan;
}

/* Soft limit of a resource and, through hard, the other; NO_ROW: not set. */
static uint64_t soft_of(const struct plan *plan, int resource, uint64_t *hard)
{
	uint64_t soft = NO_ROW;

	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan_ops(plan)[i];

		assert_int_equal(op->kind, OP_RLIMIT);
		assert_int_equal(op->stage, 7);
		if (op->flags != (uint64_t)resource)
			continue;
		assert_true(soft == NO_ROW); /* once only */
		soft = op->n;
		if (hard)
			*hard = op->m;
	}
	return soft;
}

static void the_fixed_limits_are_in_every_box(void **state)
{
	static const struct { int resource; uint64_t want; } rows[] = {
		{ RLIMIT_CORE, 1 }, { RLIMIT_MEMLOCK, 65536 }, { RLIMIT_MSGQUEUE, 819200 },
		{ RLIMIT_SIGPENDING, 1024 }, { RLIMIT_RTPRIO, 0 }, { RLIMIT_NICE, 0 },
		{ RLIMIT_NOFILE, 1024 },
	};
	struct policy p = usual();
	owned_mem struct plan *plan = rlimits_of(&p, all);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t hard = NO_ROW;

		assert_int_equal(soft_of(plan, rows[i].resource, &hard), rows[i].want);
		assert_int_equal(hard, rows[i].want);
	}
	assert_int_equal(plan->op_count, ARRAY_SIZE(rows));
}

static void address_space_and_stack_are_never_limited(void **state)
{
	struct policy p = usual();
	owned_mem struct plan *plan = NULL;

	(void)state;
	p.limits.file_size = 1;
	p.limits.cpu_time = 1;
	plan = rlimits_of(&p, (struct limits_have){ 0 });
	assert_int_equal(soft_of(plan, RLIMIT_AS, NULL), NO_ROW);
	assert_int_equal(soft_of(plan, RLIMIT_STACK, NULL), NO_ROW);
}

static void without_a_cgroup_rlimits_stand_in(void **state)
{
	struct policy p = usual();
	owned_mem struct plan *none = rlimits_of(&p, (struct limits_have){ 0 });
	owned_mem struct plan *memory =
		rlimits_of(&p, (struct limits_have){ .cgroup_memory = true });
	owned_mem struct plan *pids = rlimits_of(&p, (struct limits_have){ .cgroup_pids = true });

	(void)state;
	assert_int_equal(soft_of(none, RLIMIT_DATA, NULL), 1536u << 20);
	assert_int_equal(soft_of(none, RLIMIT_NPROC, NULL), 130); /* init, and one too many */
	assert_int_equal(soft_of(memory, RLIMIT_DATA, NULL), NO_ROW);
	assert_int_equal(soft_of(memory, RLIMIT_NPROC, NULL), 130);
	assert_int_equal(soft_of(pids, RLIMIT_DATA, NULL), 1536u << 20);
	assert_int_equal(soft_of(pids, RLIMIT_NPROC, NULL), NO_ROW);
}

static void data_leaves_room_for_what_is_only_reserved(void **state)
{
	struct policy p = usual();
	const struct limits_have big = { .host_memory = 24ull << 30 };
	owned_mem struct plan *with_swap = NULL, *small = NULL, *on_big = NULL, *huge = NULL;

	(void)state;
	p.limits.swap = 64u << 20;
	with_swap = rlimits_of(&p, (struct limits_have){ .host_memory = 1ull << 30 });
	assert_int_equal(soft_of(with_swap, RLIMIT_DATA, NULL), 1600u << 20);
	p.limits.swap = 0;
	p.limits.memory = 64u << 20;
	small = rlimits_of(&p, (struct limits_have){ 0 });
	assert_true(soft_of(small, RLIMIT_DATA, NULL) > 1000000000u); /* a gigabyte, and the rest */
	on_big = rlimits_of(&p, big);
	assert_true(soft_of(on_big, RLIMIT_DATA, NULL) == (12ull << 30) + (64u << 20));
	p.limits.memory = p.limits.swap = UINT64_MAX - 1;
	huge = rlimits_of(&p, big);
	assert_true(soft_of(huge, RLIMIT_DATA, NULL) == UINT64_MAX);
}

static void cpu_time_is_rounded_up_with_a_second_to_clean_up(void **state)
{
	static const struct { uint64_t us, soft, hard; } rows[] = {
		{ 1, 1, 2 }, { 999999, 1, 2 }, { 1000000, 1, 2 }, { 1000001, 2, 3 },
		{ 30000000, 30, 31 }, { UINT64_MAX, 18446744073710, 18446744073711 },
	};
	struct policy p = usual();
	owned_mem struct plan *none = rlimits_of(&p, (struct limits_have){ 0 });

	(void)state;
	assert_int_equal(soft_of(none, RLIMIT_CPU, NULL), NO_ROW);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned_mem struct plan *plan = NULL;
		uint64_t hard = 0;

		p.limits.cpu_time = rows[i].us;
		plan = rlimits_of(&p, (struct limits_have){ 0 });
		assert_int_equal(soft_of(plan, RLIMIT_CPU, &hard), rows[i].soft);
		assert_int_equal(hard, rows[i].hard);
	}
}

static void file_size_is_limited_only_when_asked(void **state)
{
	struct policy p = usual();
	owned_mem struct plan *without = rlimits_of(&p, (struct limits_have){ 0 });
	owned_mem struct plan *with = NULL;

	(void)state;
	p.limits.file_size = 12345;
	with = rlimits_of(&p, (struct limits_have){ 0 });
	assert_int_equal(soft_of(without, RLIMIT_FSIZE, NULL), NO_ROW);
	assert_int_equal(soft_of(with, RLIMIT_FSIZE, NULL), 12345);
}

static void a_limit_that_leaves_no_room_is_an_error_that_names_the_key(void **state)
{
	static const struct { size_t field; uint64_t value; const char *key; } rows[] = {
		{ offsetof(struct policy, limits.memory), 0, "limits.memory" },
		{ offsetof(struct policy, limits.memory), 65535, "limits.memory" },
		{ offsetof(struct policy, limits.memory_high), 65535, "limits.memory_high" },
		{ offsetof(struct policy, limits.pids), 0, "limits.pids" },
		{ offsetof(struct policy, limits.files), 0, "limits.files" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT, err2 = NSBOX_ERROR_INIT;
		struct cgroup_value v[LIMITS_CGROUP_ROWS];
		struct policy p = usual();
		struct limits_have have = { 0 };
		struct plan_builder b = { 0 };

		*(uint64_t *)((char *)&p + rows[i].field) = rows[i].value;
		assert_int_equal(limits_compile_rlimits(&b, &p, &have, 7, &err), NSBOX_E_POLICY);
		assert_int_equal(limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &have, &err2),
				 NSBOX_E_POLICY);
		assert_non_null(strstr(err.message, rows[i].key));
		assert_non_null(strstr(err2.message, rows[i].key));
		plan_builder_free(&b);
	}
}

/* --- cgroup -------------------------------------------------------------- */

static const char *value_of(const struct cgroup_value *v, int n, const char *file)
{
	for (int i = 0; i < n; i++)
		if (strcmp(v[i].file, file) == 0)
			return v[i].value;
	return NULL;
}

static void every_cgroup_limit_has_a_row_and_a_key(void **state)
{
	static const char *const want[][3] = {
		{ "cgroup.max.descendants", "0", "limits.memory" },
		{ "memory.max", "536870912", "limits.memory" },
		{ "memory.swap.max", "0", "limits.swap" },
		{ "memory.oom.group", "1", "limits.oom" },
		{ "pids.max", "129", "limits.pids" },
		{ "cpu.max", "100000 100000", "limits.cpus" },
	};
	struct cgroup_value v[LIMITS_CGROUP_ROWS];
	struct policy p = usual();

	(void)state;
	assert_int_equal(limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &all, NULL), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(v[i].file, want[i][0]);
		assert_string_equal(v[i].value, want[i][1]);
		assert_string_equal(v[i].key, want[i][2]);
	}
}

static void what_is_asked_for_beyond_the_usual_has_its_row(void **state)
{
	struct limits_have have = all;
	struct cgroup_value v[LIMITS_CGROUP_ROWS];
	struct policy p = usual();
	int n;

	(void)state;
	p.limits.memory_high = (48u << 20) + 5;
	p.limits.oom = OOM_PROCESS;
	p.limits.io_weight = 40;
	n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &have, NULL);
	assert_string_equal(value_of(v, n, "memory.high"), "50331648");
	assert_string_equal(value_of(v, n, "memory.oom.group"), "0");
	assert_null(value_of(v, n, "io.weight"));
	have.io_weight_file = "io.weight";
	n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &have, NULL);
	assert_int_equal(n, LIMITS_CGROUP_ROWS);
	assert_string_equal(value_of(v, n, "io.weight"), "default 40");
	p.limits.io_weight = 0;
	n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &have, NULL);
	assert_null(value_of(v, n, "io.weight"));
}

/* bfq takes 1 to 1000 and has the same middle. */
static void a_weight_keeps_its_meaning_on_the_scale_of_bfq(void **state)
{
	static const struct { uint64_t weight; const char *want; } rows[] = {
		{ 1, "default 1" }, { 100, "default 100" }, { 101, "default 100" },
		{ 5050, "default 550" }, { 10000, "default 1000" },
	};
	const struct limits_have have = { .io_weight_file = "io.bfq.weight" };
	struct cgroup_value v[LIMITS_CGROUP_ROWS];
	struct policy p = usual();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int n;

		p.limits.io_weight = rows[i].weight;
		n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &have, NULL);
		assert_string_equal(value_of(v, n, "io.bfq.weight"), rows[i].want);
	}
}

/* Else the kernel's ENOENT for one would refuse a run that the others allow. */
static void a_controller_that_is_not_there_gets_no_row(void **state)
{
	static const char *const memory[] = { "memory.max", "memory.swap.max", "memory.oom.group" };
	struct cgroup_value v[LIMITS_CGROUP_ROWS];
	struct policy p = usual();
	int n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p,
				      &(struct limits_have){ .cgroup_memory = true }, NULL);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		assert_non_null(value_of(v, n, memory[i]));
	assert_int_equal(n, ARRAY_SIZE(memory) + 1);
	n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p,
				  &(struct limits_have){ .cgroup_pids = true }, NULL);
	assert_int_equal(n, 2);
	assert_string_equal(value_of(v, n, "pids.max"), "129");
	assert_string_equal(v[0].file, "cgroup.max.descendants");
}

static void cpu_quota_stays_above_what_the_kernel_refuses(void **state)
{
	static const struct { uint64_t milli; const char *want; } rows[] = {
		{ 0, "max 100000" }, { 1, "1000 1000000" }, { 9, "9000 1000000" },
		{ 10, "1000 100000" }, { 250, "25000 100000" }, { 2500, "250000 100000" },
	};
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct cgroup_value v[LIMITS_CGROUP_ROWS];
	struct policy p = usual();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int n;

		p.limits.cpus = rows[i].milli;
		n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &all, NULL);
		assert_string_equal(value_of(v, n, "cpu.max"), rows[i].want);
	}
	p.limits.cpus = UINT64_MAX;
	assert_int_equal(limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &all, &err), NSBOX_E_POLICY);
}

static void values_are_ones_that_the_kernel_gives_back_unchanged(void **state)
{
	struct cgroup_value v[LIMITS_CGROUP_ROWS];
	struct policy p = usual();
	int n;

	(void)state;
	p.limits.memory = (64u << 20) + 4097;
	p.limits.swap = 5000;
	p.limits.pids = UINT64_MAX;
	n = limits_compile_cgroup(v, LIMITS_CGROUP_ROWS, &p, &all, NULL);
	assert_string_equal(value_of(v, n, "memory.max"), "67108864");
	assert_string_equal(value_of(v, n, "memory.swap.max"), "0");
	assert_string_equal(value_of(v, n, "pids.max"), "4194304");
}

static void too_little_room_is_an_error_and_writes_nothing(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct cgroup_value v[LIMITS_CGROUP_ROWS] = { { .file = "untouched" } };
	struct policy p = usual();

	(void)state;
	assert_int_equal(limits_compile_cgroup(v, LIMITS_CGROUP_ROWS - 1, &p, &all, &err),
			 NSBOX_E_USAGE);
	assert_string_equal(v[0].file, "untouched");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fixed_limits_are_in_every_box),
		cmocka_unit_test(address_space_and_stack_are_never_limited),
		cmocka_unit_test(without_a_cgroup_rlimits_stand_in),
		cmocka_unit_test(data_leaves_room_for_what_is_only_reserved),
		cmocka_unit_test(cpu_time_is_rounded_up_with_a_second_to_clean_up),
		cmocka_unit_test(file_size_is_limited_only_when_asked),
		cmocka_unit_test(a_limit_that_leaves_no_room_is_an_error_that_names_the_key),
		cmocka_unit_test(every_cgroup_limit_has_a_row_and_a_key),
		cmocka_unit_test(what_is_asked_for_beyond_the_usual_has_its_row),
		cmocka_unit_test(a_weight_keeps_its_meaning_on_the_scale_of_bfq),
		cmocka_unit_test(a_controller_that_is_not_there_gets_no_row),
		cmocka_unit_test(cpu_quota_stays_above_what_the_kernel_refuses),
		cmocka_unit_test(values_are_ones_that_the_kernel_gives_back_unchanged),
		cmocka_unit_test(too_little_room_is_an_error_and_writes_nothing),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
