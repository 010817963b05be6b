/*
 * The box's name server. An allowed name gets a fake address at once, and nothing is asked
 * upstream before the box connects; where the default is to allow, the name must exist
 * upstream. A name that is denied does not exist (NXDOMAIN), which is noted; what is asked
 * of an allowed one and would lead past the rules is REFUSED.
 */
#ifndef EGRESS_STUB_H
#define EGRESS_STUB_H

#include "runtime/egress/ledger.h"
#include "runtime/egress/loop.h"
#include "runtime/egress/names.h"
#include "runtime/egress/resolve.h"

struct stub {
	struct loop *loop;
	const struct egress_rules *rules; /* the current ones */
	struct names *names;
	struct resolver *resolver;
	struct ledger *ledger;
	bool has_v6;		/* the box: else AAAA has no address */
	uint64_t idle_us;	/* how long a TCP client may say nothing; 0: ten seconds */
	/* the rest begins as zero and is stub.c's and stub_serve.c's own */
	struct stub_ask *asks;	/* that wait for an upstream answer */
	unsigned ask_count, relay_count;
	struct stub_socket *sockets;
	struct stub_conn *conns;
	unsigned conn_count;
};
/* All sockets are closed, all questions under way end without an answer. */
void stub_end(struct stub *s);

/* Who asks. The answer is given to @reply, now or later, exactly once; @arg tells it whom to.
 * A question that is no question gets no answer (then reply has len 0). */
typedef void stub_reply(void *arg, const uint8_t *answer, size_t len);
struct stub_client {
	stub_reply *reply;
	void *arg;
	bool over_tcp;
};
/* One question. -1: no memory, and reply is not called. */
int stub_ask(struct stub *s, const uint8_t *query, size_t len, const struct stub_client *client);

void stub_serve_end(struct stub *s);	/* the sockets' part of stub_end() */

/* Serve the box's own sockets: 127.0.0.1:53. TCP connections are bounded in number and time. */
int stub_serve_udp(struct stub *s, int fd);
int stub_serve_tcp(struct stub *s, int listener);
/* A DNS client that the gate let in, on its way to some other server's port 53. Takes fd. */
int stub_serve_client(struct stub *s, int fd);

#endif
