/*
 * packages_record.c - a layer's lock as the part "packages" of a run's record
 *
 * Runs in the launcher. Mustn't: believe what the file says: a package's build script could
 * have written it. What is no line of a lock is left out.
 */
#include "runtime/packages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/utf8.h"

enum { LOCK_MAX = 4 << 20, RECORD_MAX = 32 << 20, PACKAGES_MAX = 10000, LINE_BYTES = 1024 };

struct part {
	const char *s;
	size_t n;
};

/* "numpy==1.2 --hash=sha256:X" and "@s/a@1.2 --integrity=sha512-X"; the hash may be missing. */
static bool take_line(struct part l, struct part *name, struct part *version, struct part *hash)
{
	const char *blank = memchr(l.s, ' ', l.n), *mark = NULL, *equals;
	size_t n = blank ? (size_t)(blank - l.s) : l.n;

	for (size_t i = n; i-- > 1 && !mark;)
		if (l.s[i] == '@' || (l.s[i] == '=' && l.s[i - 1] == '='))
			mark = l.s + i;
	if (!mark || mark + 1 == l.s + n || l.n > LINE_BYTES || !utf8_valid(l.s, l.n))
		return false;
	*name = (struct part){ l.s, (size_t)(mark - l.s) - (*mark == '=') };
	*version = (struct part){ mark + 1, (size_t)(l.s + n - mark) - 1 };
	equals = blank ? memchr(blank, '=', (size_t)(l.s + l.n - blank)) : NULL;
	*hash = equals ? (struct part){ equals + 1, (size_t)(l.s + l.n - equals) - 1 }
		       : (struct part){ NULL, 0 };
	return name->n > 0;
}

static void put_part(struct json *j, const char *key, struct part p)
{
	json_key(j, key);
	if (p.s)
		json_strn(j, p.s, p.n);
	else
		json_null(j);
}

static void put_resolved(struct json *j, const struct buf *lock)
{
	const char *at = buf_text(lock), *end = at + lock->len;
	struct part name, version, hash;
	size_t count = 0;

	json_key(j, "resolved");
	json_array(j);
	for (size_t n; at < end && count < PACKAGES_MAX; at += n + 1) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		n = (size_t)((stop ? stop : end) - at);
		if (!take_line((struct part){ at, n }, &name, &version, &hash))
			continue;
		json_object(j);
		put_part(j, "name", name);
		put_part(j, "version", version);
		put_part(j, "hash", hash);
		json_end(j, '}');
		count++;
	}
	json_end(j, ']');
}

char *packages_record(int layer, const char *id, const char *installer)
{
	owned_fd int fd = openat(layer, "lock", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct buf lock = BUF_INIT(LOCK_MAX), out = BUF_INIT(RECORD_MAX);
	struct json j = JSON_INIT(&out);
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, &lock) < 0)
		buf_clear(&lock);
	json_object(&j);
	json_kstr(&j, "installer", installer);
	json_kstr(&j, "layer", id);
	put_resolved(&j, &lock);
	json_end(&j, '}');
	text = buf_take(&out);
	buf_free(&lock);
	buf_free(&out);
	return text;
}
