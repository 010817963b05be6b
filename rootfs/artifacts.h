/*
 * Collecting what a box left in its work folder. Everything in there is hostile:
 * names, links, FIFOs, sparse and endless files.
 *
 * Files are opened below the work folder's descriptor with RESOLVE_BENEATH,
 * NO_SYMLINKS, NO_MAGICLINKS, NO_XDEV and O_NONBLOCK; only regular files with one
 * link count; caps on number, bytes and depth; sha256 of what was copied.
 */
#ifndef ROOTFS_ARTIFACTS_H
#define ROOTFS_ARTIFACTS_H

#include "base/err.h"
#include "policy/policy.h"

#include <sys/types.h>
#include <time.h>

struct artifact {
	char *path;		/* relative to the work folder: "plots/a.png" */
	char *host_path;	/* absolute */
	const char *content_type; /* static, by name and first bytes; NULL: unknown */
	uint64_t size;
	char sha256[65];
};
struct artifact_skip {
	char *path;
	const char *why;	/* static: "symlink", "fifo", "hard link", "limit", ... */
};
struct artifacts {
	struct artifact *v;
	size_t n;
	struct artifact_skip *skipped; /* at most 64 are kept, all are counted */
	size_t skipped_n, skipped_total;
};

struct artifacts_request {
	int work_fd;
	const char *host_dir;
	const struct policy *policy;
	uid_t owner_uid;
	gid_t owner_gid;
	struct timespec since;	/* only files whose ctime is not older (a work folder
				   that existed before the run); zero: all */
};

/*
 * Copy from work_fd (O_PATH or O_RDONLY folder) into host_dir (made with mode
 * 0700 when missing; files 0600, owner_uid:owner_gid when the
 * launcher may chown). Existing files are replaced atomically, never followed.
 * Dot-folders that the box uses for caches are skipped without a word. Depth counts
 * the parts of a path: "a/b.txt" has 2. When this fails, files that were copied
 * before stay in host_dir, whole; the one that was being copied does not.
 */
int artifacts_collect(struct artifacts *out, const struct artifacts_request *r,
		      struct nsbox_error *err);
void artifacts_free(struct artifacts *a);

/* Make the folder, parents included, with mode 0700; one that exists is fine.
 * -1 with errno. */
int artifacts_make_dir(const char *path);

#endif
