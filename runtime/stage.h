/*
 * The order in which a box comes to life. This list is the only place where the
 * order is written down: the launcher walks it, the child walks it, the wire
 * carries its numbers, errors carry its names, `nsbox run --explain` prints the
 * promises, and SECURITY.md is checked against it.
 *
 * X(name, side, what holds once the stage is done)
 */
#ifndef RUNTIME_STAGE_H
#define RUNTIME_STAGE_H

#define STAGES(X) \
	X(prepare,  PARENT, "the plan is frozen, every source is opened and checked; nothing was changed") \
	X(clone,    PARENT, "the child exists in new namespaces and has every capability in its own user namespace only") \
	X(idmap,    PARENT, "one uid and one gid are mapped, never those of the host's root; setgroups is denied") \
	X(cgroup,   PARENT, "every limit that a cgroup enforces is written and read back; the child is inside") \
	X(network,  CHILD,  "the network namespace has lo and nothing else; with a network, its rules are in force and its sockets passed out") \
	X(ids,      CHILD,  "the child runs as the box's user, in a session and keyring of its own") \
	X(mounts,   CHILD,  "only the planned tree is visible; the old root is gone") \
	X(limits,   CHILD,  "resource limits, umask and descriptors are set") \
	X(caps,     CHILD,  "all five capability sets are empty") \
	X(lockdown, CHILD,  "no_new_privs, Landlock and seccomp are on") \
	X(init,     CHILD,  "init runs as PID 1 from a sealed file, under the lockdown") \
	X(exec,     INIT,   "the payload is running and is not PID 1")

enum stage {
#define X(name, side, promise) STAGE_##name,
	STAGES(X)
#undef X
	STAGE_COUNT
};

enum stage_side { SIDE_PARENT, SIDE_CHILD, SIDE_INIT };

const char *stage_name(unsigned stage);		/* "?" out of range */
const char *stage_promise(unsigned stage);
enum stage_side stage_side(unsigned stage);

#endif
