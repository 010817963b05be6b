/* policy/{check,check_net,check_paths}.c: what makes no sense, and the exact words for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "policy/policy.h"

struct check_row {
	const char *settings[3][2];
	int code;
	const char *message; /* NULL with code 0 */
};

#define P NSBOX_E_POLICY
#define U NSBOX_E_UNSUPPORTED
#define ONE(k, v) { { k, v }, { NULL, NULL }, { NULL, NULL } }
#define TWO(k, v, l, w) { { k, v }, { l, w }, { NULL, NULL } }

static const struct check_row check_rows[] = {
	/* paths */
	{ ONE("fs.read", "/data"), 0, NULL },
	{ ONE("fs.read", "/data/"), 0, NULL },
	{ ONE("fs.read", "/data:/mnt/data"), 0, NULL },
	{ ONE("fs.read", "/with:colon"), 0, NULL },
	{ ONE("fs.read", "/with space\nand newline"), 0, NULL },
	{ ONE("fs.read", "/a..b/.hidden"), 0, NULL },
	{ ONE("fs.read", "data"), P, "fs.read: \"data\" is not absolute" },
	{ ONE("fs.write", "./data"), P, "fs.write: \"./data\" is not absolute" },
	{ ONE("fs.read", "/a/../b"), P,
	  "fs.read: \"/a/../b\" has an empty, \".\" or \"..\" part" },
	{ ONE("fs.read", "/a/.."), P,
	  "fs.read: \"/a/..\" has an empty, \".\" or \"..\" part" },
	{ ONE("fs.read", "/a//b"), P,
	  "fs.read: \"/a//b\" has an empty, \".\" or \"..\" part" },
	{ ONE("fs.read", "//"), P,
	  "fs.read: \"//\" has an empty, \".\" or \"..\" part" },
	{ ONE("fs.read", "/./a"), P,
	  "fs.read: \"/./a\" has an empty, \".\" or \"..\" part" },
	{ ONE("fs.read", ":/x"), P, "fs.read: \":/x\" is not absolute" },
	{ ONE("fs.read", "/a:/b:/proc"), P,
	  "fs.read: \"/proc\" is reserved: the box has a /proc of its own" },
	{ ONE("fs.read", "/a:/proc:/b"), 0, NULL }, /* a path with a colon */
	{ ONE("fs.read", "/"), P, "fs.read: \"/\" would show the whole host" },
	{ ONE("fs.read", "/:/host"), P,
	  "fs.read: \"/\" would show the whole host" },
	{ ONE("fs.read", "/data:/"), P, "fs.read: \"/\" is no place in the box" },
	{ ONE("fs.read", "/data:/a/../b"), P,
	  "fs.read: \"/a/../b\" has an empty, \".\" or \"..\" part" },
	{ ONE("fs.read", "/proc:/mnt"), P,
	  "fs.read: /proc of the host is never visible in a box" },
	{ ONE("fs.read", "/sys/kernel:/mnt"), P,
	  "fs.read: /sys of the host is never visible in a box" },
	{ ONE("fs.read", "/dev/"), P,
	  "fs.read: /dev of the host is never visible in a box" },
	{ ONE("fs.read", "/device"), 0, NULL },
	{ ONE("fs.read", "/data:/proc"), P,
	  "fs.read: \"/proc\" is reserved: the box has a /proc of its own" },
	{ ONE("fs.write", "/data:/dev/shm"), P,
	  "fs.write: \"/dev/shm\" is reserved: the box has a /dev of its own (devices.allow, limits.shm)" },
	{ ONE("fs.write", "/data:/run/nsbox/x"), P,
	  "fs.write: \"/run/nsbox/x\" is reserved: nsbox keeps its own files there" },
	{ ONE("fs.write", "/data:/run"), P,
	  "fs.write: \"/run\" is reserved: nsbox keeps its own files there" },
	{ ONE("fs.write", "/data:/run/"), P,
	  "fs.write: \"/run/\" is reserved: nsbox keeps its own files there" },
	{ ONE("fs.write", "/data:/run/other"), 0, NULL },
	{ ONE("fs.write", "/data:/runs"), 0, NULL },
	{ ONE("fs.tmpfs", "/scratch"), 0, NULL },
	{ ONE("fs.tmpfs", "/scratch:16M"), 0, NULL },
	{ ONE("fs.tmpfs", "/scratch:0"), P,
	  "fs.tmpfs: \"/scratch:0\" has no valid size" },
	{ ONE("fs.tmpfs", "/scratch:x"), P,
	  "fs.tmpfs: \"/scratch:x\" has no valid size" },
	{ ONE("fs.tmpfs", "scratch"), P,
	  "fs.tmpfs: \"scratch\" is not absolute" },
	{ ONE("fs.tmpfs", "/proc/x"), P,
	  "fs.tmpfs: \"/proc/x\" is reserved: the box has a /proc of its own" },
	{ ONE("fs.hidden", "/usr/share/doc"), 0, NULL },
	{ ONE("fs.hidden", "/"), P, "fs.hidden: \"/\" is no place in the box" },
	{ ONE("fs.protect", "Makefile"), 0, NULL },
	{ ONE("fs.protect", "/etc"), P,
	  "fs.protect: \"/etc\" is not a plain relative path" },
	{ ONE("fs.protect_home", ".zshrc"), 0, NULL },
	{ ONE("fs.protect_home", "/etc"), P,
	  "fs.protect_home: \"/etc\" is not a plain relative path" },
	{ ONE("fs.protect", "a/../../b"), P,
	  "fs.protect: \"a/../../b\" is not a plain relative path" },
	{ ONE("artifacts.paths", "out/plot.png"), 0, NULL },
	{ ONE("artifacts.paths", "out/"), 0, NULL },
	{ ONE("artifacts.paths", "a..b"), 0, NULL },
	{ ONE("artifacts.paths", "/workspace/out"), P,
	  "artifacts.paths: \"/workspace/out\" is not a plain relative path" },
	{ ONE("artifacts.paths", ".."), P,
	  "artifacts.paths: \"..\" is not a plain relative path" },
	/* one place, two things */
	{ TWO("fs.read", "/data", "fs.write", "/data/sub"), 0, NULL },
	{ TWO("fs.read", "/data", "fs.write", "/data"), P,
	  "fs.read \"/data\" and fs.write \"/data\" are at the same place in the box" },
	{ TWO("fs.read", "/a:/x", "fs.read", "/b:/x/"), P,
	  "fs.read \"/a:/x\" and fs.read \"/b:/x/\" are at the same place in the box" },
	{ TWO("fs.read", "/a", "fs.tmpfs", "/a:1M"), P,
	  "fs.read \"/a\" and fs.tmpfs \"/a:1M\" are at the same place in the box" },
	{ TWO("fs.read", "/a", "fs.hidden", "/a"), P,
	  "fs.read \"/a\" and fs.hidden \"/a\" are at the same place in the box" },
	{ TWO("fs.read", "/a", "fs.hidden", "/a/b"), 0, NULL },
	/* openings */
	{ ONE("net.mode", "filtered"), 0, NULL },
	{ ONE("net.mode", "open"), 0, NULL },
	{ TWO("net.mode", "open", "net.path", "inlet"), 0, NULL },
	{ TWO("net.mode", "open", "net.path", "veth"), 0, NULL },
	{ ONE("net.path", "veth"), P, "net.path is veth, but net.mode is disabled" },
	{ { { "net.mode", "filtered" }, { "net.path", "veth" }, { "net.allow_out", "192.0.2.1" } },
	  0, NULL },
	{ { { "net.mode", "filtered" }, { "net.path", "veth" }, { "net.allow_out", "a.test" } }, P,
	  "\"a.test\" cannot be enforced with net.path=veth: its rules are for IPv4 addresses, CIDRs and ALL_TRAFFIC" },
	{ { { "net.mode", "open" }, { "net.path", "veth" }, { "net.proxy", "http://u:secret@p:1" } }, P,
	  "net.proxy cannot be enforced with net.path=veth" },
	{ TWO("net.mode", "open", "enforce.optional", "net.mode"), P,
	  "enforce.optional: net.mode is isolation, which is never optional" },
	{ ONE("net.allow_out", "example.org"), P,
	  "net.allow_out is given, but net.mode is disabled: nothing can be reached" },
	{ ONE("net.allow_private", "10.0.0.0/8"), P,
	  "net.allow_private is given, but net.mode is disabled: nothing can be reached" },
	{ ONE("net.allow_private", "intranet"), P,
	  "net.allow_private: entry 1, \"intranet\": it is not an address or CIDR" },
	{ ONE("net.allow_private", "10.0.0.0/33"), P,
	  "net.allow_private: entry 1, \"10.0.0.0/33\": its prefix is not a number from 0 to 32" },
	{ ONE("net.allow_private", "fd00::/129"), P,
	  "net.allow_private: entry 1, \"fd00::/129\": its prefix is not a number from 0 to 128" },
	{ ONE("net.allow_private", "10.0.0.1/"), P,
	  "net.allow_private: entry 1, \"10.0.0.1/\": its prefix is not a number from 0 to 32" },
	{ ONE("net.allow_private", "10.0.0.1:80"), P,
	  "net.allow_private: entry 1, \"10.0.0.1:80\": it is an address with a port or protocol" },
	{ ONE("net.deny_out", "*.example.org:443"), 0, NULL },
	{ TWO("net.deny_out", "example.org", "net.deny_out", "user@example.org"), P,
	  "net.deny_out: entry 2: it names a user" },
	/* who asks and connects */
	{ ONE("net.resolvers", "192.0.2.53"), 0, NULL },
	{ ONE("net.resolvers", "192.0.2.53:5353"), 0, NULL },
	{ ONE("net.resolvers", "[2001:db8::53]:53"), 0, NULL },
	{ ONE("net.resolvers", "fe80::1%eth0"), 0, NULL },
	{ ONE("net.resolvers", "dns.test"), P,
	  "net.resolvers: \"dns.test\" is not the address of a server" },
	{ ONE("net.resolvers", "192.0.2.53:0"), P,
	  "net.resolvers: \"192.0.2.53:0\" is not the address of a server" },
	{ ONE("net.proxy", "http://proxy.test:3128"), 0, NULL },
	{ ONE("net.proxy", "socks5://u:p@ss@[2001:db8::1]:1080/"), 0, NULL },
	{ ONE("net.proxy", "socks5h://192.0.2.1:1080"), 0, NULL },
	{ ONE("net.proxy", "https://u:secret@proxy.test:3128"), P,
	  "net.proxy is not the URL of a proxy" },
	{ ONE("net.proxy", "http://u:secret@proxy.test"), P,
	  "net.proxy is not the URL of a proxy" },
	{ ONE("net.proxy", "http://@proxy.test:1"), P, "net.proxy is not the URL of a proxy" },
	{ ONE("net.proxy", "http://proxy.test:1/path"), P, "net.proxy is not the URL of a proxy" },
	{ ONE("net.publish", "8080:80"), 0, NULL },
	{ ONE("net.publish", "0.0.0.0:8080:80"), 0, NULL },
	{ ONE("net.publish", "[::1]:8080:80"), 0, NULL },
	{ ONE("net.publish", "8080"), P,
	  "net.publish: \"8080\" is not [ADDRESS:]HOSTPORT:PORT" },
	{ ONE("net.publish", "localhost:8080:80"), P,
	  "net.publish: \"localhost:8080:80\" is not [ADDRESS:]HOSTPORT:PORT" },
	{ ONE("net.publish", "8080:65536"), P,
	  "net.publish: \"8080:65536\" is not [ADDRESS:]HOSTPORT:PORT" },
	{ TWO("net.publish", "8080:80", "net.publish", "8080:81"), P,
	  "net.publish: \"8080:80\" and \"8080:81\" have the same port of the host" },
	{ TWO("net.publish", "8080:80", "net.publish", "80801:81"), P,
	  "net.publish: \"80801:81\" is not [ADDRESS:]HOSTPORT:PORT" },
	{ ONE("packages.install", "true"), 0, NULL },
	{ TWO("packages.list", "numpy", "packages.list", "six == 1.16.0"), 0, NULL },
	{ TWO("packages.list", "numpy", "packages.list", "-r x"), P,
	  "packages.list: \"-r x\" is flag-style, and no flag reaches pip" },
	{ ONE("imports.allow", ""), 0, NULL },
	{ ONE("imports.allow", "null"), 0, NULL },
	/* environment: values are never shown */
	{ ONE("env.set", "A_1=b=c"), 0, NULL },
	{ ONE("env.set", "LD_PRELOAD=x"), 0, NULL },
	{ ONE("env.set", "SECRET"), P, "env.set: item 1 is not NAME=VALUE" },
	{ ONE("env.set", "1A=x"), P, "env.set: item 1 is not NAME=VALUE" },
	{ ONE("env.set", "A-B=x"), P, "env.set: item 1 is not NAME=VALUE" },
	{ ONE("env.set", "=x"), P, "env.set: item 1 is not NAME=VALUE" },
	{ ONE("env.pass", "TOKEN"), 0, NULL },
	{ ONE("env.pass", "TOKEN=hunter2"), P, "env.pass: item 1 has a value" },
	{ ONE("env.pass", "A B"), P,
	  "env.pass: \"A B\" is not a variable's name" },
	/* calls and devices */
	{ TWO("syscalls.allow", "ptrace", "syscalls.deny", "mount"), 0, NULL },
	{ TWO("syscalls.allow", "ptrace", "syscalls.deny", "ptrace"), P,
	  "syscalls.allow and syscalls.deny both name ptrace" },
	{ ONE("syscalls.deny", "Mount"), P,
	  "syscalls.deny: \"Mount\" is not the name of a system call" },
	{ ONE("devices.allow", "kvm"), 0, NULL },
	{ ONE("devices.allow", "nvidia0"), 0, NULL },
	{ ONE("devices.allow", "dri/renderD128"), 0, NULL },
	{ ONE("devices.allow", "mem"), P,
	  "devices.allow: \"mem\" is no device that a box may have" },
	{ ONE("devices.allow", "kmem"), P,
	  "devices.allow: \"kmem\" is no device that a box may have" },
	{ ONE("devices.allow", "port"), P,
	  "devices.allow: \"port\" is no device that a box may have" },
	{ ONE("devices.allow", "sda"), P,
	  "devices.allow: \"sda\" is no device that a box may have" },
	{ ONE("devices.allow", "nvidia"), P,
	  "devices.allow: \"nvidia\" is no device that a box may have" },
	{ ONE("devices.allow", "nvidia0/../mem"), P,
	  "devices.allow: \"nvidia0/../mem\" is no device that a box may have" },
	{ ONE("devices.allow", "dri/renderD128x"), P,
	  "devices.allow: \"dri/renderD128x\" is no device that a box may have" },
	{ ONE("devices.allow", "/dev/kvm"), P,
	  "devices.allow: \"/dev/kvm\" is no device that a box may have" },
	/* strength */
	{ ONE("enforce.optional", "limits.memory"), 0, NULL },
	{ ONE("enforce.optional", "limits.memry"), P,
	  "enforce.optional: unknown key \"limits.memry\"" },
	{ ONE("enforce.optional", "syscalls.level"), P,
	  "enforce.optional: syscalls.level is isolation, which is never optional" },
	{ TWO("enforce.floor", "kernel", "enforce.degraded", "true"), P,
	  "enforce.floor=kernel and enforce.degraded contradict each other" },
	{ ONE("enforce.floor", "kernel"), 0, NULL },
};

static void the_check_says_exactly_what_makes_no_sense(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(check_rows); i++) {
		const struct check_row *r = &check_rows[i];
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct policy p = { 0 };
		int code;

		assert_int_equal(policy_init(&p, NULL), 0);
		for (int s = 0; s < 3 && r->settings[s][0]; s++)
			assert_int_equal(policy_set(&p, r->settings[s][0],
						    r->settings[s][1], NULL), 0);
		code = policy_check(&p, &err);
		if (code != r->code)
			fail_msg("%s=%s: got %d (%s)", r->settings[0][0],
				 r->settings[0][1], code, err.message);
		assert_string_equal(err.message, r->message ? r->message : "");
		policy_free(&p);
	}
}

static void a_struct_that_bypassed_the_setter_is_range_checked(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct policy p = { 0 };

	(void)state;
	assert_int_equal(policy_init(&p, NULL), 0);
	p.limits.disk = 0; /* a tmpfs without any limit */
	assert_int_equal(policy_check(&p, &err), NSBOX_E_POLICY);
	assert_string_equal(err.message, "limits.disk: 0 is out of range");
	policy_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_check_says_exactly_what_makes_no_sense),
		cmocka_unit_test(a_struct_that_bypassed_the_setter_is_range_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
