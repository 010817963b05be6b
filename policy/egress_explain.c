/* What a verdict on a destination says to people. Pure. */
#include "policy/egress_block.h"

#include "base/cleanup.h"
#include "policy/value.h"

#include <string.h>

/* "example.org:443", "[2001:db8::1]:53/udp"; @port 0: without one. */
static void put_dest(struct buf *out, const struct egress_dest *d, uint16_t port)
{
	struct egress_addr addr = d->addr ? egress_addr_normal(*d->addr)
					  : (struct egress_addr){ .family = 4 };
	char text[EGRESS_ADDR_TEXT];
	const char *host = d->name ? d->name : egress_addr_text(&addr, text);

	buf_fmt(out, strchr(host, ':') && port ? "[%s]" : "%s", host);
	if (port)
		buf_fmt(out, ":%u", port);
	if (d->proto == EGRESS_UDP)
		buf_str(out, "/udp");
}

static void put_listed(struct buf *out, const struct egress_rules *r, enum rule_list list,
		       int32_t rule)
{
	const char *text = rules_text(r, list, rule);

	buf_fmt(out, "%s=%s", rule_list_names[list], text ? SHOWN(text) : "?");
}

/* No rule has it, and that denies. */
static const char *unlisted(const struct block *b)
{
	if (b->text_count[LIST_ALLOW])
		return "net.allow_out (not listed)";
	if (b->text_count[LIST_DENY]) /* all of it is denied, or there would be a default */
		return "net.deny_out";
	return "net.mode=filtered (nothing is allowed)";
}

static void put_rule(struct buf *out, const struct egress_rules *r, const struct egress_dest *d,
		     const struct egress_verdict *v)
{
	const struct block *b = block_of(r);
	const char *range = NULL;
	struct egress_addr addr;

	switch (v->why) {
	case EGRESS_BY_DISABLED:
		buf_str(out, "net.mode=disabled");
		break;
	case EGRESS_BY_DEFAULT:
		buf_str(out, v->allowed ? "no rule denies it" : unlisted(b));
		break;
	case EGRESS_BY_ALLOW:
		put_listed(out, r, LIST_ALLOW, v->rule);
		break;
	case EGRESS_BY_DENY:
		put_listed(out, r, LIST_DENY, v->rule);
		break;
	case EGRESS_BY_PORT:
		put_listed(out, r, LIST_ALLOW, v->rule);
		buf_str(out, " (other ports)");
		break;
	case EGRESS_BY_PRIVATE:
		if (d->addr) {
			addr = egress_addr_normal(*d->addr);
			range = private_range(&addr);
		}
		buf_fmt(out, "always denied: %s", range ? range : "private");
		break;
	}
}

/* "--allow-out example.org", with the port where the rule would not have it. */
static void put_allow_out(struct buf *out, const struct egress_dest *d)
{
	bool is_web = d->name && d->proto == EGRESS_TCP && (d->port == WEB_HTTP ||
							    d->port == WEB_HTTPS);

	buf_str(out, "--allow-out ");
	put_dest(out, d, is_web ? 0 : d->port);
}

/* An address of the always-denied set needs its own flag beside every rule. */
static void put_allow_private(struct buf *out, const struct egress_rules *r,
			      const struct egress_dest *d)
{
	struct egress_addr addr;
	char text[EGRESS_ADDR_TEXT];

	if (!d->addr)
		return;
	addr = egress_addr_normal(*d->addr);
	if (!private_range(&addr) || rules_lift_private(block_of(r), &addr))
		return;
	buf_fmt(out, "%s--allow-private %s", out->len ? " " : "", egress_addr_text(&addr, text));
}

/* Would an allow rule help where this deny rule stands? It must win, and must not turn
 * "all but these" into "these alone". */
static bool allow_beats_deny(const struct block *b)
{
	return !(b->flags & RULES_DENY_WINS) &&
	       (b->text_count[LIST_ALLOW] || b->flags & RULES_OPEN ||
		!(b->flags & RULES_DEFAULT_ALLOWS));
}

/* Those that stand for names, and 0.0.0.0 and ::, which are no entry of any list. */
static bool is_beyond_rules(const struct egress_addr *a)
{
	static const uint8_t none[16];

	return private_is_fake(a) || memcmp(a->bytes, none, addr_bits(a) / 8) == 0;
}

static void put_flags(struct buf *out, const struct egress_rules *r, const struct egress_dest *d,
		      const struct egress_verdict *v)
{
	struct egress_addr addr = d->addr ? egress_addr_normal(*d->addr)
					  : (struct egress_addr){ 0 };

	if (v->allowed || (d->addr && is_beyond_rules(&addr)))
		return;
	switch (v->why) {
	case EGRESS_BY_DISABLED:
		buf_str(out, "--net filtered ");
		put_allow_out(out, d);
		break;
	case EGRESS_BY_DENY:
		if (!allow_beats_deny(block_of(r)))
			return;
		put_allow_out(out, d);
		break;
	case EGRESS_BY_DEFAULT:
	case EGRESS_BY_PORT:
		put_allow_out(out, d);
		break;
	case EGRESS_BY_PRIVATE:
	case EGRESS_BY_ALLOW:
		break;
	}
	put_allow_private(out, r, d);
}

void egress_explain_denial(const struct egress_rules *r, const struct egress_dest *d,
			   const struct egress_verdict *v, const char *verb,
			   const struct egress_words *words)
{
	struct buf flags = BUF_INIT(4096);
	struct egress_addr addr;
	char text[EGRESS_ADDR_TEXT];

	buf_fmt(words->what, "%s ", verb ? verb : d->proto == EGRESS_UDP ? "send" : "connect");
	put_dest(words->what, d, d->port);
	if (d->name && d->addr) {
		addr = egress_addr_normal(*d->addr);
		buf_fmt(words->what, " (%s)", egress_addr_text(&addr, text));
	}
	put_rule(words->rule, r, d, v);
	put_flags(&flags, r, d, v);
	buf_str(words->allow, buf_text(&flags));
	buf_free(&flags);
}

/* --- one sentence ---------------------------------------------------------------------- */

static void put_why(struct buf *out, const struct egress_rules *r, const struct egress_dest *d,
		    const struct egress_verdict *v)
{
	static const char *const words[] = {
		[EGRESS_BY_DISABLED] = "the box has no network: ",
		[EGRESS_BY_DEFAULT] = "",
		[EGRESS_BY_ALLOW] = "by ",
		[EGRESS_BY_DENY] = "by ",
		[EGRESS_BY_PORT] = "no rule has this port and protocol: ",
		[EGRESS_BY_PRIVATE] = "",
	};

	buf_str(out, words[v->why]);
	put_rule(out, r, d, v);
	if (v->allowed && d->name && !d->addr)
		buf_str(out, "; what it resolves to is judged as well: a private address needs --allow-private");
}

void egress_explain(const struct egress_rules *r, const struct egress_dest *d,
		    const struct egress_verdict *v, struct buf *out)
{
	struct buf flags = BUF_INIT(4096);

	put_dest(out, d, d->port);
	buf_fmt(out, ": %s, ", v->allowed ? "allowed" : "denied");
	put_why(out, r, d, v);
	put_flags(&flags, r, d, v);
	if (flags.len)
		buf_fmt(out, "; allow it with %s", buf_text(&flags));
	buf_free(&flags);
}
