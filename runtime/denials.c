/*
 * denials.c - what a box was refused while it lived: memory, processes, space
 *
 * Runs in the launcher at the end of a run.
 *
 * Must:    rest on a counter of the kernel, a look of ours, or the wait status, and say
 *          no more than that shows: a full tree, not a failed write.
 * Mustn't: name a limit that was not the one that refused.
 */
#include "runtime/denials.h"

#include "base/buf.h"
#include "base/num.h"
#include "policy/seccomp.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum { SENTENCE = 4096 + 256 };

struct entry {
	struct buf what, rule, allow;
};
#define ENTRY_INIT { BUF_INIT(SENTENCE), BUF_INIT(SENTENCE), BUF_INIT(SENTENCE) }

/* Takes the texts; an empty one is null in the record. */
static int add(struct nsbox_result *r, const char *layer, struct entry *e)
{
	const char *rule = e->rule.len ? buf_text(&e->rule) : NULL;
	const char *allow = e->allow.len ? buf_text(&e->allow) : NULL;
	int code = e->what.failed || e->rule.failed || e->allow.failed
			   ? NSBOX_E_NOMEM
			   : result_add_denial(r, layer, buf_text(&e->what), rule, allow);

	buf_free(&e->what);
	buf_free(&e->rule);
	buf_free(&e->allow);
	return code;
}

static uint64_t twice(uint64_t v)
{
	return v > UINT64_MAX / 2 ? UINT64_MAX : 2 * v;
}

static const char *plural(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

/* The kernel killed in the box, and its main program ended in another way. */
static int add_oom(struct nsbox_result *r, const struct watch *w)
{
	const struct cgroup_usage *u = &w->evidence.cgroup;
	uint64_t memory = w->policy->limits.memory;
	struct entry e = ENTRY_INIT;
	char text[32];

	if (!u->has_oom || !u->oom_kills || r->verdict == NSBOX_OUT_OF_MEMORY)
		return 0;
	buf_fmt(&e.what, "%llu %s killed at the memory limit of %s",
		(unsigned long long)u->oom_kills,
		plural(u->oom_kills, "process was", "processes were"), num_size_text(memory, text));
	buf_fmt(&e.rule, "limits.memory=%s", text);
	buf_fmt(&e.allow, "--memory %s", num_size_text(twice(memory), text));
	return add(r, "memory", &e);
}

/*
 * Before Linux 6.11 a leaf also counts forks that a limit above it refused; the leaf's
 * own limit was reached only if its peak says so.
 */
static int add_forks(struct nsbox_result *r, const struct watch *w)
{
	const struct cgroup_usage *u = &w->evidence.cgroup;
	uint64_t pids = w->policy->limits.pids;
	bool was_ours = !u->has_pids_peak || u->pids_peak > pids; /* with init */
	struct entry e = ENTRY_INIT;

	if (!u->has_pids_events || !u->pids_max_events || r->verdict == NSBOX_PIDS_LIMIT)
		return 0;
	buf_fmt(&e.what, "%llu new %s refused at ", (unsigned long long)u->pids_max_events,
		plural(u->pids_max_events, "process or thread was", "processes or threads were"));
	if (!was_ours) {
		buf_str(&e.what, "a limit of the groups that the box is in");
		return add(r, "pids", &e);
	}
	buf_fmt(&e.what, "the limit of %llu", (unsigned long long)pids);
	buf_fmt(&e.rule, "limits.pids=%llu", (unsigned long long)pids);
	buf_fmt(&e.allow, "--pids %llu", (unsigned long long)twice(pids));
	return add(r, "pids", &e);
}

/* ---------------------------------------------------------------------- disk -- */

/* Where the size of a tree comes from, and what sets it. */
static const struct origin_row {
	const char *path, *key, *flag;
	size_t field;
} origins[] = {
	{ "workspace", "limits.disk", "--disk ", offsetof(struct policy, limits.disk) },
	{ "tmp", "limits.tmp", "--set limits.tmp=", offsetof(struct policy, limits.tmp) },
	{ "dev/shm", "limits.shm", "--set limits.shm=", offsetof(struct policy, limits.shm) },
};

/* NULL: the size is that of an entry of fs.tmpfs. */
static const struct origin_row *origin_of(const struct policy *p, const struct tree *t)
{
	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++)
		if (strcmp(origins[i].path, t->path) == 0 &&
		    *(const uint64_t *)((const char *)p + origins[i].field) == t->bytes)
			return &origins[i];
	return NULL;
}

static void say_size(struct entry *e, const struct policy *p, const struct tree *t)
{
	const struct origin_row *from = origin_of(p, t);
	char now[32], more[32];

	num_size_text(t->bytes, now);
	num_size_text(twice(t->bytes), more);
	if (from) {
		buf_fmt(&e->rule, "%s=%s", from->key, now);
		buf_fmt(&e->allow, "%s%s", from->flag, more);
	} else {
		buf_fmt(&e->rule, "fs.tmpfs=/%s:%s", t->path, now);
		buf_fmt(&e->allow, "--tmpfs /%s:%s", t->path, more);
	}
}

static int add_full(struct nsbox_result *r, const struct policy *p, const struct tree *t)
{
	struct entry e = ENTRY_INIT;
	char size[32];

	buf_fmt(&e.what, "/%s was full: %s", t->path, num_size_text(t->bytes, size));
	say_size(&e, p, t);
	return add(r, "disk", &e);
}

/* A larger tree has more of them, unless limits.inodes is what bounds it. */
static int add_out_of_inodes(struct nsbox_result *r, const struct policy *p,
			     const struct tree *t)
{
	unsigned long long inodes = t->inodes;
	struct entry e = ENTRY_INIT;

	buf_fmt(&e.what, "/%s was full: %llu files and folders", t->path, inodes);
	if (p->limits.inodes == t->inodes) {
		buf_fmt(&e.rule, "limits.inodes=%llu", inodes);
		buf_fmt(&e.allow, "--set limits.inodes=%llu", 2 * inodes);
	} else {
		say_size(&e, p, t);
	}
	return add(r, "disk", &e);
}

static int add_trees(struct nsbox_result *r, const struct watch *w)
{
	int code = 0;

	for (size_t i = 0; i < w->trees.count && code >= 0; i++) {
		const struct tree *t = &w->trees.v[i];

		if (r->verdict == NSBOX_DISK_LIMIT && w->evidence.kill_value == i)
			continue; /* the reason has it */
		if (t->was_full)
			code = add_full(r, w->policy, t);
		if (t->was_out_of_inodes && code >= 0)
			code = add_out_of_inodes(r, w->policy, t);
	}
	return code;
}

/*
 * The kernel sends SIGXFSZ to who writes beyond RLIMIT_FSIZE, and a program can send it to
 * itself: unlike SIGXCPU there is no second thing to see, since the file may be gone. So
 * the verdict stays "signaled", and this names what most likely stood in the way.
 */
static int add_file_size(struct nsbox_result *r, const struct watch *w)
{
	uint64_t size = w->policy->limits.file_size;
	struct entry e = ENTRY_INIT;
	char text[32];

	if (!size || r->verdict != NSBOX_SIGNALED || r->signal != SIGXFSZ)
		return 0;
	buf_fmt(&e.what, "died of SIGXFSZ, the signal for a file that grows beyond %s",
		num_size_text(size, text));
	buf_fmt(&e.rule, "limits.file_size=%s", text);
	buf_fmt(&e.allow, "--set limits.file_size=%s", num_size_text(twice(size), text));
	return add(r, "disk", &e);
}

/* No policy can allow one: there is no rule to name. */
static int add_foreign(struct nsbox_result *r, const struct watch *w)
{
	const struct evidence *ev = &w->evidence;
	struct entry e = ENTRY_INIT;
	struct syscall_text call;

	if (!ev->foreign.is_seen)
		return 0;
	syscall_describe(ev->foreign.arch, ev->foreign.nr, &call);
	buf_fmt(&e.what, "%s (%s %u)", call.name ? call.name : "a system call of another ABI",
		call.abi, call.number);
	return add(r, "syscalls", &e);
}

int denials_fill(struct nsbox_result *r, const struct watch *w)
{
	static int (*const all[])(struct nsbox_result *, const struct watch *) = {
		add_oom, add_forks, add_trees, add_file_size, add_foreign,
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i](r, w) < 0)
			return NSBOX_E_NOMEM;
	return 0;
}
