/*
 * loop.c - see loop.h. Runs in the supervisor.
 *
 * Must: hand no event to a source that was removed in the same turn.
 */
#include "runtime/egress/loop.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <time.h>

enum { BATCH = 64 };

/* Of the turn under way, so that loop_remove() can strike out what is no longer there. */
static struct epoll_event batch[BATCH];
static int batch_len;

uint64_t loop_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int loop_init(struct loop *l)
{
	*l = (struct loop){ .epoll = epoll_create1(EPOLL_CLOEXEC), .now_us = loop_now() };
	return l->epoll < 0 ? -1 : 0;
}

static int control(struct loop *l, int op, struct source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	return epoll_ctl(l->epoll, op, s->fd, &e);
}

int loop_add(struct loop *l, struct source *s, uint32_t events)
{
	return control(l, EPOLL_CTL_ADD, s, events);
}

int loop_change(struct loop *l, struct source *s, uint32_t events)
{
	return control(l, EPOLL_CTL_MOD, s, events);
}

void loop_remove(struct loop *l, struct source *s)
{
	if (s->fd >= 0)
		control(l, EPOLL_CTL_DEL, s, 0);
	for (int i = 0; i < batch_len; i++)
		if (batch[i].data.ptr == s)
			batch[i].data.ptr = NULL;
}

void timer_clear(struct timer *t)
{
	if (!t->self)
		return;
	*t->self = t->next;
	if (t->next)
		t->next->self = t->self;
	t->next = NULL;
	t->self = NULL;
	t->at_us = 0;
}

void timer_set(struct loop *l, struct timer *t, uint64_t at_us)
{
	struct timer **at = &l->timers;

	timer_clear(t);
	while (*at && (*at)->at_us <= at_us)
		at = &(*at)->next;
	t->at_us = at_us;
	t->self = at;
	t->next = *at;
	if (t->next)
		t->next->self = &t->next;
	*at = t;
}

static int wait_ms(const struct loop *l)
{
	uint64_t now = loop_now();

	if (!l->timers)
		return -1;
	return l->timers->at_us <= now ? 0 : (int)((l->timers->at_us - now + 999) / 1000);
}

static void fire_timers(struct loop *l)
{
	while (l->timers && l->timers->at_us <= l->now_us && !l->stop) {
		struct timer *t = l->timers;

		timer_clear(t);
		t->fire(t);
	}
}

int loop_run(struct loop *l)
{
	while (!l->stop) {
		int n = epoll_wait(l->epoll, batch, BATCH, wait_ms(l));

		if (n < 0 && errno != EINTR)
			return -1;
		l->now_us = loop_now();
		batch_len = n < 0 ? 0 : n;
		for (int i = 0; i < batch_len && !l->stop; i++) {
			struct source *s = batch[i].data.ptr;

			if (s)
				s->ready(s, batch[i].events);
		}
		batch_len = 0;
		fire_timers(l);
	}
	return 0;
}
