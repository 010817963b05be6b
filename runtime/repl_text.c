/*
 * repl_text.c - what programs in a kernel's box print, as events
 *
 * The pipes are read only while a request is in hand: what a thread prints between two
 * requests waits in the pipe (64 KiB, then the thread waits), and is the next one's.
 * Must: keep no more than the policy allows for a request; count what is dropped.
 * Mustn't: split a character between two events.
 */
#include "runtime/repl.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/utf8.h"

static const char *const names[] = { "stdout", "stderr" };

/* The last bytes of @s that may be the begin of a character: 0 to 3. */
static size_t unfinished(const char *s, size_t len)
{
	for (size_t n = 1; n <= 3 && n <= len; n++) {
		unsigned char c = (unsigned char)s[len - n];

		if (c >= 0xf0)
			return n < 4 ? n : 0;
		if (c >= 0xe0)
			return n < 3 ? n : 0;
		if (c >= 0xc0)
			return n < 2 ? n : 0;
		if (c < 0x80)
			return 0;
	}
	return 0;
}

static void say(struct nsbox_kernel *k, int i, const char *text, size_t len)
{
	struct repl_event *e = len ? repl_event_add(k) : NULL;
	struct json j = JSON_INIT(e ? &e->text : NULL);

	if (!e)
		return;
	json_object(&j);
	json_kuint(&j, "id", k->current->id);
	json_kstr(&j, "event", names[i]);
	json_key(&j, "text");
	json_strn(&j, text, len);
	json_end(&j, '}');
}

static void take(struct nsbox_kernel *k, int i, char *text, size_t len, bool is_last)
{
	struct repl_stream *s = &k->streams[i];
	uint64_t room = s->limit - s->kept;
	bool is_cut = len > room;

	s->total += len;
	if (is_cut)
		len = utf8_cut_before(text, len, (size_t)room);
	s->kept += len;
	if (is_cut) {
		s->limit = s->kept; /* nothing after a gap */
		if (k->box->policy.limits.output_action == OUTPUT_KILL) {
			k->was_killed = k->said_too_much = true;
			nsbox_box_kill(k->box);
		}
	}
	memmove(text + s->held_len, text, len);
	memcpy(text, s->held, s->held_len);
	len += s->held_len;
	s->held_len = is_last || is_cut ? 0 : unfinished(text, len);
	memcpy(s->held, text + len - s->held_len, s->held_len);
	say(k, i, text, len - s->held_len);
}

bool repl_text_read(struct nsbox_kernel *k, int i, size_t most)
{
	struct repl_stream *s = &k->streams[i];
	size_t room = REPL_ROOM - sizeof(s->held);
	ssize_t n;

	if (s->is_over)
		return false;
	do {
		n = read(k->box->watch->pipes[i], k->room, most < room ? most : room);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		take(k, i, k->room, (size_t)n, false);
		return true;
	}
	if (n < 0 && errno == EAGAIN)
		return false;
	s->is_over = true; /* every copy is closed */
	if (s->is_watched)
		epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->box->watch->pipes[i], NULL);
	s->is_watched = false;
	return false;
}

void repl_text_drain(struct nsbox_kernel *k, bool all)
{
	for (int i = 0; i < 2; i++) {
		int waiting = 0;

		while (all && repl_text_read(k, i, REPL_ROOM))
			;
		/* No more than is there now: a thread may print for ever. */
		if (!all && !k->streams[i].is_over)
			ioctl(k->box->watch->pipes[i], FIONREAD, &waiting);
		while (waiting > 0) {
			uint64_t before = k->streams[i].total;

			if (!repl_text_read(k, i, (size_t)waiting))
				break;
			waiting -= (int)(k->streams[i].total - before);
		}
	}
}

/* A pipe that everybody has closed is always "ready": it is watched while it is read. */
static void watch(struct nsbox_kernel *k, bool on)
{
	for (int i = 0; i < 2; i++) {
		struct epoll_event ev = { .events = EPOLLIN,
					  .data.u32 = i ? TAG_STDERR : TAG_STDOUT };
		struct repl_stream *s = &k->streams[i];

		if (s->is_over || s->is_watched == on)
			continue;
		if (epoll_ctl(k->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
			      k->box->watch->pipes[i], &ev) == 0)
			s->is_watched = on;
	}
}

void repl_text_begin(struct nsbox_kernel *k)
{
	const uint64_t limits[] = { k->box->policy.limits.stdout_bytes,
				    k->box->policy.limits.stderr_bytes };

	for (int i = 0; i < 2; i++) {
		k->streams[i].limit = limits[i];
		k->streams[i].total = k->streams[i].kept = 0;
		k->streams[i].held_len = 0;
	}
	watch(k, true);
}

void repl_text_end(struct nsbox_kernel *k)
{
	for (int i = 0; i < 2; i++)
		take(k, i, k->room, 0, true);
	watch(k, false);
}
