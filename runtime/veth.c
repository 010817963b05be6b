/*
 * veth.c - see veth.h
 *
 * Runs in the launcher.
 *
 * Must:    take a short, late or missing answer for a failure; end the program it began.
 * Mustn't: let the child go on before the rules are in force.
 */
#include "runtime/veth.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/egress.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { END_MS = 5000 };

static const char program[] = "nsbox-veth";

void veth_init(struct veth_link *l)
{
	*l = (struct veth_link){ .process.pidfd = -1, .sock = -1 };
}

bool veth_is_wanted(const struct policy *p)
{
	return p->net.mode != NET_DISABLED && p->net.path == PATH_VETH;
}

/* --- starting ------------------------------------------------------------------------- */

static int not_found(const struct companion *c, struct nsbox_error *err)
{
	if (errno == EPERM) {
		err_hint(err, "let nobody but its owner write it");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "%s could be changed by others than the owner of nsbox", c->path);
	}
	err_hint(err, "build it with libnl-route-3-dev and libmnl-dev and install it beside nsbox, or "
		      "leave out net.path=veth");
	return err_set(err, NSBOX_E_UNSUPPORTED, "net.path=veth needs %s, which is not there",
		       program);
}

static int start_program(struct veth_link *l, struct nsbox_error *err)
{
	char *argv[] = { (char *)program, NULL };
	owned_fd int exe = -1, mine = -1, its = -1, null = -1;
	struct companion_call call;
	struct companion found;
	int pair[2];

	if (companion_find(&found, program) < 0)
		return not_found(&found, err);
	exe = companion_above_stdio(found.fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "make a socket pair for %s", program);
	mine = companion_above_stdio(pair[0]);
	its = companion_above_stdio(pair[1]);
	null = companion_above_stdio(openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC));
	if (exe < 0 || mine < 0 || its < 0 || null < 0)
		return err_sys(err, "prepare a start of %s", program);
	call = (struct companion_call){ exe, { its, null, null }, argv };
	if (companion_start(&l->process, &call) < 0)
		return err_sys(err, "start %s", program);
	l->sock = take_fd(mine);
	return 0;
}

/* --- asking ----------------------------------------------------------------------------- */

static int open_netns(pid_t child)
{
	char path[64] = "/proc/", *to = decimal_put(path + strlen(path), (uint64_t)child);

	memcpy(to, "/ns/net", sizeof("/ns/net"));
	return openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

static int rules_fd(const struct policy *p, struct nsbox_error *err)
{
	struct egress_rules *rules = NULL;
	int fd, r = egress_compile(&rules, p, err);

	if (r < 0)
		return r;
	fd = fd_sealed("nsbox-rules", rules, rules->size);
	free(rules);
	return fd < 0 ? err_sys(err, "make a sealed file of the network's rules") : fd;
}

static int ask(const struct veth_link *l, pid_t child, const int fds[2], struct nsbox_error *err)
{
	const struct veth_request q = { .magic = VETH_MAGIC, .pid = (uint32_t)child };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { (void *)&q, sizeof(q) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(&control.head), fds, 2 * sizeof(int));
	if (sendmsg(l->sock, &msg, MSG_NOSIGNAL) != (ssize_t)sizeof(q))
		return err_sys(err, "ask %s for a network", program);
	return 0;
}

static int hear(struct veth_link *l, struct nsbox_error *err)
{
	struct pollfd p = { .fd = l->sock, .events = POLLIN };
	struct veth_answer *a = &l->answer;
	ssize_t n;
	int ready;

	do
		ready = poll(&p, 1, l->setup_ms);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return err_set(err, NSBOX_E_SETUP, "%s did not answer in time", program);
	n = recv(l->sock, a, sizeof(*a), MSG_DONTWAIT | MSG_TRUNC);
	if (n != (ssize_t)sizeof(*a) || a->magic != VETH_MAGIC)
		return err_set(err, NSBOX_E_SETUP, "%s ended without an answer", program);
	a->text[sizeof(a->text) - 1] = a->hint[sizeof(a->hint) - 1] = '\0';
	a->device[sizeof(a->device) - 1] = a->address[sizeof(a->address) - 1] = '\0';
	if (!a->failed)
		return 0;
	if (a->hint[0])
		err_hint(err, "%s", a->hint);
	if (a->os_errno)
		return err_errno(err, NSBOX_E_UNSUPPORTED, a->os_errno, "%s: %s", program, a->text);
	return err_set(err, NSBOX_E_UNSUPPORTED, "%s", a->text);
}

int veth_connect(void *link, pid_t child, struct nsbox_error *err)
{
	struct veth_link *l = link;
	owned_fd int ns = -1, rules = -1;
	int r;

	veth_end(l); /* of an attempt that failed */
	if (geteuid() != 0) {
		err_hint(err, "run nsbox as root, or leave out net.path=veth: the default path needs "
			      "no root");
		return err_set(err, NSBOX_E_UNSUPPORTED, "net.path=veth needs root");
	}
	ns = open_netns(child);
	if (ns < 0)
		return err_sys(err, "open the network namespace of the box");
	rules = rules_fd(l->policy, err);
	if (rules < 0)
		return rules;
	r = start_program(l, err);
	if (r >= 0)
		r = ask(l, child, (const int[2]){ ns, rules }, err);
	if (r >= 0)
		r = hear(l, err);
	if (r < 0)
		veth_end(l);
	return r;
}

/* --- the end ------------------------------------------------------------------------------ */

static bool has_ended(const struct veth_link *l)
{
	struct pollfd p = { .fd = l->process.pidfd, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

int veth_report(struct veth_link *l, struct nsbox_result *r)
{
	if (l->process.pidfd < 0)
		return 0;
	r->network.mode = l->policy->net.mode == NET_OPEN ? "open" : "filtered";
	r->network.path = "veth";
	if (has_ended(l) &&
	    strlist_add(&r->notes, "nsbox-veth ended; from then on the box had no network") < 0)
		return NSBOX_E_NOMEM;
	return 0;
}

void veth_end(struct veth_link *l)
{
	struct pollfd p = { .fd = l->process.pidfd, .events = POLLIN };

	if (l->process.pidfd < 0)
		return;
	/* EOF is its sign, also while a copy of this process holds the socket. */
	shutdown(l->sock, SHUT_WR);
	while (poll(&p, 1, END_MS) < 0 && errno == EINTR)
		;
	companion_end(&l->process);
	close(l->sock);
	l->sock = -1;
}
