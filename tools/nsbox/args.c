/* SPDX-License-Identifier: Apache-2.0 */
/* See args.h. Runs in the command, before anything was opened or read. */
#include "tools/nsbox/args.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/nsbox/nearest.h"
#include "tools/nsbox/say.h"

#define FIELD(name) offsetof(struct args, name)

static const char *const tiers[] = {
	"static", "local", "docker", "local_unsafe", "docker_unsafe", NULL
};
static const char *const languages[] = { "python", "javascript", "bash", NULL };
static const char *const sorts[] = { "cpu", "age", NULL };
static const char *const shells[] = { "bash", NULL };

/* clang-format off */
const struct args_row args_rows[] = {
	{ "--code", 'c', "CODE", FOR_CODE | FOR_STATIC, GROUP_RUN, ARG_TEXT, FIELD(code), NULL,
	  "the source text itself, instead of FILE" },
	{ "--language", 0, "LANG", FOR_CODE | FOR_STATIC, GROUP_RUN, ARG_TEXT, FIELD(language), languages,
	  "python, javascript or bash; else the extension of FILE decides, else python" },
	{ "--tier", 0, "TIER", FOR_BOX, GROUP_RUN, ARG_TEXT, FIELD(tier), tiers,
	  "how strongly to isolate: local (the default); static only checks the source; "
	  "local_unsafe isolates nothing" },
	{ "--interpreter", 0, "PATH", FOR_BOX | FOR_STATIC, GROUP_RUN, ARG_TEXT, FIELD(interpreter), NULL,
	  "this python3 or node instead of the one on PATH (also NSBOX_PYTHON, NSBOX_NODE)" },
	{ "--project", 0, "DIR", FOR_BOX | FOR_STATIC, GROUP_RUN, ARG_TEXT, FIELD(project), NULL,
	  "show this folder read-only; its modules come last on the module path" },
	{ "--workdir", 'w', "DIR", FOR_BOX, GROUP_RUN, ARG_TEXT, FIELD(workdir), NULL,
	  "start here, as the box sees it; else your own folder if the box shows it, else "
	  "/workspace" },
	{ "--ast", 0, NULL, FOR_CODE | FOR_STATIC, GROUP_CODE, ARG_TRUE, FIELD(ast), NULL,
	  "the record of a checked Python source has its syntax tree as well" },
	{ "--name", 0, "NAME", FOR_RUN | FOR_CODE, GROUP_RUN, ARG_TEXT, FIELD(name), NULL,
	  "what 'nsbox top' calls the box; else the name of the command or the language" },
	{ "--stdin", 'i', NULL, FOR_BOX, GROUP_RUN, ARG_TRUE, FIELD(keep_stdin), NULL,
	  "pass standard input on; without it the program reads an empty one" },
	{ "--tty", 't', NULL, FOR_BOX, GROUP_RUN, ARG_TRUE, FIELD(tty), NULL,
	  "a terminal of the box's own, relayed to yours (implies -i)" },
	{ "--env", 'e', "NAME[=VALUE]", FOR_POLICY, GROUP_ENVIRONMENT, ARG_LIST, FIELD(env), NULL,
	  "set a variable, or pass yours on by name; repeatable" },
	{ "--env-file", 0, "FILE", FOR_BOX, GROUP_ENVIRONMENT, ARG_LIST, FIELD(env_files), NULL,
	  "the same, one a line, kept out of argv and of every printed policy; repeatable" },
	{ "--no-imports", 0, NULL, FOR_POLICY, GROUP_CODE, ARG_TRUE, FIELD(no_imports), NULL,
	  "no module may be imported (the empty --allow-import list)" },
	{ "--artifacts", 0, "DIR", FOR_BOX, GROUP_OUTPUT, ARG_TEXT, FIELD(artifacts), NULL,
	  "copy the files that the run made into this folder of the host" },
	{ "--json", 0, NULL, FOR_BOX | FOR_STATIC | FOR_SHOW | FOR_DOCTOR | FOR_VERSION | FOR_TOP |
	  FOR_SWEEP | FOR_CACHE_LIST | FOR_CACHE_PRUNE, GROUP_OUTPUT, ARG_TRUE, FIELD(json), NULL,
	  "exactly one JSON object on standard output (top: one a refresh, each a line)" },
	{ "--once", 0, NULL, FOR_TOP, GROUP_OUTPUT, ARG_TRUE, FIELD(once), NULL,
	  "print once and end" },
	{ "--interval", 0, "TIME", FOR_TOP, GROUP_OUTPUT, ARG_TEXT, FIELD(interval), NULL,
	  "between two refreshes: seconds, or with ms (default 1s)" },
	{ "--last", 0, "N", FOR_TOP, GROUP_OUTPUT, ARG_TEXT, FIELD(last), NULL,
	  "how many of the boxes that have ended are shown (default 10)" },
	{ "--sort", 0, "BY", FOR_TOP, GROUP_OUTPUT, ARG_TEXT, FIELD(sort), sorts,
	  "cpu: the busiest first (the default); age: the youngest" },
	{ "--older-than", 0, "TIME", FOR_CACHE_PRUNE, GROUP_RUN, ARG_TEXT, FIELD(older_than), NULL,
	  "what no run has used for so long: 30d, 12h, 90m, 10s" },
	{ "--all", 0, NULL, FOR_CACHE_PRUNE, GROUP_RUN, ARG_TRUE, FIELD(all), NULL,
	  "everything that no run uses just now" },
	{ "--status-fd", 0, "N", FOR_RUN | FOR_CODE | FOR_STATIC, GROUP_OUTPUT, ARG_FD, FIELD(status_fd), NULL,
	  "write the JSON record to this descriptor, whatever happens to the output" },
	{ "--raw-escapes", 0, NULL, FOR_RUN | FOR_CODE, GROUP_OUTPUT, ARG_TRUE, FIELD(raw_escapes), NULL,
	  "pass every escape sequence to your terminal, clipboard and title included" },
	{ "--quiet", 'q', NULL, FOR_RUN | FOR_CODE | FOR_STATIC, GROUP_OUTPUT, ARG_TRUE, FIELD(quiet), NULL,
	  "no words about how the run ended (errors of nsbox are still told)" },
	{ "--verbose", 'v', NULL, FOR_RUN | FOR_CODE, GROUP_OUTPUT, ARG_TRUE, FIELD(verbose), NULL,
	  "also say what was enforced, what it cost and which files came out" },
	{ "--policy", 'p', "PROFILE|FILE", FOR_POLICY, GROUP_POLICY, ARG_LIST, FIELD(policies), NULL,
	  "start from a built-in profile, or read a policy file (name with / or .json)" },
	{ "--set", 0, "KEY=VALUE", FOR_POLICY, GROUP_POLICY, ARG_SETTING, 0, NULL,
	  "set any policy key of nsbox(5); list keys append, an empty VALUE clears" },
	{ "--dry-run", 0, NULL, FOR_RUN | FOR_CODE, GROUP_POLICY, ARG_TRUE, FIELD(dry_run), NULL,
	  "print each operation that would be done, and do none" },
	{ "--explain", 0, NULL, FOR_RUN | FOR_CODE, GROUP_POLICY, ARG_TRUE, FIELD(explain), NULL,
	  "print each stage, its promise, and what this policy makes of it" },
	{ "--to", 0, "HOST[:PORT][/udp]", FOR_EXPLAIN, GROUP_NETWORK, ARG_TEXT, FIELD(to), NULL,
	  "say instead whether a box could reach this, by which rule; 122 when not" },
	{ "--result", 0, NULL, FOR_SCHEMA, GROUP_OUTPUT, ARG_TRUE, FIELD(result), NULL,
	  "the schema of the result record instead of that of policy files" },
	{ "--schema", 0, NULL, FOR_RPC, GROUP_OUTPUT, ARG_TRUE, FIELD(schema), NULL,
	  "print the JSON schema of requests, answers and events, and end" },
	{ "--completion", 0, "SHELL", FOR_HELP, GROUP_OUTPUT, ARG_TEXT, FIELD(completion), shells,
	  "print a completion script for this shell" },
	{ "--help", 'h', NULL, FOR_EVERY, GROUP_OTHER, ARG_TRUE, FIELD(help), NULL,
	  "print this help" },
	{ "--version", 0, NULL, FOR_EVERY, GROUP_OTHER, ARG_TRUE, FIELD(version), NULL,
	  "print the version" },
};
const size_t args_row_count = CLI_COUNT(args_rows);
/* clang-format on */

/* --- the two tables as one list ------------------------------------------- */

static bool row_shadows(const struct nsbox_key *k)
{
	for (size_t i = 0; i < args_row_count; i++) {
		if (k->letter && k->letter == args_rows[i].letter)
			return true;
		if (strcmp(k->flag, args_rows[i].flag) == 0)
			return true;
	}
	return false;
}

bool args_flag_at(unsigned verb, size_t i, struct args_flag *out)
{
	struct nsbox_key key;

	for (size_t r = 0; r < args_row_count; r++) {
		if (!(args_rows[r].verbs & verb) || i-- > 0)
			continue;
		*out = (struct args_flag){ .row = &args_rows[r] };
		return true;
	}
	if (!(verb & FOR_POLICY))
		return false;
	for (size_t k = 0; nsbox_key_info(k, &key) == 0 && key.name; k++) {
		if (!key.flag || row_shadows(&key) || i-- > 0)
			continue;
		*out = (struct args_flag){ .key = key };
		return true;
	}
	return false;
}

const char *args_flag_name(const struct args_flag *f)
{
	return f->row ? f->row->flag : f->key.flag;
}

char args_flag_letter(const struct args_flag *f)
{
	return f->row ? f->row->letter : f->key.letter;
}

const char *args_flag_value(const struct args_flag *f)
{
	return f->row ? f->row->value_name : f->key.value_name;
}

const char *args_flag_help(const struct args_flag *f)
{
	return f->row ? f->row->help : f->key.help;
}

const char *const *args_flag_choices(const struct args_flag *f)
{
	return f->row ? f->row->choices : f->key.choices;
}

enum args_group args_flag_group(const struct args_flag *f)
{
	static const struct { const char *prefix; enum args_group group; } groups[] = {
		{ "fs.", GROUP_FILES },		{ "devices.", GROUP_FILES },
		{ "net.", GROUP_NETWORK },	{ "limits.", GROUP_LIMITS },
		{ "process.", GROUP_LIMITS },	{ "env.", GROUP_ENVIRONMENT },
		{ "imports.", GROUP_CODE },	{ "packages.", GROUP_CODE },
		{ "artifacts.", GROUP_OUTPUT },
	};

	if (f->row)
		return f->row->group;
	for (size_t i = 0; i < CLI_COUNT(groups); i++) {
		if (strncmp(f->key.name, groups[i].prefix, strlen(groups[i].prefix)) == 0)
			return groups[i].group;
	}
	return GROUP_POLICY;
}

const char *args_verb_name(unsigned verb)
{
	static const struct { unsigned verb; const char *name; } names[] = {
		{ FOR_RUN, "run" },		{ FOR_CODE, "code" },
		{ FOR_SHOW, "policy show" },	{ FOR_CHECK, "policy check" },
		{ FOR_EXPLAIN, "policy explain" }, { FOR_SCHEMA, "policy schema" },
		{ FOR_DOCTOR, "doctor" },	{ FOR_HELP, "help" },
		{ FOR_VERSION, "version" },	{ FOR_TOP, "top" },
		{ FOR_SWEEP, "sweep" },		{ FOR_STATIC, "check" },
		{ FOR_RPC, "rpc" },
		{ FOR_CACHE_LIST, "cache list" }, { FOR_CACHE_PRUNE, "cache prune" },
	};

	for (size_t i = 0; i < CLI_COUNT(names); i++) {
		if (names[i].verb == verb)
			return names[i].name;
	}
	return "?";
}

/* --- looking a flag up ----------------------------------------------------- */

/* By name or by letter, rows first. Cheap: it is on the path of every run. */
static bool find(unsigned verb, const char *name, size_t len, struct args_flag *out)
{
	bool is_letter = len == 2 && name[1] != '-';

	for (size_t r = 0; r < args_row_count; r++) {
		const struct args_row *row = &args_rows[r];

		if (!(row->verbs & verb))
			continue;
		if (is_letter ? row->letter == name[1] :
				strncmp(row->flag, name, len) == 0 && !row->flag[len]) {
			*out = (struct args_flag){ .row = row };
			return true;
		}
	}
	*out = (struct args_flag){ 0 };
	for (size_t k = 0; (verb & FOR_POLICY) && nsbox_key_info(k, &out->key) == 0; k++) {
		const struct nsbox_key *key = &out->key;

		if (!key->name || !key->flag)
			continue;
		if (is_letter ? key->letter == name[1] :
				strncmp(key->flag, name, len) == 0 && !key->flag[len])
			return !row_shadows(key);
	}
	return false;
}

static int unknown(unsigned verb, const char *name, size_t len, struct nsbox_error *err)
{
	char word[64];
	struct nearest n = NEAREST_INIT(word);
	const char *verb_name = args_verb_name(verb);
	struct args_flag f;

	if (len >= sizeof(word))
		len = sizeof(word) - 1;
	memcpy(word, name, len);
	word[len] = '\0';
	if (len > 3) { /* a letter or two is near to everything */
		for (size_t i = 0; args_flag_at(verb, i, &f); i++)
			nearest_offer(&n, args_flag_name(&f));
	}
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	else
		cli_hint(err, "'nsbox %s --help' lists the flags", verb_name);
	return cli_fail(err, NSBOX_E_USAGE, "unknown flag '%s' of 'nsbox %s'", word, verb_name);
}

/* --- storing what was given ------------------------------------------------- */

static int list_add(struct args_list *l, const char *text, struct nsbox_error *err)
{
	const char **v = realloc(l->v, (l->n + 2) * sizeof(*v));

	if (!v)
		return cli_nomem(err);
	l->v = v;
	l->v[l->n++] = text;
	l->v[l->n] = NULL;
	return 0;
}

static int setting_add(struct args *a, const struct args_setting *s, struct nsbox_error *err)
{
	struct args_setting *v = realloc(a->settings, (a->setting_count + 1) * sizeof(*v));

	if (!v)
		return cli_nomem(err);
	a->settings = v;
	a->settings[a->setting_count++] = *s;
	return 0;
}

static int set_pair(struct args *a, const char *pair, struct nsbox_error *err)
{
	const char *eq = strchr(pair, '=');
	struct args_setting s = { .key = pair, .flag = "--set" };

	if (!eq || eq == pair) {
		cli_hint(err, "for example --set limits.pids=64");
		return cli_fail(err, NSBOX_E_USAGE, "--set wants KEY=VALUE, not '%s'", pair);
	}
	s.key_len = (size_t)(eq - pair);
	s.value = eq + 1;
	return setting_add(a, &s, err);
}

static int set_fd(int *out, const char *flag, const char *text, struct nsbox_error *err)
{
	int value = 0;

	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9' || value > (INT_MAX - 9) / 10)
			return cli_fail(err, NSBOX_E_USAGE,
					"%s wants a descriptor number, not '%s'", flag, text);
		value = value * 10 + (*p - '0');
	}
	if (!*text || value == 0) {
		cli_hint(err, "give an open descriptor above 0, as in --status-fd 3 3>status.json");
		return cli_fail(err, NSBOX_E_USAGE, "%s cannot be '%s'", flag, text);
	}
	*out = value;
	return 0;
}

static int check_choice(const struct args_row *row, const char *value, struct nsbox_error *err)
{
	struct nearest n = NEAREST_INIT(value);

	if (row->kind != ARG_TEXT || !row->choices || row->field == FIELD(language))
		return 0; /* languages have short names too: code.c knows them */
	for (size_t i = 0; row->choices[i]; i++) {
		if (strcmp(row->choices[i], value) == 0)
			return 0;
		nearest_offer(&n, row->choices[i]);
	}
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	else
		cli_hint(err, "'nsbox help' lists what there is");
	return cli_fail(err, NSBOX_E_USAGE, "unknown value '%s' of %s", value, row->flag);
}

/* --net veth: a network that is filtered, by another path. */
static int store_veth(struct args *a, struct nsbox_error *err)
{
	const struct args_setting path = { .key = "net.path", .value = "veth", .flag = "--net" };
	const struct args_setting mode = { .key = "net.mode", .value = "filtered", .flag = "--net" };
	int r = setting_add(a, &mode, err);

	return r < 0 ? r : setting_add(a, &path, err);
}

/* An empty text empties a list: by --deny-out "$UNSET", all that a policy denies. Who wants
 * that says so with --set. */
static int store_key(struct args *a, const struct nsbox_key *key, const char *value,
		     struct nsbox_error *err)
{
	const struct args_setting s = { .key = key->name, .flag = key->flag,
					.value = value ? value : "true" };

	if (strcmp(key->flag, "--net") == 0 && strcmp(s.value, "veth") == 0)
		return store_veth(a, err);
	if (!*s.value && strcmp(key->type, "list") == 0) {
		cli_hint(err, "'--set %s=' is an empty list", key->name);
		return cli_fail(err, NSBOX_E_USAGE, "%s wants %s, not ''", key->flag,
				key->value_name);
	}
	return setting_add(a, &s, err);
}

static int store(struct args *a, const struct args_flag *f, const char *value,
		 struct nsbox_error *err)
{
	void *field;

	if (!f->row)
		return store_key(a, &f->key, value, err);
	field = (char *)a + f->row->field;
	switch (f->row->kind) {
	case ARG_TRUE:
		*(bool *)field = true;
		return 0;
	case ARG_TEXT:
		*(const char **)field = value;
		return check_choice(f->row, value, err);
	case ARG_LIST:
		return list_add(field, value, err);
	case ARG_FD:
		return set_fd(field, f->row->flag, value, err);
	case ARG_SETTING:
		return set_pair(a, value, err);
	}
	return cli_fail(err, NSBOX_E_USAGE, "%s cannot be stored", f->row->flag);
}

/* --- walking argv ------------------------------------------------------------ */

struct walk {
	struct args *args;
	int argc, at;
	char *const *argv;
};

static int need_value(struct walk *w, const struct args_flag *f, const char **value,
		      struct nsbox_error *err)
{
	if (w->at >= w->argc)
		return cli_fail(err, NSBOX_E_USAGE, "%s needs a value: %s", args_flag_name(f),
				args_flag_value(f));
	*value = w->argv[w->at++];
	return 0;
}

static int take_long(struct walk *w, const char *arg, struct nsbox_error *err)
{
	const char *eq = strchr(arg, '=');
	size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
	const char *value = eq ? eq + 1 : NULL;
	struct args_flag f;
	int r;

	if (!find(w->args->verb, arg, len, &f))
		return unknown(w->args->verb, arg, len, err);
	if (!args_flag_value(&f) && value && f.row)
		return cli_fail(err, NSBOX_E_USAGE, "%s takes no value", f.row->flag);
	if (args_flag_value(&f) && !value) {
		r = need_value(w, &f, &value, err);
		if (r < 0)
			return r;
	}
	return store(w->args, &f, value, err);
}

/* "-it", "-m1G", "-im 1G": letters until one that takes the rest as its value. */
static int take_letters(struct walk *w, const char *arg, struct nsbox_error *err)
{
	for (const char *p = arg + 1; *p; p++) {
		char name[3] = { '-', *p, '\0' };
		const char *value = NULL;
		struct args_flag f;
		int r = 0;

		if (!find(w->args->verb, name, 2, &f))
			return unknown(w->args->verb, name, 2, err);
		if (args_flag_value(&f) && p[1])
			value = p + 1;
		else if (args_flag_value(&f))
			r = need_value(w, &f, &value, err);
		if (r == 0)
			r = store(w->args, &f, value, err);
		if (r < 0 || value)
			return r;
	}
	return 0;
}

/* The wish for JSON counts even when it stands behind the mistake. */
static void look_for_json(struct walk *w)
{
	struct args_flag f;

	if (!find(w->args->verb, "--json", 6, &f))
		return;
	for (int i = w->at; i < w->argc && strcmp(w->argv[i], "--") != 0; i++) {
		if (strcmp(w->argv[i], "--json") == 0)
			w->args->json = true;
	}
}

static int check_conflicts(const struct args *a, struct nsbox_error *err)
{
	bool imports = false;

	for (size_t i = 0; i < a->setting_count; i++)
		imports |= strcmp(a->settings[i].flag, "--allow-import") == 0;
	const struct { bool both; const char *first, *second; } conflicts[] = {
		{ a->json && a->tty, "--json", "-t" },
		{ a->no_imports && imports, "--no-imports", "--allow-import" },
		{ a->quiet && a->verbose, "-q", "-v" },
		{ a->all && a->older_than, "--all", "--older-than" },
		{ a->dry_run && a->explain, "--dry-run", "--explain" },
		{ a->status_fd >= 0 && (a->dry_run || a->explain), "--status-fd",
		  "--dry-run or --explain" },
	};

	for (size_t i = 0; i < CLI_COUNT(conflicts); i++) {
		if (!conflicts[i].both)
			continue;
		cli_hint(err, "leave one of them out");
		return cli_fail(err, NSBOX_E_USAGE, "%s and %s exclude each other",
				conflicts[i].first, conflicts[i].second);
	}
	return 0;
}

static int take_operand(struct walk *w, const char *arg, struct nsbox_error *err)
{
	int r = list_add(&w->args->operands, arg, err);

	/* What follows the command or the file is the program's own. */
	while (r == 0 && (w->args->verb & FOR_BOX) && w->at < w->argc)
		r = list_add(&w->args->operands, w->argv[w->at++], err);
	return r;
}

static int take(struct walk *w, const char *arg, struct nsbox_error *err)
{
	if (strcmp(arg, "--") == 0) {
		while (w->at < w->argc) {
			int r = list_add(&w->args->operands, w->argv[w->at++], err);

			if (r < 0)
				return r;
		}
		return 0;
	}
	if (strncmp(arg, "--", 2) == 0)
		return take_long(w, arg, err);
	if (arg[0] == '-' && arg[1])
		return take_letters(w, arg, err);
	return take_operand(w, arg, err);
}

int args_parse(struct args *a, unsigned verb, int argc, char *const *argv,
	       struct nsbox_error *err)
{
	struct walk w = { .args = a, .argc = argc, .argv = argv };
	int r = 0;

	a->verb = verb;
	while (r == 0 && w.at < argc)
		r = take(&w, argv[w.at++], err);
	if (r < 0) {
		look_for_json(&w);
		return r;
	}
	return a->help || a->version ? 0 : check_conflicts(a, err);
}

void args_free(struct args *a)
{
	free(a->policies.v);
	free(a->env.v);
	free(a->env_files.v);
	free(a->operands.v);
	free(a->settings);
	*a = (struct args)ARGS_INIT;
}
