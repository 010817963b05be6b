/* Lines of a file, one after the other, without malloc: also for a copy of a process
 * whose other threads are gone. */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { LINES_MAX_BYTES = 4096 }; /* a longer line is skipped */

struct lines {		/* = { .fd = fd }; the descriptor stays the caller's */
	int fd;
	size_t have, used;
	bool is_cut;	/* the rest of a line that was too long is still to come */
	char text[LINES_MAX_BYTES];
};

/* NUL-terminated, without the newline, valid until the next call. NULL: the end, or a
 * read error; a last line without a newline is none. */
char *lines_next(struct lines *l);

#endif
