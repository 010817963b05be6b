/*
 * test_egress_program.c - nsbox-egress itself, started and told by its wire: what it takes,
 * what it answers, and a box served by it
 */
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
static int open_program(void)
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

static void start(void)
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
static int end_of_program(void)
{
	int status;

	if (waitpid(program, &status, 0) != program)
		_exit(152);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void tell_it(uint16_t type, uint16_t bits, const int *fds, size_t count)
{
	const struct egress_msg head = { .magic = EGRESS_MAGIC, .type = type, .bits = bits };

	if (egress_tell(control, &head, fds, count) < 0)
		_exit(153);
}

/* The type of its next packet; 0: it has closed its end. */
static int hear_it(void)
{
	if (egress_hear(control, loop_now() + LONG_MS * 1000, &heard) == 0)
		return heard.head.type;
	return errno == EPIPE ? 0 : -errno;
}

/* --- what it is told --------------------------------------------------------------------------- */

static int file_of(const struct egress_config *c, const char *const *allow)
{
	static struct {
		struct egress_config config;
		uint64_t rules[8192];
		char hosts[sizeof(HOSTS)];
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
	return fd_sealed("block", &b, sizeof(b));
}

static const struct egress_config plain = { .uid = UINT32_MAX, .gid = UINT32_MAX,
					    .max_connections = 64, .max_names = 64 };

static void configure(const struct egress_config *c, const char *const *allow)
{
	int fd = file_of(c, allow);

	tell_it(EGRESS_CONFIG, 0, &fd, 1);
	close(fd);
}

static void hand_over(void)
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
static void serve_box(const struct egress_config *c, const char *const *allow)
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

static int open_descriptors(void)
{
	char path[64];
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)program, fd);
		count += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	return count;
}

/* --- wrong words ------------------------------------------------------------------------------- */

static void play_no_config(void)
{
	start();
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_no_block(void)
{
	start();
	tell_it(EGRESS_CONFIG, 0, NULL, 0);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_unsealed_block(void)
{
	int fd = memfd_create("block", MFD_CLOEXEC);

	start();
	if (ftruncate(fd, 1 << 16) < 0)
		_exit(156);
	tell_it(EGRESS_CONFIG, 0, &fd, 1);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_zero_block(void)
{
	static char zeros[1 << 16];
	int fd = fd_sealed("block", zeros, sizeof(zeros));

	start();
	tell_it(EGRESS_CONFIG, 0, &fd, 1);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void after_config(uint16_t type, uint16_t bits, const int *fds, size_t count)
{
	start();
	configure(&plain, RULES(QUAD4));
	tell_it(type, bits, fds, count);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_rules_before_sockets(void)
{
	start();
	configure(&plain, RULES(QUAD4));
	configure(&plain, RULES(QUAD4));
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_half_an_inlet(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	after_config(EGRESS_INLET, 1 << INLET_GATE, &fd, 1);
}

static void play_fewer_than_said(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	after_config(EGRESS_INLET, 1 << INLET_DNS_UDP | 1 << INLET_DNS_TCP, &fd, 1);
}

static void play_unknown_type(void) { after_config(99, 0, NULL, 0); }
static void play_its_own_type(void) { after_config(EGRESS_READY, 0, NULL, 0); }
static void play_pool_for_nothing(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	after_config(EGRESS_POOL, 0, &fd, 1);
}

static void a_wrong_word_ends_it(void **state)
{
	static const struct { const char *name; void (*play)(void); long says, code; } rows[] = {
		{ "no configuration first", play_no_config, 0, 2 },
		{ "a configuration without a file", play_no_block, EGRESS_FAIL, 1 },
		{ "a file that can change", play_unsealed_block, EGRESS_FAIL, 1 },
		{ "a file of zeros", play_zero_block, EGRESS_FAIL, 1 },
		{ "rules again, before sockets", play_rules_before_sockets, EGRESS_FAIL, 1 },
		{ "a part of an inlet", play_half_an_inlet, EGRESS_FAIL, 1 },
		{ "fewer sockets than it was said", play_fewer_than_said, EGRESS_FAIL, 1 },
		{ "a type that is none", play_unknown_type, EGRESS_FAIL, 1 },
		{ "a type of its own", play_its_own_type, EGRESS_FAIL, 1 },
		{ "a pool without a port", play_pool_for_nothing, EGRESS_FAIL, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		print_message("%s\n", rows[i].name);
		scene(rows[i].play);
		expect("it says", rows[i].says);
		expect("and ends with", rows[i].code);
	}
}

static void play_packet_of_another_size(void)
{
	struct { struct egress_msg head; char more; } m = {
		.head = { .magic = EGRESS_MAGIC, .type = EGRESS_REPORT } };

	start();
	configure(&plain, RULES(QUAD4));
	tell_it(EGRESS_INLET, 0, NULL, 0);
	note("ready", hear_it());
	send(control, &m, sizeof(m.head) + 1, 0);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void a_packet_of_another_size_ends_it(void **state)
{
	(void)state;
	scene(play_packet_of_another_size);
	expect("ready", EGRESS_READY);
	expect("it says", 0);
	expect("and ends with", 0);
}

/* --- its life ------------------------------------------------------------------------------------ */

static void play_launcher_gone(void)
{
	start();
	configure(&plain, RULES(QUAD4));
	tell_it(EGRESS_INLET, 0, NULL, 0);
	note("ready", hear_it());
	close(control);
	note("ends with", end_of_program());
}

static void it_ends_with_its_launcher(void **state)
{
	(void)state;
	scene(play_launcher_gone);
	expect("ready", EGRESS_READY);
	expect("ends with", 0);
}

static void play_report_of_nothing(void)
{
	start();
	configure(&plain, RULES(QUAD4));
	tell_it(EGRESS_INLET, 0, NULL, 0);
	note("ready", hear_it());
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("report", hear_it());
	note("of", (long)heard.head.size);
	note("then", hear_it());
	note("ends with", end_of_program());
}

static void it_reports_and_ends(void **state)
{
	(void)state;
	scene(play_report_of_nothing);
	expect("ready", EGRESS_READY);
	expect("report", EGRESS_TOTAL);
	expect("of", sizeof(struct egress_totals));
	expect("then", 0);
	expect("ends with", 0);
}

/* --- a box ------------------------------------------------------------------------------------------ */

static int server_of_host(const char *text, uint16_t port)
{
	int fd = server(text, port);

	return fd;
}

static int call(const char *text, uint16_t port)
{
	int fd;

	enter(box_ns);
	fd = begin_connect(text, port);
	enter(host_ns);
	return fd;
}

/* errno of connect(2) in the box */
static int result_of_call(const char *text, uint16_t port)
{
	int fd = call(text, port), error = connect_result(fd);

	close(fd);
	return error;
}

/* A SYN is sent at once, and again after one second. */
static bool is_unanswered(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 1500) == 0;
}

/* Nobody comes. */
static bool is_waiting(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 200) == 0;
}

static int take_call(int listener)
{
	return readable(listener) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

static long read_all(int fd, char *to, size_t room)
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
static bool look_up(char text[EGRESS_ADDR_TEXT], const char *name)
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

static void play_streams(void)
{
	static char got[1 << 20], sent[600000];
	int listener, box, host;

	serve_box(&plain, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	box = call(QUAD4, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	memset(sent, 'q', sizeof(sent));
	fcntl(box, F_SETFL, 0);
	note("sent", send(box, sent, 100000, MSG_NOSIGNAL));
	shutdown(box, SHUT_WR);
	note("arrived", read_all(host, got, sizeof(got)));
	note("answered", send(host, sent, 200000, MSG_NOSIGNAL));
	close(host);
	note("answer arrived", read_all(box, got, sizeof(got)));
	close(box);
	note("nobody listens", result_of_call(QUAD4, PORT + 1));
	note("not allowed", result_of_call(OTHER4, PORT));
	note("private", result_of_call("10.0.0.1", PORT));
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("first denial", hear_it());
	note("of the other address", strcmp(heard.body, "connect " OTHER4 ":7000") == 0);
	note("second denial", hear_it());
	note("of the private one", strcmp(heard.body, "connect 10.0.0.1:7000") == 0);
	note("host", hear_it());
	note("report", hear_it());
	note("connections", (long)((struct egress_totals *)heard.body)->connections);
	note("bytes out", (long)((struct egress_totals *)heard.body)->bytes_out);
	note("bytes in", (long)((struct egress_totals *)heard.body)->bytes_in);
	note("ends with", end_of_program());
}

static void streams_go_both_ways_and_refusals_are_said(void **state)
{
	(void)state;
	scene(play_streams);
	expect("ready", EGRESS_READY);
	expect("allowed", 0);
	expect("sent", 100000);
	expect("arrived", 100000);
	expect("answered", 200000);
	expect("answer arrived", 200000);
	expect("nobody listens", ECONNREFUSED);
	expect("not allowed", ECONNREFUSED);
	expect("private", ECONNREFUSED);
	expect("first denial", EGRESS_DENIAL);
	expect("of the other address", 1);
	expect("second denial", EGRESS_DENIAL);
	expect("of the private one", 1);
	expect("host", EGRESS_HOST);
	expect("report", EGRESS_TOTAL);
	expect("connections", 2);
	expect("bytes out", 100000);
	expect("bytes in", 200000);
	expect("ends with", 0);
}

static void play_names(void)
{
	char good[EGRESS_ADDR_TEXT] = "0.0.0.0", private[EGRESS_ADDR_TEXT] = "0.0.0.0",
	     other[EGRESS_ADDR_TEXT];
	int listener, box, host;

	serve_box(&plain, RULES("good.test:7000", "private.test:7000"));
	listener = server_of_host(QUAD4, PORT);
	note("found", look_up(good, "good.test"));
	note("found as well", look_up(private, "private.test"));
	note("found not", look_up(other, "evil.test"));
	note("a fake", strncmp(good, "198.18.", 7) == 0);
	box = call(good, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	note("came", host >= 0);
	close(host);
	close(box);
	note("leads to a private address", result_of_call(private, PORT));
	note("nobody asked for it", result_of_call("198.18.77.77", PORT));
	note("not by its address", result_of_call(QUAD4, PORT));
	close(control);
	note("ends with", end_of_program());
}

static void names_lead_where_they_may(void **state)
{
	(void)state;
	scene(play_names);
	expect("ready", EGRESS_READY);
	expect("found", 1);
	expect("found as well", 1);
	expect("found not", 0);
	expect("a fake", 1);
	expect("allowed", 0);
	expect("came", 1);
	expect("leads to a private address", ECONNREFUSED);
	expect("nobody asked for it", ECONNREFUSED);
	expect("not by its address", ECONNREFUSED);
	expect("ends with", 0);
}

static void play_foreign_name(void)
{
	static const char right[] = "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
			  wrong[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
	char address_of_good[EGRESS_ADDR_TEXT] = "0.0.0.0", got[256];
	int listener, box, host;

	serve_box(&plain, RULES("good.test"));
	listener = server_of_host(QUAD4, 80);
	note("found", look_up(address_of_good, "good.test"));
	box = call(address_of_good, 80);
	note("allowed", connect_result(box));
	host = take_call(listener);
	tell(box, right);
	note("readable", readable(host));
	note("request", recv(host, got, sizeof(got), 0));
	tell(box, wrong);
	note("end in the box", read_all(box, got, sizeof(got)));
	note("end at the host", read_all(host, got, sizeof(got)));
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("denial", hear_it());
	note("of the name", strstr(heard.body, "evil.test") != NULL);
	close(control);
	note("ends with", end_of_program());
}

static void a_request_for_another_name_resets_both_ends(void **state)
{
	(void)state;
	scene(play_foreign_name);
	expect("ready", EGRESS_READY);
	expect("found", 1);
	expect("allowed", 0);
	expect("readable", 1);
	expect("request", 35);
	expect("end in the box", -ECONNRESET);
	expect("end at the host", -ECONNRESET);
	expect("denial", EGRESS_DENIAL);
	expect("of the name", 1);
}

static void play_new_rules(void)
{
	char got[16];
	int listener, box, host;

	serve_box(&plain, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	box = call(QUAD4, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	tell(box, "hello");
	note("came", readable(host) && recv(host, got, sizeof(got), 0) == 5);
	configure(&plain, RULES(OTHER4));
	note("ready again", hear_it());
	note("end in the box", read_all(box, got, sizeof(got)));
	note("end at the host", read_all(host, got, sizeof(got)));
	note("not allowed now", result_of_call(QUAD4, PORT));
	server_of_host(OTHER4, PORT);
	note("allowed now", result_of_call(OTHER4, PORT));
	tell_it(EGRESS_CONFIG, 0, NULL, 0);
	note("wrong rules", hear_it());
	note("end it with", end_of_program());
	note("nobody answers the box", is_unanswered(call(OTHER4, PORT)));
}

static void new_rules_hold_at_once_and_wrong_ones_end_all(void **state)
{
	(void)state;
	scene(play_new_rules);
	expect("ready", EGRESS_READY);
	expect("allowed", 0);
	expect("came", 1);
	expect("ready again", EGRESS_READY);
	expect("end in the box", -ECONNRESET);
	expect("end at the host", -ECONNRESET);
	expect("not allowed now", ECONNREFUSED);
	expect("allowed now", 0);
	expect("wrong rules", EGRESS_FAIL);
	expect("end it with", 1);
	expect("nobody answers the box", 1);
}

/* Of three connections with a cap of two the third is refused; all of them leave nothing. */
static void play_cap(void)
{
	struct egress_config two = plain;
	int listener, box[2], host[2], before, last = -1;

	two.max_connections = 2;
	serve_box(&two, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	before = open_descriptors();
	for (int i = 0; i < 2; i++) {
		box[i] = call(QUAD4, PORT);
		note(i ? "second" : "first", connect_result(box[i]));
		host[i] = take_call(listener);
	}
	note("third", result_of_call(QUAD4, PORT));
	for (int i = 0; i < 2; i++) {
		close(box[i]);
		close(host[i]);
	}
	for (int ms = 0; ms < LONG_MS && last != before; ms++) {
		last = open_descriptors();
		usleep(1000);
	}
	note("descriptors left", last - before);
	note("again", result_of_call(QUAD4, PORT));
	close(control);
	note("ends with", end_of_program());
}

static void a_cap_holds_and_nothing_leaks(void **state)
{
	(void)state;
	scene(play_cap);
	expect("ready", EGRESS_READY);
	expect("first", 0);
	expect("second", 0);
	expect("third", ECONNREFUSED);
	expect("descriptors left", 0);
	expect("again", 0);
	expect("ends with", 0);
}

static void play_launcher_gone_from_box(void)
{
	char got[16];
	int listener, box, host;

	serve_box(&plain, RULES(QUAD4));
	listener = server_of_host(QUAD4, PORT);
	box = call(QUAD4, PORT);
	note("allowed", connect_result(box));
	host = take_call(listener);
	close(control);
	note("ends with", end_of_program());
	note("end in the box", read_all(box, got, sizeof(got)));
	note("end at the host", read_all(host, got, sizeof(got)));
	note("nobody answers the box", is_unanswered(call(QUAD4, PORT)));
}

static void with_its_launcher_gone_the_box_has_no_network(void **state)
{
	(void)state;
	scene(play_launcher_gone_from_box);
	expect("allowed", 0);
	expect("ends with", 0);
	expect("end in the box", 0);
	expect("end at the host", 0);
	expect("nobody answers the box", 1);
}

/* --- published ports ------------------------------------------------------------------------------ */

enum { POOL = 2, BOX_PORT = 8000 };

static int outside_port;

/* Sockets of the box, as the child makes them; and a listener of the host. */
static int publish_box(void)
{
	int pool[POOL], at_host, in_box;
	union address at = address("127.0.0.1", 0);
	socklen_t len = sizeof(at);

	serve_box(&plain, RULES(QUAD4));
	at_host = server("127.0.0.1", 0);
	if (getsockname(at_host, &at.any, &len) < 0)
		_exit(159);
	outside_port = ntohs(at.v4.sin_port);
	enter(box_ns);
	in_box = server("127.0.0.1", BOX_PORT);
	for (int i = 0; i < POOL; i++)
		pool[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enter(host_ns);
	tell_it(EGRESS_PUBLISH, BOX_PORT, &at_host, 1);
	tell_it(EGRESS_POOL, 0, pool, POOL);
	close(at_host);
	for (int i = 0; i < POOL; i++)
		close(pool[i]);
	return in_box;
}

static int call_from_outside(void)
{
	int fd = begin_connect("127.0.0.1", (uint16_t)outside_port);

	if (connect_result(fd))
		_exit(160);
	fcntl(fd, F_SETFL, 0);
	return fd;
}

static void play_published(void)
{
	char got[16];
	int in_box = publish_box(), good = 0, calls[POOL + 1], ends[POOL + 1];

	for (int i = 0; i < 5 * POOL; i++) {
		int outside = call_from_outside(), inside;

		tell(outside, "hello");
		inside = take_call(in_box);
		good += readable(inside) && recv(inside, got, sizeof(got), 0) == 5;
		tell(inside, "hi");
		close(inside);
		good += read_all(outside, got, sizeof(got)) == 2;
		close(outside);
	}
	note("heard and answered", good);
	for (int i = 0; i <= POOL; i++)
		calls[i] = call_from_outside();
	for (int i = 0; i < POOL; i++)
		ends[i] = take_call(in_box);
	note("one more", is_waiting(in_box));
	close(calls[0]);
	close(ends[0]);
	note("when one has ended", (ends[POOL] = take_call(in_box)) >= 0);
	tell(calls[POOL], "hello");
	note("it is heard", readable(ends[POOL]) && recv(ends[POOL], got, sizeof(got), 0) == 5);
	close(in_box);
	close(calls[1]);
	close(ends[1]);
	note("nobody listens", read_all(call_from_outside(), got, sizeof(got)));
	close(control);
	note("ends with", end_of_program());
}

static void a_published_port_leads_into_the_box(void **state)
{
	(void)state;
	scene(play_published);
	expect("heard and answered", 10 * POOL);
	expect("one more", 1);
	expect("when one has ended", 1);
	expect("it is heard", 1);
	expect("nobody listens", -ECONNRESET);
	expect("ends with", 0);
}

/* The box has said all it has to say, and reads slowly what is still under way to it. */
static void play_slow_reader(void)
{
	static char data[1 << 20], got[1 << 20];
	int in_box = publish_box(), outside, inside, small = 4096;
	ssize_t sent;

	setsockopt(in_box, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	outside = call_from_outside();
	inside = take_call(in_box);
	shutdown(inside, SHUT_WR);
	note("its end came", read_all(outside, got, sizeof(got)));
	fcntl(outside, F_SETFL, O_NONBLOCK);
	sent = send(outside, data, 60000, MSG_NOSIGNAL);
	close(outside);
	usleep(200000); /* so that all of it is on its way into the box */
	note("all arrives", read_all(inside, got, sizeof(got)) == sent);
	note("and it was more than nothing", sent > 4096);
	close(inside);
	for (int i = 0; i < POOL; i++)
		call_from_outside();
	note("all sockets are free again", take_call(in_box) >= 0 && take_call(in_box) >= 0);
	close(control);
	note("ends with", end_of_program());
}

static void what_is_on_its_way_into_the_box_arrives(void **state)
{
	(void)state;
	scene(play_slow_reader);
	expect("its end came", 0);
	expect("all arrives", 1);
	expect("and it was more than nothing", 1);
	expect("all sockets are free again", 1);
	expect("ends with", 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_word_ends_it),
		cmocka_unit_test(a_packet_of_another_size_ends_it),
		cmocka_unit_test(it_ends_with_its_launcher),
		cmocka_unit_test(it_reports_and_ends),
		cmocka_unit_test(streams_go_both_ways_and_refusals_are_said),
		cmocka_unit_test(names_lead_where_they_may),
		cmocka_unit_test(a_request_for_another_name_resets_both_ends),
		cmocka_unit_test(new_rules_hold_at_once_and_wrong_ones_end_all),
		cmocka_unit_test(a_cap_holds_and_nothing_leaks),
		cmocka_unit_test(with_its_launcher_gone_the_box_has_no_network),
		cmocka_unit_test(a_published_port_leads_into_the_box),
		cmocka_unit_test(what_is_on_its_way_into_the_box_arrives),
	};

	return run_inlet_tests(tests, ARRAY_SIZE(tests));
}
