/*
 * The launcher's side of the network supervisor (nsbox-egress): it starts that program
 * before the box, passes what the child opened in the box's network namespace on to it,
 * and asks it at the end what it saw.
 *
 *   egress_link.c     the process, and the packets on its socket
 *   egress_config.c   what it is told: rules, servers, hosts, proxy, caps
 *   egress_publish.c  listeners of the host for net.publish
 *   egress_report.c   what it says, as part of the record
 *
 * Threads: what a run does with a link it does in one thread. egress_update() may come
 * from another one: `lock` covers `is_serving`, and whoever finds that set owns the
 * socket until it lets go of the lock.
 */
#ifndef RUNTIME_EGRESS_H
#define RUNTIME_EGRESS_H

#include "base/buf.h"
#include "base/strlist.h"
#include "policy/policy.h"
#include "runtime/companion.h"
#include "runtime/egress_wire.h"
#include "runtime/identity.h"
#include "runtime/record.h"

#include <pthread.h>

enum {
	EGRESS_PUBLISH_MAX = 16,
	EGRESS_POOL_SIZE = 64,	/* connections to servers of the box, at a time */
};

struct egress_link {
	struct companion_process process; /* pidfd -1: none */
	struct companion_process dying; /* the one of the run before: killed, not yet reaped */
	int sock;		/* -1: none */
	bool by_calls;		/* the next box has no network namespace: the caller's to set before
				   egress_start() */
	const char *path;	/* "inlet", "ports", "calls"; NULL: nothing was handed over */
	int setup_ms;		/* for its first answer */
	bool is_ended;		/* it ended while the box ran */
	struct {
		int fd;		/* listens; the launcher's own until egress_settle() */
		uint16_t port;	/* of the box */
	} published[EGRESS_PUBLISH_MAX];
	size_t published_count;
	bool has_ports;		/* the process has listeners of the host */
	const char *more_hosts;	/* names of this box alone, as in /etc/hosts; NULL: none. The
				   caller's until the run is over */
	bool hosts_cut;		/* the host's /etc/hosts is larger than what was passed on */
	bool is_serving;	/* a box runs, and this serves it */
	pthread_mutex_t lock;
};

void egress_init(struct egress_link *l);
void egress_destroy(struct egress_link *l);

/* Does a box of this policy need the supervisor at all? */
bool egress_is_needed(const struct policy *p);

/* Bind and listen for each entry of net.publish. NSBOX_E_USAGE: the host's port is taken,
 * or not ours to take. */
int egress_publish(struct egress_link *l, const struct policy *p, struct nsbox_error *err);

/* Start the program and tell it its rules. One that runs already (of an attempt that
 * failed) is ended first. */
int egress_start(struct egress_link *l, const struct policy *p, const struct identity *id,
		 struct nsbox_error *err);

/* The `network` call of struct launch_request, whose argument is the link: passes on the
 * sockets of the box (WIRE_TAG_INLET, _PORTS, _POOL, _CALLS); tag 0: those were all, so wait until
 * the supervisor serves. */
int egress_hand_over(void *link, unsigned tag, unsigned bits, const int *fds, size_t count,
		     struct nsbox_error *err);

/* The payload runs: only the supervisor listens from now on, and egress_ended() is to be
 * called when `&l->process` comes out of that epoll descriptor. */
int egress_settle(struct egress_link *l, int epoll);
void egress_ended(struct egress_link *l, int epoll);

/* New rules and caps for a box that runs. NSBOX_E_BUSY: none does. When the supervisor
 * does not take them it is ended: nobody knows then which rules would hold. */
int egress_update(struct egress_link *l, const struct policy *p, const struct identity *id,
		  struct nsbox_error *err);

/* The box is dead: what its network did, into the record. Ends the supervisor.
 * 0 or NSBOX_E_NOMEM; an answer that is missing is a note, and unknown counters. */
int egress_report(struct egress_link *l, struct nsbox_result *r, const struct policy *p);

/* End it, whatever it does; its listeners as well. */
void egress_end(struct egress_link *l);

/* --- between the files of this part, and for tests ----------------------------- */

struct egress_packet {
	struct egress_msg head;
	char body[EGRESS_PACKET_MAX];
};
/* One well-formed packet. -1: ETIMEDOUT, EPIPE (it ended), EPROTO, or of recv(2). */
int egress_hear(int sock, uint64_t until_us, struct egress_packet *p);
int egress_tell(int sock, const struct egress_msg *head, const int *fds, size_t count);

/* The text of a packet, fit for one line of ours. */
enum { EGRESS_TEXT = 256 };
const char *egress_text(const struct egress_packet *p, char text[EGRESS_TEXT]);

/* struct egress_config with all that it points to, sealed. The descriptor. */
int egress_config_fd(struct egress_link *l, const struct policy *p, const struct identity *id,
		     struct nsbox_error *err);
/* Where it comes from; egress_config_fd() gives the host's own files. */
struct egress_sources {
	const struct policy *policy;
	const char *resolv_conf, *hosts; /* paths */
	const char *more_hosts;	/* text in front of what is in hosts; NULL: none */
	uint32_t uid, gid;
	bool calls;		/* the box shares the supervisor's network namespace */
};
int egress_config_build(struct buf *out, const struct egress_sources *from, bool *hosts_cut,
			struct nsbox_error *err);

/* "1.2.3.4", "1.2.3.4:53", "fe80::1%eth0", "[::1]:53". */
bool egress_parse_server(struct egress_server *s, const char *text);
/* Servers, timeout and attempts, with the C library's own bounds and defaults. */
void egress_read_resolv(struct egress_config *c, int fd);

struct egress_proxy {
	uint32_t kind;		/* enum egress_proxy_kind */
	char host[256], user[256], password[256];
	uint16_t port;
};
/* http://[USER[:PASSWORD]@]HOST:PORT, socks5://, socks5h://. */
bool egress_parse_proxy(struct egress_proxy *proxy, const char *url);

struct egress_publication {
	uint8_t family, bytes[16]; /* where the host listens */
	uint16_t host_port, port;
};
/* "[ADDRESS:]HOSTPORT:PORT" */
bool egress_parse_publication(struct egress_publication *p, const char *text);

#endif
