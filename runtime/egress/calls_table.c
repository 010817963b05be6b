/*
 * calls_table.c - the sockets of the box, and the ports that it bound. See calls_part.h. Runs in
 * the supervisor.
 *
 * A socket is known by the number of its inode, which stays with it through dup, fork and
 * SCM_RIGHTS. Nobody tells when the box closes a TCP socket, and a copy of ours would keep it
 * open: so there is none, and an entry is only what we remember. When it is too many the
 * oldest are forgotten.
 *
 * Must:    keep a real port as long as the box's port is remembered: were it somebody else's
 *          one day, the box would connect to that.
 */
#include "runtime/egress/calls_part.h"

#include "base/cleanup.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { TRIES_FOR_PORT = 8 };

uint64_t calls_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_ino;
}

/* --- sockets ---------------------------------------------------------------------------- */

static struct calls_socket **find(struct calls *k, uint64_t inode)
{
	struct calls_socket **s = &k->buckets[inode % CALLS_BUCKETS];

	while (*s && (*s)->inode != inode)
		s = &(*s)->chain;
	return s;
}

struct calls_socket *calls_find(struct calls *k, uint64_t inode)
{
	return *find(k, inode);
}

/* By itself, not by its number: another one may have that by now (calls_add()). */
static void unchain(struct calls *k, const struct calls_socket *s)
{
	struct calls_socket **at = &k->buckets[s->inode % CALLS_BUCKETS];

	while (*at != s)
		at = &(*at)->chain;
	*at = s->chain;
}

void calls_forget(struct calls *k, struct calls_socket *s)
{
	unchain(k, s);
	*(s->older ? &s->older->newer : &k->oldest) = s->newer;
	*(s->newer ? &s->newer->older : &k->newest) = s->older;
	k->socket_count--;
	free(s);
}

/* What something is under way for, and UDP sockets, are known until they end. */
static void make_room(struct calls *k)
{
	struct calls_socket *s = k->oldest;

	while (s && (s->way || s->end))
		s = s->newer;
	if (s)
		calls_forget(k, s);
}

struct calls_socket *calls_add(struct calls *k, uint64_t inode, int family)
{
	struct calls_socket *s, **head;

	/* The number is used again: the one before is gone. */
	s = calls_find(k, inode);
	if (s && !s->way && !s->end)
		calls_forget(k, s);
	if (k->socket_count >= CALLS_SOCKETS_MAX)
		make_room(k);
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	head = &k->buckets[inode % CALLS_BUCKETS];
	*s = (struct calls_socket){ .inode = inode, .family = family, .chain = *head,
				    .older = k->newest };
	*head = s;
	*(k->newest ? &k->newest->newer : &k->oldest) = s;
	k->newest = s;
	k->socket_count++;
	return s;
}

/* --- ports -------------------------------------------------------------------------------- */

struct calls_port *calls_port_find(struct calls *k, uint16_t port, bool is_v6)
{
	for (unsigned i = 0; i < k->port_count; i++) {
		struct calls_port *p = &k->ports[i];

		if (p->port == port && (is_v6 ? p->has6 : p->has4))
			return p;
	}
	return NULL;
}

struct calls_port *calls_port_of_real(struct calls *k, uint16_t real)
{
	for (unsigned i = 0; i < k->port_count; i++)
		if (k->ports[i].real == real)
			return &k->ports[i];
	return NULL;
}

static int set_reuse(int fd, int on)
{
	return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

/* A port of 127.0.0.1; 0: one that is free. -1 with errno. */
static int open_on(uint16_t real)
{
	const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(real),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	owned_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || set_reuse(fd, 1) < 0 ||
	    bind(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -1;
	return take_fd(fd);
}

static uint16_t real_of(int fd)
{
	struct sockaddr_in here = { 0 };
	socklen_t len = sizeof(here);

	return getsockname(fd, (struct sockaddr *)&here, &len) < 0 ? 0 : ntohs(here.sin_port);
}

/* Two sockets with SO_REUSEADDR share a port until one listens; one without shares nothing,
 * and then no program of the host can listen where the box's server was. */
void calls_port_share(const struct calls_port *p, bool on)
{
	set_reuse(p->keeper, on);
}

bool calls_port_is_served(const struct calls_port *p)
{
	int probe;

	calls_port_share(p, true);
	probe = open_on(p->real);
	calls_port_share(p, false);
	if (probe < 0)
		return true;
	close(probe);
	return false;
}

static void drop(struct calls *k, struct calls_port *p)
{
	close(p->keeper);
	*p = k->ports[--k->port_count];
}

static void drop_unserved(struct calls *k)
{
	for (unsigned i = k->port_count; i-- > 0;)
		if (!calls_port_is_served(&k->ports[i]))
			drop(k, &k->ports[i]);
}

struct calls_port *calls_port_add(struct calls *k, uint16_t port, bool has4, bool has6)
{
	struct calls_port *p;
	uint16_t real;

	if (k->port_count == CALLS_PORTS_MAX)
		drop_unserved(k);
	if (k->port_count == CALLS_PORTS_MAX) {
		errno = ENOBUFS;
		return NULL;
	}
	/* A port of the kernel's choice may be one that the box has asked for before. */
	for (int i = 0; i < TRIES_FOR_PORT; i++) {
		owned_fd int keeper = open_on(0);

		if (keeper < 0)
			return NULL;
		real = real_of(keeper);
		if (!real || (!port && (calls_port_find(k, real, false) ||
					calls_port_find(k, real, true))))
			continue;
		p = &k->ports[k->port_count++];
		*p = (struct calls_port){ port ? port : real, real, has4, has6, take_fd(keeper) };
		return p;
	}
	errno = EADDRINUSE;
	return NULL;
}
