/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_json.h. Runs in `nsbox rpc`. */
#include "tools/nsbox/rpc_json.h"

#include <string.h>

#include "base/utf8.h"
#include "tools/nsbox/say.h"

static bool has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return true;
	}
	return false;
}

bool rpc_word(struct jscan v, char *out, size_t size)
{
	struct nsbox_error ignored = NSBOX_ERROR_INIT;
	auto_free char *text = NULL;
	size_t len;

	if (jscan_kind(v) != JSCAN_STRING || v.len > 6 * size ||
	    jscan_string(v, false, &text, &len, &ignored) < 0 || len >= size ||
	    has_control(text, len))
		return false;
	memcpy(out, text, len + 1);
	return true;
}

bool rpc_true(struct jscan v)
{
	return v.p && *v.p == 't';
}

/* --- base64 ------------------------------------------------------------------------------ */

int rpc_base64(struct jscan v, char **out, size_t *len, struct nsbox_error *err)
{
	auto_free char *text = NULL;
	int r;

	if (jscan_kind(v) != JSCAN_STRING)
		return cli_fail(err, NSBOX_E_USAGE, "base64 is a string, not %s",
				jscan_kind_name(jscan_kind(v)));
	r = jscan_string(v, false, &text, len, err);
	if (r < 0)
		return r;
	if (base64_decode(text, len) < 0)
		return cli_fail(err, NSBOX_E_USAGE, "not base64 (RFC 4648, one line)");
	*out = text;
	text = NULL;
	return 0;
}
