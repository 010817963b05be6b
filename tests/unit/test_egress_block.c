/*
 * test_egress_block.c - the network's supervisor takes the launcher's block of configuration
 * whole or not at all
 */
#include "base/fd.h"
#include "runtime/egress.h"
#include "runtime/egress/config.h"

#include "tests/unit/egress_policy.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- a block of the launcher's ---------------------------------------------------------------- */

/* With all its parts: rules, servers, hosts, a proxy with user and password. */
static struct buf whole_block(void)
{
	struct buf out = BUF_INIT(1 << 20);
	struct policy p = { 0 };
	bool cut;
	const struct egress_sources from = { .policy = &p, .resolv_conf = "/nonexistent",
					     .hosts = "/etc/hosts", .uid = 65534, .gid = 65534 };

	rules_policy(&p, "allow a.test 192.0.2.1", NULL);
	assert_int_equal(policy_set(&p, "net.proxy", "http://me:word@proxy.test:3128", NULL), 0);
	assert_int_equal(policy_set(&p, "net.resolvers", "192.0.2.53", NULL), 0);
	assert_int_equal(policy_set(&p, "net.resolvers", "2001:db8::53", NULL), 0);
	assert_int_equal(egress_config_build(&out, &from, &cut, NULL), 0);
	policy_free(&p);
	return out;
}

static struct egress_config *head_of(struct buf *b)
{
	return (struct egress_config *)b->data;
}

static void the_launchers_block_is_taken(void **state)
{
	struct buf b = whole_block();
	const struct egress_config *c = head_of(&b);

	(void)state;
	assert_true(config_is_valid(b.data, b.len));
	assert_int_equal(c->server_count, 2);
	assert_true(c->rules && c->hosts && c->proxy.host && c->proxy.user && c->proxy.password);
	buf_free(&b);
}

/* --- what is wrong with it ----------------------------------------------------------------------- */

static void magic(struct egress_config *c) { c->magic++; }
static void size_less(struct egress_config *c) { c->size--; }
static void size_more(struct egress_config *c) { c->size++; }
static void no_rules(struct egress_config *c) { c->rules = 0; }
static void rules_in_head(struct egress_config *c) { c->rules = 8; }
static void rules_odd(struct egress_config *c) { c->rules += 4; }
static void rules_outside(struct egress_config *c) { c->rules = (c->size + 7) / 8 * 8; }
static void rules_far_outside(struct egress_config *c) { c->rules = UINT32_MAX - 7; }
static void rules_broken(struct egress_config *c) { ((char *)c)[c->rules] ^= 1; }
static void four_servers(struct egress_config *c) { c->server_count = EGRESS_SERVERS + 1; }
static void no_family(struct egress_config *c) { c->servers[1].family = 0; }
static void odd_family(struct egress_config *c) { c->servers[0].family = 5; }
static void no_server_port(struct egress_config *c) { c->servers[0].port = 0; }
static void hosts_in_head(struct egress_config *c) { c->hosts = 4; }
static void hosts_nowhere(struct egress_config *c) { c->hosts = 0; }
static void hosts_too_long(struct egress_config *c) { c->hosts_len = c->size; }
static void hosts_overflow(struct egress_config *c) { c->hosts_len = UINT32_MAX; }
static void hosts_outside(struct egress_config *c) { c->hosts = c->size; }
static void odd_proxy(struct egress_config *c) { c->proxy.kind = PROXY_SOCKS5 + 1; }
static void proxy_nowhere(struct egress_config *c) { c->proxy.host = 0; }
static void proxy_without_port(struct egress_config *c) { c->proxy.port = 0; }
static void proxy_outside(struct egress_config *c) { c->proxy.host = c->size; }
static void user_in_head(struct egress_config *c) { c->proxy.user = 1; }
static void password_far_outside(struct egress_config *c) { c->proxy.password = UINT32_MAX; }
static void no_connections(struct egress_config *c) { c->max_connections = 0; }
static void no_names(struct egress_config *c) { c->max_names = 0; }
static void more_names_than_addresses(struct egress_config *c) { c->max_names = 65535; }

/* The last string of all, without its end. */
static void endless_string(struct egress_config *c)
{
	char *at = (char *)c + c->proxy.password;

	memset(at, 'x', c->size - c->proxy.password);
}

static void wrong_in_one_thing_it_is_refused(void **state)
{
	static const struct { const char *name; void (*spoil)(struct egress_config *); } rows[] = {
#define ROW(f) { #f, f }
		ROW(magic), ROW(size_less), ROW(size_more), ROW(no_rules), ROW(rules_in_head),
		ROW(rules_odd), ROW(rules_outside), ROW(rules_far_outside), ROW(rules_broken),
		ROW(four_servers), ROW(no_family),
		ROW(odd_family), ROW(no_server_port), ROW(hosts_in_head), ROW(hosts_nowhere),
		ROW(hosts_too_long), ROW(hosts_overflow), ROW(hosts_outside), ROW(odd_proxy),
		ROW(proxy_nowhere), ROW(proxy_without_port), ROW(proxy_outside), ROW(user_in_head),
		ROW(password_far_outside), ROW(no_connections), ROW(no_names),
		ROW(more_names_than_addresses), ROW(endless_string),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf b = whole_block();

		rows[i].spoil(head_of(&b));
		if (config_is_valid(b.data, b.len))
			fail_msg("taken in spite of: %s", rows[i].name);
		buf_free(&b);
	}
}

/* In a mapping that ends with the block: what is read behind it faults. */
static void cut_anywhere_it_is_refused(void **state)
{
	struct buf b = whole_block();
	size_t page = 4096, room = (b.len + page - 1) / page * page;
	char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(map + room, page, PROT_NONE), 0);
	for (size_t len = b.len - 8; len >= 8; len -= 8) { /* as aligned as a mapping */
		char *at = map + (room - len) / 8 * 8;

		memcpy(at, b.data, len);
		if (len >= sizeof(struct egress_config))
			((struct egress_config *)at)->size = (uint32_t)len;
		if (config_is_valid(at, len))
			fail_msg("taken after %zu of %zu bytes", len, b.len);
	}
	munmap(map, room + page);
	buf_free(&b);
}

/* --- the file it comes in ------------------------------------------------------------------------- */

static int file_with(const struct buf *b, int seals)
{
	int fd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, b->data, b->len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void only_a_file_that_cannot_change_is_taken(void **state)
{
	static const int all = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	static const int less[] = { 0, F_SEAL_WRITE | F_SEAL_GROW, F_SEAL_WRITE | F_SEAL_SHRINK,
				    F_SEAL_GROW | F_SEAL_SHRINK };
	struct buf b = whole_block();
	const struct egress_config *c;
	int fd = file_with(&b, all), pipes[2];

	(void)state;
	c = config_map(fd);
	assert_non_null(c);
	assert_memory_equal(c, b.data, b.len);
	config_unmap(c);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(less); i++) {
		fd = file_with(&b, less[i]);
		assert_null(config_map(fd));
		close(fd);
	}
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_null(config_map(pipes[0]));
	assert_null(config_map(-1));
	close(pipes[0]);
	close(pipes[1]);
	buf_free(&b);
}

static void a_file_of_the_wrong_size_is_not_taken(void **state)
{
	static const int all = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	struct buf b = whole_block();
	int fd;

	(void)state;
	b.len--;
	fd = file_with(&b, all);
	assert_null(config_map(fd));
	close(fd);
	b.len = 0;
	fd = file_with(&b, all);
	assert_null(config_map(fd));
	close(fd);
	fd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (64 << 20) + 8), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, all), 0);
	assert_null(config_map(fd));
	close(fd);
	buf_free(&b);
}

/* --- the way out ----------------------------------------------------------------------------------- */

static void no_kind(struct egress_config *c) { c->proxy.kind = PROXY_NONE; }
static void other_kind(struct egress_config *c) { c->proxy.kind = PROXY_SOCKS5; }
static void other_port(struct egress_config *c) { c->proxy.port++; }
static void other_host(struct egress_config *c) { c->proxy.host++; }
static void other_user(struct egress_config *c) { c->proxy.user++; }
static void other_password(struct egress_config *c) { c->proxy.password++; }
static void no_password(struct egress_config *c) { c->proxy.password = 0; }

static void every_part_of_a_proxy_makes_another_one(void **state)
{
	static void (*const changes[])(struct egress_config *c) = {
		no_kind, other_kind, other_port, other_host, other_user, other_password, no_password,
	};
	struct buf a = whole_block();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct buf b = whole_block();

		assert_true(config_same_proxy(head_of(&a), head_of(&b)));
		changes[i](head_of(&b));
		assert_false(config_same_proxy(head_of(&a), head_of(&b)));
		assert_false(config_same_proxy(head_of(&b), head_of(&a)));
		buf_free(&b);
	}
	buf_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_launchers_block_is_taken),
		cmocka_unit_test(wrong_in_one_thing_it_is_refused),
		cmocka_unit_test(cut_anywhere_it_is_refused),
		cmocka_unit_test(only_a_file_that_cannot_change_is_taken),
		cmocka_unit_test(a_file_of_the_wrong_size_is_not_taken),
		cmocka_unit_test(every_part_of_a_proxy_makes_another_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
