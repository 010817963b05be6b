/* Names of system calls, and what syscalls.allow and syscalls.deny make of them. */
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/socket.h>

#include "tests/unit/filter.h"

static void names_and_numbers_agree_both_ways(void **state)
{
	(void)state;
	assert_string_equal(syscall_name(syscall_number("openat")), "openat");
	assert_int_equal(syscall_number("mseal"), 462);
	assert_int_equal(syscall_number("file_setattr"), 469);
	for (int nr = 0; nr < SYSCALL_LIMIT; nr++)
		if (syscall_name(nr))
			assert_int_equal(syscall_number(syscall_name(nr)), nr);
	assert_int_equal(syscall_number("nosuchcall"), -1);
	assert_int_equal(syscall_number(""), -1);
	assert_null(syscall_name(-1));
	assert_null(syscall_name(100000));
}

static void a_misspelt_name_gets_its_nearest(void **state)
{
	(void)state;
	assert_string_equal(syscall_nearest("opnat"), "openat");
	assert_string_equal(syscall_nearest("umount"), "umount2");
	assert_string_equal(syscall_nearest("prtace"), "ptrace");
	assert_string_equal(syscall_nearest("io_uring_setupp"), "io_uring_setup");
	assert_null(syscall_nearest("completely_different_thing"));
	assert_null(syscall_nearest(""));
	assert_null(syscall_nearest("a_name_that_is_longer_than_any_system_call_could_be"));
}

/* --- extra names --------------------------------------------------------- */

static struct strlist list_of(const char *name)
{
	struct strlist l = { 0 };

	assert_int_equal(strlist_add(&l, name), 0);
	return l;
}

static void allow_lifts_what_is_no_wall(void **state)
{
	static const struct { int level; const char *name; uint32_t before; uint64_t arg; } lifts[] = {
		{ LEVEL_DEFAULT, "userfaultfd", E(EPERM), 0 },
		{ LEVEL_DEFAULT, "io_setup", E(ENOSYS), 0 },
		{ LEVEL_DEFAULT, "memfd_secret", E(ENOSYS), 0 },
		{ LEVEL_DEFAULT, "statmount", E(ENOSYS), 0 },
		{ LEVEL_DEFAULT, "personality", E(EPERM), 8 },
		{ LEVEL_AUDIT, "personality", LOGGED, 8 },
		{ LEVEL_STRICT, "connect", E(EPERM), 0 },
		{ LEVEL_STRICT, "socket", E(EPERM), AF_UNIX },
		{ LEVEL_DEBUG, "ptrace", ALLOWED, 0 }, /* allowed already: no error */
		{ LEVEL_DEFAULT, "read", ALLOWED, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lifts); i++) {
		owned(strlist_free) struct strlist allow = list_of(lifts[i].name);
		owned(bpf_free) struct bpf before = compiled(lifts[i].level, NULL, NULL);
		owned(bpf_free) struct bpf after = compiled(lifts[i].level, &allow, NULL);
		uint64_t args[6] = { lifts[i].arg };

		assert_int_equal(answer_name(&before, lifts[i].name, args), lifts[i].before);
		assert_int_equal(answer_name(&after, lifts[i].name, args), ALLOWED);
	}
}

static void lifting_a_strict_call_keeps_its_argument_checks(void **state)
{
	owned(strlist_free) struct strlist allow = list_of("socket");
	owned(bpf_free) struct bpf b = compiled(LEVEL_STRICT, &allow, NULL);
	const uint64_t vsock[6] = { 40, 1, 0 }, inet[6] = { AF_INET, 1, 0 };

	(void)state;
	assert_int_equal(answer_name(&b, "socket", inet), ALLOWED);
	assert_int_equal(answer_name(&b, "socket", vsock), E(EAFNOSUPPORT));
}

static void walls_cannot_be_lifted(void **state)
{
	static const char *const walls[] = {
		"mount", "umount2", "pivot_root", "chroot", "setns", "fsopen", "move_mount",
		"open_tree_attr", "clone", "unshare", "clone3", "socket", "socketpair",
		"setsockopt", "ioctl", "seccomp", "chmod", "fchmodat2", "open", "openat",
		"openat2", "creat", "mkdir", "mknod", "mknodat", "io_uring_setup", "keyctl",
		"add_key", "bpf", "perf_event_open", "init_module", "kexec_load", "ptrace",
		"process_vm_writev", "kcmp", "pidfd_getfd", "open_by_handle_at",
		"clock_settime", "reboot", "iopl",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(walls); i++) {
		owned(strlist_free) struct strlist allow = list_of(walls[i]);
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct bpf b = { 0 };

		if (seccomp_compile(&b, LEVEL_DEFAULT, &allow, NULL, &err) != NSBOX_E_POLICY)
			fail_msg("%s was lifted", walls[i]);
		assert_null(b.insn);
		assert_non_null(strstr(err.message, walls[i]));
		assert_non_null(strstr(err.message, "because it "));
		assert_true(err.hint[0]);
	}
}

static void ptrace_is_refused_with_the_level_that_has_it(void **state)
{
	owned(strlist_free) struct strlist allow = list_of("ptrace");
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct bpf b = { 0 };

	(void)state;
	assert_int_equal(seccomp_compile(&b, LEVEL_BUILD, &allow, NULL, &err), NSBOX_E_POLICY);
	assert_string_equal(err.hint, "syscalls.level=debug allows it");
}

static void denied_names_are_denied_whatever_they_were(void **state)
{
	static const char *const names[] = { "uname", "socket", "openat", "io_setup", "mount",
					     "clone3", "futex_waitv" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		owned(strlist_free) struct strlist deny = list_of(names[i]);
		owned(bpf_free) struct bpf b = compiled(LEVEL_AUDIT, NULL, &deny);

		assert_int_equal(answer_name(&b, names[i], NULL), E(EPERM));
		assert_int_equal(answer_name(&b, "getpid", NULL), ALLOWED);
	}
}

static void deny_wins_over_allow(void **state)
{
	owned(strlist_free) struct strlist both = list_of("io_setup");
	owned(bpf_free) struct bpf b = compiled(LEVEL_DEFAULT, &both, &both);

	(void)state;
	assert_int_equal(answer_name(&b, "io_setup", NULL), E(EPERM));
}

static void bad_names_are_errors_with_a_suggestion(void **state)
{
	static const struct { bool deny; const char *name, *message, *hint; } bad[] = {
		{ false, "opnat", "syscalls.allow: unknown system call \"opnat\"", "\"openat\"" },
		{ true, "opnat", "syscalls.deny: unknown system call \"opnat\"", "\"openat\"" },
		{ true, "", "unknown system call \"\"", "syscalls(2)" },
		{ true, "sys_exit_something", "unknown system call", "syscalls(2)" },
		{ true, "execve", "without execve", "process.subprocesses" },
		{ true, "exit_group", "without exit_group", "process.subprocesses" },
		{ true, "rt_sigreturn", "without rt_sigreturn", "process.subprocesses" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		owned(strlist_free) struct strlist names = list_of(bad[i].name);
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct bpf b = { 0 };

		assert_int_equal(seccomp_compile(&b, LEVEL_DEFAULT, bad[i].deny ? NULL : &names,
						 bad[i].deny ? &names : NULL, &err),
				 NSBOX_E_POLICY);
		assert_null(b.insn);
		assert_non_null(strstr(err.message, bad[i].message));
		assert_non_null(strstr(err.hint, bad[i].hint));
	}
}

static void calls_of_other_abis_have_their_own_names(void **state)
{
#ifdef __x86_64__
	static const struct { uint32_t arch, nr; const char *abi; uint32_t number; const char *name; } rows[] = {
		{ AUDIT_ARCH_I386, 5, "i386", 5, "open" },
		{ AUDIT_ARCH_I386, 102, "i386", 102, "socketcall" },
		{ AUDIT_ARCH_I386, 0, "i386", 0, "restart_syscall" },
		{ AUDIT_ARCH_I386, 100000, "i386", 100000, NULL },
		{ AUDIT_ARCH_I386, UINT32_MAX, "i386", UINT32_MAX, NULL },
		{ AUDIT_ARCH_X86_64, 0x40000000 | 39, "x32", 39, "getpid" },
		{ AUDIT_ARCH_X86_64, 0x40000000 | 520, "x32", 520, "execve" },
		{ AUDIT_ARCH_X86_64, 0x40000000 | 511, "x32", 511, NULL },
		{ AUDIT_ARCH_X86_64, 0x40000000 | 5000, "x32", 5000, NULL },
		{ AUDIT_ARCH_ARM, 5, "foreign", 5, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct syscall_text t;

		syscall_describe(rows[i].arch, rows[i].nr, &t);
		assert_string_equal(t.abi, rows[i].abi);
		assert_int_equal(t.number, rows[i].number);
		if (rows[i].name)
			assert_string_equal(t.name, rows[i].name);
		else
			assert_null(t.name);
	}
#else
	(void)state;
	print_message("# skip: this architecture has no x32\n");
	skip();
#endif
}

static void a_replaced_answer_is_the_only_thing_that_changes(void **state)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct bpf was = { 0 }, b = { 0 };
	size_t changed = 0;

	(void)state;
	assert_int_equal(seccomp_compile(&was, LEVEL_DEFAULT, NULL, NULL, &err), 0);
	assert_int_equal(seccomp_compile(&b, LEVEL_DEFAULT, NULL, NULL, &err), 0);
	bpf_replace_return(b.insn, b.count, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF);
	for (size_t i = 0; i < b.count; i++) {
		if (memcmp(&was.insn[i], &b.insn[i], sizeof(b.insn[i])) == 0)
			continue;
		assert_int_equal(was.insn[i].code, BPF_RET | BPF_K);
		assert_int_equal(was.insn[i].k, SECCOMP_RET_KILL_PROCESS);
		assert_int_equal(b.insn[i].k, SECCOMP_RET_USER_NOTIF);
		changed++;
	}
	assert_int_equal(changed, 1); /* one return, shared by all that need it */
	assert_true(bpf_is_valid(b.insn, b.count));
	bpf_free(&was);
	bpf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_numbers_agree_both_ways),
		cmocka_unit_test(a_misspelt_name_gets_its_nearest),
		cmocka_unit_test(allow_lifts_what_is_no_wall),
		cmocka_unit_test(lifting_a_strict_call_keeps_its_argument_checks),
		cmocka_unit_test(walls_cannot_be_lifted),
		cmocka_unit_test(ptrace_is_refused_with_the_level_that_has_it),
		cmocka_unit_test(denied_names_are_denied_whatever_they_were),
		cmocka_unit_test(deny_wins_over_allow),
		cmocka_unit_test(calls_of_other_abis_have_their_own_names),
		cmocka_unit_test(a_replaced_answer_is_the_only_thing_that_changes),
		cmocka_unit_test(bad_names_are_errors_with_a_suggestion),
	};

	return cmocka_run_group_tests_name("seccomp_names", tests, NULL, NULL);
}
