/*
 * A policy's text as an attacker writes it: parse, apply as a project's file, apply
 * as flags, check, show. libFuzzer entry point; the seeds are in corpus/policy.
 *
 * Besides not crashing (the sanitizers watch) three things must hold for any text:
 * a refusal has one line that names the file; a project's file never leaves the
 * policy looser; what is accepted survives being shown and read again.
 */
#include "policy/text.h"
#include "policy/value.h"
#include "policy/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void check_error(int code, const struct nsbox_error *err)
{
	require(code == err->code);
	require(code == 0 || err->message[0]);
	require(!strchr(err->message, '\n') && !strchr(err->hint, '\n'));
	if (code == NSBOX_E_NOMEM || code == 0)
		return;
	require(code == NSBOX_E_POLICY || code == NSBOX_E_UNSUPPORTED);
}

/* Some of what a project may never do, said without the table. */
static void check_project(const struct policy *p)
{
	require(p->limits.memory <= UINT64_C(512) << 20);
	require(p->limits.timeout <= 30000000 && p->limits.timeout > 0);
	require(p->limits.cpus > 0 && p->limits.cpus <= 1000);
	require(p->limits.pids <= 128);
	require(p->net.mode == NET_DISABLED);
	require(p->fs.read.n == 0 && p->fs.write.n == 0);
	require(p->env.pass.n == 0 && p->env.set.n == 0 && !p->env.inherit);
	require(p->syscalls.allow.n == 0 && p->devices.allow.n == 0);
	require(p->syscalls.level <= LEVEL_DEFAULT);
	require(strlist_has(&p->fs.protect, ".git/hooks"));
	require(!p->packages.install && p->packages.list.n == 0 && !p->enforce.degraded);
}

static void same_text(const struct policy *a, const struct policy *b)
{
	struct buf x = BUF_INIT(SIZE_MAX / 2), y = BUF_INIT(SIZE_MAX / 2);

	policy_to_json(a, &x);
	policy_to_json(b, &y);
	require(!x.failed && !y.failed);
	require(strcmp(buf_text(&x), buf_text(&y)) == 0);
	buf_free(&x);
	buf_free(&y);
}

static void check_shown(const struct policy *p)
{
	struct buf text = BUF_INIT(SIZE_MAX / 2);
	struct settings s = { 0 };
	struct policy back = { 0 };

	policy_to_json(p, &text);
	if (text.len <= TEXT_SIZE_MAX) { /* escapes may have made it longer */
		require(policy_init(&back, NULL) == 0);
		require(policy_parse(&s, buf_text(&text), text.len, "shown",
				     NULL) == 0);
		require(policy_apply(&back, &s, LAYER_FLAGS, NULL) == 0);
		same_text(p, &back);
	}
	settings_free(&s);
	policy_free(&back);
	buf_free(&text);
}

static void check_wire(const struct settings *s, const uint8_t *data,
		       size_t size)
{
	struct buf wire = BUF_INIT(WIRE_SIZE_MAX);
	struct settings back = { 0 };

	wire_put(&wire, s, 0, NULL);
	require(!wire.failed);
	require(wire_get(&back, wire.data, wire.len, "w", NULL) == 0);
	require(back.n == s->n);
	settings_free(&back);
	buf_free(&wire);
	/* and the bytes themselves as a block */
	if (wire_get(&back, (const char *)data, size, "w", NULL) == 0)
		settings_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct settings s = { 0 };
	struct policy p = { 0 };
	int code = policy_parse(&s, (const char *)data, size, "fuzz", &err);

	check_error(code, &err);
	if (code < 0) {
		require(!s.v);
		require(code == NSBOX_E_NOMEM ||
			strncmp(err.message, "fuzz:", 5) == 0);
		return 0;
	}
	check_wire(&s, data, size);
	require(policy_init(&p, NULL) == 0);
	code = policy_apply(&p, &s, LAYER_PROJECT, &err);
	check_error(code, &err);
	check_project(&p);
	err_clear(&err);
	code = policy_apply(&p, &s, LAYER_FLAGS, &err);
	check_error(code, &err);
	if (code == 0) {
		check_shown(&p);
		code = policy_check(&p, &err);
		check_error(code, &err);
	}
	policy_free(&p);
	settings_free(&s);
	return 0;
}
