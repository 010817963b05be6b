/* A resolver with its name server, and lookups that count. */
#ifndef RESOLVER_RIG_H
#define RESOLVER_RIG_H

#include "dns_server.h"

#include "runtime/egress/resolve.h"

static const struct zone_row zone[] = {
	{ "both.test", DNS_A, "192.0.2.1", 300, PLAIN },
	{ "both.test", DNS_A, "192.0.2.2", 300, PLAIN },
	{ "both.test", DNS_AAAA, "2001:db8::1", 300, PLAIN },
	{ "v4.test", DNS_A, "192.0.2.4", 300, PLAIN },
	{ "v6.test", DNS_AAAA, "2001:db8::6", 300, PLAIN },
	{ "text.test", DNS_TXT, "\4text", 300, PLAIN },
	{ "mail.test", DNS_MX, "mx.test", 300, PLAIN },
	{ "short.test", DNS_A, "192.0.2.5", 0, PLAIN },
	{ "slow.test", DNS_A, "192.0.2.7", 300, SILENT },
	{ "slow.test", DNS_AAAA, "2001:db8::7", 300, SILENT },
	{ "half.test", DNS_A, "192.0.2.8", 300, PLAIN },
	{ "half.test", DNS_AAAA, "2001:db8::8", 300, SILENT },
	{ "cut.test", DNS_A, "192.0.2.9", 300, CUT },
	{ "hangup.test", DNS_A, "192.0.2.9", 300, HANGS_UP },
	{ "id.test", DNS_A, "192.0.2.10", 300, FORGED_ID },
	{ "case.abcdefghijklmnopqrstuvwxyz.test", DNS_A, "192.0.2.11", 300, FORGED_CASE },
	{ "source.test", DNS_A, "192.0.2.12", 300, FORGED_SOURCE },
	{ "old.test", DNS_A, "192.0.2.13", 300, NO_EDNS },
	{ "lying.test", DNS_A, "192.0.2.14", 300, LYING_LENGTH },
	{ "servfail.test", 0, "2", 0, CODE },
	{ "refused.test", 0, "5", 0, CODE },
	{ "alias.test", DNS_CNAME, "alias2.test", 300, PLAIN },
	{ "alias2.test", DNS_CNAME, "both.test", 300, PLAIN },
	{ "dangling.test", DNS_CNAME, "nowhere.test", 300, PLAIN },
	{ "pointless.test", DNS_CNAME, "text.test", 300, PLAIN },
	{ "round.test", DNS_CNAME, "and.round.test", 300, PLAIN },
	{ "and.round.test", DNS_CNAME, "round.test", 300, PLAIN },
	{ "self.test", DNS_CNAME, "self.test", 300, PLAIN },
	{ 0 }
};
/* --- a resolver with its server, and lookups that count ------------------------------------------ */

struct conf {
	struct egress_config c;
	char hosts[256];
};
struct rig {
	struct loop loop;
	struct dns_server server, other;
	struct conf conf;
	struct resolver *r;
	unsigned open;		/* lookups under way; the last one stops the loop */
};
struct wait {
	struct lookup l;
	struct rig *rig;
	enum lookup_result result;
	unsigned done;
};

static inline void rig_up(struct rig *r, const struct zone_row *other)
{
	memset(r, 0, sizeof(*r));
	assert_int_equal(loop_init(&r->loop), 0);
	server_up(&r->server, &r->loop, zone);
	if (other) {
		server_up(&r->other, &r->loop, other);
		server_configure(&r->conf.c, &r->other);
	}
	server_configure(&r->conf.c, &r->server);
	r->conf.c.timeout_ms = 30000; /* nothing here waits for it */
	r->conf.c.attempts = 1;
	r->conf.c.hosts = offsetof(struct conf, hosts);
}

static inline void rig_start(struct rig *r)
{
	r->conf.c.hosts_len = (uint32_t)strlen(r->conf.hosts);
	r->r = resolver_new(&r->loop, &r->conf.c);
	assert_non_null(r->r);
}

static inline void rig_down(struct rig *r)
{
	resolver_free(r->r);
	server_down(&r->server);
	if (r->other.loop)
		server_down(&r->other);
	assert_null(r->loop.timers);
	close(r->loop.epoll);
}

static inline void on_done(struct lookup *l, enum lookup_result result)
{
	struct wait *w = PART_OF(l, struct wait, l);

	w->result = result;
	w->done++;
	if (--w->rig->open == 0)
		w->rig->loop.stop = true;
}

static inline int try_ask(struct rig *r, struct wait *w, const char *name)
{
	int code;

	*w = (struct wait){ .rig = r, .l.done = on_done };
	assert_true(strlen(name) < sizeof(w->l.name));
	memcpy(w->l.name, name, strlen(name));
	code = resolver_ask(r->r, &w->l);
	assert_int_equal(w->done, 0); /* never within the call */
	r->open += code == 0;
	return code;
}

static inline void ask(struct rig *r, struct wait *w, const char *name)
{
	assert_int_equal(try_ask(r, w, name), 0);
}

static inline void look(struct rig *r, struct wait *w, const char *name)
{
	ask(r, w, name);
	run_loop(&r->loop);
	assert_int_equal(w->done, 1);
}

static inline bool has(const struct wait *w, const char *addr)
{
	for (unsigned i = 0; i < w->l.count; i++) {
		char text[INET6_ADDRSTRLEN];

		assert_non_null(inet_ntop(w->l.addrs[i].family == 4 ? AF_INET : AF_INET6,
					  w->l.addrs[i].bytes, text, sizeof(text)));
		if (strcmp(text, addr) == 0)
			return true;
	}
	return false;
}

#endif
