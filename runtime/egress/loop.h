/*
 * One epoll, one list of timers. Everything in the supervisor is a source or a timer that
 * is part of a larger struct; nothing here allocates.
 */
#ifndef EGRESS_LOOP_H
#define EGRESS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct source {
	int fd;
	void (*ready)(struct source *s, uint32_t events); /* EPOLLIN, ... */
};
struct timer {
	void (*fire)(struct timer *t);
	uint64_t at_us;		/* of loop_now(); 0: not set */
	struct timer *next, **self; /* sorted list */
};
struct loop {
	int epoll;
	uint64_t now_us;	/* when this turn began */
	struct timer *timers;
	bool stop;
};

int loop_init(struct loop *l);		/* 0, or -1 with errno */
uint64_t loop_now(void);		/* CLOCK_MONOTONIC */
/* 0, or -1 with errno. EPOLLET is the caller's to give. */
int loop_add(struct loop *l, struct source *s, uint32_t events);
int loop_change(struct loop *l, struct source *s, uint32_t events);
/* Also of one that is not in it. A source may be removed (and freed) in any callback: an
 * event of it that is already in this turn's batch is dropped. */
void loop_remove(struct loop *l, struct source *s);
void timer_set(struct loop *l, struct timer *t, uint64_t at_us);
void timer_clear(struct timer *t);
int loop_run(struct loop *l);		/* until stop; -1 with errno */

/* container_of for callbacks */
#define PART_OF(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

#endif
