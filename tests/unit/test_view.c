/* The host view as operations of a plan: what is in it, in which order, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "rootfs/paths.h"
#include "rootfs/source.h"
#include "rootfs/view.h"

static char dir[64];
static struct policy policy;
static struct view view;
static struct view_request request;
static struct plan *plan;
static struct nsbox_error err;

static void reset(void)
{
	free(plan);
	plan = NULL;
	view_free(&view);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
}

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/nsbox-view-XXXXXX");
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	if (!mkdtemp(dir) || policy_init(&policy, &err) < 0)
		return -1;
	strlist_free(&policy.fs.protect);
	strlist_free(&policy.fs.protect_home);
	request = (struct view_request){
		.policy = &policy, .caller_cwd = "/", .owner_uid = geteuid(),
		.owner_gid = getegid(), .stage = 6,
	};
	return 0;
}

static int finish(void **state)
{
	char cmd[128];

	(void)state;
	reset();
	policy_free(&policy);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static const char *in(const char *fmt, ...)
{
	static char paths[8][512];
	static int at;
	char *p = paths[at = (at + 1) % 8];
	int n = snprintf(p, 512, "%s/", dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p + n, (size_t)(512 - n), fmt, ap);
	va_end(ap);
	return p;
}

static void shell(const char *text)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "cd %s && %s", dir, text);
	assert_int_equal(system(cmd), 0);
}

static int build(void)
{
	struct plan_builder b = { 0 };
	int rc;

	reset();
	rc = view_build(&b, &request, &view, &err);
	if (rc == 0) {
		plan = plan_freeze(&b, &err);
		assert_non_null(plan);
	}
	plan_builder_free(&b);
	return rc;
}

static void must_build(void)
{
	int rc = build();

	if (rc != 0)
		fail_msg("%s (%s)", err.message, err.hint);
}

static const char *dst_of(const struct op *op)
{
	const char *dst = plan_str(plan, op->dst);

	return dst ? dst : "";
}

static const char *src_of(const struct op *op)
{
	const char *src = plan_str(plan, op->src);

	return src ? src : "";
}

/* The n-th operation of a kind at dst (absolute path in the box), or NULL. */
static const struct op *find(enum op_kind kind, const char *dst)
{
	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct op *op = &plan_ops(plan)[i];

		if (op->kind == kind && strcmp(dst_of(op), dst + (dst[0] == '/')) == 0)
			return op;
	}
	return NULL;
}

static bool names(const char *dst)
{
	for (int k = 0; k < OP_COUNT; k++)
		if (find((enum op_kind)k, dst))
			return true;
	return false;
}

static bool comes_before(const struct op *a, const struct op *b)
{
	assert_non_null(a);
	assert_non_null(b);
	return a < b;
}

static void add(struct strlist *l, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert_int_equal(strlist_add(l, text), 0);
}

static void assert_refused(int code, const char *words)
{
	assert_int_equal(build(), code);
	if (!strstr(err.message, words))
		fail_msg("\"%s\" does not say \"%s\"", err.message, words);
	assert_null(view.workdir);
	strlist_free(&policy.fs.read);
	strlist_free(&policy.fs.write);
	strlist_free(&policy.fs.tmpfs);
	strlist_free(&policy.fs.hidden);
	strlist_free(&policy.devices.allow);
}

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

/* --------------------------------------------------------------- binds -- */

static void read_and_write_appear_at_the_same_place_or_at_dest(void **state)
{
	const struct op *op;
	struct stat st;

	(void)state;
	shell("mkdir ro rw other && touch file");
	add(&policy.fs.read, "%s", in("ro"));
	add(&policy.fs.read, "%s:/data/x", in("other"));
	add(&policy.fs.read, "%s", in("file"));
	add(&policy.fs.write, "%s", in("rw"));
	must_build();
	op = find(OP_BIND, in("ro"));
	assert_non_null(op);
	assert_int_equal(stat(in("ro"), &st), 0);
	assert_int_equal(op->pin_ino, st.st_ino);
	assert_int_equal(op->pin_dev, st.st_dev);
	assert_int_equal(op->flags & (OP_RDONLY | OP_REC | OP_MAKE_DST | OP_IS_FILE),
			 OP_RDONLY | OP_REC | OP_MAKE_DST);
	assert_string_equal(src_of(find(OP_BIND, "/data/x")), in("other"));
	assert_int_equal(find(OP_BIND, in("file"))->flags & OP_IS_FILE, OP_IS_FILE);
	assert_int_equal(find(OP_BIND, in("rw"))->flags & OP_RDONLY, 0);
	assert_true(strlist_has(&view.writable, in("rw")));
	assert_false(strlist_has(&view.writable, in("ro")));
}

static void odd_names_come_through(void **state)
{
	static const char *const odd[] = { "a b", "new\nline", "back\\slash", "co:lon", "-x", "\xff" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		assert_int_equal(mkdir(in("%s", odd[i]), 0755), 0);
		add(&policy.fs.read, "%s", in("%s", odd[i]));
		add(&policy.fs.read, "%s:/odd/%s", in("%s", odd[i]), odd[i]);
	}
	must_build();
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		char dst[64];

		assert_non_null(find(OP_BIND, in("%s", odd[i])));
		snprintf(dst, sizeof(dst), "/odd/%s", odd[i]);
		assert_string_equal(src_of(find(OP_BIND, dst)), in("%s", odd[i]));
	}
}

static void relative_and_dotted_paths_mean_what_the_caller_sees(void **state)
{
	(void)state;
	shell("mkdir -p a/b c && ln -s a/b link");
	request.caller_cwd = dir;
	add(&policy.fs.read, "a");
	add(&policy.fs.read, "./c/");
	add(&policy.fs.read, "link/../b:/via-link"); /* a/b/../b, not ./b */
	must_build();
	assert_non_null(find(OP_BIND, in("a")));
	assert_non_null(find(OP_BIND, in("c")));
	assert_non_null(find(OP_BIND, "/via-link"));
	strlist_free(&policy.fs.read);
	add(&policy.fs.read, "link/../b"); /* without DEST: where it really is */
	must_build();
	assert_non_null(find(OP_BIND, in("a/b")));
}

static void parents_are_mounted_before_what_lies_in_them(void **state)
{
	(void)state;
	shell("mkdir -p top/mid/low w");
	add(&policy.fs.read, "%s:/x/y/z", in("w"));
	add(&policy.fs.read, "%s", in("top/mid/low"));
	add(&policy.fs.write, "%s", in("top/mid"));
	add(&policy.fs.read, "%s", in("top"));
	add(&policy.fs.tmpfs, "/x/y:1M");
	add(&policy.fs.tmpfs, "/workspace/cache");
	must_build();
	assert_true(comes_before(find(OP_BIND, in("top")), find(OP_BIND, in("top/mid"))));
	assert_true(comes_before(find(OP_BIND, in("top/mid")), find(OP_BIND, in("top/mid/low"))));
	assert_true(comes_before(find(OP_TMPFS, "/x/y"), find(OP_BIND, "/x/y/z")));
	assert_true(comes_before(find(OP_TMPFS, "/workspace"), find(OP_TMPFS, "/workspace/cache")));
	assert_true(comes_before(find(OP_TMPFS, "/tmp"), find(OP_BIND, in("top"))));
	assert_int_equal(find(OP_TMPFS, "/x/y")->n, 1 << 20);
	assert_int_equal(find(OP_TMPFS, "/workspace/cache")->n, policy.limits.tmp);
}

static void what_the_policy_puts_on_workspace_or_tmp_replaces_the_preset(void **state)
{
	(void)state;
	add(&policy.fs.write, "%s:/workspace", dir);
	add(&policy.fs.tmpfs, "/tmp:1M");
	must_build();
	assert_null(find(OP_TMPFS, "/workspace"));
	assert_non_null(find(OP_BIND, "/workspace"));
	assert_int_equal(find(OP_TMPFS, "/tmp")->n, 1 << 20);
}

static void sources_and_targets_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	shell("mkdir d && touch f && mkfifo p && ln -s / slash");
	add(&policy.fs.read, "%s", in("none"));
	assert_refused(NSBOX_E_POLICY, "none");
	assert_int_equal(err.os_errno, ENOENT);
	add(&policy.fs.read, "%s", in("p"));
	assert_refused(NSBOX_E_POLICY, "is a FIFO");
	add(&policy.fs.read, "/:/host");
	assert_refused(NSBOX_E_POLICY, "is the whole host");
	add(&policy.fs.read, "%s:/host", in("slash"));
	assert_refused(NSBOX_E_POLICY, "is the whole host");
	add(&policy.fs.read, "/proc:/p");
	assert_refused(NSBOX_E_POLICY, "is in /proc");
	add(&policy.fs.read, "/proc/self/root/etc:/p");
	assert_int_equal(build(), 0); /* control: by descriptor that is /etc */
	strlist_free(&policy.fs.read);
	add(&policy.fs.read, "/sys/kernel:/k");
	assert_refused(NSBOX_E_POLICY, "is in /sys");
	add(&policy.fs.read, "/dev/null:/n");
	assert_refused(NSBOX_E_POLICY, "is in /dev");
	add(&policy.fs.read, "%s:/proc/x", in("d"));
	assert_refused(NSBOX_E_POLICY, "mount on /proc/x");
	add(&policy.fs.read, "%s:/", in("d"));
	assert_refused(NSBOX_E_POLICY, "mount on /");
	add(&policy.fs.read, "%s:/a/../b", in("d"));
	assert_refused(NSBOX_E_POLICY, "without ..");
	add(&policy.fs.read, "%s:/run/nsbox/x", in("d"));
	assert_refused(NSBOX_E_POLICY, "nsbox keeps its own files");
	add(&policy.fs.read, "%s:/run", in("d"));
	assert_refused(NSBOX_E_POLICY, "nsbox keeps its own files");
	add(&policy.fs.tmpfs, "/x:many");
	assert_refused(NSBOX_E_POLICY, "malformed size");
	add(&policy.fs.read, "");
	assert_refused(NSBOX_E_POLICY, "is not PATH");
	add(&policy.fs.hidden, "relative");
	assert_refused(NSBOX_E_POLICY, "absolute path");
}

static void a_place_has_one_meaning(void **state)
{
	(void)state;
	shell("mkdir a b");
	add(&policy.fs.read, "%s", in("a"));
	add(&policy.fs.read, "%s", in("a/"));
	must_build(); /* the same twice is fine, and mounted once */
	strlist_free(&policy.fs.read);
	add(&policy.fs.read, "%s", in("a"));
	add(&policy.fs.write, "%s", in("a"));
	assert_refused(NSBOX_E_POLICY, "both read-only and writable");
	add(&policy.fs.read, "%s:/x", in("a"));
	add(&policy.fs.read, "%s:/x", in("b"));
	assert_refused(NSBOX_E_POLICY, "two different things");
}

static void nothing_is_made_inside_a_bound_folder(void **state)
{
	(void)state;
	shell("mkdir -p a/there b");
	add(&policy.fs.write, "%s", in("a"));
	add(&policy.fs.read, "%s:%s", in("b"), in("a/there"));
	must_build();
	strlist_free(&policy.fs.read);
	add(&policy.fs.read, "%s:%s", in("b"), in("a/new"));
	assert_refused(NSBOX_E_POLICY, "no such folder");
	assert_int_equal(access(in("a/new"), F_OK), -1);
	add(&policy.fs.read, "%s:/usr/share/no-such-folder", in("b"));
	assert_refused(NSBOX_E_POLICY, "no such folder");
}

static void a_writable_folder_must_be_the_callers(void **state)
{
	(void)state;
	shell("mkdir mine");
	add(&policy.fs.write, "%s", in("mine"));
	must_build();
	request.owner_uid = 4242;
	assert_refused(NSBOX_E_POLICY, "not to you (uid 4242)");
	assert_true(strstr(err.hint, "run nsbox as uid") != NULL);
	add(&policy.fs.read, "%s", in("mine")); /* reading is another matter */
	must_build();
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	assert_int_equal(bind(s, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return s;
}

static void sockets_are_refused_as_source_and_masked_inside_folders(void **state)
{
	int a, b;

	(void)state;
	shell("mkdir -p d/deep/er && touch d/file && ln -s / d/deep/loop");
	a = listen_at(in("d/top.sock"));
	b = listen_at(in("d/deep/er/low.sock"));
	add(&policy.fs.read, "%s", in("d/top.sock"));
	assert_refused(NSBOX_E_POLICY, "is a socket");
	add(&policy.fs.read, "%s:/x", in("d"));
	must_build();
	assert_true(comes_before(find(OP_BIND, "/x"), find(OP_MASK, "/x/top.sock")));
	assert_non_null(find(OP_MASK, "/x/deep/er/low.sock"));
	assert_null(find(OP_MASK, "/x/file"));
	assert_int_equal(view.notes.n, 0);
	close(a);
	close(b);
}

static void beyond_the_budget_listening_sockets_are_still_found_and_it_is_said(void **state)
{
	int s;

	(void)state;
	/* Breadth first: what fills the budget stands before the folder of the socket. */
	shell("mkdir -p d/z/y/x && cd d && seq 1 20000 | xargs touch");
	s = listen_at(in("d/z/y/x/deep.sock"));
	add(&policy.fs.read, "%s", in("d"));
	must_build();
	assert_non_null(find(OP_MASK, in("d/z/y/x/deep.sock")));
	assert_int_equal(view.notes.n, 1);
	assert_true(strstr(view.notes.v[0], "more than 16384 entries") != NULL);
	close(s);
}

static void hidden_paths_are_masked_after_everything_else(void **state)
{
	(void)state;
	shell("mkdir -p d/secret");
	add(&policy.fs.read, "%s", in("d"));
	add(&policy.fs.hidden, "%s", in("d/secret"));
	add(&policy.fs.hidden, "/usr/share/doc/");
	must_build();
	assert_true(comes_before(find(OP_BIND, in("d")), find(OP_MASK, in("d/secret"))));
	assert_non_null(find(OP_MASK, "/usr/share/doc"));
}

/* ----------------------------------------------------------- privileged -- */

static void a_privileged_launcher_hands_over_trees(void **state)
{
	const struct op *op;
	struct stat st, tree;

	(void)state;
	if (geteuid() != 0)
		skip();
	shell("mkdir rw public private && chmod 755 public && chmod 700 private");
	request.privileged = true;
	add(&policy.fs.write, "%s", in("rw"));
	add(&policy.fs.read, "%s", in("public"));
	add(&policy.fs.read, "%s", in("private"));
	must_build();
	assert_int_equal(view.tree_count, 3);
	assert_non_null(find(OP_BIND, "/usr")); /* everybody may walk there */
	for (size_t i = 0; i < view.tree_count; i++) {
		op = find(OP_ATTACH, view.trees[i].src);
		assert_non_null(op);
		assert_int_equal(op->fd, view.trees[i].fd);
		assert_int_equal(fcntl(op->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		assert_int_equal(fstat(op->fd, &tree), 0);
		assert_int_equal(stat(view.trees[i].src, &st), 0);
		assert_int_equal(tree.st_ino, st.st_ino);
		assert_int_equal(view.trees[i].needs_idmap,
				 strcmp(view.trees[i].src, in("public")) != 0);
	}
	assert_int_equal(find(OP_ATTACH, in("private"))->flags & OP_RDONLY, OP_RDONLY);
	assert_int_equal(find(OP_ATTACH, in("rw"))->flags & OP_RDONLY, 0);
}

/* --------------------------------------------------- interpreters, files -- */

static void an_interpreter_in_a_private_home_is_visible_and_its_home_is_not(void **state)
{
	char link[256];
	struct interp it = { .language = (char *)"python" };
	const struct interp *list[] = { &it, NULL };

	(void)state;
	shell("mkdir -p home/venv/bin home/secret && touch home/venv/bin/python3 && chmod 700 home");
	it.program = strdup(in("alias/venv/bin/python3"));
	add(&it.trees, "%s", in("home/venv"));
	snprintf(link, sizeof(link), "%s\t%s", in("alias"), "home");
	add(&it.links, "%s", link);
	request.interps = list;
	request.privileged = geteuid() == 0;
	must_build();
	assert_non_null(find(request.privileged ? OP_ATTACH : OP_BIND, in("home/venv")));
	assert_string_equal(src_of(find(OP_SYMLINK, in("alias"))), "home");
	assert_false(names(in("home")) || names(in("home/secret")));
	assert_string_equal(view.path + strlen(in("alias/venv/bin")),
			    ":/usr/local/bin:/usr/bin:/bin");
	assert_null(strstr(view.path, "::"));
	add(&policy.fs.read, "%s", in("home")); /* then it is there already */
	must_build();
	assert_null(find(OP_ATTACH, in("home/venv")));
	assert_null(find(OP_BIND, in("home/venv")));
	free(it.program);
	strlist_free(&it.trees);
	strlist_free(&it.links);
}

static void path_names_no_folder_twice(void **state)
{
	struct interp a = { .program = (char *)"/usr/bin/python3" };
	struct interp b = { .program = (char *)"/opt/node/bin/node" };
	struct interp c = { .program = (char *)"/opt/node/bin/bash" };
	const struct interp *list[] = { &a, &b, &c, NULL };

	(void)state;
	request.interps = list;
	must_build();
	assert_string_equal(view.path, "/opt/node/bin:/usr/local/bin:/usr/bin:/bin");
	request.interps = NULL;
	must_build();
	assert_string_equal(view.path, "/usr/local/bin:/usr/bin:/bin");
}

static void files_of_nsbox_come_before_the_root_is_closed(void **state)
{
	char *big = calloc(1, 5 << 20);
	const struct view_file files[] = { { "/run/nsbox/boot.py", "print()", 7 },
					   { "/run/nsbox/big", big, 5 << 20 } };
	const struct op *op;

	(void)state;
	request.files = files;
	request.file_count = 2;
	must_build();
	op = find(OP_FILE, "/run/nsbox/boot.py");
	assert_true(comes_before(op, find(OP_READONLY, "")));
	assert_int_equal(op->blob_len, 7);
	assert_memory_equal((const char *)plan + op->blob, "print()", 7);
	assert_true(find(OP_ROOT, "")->n > (5 << 20) + 7); /* they count for its size */
	free(big);
}

static void extras_are_read_only_and_alone(void **state)
{
	char script[128];
	struct view_extra extra = { 0 };

	(void)state;
	shell("touch s.py sibling");
	snprintf(script, sizeof(script), "%s", in("s.py"));
	extra = (struct view_extra){ script, script };
	request.extras = &extra;
	request.extra_count = 1;
	must_build();
	assert_int_equal(find(OP_BIND, script)->flags & (OP_RDONLY | OP_IS_FILE),
			 OP_RDONLY | OP_IS_FILE);
	assert_false(names(in("sibling")));
	assert_string_equal(view.workdir, "/workspace");
}

/* ------------------------------------------------------------- workdir -- */

static void the_working_folder_is_asked_for_or_the_callers_or_workspace(void **state)
{
	char cwd[160], moved[160], other[160];

	(void)state;
	shell("mkdir -p a/b/c other && ln -s a alias");
	snprintf(cwd, sizeof(cwd), "%s", in("a/b/c"));
	snprintf(other, sizeof(other), "%s", in("other"));
	snprintf(moved, sizeof(moved), "%s", in("a/b"));
	request.caller_cwd = cwd;
	must_build();
	assert_string_equal(view.workdir, "/workspace");
	add(&policy.fs.read, "%s", in("a"));
	must_build();
	assert_string_equal(view.workdir, cwd);
	add(&policy.fs.write, "%s:/w", in("a/b")); /* the innermost one */
	must_build();
	assert_string_equal(view.workdir, "/w/c");
	request.cwd = "/tmp/";
	must_build();
	assert_string_equal(view.workdir, "/tmp");
	request.cwd = "tmp";
	assert_int_equal(build(), NSBOX_E_USAGE);
	request.cwd = NULL;
	request.caller_cwd = other;
	must_build();
	assert_string_equal(view.workdir, "/workspace");
}

static void a_dry_run_makes_no_placeholder(void **state)
{
	(void)state;
	shell("mkdir w");
	add(&policy.fs.protect, ".envrc");
	add(&policy.fs.write, "%s", in("w"));
	request.look_only = true;
	must_build();
	assert_non_null(find(OP_MASK, in("w/.envrc")));
	assert_int_equal(access(in("w/.envrc"), F_OK), -1);
	request.look_only = false;
	must_build();
	assert_int_equal(access(in("w/.envrc"), F_OK), 0);
	reset();
	assert_int_equal(access(in("w/.envrc"), F_OK), -1);
}

static void a_socket_in_a_protected_folder_stays_masked(void **state)
{
	int s;

	(void)state;
	shell("mkdir -p w/.git/hooks");
	s = listen_at(in("w/.git/agent.sock"));
	add(&policy.fs.protect, ".git/hooks");
	add(&policy.fs.write, "%s", in("w"));
	must_build();
	assert_true(comes_before(find(OP_BIND, in("w/.git")), find(OP_MASK, in("w/.git/agent.sock"))));
	close(s);
}

static void a_read_only_bind_inside_a_protected_name_is_not_lifted(void **state)
{
	(void)state;
	shell("mkdir -p w/.git/hooks w/.git/objects");
	add(&policy.fs.protect, ".git/hooks");
	add(&policy.fs.write, "%s", in("w"));
	add(&policy.fs.read, "%s", in("w/.git/objects"));
	must_build();
	assert_true(comes_before(find(OP_BIND, in("w/.git")), find(OP_BIND, in("w/.git/objects"))));
}

static void a_folder_bound_again_keeps_what_the_outer_one_protects(void **state)
{
	(void)state;
	shell("mkdir -p w/.git/hooks");
	add(&policy.fs.protect, ".git/hooks");
	add(&policy.fs.write, "%s:/a", in("w"));
	add(&policy.fs.write, "%s:/b", in("w/.git"));
	must_build();
	assert_int_equal(find(OP_BIND, "/a/.git/hooks")->flags & OP_RDONLY, OP_RDONLY);
	assert_int_equal(find(OP_BIND, "/b/hooks")->flags & OP_RDONLY, OP_RDONLY);
	assert_int_equal(find(OP_BIND, "/b")->flags & OP_RDONLY, 0);
}

static void names_of_the_home_cost_a_project_nothing(void **state)
{
	(void)state;
	shell("mkdir -p home/project home/.cache/nsbox");
	setenv("HOME", in("home"), 1);
	add(&policy.fs.protect_home, ".bashrc");
	add(&policy.fs.protect_home, ".cache/nsbox");
	request.look_only = true;
	add(&policy.fs.write, "%s:/p", in("home/project"));
	must_build();
	assert_null(find(OP_MASK, "/p/.bashrc"));
	assert_null(find(OP_MASK, "/p/.cache"));
	add(&policy.fs.write, "%s:/h", in("home"));
	must_build();
	assert_non_null(find(OP_MASK, "/h/.bashrc"));
	assert_int_equal(find(OP_BIND, "/h/.cache/nsbox")->flags & OP_RDONLY, OP_RDONLY);
	add(&policy.fs.write, "%s:/n", in("home/.cache/nsbox"));
	assert_int_equal(build(), NSBOX_E_POLICY);
	assert_non_null(strstr(err.message, "fs.protect_home"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

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
		CASE(read_and_write_appear_at_the_same_place_or_at_dest),
		CASE(odd_names_come_through),
		CASE(relative_and_dotted_paths_mean_what_the_caller_sees),
		CASE(parents_are_mounted_before_what_lies_in_them),
		CASE(what_the_policy_puts_on_workspace_or_tmp_replaces_the_preset),
		CASE(sources_and_targets_that_make_no_sense_are_refused),
		CASE(a_place_has_one_meaning),
		CASE(nothing_is_made_inside_a_bound_folder),
		CASE(a_writable_folder_must_be_the_callers),
		CASE(sockets_are_refused_as_source_and_masked_inside_folders),
		CASE(beyond_the_budget_listening_sockets_are_still_found_and_it_is_said),
		CASE(hidden_paths_are_masked_after_everything_else),
		CASE(a_privileged_launcher_hands_over_trees),
		CASE(an_interpreter_in_a_private_home_is_visible_and_its_home_is_not),
		CASE(path_names_no_folder_twice),
		CASE(files_of_nsbox_come_before_the_root_is_closed),
		CASE(extras_are_read_only_and_alone),
		CASE(the_working_folder_is_asked_for_or_the_callers_or_workspace),
		CASE(a_dry_run_makes_no_placeholder),
		CASE(a_socket_in_a_protected_folder_stays_masked),
		CASE(a_read_only_bind_inside_a_protected_name_is_not_lifted),
		CASE(a_folder_bound_again_keeps_what_the_outer_one_protects),
		CASE(names_of_the_home_cost_a_project_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
