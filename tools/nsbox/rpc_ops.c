/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rpc_ops.h. Runs in `nsbox rpc`. Mustn't let an unknown key pass: a misspelt limit
 * would be no limit.
 */
#include "tools/nsbox/rpc_ops.h"

#include <string.h>

#include "tools/nsbox/nearest.h"
#include "tools/nsbox/say.h"

#define OPEN RPC_BIT(OP_OPEN)
#define CODES (RPC_BIT(OP_CODE) | RPC_BIT(OP_CHECK))
#define RUNS (RPC_BIT(OP_RUN) | CODES)
#define MAKES (RUNS | OPEN)
#define EXECUTE RPC_BIT(OP_EXECUTE)
#define EXEC RPC_BIT(OP_EXEC)
#define PUT RPC_BIT(OP_PUT)
#define GET RPC_BIT(OP_GET)
#define PATHS (PUT | GET | RPC_BIT(OP_LIST))
#define REPLY RPC_BIT(OP_REPLY)
#define BOXES (RPC_CELLS | RPC_BIT(OP_INTERRUPT) | REPLY | RPC_BIT(OP_CLOSE))
#define EVERY (RPC_BIT(OP_COUNT) - 1)

/* clang-format off */
const struct rpc_op_row rpc_ops[OP_COUNT] = {
	[OP_HELLO] = { "hello", "version, protocol, tiers, languages, pid" },
	[OP_RUN] = { "run", "the record nsbox.result/1" },
	[OP_CODE] = { "code", "the record nsbox.result/1" },
	[OP_CHECK] = { "check", "the record nsbox.result/1 of the static tier" },
	[OP_CANCEL] = { "cancel", "target, and found: was such a request in flight" },
	[OP_DOCTOR] = { "doctor", "what 'nsbox doctor --json' prints" },
	[OP_SCHEMA] = { "schema", "this schema" },
	[OP_OPEN] = { "open", "box (its name for the operations below), language, version" },
	[OP_EXECUTE] = { "execute", "status, value, repr, mime, error, execution_count and more" },
	[OP_SET] = { "set", "status, error" },
	[OP_TOOLS] = { "tools", "status, error" },
	[OP_EXEC] = { "exec", "status, exit_code, error" },
	[OP_PUT] = { "put", "status, error" },
	[OP_GET] = { "get", "status, data, error" },
	[OP_LIST] = { "list", "status, error, and what is there" },
	[OP_INTERRUPT] = { "interrupt", "box" },
	[OP_REPLY] = { "reply", "none: it has no id and no answer" },
	[OP_CLOSE] = { "close", "the record nsbox.result/1 of the box's last run" },
};

const struct rpc_key_row rpc_keys[K_COUNT] = {
	[K_ID] = { "id", RPC_COUNT, EVERY & ~REPLY, EVERY & ~REPLY,
		"names the request; unique among those in flight" },
	[K_OP] = { "op", RPC_STRING, EVERY, EVERY, "the operation" },
	[K_ARGV] = { "argv", RPC_STRINGS, RPC_BIT(OP_RUN) | EXEC, RPC_BIT(OP_RUN) | EXEC, "command and arguments" },
	[K_LANGUAGE] = { "language", RPC_STRING, CODES | OPEN, OPEN,
		"python, javascript or bash; without it the file's suffix says" },
	[K_CODE] = { "code", RPC_BYTES, CODES, 0, "source text, at most 16 MiB; or file" },
	[K_FILE] = { "file", RPC_STRING, CODES, 0, "a file of the host that holds the source" },
	[K_ARGS] = { "args", RPC_STRINGS, CODES | OPEN, 0, "arguments of the code" },
	[K_PACKAGES] = { "packages", RPC_STRINGS, CODES | OPEN, 0, "more items of packages.list" },
	[K_TIER] = { "tier", RPC_STRING, MAKES, 0, "local (default), static, local_unsafe, docker, docker_unsafe" },
	[K_PROFILE] = { "profile", RPC_STRING, MAKES, 0,
		"the profile that the policy starts from, or a policy file (with / or .json)" },
	[K_POLICY] = { "policy", RPC_OBJECT, MAKES, 0, "a policy as in a policy file, on top of the profile" },
	[K_SET] = { "set", RPC_SETTINGS, MAKES, 0, "policy keys by their dotted names, on top of all others" },
	[K_ENV] = { "env", RPC_MAP, MAKES | EXECUTE | EXEC, 0, "environment variables of the program" },
	[K_STDIN] = { "stdin", RPC_BYTES, RUNS, 0, "standard input; empty without it" },
	[K_CWD] = { "cwd", RPC_STRING, MAKES | EXEC, 0, "the folder in the box where it starts" },
	[K_TIMEOUT_MS] = { "timeout_ms", RPC_COUNT, MAKES | RPC_CELLS, 0,
		"milliseconds; without it the policy's. Of open: the life of the box, a day without it" },
	[K_ARTIFACTS_DIR] = { "artifacts_dir", RPC_STRING, MAKES, 0, "a folder of the host for artifacts" },
	[K_INTERPRETER] = { "interpreter", RPC_STRING, MAKES, 0, "the interpreter, a path or a name on PATH" },
	[K_PROJECT] = { "project", RPC_STRING, MAKES, 0, "a folder of the host on the module path, read-only" },
	[K_NAME] = { "name", RPC_STRING, MAKES, 0, "the box's name in the list of boxes" },
	[K_STREAM] = { "stream", RPC_BOOL, RUNS, 0, "send output as events while it comes" },
	[K_PROGRESS] = { "progress", RPC_BOOL, MAKES, 0, "send an event when packages have to be installed first" },
	[K_AST] = { "ast", RPC_BOOL, CODES, 0, "with the syntax tree in \"analysis\", bounded" },
	[K_TARGET] = { "target", RPC_COUNT, RPC_BIT(OP_CANCEL), RPC_BIT(OP_CANCEL), "the id of the run to kill" },
	[K_BOX] = { "box", RPC_STRING, BOXES, BOXES, "the name that open gave" },
	[K_CELL] = { "code", RPC_STRING, EXECUTE, EXECUTE, "source text" },
	[K_MAY_ASK] = { "stdin", RPC_BOOL, EXECUTE, 0, "input() becomes an event \"call\"" },
	[K_STORE] = { "store", RPC_BOOL, EXECUTE, 0, "keep the value and count the cell (default true)" },
	[K_VALUES] = { "values", RPC_OBJECT, RPC_BIT(OP_SET), RPC_BIT(OP_SET), "variables and their typed values" },
	[K_TOOLS] = { "tools", RPC_OBJECTS, RPC_BIT(OP_TOOLS), RPC_BIT(OP_TOOLS),
		"functions of yours: name, doc, final" },
	[K_INPUT] = { "stdin", RPC_STRING, EXEC, 0, "standard input, base64" },
	[K_PATH] = { "path", RPC_STRING, PATHS, PATHS, "a path in the box" },
	[K_DATA] = { "data", RPC_STRING, PUT, PUT, "what the file shall hold, base64" },
	[K_MODE] = { "mode", RPC_COUNT, PUT, 0, "its permissions" },
	[K_PARENTS] = { "parents", RPC_BOOL, PUT, 0, "make missing folders above it" },
	[K_MAX_BYTES] = { "max_bytes", RPC_COUNT, GET, 0, "a larger file is an error" },
	[K_CALL] = { "call", RPC_COUNT, REPLY, REPLY, "the number in the event \"call\"" },
	[K_VALUE] = { "value", RPC_ANY, REPLY, 0, "what the call returns, typed; or error" },
	[K_ERROR] = { "error", RPC_OBJECT, REPLY, 0, "what the call raises: name, value" },
};
/* clang-format on */

/* --- kinds ------------------------------------------------------------------ */

static bool is_scalar(enum jscan_kind kind)
{
	return kind == JSCAN_STRING || kind == JSCAN_NUMBER || kind == JSCAN_BOOL || kind == JSCAN_NULL;
}

/* Every item is a string. */
static bool all_strings(struct jscan v)
{
	struct jscan key, item;
	size_t at = 0;

	while (jscan_next(v, &at, &key, &item)) {
		if (jscan_kind(item) != JSCAN_STRING)
			return false;
	}
	return true;
}

static bool is_strings(struct jscan v)
{
	return jscan_kind(v) == JSCAN_ARRAY && all_strings(v);
}

static bool is_map(struct jscan v)
{
	return jscan_kind(v) == JSCAN_OBJECT && all_strings(v);
}

static bool is_settings(struct jscan v)
{
	struct jscan key, item;
	size_t at = 0;

	if (jscan_kind(v) != JSCAN_OBJECT)
		return false;
	while (jscan_next(v, &at, &key, &item)) {
		if (!is_scalar(jscan_kind(item)) && !is_strings(item))
			return false;
	}
	return true;
}

static bool is_bytes(struct jscan v)
{
	struct jscan key, item;
	size_t at = 0;
	char name[16];

	if (jscan_kind(v) == JSCAN_STRING)
		return true;
	return jscan_kind(v) == JSCAN_OBJECT && jscan_next(v, &at, &key, &item) &&
	       rpc_word(key, name, sizeof(name)) && strcmp(name, "base64") == 0 &&
	       jscan_kind(item) == JSCAN_STRING && !jscan_next(v, &at, &key, &item);
}

static bool is_count(struct jscan v)
{
	uint64_t n;

	return jscan_uint(v, RPC_NUMBER_MAX, &n) && n > 0;
}

static bool is_string(struct jscan v)
{
	return jscan_kind(v) == JSCAN_STRING;
}

static bool is_bool(struct jscan v)
{
	return jscan_kind(v) == JSCAN_BOOL;
}

static bool is_object(struct jscan v)
{
	return jscan_kind(v) == JSCAN_OBJECT;
}

static bool is_objects(struct jscan v)
{
	struct jscan key, item;
	size_t at = 0;

	if (jscan_kind(v) != JSCAN_ARRAY)
		return false;
	while (jscan_next(v, &at, &key, &item)) {
		if (!is_object(item))
			return false;
	}
	return true;
}

static bool is_any(struct jscan v)
{
	return v.p != NULL;
}

static const struct {
	bool (*is)(struct jscan v);
	const char *expects;
} shapes[RPC_KINDS] = {
	[RPC_STRING] = { is_string, "a string" },
	[RPC_BYTES] = { is_bytes, "a string or {\"base64\":\"...\"}" },
	[RPC_COUNT] = { is_count, "a whole number from 1 to 2^53" },
	[RPC_BOOL] = { is_bool, "true or false" },
	[RPC_STRINGS] = { is_strings, "a list of strings" },
	[RPC_MAP] = { is_map, "an object of strings" },
	[RPC_SETTINGS] = { is_settings, "an object of strings, numbers, booleans, null or lists of strings" },
	[RPC_OBJECT] = { is_object, "an object" },
	[RPC_OBJECTS] = { is_objects, "a list of objects" },
	[RPC_ANY] = { is_any, "a value" },
};

/* --- one request ------------------------------------------------------------- */

static int unknown_op(const char *name, struct nsbox_error *err)
{
	struct nearest n = NEAREST_INIT(name);

	for (size_t i = 0; i < OP_COUNT; i++)
		nearest_offer(&n, rpc_ops[i].name);
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	else
		cli_hint(err, "the operation \"schema\" lists them");
	return cli_fail(err, NSBOX_E_USAGE, "unknown operation '%s'", name);
}

static int find_op(enum rpc_op *out, struct jscan v, struct nsbox_error *err)
{
	char name[64];

	if (!v.p)
		return cli_fail(err, NSBOX_E_USAGE, "\"op\" is missing");
	if (!rpc_word(v, name, sizeof(name)))
		return cli_fail(err, NSBOX_E_USAGE, "\"op\" is no name of an operation");
	for (size_t i = 0; i < OP_COUNT; i++) {
		if (strcmp(rpc_ops[i].name, name) == 0) {
			*out = (enum rpc_op)i;
			return 0;
		}
	}
	return unknown_op(name, err);
}

static int unknown_key(const struct rpc_request *q, const char *name, struct nsbox_error *err)
{
	struct nearest n = NEAREST_INIT(name);

	for (size_t i = 0; i < K_COUNT; i++) {
		if (rpc_keys[i].takes & RPC_BIT(q->op))
			nearest_offer(&n, rpc_keys[i].name);
	}
	if (n.best)
		cli_hint(err, "did you mean '%s'?", n.best);
	else
		cli_hint(err, "the operation \"schema\" lists the keys of each operation");
	return cli_fail(err, NSBOX_E_USAGE, "unknown key '%s' of \"%s\"", name,
			rpc_ops[q->op].name);
}

/* The row of this name that one of @ops takes, or K_COUNT. */
static size_t key_of(struct jscan key, unsigned ops, char *name, size_t size)
{
	size_t i;

	if (!rpc_word(key, name, size))
		snprintf(name, size, "(no word)");
	for (i = 0; i < K_COUNT; i++) {
		if ((rpc_keys[i].takes & ops) && strcmp(rpc_keys[i].name, name) == 0)
			break;
	}
	return i;
}

static int take_key(struct rpc_request *q, struct jscan key, struct jscan value,
		    struct nsbox_error *err)
{
	char name[64];
	size_t i = key_of(key, RPC_BIT(q->op), name, sizeof(name));

	if (i == K_COUNT)
		return unknown_key(q, name, err);
	if (q->v[i].p)
		return cli_fail(err, NSBOX_E_USAGE, "the key '%s' is given twice", name);
	/* What an interpreter may be told is null where it is not said. */
	if ((RPC_CELLS & RPC_BIT(q->op)) && jscan_kind(value) == JSCAN_NULL &&
	    !(rpc_keys[i].needs & RPC_BIT(q->op)))
		return 0;
	if (!shapes[rpc_keys[i].kind].is(value))
		return cli_fail(err, NSBOX_E_USAGE, "'%s' takes %s, not %s", name,
				shapes[rpc_keys[i].kind].expects,
				jscan_kind(value) == JSCAN_NUMBER ? "this number" :
							       jscan_kind_name(jscan_kind(value)));
	q->v[i] = value;
	return 0;
}

/* The two keys that say what all others may be. The last one counts here; that there is
 * only one is seen by take_key(). */
static int find_head(struct rpc_request *q, struct jscan frame, struct nsbox_error *err)
{
	struct jscan key, value, op = { 0 };
	size_t at = 0;
	char name[64];

	while (jscan_next(frame, &at, &key, &value)) {
		size_t i = key_of(key, EVERY, name, sizeof(name));

		if (i == K_OP)
			op = value;
		if (i == K_ID && !q->id && is_count(value))
			jscan_uint(value, RPC_NUMBER_MAX, &q->id);
	}
	return find_op(&q->op, op, err);
}

static int check_needs(const struct rpc_request *q, struct nsbox_error *err)
{
	for (size_t i = 0; i < K_COUNT; i++) {
		if ((rpc_keys[i].needs & RPC_BIT(q->op)) && !q->v[i].p)
			return cli_fail(err, NSBOX_E_USAGE, "\"%s\" needs '%s': %s",
					rpc_ops[q->op].name, rpc_keys[i].name, rpc_keys[i].help);
	}
	return 0;
}

int rpc_request_take(struct rpc_request *q, struct jscan frame, struct nsbox_error *err)
{
	struct jscan key, value;
	size_t at = 0;
	int r;

	*q = (struct rpc_request){ 0 };
	if (jscan_kind(frame) != JSCAN_OBJECT)
		return cli_fail(err, NSBOX_E_USAGE, "a request is an object, not %s",
				jscan_kind_name(jscan_kind(frame)));
	r = find_head(q, frame, err);
	while (r == 0 && jscan_next(frame, &at, &key, &value))
		r = take_key(q, key, value, err);
	return r < 0 ? r : check_needs(q, err);
}
