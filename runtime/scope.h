/*
 * A transient scope of the user's systemd, with its cgroup delegated to us. nsbox-scope
 * asks for it over the user bus, lives in it so that it stays, and ends with us.
 */
#ifndef RUNTIME_SCOPE_H
#define RUNTIME_SCOPE_H

#include "base/err.h"
#include "runtime/scope_wire.h"

#include <stdbool.h>
#include <sys/types.h>

struct scope {
	pid_t pid;	/* of nsbox-scope; 0: no scope */
	int pidfd, sock;
	/* We are in no cgroup that shares a folder of ours with the scope, so the kernel
	 * lets only systemd move processes into it: cgroups(7), delegation containment. */
	bool is_apart;
};

/* Could there be one? One system call. */
bool scope_is_likely(void);
/* 0, or negative with what went wrong in *answer. No malloc: also for a child of doctor. */
enum { SCOPE_NO_PROGRAM = -2 }; /* nsbox-scope is not installed beside nsbox */
int scope_start(struct scope *s, struct scope_answer *answer);
int scope_attach(const struct scope *s, const char *leaf, pid_t pid, struct nsbox_error *err);
void scope_end(struct scope *s);

#endif
