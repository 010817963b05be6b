/*
 * Settings, or the error instead of them, between nsbox-policyc and the static
 * command, and in the command's cache: a length in front of everything, no parsing.
 * Little-endian as both ends are the same machine; never sent anywhere else.
 */
#ifndef POLICY_WIRE_H
#define POLICY_WIRE_H

#include "policy/policy.h"

enum { WIRE_SIZE_MAX = 8 * 1024 * 1024 };

/* code 0: the settings; else the error. */
void wire_put(struct buf *out, const struct settings *s, int code,
	      const struct nsbox_error *err);

/*
 * Back again. @file is put into each setting (borrowed). The code that was put, err
 * filled in from the wire; NSBOX_E_SYSTEM for a block that is not whole.
 */
int wire_get(struct settings *out, const char *data, size_t len,
	     const char *file, struct nsbox_error *err);

#endif
