/* The box's name server with rules, a ledger and a name server upstream. */
#ifndef STUB_RIG_H
#define STUB_RIG_H

#include "dns_server.h"

#include "runtime/egress/stub.h"

#include <stdlib.h>

static const struct zone_row zone[] = {
	{ "there.test", DNS_A, "192.0.2.1", 300, PLAIN },
	{ "there.test", DNS_MX, "mx.test", 300, PLAIN },
	{ "there.test", DNS_TXT, "\4text", 300, PLAIN },
	{ "text.test", DNS_TXT, "\4text", 300, PLAIN },
	{ "cut.test", DNS_TXT, "\4text", 300, CUT },
	{ "lying.test", DNS_TXT, "\4text", 300, LYING_LENGTH },
	{ "broken.test", 0, "2", 0, CODE },
	{ "slow.test", DNS_A, "192.0.2.2", 300, SILENT },
	{ "slow.test", DNS_AAAA, "2001:db8::2", 300, SILENT },
	{ 0 }
};

struct rig {
	struct loop loop;
	struct dns_server server;
	struct egress_config config;
	struct egress_rules *rules;
	struct ledger ledger;
	struct stub stub;
	/* the latest answer */
	uint8_t p[DNS_MESSAGE_MAX];
	size_t len;
	unsigned answers;
	bool stops;		/* an answer stops the loop */
};

static inline void add_all(struct strlist *to, const char *const *from)
{
	for (; from && *from; from++)
		assert_int_equal(strlist_add(to, *from), 0);
}

static inline void compile(struct rig *r, const char *const *allow, const char *const *deny)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };

	assert_int_equal(policy_init(&p, &err), 0);
	p.net.mode = NET_FILTERED;
	add_all(&p.net.allow_out, allow);
	add_all(&p.net.deny_out, deny);
	assert_int_equal(egress_compile(&r->rules, &p, &err), 0);
	policy_free(&p);
}

static inline void rig_up(struct rig *r, const char *const *allow, const char *const *deny)
{
	memset(r, 0, sizeof(*r));
	compile(r, allow, deny);
	assert_int_equal(loop_init(&r->loop), 0);
	server_up(&r->server, &r->loop, zone);
	r->config = (struct egress_config){ .timeout_ms = 30000, .attempts = 1, .max_names = 3,
					    .max_connections = 10 };
	server_configure(&r->config, &r->server);
	ledger_init(&r->ledger, &r->config, r->rules);
	r->stub = (struct stub){ .loop = &r->loop, .rules = r->rules, .ledger = &r->ledger,
				 .names = names_new(r->config.max_names), .has_v6 = true,
				 .resolver = resolver_new(&r->loop, &r->config) };
	assert_non_null(r->stub.names);
	assert_non_null(r->stub.resolver);
}

static inline void rig_down(struct rig *r)
{
	stub_end(&r->stub);
	resolver_free(r->stub.resolver);
	names_free(r->stub.names);
	ledger_free(&r->ledger);
	free(r->rules);
	server_down(&r->server);
	assert_null(r->loop.timers);
	close(r->loop.epoll);
}

static const char *const allow_test[] = { "a.test", "b.test", "c.test", "*.d.test",
					  "apex.example", NULL };
static const char *const deny_bad[] = { "bad.test", NULL };

/* --- asking ----------------------------------------------------------------------------------------- */

static inline void on_answer(void *arg, const uint8_t *answer, size_t len)
{
	struct rig *r = arg;

	memcpy(r->p, answer ? answer : r->p, len);
	r->len = len;
	r->answers++;
	r->loop.stop = r->stops;
}

static inline size_t query_bytes(uint8_t p[DNS_QUERY_MAX], const char *name, uint16_t type)
{
	struct dns_query q = { .id = 0x4242, .type = type, .class = DNS_CLASS_IN,
			       .wants_recursion = true };

	assert_true(dns_name_set(&q.name, name));
	return dns_write_query(p, DNS_QUERY_MAX, &q);
}

static inline void send_ask(struct rig *r, const char *name, uint16_t type)
{
	const struct stub_client client = { on_answer, r, false };
	uint8_t p[DNS_QUERY_MAX];
	size_t n = query_bytes(p, name, type);

	assert_int_equal(stub_ask(&r->stub, p, n, &client), 0);
}

/* The answer's code. */
static inline unsigned ask(struct rig *r, const char *name, uint16_t type)
{
	unsigned before = r->answers;

	r->stops = true;
	send_ask(r, name, type);
	if (r->answers == before)
		run_loop(&r->loop);
	assert_int_equal(r->answers, before + 1);
	assert_true(r->len >= DNS_HEADER);
	assert_memory_equal(r->p, "\x42\x42", 2);
	return r->p[3] & 15;
}

static inline unsigned records(const struct rig *r)
{
	return (unsigned)(r->p[6] << 8 | r->p[7]);
}

/* The only record's address: what follows the last 4 or 16 bytes. */
static inline const char *address(const struct rig *r, int family)
{
	static char text[INET6_ADDRSTRLEN];
	size_t size = family == AF_INET ? 4 : 16;

	assert_int_equal(records(r), 1);
	assert_int_equal(r->p[r->len - size - 1], size);
	assert_non_null(inet_ntop(family, r->p + r->len - size, text, sizeof(text)));
	return text;
}

static inline void assert_denied(const struct rig *r, unsigned at, const char *what, const char *rule)
{
	assert_true(at < r->ledger.denial_count);
	assert_string_equal(r->ledger.denials[at].what, what);
	assert_string_equal(r->ledger.denials[at].rule, rule);
}

#endif
