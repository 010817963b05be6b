/*
 * watch_tell.c - what the launcher tells a run in flight: signals, and its end
 *
 * Runs in the caller's process. Must: kill from any thread, and leave the evidence alone once
 * the run is over. Mustn't: wait for init, which may be stuck.
 */
#include "runtime/watch.h"

#include <sys/socket.h>

static int send_init(const struct watch *w, int type, int op, int value)
{
	const struct wire_msg msg = { .magic = WIRE_MAGIC, .type = (uint16_t)type,
				      .stage = 0, .op = op, .value = value };

	return send(w->live.sock, &msg, sizeof(msg), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		       (ssize_t)sizeof(msg) ? 0 : -1;
}

int watch_tell(const struct watch *w, int type, int value)
{
	return send_init(w, type, -1, value);
}

void watch_kill(struct watch *w, enum kill_reason why, uint64_t value)
{
	pthread_mutex_lock(&w->lock);
	if (!w->dead) { /* else the evidence is complete, and being read */
		if (w->evidence.killed == KILL_NONE && !w->evidence.has_exit) {
			w->evidence.killed = why;
			w->evidence.kill_value = value;
		}
		if (!w->patience_us)
			w->patience_us = now_us() + PATIENCE_US;
		/* PID 1 of the namespace: the kernel kills the rest. Without one init does it, so
		 * it must live: it is told once, as it reads nothing while it is at it, and by
		 * the end of the socket where that is full. */
		if (!w->live.is_plain)
			live_kill(&w->live);
		else if (!w->was_told && watch_tell(w, WIRE_KILL, 0) < 0)
			shutdown(w->live.sock, SHUT_WR);
		w->was_told = true;
	}
	pthread_mutex_unlock(&w->lock);
}

int watch_signal(struct watch *w, int sig, struct nsbox_error *err)
{
	if (sig < 1 || sig > 64)
		return err_set(err, NSBOX_E_USAGE, "%d is no signal", sig);
	if (w->dead || watch_tell(w, WIRE_SIGNAL, sig) < 0)
		return err_set(err, NSBOX_E_BUSY, "the payload has ended");
	return 0;
}

void watch_signal_told(struct watch *w, int sig)
{
	if (!w->dead && send_init(w, WIRE_SIGNAL, WIRE_TELL, sig) == 0)
		w->signals_due++;
}
