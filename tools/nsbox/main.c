/* SPDX-License-Identifier: Apache-2.0 */
/* nsbox: the command. Finds the verb, parses its flags, hands over. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "tools/nsbox/code.h"
#include "tools/nsbox/nearest.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/run.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

#define LATER(verb, instead) { verb, NULL, instead, 0, NULL }

/* clang-format off */
const struct verb verbs[] = {
	{ "run", "[FLAGS] [--] CMD [ARG...]",
	  "Run one command in a fresh box.", FOR_RUN, verb_run },
	{ "code", "[FLAGS] (-c CODE | FILE | -) [ARG...]",
	  "Run Python, JavaScript or bash code in a fresh box.", FOR_CODE, verb_code },
	{ "check", "[FLAGS] (-c CODE | FILE | -)",
	  "Say whether a source parses and imports what it may; nothing of it runs.", FOR_STATIC,
	  verb_check },
	{ "policy show", "[FLAGS]",
	  "Print the policy that a run with these flags has, as JSON.", FOR_SHOW,
	  verb_policy_show },
	{ "policy check", "[FLAGS] [FILE...]",
	  "Check policy files; without FILE, the policy that holds here.",
	  FOR_CHECK, verb_policy_check },
	{ "policy explain", "[FLAGS] [--to HOST | [--] CMD [ARG...]]",
	  "Print each stage of a run and its promise; or whether a box reaches HOST.", FOR_EXPLAIN,
	  verb_explain },
	{ "policy schema", "[--result]",
	  "Print the JSON schema of policy files, or of the result record.", FOR_SCHEMA,
	  verb_policy_schema },
	{ "doctor", "[--json]",
	  "Prove what this host can enforce: 0 everything, 1 degraded, 2 no box at all.",
	  FOR_DOCTOR, verb_doctor },
	{ "top", "[--json] [--once] [--interval TIME]",
	  "Watch your boxes: the running ones, and how the last ones ended. q quits.", FOR_TOP,
	  verb_top },
	{ "sweep", "[--json] [FOLDER...]",
	  "Remove what killed launchers left; placeholders only in the FOLDERs given.", FOR_SWEEP,
	  verb_sweep },
	{ "rpc", "[--schema]",
	  "Serve many runs in one process: frames of JSON on standard input and output.", FOR_RPC,
	  verb_rpc },
	{ "cache list", "[--json]",
	  "Print the installed packages that runs with --with share, and their sizes.",
	  FOR_CACHE_LIST, verb_cache_list },
	{ "cache prune", "[--json] (--older-than TIME | --all)",
	  "Remove installed packages that no run has used for a while.", FOR_CACHE_PRUNE,
	  verb_cache_prune },
	{ "version", "[--json]", "Print the version.", FOR_VERSION, verb_version },
	{ "help", "[VERB | keys | profiles]", "Explain a verb, every policy key, the profiles.",
	  FOR_HELP, verb_help },
	/* Named in the contract, not in this version: one honest line each. */
	LATER("policy convert", "write the file by hand: 'nsbox policy schema' describes it"),
	LATER("session", "boxes that stay come later; use 'nsbox run' for each command"),
	LATER("template", "templates come later; show folders with --ro"),
	LATER("image", "images come later; the box shows the host's own /usr"),
	LATER("agent", "agent bindings come later; use a project's .nsbox.json"),
	LATER("selftest", "until then 'make check-escape' in the source tree attacks the box"),
	LATER("mcp", "until then call 'nsbox code --json'"),
	LATER("serve", "until then call 'nsbox run --json' or link libnsbox"),
};
const size_t verb_count = CLI_COUNT(verbs);
/* clang-format on */

static int unknown_verb(const char *name)
{
	struct nearest n = NEAREST_INIT(name);

	for (size_t i = 0; i < verb_count; i++)
		nearest_offer(&n, verbs[i].name);
	if (n.best)
		say("unknown verb '%s'; did you mean '%s'?", name, n.best);
	else if (name[0] == '-')
		say("a verb comes first, then flags like '%s'; for example: nsbox run %s -- CMD",
		    name, name);
	else
		say("unknown verb '%s'; 'nsbox help' lists them, and 'nsbox run -- %s' runs a "
		    "program", name, name);
	return STATUS_NSBOX;
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < verb_count; i++) {
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	}
	return NULL;
}

static int act(const struct verb *v, int argc, char *const *argv)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct args a = ARGS_INIT;
	int status;

	if (args_parse(&a, v->flags, argc, argv, &err) < 0)
		status = report_error(&a, &err);
	else if (a.help)
		status = help_verb(v->flags);
	else if (a.version)
		status = verb_version(&(struct args){ .verb = FOR_VERSION });
	else
		status = v->act(&a);
	args_free(&a);
	return status;
}

/*
 * A missing descriptor 0, 1 or 2 would be the next file that is opened: a policy
 * read as input, a record written into a signal descriptor. Holes are filled with
 * the wrong direction, so that our own words into them are an error still; a
 * program's streams then go to its own /dev/null (run.c).
 */
static int fill_holes(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags) != fd)
			return -1;
	}
	return 0;
}

/* Under ulimit -f a write past the limit is then EFBIG, an error that can be told. */
static void block_file_size_signal(void)
{
	sigset_t only;

	sigemptyset(&only);
	sigaddset(&only, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &only, NULL);
}

/* "policy show" of "policy" "show"; the words that the verb took. */
static int verb_words(char *name, size_t size, int argc, char *const *argv)
{
	static const struct { const char *flag, *verb; } spellings[] = {
		{ "--help", "help" }, { "-h", "help" }, { "--version", "version" },
	};
	bool is_two = argc > 2 && (strcmp(argv[1], "policy") == 0 || strcmp(argv[1], "cache") == 0);

	snprintf(name, size, "%s%s%s", argv[1], is_two ? " " : "", is_two ? argv[2] : "");
	for (size_t i = 0; i < CLI_COUNT(spellings); i++) {
		if (strcmp(argv[1], spellings[i].flag) == 0)
			snprintf(name, size, "%s", spellings[i].verb);
	}
	return is_two ? 2 : 1;
}

int main(int argc, char **argv)
{
	const struct verb *v;
	char name[64];
	int used;

	if (fill_holes() < 0)
		return STATUS_NSBOX;
	block_file_size_signal();
	if (argc < 2) {
		say("no verb given; 'nsbox help' lists them");
		return STATUS_NSBOX;
	}
	used = 1 + verb_words(name, sizeof(name), argc, argv);
	if (strcmp(name, "policy") == 0) {
		say("no verb of policy given; there are show, check, explain and schema");
		return STATUS_NSBOX;
	}
	if (strcmp(name, "cache") == 0) {
		say("no verb of cache given; there are list and prune");
		return STATUS_NSBOX;
	}
	if (strcmp(name, "policy --help") == 0 || strcmp(name, "cache --help") == 0)
		return help_overview();
	v = find_verb(name);
	if (!v)
		return unknown_verb(name);
	if (!v->act) {
		say("'nsbox %s' is not in this version; %s", v->name, v->help);
		return STATUS_NSBOX;
	}
	return act(v, argc - used, argv + used);
}
