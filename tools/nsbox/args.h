/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line as data: one table of flags that only the command has, joined
 * with the key table of the library. The parser, the help, the completion and
 * the manual's check all walk the same two tables.
 *
 * Runs in the command, before anything else. Mustn't open, read or print
 * anything; calls no library function but nsbox_key_info().
 */
#ifndef NSBOX_ARGS_H
#define NSBOX_ARGS_H

#include "nsbox.h"

#include <stdbool.h>
#include <stddef.h>

/* Which verb is parsed; rows say which verbs they belong to. */
enum {
	FOR_RUN = 1 << 0,
	FOR_CODE = 1 << 1,
	FOR_SHOW = 1 << 2,	/* policy show */
	FOR_CHECK = 1 << 3,	/* policy check */
	FOR_EXPLAIN = 1 << 4,	/* policy explain */
	FOR_SCHEMA = 1 << 5,	/* policy schema */
	FOR_DOCTOR = 1 << 6,
	FOR_HELP = 1 << 7,
	FOR_VERSION = 1 << 8,
	FOR_TOP = 1 << 9,
	FOR_SWEEP = 1 << 10,
	FOR_RPC = 1 << 11,
	FOR_STATIC = 1 << 12,	/* check: nothing of the source runs */
	FOR_CACHE_LIST = 1 << 13, /* cache list */
	FOR_CACHE_PRUNE = 1 << 14, /* cache prune */
	FOR_BOX = FOR_RUN | FOR_CODE | FOR_EXPLAIN,	/* makes a run request */
	FOR_POLICY = FOR_BOX | FOR_SHOW | FOR_CHECK | FOR_STATIC, /* takes the key table */
	FOR_EVERY = (1 << 15) - 1
};

enum args_group {
	GROUP_RUN,
	GROUP_FILES,
	GROUP_NETWORK,
	GROUP_LIMITS,
	GROUP_ENVIRONMENT,
	GROUP_CODE,
	GROUP_OUTPUT,
	GROUP_POLICY,
	GROUP_OTHER,
	GROUP_COUNT
};

enum args_kind {
	ARG_TRUE,	/* bool */
	ARG_TEXT,	/* const char *: the last one counts */
	ARG_LIST,	/* struct args_list: every one counts */
	ARG_FD,		/* int: a descriptor number */
	ARG_SETTING	/* KEY=VALUE onto settings */
};

struct args_list {
	const char **v;	/* NULL-terminated once anything was added */
	size_t n;
};

/* One policy key as it was given, in the order of the command line. */
struct args_setting {
	const char *key, *value;
	size_t key_len;	/* of --set, where key points into KEY=VALUE; else 0 */
	const char *flag; /* "--memory": what the user typed, for messages */
};

/* Every string is borrowed from argv or static. */
struct args {
	unsigned verb;		/* one FOR_* */
	struct args_list policies, env, env_files, operands;
	struct args_setting *settings;
	size_t setting_count;
	const char *workdir, *interpreter, *project, *artifacts;
	const char *code, *language, *tier, *completion, *name, *to;
	const char *interval, *last, *sort, *older_than;
	int status_fd;		/* -1: none */
	bool keep_stdin, tty, json, dry_run, explain, ast, no_imports;
	bool quiet, verbose, help, version, result;
	bool raw_escapes, once, schema, all;
};
#define ARGS_INIT { .status_fd = -1 }

/* A flag that is no policy key. */
struct args_row {
	const char *flag;	/* "--json" */
	char letter;		/* 'q' for -q, or 0 */
	const char *value_name;	/* "FILE", or NULL: takes no value */
	unsigned verbs;
	enum args_group group;
	enum args_kind kind;
	size_t field;		/* offsetof(struct args, ...) */
	const char *const *choices; /* NULL-terminated, or NULL */
	const char *help;
};
extern const struct args_row args_rows[];
extern const size_t args_row_count;

/* Either a row or a key. */
struct args_flag {
	const struct args_row *row;	/* NULL: a key */
	struct nsbox_key key;
};

/*
 * The i-th flag of @verb over both tables: false past the end. A key whose flag
 * or letter is a row's as well is the row's (-e names two keys).
 */
bool args_flag_at(unsigned verb, size_t i, struct args_flag *out);
const char *args_flag_name(const struct args_flag *f);
char args_flag_letter(const struct args_flag *f);
const char *args_flag_value(const struct args_flag *f);	/* NULL: none */
const char *args_flag_help(const struct args_flag *f);
const char *const *args_flag_choices(const struct args_flag *f);
enum args_group args_flag_group(const struct args_flag *f);

/* "run", "policy show", ... of one FOR_*. */
const char *args_verb_name(unsigned verb);

/*
 * Parse argv[0..argc), which starts behind the verb. Flags and operands mix until
 * the first operand of run, code and explain: what follows it is the program's.
 * On failure a->json still says whether the caller wants JSON. args_free() either
 * way.
 */
int args_parse(struct args *a, unsigned verb, int argc, char *const *argv,
	       struct nsbox_error *err);
void args_free(struct args *a);

#endif
