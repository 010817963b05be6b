/*
 * The same policy through libseccomp: do both filters answer alike?
 *
 * Which call has which plain answer comes from our table; the argument checks are
 * written a second time here, in libseccomp's terms. It knows one comparison an
 * argument and rule and no order between rules, so the policy is three stacked
 * filters: plain answers, what is denied by its arguments, what is allowed by them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/filter.h"

#define WORD 0xffffffffull
#define MASKED(n, mask, value) SCMP_CMP((n), SCMP_CMP_MASKED_EQ, (mask), (value))

/* --- libseccomp ---------------------------------------------------------- */

static struct bpf exported(scmp_filter_ctx ctx)
{
	int fd = memfd_create("filter", MFD_CLOEXEC);
	struct bpf b = { 0 };
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	b.count = (size_t)st.st_size / sizeof(*b.insn);
	b.insn = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, b.insn, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	seccomp_release(ctx);
	assert_true(bpf_is_valid(b.insn, b.count));
	return b;
}

static scmp_filter_ctx started(uint32_t otherwise)
{
	scmp_filter_ctx ctx = seccomp_init(otherwise);

	assert_non_null(ctx);
	assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), 0);
	seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return ctx;
}

static void add(scmp_filter_ctx ctx, uint32_t action, const char *name, unsigned n,
		const struct scmp_arg_cmp *cmp)
{
	int r = seccomp_rule_add_array(ctx, action, syscall_number(name), n, cmp);

	if (r < 0)
		fail_msg("libseccomp: %s: %d", name, r);
}
#define ADD(ctx, action, name, ...) do { \
		const struct scmp_arg_cmp cmp_[] = { __VA_ARGS__ }; \
		add(ctx, action, name, ARRAY_SIZE(cmp_), cmp_); \
	} while (0)

/* --- the three filters --------------------------------------------------- */

static struct bpf plain_filter(const uint16_t answers[SYSCALL_LIMIT])
{
	scmp_filter_ctx ctx = started(SCMP_ACT_ERRNO(ENOSYS));

	for (int nr = 0; nr < SYSCALL_LIMIT; nr++) {
		uint32_t action = SCMP_ACT_ERRNO(answers[nr]);

		if (answers[nr] == ANSWER_ALLOW || answer_is_check(answers[nr]))
			action = SCMP_ACT_ALLOW;
		else if (answers[nr] == ANSWER_LOG)
			action = SCMP_ACT_LOG;
		if (answers[nr] != ENOSYS)
			assert_int_equal(seccomp_rule_add_array(ctx, action, nr, 0, NULL), 0);
	}
	return exported(ctx);
}

static void deny_modes(scmp_filter_ctx ctx, uint64_t bit)
{
	const uint32_t eperm = SCMP_ACT_ERRNO(EPERM);
	static const char *const mode_1[] = { "chmod", "fchmod", "creat", "mkdir", "mknod" };
	static const char *const mode_2[] = { "fchmodat", "fchmodat2", "mkdirat", "mknodat" };
	static const uint64_t create[] = { O_CREAT, O_TMPFILE & ~O_DIRECTORY };

	for (size_t i = 0; i < ARRAY_SIZE(mode_1); i++)
		ADD(ctx, eperm, mode_1[i], MASKED(1, bit, bit));
	for (size_t i = 0; i < ARRAY_SIZE(mode_2); i++)
		ADD(ctx, eperm, mode_2[i], MASKED(2, bit, bit));
	for (size_t i = 0; i < ARRAY_SIZE(create); i++) {
		ADD(ctx, eperm, "open", MASKED(1, create[i], create[i]), MASKED(2, bit, bit));
		ADD(ctx, eperm, "openat", MASKED(2, create[i], create[i]), MASKED(3, bit, bit));
	}
}

static struct bpf denying_filter(void)
{
	static const uint64_t spaces[] = { CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					   CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET };
	static const uint64_t typing[] = { TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD };
	const uint32_t eperm = SCMP_ACT_ERRNO(EPERM), noopt = SCMP_ACT_ERRNO(ENOPROTOOPT);
	scmp_filter_ctx ctx = started(SCMP_ACT_ALLOW);

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		ADD(ctx, eperm, "clone", MASKED(0, spaces[i], spaces[i]));
		ADD(ctx, eperm, "unshare", MASKED(0, spaces[i], spaces[i]));
	}
	ADD(ctx, eperm, "unshare", MASKED(0, 0x80, 0x80));
	for (size_t i = 0; i < ARRAY_SIZE(typing); i++)
		ADD(ctx, eperm, "ioctl", MASKED(1, WORD, typing[i]));
	deny_modes(ctx, S_ISUID);
	deny_modes(ctx, S_ISGID);
	ADD(ctx, eperm, "mknod", MASKED(1, S_IFMT, S_IFCHR));
	ADD(ctx, eperm, "mknod", MASKED(1, S_IFMT, S_IFBLK));
	ADD(ctx, eperm, "mknodat", MASKED(2, S_IFMT, S_IFCHR));
	ADD(ctx, eperm, "mknodat", MASKED(2, S_IFMT, S_IFBLK));
	ADD(ctx, eperm, "seccomp", MASKED(1, 8, 8));
	ADD(ctx, noopt, "setsockopt", MASKED(1, WORD, 6), MASKED(2, WORD, 31));
	ADD(ctx, noopt, "setsockopt", MASKED(1, WORD, 17), MASKED(2, WORD, 100));
	return exported(ctx);
}

static void allow_inet(scmp_filter_ctx ctx, uint64_t family)
{
	static const uint64_t protocols[] = { 0, 1, 6, 17, 58 };

	for (uint64_t type = SOCK_STREAM; type <= SOCK_DGRAM; type++)
		for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
			ADD(ctx, SCMP_ACT_ALLOW, "socket", MASKED(0, WORD, family),
			    MASKED(1, 0xf, type), MASKED(2, WORD, protocols[i]));
}

static struct bpf allowing_filter(int level)
{
	scmp_filter_ctx ctx = started(SCMP_ACT_ERRNO(EPERM));

	ADD(ctx, SCMP_ACT_ALLOW, "socket", MASKED(0, WORD, AF_UNIX));
	ADD(ctx, SCMP_ACT_ALLOW, "socket", MASKED(0, WORD, AF_NETLINK), MASKED(2, WORD, 0));
	allow_inet(ctx, AF_INET);
	allow_inet(ctx, AF_INET6);
	if (level == LEVEL_STRICT) {
		ADD(ctx, SCMP_ACT_ALLOW, "socketpair", MASKED(0, WORD, AF_UNIX), MASKED(1, 0xf, 1));
		ADD(ctx, SCMP_ACT_ALLOW, "socketpair", MASKED(0, WORD, AF_UNIX), MASKED(1, 0xf, 5));
	} else {
		ADD(ctx, SCMP_ACT_ALLOW, "socketpair", MASKED(0, WORD, AF_UNIX));
	}
	ADD(ctx, SCMP_ACT_ALLOW, "personality", MASKED(0, WORD, 0));
	ADD(ctx, SCMP_ACT_ALLOW, "personality", MASKED(0, WORD, WORD));
	if (level == LEVEL_DEBUG)
		ADD(ctx, SCMP_ACT_ALLOW, "personality", MASKED(0, WORD, 0x0040000));
	return exported(ctx);
}

/* --- one policy, both ways ----------------------------------------------- */

struct both {
	int level;
	uint16_t answers[SYSCALL_LIMIT];
	struct bpf ours, plain, denying, allowing;
};

static void both_free(struct both *b)
{
	bpf_free(&b->ours);
	bpf_free(&b->plain);
	bpf_free(&b->denying);
	bpf_free(&b->allowing);
}

struct assigned {
	uint16_t *answers, answer;
};

static int assign(int number, void *context)
{
	const struct assigned *to = context;

	to->answers[number] = to->answer;
	return 0;
}

/* Level by level, in plain words: what the compiler must make of the tables. */
static void plain_answers(struct both *b)
{
	for (int nr = 0; nr < SYSCALL_LIMIT; nr++)
		b->answers[nr] = ENOSYS;
	for (size_t i = 0; i < seccomp_group_count; i++) {
		const struct seccomp_group *g = &seccomp_groups[i];
		bool is_logged = b->level == LEVEL_AUDIT && !g->wall && g->answer < 4096;

		seccomp_each_name(g->names, assign,
				  &(struct assigned){ b->answers, is_logged ? ANSWER_LOG : g->answer });
	}
	for (size_t i = 0; i < seccomp_override_count; i++)
		if (seccomp_overrides[i].level == b->level)
			seccomp_each_name(seccomp_overrides[i].names, assign,
					  &(struct assigned){ b->answers, seccomp_overrides[i].answer });
}

static void compile_both(struct both *b, int level, const struct strlist *allow,
			 const struct strlist *deny)
{
	*b = (struct both){ .level = level };
	b->ours = compiled(level, allow, deny);
	plain_answers(b);
	for (size_t i = 0; allow && i < allow->n; i++)
		b->answers[syscall_number(allow->v[i])] = ANSWER_ALLOW;
	for (size_t i = 0; deny && i < deny->n; i++)
		b->answers[syscall_number(deny->v[i])] = EPERM;
	b->plain = plain_filter(b->answers);
	b->denying = denying_filter();
	b->allowing = allowing_filter(level);
}

static bool is_allowed_by_arguments(uint16_t answer)
{
	return answer == CHECK_SOCKET || answer == CHECK_SOCKETPAIR ||
	       answer == CHECK_SOCKETPAIR_STREAM || answer == CHECK_PERSONALITY ||
	       answer == CHECK_PERSONALITY_DEBUG || answer == CHECK_PERSONALITY_LOG;
}

/* What the stack answers; E(EPERM) of the allowing filter stands for any refusal. */
static uint32_t theirs(const struct both *b, const struct seccomp_data *d)
{
	uint32_t r = bpf_evaluate(b->plain.insn, b->plain.count, d);
	uint16_t ours = (uint32_t)d->nr < SYSCALL_LIMIT ? b->answers[d->nr] : ENOSYS;

	if (r == ALLOWED && answer_is_check(ours))
		r = bpf_evaluate(b->denying.insn, b->denying.count, d);
	if (r == ALLOWED && is_allowed_by_arguments(ours))
		r = bpf_evaluate(b->allowing.insn, b->allowing.count, d);
	if (r == E(EPERM) && ours == CHECK_PERSONALITY_LOG)
		r = LOGGED;
	return r;
}

static void compare(const struct both *b, const struct seccomp_data *d)
{
	uint32_t a = bpf_evaluate(b->ours.insn, b->ours.count, d), other = theirs(b, d);
	uint16_t check = (uint32_t)d->nr < SYSCALL_LIMIT ? b->answers[d->nr] : ENOSYS;

	/* Which errno a socket is refused with is the business of the rows. */
	if (other == E(EPERM) && is_allowed_by_arguments(check) &&
	    (a & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
		a = other;
	if (a != other)
		fail_msg("level %d nr %d (%s) args 0x%llx 0x%llx 0x%llx 0x%llx: ours 0x%x, theirs 0x%x",
			 b->level, d->nr, syscall_name(d->nr), (unsigned long long)d->args[0],
			 (unsigned long long)d->args[1], (unsigned long long)d->args[2],
			 (unsigned long long)d->args[3], a, other);
}

/* --- what is asked ------------------------------------------------------- */

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static uint64_t random_argument(uint64_t *seed)
{
	static const uint64_t telling[] = {
		0, 1, 2, 3, 5, 6, 8, 9, 10, 12, 16, 17, 31, 40, 58, 100, 132, 0x80, WORD, 0x0040000,
		TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, TIOCGWINSZ, O_CREAT, O_TMPFILE, O_DIRECTORY,
		O_CREAT | O_WRONLY, 0644, 01777, 02755, 04755, 06000, S_IFCHR | 0600, S_IFBLK | 0600,
		S_IFIFO | 0600, S_IFSOCK | 0600, S_IFREG | 04600, CLONE_NEWUSER, CLONE_NEWNS | 17,
		CLONE_VM | CLONE_THREAD, SOCK_STREAM | SOCK_CLOEXEC, SOCK_DGRAM | SOCK_NONBLOCK,
	};
	uint64_t r = next(seed), value = telling[(r >> 8) % ARRAY_SIZE(telling)];

	switch (r % 5) {
	case 0:
		return next(seed);
	case 1:
		return value | (next(seed) << 32);
	case 2:
		return value | 1ull << (r >> 32) % 64;
	}
	return value;
}

static int random_number(uint64_t *seed)
{
	static const char *const checked[] = {
		"clone", "unshare", "socket", "socketpair", "setsockopt", "ioctl", "personality",
		"seccomp", "chmod", "fchmod", "creat", "mkdir", "fchmodat", "fchmodat2", "mkdirat",
		"open", "openat", "mknod", "mknodat",
	};
	uint64_t r = next(seed);

	if (r % 16 == 0)
		return (int)((r >> 8) | 0x40000000); /* x32, or beyond */
	if (r % 4 == 0)
		return (int)((r >> 8) % 601);
	return syscall_number(checked[(r >> 8) % ARRAY_SIZE(checked)]);
}

static void ask(const struct both *b, int nr, uint64_t *seed)
{
	struct seccomp_data d = { .nr = nr, .arch = seccomp_native.audit_arch };

	for (size_t i = 0; i < 6; i++)
		d.args[i] = random_argument(seed);
	compare(b, &d);
}

static void every_level_answers_like_libseccomp(void **state)
{
	(void)state;
	for (int level = 0; level < LEVEL_COUNT; level++) {
		owned(both_free) struct both b;
		uint64_t seed = 0x9e3779b97f4a7c15ull + (uint64_t)level;

		compile_both(&b, level, NULL, NULL);
		for (int nr = 0; nr <= 600; nr++)
			for (unsigned i = 0; i < 8; i++)
				ask(&b, nr, &seed);
		for (unsigned i = 0; i < 60000; i++)
			ask(&b, random_number(&seed), &seed);
	}
}

static void random_names(struct strlist *allow, struct strlist *deny, uint64_t *seed)
{
	static const char *const liftable[] = { "io_setup", "memfd_secret", "cachestat", "vmsplice",
						"userfaultfd", "statmount", "ustat", "fanotify_init" };

	for (size_t i = 0; i < ARRAY_SIZE(liftable); i++)
		if (next(seed) % 2)
			assert_int_equal(strlist_add(allow, liftable[i]), 0);
	for (unsigned i = 0; i < 40; i++) {
		const char *name = syscall_name((int)(next(seed) % 470));

		if (name && !strstr(seccomp_undeniable, name))
			assert_int_equal(strlist_add(deny, name), 0);
	}
}

static void policies_with_random_names_answer_like_libseccomp(void **state)
{
	uint64_t seed = 0x2545f4914f6cdd1dull;

	(void)state;
	for (unsigned round = 0; round < 10; round++) {
		owned(strlist_free) struct strlist allow = { 0 }, deny = { 0 };
		owned(both_free) struct both b;

		random_names(&allow, &deny, &seed);
		compile_both(&b, (int)(round % LEVEL_COUNT), &allow, &deny);
		for (int nr = 0; nr <= 600; nr++)
			ask(&b, nr, &seed);
		for (unsigned i = 0; i < 5000; i++)
			ask(&b, random_number(&seed), &seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_level_answers_like_libseccomp),
		cmocka_unit_test(policies_with_random_names_answer_like_libseccomp),
	};

	return cmocka_run_group_tests_name("seccomp_diff", tests, NULL, NULL);
}
