/*
 * cgroup_place.c - where on this host the leaves of runs can be made
 *
 * Runs in the launcher, once per box, and in a child of doctor: system calls only.
 *
 * Must:    prove by doing: in a folder that is not ours, what is reported as there was
 *          seen in a leaf made for it.
 * Mustn't: move the caller, or enable a controller when it only looks.
 */
#include "runtime/cgroup.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum {
	LINE_MAX_BYTES = 4096, /* a longer line of mountinfo is skipped */
	LINK_TRIES = 8,
};

static const char *const controllers[] = { "memory", "pids", "cpu", "io" };

/* --- what /proc says ---------------------------------------------------------- */

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

static char *next_word(char **at)
{
	char *s = *at;
	size_t n = strcspn(s, " ");

	if (!n)
		return NULL;
	*at = s + n;
	if (**at)
		*(*at)++ = '\0';
	return s;
}

static bool is_octal(const char *s)
{
	for (int i = 1; i <= 3; i++)
		if (s[i] < '0' || s[i] > '7')
			return false;
	return s[0] == '\\';
}

/* mountinfo writes space, tab, newline and backslash as \ooo. -1: too long. */
static int unescape(char *to, size_t size, const char *s)
{
	size_t n = 0;

	while (*s) {
		if (n + 1 >= size)
			return -1;
		if (is_octal(s)) {
			to[n++] = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			to[n++] = *s++;
		}
	}
	to[n] = '\0';
	return 0;
}

/* id parent dev ROOT POINT OPTIONS [optional...] - TYPE source super: proc(5). */
int cgroup_parse_mount(char *line, struct cgroup_mount *out)
{
	char *words[6], *at = line, *word;
	struct cgroup_mount m;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		words[i] = next_word(&at);
		if (!words[i])
			return -1;
	}
	do
		word = next_word(&at);
	while (word && strcmp(word, "-") != 0);
	word = word ? next_word(&at) : NULL;
	if (!word || strcmp(word, "cgroup2") != 0)
		return -1;
	if (unescape(m.root, sizeof(m.root), words[3]) < 0 ||
	    unescape(m.point, sizeof(m.point), words[4]) < 0)
		return -1;
	m.is_writable = strncmp(words[5], "rw", 2) == 0;
	*out = m;
	return 0;
}

const char *cgroup_below_mount(const struct cgroup_mount *m, const char *own)
{
	size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);

	/* "/../x": the cgroup is outside of this process's cgroup namespace */
	if (own[0] != '/' || strncmp(own, "/..", 3) == 0 || strncmp(own, m->root, n) != 0 ||
	    (own[n] != '/' && own[n] != '\0'))
		return NULL;
	own += n;
	return own + (*own == '/');
}

/* Lines of a file, one after the other, in a buffer of the caller. */
struct lines {
	int fd;
	size_t have, used;
	bool is_cut; /* the rest of a line that was too long is still to come */
	char text[LINE_MAX_BYTES];
};

static char *next_line(struct lines *l)
{
	for (;;) {
		char *start = l->text + l->used, *end;
		ssize_t n;

		end = memchr(start, '\n', l->have - l->used);
		if (end) {
			bool skip = l->is_cut;

			*end = '\0';
			l->used = (size_t)(end + 1 - l->text);
			l->is_cut = false;
			if (!skip)
				return start;
			continue;
		}
		l->have -= l->used;
		memmove(l->text, start, l->have);
		l->used = 0;
		if (l->have == sizeof(l->text)) {
			l->have = 0;
			l->is_cut = true;
		}
		n = read(l->fd, l->text + l->have, sizeof(l->text) - l->have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return NULL;
		l->have += (size_t)n;
	}
}

int cgroup_find_mount(struct cgroup_mount *out)
{
	owned_fd int fd = openat(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct lines l = { .fd = fd };
	struct cgroup_mount m;
	bool found = false;
	char *line;

	if (fd < 0)
		return -1;
	while ((line = next_line(&l))) {
		if (cgroup_parse_mount(line, &m) < 0)
			continue;
		if (!found || (m.is_writable && !out->is_writable))
			*out = m;
		found = true;
	}
	errno = ENOENT;
	return found ? 0 : -1;
}

static int find_own(char *path, size_t size)
{
	owned_fd int fd = openat(AT_FDCWD, "/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	struct lines l = { .fd = fd };
	char *line;

	if (fd < 0)
		return -1;
	while ((line = next_line(&l)))
		if (strncmp(line, "0::", 3) == 0) {
			put_text(path, size, line + 3);
			return 0;
		}
	errno = ENOENT;
	return -1;
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
	add_path(p, CGROUP_OWN_FOLDER);
	return p->fd < 0 ? -1 : 0;
}

static int take_own(struct cgroup_place *p, int mount_fd, const char *below, bool may_enable)
{
	owned_fd int fd = -1;
	int refused = 0;

	fd = openat(mount_fd, *below ? below : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (may_enable)
		refused = enable(fd, ARRAY_SIZE(controllers));
	if (probe(p, fd) < 0)
		return -1;
	if (refused == EBUSY)
		say(p, "this process is itself in the cgroup, which may therefore have no controllers for leaves",
		    EBUSY);
	else if (refused)
		say(p, "the controllers of the own cgroup cannot be enabled", refused);
	p->fd = take_fd(fd);
	add_path(p, below);
	return 0;
}

static void find(struct cgroup_place *p, bool only_look)
{
	struct cgroup_mount m;
	owned_fd int mount_fd = -1;
	char own[256];
	const char *below;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	if (cgroup_find_mount(&m) < 0)
		return say(p, "no cgroup2 file system is mounted", 0);
	if (!m.is_writable)
		return say(p, "the cgroup2 file system is mounted read-only", EROFS);
	mount_fd = openat(AT_FDCWD, m.point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0)
		return say(p, "the cgroup2 mount cannot be opened", errno);
	put_text(p->path, sizeof(p->path), m.point);
	if (!has_file(mount_fd, "cgroup.type") &&
	    (only_look ? look_at_top(p, mount_fd) : take_top(p, mount_fd)) == 0)
		return;
	if (find_own(own, sizeof(own)) < 0)
		return say(p, "this process is in no cgroup of version 2", errno);
	below = cgroup_below_mount(&m, own);
	if (!below)
		return say(p, "the own cgroup is not below the cgroup2 mount", 0);
	if (take_own(p, mount_fd, below, !only_look) < 0)
		say(p, "the own cgroup is not writable", errno);
}

void cgroup_look(struct cgroup_place *p)
{
	find(p, true);
	if (p->fd >= 0 && !p->why[0] && !p->memory)
		say(p, "the cgroup2 hierarchy has no memory controller (cgroup v1 has it)", 0);
}

void cgroup_find(struct cgroup_place *p)
{
	find(p, false);
	if (p->fd >= 0 && !p->why[0] && !p->memory)
		say(p, "the cgroup2 hierarchy has no memory controller (cgroup v1 has it)", 0);
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
}
