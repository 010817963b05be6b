/* A batch of nf_tables messages, encoded with libmnl, as one transaction. */
#ifndef VETH_BATCH_H
#define VETH_BATCH_H

#include <netinet/in.h> /* before the kernel's own of the same names */

#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch {
	char *bytes;
	size_t len, max;
	uint32_t seq;
	const char *table;
	struct nlmsghdr *open;	/* the message that is being written */
	struct nlattr *expressions, *elem, *data; /* open nests of a rule */
};

/* @room: for all of it, estimated from above. false: no memory. */
bool batch_begin(struct batch *b, const char *table, size_t room);
void batch_free(struct batch *b);
/* 0, or a negative errno: then nothing of it is in force. */
int batch_send(struct batch *b, struct mnl_socket *nl);

void put_table(struct batch *b, uint32_t flags);
/* @type NULL: no hook */
void put_chain(struct batch *b, const char *name, const char *type, uint32_t hook,
	       int32_t priority);

/* A set of IPv4 ranges. The ranges are sorted, and apart from each other. */
struct span {
	uint32_t first, last;	/* the host's byte order */
};
void put_set(struct batch *b, const char *name, uint32_t id);
void put_spans(struct batch *b, const char *name, uint32_t id, const struct span *v, size_t n);

void begin_rule(struct batch *b, const char *chain);
void end_rule(struct batch *b);
/* --- expressions of a rule: each goes on when it holds --- */
void meta_byte(struct batch *b, uint32_t key, uint32_t op, uint8_t value);
void device(struct batch *b, uint32_t key, uint32_t op, const char *name);
enum { SOURCE = 12, DESTINATION = 16 }; /* offsets in the header of IPv4 */
void address(struct batch *b, size_t which, uint32_t op, uint32_t value);
void in_set(struct batch *b, const char *name, uint32_t id, bool is_inverted);
void ports_between(struct batch *b, uint16_t first, uint16_t last);
void known_connection(struct batch *b);
/* --- and what to do then --- */
void verdict(struct batch *b, int32_t code, const char *chain);
void masquerade(struct batch *b);
void reject(struct batch *b, uint32_t type, uint8_t icmp_code);

#endif
