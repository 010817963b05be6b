/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bash completion, printed from the same tables as the help. Runs in the
 * command; the script runs in the user's shell, so every word that goes into it
 * comes from a static table, never from input.
 */
#include <string.h>

#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

static const char head[] =
	"# bash completion for nsbox, made by: nsbox help --completion bash\n"
	"_nsbox()\n"
	"{\n"
	"\tlocal cur prev verb flags i\n"
	"\tcur=${COMP_WORDS[COMP_CWORD]}\n"
	"\tprev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tverb=${COMP_WORDS[1]}\n"
	"\tCOMPREPLY=()\n"
	"\t[[ $verb == policy || $verb == cache ]] && verb=\"$verb ${COMP_WORDS[2]}\"\n";

static const char tail[] =
	"\tif [[ $cur == -* ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$cur\")\n"
	"\telse\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\tfi\n"
	"}\n"
	"complete -o filenames -F _nsbox nsbox\n";

/* The second words of verbs that have two. */
static void put_second(FILE *out, const char *first)
{
	size_t len = strlen(first);

	fprintf(out,
		"\tif ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == %s ]]; then\n"
		"\t\tmapfile -t COMPREPLY < <(compgen -W '", first);
	for (size_t i = 0; i < verb_count; i++) {
		if (verbs[i].act && strncmp(verbs[i].name, first, len) == 0 &&
		    verbs[i].name[len] == ' ')
			fprintf(out, "%s ", verbs[i].name + len + 1);
	}
	fputs("' -- \"$cur\")\n\t\treturn\n\tfi\n", out);
}

static void put_verbs(FILE *out)
{
	fputs("\tif ((COMP_CWORD == 1)); then\n\t\tmapfile -t COMPREPLY < <(compgen -W '", out);
	for (size_t i = 0; i < verb_count; i++) {
		if (verbs[i].act && !strchr(verbs[i].name, ' '))
			fprintf(out, "%s ", verbs[i].name);
	}
	fputs("policy cache' -- \"$cur\")\n\t\treturn\n\tfi\n", out);
	put_second(out, "policy");
	put_second(out, "cache");
}

/* Values that a table lists, by the flag before the cursor. */
static void put_choices(FILE *out)
{
	struct args_flag f;
	const char *name;

	fputs("\tcase $prev in\n", out);
	for (size_t i = 0; args_flag_at(FOR_RUN | FOR_CODE | FOR_HELP | FOR_TOP, i, &f); i++) {
		const char *const *choices = args_flag_choices(&f);

		if (!choices)
			continue;
		fprintf(out, "\t%s)\n\t\tmapfile -t COMPREPLY < <(compgen -W '",
			args_flag_name(&f));
		for (; *choices; choices++)
			fprintf(out, "%s ", *choices);
		fputs("' -- \"$cur\")\n\t\treturn ;;\n", out);
	}
	fputs("\t-p | --policy)\n\t\tmapfile -t COMPREPLY < <(compgen -f -W '", out);
	for (size_t i = 0; (name = nsbox_profile_name(i)); i++)
		fprintf(out, "%s ", name);
	fputs("' -- \"$cur\")\n\t\treturn ;;\n", out);
}

static void put_keys(FILE *out)
{
	struct nsbox_key k;

	fputs("\t--set)\n\t\tcompopt -o nospace\n\t\tmapfile -t COMPREPLY < <(compgen -S = -W '",
	      out);
	for (size_t i = 0; nsbox_key_info(i, &k) == 0 && k.name; i++)
		fprintf(out, "%s ", k.name);
	fputs("' -- \"$cur\")\n\t\treturn ;;\n\tesac\n", out);
}

static void put_flags(FILE *out)
{
	struct args_flag f;

	fputs("\tcase $verb in\n", out);
	for (size_t i = 0; i < verb_count; i++) {
		if (!verbs[i].act)
			continue;
		fprintf(out, "\t'%s') flags='", verbs[i].name);
		for (size_t k = 0; args_flag_at(verbs[i].flags, k, &f); k++)
			fprintf(out, "%s ", args_flag_name(&f));
		fputs("' ;;\n", out);
	}
	fputs("\tesac\n"
	      "\t# Behind -- everything is the program's own.\n"
	      "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	      "\t\t[[ ${COMP_WORDS[i]} == -- ]] && flags=\n"
	      "\tdone\n", out);
}

int completion_bash(void)
{
	char *text = NULL;
	size_t len = 0;
	int status = STATUS_NSBOX;
	FILE *out = open_memstream(&text, &len);

	if (!out) {
		say("out of memory for the completion");
		return STATUS_NSBOX;
	}
	fputs(head, out);
	put_verbs(out);
	put_choices(out);
	put_keys(out);
	put_flags(out);
	fputs(tail, out);
	if (fclose(out) == 0 && text)
		status = report_text(text);
	free(text);
	return status;
}
