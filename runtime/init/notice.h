/*
 * One call of the payload that the kernel holds: what it asks, read once out of the payload,
 * and where its answer goes.
 */
#ifndef RUNTIME_INIT_NOTICE_H
#define RUNTIME_INIT_NOTICE_H

#include <stdint.h>

enum { BROKER_WAITING = 256 };	/* calls that wait for the supervisor at a time */

struct notice {
	uint64_t id;
	uint32_t tid;
	int mem, fd;		/* the thread's memory; a copy of its socket; -1: none */
	uint8_t is_used;
	uint8_t may_pass;	/* the kernel may carry it out: no address of it matters */
	uint8_t wants_fd;	/* its answer is a descriptor */
	uint8_t receives;
	uint8_t clips;		/* what is written as the length is what was written, no more */
	/* in the payload; 0: nowhere */
	uint64_t name, name_len; /* where an address and its length go */
	uint64_t data;		/* where data goes, or */
	uint64_t msg, many;	/* a struct msghdr, perhaps the one of a struct mmsghdr */
	uint32_t name_room, data_room;
};

struct calls_ask;
struct calls_answer;
struct seccomp_notif;

/* 0: @head and @body are what to ask the supervisor; else an errno, or one of these. */
enum { NOTICE_PASS = -1, NOTICE_GONE = -2 };
int notice_read(struct notice *n, const struct seccomp_notif *call, struct calls_ask *head,
		unsigned char *body);
/* Is there a signal that the call keeps waiting? The errno that ends it for that; 0: none. */
int notice_signal(const struct notice *n);
/* What the supervisor said, into the payload. What the call returns, or -errno. */
long notice_write(const struct notice *n, const struct calls_answer *a, const unsigned char *body);

#endif
