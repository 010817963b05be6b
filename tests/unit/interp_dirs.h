/*
 * A folder of its own for each test of interpreter discovery, and what fills it:
 * `base` is HOME, the answers are remembered in base/cache.
 */
#ifndef TESTS_UNIT_INTERP_DIRS_H
#define TESTS_UNIT_INTERP_DIRS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rootfs/interp.h"
#include "rootfs/paths.h"

#define SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin"

static char base[64], cache[96], start[256];
static struct interp found;
static struct nsbox_error err;

static inline void run(const char *fmt, ...)
{
	char cmd[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd) != 0)
		fail_msg("%s", cmd);
}

static inline int begin(void **state)
{
	(void)state;
	strcpy(base, "/tmp/nsbox-interp-XXXXXX");
	if (!mkdtemp(base) || !getcwd(start, sizeof(start)))
		return -1;
	snprintf(cache, sizeof(cache), "%s/cache", base);
	setenv("HOME", base, 1);
	found = (struct interp){ 0 };
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	return 0;
}

static inline int finish(void **state)
{
	char cmd[256];

	(void)state;
	interp_free(&found);
	snprintf(cmd, sizeof(cmd), "chmod -R u+rwX %s; rm -rf %s", base, base);
	return chdir(start) || system(cmd);
}

static inline const char *in(const char *fmt, ...)
{
	static char paths[4][512];
	static int at;
	char *p = paths[at = (at + 1) % 4];
	int n = snprintf(p, 512, "%s/", base);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p + n, (size_t)(512 - n), fmt, ap);
	va_end(ap);
	return p;
}

static inline void write_script(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	chmod(path, 0755);
}

static inline int find(const char *language, const char *program, const char *path)
{
	int rc;

	interp_free(&found);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	rc = interp_find(&found, language, program, path, cache, &err);
	if (rc < 0)
		print_message("%s | %s\n", err.message, err.hint);
	return rc;
}

static inline size_t lines_of(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t n = 0;
	int c;

	if (!f)
		return 0;
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static inline void make_venv(const char *dir)
{
	run("/usr/bin/python3 -m venv --without-pip %s", dir);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, finish)

#endif
