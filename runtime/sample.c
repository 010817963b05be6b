/*
 * sample.c - how much a box uses, seen from outside through /proc
 *
 * Runs in the launcher, every few milliseconds while a box lives that has no
 * cgroup controller for memory, cpu or pids.
 *
 * Must:    count each process once (a process that is counted twice would be killed
 *          for memory it does not have); stay cheap and bounded.
 * Mustn't: trust a pid beyond this walk: the kernel may give it to a process of the
 *          host in between. A process whose parent is none of the box's is left out.
 */
#include "runtime/sample.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "runtime/decimal.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
	STAT_TEXT = 1024,	/* one line of numbers; comm is 16 bytes at most */
	ROLLUP_TEXT = 2048,
	PIDS_MAX = 8192,	/* one walk looks at no more, whatever is asked */
	MEMFDS_MAX = 256,	/* memory files counted in one walk */
	FDS_MAX = 4096,		/* descriptors looked at in one walk */
};

/* Fields of /proc/<pid>/stat, counted from the one behind comm: proc(5). */
enum {
	STAT_STATE = 0,
	STAT_PPID = 1,
	STAT_UTIME = 11,
	STAT_STIME = 12,
	STAT_CUTIME = 13,
	STAT_CSTIME = 14,
	STAT_THREADS = 17,
	STAT_FIELDS = 18,
};

/* Columns of /proc/sysvipc/shm, in bytes: what is in memory, what is swapped out. */
enum { SHM_RSS = 14, SHM_SWAP = 15, SHM_FIELDS = 16 };

struct process {
	pid_t pid, parent; /* parent: where the walk found it */
};

struct walk {
	int proc_fd;
	pid_t init;
	struct process *queue;
	size_t n, max;
	bool complete, only_bound;
	/* Memory files (memfd_create) that nobody maps are in no process's Pss. */
	ino_t memfds[MEMFDS_MAX];
	size_t memfd_count, fds_seen;
	uint64_t memfd_bytes, shmem_bytes;
};

struct pid_stat {
	char state;
	pid_t parent;
	uint64_t user_ticks, ticks, threads;
};

/* "<pid>/<name>", or "<pid>/task/<tid>/children" with a tid. */
struct proc_path {
	char text[64];
};

static struct proc_path path_of(pid_t pid, const char *name)
{
	struct proc_path p = { "" };
	char *to = decimal_put(p.text, (uint64_t)pid);

	*to++ = '/';
	memcpy(to, name, strlen(name) + 1);
	return p;
}

static struct proc_path children_of(pid_t pid, uint64_t tid)
{
	struct proc_path p = path_of(pid, "task/");
	char *to = decimal_put(p.text + strlen(p.text), tid);

	memcpy(to, "/children", sizeof("/children"));
	return p;
}

/* The start of a file, NUL-terminated. -1: gone, or not ours to read. */
static ssize_t read_start(int proc_fd, const char *path, char *text, size_t size)
{
	owned_fd int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (len < size - 1) {
		n = read(fd, text + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		len += (size_t)n;
		/* These files are one record each: less than asked for is all there is. */
		if (len < size - 1)
			break;
	}
	text[len] = '\0';
	return (ssize_t)len;
}

/* Cuts the text at spaces and newlines. Returns the next word, or NULL. */
static char *next_word(char **at)
{
	char *s = *at + strspn(*at, " \t\n");
	size_t n = strcspn(s, " \t\n");

	if (!n)
		return NULL;
	*at = s + n;
	if (**at)
		*(*at)++ = '\0';
	return s;
}

static uint64_t number_of(const char *word)
{
	uint64_t v = 0;

	/* A field that is no number counts as nothing; the kernel writes none. */
	return word && num_uint(word, 0, UINT64_MAX, &v) == 0 ? v : 0;
}

/* comm may hold spaces and parentheses of the payload's choice: only what follows
 * the last parenthesis is the kernel's. */
static int read_stat(int proc_fd, pid_t pid, struct pid_stat *out)
{
	char text[STAT_TEXT], *at, *fields[STAT_FIELDS];
	struct proc_path path = path_of(pid, "stat");

	if (read_start(proc_fd, path.text, text, sizeof(text)) < 0)
		return -1;
	at = strrchr(text, ')');
	if (!at)
		return -1;
	at++;
	for (size_t i = 0; i < STAT_FIELDS; i++) {
		fields[i] = next_word(&at);
		if (!fields[i])
			return -1;
	}
	out->state = fields[STAT_STATE][0];
	out->parent = (pid_t)number_of(fields[STAT_PPID]);
	out->user_ticks = number_of(fields[STAT_UTIME]) + number_of(fields[STAT_CUTIME]);
	out->ticks = out->user_ticks + number_of(fields[STAT_STIME]) +
		     number_of(fields[STAT_CSTIME]);
	out->threads = number_of(fields[STAT_THREADS]);
	return 0;
}

static DIR *open_folder(int proc_fd, const char *path);

/* What is resident: counters of the kernel, so the same effort for any size. */
static int read_statm(int proc_fd, pid_t pid, uint64_t *resident, uint64_t *shared)
{
	struct proc_path path = path_of(pid, "statm");
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char text[256], *at = text;

	if (read_start(proc_fd, path.text, text, sizeof(text)) < 0)
		return -1;
	next_word(&at);
	*resident = number_of(next_word(&at)) * page;
	*shared = number_of(next_word(&at)) * page;
	return 0;
}

static uint64_t rollup_bytes(char *text, const char *name)
{
	char *at = strstr(text, name);

	if (!at)
		return 0;
	at += strlen(name);
	return number_of(next_word(&at)) * 1024;
}

/* Resident minus shared, for a kernel or a process that hides its rollup. */
static int read_private(const struct walk *w, pid_t pid, uint64_t *bytes)
{
	uint64_t resident, shared;

	if (read_statm(w->proc_fd, pid, &resident, &shared) < 0)
		return -1;
	*bytes = resident > shared ? resident - shared : 0;
	return 0;
}

/* The kernel looks at every page for a rollup: milliseconds for each gigabyte. */
static int read_memory(struct walk *w, pid_t pid, uint64_t *bytes)
{
	struct proc_path path = path_of(pid, "smaps_rollup");
	char text[ROLLUP_TEXT];
	uint64_t shared;

	if (w->only_bound)
		return read_statm(w->proc_fd, pid, bytes, &shared);
	if (read_start(w->proc_fd, path.text, text, sizeof(text)) <= 0 || !strstr(text, "\nPss:"))
		return read_private(w, pid, bytes);
	/* next_word() cuts the text: the later line first. MADV_PAGEOUT puts pages into the
	 * host's swap at the payload's wish: they are its own all the same. */
	*bytes = rollup_bytes(text, "\nSwapPss:");
	w->shmem_bytes += rollup_bytes(text, "\nPss_Shmem:");
	*bytes += rollup_bytes(text, "\nPss:");
	return 0;
}

/* A memory file is one inode, however many descriptors lead to it. */
static void count_memfd(struct walk *w, int dir, const char *name)
{
	struct stat st;

	if (w->memfd_count == MEMFDS_MAX || fstatat(dir, name, &st, 0) < 0)
		return;
	for (size_t i = 0; i < w->memfd_count; i++)
		if (w->memfds[i] == st.st_ino)
			return;
	w->memfds[w->memfd_count++] = st.st_ino;
	w->memfd_bytes += (uint64_t)st.st_blocks * 512;
}

/* Where the descriptors may not be read (init hides them) there is nothing to count. */
static void read_memfds(struct walk *w, pid_t pid)
{
	struct proc_path path = path_of(pid, "fd");
	owned_dir DIR *dir = open_folder(w->proc_fd, path.text);
	const struct dirent *e;

	while (dir && w->fds_seen < FDS_MAX && (e = readdir(dir))) {
		char target[16];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target));

		w->fds_seen++;
		if (n > 7 && memcmp(target, "/memfd:", 7) == 0)
			count_memfd(w, dirfd(dir), e->d_name);
	}
}

/* One row of /proc/sysvipc/shm; the one of names holds no numbers. */
static uint64_t segment_bytes(char *row)
{
	uint64_t bytes = 0;

	for (int i = 0; i < SHM_FIELDS; i++) {
		char *word = next_word(&row);

		if (i == SHM_RSS || i == SHM_SWAP)
			bytes += number_of(word);
	}
	return bytes;
}

static uint64_t read_segments(int fd)
{
	char text[4096];
	uint64_t bytes = 0;
	size_t have = 0;
	ssize_t n;

	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return 0;
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *row = text, *end;

		have += (size_t)n;
		text[have] = '\0';
		for (; (end = strchr(row, '\n')); row = end + 1) {
			*end = '\0';
			bytes += segment_bytes(row);
		}
		have -= (size_t)(row - text);
		memmove(text, row, have);
	}
	return bytes;
}

static bool is_known(const struct walk *w, pid_t pid)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->queue[i].pid == pid)
			return true;
	return false;
}

static void found(struct walk *w, pid_t pid, pid_t parent)
{
	if (pid <= 0 || is_known(w, pid))
		return;
	if (w->n == w->max) {
		w->complete = false;
		return;
	}
	w->queue[w->n++] = (struct process){ pid, parent };
}

/*
 * One thread's children: numbers, each followed by a space. 0, or -1 when the file
 * is not there.
 */
static int read_children(struct walk *w, pid_t pid, uint64_t tid)
{
	struct proc_path path = children_of(pid, tid);
	owned_fd int fd = openat(w->proc_fd, path.text, O_RDONLY | O_CLOEXEC);
	char text[4096];
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *at = text, *end;

		text[have + (size_t)n] = '\0';
		end = strrchr(text, ' ');
		if (!end)
			break;
		*end = '\0'; /* what follows is a number cut in half, or nothing */
		for (char *word; (word = next_word(&at));)
			found(w, (pid_t)number_of(word), pid);
		have += (size_t)n - (size_t)(end + 1 - text);
		memmove(text, end + 1, have);
	}
	if (n < 0 && errno != EINTR)
		w->complete = false; /* it ended under our eyes */
	return 0;
}

static uint64_t number_name(const char *name)
{
	uint64_t v;

	return num_uint(name, 1, INT_MAX, &v) == 0 ? v : 0;
}

static DIR *open_folder(int proc_fd, const char *path)
{
	owned_fd int fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		(void)take_fd(fd); /* the DIR has it now */
	return d;
}

/* Children belong to the thread that forked them, so every thread is asked. */
static void read_all_threads(struct walk *w, pid_t pid)
{
	struct proc_path path = path_of(pid, "task");
	owned_dir DIR *d = open_folder(w->proc_fd, path.text);
	struct dirent *e;

	if (!d) {
		w->complete = false;
		return;
	}
	while ((e = readdir(d))) {
		uint64_t tid = number_name(e->d_name);

		if (tid && read_children(w, pid, tid) < 0)
			w->complete = false;
	}
}

/* Every process of the host with its parent, for kernels without "children". */
struct family {
	struct process *v;
	size_t n, cap;
};

static int family_add(struct family *f, pid_t pid, pid_t parent)
{
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 512;
		struct process *v = realloc(f->v, cap * sizeof(*v));

		if (!v)
			return -1;
		f->v = v;
		f->cap = cap;
	}
	f->v[f->n++] = (struct process){ pid, parent };
	return 0;
}

static int family_read(struct family *f, int proc_fd)
{
	owned_dir DIR *d = open_folder(proc_fd, ".");
	struct dirent *e;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		pid_t pid = (pid_t)number_name(e->d_name);
		struct pid_stat s;

		if (pid && read_stat(proc_fd, pid, &s) == 0 &&
		    family_add(f, pid, s.parent) < 0)
			return -1;
	}
	return 0;
}

static int walk_by_parents(struct walk *w)
{
	struct family f = { 0 };
	int r = family_read(&f, w->proc_fd);

	for (size_t at = 0; r == 0 && at < w->n; at++)
		for (size_t i = 0; i < f.n; i++)
			if (f.v[i].parent == w->queue[at].pid)
				found(w, f.v[i].pid, f.v[i].parent);
	free(f.v);
	return r;
}

/* An orphan moves to the box's init or to a subreaper among the box's processes. */
static bool belongs(const struct walk *w, const struct process *p, pid_t parent)
{
	return p->pid == w->init || parent == p->parent || is_known(w, parent);
}

/* clock_getcpuclockid(3) asks the kernel whether the process is there; this will say. */
static uint64_t clock_of(pid_t pid)
{
	clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | 2 /* CPUCLOCK_SCHED */);
	struct timespec t;

	if (clock_gettime(clock, &t) < 0)
		return UINT64_MAX;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool sample_holds(const struct sample *s)
{
	if (!s->complete || !s->processes || s->processes > SAMPLE_CLOCKS)
		return false;
	for (size_t i = 0; i < s->processes; i++)
		if (s->clocks[i].ns == UINT64_MAX || clock_of(s->clocks[i].pid) != s->clocks[i].ns)
			return false;
	return true;
}

static void count(struct walk *w, size_t at, struct sample *out, bool with_children)
{
	struct process p = w->queue[at];
	uint64_t bytes = 0, hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct pid_stat s;

	if (out->processes < SAMPLE_CLOCKS)
		out->clocks[out->processes] = (struct sample_clock){ p.pid, clock_of(p.pid) };
	if (read_stat(w->proc_fd, p.pid, &s) < 0 || !belongs(w, &p, s.parent)) {
		w->complete = false;
		return;
	}
	if (with_children && s.threads <= 1 &&
	    read_children(w, p.pid, (uint64_t)p.pid) < 0)
		w->complete = false;
	if (with_children && s.threads > 1)
		read_all_threads(w, p.pid);
	if (s.state != 'Z' && read_memory(w, p.pid, &bytes) < 0)
		w->complete = false;
	if (s.state != 'Z')
		read_memfds(w, p.pid);
	out->memory_bytes += bytes;
	out->user_us += s.user_ticks * (1000000 / hz);
	out->cpu_us += s.ticks * (1000000 / hz);
	out->processes++;
	out->threads += s.threads;
}

static bool has_children_files(const struct walk *w)
{
	struct proc_path path = children_of(w->init, (uint64_t)w->init);

	return faccessat(w->proc_fd, path.text, R_OK, 0) == 0;
}

static int take(struct sample *out, struct walk *w, int segments_fd)
{
	struct sample sum = { 0 };
	uint64_t unmapped;
	bool with_children;

	found(w, w->init, 0);
	with_children = has_children_files(w);
	if (!with_children && walk_by_parents(w) < 0)
		return -1;
	for (size_t at = 0; at < w->n; at++)
		count(w, at, &sum, with_children);
	if (!sum.processes)
		return -1;
	/* What is mapped of them is in Pss already. */
	unmapped = w->memfd_bytes + read_segments(segments_fd);
	if (unmapped > w->shmem_bytes)
		sum.memory_bytes += unmapped - w->shmem_bytes;
	sum.complete = w->complete;
	*out = sum;
	return 0;
}

int sample_take(struct sample *out, const struct sample_of *of, bool only_bound)
{
	struct walk w = { .proc_fd = of->proc_fd, .init = of->init_pid, .complete = true,
			  .only_bound = only_bound };
	owned_mem struct process *queue = NULL;

	w.max = of->max_pids < 1 ? 1 : of->max_pids > PIDS_MAX ? PIDS_MAX : (size_t)of->max_pids;
	queue = malloc(w.max * sizeof(*queue));
	if (!queue)
		return -1;
	w.queue = queue;
	return take(out, &w, of->segments_fd);
}

pid_t sample_parent(int proc_fd, pid_t pid)
{
	struct pid_stat s;

	return read_stat(proc_fd, pid, &s) == 0 ? s.parent : -1;
}
