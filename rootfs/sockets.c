/*
 * Owns: finding the sockets in a folder that is bound into a box (docker.sock, the
 * session bus, an agent's socket). Runs in the launcher.
 * Must: stop at the budget and say so. Mustn't: follow links or open anything but
 * folders.
 */
#include "rootfs/source.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/paths.h"

struct walk {
	const struct source_sink *to;
	const struct source *s;
	const char *dst;
	size_t *budget;
	struct strlist queue;	/* folders still to read, relative to the source */
};

/* The kernel's record; libc's readdir(3) would cost a malloc for each folder. */
struct record {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static int mask_one(const struct walk *w, const char *rest)
{
	owned_mem char *dst = path_join(w->dst, rest);

	if (!dst)
		return -1;
	PLAN_OP(w->to->b, .kind = OP_MASK, .stage = w->to->stage, .fd = -1, .dst = dst + 1);
	return 0;
}

static unsigned char type_of(int dir, const struct record *e)
{
	struct stat st;

	if (e->type != DT_UNKNOWN) /* some file systems never fill it in */
		return e->type;
	return fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN
								  : IFTODT(st.st_mode);
}

static int take_entry(struct walk *w, int dir, const char *folder, const struct record *e)
{
	owned_mem char *rest = NULL;
	unsigned char type;

	if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
		return 0;
	type = type_of(dir, e);
	if (type != DT_DIR && type != DT_SOCK)
		return 0;
	rest = folder[0] ? path_join(folder, e->name) : strdup(e->name);
	if (!rest)
		return -1;
	return type == DT_SOCK ? mask_one(w, rest) : strlist_add(&w->queue, rest);
}

/* A folder that cannot be entered is closed to the box as well; one that changed
 * meanwhile is somebody's on the host. Anything else (EMFILE, EIO) hides sockets. */
static bool is_harmless(int error)
{
	return error == EACCES || error == ENOENT || error == ELOOP || error == ENOTDIR;
}

/* 1: the budget is used up; -1 with errno. */
static int read_folder(struct walk *w, const char *folder)
{
	char room[16384] __attribute__((aligned(8)));
	owned_fd int dir = fd_open(w->s->fd, folder[0] ? folder : ".", O_RDONLY | O_DIRECTORY, 0,
				   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	long n;

	if (dir < 0)
		return is_harmless(errno) ? 0 : -1;
	while ((n = syscall(SYS_getdents64, dir, room, sizeof(room))) > 0) {
		for (long at = 0; at < n;) {
			const struct record *e = (const void *)(room + at);

			if (*w->budget == 0)
				return 1;
			--*w->budget;
			if (take_entry(w, dir, folder, e) < 0)
				return -1;
			at += e->len;
		}
	}
	return n < 0 && !is_harmless(errno) ? -1 : 0;
}

/* The path is the eighth column of /proc/net/unix, after one space. */
static const char *bound_path(const char *line)
{
	for (int column = 0; column < 7; column++) {
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	return line[0] == '/' ? line : NULL;
}

static int mask_listed(const struct walk *w)
{
	struct buf text = BUF_INIT(4 << 20);
	int r = fd_read_file(AT_FDCWD, "/proc/net/unix", &text);
	char *save = NULL, *line = r == 0 && text.data ? strtok_r(text.data, "\n", &save) : NULL;

	if (r < 0) /* then nobody can say where the others are */
		return -1;

	for (; line && r == 0; line = strtok_r(NULL, "\n", &save)) {
		const char *path = bound_path(line);
		const char *rest = path ? path_below(path, w->s->real) : NULL;

		if (rest && rest[0])
			r = mask_one(w, rest);
	}
	buf_free(&text);
	return r;
}

static int tell_limit(const struct walk *w)
{
	struct buf note = BUF_INIT(8192);
	int r;

	buf_fmt(&note,
		"%s: more than %d entries; deeper down only sockets listed in "
		"/proc/net/unix are hidden",
		w->s->path, SOCKETS_BUDGET);
	r = note.failed ? -1 : strlist_add(&w->to->view->notes, buf_text(&note));
	buf_free(&note);
	return r;
}

int sockets_mask(const struct source_sink *to, const struct source *s, const char *dst,
		 size_t *budget, struct nsbox_error *err)
{
	struct walk w = { .to = to, .s = s, .dst = dst, .budget = budget };
	int r = S_ISDIR(s->st.st_mode) ? read_folder(&w, "") : 0;

	for (size_t i = 0; i < w.queue.n && r == 0; i++)
		r = read_folder(&w, w.queue.v[i]);
	strlist_free(&w.queue);
	if (r > 0)
		r = tell_limit(&w) < 0 ? -1 : mask_listed(&w);
	if (r < 0)
		return err_sys(err, "look for sockets below %s", s->path);
	return 0;
}
