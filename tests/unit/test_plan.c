/* The frozen block: what goes in comes out, and no damaged block passes the check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/plan.h"

static const char blob[] = "12345678payload";

static struct plan *sample(void)
{
	struct plan_builder b = { 0 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan *p;

	PLAN_OP(&b, .kind = OP_PRIVATE, .stage = 6);
	PLAN_OP(&b, .kind = OP_BIND, .stage = 6, .src = "/usr/lib", .dst = "usr/lib",
		.flags = OP_RDONLY | OP_REC, .pin_dev = 7, .pin_ino = 1234);
	PLAN_OP(&b, .kind = OP_ATTACH, .stage = 6, .fd = 9, .dst = "workspace");
	PLAN_OP(&b, .kind = OP_FILE, .stage = 6, .dst = "etc/hosts", .n = 0644,
		.blob = blob, .blob_len = sizeof(blob));
	PLAN_OP(&b, .kind = OP_READONLY, .stage = 6, .dst = "");
	p = plan_freeze(&b, &err);
	assert_non_null(p);
	assert_int_equal(err.code, 0);
	assert_null(b.ops);
	assert_null(b.bytes);
	return p;
}

static void a_frozen_plan_gives_back_what_was_added(void **state)
{
	owned_mem struct plan *p = sample();
	const struct op *ops = plan_ops(p);

	(void)state;
	assert_true(plan_is_valid(p, p->size));
	assert_int_equal(p->op_count, 5);
	assert_int_equal(ops[0].kind, OP_PRIVATE);
	assert_int_equal(ops[0].fd, -1);
	assert_null(plan_str(p, ops[0].src));
	assert_null(plan_str(p, ops[0].dst));
	assert_string_equal(plan_str(p, ops[1].src), "/usr/lib");
	assert_string_equal(plan_str(p, ops[1].dst), "usr/lib");
	assert_int_equal(ops[1].pin_dev, 7);
	assert_int_equal(ops[1].pin_ino, 1234);
	assert_int_equal(ops[1].flags, OP_RDONLY | OP_REC);
	assert_int_equal(ops[1].fd, -1);
	assert_int_equal(ops[2].fd, 9);
	assert_int_equal(ops[3].n, 0644);
	assert_int_equal(ops[3].blob_len, sizeof(blob));
	assert_int_equal(ops[3].blob % 8, 0);
	assert_memory_equal((char *)p + ops[3].blob, blob, sizeof(blob));
	assert_string_equal(plan_str(p, ops[4].dst), "");
}

static void a_plan_can_be_moved_to_another_address(void **state)
{
	owned_mem struct plan *p = sample(), *copy = malloc(p->size);

	(void)state;
	assert_non_null(copy);
	memcpy(copy, p, p->size);
	memset(p, 0xee, sizeof(*p));
	assert_true(plan_is_valid(copy, copy->size));
	assert_string_equal(plan_str(copy, plan_ops(copy)[1].dst), "usr/lib");
}

static void an_empty_plan_is_valid(void **state)
{
	struct plan_builder b = { 0 };
	owned_mem struct plan *p = plan_freeze(&b, NULL);

	(void)state;
	assert_non_null(p);
	assert_int_equal(p->op_count, 0);
	assert_true(plan_is_valid(p, p->size));
}

static void many_operations_survive_the_growth_of_the_builder(void **state)
{
	struct plan_builder b = { 0 };
	owned_mem struct plan *p = NULL;
	char text[32];

	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "d/%u", i);
		PLAN_OP(&b, .kind = OP_DIR, .stage = 6, .dst = text, .n = i);
	}
	p = plan_freeze(&b, NULL);
	assert_non_null(p);
	assert_true(plan_is_valid(p, p->size));
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "d/%u", i);
		assert_string_equal(plan_str(p, plan_ops(p)[i].dst), text);
		assert_int_equal(plan_ops(p)[i].n, i);
	}
}

static void a_plan_that_is_too_large_is_refused_with_a_reason(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };
	owned_mem char *big = calloc(1, 9u << 20);

	(void)state;
	PLAN_OP(&b, .kind = OP_FILE, .dst = "a", .blob = big, .blob_len = 9u << 20);
	assert_int_equal(b.failed, 0); /* the control: one fits */
	PLAN_OP(&b, .kind = OP_FILE, .dst = "b", .blob = big, .blob_len = 9u << 20);
	assert_int_equal(b.failed, E2BIG);
	assert_null(plan_freeze(&b, &err));
	assert_int_equal(err.code, NSBOX_E_POLICY);
	assert_true(err.hint[0]);
	assert_null(b.ops);

	for (unsigned i = 0; i < 65536; i++)
		PLAN_OP(&b, .kind = OP_NNP);
	assert_int_equal(b.failed, 0);
	PLAN_OP(&b, .kind = OP_NNP);
	assert_int_equal(b.failed, E2BIG);
	plan_builder_free(&b);
}

static void an_unknown_kind_is_refused(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct plan_builder b = { 0 };

	(void)state;
	PLAN_OP(&b, .kind = OP_COUNT);
	assert_null(plan_freeze(&b, &err));
	assert_int_equal(err.code, NSBOX_E_USAGE);
}

static void destinations_that_could_leave_the_root_are_refused(void **state)
{
	static const char *const bad[] = { "/", "/etc", "..", "../etc", "a/..", "a/../b",
					   ".", "./a", "a/./b", "a//b", "a/", "//" };
	static const char *const good[] = { "", "a", "a/b", "...", "a/..b", ".hidden",
					    "a/.b/c..", "a b" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct plan_builder b = { 0 };

		PLAN_OP(&b, .kind = OP_DIR, .dst = bad[i]);
		assert_null(plan_freeze(&b, &err));
		assert_int_equal(err.code, NSBOX_E_USAGE);
		assert_non_null(strstr(err.message, "DIR"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct plan_builder b = { 0 };
		owned_mem struct plan *p = NULL;

		PLAN_OP(&b, .kind = OP_DIR, .dst = good[i]);
		p = plan_freeze(&b, NULL);
		assert_non_null(p);
	}
}

/* One damage each; the undamaged block is the control. */
static void a_hostile_block_is_refused_field_by_field(void **state)
{
	owned_mem struct plan *good = sample(), *p = malloc(good->size);
	struct op *ops = (struct op *)((char *)p + sizeof(*p));
	const uint32_t size = good->size;

	(void)state;
#define REFUSED(damage) do { \
		memcpy(p, good, size); \
		assert_true(plan_is_valid(p, size)); \
		damage; \
		assert_false(plan_is_valid(p, size)); \
	} while (0)
	REFUSED(p->magic ^= 1);
	REFUSED(p->size--);
	REFUSED(p->size = UINT32_MAX);
	REFUSED(p->op_offset = 0);
	REFUSED(p->op_offset += 4);
	REFUSED(p->op_offset = UINT32_MAX & ~7u);
	REFUSED(p->op_count = UINT32_MAX);
	REFUSED(p->op_count = UINT32_MAX / sizeof(struct op) + 2); /* wraps to little */
	REFUSED(ops[0].kind = OP_COUNT);
	REFUSED(ops[0].kind = 0xffff);
	REFUSED(ops[0].fd = 0);		/* a descriptor that nothing should use */
	REFUSED(ops[2].fd = -1);
	REFUSED(ops[1].src = size);
	REFUSED(ops[1].src = UINT32_MAX);
	REFUSED(ops[1].src = 1);	/* inside the head */
	REFUSED(ops[1].dst = sizeof(*p)); /* inside the operations */
	REFUSED(((char *)p)[size - 1] = 'x'; ops[4].dst = size - 1); /* no end */
	REFUSED(ops[3].blob_len = size);
	REFUSED(ops[3].blob_len = UINT32_MAX);
	REFUSED(ops[3].blob += 1);
	REFUSED(ops[3].blob = UINT32_MAX & ~7u);
	REFUSED(ops[3].blob = 0);	/* length without bytes */
	REFUSED(((char *)p)[ops[1].dst] = '/');
	REFUSED(memcpy((char *)p + ops[1].dst, "../", 3));
#undef REFUSED
	memcpy(p, good, size);
	for (size_t n = 0; n < size; n++)
		assert_false(plan_is_valid(p, n));
	assert_false(plan_is_valid(NULL, 0));
}

/* Under ASan this is the proof that the check itself reads nothing outside. */
static void random_damage_never_reads_outside_of_the_block(void **state)
{
	owned_mem struct plan *good = sample();
	const uint32_t size = good->size;
	uint64_t seed = 42;
	unsigned refused = 0;

	(void)state;
	for (unsigned round = 0; round < 50000; round++) {
		owned_mem unsigned char *p = malloc(size);

		memcpy(p, good, size);
		for (unsigned i = 0; i < 3; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			p[(seed >> 33) % size] = (unsigned char)(seed >> 24);
		}
		refused += !plan_is_valid(p, size);
	}
	assert_in_range(refused, 1000, 49999);
}

static void every_kind_has_a_name_and_a_sentence(void **state)
{
	(void)state;
	for (unsigned k = 0; k < OP_COUNT; k++) {
		assert_true(op_name(k)[0] >= 'A' && op_name(k)[0] <= 'Z');
		assert_true(strlen(op_help(k)) > 3);
	}
	assert_string_equal(op_name(OP_LANDLOCK_PATH), "LANDLOCK_PATH");
	assert_string_equal(op_name(OP_COUNT), "?");
	assert_string_equal(op_help(UINT32_MAX), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frozen_plan_gives_back_what_was_added),
		cmocka_unit_test(a_plan_can_be_moved_to_another_address),
		cmocka_unit_test(an_empty_plan_is_valid),
		cmocka_unit_test(many_operations_survive_the_growth_of_the_builder),
		cmocka_unit_test(a_plan_that_is_too_large_is_refused_with_a_reason),
		cmocka_unit_test(an_unknown_kind_is_refused),
		cmocka_unit_test(destinations_that_could_leave_the_root_are_refused),
		cmocka_unit_test(a_hostile_block_is_refused_field_by_field),
		cmocka_unit_test(random_damage_never_reads_outside_of_the_block),
		cmocka_unit_test(every_kind_has_a_name_and_a_sentence),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
