/* Ports of the host that lead to a server in the box. */
#ifndef EGRESS_PUBLISH_H
#define EGRESS_PUBLISH_H

#include "runtime/egress/calls.h"
#include "runtime/egress/tcp.h"

struct publish;
struct publish *publish_new(struct egress *e);		/* NULL: no memory */
/* A listener of the host for a port on the box's loopback. Takes fd. 0 or -1. */
int publish_port(struct publish *p, int fd, uint16_t port);
/* The box shares this network namespace: its servers are where calls_server() says. */
void publish_servers(struct publish *p, struct calls *calls);
/* An unconnected TCP socket (IPv4) of the box's network. Takes fd. 0 or -1. */
int publish_socket(struct publish *p, int fd);

#endif
