/*
 * The parts of calls.c: sockets of a box that has no network namespace.
 *
 *   calls.c         the broker's questions, and the answers
 *   calls_read.c    their bytes
 *   calls_table.c   the sockets of the box; the ports that it bound
 *   calls_tcp.c     streams: connect
 *   calls_serve.c   bind, listen, names
 *   calls_udp.c     datagrams
 */
#ifndef EGRESS_CALLS_PART_H
#define EGRESS_CALLS_PART_H

#include "runtime/egress/calls.h"
#include "runtime/egress/calls_read.h"
#include "runtime/egress/udp.h"

enum {
	CALLS_BUCKETS = 1024,
	CALLS_SOCKETS_MAX = 8192, /* remembered; a TCP socket that is forgotten still works */
	CALLS_PORTS_MAX = 512,	/* bound by the box */
	CALLS_FIRST_PORT = 1024, /* below, no ordinary user may bind */
};

struct calls_way;		/* calls_tcp.c: a connect under way */
struct calls_end;		/* calls_udp.c: our end of a pair that is a UDP socket */

/* One of the box's, by the number of its inode. */
struct calls_socket {
	struct calls_socket *chain, *older, *newer;
	uint64_t inode;
	int family;		/* AF_INET, AF_INET6 */
	bool is_bound, is_connected;
	bool is_told;		/* that it is connected */
	struct egress_addr own, peer; /* as the box knows them */
	uint16_t own_port, peer_port;
	int error;		/* for SO_ERROR, or what asks next */
	struct calls_way *way;
	struct calls_end *end;	/* NULL: TCP */
};

/* A port that the box bound. Its server listens on another one of 127.0.0.1, which the
 * kernel chose; `keeper` is bound to that as well, so that it is never somebody else's. */
struct calls_port {
	uint16_t port, real;
	bool has4, has6;	/* the families it was bound for */
	int keeper;
};

/* A packet that the broker's socket had no room for. */
struct calls_unsent;

struct calls {
	struct egress *e;
	struct stub *stub;
	struct udp_relay *udp;
	struct source in;
	struct udp_sink sink;
	struct calls_unsent *unsent, **last_unsent;
	struct calls_socket *buckets[CALLS_BUCKETS], *oldest, *newest;
	unsigned socket_count;
	struct calls_port ports[CALLS_PORTS_MAX];
	unsigned port_count;
	struct calls_way *ways;
	struct calls_end *ends;
	unsigned end_count;
	struct calls_end **by_port; /* of all 65,536 UDP ports of the box */
	uint16_t next_udp_port;
	bool udp_refused, udp_asks; /* the datagram that is being taken; who sends it hears of it */
	int hold, filler[4];	/* a listener that answers nothing, and why it does not */
	uint16_t hold_port;
};

/* --- calls.c --- */
void calls_say(struct calls *k, uint64_t id, int error, uint32_t value);
void calls_say_pass(struct calls *k, uint64_t id);
void calls_say_name(struct calls *k, uint64_t id, const struct egress_addr *addr, uint16_t port);
void calls_say_int(struct calls *k, uint64_t id, int value);
/* Takes fd. */
void calls_say_fd(struct calls *k, uint64_t id, int fd, uint32_t flags);
struct calls_data {		/* what a datagram's receiver gets */
	const struct egress_addr *addr; /* NULL: none */
	uint16_t port;
	const uint8_t *data;
	uint32_t size, value, flags;
};
void calls_say_data(struct calls *k, uint64_t id, const struct calls_data *d);
/* recv(2) says 0 of an empty datagram, and of an end of a pair that is closed or shut down. */
bool calls_is_over(int fd);
/* O_NONBLOCK of the box's own descriptor. */
bool calls_is_nonblocking(int fd);
/* SO_RCVTIMEO or SO_SNDTIMEO in microseconds; 0: none. */
uint64_t calls_timeout_us(int fd, int option);

/* --- calls_table.c --- */
uint64_t calls_inode(int fd);	/* 0: it has none */
struct calls_socket *calls_find(struct calls *k, uint64_t inode);
/* NULL: no memory. */
struct calls_socket *calls_add(struct calls *k, uint64_t inode, int family);
void calls_forget(struct calls *k, struct calls_socket *s);
/* The port that the box takes for @port of this family; NULL: nobody bound it. */
struct calls_port *calls_port_find(struct calls *k, uint16_t port, bool is_v6);
struct calls_port *calls_port_of_real(struct calls *k, uint16_t real);
/* A new one: 0 for any port. NULL with errno. The keeper shares until it is told not to. */
struct calls_port *calls_port_add(struct calls *k, uint16_t port, bool has4, bool has6);
/* Shared: another socket may be bound to the same real port. */
void calls_port_share(const struct calls_port *p, bool on);
bool calls_port_is_served(const struct calls_port *p);

/* --- calls_tcp.c --- */
int calls_tcp_begin(struct calls *k); /* 0, or -1 with errno */
void calls_tcp_socket(struct calls *k, const struct calls_request *r);
void calls_tcp(struct calls *k, struct calls_request *r);
bool calls_tcp_cancel(struct calls *k, uint64_t id);

/* --- calls_serve.c --- */
int calls_option(int fd, int level, int name); /* 0 when there is none */
void calls_set(int fd, int level, int name, int value);
int calls_state(int fd);		/* TCP_ESTABLISHED, ...; -1: no TCP socket */
socklen_t calls_real_addr(struct sockaddr_storage *to, int family, uint16_t port);
uint16_t calls_real_port(int fd);
void calls_bind(struct calls *k, struct calls_socket *s, const struct calls_request *r);
void calls_listen(struct calls *k, struct calls_socket *s, const struct calls_request *r);
/* @s NULL: not known, or forgotten. */
void calls_sockname(struct calls *k, const struct calls_socket *s,
		    const struct calls_request *r, int family);
void calls_peername(struct calls *k, const struct calls_socket *s,
		    const struct calls_request *r);
void calls_error(struct calls *k, struct calls_socket *s, const struct calls_request *r);

/* --- calls_udp.c --- */
int calls_udp_begin(struct calls *k);
void calls_udp_socket(struct calls *k, const struct calls_request *r);
void calls_udp(struct calls *k, struct calls_socket *s, struct calls_request *r);
bool calls_udp_cancel(struct calls *k, uint64_t id);

#endif
