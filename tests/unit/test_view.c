/* The host view: the operations that every policy gets. */
#include "tests/unit/view_build.h"

/* -------------------------------------------------------------- order -- */

static void the_operations_begin_with_the_root_and_end_inside_it(void **state)
{
	const struct op *ops;
	uint32_t n;

	(void)state;
	must_build();
	ops = plan_ops(plan);
	n = plan->op_count;
	assert_int_equal(ops[0].kind, OP_PRIVATE);
	assert_int_equal(ops[1].kind, OP_ROOT);
	assert_int_equal(ops[n - 3].kind, OP_READONLY);
	assert_int_equal(ops[n - 3].flags & OP_REC, 0); /* /tmp stays writable */
	assert_string_equal(dst_of(&ops[n - 3]), "");
	assert_int_equal(ops[n - 2].kind, OP_PIVOT);
	assert_int_equal(ops[n - 1].kind, OP_CHDIR);
	assert_string_equal(src_of(&ops[n - 1]), "/workspace");
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(ops[i].stage, 6);
}

static void no_target_leaves_the_root(void **state)
{
	(void)state;
	must_build();
	for (uint32_t i = 0; i < plan->op_count; i++) {
		const char *dst = dst_of(&plan_ops(plan)[i]);
		owned_mem char *clean = dst[0] ? path_clean("/", dst) : NULL;

		assert_int_not_equal(dst[0], '/');
		assert_true(!dst[0] || (clean && strcmp(clean + 1, dst) == 0));
	}
}

/* ------------------------------------------------------------ the system -- */

static void every_bind_of_the_preset_view_is_read_only_and_pinned(void **state)
{
	unsigned binds = 0;

	(void)state;
	must_build();
	assert_non_null(find(OP_BIND, "/usr"));
	assert_int_equal(find(OP_BIND, "/usr")->flags & OP_REC, OP_REC);
	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan_ops(plan)[i];

		if (op->kind != OP_BIND)
			continue;
		binds++;
		assert_int_not_equal(op->pin_ino, 0);
		if (path_below(src_of(op), "/dev"))
			assert_int_equal(op->flags & (OP_NODEV_OFF | OP_IS_FILE),
					 OP_NODEV_OFF | OP_IS_FILE);
		else
			assert_int_equal(op->flags & (OP_RDONLY | OP_NODEV_OFF), OP_RDONLY);
	}
	assert_in_range(binds, 6, 20);
	assert_null(find(OP_ATTACH, "/usr"));
}

static void bin_and_lib_are_as_on_the_host(void **state)
{
	char target[256] = "";

	(void)state;
	must_build();
	if (readlink("/bin", target, sizeof(target) - 1) > 0) {
		assert_non_null(find(OP_SYMLINK, "/bin"));
		assert_string_equal(src_of(find(OP_SYMLINK, "/bin")), target);
	} else {
		assert_non_null(find(OP_BIND, "/bin"));
	}
}

static void nothing_of_the_homes_run_and_secrets_is_named(void **state)
{
	static const char *const absent[] = {
		"/root",	    "/sys",	     "/mnt",	    "/boot",	 "/etc/shadow",
		"/etc/machine-id",  "/etc/ssl",	     "/etc/npmrc",  "/etc/sudoers",
		"/etc/ssl/private", "/etc/pip.conf", "/etc/ssh",    "/etc/gitconfig",
		"/dev/mem",	    "/dev/kmsg",     "/dev/kvm",    "/dev/sda",
	};
	static const char *const empty[] = { "/home", "/run", "/opt", "/var/lib" };

	(void)state;
	must_build();
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		assert_false(names(absent[i]));
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
		assert_non_null(find(OP_DIR, empty[i]));
		assert_null(find(OP_BIND, empty[i]));
	}
	for (uint32_t i = 0; i < plan->op_count; i++) { /* by source as well */
		const struct op *op = &plan_ops(plan)[i];

		if (op->kind == OP_BIND)
			assert_true(path_below(src_of(op), "/usr") ||
				    path_below(src_of(op), "/etc") ||
				    path_below(src_of(op), "/dev") || path_is_system(src_of(op)));
	}
}

static void etc_has_our_own_passwd_and_the_hosts_public_files(void **state)
{
	const struct op *op;
	const char *text;

	(void)state;
	must_build();
	op = find(OP_FILE, "/etc/passwd");
	assert_non_null(op);
	text = (const char *)plan + op->blob;
	assert_non_null(memmem(text, op->blob_len, "nsbox:x:1000:1000:nsbox:/workspace:/bin/sh\n", 43));
	assert_int_equal(op->n, 0444);
	if (access("/etc/ld.so.cache", R_OK) == 0)
		assert_true(find(OP_FILE, "/etc/ld.so.cache") || find(OP_BIND, "/etc/ld.so.cache"));
	if (access("/etc/ssl/certs", R_OK) == 0)
		assert_non_null(find(OP_BIND, "/etc/ssl/certs"));
	assert_non_null(find(OP_FILE, "/etc/resolv.conf"));
}

static void dev_is_a_tmpfs_of_its_own_and_read_only_in_the_end(void **state)
{
	static const char *const nodes[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
					     "/dev/urandom" };

	(void)state;
	must_build();
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		assert_true(comes_before(find(OP_TMPFS, "/dev"), find(OP_BIND, nodes[i])));
		assert_true(comes_before(find(OP_BIND, nodes[i]), find(OP_READONLY, "/dev")));
	}
	assert_non_null(find(OP_DEVPTS, "/dev/pts"));
	assert_string_equal(src_of(find(OP_SYMLINK, "/dev/ptmx")), "pts/ptmx");
	assert_string_equal(src_of(find(OP_SYMLINK, "/dev/fd")), "/proc/self/fd");
	assert_int_equal(find(OP_TMPFS, "/dev/shm")->n, policy.limits.shm);
	assert_int_equal(find(OP_TMPFS, "/dev/shm")->flags >> 32, 01777);
	assert_non_null(find(OP_MQUEUE, "/dev/mqueue"));
}

static void allowed_devices_are_characters_below_dev(void **state)
{
	(void)state;
	add(&policy.devices.allow, "ptmx");
	must_build();
	assert_non_null(find(OP_BIND, "/dev/ptmx"));
	strlist_free(&policy.devices.allow);
	add(&policy.devices.allow, "../etc/passwd");
	assert_refused(NSBOX_E_POLICY, "not a name below /dev");
	add(&policy.devices.allow, "/etc/passwd");
	assert_refused(NSBOX_E_POLICY, "not a name below /dev");
	add(&policy.devices.allow, "no-such-device");
	assert_refused(NSBOX_E_POLICY, "/dev/no-such-device");
	add(&policy.devices.allow, "shm");
	assert_refused(NSBOX_E_POLICY, "not a character device");
}

static void proc_on_each_rung(void **state)
{
	static const char *const hidden[] = { "/proc/sys",   "/proc/sysrq-trigger", "/proc/irq",
					      "/proc/bus",   "/proc/kcore",	    "/proc/kallsyms",
					      "/proc/keys",  "/proc/cmdline" };

	(void)state;
	must_build();
	assert_int_equal(find(OP_PROC, "/proc")->m, 0);
	assert_int_equal(view.notes.n, 0);
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		assert_true(comes_before(find(OP_PROC, "/proc"), find(OP_MASK, hidden[i])));
	request.proc = PROC_SUBSET;
	must_build();
	assert_int_equal(find(OP_PROC, "/proc")->m, 1);
	assert_int_equal(view.notes.n, 1);
	assert_non_null(strstr(view.notes.v[0], "subset=pid"));
	assert_null(find(OP_MASK, "/proc/sys"));
	request.proc = PROC_SYNTHETIC;
	must_build();
	assert_null(find(OP_PROC, "/proc"));
	assert_int_equal(view.notes.n, 1);
	assert_non_null(strstr(view.notes.v[0], "made up"));
	assert_non_null(find(OP_TMPFS, "/proc"));
	assert_true(comes_before(find(OP_FILE, "/proc/meminfo"), find(OP_READONLY, "/proc")));
	assert_non_null(find(OP_FILE, "/proc/cpuinfo"));
}

static void tmp_and_workspace_are_sized_in_bytes_and_inodes(void **state)
{
	(void)state;
	policy.limits.tmp = 8 << 20;
	policy.limits.disk = 64 << 20;
	must_build();
	assert_int_equal(find(OP_TMPFS, "/tmp")->n, 8 << 20);
	assert_int_equal(find(OP_TMPFS, "/tmp")->m, 2048);
	assert_int_equal(find(OP_TMPFS, "/tmp")->flags >> 32, 01777);
	assert_int_equal(find(OP_TMPFS, "/workspace")->n, 64 << 20);
	assert_int_equal(find(OP_TMPFS, "/workspace")->m, 16384);
	assert_int_equal(find(OP_TMPFS, "/workspace")->flags >> 32, 0755);
	assert_true(strlist_has(&view.writable, "/tmp"));
	assert_true(strlist_has(&view.writable, "/workspace"));
	assert_true(strlist_has(&view.writable, "/dev"));
	assert_false(strlist_has(&view.writable, "/usr"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_operations_begin_with_the_root_and_end_inside_it),
		CASE(no_target_leaves_the_root),
		CASE(every_bind_of_the_preset_view_is_read_only_and_pinned),
		CASE(bin_and_lib_are_as_on_the_host),
		CASE(nothing_of_the_homes_run_and_secrets_is_named),
		CASE(etc_has_our_own_passwd_and_the_hosts_public_files),
		CASE(dev_is_a_tmpfs_of_its_own_and_read_only_in_the_end),
		CASE(allowed_devices_are_characters_below_dev),
		CASE(proc_on_each_rung),
		CASE(tmp_and_workspace_are_sized_in_bytes_and_inodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
