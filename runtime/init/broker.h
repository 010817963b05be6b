/*
 * The broker: answers the calls of the payload that its filter notifies of
 * (policy/seccomp_calls.c), with the supervisor's word (runtime/calls_wire.h).
 */
#ifndef RUNTIME_INIT_BROKER_H
#define RUNTIME_INIT_BROKER_H

#include <poll.h>

struct broker;

/* @listener: of the payload's filter; @sock: to the supervisor. Both are taken. */
struct broker *broker_begin(int listener, int sock);

/* What to poll for: at most BROKER_FDS; returns how many were written. */
enum { BROKER_FDS = 2, BROKER_TICK_MS = 200 };
int broker_fds(struct broker *b, struct pollfd fds[BROKER_FDS]);
/* After poll(2), with what broker_fds() gave, or without news: does what there is to do. */
void broker_turn(struct broker *b, const struct pollfd *fds, int count);
/* Does a call wait for the supervisor? Then broker_turn() is to be called each tick, for
 * the kernel does not tell when who made it is dead. */
int broker_is_waiting(const struct broker *b);

#endif
