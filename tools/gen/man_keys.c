/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of keys in nsbox(5), from the key table: man_keys FILE rewrites what
 * stands between the two markers of FILE, man_keys --check FILE says by its exit
 * status whether it is right. Runs on the developer's machine and in the tests;
 * no part of any product.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "policy/policy.h"

#define MARK_BEGIN ".\\\" begin keys: made by tools/gen/man_keys.c\n"
#define MARK_END ".\\\" end keys\n"
#define PAGE_MAX (1u << 20)

static const char *const type_names[] = {
	[KEY_BOOL] = "bool",   [KEY_SIZE] = "size",	[KEY_TIME] = "time",
	[KEY_SHARE] = "share", [KEY_COUNT] = "count",	[KEY_CHOICE] = "choice",
	[KEY_STRING] = "string", [KEY_LIST] = "list",	[KEY_LIST_OR_NULL] = "list or null",
};

/* Text of a table as mdoc text: a backslash or a leading dot would be a command. */
static void put_sentence(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	else if (text[strcspn(text, " :")] == ' ') /* "disabled: ..." is a value's name */
		putc(toupper((unsigned char)*text++), out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else
			putc(*text, out);
	}
}

static const char *number(const struct key *k, uint64_t value, char *text)
{
	switch (k->type) {
	case KEY_SIZE:
		return num_size_text(value, text);
	case KEY_TIME:
		return num_time_text(value, text);
	case KEY_SHARE:
		return num_share_text(value, text);
	default:
		snprintf(text, 32, "%llu", (unsigned long long)value);
		return text;
	}
}

static bool is_number(const struct key *k)
{
	return k->type == KEY_SIZE || k->type == KEY_TIME || k->type == KEY_SHARE ||
	       k->type == KEY_COUNT;
}

/* The default of a list is one item a line. */
static void put_preset(FILE *out, const char *preset)
{
	if (!preset || !*preset) {
		fputs("Unset by default.\n", out);
		return;
	}
	fputs("Default:", out);
	while (*preset) {
		size_t len = strcspn(preset, "\n");

		fprintf(out, "\n.Ql \\&%.*s", (int)len, preset);
		preset += len + (preset[len] == '\n');
		fputs(*preset ? " ," : " .\n", out);
	}
}

static void put_values(FILE *out, const struct key *k)
{
	char low[32], high[32];

	fprintf(out, "Type: %s.\n", type_names[k->type]);
	put_preset(out, k->preset);
	if (is_number(k))
		fprintf(out, "Range: %s to %s.\n", number(k, k->min, low),
			number(k, k->max, high));
	for (size_t i = 0; k->choices && k->choices[i]; i++)
		fprintf(out, "%s.Cm %s %s\n", i ? "" : "Values:\n", k->choices[i],
			k->choices[i + 1] ? "," : ".");
	if (k->flag)
		fprintf(out, "Flag:\n.Fl %s", k->flag + 1);
	if (k->flag && k->letter)
		fprintf(out, " , Fl %c", k->letter);
	fputs(k->flag ? " .\n" : "", out);
}

static void put_enforcers(FILE *out, const struct key *k)
{
	static const struct { unsigned by; const char *name; } names[] = {
		{ BY_MOUNTS, "the mount namespace" },	{ BY_LANDLOCK, "Landlock" },
		{ BY_SECCOMP, "seccomp" },		{ BY_CGROUP, "a cgroup" },
		{ BY_RLIMIT, "resource limits" },	{ BY_SUPERVISOR, "the launcher" },
		{ BY_NETNS, "the network namespace" },	{ BY_CODE, "decision before the run" },
	};
	bool is_first = true;

	if (k->by & BY_NOBODY) {
		fputs("Not enforceable in this version: anything but the default is refused.\n",
		      out);
		return;
	}
	if (k->by == BY_CODE) {
		fputs("Decided before the run.\n", out);
		return;
	}
	fputs("Enforced by ", out);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!(k->by & names[i].by))
			continue;
		fprintf(out, "%s%s", is_first ? "" : ", ", names[i].name);
		is_first = false;
	}
	fputs(".\n", out);
}

static void put_keys(FILE *out)
{
	fputs(MARK_BEGIN ".Bl -tag -width Ds\n", out);
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *k = &policy_keys[i];

		fprintf(out, ".It Cm %s\n", k->name);
		put_sentence(out, k->help);
		fputs(".\n", out);
		put_values(out, k);
		put_enforcers(out, k);
	}
	fputs(".El\n" MARK_END, out);
}

/* The page as it should be: *out is malloc'ed. */
static int rewrite(const char *page, char **out)
{
	const char *begin = strstr(page, MARK_BEGIN);
	const char *end = begin ? strstr(begin, MARK_END) : NULL;
	size_t len = 0;
	FILE *f;

	if (!end)
		return -1;
	f = open_memstream(out, &len);
	if (!f)
		return -1;
	fwrite(page, 1, (size_t)(begin - page), f);
	put_keys(f);
	fputs(end + strlen(MARK_END), f);
	return fclose(f);
}

static char *read_page(const char *name)
{
	FILE *f = fopen(name, "re");
	char *text = f ? calloc(1, PAGE_MAX) : NULL;

	if (text && (fread(text, 1, PAGE_MAX - 1, f) == PAGE_MAX - 1 || ferror(f))) {
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

static int write_page(const char *name, const char *text)
{
	FILE *f = fopen(name, "we");

	if (!f)
		return -1;
	fputs(text, f);
	return fclose(f);
}

int main(int argc, char **argv)
{
	bool is_check = argc == 3 && strcmp(argv[1], "--check") == 0;
	const char *name = is_check ? argv[2] : argv[argc - 1];
	owned_mem char *page = NULL, *wanted = NULL;

	if (argc != 2 && !is_check) {
		fputs("usage: man_keys [--check] FILE\n", stderr);
		return 2;
	}
	page = read_page(name);
	if (!page || rewrite(page, &wanted) < 0) {
		fprintf(stderr, "man_keys: %s: %s\n", name,
			page ? "no markers" : strerror(errno));
		return 2;
	}
	if (strcmp(page, wanted) == 0)
		return 0;
	if (is_check) {
		fprintf(stderr, "man_keys: the keys in %s differ from the table; run man_keys %s\n",
			name, name);
		return 1;
	}
	return write_page(name, wanted) < 0 ? 2 : 0;
}
