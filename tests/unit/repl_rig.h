/*
 * The launcher's side of a kernel without a box: a socket pair and two pipes stand for it,
 * and the test is the driver. Shared by test_repl_frames.c and fuzz/fuzz_repl.c.
 */
#ifndef TESTS_UNIT_REPL_RIG_H
#define TESTS_UNIT_REPL_RIG_H

#include "runtime/repl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct repl_rig {
	struct nsbox_box box;
	struct watch watch;
	struct nsbox_kernel k;
	int driver, answers, out, err;	/* the ends that a box would have */
};

static inline bool rig_open(struct repl_rig *r)
{
	int ends[2], answers[2], out[2], err[2];

	memset(r, 0, sizeof(*r));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, answers) < 0 ||
	    pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(err, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	r->watch.channel = ends[0];
	r->driver = ends[1];
	r->watch.answers = answers[0];
	r->answers = answers[1];
	r->watch.pipes[0] = out[0];
	r->out = out[1];
	r->watch.pipes[1] = err[0];
	r->err = err[1];
	r->watch.epoll = epoll_create1(EPOLL_CLOEXEC); /* the box goes on */
	r->watch.timer = -1;
	r->box.watch = &r->watch;
	r->box.policy.limits.stdout_bytes = r->box.policy.limits.stderr_bytes = 100;
	r->k.box = &r->box;
	r->k.epoll = epoll_create1(EPOLL_CLOEXEC);
	r->k.timer = -1;
	r->k.last_request = &r->k.first;
	r->k.last_event = &r->k.events;
	repl_wire_reset(&r->k);
	return repl_wire_watch(&r->k, NULL) >= 0;
}

static inline void rig_close(struct repl_rig *r)
{
	struct repl_request *q;
	struct repl_event *e;
	const int fds[] = { r->driver, r->answers, r->out, r->err, r->watch.channel, r->watch.answers, r->watch.pipes[0],
			    r->watch.pipes[1], r->watch.epoll, r->k.epoll };

	while ((q = r->k.first) != NULL) {
		r->k.first = q->next;
		free(q);
	}
	while ((e = r->k.events) != NULL) {
		r->k.events = e->next;
		repl_event_free(e);
	}
	free(r->k.current);
	buf_free(&r->k.out.text);
	buf_free(&r->k.answers.text);
	buf_free(&r->k.body);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
}

/* A request of that id is in hand. */
static inline void rig_request(struct repl_rig *r, uint64_t id)
{
	struct repl_request *q = calloc(1, sizeof(*q));

	if (!q)
		abort();
	q->id = id;
	r->k.is_ready = true;
	*r->k.last_request = q;
	r->k.last_request = &q->next;
	repl_next_request(&r->k);
}

/* The oldest event, which the caller frees; NULL: none. */
static inline struct repl_event *rig_event(struct repl_rig *r)
{
	struct repl_event *e = r->k.events;

	if (e)
		r->k.events = e->next;
	if (!r->k.events)
		r->k.last_event = &r->k.events;
	return e;
}

#endif
