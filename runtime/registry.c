/*
 * registry.c - the file in which launchers list their boxes
 *
 * Runs in the launcher (claim, finish) and in whoever asks for the list (read).
 *
 * Must:    stay out of the way of the run: no error, no signal, no wait; show no word
 *          of the command but the name of the program (arguments may be secrets).
 * Mustn't: believe what it reads: any program of this user may write there, and so may a
 *          box that was given the folder. Follow a link, or write into a file that has
 *          another name as well.
 */
#include "runtime/registry.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "runtime/identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define MAGIC UINT32_C(0x3178626e) /* "nbx1" */

_Static_assert(sizeof(struct registry_record) == REGISTRY_SLOT_SIZE, "a record fills its slot");
_Static_assert(sizeof(struct registry_header) <= REGISTRY_SLOT_SIZE, "the header fits before them");

enum { PATH_ROOM = 512, FILE_SIZE = (REGISTRY_SLOTS + 1) * REGISTRY_SLOT_SIZE };

/* ---------------------------------------------------------------------- names -- */

/* Characters that show nothing, or move what stands beside them: "exe.txt" may be the
 * end of "txt.exe" written from right to left. */
static const struct { uint32_t first, last; } unprintable[] = {
	{ 0x0000, 0x001f },   { 0x007f, 0x009f },   { 0x00ad, 0x00ad }, { 0x061c, 0x061c },
	{ 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f }, { 0xfeff, 0xfeff },
	{ 0xfff9, 0xfffb },   { 0xe0000, 0xe0fff },
};

/* The character at s, which utf8_length() found to be n bytes long. */
static uint32_t code_point(const char *s, size_t n)
{
	static const unsigned char lead[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t c = (unsigned char)s[0] & lead[n];

	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)s[i] & 0x3f);
	return c;
}

static bool is_printable(const char *s, size_t n)
{
	uint32_t c = code_point(s, n);

	for (size_t i = 0; i < ARRAY_SIZE(unprintable); i++)
		if (c >= unprintable[i].first && c <= unprintable[i].last)
			return false;
	return true;
}

void registry_clean_name(char out[REGISTRY_NAME_MAX + 1], const char *name)
{
	size_t len = strlen(name), at = 0, used = 0;

	while (at < len) {
		size_t n = utf8_length(name + at, len - at);
		bool is_fine = n && is_printable(name + at, n);

		if (used + (is_fine ? n : 1) > REGISTRY_NAME_MAX)
			break;
		if (is_fine)
			memcpy(out + used, name + at, n);
		else
			out[used] = '?';
		used += is_fine ? n : 1;
		at += n ? n : 1;
	}
	out[used] = '\0';
}

bool registry_is_clean(const char *name)
{
	char clean[REGISTRY_NAME_MAX + 1];

	registry_clean_name(clean, name);
	return *name && strcmp(clean, name) == 0;
}

/* --------------------------------------------------------------------- places -- */

struct place {
	char base[PATH_ROOM];
	char name[32];	/* of the folder in it */
};

/*
 * Which folder a launcher takes depends on its environment, so a reader looks at all of
 * them. The second one is what XDG_RUNTIME_DIR names in a session.
 */
static bool find_place(size_t i, struct place *p)
{
	const char *session = getenv("XDG_RUNTIME_DIR");
	unsigned uid = (unsigned)geteuid();
	int n;

	snprintf(p->name, sizeof(p->name), "nsbox");
	switch (i) {
	case 0:
		n = session && *session == '/' ? snprintf(p->base, sizeof(p->base), "%s", session)
					       : -1;
		break;
	case 1:
		n = uid ? snprintf(p->base, sizeof(p->base), "/run/user/%u", uid)
			: snprintf(p->base, sizeof(p->base), "/run");
		break;
	default:
		/* The roots of many user namespaces may share one /tmp: by the uid they have
		 * outside, which is the user's own when it is just an unshare(1). */
		n = snprintf(p->base, sizeof(p->base), "/tmp");
		snprintf(p->name, sizeof(p->name), "nsbox-%u", (unsigned)identity_outside());
	}
	return n > 0 && (size_t)n < sizeof(p->base);
}

/*
 * A folder is made in a folder of the caller's own (not in the session of the user who
 * called sudo), or where everybody may and nobody may take it away.
 */
static bool may_make_in(const char *base)
{
	struct stat st;

	if (stat(base, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	return (st.st_mode & S_ISVTX) || (st.st_uid == geteuid() && !(st.st_mode & 022));
}

int registry_folder(const char *base, const char *name, bool may_make)
{
	char path[PATH_ROOM + 64];
	owned_fd int fd = -1;
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", base, name) >= (int)sizeof(path))
		return -1;
	fd = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && may_make && may_make_in(base) &&
	    (mkdir(path, 0700) == 0 || errno == EEXIST))
		fd = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Whoever else got there first is not the owner; what stands above does not matter
	 * then. */
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
		return -1;
	return take_fd(fd);
}

static int open_place(size_t i, int flags, bool may_make)
{
	owned_fd int folder = -1;
	owned_fd int fd = -1;
	struct place p = { "", "" };
	struct stat st;

	if (!find_place(i, &p))
		return -1;
	folder = registry_folder(p.base, p.name, may_make);
	if (folder < 0)
		return -1;
	/* O_NONBLOCK: a FIFO in its place would make us wait. */
	fd = openat(folder, REGISTRY_FILE, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		    0600);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    st.st_uid != geteuid())
		return -1;
	return take_fd(fd);
}

/* -------------------------------------------------------------------- records -- */

uint64_t registry_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static off_t offset_of(size_t slot)
{
	return (off_t)(slot + 1) * REGISTRY_SLOT_SIZE;
}

static const struct registry_header fresh_header = { .magic = MAGIC,
						     .slot_count = REGISTRY_SLOTS,
						     .slot_size = REGISTRY_SLOT_SIZE };

/* An empty file gets its header; two that do this at once write the same. */
static int read_header(int fd, bool may_write, struct registry_header *h)
{
	ssize_t n = pread(fd, h, sizeof(*h), 0);

	if (n == 0 && may_write) {
		*h = fresh_header;
		return pwrite(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h) ? 0 : -1;
	}
	if (n != (ssize_t)sizeof(*h) || h->magic != MAGIC || h->slot_count != REGISTRY_SLOTS ||
	    h->slot_size != REGISTRY_SLOT_SIZE)
		return -1;
	return 0;
}

/* FNV-1a, for accidents: whoever wants to forge a record can. */
static uint64_t sum_of(const struct registry_record *r)
{
	struct registry_record bare = *r;
	uint64_t word, sum = UINT64_C(0xcbf29ce484222325);

	bare.sum = 0;
	for (size_t at = 0; at < sizeof(bare); at += sizeof(word)) {
		memcpy(&word, (const char *)&bare + at, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
	}
	return sum;
}

static int write_record(const struct registry_slot *slot, struct registry_record *r)
{
	r->magic = MAGIC;
	r->sum = sum_of(r);
	return pwrite(slot->fd, r, sizeof(*r), slot->at) == (ssize_t)sizeof(*r) ? 0 : -1;
}

/* Of the open file description: threads of one process exclude each other as well. */
static int set_lock(int fd, short type, off_t at)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = at,
			      .l_len = REGISTRY_SLOT_SIZE };

	return fcntl(fd, F_OFD_SETLK, &lock);
}

bool registry_is_held(int fd, size_t slot)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset_of(slot),
			      .l_len = REGISTRY_SLOT_SIZE };

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* -------------------------------------------------------------------- writing -- */

/* Twelve digits that no other box of this list has: the time, the process, the slot. */
static void make_id(char id[16], const struct registry_record *r, size_t slot)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t x = r->started_us ^ (uint64_t)(uint32_t)r->launcher_pid << 40 ^ (uint64_t)slot << 52;

	/* splitmix64: each bit of the input changes half of the output's */
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	for (int i = 0; i < 12; i++)
		id[i] = digits[x >> 4 * i & 15];
}

/* Round about: the slot after the last one that was taken is the oldest. */
static int take_slot(int fd, size_t *slot)
{
	struct registry_header h;
	bool is_taken = false;
	size_t at;

	if (read_header(fd, true, &h) < 0)
		return -1;
	at = h.next % REGISTRY_SLOTS;
	for (int i = 0; i < REGISTRY_TRIES && !is_taken; i++) {
		*slot = at;
		is_taken = set_lock(fd, F_WRLCK, offset_of(at)) == 0;
		at = (at + 1) % REGISTRY_SLOTS;
	}
	h.next = at;
	if (pwrite(fd, &h.next, sizeof(h.next), offsetof(struct registry_header, next)) !=
	    (ssize_t)sizeof(h.next))
		return -1;
	return is_taken ? 0 : -1;
}

/* Past RLIMIT_FSIZE a write is not only refused, it brings SIGXFSZ. */
static bool may_write_file(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= FILE_SIZE;
}

static int open_write(void)
{
	int fd = -1;

	for (size_t i = 0; i < REGISTRY_PLACES && fd < 0; i++)
		fd = open_place(i, O_RDWR | O_CREAT, true);
	return fd;
}

void registry_claim(struct registry_slot *slot, struct registry_record *r)
{
	owned_fd int fd = may_write_file() ? open_write() : -1;
	struct registry_slot taken;
	size_t n;

	slot->fd = -1;
	if (fd < 0 || take_slot(fd, &n) < 0)
		return;
	make_id(r->id, r, n);
	taken = (struct registry_slot){ .fd = fd, .at = offset_of(n) };
	if (write_record(&taken, r) < 0)
		return; /* a full disk: closing it lets the slot go */
	taken.fd = take_fd(fd);
	*slot = taken;
}

void registry_finish(struct registry_slot *slot, struct registry_record *r)
{
	if (slot->fd < 0)
		return;
	(void)write_record(slot, r); /* when it fails the box is listed as lost */
	/* Not by closing alone: a fork of the caller may have a copy. */
	set_lock(slot->fd, F_UNLCK, slot->at);
	close(slot->fd);
	slot->fd = -1;
}

/* -------------------------------------------------------------------- reading -- */

int registry_open_read(size_t i)
{
	owned_fd int fd = open_place(i, O_RDONLY, false);
	struct registry_header h;

	if (fd < 0 || read_header(fd, false, &h) < 0)
		return -1;
	return take_fd(fd);
}

static bool is_id(const char id[16])
{
	return strspn(id, "0123456789abcdef") == 12 && !id[12];
}

int registry_read(int fd, size_t slot, struct registry_record *out)
{
	struct registry_record r;
	char name[sizeof(r.name)];
	int looks = 0;

	do {
		if (pread(fd, &r, sizeof(r), offset_of(slot)) != (ssize_t)sizeof(r) ||
		    r.magic != MAGIC)
			return -1;
	} while (r.sum != sum_of(&r) && ++looks < 2);
	r.id[sizeof(r.id) - 1] = r.name[sizeof(r.name) - 1] = '\0';
	if (looks == 2 || r.state < REGISTRY_RUNNING || r.state > REGISTRY_LOST || !is_id(r.id))
		return -1;
	memcpy(name, r.name, sizeof(name));
	registry_clean_name(r.name, name);
	if (r.cgroup[sizeof(r.cgroup) - 1] || r.cgroup[0] != '/')
		r.cgroup[0] = '\0';
	*out = r;
	return 0;
}
