/*
 * Owns: the box's /dev, a tmpfs of its own that is read-only once filled. Runs in
 * the launcher.
 * Must: make /dev before anything of the policy is mounted, so that no name in it
 * can be a link of somebody else's. Mustn't: pass on a block device.
 */
#include "rootfs/parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "rootfs/paths.h"

static const struct {
	const char *name;
	bool optional;
} devices[] = {
	{ "null", false },   { "zero", false },	   { "full", false },
	{ "random", false }, { "urandom", false },
	{ "tty", true }, /* a container may have none; it opens the box's own terminal */
};

static const struct {
	const char *dst, *target;
} links[] = {
	{ "dev/fd", "/proc/self/fd" },	     { "dev/stdin", "/proc/self/fd/0" },
	{ "dev/stdout", "/proc/self/fd/1" }, { "dev/stderr", "/proc/self/fd/2" },
	{ "dev/ptmx", "pts/ptmx" },
};

static void add_device(struct plan_builder *b, unsigned stage, const char *name,
		       const struct stat *st)
{
	char src[256];

	snprintf(src, sizeof(src), "/dev/%s", name);
	PLAN_OP(b, .kind = OP_BIND, .stage = stage, .fd = -1,
		.flags = OP_IS_FILE | OP_MAKE_DST | OP_NODEV_OFF | OP_NOEXEC, .src = src,
		.dst = src + 1, .pin_dev = st->st_dev, .pin_ino = st->st_ino);
}

static int add_basic(struct plan_builder *b, unsigned stage, struct nsbox_error *err)
{
	struct stat st;
	char path[32];

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
		if (stat(path, &st) == 0 && S_ISCHR(st.st_mode)) {
			add_device(b, stage, devices[i].name, &st);
		} else if (!devices[i].optional) {
			err_hint(err, "a /dev with null, zero, full, random and urandom is needed");
			return err_set(err, NSBOX_E_UNSUPPORTED,
				       "%s of this host is not a character device", path);
		}
	}
	return 0;
}

static int add_allowed(struct plan_builder *b, unsigned stage, const char *name,
		       struct nsbox_error *err)
{
	owned_mem char *clean = path_clean("/dev", name);
	const char *rest = clean ? path_below(clean, "/dev") : NULL;
	struct stat st;

	if (!rest || !rest[0] || strlen(rest) > 200)
		return err_set(err, NSBOX_E_POLICY, "devices.allow \"%s\" is not a name below /dev",
			       name);
	if (stat(clean, &st) < 0)
		return err_errno(err, NSBOX_E_POLICY, errno, "devices.allow %s", clean);
	if (!S_ISCHR(st.st_mode)) {
		err_hint(err, "only character devices can be given to a box");
		return err_set(err, NSBOX_E_POLICY, "devices.allow %s is not a character device",
			       clean);
	}
	add_device(b, stage, rest, &st);
	return 0;
}

int dev_build(struct plan_builder *b, const struct view_request *r, struct nsbox_error *err)
{
	const struct strlist *allow = &r->policy->devices.allow;
	const uint64_t shm = r->policy->limits.shm;
	int rc;

	PLAN_OP(b, .kind = OP_TMPFS, .stage = r->stage, .fd = -1, .n = 65536, .m = 256,
		.flags = OP_MAKE_DST | OP_NOEXEC | (uint64_t)0755 << 32, .dst = "dev");
	rc = add_basic(b, r->stage, err);
	for (size_t i = 0; i < allow->n && rc == 0; i++)
		rc = add_allowed(b, r->stage, allow->v[i], err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		PLAN_OP(b, .kind = OP_SYMLINK, .stage = r->stage, .fd = -1,
			.src = links[i].target, .dst = links[i].dst);
	PLAN_OP(b, .kind = OP_DEVPTS, .stage = r->stage, .fd = -1, .flags = OP_MAKE_DST,
		.dst = "dev/pts");
	PLAN_OP(b, .kind = OP_TMPFS, .stage = r->stage, .fd = -1, .n = shm,
		.m = tmpfs_inodes(shm, r->policy->limits.inodes),
		.flags = OP_MAKE_DST | (uint64_t)01777 << 32, .dst = "dev/shm");
	PLAN_OP(b, .kind = OP_MQUEUE, .stage = r->stage, .fd = -1, .flags = OP_MAKE_DST,
		.dst = "dev/mqueue");
	PLAN_OP(b, .kind = OP_READONLY, .stage = r->stage, .fd = -1, .dst = "dev");
	return 0;
}
