/*
 * repl_wire.c - frames between a kernel and its driver
 *
 * Must: let memory follow the bytes that came, not the length that was announced; read one
 * frame at a time, so that the descriptor stays readable while there is another.
 */
#include "runtime/repl.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void reset(struct repl_outlet *o)
{
	buf_free(&o->text);
	*o = (struct repl_outlet){ .text = BUF_INIT(REPL_QUEUE_MAX + REPL_FRAME_MAX) };
}

void repl_wire_reset(struct nsbox_kernel *k)
{
	reset(&k->out);
	reset(&k->answers);
	buf_free(&k->body);
	k->body = (struct buf)BUF_INIT(REPL_FRAME_MAX);
	k->head_len = k->body_len = 0;
	k->channel_over = false;
	k->call_count = 0;
}

int repl_wire_watch(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN | (k->out.waits ? (uint32_t)EPOLLOUT : 0),
				  .data.u32 = TAG_CHANNEL };
	int fd = nsbox_box_channel(k->box);

	if (epoll_ctl(k->epoll, EPOLL_CTL_MOD, fd, &ev) < 0 &&
	    (errno != ENOENT || epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &ev) < 0))
		return err_sys(err, "watch the kernel's channel");
	return 0;
}

/* Only while something waits: an end that is closed would be ready for ever. */
static int watch_answers(struct nsbox_kernel *k)
{
	struct epoll_event ev = { .events = EPOLLOUT, .data.u32 = TAG_ANSWERS };

	return epoll_ctl(k->epoll, k->answers.waits ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
			 k->box->watch->answers, &ev);
}

static void close_channel(struct nsbox_kernel *k)
{
	k->channel_over = true;
	epoll_ctl(k->epoll, EPOLL_CTL_DEL, nsbox_box_channel(k->box), NULL);
}

size_t repl_wire_unsent(const struct nsbox_kernel *k)
{
	return k->out.text.len - k->out.at + k->answers.text.len - k->answers.at;
}

/* -1: nobody will read. Otherwise what goes is sent; true: it waits for room now, or no more. */
static int send_all(struct repl_outlet *o, int fd, bool *changed)
{
	bool waits = false;

	while (o->at < o->text.len) {
		ssize_t n = send(fd, o->text.data + o->at, o->text.len - o->at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		waits = n < 0 && errno == EAGAIN;
		if (n < 0 && !waits)
			return -1;
		if (n < 0)
			break;
		o->at += (size_t)n;
	}
	if (o->at == o->text.len) {
		o->at = 0;
		buf_clear(&o->text);
		if (o->text.cap > (size_t)REPL_ROOM * 4)
			buf_free(&o->text);
	}
	*changed = waits != o->waits;
	o->waits = waits;
	return 0;
}

static void drop(struct repl_outlet *o)
{
	o->at = 0;
	buf_free(&o->text);
}

/* What cannot be watched, for want of memory in the kernel, or has no reader, is no more. */
void repl_wire_flush(struct nsbox_kernel *k)
{
	bool changed = false;

	if (!k->channel_over && send_all(&k->out, nsbox_box_channel(k->box), &changed) == 0 &&
	    changed && repl_wire_watch(k, NULL) < 0)
		close_channel(k);
	if (!k->is_shell)
		return;
	changed = false;
	if (send_all(&k->answers, k->box->watch->answers, &changed) < 0) {
		drop(&k->answers);
		changed = k->answers.waits;
		k->answers.waits = false;
	}
	if (changed && watch_answers(k) < 0)
		drop(&k->answers);
}

void repl_wire_head(char head[4], size_t len)
{
	head[0] = (char)(len >> 24);
	head[1] = (char)(len >> 16);
	head[2] = (char)(len >> 8);
	head[3] = (char)len;
}

int repl_wire_answer(struct nsbox_kernel *k, const char *json, size_t len, struct nsbox_error *err)
{
	char head[4];
	int r;

	if (k->is_shell) {
		r = repl_shell_answer(&k->answers.text, json, len, err);
		if (r < 0)
			return r;
	} else {
		repl_wire_head(head, len);
		buf_add(&k->out.text, head, sizeof(head));
		buf_add(&k->out.text, json, len);
	}
	if (k->out.text.failed || k->answers.text.failed)
		return err_nomem(err);
	repl_wire_flush(k);
	return 0;
}

/* At most @most bytes to @to. -1: the end; 0: nothing now. */
static ssize_t receive(struct nsbox_kernel *k, void *to, size_t most)
{
	ssize_t n;

	do {
		n = recv(nsbox_box_channel(k->box), to, most, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n > 0)
		return n;
	close_channel(k);
	return -1;
}

static size_t announced(const unsigned char head[4])
{
	return (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
}

int repl_wire_read(struct nsbox_kernel *k)
{
	ssize_t n;

	if (k->channel_over)
		return -1;
	if (k->body_len && k->body.len == k->body_len) { /* was taken */
		buf_clear(&k->body);
		if (k->body.cap > (size_t)REPL_ROOM * 4)
			buf_free(&k->body);
		k->head_len = k->body_len = 0;
	}
	while (k->head_len < 4) {
		n = receive(k, k->head + k->head_len, 4 - k->head_len);
		if (n <= 0)
			return (int)n;
		k->head_len += (size_t)n;
	}
	k->body_len = announced(k->head);
	if (k->body_len == 0 || k->body_len > REPL_FRAME_MAX)
		return 1; /* the body is empty: no JSON */
	while (k->body.len < k->body_len) {
		size_t rest = k->body_len - k->body.len;

		n = receive(k, k->room, rest < REPL_ROOM ? rest : REPL_ROOM);
		if (n <= 0)
			return (int)n;
		buf_add(&k->body, k->room, (size_t)n);
		if (k->body.failed)
			return 1;
	}
	return 1;
}
