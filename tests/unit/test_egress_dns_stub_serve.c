/*
 * test_egress_dns_stub_serve.c - the sockets of the box's name server
 */
#include "stub_rig.h"

static int client_of(int type, int server)
{
	struct sockaddr_in a;
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&a, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, size), 0);
	return fd;
}

static int serve(struct rig *r, int type)
{
	uint16_t port = 0;
	int fd = server_socket(type, &port);

	if (type == SOCK_STREAM) {
		assert_int_equal(listen(fd, 128), 0);
		assert_int_equal(stub_serve_tcp(&r->stub, fd), 0);
	} else {
		assert_int_equal(stub_serve_udp(&r->stub, fd), 0);
	}
	return fd;
}

struct hear {
	int fd;
	uint8_t p[1 << 16];
	size_t len, want;
	bool at_end;
};

static bool heard(void *arg)
{
	struct hear *h = arg;
	ssize_t n;

	while (!h->at_end && h->len < h->want) {
		n = recv(h->fd, h->p + h->len, h->want - h->len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return false;
		h->at_end = n <= 0;
		h->len += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static struct hear hear;

/* Until `want` bytes are there, or the end is. */
static void hear_from(struct rig *r, int fd, size_t want)
{
	memset(&hear, 0, sizeof(hear));
	hear.fd = fd;
	hear.want = want;
	run_until(&r->loop, heard, &hear);
}

static size_t put_framed(uint8_t *to, const char *name, uint16_t type, uint8_t id)
{
	size_t n = query_bytes(to + 2, name, type);

	to[0] = (uint8_t)(n >> 8);
	to[1] = (uint8_t)n;
	to[2] = 0;
	to[3] = id;
	return n + 2;
}

enum { ANSWER_SIZE = DNS_HEADER + 8 + 4 + 16 }; /* one A record for a.test */

static void it_answers_datagrams(void **state)
{
	uint8_t p[DNS_QUERY_MAX];
	size_t n = query_bytes(p, "a.test", DNS_A);
	struct rig r;
	int server, client;

	(void)state;
	rig_up(&r, allow_test, NULL);
	server = serve(&r, SOCK_DGRAM);
	client = client_of(SOCK_DGRAM, server);
	assert_int_equal(send(client, "garbage", 7, 0), 7);
	assert_int_equal(send(client, "", 0, 0), 0);
	assert_int_equal(send(client, p, n, 0), (ssize_t)n);
	hear_from(&r, client, ANSWER_SIZE);
	assert_int_equal(hear.len, ANSWER_SIZE);
	assert_memory_equal(hear.p + ANSWER_SIZE - 4, "\306\22\0\1", 4);
	close(client);
	rig_down(&r);
}

static void it_answers_many_questions_of_one_connection(void **state)
{
	uint8_t p[100 * (DNS_QUERY_MAX + 2)];
	size_t n = 0;
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, allow_test, NULL);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	for (uint8_t i = 0; i < 100; i++)
		n += put_framed(p + n, "a.test", DNS_A, i);
	assert_int_equal(send(client, p, 1, 0), 1); /* in parts */
	assert_int_equal(send(client, p + 1, 20, 0), 20);
	assert_int_equal(send(client, p + 21, n - 21, 0), (ssize_t)(n - 21));
	hear_from(&r, client, 100 * (2 + ANSWER_SIZE));
	assert_int_equal(hear.len, 100 * (2 + ANSWER_SIZE));
	for (uint8_t i = 0; i < 100; i++)
		assert_int_equal(hear.p[i * (2 + ANSWER_SIZE) + 3], i);
	shutdown(client, SHUT_WR);
	hear_from(&r, client, 1);
	assert_true(hear.at_end && hear.len == 0);
	assert_int_equal(r.stub.conn_count, 0);
	close(client);
	rig_down(&r);
}

/* More than may wait at once: reading stops, and goes on when upstream has answered. */
static void a_client_that_has_said_all_is_still_answered(void **state)
{
	uint8_t p[80 * (DNS_QUERY_MAX + 2)];
	size_t n = 0;
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	for (uint8_t i = 0; i < 80; i++)
		n += put_framed(p + n, "slow.test", DNS_A, i);
	assert_int_equal(send(client, p, n, 0), (ssize_t)n);
	shutdown(client, SHUT_WR);
	memset(&hear, 0, sizeof(hear));
	hear.fd = client;
	hear.want = 80 * (2 + ANSWER_SIZE + 3);
	while (r.server.held_count < 2 || r.stub.ask_count < 64)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	assert_int_equal(r.stub.ask_count, 64);
	server_release(&r.server);
	run_until(&r.loop, heard, &hear);
	assert_int_equal(hear.len, hear.want);
	hear_from(&r, client, 1);
	assert_true(hear.at_end);
	close(client);
	rig_down(&r);
}

static void a_client_that_goes_away_leaves_nothing_behind(void **state)
{
	uint8_t p[DNS_QUERY_MAX + 2];
	size_t n = put_framed(p, "slow.test", DNS_A, 1);
	struct linger reset = { 1, 0 };
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, NULL, deny_bad);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	assert_int_equal(send(client, p, n, 0), (ssize_t)n);
	while (r.stub.ask_count < 1)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(client);
	while (r.stub.conn_count)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	assert_int_equal(r.stub.ask_count, 1);
	while (r.server.held_count < 2)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	server_release(&r.server);
	while (r.stub.ask_count)
		run_until(&r.loop, heard, &(struct hear){ .at_end = true });
	rig_down(&r);
}

static void a_question_that_is_too_long_ends_the_connection(void **state)
{
	struct rig r;
	int client;

	(void)state;
	rig_up(&r, allow_test, NULL);
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	assert_int_equal(send(client, "\x20\0garbage", 9, 0), 9);
	hear_from(&r, client, 1);
	assert_true(hear.at_end && hear.len == 0);
	close(client);
	rig_down(&r);
}

static void sixty_four_connections_are_served_and_no_more(void **state)
{
	uint8_t p[DNS_QUERY_MAX + 2];
	size_t n = put_framed(p, "a.test", DNS_A, 1);
	struct rig r;
	int client[65], server;

	(void)state;
	rig_up(&r, allow_test, NULL);
	server = serve(&r, SOCK_STREAM);
	for (int i = 0; i < 65; i++)
		client[i] = client_of(SOCK_STREAM, server);
	hear_from(&r, client[64], 1);
	assert_true(hear.at_end);
	assert_int_equal(r.stub.conn_count, 64);
	assert_int_equal(send(client[0], p, n, 0), (ssize_t)n);
	hear_from(&r, client[0], 2 + ANSWER_SIZE);
	assert_int_equal(hear.len, 2 + ANSWER_SIZE);
	for (int i = 0; i < 65; i++)
		close(client[i]);
	rig_down(&r);
}

static void an_idle_connection_ends_after_its_time(void **state)
{
	struct rig r;
	int client;
	uint64_t begin = loop_now(), took;

	(void)state;
	rig_up(&r, allow_test, NULL);
	r.stub.idle_us = 300000;
	client = client_of(SOCK_STREAM, serve(&r, SOCK_STREAM));
	assert_int_equal(send(client, "\0", 1, 0), 1); /* a byte is no question */
	hear_from(&r, client, 1);
	took = loop_now() - begin;
	assert_true(hear.at_end);
	assert_true(took >= r.stub.idle_us);
	close(client);
	rig_down(&r);
}

static void a_client_on_its_way_elsewhere_is_served_as_well(void **state)
{
	uint8_t p[DNS_QUERY_MAX + 2];
	size_t n = put_framed(p, "a.test", DNS_A, 1);
	struct rig r;
	int pair[2];

	(void)state;
	rig_up(&r, allow_test, NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(stub_serve_client(&r.stub, pair[0]), 0);
	assert_int_equal(send(pair[1], p, n, 0), (ssize_t)n);
	hear_from(&r, pair[1], 2 + ANSWER_SIZE);
	assert_int_equal(hear.len, 2 + ANSWER_SIZE);
	close(pair[1]);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_answers_datagrams),
		cmocka_unit_test(it_answers_many_questions_of_one_connection),
		cmocka_unit_test(a_client_that_has_said_all_is_still_answered),
		cmocka_unit_test(a_client_that_goes_away_leaves_nothing_behind),
		cmocka_unit_test(a_question_that_is_too_long_ends_the_connection),
		cmocka_unit_test(sixty_four_connections_are_served_and_no_more),
		cmocka_unit_test(an_idle_connection_ends_after_its_time),
		cmocka_unit_test(a_client_on_its_way_elsewhere_is_served_as_well),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
