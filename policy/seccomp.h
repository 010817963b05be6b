/*
 * Policy -> seccomp BPF. Pure: no system call, no libseccomp at run time.
 *
 * The rules are one table (seccomp_rules.c); names and numbers of system calls
 * come from a table that tools/gen makes with libseccomp when nsbox is built.
 * The program is a few range checks over the number, then argument checks for
 * the conditional calls. Filters of the built-in levels are made at build time
 * (build/gen/filters.inc) and must equal what seccomp_compile() gives (a test).
 */
#ifndef POLICY_SECCOMP_H
#define POLICY_SECCOMP_H

#include "base/err.h"
#include "policy/policy.h"

#include <linux/filter.h>

struct bpf { /* a program; instructions owned, free with bpf_free() */
	struct sock_filter *insn;
	size_t count; /* <= BPF_MAXINSNS (4096) */
};
void bpf_free(struct bpf *b);

/* The filter that init and payload run under. */
int seccomp_compile(struct bpf *out, int level, const struct strlist *allow,
		    const struct strlist *deny, struct nsbox_error *err);

/*
 * The same for the payload of a box without namespaces alone, to be loaded with a listener:
 * init answers what this notifies it of (runtime/init/broker.c), and may not run under it.
 * CALLS: sockets, which the supervisor makes and connects. MODES: the box's user is the caller,
 * whose files it must not change by what Landlock does not see.
 */
enum { SECCOMP_HOLDS_CALLS = 1, SECCOMP_HOLDS_MODES = 2 };
int seccomp_compile_held(struct bpf *out, const struct policy *p, unsigned what,
			 struct nsbox_error *err);

/*
 * The second, stacked filter for the payload alone, so that init can still start
 * it: no new process (fork, vfork, clone without CLONE_THREAD -> EPERM) and no
 * memfd to execute (ENOSYS), for process.subprocesses = false. Level strict also implies it.
 */
int seccomp_compile_no_fork(struct bpf *out, struct nsbox_error *err);

/*
 * The filter of a box without namespaces, stacked on the level's, for init as well: nothing
 * that such a box would share with the host. @has_sockets: the supervisor makes them; else
 * there are none but connected pairs.
 */
int seccomp_compile_walls(struct bpf *out, bool has_sockets, struct nsbox_error *err);

/* Ready-made program of a level without extra names; NULL: none for this arch. */
const struct sock_filter *seccomp_builtin(int level, size_t *count);

/* Number of a call on this architecture, or -1; name of a number or NULL. */
int syscall_number(const char *name);
const char *syscall_name(int number);
const char *syscall_nearest(const char *name);

/* A call of an ABI that the filters know nothing of, as the kernel tells of it. */
struct syscall_text {
	const char *abi;	/* "i386", "x32"; "foreign": some other */
	uint32_t number;	/* of that ABI */
	const char *name;	/* NULL: not known */
};
void syscall_describe(uint32_t audit_arch, uint32_t nr, struct syscall_text *out);

/* Give another answer where a program gives @from (two SECCOMP_RET_* values). */
void bpf_replace_return(struct sock_filter *insn, size_t count, uint32_t from, uint32_t to);

/* Would the kernel take it: known instructions, jumps inside, ends with a return? */
bool bpf_is_valid(const struct sock_filter *insn, size_t count);

/*
 * What a program answers (a plain interpreter of classic BPF, for tests and for
 * `nsbox policy explain --syscall`): the SECCOMP_RET_* value.
 */
struct seccomp_data;
uint32_t bpf_evaluate(const struct sock_filter *insn, size_t count,
		      const struct seccomp_data *data);

#endif
