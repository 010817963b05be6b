/*
 * test_egress_link.c - the launcher's side of nsbox-egress: what it makes of every answer
 *
 * This test program plays both: it copies itself into a new folder as "launcher" (this
 * test, run again from there) and "nsbox-egress", whose behaviour is in a file beside it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/egress.h"
#include "runtime/wire.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#define SECRET "hunter2"
enum { READY_MS = 20000 }; /* the machine may be busy */
static char top[64];	   /* where the copies are */

/* --- the other program --------------------------------------------------------- */

struct played {
	struct egress_msg head;
	char body[EGRESS_PACKET_MAX];
	int fd;			/* the first that came with it; -1 */
};

static int next(struct played *p)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(16 * sizeof(int))];
	} control;
	struct iovec iov = { &p->head, sizeof(p->head) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	struct cmsghdr *c;

	if (recvmsg(0, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(p->head))
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	p->fd = -1;
	if (c)
		memcpy(&p->fd, CMSG_DATA(c), sizeof(int));
	return p->head.type;
}

static void say(int type, uint32_t count, const void *body, size_t size)
{
	struct played p = { .head = { .magic = EGRESS_MAGIC, .type = (uint16_t)type, .count = count,
				      .size = (uint32_t)size } };

	memcpy(p.body, body, size);
	if (send(0, &p, sizeof(p.head) + size, MSG_NOSIGNAL) < 0)
		_exit(9);
}

static int count_inherited(void)
{
	int count = 0;

	for (int fd = 3; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	for (char **e = environ; *e; e++)
		count += 1000;
	return count;
}

/* A host whose name says what this program was given: its seals, argv and descriptors. */
static void say_what_came(int config, int inherited)
{
	struct { struct egress_host_report use; char name[128]; } host = { .use = { 3, 1, 20, 30 } };
	struct egress_config c = { 0 };
	bool has = pread(config, &c, sizeof(c), 0) == (ssize_t)sizeof(c);

	snprintf(host.name, sizeof(host.name), "inherited=%d seals=%x magic=%x size=%d", inherited,
		 fcntl(config, F_GET_SEALS), has ? c.magic : 0, has && c.size >= sizeof(c));
	say(EGRESS_HOST, 0, &host, sizeof(host.use) + strlen(host.name) + 1);
}

static int report(const char *part, int config, int inherited)
{
	static const char denial[] = "connect b.test:443\0net.allow_out (not listed)\0--allow-out b.test";
	static const char bare[] = "send 192.0.2.1:9/udp\0\0";
	struct egress_totals t = { .connections = 4, .failed = 1, .denied = 3, .lookups = 5,
				   .bytes_out = 20, .bytes_in = 30, .cap = CAP_BYTES };

	say(EGRESS_DENIAL, 2, denial, sizeof(denial));
	say(EGRESS_DENIAL, 1, bare, sizeof(bare));
	say_what_came(config, inherited);
	if (strcmp(part, "late-report") == 0)
		pause();
	if (strcmp(part, "no-total") == 0)
		return 0;
	if (strcmp(part, "bad-denial") == 0)
		say(EGRESS_DENIAL, 1, "a\0b", 3);
	if (strcmp(part, "bad-utf8") == 0)
		say(EGRESS_DENIAL, 1, "a\xff\0\0\0", 5);
	if (strcmp(part, "bad-host") == 0)
		say(EGRESS_HOST, 1, &t, sizeof(struct egress_host_report));
	if (strcmp(part, "bad-type") == 0)
		say(99, 1, "", 0);
	if (strcmp(part, "left-out") == 0)
		t.denials_left_out = t.hosts_left_out = 7;
	say(EGRESS_TOTAL, 0, &t, sizeof(t) - (strcmp(part, "short-total") == 0));
	return pause();
}

static int first_answer(const char *part)
{
	static const char magic[sizeof(struct egress_msg)];

	if (strcmp(part, "silent") == 0)
		return pause();
	if (strcmp(part, "gone") == 0)
		return 3;
	if (strcmp(part, "fail") == 0)
		say(EGRESS_FAIL, 0, "no\nway \x1b[2J out", 15);
	else if (strcmp(part, "short") == 0)
		send(0, magic, 4, MSG_NOSIGNAL);
	else if (strcmp(part, "magic") == 0)
		send(0, magic, sizeof(magic), MSG_NOSIGNAL);
	else if (strcmp(part, "wrong") == 0)
		say(EGRESS_TOTAL, 0, "", 0);
	else
		say(EGRESS_READY, 0, "", 0);
	return 0;
}

/* Every CONFIG after the first is an update. */
static int update_answer(const char *part)
{
	if (strcmp(part, "update-fail") == 0)
		say(EGRESS_FAIL, 0, "too much", 8);
	else if (strcmp(part, "update-gone") == 0)
		return -1;
	else if (strcmp(part, "die-later") != 0)
		say(EGRESS_READY, 0, "", 0);
	return 0;
}

static int play(const char *part)
{
	int inherited = count_inherited(), config = -1, configs = 0;
	struct played p;

	for (;;) {
		switch (next(&p)) {
		case EGRESS_CONFIG:
			config = p.fd;
			if (strcmp(part, "deaf") == 0)
				return 3;
			if (configs++ && update_answer(part) < 0)
				return 0;
			break;
		case EGRESS_INLET:
		case EGRESS_PORTS:
			if (first_answer(part))
				return 3;
			if (strcmp(part, "dies") == 0) {
				say(EGRESS_FAIL, 0, "out of memory", 13);
				return 3;
			}
			break;
		case EGRESS_REPORT:
			return report(part, config, inherited);
		default:
			return 4; /* the launcher is gone */
		}
	}
}

static int other_program(const char *self)
{
	owned(buf_free) struct buf part = BUF_INIT(64);
	char path[128];

	alarm(120);
	snprintf(path, sizeof(path), "%.*s/part", (int)(strrchr(self, '/') - self), self);
	return fd_read_file(AT_FDCWD, path, &part) < 0 ? 8 : play(buf_text(&part));
}

/* --- tests ---------------------------------------------------------------------- */

struct run {
	struct egress_link l;
	struct policy p;
	struct identity id;
	int epoll;
};

static void put_part(const char *part)
{
	owned_fd int fd = -1;
	char path[128];

	snprintf(path, sizeof(path), "%s/part", top);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, part, strlen(part)), 0);
}

static void begin(struct run *r, const char *part)
{
	put_part(part);
	memset(r, 0, sizeof(*r));
	assert_int_equal(policy_init(&r->p, NULL), 0);
	r->p.net.mode = NET_FILTERED;
	r->p.net.bytes = 1 << 20;
	r->p.net.proxy = strdup("http://name:" SECRET "@proxy.test:3128");
	egress_init(&r->l);
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
}

static void end(struct run *r)
{
	egress_destroy(&r->l);
	close(r->epoll);
	policy_free(&r->p);
	/* nothing is left */
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

/* As a run does: start, hand over, wait. */
static int serve(struct run *r, unsigned tag, int deadline_ms, struct nsbox_error *err)
{
	int code = egress_start(&r->l, &r->p, &r->id, err);

	r->l.setup_ms = deadline_ms;
	if (code >= 0)
		code = egress_hand_over(&r->l, tag, 1, &r->epoll, 1, err);
	if (code >= 0)
		code = egress_hand_over(&r->l, 0, 0, NULL, 0, err);
	if (code >= 0)
		assert_int_equal(egress_settle(&r->l, r->epoll), 0);
	return code;
}

static struct nsbox_result *report_of(struct run *r)
{
	struct nsbox_result *res = calloc(1, sizeof(*res));

	assert_non_null(res);
	assert_int_equal(egress_report(&r->l, res, &r->p), 0);
	assert_int_equal(r->l.process.pidfd, -1); /* it was ended */
	return res;
}

static void the_record_has_what_the_supervisor_said(void **state)
{
	struct nsbox_result *res;
	struct run r;
	const char *json;

	(void)state;
	begin(&r, "good");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	res = report_of(&r);
	assert_true(res->network.is_known);
	json = nsbox_result_json(res);
	assert_non_null(strstr(json, "\"network\":{\"mode\":\"filtered\",\"path\":\"inlet\",\"connections\":4,"
			       "\"failed\":1,\"denied\":3,\"lookups\":5,\"bytes_sent\":20,"
			       "\"bytes_received\":30,\"hosts\":[{\"name\":\"inherited=0 seals=f "
			       "magic=6e736567 size=1\",\"connections\":3,\"failed\":1,\"bytes_sent\":20,"
			       "\"bytes_received\":30}],\"capped\":[\"bytes\"]}"));
	assert_non_null(strstr(json, "{\"layer\":\"egress\",\"what\":\"connect b.test:443\",\"rule\":"
			       "\"net.allow_out (not listed)\",\"allow\":\"--allow-out b.test\","
			       "\"count\":2}"));
	assert_non_null(strstr(json, "{\"layer\":\"egress\",\"what\":\"send 192.0.2.1:9/udp\",\"rule\":null,"
			       "\"allow\":null,\"count\":1}"));
	assert_null(strstr(json, SECRET));
	assert_int_equal(res->notes.n, 0);
	nsbox_result_free(res);
	end(&r);
}

static void a_box_without_network_has_no_supervisor(void **state)
{
	struct nsbox_result *res;
	struct run r;

	(void)state;
	begin(&r, "good");
	r.p.net.mode = NET_DISABLED;
	assert_false(egress_is_needed(&r.p));
	res = report_of(&r);
	assert_non_null(strstr(nsbox_result_json(res), "\"network\":null"));
	nsbox_result_free(res);
	r.p.net.mode = NET_OPEN;
	assert_true(egress_is_needed(&r.p));
	end(&r);
}

static void every_bad_answer_before_it_serves_is_a_failure_of_that_stage(void **state)
{
	static const struct { const char *part, *message; int deadline_ms; } rows[] = {
		{ "fail", "nsbox-egress: no?way ?[2J out", READY_MS },
		{ "gone", "nsbox-egress ended without an answer", READY_MS },
		{ "short", "nsbox-egress gave an answer that makes no sense", READY_MS },
		{ "magic", "nsbox-egress gave an answer that makes no sense", READY_MS },
		{ "wrong", "nsbox-egress gave an answer that makes no sense", READY_MS },
		{ "silent", "nsbox-egress did not answer in time", 50 },
		{ "deaf", NULL, READY_MS }, /* it may be gone before or after the sockets */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct run r;

		begin(&r, rows[i].part);
		assert_int_equal(serve(&r, WIRE_TAG_INLET, rows[i].deadline_ms, &err), NSBOX_E_SETUP);
		if (rows[i].message)
			assert_string_equal(err.message, rows[i].message);
		assert_string_equal(err.stage, "network");
		assert_null(strstr(err.message, SECRET));
		end(&r);
	}
}

static void a_second_attempt_has_a_supervisor_of_its_own(void **state)
{
	struct nsbox_result *res;
	struct run r;
	pid_t first;

	(void)state;
	begin(&r, "good");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	first = r.l.process.pid;
	assert_int_equal(serve(&r, WIRE_TAG_PORTS, READY_MS, NULL), 0);
	assert_int_not_equal(r.l.process.pid, first);
	assert_int_equal(waitpid(first, NULL, __WALL), -1); /* reaped */
	res = report_of(&r);
	assert_string_equal(res->network.path, "ports");
	nsbox_result_free(res);
	end(&r);
}

static void a_report_that_breaks_off_leaves_counters_unknown(void **state)
{
	static const struct { const char *part, *note; } rows[] = {
		{ "no-total", "broke off" }, { "late-report", "broke off" },
		{ "bad-denial", "makes no sense" }, { "bad-utf8", "makes no sense" },
		{ "bad-host", "makes no sense" }, { "bad-type", "makes no sense" },
		{ "short-total", "makes no sense" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_result *res;
		struct run r;

		begin(&r, rows[i].part);
		assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
		res = report_of(&r);
		assert_false(res->network.is_known);
		assert_int_equal(res->notes.n, 1);
		assert_non_null(strstr(res->notes.v[0], rows[i].note));
		assert_non_null(strstr(nsbox_result_json(res),
				       "\"connections\":null,\"failed\":null,\"denied\":null,"
				       "\"lookups\":null,\"bytes_sent\":null,\"bytes_received\":null,"
				       "\"hosts\":null,\"capped\":null}"));
		nsbox_result_free(res);
		end(&r);
	}
}

static void what_is_not_listed_is_said(void **state)
{
	struct nsbox_result *res;
	struct run r;

	(void)state;
	begin(&r, "left-out");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	res = report_of(&r);
	assert_true(res->network.is_known);
	assert_int_equal(res->notes.n, 1);
	assert_non_null(strstr(res->notes.v[0], "7 more refusals and 7 more hosts"));
	nsbox_result_free(res);
	end(&r);
}

static void a_supervisor_that_ends_is_seen_and_told(void **state)
{
	struct nsbox_result *res;
	struct epoll_event ev;
	struct run r;

	(void)state;
	begin(&r, "dies");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	assert_int_equal(epoll_wait(r.epoll, &ev, 1, READY_MS), 1);
	assert_ptr_equal(ev.data.ptr, &r.l.process);
	egress_ended(&r.l, r.epoll);
	assert_int_equal(epoll_wait(r.epoll, &ev, 1, 0), 0); /* said once */
	res = report_of(&r);
	assert_false(res->network.is_known);
	assert_string_equal(res->notes.v[0], "the egress supervisor ended; from then on the box had no "
			    "network: out of memory");
	nsbox_result_free(res);
	end(&r);
}

static void one_that_ended_unseen_is_no_source_of_counters(void **state)
{
	struct nsbox_result *res;
	struct run r;

	(void)state;
	begin(&r, "good");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	kill(r.l.process.pid, SIGKILL);
	assert_int_equal(waitpid(r.l.process.pid, NULL, 0), r.l.process.pid); /* a caller's own wait */
	res = report_of(&r);
	assert_false(res->network.is_known);
	assert_int_equal(res->notes.n, 1);
	nsbox_result_free(res);
	end(&r);
}

static void new_rules_are_taken_or_the_network_ends(void **state)
{
	static const struct { const char *part; int code; } rows[] = {
		{ "good", 0 }, { "update-fail", NSBOX_E_SETUP }, { "update-gone", NSBOX_E_SETUP },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct epoll_event ev;
		struct run r;

		begin(&r, rows[i].part);
		assert_int_equal(egress_update(&r.l, &r.p, &r.id, NULL), NSBOX_E_BUSY);
		assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
		assert_int_equal(egress_update(&r.l, &r.p, &r.id, &err), rows[i].code);
		if (rows[i].code < 0) {
			assert_non_null(strstr(err.hint, "no network any more") ? err.hint : NULL);
			assert_int_equal(epoll_wait(r.epoll, &ev, 1, READY_MS), 1); /* it is dead */
		}
		assert_int_equal(egress_update(&r.l, &r.p, &r.id, NULL),
				 rows[i].code < 0 ? NSBOX_E_BUSY : 0);
		end(&r);
	}
}

static void a_policy_that_does_not_compile_leaves_the_old_rules(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct nsbox_result *res;
	struct run r;
	char *good;

	(void)state;
	begin(&r, "good");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	good = r.p.net.proxy;
	r.p.net.proxy = (char *)"gopher://name:" SECRET "@x:1";
	assert_int_equal(egress_update(&r.l, &r.p, &r.id, &err), NSBOX_E_POLICY);
	assert_null(strstr(err.message, SECRET));
	r.p.net.proxy = good;
	assert_int_equal(egress_update(&r.l, &r.p, &r.id, NULL), 0);
	res = report_of(&r);
	assert_true(res->network.is_known);
	nsbox_result_free(res);
	end(&r);
}

/* Everybody may read it. */
static void the_command_line_of_the_supervisor_is_its_name(void **state)
{
	struct buf line = BUF_INIT(4096);
	char path[64];
	struct run r;

	(void)state;
	begin(&r, "good");
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0);
	snprintf(path, sizeof(path), "/proc/%d/cmdline", r.l.process.pid);
	assert_int_equal(fd_read_file(AT_FDCWD, path, &line), 0);
	assert_int_equal(line.len, sizeof("nsbox-egress"));
	assert_string_equal(line.data, "nsbox-egress");
	buf_free(&line);
	end(&r);
}

static void without_the_program_or_with_an_unsafe_one_nothing_starts(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char path[128], away[128];
	struct run r;

	(void)state;
	snprintf(path, sizeof(path), "%s/nsbox-egress", top);
	snprintf(away, sizeof(away), "%s/away", top);
	begin(&r, "good");
	assert_int_equal(chmod(path, 0757), 0);
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, &err), NSBOX_E_UNSUPPORTED);
	assert_non_null(strstr(err.message, "could be changed by others"));
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(rename(path, away), 0);
	err_clear(&err);
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, &err), NSBOX_E_UNSUPPORTED);
	assert_string_equal(err.stage, "network");
	assert_non_null(strstr(err.message, "nsbox-egress, which is not there"));
	assert_int_equal(rename(away, path), 0);
	assert_int_equal(serve(&r, WIRE_TAG_INLET, READY_MS, NULL), 0); /* control */
	end(&r);
}

/* --- the copies ------------------------------------------------------------------- */

static int copy_self(const char *name)
{
	owned(buf_free) struct buf self = BUF_INIT(64 << 20);
	owned_fd int fd = -1;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	return fd < 0 || fd_read_file(AT_FDCWD, "/proc/self/exe", &self) < 0 ||
	       fd_write_all(fd, self.data, self.len) < 0 || fchmod(fd, 0755) < 0 ? -1 : 0;
}

static int run_and_wait(const char *program, char *const argv[])
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(program, argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_copies(void)
{
	char path[128], *again[] = { path, top, NULL }, *clean[] = { (char *)"rm", (char *)"-rf", top, NULL };
	int result;

	snprintf(top, sizeof(top), "/tmp/nsbox-test-XXXXXX");
	if (!mkdtemp(top) || copy_self("launcher") < 0 || copy_self("nsbox-egress") < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/launcher", top);
	result = run_and_wait(path, again);
	run_and_wait("rm", clean);
	return result;
}

static int run_here(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_record_has_what_the_supervisor_said),
		cmocka_unit_test(a_box_without_network_has_no_supervisor),
		cmocka_unit_test(every_bad_answer_before_it_serves_is_a_failure_of_that_stage),
		cmocka_unit_test(a_second_attempt_has_a_supervisor_of_its_own),
		cmocka_unit_test(a_report_that_breaks_off_leaves_counters_unknown),
		cmocka_unit_test(what_is_not_listed_is_said),
		cmocka_unit_test(a_supervisor_that_ends_is_seen_and_told),
		cmocka_unit_test(one_that_ended_unseen_is_no_source_of_counters),
		cmocka_unit_test(new_rules_are_taken_or_the_network_ends),
		cmocka_unit_test(a_policy_that_does_not_compile_leaves_the_old_rules),
		cmocka_unit_test(the_command_line_of_the_supervisor_is_its_name),
		cmocka_unit_test(without_the_program_or_with_an_unsafe_one_nothing_starts),
	};

	alarm(120); /* a test that hangs is a failed one */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	char self[PATH_MAX] = "";

	if (strcmp(argv[0], "nsbox-egress") == 0) {
		if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
			return 8;
		return other_program(self);
	}
	if (argc != 2)
		return run_copies();
	snprintf(top, sizeof(top), "%s", argv[1]);
	return run_here();
}
