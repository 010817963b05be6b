/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `nsbox rpc` reads out of JSON beside what base/jscan.h has. The values came out of
 * jscan_check(), and what is in them is a client's.
 */
#ifndef NSBOX_RPC_JSON_H
#define NSBOX_RPC_JSON_H

#include "base/jscan.h"
#include "nsbox.h"

/* A string that names something: on one line, and short enough; else false. */
bool rpc_word(struct jscan v, char *out, size_t size);

bool rpc_true(struct jscan v);

/* What a string of RFC 4648 base64 holds, *out malloc'ed and with a NUL behind *len bytes.
 * Padding is optional, blanks are not taken. */
int rpc_base64(struct jscan v, char **out, size_t *len, struct nsbox_error *err);

#endif
