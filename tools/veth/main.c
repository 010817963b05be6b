/*
 * nsbox-veth: connects one box to the host's network by a pair of devices (net.path=veth),
 * loads the rules for it, and stays as their keeper. The half of runtime/veth.c that needs
 * libnl and libmnl, as a program of its own, because neither the library nor the static
 * command links them.
 *
 * Run by runtime/veth.c as root, with an empty environment and a socket pair as its stdin;
 * the messages are those of runtime/veth_wire.h.
 *
 * Must:    have the rules in force before the first packet can pass; take down all that it
 *          made when the launcher says so or dies.
 * Mustn't: change a sysctl of the host's, or anything that it did not make.
 *
 * When it dies itself the kernel removes its table (NFT_TABLE_F_OWNER, Linux 5.12): the box
 * is cut off from all but the host, and the rules in the box's own namespace still hold.
 * The devices go with that namespace.
 */
#include "tools/veth/link.h"
#include "tools/veth/rules.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SOCK = 0, RULES_MAX = 64 << 20 };

struct told {
	struct veth_request request;
	int ns, rules;		/* descriptors */
};

/* --- answers ------------------------------------------------------------------------------- */

static int answer(const struct veth_answer *a)
{
	return send(SOCK, a, sizeof(*a), MSG_NOSIGNAL) == (ssize_t)sizeof(*a) ? 0 : -1;
}

static int refuse(const char *what, int os_errno, const char *hint)
{
	struct veth_answer a = { .magic = VETH_MAGIC, .failed = 1, .os_errno = os_errno };

	snprintf(a.text, sizeof(a.text), "%s", what);
	snprintf(a.hint, sizeof(a.hint), "%s", hint ? hint : "");
	answer(&a);
	return -1;
}

static const char *remedy(int os_errno)
{
	switch (os_errno) {
	case EPERM:
		return "net.path=veth needs root on the host itself; leave it out: the default path "
		       "needs none";
	case EOPNOTSUPP: case ENOENT: case EPROTONOSUPPORT: case EINVAL:
		return "it needs veth and nf_tables with NAT and table owners, Linux 5.12 (as root: "
		       "modprobe -a veth nf_tables nft_chain_nat nft_masq nft_reject_inet)";
	case EADDRNOTAVAIL:
		return "free one of 100.127.0.0/16, 10.127.0.0/16 and 172.31.0.0/16, or leave out "
		       "net.path=veth";
	default:
		return NULL;
	}
}

/* --- the request ----------------------------------------------------------------------------- */

static int hear(struct told *t)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { &t->request, sizeof(t->request) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(SOCK, &msg, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	int fds[2];

	if (n != (ssize_t)sizeof(t->request) || t->request.magic != VETH_MAGIC || !c ||
	    c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(fds)) || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -1;
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	t->ns = fds[0];
	t->rules = fds[1];
	return 0;
}

/* Sealed, so that what was checked is what is used. */
static const struct egress_rules *map_rules(int fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_WRITE;
	struct stat st;
	void *block;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct egress_rules) ||
	    st.st_size > RULES_MAX || (fcntl(fd, F_GET_SEALS) & seals) != seals)
		return NULL;
	block = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (block == MAP_FAILED || !egress_is_valid(block, (size_t)st.st_size))
		return NULL;
	return block;
}

/* --- the network ------------------------------------------------------------------------------- */

/* net.ipv4.ip_forward is the host's decision: it makes a router of it. */
static bool forwards(void)
{
	owned_fd int fd = open("/proc/sys/net/ipv4/ip_forward", O_RDONLY | O_CLOEXEC);
	char c = '0';

	return fd >= 0 && read(fd, &c, 1) == 1 && c == '1';
}

static int load_rules(struct pair *p, const struct egress_rules *rules)
{
	char table[VETH_NAME + 8];
	const struct filter box = { rules, "nsbox", VETH_BOX_DEVICE, p->box_address, false };
	const struct filter host = { rules, table, p->device, p->box_address, true };
	int r = filter_load(&box, p->box_nft);

	pair_close_box(p);
	snprintf(table, sizeof(table), "nsbox_%s", p->device + strlen("nsbox"));
	return r < 0 ? r : filter_load(&host, p->host_nft);
}

static int connect_box(struct pair *p, const struct told *t)
{
	const struct egress_rules *rules = map_rules(t->rules);
	const char *what;
	int r;

	if (!rules)
		return refuse("nsbox-veth was given malformed rules", 0, NULL);
	if (!forwards())
		return refuse("net.path=veth needs a host that forwards IPv4, and this one does not",
			      0, "as root: sysctl -w net.ipv4.ip_forward=1; or leave out "
				 "net.path=veth: the default path needs nothing of the host");
	p->box_ns = t->ns;
	r = pair_open(p, &what);
	if (r == 0)
		r = pair_make(p, t->request.pid, &what);
	if (r == 0) {
		what = "load the rules of the box's network";
		r = load_rules(p, rules);
	}
	if (r == 0)
		r = pair_start(p, &what);
	return r < 0 ? refuse(what, -r, remedy(-r)) : 0;
}

static int ready(const struct pair *p)
{
	struct veth_answer a = { .magic = VETH_MAGIC };
	struct in_addr box = { htonl(p->box_address) };

	memcpy(a.device, p->device, sizeof(a.device));
	if (!inet_ntop(AF_INET, &box, a.address, sizeof(a.address)))
		return -1;
	return answer(&a);
}

/* --- keeping it ----------------------------------------------------------------------------------- */

/* What is left to do is to delete a device. */
static int drop_rights(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	const uint32_t net_admin = 1U << CAP_NET_ADMIN;
	struct __user_cap_data_struct data[2] = { { net_admin, net_admin, 0 } };

	return syscall(SYS_capset, &head, data) < 0 ? -1 : 0;
}

/* EOF, or the launcher's death, which a process that it forked could hide (its copy of the
 * socket). Until then it says nothing. */
static void keep(int launcher)
{
	struct pollfd p[] = { { .fd = SOCK, .events = POLLIN },
			      { .fd = launcher, .events = POLLIN } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
}

static int watch_launcher(void)
{
	pid_t parent = getppid();
	int fd = (int)syscall(SYS_pidfd_open, parent, 0);

	return fd >= 0 && getppid() == parent ? fd : -1;
}

static int serve(int launcher)
{
	struct pair p = { .own_ns = -1, .box_ns = -1 };
	struct told t;
	int r;

	if (hear(&t) < 0)
		return refuse("nsbox-veth was asked something that makes no sense", 0, NULL);
	r = connect_box(&p, &t);
	close(t.ns); /* only the box keeps its namespace */
	close(t.rules);
	if (r == 0 && drop_rights() < 0)
		r = refuse("nsbox-veth cannot drop its rights", errno, NULL);
	if (r == 0)
		r = ready(&p);
	if (r == 0)
		keep(launcher);
	pair_remove(&p);
	return r;
}

int main(void)
{
	int type, launcher;
	socklen_t size = sizeof(type);

	if (getsockopt(SOCK, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
		fputs("nsbox-veth is a part of nsbox, not a command\n", stderr);
		return 125;
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* A ^C on the launcher's terminal is not for us, and its folder is not ours to hold. */
	if (setsid() < 0 || chdir("/") < 0)
		return 1;
	launcher = watch_launcher();
	if (launcher < 0) {
		refuse("nsbox-veth cannot watch its launcher", errno, NULL);
		return 1;
	}
	return serve(launcher) < 0 ? 1 : 0;
}
