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

void repl_wire_reset(struct nsbox_kernel *k)
{
	buf_free(&k->out);
	buf_free(&k->body);
	k->out = (struct buf)BUF_INIT(REPL_QUEUE_MAX + REPL_FRAME_MAX);
	k->body = (struct buf)BUF_INIT(REPL_FRAME_MAX);
	k->out_at = k->head_len = k->body_len = 0;
	k->channel_over = k->wants_write = false;
	k->call_count = 0;
}

int repl_wire_watch(struct nsbox_kernel *k, struct nsbox_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN | (k->wants_write ? (uint32_t)EPOLLOUT : 0),
				  .data.u32 = TAG_CHANNEL };
	int fd = nsbox_box_channel(k->box);

	if (epoll_ctl(k->epoll, EPOLL_CTL_MOD, fd, &ev) < 0 &&
	    (errno != ENOENT || epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &ev) < 0))
		return err_sys(err, "watch the kernel's channel");
	return 0;
}

static void close_channel(struct nsbox_kernel *k)
{
	k->channel_over = true;
	epoll_ctl(k->epoll, EPOLL_CTL_DEL, nsbox_box_channel(k->box), NULL);
}

void repl_wire_flush(struct nsbox_kernel *k)
{
	bool waits = false;

	while (!k->channel_over && k->out_at < k->out.len) {
		ssize_t n = send(nsbox_box_channel(k->box), k->out.data + k->out_at,
				 k->out.len - k->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		waits = n < 0 && errno == EAGAIN;
		if (n < 0)
			break; /* a driver that is gone is noticed by reading */
		k->out_at += (size_t)n;
	}
	if (k->out_at == k->out.len) {
		k->out_at = 0;
		buf_clear(&k->out);
		if (k->out.cap > (size_t)REPL_ROOM * 4)
			buf_free(&k->out);
	}
	if (waits == k->wants_write || k->channel_over)
		return;
	k->wants_write = waits;
	if (repl_wire_watch(k, NULL) < 0)
		close_channel(k); /* no memory in the kernel: nothing can be said any more */
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

	repl_wire_head(head, len);
	buf_add(&k->out, head, sizeof(head));
	buf_add(&k->out, json, len);
	if (k->out.failed)
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
