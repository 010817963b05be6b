/*
 * egress_config.c - what the supervisor is told: rules, servers, hosts, proxy, caps
 *
 * Runs in the launcher, whose files these are: the supervisor opens none.
 *
 * Must:    hold what the policy says, in one sealed block.
 * Mustn't: take a proxy from the environment, which is no part of the policy; put a
 *          password into an error.
 */
#include "runtime/egress.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/num.h"
#include "policy/egress.h"
#include "runtime/stage.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

enum {
	HOSTS_MAX = 1 << 20,
	BLOCK_MAX = 64 << 20,	/* hosts, and rules of very long lists */
	/* resolv.conf(5), and the bounds of its options in the C library */
	TIMEOUT_S = 5, TIMEOUT_MAX_S = 30, ATTEMPTS = 2, ATTEMPTS_MAX = 5, DNS_PORT = 53,
};

/* --- servers ------------------------------------------------------------------ */

static bool parse_scope(const char *text, uint32_t *scope)
{
	uint64_t v = if_nametoindex(text);

	if (!v && num_uint(text, 1, UINT32_MAX, &v) < 0)
		return false;
	*scope = (uint32_t)v;
	return true;
}

/* An address, and the interface behind "%". */
static bool parse_address(struct egress_server *s, char *text)
{
	char *scope = strchr(text, '%');

	s->family = strchr(text, ':') ? 6 : 4;
	if (scope) {
		*scope++ = '\0';
		if (s->family != 6 || !parse_scope(scope, &s->scope))
			return false;
	}
	return inet_pton(s->family == 6 ? AF_INET6 : AF_INET, text, s->bytes) == 1;
}

bool egress_parse_server(struct egress_server *out, const char *given)
{
	struct egress_server s = { .port = DNS_PORT };
	char text[80], *at = text, *port = NULL;
	uint64_t v;
	size_t n = strlen(given);

	if (n >= sizeof(text))
		return false;
	memcpy(text, given, n + 1);
	if (text[0] == '[') {
		char *end = strchr(text, ']');

		if (!end || (end[1] && end[1] != ':'))
			return false;
		port = end[1] ? end + 2 : NULL;
		*end = '\0';
		at++;
		if (!strchr(at, ':'))
			return false;
	} else if (strchr(text, ':') == strrchr(text, ':') && strchr(text, ':')) {
		port = strchr(text, ':');
		*port++ = '\0';
	}
	if (port) {
		if (num_uint(port, 1, UINT16_MAX, &v) < 0)
			return false;
		s.port = (uint16_t)v;
	}
	if (!parse_address(&s, at))
		return false;
	*out = s;
	return true;
}

static void add_server(struct egress_config *c, const struct egress_server *s)
{
	if (c->server_count < EGRESS_SERVERS)
		c->servers[c->server_count++] = *s;
}

static char *next_word(char **at)
{
	char *word = *at + strspn(*at, " \t\r");
	size_t n = strcspn(word, " \t\r");

	*at = word + n;
	if (**at)
		*(*at)++ = '\0';
	return n ? word : NULL;
}

static void read_option(struct egress_config *c, const char *option)
{
	uint64_t v;

	if (strncmp(option, "timeout:", 8) == 0 && num_uint(option + 8, 0, UINT32_MAX, &v) == 0)
		c->timeout_ms = 1000 * (uint32_t)(v < 1 ? 1 : v > TIMEOUT_MAX_S ? TIMEOUT_MAX_S : v);
	if (strncmp(option, "attempts:", 9) == 0 && num_uint(option + 9, 0, UINT32_MAX, &v) == 0)
		c->attempts = (uint32_t)(v < 1 ? 1 : v > ATTEMPTS_MAX ? ATTEMPTS_MAX : v);
}

/* A line that means nothing to us is passed over, as the C library does. */
static void read_line(struct egress_config *c, char *line)
{
	char *word = next_word(&line);
	struct egress_server s;

	if (!word)
		return;
	if (strcmp(word, "nameserver") == 0) {
		word = next_word(&line);
		s = (struct egress_server){ .port = DNS_PORT };
		if (word && parse_address(&s, word))
			add_server(c, &s);
	} else if (strcmp(word, "options") == 0) {
		while ((word = next_word(&line)))
			read_option(c, word);
	}
}

void egress_read_resolv(struct egress_config *c, int fd)
{
	struct lines l = { .fd = fd };
	char *line;

	c->server_count = 0;
	c->timeout_ms = 1000 * TIMEOUT_S;
	c->attempts = ATTEMPTS;
	while (fd >= 0 && (line = lines_next(&l)))
		read_line(c, line);
}

static int choose_servers(struct egress_config *c, const struct egress_sources *from,
			  struct nsbox_error *err)
{
	const struct strlist *own = &from->policy->net.resolvers;
	owned_fd int fd = openat(AT_FDCWD, from->resolv_conf, O_RDONLY | O_CLOEXEC);
	struct egress_server s;

	egress_read_resolv(c, fd);
	if (own->n)
		c->server_count = 0;
	for (size_t i = 0; i < own->n; i++) {
		if (!egress_parse_server(&s, own->v[i]))
			return err_set(err, NSBOX_E_POLICY, "net.resolvers \"%s\" is no address",
				       own->v[i]);
		add_server(c, &s);
	}
	if (!c->server_count && egress_parse_server(&s, "127.0.0.1"))
		add_server(c, &s); /* as the C library does without the file */
	return 0;
}

/* --- proxy -------------------------------------------------------------------- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
	     : c >= 'a' && c <= 'f' ? c - 'a' + 10
	     : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "%40" -> "@". A NUL, a control character or a bad escape is none of a name's. */
static bool decode(char *out, size_t size, const char *from, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++, n++) {
		int c = (unsigned char)from[i];

		if (c == '%') {
			int high = i + 2 < len ? hex_digit(from[i + 1]) : -1;
			int low = i + 2 < len ? hex_digit(from[i + 2]) : -1;

			if (high < 0 || low < 0)
				return false;
			c = high << 4 | low;
			i += 2;
		}
		if (c < 0x20 || c == 0x7f || n + 1 >= size)
			return false;
		out[n] = (char)c;
	}
	out[n] = '\0';
	return true;
}

static bool parse_user(struct egress_proxy *p, const char *from, size_t len)
{
	const char *colon = memchr(from, ':', len);
	size_t user = colon ? (size_t)(colon - from) : len;

	return decode(p->user, sizeof(p->user), from, user) && p->user[0] &&
	       (!colon || decode(p->password, sizeof(p->password), colon + 1, len - user - 1));
}

static bool parse_host(struct egress_proxy *p, const char *from, size_t len)
{
	const char *colon = NULL;
	char port[8];
	uint64_t v;
	size_t n;

	for (size_t i = 0; i < len; i++)
		if (from[i] == ':')
			colon = from + i;
	if (!colon)
		return false;
	n = (size_t)(from + len - colon - 1);
	if (n >= sizeof(port))
		return false;
	memcpy(port, colon + 1, n);
	port[n] = '\0';
	if (num_uint(port, 1, UINT16_MAX, &v) < 0)
		return false;
	p->port = (uint16_t)v;
	n = (size_t)(colon - from);
	if (n > 2 && from[0] == '[' && from[n - 1] == ']') {
		from++;
		n -= 2;
	} else if (memchr(from, ':', n)) {
		return false;
	}
	return n && !memchr(from, '%', n) && decode(p->host, sizeof(p->host), from, n);
}

bool egress_parse_proxy(struct egress_proxy *out, const char *url)
{
	static const struct { const char *scheme; uint32_t kind; } schemes[] = {
		{ "http://", PROXY_HTTP }, { "socks5://", PROXY_SOCKS5 }, { "socks5h://", PROXY_SOCKS5 },
	};
	struct egress_proxy p = { .kind = PROXY_NONE };
	const char *at = NULL;
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(schemes) && !at; i++)
		if (strncmp(url, schemes[i].scheme, strlen(schemes[i].scheme)) == 0) {
			at = url + strlen(schemes[i].scheme);
			p.kind = schemes[i].kind;
		}
	if (!at)
		return false;
	len = strcspn(at, "/?#");
	if (at[len] && strcmp(at + len, "/") != 0)
		return false;
	for (size_t i = len; i-- > 0;) /* the last one: a password may have one as well */
		if (at[i] == '@') {
			if (!parse_user(&p, at, i))
				return false;
			at += i + 1;
			len -= i + 1;
			break;
		}
	if (!parse_host(&p, at, len))
		return false;
	*out = p;
	return true;
}

/* --- the block ---------------------------------------------------------------- */

/* Where the next part goes: parts are aligned for anything. */
static uint32_t begin_part(struct buf *b)
{
	static const char zeros[16];

	if (b->len % sizeof(zeros))
		buf_add(b, zeros, sizeof(zeros) - b->len % sizeof(zeros));
	return (uint32_t)b->len;
}

static uint32_t put_string(struct buf *b, const char *text)
{
	uint32_t at;

	if (!text[0])
		return 0;
	at = begin_part(b);
	buf_add(b, text, strlen(text) + 1);
	return at;
}

static int put_proxy(struct egress_config *c, struct buf *b, const char *url,
		     struct nsbox_error *err)
{
	struct egress_proxy p = { .kind = PROXY_NONE };

	if (!url || !url[0])
		return 0;
	if (!egress_parse_proxy(&p, url)) { /* not shown: it may have a password in it */
		err_hint(err, "give http://, socks5:// or socks5h://, with [USER:PASSWORD@]HOST:PORT");
		return err_set(err, NSBOX_E_POLICY, "net.proxy is no URL of a proxy");
	}
	c->proxy.kind = p.kind;
	c->proxy.port = p.port;
	c->proxy.host = put_string(b, p.host);
	c->proxy.user = put_string(b, p.user);
	c->proxy.password = put_string(b, p.password);
	explicit_bzero(&p, sizeof(p));
	return 0;
}

/* A larger one ends with its last whole line below the bound; none is an empty one. */
static int put_hosts(struct egress_config *c, struct buf *b, const struct egress_sources *from,
		     bool *is_cut)
{
	struct buf text = BUF_INIT(HOSTS_MAX);
	size_t more = from->more_hosts ? strlen(from->more_hosts) : 0;

	if (fd_read_file(AT_FDCWD, from->hosts, &text) < 0) {
		*is_cut = errno == EFBIG;
		if (!*is_cut)
			buf_clear(&text);
		while (text.len && text.data[text.len - 1] != '\n')
			text.len--;
	}
	if (text.len + more) {
		c->hosts = begin_part(b);
		c->hosts_len = (uint32_t)(text.len + more);
		buf_add(b, from->more_hosts, more);
		buf_add(b, text.data, text.len);
	}
	buf_free(&text);
	return 0;
}

static int put_rules(struct egress_config *c, struct buf *b, const struct policy *p,
		     struct nsbox_error *err)
{
	struct egress_rules *rules;
	int r = egress_compile(&rules, p, err);

	if (r < 0)
		return r;
	c->rules = begin_part(b);
	buf_add(b, rules, rules->size);
	free(rules);
	return 0;
}

int egress_config_build(struct buf *out, const struct egress_sources *from, bool *hosts_cut,
			struct nsbox_error *err)
{
	const struct policy *p = from->policy;
	struct egress_config c = {
		.magic = EGRESS_MAGIC, .uid = from->uid, .gid = from->gid, .calls = from->calls,
		.max_connections = (uint32_t)p->net.connections,
		.max_names = (uint32_t)p->net.names,
		.max_bytes = p->net.bytes, .max_host_bytes = p->net.host_bytes,
	};
	int r;

	buf_add(out, &c, sizeof(c)); /* room for it */
	r = choose_servers(&c, from, err);
	if (r >= 0)
		r = put_rules(&c, out, p, err);
	if (r >= 0)
		r = put_hosts(&c, out, from, hosts_cut);
	if (r >= 0)
		r = put_proxy(&c, out, p->net.proxy, err);
	if (r < 0)
		return r;
	if (out->failed)
		return err_nomem(err);
	c.size = (uint32_t)out->len;
	memcpy(out->data, &c, sizeof(c));
	return 0;
}

int egress_config_fd(struct egress_link *l, const struct policy *p, const struct identity *id,
		     struct nsbox_error *err)
{
	/* Ids of nobody else, where we may give one; a user's supervisor stays that user. */
	bool has_ids = id->may_map && id->uids.count && id->gids.count;
	const struct egress_sources from = {
		.policy = p, .resolv_conf = "/etc/resolv.conf", .hosts = "/etc/hosts",
		.more_hosts = l->more_hosts, .calls = l->by_calls,
		.uid = has_ids ? identity_uid(id, l->process.pid) : UINT32_MAX,
		.gid = has_ids ? identity_gid(id, l->process.pid) : UINT32_MAX,
	};
	struct buf block = BUF_INIT(BLOCK_MAX);
	int r = egress_config_build(&block, &from, &l->hosts_cut, err);

	if (r >= 0) {
		r = fd_sealed("nsbox-egress", block.data, block.len);
		if (r < 0)
			r = err_sys(err, "put the network's rules into a memory file");
	}
	if (block.data)
		explicit_bzero(block.data, block.len);
	buf_free(&block);
	return r;
}
