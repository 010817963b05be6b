/*
 * What the box used and what it was refused: caps, counters, denials. Bounded: the payload
 * chooses the names, so a table that is full counts what it leaves out.
 */
#ifndef EGRESS_LEDGER_H
#define EGRESS_LEDGER_H

#include "policy/egress.h"
#include "runtime/egress_wire.h"

enum { LEDGER_HOSTS = 256, LEDGER_DENIALS = 64 };

struct host_entry {		/* one name, or one address, with all its ports */
	char name[EGRESS_NAME_MAX + 1];
	struct egress_host_report report;
};
struct ledger {
	const struct egress_config *config;
	const struct egress_rules *rules;
	struct egress_totals totals;
	uint32_t open;		/* connections now */
	uint32_t room;		/* connections that there are descriptors for; 0: any number */
	struct host_entry hosts[LEDGER_HOSTS];
	uint32_t host_count;
	struct denial_entry { char *what, *rule, *allow; uint64_t count; } denials[LEDGER_DENIALS];
	uint32_t denial_count;
};

void ledger_init(struct ledger *l, const struct egress_config *config,
		 const struct egress_rules *rules);
void ledger_free(struct ledger *l);
/* NULL: no room for one more; then only the totals count. */
struct host_entry *ledger_host(struct ledger *l, const struct egress_dest *d);
/* A connection or flow begins. false: a cap stands against it, noted as a denial. */
bool ledger_open(struct ledger *l, struct host_entry *h);
void ledger_close(struct ledger *l);
/* Payload bytes passed. false: a byte cap is reached now (noted): end the connection. */
bool ledger_bytes(struct ledger *l, struct host_entry *h, uint64_t out, uint64_t in);
void ledger_failed(struct ledger *l, struct host_entry *h);
/* By the rules. @verb as of egress_explain_denial(). */
void ledger_deny(struct ledger *l, const struct egress_dest *d, const struct egress_verdict *v,
		 const char *verb);
/* For another reason: a foreign SNI, a port without TLS. Texts are copied. */
void ledger_deny_text(struct ledger *l, const char *what, const char *rule, const char *allow);
/* A cap that somebody else counts (names) was reached: "lookup" and the name. */
void ledger_cap(struct ledger *l, enum egress_cap cap, const char *verb, const char *name);
/* All of it over the control socket, TOTAL last. 0, or -1: the launcher is gone. */
int ledger_report(struct ledger *l, int control);

#endif
