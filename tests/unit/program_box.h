/* nsbox-egress itself, started and told by its wire, with or without a box that it serves. */
#ifndef TESTS_PROGRAM_BOX_H
#define TESTS_PROGRAM_BOX_H

#include "base/fd.h"
#include "runtime/egress.h"
#include "runtime/egress/dns_wire.h"

#include "tests/unit/udp_box.h"

#include <limits.h>

enum { TELL_FDS = 16, PORT = 7000 };

static int control;		/* our end of its descriptor 0 */
static pid_t program;
static struct egress_packet heard;

/* --- the program ------------------------------------------------------------------------------ */

/* Beside us, or beside the folder of a sanitizer's build. */
static inline int open_program(void)
{
	static const char *const from_here[] = { "../bin/nsbox-egress", "../../bin/nsbox-egress" };
	char here[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
	int fd = -1;

	if (n < 0)
		return -1;
	here[n] = '\0';
	*strrchr(here, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(from_here) && fd < 0; i++) {
		snprintf(path, sizeof(path), "%s/%s", here, from_here[i]);
		fd = open(path, O_PATH | O_CLOEXEC);
	}
	return fd;
}

static inline void start(void)
{
	static char name[] = "nsbox-egress", *argv[] = { name, NULL }, *env[] = { NULL };
	int exe = open_program(), pair[2];

	if (exe < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		_exit(150);
	program = fork();
	if (program == 0) {
		if (dup2(pair[1], 0) == 0)
			fexecve(exe, argv, env);
		_exit(151);
	}
	close(exe);
	close(pair[1]);
	control = pair[0];
}

/* The exit code once it has ended; minus the signal. */
static inline int end_of_program(void)
{
	int status;

	if (waitpid(program, &status, 0) != program)
		_exit(152);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static inline void tell_it(uint16_t type, uint16_t bits, const int *fds, size_t count)
{
	const struct egress_msg head = { .magic = EGRESS_MAGIC, .type = type, .bits = bits };

	if (egress_tell(control, &head, fds, count) < 0)
		_exit(153);
}

/* The type of its next packet; 0: it has closed its end. */
static inline int hear_it(void)
{
	if (egress_hear(control, loop_now() + LONG_MS * 1000, &heard) == 0)
		return heard.head.type;
	return errno == EPIPE ? 0 : -errno;
}

/* --- what it is told --------------------------------------------------------------------------- */

static inline int file_of(const struct egress_config *c, const char *const *allow)
{
	static struct {
		struct egress_config config;
		uint64_t rules[8192];
		char hosts[sizeof(HOSTS)];
		char proxy[sizeof(QUAD4)];
	} b;
	const struct egress_rules *r = rules_in(NET_FILTERED, allow, NULL);

	if (r->size > sizeof(b.rules))
		_exit(154);
	memset(&b, 0, sizeof(b));
	b.config = *c;
	b.config.magic = EGRESS_MAGIC;
	b.config.size = sizeof(b);
	b.config.rules = (uint32_t)((char *)b.rules - (char *)&b);
	b.config.hosts = (uint32_t)(b.hosts - (char *)&b);
	b.config.hosts_len = sizeof(HOSTS) - 1;
	memcpy(b.rules, r, r->size);
	memcpy(b.hosts, HOSTS, sizeof(HOSTS));
	memcpy(b.proxy, QUAD4, sizeof(QUAD4));
	if (c->proxy.kind != PROXY_NONE) /* the only one that there is */
		b.config.proxy.host = (uint32_t)(b.proxy - (char *)&b);
	return fd_sealed("block", &b, sizeof(b));
}

static const struct egress_config plain = { .uid = UINT32_MAX, .gid = UINT32_MAX,
					    .max_connections = 64, .max_names = 64 };

static inline void configure(const struct egress_config *c, const char *const *allow)
{
	int fd = file_of(c, allow);

	tell_it(EGRESS_CONFIG, 0, &fd, 1);
	close(fd);
}

static inline void hand_over(void)
{
	int fds[INLET_FD_COUNT];
	unsigned bits = 0, n = 0;

	for (unsigned i = 0; i < INLET_FD_COUNT; i++)
		if (inlet[i] >= 0) {
			bits |= 1U << i;
			fds[n++] = inlet[i];
		}
	tell_it(EGRESS_INLET, (uint16_t)bits, fds, n);
	while (n)
		close(fds[--n]);
}

/* A host, a box, and the program that serves it. */
static inline void serve_box(const struct egress_config *c, const char *const *allow)
{
	own_namespaces();
	make_host();
	host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (unshare(CLONE_NEWNET) < 0)
		_exit(155);
	gated_inlet();
	box_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	enter(host_ns);
	start();
	configure(c, allow);
	hand_over();
	note("ready", hear_it());
}

static inline int open_descriptors(void)
{
	char path[64];
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)program, fd);
		count += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	return count;
}

/* --- a box ------------------------------------------------------------------------------------------ */

static inline int server_of_host(const char *text, uint16_t port)
{
	int fd = server(text, port);

	return fd;
}

static inline int call(const char *text, uint16_t port)
{
	int fd;

	enter(box_ns);
	fd = begin_connect(text, port);
	enter(host_ns);
	return fd;
}

/* errno of connect(2) in the box */
static inline int result_of_call(const char *text, uint16_t port)
{
	int fd = call(text, port), error = connect_result(fd);

	close(fd);
	return error;
}

/* A SYN is sent at once, and again after one second. */
static inline bool is_unanswered(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 1500) == 0;
}

/* Nobody comes. */
static inline bool is_waiting(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 200) == 0;
}

static inline int take_call(int listener)
{
	return readable(listener) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

static inline long read_all(int fd, char *to, size_t room)
{
	size_t at = 0;

	while (readable(fd)) {
		ssize_t n = recv(fd, to + at, room - at, 0);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		at += (size_t)n;
	}
	return (long)at;
}

/* One lookup in the box: the address in the answer. */
static inline bool look_up(char text[EGRESS_ADDR_TEXT], const char *name)
{
	struct dns_query q = { .id = 7, .type = DNS_A, .class = DNS_CLASS_IN, .wants_recursion = true };
	struct dns_result r;
	uint8_t msg[1024];
	union address to = address("127.0.0.1", 53);
	ssize_t n;
	int fd;

	if (!dns_name_set(&q.name, name))
		_exit(157);
	enter(box_ns);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	enter(host_ns);
	n = (ssize_t)dns_write_query(msg, sizeof(msg), &q);
	if (sendto(fd, msg, (size_t)n, 0, &to.any, size_of(&to)) != n || !readable(fd))
		_exit(158);
	n = recv(fd, msg, sizeof(msg), 0);
	close(fd);
	if (n < 0 || dns_read_answer(&r, &q, msg, (size_t)n) != DNS_OURS || !r.count)
		return false;
	egress_addr_text(&r.addrs[0], text);
	return true;
}

#endif
