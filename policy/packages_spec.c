/*
 * The grammar of a package spec: PEP 508 without "@ URL".
 *
 * Pure; fuzzed. Must refuse whatever pip would take for something else than the name of a
 * package of an index: a flag, a file of requirements, a path, a URL, a second line. The
 * text ends up on pip's command line.
 */
#include "policy/packages.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strlist.h"
#include "policy/value.h"

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define BLANKS " \t"

enum { MARKER_DEPTH_MAX = 16 };

struct reader {
	const char *at;
	struct strlist extras, clauses;
	struct buf name, marker;
	unsigned depth;
	bool failed;		/* out of memory */
};

static void skip_blanks(struct reader *r)
{
	r->at += strspn(r->at, BLANKS);
}

static bool take_char(struct reader *r, char c)
{
	skip_blanks(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

/* Letters and digits, with single characters of "-_." between them. */
static size_t name_length(const char *s)
{
	size_t n = strspn(s, LETTERS DIGITS "-_.");

	while (n > 0 && strchr("-_.", s[n - 1]))
		n--;
	return n > 0 && strchr("-_.", s[0]) ? 0 : n;
}

/* PEP 503: lower case, each run of "-_." one hyphen. */
static void add_name(struct buf *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool is_mark = strchr("-_.", s[i]) != NULL;

		if (is_mark && i > 0 && strchr("-_.", s[i - 1]))
			continue;
		buf_char(out, is_mark ? '-'
				      : (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]));
	}
}

static bool take_extras(struct reader *r)
{
	if (!take_char(r, '['))
		return true;
	if (take_char(r, ']'))
		return true;
	do {
		struct buf one = BUF_INIT(PACKAGE_SPEC_MAX);
		size_t n;

		skip_blanks(r);
		n = name_length(r->at);
		add_name(&one, r->at, n);
		r->failed |= one.failed || (!strlist_has(&r->extras, buf_text(&one)) &&
					    strlist_add(&r->extras, buf_text(&one)) < 0);
		buf_free(&one);
		r->at += n;
		if (!n)
			return false;
	} while (take_char(r, ','));
	return take_char(r, ']');
}

/* PEP 440; "===" first, since "==" is how it begins. */
static const char *const comparisons[] = { "===", "==", "~=", "!=", "<=", ">=", "<", ">" };

static const char *comparison(const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++)
		if (strncmp(s, comparisons[i], strlen(comparisons[i])) == 0)
			return comparisons[i];
	return NULL;
}

static bool take_clause(struct reader *r)
{
	struct buf one = BUF_INIT(PACKAGE_SPEC_MAX);
	const char *op;
	size_t n;

	skip_blanks(r);
	op = comparison(r->at);
	if (!op)
		return false;
	r->at += strlen(op);
	skip_blanks(r);
	n = strspn(r->at, LETTERS DIGITS ".*+!-_");
	buf_str(&one, op);
	buf_add(&one, r->at, n);
	r->failed |= one.failed || (!strlist_has(&r->clauses, buf_text(&one)) &&
				    strlist_add(&r->clauses, buf_text(&one)) < 0);
	buf_free(&one);
	r->at += n;
	return n > 0;
}

static bool take_versions(struct reader *r)
{
	bool has_paren = take_char(r, '(');

	skip_blanks(r);
	if (!has_paren && !comparison(r->at))
		return true;
	do {
		if (!take_clause(r))
			return false;
	} while (take_char(r, ','));
	return !has_paren || take_char(r, ')');
}

/* ------------------------------------------------------------------- markers -- */

static const char *const variables[] = {
	"python_version", "python_full_version", "os_name", "sys_platform", "platform_release",
	"platform_system", "platform_version", "platform_machine",
	"platform_python_implementation", "implementation_name", "implementation_version", "extra",
};

static bool take_string(struct reader *r)
{
	char quote = *r->at;
	size_t n = quote == '\'' || quote == '"' ? strcspn(r->at + 1, quote == '"' ? "\"\\" : "'\\")
						  : 0;

	if (!quote || !strchr("'\"", quote) || r->at[1 + n] != quote)
		return false;
	buf_add(&r->marker, r->at, n + 2);
	r->at += n + 2;
	return true;
}

static bool take_value(struct reader *r)
{
	size_t n;

	skip_blanks(r);
	if (*r->at == '\'' || *r->at == '"')
		return take_string(r);
	n = strspn(r->at, LETTERS "_");
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (strlen(variables[i]) == n && memcmp(variables[i], r->at, n) == 0) {
			buf_add(&r->marker, r->at, n);
			r->at += n;
			return true;
		}
	return false;
}

/* A word of the language, which ends where a letter would go on. */
static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(r);
	if (strncmp(r->at, word, n) != 0 || (r->at[n] && strchr(LETTERS "_", r->at[n])))
		return false;
	r->at += n;
	return true;
}

static bool take_operator(struct reader *r)
{
	const char *op;

	skip_blanks(r);
	op = comparison(r->at);
	if (op)
		r->at += strlen(op);
	else if (take_word(r, "in"))
		op = "in";
	else if (take_word(r, "not") && take_word(r, "in"))
		op = "not in";
	if (op)
		buf_fmt(&r->marker, " %s ", op);
	return op != NULL;
}

static bool take_marker(struct reader *r);

static bool take_comparison(struct reader *r)
{
	bool is_whole;

	if (!take_char(r, '('))
		return take_value(r) && take_operator(r) && take_value(r);
	if (++r->depth > MARKER_DEPTH_MAX)
		return false;
	buf_char(&r->marker, '(');
	is_whole = take_marker(r) && take_char(r, ')');
	buf_char(&r->marker, ')');
	r->depth--;
	return is_whole;
}

/* "and" binds tighter than "or", which matters to who evaluates it: pip. */
static bool take_marker(struct reader *r)
{
	for (;;) {
		if (!take_comparison(r))
			return false;
		if (take_word(r, "and"))
			buf_str(&r->marker, " and ");
		else if (take_word(r, "or"))
			buf_str(&r->marker, " or ");
		else
			return true;
	}
}

/* --------------------------------------------------------------------- whole -- */

static bool take_all(struct reader *r)
{
	size_t n;

	skip_blanks(r);
	n = name_length(r->at);
	add_name(&r->name, r->at, n);
	r->at += n;
	if (!n || !take_extras(r) || !take_versions(r))
		return false;
	if (take_char(r, ';') && !take_marker(r))
		return false;
	skip_blanks(r);
	return !*r->at;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_sorted(struct buf *out, struct strlist *l)
{
	if (l->n > 1)
		qsort(l->v, l->n, sizeof(*l->v), by_text);
	for (size_t i = 0; i < l->n; i++)
		buf_fmt(out, "%s%s", i ? "," : "", l->v[i]);
}

static void add_normal(struct buf *out, struct reader *r)
{
	buf_str(out, buf_text(&r->name));
	if (r->extras.n) {
		buf_char(out, '[');
		add_sorted(out, &r->extras);
		buf_char(out, ']');
	}
	add_sorted(out, &r->clauses);
	if (r->marker.len)
		buf_fmt(out, "; %s", buf_text(&r->marker));
}

static bool has_control(const char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return true;
	return false;
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), t = strlen(tail);

	return n > t && strcmp(s + n - t, tail) == 0;
}

static bool is_archive(const char *s)
{
	static const char *const tails[] = { ".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2",
					     ".tar.xz", ".tar", ".egg" };

	for (size_t i = 0; !strpbrk(s, "<>=!~;") && i < ARRAY_SIZE(tails); i++)
		if (ends_with(s, tails[i]))
			return true;
	return false;
}

/* What people write who mean something that pip has and a box does not. */
static const char *foreign(const char *s, const char **hint)
{
	const char *marker = strchr(s, ';');
	size_t head = marker ? (size_t)(marker - s) : strlen(s);

	if (s[0] == '.' || memchr(s, '/', head) || memchr(s, '\\', head) || is_archive(s)) {
		*hint = "show a folder of your own with --project or --ro; wheels of a folder are "
			"found with pip's setting find-links";
		return "is a path, and packages come from an index alone";
	}
	return NULL;
}

static int refuse(const char *spec, const char *why, const char *hint, struct nsbox_error *err)
{
	if (hint)
		err_hint(err, "%s", hint);
	return err_set(err, NSBOX_E_POLICY, "packages.list: \"%s\" %s", SHOWN(spec), why);
}

static int check_kind(const char *spec, struct nsbox_error *err)
{
	const char *s = spec + strspn(spec, BLANKS), *why, *hint = NULL;

	if (strlen(spec) > PACKAGE_SPEC_MAX)
		return refuse(spec, "is longer than 512 bytes", NULL, err);
	if (has_control(spec))
		return refuse(spec, "has a newline or another control character",
			      "one spec a flag: --with numpy --with pandas", err);
	if (!*s)
		return err_set(err, NSBOX_E_POLICY,
			       "packages.list: a package spec must be a non-empty text");
	if (*s == '-')
		return refuse(spec, "is flag-style, and no flag reaches pip",
			      "pip's own settings (pip.conf, PIP_*) are honoured", err);
	if (strstr(s, "://") || memchr(s, '@', strcspn(s, ";"))) {
		err_hint(err, "give the name of a package of an index: name==version");
		return err_set(err, NSBOX_E_POLICY, /* not shown: it may hold a password */
			       "packages.list: one item is a URL, and packages come from an index alone");
	}
	why = foreign(s, &hint);
	return why ? refuse(spec, why, hint, err) : 0;
}

static void reader_free(struct reader *r)
{
	strlist_free(&r->extras);
	strlist_free(&r->clauses);
	buf_free(&r->name);
	buf_free(&r->marker);
}

int package_spec(const char *spec, struct buf *out, struct nsbox_error *err)
{
	owned(reader_free) struct reader r = {
		.at = spec, .name = BUF_INIT(PACKAGE_SPEC_MAX),
		.marker = BUF_INIT(2 * PACKAGE_SPEC_MAX + 64),
	};
	int code = check_kind(spec, err);

	if (code < 0)
		return code;
	if (!take_all(&r))
		return refuse(spec, "is no package spec",
			      "as in PEP 508: name, name==1.2, name[extra]>=1,<2; python_version<'3.12'"
			      " (of npm: name@1.2, @scope/name@^1)", err);
	if (r.failed || r.name.failed || r.marker.failed)
		return err_nomem(err);
	if (out)
		add_normal(out, &r);
	return out && out->failed ? err_nomem(err) : 0;
}
