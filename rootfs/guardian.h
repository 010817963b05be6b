/* Placeholders on the host, and the process that outlives the launcher for them. */
#ifndef ROOTFS_GUARDIAN_H
#define ROOTFS_GUARDIAN_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * What tells a placeholder: it is made with the sticky bit, which mkdir(2) sets in the
 * same step, so that another box never takes one that is just being made for somebody's
 * folder; then it gets a time that no folder of anybody's has (1970-01-01T07:51:15Z),
 * for file systems without mode bits.
 */
enum { PLACEHOLDER_MTIME = 28275, PLACEHOLDER_MODE = 01755 };

/* Shared with the guardian: what is on the host by now. */
struct placeholder_mark {
	bool is_begun;	/* about to be made */
	bool is_made;	/* dev and ino hold */
	dev_t dev;
	ino_t ino;
};

struct placeholder {
	int dir;		/* owned: the folder it is in */
	int fd;			/* owned: holds the shared lock; -1: not made */
	char name[256];
	char *shown;		/* owned: host path, for messages */
};

/* Is @name in @dir one, and still empty? Yes also when it has just vanished, as they do;
 * other errors count as no. */
bool placeholder_is(int dir, const char *name);

/* Remove it if it is still the same empty folder and no other box uses it. False: it
 * is locked, so another box does, or the launcher's child still lives.
 * Only async-signal-safe calls. @since: when the guardian began. */
bool placeholder_drop(struct placeholder *p, struct placeholder_mark *mark, time_t since);

struct guardian {
	pid_t pid;	/* 0: none */
	int wake;	/* eventfd: do it now; only with a pid */
	time_t since;
	struct placeholder_mark *marks; /* one a row; NULL: none */
	size_t n;
};

/* The guardian knows the n rows as they are now, and g->marks as they become. */
int guardian_start(struct guardian *g, struct placeholder *v, size_t n,
		   struct nsbox_error *err);
void guardian_end(struct guardian *g);

/* It removes them now, and ends by itself: for a file system that answers nobody, and
 * would hold the launcher up. It stays a child of this process that nobody waits for. */
void guardian_leave(struct guardian *g);

#endif
