/*
 * doctor_net.c - the probe for a box's network: its rules, and the packet socket
 *
 * Runs in a throw-away child, in a user and a network namespace of its own (see
 * doctor_run.c).
 *
 * Must: load the very rules of a box, for which expressions a kernel lacks shows only then.
 */
#include "runtime/doctor.h"

#include "base/cleanup.h"
#include "runtime/assemble.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* 0, or -1 with the errno that the kernel answers the batch with. */
static int load_rules(void)
{
	owned_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	char answer[4096] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	size_t len;
	const void *rules = assemble_rules(&len);
	ssize_t n = -1;

	if (fd < 0 || send(fd, rules, len, 0) != (ssize_t)len)
		return -1;
	n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	while (n >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) && h->nlmsg_type == NLMSG_ERROR) {
		int error = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
		ssize_t step = NLMSG_ALIGN(h->nlmsg_len);

		if (error) {
			errno = -error;
			return -1;
		}
		if (step >= n)
			return 0;
		n -= step;
		h = (const struct nlmsghdr *)((const char *)h + step);
	}
	if (n >= 0)
		errno = EPROTO;
	return -1;
}

int probe_inlet(struct probe_report *r)
{
	owned_fd int gate = -1;

	r->step = STEP_RULES;
	if (load_rules() < 0)
		return -1;
	/* A second table of that name is refused: so the first is there. */
	if (load_rules() == 0 || errno != EEXIST) {
		r->step = STEP_NO_EFFECT;
		errno = 0;
		return -1;
	}
	r->step = STEP_GATE;
	gate = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return gate < 0 ? -1 : 0;
}
