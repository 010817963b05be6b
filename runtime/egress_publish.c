/*
 * egress_publish.c - listeners of the host for net.publish
 *
 * Runs in the launcher, before anything of the run exists.
 *
 * Must:    listen on loopback unless the policy names another address.
 * Mustn't: go on when one port cannot be had.
 */
#include "runtime/egress.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

enum { BACKLOG = 128 };

/* The text up to @end as a port; what follows is cut off. */
static bool parse_port(const char *from, const char *end, uint16_t *port)
{
	char text[8];
	size_t n = (size_t)(end - from);
	uint64_t v;

	if (n >= sizeof(text))
		return false;
	memcpy(text, from, n);
	text[n] = '\0';
	if (num_uint(text, 1, UINT16_MAX, &v) < 0)
		return false;
	*port = (uint16_t)v;
	return true;
}

/* "[::1]" or "127.0.0.1" */
static bool parse_address(const char *from, const char *end, struct egress_publication *p)
{
	char text[64];
	size_t n = (size_t)(end - from);
	bool is_v6 = n > 2 && from[0] == '[' && end[-1] == ']';

	if (is_v6) {
		from++;
		n -= 2;
	}
	if (n >= sizeof(text))
		return false;
	memcpy(text, from, n);
	text[n] = '\0';
	p->family = is_v6 ? 6 : 4;
	return inet_pton(is_v6 ? AF_INET6 : AF_INET, text, p->bytes) == 1;
}

bool egress_parse_publication(struct egress_publication *out, const char *text)
{
	struct egress_publication p = { .family = 4, .bytes = { 127, 0, 0, 1 } };
	const char *last = strrchr(text, ':'), *end = text + strlen(text), *first = text;
	const char *at;

	if (!last || !parse_port(last + 1, end, &p.port))
		return false;
	for (at = last; at > text && at[-1] != ':'; at--)
		;
	if (at > text) { /* an address stands before the host's port */
		if (!parse_address(first, at - 1, &p))
			return false;
		first = at;
	}
	if (!parse_port(first, last, &p.host_port))
		return false;
	*out = p;
	return true;
}

static socklen_t to_sockaddr(const struct egress_publication *p, struct sockaddr_storage *out)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(p->host_port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(p->host_port) };

	if (p->family == 4) {
		memcpy(&v4.sin_addr, p->bytes, sizeof(v4.sin_addr));
		memcpy(out, &v4, sizeof(v4));
		return sizeof(v4);
	}
	memcpy(&v6.sin6_addr, p->bytes, sizeof(v6.sin6_addr));
	memcpy(out, &v6, sizeof(v6));
	return sizeof(v6);
}

static int refused(const char *entry, struct nsbox_error *err)
{
	int os_errno = errno;

	switch (os_errno) {
	case EADDRINUSE:
		err_hint(err, "choose another port of the host");
		break;
	case EACCES:
		err_hint(err, "ports below 1024 belong to root: choose a higher one of the host");
		break;
	case EADDRNOTAVAIL:
		err_hint(err, "give an address that this host has");
		break;
	default:
		return err_errno(err, NSBOX_E_SYSTEM, os_errno, "net.publish \"%s\"", entry);
	}
	return err_errno(err, NSBOX_E_USAGE, os_errno, "net.publish \"%s\"", entry);
}

static int listen_on(const struct egress_publication *p)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = to_sockaddr(p, &at);
	owned_fd int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	/* Without REUSEADDR the connections of the run before would hold the port a minute. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -1;
	if (p->family == 6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	return take_fd(fd);
}

int egress_publish(struct egress_link *l, const struct policy *p, struct nsbox_error *err)
{
	const struct strlist *entries = &p->net.publish;

	if (entries->n > EGRESS_PUBLISH_MAX)
		return err_set(err, NSBOX_E_USAGE, "net.publish has %zu entries; at most %d", entries->n,
			       EGRESS_PUBLISH_MAX);
	for (size_t i = 0; i < entries->n; i++) {
		struct egress_publication where;
		int fd;

		if (!egress_parse_publication(&where, entries->v[i])) {
			err_hint(err, "give [ADDRESS:]HOSTPORT:PORT, as in 8080:80");
			return err_set(err, NSBOX_E_USAGE, "net.publish \"%s\" is no pair of ports",
				       entries->v[i]);
		}
		fd = listen_on(&where);
		if (fd < 0)
			return refused(entries->v[i], err);
		l->published[l->published_count].fd = fd;
		l->published[l->published_count++].port = where.port;
	}
	return 0;
}
