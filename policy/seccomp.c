/*
 * Level and extra names -> one answer for each system call number -> BPF.
 *
 * Owns:    the order in which rules override one another: groups, level, allow,
 *          deny. What comes later wins, so a call that is both allowed and denied
 *          is denied.
 * Runs in: whoever compiles a policy, and the build.
 * Must:    refuse an unknown name, and a name whose answer is a wall of the box.
 * Mustn't: make a system call.
 */
#include "policy/seccomp_rules.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

struct answers {
	uint16_t of[SYSCALL_LIMIT];
};

int seccomp_each_name(const char *names, int (*each)(int number, void *context),
		      void *context)
{
	while (*names) {
		size_t len = strcspn(names, " ");
		char name[64];
		int number = -1, r = 0;

		if (len < sizeof(name)) {
			memcpy(name, names, len);
			name[len] = '\0';
			number = syscall_number(name);
		}
		if (number >= 0 && number < SYSCALL_LIMIT)
			r = each(number, context);
		if (r)
			return r;
		names += names[len] ? len + 1 : len;
	}
	return 0;
}

/* --- groups and levels --------------------------------------------------- */

struct assignment {
	struct answers *answers;
	uint16_t answer;
};

static int assign(int number, void *context)
{
	struct assignment *to = context;

	to->answers->of[number] = to->answer;
	return 0;
}

static void assign_all(struct answers *a, const char *names, uint16_t answer)
{
	seccomp_each_name(names, assign, &(struct assignment){ a, answer });
}

/* Level audit lets through and logs what syscalls.allow could lift. Walls stay:
 * code that is only watched is still code that nobody has reviewed. */
static uint16_t group_answer(const struct seccomp_group *g, int level)
{
	bool is_errno = g->answer != ANSWER_ALLOW && !answer_is_check(g->answer);

	return level == LEVEL_AUDIT && is_errno && !g->wall ? ANSWER_LOG : g->answer;
}

static void apply_level(struct answers *a, int level)
{
	for (size_t i = 0; i < SYSCALL_LIMIT; i++)
		a->of[i] = ENOSYS;
	for (size_t i = 0; i < seccomp_group_count; i++)
		assign_all(a, seccomp_groups[i].names,
			   group_answer(&seccomp_groups[i], level));
	for (size_t i = 0; i < seccomp_override_count; i++)
		if (seccomp_overrides[i].level == level)
			assign_all(a, seccomp_overrides[i].names,
				   seccomp_overrides[i].answer);
}

/* --- extra names --------------------------------------------------------- */

static int is_number(int number, void *context)
{
	return number == *(const int *)context;
}

static bool names_have(const char *names, int number)
{
	return seccomp_each_name(names, is_number, &number) != 0;
}

static const struct seccomp_group *group_of(int number)
{
	for (size_t i = 0; i < seccomp_group_count; i++)
		if (names_have(seccomp_groups[i].names, number))
			return &seccomp_groups[i];
	return NULL;
}

static int known_number(const char *key, const char *name, struct nsbox_error *err)
{
	int number = syscall_number(name);
	const char *nearest;

	if (number >= 0 && number < SYSCALL_LIMIT)
		return number;
	nearest = syscall_nearest(name);
	if (nearest)
		err_hint(err, "did you mean \"%s\"?", nearest);
	else
		err_hint(err, "use a name from syscalls(2), without \"sys_\"");
	return err_set(err, NSBOX_E_POLICY, "%s: unknown system call \"%.64s\"", key, name);
}

static bool level_allows(int level, int number)
{
	for (size_t i = 0; i < seccomp_override_count; i++)
		if (seccomp_overrides[i].level == level &&
		    seccomp_overrides[i].answer == ANSWER_ALLOW &&
		    names_have(seccomp_overrides[i].names, number))
			return true;
	return false;
}

static int refuse_wall(const struct seccomp_group *g, int number, struct nsbox_error *err)
{
	if (level_allows(LEVEL_DEBUG, number))
		err_hint(err, "syscalls.level=debug allows it");
	else if (answer_is_check(g->answer))
		err_hint(err, "remove it: the harmless uses are allowed without asking");
	else
		err_hint(err, "remove it: no policy can allow this call in a box");
	return err_set(err, NSBOX_E_POLICY, "syscalls.allow: %s cannot be lifted, because it %s",
		       syscall_name(number), g->why);
}

/*
 * A call that the level made stricter goes back to what level default answers,
 * argument checks included; one that is not open there is opened, unless the answer
 * is a wall.
 */
static int allow_one(struct answers *a, const char *name, struct nsbox_error *err)
{
	int number = known_number("syscalls.allow", name, err);
	const struct seccomp_group *g;

	if (number < 0)
		return number;
	g = group_of(number);
	if (!g)
		return err_set(err, NSBOX_E_POLICY,
			       "syscalls.allow: %s has no rule in this version", name);
	if (a->of[number] == ANSWER_ALLOW)
		return 0;
	if (g->answer == ANSWER_ALLOW || !g->wall)
		a->of[number] = ANSWER_ALLOW;
	else if (answer_is_check(g->answer) && a->of[number] != g->answer)
		a->of[number] = g->answer;
	else
		return refuse_wall(g, number, err);
	return 0;
}

static int deny_one(struct answers *a, const char *name, struct nsbox_error *err)
{
	int number = known_number("syscalls.deny", name, err);

	if (number < 0)
		return number;
	if (names_have(seccomp_undeniable, number)) {
		err_hint(err, "process.subprocesses=false forbids other programs");
		return err_set(err, NSBOX_E_POLICY,
			       "syscalls.deny: without %s no program could run in the box", name);
	}
	a->of[number] = EPERM;
	return 0;
}

/* --- the network as a matter of calls -------------------------------------- */

/* What a level denies stays denied, and nothing that syscalls.allow names becomes open: a
 * socket that the supervisor did not make would be the host's. */
static int mediate(int number, void *context)
{
	struct assignment *to = context;
	uint16_t *answer = &to->answers->of[number];

	if (*answer == ANSWER_ALLOW || *answer == ANSWER_LOG || answer_is_check(*answer))
		*answer = to->answer;
	return 0;
}

static void apply_calls(struct answers *a)
{
	for (size_t i = 0; i < seccomp_calls_count; i++)
		seccomp_each_name(seccomp_calls[i].names, mediate,
				  &(struct assignment){ a, seccomp_calls[i].answer });
}

/* Of a box whose user is the caller: the same, for what changes files. */
static void apply_modes(struct answers *a)
{
	for (size_t i = 0; i < seccomp_wall_count; i++)
		if (seccomp_walls[i].when == WALL_SHARED)
			seccomp_each_name(seccomp_walls[i].names, mediate,
					  &(struct assignment){ a, seccomp_walls[i].answer });
}

/* --- the filters ------------------------------------------------------------ */

struct wish {
	int level;
	bool calls, modes, no_fork;
	const struct strlist *allow, *deny;
};

static void apply_no_fork(struct answers *a)
{
	assign_all(a, "fork vfork", EPERM);
	assign_all(a, "clone", CHECK_THREAD);
	assign_all(a, "clone3", ENOSYS); /* libc falls back to clone for threads */
	/* A memfd lies on a mount of the kernel's own, where Landlock lets everything
	 * be executed: the one way to another program that no path rule sees. */
	assign_all(a, "memfd_create", ENOSYS);
}

static int compile(struct bpf *out, const struct wish *w, struct nsbox_error *err)
{
	struct answers a;
	int r = 0;

	if (w->level < 0 || w->level >= LEVEL_COUNT)
		return err_set(err, NSBOX_E_USAGE, "compile the system call filter: level %d",
			       w->level);
	apply_level(&a, w->level);
	for (size_t i = 0; w->allow && i < w->allow->n && r == 0; i++)
		r = allow_one(&a, w->allow->v[i], err);
	if (w->calls)
		apply_calls(&a);
	if (w->modes)
		apply_modes(&a);
	if (w->no_fork)
		apply_no_fork(&a);
	for (size_t i = 0; w->deny && i < w->deny->n && r == 0; i++)
		r = deny_one(&a, w->deny->v[i], err);
	return r < 0 ? r : seccomp_emit(out, a.of, ENOSYS, err);
}

int seccomp_compile(struct bpf *out, int level, const struct strlist *allow,
		    const struct strlist *deny, struct nsbox_error *err)
{
	return compile(out, &(struct wish){ level, false, false, false, allow, deny }, err);
}

int seccomp_compile_held(struct bpf *out, const struct policy *p, unsigned what,
			 struct nsbox_error *err)
{
	const struct wish w = {
		p->syscalls.level, what & SECCOMP_HOLDS_CALLS, what & SECCOMP_HOLDS_MODES,
		!p->process.subprocesses || p->syscalls.level == LEVEL_STRICT,
		&p->syscalls.allow, &p->syscalls.deny,
	};

	return compile(out, &w, err);
}

int seccomp_compile_no_fork(struct bpf *out, struct nsbox_error *err)
{
	struct answers a;

	for (size_t i = 0; i < SYSCALL_LIMIT; i++)
		a.of[i] = ANSWER_ALLOW;
	apply_no_fork(&a);
	return seccomp_emit(out, a.of, ANSWER_ALLOW, err);
}

int seccomp_compile_walls(struct bpf *out, bool has_sockets, struct nsbox_error *err)
{
	struct answers a;

	for (size_t i = 0; i < SYSCALL_LIMIT; i++)
		a.of[i] = ANSWER_ALLOW;
	for (size_t i = 0; i < seccomp_wall_count; i++)
		if (seccomp_walls[i].when == WALL_ALWAYS ||
		    (seccomp_walls[i].when == WALL_NO_SOCKETS && !has_sockets))
			assign_all(&a, seccomp_walls[i].names, seccomp_walls[i].answer);
	return seccomp_emit(out, a.of, ANSWER_ALLOW, err);
}
