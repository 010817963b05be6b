/* base/strlist.c: a list, and the index that a long one keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strlist.h"

static const char *item(unsigned i)
{
	static char text[32];

	snprintf(text, sizeof(text), "item %u", i);
	return text;
}

static void expect_range(const struct strlist *l, unsigned from, unsigned to)
{
	assert_int_equal(l->n, to - from);
	for (unsigned i = 0; i < to + 100; i++)
		if (strlist_has(l, item(i)) != (i >= from && i < to))
			fail_msg("item %u of [%u, %u)", i, from, to);
}

static void a_list_of_any_length_knows_what_it_has(void **state)
{
	struct strlist l = { 0 };

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(strlist_add(&l, item(i)), 0);
		expect_range(&l, 0, i + 1);
		assert_null(l.v[l.n]);
	}
	assert_non_null(l.slots);
	strlist_free(&l);
	assert_null(l.v);
	assert_false(strlist_has(&l, item(0)));
}

static void what_was_removed_is_not_there_and_may_come_back(void **state)
{
	struct strlist l = { 0 };

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(strlist_add(&l, item(i)), 0);
	for (unsigned i = 0; i < 150; i++) {
		strlist_remove(&l, 0);
		expect_range(&l, i + 1, 200);
	}
	for (unsigned i = 200; i < 400; i++)
		assert_int_equal(strlist_add(&l, item(i)), 0);
	expect_range(&l, 150, 400);
	strlist_free(&l);
}

/* As policy_set() does with a variable that is set twice. */
static void who_changes_the_end_by_hand_gets_true_answers(void **state)
{
	struct strlist l = { 0 };
	char *last;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(strlist_add(&l, item(i)), 0);
	last = l.v[--l.n];
	assert_false(strlist_has(&l, item(99)));
	assert_true(strlist_has(&l, item(98)));
	l.v[l.n++] = last;
	expect_range(&l, 0, 100);
	last = l.v[--l.n];
	strlist_remove(&l, 0);
	l.v[l.n++] = last;
	l.v[l.n] = NULL;
	expect_range(&l, 1, 100);
	assert_int_equal(strlist_add(&l, item(100)), 0);
	expect_range(&l, 1, 101);
	strlist_free(&l);
}

static void a_copy_is_a_list_of_its_own(void **state)
{
	struct strlist l = { 0 }, copy = { 0 };

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(strlist_add(&l, item(i)), 0);
	assert_int_equal(strlist_copy(&copy, &l), 0);
	strlist_free(&l);
	expect_range(&copy, 0, 100);
	strlist_free(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_of_any_length_knows_what_it_has),
		cmocka_unit_test(what_was_removed_is_not_there_and_may_come_back),
		cmocka_unit_test(who_changes_the_end_by_hand_gets_true_answers),
		cmocka_unit_test(a_copy_is_a_list_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
