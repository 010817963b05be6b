/* See report.h. Runs in the launcher, once the box is dead. */
#include "runtime/report.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/jscan.h"
#include "base/num.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { SENTENCE_MAX = 4096, WORD_MAX = 32 };

static const struct {
	const char *word;
	bool may_run;
} words[] = {
	{ "ok", true },
	{ "parse_failed", false },
	{ "unauthorized_imports", false },
	{ "relative_import", false },
};

struct line {
	const char *at;
	size_t len;
};

/* The text up to the next newline, which must be there. */
static bool take_line(struct line *out, const char **at, const char *end)
{
	const char *stop = memchr(*at, '\n', (size_t)(end - *at));

	if (!stop)
		return false;
	*out = (struct line){ *at, (size_t)(stop - *at) };
	*at = stop + 1;
	return true;
}

static bool is_printable(const struct line *l)
{
	for (size_t i = 0; i < l->len; i++)
		if ((unsigned char)l->at[i] < 0x20 || l->at[i] == 0x7f)
			return false;
	return utf8_valid(l->at, l->len);
}

static bool is_object(const struct line *l)
{
	struct jscan v;

	return jscan_check_deep(&v, l->at, l->len, JSCAN_LEVELS, NULL) == 0 &&
	       jscan_kind(v) == JSCAN_OBJECT;
}

static const char *find_word(const struct line *l, bool *may_run)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i].word) == l->len &&
		    memcmp(words[i].word, l->at, l->len) == 0) {
			*may_run = words[i].may_run;
			return words[i].word;
		}
	return NULL;
}

static int keep(struct report *out, const char *word, const struct line *sentence,
		const struct line *analysis, struct nsbox_error *err)
{
	struct buf reason = BUF_INIT(SENTENCE_MAX + WORD_MAX + 4);

	buf_fmt(&reason, "%s: ", strcmp(word, "ok") == 0 ? "parsed" : word);
	buf_add(&reason, sentence->at, sentence->len);
	out->reason = buf_take(&reason);
	out->analysis = strndup(analysis->at, analysis->len);
	buf_free(&reason);
	out->is_there = true;
	if (out->reason && out->analysis)
		return 0;
	report_free(out);
	return err_nomem(err);
}

int report_read(struct report *out, const char *text, size_t len, struct nsbox_error *err)
{
	struct line word, sentence, analysis;
	const char *at = text, *end = text + len, *known = NULL;

	memset(out, 0, sizeof(*out));
	if (!len)
		return 0;
	if (len <= REPORT_MAX && take_line(&word, &at, end) && take_line(&sentence, &at, end) &&
	    take_line(&analysis, &at, end) && at == end)
		known = find_word(&word, &out->may_run);
	if (!known || sentence.len > SENTENCE_MAX || !is_printable(&sentence) ||
	    !is_object(&analysis)) {
		*out = (struct report){ 0 };
		err_hint(err, "the source broke the interpreter that checked it: do not run it");
		return err_set(err, NSBOX_E_SETUP, "the check of the source reported nonsense");
	}
	return keep(out, known, &sentence, &analysis, err);
}

/* An analysis that only has an error. */
struct finding {
	const char *language, *type;
	const char *message;
	size_t message_len;
	uint64_t line;		/* 0: not known */
};

static void put_error(struct json *j, const struct finding *f)
{
	static const char *const unknown[] = { "column", "end_line", "end_column", "text" };

	json_key(j, "error");
	if (!f->message) {
		json_null(j);
		return;
	}
	json_object(j);
	json_kstr(j, "type", f->type);
	json_key(j, "message");
	json_strn(j, f->message, f->message_len);
	json_key(j, "line");
	if (f->line)
		json_uint(j, f->line);
	else
		json_null(j);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		json_knull(j, unknown[i]);
	json_end(j, '}');
}

static void put_analysis(struct buf *to, const struct finding *f)
{
	struct json j = JSON_INIT(to);

	json_object(&j);
	json_kstr(&j, "language", f->language);
	json_kbool(&j, "ok", !f->message);
	put_error(&j, f);
	json_key(&j, "imports");
	json_array(&j);
	json_end(&j, ']');
	json_kbool(&j, "imports_truncated", false);
	json_key(&j, "unauthorized");
	json_array(&j);
	json_end(&j, ']');
	json_knull(&j, "ast");
	json_kbool(&j, "ast_truncated", false);
	json_end(&j, '}');
}

/* The message goes through the JSON writer, which replaces what is no UTF-8; the reason is
 * made printable by hand. */
static int keep_finding(struct report *out, const struct finding *f, struct nsbox_error *err)
{
	struct buf analysis = BUF_INIT(REPORT_MAX), reason = BUF_INIT(2 * SENTENCE_MAX);

	memset(out, 0, sizeof(*out));
	put_analysis(&analysis, f);
	buf_str(&reason, f->message ? "parse_failed: Parse failed." : "parsed: the source parses");
	if (f->line)
		buf_fmt(&reason, " Line %llu:", (unsigned long long)f->line);
	if (f->message)
		buf_char(&reason, ' ');
	for (size_t i = 0, n; i < f->message_len; i += n) {
		n = utf8_length(f->message + i, f->message_len - i);
		if (n && (unsigned char)f->message[i] >= 0x20 && f->message[i] != 0x7f)
			buf_add(&reason, f->message + i, n);
		else
			buf_char(&reason, '?');
		n = n ? n : 1;
	}
	out->is_there = true;
	out->may_run = !f->message;
	out->reason = buf_take(&reason);
	out->analysis = buf_take(&analysis);
	buf_free(&reason);
	buf_free(&analysis);
	if (out->reason && out->analysis)
		return 0;
	report_free(out);
	return err_nomem(err);
}

int report_broken(struct report *out, const char *language, const char *why,
		  struct nsbox_error *err)
{
	const struct finding f = { .language = language, .type = "InterpreterError",
				   .message = why, .message_len = strlen(why) };

	return keep_finding(out, &f, err);
}

/* "/run/nsbox/<code>: line 3: syntax error near ..." */
int report_bash(struct report *out, int status, const char *text, size_t len,
		struct nsbox_error *err)
{
	static const char mark[] = ": line ";
	struct finding f = { .language = "bash", .type = "SyntaxError" };
	const char *end = memchr(text, '\n', len), *at;

	if (status == 0)
		return keep_finding(out, &f, err);
	f.message = text;
	f.message_len = end ? (size_t)(end - text) : len;
	if (f.message_len > SENTENCE_MAX / 4)
		f.message_len = utf8_cut_before(text, len, SENTENCE_MAX / 4);
	at = memmem(text, f.message_len, mark, sizeof(mark) - 1);
	if (at) {
		const char *number = at + sizeof(mark) - 1, *stop = number;

		while (stop < text + f.message_len && *stop >= '0' && *stop <= '9' &&
		       f.line < UINT32_MAX)
			f.line = f.line * 10 + (uint64_t)(*stop++ - '0');
		while (stop < text + f.message_len && (*stop == ':' || *stop == ' '))
			stop++;
		f.message_len -= (size_t)(stop - text);
		f.message = stop;
	}
	return keep_finding(out, &f, err);
}

void report_free(struct report *r)
{
	free(r->reason);
	free(r->analysis);
	*r = (struct report){ 0 };
}
