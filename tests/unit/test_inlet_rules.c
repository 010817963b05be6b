/*
 * The rules of the inlet: who may touch them, and what nft(8) reads back of them.
 */
#include "tests/unit/inlet_box.h"

#include <linux/capability.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/syscall.h>

/* ---------------------------------------------------------------- without power -- */

static void drop_capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

	if (syscall(SYS_capset, &h, none) < 0)
		_exit(112);
}

/* The errno that the kernel answers a request with */
static int netlink_answer(int protocol, int type, int flags, int family)
{
	struct {
		struct nlmsghdr h;
		union {
			struct nfgenmsg nf;
			struct rtmsg rt;
		} u;
	} req = { .h = { .nlmsg_type = (uint16_t)type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) } };
	char reply[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct nlmsghdr *h = (struct nlmsghdr *)reply;
	ssize_t n;

	req.h.nlmsg_len = NLMSG_LENGTH(protocol == NETLINK_ROUTE ? sizeof(req.u.rt) : sizeof(req.u.nf));
	if (protocol == NETLINK_ROUTE)
		req.u.rt = (struct rtmsg){ .rtm_family = (uint8_t)family, .rtm_table = RT_TABLE_LOCAL,
					   .rtm_type = RTN_LOCAL, .rtm_scope = RT_SCOPE_NOWHERE };
	else
		req.u.nf.nfgen_family = (uint8_t)family;
	send(fd, &req, req.h.nlmsg_len, 0);
	n = recv(fd, reply, sizeof(reply), 0);
	close(fd);
	if (n < (ssize_t)sizeof(*h))
		return -1;
	return h->nlmsg_type == NLMSG_ERROR ? -((struct nlmsgerr *)NLMSG_DATA(h))->error : 0;
}

/* Flushing is a batch: begin, delete every table, end. */
static int flush_answer(void)
{
	struct {
		struct nlmsghdr h;
		struct nfgenmsg g;
	} m[3] = { 0 };
	const int types[] = { NFNL_MSG_BATCH_BEGIN, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE,
			      NFNL_MSG_BATCH_END };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	char reply[4096];
	struct nlmsghdr *h = (struct nlmsghdr *)reply;

	for (int i = 0; i < 3; i++) {
		m[i].h.nlmsg_len = sizeof(m[i]);
		m[i].h.nlmsg_type = (uint16_t)types[i];
		m[i].h.nlmsg_flags = NLM_F_REQUEST | (i == 1 ? NLM_F_ACK : 0);
		m[i].h.nlmsg_seq = (uint32_t)i + 1;
		m[i].g.res_id = i == 1 ? 0 : htons(NFNL_SUBSYS_NFTABLES);
	}
	send(fd, m, sizeof(m), 0);
	if (recv(fd, reply, sizeof(reply), 0) < (ssize_t)sizeof(*h) || h->nlmsg_type != NLMSG_ERROR)
		return -1;
	close(fd);
	return -((struct nlmsgerr *)NLMSG_DATA(h))->error;
}

static int opened(int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? errno : 0;
}

static int option_set(int level, int name, int value)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? errno : 0;

	close(fd);
	return r;
}

static int bound(const char *ip, uint16_t port)
{
	union address at = address(ip, port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	r = bind(fd, &at.any, size_of(&at)) < 0 ? errno : 0;
	close(fd);
	return r;
}

static void powers(const char *who, bool is_last)
{
	const struct {
		const char *what;
		int got;
	} rows[] = {
		{ "mark", option_set(SOL_SOCKET, SO_MARK, INLET_MARK) },
		{ "transparent", option_set(IPPROTO_IP, IP_TRANSPARENT, 1) },
		{ "packet", opened(AF_PACKET, SOCK_DGRAM, 0) },
		{ "raw", opened(AF_INET, SOCK_RAW, IPPROTO_RAW) },
		{ "port 1", bound("0.0.0.0", 1) },
		{ "port 2", bound("127.7.7.7", INLET_PORT) },
		{ "port 53", bound("127.0.0.1", INLET_DNS_PORT) },
		{ "list", netlink_answer(NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE,
					 NLM_F_DUMP, AF_UNSPEC) },
		/* last: with the power to do it, it is done */
		{ "route", is_last ? netlink_answer(NETLINK_ROUTE, RTM_DELROUTE, NLM_F_ACK, AF_INET) : 0 },
		{ "flush", flush_answer() },
	};
	char what[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(what, sizeof(what), "%s: %s", who, rows[i].what);
		note(what, rows[i].got);
	}
}

static void with_power(void)
{
	gated_box();
	powers("root", true);
}

static void without_power(void)
{
	gated_box();
	drop_capabilities();
	powers("box", true);
}

static void a_box_without_capabilities_cannot_touch_its_network(void **state)
{
	static const struct {
		const char *what;
		int root, box;
	} rows[] = {
		{ "mark", 0, EPERM }, { "transparent", 0, EPERM }, { "packet", 0, EPERM },
		{ "raw", 0, EPERM }, { "port 1", 0, EACCES }, { "port 2", EADDRINUSE, EACCES },
		{ "port 53", EADDRINUSE, EACCES }, { "list", 0, EPERM }, { "route", 0, EPERM },
		{ "flush", 0, EPERM },
	};
	char what[64];

	(void)state;
	for (int i = 0; i < 2; i++) {
		scene(i ? without_power : with_power);
		for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			snprintf(what, sizeof(what), "%s: %s", i ? "box" : "root", rows[k].what);
			expect(what, i ? rows[k].box : rows[k].root);
		}
	}
}

/* ----------------------------------------------------------------------- oracle -- */

/* What nft(8) lists, without the handles, which are numbered as things are made. */
static void list_rules(void)
{
	FILE *f = popen("nft -j list ruleset", "r");
	size_t n;
	char *at;

	if (!f)
		_exit(114);
	n = fread(seen->text, 1, sizeof(seen->text) - 1, f);
	seen->text[n] = '\0';
	note("nft", pclose(f));
	while ((at = strstr(seen->text, "\"handle\": "))) {
		char *end = at + strcspn(at, ",}");

		end += end[0] == ',' ? 2 : 0;
		memmove(at, end, strlen(end) + 1);
	}
}

static void our_rules(void)
{
	gated_box();
	list_rules();
}

static void rules_in_words(void)
{
	own_namespaces();
	note("read", system("nft -f tests/unit/inlet.nft"));
	list_rules();
}

static void nft_reads_back_the_rules_that_were_meant(void **state)
{
	static char meant[sizeof(seen->text)];

	(void)state;
	if (system("nft --version >/dev/null 2>&1") != 0) {
		print_message("SKIPPED: no nft here (package nftables): the rules are not read back\n");
		skip();
	}
	scene(rules_in_words);
	expect("read", 0);
	expect("nft", 0);
	assert_non_null(strstr(seen->text, "tproxy"));
	memcpy(meant, seen->text, sizeof(meant));
	scene(our_rules);
	expect("nft", 0);
	assert_string_equal(seen->text, meant);
}

/* -------------------------------------------------------------------------- hints -- */

static void a_kernel_without_nf_tables_is_recognised(void **state)
{
	const struct assemble_how how = { .inlet = INLET_GATED };
	struct plan *p = network_plan(&how);
	int rules = -1, routes = -1;

	(void)state;
	for (uint32_t i = 0; i < p->op_count; i++) {
		if (plan_ops(p)[i].kind != OP_NETLINK)
			continue;
		if (plan_ops(p)[i].n == NETLINK_NETFILTER)
			rules = (int)i;
		else
			routes = (int)i;
	}
	assert_true(rules > 0 && routes > 0);
	assert_true(assemble_lacks_rules(p, rules, EPROTONOSUPPORT));
	assert_true(assemble_lacks_rules(p, rules, EOPNOTSUPP));
	assert_true(assemble_lacks_rules(p, rules, ENOENT));
	assert_false(assemble_lacks_rules(p, rules, EPERM));
	assert_false(assemble_lacks_rules(p, rules, ENOMEM));
	assert_false(assemble_lacks_rules(p, routes, EOPNOTSUPP));
	assert_false(assemble_lacks_rules(p, -1, EOPNOTSUPP));
	assert_false(assemble_lacks_rules(p, (int)p->op_count, EOPNOTSUPP));
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_box_without_capabilities_cannot_touch_its_network),
		cmocka_unit_test(nft_reads_back_the_rules_that_were_meant),
		cmocka_unit_test(a_kernel_without_nf_tables_is_recognised),
	};

	return run_inlet_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
