/*
 * stub.c - see stub.h. Runs in the supervisor.
 *
 * Must:    send nothing upstream for a name that is not allowed, and nothing at all before
 *          the box connects where lists name what is allowed: a lookup alone carries data.
 * Mustn't: give the box an address of the outside; every name leads back to us. Nor HTTPS or
 *          SVCB records, which would hide the name in a ClientHello (ECH).
 */
#include "runtime/egress/stub.h"

#include "runtime/egress/hosts.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FAKE_TTL = 60,
	ASKS_MAX = 1024, RELAYS_MAX = 64,
	META_FIRST = 128, META_LAST = 255, /* RFC 6895: questions about more than one type */
};

struct stub_ask {
	struct stub *stub;
	struct dns_query query;
	struct stub_client client;
	bool is_relay;
	char name[EGRESS_NAME_MAX + 1];	/* canonical */
	/* once it waits */
	struct stub_ask *next, **self;
	struct lookup lookup;
	struct ask ask;
};

/* --- answers ------------------------------------------------------------------------------- */

static void answer(const struct stub_ask *a, const struct dns_reply *r)
{
	uint8_t out[DNS_UDP_MAX];
	size_t room = dns_room(&a->query, a->client.over_tcp);

	a->client.reply(a->client.arg, out,
		 dns_write_answer(out, room < sizeof(out) ? room : sizeof(out), &a->query, r));
}

static void answer_code(const struct stub_ask *a, enum dns_rcode rcode)
{
	answer(a, &(struct dns_reply){ .rcode = rcode });
}

static void answer_addr(const struct stub_ask *a, const struct egress_addr *addr)
{
	answer(a, &(struct dns_reply){ .ttl = FAKE_TTL, .addrs = addr, .count = 1 });
}

/*
 * For the box the name does not exist. REFUSED would be more honest, but libcs take it for a
 * server that fails: glibc 2.36 says "temporary failure", upon which npm tries again, and musl
 * 1.2.3 waits for a better answer until its time is up. Who wants to know finds "blocked" in
 * the extended error. Without an SOA nobody keeps the answer (RFC 2308, 5): rules may change.
 */
static void answer_blocked(const struct stub_ask *a)
{
	answer(a, &(struct dns_reply){ .rcode = DNS_NXDOMAIN, .extended = DNS_BLOCKED });
}

static void note(const struct stub_ask *a, const char *name, const char *why)
{
	char what[EGRESS_NAME_MAX + 64];

	/* The sentence names what was asked for; the rule is no rule of a policy. */
	snprintf(what, sizeof(what), "lookup %s (type %u)", name, a->query.type);
	ledger_deny_text(a->stub->ledger, what, why, "");
}

static void block(const struct stub_ask *a, const char *name, const char *why)
{
	note(a, name, why);
	answer_blocked(a);
}

static void refuse_full(const struct stub_ask *a)
{
	struct ledger *l = a->stub->ledger;
	char what[EGRESS_NAME_MAX + 16], rule[64], allow[64];
	unsigned max = l->config->max_names;

	l->totals.cap |= CAP_NAMES;
	snprintf(what, sizeof(what), "lookup %s", a->name);
	snprintf(rule, sizeof(rule), "net.names=%u", max);
	snprintf(allow, sizeof(allow), "--set net.names=%llu", 2ULL * max);
	ledger_deny_text(l, what, rule, allow);
	answer_code(a, DNS_SERVFAIL);
}

static void answer_fake(const struct stub_ask *a)
{
	bool wants_v6 = a->query.type == DNS_AAAA;
	struct egress_addr addr;
	uint32_t number;

	if (wants_v6 && !a->stub->has_v6) {
		answer_code(a, DNS_NOERROR);
		return;
	}
	number = names_add(a->stub->names, a->name);
	if (!number) {
		refuse_full(a);
		return;
	}
	addr = wants_v6 ? names_addr6(number) : names_addr4(number);
	answer_addr(a, &addr);
}

/* --- what waits for an upstream answer --------------------------------------------------------- */

static struct stub_ask *wait_for(const struct stub_ask *from)
{
	struct stub *s = from->stub;
	struct stub_ask *a;

	if (s->ask_count >= ASKS_MAX || (from->is_relay && s->relay_count >= RELAYS_MAX))
		return NULL;
	a = malloc(sizeof(*a));
	if (!a)
		return NULL;
	*a = *from;
	a->next = s->asks;
	a->self = &s->asks;
	if (a->next)
		a->next->self = &a->next;
	s->asks = a;
	s->ask_count++;
	s->relay_count += a->is_relay;
	return a;
}

static void waited(struct stub_ask *a)
{
	*a->self = a->next;
	if (a->next)
		a->next->self = a->self;
	a->stub->ask_count--;
	a->stub->relay_count -= a->is_relay;
}

static void on_lookup(struct lookup *l, enum lookup_result r)
{
	static const enum dns_rcode codes[] = {
		[LOOKUP_NO_NAME] = DNS_NXDOMAIN, [LOOKUP_NO_ADDRESS] = DNS_NOERROR,
		[LOOKUP_FAILED] = DNS_SERVFAIL, [LOOKUP_TIMEOUT] = DNS_SERVFAIL,
	};
	struct stub_ask *a = PART_OF(l, struct stub_ask, lookup);

	waited(a);
	if (r == LOOKUP_FOUND)
		answer_fake(a);
	else
		answer_code(a, codes[r]);
	free(a);
}

static void on_relayed(struct ask *ask, const struct dns_result *r, const uint8_t *msg)
{
	struct stub_ask *a = PART_OF(ask, struct stub_ask, ask);
	size_t room = dns_room(&a->query, a->client.over_tcp);
	uint8_t *out = r && r->only_asked ? malloc(room) : NULL;

	waited(a);
	if (out)
		a->client.reply(a->client.arg, out, dns_write_relay(out, room, &a->query, r, msg));
	else
		answer_code(a, DNS_SERVFAIL);
	free(out);
	free(a);
}

/* Does it exist? What its addresses are is nobody's business but the connection's. */
static void ask_upstream(const struct stub_ask *from)
{
	struct stub_ask *a = wait_for(from);

	if (!a) {
		answer_code(from, DNS_SERVFAIL);
		return;
	}
	a->lookup = (struct lookup){ .done = on_lookup };
	memcpy(a->lookup.name, a->name, sizeof(a->lookup.name));
	if (resolver_ask(a->stub->resolver, &a->lookup) == 0)
		return;
	waited(a);
	answer_code(a, DNS_SERVFAIL);
	free(a);
}

static void relay(struct stub_ask *from)
{
	struct stub_ask *a;

	from->is_relay = true;
	a = wait_for(from);
	if (!a) {
		answer_code(from, DNS_SERVFAIL);
		return;
	}
	a->ask = (struct ask){ .done = on_relayed,
			       .query = { .type = a->query.type, .name = a->query.name } };
	resolver_relay(a->stub->resolver, &a->ask);
}

/* --- judging --------------------------------------------------------------------------------- */

/* Data that is plain, or names that are looked up here before they are of use. */
static bool is_relayed(uint16_t type)
{
	static const uint16_t types[] = {
		DNS_NS, DNS_CNAME, DNS_SOA, DNS_MX, DNS_TXT, DNS_SRV, DNS_NAPTR, DNS_DS,
		DNS_SSHFP, DNS_DNSKEY, DNS_TLSA, DNS_SPF, DNS_URI, DNS_CAA,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i] == type)
			return true;
	return false;
}

static bool is_refused(uint16_t type)
{
	return type == DNS_HTTPS || type == DNS_SVCB || type == DNS_OPT ||
	       (type >= META_FIRST && type <= META_LAST);
}

static bool is_loopback(const struct egress_addr *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, one, sizeof(one)) == 0;
}

/* Who asks the outside whose address that is tells it which one it saw. */
static void answer_reverse(const struct stub_ask *a, const struct egress_addr *addr)
{
	const char *name = is_loopback(addr) ? "localhost" : names_find(a->stub->names, addr);
	struct dns_name ptr;

	if (!name || !dns_name_set(&ptr, name))
		block(a, a->name, "always denied: reverse lookup");
	else if (a->query.type != DNS_PTR)
		answer_code(a, DNS_NOERROR);
	else
		answer(a, &(struct dns_reply){ .ttl = FAKE_TTL, .ptr = &ptr });
}

static void answer_localhost(const struct stub_ask *a)
{
	static const struct egress_addr v4 = { 4, { 127, 0, 0, 1 } }, v6 = { 6, { [15] = 1 } };

	if (a->query.type == DNS_A)
		answer_addr(a, &v4);
	else if (a->query.type == DNS_AAAA)
		answer_addr(a, &v6);
	else
		answer_code(a, DNS_NOERROR);
}

/* _http._tcp.example.org is example.org's, and clients ask for it unbidden. */
static const char *service_owner(const char *name)
{
	while (*name == '_') {
		const char *dot = strchr(name, '.');

		if (!dot)
			break;
		name = dot + 1;
	}
	return name;
}

static void answer_denied(const struct stub_ask *a, const struct egress_verdict *v)
{
	const struct egress_dest d = { .name = a->name };
	const char *owner = service_owner(a->name);

	if (owner != a->name && !is_refused(a->query.type) && a->query.type != DNS_A &&
	    a->query.type != DNS_AAAA && egress_judge_lookup(a->stub->rules, owner).allowed) {
		answer_code(a, DNS_NOERROR);
		return;
	}
	ledger_deny(a->stub->ledger, &d, v, "lookup");
	answer_blocked(a);
}

static void answer_allowed(struct stub_ask *a)
{
	/* Behind a proxy the host itself may know no names: the proxy does. */
	bool is_asked = egress_default_allows(a->stub->rules) &&
			a->stub->ledger->config->proxy.kind == PROXY_NONE;
	uint16_t type = a->query.type;

	if (is_refused(type))
		answer_code(a, DNS_REFUSED);
	else if (type == DNS_A || type == DNS_AAAA)
		(is_asked ? ask_upstream : answer_fake)(a);
	else if (is_asked && is_relayed(type))
		relay(a);
	else
		answer_code(a, DNS_NOERROR);
}

/* The name in one spelling; false: it was refused. */
static bool take_name(struct stub_ask *a)
{
	char text[EGRESS_NAME_MAX + 1];

	if (!dns_name_text(text, &a->query.name)) {
		block(a, "a name with odd bytes", "always denied: not a host name");
	} else if (!egress_name_canonical(a->name, text, strlen(text))) {
		block(a, *text ? text : ".", "always denied: not a host name");
	} else if (a->query.class != DNS_CLASS_IN) {
		note(a, text, "always denied: not of class IN");
		answer_code(a, DNS_REFUSED);
	} else {
		return true;
	}
	return false;
}

static void judge(struct stub_ask *a)
{
	struct egress_verdict v;
	struct egress_addr addr;

	a->stub->ledger->totals.lookups++;
	if (!take_name(a))
		return;
	if (dns_reverse(&addr, a->name)) {
		answer_reverse(a, &addr);
	} else if (hosts_is_localhost(a->name)) {
		answer_localhost(a);
	} else {
		v = egress_judge_lookup(a->stub->rules, a->name);
		if (v.allowed)
			answer_allowed(a);
		else
			answer_denied(a, &v);
	}
}

int stub_ask(struct stub *s, const uint8_t *query, size_t len, const struct stub_client *client)
{
	struct stub_ask a = { .stub = s, .client = *client };
	enum dns_rcode rcode;

	switch (dns_read_query(&a.query, &rcode, query, len)) {
	case DNS_DROP:
		client->reply(client->arg, NULL, 0);
		break;
	case DNS_WRONG:
		answer_code(&a, rcode);
		break;
	case DNS_QUESTION:
		judge(&a);
	}
	return 0;
}

void stub_end(struct stub *s)
{
	while (s->asks) {
		struct stub_ask *a = s->asks;

		waited(a);
		resolver_cancel(s->resolver, &a->lookup);
		ask_cancel(&a->ask);
		a->client.reply(a->client.arg, NULL, 0);
		free(a);
	}
	stub_serve_end(s);
}
