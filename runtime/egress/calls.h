/*
 * The network of a box that shares the host's network namespace: its calls are held by the
 * kernel and asked about (runtime/calls_wire.h), and what it holds as sockets is of our making.
 */
#ifndef EGRESS_CALLS_H
#define EGRESS_CALLS_H

#include "runtime/egress/stub.h"
#include "runtime/egress/tcp.h"

struct calls;
struct udp_relay;
/* Serve the broker. Takes sock. NULL with errno. */
struct calls *calls_new(struct egress *e, struct stub *stub, struct udp_relay *udp, int sock);
/* Where on 127.0.0.1 the box's server for this port listens; 0: nowhere. */
uint16_t calls_server(struct calls *k, uint16_t port);

#endif
