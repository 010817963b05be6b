/*
 * What the broker of a box without namespaces (runtime/init/broker.c) and the supervisor of
 * its network (runtime/egress/calls.c) say to each other, over one SOCK_SEQPACKET pair.
 *
 * The kernel holds each call of the payload that has an address until the broker answers it.
 * The broker copies what the call points to, once, takes a copy of the socket from the
 * payload's descriptor table, and asks. It decides nothing: the supervisor says what the call
 * answers, and does on the socket what has to be done.
 *
 * Each message is one packet: a head, then `name_len` bytes of address, then `size` bytes of
 * data. A packet that is too short, too long or of another kind is a failure of the other
 * side: the broker then answers ENETDOWN, the supervisor ends.
 *
 *   broker -> supervisor  struct calls_ask; the socket is in SCM_RIGHTS, but for SOCKET and CANCEL
 *   supervisor -> broker  struct calls_answer, once for each that was asked and not cancelled,
 *                         in any order; GIVE has a descriptor in SCM_RIGHTS
 */
#ifndef RUNTIME_CALLS_WIRE_H
#define RUNTIME_CALLS_WIRE_H

#include <stdint.h>

enum {
	CALLS_MAGIC = 0x6e736363,
	CALLS_NAME_MAX = 128,	/* struct sockaddr_storage */
	CALLS_DATA_MAX = 65536,	/* more than a datagram can have */
	CALLS_PACKET_MAX = 64 + CALLS_NAME_MAX + CALLS_DATA_MAX,
};

enum calls_what {
	CALLS_SOCKET = 1,	/* arg: domain, type with its flags, protocol */
	CALLS_CONNECT,		/* name */
	CALLS_BIND,		/* name */
	CALLS_LISTEN,		/* arg: backlog */
	CALLS_SOCKNAME,
	CALLS_PEERNAME,
	CALLS_SEND,		/* arg: flags; name, if there is one, and then the data */
	CALLS_RECV,		/* arg: flags, room */
	CALLS_GETOPT,		/* arg: option, of SOL_SOCKET */
	CALLS_SETOPT,		/* arg: level, option; the value does not matter */
	CALLS_CANCEL,		/* nobody waits any more for the answer to `id` */
	CALLS_WHAT_END
};
struct calls_ask {
	uint32_t magic;
	uint16_t what, name_len;
	uint64_t id;
	uint32_t arg[3];
	uint32_t size;
};

enum calls_how {
	CALLS_DONE = 1,		/* `error`, else `value`, name and data: nothing else happens */
	CALLS_PASS,		/* the kernel shall carry it out: it has no address that matters */
	CALLS_GIVE,		/* the descriptor becomes the payload's, and is what it gets */
	CALLS_HOW_END
};
struct calls_answer {
	uint32_t magic;
	uint16_t how, name_len;
	uint64_t id;
	uint32_t error;		/* errno; 0: none */
	uint32_t value;
	uint32_t flags;		/* RECV: msg_flags. GIVE: O_CLOEXEC or 0 */
	uint32_t size;
};

#endif
