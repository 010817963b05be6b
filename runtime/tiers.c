/* See tiers.h. Pure data. */
#include "runtime/tiers.h"

#include "base/cleanup.h"
#include "base/err.h"

static const struct nsbox_tier_info rows[] = {
	{ "static", "parse and check imports, in a box; nothing of the source runs",
	  NSBOX_TIER_STATIC, 1, 0, 1 },
	{ "local", "namespaces, cgroup, seccomp, Landlock: every field of the policy holds, or the run is refused",
	  NSBOX_TIER_LOCAL, 1, 1, 1 },
	{ "local_unsafe", "a plain process of yours: no isolation, only a timeout and bounded output",
	  NSBOX_TIER_LOCAL_UNSAFE, 1, 1, 0 },
	{ "docker", "the same policy, enforced by a container engine", NSBOX_TIER_DOCKER, 0, 1, 1 },
	{ "docker_unsafe", "a container of an engine, without a policy", NSBOX_TIER_DOCKER_UNSAFE,
	  0, 1, 0 },
};

const struct nsbox_tier_info *tier_row(enum nsbox_tier tier)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].tier == (int32_t)tier)
			return &rows[i];
	return NULL;
}

int tier_check(enum nsbox_tier tier, struct nsbox_error *err)
{
	const struct nsbox_tier_info *row = tier_row(tier);

	if (!row)
		return err_set(err, NSBOX_E_USAGE, "%d is no tier", (int)tier);
	if (row->is_built)
		return 0;
	err_hint(err, "use the tier local");
	return err_set(err, NSBOX_E_UNSUPPORTED, "the tier %s is not built yet", row->name);
}

int nsbox_tier_info(size_t i, struct nsbox_tier_info *out)
{
	if (!out || i >= ARRAY_SIZE(rows))
		return NSBOX_E_USAGE;
	*out = rows[i];
	return 0;
}
