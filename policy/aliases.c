/*
 * Names of other systems for our keys, and the nearest name for a wrong one.
 * Pure tables: an alias never has a meaning that its key does not have.
 */
#include "policy/value.h"

#include <string.h>

#define MELLEA "mellea CapabilityPolicy"
#define BUD "Bud NetworkPolicy"
#define MCP "sandbox_management"

const struct alias policy_aliases[] = {
	{ .name = "filesystem_read_roots", .key = "fs.read", .from = MELLEA },
	{ .name = "filesystem_write_roots", .key = "fs.write", .from = MELLEA },
	{ .name = "network_access", .key = "net.mode", .if_true = "open",
	  .if_false = "disabled", .from = MELLEA },
	{ .name = "package_installation", .key = "packages.install",
	  .from = MELLEA },
	{ .name = "subprocess_execution", .key = "process.subprocesses",
	  .from = MELLEA },
	{ .name = "env_var_access", .key = "env.inherit", .from = MELLEA },
	{ .name = "timeout", .key = "limits.timeout", .from = MELLEA },
	{ .name = "stdout_max_bytes", .key = "limits.stdout", .from = MELLEA },
	{ .name = "stderr_max_bytes", .key = "limits.stderr", .from = MELLEA },
	{ .name = "artifact_export_paths", .key = "artifacts.paths",
	  .from = MELLEA },
	{ .name = "packages", .key = "packages.list", .from = MELLEA },
	{ .name = "allowed_imports", .key = "imports.allow", .from = MELLEA },

	{ .name = "type", .key = "net.mode", .from = BUD },
	{ .name = "allow_out", .key = "net.allow_out", .from = BUD },
	{ .name = "deny_out", .key = "net.deny_out", .from = BUD },
	{ .name = "network_policy.type", .key = "net.mode", .from = BUD },
	{ .name = "network_policy.allow_out", .key = "net.allow_out",
	  .from = BUD },
	{ .name = "network_policy.deny_out", .key = "net.deny_out",
	  .from = BUD },

	{ .name = "network_enabled", .key = "net.mode", .if_true = "open",
	  .if_false = "disabled", .from = MCP },
};
const size_t policy_alias_count = ARRAY_SIZE(policy_aliases);

const struct alias *policy_alias(const char *name)
{
	for (size_t i = 0; i < policy_alias_count; i++)
		if (strcmp(policy_aliases[i].name, name) == 0)
			return &policy_aliases[i];
	return NULL;
}

const struct key *key_of(const char *name)
{
	const struct alias *a = policy_alias(name);

	return policy_key(a ? a->key : name);
}

/* --- the nearest name ------------------------------------------------------ */

enum { NAME_MAX_LEN = 48, TOO_FAR = 1000 };

/* Levenshtein, case-insensitive, '-' and '_' and '.' alike; one row of memory. */
static char folded(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' || c == '_' ? '.' : c;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

static unsigned distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[NAME_MAX_LEN + 1];

	if (la > NAME_MAX_LEN || lb > NAME_MAX_LEN)
		return TOO_FAR;
	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned corner = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			bool differ = folded(a[i - 1]) != folded(b[j - 1]);
			unsigned now = least(row[j] + 1, row[j - 1] + 1,
					     corner + differ);

			corner = row[j];
			row[j] = now;
		}
	}
	return row[lb];
}

/* "memory" means "limits.memory": the last part alone counts nearly as much. */
static unsigned name_distance(const char *asked, const char *key)
{
	const char *last = strchr(key, '.');
	unsigned whole = distance(asked, key), part = TOO_FAR;

	if (last && !strchr(asked, '.'))
		part = distance(asked, last + 1) + 1;
	return whole < part ? whole : part;
}

const char *policy_key_nearest(const char *name)
{
	size_t len = strlen(name);
	unsigned best = len < 6 ? 3 : 4; /* further is no typing error */
	const char *found = NULL;

	if (len < 2)
		return NULL;
	for (size_t i = 0; i < policy_key_count; i++) {
		unsigned d = name_distance(name, policy_keys[i].name);

		if (d < best && d < len) {
			best = d;
			found = policy_keys[i].name;
		}
	}
	for (size_t i = 0; i < policy_alias_count; i++) {
		unsigned d = distance(name, policy_aliases[i].name);

		if (d < best && d < len) {
			best = d;
			found = policy_aliases[i].name;
		}
	}
	return found;
}

const char *key_group_nearest(const char *name)
{
	static const char *const groups[] = {
		"fs", "net", "process", "env", "limits", "imports", "packages",
		"artifacts", "syscalls", "devices", "enforce", "isolation", "observe",
		"network_policy",
	};
	const char *found = NULL;
	unsigned best = 3;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		unsigned d = distance(name, groups[i]);

		if (d < best && d < strlen(groups[i])) {
			best = d;
			found = groups[i];
		}
	}
	return found;
}
