/*
 * A .netrc as text: the login of one host.
 *
 * Pure; fuzzed. Must read it as Python's module netrc does, by which pip and requests find a
 * login: words with quotes and backslashes, comments, macros, the entry "default" last of all,
 * of two entries of a host the later one.
 */
#include "policy/packages.h"

#include <string.h>

#include "base/cleanup.h"

enum { WORD_MAX = 4096 };

struct words {
	const char *at, *end;
	struct buf word;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_line(struct words *w)
{
	while (w->at < w->end && *w->at != '\n')
		w->at++;
}

/* False: there is no more. */
static bool next(struct words *w)
{
	bool is_quoted;

	buf_clear(&w->word);
	while (w->at < w->end && is_blank(*w->at))
		w->at++;
	if (w->at == w->end)
		return false;
	is_quoted = *w->at == '"';
	w->at += is_quoted;
	for (; w->at < w->end && (is_quoted ? *w->at != '"' : !is_blank(*w->at)); w->at++) {
		if (*w->at == '\\' && w->at + 1 < w->end)
			w->at++;
		buf_char(&w->word, *w->at);
	}
	w->at += w->at < w->end && is_quoted;
	return true;
}

static bool is(const struct words *w, const char *word)
{
	return strcmp(buf_text(&w->word), word) == 0;
}

/* A macro ends at an empty line. */
static void skip_macro(struct words *w)
{
	do {
		skip_line(w);
		w->at += w->at < w->end;
	} while (w->at < w->end && *w->at != '\n' && *w->at != '\r');
}

static void keep(struct buf *to, const struct words *w)
{
	buf_clear(to);
	buf_add(to, buf_text(&w->word), w->word.len);
}

/* The words of one entry; the next one's first word is in w when it returns true. */
static bool take_entry(struct words *w, struct buf *login, struct buf *password)
{
	bool has_more;

	buf_clear(login);
	buf_clear(password);
	while ((has_more = next(w))) {
		struct buf *to = is(w, "login") || is(w, "user") ? login
				 : is(w, "password") ? password : NULL;

		if (is(w, "machine") || is(w, "default") || is(w, "macdef"))
			break;
		if (buf_text(&w->word)[0] == '#') {
			skip_line(w);
			continue;
		}
		if (!next(w)) /* "account" has a value as well */
			return false;
		if (to)
			keep(to, w);
	}
	return has_more;
}

bool netrc_find(const char *text, size_t len, const char *host, struct buf *login,
		struct buf *password)
{
	struct words w = { .at = text, .end = text + len, .word = BUF_INIT(WORD_MAX) };
	struct buf user = BUF_INIT(WORD_MAX), secret = BUF_INIT(WORD_MAX);
	bool has_more = next(&w), is_found = false, is_own = false, is_this, is_default;

	while (has_more) {
		is_default = is(&w, "default");
		is_this = false;
		if (is(&w, "machine") && next(&w))
			is_this = strcasecmp(buf_text(&w.word), host) == 0;
		else if (!is_default) {
			if (is(&w, "macdef"))
				skip_macro(&w);
			else
				skip_line(&w);
			has_more = next(&w);
			continue;
		}
		has_more = take_entry(&w, &user, &secret);
		if (user.failed || secret.failed || !(is_this || (is_default && !is_own)))
			continue;
		buf_clear(login);
		buf_clear(password);
		buf_add(login, buf_text(&user), user.len);
		buf_add(password, buf_text(&secret), secret.len);
		is_found = true;
		is_own |= is_this;
	}
	buf_free(&w.word);
	buf_free(&user);
	buf_free(&secret);
	return is_found && (login->len || password->len);
}
