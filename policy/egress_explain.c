/* What a verdict on a destination says to people. Pure. */
#include "policy/egress_block.h"

#include <string.h>

static const char *host_of(const struct egress_dest *d, char text[EGRESS_ADDR_TEXT])
{
	struct egress_addr addr;

	if (d->name)
		return d->name;
	if (!d->addr)
		return "?";
	addr = egress_addr_normal(*d->addr);
	return egress_addr_text(&addr, text);
}

/* "example.org:443", "[2001:db8::1]:53/udp" */
static void put_dest(struct buf *out, const struct egress_dest *d)
{
	char text[EGRESS_ADDR_TEXT];
	const char *host = host_of(d, text);

	buf_fmt(out, strchr(host, ':') ? "[%s]" : "%s", host);
	if (d->port)
		buf_fmt(out, ":%u", d->port);
	if (d->proto == EGRESS_UDP)
		buf_str(out, "/udp");
}

static void put_rule(struct buf *out, const struct egress_rules *r, const struct egress_dest *d,
		     const struct egress_verdict *v)
{
	const char *range = d->addr ? private_range(d->addr) : NULL;

	switch (v->why) {
	case EGRESS_BY_DISABLED:
		buf_str(out, "net.mode=disabled");
		break;
	case EGRESS_BY_DEFAULT:
		buf_str(out, v->allowed ? "no rule matches" : "net.allow_out (not listed)");
		break;
	case EGRESS_BY_ALLOW:
		buf_fmt(out, "net.allow_out=%s", rules_text(r, LIST_ALLOW, v->rule));
		break;
	case EGRESS_BY_DENY:
		buf_fmt(out, "net.deny_out=%s", rules_text(r, LIST_DENY, v->rule));
		break;
	case EGRESS_BY_PORT:
		buf_fmt(out, "net.allow_out=%s (other ports)",
			rules_text(r, LIST_ALLOW, v->rule));
		break;
	case EGRESS_BY_PRIVATE:
		buf_fmt(out, "always denied: %s", range ? range : "private");
		break;
	}
}

static void put_flag(struct buf *out, const struct egress_dest *d, const struct egress_verdict *v)
{
	bool is_web = d->name && d->proto == EGRESS_TCP && (d->port == 80 || d->port == 443);
	struct egress_dest without = *d;
	struct egress_addr addr;
	char text[EGRESS_ADDR_TEXT];

	switch (v->why) {
	case EGRESS_BY_DISABLED:
		buf_str(out, "--net filtered ");
		/* fall through */
	case EGRESS_BY_DEFAULT:
	case EGRESS_BY_PORT:
		if (is_web)
			without.port = 0;
		buf_str(out, "--allow-out ");
		put_dest(out, &without);
		break;
	case EGRESS_BY_PRIVATE:
		addr = egress_addr_normal(*d->addr);
		buf_fmt(out, "--allow-private %s", egress_addr_text(&addr, text));
		break;
	case EGRESS_BY_ALLOW:
	case EGRESS_BY_DENY:
		break; /* the rule itself stands against it */
	}
}

void egress_explain_denial(const struct egress_rules *r, const struct egress_dest *d,
			   const struct egress_verdict *v, const char *verb, struct buf *what,
			   struct buf *rule, struct buf *allow)
{
	char text[EGRESS_ADDR_TEXT];

	buf_fmt(what, "%s ", verb ? verb : d->proto == EGRESS_UDP ? "send" : "connect");
	put_dest(what, d);
	if (d->name && d->addr)
		buf_fmt(what, " (%s)", egress_addr_text(d->addr, text));
	put_rule(rule, r, d, v);
	put_flag(allow, d, v);
}

void egress_explain(const struct egress_rules *r, const struct egress_dest *d,
		    const struct egress_verdict *v, struct buf *out)
{
	buf_fmt(out, "%s: ", v->allowed ? "allowed" : "denied");
	put_dest(out, d);
	buf_str(out, ", by ");
	put_rule(out, r, d, v);
}
