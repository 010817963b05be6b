/*
 * The paths of a policy: absolute or relative as their key wants them, outside the
 * places that are nsbox's own, and no two things at one place.
 *
 * Pure: looks at text, never at the host (rootfs/ does, when a box is made).
 */
#include "policy/value.h"

#include <string.h>

#define CHECK_ARGS const struct policy *p, struct nsbox_error *err

/* A part that walks up, or none at all: "a//b", "./a", "a/..". */
static bool has_odd_part(const char *path, size_t len)
{
	size_t from = len && path[0] == '/' ? 1 : 0;

	if (len && len - 1 > from && path[len - 1] == '/')
		len--; /* one slash at the end says "a folder" */
	while (from <= len) {
		const char *slash = memchr(path + from, '/', len - from);
		size_t part = slash ? (size_t)(slash - path) - from :
				      len - from;

		if (part == 0 && len > 1)
			return true;
		if (part == 2 && memcmp(path + from, "..", 2) == 0)
			return true;
		if (part == 1 && path[from] == '.')
			return true;
		if (!slash)
			break;
		from += part + 1;
	}
	return false;
}

/* Is path[0..len) the place itself or below it? */
static bool is_beneath(const char *path, size_t len, const char *place)
{
	size_t n = strlen(place);

	while (len > 1 && path[len - 1] == '/')
		len--;
	return len >= n && memcmp(path, place, n) == 0 &&
	       (len == n || path[n] == '/');
}

static int check_path(const char *key, const char *path, size_t len,
		      struct nsbox_error *err)
{
	char text[4096 + 1];

	if (!len || len >= sizeof(text))
		return err_set(err, NSBOX_E_POLICY,
			       len ? "%s: a path is longer than 4096 bytes" :
				     "%s: an empty path", key);
	memcpy(text, path, len);
	text[len] = '\0';
	if (text[0] != '/') {
		err_set(err, NSBOX_E_POLICY, "%s: \"%s\" is not absolute", key,
			SHOWN(text));
		err_hint(err, "write the whole path from / (--ro and --rw also take relative ones)");
		return NSBOX_E_POLICY;
	}
	if (has_odd_part(text, len)) {
		err_set(err, NSBOX_E_POLICY,
			"%s: \"%s\" has an empty, \".\" or \"..\" part", key,
			SHOWN(text));
		err_hint(err, "write the path as realpath(1) prints it");
		return NSBOX_E_POLICY;
	}
	return 0;
}

/*
 * Places that are nsbox's own in every box. A bind over /proc or /dev would undo
 * the masks; one over /run/nsbox would replace the program that starts the code;
 * their parents, because a later mount covers what is below it.
 */
static const struct { const char *place, *why; bool parents; } reserved[] = {
	{ "/proc", "the box has a /proc of its own", false },
	{ "/sys", "the host's /sys is never part of a box", false },
	{ "/dev", "the box has a /dev of its own (devices.allow, limits.shm)",
	  false },
	{ "/run/nsbox", "nsbox keeps its own files there", true },
};

static int check_dest(const char *key, const char *path, size_t len,
		      struct nsbox_error *err)
{
	if (len == 1) {
		err_set(err, NSBOX_E_POLICY, "%s: \"/\" is no place in the box",
			key);
		err_hint(err, "name the folders it needs, one by one");
		return NSBOX_E_POLICY;
	}
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
		const char *place = reserved[i].place;
		bool covers = reserved[i].parents && strlen(place) > len &&
			      memcmp(place, path, len) == 0 &&
			      (place[len] == '/' || path[len - 1] == '/');

		if (!is_beneath(path, len, place) && !covers)
			continue;
		err_set(err, NSBOX_E_POLICY, "%s: \"%.*s\" is reserved: %s",
			key, (int)len, SHOWN(path), reserved[i].why);
		err_hint(err, "give another place in the box: PATH:DEST");
		return NSBOX_E_POLICY;
	}
	return 0;
}

static int check_bind(const char *key, const char *entry,
		      struct nsbox_error *err)
{
	static const char *const never[] = { "/proc", "/sys", "/dev" };
	const char *dest;
	size_t len = policy_split_bind(entry, &dest);
	int code = check_path(key, entry, len, err);

	if (code == 0 && dest)
		code = check_path(key, dest, strlen(dest), err);
	if (code < 0)
		return code;
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (is_beneath(entry, len, never[i])) {
			err_set(err, NSBOX_E_POLICY,
				"%s: %s of the host is never visible in a box",
				key, never[i]);
			err_hint(err, "devices: devices.allow");
			return NSBOX_E_POLICY;
		}
	if (len == 1) {
		err_set(err, NSBOX_E_POLICY,
			"%s: \"/\" would show the whole host", key);
		err_hint(err, "name the folders it needs, one by one");
		return NSBOX_E_POLICY;
	}
	return check_dest(key, dest ? dest : entry,
			  dest ? strlen(dest) : len, err);
}

static int check_binds(CHECK_ARGS)
{
	const struct { const char *key; const struct strlist *list; } lists[] = {
		{ "fs.read", &p->fs.read },
		{ "fs.write", &p->fs.write },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; j < lists[i].list->n; j++) {
			int code = check_bind(lists[i].key,
					      lists[i].list->v[j], err);

			if (code < 0)
				return code;
		}
	return 0;
}

static int check_tmpfs(CHECK_ARGS)
{
	for (size_t i = 0; i < p->fs.tmpfs.n; i++) {
		const char *entry = p->fs.tmpfs.v[i];
		uint64_t size;
		long len = policy_split_tmpfs(entry, &size);
		int code;

		if (len < 0) {
			err_set(err, NSBOX_E_POLICY,
				"fs.tmpfs: \"%s\" has no valid size",
				SHOWN(entry));
			err_hint(err, "DEST:SIZE, at least 4K: /scratch:16M");
			return NSBOX_E_POLICY;
		}
		code = check_path("fs.tmpfs", entry, (size_t)len, err);
		if (code == 0)
			code = check_dest("fs.tmpfs", entry, (size_t)len, err);
		if (code < 0)
			return code;
	}
	return 0;
}

static int check_hidden(CHECK_ARGS)
{
	for (size_t i = 0; i < p->fs.hidden.n; i++) {
		const char *path = p->fs.hidden.v[i];
		size_t len = strlen(path);
		int code = check_path("fs.hidden", path, len, err);

		if (code == 0)
			code = check_dest("fs.hidden", path, len, err);
		if (code < 0)
			return code;
	}
	return 0;
}

static int check_relative(const char *key, const struct strlist *l,
			  const char *below, struct nsbox_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *name = l->v[i];
		size_t len = strlen(name);

		if (len && name[0] != '/' && len < 4096 && !has_odd_part(name, len))
			continue;
		err_set(err, NSBOX_E_POLICY,
			"%s: \"%s\" is not a plain relative path", key,
			SHOWN(name));
		err_hint(err, "relative to %s, without \"..\": sub/name", below);
		return NSBOX_E_POLICY;
	}
	return 0;
}

static int check_names_below(CHECK_ARGS)
{
	const struct { const char *key, *below; const struct strlist *list; } lists[] = {
		{ "fs.protect", "each writable folder", &p->fs.protect },
		{ "fs.protect_home", "the home folder", &p->fs.protect_home },
		{ "artifacts.paths", "the work folder", &p->artifacts.paths },
	};
	int code = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists) && code == 0; i++)
		code = check_relative(lists[i].key, lists[i].list,
				      lists[i].below, err);
	return code;
}

/* --- two things at one place ------------------------------------------------ */

struct place {
	const char *key, *entry, *dest;
	size_t len;
};

static struct place place_of(const char *key, const char *entry)
{
	struct place at = { key, entry, NULL, 0 };
	uint64_t size;

	if (strcmp(key, "fs.tmpfs") == 0) {
		at.dest = entry;
		at.len = (size_t)policy_split_tmpfs(entry, &size);
	} else if (strcmp(key, "fs.hidden") == 0) {
		at.dest = entry;
		at.len = strlen(entry);
	} else {
		at.len = policy_split_bind(entry, &at.dest);
		if (at.dest)
			at.len = strlen(at.dest);
		else
			at.dest = entry;
	}
	while (at.len > 1 && at.dest[at.len - 1] == '/')
		at.len--;
	return at;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = memcmp(x->dest, y->dest, x->len < y->len ? x->len : y->len);

	if (order)
		return order;
	return (x->len > y->len) - (x->len < y->len);
}

/* The same place twice is an error and not "the last wins": whoever wrote
 * --ro /data and another layer --rw /data must say which one is meant. */
static int check_places(CHECK_ARGS)
{
	const struct { const char *key; const struct strlist *list; } lists[] = {
		{ "fs.read", &p->fs.read },
		{ "fs.write", &p->fs.write },
		{ "fs.tmpfs", &p->fs.tmpfs },
		{ "fs.hidden", &p->fs.hidden },
	};
	size_t count = p->fs.read.n + p->fs.write.n + p->fs.tmpfs.n +
		       p->fs.hidden.n;
	owned_mem struct place *places = calloc(count + 1, sizeof(*places));
	size_t n = 0;

	if (!places)
		return err_nomem(err);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; j < lists[i].list->n; j++)
			places[n++] = place_of(lists[i].key,
					       lists[i].list->v[j]);
	qsort(places, n, sizeof(*places), compare_places);
	for (size_t i = 1; i < n; i++) {
		if (compare_places(&places[i - 1], &places[i]))
			continue;
		err_set(err, NSBOX_E_POLICY,
			"%s \"%s\" and %s \"%s\" are at the same place in the box",
			places[i - 1].key, SHOWN(places[i - 1].entry),
			places[i].key, SHOWN(places[i].entry));
		err_hint(err, "drop one of them, or give it another place: PATH:DEST");
		return NSBOX_E_POLICY;
	}
	return 0;
}

int policy_check_paths(CHECK_ARGS)
{
	/* check_places() relies on what those before it have proven. */
	static int (*const checks[])(CHECK_ARGS) = {
		check_binds, check_tmpfs, check_hidden, check_names_below,
		check_places,
	};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		int code = checks[i](p, err);

		if (code < 0)
			return code;
	}
	return 0;
}
