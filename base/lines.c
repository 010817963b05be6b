/* See lines.h. */
#include "base/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

char *lines_next(struct lines *l)
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
