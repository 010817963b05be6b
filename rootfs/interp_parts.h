/* The pieces of interpreter discovery: ask, work out the folders, remember. */
#ifndef ROOTFS_INTERP_PARTS_H
#define ROOTFS_INTERP_PARTS_H

#include "base/buf.h"
#include "rootfs/interp.h"

/* What an interpreter said about itself: "key=value" records. */
struct answer {
	struct strlist records;
};
void answer_free(struct answer *a);
const char *answer_get(const struct answer *a, const char *key);	/* NULL: none */
/* The value of record i if it has this key, else NULL. */
const char *answer_value(const struct answer *a, size_t i, const char *key);

/* How a language is found and asked. */
struct asking {
	const char *language;
	const char *names[3];	/* on PATH, in order; NULL-terminated */
	const char *args[5];	/* before the code */
	const char *code;	/* prints "key=value" NUL ..., "end=ok" NUL last */
	bool needs_prefix;	/* python: without its prefix it cannot start */
};
extern const struct asking askings[];
const struct asking *asking_of(const char *language);	/* NULL: unknown */

/* Run @program once, with the caller's environment and @path_env as PATH. */
int probe_run(struct answer *out, const struct asking *how, const char *program,
	      const char *path_env, struct nsbox_error *err);

/* Fill in real, trees, links, module_path, site_files from the answer. */
int trees_work_out(struct interp *i, const struct asking *how, const struct answer *a,
		   struct nsbox_error *err);

/*
 * Remembered answers. @key: text that names the question (language, program, and for
 * a shim everything it looks at). A file of somebody else's, or one that others may
 * write, is not read.
 */
char *cache_path(const char *cache_dir); /* malloc'ed; NULL: none */
bool cache_is_temp(const char *name);	/* a file that cache_store() is about to rename */
int cache_open(const char *cache_dir);	/* folder descriptor, or -1: no cache */
bool cache_load(struct interp *out, int dir, const struct buf *key);
/* @deps: records of cache_stamp(). A cache that cannot be written is no error. */
void cache_store(const struct interp *i, int dir, const struct buf *key,
		 const struct strlist *deps);
/* Add "kind stamp path": what the answer depends on, as it is now or absent. */
int cache_stamp(struct strlist *deps, char kind, const char *path);

#endif
