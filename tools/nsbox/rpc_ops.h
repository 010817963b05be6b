/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request may be: one table of operations and one of keys. Taking a request
 * apart, its refusals and the printed schema all walk these two.
 *
 * Runs in `nsbox rpc`. A request that was taken holds only keys that its operation has,
 * each of the kind that the table says; what they mean is for rpc_run.c and others.
 */
#ifndef NSBOX_RPC_OPS_H
#define NSBOX_RPC_OPS_H

#include "tools/nsbox/rpc_json.h"

enum rpc_op {
	OP_HELLO, OP_RUN, OP_CODE, OP_CHECK, OP_CANCEL, OP_DOCTOR, OP_SCHEMA,
	OP_OPEN, OP_EXECUTE, OP_SET, OP_TOOLS, OP_EXEC, OP_PUT, OP_GET, OP_LIST, OP_INTERRUPT,
	OP_REPLY, OP_CLOSE,
	OP_COUNT
};

enum rpc_key {
	K_ID, K_OP, K_ARGV, K_LANGUAGE, K_CODE, K_FILE, K_ARGS, K_PACKAGES, K_TIER, K_PROFILE,
	K_POLICY, K_SET, K_ENV, K_STDIN, K_CWD, K_TIMEOUT_MS, K_ARTIFACTS_DIR, K_INTERPRETER,
	K_PROJECT, K_NAME, K_STREAM, K_PROGRESS, K_AST, K_TARGET,
	/* of a box that stays; some share a name with one above, and are of another kind */
	K_BOX, K_CELL, K_MAY_ASK, K_STORE, K_VALUES, K_TOOLS, K_INPUT, K_PATH, K_DATA, K_MODE,
	K_PARENTS, K_MAX_BYTES, K_CALL, K_VALUE, K_ERROR,
	K_COUNT
};

/* The largest number that every JSON reader keeps exactly. */
#define RPC_NUMBER_MAX (UINT64_C(1) << 53)

enum rpc_kind {
	RPC_STRING,
	RPC_BYTES,	/* a string, or {"base64": "..."} */
	RPC_COUNT,	/* 1 to 2^53 */
	RPC_BOOL,
	RPC_STRINGS,	/* a list of strings */
	RPC_MAP,	/* an object of strings */
	RPC_SETTINGS,	/* an object: string, number, true, false, null or a list of strings */
	RPC_OBJECT,
	RPC_OBJECTS,	/* a list of objects */
	RPC_ANY,
	RPC_KINDS
};

#define RPC_BIT(op) (1u << (op))

/* What is passed on to an interpreter that stays, and answered by it. */
#define RPC_CELLS (RPC_BIT(OP_EXECUTE) | RPC_BIT(OP_SET) | RPC_BIT(OP_TOOLS) | RPC_BIT(OP_EXEC) | \
		   RPC_BIT(OP_PUT) | RPC_BIT(OP_GET) | RPC_BIT(OP_LIST))

struct rpc_key_row {
	const char *name;
	enum rpc_kind kind;
	unsigned takes, needs;	/* RPC_BIT() of operations */
	const char *help;
};
extern const struct rpc_key_row rpc_keys[K_COUNT];

struct rpc_op_row {
	const char *name;
	const char *result;	/* what "result" is, for the schema */
};
extern const struct rpc_op_row rpc_ops[OP_COUNT];

struct rpc_request {
	uint64_t id;		/* 0: none was found */
	enum rpc_op op;
	struct jscan v[K_COUNT];	/* p NULL: not given */
};

/*
 * Take @frame apart. NSBOX_E_USAGE says what was wrong; the id is set when there was
 * one, so that the answer can name it.
 */
int rpc_request_take(struct rpc_request *q, struct jscan frame, struct nsbox_error *err);

/* The JSON schema of requests, answers and events; malloc'ed, NULL: no memory. */
char *rpc_schema(void);

#endif
