/*
 * test_doctor.c - the doctor tells the truth, names the cause, and changes nothing
 *
 * Broken hosts are made in throw-away children: a user namespace of its own for the
 * sysctl, a seccomp filter for what a container or an LSM would refuse. The same
 * doctor in the same child without the damage is the positive control.
 */
#include "base/cleanup.h"
#include "runtime/doctor.h"

#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

struct answer {
	int status; /* of nsbox_doctor() */
	json_t *root;
};

static json_t *check_named(const struct answer *a, const char *name)
{
	json_t *v;
	size_t i;

	json_array_foreach(json_object_get(a->root, "checks"), i, v)
		if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
			return v;
	fail_msg("no check named %s", name);
	return NULL;
}

static const char *field(const struct answer *a, const char *name, const char *key)
{
	const char *s = json_string_value(json_object_get(check_named(a, name), key));

	return s ? s : "(null)";
}

static void says(const struct answer *a, const char *name, const char *key, const char *part)
{
	if (!strstr(field(a, name, key), part))
		fail_msg("%s.%s is \"%s\", without \"%s\"", name, key, field(a, name, key), part);
}

/* The record and the return value are one truth. */
static void check_form(const struct answer *a)
{
	static const char *const words[] = { "full", "degraded", "none" };
	json_t *v;
	size_t i;

	assert_in_range(a->status, 0, 2);
	assert_string_equal(json_string_value(json_object_get(a->root, "schema")),
			    "nsbox.doctor/1");
	assert_string_equal(json_string_value(json_object_get(a->root, "status")),
			    words[a->status]);
	assert_int_equal(json_array_size(json_object_get(a->root, "checks")), 29);
	json_array_foreach(json_object_get(a->root, "checks"), i, v) {
		const char *ok = json_string_value(json_object_get(v, "ok"));

		assert_true(strcmp(ok, "yes") == 0 || strcmp(ok, "no") == 0 ||
			    strcmp(ok, "degraded") == 0);
		assert_true(json_string_length(json_object_get(v, "detail")) > 0);
		assert_non_null(json_object_get(v, "remedy"));
		assert_true(json_is_string(json_object_get(v, "strength")));
	}
}

static void parse(struct answer *a, int status, const char *text)
{
	json_error_t e;

	a->status = status;
	a->root = json_loads(text, JSON_REJECT_DUPLICATES, &e);
	assert_non_null(a->root);
	check_form(a);
}

static void examine_here(struct answer *a)
{
	owned_mem char *text = NULL;
	int status = nsbox_doctor("json", &text, NULL);

	assert_true(status >= 0);
	parse(a, status, text);
}

/* --- broken hosts ------------------------------------------------------------------- */

/* In the child: 0, or the number of the step that failed. */
typedef int damage(void);

static int none(void)
{
	return 0;
}

static int become_nobody(void)
{
	return setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
	       setresuid(65534, 65534, 65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0;
}

static int put(const char *path, const char *text)
{
	owned_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -1 : 0;
}

static ino_t namespace_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static int enter_userns(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[32];

	if (unshare(CLONE_NEWUSER) < 0)
		return 1;
	if (put("/proc/self/setgroups", "deny") < 0)
		return 2;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (put("/proc/self/uid_map", map) < 0)
		return 3;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return put("/proc/self/gid_map", map) < 0 ? 4 : 0;
}

/*
 * /proc/sys/user/ is that of the opener's own user namespace: the host keeps its own
 * value, if this really is another one. PID 1's can be read by its peers alone, so it
 * is looked up before; for a user, who could not write the host's, the own must do.
 */
static int no_userns_in_userns(void)
{
	ino_t own = namespace_of("/proc/self/ns/user"), host = namespace_of("/proc/1/ns/user");
	ino_t now;
	int r = enter_userns();

	if (r)
		return r;
	now = namespace_of("/proc/self/ns/user");
	if (!now || !own || now == own || now == host)
		return 5;
	return put("/proc/sys/user/max_user_namespaces", "0") < 0 ? 6 : 0;
}

static int load(struct sock_filter *code, size_t n)
{
	struct sock_fprog p = { .len = (unsigned short)n, .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0;
}

static int refuse(int nr, int os_errno)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)os_errno),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return load(code, ARRAY_SIZE(code));
}

/* As Docker's filter does for a container without CAP_SYS_ADMIN. */
static int refuse_userns(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return load(code, ARRAY_SIZE(code));
}

/* As Ubuntu's AppArmor: the namespace is there, its capabilities are not. */
static int refuse_mount(void)
{
	return refuse(SYS_mount, EACCES);
}

static int refuse_landlock(void)
{
	return refuse(SYS_landlock_create_ruleset, ENOSYS);
}

static int refuse_memfd(void)
{
	return refuse(SYS_memfd_create, EACCES);
}

static int refuse_keyctl(void)
{
	return refuse(SYS_keyctl, EPERM);
}

struct message {
	int damage, status;
	char text[32768];
};

static void examine_damaged(struct answer *a, damage *how)
{
	owned_mem struct message *m = calloc(1, sizeof(*m));
	int fds[2], wait_status;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	assert_non_null(m);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		char *text = NULL;

		m->damage = how();
		if (!m->damage)
			m->status = nsbox_doctor("json", &text, NULL);
		snprintf(m->text, sizeof(m->text), "%s", text ? text : "");
		_exit(write(fds[1], m, sizeof(*m)) != sizeof(*m));
	}
	close(fds[1]);
	while ((n = read(fds[0], (char *)m + have, sizeof(*m) - have)) > 0)
		have += (size_t)n;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &wait_status, 0), pid);
	assert_int_equal(wait_status, 0);
	assert_int_equal(have, sizeof(*m));
	assert_int_equal(m->damage, 0);
	parse(a, m->status, m->text);
}

static void need(bool there, const char *what)
{
	if (there)
		return;
	print_message("# SKIP: %s\n", what);
	if (getenv("NSBOX_MUST_RUN"))
		fail();
	skip();
}

/* The control of all that follow; false: this host cannot serve as one. */
static bool has_userns(void)
{
	struct answer a;
	bool yes;

	examine_damaged(&a, none);
	yes = strcmp(field(&a, "user_namespace", "ok"), "yes") == 0 &&
	      strcmp(field(&a, "mount_namespace", "ok"), "yes") == 0;
	json_decref(a.root);
	return yes;
}

static bool is_yes(const struct answer *a, const char *name)
{
	return strcmp(field(a, name, "ok"), "yes") == 0;
}

static void on_this_host_the_answer_is_whole_and_consistent(void **state)
{
	struct answer a;

	(void)state;
	examine_here(&a);
	assert_true(is_yes(&a, "syscalls"));
	assert_true(is_yes(&a, "seccomp"));
	/* the default limits need both: a verdict of "full" without them were a lie */
	if (strcmp(field(&a, "memory_limit", "strength"), "kernel") != 0)
		assert_int_not_equal(a.status, 0);
	json_decref(a.root);
}

static void an_ordinary_user_can_have_boxes_too(void **state)
{
	struct cgroup_place place;
	struct answer a;

	(void)state;
	need(geteuid() == 0, "becoming another user needs root");
	need(has_userns(), "no user namespaces on this host");
	examine_damaged(&a, become_nobody);
	need(is_yes(&a, "user_namespace"), "no user namespaces for users on this host");
	assert_int_equal(a.status, 1);
	assert_true(is_yes(&a, "pivot_root"));
	assert_true(is_yes(&a, "network_namespace"));
	says(&a, "idmapped_mounts", "detail", "not needed");
	says(&a, "cgroup", "ok", "degraded");
	says(&a, "cgroup", "detail", "step: none");
	assert_string_equal(json_string_value(json_object_get(a.root, "cgroup_step")), "none");
	cgroup_look(&place);
	says(&a, "cgroup", "remedy",
	     place.has_no_controllers ? "systemd.unified_cgroup_hierarchy=1"
				      : "loginctl enable-linger");
	cgroup_place_close(&place);
	json_decref(a.root);
}

static void a_user_namespace_limit_of_zero_is_named_with_its_remedy(void **state)
{
	char before[32] = "", after[32] = "";
	owned_fd int fd = open("/proc/sys/user/max_user_namespaces", O_RDONLY | O_CLOEXEC);
	struct answer a;

	(void)state;
	need(fd >= 0 && has_userns(), "no user namespaces on this host");
	assert_true(pread(fd, before, sizeof(before) - 1, 0) > 0);
	examine_damaged(&a, enter_userns); /* control: nested, without the limit */
	assert_true(is_yes(&a, "user_namespace"));
	json_decref(a.root);
	examine_damaged(&a, no_userns_in_userns);
	assert_int_equal(a.status, 2);
	says(&a, "user_namespace", "ok", "no");
	says(&a, "user_namespace", "detail", "clone with new namespaces");
	says(&a, "user_namespace", "detail", "user.max_user_namespaces is 0");
	says(&a, "user_namespace", "remedy", "sysctl -w user.max_user_namespaces=");
	says(&a, "pivot_root", "detail", "not tried: needs user_namespace");
	assert_true(is_yes(&a, "seccomp"));
	json_decref(a.root);
	assert_true(pread(fd, after, sizeof(after) - 1, 0) > 0);
	assert_string_equal(before, after); /* the host's is untouched */
}

static void a_filter_around_us_that_forbids_user_namespaces_is_named(void **state)
{
	struct answer a;

	(void)state;
	need(has_userns(), "no user namespaces on this host");
	examine_damaged(&a, refuse_userns);
	assert_int_equal(a.status, 2);
	says(&a, "user_namespace", "ok", "no");
	says(&a, "user_namespace", "detail", err_text(EPERM));
	says(&a, "user_namespace", "detail", "seccomp filter that nsbox did not load");
	says(&a, "user_namespace", "remedy", "seccomp filter or LSM rule");
	json_decref(a.root);
}

static void a_user_namespace_without_capabilities_is_not_taken_for_a_working_one(void **state)
{
	struct answer a;

	(void)state;
	need(has_userns(), "no user namespaces on this host");
	examine_damaged(&a, refuse_mount);
	assert_int_equal(a.status, 2);
	assert_true(is_yes(&a, "user_namespace"));
	says(&a, "mount_namespace", "ok", "no");
	says(&a, "mount_namespace", "detail", err_text(EACCES));
	json_decref(a.root);
}

static void what_is_missing_weighs_as_the_table_says(void **state)
{
	static const struct { damage *how; const char *name, *ok, *part; int status; } rows[] = {
		{ refuse_landlock, "landlock", "degraded", "built without Landlock", 1 },
		{ refuse_keyctl, "keyring", "degraded", "session keyring", 1 },
		{ refuse_memfd, "memfd", "no", "sealed memfd", 2 },
	};

	(void)state;
	need(has_userns(), "no user namespaces on this host");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct answer a;

		examine_damaged(&a, rows[i].how);
		assert_int_equal(a.status, rows[i].status);
		assert_string_equal(field(&a, rows[i].name, "ok"), rows[i].ok);
		assert_string_equal(field(&a, rows[i].name, "strength"), "none");
		says(&a, rows[i].name, "detail", rows[i].part);
		json_decref(a.root);
	}
}

/* --- the caller ------------------------------------------------------------------------ */

static void an_unknown_form_is_an_error_and_writes_nothing(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char untouched, *out = &untouched;

	(void)state;
	assert_int_equal(nsbox_doctor("xml", &out, &err), NSBOX_E_USAGE);
	assert_ptr_equal(out, &untouched);
	assert_non_null(strstr(err.message, "xml"));
	assert_int_equal(nsbox_doctor(NULL, &out, NULL), NSBOX_E_USAGE);
	assert_int_equal(nsbox_doctor("json", NULL, NULL), NSBOX_E_USAGE);
}

static void the_text_has_a_line_for_each_check_and_a_fix_for_each_weakness(void **state)
{
	owned_mem char *text = NULL;
	int status = nsbox_doctor("text", &text, NULL);
	struct answer a;
	json_t *v;
	size_t i;

	(void)state;
	examine_here(&a);
	assert_int_equal(status, a.status);
	json_array_foreach(json_object_get(a.root, "checks"), i, v) {
		const char *fix = json_string_value(json_object_get(v, "remedy"));

		assert_non_null(strstr(text, json_string_value(json_object_get(v, "name"))));
		assert_non_null(strstr(text, json_string_value(json_object_get(v, "detail"))));
		if (fix)
			assert_non_null(strstr(text, fix));
	}
	json_decref(a.root);
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void read_whole(const char *path, char *text, size_t size)
{
	owned_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, text + have, size - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = '\0';
}

static void nothing_is_left_of_an_examination(void **state)
{
	static char before[65536], after[65536];
	int descriptors = open_descriptors();
	struct answer a;

	(void)state;
	read_whole("/proc/self/mountinfo", before, sizeof(before));
	examine_here(&a);
	json_decref(a.root);
	read_whole("/proc/self/mountinfo", after, sizeof(after));
	assert_string_equal(before, after);
	assert_int_equal(open_descriptors(), descriptors);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	assert_true(!prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static atomic_int children_seen;
static atomic_bool stop;

static void on_child(int signal)
{
	(void)signal;
	atomic_fetch_add(&children_seen, 1);
}

static void *busy_thread(void *arg)
{
	while (!atomic_load(&stop))
		free(malloc(64 + (size_t)(rand() % 4096)));
	return arg;
}

/* Holding malloc's locks all the time is what makes a careless child hang. */
static void a_threaded_caller_with_children_of_its_own_is_not_disturbed(void **state)
{
	struct sigaction act = { .sa_handler = on_child, .sa_flags = SA_RESTART }, old;
	pthread_t threads[3];
	struct answer a;
	pid_t own;

	(void)state;
	assert_int_equal(sigaction(SIGCHLD, &act, &old), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, busy_thread, NULL), 0);
	for (int i = 0; i < 3; i++) {
		examine_here(&a);
		assert_string_not_equal(field(&a, "seccomp", "ok"), "no");
		json_decref(a.root);
	}
	assert_int_equal(atomic_load(&children_seen), 0);
	own = fork();
	if (!own)
		_exit(7);
	examine_here(&a);
	json_decref(a.root);
	assert_int_equal(waitpid(own, NULL, 0), own); /* still there to be reaped */
	assert_int_equal(atomic_load(&children_seen), 1); /* control: the handler works */
	atomic_store(&stop, true);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	sigaction(SIGCHLD, &old, NULL);
}

static int dies(struct probe_report *r)
{
	(void)r;
	kill(getpid(), SIGKILL);
	return 0;
}

static int hangs(struct probe_report *r)
{
	while (!r->failed)
		pause();
	return 0;
}

static int works(struct probe_report *r)
{
	r->value = 42;
	return 0;
}

static void a_probe_that_dies_or_hangs_is_a_failure_with_a_name(void **state)
{
	struct probe p = { works, false, 0 };
	struct probe_report r;

	(void)state;
	doctor_child(&p, &r); /* control */
	assert_int_equal(r.failed, 0);
	assert_int_equal(r.value, 42);
	p.call = dies;
	doctor_child(&p, &r);
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.step, STEP_DIED);
	p.call = hangs;
	p.in_userns = has_userns(); /* then it is the grandchild that hangs */
	doctor_child(&p, &r);
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.step, STEP_TIMEOUT);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_this_host_the_answer_is_whole_and_consistent),
		cmocka_unit_test(an_ordinary_user_can_have_boxes_too),
		cmocka_unit_test(a_user_namespace_limit_of_zero_is_named_with_its_remedy),
		cmocka_unit_test(a_filter_around_us_that_forbids_user_namespaces_is_named),
		cmocka_unit_test(a_user_namespace_without_capabilities_is_not_taken_for_a_working_one),
		cmocka_unit_test(what_is_missing_weighs_as_the_table_says),
		cmocka_unit_test(an_unknown_form_is_an_error_and_writes_nothing),
		cmocka_unit_test(the_text_has_a_line_for_each_check_and_a_fix_for_each_weakness),
		cmocka_unit_test(nothing_is_left_of_an_examination),
		cmocka_unit_test(a_threaded_caller_with_children_of_its_own_is_not_disturbed),
		cmocka_unit_test(a_probe_that_dies_or_hangs_is_a_failure_with_a_name),
	};

	alarm(120); /* a test that hangs is a failed one */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
