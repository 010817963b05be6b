/*
 * identity.c - which host ids a box gets. Runs in the launcher; reads only.
 */
#include "runtime/identity.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/num.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Where every id is mapped, boxes take theirs from here: above the ranges that
 * /etc/subuid, systemd-nspawn and container engines hand out by default, below 2^31
 * (some programs still keep ids in a signed int). A pid is below 2^22.
 */
enum { RANGE_FIRST = 0x60000000, RANGE_COUNT = 1 << 22 };
enum { MAP_TEXT_MAX = 8192 };

struct extent {
	uint32_t inside, outside, count;
};

static bool has_caps(const int *caps, size_t count)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!(data[caps[i] / 32].effective & (1U << (caps[i] % 32))))
			return false;
	return true;
}

/* Proved by doing: CAP_SYS_ADMIN counts in the user namespace that owns the mounts. */
static bool can_clone_trees(void)
{
	static const int admin[] = { CAP_SYS_ADMIN };
	owned_fd int fd = -1;

	if (!has_caps(admin, 1))
		return false;
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, "/dev/null", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return fd >= 0;
}

/* One line of /proc/self/uid_map: three numbers, padded with blanks. */
static bool parse_extent(char *line, struct extent *e)
{
	uint64_t v[3];
	char *at = line;

	for (int i = 0; i < 3; i++) {
		char *end;

		at += strspn(at, " ");
		end = at + strcspn(at, " ");
		if (*end)
			*end++ = '\0';
		if (num_uint(at, 0, UINT32_MAX, &v[i]) < 0)
			return false;
		at = end;
	}
	*e = (struct extent){ (uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2] };
	return true;
}

/*
 * The id that the host's root has here: what owns /proc/sys (the kernel says its global
 * root). In a user namespace where that one is not mapped it shows as the overflow id,
 * and then no id of ours is root's. Without /proc the map's own words must do.
 */
static uint32_t root_here(bool is_group)
{
	struct stat st;

	if (stat("/proc/sys", &st) < 0)
		return 0;
	return is_group ? st.st_gid : st.st_uid;
}

/* Leave root's id out: it is the first or the last of its extent, or cuts it in two. */
static void leave_out(struct extent *e, uint32_t root)
{
	uint32_t below = root - e->inside;

	if (root < e->inside || below >= e->count)
		return;
	if (below > e->count - below - 1) {
		e->count = below;
		return;
	}
	e->inside += below + 1;
	e->outside += below + 1;
	e->count -= below + 1;
}

/* The longest extent of the map that does not lead to the host's root. */
static int longest_extent(const char *path, uint32_t root, struct extent *out,
			  struct nsbox_error *err)
{
	struct buf text = BUF_INIT(MAP_TEXT_MAX);
	struct extent best = { 0 };
	char *line, *next;

	if (fd_read_file(AT_FDCWD, path, &text) < 0) {
		buf_free(&text);
		return err_sys(err, "read %s", path);
	}
	for (line = text.data; line && *line; line = next) {
		struct extent e;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (!parse_extent(line, &e))
			continue;
		leave_out(&e, root);
		if (e.count > best.count)
			best = e;
	}
	buf_free(&text);
	*out = best;
	return 0;
}

uid_t identity_outside(void)
{
	owned_fd int fd = openat(AT_FDCWD, "/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	struct lines l = { .fd = fd };
	uid_t uid = geteuid();
	struct extent e;
	char *line;

	while (fd >= 0 && (line = lines_next(&l)))
		if (parse_extent(line, &e) && uid >= e.inside && uid - e.inside < e.count)
			return e.outside + (uid - e.inside);
	return uid;
}

static struct id_range choose(const struct extent *e)
{
	if (e->inside <= RANGE_FIRST && e->count > RANGE_FIRST - e->inside + RANGE_COUNT)
		return (struct id_range){ RANGE_FIRST, RANGE_COUNT };
	/* A container's map: its upper half, away from the ids of real accounts. */
	return (struct id_range){ e->inside + e->count / 2, e->count - e->count / 2 };
}

static int only_root(struct nsbox_error *err, const char *what)
{
	err_hint(err, "run nsbox as an ordinary user, or in a user namespace that maps more than uid 0");
	return err_set(err, NSBOX_E_UNSUPPORTED,
		       "the host's root is the only %s that a box could have here", what);
}

int identity_find(struct identity *out, struct nsbox_error *err)
{
	static const int map_caps[] = { CAP_SETUID, CAP_SETGID };
	struct identity id = { .caller_uid = geteuid(), .caller_gid = getegid() };
	struct extent uids, gids;
	int r;

	id.may_map = has_caps(map_caps, 2);
	id.may_tree = can_clone_trees();
	if (!id.may_map && id.caller_uid != 0) {
		*out = id;
		return 0;
	}
	id.is_host_root = id.caller_uid == root_here(false);
	r = longest_extent("/proc/self/uid_map", root_here(false), &uids, err);
	if (r < 0)
		return r;
	r = longest_extent("/proc/self/gid_map", root_here(true), &gids, err);
	if (r < 0)
		return r;
	if (!uids.count || !id.may_map)
		return only_root(err, "user");
	if (!gids.count)
		return only_root(err, "group");
	id.uids = choose(&uids);
	id.gids = choose(&gids);
	*out = id;
	return 0;
}

int identity_for_writing(struct identity *id, struct nsbox_error *err)
{
	if (!id->is_host_root) {
		id->uids.count = id->gids.count = 0;
		id->may_tree = false;
		return 0;
	}
	/* Files would belong to the box's own uid, or could not be made at all. */
	if (id->may_map && !id->may_tree) {
		err_hint(err, "give nsbox CAP_SYS_ADMIN, or run it as the owner of the folder");
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "fs.write as root needs idmapped mounts, which take CAP_SYS_ADMIN");
	}
	return 0;
}

static uint32_t pick(const struct id_range *range, uint32_t own, pid_t child)
{
	return range->count ? range->first + (uint32_t)child % range->count : own;
}

uid_t identity_uid(const struct identity *id, pid_t child)
{
	return pick(&id->uids, id->caller_uid, child);
}

gid_t identity_gid(const struct identity *id, pid_t child)
{
	return pick(&id->gids, id->caller_gid, child);
}
