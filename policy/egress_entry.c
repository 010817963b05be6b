/*
 * Entries of egress rules as text, and what is wrong with one. Pure.
 *
 * Must:    say what to write instead, wherever that is clear.
 * Mustn't: show an entry that may have a password or a token in it.
 */
#include "policy/egress_entry.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "policy/value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const rule_list_names[LIST_COUNT] = {
	[LIST_ALLOW] = "net.allow_out", [LIST_DENY] = "net.deny_out",
	[LIST_PRIVATE] = "net.allow_private",
};

const struct strlist *rule_list(const struct policy *p, enum rule_list list)
{
	const struct strlist *const lists[LIST_COUNT] = {
		[LIST_ALLOW] = &p->net.allow_out, [LIST_DENY] = &p->net.deny_out,
		[LIST_PRIVATE] = &p->net.allow_private,
	};

	return lists[list];
}

static int bad(struct entry_error *err, const char *why)
{
	err->why = why;
	return -1;
}

#define HINT(err, ...) snprintf((err)->hint, sizeof((err)->hint), __VA_ARGS__)

/* A part of the entry itself is as hostile as the whole. */
static void hint_part(struct entry_error *err, const char *words, const char *part, size_t len)
{
	char text[ENTRY_TEXT];

	if (!len || len >= sizeof(text))
		return;
	memcpy(text, part, len);
	text[len] = '\0';
	HINT(err, "%s%s", words, SHOWN(text));
}

int entry_refused(const struct entry_error *e, enum rule_list list, size_t at,
		  const char *text, struct nsbox_error *err)
{
	if (e->has_secret)
		err_set(err, NSBOX_E_POLICY, "%s: entry %zu: %s", rule_list_names[list], at + 1,
			e->why);
	else
		err_set(err, NSBOX_E_POLICY, "%s: entry %zu, \"%s\": %s", rule_list_names[list],
			at + 1, SHOWN(text), e->why);
	if (e->hint[0])
		err_hint(err, "%s", e->hint);
	else if (list == LIST_PRIVATE)
		err_hint(err, "names are resolved first, so only addresses count here: 10.0.0.0/8");
	else
		err_hint(err, "a name, *.name, .name, an address, a CIDR or ALL_TRAFFIC, each with :PORT and /udp if wanted");
	return NSBOX_E_POLICY;
}

/* --- host and port -------------------------------------------------------------------- */

/* "http://host/path", "user@host": what people paste. */
static int check_paste(const char *text, struct entry_error *err)
{
	const char *scheme = strstr(text, "://");
	const char *host = scheme ? scheme + 3 : text;
	const char *at = strrchr(host, '@');

	if (!scheme && !at)
		return 0;
	err->has_secret = at || strchr(host, '?'); /* a query may have a token in it */
	host = at ? at + 1 : host;
	hint_part(err, "give the host alone: ", host, strcspn(host, "/?#"));
	return bad(err, scheme ? "it is a URL" : "it names a user");
}

/* Cuts "/udp" or "/tcp" off: no prefix of a CIDR is a word. */
static unsigned take_proto(char *text)
{
	static const struct { const char *suffix; unsigned bit; } protos[] = {
		{ "/udp", PROTO_UDP_BIT }, { "/tcp", PROTO_TCP_BIT },
	};
	size_t len = strlen(text);

	for (size_t i = 0; i < ARRAY_SIZE(protos); i++)
		if (len > 4 && strcasecmp(text + len - 4, protos[i].suffix) == 0) {
			text[len - 4] = '\0';
			return protos[i].bit;
		}
	return 0;
}

/* "[::1]:80", "[::1]/64:80", "[::/64]:80": the brackets go, the port's colon is found. */
static int take_brackets(char *text, char **colon, struct entry_error *err)
{
	char *close = strchr(text, ']'), *rest;

	if (!close || !memchr(text, ':', (size_t)(close - text)))
		return bad(err, "brackets are for an IPv6 address");
	rest = close + 1;
	*colon = strchr(rest, ':');
	if (*rest && *rest != ':' && *rest != '/')
		return bad(err, "something stands behind its bracket");
	memmove(close, rest, strlen(rest) + 1);
	memmove(text, text + 1, strlen(text + 1) + 1);
	if (*colon)
		*colon -= 2;
	return 0;
}

int host_port_split(struct host_port *out, const char *text, struct entry_error *err)
{
	struct host_port hp = { .has_port = false };
	char *colon;

	*err = (struct entry_error){ 0 };
	if (strlen(text) >= sizeof(hp.host))
		return bad(err, "it is too long");
	if (check_paste(text, err) < 0)
		return -1;
	memcpy(hp.host, text, strlen(text) + 1);
	hp.proto = take_proto(hp.host);
	colon = strchr(hp.host, ':');
	if (hp.host[0] == '[' && take_brackets(hp.host, &colon, err) < 0)
		return -1;
	/* More than one colon and no brackets: an IPv6 address, which has no port. */
	if (colon && (text[0] == '[' || !strchr(colon + 1, ':'))) {
		*colon = '\0';
		if (strlen(colon + 1) >= sizeof(hp.port))
			return bad(err, "its port is not a number from 1 to 65535");
		memcpy(hp.port, colon + 1, strlen(colon + 1) + 1);
		hp.has_port = true;
	}
	*out = hp;
	return 0;
}

/* "80", "8000-8999" */
static int parse_ports(struct entry *e, const char *text, struct entry_error *err)
{
	size_t n = strcspn(text, "-");
	char first[16];
	uint64_t a, b;

	memcpy(first, text, n); /* shorter than host_port.port */
	first[n] = '\0';
	if (num_uint(first, 1, UINT16_MAX, &a) < 0 ||
	    num_uint(text[n] ? text + n + 1 : first, 1, UINT16_MAX, &b) < 0)
		return bad(err, "its port is not a number from 1 to 65535");
	if (b < a)
		return bad(err, "its range of ports ends before it begins");
	e->first = (uint16_t)a;
	e->last = (uint16_t)b;
	return 0;
}

/* --- addresses ------------------------------------------------------------------------ */

/* 0.0.0.0/1 has half of the world in it, 0.0.0.0/8 only "this network" (RFC 1122); the
 * same with ::/2 (which has 2000::/3) and ::/3. */
static bool is_unspecified(const struct entry *e)
{
	static const uint8_t none[16];

	return memcmp(e->addr.bytes, none, addr_bits(&e->addr) / 8) == 0 &&
	       e->bits >= (e->addr.family == 4 ? 8 : 3);
}

static int parse_prefix(struct entry *e, const char *text, struct entry_error *err)
{
	uint64_t bits;

	if (num_uint(text, 0, addr_bits(&e->addr), &bits) < 0) {
		if (strchr(text, ':'))
			HINT(err, "an IPv6 range with a port has brackets: [%s]/64:443", "2001:db8::");
		return bad(err, e->addr.family == 4 ? "its prefix is not a number from 0 to 32"
						    : "its prefix is not a number from 0 to 128");
	}
	e->bits = (unsigned)bits;
	return 0;
}

/* What is no address but looks like one. */
static int not_an_address(const char *text, struct entry_error *err)
{
	struct egress_addr a;
	char shape[EGRESS_ADDR_TEXT];

	if (addr_parse_loose(&a, text)) {
		HINT(err, "did you mean %s?", egress_addr_text(&a, shape));
		return bad(err, "it is an address in a spelling that others read as a name");
	}
	if (strchr(text, '%')) {
		HINT(err, "leave out what follows the %%");
		return bad(err, "an address of a rule has no zone");
	}
	if (strchr(text, ':')) /* no name has one */
		return bad(err, "it is not an IPv6 address");
	return 0;
}

/* 1: a net; 0: no address at all; -1 */
static int parse_net(struct entry *e, const char *host, struct entry_error *err)
{
	char text[ENTRY_TEXT], shape[EGRESS_ADDR_TEXT];
	size_t n = strcspn(host, "/");

	memcpy(text, host, n);
	text[n] = '\0';
	if (!addr_parse(&e->addr, text)) {
		if (not_an_address(text, err) < 0)
			return -1;
		if (strcasecmp(host + n, "/udp") == 0)
			HINT(err, "the protocol comes last: HOST:PORT/udp");
		else if (host[n])
			hint_part(err, "a rule has no path: give ", host, n);
		return host[n] ? bad(err, "it is not an address with a prefix") : 0;
	}
	e->kind = ENTRY_NET;
	e->bits = addr_bits(&e->addr);
	if (host[n] && parse_prefix(e, host + n + 1, err) < 0)
		return -1;
	if (e->addr.family == 6 && e->bits >= 96) {
		struct egress_addr v4 = egress_addr_normal(e->addr);

		e->bits -= v4.family == 4 ? 96 : 0;
		e->addr = v4;
	}
	if (addr_mask(&e->addr, e->bits)) {
		HINT(err, "did you mean %s/%u?", egress_addr_text(&e->addr, shape), e->bits);
		return bad(err, "it has bits set beyond its prefix");
	}
	if (!is_unspecified(e))
		return 1;
	HINT(err, "for everything: ALL_TRAFFIC, 0.0.0.0/0 or ::/0");
	return bad(err, "it is the unspecified address, which nobody has");
}

/* --- names ---------------------------------------------------------------------------- */

static int check_stars(const char *host, const char *name, struct entry_error *err)
{
	if (strcmp(host, "*") == 0) {
		HINT(err, "for everything: ALL_TRAFFIC");
		return bad(err, "a star stands for labels in front of a name");
	}
	if (!strchr(name, '*'))
		return 0;
	if (host[0] == '*' && host[1] != '.' && !strchr(host + 1, '*'))
		HINT(err, "did you mean *.%s?", SHOWN(host + 1));
	else
		HINT(err, "a star is a whole label, the first one: *.example.com");
	return bad(err, "a star is only allowed as its first label");
}

static int parse_name(struct entry *e, const char *host, struct entry_error *err)
{
	const char *name = host;

	e->kind = ENTRY_NAME;
	if (strncmp(host, "*.", 2) == 0) {
		e->kind = ENTRY_BELOW;
		name = host + 2;
	} else if (host[0] == '.') {
		e->kind = ENTRY_TREE;
		name = host + 1;
	}
	for (const char *c = host; *c; c++)
		if ((unsigned char)*c >= 0x80) {
			HINT(err, "write it in punycode (xn--...), as DNS has it");
			return bad(err, "it is not ASCII");
		}
	if (check_stars(host, name, err) < 0)
		return -1;
	if (!egress_name_canonical(e->name, name, strlen(name)))
		return bad(err, strstr(host, "..") ? "it has an empty label"
						   : "it is neither a name nor an address");
	if (e->kind == ENTRY_NAME || strchr(e->name, '.'))
		return 0;
	HINT(err, "name the sites: *.example.%s", e->name);
	return bad(err, "it would be a whole top-level domain");
}

/* --- the whole entry ------------------------------------------------------------------ */

/*
 * What is not written: an address means all of it. A name that is allowed means the web,
 * because any other service under it is somebody else's decision; a name that is denied
 * means all of it, because less would be a hole that nobody sees.
 */
static void set_defaults(struct entry *e, const struct host_port *hp, enum rule_list list)
{
	bool is_web = list == LIST_ALLOW && e->kind != ENTRY_NET && e->kind != ENTRY_ALL;

	e->protos = hp->proto ? hp->proto : PROTO_TCP_BIT | (is_web ? 0U : PROTO_UDP_BIT);
	if (hp->has_port)
		return;
	e->first = is_web ? 0 : 1;
	e->last = is_web ? 0 : UINT16_MAX;
}

static int parse_private(struct entry *e, const struct host_port *hp, struct entry_error *err)
{
	int r;

	if (strcasecmp(hp->host, "all_traffic") == 0) {
		HINT(err, "write 0.0.0.0/0 and ::/0 if it has to be all");
		return bad(err, "it is not an address or CIDR");
	}
	r = parse_net(e, hp->host, err);
	if (r == 0)
		return bad(err, "it is not an address or CIDR");
	if (r > 0 && (hp->has_port || hp->proto)) {
		HINT(err, "ports belong into net.allow_out");
		return bad(err, "it is an address with a port or protocol");
	}
	return r < 0 ? -1 : 0;
}

int entry_parse(struct entry *out, const char *text, enum rule_list list,
		struct entry_error *err)
{
	struct entry e = { 0 };
	struct host_port hp;
	int r;

	if (host_port_split(&hp, text, err) < 0)
		return -1;
	if (hp.has_port && list != LIST_PRIVATE && parse_ports(&e, hp.port, err) < 0)
		return -1;
	if (list == LIST_PRIVATE) {
		r = parse_private(&e, &hp, err);
	} else if (strcasecmp(hp.host, "all_traffic") == 0) {
		e.kind = ENTRY_ALL;
		r = 0;
	} else {
		r = parse_net(&e, hp.host, err);
		if (r == 0)
			r = parse_name(&e, hp.host, err);
	}
	if (r < 0)
		return -1;
	set_defaults(&e, &hp, list);
	*out = e;
	return 0;
}

/* --- a destination to ask about ------------------------------------------------------- */

static int refuse_asked(const struct entry_error *e, const char *text, struct nsbox_error *err)
{
	if (e->has_secret)
		err_set(err, NSBOX_E_USAGE, "not a destination: %s", e->why);
	else
		err_set(err, NSBOX_E_USAGE, "\"%s\" is not a destination: %s", SHOWN(text), e->why);
	err_hint(err, "%s", e->hint[0] ? e->hint :
		 "HOST[:PORT][/udp], as in example.org, 192.0.2.1:53/udp, [2001:db8::1]:443");
	return NSBOX_E_USAGE;
}

int egress_ask(struct egress_asked *out, const char *text, struct nsbox_error *err)
{
	struct entry_error bad;
	struct host_port hp;
	uint64_t port = 443;

	*out = (struct egress_asked){ .is_respelled = false };
	if (host_port_split(&hp, text, &bad) < 0)
		return refuse_asked(&bad, text, err);
	if (hp.has_port && num_uint(hp.port, 1, UINT16_MAX, &port) < 0) {
		bad.why = "its port is not a number from 1 to 65535";
		return refuse_asked(&bad, text, err);
	}
	out->dest.port = (uint16_t)port;
	out->dest.proto = hp.proto == PROTO_UDP_BIT ? EGRESS_UDP : EGRESS_TCP;
	if (addr_parse(&out->addr, hp.host)) {
		out->dest.addr = &out->addr;
	} else if (addr_parse_loose(&out->addr, hp.host)) {
		out->is_respelled = true;
		out->dest.addr = &out->addr;
	} else if (egress_name_canonical(out->name, hp.host, strlen(hp.host))) {
		out->dest.name = out->name;
	} else {
		bad.why = strchr(hp.host, '/') ? "it is a range or has a path"
					       : "it is neither a name nor an address";
		return refuse_asked(&bad, text, err);
	}
	return 0;
}
