/*
 * Does the whole make sense? Contradictions, names that are none, and openings that this version cannot enforce.
 *
 * Pure: looks at text, never at the host. Must refuse what it is not sure of.
 */
#include "policy/packages.h"
#include "policy/value.h"

#include <string.h>

#define CHECK_ARGS const struct policy *p, struct nsbox_error *err

/* --- environment, calls, devices -------------------------------------------- */

static bool is_variable(const char *name, size_t len)
{
	if (!len || (name[0] >= '0' && name[0] <= '9'))
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      (c >= '0' && c <= '9') || c == '_'))
			return false;
	}
	return true;
}

/* LD_PRELOAD and friends are fine: they act inside the box, on code that nobody
 * trusts anyway. The value is never shown: it may be a secret. */
static int check_environment(CHECK_ARGS)
{
	for (size_t i = 0; i < p->env.set.n; i++) {
		const char *item = p->env.set.v[i];
		size_t len = strcspn(item, "=");

		if (item[len] && is_variable(item, len))
			continue;
		err_set(err, NSBOX_E_POLICY, "env.set: item %zu is not NAME=VALUE",
			i + 1);
		err_hint(err, "NAME is letters, digits and _; a name alone belongs into env.pass");
		return NSBOX_E_POLICY;
	}
	for (size_t i = 0; i < p->env.pass.n; i++) {
		const char *name = p->env.pass.v[i];

		if (is_variable(name, strlen(name)))
			continue;
		if (strchr(name, '='))
			err_set(err, NSBOX_E_POLICY,
				"env.pass: item %zu has a value", i + 1);
		else
			err_set(err, NSBOX_E_POLICY,
				"env.pass: \"%s\" is not a variable's name",
				SHOWN(name));
		err_hint(err, "NAME is letters, digits and _; NAME=VALUE belongs into env.set");
		return NSBOX_E_POLICY;
	}
	return 0;
}

static bool is_call_name(const char *name)
{
	return *name && strlen(name) < 64 &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

static int check_calls(CHECK_ARGS)
{
	const struct { const char *key; const struct strlist *list; } lists[] = {
		{ "syscalls.allow", &p->syscalls.allow },
		{ "syscalls.deny", &p->syscalls.deny },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; j < lists[i].list->n; j++)
			if (!is_call_name(lists[i].list->v[j]))
				return err_set(err, NSBOX_E_POLICY,
					       "%s: \"%s\" is not the name of a system call",
					       lists[i].key,
					       SHOWN(lists[i].list->v[j]));
	for (size_t i = 0; i < p->syscalls.allow.n; i++)
		if (strlist_has(&p->syscalls.deny, p->syscalls.allow.v[i]))
			return err_set(err, NSBOX_E_POLICY,
				       "syscalls.allow and syscalls.deny both name %s",
				       SHOWN(p->syscalls.allow.v[i]));
	return 0;
}

/*
 * Character devices whose driver is made for unprivileged users. "#" stands for a
 * number. Not here: memory (mem, kmem, port), block devices (the host's disks),
 * input, sound and video (the host's user), fuse and net/tun (useless without
 * mount(2) or CAP_NET_ADMIN, so only attack surface), dri/card# (mode setting).
 */
static const char *const devices[] = {
	"null", "zero", "full", "random", "urandom", "tty",
	"kvm", "dri/renderD#", "kfd", "nvidiactl", "nvidia#", "nvidia-uvm",
	"nvidia-uvm-tools",
};

static bool matches_device(const char *name, const char *pattern)
{
	size_t fixed = strcspn(pattern, "#"), digits;

	if (strncmp(name, pattern, fixed) != 0)
		return false;
	if (!pattern[fixed])
		return !name[fixed];
	digits = strspn(name + fixed, "0123456789");
	return digits >= 1 && digits <= 3 && !name[fixed + digits];
}

static int check_devices(CHECK_ARGS)
{
	for (size_t i = 0; i < p->devices.allow.n; i++) {
		bool known = false;

		for (size_t j = 0; j < ARRAY_SIZE(devices) && !known; j++)
			known = matches_device(p->devices.allow.v[i],
					       devices[j]);
		if (known)
			continue;
		err_set(err, NSBOX_E_POLICY,
			"devices.allow: \"%s\" is no device that a box may have",
			SHOWN(p->devices.allow.v[i]));
		err_hint(err, "names below /dev: kvm, dri/renderD128, kfd, nvidia0, nvidiactl, nvidia-uvm, nvidia-uvm-tools");
		return NSBOX_E_POLICY;
	}
	return 0;
}

/* Which of them there are is the index's business, later; so is the language. */
static int check_packages(CHECK_ARGS)
{
	for (size_t i = 0; i < p->packages.list.n; i++) {
		int code = package_spec_any(p->packages.list.v[i], err);

		if (code < 0)
			return code;
	}
	return 0;
}

/* --- strength --------------------------------------------------------------- */

static int check_enforcement(CHECK_ARGS)
{
	if (p->enforce.floor == FLOOR_KERNEL && p->enforce.degraded) {
		err_set(err, NSBOX_E_POLICY,
			"enforce.floor=kernel and enforce.degraded contradict each other");
		err_hint(err, "drop --allow-degraded or --require kernel");
		return NSBOX_E_POLICY;
	}
	for (size_t i = 0; i < p->enforce.optional.n; i++) {
		const char *name = p->enforce.optional.v[i];

		if (!policy_key(name)) {
			const char *nearest = policy_key_nearest(name);

			err_set(err, NSBOX_E_POLICY,
				"enforce.optional: unknown key \"%s\"",
				SHOWN(name));
			if (nearest)
				err_hint(err, "did you mean %s?", nearest);
			return NSBOX_E_POLICY;
		}
		if (strncmp(name, "limits.", 7) == 0)
			continue;
		err_set(err, NSBOX_E_POLICY,
			"enforce.optional: %s is isolation, which is never optional",
			name);
		err_hint(err, "only limits.* may stay unenforced");
		return NSBOX_E_POLICY;
	}
	return 0;
}

/* policy_set() keeps the ranges; this is for a struct that was filled otherwise. */
static int check_ranges(CHECK_ARGS)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *k = &policy_keys[i];
		char text[32];
		uint64_t v;

		if (!key_is_number(k))
			continue;
		v = *(const uint64_t *)key_value(p, k);
		if (v < k->min || v > k->max)
			return err_set(err, NSBOX_E_POLICY,
				       "%s: %s is out of range", k->name,
				       key_number_text(k, v, text));
	}
	return 0;
}

int policy_check(CHECK_ARGS)
{
	static int (*const checks[])(CHECK_ARGS) = {
		check_ranges,	   policy_check_paths, policy_check_net,
		check_environment, check_calls,	       check_devices,
		check_packages,	   check_enforcement,
	};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		int code = checks[i](p, err);

		if (code < 0)
			return code;
	}
	return 0;
}
