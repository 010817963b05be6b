/*
 * The network's part of policy_check(): lists, who asks and connects for the box, and
 * what another system's meaning of the lists asks for.
 *
 * Pure: looks at text, never at the host. Mustn't show a proxy's password.
 */
#include "policy/egress_entry.h"
#include "policy/value.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_ARGS const struct policy *p, struct nsbox_error *err

/* An opening list that opens nothing is what somebody meant to work. */
static int check_openings(CHECK_ARGS)
{
	const char *key = p->net.allow_out.n	     ? "net.allow_out" :
			  p->net.allow_private.n ? "net.allow_private" :
						   NULL;

	if (p->net.mode != NET_DISABLED || !key)
		return 0;
	err_set(err, NSBOX_E_POLICY,
		"%s is given, but net.mode is disabled: nothing can be reached",
		key);
	err_hint(err, "drop it, or ask for --net filtered");
	return NSBOX_E_POLICY;
}

/* What the inlet's process does, a packet filter does not: names, caps, proxies. */
static const char *beyond_veth(const struct policy *p)
{
	static const char *const keys[] = { "net.publish", "net.proxy", "net.connections",
					    "net.names", "net.bytes", "net.host_bytes" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!policy_is_preset(p, policy_key(keys[i])))
			return keys[i];
	return NULL;
}

static int check_path(CHECK_ARGS)
{
	struct egress_rules *rules = NULL;
	const char *key, *entry;
	int code;

	if (p->net.path == PATH_INLET)
		return 0;
	if (p->net.mode == NET_DISABLED)
		return err_set(err, NSBOX_E_POLICY, "net.path is veth, but net.mode is disabled");
	code = egress_compile(&rules, p, err);
	if (code < 0)
		return code;
	key = beyond_veth(p);
	entry = egress_beyond_ranges4(rules);
	if (key)
		code = err_set(err, NSBOX_E_POLICY, "%s cannot be enforced with net.path=veth", key);
	else if (entry)
		code = err_set(err, NSBOX_E_POLICY,
			       "\"%s\" cannot be enforced with net.path=veth: its rules are for IPv4 "
			       "addresses, CIDRs and ALL_TRAFFIC", SHOWN(entry));
	free(rules);
	if (code < 0)
		err_hint(err, "leave out net.path=veth: the default path has names, IPv6, caps, proxies "
			      "and published ports");
	return code;
}

/* --- E2B's rules for the lists --------------------------------------------------------- */

static int refuse_e2b(const char *why, const char *hint, size_t at,
		      const struct strlist *list, struct nsbox_error *err)
{
	err_set(err, NSBOX_E_POLICY, "net.compat=e2b: entry %zu, \"%s\": %s", at + 1,
		SHOWN(list->v[at]), why);
	err_hint(err, "%s", hint);
	return NSBOX_E_POLICY;
}

/* "0.0.0.0/24": any prefix of it but 0 is unspecified there. */
static bool is_unspecified(const struct entry *e)
{
	static const uint8_t none[16];

	return e->kind == ENTRY_NET && e->bits &&
	       memcmp(e->addr.bytes, none, addr_bits(&e->addr) / 8) == 0;
}

static bool is_everything(const struct entry *e)
{
	return e->kind == ENTRY_ALL || (e->kind == ENTRY_NET && !e->bits && e->addr.family == 4);
}

static int check_e2b_deny(const struct policy *p, bool *denies_all, struct nsbox_error *err)
{
	const struct strlist *l = &p->net.deny_out;
	struct entry_error bad;
	struct entry e;

	for (size_t i = 0; i < l->n; i++) {
		if (entry_parse(&e, l->v[i], LIST_DENY, &bad) < 0)
			return entry_refused(&bad, LIST_DENY, i, l->v[i], err);
		if (e.kind != ENTRY_NET && e.kind != ENTRY_ALL)
			return refuse_e2b("net.deny_out takes addresses and CIDRs only",
					  "deny 0.0.0.0/0 and allow the names that may be reached",
					  i, l, err);
		if (is_unspecified(&e))
			return refuse_e2b("it is an unspecified address",
					  "for everything: 0.0.0.0/0", i, l, err);
		*denies_all |= is_everything(&e);
	}
	return 0;
}

static int check_e2b(CHECK_ARGS)
{
	const struct strlist *l = &p->net.allow_out;
	bool denies_all = false;
	struct entry_error bad;
	struct entry e;
	int code;

	if (p->net.compat != COMPAT_E2B)
		return 0;
	if (p->net.precedence == PRECEDENCE_DENY)
		return err_set(err, NSBOX_E_POLICY,
			       "net.compat=e2b and net.precedence=deny contradict each other");
	code = check_e2b_deny(p, &denies_all, err);
	for (size_t i = 0; code == 0 && i < l->n; i++) {
		if (entry_parse(&e, l->v[i], LIST_ALLOW, &bad) < 0)
			return entry_refused(&bad, LIST_ALLOW, i, l->v[i], err);
		if (is_unspecified(&e))
			code = refuse_e2b("it is an unspecified address",
					  "for everything: 0.0.0.0/0", i, l, err);
		else if (e.kind != ENTRY_NET && e.kind != ENTRY_ALL && !denies_all)
			code = refuse_e2b("a name needs 0.0.0.0/0 in net.deny_out",
					  "add --deny-out 0.0.0.0/0, or drop --compat e2b: then allow_out alone denies the rest",
					  i, l, err);
	}
	return code;
}

/* --- who asks and connects ------------------------------------------------------------- */

static bool is_port(const char *text)
{
	uint64_t port;

	return num_uint(text, 1, UINT16_MAX, &port) == 0;
}

static int check_resolvers(CHECK_ARGS)
{
	const struct strlist *l = &p->net.resolvers;

	if (l->n > NET_RESOLVERS_MAX)
		return err_set(err, NSBOX_E_POLICY, "net.resolvers: more than %d servers",
			       NET_RESOLVERS_MAX);
	for (size_t i = 0; i < l->n; i++) {
		struct entry_error bad;
		struct host_port hp;
		struct egress_addr a;
		bool fine = host_port_split(&hp, l->v[i], &bad) == 0 && !hp.proto;

		if (fine && strchr(hp.host, ':'))
			hp.host[strcspn(hp.host, "%")] = '\0'; /* fe80::1%eth0 */
		if (fine && addr_parse(&a, hp.host) && (!hp.has_port || is_port(hp.port)))
			continue;
		err_set(err, NSBOX_E_POLICY, "net.resolvers: \"%s\" is not the address of a server",
			SHOWN(l->v[i]));
		err_hint(err, "192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53");
		return NSBOX_E_POLICY;
	}
	return 0;
}

/* Everything behind the scheme and the user. */
static bool is_proxy_place(const char *at)
{
	char text[ENTRY_TEXT], name[EGRESS_NAME_MAX + 1];
	size_t len = strcspn(at, "/?#");
	struct entry_error bad;
	struct host_port hp;
	struct egress_addr a;

	if (len >= sizeof(text) || (at[len] && strcmp(at + len, "/") != 0))
		return false;
	memcpy(text, at, len);
	text[len] = '\0';
	return host_port_split(&hp, text, &bad) == 0 && hp.has_port && is_port(hp.port) &&
	       (addr_parse(&a, hp.host) || egress_name_canonical(name, hp.host, strlen(hp.host)));
}

static const char *behind_scheme(const char *url)
{
	static const char *const schemes[] = { "http://", "socks5://", "socks5h://" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
			return url + strlen(schemes[i]);
	return NULL;
}

static int check_proxy(CHECK_ARGS)
{
	const char *url = p->net.proxy, *at, *user_end;

	if (!url || !*url)
		return 0;
	at = behind_scheme(url);
	user_end = at ? strrchr(at, '@') : NULL;
	if (at && user_end != at && is_proxy_place(user_end ? user_end + 1 : at))
		return 0;
	err_set(err, NSBOX_E_POLICY, "net.proxy is not the URL of a proxy");
	err_hint(err, "http://, socks5:// or socks5h://, then [USER:PASSWORD@]HOST:PORT");
	return NSBOX_E_POLICY;
}

void policy_proxy_shown(const char *url, struct buf *out)
{
	const char *scheme = strstr(url, "://"), *start = scheme ? scheme + 3 : url;
	const char *at = strrchr(start, '@');
	size_t user = at ? strcspn(start, ":@") : 0;

	buf_add(out, url, (size_t)(start - url));
	if (at && start[user] == ':')
		buf_add(out, start, user + 1);
	if (at)
		buf_str(out, "***");
	buf_str(out, at ? at : start);
}

/* --- published ports ------------------------------------------------------------------- */

/* "8080:80", "127.0.0.1:8080:80", "[::1]:8080:80"; the length of what stands before the
 * box's port, or 0. */
static size_t publication_host(const char *text)
{
	const char *last = strrchr(text, ':');
	size_t len = last ? (size_t)(last - text) : 0;
	char host[64];
	struct entry_error bad;
	struct host_port hp;
	struct egress_addr a;

	if (!last || !is_port(last + 1) || len >= sizeof(host))
		return 0;
	memcpy(host, text, len);
	host[len] = '\0';
	if (is_port(host))
		return len;
	if (host_port_split(&hp, host, &bad) < 0 || hp.proto || !hp.has_port || !is_port(hp.port))
		return 0;
	return addr_parse(&a, hp.host) ? len : 0;
}

static int check_publish(CHECK_ARGS)
{
	const struct strlist *l = &p->net.publish;

	if (l->n > NET_PUBLISH_MAX)
		return err_set(err, NSBOX_E_POLICY, "net.publish: more than %d ports",
			       NET_PUBLISH_MAX);
	for (size_t i = 0; i < l->n; i++) {
		size_t len = publication_host(l->v[i]);

		if (!len) {
			err_set(err, NSBOX_E_POLICY,
				"net.publish: \"%s\" is not [ADDRESS:]HOSTPORT:PORT",
				SHOWN(l->v[i]));
			err_hint(err, "8080:80 leads from 127.0.0.1:8080 of the host to port 80 of the box");
			return NSBOX_E_POLICY;
		}
		for (size_t j = 0; j < i; j++)
			if (strncmp(l->v[i], l->v[j], len + 1) == 0)
				return err_set(err, NSBOX_E_POLICY,
					       "net.publish: \"%s\" and \"%s\" have the same port of the host",
					       SHOWN(l->v[j]), SHOWN(l->v[i]));
	}
	return 0;
}

int policy_check_net(CHECK_ARGS)
{
	static int (*const checks[])(CHECK_ARGS) = {
		egress_check_entries, check_openings, check_path,   check_e2b,
		check_resolvers,      check_proxy,    check_publish,
	};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		int code = checks[i](p, err);

		if (code < 0)
			return code;
	}
	return 0;
}
