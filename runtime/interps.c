/*
 * interps.c - which interpreters a box shows. Runs in the launcher.
 */
#include "runtime/interps.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 1 << 20 };

static const char *caller_path(void)
{
	const char *path = getenv("PATH");

	return path ? path : "";
}

/* A byte that no path holds keeps the parts apart: the key is a text with newlines. */
static char *key_of(const struct nsbox_run *run)
{
	struct buf b = BUF_INIT(KEY_MAX);
	char *key;

	buf_fmt(&b, "%s\n%s\n", run->language ? run->language : "",
		run->interpreter ? run->interpreter : "");
	buf_str(&b, caller_path());
	key = buf_take(&b);
	buf_free(&b);
	return key;
}

static int look_up(struct interps *in, const struct nsbox_run *run, struct nsbox_error *err)
{
	static const char *const usual[] = { "python", "javascript" };
	const char *path = caller_path();
	int r = 0;

	if (run->language) {
		r = interp_find(&in->store[0], run->language, run->interpreter, path, NULL, err);
		in->n = r < 0 ? 0 : 1;
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
			if (interp_find(&in->store[in->n], usual[i], NULL, path, NULL, NULL) >= 0)
				in->n++;
	}
	for (size_t k = 0; k < in->n; k++)
		in->list[k] = &in->store[k];
	return r;
}

int interps_get(struct interps *in, const struct nsbox_run *run, struct nsbox_error *err)
{
	owned_mem char *key = key_of(run);
	int r;

	if (!key)
		return err_nomem(err);
	if (in->key && strcmp(in->key, key) == 0)
		return 0;
	interps_free(in);
	r = look_up(in, run, err);
	if (r < 0) {
		interps_free(in);
		return r;
	}
	in->key = take_ptr(key);
	return 0;
}

void interps_free(struct interps *in)
{
	for (size_t k = 0; k < in->n; k++)
		interp_free(&in->store[k]);
	free(in->key);
	memset(in, 0, sizeof(*in));
}
