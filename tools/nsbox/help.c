/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help, from the tables alone: no flag is described here. Runs in the command.
 * Lines fit 80 columns.
 */
#include <string.h>

#include "tools/nsbox/nearest.h"
#include "tools/nsbox/report.h"
#include "tools/nsbox/say.h"
#include "tools/nsbox/verbs.h"

#define COLUMNS 79
#define INDENT 26

/* A text that grows; printed whole at the end, so that a full pipe is seen. */
static FILE *page_open(char **text, size_t *len)
{
	FILE *page = open_memstream(text, len);

	if (!page)
		say("out of memory for the help");
	return page;
}

static int page_print(FILE *page, char **text)
{
	int status = STATUS_NSBOX;

	if (fclose(page) == 0 && *text)
		status = report_text(*text);
	free(*text);
	return status;
}

/* @text wrapped into the right column; the cursor stands at @at. */
static void put_wrapped(FILE *page, const char *text, size_t at)
{
	if (at > INDENT - 2) {
		fputc('\n', page);
		at = 0;
	}
	fprintf(page, "%*s", (int)(INDENT - at), "");
	at = INDENT;
	while (*text) {
		size_t word = strcspn(text, " ");

		if (at > INDENT && at + 1 + word > COLUMNS) {
			fprintf(page, "\n%*s", INDENT, "");
			at = INDENT;
		} else if (at > INDENT) {
			fputc(' ', page);
			at++;
		}
		fwrite(text, 1, word, page);
		at += word;
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', page);
}

static void put_flag(FILE *page, const struct args_flag *f)
{
	const char *value = args_flag_value(f), *help = args_flag_help(f);
	const char *preset = f->row ? NULL : f->key.preset;
	char left[96], text[512], letter[5] = "    ";
	int n;

	if (args_flag_letter(f))
		snprintf(letter, sizeof(letter), "-%c, ", args_flag_letter(f));
	n = snprintf(left, sizeof(left), "  %s%s%s%s", letter, args_flag_name(f),
		     value ? " " : "", value ? value : "");
	fputs(left, page);
	/* Off, zero and null are said by the help where they mean something. */
	if (preset && *preset && value && strcmp(preset, "0") && strcmp(preset, "null"))
		snprintf(text, sizeof(text), "%s (default %s)", help ? help : "", preset);
	else
		snprintf(text, sizeof(text), "%s", help ? help : "");
	put_wrapped(page, text, (size_t)n);
}

static void put_group(FILE *page, unsigned flags, enum args_group group)
{
	static const char *const titles[GROUP_COUNT] = {
		[GROUP_RUN] = "What to run",	 [GROUP_FILES] = "Files",
		[GROUP_NETWORK] = "Network",	 [GROUP_LIMITS] = "Limits",
		[GROUP_ENVIRONMENT] = "Environment", [GROUP_CODE] = "Modules and packages",
		[GROUP_OUTPUT] = "Output",	 [GROUP_POLICY] = "Policy",
		[GROUP_OTHER] = "Other",
	};
	bool is_empty = true;
	struct args_flag f;

	for (size_t i = 0; args_flag_at(flags, i, &f); i++) {
		if (args_flag_group(&f) != group)
			continue;
		if (is_empty)
			fprintf(page, "\n%s:\n", titles[group]);
		is_empty = false;
		put_flag(page, &f);
	}
}

static const struct verb *verb_of(unsigned flags)
{
	for (size_t i = 0; i < verb_count; i++) {
		if (verbs[i].flags == flags)
			return &verbs[i];
	}
	return NULL;
}

int help_verb(unsigned flags)
{
	const struct verb *v = verb_of(flags);
	char *text = NULL;
	size_t len = 0;
	FILE *page;

	if (!v)
		return help_overview();
	page = page_open(&text, &len);
	if (!page)
		return STATUS_NSBOX;
	fprintf(page, "usage: nsbox %s%s%s\n\n%s\n", v->name, v->synopsis ? " " : "",
		v->synopsis ? v->synopsis : "", v->help);
	for (unsigned g = 0; g < GROUP_COUNT; g++)
		put_group(page, flags, g);
	if (flags & FOR_POLICY)
		fputs("\nEvery policy key: nsbox help keys. Profiles: nsbox help profiles.\n",
		      page);
	return page_print(page, &text);
}

int help_overview(void)
{
	char *text = NULL;
	size_t len = 0;
	FILE *page = page_open(&text, &len);

	if (!page)
		return STATUS_NSBOX;
	fputs("nsbox runs code that nobody has reviewed in a box of its own.\n\n"
	      "usage: nsbox VERB [FLAGS] [OPERANDS]\n\nVerbs:\n", page);
	for (size_t i = 0; i < verb_count; i++) {
		int n = verbs[i].act ? fprintf(page, "  %s", verbs[i].name) : 0;

		if (n > 0)
			put_wrapped(page, verbs[i].help, (size_t)n);
	}
	fputs("\nTry:\n"
	      "  nsbox run -- sh -c 'id; ls /'\n"
	      "  nsbox code -c 'print(6 * 7)'\n"
	      "  nsbox doctor\n\n"
	      "'nsbox help VERB' lists the flags of one. Exit status: the program's own,\n"
	      "128+n when signal n killed it, 122 refused by policy, 123 a resource limit,\n"
	      "124 timeout, 125 nsbox itself, 126 not executable, 127 not found.\n", page);
	return page_print(page, &text);
}

/* One line of "help keys"; the default of a list is one item a line. */
static void put_key(FILE *page, const struct nsbox_key *k)
{
	bool has_preset = k->preset && *k->preset;
	size_t at = (size_t)fprintf(page, "  %s", k->name);
	char text[1024];

	snprintf(text, sizeof(text), "%s%s%s. %s%s%s", k->help ? k->help : "",
		 k->flag ? "; " : "", k->flag ? k->flag : "", k->type,
		 has_preset ? ", default " : "", has_preset ? k->preset : "");
	for (char *p = text; *p; p++) {
		if (*p == '\n')
			*p = ' ';
	}
	put_wrapped(page, text, at);
}

static int help_keys(void)
{
	char *text = NULL;
	struct nsbox_key k;
	size_t len = 0;
	FILE *page = page_open(&text, &len);

	if (!page)
		return STATUS_NSBOX;
	for (size_t i = 0; nsbox_key_info(i, &k) == 0 && k.name; i++)
		put_key(page, &k);
	return page_print(page, &text);
}

static int help_profiles(void)
{
	const char *name, *help;
	char *text = NULL;
	size_t len = 0;
	FILE *page = page_open(&text, &len);

	if (!page)
		return STATUS_NSBOX;
	for (size_t i = 0; (name = nsbox_profile_name(i)); i++) {
		help = nsbox_profile_help(i);
		put_wrapped(page, help ? help : "", (size_t)fprintf(page, "  %s", name));
	}
	return page_print(page, &text);
}

/* "nsbox help policy show": the operands joined. */
static int help_topic(const struct args *a, struct nsbox_error *err)
{
	char name[64] = "";
	struct nearest n = NEAREST_INIT(name);
	size_t at = 0;

	for (size_t i = 0; i < a->operands.n && at < sizeof(name); i++)
		at += (size_t)snprintf(name + at, sizeof(name) - at, "%s%s", i ? " " : "",
				       a->operands.v[i]);
	if (strcmp(name, "keys") == 0)
		return help_keys();
	if (strcmp(name, "profiles") == 0)
		return help_profiles();
	for (size_t i = 0; i < verb_count; i++) {
		if (verbs[i].act && strcmp(verbs[i].name, name) == 0)
			return help_verb(verbs[i].flags);
		nearest_offer(&n, verbs[i].name);
	}
	if (strcmp(name, "policy") == 0 || strcmp(name, "cache") == 0)
		return help_overview();
	if (n.best)
		cli_hint(err, "did you mean 'nsbox help %s'?", n.best);
	else
		cli_hint(err, "'nsbox help' lists the verbs; there are also 'help keys' and "
			      "'help profiles'");
	return cli_fail(err, NSBOX_E_USAGE, "no help on '%s'", name);
}

int verb_help(struct args *a)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	int status;

	if (a->completion)
		return completion_bash();
	if (a->operands.n == 0)
		return help_overview();
	status = help_topic(a, &err);
	return err.code ? report_error(a, &err) : status;
}
