/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts that take long: with packages to install, or with a source that is judged before
 * it runs, nsbox_box_start() comes back when that is done. In the loop of `nsbox rpc` it
 * would stop the clocks and the streams of all other boxes meanwhile.
 *
 * One thread a start. It uses its own box and nothing of struct rpc; the loop only kills
 * that box until the thread is over, which it hears by an eventfd.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "tools/nsbox/rpc.h"
#include "tools/nsbox/rpc_build.h"
#include "tools/nsbox/say.h"

/* musl's threads have 128 KiB; paths alone are 4 KiB a function. */
#define STACK_SIZE (1u << 20)
#define KILL_AGAIN_MS 20

#define SAID_MAX 512
#define OVER (UINT64_C(1) << 32) /* in the eventfd; a smaller number: something was said */

struct rpc_start {
	pthread_t thread;
	int done;		/* eventfd */
	pthread_mutex_t lock;	/* of said */
	char said[SAID_MAX];	/* of an install, and not passed on yet */
	bool is_kernel;
	struct rpc_build build;
	struct nsbox_box *box;	/* borrowed */
	struct nsbox_kernel *kernel;
	int code;
	struct nsbox_error err;
};

/* Member @name of an object; absent where it is none. */
static struct jscan member(struct jscan object, const char *name)
{
	struct jscan key, value;
	char word[32];
	size_t at = 0;

	while (jscan_next(object, &at, &key, &value)) {
		if (rpc_word(key, word, sizeof(word)) && strcmp(word, name) == 0)
			return value;
	}
	return (struct jscan){ NULL, 0 };
}

bool rpc_start_is_slow(const struct rpc_build *b)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;
	auto_free char *json = NULL;
	struct jscan policy, list, item, none;
	size_t at = 0;

	if (nsbox_policy_json(b->policy, &json, &ignored) < 0 ||
	    jscan_check(&policy, json, strlen(json), &ignored) < 0)
		return true; /* the thread is always right, only dearer */
	list = member(member(policy, "packages"), "list");
	if (list.p && jscan_next(list, &at, &none, &item))
		return true;
	if (!b->run.language)
		return false;
	list = member(member(policy, "packages"), "inline");
	if (list.p && *list.p == 't')
		return true;
	list = member(member(policy, "imports"), "allow");
	return list.p && jscan_kind(list) != JSCAN_NULL;
}

static void tell(struct rpc_start *s, uint64_t what)
{
	while (write(s->done, &what, sizeof(what)) < 0 && errno == EINTR)
		;
}

/* In the thread. Of two lines that come at once the last one is enough. */
static void take_progress(void *arg, const char *text)
{
	struct rpc_start *s = arg;

	if (!text)
		return;
	pthread_mutex_lock(&s->lock);
	snprintf(s->said, sizeof(s->said), "%s", text);
	pthread_mutex_unlock(&s->lock);
	tell(s, 1);
}

static void *start(void *arg)
{
	struct rpc_start *s = arg;

	if (s->is_kernel)
		s->code = nsbox_kernel_open(&s->kernel, s->box, &s->build.run, &s->err);
	else
		s->code = nsbox_box_start(s->box, &s->build.run, &s->err);
	tell(s, OVER);
	return NULL;
}

static int run_thread(struct rpc_start *s, struct nsbox_error *err)
{
	pthread_attr_t attr;
	int r = pthread_attr_init(&attr);

	if (r == 0)
		r = pthread_attr_setstacksize(&attr, STACK_SIZE);
	if (r == 0)
		r = pthread_create(&s->thread, &attr, start, s);
	pthread_attr_destroy(&attr);
	errno = r;
	return r ? cli_fail_errno(err, "make a thread for the start") : 0;
}

static void start_free(struct rpc_start *s)
{
	if (s->done >= 0)
		close(s->done);
	pthread_mutex_destroy(&s->lock);
	rpc_build_free(&s->build);
	free(s);
}

int rpc_start_begin(struct rpc *r, struct rpc_start **out, struct rpc_build *b,
		    struct nsbox_box *box, uint64_t tag, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = tag };
	struct rpc_start *s = calloc(1, sizeof(*s));
	int code = 0;

	if (!s)
		return cli_nomem(err);
	s->box = box;
	s->is_kernel = (tag & 0xff) == TAG_OPENED;
	s->err = (struct nsbox_error)NSBOX_ERROR_INIT;
	s->build = *b;
	*b = (struct rpc_build)RPC_BUILD_INIT;
	pthread_mutex_init(&s->lock, NULL);
	if (s->build.wants_progress) {
		s->build.run.progress = take_progress;
		s->build.run.progress_arg = s;
	}
	s->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->done < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, s->done, &ev) < 0)
		code = cli_fail_errno(err, "watch a start");
	if (code == 0)
		code = run_thread(s, err);
	if (code < 0)
		start_free(s);
	else
		*out = s;
	return code;
}

static bool is_over(struct rpc_start *s)
{
	uint64_t heard = 0;

	return read(s->done, &heard, sizeof(heard)) == sizeof(heard) && heard >= OVER;
}

bool rpc_start_over(struct rpc *r, struct rpc_start *s, uint64_t id)
{
	bool over = is_over(s);
	char said[SAID_MAX];

	pthread_mutex_lock(&s->lock);
	memcpy(said, s->said, sizeof(said));
	s->said[0] = '\0';
	pthread_mutex_unlock(&s->lock);
	if (said[0] && event_data(&r->out, id, "progress", said, strlen(said)) < 0)
		rpc_out_of_memory(r);
	return over;
}

int rpc_start_end(struct rpc_start *s, struct nsbox_kernel **kernel, struct nsbox_error *err)
{
	int code;

	pthread_join(s->thread, NULL);
	code = s->code;
	*err = s->err;
	*kernel = s->kernel;
	start_free(s);
	return code;
}

/* A kill that comes before the start has begun finds an idle box, and is lost. */
struct nsbox_kernel *rpc_start_abort(struct rpc_start *s)
{
	struct pollfd done = { .fd = s->done, .events = POLLIN };
	struct nsbox_error ignored = NSBOX_ERROR_INIT;
	struct nsbox_kernel *kernel = NULL;

	do {
		nsbox_box_kill(s->box);
	} while (poll(&done, 1, KILL_AGAIN_MS) <= 0 || !is_over(s));
	rpc_start_end(s, &kernel, &ignored);
	return kernel;
}
