/* The SYNs of the box: who may connect, and to whom. */
#ifndef EGRESS_GATE_H
#define EGRESS_GATE_H

#include "runtime/egress/stub.h"
#include "runtime/egress/tcp.h"

struct gate;
/* Serve the inlet's TCP part: takes the five descriptors; v6 ones may be -1. NULL: errno. */
struct gate *gate_new(struct egress *e, struct stub *stub, const int fds[INLET_FD_COUNT]);

/* Without a gate: listeners of the box for single ports, on all addresses. Takes fd. */
int ports_listen(struct egress *e, struct stub *stub, int fd);

#endif
