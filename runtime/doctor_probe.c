/*
 * doctor_probe.c - the probes: each does one thing that a box needs
 *
 * Runs in a throw-away child, most of them in namespaces of its own: system calls
 * only (see doctor_run.c).
 *
 * Must:    look at the effect, not at the return value alone.
 * Mustn't: change anything outside of its namespaces. The two that work on cgroups
 *          make a leaf of their own and remove it.
 */
#include "runtime/doctor.h"

#include "base/cleanup.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Of sched.h and sys/mount.h, which do not go together with the kernel's headers. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
	  const void *data);
int umount2(const char *target, int flags);
int unshare(int flags);

enum {
	FLAG_NOSUID = 2,
	FLAG_NODEV = 4,
	FLAG_NOEXEC = 8,
	FLAG_REC = 16384,
	FLAG_SLAVE = 1 << 19,
	FLAG_DETACH = 2,
	BOX_ID = 1000,
	JOIN_SESSION_KEYRING = 1, /* KEYCTL_JOIN_SESSION_KEYRING */
	EXECUTABLE_MEMFD = 0x10,  /* MFD_EXEC, Linux 6.3 */
};

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#define MFD_ALLOW_SEALING 2U
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#define F_SEAL_WRITE 8
#endif

static int no_effect(struct probe_report *r)
{
	r->step = STEP_NO_EFFECT;
	errno = 0;
	return -1;
}

static int become_private(struct probe_report *r)
{
	r->step = STEP_SLAVE;
	return mount(NULL, "/", NULL, FLAG_REC | FLAG_SLAVE, NULL);
}

/* --- namespaces ------------------------------------------------------------------ */

int probe_userns(struct probe_report *r)
{
	return syscall(SYS_geteuid) == BOX_ID && syscall(SYS_getegid) == BOX_ID ? 0 :
										  no_effect(r);
}

/* Ubuntu's AppArmor lets everybody make user namespaces and takes the capabilities
 * away inside: only a mount shows it. Mounted on "/", for that exists everywhere. */
int probe_mountns(struct probe_report *r)
{
	if (become_private(r) < 0)
		return -1;
	r->step = STEP_TMPFS;
	return mount("tmpfs", "/", "tmpfs", FLAG_NOSUID | FLAG_NODEV, "size=64k");
}

int probe_pidns(struct probe_report *r)
{
	return syscall(SYS_getpid) == 1 ? 0 : no_effect(r);
}

int probe_netns(struct probe_report *r)
{
	owned_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo;

	r->step = STEP_LOOPBACK;
	if (fd < 0)
		return -1;
	memset(&lo, 0, sizeof(lo));
	memcpy(lo.ifr_name, "lo", 3);
	if (ioctl(fd, SIOCGIFFLAGS, &lo) < 0)
		return -1;
	/* The flags of a new namespace's lo are down; of the host's they are up. */
	if (lo.ifr_flags & IFF_UP)
		return no_effect(r);
	lo.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return -1;
	if (ioctl(fd, SIOCGIFFLAGS, &lo) < 0)
		return -1;
	return lo.ifr_flags & IFF_UP ? 0 : no_effect(r);
}

/* That clone() took the flag is all there is to see. */
int probe_ipcns(struct probe_report *r)
{
	(void)r;
	return 0;
}

int probe_cgroupns(struct probe_report *r)
{
	(void)r;
	return 0;
}

int probe_utsns(struct probe_report *r)
{
	r->step = STEP_HOSTNAME;
	return syscall(SYS_sethostname, "nsbox", 5) < 0 ? -1 : 0;
}

/* Its flag is in the byte of the exit signal: clone() cannot take it. */
int probe_timens(struct probe_report *r)
{
	r->step = STEP_UNSHARE;
	return unshare(CLONE_NEWTIME);
}

/* --- mounts ----------------------------------------------------------------------- */

int probe_mount_api(struct probe_report *r)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };
	owned_fd int fd = -1;

	if (become_private(r) < 0)
		return -1;
	r->step = STEP_OPEN_TREE;
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, "/",
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0)
		return -1;
	r->step = STEP_SETATTR;
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -1;
	r->step = STEP_MOVE;
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	r->step = STEP_SETATTR;
	if (unlinkat(fd, "no-such-file", 0) == 0 || errno != EROFS)
		return no_effect(r);
	return 0;
}

/* A tmpfs over "/" and the cwd in it. ".." of a process's root is that root, so the
 * new mount is reached through the descriptor of fsmount(). */
static int enter_tmpfs(struct probe_report *r)
{
	owned_fd int fs = -1, fd = -1;

	if (become_private(r) < 0)
		return -1;
	r->step = STEP_TMPFS;
	fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	r->step = STEP_MOVE;
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	return (int)syscall(SYS_fchdir, fd); /* of this child alone */
}

int probe_pivot(struct probe_report *r)
{
	if (enter_tmpfs(r) < 0)
		return -1;
	r->step = STEP_PIVOT;
	if (mkdir("here", 0700) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return -1;
	if (umount2(".", FLAG_DETACH) < 0 || syscall(SYS_chdir, "/") < 0)
		return -1;
	return access("/here", F_OK) == 0 && access("/proc", F_OK) < 0 ? 0 : no_effect(r);
}

int probe_proc(struct probe_report *r)
{
	if (become_private(r) < 0)
		return -1;
	r->step = STEP_PROC;
	return mount("proc", "/", "proc", FLAG_NOSUID | FLAG_NODEV | FLAG_NOEXEC, NULL);
}

int probe_overlay(struct probe_report *r)
{
	if (enter_tmpfs(r) < 0)
		return -1;
	r->step = STEP_OVERLAY;
	if (mkdir("l", 0755) < 0 || mkdir("u", 0755) < 0 || mkdir("w", 0755) < 0 ||
	    mkdir("m", 0755) < 0)
		return -1;
	return mount("overlay", "m", "overlay", 0, "lowerdir=l,upperdir=u,workdir=w,userxattr");
}

static void end_child(int pid)
{
	int saved = errno;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	errno = saved;
}

/* A child that waits in a mapped user namespace, whose map a mount then gets. */
int probe_idmap(struct probe_report *r)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	owned_fd int tree = -1, ns = -1;
	char path[64] = "/proc/";
	int pid = probe_clone_mapped(r, 0);
	int result = -1;

	if (pid < 0)
		return -1;
	if (pid == 0)
		for (;;)
			pause();
	memcpy(decimal_put(path + 6, (uint64_t)pid), "/ns/user", 9);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	r->step = STEP_OPEN_TREE;
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/tmp", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (ns >= 0 && tree >= 0) {
		attr.userns_fd = (uint64_t)ns;
		r->step = STEP_SETATTR;
		result = syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr,
				 sizeof(attr)) < 0 ? -1 : 0;
	}
	end_child(pid);
	return result;
}

/* --- lockdown ---------------------------------------------------------------------- */

int probe_seccomp(struct probe_report *r)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	r->step = STEP_FILTER;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return -1;
	return syscall(SYS_getppid) < 0 && errno == EDOM ? 0 : no_effect(r);
}

int probe_landlock(struct probe_report *r)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_DIR };
	owned_fd int fd = -1, control = -1, refused = -1;
	long abi;

	r->step = STEP_RULESET;
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 0)
		return -1;
	r->value = (int32_t)abi;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0)
		return -1;
	control = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r->step = STEP_RESTRICT;
	if (control < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -1;
	refused = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return refused < 0 && errno == EACCES ? 0 : no_effect(r);
}

/* --- processes and files --------------------------------------------------------------- */

static int sleeping_child(struct clone_args *args)
{
	long pid = syscall(SYS_clone3, args, sizeof(*args));

	if (pid != 0)
		return (int)pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

int probe_clone3(struct probe_report *r)
{
	struct clone_args args = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };
	int fd = -1, pid;

	args.pidfd = (uint64_t)(uintptr_t)&fd;
	r->step = STEP_CLONE3;
	pid = sleeping_child(&args);
	if (pid < 0)
		return -1;
	end_child(pid);
	return fd >= 0 ? 0 : no_effect(r);
}

/* Processes with the same cookie, and no others, may run on one core's threads at once. */
int probe_sched_core(struct probe_report *r)
{
	enum { CREATE = 1, SCOPE_THREAD_GROUP = 1 }; /* PR_SCHED_CORE of prctl(2), Linux 5.14 */

	r->step = STEP_SCHED_CORE;
	return prctl(62 /* PR_SCHED_CORE */, CREATE, 0, SCOPE_THREAD_GROUP, 0);
}

int probe_pidfd(struct probe_report *r)
{
	siginfo_t info;
	int fd;

	r->step = STEP_PIDFD;
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd < 0)
		return -1;
	r->step = STEP_SIGNAL;
	if (syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		return -1;
	r->step = STEP_WAIT;
	/* Not a child: ECHILD is the answer of a kernel that knows P_PIDFD. */
	if (syscall(SYS_waitid, P_PIDFD, fd, &info, WEXITED | WNOHANG, NULL) < 0)
		return errno == ECHILD ? 0 : -1;
	return no_effect(r);
}

int probe_syscalls(struct probe_report *r)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	int fd;

	r->step = STEP_OPENAT2;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
	if (fd < 0)
		return -1;
	r->step = STEP_CLOSE_RANGE;
	if (syscall(SYS_close_range, fd, fd, 0) < 0)
		return -1;
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF ? 0 : no_effect(r);
}

int probe_memfd(struct probe_report *r)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd;
	struct stat st;

	r->step = STEP_MEMFD;
	fd = (int)syscall(SYS_memfd_create, "nsbox", flags | EXECUTABLE_MEMFD);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 all are executable */
		fd = (int)syscall(SYS_memfd_create, "nsbox", flags);
	if (fd < 0 || write(fd, "x", 1) != 1)
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ||
	    fstat(fd, &st) < 0)
		return -1;
	if (!(st.st_mode & S_IXUSR) || write(fd, "y", 1) == 1 || errno != EPERM)
		return no_effect(r);
	return 0;
}

/* Without keyrings in the kernel there is nothing that a box could reach. */
int probe_keyring(struct probe_report *r)
{
	r->step = STEP_KEYRING;
	if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL) >= 0)
		return 0;
	r->value = errno == ENOSYS;
	return r->value ? 0 : -1;
}

int probe_sampling(struct probe_report *r)
{
	owned_fd int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[64];

	r->step = STEP_SAMPLE;
	if (fd < 0)
		return -1;
	return read(fd, text, sizeof(text)) > 0 ? 0 : no_effect(r);
}

/* --- cgroups --------------------------------------------------------------------------- */

static int look_for_place(struct probe_report *r)
{
	r->step = STEP_CGROUP;
	cgroup_look(&r->place);
	if (r->place.fd >= 0)
		return 0;
	errno = r->place.os_errno;
	return -1;
}

int probe_cgroup(struct probe_report *r)
{
	int result = look_for_place(r), saved = errno;

	cgroup_place_close(&r->place); /* a scope, say, goes again */
	errno = saved;
	return result;
}

/* Born in it, or moved by systemd where only that may. */
static int child_in(const struct cgroup *leaf)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int pid;

	if (!leaf->scope) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)leaf->fd;
	}
	pid = sleeping_child(&args);
	if (pid > 0 && leaf->scope && cgroup_join(leaf, pid, NULL) < 0) {
		end_child(pid);
		errno = EACCES;
		return -1;
	}
	return pid;
}

static int kill_in(struct probe_report *r, const struct cgroup *leaf)
{
	int status = 0, pid;

	r->step = STEP_INTO_CGROUP;
	pid = child_in(leaf);
	if (pid < 0)
		return -1;
	r->step = STEP_CGROUP_KILL;
	if (cgroup_kill(leaf) < 0) {
		end_child(pid);
		return -1;
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : no_effect(r);
}

int probe_cgroup_kill(struct probe_report *r)
{
	struct cgroup leaf = { .fd = -1 };
	int result, saved;

	if (look_for_place(r) < 0)
		return -1;
	r->step = STEP_CGROUP;
	result = cgroup_leaf(&leaf, r->place.fd);
	if (r->place.scope.pid && r->place.scope.is_apart)
		leaf.scope = &r->place.scope;
	if (result == 0)
		result = kill_in(r, &leaf);
	saved = errno;
	cgroup_destroy(&leaf);
	cgroup_place_close(&r->place);
	errno = saved;
	return result;
}
