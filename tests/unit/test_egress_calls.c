/*
 * What the broker asks the supervisor, as bytes; addresses as a box writes them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/egress/calls_read.h"
#include "runtime/egress/sockaddr.h"
#include "runtime/egress_wire.h"

static uint8_t packet[CALLS_PACKET_MAX];

/* A question of this kind with @name_len bytes of address and @size of data; its length. */
static size_t question(uint16_t what, uint16_t name_len, uint32_t size)
{
	const struct calls_ask head = { .magic = CALLS_MAGIC, .what = what, .name_len = name_len,
					.id = 7, .size = size };

	memset(packet, 'x', sizeof(packet));
	memcpy(packet, &head, sizeof(head));
	return sizeof(head) + name_len + size;
}

static void a_question_is_read_as_it_was_written(void **state)
{
	struct calls_request r;
	size_t len = question(CALLS_SEND, 16, 100);

	(void)state;
	assert_true(calls_read(&r, packet, len, true));
	assert_int_equal(r.head.id, 7);
	assert_ptr_equal(r.name, packet + sizeof(r.head));
	assert_ptr_equal(r.data, packet + sizeof(r.head) + 16);
	assert_int_equal(r.fd, -1);
}

static void each_kind_has_what_is_its_own_and_nothing_else(void **state)
{
	static const struct {
		uint16_t what;
		bool has_fd, may_name, may_data;
	} kinds[] = {
		{ CALLS_SOCKET, false, false, false },	{ CALLS_CONNECT, true, true, false },
		{ CALLS_BIND, true, true, false },	{ CALLS_LISTEN, true, false, false },
		{ CALLS_SOCKNAME, true, false, false }, { CALLS_PEERNAME, true, false, false },
		{ CALLS_SEND, true, true, true },	{ CALLS_RECV, true, false, false },
		{ CALLS_GETOPT, true, false, false },	{ CALLS_SETOPT, true, false, false },
		{ CALLS_CANCEL, false, false, false },
	};
	struct calls_request r;

	(void)state;
	assert_int_equal(ARRAY_SIZE(kinds), CALLS_WHAT_END - 1);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint16_t what = kinds[i].what;
		bool has_fd = kinds[i].has_fd;

		assert_true(calls_read(&r, packet, question(what, 0, 0), has_fd));
		assert_false(calls_read(&r, packet, question(what, 0, 0), !has_fd));
		assert_int_equal(calls_read(&r, packet, question(what, 16, 0), has_fd),
				 kinds[i].may_name);
		assert_int_equal(calls_read(&r, packet, question(what, 0, 1), has_fd),
				 kinds[i].may_data);
	}
}

static void a_question_of_another_length_or_kind_is_none(void **state)
{
	struct calls_request r;
	size_t len = question(CALLS_SEND, 16, 100);
	struct calls_ask head;

	(void)state;
	assert_true(calls_read(&r, packet, len, true));
	for (size_t n = 0; n < len; n++)
		assert_false(calls_read(&r, packet, n, true));
	assert_false(calls_read(&r, packet, len + 1, true));
	memcpy(&head, packet, sizeof(head));
	head.magic ^= 1;
	memcpy(packet, &head, sizeof(head));
	assert_false(calls_read(&r, packet, len, true));
	assert_false(calls_read(&r, packet, question(0, 0, 0), true));
	assert_false(calls_read(&r, packet, question(CALLS_WHAT_END, 0, 0), true));
	assert_false(calls_read(&r, packet, question(UINT16_MAX, 0, 0), true));
}

static void more_than_there_may_be_is_refused(void **state)
{
	struct calls_request r;
	struct calls_ask head;

	(void)state;
	assert_true(calls_read(&r, packet, question(CALLS_SEND, CALLS_NAME_MAX, CALLS_DATA_MAX), true));
	assert_false(calls_read(&r, packet, question(CALLS_SEND, CALLS_NAME_MAX + 1, 0), true));
	question(CALLS_SEND, 0, 0);
	memcpy(&head, packet, sizeof(head));
	head.size = UINT32_MAX; /* would wrap where sizes are of 32 bits */
	memcpy(packet, &head, sizeof(head));
	assert_false(calls_read(&r, packet, sizeof(head) - 1, true));
	assert_false(calls_read(&r, packet, sizeof(head), true));
}

/* --- addresses ----------------------------------------------------------------------------- */

static int read_dest(struct calls_dest *out, const void *name, size_t len, int family, bool is_stream)
{
	const struct calls_request r = { .head.name_len = (uint16_t)len, .name = name };

	return calls_dest_of(out, &r, family, is_stream);
}

static struct sockaddr_in in4(const char *text, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return in;
}

static struct sockaddr_in6 in6(const char *text, uint16_t port)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
	return in;
}

static void addresses_are_read_as_the_kernel_reads_them(void **state)
{
	const struct sockaddr_in four = in4("198.51.100.10", 443);
	const struct sockaddr_in6 six = in6("2001:db8::1", 443);
	const sa_family_t none = AF_UNSPEC, strange = AF_UNIX;
	struct calls_dest d;

	(void)state;
	assert_int_equal(read_dest(&d, &four, sizeof(four), AF_INET, true), 0);
	assert_int_equal(d.addr.family, 4);
	assert_memory_equal(d.addr.bytes, &four.sin_addr, 4);
	assert_int_equal(d.port, 443);
	assert_false(d.is_unspec);
	assert_int_equal(read_dest(&d, &six, sizeof(six), AF_INET6, true), 0);
	assert_int_equal(d.addr.family, 6);
	assert_memory_equal(d.addr.bytes, &six.sin6_addr, 16);
	assert_int_equal(read_dest(&d, &six, 24, AF_INET6, true), 0);
	assert_int_equal(read_dest(&d, &none, sizeof(none), AF_INET, true), 0);
	assert_true(d.is_unspec);

	assert_int_equal(read_dest(&d, &four, sizeof(four) - 1, AF_INET, true), EINVAL);
	assert_int_equal(read_dest(&d, &four, 1, AF_INET, true), EINVAL);
	assert_int_equal(read_dest(&d, &four, 0, AF_INET, true), EINVAL);
	assert_int_equal(read_dest(&d, &six, 23, AF_INET6, true), EINVAL);
	assert_int_equal(read_dest(&d, &six, sizeof(six), AF_INET, true), EAFNOSUPPORT);
	assert_int_equal(read_dest(&d, &four, sizeof(four), AF_INET6, true), EAFNOSUPPORT);
	assert_int_equal(read_dest(&d, &strange, sizeof(strange), AF_INET, true), EAFNOSUPPORT);
	/* A datagram socket of IPv6 may say where to in IPv4. */
	assert_int_equal(read_dest(&d, &four, sizeof(four), AF_INET6, false), 0);
	assert_int_equal(d.addr.family, 6);
}

static void every_spelling_of_the_boxs_own_addresses_is_known(void **state)
{
	static const char *const own[] = { "127.0.0.1", "127.255.1.2", "0.0.0.0", INLET_ADDR4, "::1",
					   "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0", INLET_ADDR6 };
	static const char *const foreign[] = { "126.255.255.255", "128.0.0.1", "198.51.100.10",
					       "10.0.0.1", "::2", "2001:db8::1", "::ffff:10.1.2.3" };
	struct egress_addr a;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		assert_true(addr_of_text(&a, own[i]));
		if (!calls_is_own(&a))
			fail_msg("%s is not the box's own", own[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		assert_true(addr_of_text(&a, foreign[i]));
		if (calls_is_own(&a))
			fail_msg("%s is the box's own", foreign[i]);
	}
}

static void a_connected_socket_has_an_address_of_its_family_and_none_of_the_hosts(void **state)
{
	static const struct {
		int family;
		const char *peer, *own;
	} rows[] = {
		{ AF_INET, "198.51.100.10", INLET_ADDR4 },    { AF_INET, "127.0.0.9", "127.0.0.1" },
		{ AF_INET6, "2001:db8::1", INLET_ADDR6 },     { AF_INET6, "::1", "::1" },
		{ AF_INET6, "::ffff:127.0.0.9", "::ffff:127.0.0.1" },
	};
	struct egress_addr peer, want, got;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(addr_of_text(&peer, rows[i].peer));
		assert_true(addr_of_text(&want, rows[i].own));
		want = calls_addr_for(rows[i].family, want);
		got = calls_own_for(rows[i].family, &peer);
		assert_memory_equal(&got, &want, sizeof(got));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_read_as_it_was_written),
		cmocka_unit_test(each_kind_has_what_is_its_own_and_nothing_else),
		cmocka_unit_test(a_question_of_another_length_or_kind_is_none),
		cmocka_unit_test(more_than_there_may_be_is_refused),
		cmocka_unit_test(addresses_are_read_as_the_kernel_reads_them),
		cmocka_unit_test(every_spelling_of_the_boxs_own_addresses_is_known),
		cmocka_unit_test(a_connected_socket_has_an_address_of_its_family_and_none_of_the_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
