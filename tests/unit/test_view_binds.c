/* The host view: what a policy, the interpreters and the call add to it. */
#include "tests/unit/view_build.h"

#include <sys/socket.h>
#include <sys/un.h>

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
	extra = (struct view_extra){ script, script, false };
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
