/*
 * The filter of a payload whose sockets the supervisor makes: what is notified, what is
 * refused at once, and that no policy opens a way around it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/unit/filter.h"

#define NOTIFIED SECCOMP_RET_USER_NOTIF
#define FASTOPEN 0x20000000 /* MSG_FASTOPEN */

static struct bpf calls_of(int level, const struct strlist *allow)
{
	struct policy p = { .syscalls.level = level, .process.subprocesses = true };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct bpf b = { 0 };

	if (allow)
		p.syscalls.allow = *allow;
	if (seccomp_compile_held(&b, &p, SECCOMP_HOLDS_CALLS, &err) < 0)
		fail_msg("level %d: %s", level, err.message);
	return b;
}

static const struct row {
	const char *name;
	uint64_t args[6];
	uint32_t want;
} rows[] = {
	{ "socket", { AF_INET, SOCK_STREAM }, NOTIFIED },
	{ "socket", { AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP }, NOTIFIED },
	{ "socket", { AF_INET, SOCK_STREAM, IPPROTO_TCP }, NOTIFIED },
	{ "socket", { AF_INET, SOCK_STREAM, 262 }, E(EPROTONOSUPPORT) }, /* MPTCP */
	{ "socket", { AF_INET, SOCK_DGRAM, IPPROTO_ICMP }, E(EPROTONOSUPPORT) },
	{ "socket", { AF_INET, SOCK_RAW, IPPROTO_TCP }, E(EPERM) },
	{ "socket", { AF_INET, SOCK_SEQPACKET }, E(ESOCKTNOSUPPORT) },
	{ "socket", { AF_UNIX, SOCK_STREAM }, E(EACCES) },
	{ "socket", { AF_NETLINK, SOCK_RAW }, E(EAFNOSUPPORT) },
	{ "socket", { AF_VSOCK, SOCK_STREAM }, E(EAFNOSUPPORT) },
	{ "socket", { AF_PACKET, SOCK_RAW }, E(EAFNOSUPPORT) },
	{ "socketpair", { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC }, ALLOWED },
	{ "socketpair", { AF_UNIX, SOCK_SEQPACKET }, ALLOWED },
	{ "socketpair", { AF_UNIX, SOCK_DGRAM }, E(EPROTONOSUPPORT) },
	{ "socketpair", { AF_UNIX, SOCK_RAW }, E(EPROTONOSUPPORT) }, /* the kernel makes it DGRAM */
	{ "socketpair", { AF_TIPC, SOCK_STREAM }, E(EAFNOSUPPORT) },
	{ "connect", { 3, 0x1000, 16 }, NOTIFIED },
	{ "bind", { 3, 0x1000, 16 }, NOTIFIED },
	{ "listen", { 3, 1 }, NOTIFIED },
	{ "getsockname", { 3 }, NOTIFIED },
	{ "getpeername", { 3 }, NOTIFIED },
	{ "sendto", { 3, 0x1000, 1, 0, 0, 0 }, ALLOWED },
	{ "sendto", { 3, 0x1000, 1, 0, 0x1000, 16 }, NOTIFIED },
	{ "sendto", { 3, 0x1000, 1, 0, HIGH, 16 }, NOTIFIED },
	{ "sendto", { 3, 0x1000, 1, FASTOPEN, 0, 0 }, E(EOPNOTSUPP) },
	{ "sendto", { 3, 0x1000, 1, FASTOPEN, 0x1000, 16 }, E(EOPNOTSUPP) },
	{ "sendmsg", { 3, 0x1000, 0 }, NOTIFIED },
	{ "sendmsg", { 3, 0x1000, FASTOPEN | MSG_NOSIGNAL }, E(EOPNOTSUPP) },
	{ "sendmmsg", { 3, 0x1000, 1, 0 }, NOTIFIED },
	{ "sendmmsg", { 3, 0x1000, 1, FASTOPEN }, E(EOPNOTSUPP) },
	{ "recvfrom", { 3, 0x1000, 1, 0, 0, 0 }, ALLOWED },
	{ "recvfrom", { 3, 0x1000, 1, 0, 0x1000, 0x2000 }, NOTIFIED },
	{ "recvmsg", { 3, 0x1000, 0 }, NOTIFIED },
	{ "recvmmsg", { 3, 0x1000, 1, 0 }, NOTIFIED },
	{ "getsockopt", { 3, SOL_SOCKET, SO_ERROR }, NOTIFIED },
	{ "getsockopt", { 3, IPPROTO_TCP, TCP_INFO }, ALLOWED },
	{ "setsockopt", { 3, IPPROTO_TCP, TCP_NODELAY }, ALLOWED },
	{ "setsockopt", { 3, IPPROTO_TCP, 30 }, E(ENOPROTOOPT) }, /* TCP_FASTOPEN_CONNECT */
	{ "setsockopt", { 3, IPPROTO_TCP, 19 }, E(ENOPROTOOPT) }, /* TCP_REPAIR */
	{ "setsockopt", { 3, IPPROTO_TCP, 31 }, E(ENOPROTOOPT) }, /* TCP_ULP */
	{ "setsockopt", { 3, IPPROTO_IP, IP_OPTIONS }, E(ENOPROTOOPT) },
	{ "setsockopt", { 3, IPPROTO_IPV6, IPV6_RTHDR }, E(ENOPROTOOPT) },
	{ "setsockopt", { 3, SOL_SOCKET, SO_BINDTODEVICE }, E(ENOPROTOOPT) },
	{ "setsockopt", { 3, SOL_SOCKET, SO_MARK }, E(ENOPROTOOPT) },
	{ "ioctl", { 3, SIOCGIFCONF }, E(EPERM) },
	{ "ioctl", { 3, SIOCATMARK }, ALLOWED },
	{ "userfaultfd", { 0 }, E(EPERM) },
	{ "io_uring_setup", { 0 }, E(ENOSYS) },
	{ "write", { 3 }, ALLOWED },
};

static void each_row_answers_so_where_the_level_has_sockets(void **state)
{
	static const int levels[] = { LEVEL_DEFAULT, LEVEL_AUDIT, LEVEL_DEBUG };

	(void)state;
	for (size_t l = 0; l < ARRAY_SIZE(levels); l++) {
		struct bpf b = calls_of(levels[l], NULL);

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			uint32_t got = answer_name(&b, rows[i].name, rows[i].args);

			if (got != rows[i].want)
				fail_msg("level %d, row %zu, %s: 0x%x, not 0x%x", levels[l], i,
					 rows[i].name, got, rows[i].want);
		}
		bpf_free(&b);
	}
}

static void what_a_level_refuses_stays_refused(void **state)
{
	struct bpf b = calls_of(LEVEL_STRICT, NULL);
	const uint64_t tcp[6] = { AF_INET, SOCK_STREAM };

	(void)state;
	assert_int_equal(answer_name(&b, "socket", tcp), E(EPERM));
	assert_int_equal(answer_name(&b, "connect", tcp), E(EPERM));
	bpf_free(&b);
}

/* What syscalls.allow opens is opened to the broker, or not at all. */
static void no_policy_opens_a_call_past_the_broker(void **state)
{
	static const char *const names[] = { "connect", "bind", "listen", "userfaultfd" };
	const uint64_t tcp[6] = { AF_INET, SOCK_STREAM };

	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			struct strlist allow = { .v = (char **)(uintptr_t)&names[i], .n = 1 };
			struct bpf plain = compiled(level, &allow, NULL), b = calls_of(level, &allow);
			uint32_t got = answer_name(&b, names[i], tcp);

			assert_int_equal(answer_name(&plain, names[i], tcp), ALLOWED);
			if (got != NOTIFIED && got != E(EPERM))
				fail_msg("level %d: %s answers 0x%x", level, names[i], got);
			bpf_free(&plain);
			bpf_free(&b);
		}
	}
}

/* Strict starts no program and no process; elsewhere that is a filter of its own. */
static bool is_a_start(int level, const char *name)
{
	static const char *const starts[] = { "fork", "vfork", "clone", "clone3", "memfd_create" };

	for (size_t i = 0; name && level == LEVEL_STRICT && i < ARRAY_SIZE(starts); i++)
		if (strcmp(name, starts[i]) == 0)
			return true;
	return false;
}

/* Only what is in the table differs from the level's own filter. */
static void all_other_calls_answer_as_the_level_does(void **state)
{
	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		struct bpf plain = compiled(level, NULL, NULL), b = calls_of(level, NULL);

		for (uint32_t nr = 0; nr < SYSCALL_LIMIT; nr++) {
			const char *name = syscall_name((int)nr);
			bool is_mediated = is_a_start(level, name);

			for (size_t i = 0; name && i < ARRAY_SIZE(rows); i++)
				is_mediated |= strcmp(rows[i].name, name) == 0;
			if (!is_mediated && answer(&plain, nr, NULL) != answer(&b, nr, NULL))
				fail_msg("level %d: %s is another", level, name ? name : "?");
		}
		bpf_free(&plain);
		bpf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_answers_so_where_the_level_has_sockets),
		cmocka_unit_test(what_a_level_refuses_stays_refused),
		cmocka_unit_test(no_policy_opens_a_call_past_the_broker),
		cmocka_unit_test(all_other_calls_answer_as_the_level_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
