/*
 * test_egress_config.c - what the network's supervisor is told: servers, hosts, proxy,
 * caps, and where the host listens
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/egress.h"
#include "runtime/egress.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

static int file_of(const char *text)
{
	int fd = fd_sealed("test", text, strlen(text));

	assert_true(fd >= 0);
	return fd;
}

static const char *server_text(const struct egress_server *s, char text[96])
{
	char address[INET6_ADDRSTRLEN];

	assert_non_null(inet_ntop(s->family == 6 ? AF_INET6 : AF_INET, s->bytes, address,
				  sizeof(address)));
	snprintf(text, 96, "%s %u %u", address, s->port, s->scope);
	return text;
}

static void every_spelling_of_a_server_is_read_and_nothing_else(void **state)
{
	static const struct { const char *given, *want; } rows[] = {
		{ "192.0.2.1", "192.0.2.1 53 0" },
		{ "192.0.2.1:5353", "192.0.2.1 5353 0" },
		{ "2001:db8::1", "2001:db8::1 53 0" },
		{ "[2001:db8::1]", "2001:db8::1 53 0" },
		{ "[2001:db8::1]:65535", "2001:db8::1 65535 0" },
		{ "fe80::1%lo", "fe80::1 53 1" },
		{ "[fe80::1%7]:54", "fe80::1 54 7" },
		{ "", NULL }, { "localhost", NULL }, { "192.0.2.1:", NULL }, { "192.0.2.1:0", NULL },
		{ "192.0.2.1:65536", NULL }, { "192.0.2.1%lo", NULL }, { "192.0.2", NULL },
		{ "[192.0.2.1]:53", NULL }, { "[2001:db8::1", NULL }, { "[2001:db8::1]x", NULL },
		{ "[2001:db8::1]:", NULL }, { "fe80::1%", NULL }, { "fe80::1%nosuchlink0", NULL },
		{ "192.0.2.1 ", NULL }, { "0300.0.2.1", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_server s = { 0 };
		char text[96];

		assert_int_equal(egress_parse_server(&s, rows[i].given), rows[i].want != NULL);
		if (rows[i].want)
			assert_string_equal(server_text(&s, text), rows[i].want);
		else
			assert_int_equal(s.family, 0);
	}
}

static void resolv_conf_is_read_as_the_c_library_does(void **state)
{
	static const struct {
		const char *text, *first;
		uint32_t count, timeout_ms, attempts;
	} rows[] = {
		{ "nameserver 192.0.2.1\n", "192.0.2.1 53 0", 1, 5000, 2 },
		{ "# nameserver 192.0.2.9\n;nameserver 192.0.2.9\nnameserver\t192.0.2.2 # x\n",
		  "192.0.2.2 53 0", 1, 5000, 2 },
		{ "nameserver fe80::1%lo\nsearch example.org\n", "fe80::1 53 1", 1, 5000, 2 },
		{ "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
		  "nameserver 192.0.2.4\n", "192.0.2.1 53 0", 3, 5000, 2 },
		{ "options timeout:3 rotate attempts:4\nnameserver 192.0.2.1\n", "192.0.2.1 53 0",
		  1, 3000, 4 },
		{ "options timeout:0 attempts:0\nnameserver 192.0.2.1\n", "192.0.2.1 53 0", 1, 1000, 1 },
		{ "options timeout:99 attempts:99\nnameserver 192.0.2.1\n", "192.0.2.1 53 0",
		  1, 30000, 5 },
		{ "options timeout: attempts:x timeout:-1\nnameserver nonsense\nnameserver\n", NULL,
		  0, 5000, 2 },
		{ "nameserver 192.0.2.1:53\n", NULL, 0, 5000, 2 }, /* no port in that file */
		{ "", NULL, 0, 5000, 2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_config c = { 0 };
		owned_fd int fd = file_of(rows[i].text);
		char text[96];

		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		egress_read_resolv(&c, fd);
		assert_int_equal(c.server_count, rows[i].count);
		assert_int_equal(c.timeout_ms, rows[i].timeout_ms);
		assert_int_equal(c.attempts, rows[i].attempts);
		if (rows[i].first)
			assert_string_equal(server_text(&c.servers[0], text), rows[i].first);
	}
}

static void a_proxy_is_read_and_a_wrong_one_refused(void **state)
{
	static const struct {
		const char *url;
		uint32_t kind;
		const char *host, *user, *password;
		uint16_t port;
	} rows[] = {
		{ "http://proxy.test:3128", PROXY_HTTP, "proxy.test", "", "", 3128 },
		{ "http://proxy.test:3128/", PROXY_HTTP, "proxy.test", "", "", 3128 },
		{ "socks5://u:p@192.0.2.1:1080", PROXY_SOCKS5, "192.0.2.1", "u", "p", 1080 },
		{ "socks5h://[2001:db8::1]:1080", PROXY_SOCKS5, "2001:db8::1", "", "", 1080 },
		{ "http://a%40b:c%3Ad@h:1", PROXY_HTTP, "h", "a@b", "c:d", 1 },
		{ "http://u:p@q:r@h:1", PROXY_HTTP, "h", "u", "p@q:r", 1 },
		{ "http://u@h:1", PROXY_HTTP, "h", "u", "", 1 },
		{ "https://h:1", 0, "", "", "", 0 }, { "h:1", 0, "", "", "", 0 },
		{ "http://h", 0, "", "", "", 0 }, { "http://:1", 0, "", "", "", 0 },
		{ "http://h:0", 0, "", "", "", 0 }, { "http://h:65536", 0, "", "", "", 0 },
		{ "http://h:1/path", 0, "", "", "", 0 }, { "http://h:1?q", 0, "", "", "", 0 },
		{ "http://u%4:p@h:1", 0, "", "", "", 0 }, { "http://u%0d%0ax:p@h:1", 0, "", "", "", 0 },
		{ "http://u%00:p@h:1", 0, "", "", "", 0 }, { "http://:p@h:1", 0, "", "", "", 0 },
		{ "http://2001:db8::1:1", 0, "", "", "", 0 }, { "http://h%41:1", 0, "", "", "", 0 },
		{ "", 0, "", "", "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_proxy p = { 0 };

		assert_int_equal(egress_parse_proxy(&p, rows[i].url), rows[i].kind != PROXY_NONE);
		assert_int_equal(p.kind, rows[i].kind);
		assert_string_equal(p.host, rows[i].host);
		assert_string_equal(p.user, rows[i].user);
		assert_string_equal(p.password, rows[i].password);
		assert_int_equal(p.port, rows[i].port);
	}
}

static void a_publication_is_on_loopback_unless_it_names_an_address(void **state)
{
	static const struct {
		const char *text;
		uint8_t family, first, last;
		uint16_t host_port, port;
	} rows[] = {
		{ "8080:80", 4, 127, 1, 8080, 80 },
		{ "0.0.0.0:8080:80", 4, 0, 0, 8080, 80 },
		{ "192.0.2.7:1:65535", 4, 192, 7, 1, 65535 },
		{ "[::1]:8080:80", 6, 0, 1, 8080, 80 },
		{ "80", 0, 0, 0, 0, 0 }, { "0:80", 0, 0, 0, 0, 0 }, { "80:0", 0, 0, 0, 0, 0 },
		{ "80:", 0, 0, 0, 0, 0 }, { ":80", 0, 0, 0, 0, 0 }, { "65536:80", 0, 0, 0, 0, 0 },
		{ ":8080:80", 0, 0, 0, 0, 0 }, { "::1:8080:80", 0, 0, 0, 0, 0 },
		{ "localhost:8080:80", 0, 0, 0, 0, 0 }, { "8080:80/udp", 0, 0, 0, 0, 0 },
		{ "[]:8080:80", 0, 0, 0, 0, 0 }, { "[127.0.0.1]:8080:80", 0, 0, 0, 0, 0 },
		{ "", 0, 0, 0, 0, 0 }, { "-1:80", 0, 0, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_publication p = { 0 };
		bool is_v6 = rows[i].family == 6;

		assert_int_equal(egress_parse_publication(&p, rows[i].text), rows[i].family != 0);
		assert_int_equal(p.family, rows[i].family);
		assert_int_equal(p.bytes[0], rows[i].first);
		assert_int_equal(p.bytes[is_v6 ? 15 : 3], rows[i].last);
		assert_int_equal(p.host_port, rows[i].host_port);
		assert_int_equal(p.port, rows[i].port);
	}
}

/* --- the block ------------------------------------------------------------------- */

struct made {
	struct policy p;
	struct buf block;
	bool hosts_cut;
	int fds[2];
	char paths[2][64];
};

static void begin(struct made *m, const char *resolv, const char *hosts)
{
	const char *const texts[] = { resolv, hosts };

	*m = (struct made){ .block = BUF_INIT(8 << 20) };
	assert_int_equal(policy_init(&m->p, NULL), 0);
	m->p.net.mode = NET_FILTERED;
	for (int i = 0; i < 2; i++) {
		m->fds[i] = texts[i] ? file_of(texts[i]) : -1;
		snprintf(m->paths[i], sizeof(m->paths[i]), "/proc/self/fd/%d", m->fds[i]);
	}
}

static int build(struct made *m, struct nsbox_error *err)
{
	const struct egress_sources from = { .policy = &m->p, .resolv_conf = m->paths[0],
					     .hosts = m->paths[1], .uid = 11, .gid = 12 };

	return egress_config_build(&m->block, &from, &m->hosts_cut, err);
}

static const struct egress_config *config(const struct made *m)
{
	return (const struct egress_config *)(const void *)m->block.data;
}

static void end(struct made *m)
{
	buf_free(&m->block);
	policy_free(&m->p);
	for (int i = 0; i < 2; i++)
		if (m->fds[i] >= 0)
			close(m->fds[i]);
}

static const char *string_at(const struct made *m, uint32_t at)
{
	assert_true(at >= sizeof(struct egress_config) && at < m->block.len);
	assert_non_null(memchr(m->block.data + at, '\0', m->block.len - at));
	return m->block.data + at;
}

static void the_block_holds_what_policy_and_host_say(void **state)
{
	static const char hosts[] = "127.0.0.1 localhost\n192.0.2.5 inside.test\n";
	const struct egress_config *c;
	struct made m;
	char text[96];

	(void)state;
	begin(&m, "nameserver 192.0.2.1\n", hosts);
	m.p.net.proxy = strdup("http://name:word@proxy.test:3128");
	m.p.net.connections = 7;
	m.p.net.names = 8;
	m.p.net.bytes = 9;
	m.p.net.host_bytes = 1ULL << 40;
	assert_int_equal(build(&m, NULL), 0);
	c = config(&m);
	assert_int_equal(c->magic, EGRESS_MAGIC);
	assert_int_equal(c->size, m.block.len);
	assert_int_equal(c->uid, 11);
	assert_int_equal(c->gid, 12);
	assert_int_equal(c->server_count, 1);
	assert_string_equal(server_text(&c->servers[0], text), "192.0.2.1 53 0");
	assert_int_equal(c->hosts_len, sizeof(hosts) - 1);
	assert_memory_equal(m.block.data + c->hosts, hosts, sizeof(hosts) - 1);
	assert_true(egress_is_valid(m.block.data + c->rules, m.block.len - c->rules));
	assert_int_equal(c->rules % 16, 0);
	assert_int_equal(c->proxy.kind, PROXY_HTTP);
	assert_int_equal(c->proxy.port, 3128);
	assert_string_equal(string_at(&m, c->proxy.host), "proxy.test");
	assert_string_equal(string_at(&m, c->proxy.user), "name");
	assert_string_equal(string_at(&m, c->proxy.password), "word");
	assert_int_equal(c->max_connections, 7);
	assert_int_equal(c->max_names, 8);
	assert_int_equal(c->max_bytes, 9);
	assert_int_equal(c->max_host_bytes, 1ULL << 40);
	assert_false(m.hosts_cut);
	end(&m);
}

static void without_files_and_proxy_there_are_a_local_server_and_no_offsets(void **state)
{
	const struct egress_config *c;
	struct made m;
	char text[96];

	(void)state;
	begin(&m, NULL, NULL);
	assert_int_equal(setenv("http_proxy", "http://env.test:1", 1), 0);
	assert_int_equal(setenv("ALL_PROXY", "socks5://env.test:1", 1), 0);
	assert_int_equal(build(&m, NULL), 0);
	c = config(&m);
	assert_string_equal(server_text(&c->servers[0], text), "127.0.0.1 53 0");
	assert_int_equal(c->server_count, 1);
	assert_int_equal(c->hosts, 0);
	assert_int_equal(c->hosts_len, 0);
	assert_int_equal(c->proxy.kind, PROXY_NONE); /* the environment is no policy */
	assert_int_equal(c->proxy.host, 0);
	end(&m);
}

static void own_resolvers_take_the_place_of_the_hosts(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct made m;
	char text[96];

	(void)state;
	begin(&m, "nameserver 192.0.2.1\noptions timeout:2\n", "");
	assert_int_equal(strlist_add(&m.p.net.resolvers, "[2001:db8::1]:5300"), 0);
	assert_int_equal(build(&m, NULL), 0);
	assert_int_equal(config(&m)->server_count, 1);
	assert_int_equal(config(&m)->timeout_ms, 2000);
	assert_string_equal(server_text(&config(&m)->servers[0], text), "2001:db8::1 5300 0");
	buf_clear(&m.block);
	assert_int_equal(strlist_add(&m.p.net.resolvers, "ns.example.org"), 0);
	assert_int_equal(build(&m, &err), NSBOX_E_POLICY);
	end(&m);
}

static void a_hosts_file_that_is_too_large_ends_with_a_whole_line(void **state)
{
	static const char line[] = "192.0.2.1 a-name-of-some-length.test\n";
	size_t n = sizeof(line) - 1, count = (1 << 20) / n + 10;
	owned_mem char *text = malloc(count * n + 1);
	struct made m;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * n, line, n + 1);
	begin(&m, "", text);
	assert_int_equal(build(&m, NULL), 0);
	assert_true(m.hosts_cut);
	assert_true(config(&m)->hosts_len <= 1 << 20);
	assert_true(config(&m)->hosts_len > (1 << 20) - 2 * n - 4096);
	assert_int_equal(config(&m)->hosts_len % n, 0);
	end(&m);
}

static void a_wrong_proxy_is_an_error_without_its_password(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct made m;

	(void)state;
	begin(&m, "", "");
	m.p.net.proxy = strdup("ftp://name:hunter2@proxy.test:1");
	assert_int_equal(build(&m, &err), NSBOX_E_POLICY);
	assert_non_null(strstr(err.message, "net.proxy"));
	assert_null(strstr(err.message, "hunter2"));
	assert_null(strstr(err.hint, "hunter2"));
	end(&m);
}

/* --- the host's ports -------------------------------------------------------------- */

static int one_publication(struct egress_link *l, const char *entry, struct nsbox_error *err)
{
	struct policy p = { 0 };
	int r;

	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(strlist_add(&p.net.publish, entry), 0);
	r = egress_publish(l, &p, err);
	policy_free(&p);
	return r;
}

static void a_port_that_is_taken_is_an_error_of_the_caller(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	owned_fd int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client = -1;
	struct nsbox_error err = NSBOX_ERROR_INIT;
	socklen_t len = sizeof(at);
	struct egress_link l;
	char entry[32];

	(void)state;
	egress_init(&l);
	assert_int_equal(bind(taken, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(taken, 1), 0);
	assert_int_equal(getsockname(taken, (struct sockaddr *)&at, &len), 0);
	snprintf(entry, sizeof(entry), "%u:80", ntohs(at.sin_port));
	assert_int_equal(one_publication(&l, entry, &err), NSBOX_E_USAGE);
	assert_int_equal(err.os_errno, EADDRINUSE);
	assert_non_null(strstr(err.message, entry));
	assert_true(err.hint[0]);
	egress_end(&l);
	close(take_fd(taken)); /* control: the same port, once it is free */
	assert_int_equal(one_publication(&l, entry, NULL), 0);
	assert_int_equal(l.published_count, 1);
	assert_int_equal(l.published[0].port, 80);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
	egress_destroy(&l);
	err_clear(&err);
	egress_init(&l);
	assert_int_equal(one_publication(&l, "192.0.2.77:8080:80", &err), NSBOX_E_USAGE);
	assert_int_equal(err.os_errno, EADDRNOTAVAIL);
	egress_destroy(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_spelling_of_a_server_is_read_and_nothing_else),
		cmocka_unit_test(resolv_conf_is_read_as_the_c_library_does),
		cmocka_unit_test(a_proxy_is_read_and_a_wrong_one_refused),
		cmocka_unit_test(a_publication_is_on_loopback_unless_it_names_an_address),
		cmocka_unit_test(the_block_holds_what_policy_and_host_say),
		cmocka_unit_test(without_files_and_proxy_there_are_a_local_server_and_no_offsets),
		cmocka_unit_test(own_resolvers_take_the_place_of_the_hosts),
		cmocka_unit_test(a_hosts_file_that_is_too_large_ends_with_a_whole_line),
		cmocka_unit_test(a_wrong_proxy_is_an_error_without_its_password),
		cmocka_unit_test(a_port_that_is_taken_is_an_error_of_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
