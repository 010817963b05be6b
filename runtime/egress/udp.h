#ifndef EGRESS_UDP_H
#define EGRESS_UDP_H
#include "runtime/egress/stub.h"
#include "runtime/egress/tcp.h"
struct udp_relay { int x; };
int udp_start(struct udp_relay *u, struct egress *e, struct stub *s, const int fds[INLET_FD_COUNT]);
void udp_rules_changed(struct udp_relay *u, const struct egress_rules *r);
#endif
