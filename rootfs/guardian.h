/* Placeholders on the host, and the process that outlives the launcher for them. */
#ifndef ROOTFS_GUARDIAN_H
#define ROOTFS_GUARDIAN_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* 1970-01-01T07:51:15Z: no file that anybody works with is that old. */
enum { PLACEHOLDER_MTIME = 28275 };

struct placeholder {
	int dir;		/* owned: the folder it is in */
	int fd;			/* owned: holds the shared lock; -1: not made */
	char name[256];
	char *shown;		/* owned: host path, for messages */
	bool is_folder;
	bool is_made;		/* dev and ino are known */
	bool is_begun;		/* guardian: it may exist without our knowing its inode */
	dev_t dev;
	ino_t ino;
};

/* Empty and with the time stamp that only placeholders carry. */
bool placeholder_is(const struct stat *st);

/* Remove it if it is still the same empty file or folder and no other box uses it.
 * Only async-signal-safe calls. @since: when the guardian began. */
void placeholder_drop(struct placeholder *p, time_t since);

struct guardian {
	pid_t pid;	/* 0: none */
	int fd;		/* what is made is told here */
	time_t since;
};
#define GUARDIAN_INIT { .fd = -1 }

/* A message to the guardian: what is true of entry @index from now on. */
struct guardian_note {
	uint64_t index;
	bool is_begun;	/* about to be made */
	bool is_made;	/* dev and ino hold */
	dev_t dev;
	ino_t ino;
};

/* The guardian knows the n rows as they are now; *v is not touched. */
int guardian_start(struct guardian *g, struct placeholder *v, size_t n,
		   struct nsbox_error *err);
int guardian_tell(const struct guardian *g, const struct guardian_note *note,
		  struct nsbox_error *err);
void guardian_end(struct guardian *g);

#endif
