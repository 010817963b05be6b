/*
 * A policy, a request and the plan that view_build() makes of them, in a folder of its
 * own. Included by each test of view.c, which is a program of its own.
 */
#ifndef TESTS_UNIT_VIEW_BUILD_H
#define TESTS_UNIT_VIEW_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "rootfs/paths.h"
#include "rootfs/source.h"
#include "rootfs/view.h"

static char dir[64];
static struct policy policy;
static struct view view;
static struct view_request request;
static struct plan *plan;
static struct nsbox_error err;

static inline void reset(void)
{
	free(plan);
	plan = NULL;
	view_free(&view);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
}

static inline int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/nsbox-view-XXXXXX");
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	if (!mkdtemp(dir) || policy_init(&policy, &err) < 0)
		return -1;
	strlist_free(&policy.fs.protect);
	strlist_free(&policy.fs.protect_home);
	request = (struct view_request){
		.policy = &policy, .caller_cwd = "/", .owner_uid = geteuid(),
		.owner_gid = getegid(), .stage = 6,
	};
	return 0;
}

static inline int finish(void **state)
{
	char cmd[128];

	(void)state;
	reset();
	policy_free(&policy);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static inline const char *in(const char *fmt, ...)
{
	static char paths[8][512];
	static int at;
	char *p = paths[at = (at + 1) % 8];
	int n = snprintf(p, 512, "%s/", dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p + n, (size_t)(512 - n), fmt, ap);
	va_end(ap);
	return p;
}

static inline void shell(const char *text)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, text);
	assert_int_equal(system(cmd), 0);
}

static inline int build(void)
{
	struct plan_builder b = { 0 };
	int rc;

	reset();
	rc = view_build(&b, &request, &view, &err);
	if (rc == 0) {
		plan = plan_freeze(&b, &err);
		assert_non_null(plan);
	}
	plan_builder_free(&b);
	return rc;
}

static inline void must_build(void)
{
	int rc = build();

	if (rc != 0)
		fail_msg("%s (%s)", err.message, err.hint);
}

static inline const char *dst_of(const struct op *op)
{
	const char *dst = plan_str(plan, op->dst);

	return dst ? dst : "";
}

static inline const char *src_of(const struct op *op)
{
	const char *src = plan_str(plan, op->src);

	return src ? src : "";
}

/* The n-th operation of a kind at dst (absolute path in the box), or NULL. */
static inline const struct op *find(enum op_kind kind, const char *dst)
{
	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan_ops(plan)[i];

		if (op->kind == kind && strcmp(dst_of(op), dst + (dst[0] == '/')) == 0)
			return op;
	}
	return NULL;
}

static inline bool names(const char *dst)
{
	for (int k = 0; k < OP_COUNT; k++)
		if (find((enum op_kind)k, dst))
			return true;
	return false;
}

static inline bool comes_before(const struct op *a, const struct op *b)
{
	assert_non_null(a);
	assert_non_null(b);
	return a < b;
}

static inline void add(struct strlist *l, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert_int_equal(strlist_add(l, text), 0);
}

static inline void assert_refused(int code, const char *words)
{
	assert_int_equal(build(), code);
	if (!strstr(err.message, words))
		fail_msg("\"%s\" does not say \"%s\"", err.message, words);
	assert_null(view.workdir);
	strlist_free(&policy.fs.read);
	strlist_free(&policy.fs.write);
	strlist_free(&policy.fs.tmpfs);
	strlist_free(&policy.fs.hidden);
	strlist_free(&policy.devices.allow);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

#endif
