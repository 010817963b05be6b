/* SPDX-License-Identifier: Apache-2.0 */
/* See top.h: looking, and the share of a core between two looks. Runs in the command. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/nsbox/say.h"
#include "tools/nsbox/top.h"

#define ROOM_STEP 64

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static const struct top_box *find(const struct top_list *l, const char *id)
{
	for (size_t i = 0; l && i < l->running; i++) {
		if (strcmp(l->v[i].info.id, id) == 0)
			return &l->v[i];
	}
	return NULL;
}

/* Of a running box: since the look before, else since its start. */
static uint64_t share(const struct nsbox_box_info *now, const struct top_list *before,
		      uint64_t at_us)
{
	const struct top_box *old = find(before, now->id);
	uint64_t used = now->cpu_us, time = now->age_us;

	if (used == NSBOX_UNKNOWN || now->state != NSBOX_BOX_RUNNING)
		return NSBOX_UNKNOWN;
	if (old && old->info.cpu_us != NSBOX_UNKNOWN) {
		/* Without a cgroup it is that of the living, and some have gone. */
		used = used > old->info.cpu_us ? used - old->info.cpu_us : 0;
		time = at_us - before->at_us;
	}
	return time ? used * 1000 / time : 0;
}

static bool is_running(const struct top_box *b)
{
	return b->info.state == NSBOX_BOX_RUNNING;
}

static uint64_t end_of(const struct top_box *b)
{
	return b->info.started_us + (b->info.age_us == NSBOX_UNKNOWN ? 0 : b->info.age_us);
}

static int descending(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0;
}

static int by_age(const void *left, const void *right)
{
	const struct top_box *a = left, *b = right;

	if (is_running(a) != is_running(b))
		return is_running(a) ? -1 : 1;
	if (!is_running(a))
		return descending(end_of(a), end_of(b));
	return descending(a->info.started_us, b->info.started_us);
}

static int by_cpu(const void *left, const void *right)
{
	const struct top_box *a = left, *b = right;
	int order = is_running(a) && is_running(b) ? descending(a->cpu_milli + 1, b->cpu_milli + 1)
						   : 0; /* unknown wraps to 0: last */

	return order ? order : by_age(left, right);
}

static int add(struct top_list *l, size_t *room, const struct top_box *b, struct nsbox_error *err)
{
	if (l->n == *room) {
		struct top_box *v = realloc(l->v, (*room + ROOM_STEP) * sizeof(*v));

		if (!v)
			return cli_nomem(err);
		l->v = v;
		*room += ROOM_STEP;
	}
	l->v[l->n++] = *b;
	if (is_running(b))
		l->running++;
	else
		l->ended++;
	return 0;
}

static int collect(struct top_list *l, struct nsbox_boxes *boxes, const struct top_list *before,
		   struct nsbox_error *err)
{
	size_t room = 0;

	for (;;) {
		struct top_box b = { .info = NSBOX_BOX_INFO_INIT };
		int r = nsbox_boxes_next(boxes, &b.info, err);

		if (r <= 0)
			return r;
		b.cpu_milli = share(&b.info, before, now_us());
		r = add(l, &room, &b, err);
		if (r < 0)
			return r;
	}
}

int top_look(struct top_list *out, const struct top_how *how, struct nsbox_error *err)
{
	struct top_list l = { .at_us = now_us() };
	struct nsbox_boxes *boxes = NULL;
	int r = nsbox_boxes_open(&boxes, err);

	if (r < 0)
		return r;
	r = collect(&l, boxes, how->before, err);
	nsbox_boxes_close(boxes);
	if (r < 0) {
		top_free(&l);
		return r;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), how->by_age ? by_age : by_cpu);
	if (l.ended > how->last)
		l.n = l.running + how->last;
	*out = l;
	return 0;
}

void top_free(struct top_list *l)
{
	free(l->v);
	*l = (struct top_list){ 0 };
}
