/* hosts.c - see hosts.h. Runs in the supervisor; pure. */
#include "runtime/egress/hosts.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

struct span {
	const char *at;
	size_t len;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The next word of the rest of a line; len 0: none. */
static struct span next_word(struct span *line)
{
	struct span word;

	while (line->len && is_blank(*line->at)) {
		line->at++;
		line->len--;
	}
	word = (struct span){ line->at, 0 };
	while (word.len < line->len && !is_blank(word.at[word.len]))
		word.len++;
	line->at += word.len;
	line->len -= word.len;
	return word;
}

/* Without its comment and newline; `text` moves on behind it. */
static struct span next_line(struct span *text)
{
	const char *end = memchr(text->at, '\n', text->len);
	struct span line = { text->at, end ? (size_t)(end - text->at) : text->len };
	size_t used = line.len + (end ? 1 : 0);
	const char *comment = memchr(line.at, '#', line.len);

	text->at += used;
	text->len -= used;
	if (comment)
		line.len = (size_t)(comment - line.at);
	return line;
}

/* A zone ("fe80::1%eth0") makes it no address of ours: there is no interface to go with it. */
static bool read_address(struct egress_addr *out, struct span word)
{
	char text[EGRESS_ADDR_TEXT];

	if (word.len >= sizeof(text))
		return false;
	memcpy(text, word.at, word.len);
	text[word.len] = '\0';
	*out = (struct egress_addr){ .family = 4 };
	if (inet_pton(AF_INET, text, out->bytes) == 1)
		return true;
	out->family = 6;
	return inet_pton(AF_INET6, text, out->bytes) == 1;
}

static bool has_name(struct span line, const char *name, size_t len)
{
	for (struct span w; (w = next_word(&line)).len;)
		if (w.len == len && strncasecmp(w.at, name, len) == 0)
			return true;
	return false;
}

unsigned hosts_find(const char *text, size_t len, const char *name, struct egress_addr *to,
		    unsigned max)
{
	struct span rest = { text, len };
	size_t name_len = strlen(name);
	unsigned n = 0;

	while (rest.len && n < max) {
		struct span line = next_line(&rest);
		struct span address = next_word(&line);

		if (has_name(line, name, name_len) && read_address(&to[n], address))
			n++;
	}
	return n;
}

bool hosts_is_localhost(const char *name)
{
	size_t n = strlen(name), tail = strlen("localhost");

	return n >= tail && strcmp(name + n - tail, "localhost") == 0 &&
	       (n == tail || name[n - tail - 1] == '.');
}
