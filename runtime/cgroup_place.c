/*
 * cgroup_place.c - where on this host the leaves of runs can be made
 *
 * Runs in the launcher, once per box, and in a child of doctor: system calls only.
 *
 * Must:    prove by doing: in a folder that is not ours, what is reported as there was
 *          seen in a leaf made for it.
 * Mustn't: make anything in a cgroup that has another writer; move the caller unless it
 *          agreed; move anybody or enable a controller when it only looks.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

enum { LINK_TRIES = 8, LOOK_TRIES = 50 };

static const char *const controllers[] = { "memory", "pids", "cpu", "io" };

static void put_text(char *to, size_t size, const char *text)
{
	size_t n = strlen(text);

	n = n < size ? n : size - 1;
	memcpy(to, text, n);
	to[n] = '\0';
}

static void say(struct cgroup_place *p, const char *why, int os_errno)
{
	put_text(p->why, sizeof(p->why), why);
	p->os_errno = os_errno;
}

/* --- controllers ---------------------------------------------------------------- */

static void read_words(int dirfd, const char *file, char *text, size_t size)
{
	owned_fd int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *s = text; (s = strstr(s, word)); s += n)
		if ((s == text || s[-1] == ' ') && (!s[n] || s[n] == ' ' || s[n] == '\n'))
			return true;
	return false;
}

/* For the folders below; 0, or the last errno. EBUSY: processes live in this one. */
static int enable(int dirfd, size_t count)
{
	char there[256], on[256];
	int failed = 0;

	read_words(dirfd, "cgroup.controllers", there, sizeof(there));
	read_words(dirfd, "cgroup.subtree_control", on, sizeof(on));
	for (size_t i = 0; i < count; i++) {
		owned_fd int fd = -1;
		char text[16] = "+";

		if (!has_word(there, controllers[i]) || has_word(on, controllers[i]))
			continue;
		put_text(text + 1, sizeof(text) - 1, controllers[i]);
		fd = openat(dirfd, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, text, strlen(text)) < 0)
			failed = errno;
	}
	return failed;
}

/* --- places --------------------------------------------------------------------- */

static bool has_file(int dirfd, const char *file)
{
	return faccessat(dirfd, file, F_OK, 0) == 0;
}

/* Make a leaf and look what the kernel put in. -1 with errno: no leaves here. */
static int probe(struct cgroup_place *p, int dirfd)
{
	struct cgroup leaf = { .fd = -1 };
	owned_fd int procs = -1;

	/* Moving a process needs write access here too: cgroups(7), delegation. */
	procs = openat(dirfd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (procs < 0 || cgroup_leaf(&leaf, dirfd) < 0)
		return -1;
	p->memory = has_file(leaf.fd, "memory.max");
	p->pids = has_file(leaf.fd, "pids.max");
	p->cpu = has_file(leaf.fd, "cpu.max");
	p->io = has_file(leaf.fd, "io.max");
	p->kill = has_file(leaf.fd, "cgroup.kill");
	cgroup_destroy(&leaf);
	return 0;
}

/*
 * What the folder says its leaves get: cheaper than a leaf (100 us a run), and proven
 * by cgroup_make(), which reads back what it writes. Only for the folder that we made.
 */
static int read_promises(struct cgroup_place *p, int dirfd)
{
	char on[256];

	if (!has_file(dirfd, "cgroup.procs") || faccessat(dirfd, ".", W_OK, 0) < 0)
		return -1;
	read_words(dirfd, "cgroup.subtree_control", on, sizeof(on));
	p->memory = has_word(on, "memory");
	p->pids = has_word(on, "pids");
	p->cpu = has_word(on, "cpu");
	p->io = has_word(on, "io");
	p->kill = has_file(dirfd, "cgroup.kill");
	return 0;
}

static bool is_same(int dirfd, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(dirfd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino;
}

/*
 * <mount>/nsbox, with a shared lock: the last user removes it, and must not do so
 * between our open and our first leaf.
 */
static int open_own_folder(int mount_fd)
{
	for (int i = 0; i < LINK_TRIES; i++) {
		struct timespec pause = { .tv_nsec = i * 1000000L };
		owned_fd int fd = -1;

		if (i) /* even a sleep of nothing takes 50 us */
			nanosleep(&pause, NULL);
		/* 0700: a lock needs no more than an open, so nobody else gets one */
		if (mkdirat(mount_fd, CGROUP_OWN_FOLDER, 0700) < 0 && errno != EEXIST)
			return -1;
		fd = openat(mount_fd, CGROUP_OWN_FOLDER,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT)
			return -1;
		if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 &&
		    is_same(mount_fd, CGROUP_OWN_FOLDER, fd))
			return take_fd(fd);
	}
	errno = EBUSY;
	return -1;
}

static void close_own_folder(int fd)
{
	/* ".." of the folder is the mount's top, wherever that is mounted. */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_same(fd, "../" CGROUP_OWN_FOLDER, fd))
		(void)unlinkat(fd, "../" CGROUP_OWN_FOLDER, AT_REMOVEDIR);
	close(fd);
}

static void add_path(struct cgroup_place *p, const char *name)
{
	size_t n = strlen(p->path);

	if (!*name || n + 1 >= sizeof(p->path))
		return;
	p->path[n] = '/';
	put_text(p->path + n + 1, sizeof(p->path) - n - 1, name);
}

/* The top of the whole hierarchy: the only cgroup without a type, and the only one
 * that may have both processes and controllers for its children. */
static int take_top(struct cgroup_place *p, int mount_fd)
{
	owned_fd int fd = -1;
	int refused;

	fd = open_own_folder(mount_fd);
	if (fd < 0)
		return -1;
	/* io stays as it is at the top: accounting it costs everybody on the host. */
	refused = enable(mount_fd, ARRAY_SIZE(controllers) - 1);
	if (!refused)
		refused = enable(fd, ARRAY_SIZE(controllers));
	if (read_promises(p, fd) < 0) {
		int saved = errno;

		close_own_folder(take_fd(fd));
		errno = saved;
		return -1;
	}
	if (refused)
		say(p, "the controllers of the top cgroup cannot be enabled", refused);
	p->fd = take_fd(fd);
	p->step = CGROUP_TOP;
	p->has_no_controllers = !p->memory;
	p->is_ours = true;
	add_path(p, CGROUP_OWN_FOLDER);
	return 0;
}

static int look_at_top(struct cgroup_place *p, int mount_fd)
{
	char there[256];

	if (probe(p, mount_fd) < 0)
		return -1;
	read_words(mount_fd, "cgroup.controllers", there, sizeof(there));
	p->memory = p->memory || has_word(there, "memory");
	p->pids = p->pids || has_word(there, "pids");
	p->cpu = p->cpu || has_word(there, "cpu");
	p->fd = fcntl(mount_fd, F_DUPFD_CLOEXEC, 0);
	p->step = CGROUP_TOP;
	p->has_no_controllers = !has_word(there, "memory");
	add_path(p, CGROUP_OWN_FOLDER);
	return p->fd < 0 ? -1 : 0;
}

static bool is_slice(const char *path)
{
	size_t n = strlen(path);

	return n >= 6 && strcmp(path + n - 6, ".slice") == 0;
}

/* --- the steps -------------------------------------------------------------------- */

struct ladder { /* what the steps work on */
	struct cgroup_place *place;
	struct cgroup_mount mount;
	int mount_fd;
	const char *below; /* the same, from the mount; "" is the mount's top */
	enum cgroup_reach reach;
	bool only_look;
};

/* A path that others may have told us: no links, nothing mounted over. */
static int open_below(const struct ladder *l, const char *path)
{
	return fd_open(l->mount_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0,
		       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

static int keep(const struct ladder *l, int fd, const char *path, enum cgroup_step step)
{
	struct cgroup_place *p = l->place;

	p->fd = fd;
	p->step = (int)step;
	add_path(p, path);
	return 0;
}

/* Without these two, a box can be watched and no more. */
static bool has_controllers(const struct cgroup_place *p)
{
	return p->memory && p->pids;
}

static void forget_controllers(struct cgroup_place *p)
{
	p->memory = p->pids = p->cpu = p->io = false;
}

static int try_above(const struct ladder *l, const char *path)
{
	owned_fd int fd = open_below(l, path);
	const char *name = strrchr(path, '/');
	char on[256];

	if (fd < 0 || !has_file(fd, "cgroup.type") || !cgroup_is_ours(fd, name ? name + 1 : path))
		return -1;
	read_words(fd, "cgroup.subtree_control", on, sizeof(on));
	if (!has_word(on, "memory") || !has_word(on, "pids") || probe(l->place, fd) < 0)
		return -1;
	if (!has_controllers(l->place)) {
		forget_controllers(l->place);
		return -1;
	}
	return keep(l, take_fd(fd), path, CGROUP_ABOVE);
}

/*
 * From here up. What lies above a slice is not for us even where it is delegated: to
 * systemd, as user@.service is. But the top of a container is, to its root.
 */
static int take_above(const struct ladder *l)
{
	char path[256];
	bool is_past_slice = false;

	put_text(path, sizeof(path), l->below);
	for (;;) {
		char *slash = strrchr(path, '/');

		is_past_slice = is_past_slice || is_slice(path);
		if ((!is_past_slice || (!*path && geteuid() == 0)) && try_above(l, path) == 0)
			return 0;
		if (!*path)
			return -1;
		*(slash ? slash : path) = '\0';
	}
}

/* Back to where we were; the kernel allows it as long as no controller is on. */
static void move_back(int dirfd, const struct cgroup *leaf)
{
	const struct cgroup parent = { .fd = dirfd };

	if (cgroup_join(&parent, getpid(), NULL) == 0)
		(void)unlinkat(dirfd, leaf->name, AT_REMOVEDIR);
}

/*
 * "No internal processes": only when we have left it for a leaf may this cgroup have
 * controllers for its children. There is no way back while a box is alive, so we stay;
 * the leaf goes with its parent, or with a later sweep.
 */
static int move_into_leaf(struct cgroup_place *p, int dirfd)
{
	struct cgroup leaf = { .fd = -1 };
	owned_fd int leaf_fd = -1;
	int refused;

	if (cgroup_leaf(&leaf, dirfd) < 0)
		return -1;
	leaf_fd = leaf.fd;
	if (cgroup_join(&leaf, getpid(), NULL) < 0) {
		(void)unlinkat(dirfd, leaf.name, AT_REMOVEDIR);
		return -1;
	}
	refused = enable(dirfd, ARRAY_SIZE(controllers));
	if (probe(p, dirfd) == 0 && has_controllers(p))
		return 0;
	forget_controllers(p);
	move_back(dirfd, &leaf);
	errno = refused;
	return -1;
}

static int look_at_own(struct cgroup_place *p, int dirfd)
{
	char there[256];

	if (probe(p, dirfd) < 0)
		return -1;
	read_words(dirfd, "cgroup.controllers", there, sizeof(there));
	p->memory = has_word(there, "memory");
	p->pids = has_word(there, "pids");
	p->cpu = has_word(there, "cpu");
	p->io = has_word(there, "io");
	return has_controllers(p) ? 0 : -1;
}

/* When we look we are doctor's child, and others that it had may still be dying. */
static bool is_alone(const struct ladder *l, int dirfd)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	if (!l->only_look)
		return cgroup_is_alone(dirfd, getpid(), getpid());
	for (int i = 0; i < LOOK_TRIES; i++) {
		if (cgroup_is_alone(dirfd, getpid(), getppid()))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int take_own(const struct ladder *l)
{
	owned_fd int fd = open_below(l, l->below);
	const char *name = strrchr(l->below, '/');
	char there[256];

	/* Not at the top of the hierarchy: there controllers need no move. */
	if (fd < 0 || !has_file(fd, "cgroup.type") ||
	    !cgroup_is_ours(fd, name ? name + 1 : l->below))
		return -1;
	read_words(fd, "cgroup.controllers", there, sizeof(there));
	if (!has_word(there, "memory") || !has_word(there, "pids"))
		return -1;
	if (!is_alone(l, fd)) {
		say(l->place, "other processes are in the own cgroup, which may therefore have no controllers for leaves",
		    EBUSY);
		return -1;
	}
	if (l->reach < REACH_MOVE) {
		say(l->place, "this process is in the own cgroup, and may not be moved out of the way (enforce.cgroup)",
		    EBUSY);
		return -1;
	}
	if ((l->only_look ? look_at_own(l->place, fd) : move_into_leaf(l->place, fd)) < 0)
		return -1;
	return keep(l, take_fd(fd), l->below, CGROUP_OWN);
}

/* --- the step of systemd ---------------------------------------------------------- */

static int not_a_scope(struct cgroup_place *p, const char *why, int os_errno)
{
	say(p, why, os_errno);
	return -1;
}

/* What the scope's keeper says is a hint; what the kernel shows is taken. */
static int check_scope(const struct ladder *l, int fd)
{
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return not_a_scope(l->place, "the scope of the user's systemd cannot be opened", errno);
	if (fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC || fstat(fd, &st) < 0 ||
	    st.st_uid != geteuid())
		return not_a_scope(l->place, "the scope of the user's systemd is no cgroup of this user", 0);
	return 0;
}

/* The keeper goes into a leaf, the controllers on, and a leaf shows them. */
static int furnish_scope(struct cgroup_place *p, int fd)
{
	struct cgroup keeper = { .fd = -1 };
	owned_fd int keeper_fd = -1;
	int refused;

	if (mkdirat(fd, "sup", 0700) < 0)
		return not_a_scope(p, "the scope of the user's systemd is not writable", errno);
	keeper.fd = keeper_fd = openat(fd, "sup", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (keeper.fd < 0 || cgroup_join(&keeper, p->scope.pid, NULL) < 0)
		return not_a_scope(p, "the scope's keeper cannot be moved out of the way", errno);
	refused = enable(fd, ARRAY_SIZE(controllers));
	if (probe(p, fd) < 0)
		return not_a_scope(p, "no leaf can be made in the scope of the user's systemd", errno);
	if (has_controllers(p))
		return 0;
	forget_controllers(p);
	p->obstacle = OBSTACLE_NOT_GIVEN;
	return not_a_scope(p, "the user's systemd was given no controllers to pass on", refused);
}

/* May we ourselves move a process from our cgroup to one in the scope? */
static bool is_apart(const struct ladder *l, const char *scope)
{
	char path[256];
	size_t n = cgroup_common(l->below, scope);
	owned_fd int fd = -1;

	put_text(path, sizeof(path), scope);
	path[n < sizeof(path) ? n : 0] = '\0';
	fd = open_below(l, path);
	return fd < 0 || faccessat(fd, "cgroup.procs", W_OK, 0) < 0;
}

static int use_scope(const struct ladder *l, const struct scope_answer *answer)
{
	struct cgroup_place *p = l->place;
	const char *below = cgroup_below_mount(&l->mount, answer->path);
	owned_fd int fd = below && *below ? open_below(l, below) : -1;

	if (check_scope(l, fd) < 0 || furnish_scope(p, fd) < 0)
		return -1;
	p->scope.is_apart = is_apart(l, below);
	return keep(l, take_fd(fd), below, CGROUP_SCOPE);
}

static int take_scope(const struct ladder *l)
{
	struct scope_answer answer;
	struct cgroup_place *p = l->place;
	int r;

	if (l->reach < REACH_SCOPE || geteuid() == 0)
		return -1;
	if (!scope_is_likely())
		return not_a_scope(p, "no systemd of this user is running, which could delegate a cgroup",
				   0);
	r = scope_start(&p->scope, &answer);
	if (r == SCOPE_NO_PROGRAM)
		p->obstacle = OBSTACLE_NO_PROGRAM;
	if (r < 0)
		return not_a_scope(p, answer.text, answer.os_errno);
	if (use_scope(l, &answer) == 0)
		return 0;
	scope_end(&p->scope);
	return -1;
}

/* The own cgroup as it is. */
static int take_bare(const struct ladder *l)
{
	owned_fd int fd = open_below(l, l->below);
	struct cgroup_place *p = l->place;

	if (fd < 0 || probe(p, fd) < 0) {
		if (!p->why[0])
			say(p, "the own cgroup is not writable", errno);
		return -1;
	}
	return keep(l, take_fd(fd), l->below, CGROUP_BARE);
}

static void climb(struct ladder *l)
{
	char there[256];

	read_words(l->mount_fd, "cgroup.controllers", there, sizeof(there));
	l->place->has_no_controllers = !has_word(there, "memory");
	if (!l->place->has_no_controllers &&
	    (take_above(l) == 0 || take_own(l) == 0 || take_scope(l) == 0)) {
		l->place->why[0] = '\0';
		l->place->obstacle = OBSTACLE_OTHER;
		return;
	}
	(void)take_bare(l);
}

static void find(struct ladder *l)
{
	struct cgroup_place *p = l->place;
	owned_fd int mount_fd = -1;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	p->is_user = geteuid() != 0;
	if (cgroup_find_mount(&l->mount) < 0)
		return say(p, "no cgroup2 file system is mounted", 0);
	if (!l->mount.is_writable)
		return say(p, "the cgroup2 file system is mounted read-only", EROFS);
	l->mount_fd = mount_fd =
		openat(AT_FDCWD, l->mount.point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0)
		return say(p, "the cgroup2 mount cannot be opened", errno);
	if (cgroup_is_outside(&l->mount)) {
		p->obstacle = OBSTACLE_OUTSIDE;
		return say(p, "the cgroup2 mount is one of outside this cgroup namespace", 0);
	}
	put_text(p->path, sizeof(p->path), l->mount.point);
	p->is_nested = has_file(mount_fd, "cgroup.type");
	if (!p->is_nested &&
	    (l->only_look ? look_at_top(p, mount_fd) : take_top(p, mount_fd)) == 0)
		return;
	if (cgroup_find_own(p->own, sizeof(p->own)) < 0)
		return say(p, "this process is in no cgroup of version 2", errno);
	l->below = cgroup_below_mount(&l->mount, p->own);
	if (!l->below)
		return say(p, "the own cgroup is not below the cgroup2 mount", 0);
	climb(l);
}

static void name_what_is_missing(struct cgroup_place *p)
{
	if (p->fd < 0 || p->memory)
		return;
	p->step = CGROUP_BARE;
	if (p->has_no_controllers)
		say(p, "the cgroup2 hierarchy has no memory controller (cgroup v1 has it)", 0);
}

void cgroup_look(struct cgroup_place *p)
{
	struct ladder l = { .place = p, .reach = REACH_MOVE, .only_look = true };

	find(&l);
	name_what_is_missing(p);
}

void cgroup_find(struct cgroup_place *p, enum cgroup_reach reach)
{
	struct ladder l = { .place = p, .reach = reach };

	find(&l);
	name_what_is_missing(p);
}

void cgroup_place_close(struct cgroup_place *p)
{
	if (p->fd < 0)
		return;
	if (p->is_ours)
		close_own_folder(p->fd);
	else
		close(p->fd);
	p->fd = -1;
	scope_end(&p->scope);
}
