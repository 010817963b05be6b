/*
 * Interpreter discovery: what `python3` or `node` on the caller's PATH really is.
 *
 * Links are followed; a shim (pyenv, asdf, mise: a script on PATH) is asked once
 * for the real program; the answer (real program, prefix, module path, folders
 * that a venv's links pass through) is cached in the user's cache folder by path,
 * inode and mtime of everything it depends on, so that the second run costs a
 * few stat(2) calls and no process.
 */
#ifndef ROOTFS_INTERP_H
#define ROOTFS_INTERP_H

#include "base/err.h"
#include "base/strlist.h"

#include <stdbool.h>

struct interp {
	char *language;		/* "python", "javascript", "bash" */
	char *program;		/* absolute path to run in the box (a venv's own
				   bin/python stays that path) */
	char *real;		/* the same with every link resolved */
	struct strlist trees;	/* host folders to bind read-only at the same path,
				   beyond what every box sees (/usr, ...) */
	struct strlist links;	/* symlinks to recreate: "path\ttarget" */
	struct strlist module_path; /* python: sys.path without cwd, and without
				   what site_files and sitecustomize do to it */
	struct strlist site_files; /* python: .pth files with code that must run,
				   "N\tPATH": when the first N entries of module_path
				   are in sys.path; in site's order */
	bool has_sitecustomize;	/* python: one that is not the distribution's */
	bool needs_site;	/* python: its start cannot be taken apart like this */
	char *version;		/* "3.11.7" */
};

/*
 * @language: "python", "javascript" or "bash". @program: an explicit path, or
 * NULL to look on @path_env. @cache_dir: NULL for $XDG_CACHE_HOME/nsbox or
 * ~/.cache/nsbox; no cache when neither can be made (not an error).
 * NSBOX_E_USAGE: unknown language; NSBOX_E_UNSUPPORTED: not found, not
 * executable, or the probe failed (message says what it printed).
 */
int interp_find(struct interp *out, const char *language, const char *program,
		const char *path_env, const char *cache_dir,
		struct nsbox_error *err);
void interp_free(struct interp *i);

#endif
