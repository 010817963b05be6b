/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON schema of `nsbox rpc`, from the tables of rpc_ops.c. Runs in the command; asks
 * the host nothing.
 */
#include "base/json.h"
#include "tools/nsbox/rpc_ops.h"

#define SCHEMA_MAX (1u << 20)

static const char *const kind_schema[RPC_KINDS] = {
	[RPC_STRING] = "{\"type\":\"string\"}",
	[RPC_BYTES] = "{\"$ref\":\"#/$defs/bytes\"}",
	[RPC_COUNT] = "{\"type\":\"integer\",\"minimum\":1,\"maximum\":9007199254740992}",
	[RPC_BOOL] = "{\"type\":\"boolean\"}",
	[RPC_STRINGS] = "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
	[RPC_MAP] = "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}",
	[RPC_SETTINGS] = "{\"$ref\":\"#/$defs/settings\"}",
	[RPC_OBJECT] = "{\"type\":\"object\"}",
	[RPC_OBJECTS] = "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	[RPC_ANY] = "true",
};

static const char bytes_schema[] =
	"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"additionalProperties\":false,"
	"\"required\":[\"base64\"],\"properties\":{\"base64\":{\"type\":\"string\","
	"\"contentEncoding\":\"base64\"}}}]}";

static const char settings_schema[] =
	"{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\","
	"\"boolean\",\"null\",\"array\"],\"items\":{\"type\":\"string\"}}}";

static const char answer_schema[] =
	"{\"oneOf\":[{\"type\":\"object\",\"additionalProperties\":false,"
	"\"required\":[\"id\",\"ok\",\"result\"],\"properties\":{\"id\":{\"type\":\"integer\"},"
	"\"ok\":{\"const\":true},\"result\":{\"type\":\"object\"}}},"
	"{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"id\",\"ok\",\"error\"],"
	"\"properties\":{\"id\":{\"type\":[\"integer\",\"null\"]},\"ok\":{\"const\":false},"
	"\"error\":{\"$ref\":\"#/$defs/error\"}}}]}";

static const char error_schema[] =
	"{\"type\":\"object\",\"additionalProperties\":false,"
	"\"required\":[\"code\",\"stage\",\"os_errno\",\"message\",\"hint\"],\"properties\":{"
	"\"code\":{\"enum\":[\"usage\",\"policy\",\"unsupported\",\"setup\",\"busy\",\"nomem\","
	"\"system\"]},\"stage\":{\"type\":\"string\"},\"os_errno\":{\"type\":\"integer\"},"
	"\"message\":{\"type\":\"string\"},\"hint\":{\"type\":\"string\"}}}";

/* Of a run: data. Of a box that stays: text, mime, call, and "dead" and "ready" when its
 * interpreter was started anew; those two have the id of its "open". */
static const char event_schema[] =
	"{\"type\":\"object\",\"required\":[\"id\",\"event\"],\"properties\":{"
	"\"id\":{\"type\":\"integer\"},\"event\":{\"enum\":[\"stdout\",\"stderr\",\"display\","
	"\"call\",\"dead\",\"ready\",\"progress\"]},\"data\":{\"$ref\":\"#/$defs/bytes\"},"
	"\"text\":{\"type\":\"string\"},\"mime\":{\"type\":\"object\"},"
	"\"call\":{\"type\":\"integer\"},\"name\":{\"type\":\"string\"},"
	"\"args\":{\"type\":\"array\"},\"kwargs\":{\"type\":\"object\"},"
	"\"box\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"},"
	"\"restarted\":{\"type\":\"boolean\"}}}";

static const char framing[] =
	"4 bytes, a length in network byte order, and so many bytes of UTF-8: one JSON object, "
	"nested at most 64 levels. Requests on standard input; answers and events on standard "
	"output. At most 64 MiB a frame. Each request has one answer, its events come before.";

static void put_properties(struct json *j, enum rpc_op op)
{
	json_key(j, "properties");
	json_object(j);
	for (size_t i = 0; i < K_COUNT; i++) {
		if (!(rpc_keys[i].takes & RPC_BIT(op)))
			continue;
		json_key(j, rpc_keys[i].name);
		json_object(j);
		json_kstr(j, "description", rpc_keys[i].help);
		json_key(j, "allOf");
		json_array(j);
		if (i == K_OP) {
			json_object(j);
			json_kstr(j, "const", rpc_ops[op].name);
			json_end(j, '}');
		} else {
			json_raw(j, kind_schema[rpc_keys[i].kind]);
		}
		json_end(j, ']');
		json_end(j, '}');
	}
	json_end(j, '}');
}

static void put_op(struct json *j, enum rpc_op op)
{
	json_object(j);
	json_kstr(j, "title", rpc_ops[op].name);
	json_key(j, "description");
	json_raw(j, "");
	buf_fmt(j->out, "\"result: %s\"", rpc_ops[op].result);
	json_kstr(j, "type", "object");
	json_kbool(j, "additionalProperties", false);
	json_key(j, "required");
	json_array(j);
	for (size_t i = 0; i < K_COUNT; i++) {
		if (rpc_keys[i].needs & RPC_BIT(op))
			json_str(j, rpc_keys[i].name);
	}
	json_end(j, ']');
	put_properties(j, op);
	json_end(j, '}');
}

static void put_defs(struct json *j)
{
	static const struct { const char *name, *schema; } fixed[] = {
		{ "answer", answer_schema }, { "error", error_schema },
		{ "event", event_schema },   { "bytes", bytes_schema },
		{ "settings", settings_schema },
	};

	json_key(j, "$defs");
	json_object(j);
	json_key(j, "request");
	json_object(j);
	json_key(j, "oneOf");
	json_array(j);
	for (size_t op = 0; op < OP_COUNT; op++)
		put_op(j, (enum rpc_op)op);
	json_end(j, ']');
	json_end(j, '}');
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		json_key(j, fixed[i].name);
		json_raw(j, fixed[i].schema);
	}
	json_end(j, '}');
}

char *rpc_schema(void)
{
	struct buf text = BUF_INIT(SCHEMA_MAX);
	struct json j = JSON_INIT(&text);
	char *out;

	json_object(&j);
	json_kstr(&j, "$schema", "https://json-schema.org/draft/2020-12/schema");
	json_kstr(&j, "title", "nsbox rpc, protocol 1");
	json_kstr(&j, "description", framing);
	json_raw(&j, "\"oneOf\":[{\"$ref\":\"#/$defs/request\"},{\"$ref\":\"#/$defs/answer\"},"
		     "{\"$ref\":\"#/$defs/event\"}]");
	put_defs(&j);
	json_end(&j, '}');
	out = buf_take(&text);
	buf_free(&text);
	return out;
}
