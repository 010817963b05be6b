/*
 * cgroup_remedy.c - what to do for a cgroup with controllers, on this very host
 *
 * Runs in the launcher; words only. Which row holds is decided by what the search for a
 * place saw; the first that holds is said.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"

#include <string.h>

static const struct {
	const char *name, *text;
} steps[] = {
#define X(id, word, sentence) [CGROUP_##id] = { word, sentence },
	CGROUP_STEPS(X)
#undef X
};

const char *cgroup_step_name(int step)
{
	return (unsigned)step < ARRAY_SIZE(steps) ? steps[step].name : "?";
}

const char *cgroup_step_text(int step)
{
	return (unsigned)step < ARRAY_SIZE(steps) ? steps[step].text : "?";
}

static bool has_all(const struct cgroup_place *p)
{
	return p->memory && p->pids && p->cpu;
}

static bool is_read_only(const struct cgroup_place *p)
{
	return p->os_errno == EROFS;
}

static bool has_no_mount(const struct cgroup_place *p)
{
	return !p->path[0];
}

static bool is_mount_outside(const struct cgroup_place *p)
{
	return p->obstacle == OBSTACLE_OUTSIDE;
}

static bool is_container_without(const struct cgroup_place *p)
{
	return p->is_nested && p->has_no_controllers;
}

static bool is_hybrid(const struct cgroup_place *p)
{
	return p->has_no_controllers;
}

static bool is_container_root(const struct cgroup_place *p)
{
	return p->is_nested && !p->is_user;
}

/* Of the system's systemd: a service of the user's own lies below user@.service. */
static bool is_service(const struct cgroup_place *p)
{
	return strstr(p->own, ".service") && !strstr(p->own, "/user@");
}

static bool lacks_program(const struct cgroup_place *p)
{
	return p->obstacle == OBSTACLE_NO_PROGRAM;
}

/* The scope is there, and has not all: user@.service itself was given too little. */
static bool lacks_delegation(const struct cgroup_place *p)
{
	return p->step == CGROUP_SCOPE || p->obstacle == OBSTACLE_NOT_GIVEN;
}

static bool is_of_user(const struct cgroup_place *p)
{
	return p->is_user;
}

static bool is_any(const struct cgroup_place *p)
{
	(void)p;
	return true;
}

/* clang-format off */
static const struct {
	bool (*holds)(const struct cgroup_place *p);
	const char *remedy;
} remedies[] = {
	{ has_all, NULL },
	{ is_read_only, "in a container: start it with a writable cgroup of its own (docker run "
	  "--cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw, or --privileged; podman run "
	  "--security-opt unmask=/sys/fs/cgroup)" },
	{ is_mount_outside, "in the container: mount -t cgroup2 none /sys/fs/cgroup, or start it without "
	  "a cgroup namespace of its own (docker run --cgroupns=host)" },
	{ has_no_mount, "as root: mount -t cgroup2 none /sys/fs/cgroup, or boot with "
	  "systemd.unified_cgroup_hierarchy=1" },
	{ is_container_without, "outside of the container: give its cgroup the controllers (docker "
	  "and podman do on a host that boots with systemd.unified_cgroup_hierarchy=1; a "
	  "systemd unit does with Delegate=yes)" },
	{ is_hybrid, "boot with systemd.unified_cgroup_hierarchy=1 (or cgroup_no_v1=all): cgroup v1 "
	  "has the controllers now" },
	{ is_container_root, "when the container starts, in its shell: mkdir -p /sys/fs/cgroup/init; "
	  "for p in $(cat /sys/fs/cgroup/cgroup.procs); do echo $p >/sys/fs/cgroup/init/cgroup.procs; "
	  "done; echo +memory +pids +cpu >/sys/fs/cgroup/cgroup.subtree_control" },
	{ lacks_program, "install nsbox-scope: build nsbox with libsystemd-dev, then make install" },
	{ is_service, "in the [Service] section of the unit: Delegate=yes" },
	{ lacks_delegation, "as root: systemctl edit user@.service, with the lines [Service] and "
	  "Delegate=cpu cpuset io memory pids; then systemctl daemon-reload, and log in again" },
	{ is_of_user, "as root: loginctl enable-linger USER; then nsbox asks that user's systemd for a "
	  "scope by itself, or: systemd-run --user --scope -p Delegate=yes nsbox ..." },
	{ is_any, "run nsbox in a cgroup of its own: systemd-run --scope -p Delegate=yes nsbox ..." },
};
/* clang-format on */

const char *cgroup_remedy(const struct cgroup_place *p)
{
	size_t i = 0;

	while (!remedies[i].holds(p))
		i++;
	return remedies[i].remedy;
}
