/*
 * A client of the network without an interpreter: `netclient ACT [ARG...] [, ACT...]` does
 * one act after the other and prints one line for each: "ok", "errno=NAME", "eai=NAME",
 * "timeout" or the value that the act yields. Exits 0; 2 when it is called wrongly. Static,
 * with musl's resolver, so that it is also a client that has none of glibc's.
 *
 * Must: do what its name says with plain system calls. Mustn't: retry, or read proxy variables.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 20000, SAID = 1, SILENCE = -10000, EAI_BASE = -20000 };
#define NFNL_SUBSYS_NFTABLES_ 10
#define NFT_MSG_GETTABLE_ 1
#define NFT_MSG_DELTABLE_ 2

struct act {
	const char *name;
	int args;
	int (*run)(char **arg);
};
static bool timed;

static const struct { int number; const char *name; } errno_names[] = {
#define X(e) { e, #e },
	X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(EBADF) X(EAGAIN) X(ENOMEM) X(EACCES) X(EEXIST) X(EINVAL)
	X(ENODEV) X(EMFILE) X(EPIPE) X(ENOSYS) X(ENOTSOCK) X(EPROTONOSUPPORT) X(ESOCKTNOSUPPORT)
	X(EOPNOTSUPP) X(EAFNOSUPPORT) X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETDOWN) X(ENETUNREACH)
	X(ECONNABORTED) X(ECONNRESET) X(ENOBUFS) X(ENOTCONN) X(ETIMEDOUT) X(ECONNREFUSED)
	X(EHOSTUNREACH) X(EINPROGRESS) X(ENOPROTOOPT) X(EMSGSIZE) X(EUSERS) X(ENOSPC)
#undef X
};

static int answer(long result)
{
	return result < 0 ? -errno : 0;
}

static void print_result(int ret, double ms)
{
	char text[64] = "ok";

	if (ret == SILENCE) {
		snprintf(text, sizeof(text), "timeout");
	} else if (ret <= EAI_BASE) {
		int e = ret - EAI_BASE;

		snprintf(text, sizeof(text), "eai=%s", e == EAI_NONAME ? "NONAME" :
			 e == EAI_AGAIN ? "AGAIN" : e == EAI_FAIL ? "FAIL" :
			 e == EAI_NODATA ? "NODATA" : e == EAI_SYSTEM ? "SYSTEM" : "OTHER");
	} else if (ret < 0) {
		snprintf(text, sizeof(text), "errno=%d", -ret);
		for (size_t i = 0; i < sizeof(errno_names) / sizeof(*errno_names); i++)
			if (errno_names[i].number == -ret)
				snprintf(text, sizeof(text), "errno=%s", errno_names[i].name);
	}
	if (ret != SAID)
		printf("%s", text);
	printf(timed ? " %.2f\n" : "\n", ms);
	fflush(stdout);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, WAIT_MS);

	return n < 0 ? -errno : n ? 0 : SILENCE;
}

static int resolve(const char *host, const char *port, int type, struct addrinfo **out)
{
	struct addrinfo want = { .ai_socktype = type };
	int e = getaddrinfo(host, port, &want, out);

	return e ? EAI_BASE + e : 0;
}

/* The connected socket, or why not. */
static int dial_one(const struct addrinfo *a, int *out)
{
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	int ret, error = 0;
	socklen_t len = sizeof(error);

	if (fd < 0)
		return -errno;
	ret = answer(connect(fd, a->ai_addr, a->ai_addrlen));
	if (ret == -EINPROGRESS) {
		ret = ready(fd, POLLOUT);
		if (!ret)
			ret = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? -errno : -error;
	}
	if (ret) {
		close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

static int dial(const char *host, const char *port, int type, int *fd)
{
	struct addrinfo *list;
	int ret = resolve(host, port, type, &list);

	if (ret)
		return ret;
	ret = -ENOENT;
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		ret = dial_one(a, fd);
		if (!ret)
			break;
	}
	freeaddrinfo(list);
	return ret;
}

static int do_connect(char **arg)
{
	int fd, ret = dial(arg[0], arg[1], SOCK_STREAM, &fd);

	if (!ret)
		close(fd);
	return ret;
}

/* Addresses of a name, in the order they came. */
static int do_lookup(char **arg)
{
	struct addrinfo *list;
	char text[INET6_ADDRSTRLEN];
	int ret = resolve(arg[0], NULL, SOCK_STREAM, &list);

	if (ret)
		return ret;
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST);
		printf("%s%s", a == list ? "" : " ", text);
	}
	freeaddrinfo(list);
	return SAID;
}

static int receive_line(int fd)
{
	char text[2048];
	size_t have = 0;

	for (;;) {
		int ret = ready(fd, POLLIN);
		ssize_t n = ret ? ret : recv(fd, text + have, sizeof(text) - 1 - have, 0);

		if (ret)
			return ret;
		if (n < 0)
			return -errno;
		have += (size_t)n;
		text[have] = '\0';
		if (!n || strchr(text, '\n') || have == sizeof(text) - 1)
			break;
	}
	text[strcspn(text, "\r\n")] = '\0';
	printf("%s", have ? text : "closed");
	return SAID;
}

/* get ADDRESS PORT HOST: the first line of the answer to a request for HOST. */
static int do_get(char **arg)
{
	char request[1024];
	int fd, ret = dial(arg[0], arg[1], SOCK_STREAM, &fd);
	int n = snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
			 arg[2]);

	if (ret)
		return ret;
	ret = send(fd, request, (size_t)n, MSG_NOSIGNAL) == n ? receive_line(fd) : -errno;
	close(fd);
	return ret;
}

/* first HOST PORT: what a server says by itself. */
static int do_first(char **arg)
{
	int fd, ret = dial(arg[0], arg[1], SOCK_STREAM, &fd);

	if (ret)
		return ret;
	ret = receive_line(fd);
	close(fd);
	return ret;
}

/* half HOST PORT BYTES: send, close that half, then read the answer. */
static int do_half(char **arg)
{
	static char block[65536];
	size_t left = strtoul(arg[2], NULL, 10);
	int fd, ret = dial(arg[0], arg[1], SOCK_STREAM, &fd);

	while (!ret && left) {
		ssize_t n = ready(fd, POLLOUT) ? -1 : send(fd, block, left < sizeof(block) ? left : sizeof(block),
							  MSG_NOSIGNAL);

		if (n < 0)
			ret = -errno;
		else
			left -= (size_t)n;
	}
	if (!ret && shutdown(fd, SHUT_WR))
		ret = -errno;
	return ret ? ret : receive_line(fd);
}

static int receive_packet(int fd)
{
	char text[2048];
	int ret = ready(fd, POLLIN);
	ssize_t n = ret ? ret : recv(fd, text, sizeof(text), 0);

	if (!ret && n >= 0)
		printf("%.*s", (int)n, text);
	return ret ? ret : n < 0 ? -errno : SAID;
}

/* A datagram on a connected socket, and its answer. */
static int do_udp(char **arg)
{
	int fd, ret = dial(arg[0], arg[1], SOCK_DGRAM, &fd);

	if (ret)
		return ret;
	if (send(fd, arg[2], strlen(arg[2]), 0) < 0)
		return -errno;
	ret = receive_packet(fd);
	close(fd);
	return ret;
}

static int do_sendto(char **arg)
{
	struct addrinfo *list;
	int fd, ret = resolve(arg[0], arg[1], SOCK_DGRAM, &list);

	if (ret)
		return ret;
	fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = answer(sendto(fd, arg[2], strlen(arg[2]), 0, list->ai_addr, list->ai_addrlen));
	close(fd);
	return ret;
}

/* Data in the SYN, and a destination that connect(2) never saw. */
static int do_fastopen(char **arg)
{
	struct addrinfo *list;
	int fd, ret = resolve(arg[0], arg[1], SOCK_STREAM, &list);

	if (ret)
		return ret;
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = answer(sendto(fd, "x\n", 2, MSG_FASTOPEN | MSG_NOSIGNAL, list->ai_addr, list->ai_addrlen));
	close(fd);
	return ret;
}

/* from ADDRESS HOST PORT: connect with a source address of one's own choice. */
static int do_from(char **arg)
{
	struct addrinfo *from, *to;
	int fd, ret = resolve(arg[0], "0", SOCK_STREAM, &from), on = 1;

	if (!ret)
		ret = resolve(arg[1], arg[2], SOCK_STREAM, &to);
	if (ret)
		return ret;
	fd = socket(from->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
	if (bind(fd, from->ai_addr, from->ai_addrlen))
		return -errno;
	for (struct addrinfo *a = to; a; a = a->ai_next)
		if (a->ai_family == from->ai_family)
			return answer(connect(fd, a->ai_addr, a->ai_addrlen));
	return -EAFNOSUPPORT;
}

static int do_bind(char **arg)
{
	struct addrinfo *list;
	int fd, ret = resolve(arg[0], arg[1], SOCK_STREAM, &list);

	if (ret)
		return ret;
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return answer(bind(fd, list->ai_addr, list->ai_addrlen));
}

static int do_socket(char **arg)
{
	return answer(socket(atoi(arg[0]), atoi(arg[1]), atoi(arg[2])));
}

/* option LEVEL NAME VALUE, of a TCP socket */
static int do_option(char **arg)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), value = atoi(arg[2]);

	return answer(setsockopt(fd, atoi(arg[0]), atoi(arg[1]), &value, sizeof(value)));
}

/* Sends one netlink message with an empty body of @size bytes and reads the verdict. */
static int netlink_ask(int protocol, struct nlmsghdr *head)
{
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	struct { struct nlmsghdr head; int error; char more[8192]; } reply;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	int ret;

	if (fd < 0)
		return -errno;
	if (sendto(fd, head, head->nlmsg_len, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	ret = ready(fd, POLLIN);
	if (!ret && recv(fd, &reply, sizeof(reply), 0) < 0)
		ret = -errno;
	if (!ret && reply.head.nlmsg_type == NLMSG_ERROR)
		ret = reply.error;
	close(fd);
	return ret;
}

/* rules get|delete: all nftables tables, as `nft list ruleset` and `nft flush ruleset` do. */
static int do_rules(char **arg)
{
	bool get = !strcmp(arg[0], "get");
	struct { struct nlmsghdr head; uint8_t family, version; uint16_t id; } m[3] = { 0 };
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	struct { struct nlmsghdr head; int error; char more[8192]; } reply;
	int fd, ret;

	for (int i = 0; i < 3; i++) {
		m[i].head.nlmsg_len = sizeof(m[i]);
		m[i].head.nlmsg_type = i == 0 ? 0x10 : i == 2 ? 0x11 :	/* NFNL_MSG_BATCH_BEGIN, _END */
			NFNL_SUBSYS_NFTABLES_ << 8 | (get ? NFT_MSG_GETTABLE_ : NFT_MSG_DELTABLE_);
		m[i].head.nlmsg_flags = NLM_F_REQUEST | (i == 1 ? (get ? NLM_F_DUMP : NLM_F_ACK) : 0);
		m[i].head.nlmsg_seq = (uint32_t)i;
		m[i].id = i == 1 ? 0 : htons(NFNL_SUBSYS_NFTABLES_);
	}
	if (get)
		return netlink_ask(NETLINK_NETFILTER, &m[1].head);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0 || sendto(fd, m, sizeof(m), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	ret = ready(fd, POLLIN);
	if (ret)
		return ret;
	ret = recv(fd, &reply, sizeof(reply), 0) < 0 ? -errno : 0;
	return ret ? ret : reply.head.nlmsg_type == NLMSG_ERROR ? reply.error : 0;
}

/* route: remove the way of all packets to lo; link: take lo down. */
static int do_route(char **arg)
{
	struct { struct nlmsghdr head; struct rtmsg body; } m = {
		.head = { .nlmsg_len = sizeof(m), .nlmsg_type = RTM_DELROUTE,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.body = { .rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL },
	};

	(void)arg;
	return netlink_ask(NETLINK_ROUTE, &m.head);
}

static int do_link(char **arg)
{
	struct { struct nlmsghdr head; struct ifinfomsg body; } m = {
		.head = { .nlmsg_len = sizeof(m), .nlmsg_type = RTM_NEWLINK,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.body = { .ifi_index = 1, .ifi_change = IFF_UP },
	};

	(void)arg;
	return netlink_ask(NETLINK_ROUTE, &m.head);
}

/* leave user|net: into fresh namespaces, whatever they are good for. */
static int do_leave(char **arg)
{
	return answer(unshare(!strcmp(arg[0], "net") ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET));
}

static int do_setns(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : answer(setns(fd, CLONE_NEWNET));
}

/* hold HOST PORT COUNT: that many connections at once, each used at the end. */
static int do_hold(char **arg)
{
	int count = atoi(arg[2]), good = 0;
	int *fds = calloc((size_t)count, sizeof(*fds));

	for (int i = 0; i < count; i++) {
		int ret = dial(arg[0], arg[1], SOCK_STREAM, &fds[i]);

		if (ret)
			fds[i] = -1;
	}
	for (int i = 0; i < count; i++) {
		char byte = 'x';

		if (fds[i] >= 0 && send(fds[i], &byte, 1, MSG_NOSIGNAL) == 1 && !ready(fds[i], POLLIN))
			good += recv(fds[i], &byte, 1, 0) == 1;
	}
	for (int i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	printf("%d of %d", good, count);
	return SAID;
}

static int do_timed(char **arg)
{
	(void)arg;
	timed = true;
	return SAID;
}

static const struct act acts[] = {
	{ "connect", 2, do_connect }, { "lookup", 1, do_lookup }, { "get", 3, do_get },
	{ "first", 2, do_first }, { "half", 3, do_half }, { "udp", 3, do_udp },
	{ "sendto", 3, do_sendto }, { "fastopen", 2, do_fastopen }, { "from", 3, do_from },
	{ "bind", 2, do_bind }, { "socket", 3, do_socket }, { "option", 3, do_option },
	{ "rules", 1, do_rules }, { "route", 0, do_route }, { "link", 0, do_link },
	{ "leave", 1, do_leave }, { "setns", 1, do_setns }, { "hold", 3, do_hold },
	{ "timed", 0, do_timed },
};

static const struct act *find(const char *name)
{
	for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++)
		if (!strcmp(acts[i].name, name))
			return &acts[i];
	return NULL;
}

int main(int argc, char **argv)
{
	for (int i = 1, next; i < argc; i = next + 1) {
		const struct act *act = find(argv[i]);
		double start = now_ms();
		int ret;

		for (next = i; next < argc && strcmp(argv[next], ","); next++)
			;
		if (!act || next - i - 1 != act->args) {
			fprintf(stderr, "netclient: bad act: %s\n", argv[i]);
			return 2;
		}
		ret = act->run(argv + i + 1);
		if (act->run != do_timed)
			print_result(ret, now_ms() - start);
	}
	return argc > 1 ? 0 : 2;
}
