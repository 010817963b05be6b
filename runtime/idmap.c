/*
 * idmap.c - stage idmap of a launch. Runs in the launcher, while the child waits.
 *
 * Must: map one uid and one gid and deny setgroups before the child goes on.
 */
#include "runtime/idmap.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/identity.h"
#include "runtime/kernel.h"
#include "runtime/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_SIZE = 64 * 1024 };

static int write_proc(pid_t pid, const char *file, const char *text, struct nsbox_error *err)
{
	char path[64];
	owned_fd int fd = -1;

	/* The number cannot be reused: the child is ours and not reaped yet. */
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0)
		return 0;
	/* The child's memory is ours, so its files in /proc are as closed as our own. */
	if (errno == EACCES && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
		err_hint(err, "the calling process is not dumpable: PR_SET_DUMPABLE of prctl(2)");
	return err_sys(err, "write \"%s\" to %s", text, path);
}

static int map_ids(const struct live *l, struct nsbox_error *err)
{
	char uid_line[64], gid_line[64];
	int r;

	snprintf(uid_line, sizeof(uid_line), "%d %u 1", BOX_UID, (unsigned)l->uid);
	snprintf(gid_line, sizeof(gid_line), "%d %u 1", BOX_GID, (unsigned)l->gid);
	/* "deny" first: without CAP_SETGID gid_map can be written only after it, and it
	 * stays for ever (user_namespaces(7)). */
	r = write_proc(l->pid, "setgroups", "deny", err);
	if (r >= 0)
		r = write_proc(l->pid, "uid_map", uid_line, err);
	if (r >= 0)
		r = write_proc(l->pid, "gid_map", gid_line, err);
	return r;
}

/* --- fs.write as root: an idmapped mount ----------------------------------- */

/*
 * Until it is killed. Not until the end of a pipe: a process that another thread forks
 * meanwhile would hold the other end, and this one has the launcher's own descriptors.
 */
static void wait_for_death(void *launcher)
{
	sys(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while (sys(getppid) == *(pid_t *)launcher) /* or it died before the prctl */
		sys(ppoll, 0, 0, 0, 0, 0);
	for (;;)
		sys(exit_group, 0);
}

/*
 * A user namespace whose map says "on disk the caller's id, in the box the box's id":
 * made by a child that does nothing, kept by a descriptor.
 */
static int make_userns(const struct identity *id, const struct live *l, char *stack,
		       struct nsbox_error *err)
{
	const uint64_t all = ~(uint64_t)0;
	pid_t launcher = getpid();
	char path[64], text[64];
	uint64_t saved;
	int fd = -1;
	long pid;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &saved, sizeof(all));
	/* CLONE_VM, CLONE_FILES: never copy a large caller. */
	pid = sys_clone_on(CLONE_VM | CLONE_FILES | CLONE_NEWUSER, stack + STACK_SIZE, NULL,
			   wait_for_death, &launcher);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &saved, NULL, sizeof(saved));
	if (pid < 0) {
		errno = (int)-pid;
		err_sys(err, "clone a user namespace for the id map");
	} else {
		snprintf(text, sizeof(text), "%u %u 1", (unsigned)id->caller_uid, (unsigned)l->uid);
		if (write_proc((pid_t)pid, "uid_map", text, err) >= 0) {
			snprintf(text, sizeof(text), "%u %u 1", (unsigned)id->caller_gid,
				 (unsigned)l->gid);
			if (write_proc((pid_t)pid, "gid_map", text, err) >= 0) {
				snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
				fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
				if (fd < 0)
					err_sys(err, "open %s", path);
			}
		}
	}
	if (pid > 0) {
		kill((pid_t)pid, SIGKILL); /* ours and not reaped: the number is still its */
		while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	return fd >= 0 ? fd : (err ? err->code : NSBOX_E_SYSTEM);
}

static int idmap_trees(const struct launch_request *r, const struct live *l,
		       struct nsbox_error *err)
{
	owned_mem char *stack = NULL;
	owned_fd int userns = -1;

	for (size_t i = 0; i < r->view->tree_count; i++) {
		const struct view_tree *t = &r->view->trees[i];
		struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };

		if (!t->needs_idmap)
			continue;
		if (!stack && !(stack = malloc(STACK_SIZE)))
			return err_nomem(err);
		if (userns < 0)
			userns = make_userns(r->id, l, stack, err);
		if (userns < 0)
			return userns;
		attr.userns_fd = (uint64_t)userns;
		if (syscall(SYS_mount_setattr, t->fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
			    sizeof(attr)) < 0) {
			int e = errno;

			err_hint(err, "the file system of %s has no idmapped mounts: run nsbox as "
				 "the owner of the folder instead of root", t->src);
			return err_errno(err, NSBOX_E_UNSUPPORTED, e, "map ids of %s", t->src);
		}
	}
	return 0;
}

/* "echo x > /dev/stdout" opens the pipe again by name: it must be the box's own. */
static int own_pipes(const struct launch_request *r, const struct live *l,
		     struct nsbox_error *err)
{
	const int fds[] = { r->in, r->out, r->err };

	for (int i = 0; i < 3; i++)
		if ((r->own_pipes & (1U << i)) && r->id->may_map && fchown(fds[i], l->uid, l->gid) < 0) {
			err_hint(err, "give nsbox CAP_CHOWN, or run it as an ordinary user");
			return err_sys(err, "give a stream to the box");
		}
	return 0;
}

int stage_idmap(const struct launch_request *r, const struct live *l,
		       struct nsbox_error *err)
{
	int code = map_ids(l, err);

	if (code >= 0)
		code = own_pipes(r, l, err);
	return code < 0 ? code : idmap_trees(r, l, err);
}
