/*
 * See wire.h. Reads a block that another process wrote, or that lay on a disk:
 * every length is checked against what is left before it is believed.
 */
#include "policy/wire.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = "nsboxp1";

static void put_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof(v));
}

static void put_text(struct buf *b, const char *s)
{
	size_t len = strlen(s);

	put_u32(b, (uint32_t)len);
	buf_add(b, s, len + 1); /* with its NUL: it is used in place */
}

void wire_put(struct buf *out, const struct settings *s, int code,
	      const struct nsbox_error *err)
{
	buf_add(out, magic, sizeof(magic));
	put_u32(out, (uint32_t)code);
	if (code < 0) {
		put_u32(out, (uint32_t)err->os_errno);
		put_text(out, err->message);
		put_text(out, err->hint);
		return;
	}
	put_u32(out, (uint32_t)s->n);
	for (size_t i = 0; i < s->n; i++) {
		put_u32(out, s->v[i].line);
		put_u32(out, s->v[i].column);
		put_text(out, s->v[i].key);
		put_text(out, s->v[i].value);
	}
}

struct reader {
	const char *at;
	size_t left;
	bool bad;	/* sticky */
};

static const char *take(struct reader *r, size_t len)
{
	const char *at = r->at;

	if (r->bad || len > r->left) {
		r->bad = true;
		return NULL;
	}
	r->at += len;
	r->left -= len;
	return at;
}

static uint32_t take_u32(struct reader *r)
{
	const char *at = take(r, sizeof(uint32_t));
	uint32_t v = 0;

	if (at)
		memcpy(&v, at, sizeof(v));
	return v;
}

/* A NUL-terminated string without a NUL inside, or NULL. */
static const char *take_text(struct reader *r)
{
	uint32_t len = take_u32(r);
	const char *at = take(r, (size_t)len + 1);

	if (at && strnlen(at, (size_t)len + 1) != len)
		r->bad = true;
	return r->bad ? NULL : at;
}

static int broken(struct nsbox_error *err)
{
	return err_set(err, NSBOX_E_SYSTEM,
		       "nsbox-policyc answered with a malformed block");
}

static int get_error(struct reader *r, int code, struct nsbox_error *err)
{
	int os_errno = (int)take_u32(r);
	const char *message = take_text(r), *hint = take_text(r);

	if (r->bad || r->left || code < NSBOX_E_SYSTEM)
		return broken(err);
	err_set(err, code, "%s", message);
	if (err)
		err->os_errno = os_errno;
	err_hint(err, "%s", hint);
	return code;
}

int wire_get(struct settings *out, const char *data, size_t len,
	     const char *file, struct nsbox_error *err)
{
	struct reader r = { data, len, false };
	struct settings got = { 0 };
	const char *head = take(&r, sizeof(magic));
	int code = (int)take_u32(&r);
	uint32_t count;

	if (r.bad || memcmp(head, magic, sizeof(magic)) != 0 || code > 0)
		return broken(err);
	if (code < 0)
		return get_error(&r, code, err);
	count = take_u32(&r);
	for (uint32_t i = 0; i < count && !r.bad; i++) {
		uint32_t line = take_u32(&r), column = take_u32(&r);
		struct origin from = { file, line, column };
		const char *key = take_text(&r), *value = take_text(&r);

		if (r.bad)
			break;
		if (settings_add(&got, key, value, &from) < 0) {
			settings_free(&got);
			return err_nomem(err);
		}
	}
	if (r.bad || r.left) {
		settings_free(&got);
		return broken(err);
	}
	*out = got;
	return 0;
}
