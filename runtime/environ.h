/*
 * The environment of a box.
 *
 * It starts from a table of its own, never from the caller's environment. In the
 * order base < env.inherit < env.pass < env.set, the later one wins.
 */
#ifndef RUNTIME_ENVIRON_H
#define RUNTIME_ENVIRON_H

#include "base/err.h"
#include "base/strlist.h"
#include "policy/policy.h"

#include <stdbool.h>

/*
 * NAME=VALUE strings for execve(2), each name once. @caller_env: the caller's, NULL-
 * terminated, may be NULL. @path: PATH in the box. A name of env.pass that the
 * caller does not have stays absent.
 * NSBOX_E_POLICY: a name that is none (empty, "=" in it), an entry of env.set without
 * "=", or more bytes than execve(2) takes; the message never shows a value.
 */
int environ_build(struct strlist *out, const struct policy *p,
		  const char *const *caller_env, const char *path,
		  struct nsbox_error *err);

/* Put NAME=VALUE in, in the place of one with the same name. -1: no memory. */
int environ_set(struct strlist *env, const char *entry);

/*
 * May env.inherit hand this on? Not what looks like a secret (by name, or a URL
 * with a password in it), and not what is only true outside the box (HOME, PATH,
 * sockets, the loader's and the interpreters' search paths).
 */
bool environ_may_inherit(const char *name, const char *value);

#endif
