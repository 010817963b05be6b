/*
 * boxes.c - the caller's boxes, for whoever wants to show them
 *
 * Runs in any program that calls nsbox_boxes_open(); it need not have made a box.
 *
 * Must:    show a box as running only while a launcher holds its slot.
 * Mustn't: open what a record names unless it is a cgroup, or pass on text that a
 *          terminal would obey: another program of the same user may have written it.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/cgroup.h"
#include "runtime/record.h"
#include "runtime/registry.h"
#include "runtime/sample.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum { PIDS_LOOKED_AT = 4096, ROOM_STEP = 64 };

struct seen {
	struct registry_record r;
	size_t slot;
	int fd;			/* borrowed: one of files[] */
};

struct nsbox_boxes {
	int files[REGISTRY_PLACES];
	size_t file_count;
	struct seen *v;
	size_t n, room, at;
};

/* ----------------------------------------------------------------- the snapshot -- */

/* -1: nothing to show there. */
static int look(struct seen *s, int fd, size_t slot)
{
	*s = (struct seen){ .slot = slot, .fd = fd };
	if (registry_read(fd, slot, &s->r) < 0)
		return -1;
	if (s->r.state != REGISTRY_RUNNING || registry_is_held(fd, slot))
		return 0;
	/* The last word is written before the lock goes: so it is there by now, or the
	 * launcher was killed. */
	if (registry_read(fd, slot, &s->r) < 0)
		return -1;
	if (s->r.state == REGISTRY_RUNNING && !registry_is_held(fd, slot))
		s->r.state = REGISTRY_LOST;
	return 0;
}

static int add(struct nsbox_boxes *b, const struct seen *s, struct nsbox_error *err)
{
	if (b->n == b->room) {
		struct seen *v = realloc(b->v, (b->room + ROOM_STEP) * sizeof(*v));

		if (!v)
			return err_nomem(err);
		b->v = v;
		b->room += ROOM_STEP;
	}
	b->v[b->n++] = *s;
	return 0;
}

static bool is_known_file(const struct nsbox_boxes *b, int fd)
{
	struct stat a, other;

	if (fstat(fd, &a) < 0)
		return true;
	for (size_t i = 0; i < b->file_count; i++)
		if (fstat(b->files[i], &other) == 0 && a.st_dev == other.st_dev &&
		    a.st_ino == other.st_ino)
			return true;
	return false;
}

static int read_place(struct nsbox_boxes *b, size_t place, struct nsbox_error *err)
{
	int fd = registry_open_read(place);
	int r = 0;

	if (fd < 0)
		return 0;
	if (is_known_file(b, fd)) {
		close(fd);
		return 0;
	}
	b->files[b->file_count++] = fd;
	for (size_t slot = 0; r == 0 && slot < REGISTRY_SLOTS; slot++) {
		struct seen s;

		if (look(&s, fd, slot) == 0)
			r = add(b, &s, err);
	}
	return r;
}

int nsbox_boxes_open(struct nsbox_boxes **out, struct nsbox_error *err)
{
	struct nsbox_boxes *b;
	int r = 0;

	err_clear(err);
	if (!out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_boxes_open: out is NULL");
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_nomem(err);
	for (size_t i = 0; r == 0 && i < REGISTRY_PLACES; i++)
		r = read_place(b, i, err);
	if (r < 0) {
		nsbox_boxes_close(b);
		return r;
	}
	*out = b;
	return 0;
}

void nsbox_boxes_close(struct nsbox_boxes *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->file_count; i++)
		close(b->files[i]);
	free(b->v);
	free(b);
}

/* -------------------------------------------------------------------- figures -- */

struct figures {
	uint64_t cpu_us, memory_bytes, pids; /* NSBOX_UNKNOWN */
};

/* What the kernel counts. A path is a word of the record: it must lead to a cgroup. */
static void from_cgroup(struct figures *f, const char *path)
{
	owned_fd int fd = *path ? openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				: -1;
	struct cgroup_now now;
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		return;
	cgroup_read_now(fd, &now);
	if (now.has_cpu)
		f->cpu_us = now.cpu_us;
	if (now.has_memory)
		f->memory_bytes = now.memory_bytes;
	if (now.has_pids)
		f->pids = now.pids ? now.pids - 1 : 0; /* init */
}

/* The rest by looking at the processes, if that pid is still a child of that launcher. */
static void from_proc(struct figures *f, const struct registry_record *r)
{
	owned_fd int proc = openat(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct sample_of of = { .proc_fd = proc, .segments_fd = -1,
				      .init_pid = r->init_pid, .max_pids = PIDS_LOOKED_AT };
	struct sample s;

	if (proc < 0 || r->init_pid <= 0 || sample_parent(proc, r->init_pid) != r->launcher_pid ||
	    sample_take(&s, &of, false) < 0 || !s.processes ||
	    sample_parent(proc, r->init_pid) != r->launcher_pid)
		return;
	if (f->cpu_us == NSBOX_UNKNOWN)
		f->cpu_us = s.cpu_us;
	if (f->memory_bytes == NSBOX_UNKNOWN)
		f->memory_bytes = s.memory_bytes;
	if (f->pids == NSBOX_UNKNOWN)
		f->pids = s.threads - 1;
}

static struct figures measure(const struct seen *s)
{
	const struct figures nothing = { NSBOX_UNKNOWN, NSBOX_UNKNOWN, NSBOX_UNKNOWN };
	struct figures f = nothing;

	from_cgroup(&f, s->r.cgroup);
	if (f.cpu_us == NSBOX_UNKNOWN || f.memory_bytes == NSBOX_UNKNOWN ||
	    f.pids == NSBOX_UNKNOWN)
		from_proc(&f, &s->r);
	/* Else the leaf and the pid may have been somebody else's meanwhile. */
	return registry_is_held(s->fd, s->slot) ? f : nothing;
}

/* ----------------------------------------------------------------------- next -- */

static uint64_t since(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0; /* the clock may have been set back */
}

static void fill_state(struct nsbox_box_info *info, const struct registry_record *r)
{
	switch (r->state) {
	case REGISTRY_RUNNING:
		info->state = NSBOX_BOX_RUNNING;
		info->age_us = since(r->started_us, registry_now_us());
		break;
	case REGISTRY_FINISHED:
		info->state = NSBOX_BOX_FINISHED;
		info->age_us = r->wall_us;
		info->verdict = r->verdict;
		info->exit_code = r->exit_code;
		info->signal = r->signal;
		info->verdict_name = verdict_name(r->verdict);
		break;
	default:
		info->state = NSBOX_BOX_LOST;
		info->age_us = r->ended_us ? since(r->started_us, r->ended_us) : NSBOX_UNKNOWN;
	}
}

static void fill(struct nsbox_box_info *info, const struct seen *s)
{
	const struct registry_record *r = &s->r;
	struct figures f = { r->cpu_us, r->memory_peak, r->pids_peak };

	if (r->state == REGISTRY_RUNNING)
		f = measure(s);
	*info = (struct nsbox_box_info){
		.launcher_pid = r->launcher_pid, .init_pid = r->init_pid, .exit_code = -1,
		.started_us = r->started_us, .cpu_us = f.cpu_us, .memory_bytes = f.memory_bytes,
		.pids = f.pids, .memory_limit = r->memory_limit, .pids_limit = r->pids_limit,
		.cpus_milli = r->cpus_milli, .timeout_us = r->timeout_us,
	};
	memcpy(info->id, r->id, sizeof(info->id));
	memcpy(info->name, r->name, sizeof(info->name));
	fill_state(info, r);
}

/* A program that was compiled against a shorter struct gets as much as it knows. */
int nsbox_boxes_next(struct nsbox_boxes *b, struct nsbox_box_info *out, struct nsbox_error *err)
{
	struct nsbox_box_info info;
	uint32_t size;

	err_clear(err);
	if (!b || !out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_boxes_next: boxes or info is NULL");
	size = out->size;
	if (size < offsetof(struct nsbox_box_info, launcher_pid))
		return err_set(err, NSBOX_E_USAGE,
			       "struct nsbox_box_info has no size: use NSBOX_BOX_INFO_INIT");
	if (b->at == b->n)
		return 0;
	fill(&info, &b->v[b->at++]);
	memcpy(out, &info, size < sizeof(info) ? size : sizeof(info));
	out->size = size;
	return 1;
}
